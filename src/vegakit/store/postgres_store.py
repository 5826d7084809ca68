"""Small documents on a PostgreSQL server that any number of processes share."""

from asyncio import Future
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

from vegakit.store.documents import check_name
from vegakit.store.postgres_server import Session, key_lock
from vegakit.store.postgres_thread import PostgresThread
from vegakit.store.sqlite_file import Format

__all__ = ["NamedLocks", "PostgresStore"]

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

    def __init__(self, session: Session) -> None:
        self.execute, self._session = session.execute, session

    @contextmanager
    def locked(self, touched: Sequence[int | None]) -> Generator[None]:
        self._session.lock({key for key in touched if key is not None})
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
        return self._thread.do(lambda desk: (desk.execute(query, values).fetchall(), lambda: None))

    def _change(
        self, kind: str, key: str, expected: int, statement: str, *values: object
    ) -> "Future[bool]":
        """Only if the version there is the one expected; none is version 0."""

        def work(desk: NamedLocks) -> tuple[bool, Callable[[], object]]:
            found = desk.execute(_GET, (kind, key)).fetchone()
            fits = (found[1] if found else 0) == expected
            return fits, lambda: fits and desk.execute(statement, values)

        return self._thread.do(work, key_lock(self._schema, kind, key))
