"""The table of attacks tells when one came through."""

from pathlib import Path

import pytest
from campaigns import attacks, attacks_carried_out
from campaigns.attacks_carried_out import Tally

from tests.tools.sandbox.stage import Box, boxed
from vegakit.tools import Bubblewrap

MET = Tally(3, 2, 2, elsewhere=1)


@pytest.mark.parametrize(
    "worse",
    [{"allowed": 1}, {"outside": 1}, {"secrets": 1}, {"elsewhere": 0}, {"literals": 0}],
)
def test_one_that_came_through_is_short(worse: dict[str, int]) -> None:
    """Whatever it did, and also if nobody met it."""
    assert MET.holds
    assert not MET._replace(**worse).holds


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("touch PWNED", (True, False)),
        ("cat ../outside/canary", (False, True)),
        ("id", (False,) * 2),
    ],
)
async def test_what_an_attack_does_is_seen(
    line: str, told: tuple[bool, bool], tmp_path: Path
) -> None:
    """In a sandbox that is drawn one folder too wide."""
    async with boxed(tmp_path) as box:
        (box.outside / "canary").write_text(attacks_carried_out.CANARY)
        wide = Bubblewrap(box.sandbox._launcher, box.sandbox._clock, tmp_path)
        assert (
            await attacks_carried_out.let_loose({"input": line}, Box(box.workspace, wide)) == told
        )


def test_a_failing_test_counts_for_its_attack(monkeypatch: pytest.MonkeyPatch) -> None:
    """For all of its class, if it does not say which."""
    for said, through in (("", 0), ("FAILED x[hitl-003]", 1), ("ImportError", 12)):
        monkeypatch.setattr(attacks, "failing", lambda *_, said=said: said)
        assert attacks.by_tests("hitl", "1").outside == through


def test_a_rule_that_is_ridden_on_is_seen() -> None:
    """And the very command of its rule is not riding."""
    ridden = {"allow": "git ***", "input": "git -c core.pager=x log"}
    assert attacks_carried_out.rides(ridden)
    assert not attacks_carried_out.rides({**ridden, "allow": "git **"})
    assert not attacks_carried_out.rides({"allow": "make", "input": "make"})
    assert not attacks_carried_out.rides({"allow": "echo **", "input": "echo hi; touch PWNED"})
