"""What comes from a server, message by message, within bounds whoever it is.

| a server that                                    | is                                            |
|--------------------------------------------------|-----------------------------------------------|
| writes what is no message, or a list of them     | passed over, a hundred times; then ended      |
| writes a line that has no end                    | ended                                         |
| writes more than it is asked                     | ended after ten thousand messages, answers    |
|                                                  | that nobody waits for included, or 64 MB      |
| says that its tools changed                      | believed, once, whatever number of times      |
| notifies us of anything else                     | passed over, but that it gave up a request    |
"""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Protocol, Self, TypeAlias

import anyio
from mcp_types import JSONRPCNotification, jsonrpc_message_adapter

from vegakit.ports import ChildInput, ChildOutput

if TYPE_CHECKING:  # it loads a whole server along
    from mcp.shared.message import SessionMessage

__all__ = ["Input", "Lines", "Reading", "Streams", "Watched", "Writing"]

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


class Reading(Protocol):
    """As the sessions of `mcp` want it."""

    async def receive(self) -> "SessionMessage | Exception": ...

    async def aclose(self) -> None: ...

    def __aiter__(self) -> "Reading": ...

    async def __anext__(self) -> "SessionMessage | Exception": ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool | None: ...


class Writing(Protocol):
    async def send(self, item: "SessionMessage", /) -> None: ...

    async def aclose(self) -> None: ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool | None: ...


Streams: TypeAlias = tuple[Reading, Writing]


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


class Lines(_Stream):
    """Messages that a command writes, one a line; read only when they are wanted."""

    def __init__(self, output: ChildOutput, on_over: Callable[[str], None]) -> None:
        from mcp.shared.message import SessionMessage

        self._output = output
        self._on_over = on_over
        self._message = SessionMessage
        self._heard = bytearray()
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
        while (end := self._heard.find(b"\n", searched)) < 0:
            searched = len(self._heard)
            if searched > _MOST_LINE_BYTES:
                self._on_over(f"it wrote a line of more than {_MOST_LINE_BYTES:,} bytes")
                raise anyio.EndOfStream
            chunk = await self._output.read(_CHUNK)
            if not chunk:
                raise anyio.EndOfStream
            self._heard += chunk
            self.bytes += len(chunk)
        line = bytes(self._heard[:end])
        del self._heard[: end + 1]
        return line


class Input(_Stream):
    """Messages to a command; one that does not read them is over."""

    def __init__(self, stdin: ChildInput, on_over: Callable[[str], None]) -> None:
        self._stdin = stdin
        self._on_over = on_over

    async def send(self, item: "SessionMessage", /) -> None:
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        try:
            with anyio.fail_after(_WRITE_S):
                self._stdin.write(text.encode(errors="backslashreplace") + b"\n")
                await self._stdin.drain()
        except (OSError, RuntimeError) as error:  # a timeout is an OSError
            self._on_over("it does not read what it is sent")
            raise anyio.BrokenResourceError from error

    async def aclose(self) -> None:
        self._stdin.close()


class Watched(_Stream):
    """Around what any transport reads."""

    def __init__(
        self,
        inner: Reading,
        on_changed: Callable[[], None],
        on_over: Callable[[str], None],
    ) -> None:
        self._inner = inner
        self._on_changed = on_changed
        self._on_over = on_over
        self._garbled = 0
        self._unasked = 0
        self._bytes_before = 0

    def on_asked(self) -> None:
        """What comes now may be an answer."""
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
            self._on_over("it ended")
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        await self._inner.aclose()

    @property
    def _bytes(self) -> int:
        """Of a transport that counts them; the others have bounds of their own."""
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
        self._on_over(why)
        raise anyio.EndOfStream
