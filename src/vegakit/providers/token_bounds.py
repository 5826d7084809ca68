"""Upper bounds on the tokens a provider bills as input, computed without asking it (pure)."""

import json
import struct
from collections.abc import Callable
from math import ceil

from vegakit.conversation import (
    AssistantMessage,
    Media,
    Message,
    ModelRequest,
    Reasoning,
    Text,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from vegakit.errors import UserError
from vegakit.providers.provider import PixelSize, ProviderRecord

# How many tokens an image is billed as, at most, by its size, as the provider's record says.


_LARGEST: PixelSize = (1_000_000, 1_000_000)
"""An image whose size cannot be read, or that the provider fetches itself, counts as this one."""


def image_bound(provider: ProviderRecord, model: str, media: Media) -> int:
    """Return the most tokens that an image is billed as."""
    if media.media_type not in _READERS:
        raise UserError(
            f"a file of type {media.media_type or 'unknown'} cannot be sent: what it would cost is "
            f"not known before it is; send text, or an image of {', '.join(_READERS)}"
        )
    return provider.image_tokens(model, pixel_size(media) or _LARGEST)


def pixel_size(media: Media) -> PixelSize | None:
    """Read the size of an image from its first bytes, as its format says; None if they say
    something else."""
    try:
        size = _READERS[media.media_type](media.data)
    except (struct.error, IndexError):
        return None
    return size if size and min(size) > 0 else None


def _png(data: bytes) -> PixelSize | None:
    return struct.unpack_from(">II", data, 16) if data[12:16] == b"IHDR" else None


def _gif(data: bytes) -> PixelSize | None:
    """Of the whole picture, in which each frame has its place."""
    return struct.unpack_from("<HH", data, 6) if data[:3] == b"GIF" else None


def _jpeg(data: bytes) -> PixelSize | None:
    """In the first frame header; the segments before it are stepped over."""
    at = 2
    while data[:2] == b"\xff\xd8" and data[at] == 0xFF:
        kind = data[at + 1]
        if 0xC0 <= kind <= 0xCF and kind not in {0xC4, 0xC8, 0xCC}:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        at += 2 + struct.unpack_from(">H", data, at + 2)[0]
    return None


def _webp(data: bytes) -> PixelSize | None:
    """Lossy, lossless or extended: three ways to write it."""
    kind = data[12:16] if data[8:12] == b"WEBP" else b""
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    if kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8X":
        width, height = data[24:27], data[27:30]
        return int.from_bytes(width, "little") + 1, int.from_bytes(height, "little") + 1
    return None


_READERS: dict[str, Callable[[bytes], PixelSize | None]] = {
    "image/png": _png,
    "image/jpeg": _jpeg,
    "image/gif": _gif,
    "image/webp": _webp,
}


# No fewer tokens than a provider will bill as input, without asking it.
#
# A token stands for at least one byte of text: the tokenizers of providers are built up from
# single bytes, and "1,2,3,4" or rare characters do come to one token a byte. So the bytes of all
# text are the bound, and nothing smaller would be one: English is billed at about a quarter of
# it. Since output costs five times as much and is reserved at its maximum too, this is seldom
# what fills a budget. What the provider writes around our text is covered by an allowance for
# each piece. What only the provider can read (signatures, encrypted reasoning) holds no more than
# its own length.


_REQUEST = 64
_MESSAGE = 16
_PART = 16
_TOOL = 64
_FIRST_TOOL = 1_000
"""The instructions on tools that a provider adds by itself: up to about 700 tokens."""


def bound_of_text(provider: ProviderRecord, text: str) -> int:
    """Return no fewer tokens than this text is."""
    return ceil(len(text.encode(errors="surrogatepass")) * provider.tokens_a_byte)


def bound_of_tools(provider: ProviderRecord, tools: list[object]) -> int:
    """Return no fewer tokens than tools and the shape of an answer are, as they are sent."""
    sent = sum(bound_of_text(provider, _json(tool)) + _TOOL for tool in tools)
    return sent + (_FIRST_TOOL if tools else 0)


def bound_of_shapes(provider: ProviderRecord, sent_bytes: int, count: int) -> int:
    """Return no fewer tokens than so many tools and shapes of an answer are, by the bytes that they
    add to a request. What is sent may be longer than what was asked for: a provider may want a
    schema spelled out."""
    return ceil(sent_bytes * provider.tokens_a_byte) + count * _TOOL + _FIRST_TOOL


def bound_of_messages(provider: ProviderRecord, model: str, request: ModelRequest) -> int:
    """Return no fewer tokens than the messages of a request are."""
    parts = [part for message in request.messages for part in _parts(message)]
    texts = sum(bound_of_text(provider, part) for part in parts if isinstance(part, str))
    images = sum(image_bound(provider, model, part) for part in parts if isinstance(part, Media))
    return _REQUEST + len(request.messages) * _MESSAGE + len(parts) * _PART + texts + images


def _parts(message: Message) -> list[str | Media]:
    match message:
        case UserMessage():
            return [part.text if isinstance(part, Text) else part for part in message.parts]
        case ToolMessage():
            return [result.id + result.name + result.content for result in message.results]
        case AssistantMessage():
            return [_part_text(part) for part in message.parts]


def _part_text(part: Text | Reasoning | ToolCall) -> str:
    match part:
        case Text():
            return part.text
        case Reasoning():
            return part.text + (_json(part.opaque.value) if part.opaque else "")
        case ToolCall():
            return part.id + part.name + _json(part.arguments)


def _json(value: object) -> str:
    """With every escape written out, its longest spelling."""
    return json.dumps(value)
