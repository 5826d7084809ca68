"""Port of the message bus: topics of tenants, and the bells that wake whoever waits.

    publisher ── publish ──▶ bounded history of the topic ◀── read after a cursor ── subscribers
                                   └── rings ──▶ bells of whoever listens, on every server

A subscriber has no queue of its own: all of a topic read the same history, each with its own
cursor. So one that is slow takes no memory, holds up nobody, and is told how many it missed.

A topic is numbered without gaps from a base that is drawn from the clock when its history begins.
A history that is lost (the server of the bus was flushed or restarted, the process ended) begins
again at a higher base: no number is given out twice, and a reader whose cursor is below the base
knows that it may have missed what nobody can count.

The bus keeps nothing that was promised: what must not be lost is a record in `ports.TenantStore`,
and a bell only says when to look there. A bell that does not ring costs time, never a record.
"""

from collections.abc import Awaitable, Iterable
from contextlib import AbstractContextManager
from typing import Protocol

from msgspec import Struct

from vegakit.ids import TenantId

NUMBERS_PER_MS = 256
"""A base is the time in milliseconds times this: a topic that gets fewer messages than this in each
millisecond of its life never reaches a base that is drawn later."""


class BusLimits(Struct, frozen=True):
    """Bounds what is kept for subscribers: of one topic, and how many topics a tenant has. A topic
    that nobody has published to for `keep_ms` is forgotten."""

    history: int = 256
    history_bytes: int = 1 << 20
    topics: int = 256
    keep_ms: int = 86_400_000


class KeptMessage(Struct, frozen=True):
    """A message in the history of a topic; `base` is where its numbering began."""

    number: int
    base: int
    at_ms: int
    body: bytes


class TopicMessage(Struct, frozen=True):
    """A message as a reader gets it. `missed` is how many before it are no longer kept; `is_cut`
    says that there may be more, which nobody counted, because the history was lost."""

    number: int
    at_ms: int
    body: bytes
    missed: int = 0
    is_cut: bool = False


class TopicPage(Struct, frozen=True):
    """Messages after a cursor, and the cursor to go on from."""

    messages: tuple[TopicMessage, ...]
    cursor: int
    is_cut: bool = False


def topic_page(kept: Iterable[KeptMessage], after: int) -> TopicPage:
    """Return messages, in the order of their numbers, as a reader with this cursor sees them."""
    messages: list[TopicMessage] = []
    cursor = after
    for one in kept:
        # A reader without a cursor takes what there is, and has nothing to miss from before.
        is_cut = 0 < cursor < one.base
        missed = one.number - max(cursor, one.base) - 1
        messages.append(TopicMessage(one.number, one.at_ms, one.body, missed, is_cut))
        cursor = one.number
    return TopicPage(tuple(messages), cursor)


class Bell(Protocol):
    """Rings when something happened that its owner listens for."""

    def wait(self, until_ms: int) -> Awaitable[None]:
        """Return when it has rung since the last wait was over, at the latest at this time."""
        ...


class Bus(Protocol):
    """The topics of all tenants. The tenant is part of every key: there is no way from one tenant's
    topic to another's."""

    def publish(self, tenant: TenantId, topic: str, body: bytes) -> Awaitable[int | None]:
        """Give a message to whoever reads the topic, and return its number; None if the tenant has
        as many topics as it may. A bus that does not answer raises `StoreError`: then the message
        was published once or not at all."""
        ...

    def read(
        self, tenant: TenantId, topic: str, after: int | None, *, limit: int = 100
    ) -> Awaitable[TopicPage]:
        """Return messages with numbers above `after`; with None no messages, but the cursor of
        whoever begins now."""
        ...

    def ring(self, tenant: TenantId) -> None:
        """Wake whoever listens for changes of the tenant's records, on every server. It neither
        waits nor fails; a ring may be lost."""
        ...

    def listen(self, tenant: TenantId, topic: str = "") -> AbstractContextManager[Bell]:
        """Return a bell for a topic, or for changes of the tenant's records."""
        ...

    def aclose(self) -> Awaitable[None]:
        """Let go of the place."""
        ...
