"""Port of the state that many servers share: documents and events of tenants.

    caller ── decide(records) ──▶ one transaction: read, decide by pure code, write ──▶ its result

Every change is a transaction of one tenant, and the transactions of a tenant happen one after
another, whichever server they come from. So a decision needs no lock of its own and is never made
on what is no longer true, and the events of a tenant are numbered in the order in which they
happened: a reader that has seen number n has seen all before it.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from msgspec import Struct

from vegakit.ids import TenantId

T = TypeVar("T")


class Document(Struct, frozen=True):
    """A document as it is kept. `state` and `rank` are what it is found and ordered by, `owner`
    whose it is; `version` counts its changes from 1."""

    key: str
    value: bytes
    version: int
    state: str = ""
    rank: int = 0
    owner: str = ""


class TenantEvent(Struct, frozen=True):
    """Something that happened to a tenant; numbers begin at 1 and have no gaps."""

    number: int
    at_ms: int
    event: bytes


class EventPage(Struct, frozen=True):
    """The events after a cursor. `missed` is how many of them are no longer kept."""

    events: tuple[TenantEvent, ...]
    missed: int = 0


class TenantRecords(Protocol):
    """The documents of one tenant inside a transaction. What is put is seen by `get` at once, and
    by `find` and `counts` only in the next transaction: a decision looks before it changes."""

    def get(self, kind: str, key: str) -> Document | None:
        """Return a document; None if there is none."""
        ...

    def find(
        self,
        kind: str,
        *,
        state: str | None = None,
        owner: str | None = None,
        up_to: int | None = None,
        after: str | None = None,
        limit: int = 100,
        most_bytes: int | None = None,
    ) -> Sequence[Document]:
        """Return documents in a state, of an owner, of at most the rank `up_to`: by rank, then by
        key. With `after` a page by key alone, after the last key of the page before: a document
        that gets another rank meanwhile is neither missed nor seen twice. The last one returned is
        the one with which their values have `most_bytes`, if so many are found."""
        ...

    def counts(self, kind: str) -> Mapping[str, int]:
        """Return how many documents are in each state."""
        ...

    def put(
        self, kind: str, key: str, value: bytes, *, state: str = "", rank: int = 0, owner: str = ""
    ) -> None:
        """Write a document, the first version or the next."""
        ...

    def delete(self, kind: str, key: str) -> None:
        """Forget a document, if there is one."""
        ...

    def emit(self, event: bytes, at_ms: int) -> None:
        """Append an event, which gets the next number."""
        ...

    def last_event(self) -> int:
        """Return the number of the last event before this transaction; 0 if there was none."""
        ...


class TenantStore(Protocol):
    """The state of all tenants. A decision runs beside the event loop: it may read its records and
    compute, nothing else. If it raises, nothing is changed."""

    def transact(self, tenant: TenantId, decide: Callable[[TenantRecords], T]) -> Awaitable[T]:
        """Return what `decide` returns, once all it put and emitted is kept. It is carried out to
        its end even if its caller is cancelled."""
        ...

    def read(self, tenant: TenantId, look: Callable[[TenantRecords], T]) -> Awaitable[T]:
        """Return what `look` returns; it changes nothing, and waits for nobody who does."""
        ...

    def events(self, tenant: TenantId, *, after: int = 0, limit: int = 100) -> Awaitable[EventPage]:
        """Return the events with numbers above `after`."""
        ...

    def due(
        self, kind: str, state: str, up_to: int, *, limit: int = 100
    ) -> Awaitable[Sequence[tuple[TenantId, str]]]:
        """Return tenant and key of the documents of all tenants that are in a state and of at most
        this rank, the lowest first. What is done about one is decided in a transaction, where it
        may have changed."""
        ...

    def forget_events(self, before_ms: int) -> Awaitable[int]:
        """Forget the events of all tenants before then, but the last of each, which keeps the
        count; return how many."""
        ...

    def aclose(self) -> Awaitable[None]:
        """Carry out everything that was called before, and let go of the place."""
        ...
