"""How long one step of ours holds the event loop: `python -m benchmarks.stalls [full] [NAME …]`.

A step is one callback of the loop. It counts with the CPU time of the loop's thread and with the
time that it slept in calls that block. That is what is left of the time that passed without waiting
for a core, which Linux tells, and without what other threads of the process worked meanwhile, which
had the interpreter: a thread that merely waits for its turn holds nothing up. Long steps of the
garbage collector are told apart. For each work the longest step, the 99th percentile and what the
longest was; each has to stay below 20 ms. Prints its figures last; exits 1 when one falls short.
"""

import argparse
import asyncio
import gc
import os
import resource
import sys
import tempfile
import time
from asyncio import events
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec

from benchmarks.asks import ConstantModel
from benchmarks.figures import Figure, at_most, show
from vegakit.conversation import AssistantMessage, ModelReply, ModelRequest, Text, Usage
from vegakit.host import Agent
from vegakit.lang import check_program, compile_program
from vegakit.program import Bounds
from vegakit.sdk import Runtime, VegaProgram

__all__ = ["WORKS", "LoopWatch", "main", "watched"]

MOST_MS = 20
FEW, MANY = 1_000, 10_000
_RUN = "_run"
"""The method of asyncio by which every callback is called."""
_LEAST_S = 0.005
"""A shorter sleep is not looked for: the clocks are not read in one moment."""

_AGENT = 'agent echo { model "any" max_tokens 50 }\n'
_CHAIN = _AGENT + (
    'fn main(n: int) -> int { let x = "a"; for i in range(n) { x = echo <- "{i} {x}"; } '
    "return len(x); }"
)
_FAN_OUT = _AGENT + (
    'fn main(n: int) -> int { let fs = [for i in range(n) { async echo <- "{i}" }]; '
    "let all = [for f in fs { await f }]; return len(all); }"
)
_SPAWNS = _AGENT + (
    "fn main(n: int) -> int { let ps = [for i in range(n) { spawn echo }]; return len(ps); }"
)
_COMPUTE = "fn main(n: int) -> int { let s = 0; for i in range(100 * n) { s = s + i; } return s; }"


class Step(NamedTuple):
    """What held the loop, and of that how long the collector ran."""

    seconds: float
    collecting: float
    what: str


class LoopWatch:
    """The steps that were taken while it watched."""

    def __init__(self) -> None:
        self.took: list[float] = []
        self.longest = Step(0.0, 0.0, "")
        self.is_open = True
        self._collecting = 0.0
        self._began = 0.0

    def note(self, seconds: float, handle: Any) -> None:
        if not self.is_open:  # the rest of the step in which the watch ended is somebody else's
            return
        self.took.append(seconds)
        if seconds > self.longest.seconds:
            self.longest = Step(seconds, self._collecting, _name_of(handle))
        self._collecting = 0.0

    def collected(self, phase: str, _: object) -> None:
        if phase == "start":
            self._began = time.thread_time()
        else:
            self._collecting += time.thread_time() - self._began

    def percentile(self, share: float) -> float:
        ordered = sorted(self.took)
        return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else 0.0


def _name_of(handle: Any) -> str:
    """What a callback is: of a task the innermost coroutine of ours that it is in."""
    callback = getattr(handle, "_callback", None)
    task: Any = getattr(callback, "__self__", None)
    if isinstance(task, asyncio.Task):
        of: Any = cast("asyncio.Task[Any]", task).get_coro()
        names = [getattr(of, "__qualname__", "?")]
        while (of := getattr(of, "cr_await", None)) is not None and hasattr(of, "cr_code"):
            names.append(of.__qualname__)
        return " > ".join(names[-3:])
    return getattr(callback, "__qualname__", repr(callback))


@contextmanager
def watched() -> Generator[LoopWatch]:
    """Watch every callback of the loops of this thread."""
    watch, run = LoopWatch(), getattr(events.Handle, _RUN)

    def timed(handle: Any) -> None:
        before = _Clocks.before()
        run(handle)
        watch.note(_Clocks.after().held_since(before), handle)

    setattr(events.Handle, _RUN, timed)
    gc.callbacks.append(watch.collected)
    try:
        yield watch
    finally:
        watch.is_open = False
        gc.callbacks.remove(watch.collected)
        setattr(events.Handle, _RUN, run)


class _Clocks(NamedTuple):
    """Seconds: that passed, of CPU of this thread and of all threads, and waiting for a core, also
    of all threads, since another one may have the interpreter meanwhile; and how often this thread
    gave its core away by itself, as who sleeps does."""

    passed: float
    mine: float
    all: float
    queued: float
    gave_way: int

    @classmethod
    def before(cls) -> "_Clocks":
        """What passes is read last: the thread may lose its core between two clocks, and that
        has to count as waiting for a core."""
        queued, gave_way = _queued_s(), _gave_way()
        return cls(time.monotonic(), time.thread_time(), time.process_time(), queued, gave_way)

    @classmethod
    def after(cls) -> "_Clocks":
        passed, mine, everyone = time.monotonic(), time.thread_time(), time.process_time()
        return cls(passed, mine, everyone, _queued_s(), _gave_way())

    def held_since(self, before: "_Clocks") -> float:
        passed, mine, everyone, queued, gave_way = (
            now - was for now, was in zip(self, before, strict=True)
        )
        slept = passed - queued - max(mine, everyone)
        return mine + (slept if gave_way and slept > _LEAST_S else 0.0)


def _queued_s() -> float:
    queued = 0
    for thread in os.listdir("/proc/self/task"):  # noqa: PTH208
        # A thread that ended in between waits for nothing any more.
        with (
            suppress(OSError),
            open(f"/proc/self/task/{thread}/schedstat", "rb") as file,  # noqa: PTH123
        ):
            queued += int(file.read().split()[1])
    return queued / 1e9


def _gave_way() -> int:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


class _Late(ConstantModel):
    """Answers after a moment, so that what is begun at once is in flight at once."""

    def __init__(self, text: str = "Paris.") -> None:
        self._said = ModelReply(AssistantMessage((Text(text),), self.name), Usage(12, 3))

    async def ask(self, request: ModelRequest) -> ModelReply:
        await asyncio.sleep(0.05)
        return self._said


def _compiled(text: str) -> VegaProgram:
    checked, diagnostics = check_program(text, "main.vega", lambda _path: None)
    assert checked is not None, diagnostics
    return VegaProgram(compile_program(checked), Path())


async def _run(text: str, size: int) -> LoopWatch:
    model, compiled = _Late(), _compiled(text)
    async with Runtime("$100000", models=lambda _: model, bounds=_bounds(size)) as rt:
        await rt.run(compiled, 2)
        with watched() as watch:
            await rt.run(compiled, size)
    return watch


def _bounds(size: int) -> Bounds:
    return Bounds(living=3 * size + 10, width=3 * size + 10)


async def _programs(size: int) -> LoopWatch:
    model, compiled = _Late(), _compiled(_CHAIN)
    async with Runtime("$100000", models=lambda _: model, bounds=_bounds(size)) as rt:
        await rt.run(compiled, 2)
        with watched() as watch:
            async with asyncio.TaskGroup() as group:
                for number in range(size):
                    group.create_task(rt.run(compiled, 2))
                    if number % 100 == 0:  # what the caller does in one step is its own
                        await asyncio.sleep(0)
    return watch


async def _asks(size: int) -> LoopWatch:
    agent = Agent("a", model=_Late(), max_tokens=50)
    async with Runtime("$100000", bounds=_bounds(size)) as rt:
        await rt.ask(agent, "hello")
        with watched() as watch:
            async with asyncio.TaskGroup() as group:
                for number in range(size):
                    group.create_task(rt.ask(agent, f"question {number}"))
                    if number % 100 == 0:
                        await asyncio.sleep(0)
    return watch


async def _journaled(size: int) -> LoopWatch:
    model, compiled = _Late(), _compiled(_FAN_OUT)
    with tempfile.TemporaryDirectory() as folder:
        async with Runtime(
            "$100000", models=lambda _: model, journal=Path(folder) / "run.db"
        ) as rt:
            await rt.run(compiled, 2)
            with watched() as watch:
                await rt.run(compiled, size)
    return watch


async def _large(size: int) -> LoopWatch:
    """Answers of a hundred characters for each unit: a megabyte for the many."""
    text = "All work and no play, and so on, " * 3 * size
    agent = Agent("a", model=_Late(text), max_tokens=50, memory="conversation")
    async with Runtime("$100000") as rt:
        process = rt.spawn(agent)
        await process.ask("hello")
        with watched() as watch:
            for number in range(10):
                await process.ask(f"question {number}")
    return watch


@dataclass
class _Item:
    name: str
    size: int
    about: str


@dataclass
class _Found:
    items: list[_Item]


async def _typed(size: int) -> LoopWatch:
    found = _Found([_Item(f"n {n}", n, "x" * 40) for n in range(size)])
    text = msgspec.json.encode(found).decode()
    agent = Agent("a", model=_Late(text), max_tokens=50, output_type=_Found)
    async with Runtime("$100000") as rt:
        await rt.ask(agent, "hello")
        with watched() as watch:
            for number in range(5):
                await rt.ask(agent, f"question {number}")
    return watch


async def _life(size: int) -> LoopWatch:
    """Asks beside many idle processes: what the collector goes through."""
    agent = Agent("idle", model=ConstantModel(), memory="conversation")
    async with Runtime(None) as rt:
        processes = [rt.spawn(agent) for _ in range(10 * size)]
        with watched() as watch:
            for start in range(0, len(processes), 50):
                await asyncio.gather(*(one.send("hello") for one in processes[start : start + 50]))
        rt.program.machine.state.processes.clear()
        rt.program.machine.state.roots.clear()
    return watch


WORKS: dict[str, tuple[str, Callable[[int], Coroutine[Any, Any, LoopWatch]]]] = {
    "programs": ("programs at once", _programs),
    "asks": ("asks at once", _asks),
    "fan-out": ("asks of one program", lambda size: _run(_FAN_OUT, size)),
    "journaled": ("asks of one program, with a journal", _journaled),
    "spawns": ("spawns of one program", lambda size: _run(_SPAWNS, size)),
    "compute": ("hundreds of steps that compute", lambda size: _run(_COMPUTE, size)),
    "large": ("hundred letters in each answer", _large),
    "typed": ("records in each answer", _typed),
    "life": ("tens of idle processes beside asks", _life),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stalls")
    parser.add_argument("words", nargs="*", metavar="full | NAME")
    chosen = parser.parse_args()
    names = [word for word in chosen.words if word != "full"] or [*WORKS]
    if unknown := {*names} - {*WORKS}:
        parser.error(f"no work is called {min(unknown)}")
    size = MANY if "full" in chosen.words else FEW
    figures: list[Figure] = []
    for name in names:
        gc.collect()
        unit, work = WORKS[name]
        watch = asyncio.run(work(size))
        step, p99 = watch.longest, watch.percentile(0.99) * 1e3
        longest = f"{step.seconds * 1e3:.1f} ms ({step.collecting * 1e3:.1f} of it collecting)"
        steps = f"{len(watch.took):>9,} steps, p99 {p99:.2f} ms"
        print(f"{name:<10} {steps}, longest {longest}: {step.what}", flush=True)
        figures.append(at_most(MOST_MS, step.seconds * 1e3, "ms", f"{size:,} {unit}: longest step"))
    print(show(figures))
    return int(not all(figure.holds for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
