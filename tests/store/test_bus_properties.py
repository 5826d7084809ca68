"""The bus of one process against a list that keeps everything, under random use by many readers.

Messages are published, read in pages, trimmed by number and by bytes, and topics are forgotten. The
model keeps every message for ever, and works out what a reader must be told of them.
"""

from collections.abc import Coroutine
from typing import Any, NamedTuple, TypeVar

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from vegakit.ids import TenantId
from vegakit.ports import BusLimits
from vegakit.store import LocalBus
from vegakit.testing import FakeClock

LIMITS = BusLimits(history=4, history_bytes=20, topics=2, keep_ms=100)
PLACES = st.tuples(st.sampled_from("AB"), st.sampled_from("tuv"))
BODIES = st.binary(max_size=9) | st.binary(min_size=15, max_size=30)


T = TypeVar("T")


def done(call: Coroutine[Any, Any, T]) -> T:
    """Return what it returns; the bus of one process never waits."""
    try:
        call.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits")


class Sent(NamedTuple):
    """A message of the model; `life` counts how often its topic was forgotten before."""

    number: int
    life: int
    body: bytes


class Told(NamedTuple):
    """What a reader was told: bodies, and how many it heard that it has missed."""

    bodies: list[bytes]
    missed: int
    is_cut: bool


class BusAgainstList(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.bus = LocalBus(self.clock, LIMITS)
        self.sent: dict[tuple[str, str], list[Sent]] = {}
        self.life: dict[tuple[str, str], int] = {}
        self.used_ms: dict[tuple[str, str], int] = {}
        self.cursors: list[tuple[tuple[str, str], int]] = []

    def _forget(self) -> None:
        for place, used_ms in [*self.used_ms.items()]:
            if used_ms <= self.clock.now() - LIMITS.keep_ms:
                del self.used_ms[place]
                self.life[place] = self.life.get(place, 0) + 1

    @rule(ms=st.sampled_from([1, 30, 99, 100]))
    def time_passes(self, ms: int) -> None:
        self.clock.advance(ms)

    @rule(place=PLACES, body=BODIES)
    def publish(self, place: tuple[str, str], body: bytes) -> None:
        # Forgetting is not urgent: it is made due, so that both do it now.
        self.bus._forget_at_ms = 0
        self._forget()
        there = [one for one in self.used_ms if one[0] == place[0]]
        number = done(self.bus.publish(TenantId(place[0]), place[1], body))
        if place not in there and len(there) >= LIMITS.topics:
            assert number is None
            return
        assert number is not None
        before = self.sent.setdefault(place, [])
        if before and before[-1].life == self.life.get(place, 0):
            assert number == before[-1].number + 1
        assert all(number > one.number for one in before)
        before.append(Sent(number, self.life.get(place, 0), body))
        self.used_ms[place] = self.clock.now()

    @rule(place=PLACES)
    def begin(self, place: tuple[str, str]) -> None:
        page = done(self.bus.read(TenantId(place[0]), place[1], None))
        sent = self.sent.get(place, [])
        if page.cursor:
            assert page.cursor == sent[-1].number
        assert page.messages == ()
        self.cursors.append((place, page.cursor))

    @rule(choice=st.integers(0), limit=st.integers(1, 6))
    def read_on(self, choice: int, limit: int) -> None:
        if not self.cursors:
            return
        at = choice % len(self.cursors)
        place, after = self.cursors[at]
        page = done(self.bus.read(TenantId(place[0]), place[1], after, limit=limit))
        told = Told(
            [one.body for one in page.messages],
            sum(one.missed for one in page.messages),
            page.is_cut or any(one.is_cut for one in page.messages),
        )
        assert told == self._expected(place, after, limit)
        self.cursors[at] = place, page.cursor

    def _expected(self, place: tuple[str, str], after: int, limit: int) -> Told:
        """What is kept of what is new, and how many of the same life are not."""
        sent = self.sent.get(place, [])
        if not sent or not self._is_there(place):
            return Told([], 0, is_cut=False)
        life = sent[-1].life
        lived = [one for one in sent if one.life == life]
        kept = lived[-LIMITS.history :]
        while len(kept) > 1 and sum(len(one.body) for one in kept) > LIMITS.history_bytes:
            kept = kept[1:]
        new = [one for one in kept if one.number > after]
        if not new:
            return Told([], 0, is_cut=False)
        missed = sum(after < one.number < new[0].number for one in lived)
        is_cut = any(one.number == after and one.life < life for one in sent)
        return Told([one.body for one in new[:limit]], missed, is_cut)

    def _is_there(self, place: tuple[str, str]) -> bool:
        topics = self.bus._topics.get(TenantId(place[0]))
        return topics is not None and place[1] in topics

    @invariant()
    def what_is_kept_is_bounded(self) -> None:
        for topics in self.bus._topics.values():
            assert len(topics) <= LIMITS.topics
            for topic in topics.values():
                assert len(topic.kept) <= LIMITS.history
                size = sum(len(one.body) for one in topic.kept)
                assert size == topic.bytes
                assert size <= LIMITS.history_bytes or len(topic.kept) == 1


TestBusAgainstList = BusAgainstList.TestCase
TestBusAgainstList.settings = settings(stateful_step_count=25)
