"""What keeping a call costs: `python -m benchmarks.journal_cost`.

The CPU of an ask of a process with a journal, less that of one without, beside two bare SQLite
transactions on the same file system: one claims, one records. Rounds of all three take turns, so
that what else the machine does falls on each alike; the ledger is in memory in both kinds of ask.
"""

import asyncio
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, closing
from pathlib import Path

from benchmarks.figures import Figure, at_most, show
from vegakit.runtime import Agent, Process, Runtime
from vegakit.store import MemoryLedger
from vegakit.testing import ScriptedModel

__all__ = ["main"]

ROUNDS, CALLS = 15, 60
MOST_US = 300
MOST_TIMES = 2
_OUTCOME = "x" * 300
"""As long as a short answer is when it is recorded."""


async def cpu_us(work: Callable[[], Awaitable[object]]) -> float:
    """Of all threads, the kernel's work for them included, for one of its calls."""
    began = time.process_time()
    await work()
    return (time.process_time() - began) / CALLS * 1e6


class Bare:
    def __init__(self, path: Path) -> None:
        self._file = sqlite3.connect(path, isolation_level=None)
        self._file.execute("PRAGMA journal_mode = wal")
        self._file.execute("PRAGMA synchronous = full")
        self._file.execute("CREATE TABLE effects (key TEXT PRIMARY KEY, outcome TEXT)")
        self._next = 0

    async def transact(self) -> None:
        for _ in range(CALLS):
            self._next += 1
            key = f"{self._next:032x}"
            self._transact("INSERT INTO effects VALUES (?, NULL)", key)
            self._transact("UPDATE effects SET outcome = ? WHERE key = ?", _OUTCOME, key)

    def close(self) -> None:
        self._file.close()

    def _transact(self, statement: str, *values: str) -> None:
        self._file.execute("BEGIN IMMEDIATE")
        self._file.execute(statement, values)
        self._file.execute("COMMIT")


def asking(process: Process[str]) -> Callable[[], Awaitable[None]]:
    async def ask() -> None:
        for _ in range(CALLS):
            await process.ask("a question")

    return ask


async def measure(folder: Path) -> tuple[float, float]:
    """What the journal adds to a call, and two bare transactions, in microseconds of CPU."""
    agent = Agent("a", model=ScriptedModel(lambda _: "an answer"))
    async with AsyncExitStack() as stack:
        bare = stack.enter_context(closing(Bare(folder / "bare.db")))
        runtimes = [
            await stack.enter_async_context(Runtime(None, ledger=MemoryLedger(), journal=journal))
            for journal in (folder / "run.db", None)
        ]
        works = [*(asking(rt.spawn(agent)) for rt in runtimes), bare.transact]
        rounds = [[await cpu_us(work) for work in works] for _ in range(ROUNDS + 1)][1:]
    added = statistics.median(kept - unkept for kept, unkept, _ in rounds)
    return added, statistics.median(bare for _, _, bare in rounds)


def main() -> int:
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        added, bare = asyncio.run(measure(Path(folder)))
    figures = [
        Figure("two bare transactions", f"{bare:.1f} us"),
        at_most(MOST_US, added, "us", "a journal adds to a call, CPU"),
        at_most(MOST_TIMES, added / bare, "x", "that in two bare transactions"),
    ]
    print(show(figures))
    return int(not all(figure.holds for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
