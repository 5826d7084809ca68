"""The one place that reads the time."""

import asyncio
import time

__all__ = ["SteadyClock"]


class SteadyClock:
    """Steady milliseconds since 1970: the wall clock's, once, then only the monotonic clock's."""

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now(self) -> int:
        return (time.monotonic_ns() + self._offset_ns) // 1_000_000

    async def wait_until(self, at_ms: int) -> None:
        await asyncio.sleep(max(0, at_ms - self.now()) / 1000)
