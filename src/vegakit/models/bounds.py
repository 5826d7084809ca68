"""No fewer tokens than a provider will bill as input, without asking it.

A token stands for at least one byte of text: the tokenizers of both providers are built up from
single bytes, and "1,2,3,4" or rare characters do come to one token a byte. So the bytes of
all text are the bound, and nothing smaller would be one: English is billed at about a quarter of
it. Since output costs five times as much and is reserved at its maximum too, this is seldom what
fills a budget. What the provider writes around our text is covered by an allowance for each piece.
What only the provider can read (signatures, encrypted reasoning) holds no more than its own length.
"""

import json
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
from vegakit.models.images import image_bound

__all__ = ["bound_of_messages", "bound_of_text", "bound_of_tools"]

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
            return [_said(part) for part in message.parts]


def _said(part: Text | Reasoning | ToolCall) -> str:
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
