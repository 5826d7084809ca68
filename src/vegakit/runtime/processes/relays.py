"""From one task to another, piece by piece: who is ahead waits, and closing wakes both."""

import asyncio
from collections import deque
from typing import Generic, TypeVar

__all__ = ["Relay"]

T = TypeVar("T")


class Relay(Generic[T]):
    """At most `ahead` pieces wait to be taken."""

    def __init__(self, ahead: int) -> None:
        self._ahead = ahead
        self._pieces: deque[T] = deque()
        self._closed = False
        self._changed = asyncio.Event()

    async def put(self, piece: T) -> None:
        while len(self._pieces) >= self._ahead and not self._closed:
            await self._wait()
        self.push(piece)

    def push(self, piece: T) -> None:
        """Without waiting, also beyond `ahead`."""
        self._pieces.append(piece)
        self._changed.set()

    def close(self) -> None:
        """What was put is still taken; after it comes the end."""
        self._closed = True
        self._changed.set()

    def __aiter__(self) -> "Relay[T]":
        return self

    async def __anext__(self) -> T:
        while not self._pieces:
            if self._closed:
                raise StopAsyncIteration
            await self._wait()
        self._changed.set()
        return self._pieces.popleft()

    async def _wait(self) -> None:
        self._changed = asyncio.Event() if self._changed.is_set() else self._changed
        await self._changed.wait()
