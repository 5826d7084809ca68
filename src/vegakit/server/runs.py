"""Programs that run for clients: processes below the one that holds the server's wallet, and the
progress reported while they run.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from contextvars import Context, copy_context
from decimal import Decimal
from typing import Any, TypeAlias

from msgspec import Struct, json

from vegakit.errors import VegaError, error_name
from vegakit.host import Process
from vegakit.money import NANOS, Money
from vegakit.policy import Grant, sanitise
from vegakit.program import Printed
from vegakit.sdk import Runtime, VegaProgram
from vegakit.vm import json_text, restored

# What a run prints, told while it runs; and that it still runs, to who would give it up.


ProgressCallback: TypeAlias = Callable[[int, str], Awaitable[None]]
"""How often it was told, and what is new."""

_MOST_LINES = 50
_MAX_CHARACTERS = 500
_EVERY_S = 10.0
_PAUSE_S = 0.2


class Progress:
    """The lines that a run prints, on their way to its client. Lines that come faster than they can
    be told are dropped, the oldest first: all of them stand in the result."""

    def __init__(self, report_progress: ProgressCallback) -> None:
        self._report_progress = report_progress
        self._lines: deque[str] = deque(maxlen=_MOST_LINES)
        self._more = asyncio.Event()
        self._reporter = asyncio.ensure_future(self._keep())
        self._reporter.add_done_callback(_discard_error)

    def add(self, line: str) -> None:
        """Tell a line soon."""
        self._lines.append(line[:_MAX_CHARACTERS])
        self._more.set()

    def close(self) -> None:
        """Tell nothing more."""
        self._reporter.cancel()

    async def _keep(self) -> None:
        count = 0
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._more.wait(), _EVERY_S)
            self._more.clear()
            count += 1
            said = "".join(self._lines)
            self._lines.clear()
            await self._report_progress(count, said)
            await asyncio.sleep(_PAUSE_S)


def _discard_error(reporter: "asyncio.Task[None]") -> None:
    """A client that is gone is not told: its request ends for that reason elsewhere."""
    if not reporter.cancelled():
        reporter.exception()


# Programs that run for clients: processes below one that holds the wallet of the server.
#
#     mcp                 its wallet is all that this server may spend, whoever asks
#     ├── run-1           its wallet is what was quoted, set aside before the first call
#     │   └── main        the program
#     └── run-2
#
# A run ends with the request that waits for it, and all of them end with the server.


_ROOT = "mcp"
_MICRO = NANOS // 1_000_000
_MOST_FUEL = 20_000_000
_MOST_PRINTED = 20_000
_MOST_RESULT = 100_000


class RunResult(Struct, frozen=True):
    """A run that has ended; `error` is empty when it came to its end."""

    id: str
    result: Any
    error: str
    printed: str
    spent: Money


class _Job(Struct):
    program: VegaProgram
    given: Sequence[Any]
    printed: list[str]
    progress: Progress | None
    room: int = _MOST_PRINTED


class Runs:
    """The runs of a server, as processes below the one that holds its wallet."""

    def __init__(self, runtime: Runtime, budget: Money, most: Grant) -> None:
        """Take the budget of all runs together, and `most`, what a program may touch at most,
        whatever it declares."""
        self._runtime = runtime
        self._most = most
        self._budget = budget
        self._jobs: dict[str, _Job] = {}
        self._count = 0
        self._context: asyncio.Future[Context] = asyncio.get_running_loop().create_future()
        self._body = self._run
        self._ending: set[asyncio.Task[Any]] = set()

    async def open(self) -> "asyncio.Future[Any]":
        """Start the process that holds the wallet, and return a future that is done when it is
        gone."""
        self._runtime.on(Printed, self._on_printed)
        wallet = _text(Money(self._budget - self._budget % _MICRO))
        root = self._runtime.spawn(self._hold, name=_ROOT, wallet=wallet, restart="temporary")
        await self._context
        return root.monitor()

    async def run(
        self,
        program: VegaProgram,
        given: Sequence[Any],
        wallet: Money,
        report_progress: ProgressCallback | None = None,
    ) -> RunResult:
        """Run a program to its end; `report_progress` is called with what it prints."""
        self._count += 1
        name = f"run-{self._count}"
        process = await self._spawn(name, Money(-(-wallet // _MICRO) * _MICRO))
        job = _Job(
            program, given, [], None if report_progress is None else Progress(report_progress)
        )
        self._jobs[name] = job
        try:
            said = await process.ask(name)
            return RunResult(
                name, said["result"], said["error"], "".join(job.printed), Money(int(process.spent))
            )
        finally:
            del self._jobs[name]
            if job.progress is not None:
                job.progress.close()
            ending = asyncio.ensure_future(process.kill())
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)
            await asyncio.shield(ending)

    def left(self) -> Money:
        """Return what no run holds and none has spent."""
        root = next((view for view in self._runtime.ps() if view.path == _ROOT), None)
        return Money(0) if root is None or root.left is None else root.left

    async def _hold(self) -> None:
        """Hold the wallet: what is spawned in this context is below this process, and paid from its
        wallet."""
        self._context.set_result(copy_context())
        await asyncio.Event().wait()

    async def _spawn(self, name: str, wallet: Money) -> Process[Any]:
        context = await self._context
        spawn, text = self._runtime.spawn, _text(wallet)
        return context.run(lambda: spawn(self._body, name=name, wallet=text, restart="temporary"))

    async def _run(self, name: str) -> dict[str, Any]:
        job = self._jobs[name]
        try:
            program = self._runtime.program
            value = await program.run_ephemeral(job.program, job.given, self._most, _MOST_FUEL)
        except VegaError as error:
            return {"result": None, "error": f"{error_name(error)}: {error}"}
        text = json_text(restored(value))
        if len(text) > _MOST_RESULT:
            why = f"LimitReached: its result has {len(text):,} characters, at most {_MOST_RESULT:,}"
            return {"result": None, "error": f"{why} are given back; return less"}
        return {"result": json.decode(text), "error": ""}

    def _on_printed(self, news: Printed) -> None:
        above, _, below = news.path.partition("/")
        job = self._jobs.get(below.partition("/")[0]) if above == _ROOT else None
        if job is None:
            return
        line = sanitise(news.text) + "\n"
        if job.progress is not None:
            job.progress.add(line)
        if job.room <= 0:
            return
        job.printed.append(line if len(line) <= job.room else line[: job.room] + "… cut\n")
        job.room -= len(line)


def run_id(path: str) -> str:
    """Return the id by which clients know a process of a run; empty if it is of none."""
    return path.removeprefix(f"{_ROOT}/") if path.startswith(f"{_ROOT}/") else ""


def run_path(run: str) -> str:
    """Return the path of a process that clients know by this id."""
    return f"{_ROOT}/{run}"


def _text(amount: Money) -> str:
    return f"${Decimal(amount) / NANOS:.6f}"
