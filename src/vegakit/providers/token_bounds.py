"""Upper bounds on the tokens a provider bills as input, computed without asking it (pure)."""

import json
import struct
from collections.abc import Callable
from math import ceil
from typing import TypeAlias

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

# How many tokens an image is billed as, at most, by its size.
#
# | provider  | rule                                                                  | at most |
# |-----------|-----------------------------------------------------------------------|---------|
# | anthropic | width × height / 750, or squares of 28, whichever is more             | 4,784   |
# | openai    | tiles of 512 after scaling to 2,048 and then 768, by model; or        | 48,169  |
# |           | squares of 32 times a factor, by model; the larger for unknown ones   | 24,600  |
#
# An image whose size cannot be read, or that the provider fetches itself, counts as the largest.


PixelSize: TypeAlias = tuple[int, int]
TokenRule: TypeAlias = Callable[[PixelSize], int]

_LARGEST: PixelSize = (1_000_000, 1_000_000)


def image_bound(provider: str, model: str, media: Media) -> int:
    if media.media_type not in _READERS:
        raise UserError(
            f"a file of type {media.media_type or 'unknown'} cannot be sent: what it would cost is "
            f"not known before it is; send text, or an image of {', '.join(_READERS)}"
        )
    size = pixel_size(media) or _LARGEST
    if provider == "anthropic":
        return _anthropic(size)
    return next(rule for prefix, rule in _OPENAI if model.startswith(prefix))(size)


def pixel_size(media: Media) -> PixelSize | None:
    """From the first bytes, as the format says; None if they say something else."""
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


def _squares(size: PixelSize, side: int) -> int:
    return ceil(size[0] / side) * ceil(size[1] / side)


def _anthropic(size: PixelSize) -> int:
    return min(4_784, max(ceil(size[0] * size[1] / 750), _squares(size, 28)))


def _tiles(base: int, each: int) -> TokenRule:
    def tokens(size: PixelSize) -> int:
        shrink = min(1.0, 2_048 / max(size))
        shrink = min(shrink, 768 / min(size))
        return base + each * _squares((ceil(size[0] * shrink), ceil(size[1] * shrink)), 512)

    return tokens


def _patches(factor: float, most: int = 1_536) -> TokenRule:
    return lambda size: ceil(min(most, _squares(size, 32)) * factor)


_OPENAI: tuple[tuple[str, TokenRule], ...] = (
    ("gpt-4o-mini", _tiles(2_833, 5_667)),
    ("gpt-4o", _tiles(85, 170)),
    ("gpt-4.1-mini", _patches(1.62)),
    ("gpt-4.1-nano", _patches(2.46)),
    ("gpt-4.1", _tiles(85, 170)),
    ("gpt-5-mini", _patches(1.62)),
    ("gpt-5-nano", _patches(2.46)),
    ("o4-mini", _patches(1.72)),
    ("o1", _tiles(75, 150)),
    ("o3", _tiles(75, 150)),
    ("", lambda size: max(_tiles(85, 170)(size), _patches(2.46, 10_000)(size))),
)
"""The first whose prefix fits. `gpt-5` and later ones change too often to be told apart."""


# No fewer tokens than a provider will bill as input, without asking it.
#
# A token stands for at least one byte of text: the tokenizers of both providers are built up from
# single bytes, and "1,2,3,4" or rare characters do come to one token a byte. So the bytes of all
# text are the bound, and nothing smaller would be one: English is billed at about a quarter of
# it. Since output costs five times as much and is reserved at its maximum too, this is seldom
# what fills a budget. What the provider writes around our text is covered by an allowance for
# each piece. What only the provider can read (signatures, encrypted reasoning) holds no more than
# its own length.


_TOKENS_A_BYTE = {"anthropic": 1.0, "openai": 1.0}
_REQUEST = 64
_MESSAGE = 16
_PART = 16
_TOOL = 64
_FIRST_TOOL = 1_000
"""The instructions on tools that a provider adds by itself: up to about 700 tokens."""


def bound_of_text(provider: str, text: str) -> int:
    return ceil(len(text.encode(errors="surrogatepass")) * _TOKENS_A_BYTE[provider])


def bound_of_tools(provider: str, tools: list[object]) -> int:
    """Tools and the shape of an answer, as they are sent."""
    sent = sum(bound_of_text(provider, _json(tool)) + _TOOL for tool in tools)
    return sent + (_FIRST_TOOL if tools else 0)


def bound_of_messages(provider: str, model: str, request: ModelRequest) -> int:
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
