"""How long tests wait for what must come: long, since only a failure waits it out.

A verdict must not hang on how fast the machine is; how long things take is measured in benchmarks.
This is the one module of the tests that sleeps: `tests/architecture/test_sleeping.py` sees to that.
A test waits for an event, a line of output or the end of a process if there is one; it looks again
and again, by `until` or `wait_until`, only for what no event tells of.
"""

import asyncio
import os
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, overload

from vegakit.testing import VirtualLoop

PATIENCE_S = 30.0
"""Tests that look for a planted fault set less: there it is the usual end."""
GONE_S = float(os.environ.get("VEGA_GONE_S", PATIENCE_S))
"""For what a kill takes along. On a quiet machine, VEGA_GONE_S=1 holds the second we promise."""
_PAUSE_S = 0.01

Fact = TypeVar("Fact")


@overload
async def until(
    fact: Callable[[], Coroutine[Any, Any, Fact]], within_s: float | None = None
) -> Fact: ...
@overload
async def until(fact: Callable[[], Fact], within_s: float | None = None) -> Fact: ...
async def until(fact: Callable[[], Any], within_s: float | None = None) -> Any:
    """Return what `fact` gives, as soon as that is true. It may be a coroutine function."""
    async with asyncio.timeout(within_s or PATIENCE_S):
        while True:
            value = fact()
            if asyncio.iscoroutine(value):
                value = await value
            if value:
                return value
            await asyncio.sleep(_PAUSE_S)


def wait_until(fact: Callable[[], Fact], within_s: float | None = None) -> Fact:
    """Return what `fact` gives, as soon as that is true: `until` for what has no event loop."""
    ends = time.monotonic() + (within_s or PATIENCE_S)
    while not (value := fact()):
        if time.monotonic() > ends:
            raise TimeoutError(f"it did not come true in {within_s or PATIENCE_S:g} s")
        time.sleep(_PAUSE_S)
    return value


async def pass_virtual_time(seconds: float) -> None:
    """Let virtual time pass, of which nobody waits; real time cannot be passed so."""
    assert isinstance(asyncio.get_running_loop(), VirtualLoop), "this loop is on real time"
    await asyncio.sleep(seconds)


class SkippingLoop(asyncio.SelectorEventLoop):
    """A loop with real files and sockets on which a test can let time pass at once."""

    skipped_s = 0.0

    def time(self) -> float:
        return super().time() + self.skipped_s


def run_skipping(work: Coroutine[Any, Any, Fact]) -> Fact:
    """Run as `asyncio.run` does. Deadlines are long there, and only `skip` reaches them."""
    with asyncio.Runner(loop_factory=SkippingLoop) as runner:
        return runner.run(work)


async def skip(seconds: float) -> None:
    """Let what is under way on loopback arrive; then let the time pass, and what is due happen."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SkippingLoop), "the time of this loop cannot be skipped"
    await turns(50)
    loop.skipped_s += seconds
    await turns(5)


async def turns(count: int) -> None:
    """Let the loop make so many turns."""
    for _ in range(count):
        await asyncio.sleep(0)


def shell_until(condition: str) -> str:
    """Return shell words that wait until a condition holds: into a sandbox nothing reaches but
    files."""
    return f"until {condition}; do sleep 0.05; done"
