"""The limits on guesses: calls that begin behind a guard which is not decided yet."""

import pytest

from tests.authored.stage import call, play
from vegakit.money import dollars
from vegakit.program import Bounds

REFUSED = """\
fn checked(number: int) { if (reader <- "safe {number}") != "yes" { fail("no"); } }
for number in range(9) {
    try { checked(number); reader <- "write {number}"; } catch Failed {}
}
"""
GUARDS = 9


@pytest.mark.parametrize(
    ("expected", "limit"),
    [("$1", "$0.05"), ("$100", "$0.10"), ("$0.01", "$0.0005"), (None, "$0.10")],
)
def test_a_share_of_what_a_run_is_expected_to_cost_may_be_in_vain(
    expected: str | None, limit: str
) -> None:
    """Five percent, at most ten cents, and two calls at any price."""
    bounds = Bounds().with_guesses(None if expected is None else dollars(expected))
    assert bounds.guesses == dollars(limit)
    assert bounds.least_guesses == 2


def test_a_limit_that_is_written_holds_alone() -> None:
    bounds = Bounds(guesses=0).with_guesses(dollars("$1"))
    assert (bounds.guesses, bounds.least_guesses) == (0, 0)


async def test_programs_by_models_have_limits_of_their_own() -> None:
    """A program guesses within the limit of its tool, and not at all where that is nothing."""
    script = {"safe": "no", "write": "words"}
    free = await play(call(REFUSED), answers=script, latency_ms=20)
    assert len(free.reader.requests) > GUARDS
    none = await play(call(REFUSED), answers=script, latency_ms=20, speculate="$0")
    assert len(none.reader.requests) == GUARDS
    for played in (free, none):
        assert played.last["account"]["calls"] == GUARDS, "the model is not told of guesses"
