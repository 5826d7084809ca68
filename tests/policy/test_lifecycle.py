"""The table of moves, every pair of it."""

from itertools import product

import pytest

from vegakit.policy import MoveRefused, ProcessState, move

LIVING = ("NEW", "READY", "RUNNING", "WAITING", "BLOCKED")
ARROWS = """
    NEW>READY READY>RUNNING RUNNING>READY
    RUNNING>WAITING WAITING>RUNNING WAITING>READY
    RUNNING>BLOCKED BLOCKED>RUNNING BLOCKED>READY
    TERMINATED>ZOMBIE
"""
ALLOWED = {*ARROWS.split(), *(f"{name}>TERMINATED" for name in LIVING)}


@pytest.mark.parametrize(("state", "to"), list(product(ProcessState, repeat=2)))
def test_every_pair(state: ProcessState, to: ProcessState) -> None:
    """A move that is drawn is made; any other is refused."""
    answer = move(state, to)
    if f"{state.name}>{to.name}" in ALLOWED:
        assert answer is to
    else:
        assert isinstance(answer, MoveRefused)


@pytest.mark.parametrize("state", ProcessState)
def test_the_living_can_be_terminated(state: ProcessState) -> None:
    """Whoever is alive may end at any time; the dead do not end twice."""
    assert state.is_living == (state.name in LIVING)


def test_a_refusal_reads_from_the_table() -> None:
    """It names the places that are open."""
    assert move(ProcessState.WAITING, ProcessState.BLOCKED) == MoveRefused(
        "from WAITING a process may go to READY or to RUNNING or to TERMINATED;"
        " BLOCKED was asked for"
    )
    assert move(ProcessState.ZOMBIE, ProcessState.READY) == MoveRefused(
        "from ZOMBIE a process may go nowhere; READY was asked for"
    )


def test_the_names_are_stored_in_lower_case() -> None:
    """Stored states are read by other programs: their spelling stays."""
    assert [state.value for state in ProcessState] == [state.name.lower() for state in ProcessState]
