"""What keeping a call on PostgreSQL costs: `python -m benchmarks.postgres_cost`.

The CPU of an ask with journal and ledger on a server, less that of one that keeps nothing, beside
the same statements sent by a bare thread of psycopg in the middle of such an ask: the statements of
one ask are recorded, and sent again under other names, in the same two transactions, by pipelines
that read where ours reads. Nothing is decided, sealed or spelled there. Counted is this process
with all its threads and the process that the server has for the connection; rounds take turns, and
the ratio is that of the medians. Needs a PostgreSQL server (`bash .ci/servers`). Exits 1 when the
ratio is above its limit.
"""

import asyncio
import statistics
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import AsyncExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast
from unittest import mock

import psycopg
from psycopg import sql

from benchmarks.figures import Figure, show
from benchmarks.handing import BareThread
from benchmarks.journal_cost import AT_ONCE, CALLS, ROUNDS, asking, spawned
from benchmarks.postgres import DSN
from vegakit.store import PostgresJournal
from vegakit.store.postgres.connection import PostgresSession

__all__ = ["main"]

MOST_TIMES = 1.3
_WRITES = ("INSERT", "UPDATE", "DELETE", "COMMIT")


class Cost(NamedTuple):
    """Microseconds of CPU for a call, of this process and of the server's."""

    ours: float
    server: float

    @property
    def both(self) -> float:
        return self.ours + self.server


class Statement(NamedTuple):
    """A statement as psycopg takes it, with its values."""

    text: bytes
    values: tuple[Any, ...]


@contextmanager
def _overheard() -> Generator[list[Statement]]:
    """Note every statement of every session that is opened within."""
    heard: list[Statement] = []
    one: Any = PostgresSession.execute
    many: Any = PostgresSession.executemany

    def execute(self: PostgresSession, statement: str, values: Any = ()) -> Any:
        heard.append(Statement(statement.replace("?", "%s").encode(), tuple(values)))
        return one(self, statement, values)

    def executemany(self: PostgresSession, statement: str, rows: Any) -> None:
        known = len(heard)
        many(self, statement, rows)
        del heard[known:]  # what it has executed one by one
        text = statement.replace("?", "%s").encode()
        heard.extend(Statement(text, tuple(row)) for row in rows)

    with (
        mock.patch.object(PostgresSession, "execute", execute),
        mock.patch.object(PostgresSession, "executemany", executemany),
    ):
        yield heard


async def recorded(schema: str) -> list[list[Statement]]:
    """The transactions of one ask, after others that warmed up; `KEY` stands for its key."""
    with _overheard() as heard:
        async with AsyncExitStack() as stack:
            process = await spawned(stack, PostgresJournal(DSN, schema=schema))
            await process.ask("a question")
            heard.clear()
            await process.ask("a question")
            statements = [*heard]
    begins = [at for at, one in enumerate(statements) if one.text.startswith(b"BEGIN")]
    transactions = [statements[a:b] for a, b in zip(begins, [*begins[1:], None], strict=True)]
    assert len(transactions) == 2, [one.text for one in statements]
    claims = [one for one in statements if one.text.startswith(b"INSERT INTO effects")]
    assert len(claims) == 1
    return [[_renamed(one, claims[0].values[0], "KEY") for one in part] for part in transactions]


def _renamed(statement: Statement, old: str, new: str) -> Statement:
    def put(value: Any) -> Any:
        if isinstance(value, list):
            return [put(one) for one in cast("list[Any]", value)]
        return value.replace(old, new) if isinstance(value, str) else value

    return Statement(statement.text, tuple(put(value) for value in statement.values))


class Bare:
    """A connection on which the statements of a call are sent again."""

    def __init__(self, schema: str, transactions: Sequence[Sequence[Statement]]) -> None:
        self.connection = psycopg.connect(DSN, autocommit=True)
        name = sql.Identifier(schema)
        self.connection.execute(sql.SQL("SET search_path TO {}").format(name))
        self._transactions, self._thread, self._next = transactions, BareThread(), 0
        self._ready: list[list[list[Statement]]] = []

    def prepare(self) -> None:
        """Put the names of so many calls into their statements, which no round shall pay for."""
        self._ready = []
        for _ in range(CALLS):
            self._next += 1
            key = f"{uuid.uuid4().hex}.{self._next}"
            self._ready.append(
                [[_renamed(one, "KEY", key) for one in part] for part in self._transactions]
            )

    async def send_again(self) -> None:
        for transaction in self._ready.pop():
            await self._thread.do(lambda part=transaction: self._transact(part))

    def _transact(self, statements: Sequence[Statement]) -> None:
        """Ours fetches what it has read before it writes, and the number before it commits."""
        with self.connection.pipeline():
            reading: list[Any] = []
            for text, values in statements:
                if text.startswith(_PREFIXES):
                    for cursor in reading:
                        cursor.fetchall()
                    reading.clear()
                cursor = self.connection.execute(text, values)
                if text.startswith((b"SELECT", b"\n    WITH")):
                    reading.append(cursor)

    def close(self) -> None:
        self.connection.close()


_PREFIXES = tuple(word.encode() for word in _WRITES)


def _server_ns(backends: Sequence[int]) -> int:
    """How long processes of the server have run; the machine is the same."""
    times = (Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii") for pid in backends)
    return sum(int(one.split()[0]) for one in times)


async def _cost(backends: Sequence[int], work: Callable[[], Awaitable[object]]) -> Cost:
    server, began = _server_ns(backends), time.process_time_ns()
    await work()
    ours = time.process_time_ns() - began
    # The server answers before it has cleaned up after a transaction.
    await asyncio.sleep(0.01)
    return Cost(ours / CALLS / 1e3, (_server_ns(backends) - server) / CALLS / 1e3)


async def measure(schema: str, other: str) -> dict[str, Cost]:
    """The median of each, in microseconds of CPU. The bare ones have a schema of their own, where
    nobody else looks for what a dead holder left behind."""
    transactions = await recorded(other)
    async with AsyncExitStack() as stack:
        bare = stack.enter_context(closing(Bare(other, transactions)))
        kept = await spawned(stack, PostgresJournal(DSN, schema=schema))
        unkept = await spawned(stack, None)
        handed = await spawned(stack, None, bare.send_again)
        works = {
            "bare": asking(handed, 1),
            "kept": asking(kept, 1),
            "unkept": asking(unkept, 1),
            "kept at once": asking(kept, AT_ONCE),
            "unkept at once": asking(unkept, AT_ONCE),
        }
        await kept.ask("a question")
        backends = _backends()
        rounds = list[list[Cost]]()
        for _ in range(ROUNDS + 1):
            bare.prepare()
            rounds.append([await _cost(backends, work) for work in works.values()])
    columns = zip(*rounds[1:], strict=True)
    return dict(zip(works, map(_median, columns), strict=True))


def _backends() -> list[int]:
    """The processes that the server has for this one: those that look at our database."""
    with psycopg.connect(DSN) as server:
        here = server.info.backend_pid
        found = server.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
            " AND client_port IS NOT NULL AND pid <> %s",
            (here,),
        ).fetchall()
    return [pid for (pid,) in found if Path(f"/proc/{pid}/schedstat").exists()]


def _median(costs: Sequence[Cost]) -> Cost:
    return Cost(*(statistics.median(column) for column in zip(*costs, strict=True)))


def figures_of(costs: dict[str, Cost]) -> list[Figure]:
    def added(name: str, without: str) -> Cost:
        with_it, less = costs[name], costs[without]
        return Cost(with_it.ours - less.ours, with_it.server - less.server)

    bare, kept = added("bare", "unkept"), added("kept", "unkept")
    at_once = added("kept at once", "unkept at once")
    shown = [
        Figure(
            f"{what}: {one.ours:.0f} here + {one.server:.0f} at the server", f"{one.both:.0f} us"
        )
        for what, one in (
            ("the same statements bare, handed to a thread within an ask", bare),
            ("journal and ledger add to a call asked one by one", kept),
            (f"journal and ledger add to a call asked {AT_ONCE} at once", at_once),
        )
    ]
    times = kept.both / bare.both
    return [
        *shown,
        Figure("of this process alone", f"{kept.ours / bare.ours:.2f} x"),
        Figure(
            f"{AT_ONCE} at once, to the same statements bare", f"{at_once.both / bare.both:.2f} x"
        ),
        Figure(
            "to the same statements bare",
            f"{times:.2f} x",
            f"≤ {MOST_TIMES:g} x",
            times <= MOST_TIMES,
        ),
    ]


def main() -> int:
    schemas = [f"bench_{uuid.uuid4().hex}" for _ in range(2)]
    try:
        figures = figures_of(asyncio.run(measure(*schemas)))
    finally:
        with psycopg.connect(DSN) as server:
            for schema in map(sql.Identifier, schemas):
                server.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(schema))
    print(show(figures))
    return int(not all(figure.holds for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
