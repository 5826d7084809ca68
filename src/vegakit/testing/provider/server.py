"""The test provider: one server on 127.0.0.1, one task for each connection, one log (kit, host).

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

from msgspec import DecodeError

from vegakit.records import to_json
from vegakit.testing.provider.exchange import (
    BadRequestError,
    ClosedError,
    Exchange,
    HttpRequest,
    ProviderConnection,
    RequestLog,
)
from vegakit.testing.provider.script import (
    Choose,
    Failure,
    ProviderAnswer,
    ProviderRequest,
    Route,
    Script,
    chooser,
    default_answer,
)
from vegakit.testing.provider.wire import SPOKEN_AT, find_route
from vegakit.wires import WireServer

# One connection, request after request: what is asked where, and who answers it.


_JSON_HEADERS = {"content-type": "application/json"}
_MODEL = {
    "id": "loopback",
    "object": "model",
    "type": "model",
    "display_name": "Loopback",
    "created": 0,
    "created_at": "1970-01-01T00:00:00Z",
    "owned_by": "vegakit",
}
_OTHER_ROUTES: dict[tuple[str, str], Callable[[HttpRequest], object]] = {
    ("POST", "/v1/messages/count_tokens"): lambda http: {"input_tokens": len(http.body) // 4},
    ("POST", "/v1/responses/input_tokens"): lambda http: {
        "object": "response.input_tokens",
        "input_tokens": len(http.body) // 4,
    },
    ("GET", "/v1/models"): lambda _: {"object": "list", "data": [_MODEL], "has_more": False},
}


async def serve(connection: ProviderConnection, log: RequestLog, choose: Choose) -> None:
    """Serve a connection until the client leaves or is dropped."""
    try:
        while await _serve_one(connection, log, choose):
            pass
    except ClosedError:
        pass
    finally:
        await connection.aclose()


async def _serve_one(connection: ProviderConnection, log: RequestLog, choose: Choose) -> bool:
    try:
        http = await connection.next_request()
    except BadRequestError as error:
        await _send(connection, error.status, {"error": {"message": str(error)}})
        return False
    if found := find_route(http.method, http.path):
        await _exchange(connection, *found, http, log, choose)
    elif other_route := _OTHER_ROUTES.get((http.method, http.path)):
        await _send(connection, 200, other_route(http))
    else:
        known = ", ".join([*SPOKEN_AT, *(" ".join(known) for known in _OTHER_ROUTES)])
        message = f"no {http.method} {http.path} here; there is {known}"
        await _send(connection, 404, {"error": {"type": "not_found_error", "message": message}})
    return http.keeps_alive


async def _exchange(
    connection: ProviderConnection,
    route: Route,
    form: WireServer,
    http: HttpRequest,
    log: RequestLog,
    choose: Choose,
) -> None:
    try:
        request = log.received(route, http)
    except DecodeError as error:
        wire_error = form.error_of(Failure(400, f"the body does not fit this API: {error}"))
        await _send(connection, wire_error.status, wire_error.body)
        return
    await Exchange(connection, form, request, log).carry_out(choose)


async def _send(connection: ProviderConnection, status: int, content: object) -> None:
    connection.send_whole(status, _JSON_HEADERS, to_json(content))
    await connection.flush()


# The loopback provider: one server, one task for each connection, one log.
#
# async with Provider(script) as p:             in the running loop
# with Provider(script).in_thread() as p:       for code without a loop of its own
# python -m vegakit.testing.provider            in another process


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
        self._script = default_answer if script is None else script
        self._turn = chooser(self._script)
        self._port = port
        self._log = RequestLog(Path(log) if log else None)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
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
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()
        self._server = None
        if self._crashes and error is None:
            raise self._crashes.pop()

    @contextmanager
    def in_thread(self) -> Generator[Self]:
        """Run the provider in a thread, for clients that block."""
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
        """Return the address to give to clients."""
        if self._server is None:
            raise RuntimeError("the provider does not run; write `async with Provider() as p:`")
        return f"http://{_HOST}:{self._port}"

    @property
    def requests(self) -> list[ProviderRequest]:
        """Return the requests in order of arrival, since the start or the last `reset`."""
        return self._log.requests

    def reset(self) -> None:
        """Empties the log and begins the script anew."""
        self._log.reset()
        self._turn = chooser(self._script)

    async def wait_received(self, n: int = 1, *, timeout_s: float = 30.0) -> list[ProviderRequest]:
        """The requests, as soon as there are n of them; from any loop."""
        return await self._wait("received", self._log.received_so_far, n, timeout_s)

    async def wait_ended(self, n: int = 1, *, timeout_s: float = 30.0) -> list[ProviderRequest]:
        """Those whose answer is over, as soon as there are n of them; from any loop."""
        return await self._wait("ended", self._log.ended_so_far, n, timeout_s)

    async def _wait(
        self, what: str, found: Callable[[], list[ProviderRequest]], n: int, timeout_s: float
    ) -> list[ProviderRequest]:
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
        task = asyncio.create_task(
            serve(ProviderConnection(reader, writer), self._log, self._choose)
        )
        self._tasks.add(task)
        task.add_done_callback(self._on_closed)
        task.add_done_callback(lambda _: writer.close())  # cancelled before its first step

    def _on_closed(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (crash := task.exception()):
            self._crashes.append(crash)

    def _choose(self, request: ProviderRequest) -> ProviderAnswer:
        return self._turn(request)
