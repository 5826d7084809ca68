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

_LONGEST_LINE = 1 << 24
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class ServerSentEvent(NamedTuple):
    """One event: its name, empty if it has none, and its data."""

    name: bytes
    data: bytes


class EventDecoder:
    """Reads the events of one stream."""

    __slots__ = ("_begun", "_data", "_name", "_rest")

    def __init__(self) -> None:
        self._rest = b""
        self._name = b""
        self._data: list[bytes] = []
        self._begun = False

    def feed(self, received: bytes) -> list[ServerSentEvent]:
        """Return the events that these bytes complete; raises ValueError for an endless line."""
        text = self._rest + received if self._rest else received
        if not self._begun:
            if len(text) < 3 and _BYTE_ORDER_MARK.startswith(text):
                self._rest = text
                return []
            text, self._begun = text.removeprefix(_BYTE_ORDER_MARK), True
        if b"\r" in text:
            # A CR at the very end may be half of a CRLF: it waits for what follows.
            held = text.endswith(b"\r")
            text = text[:-1] if held else text
            text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n") + (b"\r" if held else b"")
        *lines, self._rest = text.split(b"\n")
        if len(self._rest) > _LONGEST_LINE:
            raise ValueError(f"a line of an event stream is longer than {_LONGEST_LINE} bytes")
        events: list[ServerSentEvent] = []
        for line in lines:
            if line:
                self._on_line(line)
                continue
            if self._data:
                events.append(ServerSentEvent(self._name, b"\n".join(self._data)))
            self._name, self._data = b"", []
        return events

    def close(self) -> list[ServerSentEvent]:
        """Return the event that the end of the body completes."""
        if not self._rest and not self._data:
            return []
        return self.feed(b"\n\n")

    def _on_line(self, line: bytes) -> None:
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
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
