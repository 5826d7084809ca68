"""Who goes first, pair by pair, and how long the last one waits."""

import pytest

from vegakit.errors import InvalidRuleError
from vegakit.policy.scheduler import AgingRule, Priority, ReadyQueue
from vegakit.records import from_json, to_json

REALTIME, HIGH, NORMAL, LOW, IDLE = Priority
AGING_MS = 100


def queue_of(*entries: tuple[str, Priority, int]) -> ReadyQueue:
    queue = ReadyQueue(AgingRule(AGING_MS))
    for entry_id, priority, now in entries:
        assert queue.push(entry_id, priority, now)
    return queue


def drained(queue: ReadyQueue) -> list[str]:
    return [entry_id for _ in range(len(queue)) if (entry_id := queue.pop()) is not None]


def test_the_more_urgent_goes_first() -> None:
    """Entries of one moment leave by priority, whatever the order they came in."""
    queue = queue_of(*((str(priority), priority, 0) for priority in (LOW, IDLE, HIGH, NORMAL)))
    queue.push("realtime", REALTIME, 0)
    assert drained(queue) == ["realtime", "high", "normal", "low", "idle"]


def test_equals_leave_in_the_order_they_came() -> None:
    """Ten entries of one millisecond and one priority are a plain line."""
    names = [f"{n:02}" for n in (5, 3, 9, 1, 12, 0, 7, 2, 8, 4)]
    assert drained(queue_of(*((name, LOW, 7) for name in names))) == names


@pytest.mark.parametrize(("lower", "levels"), [(NORMAL, 1), (LOW, 2), (IDLE, 3)])
def test_a_lower_one_goes_first_when_it_came_long_enough_before(
    lower: Priority, levels: int
) -> None:
    """One level is worth aging_ms of waiting exactly; at the tie the one that came first goes."""
    late = levels * AGING_MS
    assert queue_of(("low", lower, 0), ("high", HIGH, late - 1)).first() == "high"
    assert queue_of(("low", lower, 0), ("high", HIGH, late)).first() == "low"


def test_nobody_ages_into_realtime() -> None:
    """An hour of waiting does not bring a high one before a realtime one."""
    queue = queue_of(
        ("high", HIGH, 0), ("late", REALTIME, 3_600_000), ("later", REALTIME, 3_600_001)
    )
    assert drained(queue) == ["late", "later", "high"]


def test_a_low_one_waits_two_levels_of_aging_behind_a_stream_of_high_ones() -> None:
    """One high comes and one entry goes every millisecond: the low one after 2 * aging_ms."""
    queue = queue_of(("low", LOW, 0))
    gone: list[str | None] = []
    for now in range(3 * AGING_MS):
        queue.push(f"high {now}", HIGH, now)
        gone.append(queue.pop())
    assert gone.index("low") == 2 * AGING_MS


def test_pushing_twice_changes_nothing() -> None:
    """What is queued keeps its place, its priority and the time it has waited."""
    queue = queue_of(("a", LOW, 0), ("b", NORMAL, 0))
    assert not queue.push("a", REALTIME, 5)
    assert len(queue) == 2
    assert drained(queue) == ["b", "a"]


def test_what_left_may_come_again_as_new() -> None:
    """A popped entry that is pushed again stands behind those that came meanwhile."""
    queue = queue_of(("a", LOW, 0), ("b", LOW, 1))
    assert queue.pop() == "a"
    assert queue.push("a", LOW, 1)
    assert drained(queue) == ["b", "a"]


def test_the_first_stays_until_it_is_popped() -> None:
    """Looking does not take."""
    queue = queue_of(("a", LOW, 0))
    assert queue.first() == queue.first() == "a"
    assert len(queue) == 1
    assert queue.pop() == "a"
    assert queue.first() is None
    assert queue.pop() is None
    assert len(queue) == 0


def test_the_removed_never_leaves() -> None:
    """Removing takes one entry out, once; its old place does not come back with it."""
    queue = queue_of(("a", HIGH, 0), ("b", HIGH, 1), ("c", HIGH, 2))
    assert queue.remove("a")
    assert not queue.remove("a")
    assert queue.push("a", HIGH, 3)
    assert drained(queue) == ["b", "c", "a"]


def test_a_new_priority_keeps_the_time_waited() -> None:
    """Raised to high, an old entry stands before a high one that came after it."""
    queue = queue_of(("high", HIGH, 5), ("old", IDLE, 4), ("other", IDLE, 4))
    assert queue.change_priority("old", HIGH)
    assert drained(queue) == ["old", "high", "other"]


def test_a_priority_may_be_lowered_and_raised_again() -> None:
    """There and back is as if nothing happened, and the entry leaves once."""
    queue = queue_of(("a", HIGH, 0), ("b", HIGH, 0), ("c", NORMAL, 0))
    assert queue.change_priority("a", IDLE)
    assert queue.first() == "b"
    assert queue.change_priority("a", HIGH)
    assert [queue.pop() for _ in range(4)] == ["a", "b", "c", None]


def test_only_what_is_queued_has_a_priority_to_change() -> None:
    """Changing one that left does not bring it back."""
    queue = queue_of(("a", LOW, 0))
    queue.pop()
    assert not queue.change_priority("a", HIGH)
    assert queue.first() is None


def test_stale_places_never_outnumber_the_queued() -> None:
    """Ten thousand changes and removals leave at most as many stale places as entries."""
    queue = queue_of(*((str(n), LOW, n) for n in range(10)))
    for round_ in range(10_000):
        queue.change_priority(str(round_ % 10), (HIGH, IDLE)[round_ % 2])
        assert len(queue.heap) <= 20
    for n in range(10):
        queue.remove(str(n))
    assert queue.heap == []


def test_a_heap_is_rebuilt_only_when_more_than_half_is_stale() -> None:
    """Two stale places beside two entries stay; the third is swept away with them."""
    queue = queue_of(*((str(n), LOW, n) for n in range(4)))
    queue.remove("0")
    queue.remove("1")
    assert len(queue.heap) == 4
    queue.change_priority("2", IDLE)
    assert sorted(place[-1] for place in queue.heap) == ["2", "3"]


def test_it_is_stored_with_its_stale_places() -> None:
    """JSON there and back gives the same queue, which goes on in the same order."""
    queue = queue_of(("a", LOW, 0), ("b", HIGH, 0), ("c", IDLE, 0))
    queue.change_priority("c", REALTIME)
    copy = from_json(ReadyQueue, to_json(queue))
    assert copy == queue
    assert drained(copy) == ["c", "b", "a"]


def test_aging_takes_time() -> None:
    """Without a millisecond a level, priorities would mean nothing; ten seconds is the default."""
    assert AgingRule(1).aging_ms == 1
    assert AgingRule().aging_ms == 10_000
    with pytest.raises(InvalidRuleError, match="at least 1 ms a level; got 0"):
        AgingRule(0)
