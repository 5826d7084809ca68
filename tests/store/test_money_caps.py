"""Caps are caps, across processes."""

from pathlib import Path

from campaigns.money_caps import spend_to_the_cap


def test_a_thousand_callers_in_four_processes_hold_the_cap(tmp_path: Path) -> None:
    """A hundred cents fit a dollar: never one more, and never one less."""
    outcome = spend_to_the_cap(0, tmp_path)
    assert outcome.holds, outcome
    assert outcome.samples > 0
