"""What keeping a call costs: `python -m benchmarks.journal_cost`.

The CPU of an ask with a journal and a ledger on disk, less that of one that keeps nothing, beside
two bare SQLite transactions with the same settings that the model of such an ask hands to a bare
thread: one claims, one records. Asks come one by one, and many at once, which share transactions.
Rounds of all take turns, so that what else the machine does falls on each alike. Held is the most
that was measured when journal and ledger had come into one file, so that it does not become more;
the targets that were set for it before are printed beside it, and are not met.

Then runs of many recorded calls are taken up again: what it costs to begin and to answer each call
from the journal must not grow with their number.
"""

import asyncio
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, closing, suppress
from pathlib import Path

from benchmarks.figures import Figure, at_most, show
from benchmarks.handing import BareThread
from vegakit.conversation import ModelReply, ModelRequest
from vegakit.host import Agent, Process, Reply
from vegakit.ports import Journal
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime
from vegakit.store import MemoryLedger

__all__ = ["AT_ONCE", "CALLS", "ROUNDS", "asking", "main", "nothing", "spawned"]

ROUNDS, CALLS = 15, 64
AT_ONCE = 16
MOST_ALONE, MOST_AT_ONCE = 3.1, 1.2
"""Times two bare transactions that are handed to a thread within an ask: the most of three
measurements, see docs/benchmarks.md."""
TARGET_ALONE, TARGET_AT_ONCE = 1.2, 0.4
RECORDED = (1_000, 2_000, 4_000, 8_000)
MOST_GROWTH = 1.5
"""Of the cost for each call, from the shortest journal to the longest."""
_DISK = Path(".bench")
"""Not the system's folder for temporary files, which may be in memory."""
_OUTCOME = "x" * 300
"""As long as a short answer is when it is recorded."""


async def cpu_us(work: Callable[[], Awaitable[object]], calls: int = CALLS) -> float:
    """Of all threads, the kernel's work for them included, for one of its calls."""
    began = time.process_time()
    await work()
    return (time.process_time() - began) / calls * 1e6


class Bare:
    def __init__(self, path: Path) -> None:
        self._file = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._file.execute("PRAGMA journal_mode = wal")
        self._file.execute("PRAGMA synchronous = full")
        self._file.execute("CREATE TABLE effects (key TEXT PRIMARY KEY, outcome TEXT)")
        self._next = 0

    async def transact(self) -> None:
        for _ in range(CALLS):
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


def asking(process: Process[Reply[str]], at_once: int) -> Callable[[], Awaitable[None]]:
    async def ask() -> None:
        for _ in range(CALLS // at_once):
            await asyncio.gather(*(process.ask("a question") for _ in range(at_once)))

    return ask


async def spawned(
    stack: AsyncExitStack,
    journal: Journal | Path | None,
    work: Callable[[], Awaitable[None]] = nothing,
) -> Process[Reply[str]]:
    """With a journal the ledger is in the same place; without one both keep nothing."""
    ledger = MemoryLedger() if journal is None else None
    runtime = Runtime(None, ledger=ledger, journal=journal)
    return (await stack.enter_async_context(runtime)).spawn(Agent("a", model=Working(work)))


async def measure(folder: Path) -> dict[str, float]:
    """The median of each, in microseconds of CPU."""
    async with AsyncExitStack() as stack:
        bare = stack.enter_context(closing(Bare(folder / "a.db")))
        handed = stack.enter_context(closing(Bare(folder / "b.db")))
        thread, kept = BareThread(), await spawned(stack, folder / "run.db")
        unkept = await spawned(stack, None)
        works = {
            "bare": bare.transact,
            "handed": asking(await spawned(stack, None, lambda: handed.hand_over(thread)), 1),
            "kept alone": asking(kept, 1),
            "unkept alone": asking(unkept, 1),
            "kept": asking(kept, AT_ONCE),
            "unkept": asking(unkept, AT_ONCE),
        }
        rounds = [[await cpu_us(work) for work in works.values()] for _ in range(ROUNDS + 1)]
    columns = zip(*rounds[1:], strict=True)
    return dict(zip(works, map(statistics.median, columns), strict=True))


class _CutOffError(Exception):
    pass


async def resume_us(path: Path, calls: int) -> float:
    """Of one call in a run of so many that is taken up again: begun, and each answered from the
    journal."""
    agent = Agent("a", model=ScriptedModel(lambda _: "an answer"))

    async def ask_all() -> None:
        async with Runtime(None, journal=path) as rt:
            process = rt.spawn(agent)
            for begins in range(0, calls, AT_ONCE):
                numbers = range(begins, min(begins + AT_ONCE, calls))
                await asyncio.gather(*(process.ask(f"question {n}") for n in numbers))
            raise _CutOffError

    async def cut_off() -> None:
        with suppress(_CutOffError):
            await ask_all()

    await cut_off()
    return await cpu_us(cut_off, calls)


def figures_of(us: dict[str, float], resumed: dict[int, float]) -> list[Figure]:
    alone = us["kept alone"] - us["unkept alone"]
    at_once = us["kept"] - us["unkept"]
    handed = us["handed"] - us["unkept alone"]
    shortest, longest = resumed[RECORDED[0]], resumed[RECORDED[-1]]
    return [
        Figure("two bare transactions, one after the other", f"{us['bare']:.1f} us"),
        Figure("  within an ask, handed to a thread", f"{handed:.1f} us"),
        Figure("journal and ledger add to a call asked one by one", f"{alone:.1f} us"),
        at_most(MOST_ALONE, alone / handed, "x", "  in two transactions handed to a thread"),
        _target(TARGET_ALONE, alone / handed),
        Figure(f"journal and ledger add to a call asked {AT_ONCE} at once", f"{at_once:.1f} us"),
        at_most(MOST_AT_ONCE, at_once / handed, "x", "  in two transactions handed to a thread"),
        _target(TARGET_AT_ONCE, at_once / handed),
        *(Figure(f"to resume a run of {n:,}, each call", f"{resumed[n]:.1f} us") for n in RECORDED),
        at_most(MOST_GROWTH, longest / shortest, "x", "  from the shortest to the longest"),
    ]


def _target(target: float, ratio: float) -> Figure:
    """Told, not held."""
    met = "met" if ratio <= target else f"missed by {ratio / target:.1f} x"
    return Figure(f"  target of at most {target:g} x", met)


async def measured(folder: Path) -> list[Figure]:
    us = await measure(folder)
    resumed = {calls: await resume_us(folder / f"{calls}.db", calls) for calls in RECORDED}
    return figures_of(us, resumed)


def main() -> int:
    _DISK.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_DISK) as folder:
        figures = asyncio.run(measured(Path(folder)))
    print(show(figures))
    return int(not all(figure.holds for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
