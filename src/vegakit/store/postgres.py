"""Ledger, documents and memory on a PostgreSQL server that any number of machines share.

A transaction locks all it touches in one order, sends its statements without waiting for each
reply (pipeline mode), and is run again when others got in its way. After a lost connection the
server is asked whether the transaction was committed.
"""

import time
from asyncio import Future
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from vegakit.conversation import Message
from vegakit.errors import SettingsError, StoreError, VegaError
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
from vegakit.store.ledger_rows import CLAIMS, LEASES, SCOPES, LedgerRows, LockSet
from vegakit.store.sqlite import Format, create_tables
from vegakit.store.thread import Job, JobResult, StoreThread, run_job

if TYPE_CHECKING:
    import psycopg


# A PostgreSQL server that several processes share: how it is met, what goes wrong.
#
# Each subject has its own tables and its own row in `format_versions`, all in one schema.


_Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"

LOCK_S = 10
_SETTINGS = {"connect_timeout": 10, "tcp_user_timeout": 20_000, "application_name": "vega"}
_ADVICE = {
    "": "start the server, or check host, port and network",
    "08": "start the server, or check host, port and network",
    "22003": "an amount is above nine billion dollars",
    "22": "a name or text holds what PostgreSQL cannot keep; leave it out",
    "28": "check user and password",
    "3D": "make the database with `createdb`, or name another",
    "40": "others changed the same rows again and again; try again",
    "42501": "give this user the right to use and make tables in the schema",
    "53100": "its disk is full; free some space and try again",
    "53300": "it has too many connections; end some, or raise `max_connections`",
    "54": "a name is too long; keep names below 2,000 bytes",
    "55P03": f"another process has held the rows for {LOCK_S} s; end that process",
    "57P03": "it is starting or stopping; try again in a moment",
}
"""By the code of the error, or how it begins."""


@lru_cache(maxsize=256)
def _translated(statement: str) -> bytes:
    return statement.replace("?", "%s").encode()


class PostgresSession:
    """One connection, which belongs to the thread that opens it."""

    def __init__(self, dsn: str, schema: str, layout: Format) -> None:
        import psycopg
        from psycopg.conninfo import conninfo_to_dict

        self.transactions = 0
        settings: dict[str, Any] = {**_SETTINGS, **conninfo_to_dict(dsn)}
        self.connection: _Connection = psycopg.connect(**settings, autocommit=True)
        try:
            self._enter(schema)
            with self.connection.transaction():
                self.execute("SELECT pg_advisory_xact_lock(?)", (key_lock(schema),))
                create_tables(self.execute, server_name(dsn, schema), layout)
        except BaseException:
            self.connection.close()
            raise

    def execute(self, statement: str, values: Sequence[object] = ()) -> "psycopg.Cursor[Any]":
        return self.connection.execute(_translated(statement), values)

    def executemany(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        self.connection.cursor().executemany(_translated(statement), rows)

    def _enter(self, schema: str) -> None:
        from psycopg import sql

        name = sql.Identifier(schema)
        with self.connection.transaction():
            self.execute("SELECT pg_advisory_xact_lock(?)", (key_lock(schema),))
            known = "SELECT 1 FROM pg_namespace WHERE nspname = ?"
            if self.execute(known, (schema,)).fetchone() is None:
                self.connection.execute(sql.SQL("CREATE SCHEMA {}").format(name))
        self.connection.execute(sql.SQL("SET search_path TO {}").format(name))
        self.execute(f"SET lock_timeout TO '{LOCK_S}s'")

    def lock(self, keys: set[int]) -> None:
        """Until the transaction ends; in one order, so that nobody waits in a circle."""
        if keys:
            self.execute(
                "SELECT pg_advisory_xact_lock(key) FROM unnest(?::bigint[]) AS key", (sorted(keys),)
            )


def single_value(cursor: "psycopg.Cursor[Any]") -> Any:  # noqa: ANN401  (whatever its column holds)
    (value,) = cursor.fetchone() or (None,)
    return value


def key_lock(*names: str) -> int:
    """The number by which PostgreSQL knows a lock on what has this name."""
    return int(digest128(list(names))[:15], 16)


def server_name(dsn: str, schema: str) -> str:
    """For messages: without the password."""
    try:
        from psycopg.conninfo import conninfo_to_dict
    except ImportError as error:
        raise SettingsError(
            f"PostgreSQL is met by psycopg, which is not installed ({error}); "
            "type: pip install 'vegakit[postgres]'"
        ) from error

    known = conninfo_to_dict(dsn)
    host, port = known.get("host", "localhost"), known.get("port", 5432)
    return f"schema {schema!r} of PostgreSQL at {host}:{port}/{known.get('dbname', '')}"


def postgres_error(place: str, error: Exception) -> StoreError:
    code = getattr(error, "sqlstate", None) or ("22" if isinstance(error, UnicodeError) else "")
    found = (_ADVICE[code[:n]] for n in (5, 2) if code[:n] in _ADVICE)
    hint = next(found, "check the server's log")
    told = " ".join(str(error).split())
    return StoreError(f"cannot use {place}: {told}; {hint}")


# The one thread that works on a PostgreSQL server.
#
#     BEGIN, lock all that the batch touches in one order, work it out, write, COMMIT
#
# Statements go out without waiting for the answers of those before (pipeline mode), so a batch
# costs about two round trips however long it is. A transaction that others got in the way of is
# carried out again. After a lost connection the server is asked whether the transaction was
# committed.


class _Locking(Protocol):
    def locked(self, lock_set: Sequence[Any]) -> AbstractContextManager[None]:
        """For the rest of the transaction; what was put off is written on leaving."""
        ...


HandleT = TypeVar("HandleT", bound=_Locking)

_RERUNS = {"40001": 10, "40P01": 10, "23505": 10}
"""Not serializable, deadlock, and a row that somebody else made first."""
_RECONNECTS = 1
_DOUBT_S, _DOUBT_POLL_S = 10.0, 0.02


class PostgresThread(StoreThread[HandleT]):
    def __init__(
        self, dsn: str, schema: str, layout: Format, handle: Callable[[PostgresSession], HandleT]
    ) -> None:
        self._connect = lambda: PostgresSession(dsn, schema, layout)
        self._make_handle = handle
        self._session: PostgresSession | None = None
        self._in_doubt: tuple[str, list[JobResult]] | None = None
        """Being committed: the transaction's number, and what it answers."""
        super().__init__(server_name(dsn, schema), layout.subject)

    def _carry_out(self, batch: list[Job]) -> list[JobResult]:
        import psycopg

        tried = 0
        while True:
            try:
                return self._doubted_answers() or self._transact(batch)
            except (psycopg.Error, OSError, UnicodeError) as error:
                self._disconnect()
                if not _is_loss(error):
                    self._in_doubt = None  # the server itself said that it is undone
                if tried < _reruns(error):
                    tried += 1
                    continue
                if isinstance(error, psycopg.DataError | UnicodeError) and len(batch) > 1:
                    return [answer for job in batch for answer in self._carry_out([job])]
                return self._failed(batch, postgres_error(self._place, error))
            except VegaError as error:
                self._disconnect()
                return self._failed(batch, error)

    def _transact(self, batch: list[Job]) -> list[JobResult]:
        session = self._connected()
        session.transactions += 1
        with session.connection.pipeline():
            session.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
            number = session.execute("SELECT pg_current_xact_id()::text")
            with self._handle.locked([job.lock_set for job in batch]):
                answers = [run_job(self._handle, job) for job in batch]
            self._in_doubt = single_value(number), answers
            session.execute("COMMIT")
        self._in_doubt = None
        return answers

    def _doubted_answers(self) -> list[JobResult] | None:
        """Those of a transaction that was being committed when the connection was lost; None if
        it must be carried out again."""
        if self._in_doubt is None:
            return None
        number, answers = self._in_doubt
        session = self._connected()
        for _ in range(int(_DOUBT_S / _DOUBT_POLL_S)):
            status = single_value(session.execute("SELECT pg_xact_status(?::xid8)", (number,)))
            if status != "in progress":
                self._in_doubt = None
                return answers if status == "committed" else None
            time.sleep(_DOUBT_POLL_S)
        raise StoreError(f"the connection to {self._place} was lost")

    def _failed(self, batch: list[Job], told: VegaError) -> list[JobResult]:
        if self._in_doubt is not None:
            self._in_doubt = None
            told = StoreError(
                f"{told}; whether this operation was carried out is not known: look before you "
                "do it again"
            )
        return [JobResult(job.caller, error=told) for job in batch]

    def _connected(self) -> PostgresSession:
        if self._session is None:
            self._session = self._connect()
            self._handle = self._make_handle(self._session)
        return self._session

    def _disconnect(self) -> None:
        if self._session is not None:
            self._session.connection.close()
            self._session = None


def _is_loss(error: Exception) -> bool:
    import psycopg

    code = getattr(error, "sqlstate", None)
    if code is None:
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | OSError)
    return code.startswith(("08", "57P"))


def _reruns(error: Exception) -> int:
    return _RECONNECTS if _is_loss(error) else _RERUNS.get(getattr(error, "sqlstate", ""), 0)


# Small documents on a PostgreSQL server that any number of processes share.


_DOCUMENTS = Format(
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
        self._session.lock({key for key in lock_set if key is not None})
        yield


class PostgresStore:
    def __init__(self, dsn: str, *, schema: str = "vega") -> None:
        self._schema = schema
        self._thread = PostgresThread(dsn, schema, _DOCUMENTS, NamedLocks)

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
    def __init__(self, dsn: str, *, schema: str = "vega") -> None:
        self._schema = schema
        self._thread = PostgresThread(dsn, schema, _MEMORY, _MemoryHandle)

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


_LEDGER = Format(
    "ledger",
    1,
    (
        """CREATE TABLE scopes (
            id TEXT COLLATE "C" PRIMARY KEY, parent TEXT COLLATE "C", is_part BOOLEAN NOT NULL,
            rule TEXT NOT NULL, cap BIGINT, is_open BOOLEAN NOT NULL, settled BIGINT NOT NULL,
            reserved BIGINT NOT NULL, held BIGINT NOT NULL, spent BIGINT NOT NULL, period TEXT,
            alerted_percent BIGINT NOT NULL, children BIGINT NOT NULL, claims BIGINT NOT NULL,
            holder TEXT COLLATE "C"
        ) WITH (fillfactor = 50)""",
        "CREATE INDEX scopes_inside ON scopes (parent)",
        "CREATE INDEX open_parts ON scopes (holder) WHERE is_open AND holder IS NOT NULL",
        """CREATE TABLE claims (
            id TEXT COLLATE "C" PRIMARY KEY, scope TEXT COLLATE "C" NOT NULL,
            holder TEXT COLLATE "C" NOT NULL, amount BIGINT NOT NULL, state TEXT NOT NULL,
            charged BIGINT NOT NULL, charged_at_ms BIGINT NOT NULL
        )""",
        "CREATE INDEX live_claims ON claims (holder) WHERE state IN ('reserved', 'sent')",
        'CREATE TABLE leases (id TEXT COLLATE "C" PRIMARY KEY, until_ms BIGINT NOT NULL)',
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
    def __init__(self, dsn: str, *, schema: str = "vega") -> None:
        super().__init__(PostgresThread(dsn, schema, _LEDGER, _LockedRows))


class _LockedRows(LedgerRows):
    def __init__(self, session: PostgresSession) -> None:
        super().__init__(session, lambda: session.transactions, " FOR UPDATE")

    @contextmanager
    def locked(self, lock_set: Sequence[LockSet]) -> Generator[None]:
        self._lock(lock_set)
        yield
        self.flush()

    def _lock(self, lock_set: Sequence[LockSet]) -> None:
        """Roots before all else. What an operation turns out to need beyond it is locked when it is
        read: never lost, though it might wait in a circle, which the server ends."""
        self.clear()
        scopes = {*chain.from_iterable(each.scopes for each in lock_set)} - {None}
        claims = sorted({*chain.from_iterable(each.claims for each in lock_set)})
        holders = sorted({*chain.from_iterable(each.holders for each in lock_set)})
        for query in [each.query for each in lock_set if each.query]:
            scopes.update(row[0] for row in self._execute(*query).fetchall())
        around = self._execute(_AROUND, (list(scopes), claims))
        claimed = self._execute(CLAIMS.select + _ANY, (claims,))
        leased = self._execute(LEASES.select + _ANY, (holders,))
        self._scopes.keep(around.fetchall())
        self._claims.keep(claimed.fetchall(), claims)
        self._leases.keep(leased.fetchall(), holders)
        self.good()
