"""This module reads the answer to one HTTP/1.1 request, and names what a request broke at.

    bytes ──feed──▶ llhttp (httptools) ──▶ HttpAnswer: status, headers, body ──▶ whoever waits

The parser calls the answer, which judges what it hears: an answer that may have been cut, or whose
end is in doubt, is never a whole one.
"""

import sys
import zlib
from collections.abc import AsyncGenerator, Iterator
from enum import StrEnum
from typing import Final, Literal, Protocol, TypeAlias

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser
from msgspec import Struct

LARGEST_BODY: Final = 1 << 26
"""How long a body may become that is read whole, or inflated."""

_LARGEST_HEAD: Final = 1 << 16
_MOST_BUFFERED: Final = 1 << 18
_INFLATED_AT_ONCE: Final = 1 << 20
_NO_BODY: Final = frozenset({204, 304})

Goal: TypeAlias = Literal["head", "piece", "whole"]
"""How much of an answer is waited for."""


class RequestStage(StrEnum):
    """A stage names how far a request had come when it broke."""

    CONNECT = "connect"
    WRITE = "write"
    FIRST_BYTE = "first_byte"
    BETWEEN = "between"


class Deadlines(Struct, frozen=True):
    """The longest wait in each stage, in seconds.

    `first_byte_s` covers the whole head of the answer. `between_s` begins anew with each piece of
    the body, so a long answer is not late as long as it goes on.
    """

    connect_s: float = 30.0
    write_s: float = 60.0
    first_byte_s: float = 600.0
    between_s: float = 600.0


class BrokenError(Exception):
    """A request that got no whole answer."""

    def __init__(self, stage: RequestStage, message: str, *, timed_out: bool = False) -> None:
        super().__init__(message)
        self.stage, self.timed_out = stage, timed_out

    @property
    def sent(self) -> bool:
        """Return false if no byte of the request can have reached the server."""
        return self.stage is not RequestStage.CONNECT


UNREADABLE_ANSWER: Final = (
    "its answer could not be read: it is not of the form that its protocol says; check that the "
    "base_url of the provider, if one is set, leads to a model"
)


def check_no_page(body: bytes) -> None:
    """Refuse a body that begins as a web page does. No protocol of a provider begins so, but a
    login page of a network does, and a server at a wrong address, with a status of success."""
    if body.lstrip()[:1] == b"<":
        raise BrokenError(
            RequestStage.BETWEEN, "what came is a web page (HTML), and no answer of a model"
        )


class ByteSource(Protocol):
    """The bytes of an answer come from here."""

    is_writing: bool

    async def wait(self, goal: Goal, within_s: float) -> None:
        """Wait until the answer has come that far, or is broken."""
        ...

    def stop_reading(self) -> None:
        """Leave what comes next to the system."""
        ...

    def go_on_reading(self) -> None:
        """Take in more."""
        ...


class HttpAnswer:
    """An answer as it arrives. Its body is read once, by `read` or by `pieces`."""

    __slots__ = (
        "_begun",
        "_body",
        "_deadlines",
        "_endless",
        "_head_size",
        "_limit",
        "_parser",
        "_source",
        "_unheeded",
        "buffered",
        "fault",
        "goal",
        "headed",
        "headers",
        "kept_alive",
        "on_body",
        "status",
        "surplus",
        "whole",
    )

    def __init__(self, source: ByteSource, deadlines: Deadlines) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.headed = self.whole = self.surplus = self.kept_alive = False
        self.fault: BrokenError | None = None
        self.goal: Goal = "head"
        self.buffered = 0
        self._source, self._deadlines = source, deadlines
        self._begun = self._endless = False
        self._limit = LARGEST_BODY
        self._head_size = self._unheeded = 0
        self._body: list[bytes] = []
        self.on_body = self._body.append  # the parser calls the list itself: no frame for a chunk
        self._parser: HttpResponseParser | None = HttpResponseParser(self)

    @property
    def is_success(self) -> bool:
        """Return whether the status says that the request was carried out."""
        return 200 <= self.status < 300

    async def read(self, limit: int = LARGEST_BODY) -> bytes:
        """Return the body. One that is longer than the limit is broken."""
        self._limit = limit
        inflater = self._inflater()
        self._check_size()
        if not self.whole and self.fault is None:
            await self._source.wait("whole", self._deadlines.between_s)
        if self.fault is not None:
            raise self.fault
        body = self._take()
        if inflater is None:
            return body
        pieces: list[bytes] = []
        left = limit
        for piece in inflater.feed(body):
            left -= len(piece)
            if left < 0:
                raise self._broken(_too_long(limit))
            pieces.append(piece)
        inflater.finish()
        return b"".join(pieces)

    async def pieces(self, *, ends_itself: bool = False) -> AsyncGenerator[bytes]:
        """Yield the body as it arrives; what has come together is handed on together. A body that
        gives no length is read only for one who knows its end by what is in it."""
        if ends_itself and "transfer-encoding" not in self.headers:
            self._endless = False
        inflater = self._inflater()
        self._limit = sys.maxsize
        while True:
            while not self._body:
                if self.fault is not None:
                    raise self.fault
                if self.whole:
                    if inflater is not None:
                        inflater.finish()
                    return
                await self._source.wait("piece", self._deadlines.between_s)
            if inflater is None:
                yield self._take()
            else:
                for piece in inflater.feed(self._take()):
                    yield piece

    def feed(self, received: bytes) -> None:
        """Parse what has arrived. Nothing is raised: `fault` says what is wrong with it."""
        assert self._parser is not None
        if not self._begun and not received.startswith(b"H"):
            # The parser knows other protocols that look alike, and passes over empty lines.
            self.fault = BrokenError(
                RequestStage.FIRST_BYTE, f"the server does not speak HTTP/1.1: {received[:40]!r}"
            )
            return
        self._begun = True
        body, before = self._body, len(self._body)
        self._unheeded += len(received)
        try:
            self._parser.feed_data(received)
        except (HttpParserError, HttpParserUpgrade) as error:
            if self.whole:
                self.surplus = True
            elif self.fault is None:
                self.fault = self._broken(f"the server's answer is not HTTP/1.1: {error}")
        if len(body) > before:
            if len(body) > before + 1:
                body[before:] = [b"".join(body[before:])]
            self._unheeded = 0
            self.buffered += len(body[-1])
            self._check_size()
        elif self._unheeded > _LARGEST_HEAD and not self.whole:
            self._refuse_head()

    def is_reached(self) -> bool:
        """Return true if the one who waits has what he waits for."""
        if self.fault is not None or self.whole:
            return True
        if self.goal == "head" or self._endless:
            return self.headed
        return self.goal == "piece" and bool(self._body)

    def stage(self) -> RequestStage:
        """Return what is being waited for."""
        if self.headed:
            return RequestStage.BETWEEN
        return RequestStage.WRITE if self._source.is_writing else RequestStage.FIRST_BYTE

    def renew(self) -> float | None:
        """Return the new deadline if a wait for the whole body goes on, since some of it came."""
        if self.goal == "whole" and self.headed and not self._unheeded:
            return self._deadlines.between_s
        return None

    def first_byte_s(self) -> float:
        """Return the deadline that begins when the request is written."""
        return self._deadlines.first_byte_s

    def release(self) -> None:
        """Take no more in. What is not there by now will not come."""
        self._parser = None  # which refers back to this object
        if not self.whole and self.fault is None:
            self.fault = self._broken("the answer was left before its end")

    # What the parser calls. An error that is raised here stops it, and goes no further.

    def on_message_begin(self) -> None:
        """Stop at a second answer: nobody asked for one."""
        if self.whole:
            raise ValueError("bytes after the end of the answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take in a header; trailers are passed over."""
        if self.headed:
            return
        self._head_size += len(name) + len(value) + 4
        if self._head_size > _LARGEST_HEAD:
            self._refuse_head()
            raise ValueError("a long head")
        key = name.decode("latin-1").lower()
        # llhttp does not know "chunked" before a tab: it stays, so that neither do we.
        text = value.decode("latin-1").rstrip(" " if key == "transfer-encoding" else " \t")
        before = self.headers.get(key)
        self.headers[key] = text if before is None else f"{before}, {text}"

    def on_headers_complete(self) -> None:
        """Judge the head; one with a status below 200 comes before the head of the answer."""
        parser = self._parser
        assert parser is not None
        status, version = parser.get_status_code(), parser.get_http_version()
        if version not in {"1.1", "1.0"} or status == 101 or not 100 <= status <= 599:
            self.fault = self._broken(f"the server answered with HTTP/{version}, status {status}")
            raise ValueError("no answer")
        if status < 200:
            self.headers.clear()
            return
        self.status, self.headed = status, True
        self.kept_alive = version == "1.1" and parser.should_keep_alive()
        self._unheeded = 0
        coding = self.headers.get("transfer-encoding", "").lower()
        has_end = coding == "chunked" if coding else "content-length" in self.headers
        self._endless = not has_end and status not in _NO_BODY

    def on_message_complete(self) -> None:
        """Note the end of the body."""
        self.whole = self.headed

    def _inflater(self) -> "_Inflater | None":
        """Return what undoes the encoding of the body; a body that cannot be read is refused."""
        if self._endless:
            raise self._broken(
                "the answer gives no length, so one that was cut off would look whole"
            )
        encoding = self.headers.get("content-encoding", "").lower()
        if encoding in {"", "identity"}:
            return None
        if encoding not in {"gzip", "x-gzip", "deflate"}:
            raise self._broken(
                f"the answer is encoded by {encoding[:40]!r}, which nobody asked for"
            )
        return _Inflater(encoding)

    def _take(self) -> bytes:
        body = self._body
        taken = body[0] if len(body) == 1 else b"".join(body)
        body.clear()
        self.buffered = 0
        self._source.go_on_reading()
        return taken

    def _check_size(self) -> None:
        if self.buffered > self._limit and self.fault is None:
            self.fault = self._broken(_too_long(self._limit))
        elif self.buffered > _MOST_BUFFERED and self.goal != "whole" and not self.whole:
            self._source.stop_reading()

    def _refuse_head(self) -> None:
        part = "a trailer or chunk header" if self.headed else "a head"
        self.fault = self._broken(f"the server sent {part} longer than {_LARGEST_HEAD} bytes")

    def _broken(self, message: str) -> BrokenError:
        return BrokenError(
            RequestStage.BETWEEN if self.headed else RequestStage.FIRST_BYTE, message
        )


def _too_long(limit: int) -> str:
    return f"the body of the answer is longer than {limit} bytes"


class _Inflater:
    """Undoes gzip or deflate, up to a size: a small answer can hold an endless one."""

    __slots__ = ("_begun", "_is_gzip", "_left", "_zlib")

    def __init__(self, encoding: str) -> None:
        self._is_gzip = encoding != "deflate"
        self._begun = False
        self._zlib = zlib.decompressobj(zlib.MAX_WBITS | 16)
        self._left = LARGEST_BODY

    def feed(self, received: bytes) -> Iterator[bytes]:
        """Yield what these bytes inflate to, in parts of a bounded size."""
        if not received:
            return
        if not self._begun and not self._is_gzip:
            # "deflate" means the format of zlib; some servers send what is inside of it.
            is_zlib = received[0] & 15 == 8
            self._zlib = zlib.decompressobj(zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS)
        self._begun = True
        decoder = self._zlib
        piece = b" " * _INFLATED_AT_ONCE
        while received or len(piece) == _INFLATED_AT_ONCE:
            try:
                piece = decoder.decompress(received, _INFLATED_AT_ONCE)
            except zlib.error as error:
                raise _not_inflated(f"cannot be inflated: {error}") from None
            self._left -= len(piece)
            if self._left < 0:
                raise _not_inflated(f"inflates to more than {LARGEST_BODY} bytes")
            if decoder.unused_data:
                raise _not_inflated("goes on after the end of its data")
            if piece:
                yield piece
            received = decoder.unconsumed_tail

    def finish(self) -> None:
        """Refuse data that ended before its end."""
        if self._begun and not self._zlib.eof:
            raise _not_inflated("ends within its data")


def _not_inflated(what: str) -> BrokenError:
    return BrokenError(RequestStage.BETWEEN, f"the compressed answer {what}")
