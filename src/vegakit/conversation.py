"""Messages to and from a model, in our own records (base, pure).

No library's message format is ever stored: `models` translates both ways. What only a provider
understands (signatures, item ids) travels in `opaque`, by provider, and is handed back untouched
to the provider it came from. Formats grow by adding fields.

    ModelRequest ──▶ model ──▶ TextDelta | ToolCallStarted … ──▶ ModelReply
"""

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any, TypeAlias

from msgspec import Struct

__all__ = [
    "CONVERSATION_VERSION",
    "AssistantMessage",
    "AssistantPart",
    "Conversation",
    "Effort",
    "Finish",
    "Media",
    "Message",
    "ModelChunk",
    "ModelReply",
    "ModelRequest",
    "ModelSettings",
    "Opaque",
    "OutputSpec",
    "Reasoning",
    "ReasoningDelta",
    "Text",
    "TextDelta",
    "Tokenizer",
    "ToolCall",
    "ToolCallStarted",
    "ToolMessage",
    "ToolResult",
    "ToolSpec",
    "Usage",
    "UserMessage",
    "UserPart",
]


CONVERSATION_VERSION = 1


class Text(Struct, frozen=True, tag="text"):
    """A piece of text."""

    text: str


class Media(Struct, frozen=True, tag="media"):
    """An image or another file, by its bytes or by an address that the provider fetches."""

    media_type: str
    data: bytes = b""
    url: str = ""


class Opaque(Struct, frozen=True):
    """A part that only one provider can read, such as `anthropic`."""

    provider: str
    value: Any


class Reasoning(Struct, frozen=True, tag="reasoning"):
    """Text that a model thought aloud."""

    text: str
    opaque: Opaque | None = None


class ToolCall(Struct, frozen=True, tag="tool_call"):
    """`id` is the provider's; inside a program a call is named by its index in the answer."""

    id: str
    name: str
    arguments: Any
    opaque: Opaque | None = None


class ToolResult(Struct, frozen=True, tag="tool_result"):
    """The result of a tool call, as the model is told it."""

    id: str
    name: str
    content: str
    is_error: bool = False


UserPart: TypeAlias = Text | Media
AssistantPart: TypeAlias = Text | Reasoning | ToolCall


class UserMessage(Struct, frozen=True, tag="user"):
    """A message of the user."""

    parts: tuple[UserPart, ...]


class AssistantMessage(Struct, frozen=True, tag="assistant"):
    """A message of the model."""

    parts: tuple[AssistantPart, ...]
    model: str = ""
    opaque: Opaque | None = None

    @property
    def text(self) -> str:
        """Return all text of the message."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """Return the tool calls of the message, in order."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall))


class ToolMessage(Struct, frozen=True, tag="tools"):
    """The results of the calls of the message before, in the order of those calls."""

    results: tuple[ToolResult, ...]


Message: TypeAlias = UserMessage | AssistantMessage | ToolMessage


class Conversation(Struct, frozen=True):
    """A conversation as it is stored; `for message in conversation` goes through its messages."""

    messages: tuple[Message, ...] = ()
    v: int = CONVERSATION_VERSION

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)


class ToolSpec(Struct, frozen=True, omit_defaults=True):
    """A description of a tool for a model."""

    name: str
    description: str
    parameters: Any


class OutputSpec(Struct, frozen=True, omit_defaults=True):
    """The JSON Schema that an answer must fit."""

    name: str
    json_schema: Any


class Effort(StrEnum):
    """The degrees in which a model may be told to reason before it answers."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class ModelSettings(Struct, frozen=True, omit_defaults=True):
    """`max_tokens` is always sent: without it a provider's own maximum is what could be billed. It
    bounds the thoughts of a model together with its answer. Without an `effort` a model reasons as
    it does by itself."""

    max_tokens: int
    temperature: float | None = None
    timeout_ms: int | None = None
    effort: Effort | None = None


class ModelRequest(Struct, frozen=True, omit_defaults=True):
    """A request to a model."""

    model: str
    messages: tuple[Message, ...]
    settings: ModelSettings
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    output: OutputSpec | None = None


class Usage(Struct, frozen=True, omit_defaults=True):
    """Tokens as billed. `input_tokens` counts all of them, cached ones too."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
        )


class Finish(StrEnum):
    """The ways in which an answer ends."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"


class ModelReply(Struct, frozen=True, tag="reply"):
    """`usage` is None when the provider did not say: then the call is charged as reserved."""

    message: AssistantMessage
    usage: Usage | None
    finish: Finish = Finish.STOP


class TextDelta(Struct, frozen=True, tag="text_delta"):
    """A piece of a streamed text."""

    text: str


class ReasoningDelta(Struct, frozen=True, tag="reasoning_delta"):
    """A piece of streamed reasoning."""

    text: str


class ToolCallStarted(Struct, frozen=True, tag="tool_call_started"):
    """The model begins a tool call in a stream."""

    name: str
    index: int


ModelChunk: TypeAlias = TextDelta | ReasoningDelta | ToolCallStarted | ModelReply
"""A stream yields deltas and ends with the whole reply."""


class Tokenizer(Struct, frozen=True):
    """Counts the tokens of a text as the provider does, without asking it. Two models count alike
    if their tokenizers have the same name."""

    name: str
    count: Callable[[str], int]
