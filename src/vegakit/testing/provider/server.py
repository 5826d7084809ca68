"""The loopback provider: one server, one task for each connection, one log.

async with Provider(script) as p:             in the running loop
with Provider(script).in_thread() as p:       for code without a loop of its own
python -m vegakit.testing.provider            in another process
"""

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from vegakit.testing.provider.http import Connection
from vegakit.testing.provider.log import Log
from vegakit.testing.provider.requests import Request
from vegakit.testing.provider.script import Answer, Script, chooser
from vegakit.testing.provider.serving import serve
from vegakit.testing.provider.words import answer_by_words

__all__ = ["Provider"]

_HOST = "127.0.0.1"
_BACKLOG = 4096
_START_STOP_S = 10.0


class Provider:
    """Speaks Anthropic Messages, OpenAI Chat Completions and OpenAI Responses on 127.0.0.1.

    An Anthropic client takes `url` as its base, an OpenAI client `url + "/v1"`; any key will do.
    If a function of the script raises, its client is dropped and leaving the provider raises it.
    """

    def __init__(
        self, script: Script | None = None, *, port: int = 0, log: str | Path | None = None
    ) -> None:
        self._script = answer_by_words if script is None else script
        self._turn = chooser(self._script)
        self._port = port
        self._log = Log(Path(log) if log else None)
        self._server: asyncio.Server | None = None
        self._lines: set[asyncio.Task[None]] = set()
        self._crashes: list[BaseException] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._on_connected, _HOST, self._port, backlog=_BACKLOG
        )
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._server
        self._server.close()
        for line in self._lines:
            line.cancel()
        await asyncio.gather(*self._lines, return_exceptions=True)
        await self._server.wait_closed()
        self._server = None
        if self._crashes and error is None:
            raise self._crashes.pop()

    @contextmanager
    def in_thread(self) -> Generator[Self]:
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="loopback-provider", daemon=True)
        thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self.__aenter__(), loop).result(_START_STOP_S)
            try:
                yield self
            finally:
                left = asyncio.run_coroutine_threadsafe(self.__aexit__(None, None, None), loop)
                left.result(_START_STOP_S)
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(_START_STOP_S)
            loop.close()

    @property
    def url(self) -> str:
        if self._server is None:
            raise RuntimeError("the provider does not run; write `async with Provider() as p:`")
        return f"http://{_HOST}:{self._port}"

    @property
    def requests(self) -> list[Request]:
        """In order of arrival, since the start or the last `reset`."""
        return self._log.requests

    def reset(self) -> None:
        """Empties the log and begins the script anew."""
        self._log.reset()
        self._turn = chooser(self._script)

    async def wait_received(self, n: int = 1, *, timeout_s: float = 30.0) -> list[Request]:
        """The requests, as soon as there are n of them; from any loop."""
        return await self._wait("received", self._log.received_so_far, n, timeout_s)

    async def wait_ended(self, n: int = 1, *, timeout_s: float = 30.0) -> list[Request]:
        """Those whose answer is over, as soon as there are n of them; from any loop."""
        return await self._wait("ended", self._log.ended_so_far, n, timeout_s)

    async def _wait(
        self, what: str, found: Callable[[], list[Request]], n: int, timeout_s: float
    ) -> list[Request]:
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.wrap_future(self._log.when(lambda: len(found()) >= n))
        except TimeoutError:
            log = [f"{r.api} {r.text[:40]!r} {r.status}" for r in self.requests]
            raise TimeoutError(
                f"expected {n} requests {what} within {timeout_s} s; the log has {log}"
            ) from None
        return found()

    def _on_connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = asyncio.create_task(serve(Connection(reader, writer), self._log, self._choose))
        self._lines.add(line)
        line.add_done_callback(self._on_closed)
        line.add_done_callback(lambda _: writer.close())  # cancelled before its first step

    def _on_closed(self, line: asyncio.Task[None]) -> None:
        self._lines.discard(line)
        if not line.cancelled() and (crash := line.exception()):
            self._crashes.append(crash)

    def _choose(self, request: Request) -> Answer:
        return self._turn(request)
