"""An event loop on virtual time: when nothing is ready, time jumps to the next timer.

No file, socket, thread or real clock takes part, so the same work runs the same way every time, and
an hour of waiting takes no longer than what is done in it. It stops with an error when all that is
left waits for something that cannot happen.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["VirtualClock", "VirtualLoop", "run_virtual"]

T = TypeVar("T")

_START_MS = 1_750_000_000_000


class _NoFiles:
    """Where a real loop waits for its files, this one moves its time."""

    def __init__(self, loop: "VirtualLoop") -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("everybody waits and no timer is set: nothing will ever happen")
        self._loop.advance(timeout)
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    def __init__(self) -> None:
        super().__init__()
        self._selector = _NoFiles(self)
        self._now_s = 0.0

    def time(self) -> float:
        return self._now_s

    def advance(self, seconds: float) -> None:
        """Also as if the machine had slept: who waits wakes late."""
        self._now_s += seconds

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> "asyncio.Future[Any]":  # noqa: ANN401
        """At once: nothing happens beside anything else."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001
            future.set_exception(error)
        return future

    def _process_events(self, event_list: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass


class VirtualClock:
    """Implements `ports.Clock` on the time of the running loop. `wall` is what people read; to
    set it does not move `now`."""

    def __init__(self) -> None:
        self._stepped_ms = 0

    def now(self) -> int:
        return _START_MS + round(asyncio.get_running_loop().time() * 1000)

    def wall(self) -> int:
        return self.now() + self._stepped_ms

    def step_wall(self, ms: int) -> None:
        self._stepped_ms += ms

    async def wait_until(self, at_ms: int) -> None:
        await asyncio.sleep(max(0, at_ms - self.now()) / 1000)


def run_virtual(work: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`; whatever the work leaves behind is cancelled."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)
