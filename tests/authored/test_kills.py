"""`kill -9` in the middle of a program that a model wrote loses nothing that was paid for."""

import random

import pytest
from campaigns.kills import kill_runs, killed_run
from campaigns.kills_authored import live_authored
from campaigns.kills_program import Fault

from tests.journal import faults

RANDOM, EACH = 2, 1


def test_kills_lose_nothing_and_buy_nothing_twice() -> None:
    """The next life finds the source in what its planner said, and goes on where it stood."""
    kills = kill_runs(RANDOM, EACH, program=live_authored)
    print(kills)
    assert kills.kills >= RANDOM + 5 * EACH
    assert kills.unknown > 0
    assert kills.holds, kills


@pytest.mark.parametrize(
    ("fault", "point"),
    [(faults.loses_a_record, "after record"), (faults.forgets_what_was_cut_off, "after send")],
)
def test_a_broken_promise_is_found(fault: Fault, point: str) -> None:
    """By the figures, or because the program cannot go on."""
    try:
        holds = killed_run([(point, 4)], random.Random(0), fault, live_authored).holds
    except RuntimeError:
        holds = False
    assert not holds
