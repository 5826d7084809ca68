"""Small documents on a SQLite file that any number of processes share."""

from collections.abc import Callable, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from vegakit.store.documents import check_name
from vegakit.store.sqlite_file import Format, Synchronous
from vegakit.store.sqlite_thread import SqliteThread

if TYPE_CHECKING:
    import sqlite3

__all__ = ["SqliteStore"]

_DOCUMENTS = Format(
    "documents",
    1,
    (
        """CREATE TABLE documents (
            kind TEXT, key TEXT, version INTEGER NOT NULL, value BLOB NOT NULL,
            PRIMARY KEY (kind, key)
        ) WITHOUT ROWID""",
    ),
)
_GET = "SELECT value, version FROM documents WHERE kind = ? AND key = ?"
_PUT = "REPLACE INTO documents (kind, key, value, version) VALUES (?, ?, ?, ?)"
_DELETE = "DELETE FROM documents WHERE kind = ? AND key = ?"
_KEYS = "SELECT key FROM documents WHERE kind = ? AND key > ? ORDER BY key LIMIT ?"


class SqliteStore:
    def __init__(self, path: str | PathLike[str], *, synchronous: Synchronous = "normal") -> None:
        self._thread = SqliteThread(fspath(path), _DOCUMENTS, synchronous, lambda file: file)

    async def get(self, kind: str, key: str) -> tuple[bytes, int] | None:
        found = await self._read(_GET, kind, key)
        return found[0] if found else None

    async def put(self, kind: str, key: str, value: bytes, *, expected: int) -> bool:
        check_name(kind, key)
        return await self._change(kind, key, expected, _PUT, kind, key, value, expected + 1)

    async def delete(self, kind: str, key: str, *, expected: int) -> bool:
        if expected == 0:
            return False
        return await self._change(kind, key, expected, _DELETE, kind, key)

    async def keys(self, kind: str, *, after: str = "", limit: int = 100) -> Sequence[str]:
        return [key for (key,) in await self._read(_KEYS, kind, after, max(0, limit))]

    async def aclose(self) -> None:
        """Everything called before is carried out first."""
        await self._thread.aclose()

    async def _read(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        def work(
            connection: "sqlite3.Connection",
        ) -> tuple[list[tuple[Any, ...]], Callable[[], object]]:
            return connection.execute(query, values).fetchall(), lambda: None

        return await self._thread.do(work)

    async def _change(
        self, kind: str, key: str, expected: int, statement: str, *values: object
    ) -> bool:
        """Only if the version there is the one expected; none is version 0."""

        def work(connection: "sqlite3.Connection") -> tuple[bool, Callable[[], object]]:
            found = connection.execute(_GET, (kind, key)).fetchone()
            fits = (found[1] if found else 0) == expected
            return fits, lambda: fits and connection.execute(statement, values)

        return await self._thread.do(work)
