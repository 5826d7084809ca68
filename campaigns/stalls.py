"""A loop that is busy for longer than its lease: `python -m campaigns.stalls [2000]`.

So many programs at once, and so many asks at once, in a runtime whose lease is so
short that it lapses again and again while the loop is busy. Another runtime, in a process of its
own on the same ledger, settles what it takes for left behind. Everybody is answered all the same,
and in the end the ledger holds what was billed. Prints its figures last; exits 1 when one is off.
"""

import asyncio
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import aclosing
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, show

from vegakit.errors import VegaError
from vegakit.host import Agent
from vegakit.ids import ScopeId
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime
from vegakit.store import SqliteLedger

__all__ = ["main"]

MANY = 2_000
LEASE_MS = 150
BUDGET = "$1000"
PROGRAM = """
agent A { model "any" max_tokens 20 }

fn one(number: int) -> str { return A <- "question {number}"; }
"""


async def _programs(rt: Runtime, program: Any, many: int) -> Counter[str]:
    async def run(number: int) -> str:
        try:
            return await rt.run(program, number, function="one")
        except VegaError as error:
            return f"{type(error).__name__}: {error}"

    return Counter(await asyncio.gather(*map(run, range(many))))


async def _asks(rt: Runtime, _: Any, many: int) -> Counter[str]:
    agent = Agent("asked", model="any", max_tokens=20)

    async def ask(number: int) -> str:
        try:
            return (await rt.ask(agent, f"question {number}")).text
        except VegaError as error:
            return f"{type(error).__name__}: {error}"

    return Counter(await asyncio.gather(*map(ask, range(many))))


async def _stalled(path: Path, source: Path, many: int) -> list[Figure]:
    figures: list[Figure] = []
    for name, work in (("programs at once", _programs), ("asks at once", _asks)):
        longest, began = [0.0], time.monotonic()
        async with Runtime(
            BUDGET,
            ledger=SqliteLedger(path),
            models=lambda _: ScriptedModel(lambda _: "yes"),
            lease_ms=LEASE_MS,
        ) as rt:
            watching = asyncio.ensure_future(_watch(longest))
            came = await work(rt, rt.load(source), many)
            watching.cancel()
        failed = Counter({said: n for said, n in came.items() if said != "yes"})
        for said, count in failed.most_common(3):
            print(f"{count:>7,} {said}")
        figures += [
            Figure(f"{many:,} {name}: answered", f"{came['yes']:,}", f"{many:,}", not failed),
            Figure(f"{many:,} {name}: took", f"{time.monotonic() - began:.1f} s"),
            Figure("  longest the loop stood still, in leases", f"{longest[0] / LEASE_MS:.1f}"),
        ]
    return figures


async def _watch(longest: list[float]) -> None:
    while True:
        began = time.monotonic()
        await asyncio.sleep(0)
        longest[0] = max(longest[0], (time.monotonic() - began) * 1000)


async def _beside(path: Path) -> None:
    async with Runtime(BUDGET, ledger=SqliteLedger(path), lease_ms=LEASE_MS):
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)


async def _account(path: Path) -> list[Figure]:
    async with aclosing(SqliteLedger(path)) as ledger:
        scope = await ledger.scope(ScopeId("runtime:default"))
    assert scope is not None
    return [Figure("still reserved", f"{scope.reserved}", "0", scope.reserved == 0)]


def main(many: int = MANY) -> int:
    with tempfile.TemporaryDirectory() as folder:
        path, source = Path(folder) / "ledger.db", Path(folder) / "main.vega"
        source.write_text(PROGRAM)
        command = [sys.executable, "-m", "campaigns.stalls", "beside", str(path)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as neighbour:
            assert neighbour.stdout is not None
            neighbour.stdout.readline()
            figures = asyncio.run(_stalled(path, source, many))
            neighbour.communicate("stop\n")
        figures += asyncio.run(_account(path))
    print(show(figures))
    return int(not all(figure.holds for figure in figures))


if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            sys.exit(main())
        case ["beside", path]:
            asyncio.run(_beside(Path(path)))
        case [many] if many.isdecimal():
            sys.exit(main(int(many)))
        case _:
            sys.exit("usage: python -m campaigns.stalls [MANY]")
