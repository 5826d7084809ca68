"""Who goes first, pair by pair, and how long the last one waits."""

import pytest

from vegakit.errors import InvalidRuleError
from vegakit.policy import AgingRule, Priority, ready_rank

REALTIME, HIGH, NORMAL, LOW, IDLE = Priority
AGING_MS = 100


def in_order(*entries: tuple[str, Priority, int]) -> list[str]:
    """Return the names in the order in which an index of ranks has them; ties keep theirs."""
    rule = AgingRule(AGING_MS)
    return [name for name, *_ in sorted(entries, key=lambda one: ready_rank(rule, *one[1:]))]


def test_the_more_urgent_goes_first() -> None:
    """Entries of one moment leave by priority, whatever the order they came in."""
    assert in_order(*((str(one), one, 0) for one in (LOW, IDLE, HIGH, NORMAL, REALTIME))) == [
        "realtime",
        "high",
        "normal",
        "low",
        "idle",
    ]


def test_equals_leave_in_the_order_they_came() -> None:
    """Ten entries of one millisecond and one priority are a plain line."""
    names = [f"{n:02}" for n in (5, 3, 9, 1, 12, 0, 7, 2, 8, 4)]
    assert in_order(*((name, LOW, 7) for name in names)) == names


@pytest.mark.parametrize(("lower", "levels"), [(NORMAL, 1), (LOW, 2), (IDLE, 3)])
def test_a_lower_one_goes_first_when_it_came_long_enough_before(
    lower: Priority, levels: int
) -> None:
    """One level is worth aging_ms of waiting exactly; at the tie the one that came first goes."""
    late = levels * AGING_MS
    assert in_order(("low", lower, 0), ("high", HIGH, late - 1))[0] == "high"
    assert in_order(("low", lower, 0), ("high", HIGH, late))[0] == "low"


def test_nobody_ages_into_realtime() -> None:
    """An hour of waiting does not bring a high one before a realtime one."""
    late = [(name, REALTIME, at) for name, at in (("late", 3_600_000), ("later", 3_600_001))]
    assert in_order(("high", HIGH, 0), *late) == ["late", "later", "high"]


def test_a_low_one_waits_two_levels_of_aging_behind_a_stream_of_high_ones() -> None:
    """One high comes and one entry goes every millisecond: the low one after 2 * aging_ms."""
    high = [(f"high {now}", HIGH, now) for now in range(3 * AGING_MS)]
    assert in_order(("low", LOW, 0), *high).index("low") == 2 * AGING_MS


def test_aging_takes_time() -> None:
    """Without a millisecond a level, priorities would mean nothing; ten seconds is the default."""
    assert AgingRule(1).aging_ms == 1
    assert AgingRule().aging_ms == 10_000
    with pytest.raises(InvalidRuleError, match="at least 1 ms a level; got 0"):
        AgingRule(0)
