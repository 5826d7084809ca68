"""Memory on a SQLite file that any number of processes share.

Search reads an FTS5 index. Whether a file has one is settled when it is made: a file made where
SQLite lacks FTS5 is searched line by line, by everyone, so that no search ever misses a line that
another process wrote without the index.
"""

from asyncio import Future
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import islice
from os import PathLike, fspath
from typing import TYPE_CHECKING, TypeVar

from vegakit.conversation import Message
from vegakit.errors import StoreError
from vegakit.records import digest128
from vegakit.store.memories import (
    Line,
    bounded,
    check_turn,
    holds,
    lines_of,
    message_of,
    wanted,
    whole_turns,
)
from vegakit.store.sqlite_file import Format, Synchronous
from vegakit.store.sqlite_thread import FileDesk, SqliteThread

if TYPE_CHECKING:
    import sqlite3

__all__ = ["SqliteMemory", "has_fts5"]

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
    import sqlite3

    try:
        connection.execute("CREATE VIRTUAL TABLE temp.tried USING fts5(words)")
    except sqlite3.DatabaseError:
        return False
    connection.execute("DROP TABLE temp.tried")
    return True


class SqliteMemory:
    def __init__(self, path: str | PathLike[str], *, synchronous: Synchronous = "normal") -> None:
        import sqlite3

        with closing(sqlite3.connect(":memory:")) as tried:
            fts5 = has_fts5(tried)
        file = Format("memory", 1, (*_TABLES, _INDEX) if fts5 else _TABLES)
        name = fspath(path)
        self._thread = SqliteThread(
            name, file, synchronous, lambda connection: _Desk(connection, name, fts5=fts5)
        )

    async def append(
        self, owner: str, messages: Sequence[Message], *, key: str | None = None
    ) -> bool:
        check_turn(owner, key)
        lines = lines_of(owner, messages)
        return await self._thread.do(lambda desk: desk.append(owner, lines, key))

    async def load(self, owner: str, limit: int = 100) -> Sequence[Message]:
        check_turn(owner)
        most = bounded(limit)
        return whole_turns(await self._read(lambda desk: desk.latest(owner, most + 1)), most)

    async def search(self, owner: str, query: str, limit: int = 10) -> Sequence[Message]:
        check_turn(owner)
        words, most = wanted(query), bounded(limit)
        if not words:
            return []
        return [message_of(s) for s in await self._read(lambda desk: desk.find(owner, words, most))]

    async def forget(self, owner: str) -> None:
        check_turn(owner)
        await self._thread.do(lambda desk: (None, lambda: desk.forget(owner)))

    async def aclose(self) -> None:
        """Everything called before is carried out first."""
        await self._thread.aclose()

    def _read(self, look: "Callable[[_Desk], T]") -> "Future[T]":
        return self._thread.do(lambda desk: (look(desk), lambda: None))


class _Desk(FileDesk):
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
        self, owner: str, lines: list[Line], key: str | None
    ) -> tuple[bool, Callable[[], None]]:
        if key is not None and self.execute(_KNOWS, (owner, key)).fetchone():
            return False, lambda: None
        (turn,) = self.execute(_NEXT).fetchone()
        return True, lambda: self._write(owner, turn, lines, key)

    def _write(self, owner: str, turn: int, lines: list[Line], key: str | None) -> None:
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
