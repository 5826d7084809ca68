"""What the three wire formats share: server-sent events, and a stream as opening, pieces, closing.

A piece is what arrives at once: one delta, together with the events that must go before or after
it. Pauses and breaks fall between pieces, so they mean the same in every format.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from vegakit.records import to_json
from vegakit.testing.provider.failures import Spelling
from vegakit.testing.provider.requests import Api, Request
from vegakit.testing.provider.said import Said
from vegakit.testing.provider.script import Failure

__all__ = ["Stream", "WireFormat", "event", "halves", "joined", "split_words"]

_WORD = re.compile(r"\S+\s*|\s+")


class Stream(NamedTuple):
    opening: bytes
    pieces: list[bytes]
    closing: bytes


class WireFormat(NamedTuple):
    """`broken` is the event that ends an open stream with an error."""

    api: Api
    whole: Callable[[Said, Request], object]
    stream: Callable[[Said, Request], Stream]
    spell: Callable[[Failure], Spelling]
    broken: Callable[[Failure, Request], bytes]


def event(content: object, name: str = "") -> bytes:
    heading = b"event: %b\n" % name.encode() if name else b""
    return b"%bdata: %b\n\n" % (heading, to_json(content))


def joined(start: bytes, pieces: list[bytes], stop: bytes) -> list[bytes]:
    """The same pieces, with what goes before the first and after the last."""
    first, *rest = pieces
    *most, last = [start + first, *rest]
    return [*most, last + stop]


def split_words(text: str) -> list[str]:
    return _WORD.findall(text)


def halves(text: str) -> tuple[str, str]:
    middle = len(text) // 2
    return text[:middle], text[middle:]
