"""The other end of a wire format: what a server of it says, as the test provider does (pure).

A piece is what arrives at once: one delta, with the events that must go before or after it.
Pauses and breaks fall between pieces, so they mean the same in every format.
"""

import re
from collections.abc import Callable
from typing import NamedTuple, Protocol

from msgspec import Struct

from vegakit.conversation import Finish, Usage

_WORD = re.compile(r"\S+\s*|\s+")


class ServedRequest(Protocol):
    """The parts of a request that its answer repeats. `n` numbers the requests of a server; `sent`
    counts the pieces of its stream so far; `stream_usage` says that a stream must end with what it
    used."""

    n: int
    model: str
    started_ms: int
    stream_usage: bool
    sent: int


class ServedFailure(Protocol):
    """A failure that a server is told to answer with: an HTTP status, `quota` or
    `context_length`."""

    @property
    def cause(self) -> int | str:
        """Return the status or the cause."""
        ...

    @property
    def message(self) -> str:
        """Return the words of the provider; empty for its usual ones."""
        ...


class ServedCall(Struct, frozen=True):
    """A tool call. `ref` is the same for every format; each puts its own prefix before it."""

    ref: str
    name: str
    arguments: str


class ServedReply(Struct, frozen=True):
    """An answer with nothing left open: what every wire format has to say in its own words."""

    text: str
    refusal: str
    calls: list[ServedCall]
    usage: Usage | None
    finish: Finish


class WireError(NamedTuple):
    """An error as a provider spells it."""

    status: int
    kind: str
    code: str | None
    message: str
    body: object


class ServedStream(NamedTuple):
    """A streamed answer in its pieces."""

    opening: bytes
    pieces: list[bytes]
    closing: bytes


class WireServer(NamedTuple):
    """A wire format as a server speaks it. `broken` ends an open stream with an error."""

    whole: Callable[[ServedReply, ServedRequest], object]
    stream: Callable[[ServedReply, ServedRequest], ServedStream]
    error_of: Callable[[ServedFailure], WireError]
    broken: Callable[[ServedFailure, ServedRequest], bytes]
    content_type: str = "text/event-stream"


def joined(start: bytes, pieces: list[bytes], stop: bytes) -> list[bytes]:
    """The same pieces, with what goes before the first and after the last."""
    first, *rest = pieces
    *most, last = [start + first, *rest]
    return [*most, last + stop]


def split_words(text: str) -> list[str]:
    """Split a text into words with the space that follows."""
    return _WORD.findall(text)


def halves(text: str) -> tuple[str, str]:
    """Split a text in two."""
    middle = len(text) // 2
    return text[:middle], text[middle:]
