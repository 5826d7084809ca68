"""A server as one owner sees it: started when first used, started again when it died, and held to
what was accepted.

| at a call                                        | what happens                                 |
|--------------------------------------------------|----------------------------------------------|
| the server does not run                          | it is started, at most 4 times a minute      |
| it was just started, or says that tools changed  | it is asked what it offers                   |
| the tool is not what the model was told it is    | the call is refused, and says what changed   |
| the server ends meanwhile                        | the call fails; the next one starts it again |
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from vegakit.errors import CapabilityDenied, ToolFailed
from vegakit.policy import for_model, sanitise
from vegakit.ports import Clock
from vegakit.tools.mcp.lives import Life
from vegakit.tools.mcp.offering import Offer, Offered, offer_of
from vegakit.tools.mcp.pins import changes
from vegakit.tools.mcp.servers import McpServer

__all__ = ["Connection"]

_MOST_STARTS = 4
_WINDOW_MS = 60_000


class Connection:
    def __init__(
        self,
        server: McpServer,
        begin: Callable[[], Life],
        clock: Clock,
    ) -> None:
        self._server = server
        self._begin = begin
        self._clock = clock
        self._life: Life | None = None
        self._offer = Offer()
        self._starts: deque[int] = deque(maxlen=_MOST_STARTS)
        self._checking = asyncio.Lock()
        self._closed = False

    async def call(self, tool: Offered, arguments: Mapping[str, Any]) -> str:
        """`tool` is what was accepted, and told to the model."""
        async with self._checking:
            life = await self._living()
            if life.is_stale:
                await self._look(life)
            self._refuse_changed(tool)
        return await life.call(tool.name, arguments, self._server.timeout)

    async def offer(self) -> Offer:
        """What the server offers now, accepted or not."""
        async with self._checking:
            await self._look(await self._living())
            return self._offer

    async def aclose(self) -> None:
        self._closed = True
        await self._end()

    async def _end(self) -> None:
        if self._life is not None:
            await self._life.aclose()

    async def _living(self) -> Life:
        """Whoever was cancelled while it started has left it to the next."""
        if self._closed:
            raise ToolFailed(f"{self._server.name} ended with the process that used it")
        if self._life is None or self._life.is_over:
            await self._end()
            self._count_start()
            self._life = self._begin()
        await self._life.ready()
        return self._life

    def _count_start(self) -> None:
        now = self._clock.now()
        if len(self._starts) == _MOST_STARTS and now - self._starts[0] < _WINDOW_MS:
            raise ToolFailed(
                f"{self._server.name} was started {_MOST_STARTS} times within "
                f"{_WINDOW_MS // 1000} s and ended each time; it is left alone for a while"
            )
        self._starts.append(now)

    async def _look(self, life: Life) -> None:
        self._offer = offer_of(self._server.name, await life.listing())

    def _refuse_changed(self, tool: Offered) -> None:
        for name, what in changes([tool], self._offer).items():
            server = self._server.name
            raise CapabilityDenied(
                f"{name} of {server} is not what was accepted, so it is not called. "
                f"A person may look, and type: vega mcp accept {server}\n"
                f"{for_model(sanitise(what, 4_000))}"
            )
