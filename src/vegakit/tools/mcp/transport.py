"""The transports to an MCP server: JSON-RPC lines of a sandboxed command or HTTP to one host, both
bounded whoever the server is.

Imports the MCP and HTTP libraries, so it is loaded when a server is first used.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, Self, TypeAlias, cast

import anyio
import httpcore2
import httpx2
from mcp_types import JSONRPCNotification, jsonrpc_message_adapter

from vegakit.errors import CapabilityDenied, LimitReached
from vegakit.policy import Grant
from vegakit.ports import ChildInput, ChildLauncher, ChildOutput, Clock
from vegakit.tools.http_requests import (
    FetchRequest,
    Target,
    checked_headers,
    reachable_addresses,
    resolve_host,
    target_of,
)
from vegakit.tools.http_transport import PinnedBackend, public_certificates
from vegakit.tools.mcp.servers import McpServer
from vegakit.tools.sandbox import open_sandbox

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage


# Messages from a server are read within bounds, whoever it is.
#
# | a server that                                    | is                                          |
# |--------------------------------------------------|---------------------------------------------|
# | writes what is no message, or a list of them     | passed over, a hundred times; then ended    |
# | writes a line that has no end                    | ended                                       |
# | writes more than it is asked                     | ended after ten thousand messages, answers  |
# |                                                  | that nobody waits for included, or 64 MB    |
# | says that its tools changed                      | believed, once, whatever number of times    |
# | notifies us of anything else                     | passed over, but that it gave up a request  |


_CHUNK = 1 << 16
_MOST_LINE_BYTES = 4_000_000
_MOST_UNASKED = 10_000
_MOST_UNASKED_BYTES = 64_000_000
_MOST_GARBLED = 100
_WRITE_S = 10.0
_CHANGED = "notifications/tools/list_changed"
_CANCELLED = "notifications/cancelled"
_IN_A_TURN = 64
"""Messages, before others have their turn."""


class MessageStream(Protocol):
    """An end of a transport; leaving `async with` closes it."""

    async def aclose(self) -> None: ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool | None: ...


class MessageReader(MessageStream, Protocol):
    """The reading end of a transport, as the sessions of `mcp` want it."""

    async def receive(self) -> "SessionMessage | Exception": ...

    def __aiter__(self) -> "MessageReader": ...

    async def __anext__(self) -> "SessionMessage | Exception": ...


class MessageWriter(MessageStream, Protocol):
    """The writing end of a transport."""

    async def send(self, item: "SessionMessage", /) -> None: ...


Streams: TypeAlias = tuple[MessageReader, MessageWriter]


class _Stream:
    async def aclose(self) -> None:
        pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()


class LineReader(_Stream):
    """Messages that a command writes, one a line; read only when they are wanted."""

    def __init__(self, output: ChildOutput, on_end: Callable[[str], None]) -> None:
        from mcp.shared.message import SessionMessage

        self._output = output
        self._on_end = on_end
        self._message = SessionMessage
        self._buffer = bytearray()
        self.bytes = 0
        """In all."""

    async def receive(self) -> "SessionMessage | Exception":
        line = await self._line()
        try:
            return self._message(jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValueError as error:
            return error

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> "SessionMessage | Exception":
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def _line(self) -> bytes:
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            if searched > _MOST_LINE_BYTES:
                self._on_end(f"it wrote a line of more than {_MOST_LINE_BYTES:,} bytes")
                raise anyio.EndOfStream
            chunk = await self._output.read(_CHUNK)
            if not chunk:
                raise anyio.EndOfStream
            self._buffer += chunk
            self.bytes += len(chunk)
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line


class LineWriter(_Stream):
    """Messages to a command; one that does not read them is over."""

    def __init__(self, stdin: ChildInput, on_end: Callable[[str], None]) -> None:
        self._stdin = stdin
        self._on_end = on_end

    async def send(self, item: "SessionMessage", /) -> None:
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        try:
            with anyio.fail_after(_WRITE_S):
                self._stdin.write(text.encode(errors="backslashreplace") + b"\n")
                await self._stdin.drain()
        except (OSError, RuntimeError) as error:  # a timeout is an OSError
            self._on_end("it does not read what it is sent")
            raise anyio.BrokenResourceError from error

    async def aclose(self) -> None:
        self._stdin.close()


class BoundedReader(_Stream):
    """A reader around that of any transport, which bounds what a server may send unasked."""

    def __init__(
        self,
        inner: MessageReader,
        on_changed: Callable[[], None],
        on_end: Callable[[str], None],
    ) -> None:
        self._inner = inner
        self._on_changed = on_changed
        self._on_end = on_end
        self._garbled = 0
        self._unasked = 0
        self._bytes_before = 0

    def on_asked(self) -> None:
        """Note that an answer may come now."""
        self._unasked = 0
        self._bytes_before = self._bytes

    async def receive(self) -> "SessionMessage | Exception":
        while True:
            item = await self._inner.receive()
            self._count(item)
            if self._unasked % _IN_A_TURN == 0:
                await asyncio.sleep(0)  # who writes without end would have the loop to itself
            if isinstance(item, Exception):
                continue
            if not isinstance(item.message, JSONRPCNotification):
                return item
            if item.message.method == _CANCELLED:
                return item
            if item.message.method == _CHANGED:
                self._on_changed()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> "SessionMessage | Exception":
        try:
            return await self.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self._on_end("it ended")
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        await self._inner.aclose()

    @property
    def _bytes(self) -> int:
        """Return the bytes read by a transport that counts them; the others have bounds of their
        own."""
        return getattr(self._inner, "bytes", 0)

    def _count(self, item: "SessionMessage | Exception") -> None:
        """An answer counts as well: one that nobody waits for costs as much as any other."""
        self._unasked += 1
        if isinstance(item, Exception):
            self._garbled += 1
        unasked_bytes = self._bytes - self._bytes_before
        if self._garbled > _MOST_GARBLED:
            self._end(f"it wrote {self._garbled:,} lines that are no messages")
        if self._unasked > _MOST_UNASKED:
            self._end(f"it wrote {self._unasked:,} messages that nobody asked for")
        if unasked_bytes > _MOST_UNASKED_BYTES:
            self._end(f"it wrote {unasked_bytes:,} bytes for one answer")

    def _end(self, why: str) -> NoReturn:
        self._on_end(why)
        raise anyio.EndOfStream


# A server that is a command: started in the sandbox, spoken to over its pipes.


_KEPT = 2_000
_STDERR_CHUNK = 1 << 14
_WINDOW_MS, _MOST_BYTES = 60_000, 16_000_000


class StderrTail:
    """The end of what a server wrote to its stderr. One that writes without end is over."""

    def __init__(self) -> None:
        self.last = b""

    async def read(self, stream: ChildOutput, clock: Clock, on_end: Callable[[str], None]) -> None:
        """Read a server's stderr, keep its end, and end the server if it floods us."""
        since, received = clock.now(), 0
        while chunk := await stream.read(_STDERR_CHUNK):
            self.last = (self.last + chunk)[-_KEPT:]
            if clock.now() - since > _WINDOW_MS:
                since, received = clock.now(), 0
            received += len(chunk)
            if received > _MOST_BYTES:
                on_end(f"it wrote more than {_MOST_BYTES:,} bytes to stderr within a minute")
                return

    def text(self) -> str:
        """Return the last words of the server."""
        return f"its last words: {self.last.decode(errors='replace').strip()}" if self.last else ""


@asynccontextmanager
async def command_streams(
    server: McpServer,
    launcher: ChildLauncher,
    clock: Clock,
    owner: str,
    stderr_tail: StderrTail,
    on_end: Callable[[str], None],
) -> AsyncGenerator[Streams]:
    """Start a server in the sandbox and yield its streams."""
    async with AsyncExitStack() as open_now:
        folder = server.folder or open_now.enter_context(TemporaryDirectory(prefix="vega-mcp-"))
        sandbox = await open_sandbox(
            launcher,
            clock,
            Path(folder),
            kind=server.sandbox,
            readable=[Path(path) for path in server.readable],
            path=[Path(path) for path in server.path],
            writable=server.may_write or server.folder is None,
        )
        serving = sandbox.serve(tuple(server.command), owner=owner, env=server.env)
        child = await open_now.enter_async_context(serving)
        reading = asyncio.ensure_future(stderr_tail.read(child.stderr, clock, on_end))
        open_now.callback(reading.cancel)
        assert child.stdin is not None
        yield LineReader(child.stdout, on_end), LineWriter(child.stdin, on_end)


# A server that is reached over HTTP: at the host of its URL, whose addresses are checked first.
#
# Every connection is made to an address that was looked up once and that the grant reaches, and
# every request is held against the grant, as for `Http`. Redirects stay within the origin,
# nothing is unpacked, the environment's proxies are not used. There is no OAuth: a server that
# wants a token is given one by `headers`, which goes to that server alone.


_MOST_ANSWER_BYTES = 4_000_000
_MOST_STREAM_BYTES = 64_000_000
_CONNECT_S = 5.0
_NOT_FOUND = 404


@asynccontextmanager
async def http_streams(server: McpServer, on_end: Callable[[str], None]) -> AsyncGenerator[Streams]:
    """Open the streams of a server at its address."""
    from mcp.client.streamable_http import streamable_http_client

    timeout = httpx2.Timeout(_CONNECT_S, read=None)  # how long an answer may take is the call's
    headers = {**dict(checked_headers(server.headers)), "Accept-Encoding": "identity"}
    async with (
        httpx2.AsyncClient(
            transport=_ConfinedTransport(server.net_grant, on_end),
            headers=headers,
            timeout=timeout,
            trust_env=False,
        ) as client,
        streamable_http_client(
            server.url, http_client=client, max_sse_event_size=_MOST_ANSWER_BYTES
        ) as streams,
    ):
        yield streams


class _CheckedBackend(httpcore2.AsyncNetworkBackend):
    def __init__(self, grant: Grant) -> None:
        self._grant = grant

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  (httpcore's signature)
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        target = Target(secure=True, method="POST", host=host, port=port, path="/")
        addresses = await reachable_addresses(self._grant, target, resolve_host)
        return await PinnedBackend(addresses).connect_tcp(host, port, timeout=timeout)


class _ConfinedTransport(httpx2.AsyncBaseTransport):
    def __init__(self, grant: Grant, on_end: Callable[[str], None]) -> None:
        self._grant = grant
        self._on_end = on_end
        self._pool = httpcore2.AsyncConnectionPool(
            public_certificates(), network_backend=_CheckedBackend(grant)
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        target_of(self._grant, FetchRequest(request.method, str(request.url)))
        answer = await self._pool.handle_async_request(_as_sent(request))
        received = httpx2.Response(answer.status, headers=answer.headers)
        if answer.status == _NOT_FOUND and "mcp-session-id" in request.headers:
            self._on_end("it knows nothing of this session, as if it was started anew")
        if received.headers.get("content-encoding", "identity") != "identity":
            await answer.aclose()
            raise CapabilityDenied("the server packed its answer, though it was asked not to")
        streams = received.headers.get("content-type", "").startswith("text/event-stream")
        most = _MOST_STREAM_BYTES if streams else _MOST_ANSWER_BYTES
        return httpx2.Response(
            answer.status,
            headers=answer.headers,
            stream=_BoundedStream(cast("AsyncIterator[bytes]", answer.stream), most),
            extensions=cast("Any", answer.extensions),
        )

    async def aclose(self) -> None:
        await self._pool.aclose()


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, inner: AsyncIterator[bytes], most: int) -> None:
        self._inner = inner
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        received = 0
        async for part in self._inner:
            received += len(part)
            if received > self._most:
                raise LimitReached(f"the server answered with more than {self._most:,} bytes")
            yield part

    async def aclose(self) -> None:
        await cast("Any", self._inner).aclose()


def _as_sent(request: httpx2.Request) -> httpcore2.Request:
    url = request.url
    return httpcore2.Request(
        method=request.method,
        url=httpcore2.URL(
            scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
        ),
        headers=request.headers.raw,
        content=cast("Any", request.stream),
        extensions=request.extensions,
    )
