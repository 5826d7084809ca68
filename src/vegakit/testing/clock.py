"""A clock that moves only when a test says so.

    steady  ──advance──▶      what the runtime reads: `now()`
    wall    ──advance──▶      what people and files read: `wall()`; `step_wall` sets it

Who waits wakes up after the `advance` that reaches its time, in the order of the times. One large
step looks like a machine that was asleep: everybody wakes late. Small steps wake them in time.
"""

import asyncio

__all__ = ["FakeClock"]

_START_MS = 1_750_000_000_000


class FakeClock:
    """Implements `ports.Clock`."""

    def __init__(self, now_ms: int = _START_MS) -> None:
        self._now_ms = self._wall_ms = now_ms
        self._sleepers: list[tuple[int, asyncio.Future[None]]] = []

    def now(self) -> int:
        return self._now_ms

    def wall(self) -> int:
        return self._wall_ms

    def advance(self, ms: int) -> None:
        if ms < 0:
            raise ValueError(f"time only goes forward; got {ms} ms, use step_wall to set a clock")
        self._now_ms += ms
        self._wall_ms += ms
        for due_ms, sleeper in sorted(self._sleepers, key=lambda entry: entry[0]):
            if due_ms <= self._now_ms and not sleeper.done():
                sleeper.set_result(None)

    def step_wall(self, ms: int) -> None:
        """As when an operator or a time server sets the clock; steady time does not notice."""
        self._wall_ms += ms

    async def wait_until(self, at_ms: int) -> None:
        if at_ms <= self._now_ms:
            await asyncio.sleep(0)
            return
        entry = (at_ms, asyncio.get_running_loop().create_future())
        self._sleepers.append(entry)
        try:
            await entry[1]
        finally:
            self._sleepers.remove(entry)
