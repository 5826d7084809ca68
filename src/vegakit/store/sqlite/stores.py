"""Ledger, documents, memory and cached replies on SQLite files that any number of processes share.

`kill -9` at any instant loses no operation whose result was returned. With `synchronous="full"`
the same holds when the power fails.
"""

import logging
from asyncio import Future
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from itertools import islice
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, TypeVar

from vegakit.conversation import Message, ModelReply, ModelRequest
from vegakit.errors import InvalidRecordError, StoreError
from vegakit.records import digest128, from_json, to_json
from vegakit.store.conversations import (
    MemoryLine,
    bounded,
    check_name,
    check_turn,
    holds,
    lines_of,
    message_of,
    search_words,
    whole_turns,
)
from vegakit.store.journal import EffectRow
from vegakit.store.ledger import SqlLedger
from vegakit.store.ledger_rows import LEDGER, LedgerRows
from vegakit.store.seals import RowSeals, user_seal
from vegakit.store.sqlite.connection import SqliteHandle, SqliteThread, Synchronous
from vegakit.store.tenants import SqlTenantStore, tenant_tables
from vegakit.store.thread import Format, Work

if TYPE_CHECKING:
    import sqlite3

_LOG = logging.getLogger("vegakit")


# The ledger on a SQLite file that any number of processes share.
#
# `kill -9` at any instant loses no answered operation; what a dead process had reserved comes back
# when its lease ends. With `synchronous="full"` the same holds when the power fails.


class LedgerHandle(SqliteHandle):
    """Holds the rows of the ledger that were read, as long as they are good, and the seals of all
    rows of the file."""

    def __init__(self, file: "sqlite3.Connection", place: str) -> None:
        super().__init__(file)
        self.seals = RowSeals(place, user_seal)
        self.rows = _FileRows(file, self.seals)
        self.claimed: dict[str, EffectRow] = {}

    def begin(self) -> None:
        """Ask anew, once in this transaction, whether another process has written."""
        self.rows.forget_version()

    def flush(self) -> None:
        """Once for a transaction: a scope that many calls in it moved is one statement."""
        self.rows.flush()


class SqliteLedger(SqlLedger):
    """Implements `ports.Ledger` on a file."""

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        synchronous: Synchronous = "normal",
        thread: SqliteThread[LedgerHandle] | None = None,
    ) -> None:
        """`thread` is one that others use, too, and that they close."""
        place = fspath(path)
        make = partial(LedgerHandle, place=place)
        own = thread or SqliteThread(place, LEDGER, synchronous, make)
        super().__init__(own, lambda handle: handle.rows, owns_thread=thread is None)


class _FileRows(LedgerRows):
    def __init__(self, connection: "sqlite3.Connection", seals: RowSeals) -> None:
        self._known: int | None = None
        self._file = connection
        super().__init__(connection, self._data_version, seals=seals)

    def forget_version(self) -> None:
        """It is asked for once in each transaction, during which nobody else writes."""
        self._known = None

    def _data_version(self) -> int:
        if self._known is None:
            self._known = int(self._file.execute("PRAGMA data_version").fetchone()[0])
        return self._known


# Small documents on a SQLite file that any number of processes share.


DOCUMENTS = Format(
    "documents",
    2,
    (
        """CREATE TABLE documents (
            kind TEXT, key TEXT, version INTEGER NOT NULL, value BLOB NOT NULL,
            seal BLOB NOT NULL, PRIMARY KEY (kind, key)
        ) WITHOUT ROWID""",
    ),
)
_GET = "SELECT kind, key, value, version, seal FROM documents WHERE kind = ? AND key = ?"
_PUT = "REPLACE INTO documents (kind, key, value, version, seal) VALUES (?, ?, ?, ?, ?)"
_DELETE = "DELETE FROM documents WHERE kind = ? AND key = ?"
_KEYS = "SELECT key FROM documents WHERE kind = ? AND key > ? ORDER BY key LIMIT ?"


class SqliteStore:
    """Implements `ports.Store` on a file."""

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        synchronous: Synchronous = "normal",
        thread: SqliteThread[Any] | None = None,
    ) -> None:
        """`thread` is one that others use, too, and that they close."""
        place = fspath(path)
        self._owns_thread = thread is None
        self._thread = thread or SqliteThread(place, DOCUMENTS, synchronous, SqliteHandle)
        self._seals = RowSeals(place, user_seal)

    async def get(self, kind: str, key: str) -> tuple[bytes, int] | None:
        def work(handle: SqliteHandle) -> tuple[tuple[bytes, int] | None, Callable[[], object]]:
            return self._found(handle, kind, key), _nothing

        return await self._thread.do(work)

    async def put(self, kind: str, key: str, value: bytes, *, expected: int) -> bool:
        check_name(kind, key)
        row = (kind, key, value, expected + 1)
        sealed = (*row, self._seals.of("documents", row))
        return await self._change(kind, key, expected, _PUT, *sealed)

    async def delete(self, kind: str, key: str, *, expected: int) -> bool:
        if expected == 0:
            return False
        return await self._change(kind, key, expected, _DELETE, kind, key)

    async def keys(self, kind: str, *, after: str = "", limit: int = 100) -> Sequence[str]:
        values = (kind, after, max(0, limit))

        def work(handle: SqliteHandle) -> tuple[list[str], Callable[[], object]]:
            return [key for (key,) in handle.file.execute(_KEYS, values)], _nothing

        return await self._thread.do(work)

    async def aclose(self) -> None:
        """Everything called before is carried out first."""
        if self._owns_thread:
            await self._thread.aclose()

    def _found(self, handle: SqliteHandle, kind: str, key: str) -> tuple[bytes, int] | None:
        found = handle.file.execute(_GET, (kind, key)).fetchall()
        for _, _, value, version in self._seals.checked("documents", found):
            return value, version
        return None

    async def _change(
        self, kind: str, key: str, expected: int, statement: str, *values: object
    ) -> bool:
        """Only if the version there is the one expected; none is version 0."""

        def work(handle: SqliteHandle) -> tuple[bool, Callable[[], object]]:
            found = self._found(handle, kind, key)
            fits = (found[1] if found else 0) == expected
            return fits, lambda: fits and handle.file.execute(statement, values)

        return await self._thread.do(work)


def _nothing() -> None:
    pass


def sqlite_stores(path: str) -> tuple[SqliteStore, ...]:
    """Return the documents in a file, which are those of its journal, too."""
    return (SqliteStore(path),)


def sqlite_tenants(path: str | PathLike[str]) -> SqlTenantStore:
    """Return the state of tenants in a file. What was answered is on disk (`synchronous=full`)."""
    tables = tenant_tables(blob="BLOB", big="INTEGER", text="TEXT")
    return SqlTenantStore([SqliteThread(fspath(path), tables, "full", SqliteHandle)])


# Memory on a SQLite file that any number of processes share.
#
# Search reads an FTS5 index. Whether a file has one is settled when it is made: a file made where
# SQLite lacks FTS5 is searched line by line, by everyone, so that no search ever misses a line
# that another process wrote without the index.


T = TypeVar("T")

_TABLES = (
    """CREATE TABLE lines (
        id INTEGER PRIMARY KEY, owner TEXT NOT NULL, turn INTEGER NOT NULL, said TEXT NOT NULL,
        words TEXT NOT NULL
    )""",
    "CREATE INDEX lines_of ON lines (owner)",
    "CREATE TABLE turn_keys (owner TEXT, key TEXT, PRIMARY KEY (owner, key)) WITHOUT ROWID",
)
_INDEX = """CREATE VIRTUAL TABLE line_index USING fts5(
    words, content = 'lines', content_rowid = 'id', tokenize = 'ascii', detail = none
)"""
"""Words are cut and folded before they come here: `ascii` only parts them at their spaces."""

_APPEND = "INSERT INTO lines (id, owner, turn, said, words) VALUES (?, ?, ?, ?, ?)"
_ENTER = "INSERT INTO line_index (rowid, words) VALUES (?, ?)"
_STRIKE = (
    "INSERT INTO line_index (line_index, rowid, words)"
    " SELECT 'delete', id, words FROM lines WHERE owner = ?"
)
_LATEST = "SELECT turn, said FROM lines WHERE owner = ? ORDER BY id DESC LIMIT ?"
_FIND = (
    "SELECT said FROM line_index CROSS JOIN lines ON id = line_index.rowid"
    " WHERE line_index MATCH ? ORDER BY line_index.rowid DESC LIMIT ?"
)
_KEEP = "INSERT INTO turn_keys VALUES (?, ?)"
_NEXT = "SELECT coalesce(max(id), 0) + 1 FROM lines"
_READ = "SELECT said, words FROM lines WHERE owner = ? ORDER BY id DESC"
_KNOWS = "SELECT 1 FROM turn_keys WHERE owner = ? AND key = ?"


def has_fts5(connection: "sqlite3.Connection") -> bool:
    """Say whether this SQLite can index words."""
    import sqlite3

    try:
        connection.execute("CREATE VIRTUAL TABLE temp.tried USING fts5(words)")
    except sqlite3.DatabaseError:
        return False
    connection.execute("DROP TABLE temp.tried")
    return True


class SqliteMemory:
    """Implements `ports.Memory` on a file."""

    def __init__(self, path: str | PathLike[str], *, synchronous: Synchronous = "normal") -> None:
        import sqlite3

        with closing(sqlite3.connect(":memory:")) as tried:
            fts5 = has_fts5(tried)
        file = Format("memory", 1, (*_TABLES, _INDEX) if fts5 else _TABLES)
        name = fspath(path)
        self._thread = SqliteThread(
            name, file, synchronous, lambda connection: _MemoryHandle(connection, name, fts5=fts5)
        )

    async def append(
        self, owner: str, messages: Sequence[Message], *, key: str | None = None
    ) -> bool:
        check_turn(owner, key)
        lines = lines_of(owner, messages)
        return await self._thread.do(lambda handle: handle.append(owner, lines, key))

    async def load(self, owner: str, limit: int = 100) -> Sequence[Message]:
        check_turn(owner)
        most = bounded(limit)
        return whole_turns(await self._read(lambda handle: handle.latest(owner, most + 1)), most)

    async def search(self, owner: str, query: str, limit: int = 10) -> Sequence[Message]:
        check_turn(owner)
        words, most = search_words(query), bounded(limit)
        if not words:
            return []
        return [
            message_of(s) for s in await self._read(lambda handle: handle.find(owner, words, most))
        ]

    async def forget(self, owner: str) -> None:
        check_turn(owner)
        await self._thread.do(lambda handle: (None, lambda: handle.forget(owner)))

    async def aclose(self) -> None:
        """Everything called before is carried out first."""
        await self._thread.aclose()

    def _read(self, look: "Callable[[_MemoryHandle], T]") -> "Future[T]":
        return self._thread.do(lambda handle: (look(handle), lambda: None))


class _MemoryHandle(SqliteHandle):
    def __init__(self, connection: "sqlite3.Connection", path: str, *, fts5: bool) -> None:
        super().__init__(connection)
        made = "SELECT 1 FROM sqlite_master WHERE name = 'line_index'"
        self._indexed = self.execute(made).fetchone() is not None
        if self._indexed and not fts5:
            raise StoreError(
                f"{path} is searched by FTS5, which the SQLite of this Python lacks; "
                "use a Python whose SQLite has it, or name another file"
            )

    def append(
        self, owner: str, lines: list[MemoryLine], key: str | None
    ) -> tuple[bool, Callable[[], None]]:
        if key is not None and self.execute(_KNOWS, (owner, key)).fetchone():
            return False, lambda: None
        (turn,) = self.execute(_NEXT).fetchone()
        return True, lambda: self._write(owner, turn, lines, key)

    def _write(self, owner: str, turn: int, lines: list[MemoryLine], key: str | None) -> None:
        mark = _mark(owner)
        rows = [
            (id_, owner, turn, line.said, f" {mark}{line.words}")
            for id_, line in enumerate(lines, turn)
        ]
        self.executemany(_APPEND, rows)
        if self._indexed:
            self.executemany(_ENTER, [(row[0], row[-1]) for row in rows])
        if key is not None:
            self.execute(_KEEP, (owner, key))

    def latest(self, owner: str, most: int) -> list[tuple[int, str]]:
        return self.execute(_LATEST, (owner, most)).fetchall()

    def find(self, owner: str, words: list[str], most: int) -> list[str]:
        if self._indexed:
            query = " ".join(f'"{word}"' for word in (_mark(owner), *words))
            return [said for (said,) in self.execute(_FIND, (query, most))]
        rows = self.execute(_READ, (owner,))
        return list(islice((said for said, held in rows if holds(held, words)), most))

    def forget(self, owner: str) -> None:
        if self._indexed:
            self.execute(_STRIKE, (owner,))
        for table in ("lines", "turn_keys"):
            self.execute(f"DELETE FROM {table} WHERE owner = ?", (owner,))  # noqa: S608  (ours)


def _mark(owner: str) -> str:
    """Stands in the index before a line's words, so that a search reads no line of another owner.
    It is no word, so neither a query nor a text can forge it."""
    return f"§{digest128(owner)}"


# Replies of models that are given again to the same request, on a SQLite file that any number of
# processes share.
#
# A row is found by the digest of its request, and forgotten by age and by number when another is
# written. It is sealed like a recorded answer: who could put a reply here would speak as the model.


REPLIES = Format(
    "cached replies",
    1,
    (
        """CREATE TABLE cached_replies (
            request TEXT PRIMARY KEY, at_ms INTEGER NOT NULL, reply BLOB NOT NULL,
            seal BLOB NOT NULL
        )""",
        "CREATE INDEX cached_replies_by_age ON cached_replies (at_ms)",
    ),
)
_REPLY = "SELECT request, at_ms, reply, seal FROM cached_replies WHERE request = ? AND at_ms > ?"
_CACHE = "REPLACE INTO cached_replies (request, at_ms, reply, seal) VALUES (?, ?, ?, ?)"
_EXPIRE = "DELETE FROM cached_replies WHERE at_ms <= ?"
_EVICT = (
    "DELETE FROM cached_replies WHERE rowid IN"
    " (SELECT rowid FROM cached_replies ORDER BY at_ms DESC, rowid DESC LIMIT -1 OFFSET ?)"
)
_WEEK_MS = 7 * 86_400_000


class ReplyCache:
    """The replies of models on a file, by request: at most `entries` of them, each given again
    until it is `keep_ms` old. A file that cannot be used costs nobody an answer: nothing is found
    there and nothing kept."""

    def __init__(
        self, path: str | PathLike[str], *, keep_ms: int = _WEEK_MS, entries: int = 10_000
    ) -> None:
        place = fspath(path)
        self._keep_ms, self._entries = keep_ms, entries
        self._thread = SqliteThread(place, REPLIES, "normal", SqliteHandle)
        self._seals = RowSeals(place, user_seal)
        self._is_usable = True

    async def get(self, request: ModelRequest, now: int) -> ModelReply | None:
        """Return the reply to a request that was the same, unless it is too old."""
        wanted = (digest128(request), now - self._keep_ms)

        def work(handle: SqliteHandle) -> tuple[ModelReply | None, Callable[[], object]]:
            found = handle.execute(_REPLY, wanted).fetchall()
            rows = self._seals.checked("cached_replies", found)
            return next((from_json(ModelReply, row[2]) for row in rows), None), _nothing

        return await self._tried(work)

    async def put(self, request: ModelRequest, reply: ModelReply, now: int) -> None:
        """Keep a reply, and forget the ones that are too old or too many."""
        row = (digest128(request), now, to_json(reply))

        def work(handle: SqliteHandle) -> tuple[None, Callable[[], object]]:
            sealed = (*row, self._seals.of("cached_replies", row))

            def write() -> None:
                handle.execute(_EXPIRE, (now - self._keep_ms,))
                handle.execute(_CACHE, sealed)
                handle.execute(_EVICT, (self._entries,))

            return None, write

        await self._tried(work)

    async def _tried(self, work: Work[SqliteHandle, T]) -> T | None:
        """A file that failed is not tried again: one that another process holds would have every
        call wait for it."""
        if not self._is_usable:
            return None
        try:
            return await self._thread.do(work)
        except (StoreError, InvalidRecordError) as error:
            if self._is_usable:
                self._is_usable = False
                _LOG.warning("replies are cached no longer by this runtime: %s", error)
            return None

    async def aclose(self) -> None:
        """Everything called before is carried out first."""
        await self._thread.aclose()
