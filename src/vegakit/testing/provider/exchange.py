"""One exchange with the test provider: HTTP/1.1 on a socket, the log of requests, and the scripted
answer (kit, host).
"""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple, assert_never

import msgspec

from vegakit.records import to_json
from vegakit.testing.provider.script import (
    Api,
    Choose,
    DropConnection,
    Failure,
    Hang,
    ProviderReply,
    ProviderRequest,
    RequestStatus,
    Route,
    read_request,
)
from vegakit.testing.provider.wire import resolve_reply
from vegakit.wires import WireServer

# The part of HTTP/1.1 that a provider needs, over asyncio streams.
#
#     in    requests with a content-length, one after the other on one connection
#     out   whole bodies with a content-length, or chunks until the stream is ended
#
# Output is gathered and leaves at `flush`, so that an answer without pauses is one write. `pause`
# waits *by reading*: whatever the server waits for, it notices at once that the client has left.


_READ_BYTES = 1 << 16
_MAX_HEAD_BYTES = 1 << 16
_MAX_BODY_BYTES = 1 << 26
_CLOSE_S = 1.0


class ClosedError(Exception):
    """The connection is of no more use: the client has left, or is to be left."""


class BadRequestError(Exception):
    """The request is no HTTP that we take."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class HttpRequest(NamedTuple):
    """Names of headers are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def keeps_alive(self) -> bool:
        """Return whether the client may send another request on this connection."""
        return self.headers.get("connection", "").lower() != "close"


class ProviderConnection:
    """One connection of a client."""

    __slots__ = ("_in", "_out", "_reader", "_writer")

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._in = bytearray()
        self._out: list[bytes] = []

    async def next_request(self) -> HttpRequest:
        """Read the next request."""
        while (end := self._in.find(b"\r\n\r\n")) < 0:
            if len(self._in) > _MAX_HEAD_BYTES:
                raise BadRequestError(431, f"expected headers of at most {_MAX_HEAD_BYTES} bytes")
            await self._fill()
        method, path, headers = _parse_head(self._in[:end].decode("latin-1"))
        start, stop = end + 4, end + 4 + _body_length(headers)
        while len(self._in) < stop:
            await self._fill()
        body = bytes(self._in[start:stop])
        del self._in[:stop]
        return HttpRequest(method, path, headers, body)

    async def pause(self, seconds: float | None) -> None:
        """None is for ever, which ends when the client leaves or the server stops."""
        await self.flush()
        try:
            async with asyncio.timeout(seconds):
                while True:
                    await self._fill()
        except TimeoutError:
            return

    def send_whole(
        self, status: int, headers: Mapping[str, str], body: bytes, *, upto: int | None = None
    ) -> None:
        """The head promises all of the body, even if only a part is sent."""
        self._send_head(status, {**headers, "content-length": str(len(body))})
        self._out.append(body[:upto])

    def start_stream(self, status: int, headers: Mapping[str, str]) -> None:
        """Begin a streamed answer."""
        self._send_head(status, {**headers, "transfer-encoding": "chunked"})

    def send_chunk(self, chunk: bytes) -> None:
        """Add a chunk to the stream. An empty one would end it."""
        if chunk:
            self._out.append(b"%x\r\n%b\r\n" % (len(chunk), chunk))

    def end_stream(self) -> None:
        """End the stream."""
        self._out.append(b"0\r\n\r\n")

    async def flush(self) -> None:
        """Send what was added."""
        if not self._out:
            return
        self._writer.write(b"".join(self._out))
        self._out.clear()
        try:
            await self._writer.drain()
        except ConnectionError as error:
            raise ClosedError from error

    async def aclose(self) -> None:
        """Close the connection. Bytes that were flushed still go out, unless the client does not
        take them."""
        self._writer.close()
        try:
            async with asyncio.timeout(_CLOSE_S):
                await self._writer.wait_closed()
        except (ConnectionError, TimeoutError):
            self._writer.transport.abort()

    def _send_head(self, status: int, headers: Mapping[str, str]) -> None:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self._out.append(f"HTTP/1.1 {status} \r\n{lines}\r\n".encode("latin-1"))

    async def _fill(self) -> None:
        try:
            received = await self._reader.read(_READ_BYTES)
        except ConnectionError as error:
            raise ClosedError from error
        if not received or len(self._in) > _MAX_HEAD_BYTES + _MAX_BODY_BYTES:
            raise ClosedError
        self._in += received


def _parse_head(head: str) -> tuple[str, str, dict[str, str]]:
    first, *lines = head.split("\r\n")
    match first.split(" "):
        case [method, target, "HTTP/1.1"]:
            path = target.partition("?")[0]
        case _:
            raise BadRequestError(400, f"expected 'METHOD /path HTTP/1.1', got {first[:80]!r}")
    pairs = (line.partition(":") for line in lines)
    return method, path, {name.lower(): value.strip() for name, _, value in pairs}


def _body_length(headers: Mapping[str, str]) -> int:
    if "transfer-encoding" in headers:
        raise BadRequestError(411, "expected a content-length, got a chunked body")
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()):
        raise BadRequestError(400, f"expected a number as content-length, got {length[:80]!r}")
    if len(length) > 12 or int(length) > _MAX_BODY_BYTES:
        raise BadRequestError(413, f"expected a body of at most {_MAX_BODY_BYTES} bytes")
    return int(length)


# Every request that arrived, in order, and what became of it; readable from any thread.
#
# A request is in the log before a byte of its answer is sent, and has its end there before the
# last byte is: what a client has seen, the log knows.
#
# With a file, each request is a JSON line when it is received and one when it ended; keys that the
# client sent are left out of it.


_KEYS = frozenset({"authorization", "x-api-key", "api-key"})


class RequestLog:
    """The requests that came, safe to read from other threads."""

    def __init__(self, path: Path | None) -> None:
        self.requests: list[ProviderRequest] = []
        self._attempts: Counter[tuple[Api, bytes]] = Counter()
        self._lock = threading.Lock()
        self._waiting: list[tuple[Callable[[], bool], Future[None]]] = []
        self._path = path

    def reset(self) -> None:
        """Forget all requests."""
        self.requests.clear()
        self._attempts.clear()

    def received(self, route: Route, http: HttpRequest) -> ProviderRequest:
        """Raises msgspec.DecodeError for a body that no provider would take."""
        n, same = len(self.requests) + 1, (route.api, http.body)
        attempt = self._attempts[same] + 1
        request = read_request(n, route, http.body, http.headers, attempt, _now_ms())
        self._attempts[same] = attempt
        self.requests.append(request)
        self._write(request, _received_line)
        self._tell()
        return request

    def ended(self, request: ProviderRequest, status: RequestStatus) -> None:
        """Only the first end counts."""
        if request.ended_ms is not None:
            return
        request.status, request.ended_ms = status, _now_ms()
        self._write(request, _ended_line)
        self._tell()

    def received_so_far(self) -> list[ProviderRequest]:
        """Return the requests that have come."""
        return list(self.requests)

    def ended_so_far(self) -> list[ProviderRequest]:
        """Return the requests that are over."""
        return [request for request in self.requests if request.ended_ms is not None]

    def when(self, holds: Callable[[], bool]) -> Future[None]:
        """Return a future that is done once the condition holds."""
        future: Future[None] = Future()
        with self._lock:
            self._waiting.append((holds, future))
        self._tell()
        return future

    def _tell(self) -> None:
        with self._lock:
            due = [future for holds, future in self._waiting if future.cancelled() or holds()]
            if due:
                self._waiting = [w for w in self._waiting if w[1] not in due]
        for future in due:
            if future.set_running_or_notify_cancel():
                future.set_result(None)

    def _write(
        self, request: ProviderRequest, line: Callable[[ProviderRequest], dict[str, Any]]
    ) -> None:
        if self._path:
            with self._path.open("ab") as file:
                file.write(to_json(line(request)) + b"\n")


def _received_line(request: ProviderRequest) -> dict[str, Any]:
    fields = msgspec.structs.asdict(request)
    del fields["raw"]
    headers = {name: value for name, value in request.headers.items() if name not in _KEYS}
    return {"event": "received", **fields, "headers": headers, "body": request.body}


def _ended_line(request: ProviderRequest) -> dict[str, Any]:
    return {
        "event": "ended",
        "n": request.n,
        "status": request.status,
        "code": request.code,
        "sent": request.sent,
        "ended_ms": request.ended_ms,
    }


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


# Carries one scripted answer out on a connection, and logs how it ended.


_JSON_HEADERS = {"content-type": "application/json"}


class Exchange:
    """One request and its answer; raises `ClosedError` if the client left or is dropped."""

    __slots__ = ("_connection", "_format", "_log", "_request")

    def __init__(
        self,
        connection: ProviderConnection,
        form: WireServer,
        request: ProviderRequest,
        log: RequestLog,
    ) -> None:
        self._connection, self._format, self._request, self._log = connection, form, request, log

    async def carry_out(self, choose: Choose) -> None:
        """Answer the request as the script says."""
        try:
            answer = choose(self._request)
            await self._perform(ProviderReply(answer) if isinstance(answer, str) else answer)
        except ClosedError:
            self._end(RequestStatus.DISCONNECTED)
            raise
        finally:
            self._end(RequestStatus.STOPPED)

    async def _perform(self, answer: ProviderReply | Failure | DropConnection | Hang) -> None:
        match answer:
            case ProviderReply():
                await self._wait(answer.delay_ms)
                await (self._stream(answer) if self._request.stream else self._whole(answer))
            case Failure():
                await self._wait(answer.delay_ms)
                await self._fail(answer)
            case DropConnection():
                await self._wait(answer.delay_ms)
                await self._connection.flush()
                self._end(RequestStatus.DROPPED)
                raise ClosedError
            case Hang():
                await self._connection.pause(None)
            case _:
                assert_never(answer)

    async def _whole(self, reply: ProviderReply) -> None:
        body = to_json(self._format.whole(resolve_reply(reply, self._request), self._request))
        headers = self._headers(_JSON_HEADERS, reply)
        self._request.code = 200
        if reply.breaks is None:
            self._connection.send_whole(200, headers, body)
            await self._finish(RequestStatus.ANSWERED)
            return
        if not isinstance(reply.breaks.by, Failure):
            self._connection.send_whole(200, headers, body, upto=len(body) // 2)
        await self._perform(reply.breaks.by)

    async def _stream(self, reply: ProviderReply) -> None:
        stream = self._format.stream(resolve_reply(reply, self._request), self._request)
        self._request.code = 200
        self._connection.start_stream(
            200, self._headers({"content-type": self._format.content_type}, reply)
        )
        self._connection.send_chunk(stream.opening)
        last = reply.breaks.after if reply.breaks else None
        for piece in stream.pieces[:last]:
            if self._request.sent:
                await self._wait(reply.gap_ms)
            self._connection.send_chunk(piece)
            self._request.sent += 1
        if reply.breaks is not None:
            await self._break_off(reply.breaks.by)
            return
        self._connection.send_chunk(stream.closing)
        self._connection.end_stream()
        await self._finish(RequestStatus.ANSWERED)

    async def _break_off(self, by: DropConnection | Hang | Failure) -> None:
        if not isinstance(by, Failure):
            await self._perform(by)
            return
        await self._wait(by.delay_ms)
        self._connection.send_chunk(self._format.broken(by, self._request))
        self._connection.end_stream()
        await self._finish(RequestStatus.FAILED)

    async def _fail(self, failure: Failure) -> None:
        wire_error = self._format.error_of(failure)
        headers = self._headers(_JSON_HEADERS, failure)
        if failure.retry_after_s is not None:
            headers["retry-after"] = f"{failure.retry_after_s:g}"
        self._request.code = wire_error.status
        self._connection.send_whole(wire_error.status, headers, to_json(wire_error.body))
        await self._finish(RequestStatus.FAILED)

    async def _wait(self, delay_ms: int) -> None:
        if delay_ms:
            await self._connection.pause(delay_ms / 1000)

    async def _finish(self, status: RequestStatus) -> None:
        self._end(status)
        await self._connection.flush()

    def _headers(self, headers: dict[str, str], answer: ProviderReply | Failure) -> dict[str, str]:
        name = f"req_{self._request.n}"
        return {**headers, "request-id": name, "x-request-id": name, **answer.headers}

    def _end(self, status: RequestStatus) -> None:
        self._log.ended(self._request, status)
