"""Random programs do under Vega what they do under Python, given the same answers.

`python -m benchmarks.python_programs 10000` runs many more.
"""

import os

import pytest

from tests.lang.python.both import refused_by
from tests.lang.python.faults import FAULTS, planted
from tests.lang.python.generated import compared, written
from tests.lang.python.hazards import HAZARDS, hazardous

PROGRAMS = int(os.environ.get("VEGA_PYTHON_PROGRAMS", "100"))
BATCH = 20


@pytest.mark.parametrize("first", range(0, PROGRAMS, BATCH))
def test_programs_that_are_let_through_do_what_python_does(first: int) -> None:
    """Prints, result, error and calls in order."""
    ran = 0
    for seed in range(first, first + BATCH):
        found = compared(written(seed))
        if found is not None:
            assert found[1] == found[2], f"seed {seed}"
            ran += 1
    assert ran >= BATCH // 4


@pytest.mark.parametrize("number", range(len(HAZARDS)))
def test_a_hazard_is_refused_or_means_the_same(number: int) -> None:
    found = compared(hazardous(number))
    assert found is None or found[1] == found[2]


def test_many_hazards_are_refused() -> None:
    """Else they would show nothing."""
    refused = [number for number in range(len(HAZARDS)) if refused_by(hazardous(number))]
    assert len(refused) >= len(HAZARDS) - 32


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_a_planted_fault_is_seen(fault: str) -> None:
    """With the rule left out, a hazard is let through and does something else than Python."""
    with planted(fault):
        found = [compared(hazardous(number)) for number in range(len(HAZARDS))]
    assert any(one is not None and one[1] != one[2] for one in found)
