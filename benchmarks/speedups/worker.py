"""One way of running the programs, in a process of its own: `python -m … URL WAY`, WAY as JSON.

Says what it is ready with, then answers each line of input, the name of a program, with a line of
JSON: its result, how long it took, and what the way has to tell of itself. Runs in two
environments, so a way is imported when it is known which it is.
"""

import asyncio
import json
import sys
import time
import warnings
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from importlib import import_module
from importlib.metadata import version
from typing import Any

from benchmarks.speedups.cases import CASES
from benchmarks.speedups.ways import Way

__all__ = ["main"]


async def main(url: str, way: Way) -> None:
    async with AsyncExitStack() as stack:
        module: Any = import_module(f"benchmarks.speedups.{way.module}")
        programs = await module.open_programs(url, stack, **way.options)
        _tell(version(way.package))
        while order := await asyncio.to_thread(sys.stdin.readline):
            case = order.strip()
            _tell(await _timed(programs[case], CASES[case]))


async def _timed(program: Callable[..., Awaitable[Any]], arguments: list[Any]) -> dict[str, Any]:
    began, began_cpu = time.perf_counter(), time.process_time()
    result = await program(*arguments)
    seconds, cpu_s = time.perf_counter() - began, time.process_time() - began_cpu
    notes: Callable[[], dict[str, Any]] = getattr(program, "notes", dict)
    return {"result": result, "seconds": seconds, "cpu_s": cpu_s, "notes": notes()}


def _tell(what: object) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    asyncio.run(main(sys.argv[1], Way(*json.loads(sys.argv[2]))))
