"""`python -m benchmarks.fan_outs [N]`: N calls at once, by us, by LangGraph and by bare asyncio.

All but one use the same HTTP client, ours, against one provider behind a socket, so that what
differs is what a way adds: `asyncio.gather` adds nothing. Each way of each round has a process of
its own, and the ways take turns; CPU is that of the calls, without starting up, memory what the
process took at its peak beyond what it took after a few calls. Prints its figures last; exits 1
when an answer is missing or a way did not run. `bash benchmarks/peers_setup.sh` installs LangGraph.
"""

import asyncio
import json
import os
import platform
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from importlib import import_module
from itertools import count as count_from
from operator import add
from pathlib import Path
from statistics import median
from typing import Annotated, Any, TypedDict

from campaigns.callers import (
    ANSWER,
    CALLERS,
    MAX_TOKENS,
    PROMPT,
    WIRES,
    access,
    folder_of,
    langchain_model,
)

from benchmarks.figures import Figure, show
from benchmarks.wire import BENCH_PYTHON, NO_NETWORK, ROOT

__all__ = ["main"]

CALLS, WARM_UP, ROUNDS = 1_000, 20, 5
WIRE = "openai-chat"
FanOut = Callable[[int], Awaitable[list[str]]]
_PROGRAM = f"""\
agent asker {{ model "{WIRE}:{WIRES[WIRE].model}" max_tokens {MAX_TOKENS} }}
fn main(n: int) -> [str] {{
    let asked = [for i in range(n) {{ async asker <- "{PROMPT}" }}];
    return [for one in asked {{ await one }}];
}}
"""


def _langgraph(
    *, own_client: bool = False, journaled: bool = False
) -> Callable[[str, AsyncExitStack], Awaitable[FanOut]]:
    """A `Send` for each call."""

    async def opened(url: str, stack: AsyncExitStack) -> FanOut:
        client = await CALLERS["vega's wire alone"].open(WIRE, url, stack)
        ask = _by(langchain_model(WIRE, url)) if own_client else client.ask
        graphs: Any = import_module("langgraph.graph")
        send: Any = import_module("langgraph.types").Send

        class State(TypedDict):
            count: int
            made: Annotated[list[str], add]

        async def each(_state: object) -> dict[str, list[str]]:
            return {"made": [await ask()]}

        def to_each(state: State) -> list[Any]:
            return [send("each", {}) for _ in range(state["count"])]

        graph = graphs.StateGraph(State)
        graph.add_node("each", each)
        graph.add_conditional_edges(graphs.START, to_each, ["each"])
        graph.add_edge("each", graphs.END)
        saver = await _saver(stack) if journaled else None
        compiled = graph.compile(checkpointer=saver)
        threads = count_from(1)

        async def run(count: int) -> list[str]:
            thread = {"configurable": {"thread_id": str(next(threads))}}
            return (await compiled.ainvoke({"count": count, "made": []}, thread))["made"]

        return run

    return opened


def _by(model: Any) -> Callable[[], Awaitable[str]]:
    async def ask() -> str:
        return (await model.ainvoke(PROMPT)).text

    return ask


async def _saver(stack: AsyncExitStack) -> Any:
    """Its checkpoints in a SQLite file, where each answer is kept as it comes."""
    sqlite: Any = import_module("langgraph.checkpoint.sqlite.aio")
    path = folder_of(stack) / "checkpoints.db"
    return await stack.enter_async_context(sqlite.AsyncSqliteSaver.from_conn_string(str(path)))


def _asks(caller: str) -> Callable[[str, AsyncExitStack], Awaitable[FanOut]]:
    """Calls begun together, each by itself."""

    async def opened(url: str, stack: AsyncExitStack) -> FanOut:
        client = await CALLERS[caller].open(WIRE, url, stack)

        async def run(count: int) -> list[str]:
            return await asyncio.gather(*(client.ask() for _ in range(count)))

        return run

    return opened


def _program(*, journaled: bool) -> Callable[[str, AsyncExitStack], Awaitable[FanOut]]:
    """One program with as many sends, priced before the first."""

    async def opened(url: str, stack: AsyncExitStack) -> FanOut:
        from vegakit.lang import check_program, compile_program
        from vegakit.providers import build_model
        from vegakit.sdk import Runtime, VegaProgram
        from vegakit.store import open_journal

        checked, found = check_program(_PROGRAM, "main.vega", lambda _path: None)
        assert checked is not None, found
        program = VegaProgram(compile_program(checked), Path())
        keys = access(url)
        journal = open_journal(folder_of(stack) / "runs.db") if journaled else None
        rt = await stack.enter_async_context(
            Runtime("$100000", models=lambda name: build_model(name, keys), journal=journal)
        )

        async def run(count: int) -> list[str]:
            return await rt.run(program, count)

        return run

    return opened


WAYS: dict[str, Callable[[str, AsyncExitStack], Awaitable[FanOut]]] = {
    "asyncio.gather": _asks("vega's wire alone"),
    "LangGraph": _langgraph(),
    "LangGraph, its own client": _langgraph(own_client=True),
    "LangGraph, checkpoints in SQLite": _langgraph(journaled=True),
    "Vega, asks": _asks("vega in memory"),
    "Vega, a program": _program(journaled=False),
    "Vega, a journaled program": _program(journaled=True),
}


async def _measured(way: str, url: str, count: int) -> dict[str, float]:
    async with AsyncExitStack() as stack:
        run = await WAYS[way](f"{url}{WIRES[WIRE].path}", stack)
        await run(WARM_UP)
        before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began, began_cpu = time.perf_counter(), time.process_time()
        answers = await run(count)
        took, cpu = time.perf_counter() - began, time.process_time() - began_cpu
    right = sum(answer.strip() == ANSWER for answer in answers)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib
    return {"right": right, "cpu_s": cpu, "took_s": took, "memory_mb": grown_kib / 1024}


def _in_a_process(way: str, url: str, count: int) -> dict[str, float] | None:
    ran = subprocess.run(
        [BENCH_PYTHON, "-m", "benchmarks.fan_outs", way, url, str(count)],
        cwd=ROOT,
        env={**os.environ, **NO_NETWORK, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        print(f"{way}: {ran.stderr.strip() or ran.stdout.strip()}", file=sys.stderr)
        return None
    return json.loads(ran.stdout)


def _report(count: int) -> int:
    if not BENCH_PYTHON.exists():
        print("LangGraph is not installed here; type: bash benchmarks/peers_setup.sh")
        return 1
    server = [sys.executable, "-m", "vegakit.testing.provider"]
    with subprocess.Popen(server, cwd=ROOT, stdout=subprocess.PIPE, text=True) as provider:
        assert provider.stdout
        url = provider.stdout.readline().strip()
        try:
            came = [{way: _in_a_process(way, url, count) for way in WAYS} for _ in range(ROUNDS)]
        finally:
            provider.kill()
    figures = [figure for way in WAYS for figure in _figures(way, came, count)]
    print(f"Python {platform.python_version()}, {platform.machine()}, {count:,} calls at once\n")
    print(show(figures))
    return int(not all(figure.holds for figure in figures))


def _figures(way: str, came: list[dict[str, dict[str, float] | None]], count: int) -> list[Figure]:
    rounds = [(one[way], one["asyncio.gather"]) for one in came]
    whole = [(ours, bare) for ours, bare in rounds if ours is not None and bare is not None]
    if len(whole) < ROUNDS:
        return [Figure(way, "did not run", holds=False)]
    right = min(ours["right"] for ours, _ in whole)
    cpu_ms = median(ours["cpu_s"] for ours, _ in whole) / count * 1_000
    ratio = median(ours["cpu_s"] / bare["cpu_s"] for ours, bare in whole)
    took = median(ours["took_s"] for ours, _ in whole)
    memory = median(ours["memory_mb"] for ours, _ in whole)
    return [
        Figure(f"{way}: right answers", f"{right:,.0f}", f"{count:,}", right == count),
        Figure(f"{way}: CPU of a call", f"{cpu_ms:.2f} ms"),
        Figure(f"{way}: beside asyncio.gather", f"{ratio:.2f} ×"),
        Figure(f"{way}: all of them", f"{took:.2f} s"),
        Figure(f"{way}: memory at the peak", f"{memory:.1f} MB"),
    ]


def main() -> int:
    match sys.argv[1:]:
        case []:
            return _report(CALLS)
        case [count] if count.isdecimal():
            return _report(int(count))
        case [way, url, count]:
            warnings.simplefilter("ignore")
            print(json.dumps(asyncio.run(_measured(way, url, int(count)))))
            return 0
        case wrong:
            print(f"a count is expected, or nothing; got {wrong}")
            return 2


if __name__ == "__main__":
    sys.exit(main())
