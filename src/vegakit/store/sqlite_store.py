"""Small documents on a SQLite file that any number of processes share."""

from collections.abc import Callable, Sequence
from os import PathLike, fspath
from typing import Any

from vegakit.store.documents import check_name
from vegakit.store.secret import RowSeals, seal_of_user
from vegakit.store.sqlite_file import Format, Synchronous
from vegakit.store.sqlite_thread import FileDesk, SqliteThread

__all__ = ["DOCUMENTS", "SqliteStore"]

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
        self._thread = thread or SqliteThread(place, DOCUMENTS, synchronous, FileDesk)
        self._seals = RowSeals(place, seal_of_user)

    async def get(self, kind: str, key: str) -> tuple[bytes, int] | None:
        def work(desk: FileDesk) -> tuple[tuple[bytes, int] | None, Callable[[], object]]:
            return self._found(desk, kind, key), _nothing

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

        def work(desk: FileDesk) -> tuple[list[str], Callable[[], object]]:
            return [key for (key,) in desk.file.execute(_KEYS, values)], _nothing

        return await self._thread.do(work)

    async def aclose(self) -> None:
        """Everything called before is carried out first."""
        if self._owns_thread:
            await self._thread.aclose()

    def _found(self, desk: FileDesk, kind: str, key: str) -> tuple[bytes, int] | None:
        found = desk.file.execute(_GET, (kind, key)).fetchall()
        for _, _, value, version in self._seals.checked("documents", found):
            return value, version
        return None

    async def _change(
        self, kind: str, key: str, expected: int, statement: str, *values: object
    ) -> bool:
        """Only if the version there is the one expected; none is version 0."""

        def work(desk: FileDesk) -> tuple[bool, Callable[[], object]]:
            found = self._found(desk, kind, key)
            fits = (found[1] if found else 0) == expected
            return fits, lambda: fits and desk.file.execute(statement, values)

        return await self._thread.do(work)


def _nothing() -> None:
    pass
