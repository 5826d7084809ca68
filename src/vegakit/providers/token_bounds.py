"""Upper bounds on the tokens a provider bills as input, computed without asking it (pure)."""

import json
import struct
from collections.abc import Callable
from functools import cache, lru_cache, partial
from importlib import import_module
from importlib.util import find_spec
from math import ceil
from re import match as matches
from typing import Any, NamedTuple

from msgspec import Struct

from vegakit.conversation import (
    AssistantMessage,
    Media,
    Message,
    ModelRequest,
    Reasoning,
    Text,
    Tokenizer,
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
# text are the bound, and without the tokenizer of the model nothing smaller would be one: English
# is billed at about a quarter of it.
#
# Where the tokenizer is here, text that is sent as it stands is counted by it. What the provider
# spells in its own way counts as bytes: tools, shapes of an answer, arguments of tool calls. What
# it writes around our text is covered by an allowance for each piece. What only the provider can
# read (signatures, encrypted reasoning) holds no more than its own length.


_REQUEST = 64
_MESSAGE = 16
_PART = 16
_TOOL = 64
_FIRST_TOOL = 1_000
"""The instructions on tools that a provider adds by itself: up to about 700 tokens."""


class InputCounting(Struct, frozen=True):
    """Counts the input of a model: `by` names its tokenizer, or is "bytes", and `why` says why
    then."""

    provider: ProviderRecord
    model: str
    by: str = "bytes"
    why: str = ""
    tokenizer: Tokenizer | None = None

    def bound_of_text(self, text: str) -> int:
        """Return no fewer tokens than a text is that is sent as it stands."""
        return self._bytes(text) if self.tokenizer is None else self.tokenizer.count(text)

    def bound_of_tools(self, tools: list[object]) -> int:
        """Return no fewer tokens than tools and the shape of an answer are, as they are sent."""
        sent = sum(self._bytes(_json(tool)) + _TOOL for tool in tools)
        return sent + (_FIRST_TOOL if tools else 0)

    def bound_of_shapes(self, sent_bytes: int, count: int) -> int:
        """Return no fewer tokens than so many tools and shapes of an answer are, by the bytes that
        they add to a request. What is sent may be longer than what was asked for: a provider may
        want a schema spelled out."""
        return ceil(sent_bytes * self.provider.tokens_a_byte) + count * _TOOL + _FIRST_TOOL

    def bound_of_messages(self, request: ModelRequest) -> int:
        """Return no fewer tokens than the messages of a request are."""
        parts = [part for message in request.messages for part in _parts(message)]
        tokens = 0
        for part in parts:
            if isinstance(part, Media):
                tokens += image_bound(self.provider, self.model, part)
            else:
                tokens += self.bound_of_text(part.text) + self._bytes(part.spelled)
        return _REQUEST + len(request.messages) * _MESSAGE + len(parts) * _PART + tokens

    def _bytes(self, text: str) -> int:
        return ceil(len(text.encode(errors="surrogatepass")) * self.provider.tokens_a_byte)


class _SentPart(NamedTuple):
    """`text` is sent as it stands, `spelled` in a way that the provider chooses."""

    text: str
    spelled: str = ""


def _parts(message: Message) -> list[_SentPart | Media]:
    match message:
        case UserMessage():
            return [
                _SentPart(part.text) if isinstance(part, Text) else part for part in message.parts
            ]
        case ToolMessage():
            return [
                _SentPart(result.content, result.id + result.name) for result in message.results
            ]
        case AssistantMessage():
            return [_part_text(part) for part in message.parts]


def _part_text(part: Text | Reasoning | ToolCall) -> _SentPart:
    match part:
        case Text():
            return _SentPart(part.text)
        case Reasoning():
            return _SentPart("", part.text + (_json(part.opaque.value) if part.opaque else ""))
        case ToolCall():
            return _SentPart("", part.id + part.name + _json(part.arguments))


def _json(value: object) -> str:
    """With every escape written out, its longest spelling."""
    return json.dumps(value)


# Tokenizers that are here with their vocabulary. Nothing is fetched for one: what is not installed
# does not count, and bytes do.


_PACKAGE, _VOCABULARIES = "rs_bpe", "openai"
"""The package that counts, and its part with the vocabularies that a record may name."""
_MOST_COUNTED = 400_000
"""Letters of a text that is counted; about 20 ms of the loop. A longer one counts as its bytes."""


def input_counting(provider: ProviderRecord, model: str, *, is_own: bool = True) -> InputCounting:
    """Return how the input of a model is counted. Who answers at another address than the
    provider's own may count in another way, whatever the name of the model. The vocabulary of a
    tokenizer is read when it counts for the first time."""
    name = next((name for name, of in provider.tokenizers if matches(of, model)), "")
    tokenizer, why = None, ""
    if not name:
        why = "no tokenizer ships for it"
    elif not is_own:
        why = "how it counts at another base_url is not known"
    elif not _is_installed():
        why = f"{name} is not installed; type pip install 'vegakit[tokenizers]'"
    else:
        tokenizer = Tokenizer(name, partial(_count, name))
    return InputCounting(provider, model, name if tokenizer else "bytes", why, tokenizer)


@cache
def _is_installed() -> bool:
    return find_spec(_PACKAGE) is not None


@lru_cache(maxsize=256)
def _count(name: str, text: str) -> int:
    """Count a text; those of a conversation are counted again with each of its messages."""
    size = len(text)
    try:
        if size <= _MOST_COUNTED:
            return _counter(name)(text)
    except UnicodeEncodeError:
        pass  # half of a surrogate pair, which is no text to a tokenizer
    return len(text.encode(errors="surrogatepass"))


@cache
def _counter(name: str) -> Callable[[str], int]:
    made: Any = vars(import_module(_PACKAGE))[_VOCABULARIES]  # compiled, so without types
    return made.o200k_base().count if name == "o200k_base" else made.cl100k_base().count
