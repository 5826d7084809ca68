"""What agents with memory say, kept beyond their program, by the path of each."""

import asyncio
from collections.abc import Callable

from vegakit.conversation import Conversation
from vegakit.ports import Memory
from vegakit.program import Event, Remember, Said

__all__ = ["Remembering"]


class Remembering:
    """A turn is written once, under the word of its ask, and in the order of the answers."""

    def __init__(self, memory: Memory, program: str, submit: Callable[[Event], object]) -> None:
        self._memory = memory
        self._program = program
        self._submit = submit
        self._last: asyncio.Task[None] | None = None

    async def recall(self, path: str, limit: int) -> int:
        """How many messages it knows now."""
        messages = tuple(await self._memory.load(path, limit))
        if messages:
            self._submit(Remember(path, Conversation(messages)))
        return len(messages)

    def on_said(self, path: str, ask: str, said: Said) -> None:
        before, key = self._last, f"{self._program}.{ask}"
        messages = said.conversation.messages[-said.new :]

        async def keep() -> None:
            if before is not None:
                await asyncio.wait([before])
            await self._memory.append(path, messages, key=key)

        self._last = asyncio.ensure_future(keep())

    async def aclose(self) -> None:
        """All that was said is kept; what could not be is raised."""
        if self._last is not None:
            await self._last
