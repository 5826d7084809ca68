"""What is typed on the screen is told in its words; a command in a turn is carried out at its end,
or refused, and never dropped."""

from pathlib import Path

import pytest

from tests.cli.terminal.test_screen import ends, notes, opened, say, text_of
from tests.patience import until
from tests.sage.scene import scene
from vegakit.cli.terminal.words import next_step, on_screen
from vegakit.sage import EndReason, SageEnd
from vegakit.testing.provider import Break, Hang, ProviderReply

STUCK = ProviderReply("one two three", breaks=Break(2, Hang()))


def test_errors_tell_what_is_typed_on_the_screen() -> None:
    passed = "you may; type --budget '+$8.00', or raise that first, then type: vega code --resume x"
    assert on_screen(passed) == (
        "you may; to add to it, type: /budget +$8.00, or raise that first, then start vega code "
        "again"
    )
    lowered = "never lowered; leave --budget out; to add to it, type: --budget '+$1'"
    assert on_screen(lowered) == "never lowered; to add to it, type: /budget +$1"
    assert on_screen("0; raise the budget, or lower max_tokens") == "0; raise the budget"


@pytest.mark.parametrize(
    ("reason", "message", "told"),
    [
        (EndReason.BUDGET, "$0.02 left", "/budget +$1, then type: go on"),
        (EndReason.BUDGET, "x has no known price, so", "/model"),
        (EndReason.ERROR, "smart failed (auth): no", "set the key"),
        (EndReason.ERROR, "smart failed (server): no", "type go on"),
        (EndReason.DONE, "", ""),
    ],
)
def test_a_turn_that_failed_says_what_to_type(reason: EndReason, message: str, told: str) -> None:
    step = next_step(SageEnd(reason, message=message))
    assert told in step
    assert bool(step) == bool(told)


async def test_a_raise_in_a_turn_is_carried_out_at_its_end(tmp_path: Path) -> None:
    """Before the prompt that waits; what cannot wait is refused in words that say so."""
    with scene(tmp_path, [STUCK, "Second."]) as it, it.inside():
        async with opened(it) as (app, pilot):
            await say(pilot, "talk")
            await until(lambda: "one" in text_of(app))
            await say(pilot, "/budget +$1")
            assert "when the turn has ended" in notes(app)[-1]
            await say(pilot, "/undo")
            assert "not while a turn works" in notes(app)[-1]
            assert app.state.money.at_most == 2_000_000_000
            await pilot.press("escape")
            await until(lambda: ends(app) == [EndReason.INTERRUPTED])
            await until(lambda: app.state.money.at_most == 3_000_000_000)
            await until(lambda: " of $3.00 spent" in notes(app)[-1])
            await say(pilot, "/budget $5")
            await until(lambda: " of $5.00 spent" in notes(app)[-1])
            await say(pilot, "/budget $4")
            await until(lambda: "never lowered; to add to it, type: /budget" in notes(app)[-1])
            await say(pilot, "again")
            await until(lambda: ends(app)[-1] is EndReason.DONE)
