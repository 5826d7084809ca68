"""A path in the shadow performs nothing: `python -m campaigns.rollout_shadow 10000`.

Agents under a rollout reach the world in five ways: requests to an HTTP server, rows of a SQLite
file, files in a folder, calls of a function, and a sub-agent with a tool of its own. The trusted
one does one thing a run; its candidate, in the shadow, tries that and more: the same thing twice,
other things, several at once, things in a second step. What happened is counted at the far end,
where each thing has its name: once what the trusted one did, and nothing of what only the candidate
asked for. Then the candidate answers and the reference is in the shadow: each thing happens once.
Prints its figures last; exits 1 when one falls short.
"""

import asyncio
import http.client
import logging
import sqlite3
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.figures import Figure, show

from vegakit.conversation import ModelRequest, Text, ToolMessage, UserMessage
from vegakit.host import Agent
from vegakit.providers import ScriptedCall, ScriptedModel, ScriptedReply
from vegakit.sdk import Runtime
from vegakit.tools import FunctionTool, ToolContext, tool
from vegakit.vesper import PersonAction, RolloutMode, RolloutRule, rollout

__all__ = ["Found", "main", "shadow_runs"]

RUNS = 10_000
WAYS = ("http", "sql", "files", "tools", "agents")
OTHER = "other"
"""How a thing begins that only the candidate asks for."""
ANSWERED = 5
"""The candidate answers one of so many runs, beside those in the shadow."""


# The far end.


class World:
    """Where things happen. Each way has its own place, and each thing its name."""

    def __init__(self, folder: Path) -> None:
        self.port = 0
        self._requested, self._called = list[str](), list[str]()
        self._rows, self.files = folder / "rows.db", folder / "files"
        self.files.mkdir()
        with closing(sqlite3.connect(self._rows)) as file:
            file.execute("PRAGMA journal_mode = WAL")
            file.execute("CREATE TABLE things (name TEXT)")

    def request(self, thing: str) -> str:
        """Do a thing over HTTP."""
        server = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with closing(server):
            server.request("POST", f"/{thing}")
            server.getresponse().read()
        return f"requested {thing}"

    def insert(self, thing: str) -> str:
        """Do a thing in a database."""
        with closing(sqlite3.connect(self._rows, timeout=60, isolation_level=None)) as file:
            file.execute("PRAGMA synchronous = OFF")
            file.execute("INSERT INTO things VALUES (?)", (thing,))
        return f"inserted {thing}"

    def call(self, thing: str) -> str:
        """Do a thing by a function."""
        self._called.append(thing)
        return f"called {thing}"

    async def write(self, ctx: ToolContext, thing: str) -> str:
        """Do a thing to a file: a name of its own for each time, so that a second one shows."""
        times = len([*self.files.glob(f"{thing}.*")])
        await ctx.files.write(f"{thing}.{times}", b"done")
        return f"wrote {thing}"

    def happened(self) -> Counter[str]:
        with closing(sqlite3.connect(self._rows)) as file:
            rows = [str(name) for (name,) in file.execute("SELECT name FROM things")]
        files = [path.name.rpartition(".")[0] for path in self.files.iterdir()]
        return Counter([*self._requested, *rows, *files, *self._called])

    @contextmanager
    def open(self) -> Generator[None]:
        """Serve HTTP until the end of the block."""
        world = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                world._requested.append(self.path.removeprefix("/"))
                self.send_response(204)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()


# Agents.


def _text(request: ModelRequest) -> str:
    asked = [each for each in request.messages if isinstance(each, UserMessage)][-1]
    return "".join(part.text for part in asked.parts if isinstance(part, Text))


def _trusted(request: ModelRequest) -> ScriptedReply:
    """One thing, as it is told: `Do http-7.`"""
    thing = _text(request).removeprefix("Do ").removesuffix(".")
    if isinstance(request.messages[-1], ToolMessage):
        return ScriptedReply(f"did {thing}")
    return ScriptedReply(calls=(ScriptedCall("do", {"thing": thing}),))


def _greedy() -> Callable[[ModelRequest], ScriptedReply]:
    """The same thing, and what it was not told: a different trick in each run."""
    tricks = cycle(range(5))

    def answer(request: ModelRequest) -> ScriptedReply:
        thing = _text(request).removeprefix("Do ").removesuffix(".")
        steps = sum(isinstance(each, ToolMessage) for each in request.messages)
        same = ScriptedCall("do", {"thing": thing})
        others = [ScriptedCall("do", {"thing": f"{OTHER}-{n}-{thing}"}) for n in range(3)]
        if steps == 0:
            trick = next(tricks)
            calls = ((same,), (same, same), (others[0],), (same, *others), (others[0], same))[trick]
            return ScriptedReply(calls=calls)
        last = request.messages[-1]
        if steps == 1 and isinstance(last, ToolMessage) and len(last.results) > 1:
            return ScriptedReply(calls=(same, others[1]))
        return ScriptedReply(f"did {thing}")

    return answer


def _tool(world: World, way: str, rt: Runtime) -> FunctionTool[..., Any]:
    match way:
        case "http":
            return FunctionTool(world.request, name="do")
        case "sql":
            return FunctionTool(world.insert, name="do")
        case "files":
            granted = tool(
                capabilities=["fs::write"], allowed_paths=["**"], root=world.files, name="do"
            )

            async def write(ctx: ToolContext, thing: str) -> str:
                """Do a thing to a file."""
                return await world.write(ctx, thing)

            return granted(write)
        case "tools":
            return FunctionTool(world.call, name="do")
        case _:
            inner = FunctionTool(world.call, name="do")
            helper = Agent("helper", model=ScriptedModel(_trusted, name="helper"), tools=[inner])

            async def delegate(thing: str) -> str:
                """Have a sub-agent do a thing."""
                return (await rt.ask(helper, f"Do {thing}.")).output

            return FunctionTool(delegate, name="do")


# Runs.


class Found(NamedTuple):
    shadow_runs: int
    answered_runs: int
    tried: int
    """Comparisons in which the candidate asked for something else than the reference."""
    others: int
    twice: int
    missing: int

    def figures(self) -> list[Figure]:
        none = {
            "of what only the shadow asked for, done": self.others,
            "done twice": self.twice,
            "not done": self.missing,
        }
        return [
            Figure("runs with the candidate in the shadow", f"{self.shadow_runs:,}"),
            Figure(
                "of them it asked for other things in", f"{self.tried:,}", "> 0", self.tried > 0
            ),
            Figure("runs with the reference in the shadow", f"{self.answered_runs:,}"),
            *(Figure(name, f"{count:,}", "0", count == 0) for name, count in none.items()),
        ]


async def _runs(world: World, way: str, runs: int) -> tuple[set[str], int]:
    """Returns the things that were to be done, and how often the shadow asked for others."""
    # A budget is of no interest here, and its ledger would be asked for every call.
    async with Runtime(budget=None, observable=False) as rt:
        rule = RolloutRule(calibration=0, sample=1.0, last=RolloutMode.SHADOW)
        old = Agent("old", model=ScriptedModel(_trusted, name="old"), tools=[_tool(world, way, rt)])
        greedy = Agent(
            "new", model=ScriptedModel(_greedy(), name="new"), tools=[_tool(world, way, rt)]
        )
        same = Agent(
            "new", model=ScriptedModel(_trusted, name="new"), tools=[_tool(world, way, rt)]
        )
        shadowed = [f"{way}-{number}" for number in range(runs)]
        async with rollout(rt, f"{way}-1", reference=old, candidate=greedy, rule=rule) as asked:
            for thing in shadowed:
                assert await asked(f"Do {thing}.") == f"did {thing}"
            await asked.settle()
            counted = asked.status().evidence.production
            assert counted.runs == runs, f"{counted.runs} of {runs} runs were compared"
        answered = [f"{way}-again-{number}" for number in range(runs // ANSWERED)]
        async with rollout(rt, f"{way}-2", reference=old, candidate=same, rule=rule) as asked:
            while asked.status().mode is not RolloutMode.DIRECT_ONLY:
                await asked.decide(PersonAction.PROMOTE, "ada")
            for thing in answered:
                assert await asked(f"Do {thing}.") == f"did {thing}"
            await asked.settle()
            assert asked.status().mode is RolloutMode.DIRECT_ONLY, "the reference did otherwise"
        return {*shadowed, *answered}, counted.failures


def shadow_runs(runs: int) -> Found:
    """So many runs, spread over the ways."""
    each, tried, asked = max(ANSWERED, runs // len(WAYS)), 0, set[str]()
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        with world.open():
            for way in WAYS:
                began = time.monotonic()
                things, differed = asyncio.run(_runs(world, way, each))
                asked |= things
                tried += differed
                print(f"{way}: {each:,} runs, {time.monotonic() - began:.0f} s", flush=True)
        happened = world.happened()
    return Found(
        shadow_runs=each * len(WAYS),
        answered_runs=each // ANSWERED * len(WAYS),
        tried=tried,
        others=sum(count for thing, count in happened.items() if thing not in asked),
        twice=sum(happened[thing] > 1 for thing in asked),
        missing=len(asked - {*happened}),
    )


def main(runs: int = RUNS) -> int:
    logging.disable(logging.WARNING)  # of moves
    figures = shadow_runs(runs).figures()
    print(show(figures))
    return int(not all(figure.holds for figure in figures))


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:2])))
