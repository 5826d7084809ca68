"""Memory on a PostgreSQL server that any number of processes share.

Owners, keys and words may be of any length and hold any character, and PostgreSQL indexes neither
long texts nor NUL: they are kept as digests.
"""

from asyncio import Future
from collections.abc import Callable, Sequence
from typing import TypeVar

from vegakit.conversation import Message
from vegakit.records import digest128
from vegakit.store.memories import (
    Line,
    bounded,
    check_turn,
    lines_of,
    message_of,
    wanted,
    whole_turns,
)
from vegakit.store.postgres_server import key_lock, one
from vegakit.store.postgres_store import NamedLocks
from vegakit.store.postgres_thread import PostgresThread
from vegakit.store.sqlite_file import Format

__all__ = ["PostgresMemory"]

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
        self._thread = PostgresThread(dsn, schema, _MEMORY, _Desk)

    async def append(
        self, owner: str, messages: Sequence[Message], *, key: str | None = None
    ) -> bool:
        check_turn(owner, key)
        lines, name = lines_of(owner, messages), digest128(owner)
        known_as = None if key is None else digest128(key)
        return await self._thread.do(
            lambda desk: desk.append(name, lines, known_as), self._locked(name)
        )

    async def load(self, owner: str, limit: int = 100) -> Sequence[Message]:
        check_turn(owner)
        most, name = bounded(limit), digest128(owner)
        return whole_turns(await self._read(lambda desk: desk.latest(name, most + 1)), most)

    async def search(self, owner: str, query: str, limit: int = 10) -> Sequence[Message]:
        check_turn(owner)
        words, most, name = wanted(query), bounded(limit), digest128(owner)
        if not words:
            return []
        return [message_of(s) for s in await self._read(lambda desk: desk.find(name, words, most))]

    async def forget(self, owner: str) -> None:
        check_turn(owner)
        name = digest128(owner)
        await self._thread.do(lambda desk: (None, lambda: desk.forget(name)), self._locked(name))

    async def aclose(self) -> None:
        """Everything called before is carried out first."""
        await self._thread.aclose()

    def _read(self, look: "Callable[[_Desk], T]") -> "Future[T]":
        return self._thread.do(lambda desk: (look(desk), lambda: None))

    def _locked(self, owner: str) -> int:
        return key_lock(self._schema, "memory", owner)


class _Desk(NamedLocks):
    def append(
        self, owner: str, lines: list[Line], key: str | None
    ) -> tuple[bool, Callable[[], None]]:
        if key is not None and self.execute(_KNOWS, (owner, key)).fetchone():
            return False, lambda: None
        turn: int = one(self.execute(_NEXT, (owner,)))
        return True, lambda: self._write(owner, turn, lines, key)

    def _write(self, owner: str, turn: int, lines: list[Line], key: str | None) -> None:
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
