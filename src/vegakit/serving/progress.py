"""What a run prints, told while it runs; and that it still runs, to who would give it up."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeAlias

__all__ = ["Progress", "Tell"]

Tell: TypeAlias = Callable[[int, str], Awaitable[None]]
"""How often it was told, and what is new."""

_MOST_LINES = 50
_MOST_LETTERS = 500
_EVERY_S = 10.0
_PAUSE_S = 0.2


class Progress:
    """Lines that come faster than they can be told are dropped, the oldest first: all of them
    stand in the result."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._lines: deque[str] = deque(maxlen=_MOST_LINES)
        self._more = asyncio.Event()
        self._telling = asyncio.ensure_future(self._keep())
        self._telling.add_done_callback(_heard)

    def add(self, line: str) -> None:
        self._lines.append(line[:_MOST_LETTERS])
        self._more.set()

    def close(self) -> None:
        self._telling.cancel()

    async def _keep(self) -> None:
        count = 0
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._more.wait(), _EVERY_S)
            self._more.clear()
            count += 1
            said = "".join(self._lines)
            self._lines.clear()
            await self._tell(count, said)
            await asyncio.sleep(_PAUSE_S)


def _heard(telling: "asyncio.Task[None]") -> None:
    """A client that is gone is not told: its request ends for that reason elsewhere."""
    if not telling.cancelled():
        telling.exception()
