"""The ready queue against a list that recomputes everybody's standing at every question."""

from fractions import Fraction

from hypothesis import given, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from vegakit.policy.scheduler import AgingRule, Priority, ReadyQueue
from vegakit.records import from_json, to_json

AGING_MS = 10
RANKS = ["realtime", "high", "normal", "low", "idle"]
AGED = [priority for priority in Priority if priority is not Priority.REALTIME]

priorities = st.sampled_from(Priority)
names = st.sampled_from([f"p{n}" for n in range(12)])


class Waiter:
    def __init__(self, name: str, priority: Priority, since: int) -> None:
        self.name = name
        self.priority = priority
        self.since = since

    def standing(self, now: int) -> tuple[bool, Fraction, int]:
        """Realtime before all, then the level less the time waited, then who waited longer."""
        waited = now - self.since
        realtime = self.priority is Priority.REALTIME
        level = Fraction(0 if realtime else RANKS.index(self.priority))
        return not realtime, level - Fraction(waited, AGING_MS), -waited


class ReadyQueueAgainstSorting(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.queue = ReadyQueue(AgingRule(AGING_MS))
        self.waiters: list[Waiter] = []
        self.now = 0

    def find(self, name: str) -> Waiter | None:
        return next((waiter for waiter in self.waiters if waiter.name == name), None)

    def expected(self, now: int) -> list[str]:
        """Python sorts stably, so equals stay in the order they came in."""
        return [w.name for w in sorted(self.waiters, key=lambda w: w.standing(now))]

    @rule(ms=st.sampled_from([0, 1, 9, 10, 11, 20, 30, 1000]))
    def time_passes(self, ms: int) -> None:
        self.now += ms

    @rule(name=names, priority=priorities)
    def one_comes(self, name: str, priority: Priority) -> None:
        is_new = self.find(name) is None
        assert self.queue.push(name, priority, self.now) == is_new
        if is_new:
            self.waiters.append(Waiter(name, priority, self.now))

    @rule()
    def one_goes(self) -> None:
        expected = self.expected(self.now)
        assert self.queue.pop() == (expected[0] if expected else None)
        self.waiters = [w for w in self.waiters if w.name not in expected[:1]]

    @rule(name=names)
    def one_is_removed(self, name: str) -> None:
        waiter = self.find(name)
        assert self.queue.remove(name) == (waiter is not None)
        self.waiters = [w for w in self.waiters if w is not waiter]

    @rule(name=names, priority=priorities)
    def one_gets_another_priority(self, name: str, priority: Priority) -> None:
        waiter = self.find(name)
        assert self.queue.change_priority(name, priority) == (waiter is not None)
        if waiter is not None:
            waiter.priority = priority

    @rule()
    def it_is_stored_and_loaded(self) -> None:
        copy = from_json(ReadyQueue, to_json(self.queue))
        assert copy == self.queue
        self.queue = copy

    @rule()
    def a_copy_leaves_in_the_expected_order(self) -> None:
        copy = from_json(ReadyQueue, to_json(self.queue))
        assert [copy.pop() for _ in self.waiters] == self.expected(self.now)
        assert copy.pop() is None

    @invariant()
    def the_first_is_the_first_at_any_time(self) -> None:
        for later in (0, 7, 10_000):
            assert self.queue.first() == next(iter(self.expected(self.now + later)), None)

    @invariant()
    def nothing_leaks(self) -> None:
        assert len(self.queue) == len(self.waiters)
        assert len(self.queue.heap) <= 2 * len(self.waiters)


TestReadyQueue = ReadyQueueAgainstSorting.TestCase


@given(
    victim=st.sampled_from(AGED),
    backlog=st.lists(st.sampled_from(AGED), max_size=20),
    bursts=st.lists(st.lists(st.sampled_from(AGED), max_size=3), min_size=40, max_size=40),
)
def test_nobody_starves(
    victim: Priority, backlog: list[Priority], bursts: list[list[Priority]]
) -> None:
    """Only the backlog and what comes within d * aging_ms goes before, however much comes.

    The worst case: all have come before the first one goes.
    """
    queue = ReadyQueue(AgingRule(AGING_MS))
    for n, priority in enumerate(backlog):
        queue.push(f"backlog {n}", priority, 0)
    queue.push("victim", victim, 0)
    may_overtake = len(backlog)
    for now, burst in enumerate(bursts):
        for n, priority in enumerate(burst):
            queue.push(f"{now} {n}", priority, now)
            may_overtake += now < (victim.level - priority.level) * AGING_MS
    while queue.pop() != "victim":
        may_overtake -= 1
    assert may_overtake >= 0
