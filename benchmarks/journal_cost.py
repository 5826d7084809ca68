"""What keeping a call costs: `python -m benchmarks.journal_cost`.

The CPU of an ask of a process with a journal, less that of one without, beside two bare SQLite
transactions on the same file system: one claims, one records. Asks come one by one, and many at
once, which share transactions. Rounds of all take turns, so that what else the machine does falls
on each alike; the ledger is in memory in every kind of ask.

Two rows show how low it could be: the same bare transactions made by the model of an ask without a
journal, on the loop itself, and each handed to a thread and back. Between other work they cost
about twice what they cost one after the other.
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
from benchmarks.handing import BareThread
from vegakit.conversation import ModelReply, ModelRequest
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
        self._file = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._file.execute("PRAGMA journal_mode = wal")
        self._file.execute("PRAGMA synchronous = full")
        self._file.execute("CREATE TABLE effects (key TEXT PRIMARY KEY, outcome TEXT)")
        self._next = 0

    async def transact(self) -> None:
        for _ in range(CALLS):
            await self.claim_and_record()

    async def claim_and_record(self) -> None:
        self.claim()
        self.record()

    async def hand_over(self, thread: BareThread) -> None:
        await thread.do(self.claim)
        await thread.do(self.record)

    def claim(self) -> None:
        self._next += 1
        self._transact("INSERT INTO effects VALUES (?, NULL)", self._key)

    def record(self) -> None:
        self._transact("UPDATE effects SET outcome = ? WHERE key = ?", _OUTCOME, self._key)

    def close(self) -> None:
        self._file.close()

    @property
    def _key(self) -> str:
        return f"{self._next:032x}"

    def _transact(self, statement: str, *values: str) -> None:
        self._file.execute("BEGIN IMMEDIATE")
        self._file.execute(statement, values)
        self._file.execute("COMMIT")


class Working(ScriptedModel):
    """Does something before it answers."""

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        super().__init__(lambda _: "an answer")
        self._work = work

    async def ask(self, request: ModelRequest) -> ModelReply:
        await self._work()
        return await super().ask(request)


async def nothing() -> None:
    pass


def asking(process: Process[str], at_once: int) -> Callable[[], Awaitable[None]]:
    async def ask() -> None:
        for _ in range(CALLS // at_once):
            await asyncio.gather(*(process.ask("a question") for _ in range(at_once)))

    return ask


async def spawned(
    stack: AsyncExitStack, journal: Path | None, work: Callable[[], Awaitable[None]] = nothing
) -> Process[str]:
    runtime = Runtime(None, ledger=MemoryLedger(), journal=journal)
    return (await stack.enter_async_context(runtime)).spawn(Agent("a", model=Working(work)))


async def measure(folder: Path) -> dict[str, float]:
    """The median of each, in microseconds of CPU."""
    async with AsyncExitStack() as stack:
        bare, within, handed = [
            stack.enter_context(closing(Bare(folder / f"{name}.db"))) for name in ("a", "b", "c")
        ]
        thread, kept = BareThread(), await spawned(stack, folder / "run.db")
        unkept = await spawned(stack, None)
        works = {
            "bare": bare.transact,
            "bare within": asking(await spawned(stack, None, within.claim_and_record), 1),
            "handed": asking(await spawned(stack, None, lambda: handed.hand_over(thread)), 1),
            "kept alone": asking(kept, 1),
            "unkept alone": asking(unkept, 1),
            "kept": asking(kept, AT_ONCE),
            "unkept": asking(unkept, AT_ONCE),
        }
        rounds = [[await cpu_us(work) for work in works.values()] for _ in range(ROUNDS + 1)]
    columns = zip(*rounds[1:], strict=True)
    return dict(zip(works, map(statistics.median, columns), strict=True))


def figures_of(us: dict[str, float]) -> list[Figure]:
    alone = us["unkept alone"]
    figures = [
        Figure("two bare transactions, one after the other", f"{us['bare']:.1f} us"),
        Figure("  within an ask, on the loop", f"{us['bare within'] - alone:.1f} us"),
        Figure("  within an ask, handed to a thread", f"{us['handed'] - alone:.1f} us"),
    ]
    for what, added in (
        ("asked one by one", us["kept alone"] - alone),
        (f"asked {AT_ONCE} at once", us["kept"] - us["unkept"]),
    ):
        figures += [
            at_most(MOST_US, added, "us", f"a journal adds to a call {what}, CPU"),
            at_most(MOST_TIMES, added / us["bare"], "x", "  in pairs of bare transactions"),
        ]
    return figures


def main() -> int:
    _DISK.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_DISK) as folder:
        figures = figures_of(asyncio.run(measure(Path(folder))))
    print(show(figures))
    return int(not all(figure.holds for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
