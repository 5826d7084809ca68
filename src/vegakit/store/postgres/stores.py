"""Ledger, documents and memory on a PostgreSQL server that any number of machines share.

A transaction locks all it touches in one order, sends its statements without waiting for each
reply (pipeline mode), and is run again when others got in its way. After a lost connection the
server is asked whether the transaction was committed.
"""

from asyncio import Future
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, TypeVar

from vegakit.conversation import Message
from vegakit.policy import counter_ids
from vegakit.records import digest128
from vegakit.store.conversations import (
    MemoryLine,
    bounded,
    check_name,
    check_turn,
    lines_of,
    message_of,
    search_words,
    whole_turns,
)
from vegakit.store.ledger import SqlLedger
from vegakit.store.ledger_rows import CLAIMS, COUNTERS, LEASES, SCOPES, LedgerRows, LockSet
from vegakit.store.postgres.connection import (
    PostgresReader,
    PostgresSession,
    PostgresThread,
    key_lock,
    server_of,
    single_value,
)
from vegakit.store.tenants import SqlTenantStore, tenant_tables
from vegakit.store.thread import Format

# Small documents on a PostgreSQL server that any number of processes share.


DOCUMENTS = Format(
    "documents",
    1,
    (
        """CREATE TABLE documents (
            kind TEXT COLLATE "C", key TEXT COLLATE "C", version BIGINT NOT NULL,
            value BYTEA NOT NULL, PRIMARY KEY (kind, key)
        )""",
    ),
)
_GET = "SELECT value, version FROM documents WHERE kind = ? AND key = ?"
_CREATE = "INSERT INTO documents (value, version, kind, key) VALUES (?, ?, ?, ?)"
_REPLACE = "UPDATE documents SET value = ?, version = ? WHERE kind = ? AND key = ?"
_DELETE = "DELETE FROM documents WHERE kind = ? AND key = ?"
_KEYS = "SELECT key FROM documents WHERE kind = ? AND key > ? ORDER BY key LIMIT ?"


class NamedLocks:
    """Locks what is touched by its name, whether it is there or not."""

    def __init__(self, session: PostgresSession) -> None:
        self.execute, self._session = session.execute, session

    @contextmanager
    def locked(self, lock_set: Sequence[int | None]) -> Generator[None]:
        """Lock the names until the transaction ends."""
        self._session.lock({key for key in lock_set if key is not None})
        yield


class PostgresStore:
    """Implements `ports.Store`."""

    def __init__(
        self, dsn: str, *, schema: str | None = None, thread: PostgresThread[Any] | None = None
    ) -> None:
        """`thread` is one that others use, too, and that they close."""
        server = server_of(dsn, schema)
        self._schema, self._owns_thread = server.schema, thread is None
        self._thread = thread or PostgresThread(server, DOCUMENTS, NamedLocks)

    async def get(self, kind: str, key: str) -> tuple[bytes, int] | None:
        found = await self._read(_GET, kind, key)
        return found[0] if found else None

    async def put(self, kind: str, key: str, value: bytes, *, expected: int) -> bool:
        check_name(kind, key)
        statement = _REPLACE if expected else _CREATE
        return await self._change(kind, key, expected, statement, value, expected + 1, kind, key)

    async def delete(self, kind: str, key: str, *, expected: int) -> bool:
        if expected == 0:
            return False
        return await self._change(kind, key, expected, _DELETE, kind, key)

    async def keys(self, kind: str, *, after: str = "", limit: int = 100) -> Sequence[str]:
        return [key for (key,) in await self._read(_KEYS, kind, after, max(0, limit))]

    async def aclose(self) -> None:
        """Everything called before is carried out first."""
        if self._owns_thread:
            await self._thread.aclose()

    def _read(self, query: str, *values: object) -> "Future[list[tuple[Any, ...]]]":
        return self._thread.do(
            lambda handle: (handle.execute(query, values).fetchall(), lambda: None)
        )

    def _change(
        self, kind: str, key: str, expected: int, statement: str, *values: object
    ) -> "Future[bool]":
        """Only if the version there is the one expected; none is version 0."""

        def work(handle: NamedLocks) -> tuple[bool, Callable[[], object]]:
            found = handle.execute(_GET, (kind, key)).fetchone()
            fits = (found[1] if found else 0) == expected
            return fits, lambda: fits and handle.execute(statement, values)

        return self._thread.do(work, key_lock(self._schema, kind, key))


_TENANT_THREADS = 4
"""Each connects when it is first needed."""


def postgres_tenants(dsn: str, *, schema: str | None = None) -> SqlTenantStore:
    """Return the state of tenants on a server, whose transactions take the lock of their tenant.
    Who only looks does not wait for those."""
    server = server_of(dsn, schema)
    tables = tenant_tables(blob="BYTEA", big="BIGINT", text='TEXT COLLATE "C"')
    return SqlTenantStore(
        [PostgresThread(server, tables, NamedLocks) for _ in range(_TENANT_THREADS)],
        lambda tenant: key_lock(server.schema, "tenant", tenant),
        PostgresReader(server, tables, NamedLocks),
    )


# Memory on a PostgreSQL server that any number of processes share.
#
# Owners, keys and words may be of any length and hold any character, and PostgreSQL indexes
# neither long texts nor NUL: they are kept as digests.


T = TypeVar("T")

_MEMORY = Format(
    "memory",
    1,
    (
        """CREATE TABLE lines (
            id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, owner TEXT NOT NULL,
            turn BIGINT NOT NULL, said TEXT NOT NULL, words TEXT[] NOT NULL
        )""",
        "CREATE INDEX lines_of ON lines (owner, id)",
        "CREATE INDEX line_index ON lines USING gin (words)",
        "CREATE TABLE turn_keys (owner TEXT, key TEXT, PRIMARY KEY (owner, key))",
    ),
)
_APPEND = "INSERT INTO lines (owner, turn, said, words) VALUES (?, ?, ?, ?)"
_LATEST = "SELECT turn, said FROM lines WHERE owner = ? ORDER BY id DESC LIMIT ?"
_FIND = "SELECT said FROM lines WHERE owner = ? AND words @> ? ORDER BY id DESC LIMIT ?"
_KEEP = "INSERT INTO turn_keys VALUES (?, ?)"
_NEXT = "SELECT coalesce(max(turn), 0) + 1 FROM lines WHERE owner = ?"
_KNOWS = "SELECT 1 FROM turn_keys WHERE owner = ? AND key = ?"


class PostgresMemory:
    """Implements `ports.Memory`."""

    def __init__(self, dsn: str, *, schema: str | None = None) -> None:
        server = server_of(dsn, schema)
        self._schema = server.schema
        self._thread = PostgresThread(server, _MEMORY, _MemoryHandle)

    async def append(
        self, owner: str, messages: Sequence[Message], *, key: str | None = None
    ) -> bool:
        check_turn(owner, key)
        lines, name = lines_of(owner, messages), digest128(owner)
        known_as = None if key is None else digest128(key)
        return await self._thread.do(
            lambda handle: handle.append(name, lines, known_as), self._locked(name)
        )

    async def load(self, owner: str, limit: int = 100) -> Sequence[Message]:
        check_turn(owner)
        most, name = bounded(limit), digest128(owner)
        return whole_turns(await self._read(lambda handle: handle.latest(name, most + 1)), most)

    async def search(self, owner: str, query: str, limit: int = 10) -> Sequence[Message]:
        check_turn(owner)
        words, most, name = search_words(query), bounded(limit), digest128(owner)
        if not words:
            return []
        return [
            message_of(s) for s in await self._read(lambda handle: handle.find(name, words, most))
        ]

    async def forget(self, owner: str) -> None:
        check_turn(owner)
        name = digest128(owner)
        await self._thread.do(
            lambda handle: (None, lambda: handle.forget(name)), self._locked(name)
        )

    async def aclose(self) -> None:
        """Everything called before is carried out first."""
        await self._thread.aclose()

    def _read(self, look: "Callable[[_MemoryHandle], T]") -> "Future[T]":
        return self._thread.do(lambda handle: (look(handle), lambda: None))

    def _locked(self, owner: str) -> int:
        return key_lock(self._schema, "memory", owner)


class _MemoryHandle(NamedLocks):
    def append(
        self, owner: str, lines: list[MemoryLine], key: str | None
    ) -> tuple[bool, Callable[[], None]]:
        if key is not None and self.execute(_KNOWS, (owner, key)).fetchone():
            return False, lambda: None
        turn: int = single_value(self.execute(_NEXT, (owner,)))
        return True, lambda: self._write(owner, turn, lines, key)

    def _write(self, owner: str, turn: int, lines: list[MemoryLine], key: str | None) -> None:
        for line in lines:
            self.execute(_APPEND, (owner, turn, line.said, _marks(line.words.split())))
        if key is not None:
            self.execute(_KEEP, (owner, key))

    def latest(self, owner: str, most: int) -> list[tuple[int, str]]:
        return self.execute(_LATEST, (owner, most)).fetchall()

    def find(self, owner: str, words: list[str], most: int) -> list[str]:
        return [said for (said,) in self.execute(_FIND, (owner, _marks(words), most)).fetchall()]

    def forget(self, owner: str) -> None:
        self.execute("DELETE FROM lines WHERE owner = ?", (owner,))
        self.execute("DELETE FROM turn_keys WHERE owner = ?", (owner,))


def _marks(words: list[str]) -> list[str]:
    return [digest128(word) for word in dict.fromkeys(words)]


# The ledger on a PostgreSQL server that any number of processes on any machines share.
#
# A transaction locks the scopes that it touches, roots first and by name, then claims and leases.
# All that moves money moves its root too, so whoever holds the root is alone in everything below
# it, and trees with different roots do not wait for each other. `kill -9` of a process or of the
# server loses no answered operation; what a dead process had reserved comes back when its lease
# ends.


LEDGER = Format(
    "ledger",
    3,
    (
        """CREATE TABLE scopes (
            id TEXT COLLATE "C" PRIMARY KEY, parent TEXT COLLATE "C", is_part BOOLEAN NOT NULL,
            rule TEXT NOT NULL, is_open BOOLEAN NOT NULL, settled BIGINT NOT NULL,
            reserved BIGINT NOT NULL, held BIGINT NOT NULL, counted_in TEXT NOT NULL,
            children BIGINT NOT NULL, claims BIGINT NOT NULL, holder TEXT COLLATE "C"
        ) WITH (fillfactor = 50)""",
        "CREATE INDEX scopes_inside ON scopes (parent)",
        "CREATE INDEX open_parts ON scopes (holder) WHERE is_open AND holder IS NOT NULL",
        """CREATE TABLE claims (
            id TEXT COLLATE "C" PRIMARY KEY, scope TEXT COLLATE "C" NOT NULL,
            holder TEXT COLLATE "C" NOT NULL, amount BIGINT NOT NULL, counted_in TEXT NOT NULL,
            state TEXT NOT NULL, charged BIGINT NOT NULL, charged_at_ms BIGINT NOT NULL
        )""",
        "CREATE INDEX live_claims ON claims (holder) WHERE state = 'sent'",
        """CREATE TABLE counters (
            id TEXT COLLATE "C" PRIMARY KEY, settled BIGINT NOT NULL, reserved BIGINT NOT NULL
        ) WITH (fillfactor = 50)""",
        """CREATE TABLE limits (
            id TEXT COLLATE "C" PRIMARY KEY, rules TEXT NOT NULL, version BIGINT NOT NULL
        )""",
        'CREATE TABLE leases (id TEXT COLLATE "C" PRIMARY KEY, until_ms BIGINT NOT NULL)',
        'CREATE TABLE waiters (id TEXT COLLATE "C" PRIMARY KEY, waiter TEXT NOT NULL)',
    ),
)
"""As in SQLite. Room is left beside each scope, whose figures change all the time."""

_AROUND = f"""
    WITH RECURSIVE around AS (
        SELECT id, parent FROM scopes
        WHERE id = ANY(?) OR id IN (SELECT scope FROM claims WHERE id = ANY(?))
        UNION SELECT outer_one.id, outer_one.parent
        FROM scopes AS outer_one JOIN around ON outer_one.id = around.parent
    )
    {SCOPES.select} id IN (SELECT id FROM around) ORDER BY parent IS NOT NULL, id FOR UPDATE
"""  # noqa: S608  (our words)
_ANY = "id = ANY(?) ORDER BY id FOR UPDATE"


class PostgresLedger(SqlLedger):
    """Implements `ports.Ledger`."""

    is_personal = False

    def __init__(self, dsn: str, *, schema: str | None = None) -> None:
        super().__init__(PostgresThread(server_of(dsn, schema), LEDGER, LockedRows))


class LockedRows(LedgerRows):
    """The rows of a ledger, each locked before it is read."""

    names = "SELECT value FROM jsonb_array_elements_text(?::jsonb) AS value"

    def __init__(self, session: PostgresSession) -> None:
        super().__init__(session, lambda: session.transactions, " FOR UPDATE")

    @contextmanager
    def locked(self, lock_set: Sequence[LockSet]) -> Generator[None]:
        """Lock what the batch touches, and write what was put off when it is worked out."""
        self.lock_rows(lock_set)
        yield
        self.flush()

    def lock_rows(self, lock_set: Sequence[LockSet]) -> None:
        """Lock roots before all else: all that moves money moves its root, so nobody waits in a
        circle. What an operation turns out to need beyond it is locked when it is read: never lost,
        though it might wait in a circle, which the server ends."""
        self.clear()
        scopes = {*chain.from_iterable(each.scopes for each in lock_set)} - {None}
        claims = sorted({*chain.from_iterable(each.claims for each in lock_set)})
        holders = sorted({*chain.from_iterable(each.holders for each in lock_set)})
        for query in [each.query for each in lock_set if each.query]:
            scopes.update(row[0] for row in self._execute(*query).fetchall())
        around = self._execute(_AROUND, (list(scopes), claims))
        claimed = self._execute(CLAIMS.select + _ANY, (claims,))
        # Who settles looks at no lease: it would be a statement in every second transaction.
        leased = self._execute(LEASES.select + _ANY, (holders,)) if holders else None
        self._scopes.keep(around.fetchall())
        self._claims.keep(claimed.fetchall(), claims)
        if leased is not None:
            self._leases.keep(leased.fetchall(), holders)
        self._lock_counters(lock_set)
        self.good()

    def _lock_counters(self, lock_set: Sequence[LockSet]) -> None:
        """Lock the counters last, in the order of their names."""
        names = {name for claim in self.budget.claims.values() for name in claim.counted_in}
        for each in lock_set:
            if each.numbers_at_ms is not None:
                self.load_limits()
                for owner in (*each.owners, *self.budget.scopes.limits):
                    names.update(counter_ids(owner, each.numbers_at_ms))
        if names:
            rows = self._execute(COUNTERS.select + _ANY, (sorted(names),)).fetchall()
            self._counters.keep(rows, names)
