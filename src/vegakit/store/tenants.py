"""The state of tenants on SQL rows, on a SQLite file and on PostgreSQL, and in memory.

On SQLite one writer at a time holds the file. On PostgreSQL a transaction first takes the lock of
its tenant, which all servers take: that is what puts the transactions of a tenant in one order, and
numbers its events without gaps. A serial column would not: it is drawn before the commit, so that a
reader could pass an event that becomes visible later.

Transactions that wait for the thread of a tenant share a commit, so that one tenant is not slowed
to one change for each flush of the disk. On PostgreSQL there are several threads: a transaction
holds the locks of all its tenants, so were there one, each tenant would wait for all others.
"""

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, islice
from typing import Any, Protocol, TypeVar

from vegakit.errors import BugError
from vegakit.ids import TenantId
from vegakit.ports import Document, EventPage, TenantEvent, TenantRecords
from vegakit.store.thread import Format, StoreThread

T = TypeVar("T")

_GET = """SELECT key, value, version, state, rank, owner FROM tenant_documents
    WHERE tenant = ? AND kind = ? AND key = ?"""
_PUT = """INSERT INTO tenant_documents (tenant, kind, key, value, version, state, rank, owner)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (tenant, kind, key) DO UPDATE SET
    value = excluded.value, version = excluded.version, state = excluded.state,
    rank = excluded.rank, owner = excluded.owner"""
_DELETE = "DELETE FROM tenant_documents WHERE tenant = ? AND kind = ? AND key = ?"
_COUNTS = """SELECT state, count(*) FROM tenant_documents
    WHERE tenant = ? AND kind = ? GROUP BY state"""
_WITHIN = """SELECT key, value, version, state, rank, owner FROM (
    SELECT *, sum(length(value)) OVER (ORDER BY {order}) - length(value) AS so_far
    FROM ({page}) AS page) AS counted WHERE so_far < ? ORDER BY {order}"""
"""The database does not hand out what is beyond the limit."""
_DUE = """SELECT tenant, key FROM tenant_documents
    WHERE kind = ? AND state = ? AND rank <= ? ORDER BY rank, tenant, key LIMIT ?"""
_LAST = "SELECT coalesce(max(number), 0) FROM tenant_events WHERE tenant = ?"
_EMIT = """INSERT INTO tenant_events (tenant, number, at_ms, event) VALUES (?,
    (SELECT coalesce(max(number), 0) + 1 FROM tenant_events WHERE tenant = ?), ?, ?)"""
_EVENTS = """SELECT number, at_ms, event FROM tenant_events
    WHERE tenant = ? AND number > ? ORDER BY number LIMIT ?"""
_OLD = """FROM tenant_events AS old WHERE at_ms < ? AND number <
    (SELECT max(number) FROM tenant_events AS kept WHERE kept.tenant = old.tenant)"""
_COUNT_OLD, _FORGET = f"SELECT count(*) {_OLD}", f"DELETE {_OLD}"


def tenant_tables(blob: str, big: str, text: str) -> Format:
    """Return the tables, with the database's own types for bytes, for 64 bits and for text that is
    ordered by its characters in every language."""
    return Format(
        "tenants",
        1,
        (
            f"""CREATE TABLE tenant_documents (
                tenant {text}, kind TEXT, key {text}, value {blob} NOT NULL, version {big} NOT NULL,
                state TEXT NOT NULL, rank {big} NOT NULL, owner TEXT NOT NULL,
                PRIMARY KEY (tenant, kind, key)
            )""",
            """CREATE INDEX tenant_documents_by_state
                ON tenant_documents (tenant, kind, state, rank, key)""",
            """CREATE INDEX tenant_documents_by_owner
                ON tenant_documents (tenant, kind, owner, rank, key)""",
            "CREATE INDEX tenant_documents_due ON tenant_documents (kind, state, rank)",
            f"""CREATE TABLE tenant_events (
                tenant {text}, number {big}, at_ms {big} NOT NULL, event {blob} NOT NULL,
                PRIMARY KEY (tenant, number)
            )""",
            "CREATE INDEX tenant_events_by_time ON tenant_events (at_ms)",
        ),
    )


class _Handle(Protocol):
    def execute(self, statement: str, values: Sequence[object] = ..., /) -> Any:  # noqa: ANN401
        """Run one statement with `?` for its values."""
        ...


class _Staged:
    """The writes of one decision, which are carried out when it has decided."""

    def __init__(self) -> None:
        self.documents: dict[tuple[str, str], Document | None] = {}
        self.events: list[tuple[bytes, int]] = []

    def _found(self, kind: str, key: str) -> Document | None:
        raise NotImplementedError

    def get(self, kind: str, key: str) -> Document | None:
        place = kind, key
        return self.documents[place] if place in self.documents else self._found(kind, key)

    def put(
        self, kind: str, key: str, value: bytes, *, state: str = "", rank: int = 0, owner: str = ""
    ) -> None:
        before = self.get(kind, key)
        version = before.version + 1 if before else 1
        self.documents[kind, key] = Document(key, value, version, state, rank, owner)

    def delete(self, kind: str, key: str) -> None:
        self.documents[kind, key] = None

    def emit(self, event: bytes, at_ms: int) -> None:
        self.events.append((event, at_ms))

    def _look_first(self) -> None:
        if self.documents:
            raise BugError("a decision finds and counts documents before it changes any")


class _SqlRecords(_Staged):
    """Implements `ports.TenantRecords` in a transaction of a database."""

    def __init__(self, handle: _Handle, tenant: TenantId) -> None:
        super().__init__()
        self._execute, self._tenant = handle.execute, tenant
        self._seen: dict[tuple[str, str], Document | None] = {}
        """What was read: nobody else changes it meanwhile, and each look is a way to a server."""

    def _found(self, kind: str, key: str) -> Document | None:
        place = kind, key
        if place not in self._seen:
            found = self._execute(_GET, (self._tenant, *place)).fetchone()
            self._seen[place] = _document(found) if found else None
        return self._seen[place]

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
        self._look_first()
        wanted: dict[str, object] = {"tenant = ?": self._tenant, "kind = ?": kind}
        wanted |= {"state = ?": state} if state is not None else {}
        wanted |= {"owner = ?": owner} if owner is not None else {}
        wanted |= {"rank <= ?": up_to} if up_to is not None else {}
        wanted |= {"key > ?": after} if after is not None else {}
        order = "rank, key" if after is None else "key"
        statement = (
            "SELECT key, value, version, state, rank, owner FROM tenant_documents "  # noqa: S608
            f"WHERE {' AND '.join(wanted)} ORDER BY {order} LIMIT ?"
        )
        values = [*wanted.values(), max(0, limit)]
        if most_bytes is not None:
            statement, values = _WITHIN.format(order=order, page=statement), [*values, most_bytes]
        found = self._execute(statement, values)
        documents = [_document(row) for row in found.fetchall()]
        self._seen |= {(kind, document.key): document for document in documents}
        return documents

    def counts(self, kind: str) -> Mapping[str, int]:
        self._look_first()
        return dict(self._execute(_COUNTS, (self._tenant, kind)).fetchall())

    def last_event(self) -> int:
        (last,) = self._execute(_LAST, (self._tenant,)).fetchone()
        return last

    def write(self) -> None:
        """Carry out what was decided."""
        for (kind, key), document in self.documents.items():
            place = self._tenant, kind, key
            if document is None:
                self._execute(_DELETE, place)
            else:
                of = document
                row = (of.value, of.version, of.state, of.rank, of.owner)
                self._execute(_PUT, (*place, *row))
        for event, at_ms in self.events:
            self._execute(_EMIT, (self._tenant, self._tenant, at_ms, event))


def _document(row: Sequence[Any]) -> Document:
    key, value, version, state, rank, owner = row
    return Document(key, bytes(value), version, state, rank, owner)


class SqlTenantStore:
    """Implements `ports.TenantStore` on the threads of a database, each with its connection. One
    tenant is always worked on by the same thread, so that its transactions share commits. `lock_of`
    names the lock that a transaction of a tenant takes, where the database needs one; `reader` is a
    thread that only looks, where one can do so while others wait for a lock."""

    def __init__(
        self,
        threads: Sequence[StoreThread[Any]],
        lock_of: Callable[[TenantId], int | None] = lambda _: None,
        reader: StoreThread[Any] | None = None,
    ) -> None:
        self._threads, self._lock_of, self._reader = threads, lock_of, reader or threads[0]

    async def transact(self, tenant: TenantId, decide: Callable[[TenantRecords], T]) -> T:
        def work(handle: _Handle) -> tuple[T, Callable[[], object]]:
            records = _SqlRecords(handle, tenant)
            return decide(records), records.write

        lock = self._lock_of(tenant)
        return await self._threads[(lock or 0) % len(self._threads)].do(work, lock)

    async def read(self, tenant: TenantId, look: Callable[[TenantRecords], T]) -> T:
        return await self._look(lambda handle: look(_SqlRecords(handle, tenant)))

    async def events(self, tenant: TenantId, *, after: int = 0, limit: int = 100) -> EventPage:
        def look(handle: _Handle) -> EventPage:
            rows = handle.execute(_EVENTS, (tenant, after, max(0, limit))).fetchall()
            return event_page([TenantEvent(n, at, bytes(event)) for n, at, event in rows], after)

        return await self._look(look)

    async def due(
        self, kind: str, state: str, up_to: int, *, limit: int = 100
    ) -> Sequence[tuple[TenantId, str]]:
        values = (kind, state, up_to, max(0, limit))
        return await self._look(lambda handle: handle.execute(_DUE, values).fetchall())

    async def forget_events(self, before_ms: int) -> int:
        values = (before_ms,)

        def work(handle: _Handle) -> tuple[int, Callable[[], object]]:
            (count,) = handle.execute(_COUNT_OLD, values).fetchone()
            return count, lambda: handle.execute(_FORGET, values)

        return await self._threads[0].do(work)

    async def aclose(self) -> None:
        for thread in (*self._threads, self._reader):
            await thread.aclose()

    async def _look(self, look: Callable[[_Handle], T]) -> T:
        return await self._reader.do(lambda handle: (look(handle), lambda: None))


def event_page(found: Sequence[TenantEvent], after: int) -> EventPage:
    """Return a page; numbers have no gaps, so the first one tells how many are missing."""
    return EventPage(tuple(found), found[0].number - after - 1 if found else 0)


class MemoryTenantStore:
    """Implements `ports.TenantStore` in this process. A decision runs in the event loop and does
    not wait, so that no two of them overlap."""

    def __init__(self) -> None:
        self._tenants: dict[TenantId, _MemoryTenant] = {}

    async def transact(self, tenant: TenantId, decide: Callable[[TenantRecords], T]) -> T:
        records = _MemoryRecords(self._of(tenant))
        result = decide(records)
        self._of(tenant).write(records)
        return result

    async def read(self, tenant: TenantId, look: Callable[[TenantRecords], T]) -> T:
        return look(_MemoryRecords(self._of(tenant)))

    async def events(self, tenant: TenantId, *, after: int = 0, limit: int = 100) -> EventPage:
        events = self._of(tenant).events
        start = bisect_right(events, after, key=lambda event: event.number)
        return event_page(events[start : start + max(0, limit)], after)

    async def due(
        self, kind: str, state: str, up_to: int, *, limit: int = 100
    ) -> Sequence[tuple[TenantId, str]]:
        found = sorted(
            (rank, tenant, key)
            for tenant, kept in self._tenants.items()
            for rank, key in kept.places(kind, state)
            if rank <= up_to
        )
        return [(tenant, key) for _, tenant, key in found[: max(0, limit)]]

    async def forget_events(self, before_ms: int) -> int:
        forgotten = 0
        for kept in self._tenants.values():
            old = [event for event in kept.events[:-1] if event.at_ms < before_ms]
            forgotten += len(old)
            kept.events = [event for event in kept.events if event not in old]
        return forgotten

    async def aclose(self) -> None:
        pass

    def _of(self, tenant: TenantId) -> "_MemoryTenant":
        return self._tenants.setdefault(tenant, _MemoryTenant())


class _MemoryTenant:
    def __init__(self) -> None:
        self.documents: dict[str, dict[str, Document]] = {}
        self.events: list[TenantEvent] = []
        self._places: dict[tuple[str, str], list[tuple[int, str]]] = {}
        """The (rank, key) of the documents of a kind and state, in order."""

    def places(self, kind: str, state: str) -> list[tuple[int, str]]:
        return self._places.get((kind, state), [])

    def write(self, records: "_MemoryRecords") -> None:
        for (kind, key), document in records.documents.items():
            kept = self.documents.setdefault(kind, {})
            before = kept.pop(key, None)
            if before is not None:
                places = self._places[kind, before.state]
                del places[bisect_left(places, (before.rank, key))]
            if document is not None:
                kept[key] = document
                insort(self._places.setdefault((kind, document.state), []), (document.rank, key))
        for number, (event, at_ms) in enumerate(records.events, records.last_event() + 1):
            self.events.append(TenantEvent(number, at_ms, event))


class _MemoryRecords(_Staged):
    """Implements `ports.TenantRecords` on dicts."""

    def __init__(self, tenant: _MemoryTenant) -> None:
        super().__init__()
        self._tenant = tenant

    def _found(self, kind: str, key: str) -> Document | None:
        return self._tenant.documents.get(kind, {}).get(key)

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
        self._look_first()
        documents = self._tenant.documents.get(kind, {})
        # The usual questions name a state: their places are kept in order.
        if state is not None and after is None:
            found = (documents[key] for _, key in self._tenant.places(kind, state))
        elif after is None:
            found = iter(sorted(documents.values(), key=lambda one: (one.rank, one.key)))
        else:
            found = (documents[key] for key in sorted(documents) if key > after)
        wanted = (
            document
            for document in found
            if state in (None, document.state)
            and owner in (None, document.owner)
            and (up_to is None or document.rank <= up_to)
        )
        page = list(islice(wanted, max(0, limit)))
        if most_bytes is None:
            return page
        before = accumulate((len(document.value) for document in page), initial=0)
        return [one for one, bytes_ in zip(page, before, strict=False) if bytes_ < most_bytes]

    def counts(self, kind: str) -> Mapping[str, int]:
        self._look_first()
        return Counter(document.state for document in self._tenant.documents.get(kind, {}).values())

    def last_event(self) -> int:
        events = self._tenant.events
        return events[-1].number if events else 0
