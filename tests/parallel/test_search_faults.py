"""What looks ahead, with faults planted in it; all of them run by `just parallel`."""

import pytest

from tests.parallel.faults import first_found

SOON_FOUND = (
    "host calls that write begin speculatively",
    "nothing is given up in a handler",
    "prints go out speculatively",
    "waste shows in the budget",
)


@pytest.mark.parametrize("fault", SOON_FOUND)
def test_a_planted_fault_is_found(fault: str) -> None:
    assert first_found(fault, 100), fault
