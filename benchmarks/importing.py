"""What an import costs: new interpreters, in turn with one that imports nothing and one with the
two libraries below us. Time is the best of all runs, CPU (user and system) their median. All
have their bytecode, as installed packages do."""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from statistics import median
from typing import NamedTuple

from benchmarks.figures import Figure, at_most

__all__ = ["import_figures"]

RUNS = 11
BARE = "import sys"
LIBRARIES = "import sys, msgspec, pydantic"
FRONT_DOOR = "import sys, vegakit"
IN_USE = "import sys; from vegakit import Agent, Runtime"
FIRST_ANSWER = """
import asyncio, sys
from vegakit import Agent, Runtime
from vegakit.providers import ScriptedModel

async def main():
    async with Runtime() as rt:
        await rt.ask(Agent("greeter", model=ScriptedModel(["Hello."])), "Hello?")

asyncio.run(main())
"""


class Cost(NamedTuple):
    ms: float
    cpu_ms: float


def import_figures() -> list[Figure]:
    statements = (BARE, LIBRARIES, FRONT_DOOR, IN_USE, FIRST_ANSWER)
    with tempfile.TemporaryDirectory() as bytecode:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        modules = [_modules(statement, environment) for statement in statements]
        runs = [[_cost(one, environment) for one in statements] for _ in range(RUNS)]
    bare, libraries, front_door, in_use, answer = (
        Cost(min(cost.ms for cost in costs), median(cost.cpu_ms for cost in costs))
        for costs in zip(*runs, strict=True)
    )
    own_cpu = libraries.cpu_ms - bare.cpu_ms
    ratio, until_answer = ((c.cpu_ms - bare.cpu_ms) / own_cpu for c in (in_use, answer))
    what = "from vegakit import Agent, Runtime"
    cpu = "CPU beside import msgspec, pydantic"
    return [
        at_most(
            100, front_door.ms - bare.ms, "ms", f"import vegakit, {modules[2] - modules[0]} modules"
        ),
        at_most(250, modules[3], "modules", what),
        Figure(what, f"{in_use.ms - bare.ms:.1f} ms"),
        at_most(4, ratio, "×", f"{what}, {cpu}"),
        Figure(
            f"from import to first answer, {modules[4]} modules, {cpu}", f"{until_answer:.1f} ×"
        ),
    ]


def _cost(statement: str, environment: Mapping[str, str]) -> Cost:
    before, started = _cpu_s(), time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True, env=environment)
    return Cost((time.perf_counter() - started) * 1_000, (_cpu_s() - before) * 1_000)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _modules(statement: str, environment: Mapping[str, str]) -> int:
    command = [sys.executable, "-c", f"{statement}\nprint(len(sys.modules))"]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return int(ran.stdout)
