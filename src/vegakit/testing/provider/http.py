"""As much of HTTP/1.1 as a provider needs, over asyncio streams.

    in    requests with a content-length, one after the other on one connection
    out   whole bodies with a content-length, or chunks until the stream is ended

Output is gathered and leaves at `flush`, so that an answer without pauses is one write. `pause`
waits *by reading*: whatever the server waits for, it notices at once that the client has left.
"""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["BadRequestError", "ClosedError", "Connection", "HttpRequest"]

_READ_BYTES = 1 << 16
_MAX_HEAD_BYTES = 1 << 16
_MAX_BODY_BYTES = 1 << 26
_CLOSE_S = 1.0


class ClosedError(Exception):
    """The connection is of no more use: the client has left, or is to be left."""


class BadRequestError(Exception):
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
        return self.headers.get("connection", "").lower() != "close"


class Connection:
    __slots__ = ("_in", "_out", "_reader", "_writer")

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._in = bytearray()
        self._out: list[bytes] = []

    async def next_request(self) -> HttpRequest:
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
        self._send_head(status, {**headers, "transfer-encoding": "chunked"})

    def send_chunk(self, chunk: bytes) -> None:
        self._out.append(b"%x\r\n%b\r\n" % (len(chunk), chunk))

    def end_stream(self) -> None:
        self._out.append(b"0\r\n\r\n")

    async def flush(self) -> None:
        if not self._out:
            return
        self._writer.write(b"".join(self._out))
        self._out.clear()
        try:
            await self._writer.drain()
        except ConnectionError as error:
            raise ClosedError from error

    async def aclose(self) -> None:
        """What was flushed still goes out, unless the client does not take it."""
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
