"""The model of counters, limits and constraints, and that its checker finds what is planted."""

import pytest
from campaigns.money_model import FAULTS, check, history

HISTORIES = 250


def test_the_checker_finds_nothing_wrong_with_the_model() -> None:
    """Clients disagree, pause, lose commits, and have clocks of their own."""
    wrong = {seed: said for seed in range(HISTORIES) if (said := check(history(seed)))}
    assert wrong == {}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_planted_fault_is_found(fault: str) -> None:
    """By the sums of the events alone, in one of a few hundred histories."""
    assert any(check(history(seed, fault)) for seed in range(HISTORIES))
