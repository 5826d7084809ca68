"""Server-sent events, from bytes that are cut anywhere and back (pure).

CR, LF and CRLF end a line; several `data` lines are joined by LF; comments, `id` and `retry` are
passed over. The standard drops an event that no empty line ended; here it counts if the body that
it stands in came whole (`close`), since servers forget that line, and an answer without its last
event would be lost though it was paid for. UTF-8 is decoded by whoever reads
the JSON, so a cut inside a character does no harm.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

from vegakit.conversation import ModelChunk
from vegakit.records import to_json
from vegakit.wires.wire import WireFailure

_LONGEST_EVENT = 1 << 24
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class ServerSentEvent(NamedTuple):
    """One event: its name, empty if it has none, and its data."""

    name: bytes
    data: bytes


class LineDecoder:
    """Splits a stream into lines. Bytes of a line that has not ended are copied once, so the time
    grows with the length however small the pieces are."""

    __slots__ = ("_open_line",)

    def __init__(self) -> None:
        self._open_line = bytearray()

    def feed(self, received: bytes) -> list[bytes]:
        """Return the lines that these bytes end. Raise ValueError for a line without an end."""
        *lines, tail = received.split(b"\n")
        if lines:
            lines[0] = bytes(self._open_line) + lines[0]
            self._open_line.clear()
        self._open_line += tail
        if len(self._open_line) > _LONGEST_EVENT:
            raise ValueError(f"a line of a stream is longer than {_LONGEST_EVENT} bytes")
        return lines


class EventDecoder:
    """Reads the events of one stream."""

    __slots__ = ("_data", "_held", "_lines", "_name")

    def __init__(self) -> None:
        self._lines = LineDecoder()
        self._name = self._held = b""
        self._data = bytearray()

    def feed(self, received: bytes) -> list[ServerSentEvent]:
        """Return the events that these bytes complete. Raise ValueError for an endless event."""
        if self._held or b"\r" in received:
            # A CR at the very end may be half of a CRLF: it waits for what follows.
            text = self._held + received
            self._held = b"\r" if text.endswith(b"\r") else b""
            received = text.removesuffix(b"\r").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        events: list[ServerSentEvent] = []
        for line in self._lines.feed(received):
            if line:
                self._on_line(line)
                continue
            if self._data:
                events.append(ServerSentEvent(self._name, bytes(self._data[1:])))
            self._name, self._data = b"", bytearray()
        return events

    def close(self) -> list[ServerSentEvent]:
        """Return the event that the end of the body completes."""
        return self.feed(b"\n\n")

    def _on_line(self, line: bytes) -> None:
        field, _, value = line.removeprefix(_BYTE_ORDER_MARK).partition(b":")
        if field == b"data":
            self._data += b"\n" + value.removeprefix(b" ")
            if len(self._data) > _LONGEST_EVENT:
                raise ValueError(f"an event of a stream is longer than {_LONGEST_EVENT} bytes")
        elif field == b"event":
            self._name = value.removeprefix(b" ")


class EventReader(ABC):
    """The part of `AnswerReader` that formats of server-sent events share."""

    __slots__ = ("_events", "ended", "failure")

    def __init__(self) -> None:
        self.ended = False
        self.failure: WireFailure | None = None
        self._events = EventDecoder()

    def feed(self, received: bytes) -> list[ModelChunk]:
        """Return the pieces that these bytes complete."""
        return self._heard(self._events.feed(received))

    def close(self) -> list[ModelChunk]:
        """Return the pieces that the end of the body completes."""
        return self._heard(self._events.close())

    def _end(self) -> None:
        """Note that all of the answer is there."""
        self.ended = True

    def _fail(self, failure: WireFailure) -> None:
        """Keep an error that came inside the stream."""
        self.failure = failure

    @abstractmethod
    def _heard(self, events: list[ServerSentEvent]) -> list[ModelChunk]:
        """Return the pieces that these events complete."""


def write_event(content: object, name: str = "") -> bytes:
    """Return a server-sent event."""
    heading = b"event: %b\n" % name.encode() if name else b""
    return b"%bdata: %b\n\n" % (heading, to_json(content))
