"""The message bus inside of one process, and the bells that every bus has.

It is for one server: what is published reaches the subscribers of this process, and the history
ends with it. Servers that share a store see each other's records by looking, with or without it.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Generator
from contextlib import contextmanager
from itertools import islice

from vegakit.concurrency import wait_first
from vegakit.ids import TenantId
from vegakit.ports import (
    NUMBERS_PER_MS,
    Bell,
    BusLimits,
    Clock,
    KeptMessage,
    TopicPage,
    topic_page,
)

_FORGET_EVERY_MS = 60_000


class LocalBell:
    """Implements `ports.Bell`."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._rung = clock, asyncio.Event()

    def ring(self) -> None:
        """Wake the owner, or let its next wait return at once."""
        self._rung.set()

    async def wait(self, until_ms: int) -> None:
        if not self._rung.is_set():
            await wait_first(self._rung.wait(), _wait_until(self._clock, until_ms))
        # Forgotten before the owner looks: what rings while it looks wakes it again.
        self._rung.clear()


async def _wait_until(clock: Clock, at_ms: int) -> None:
    await clock.wait_until(at_ms)


class Bells:
    """The bells of those who wait in this process, by tenant and topic."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_place: dict[tuple[TenantId, str], set[LocalBell]] = {}

    @contextmanager
    def listen(self, tenant: TenantId, topic: str = "") -> Generator[Bell]:
        """Hold a bell for as long as somebody waits."""
        bell, place = LocalBell(self._clock), (tenant, topic)
        self._by_place.setdefault(place, set()).add(bell)
        try:
            yield bell
        finally:
            there = self._by_place[place]
            there.discard(bell)
            if not there:
                del self._by_place[place]

    def ring(self, tenant: TenantId, topic: str = "") -> None:
        """Wake whoever listens here."""
        for bell in self._by_place.get((tenant, topic), ()):
            bell.ring()

    def ring_all(self) -> None:
        """Wake everybody: nobody knows for whom a ring was lost."""
        for bells in self._by_place.values():
            for bell in bells:
                bell.ring()


class _Topic:
    """The history of one topic."""

    def __init__(self, base: int) -> None:
        self.base = self.last = base
        self.used_ms = 0
        self.kept: deque[KeptMessage] = deque()
        self.bytes = 0

    def add(self, body: bytes, now: int, limits: BusLimits) -> int:
        self.last += 1
        self.used_ms = now
        self.kept.append(KeptMessage(self.last, self.base, now, body))
        self.bytes += len(body)
        # The newest stays, however large it is: whoever is there now shall get it.
        while len(self.kept) > 1 and (
            len(self.kept) > limits.history or self.bytes > limits.history_bytes
        ):
            self.bytes -= len(self.kept.popleft().body)
        return self.last


class LocalBus:
    """Implements `ports.Bus` in this process."""

    def __init__(self, clock: Clock, limits: BusLimits | None = None) -> None:
        self._clock, self._limits = clock, limits or BusLimits()
        self._bells = Bells(clock)
        self._topics: dict[TenantId, OrderedDict[str, _Topic]] = {}
        """The topics of each tenant, the one least lately published to first."""
        self._forget_at_ms = 0
        self.ring, self.listen = self._bells.ring, self._bells.listen

    async def publish(self, tenant: TenantId, topic: str, body: bytes) -> int | None:
        now = self._clock.now()
        if now >= self._forget_at_ms:
            self._forget_unused(now)
            self._forget_at_ms = now + min(_FORGET_EVERY_MS, self._limits.keep_ms)
        topics = self._topics.setdefault(tenant, OrderedDict())
        there = topics.get(topic)
        if there is None:
            if len(topics) >= self._limits.topics:
                return None
            there = topics[topic] = _Topic(now * NUMBERS_PER_MS)
        topics.move_to_end(topic)
        number = there.add(body, now, self._limits)
        self._bells.ring(tenant, topic)
        return number

    async def read(
        self, tenant: TenantId, topic: str, after: int | None, *, limit: int = 100
    ) -> TopicPage:
        topics = self._topics.get(tenant)
        there = topics.get(topic) if topics else None
        if there is None:
            return TopicPage((), after or 0)
        if after is None:
            return TopicPage((), there.last)
        if after > there.last:
            return TopicPage((), there.last, is_cut=True)
        newer = (one for one in there.kept if one.number > after)
        return topic_page(islice(newer, limit), after)

    async def aclose(self) -> None:
        self._topics.clear()

    def _forget_unused(self, now: int) -> None:
        for tenant, topics in [*self._topics.items()]:
            while topics and next(iter(topics.values())).used_ms <= now - self._limits.keep_ms:
                topics.popitem(last=False)
            if not topics:
                del self._topics[tenant]
