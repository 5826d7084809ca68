"""`python -m benchmarks.footprint [n]`: what processes take, and how quick they are (Linux).

Every process is a supervised agent with its private supervisor, a name, a wallet, and the places
for a mailbox and monitors. Memory is the difference of the resident set, divided by their number;
afterwards every one of them answers. Times are CPU time inside one run: round trips beside a bare
`asyncio.Queue`, the others divided by how much slower a fixed loop is just then than where the
limits were set. Prints its figures last; exits 1 when one falls short.
"""

import asyncio
import gc
import os
import sys
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.asks import ConstantModel
from benchmarks.figures import Figure, at_least, at_most, show
from benchmarks.stalls import watched
from benchmarks.timing import slowness
from vegakit.host import Agent, Process, Reducer
from vegakit.program import ProcessRestarted, ProcessSpawned, Respond
from vegakit.sdk import Runtime

__all__ = ["main"]

PROCESSES = 100_000
AT_ONCE, A_STEP = 50, 10
ROUND_TRIPS, ROUNDS = 2_000, 9
CRASHES = 2_000
ERLANG_PROCESS = 2_616
"""Bytes: 327 words, by the efficiency guide of OTP 27."""


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else PROCESSES
    figures = asyncio.run(_measure(count))
    print(show(figures))
    return 0 if all(figure.holds for figure in figures) else 1


async def _measure(count: int) -> list[Figure]:
    figures = await _request_and_reply()
    figures += await _restarts()
    figures += await _many(count)
    return figures


async def _many(count: int) -> list[Figure]:
    agent = Agent("idle", model=ConstantModel(), memory="conversation")
    told = 0

    def on_spawned(_: ProcessSpawned) -> None:
        nonlocal told
        told += 1

    async with Runtime(None) as rt:
        rt.on(ProcessSpawned, on_spawned)
        rt.spawn(agent, wallet="$2")
        before, slower, began = _resident(), slowness(), time.process_time()
        processes = [rt.spawn(agent, name=f"agent{n}", wallet="$2") for n in range(count)]
        spawns = count * slower / (time.process_time() - began)
        fresh = (_resident() - before) / count
        with watched() as watch:
            for number in (1, 2):
                await _ask_all(processes, f"question {number}")
        longest, collecting = watch.longest.seconds * 1000, watch.longest.collecting * 1000
        cause = f"{longest:.1f} ms measured in {watch.longest.what}, {collecting:.1f} collecting"
        steps_p99 = watch.percentile(0.99) * 1000
        talked = (_resident() - before) / count
        remembered = sum(process.spent > 0 for process in processes)
        slower_then, began = slowness(), time.process_time()
        rt.program.spawn_many(agent, count, wallet="$2")
        many = count * slower_then / (time.process_time() - began)
        slower = (slower + slower_then) / 2  # before and after what is watched
        figures = [
            at_most(1_000, fresh, "bytes", "a fresh process"),
            at_most(
                ERLANG_PROCESS, talked, "bytes", "a process with a conversation of four messages"
            ),
            at_least(40_000, spawns, "a second", "spawns"),
            at_least(100_000, many, "a second", "spawns, by spawn_many"),
            at_most(
                20, longest / slower, "ms", f"longest pause with {count:,} processes ({cause})"
            ),
            at_most(20, steps_p99 / slower, "ms", "of all steps of the loop, p99"),
            at_least(count, remembered, "", "processes that answered"),
            at_least(2 * count + 1, told, "", "spawns that were told"),
        ]
        rt.program.machine.state.processes.clear()  # the account is done; do not end each by itself
        rt.program.machine.state.roots.clear()
        return figures


async def _ask_all(processes: list[Process[Any]], question: str) -> None:
    for start in range(0, len(processes), AT_ONCE):
        batch = processes[start : start + AT_ONCE]
        asked: list[Awaitable[object]] = []
        for number, process in enumerate(batch, start=1):
            asked.append(process.send(question))
            if number % A_STEP == 0:  # what the caller does in one step is its own
                await asyncio.sleep(0)
        await asyncio.gather(*asked)


async def _request_and_reply() -> list[Figure]:
    """The quickest of several rounds of each, taken in turn."""

    def counting(state: int, message: int) -> tuple[int, list[Any]]:
        return state + message, [Respond(state)]

    async def function(message: int) -> int:
        return message

    async with Runtime() as rt:
        with _queue_pair() as echo:
            reducer, foreign = rt.spawn(Reducer("counter", counting, 0)), rt.spawn(function)
            ways: dict[str, Callable[[], Awaitable[Any]]] = {
                "queue": echo,
                "reducer": lambda: reducer.ask(1),
                "function": lambda: foreign.ask(1),
            }
            best = dict.fromkeys(ways, float("inf"))
            for _ in range(ROUNDS):
                for name, way in ways.items():
                    began = time.process_time()
                    for _ in range(ROUND_TRIPS):
                        await way()
                    best[name] = min(best[name], time.process_time() - began)
    return [
        at_most(2.5, _over(best, "reducer"), "queues", "request and reply of a reducer"),
        at_most(2.5, _over(best, "function"), "queues", "request and reply of a function"),
    ]


def _over(best: dict[str, float], name: str) -> float:
    return best[name] / best["queue"]


@contextmanager
def _queue_pair() -> Generator[Callable[[], Awaitable[int]]]:
    there: asyncio.Queue[int] = asyncio.Queue()
    back: asyncio.Queue[int] = asyncio.Queue()

    async def serve() -> None:
        while True:
            back.put_nowait(await there.get())

    async def echo() -> int:
        there.put_nowait(1)
        return await back.get()

    server = asyncio.ensure_future(serve())
    try:
        yield echo
    finally:
        server.cancel()


async def _restarts() -> list[Figure]:
    """From the line that raises to the first line of the next life, among a thousand others."""
    raised = 0.0
    delays: list[float] = []

    async def fragile(message: str) -> None:
        nonlocal raised
        if raised:
            delays.append(time.perf_counter() - raised)
            raised = 0.0
            return
        raised = time.perf_counter()
        raise ValueError(message)

    async def other(message: str) -> str:
        return message

    async with Runtime() as rt:
        restarted = 0

        def on_restarted(_: ProcessRestarted) -> None:
            nonlocal restarted
            restarted += 1

        rt.on(ProcessRestarted, on_restarted)
        rt.program.spawn_many(other, 1_000)
        for _ in range(CRASHES):
            process = rt.spawn(fragile)
            await process.ask("boom")
            await process.stop()
    delays.sort()
    worst = delays[-len(delays) // 100] * 1000 / slowness()
    return [at_most(1, worst, "ms", "crashed and running again, p99 among 1,000 processes")]


def _resident() -> int:
    gc.collect()
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    sys.exit(main())
