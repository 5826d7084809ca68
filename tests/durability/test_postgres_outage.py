"""PostgreSQL restarted and stopped under callers: no answer is thrown away, no money is stuck."""

import pytest
from campaigns.postgres_outage import outages, size_of

pytestmark = pytest.mark.timeout(600)


def test_an_outage_of_the_ledger_throws_no_answer_away() -> None:
    """One restart as by a crash, one stop for longer than a lease, one process killed meanwhile;
    `just money full` does it with a thousand callers."""
    size = size_of(24)
    found = outages(size)
    assert found.answered > size.callers
    assert found.samples > 0
    assert (found.thrown_away, found.twice, found.over) == (0, 0, 0)
    assert found.claims[False, "unknown"] == 0
    assert (found.settled, found.still_reserved) == (found.due, 0)
