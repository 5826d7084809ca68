"""Our way again, to see where its CPU time goes: every few hundred microseconds of it, who works?

The kernel counts CPU time only, so waiting does not show. A moment belongs to the innermost room
of ours or package of others that is on the stack.
"""

import re
import signal
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack
from types import FrameType
from typing import Any

from benchmarks.speedups.in_vega import Program, open_programs as open_ours

__all__ = ["open_programs"]

TIMES, EVERY_S = 20, 0.0005
_PLACE = re.compile(r"/src/vegakit/(?P<room>\w+)|/site-packages/(?P<package>\w+)")
_HTTP = {"httpx2", "httpcore2", "h11", "anyio", "sniffio"}


class Profiled:
    """A program, run so often that the shares mean something; its notes are milliseconds a run."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._shares = Counter[str]()
        self._cpu_s = 0.0

    async def __call__(self, *arguments: Any) -> Any:
        result = await self._program(*arguments)
        self._shares.clear()
        began = time.process_time()
        signal.signal(signal.SIGPROF, self._on_moment)
        signal.setitimer(signal.ITIMER_PROF, EVERY_S, EVERY_S)
        for _ in range(TIMES):
            await self._program(*arguments)
        signal.setitimer(signal.ITIMER_PROF, 0)
        self._cpu_s = time.process_time() - began
        return result

    def notes(self) -> dict[str, float]:
        a_moment_ms = self._cpu_s * 1_000 / self._shares.total() / TIMES
        return {who: count * a_moment_ms for who, count in self._shares.most_common(8)}

    def _on_moment(self, _: int, frame: FrameType | None) -> None:
        self._shares[_worker_at(frame)] += 1


def _worker_at(frame: FrameType | None) -> str:
    while frame is not None:
        if found := _PLACE.search(frame.f_code.co_filename):
            package = found["package"]
            return "HTTP" if package in _HTTP else package or f"our {found['room']}"
        frame = frame.f_back
    return "asyncio"


async def open_programs(url: str, stack: AsyncExitStack) -> Mapping[str, Profiled]:
    programs = await open_ours(url, stack)
    return {name: Profiled(program) for name, program in programs.items()}
