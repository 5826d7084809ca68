"""What keeping a call costs: `python -m benchmarks.journal_cost`.

The CPU of an ask of a process with a journal, less that of one without, beside two bare SQLite
transactions on the same file system: one claims, one records. Asks come one by one, and many at
once, which share transactions. Rounds of all take turns, so that what else the machine does falls
on each alike; the ledger is in memory in both kinds of ask.
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

ROUNDS, CALLS = 15, 64
AT_ONCE = 16
MOST_US = 300
MOST_TIMES = 2
_DISK = Path(".bench")
"""Not the system's folder for temporary files, which may be in memory."""
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


def asking(process: Process[str], at_once: int) -> Callable[[], Awaitable[None]]:
    async def ask() -> None:
        for _ in range(CALLS // at_once):
            await asyncio.gather(*(process.ask("a question") for _ in range(at_once)))

    return ask


async def measure(folder: Path) -> dict[str, float]:
    """The median of each, in microseconds of CPU."""
    agent = Agent("a", model=ScriptedModel(lambda _: "an answer"))
    async with AsyncExitStack() as stack:
        bare = stack.enter_context(closing(Bare(folder / "bare.db")))
        kept, unkept = [
            (
                await stack.enter_async_context(
                    Runtime(None, ledger=MemoryLedger(), journal=journal)
                )
            ).spawn(agent)
            for journal in (folder / "run.db", None)
        ]
        works = {
            "bare": bare.transact,
            "kept alone": asking(kept, 1),
            "unkept alone": asking(unkept, 1),
            "kept": asking(kept, AT_ONCE),
            "unkept": asking(unkept, AT_ONCE),
        }
        rounds = [[await cpu_us(work) for work in works.values()] for _ in range(ROUNDS + 1)]
    columns = zip(*rounds[1:], strict=True)
    return dict(zip(works, map(statistics.median, columns), strict=True))


def main() -> int:
    _DISK.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_DISK) as folder:
        us = asyncio.run(measure(Path(folder)))
    figures = [Figure("two bare transactions", f"{us['bare']:.1f} us")]
    for what, added in (
        ("asked one by one", us["kept alone"] - us["unkept alone"]),
        (f"asked {AT_ONCE} at once", us["kept"] - us["unkept"]),
    ):
        figures += [
            at_most(MOST_US, added, "us", f"a journal adds to a call {what}, CPU"),
            at_most(MOST_TIMES, added / us["bare"], "x", "  in pairs of bare transactions"),
        ]
    print(show(figures))
    return int(not all(figure.holds for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
