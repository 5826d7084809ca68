"""What an ask gives back, whole or piece by piece."""

from dataclasses import dataclass
from typing import Generic, TypeAlias

from typing_extensions import TypeVar

from vegakit.conversation import Conversation, Finish, Usage
from vegakit.ids import TraceId
from vegakit.money import Money

__all__ = ["Reply", "StreamEvent", "TextChunk", "ToolCalled", "ToolReturned", "TurnEnded"]

T = TypeVar("T", default=str)


@dataclass(frozen=True, slots=True)
class Reply(Generic[T]):
    """`messages` is the whole conversation; pass it as `history` to go on with it."""

    output: T
    text: str
    cost: Money
    usage: Usage
    messages: Conversation
    trace_id: TraceId
    finish: Finish = Finish.STOP
    steps: int = 1

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class TextChunk:
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class ToolCalled:
    name: str
    arguments: object
    index: int

    def __str__(self) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class ToolReturned:
    name: str
    content: str
    is_error: bool
    index: int

    def __str__(self) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class TurnEnded(Generic[T]):
    """The last event of a stream."""

    reply: Reply[T]

    def __str__(self) -> str:
        return ""


StreamEvent: TypeAlias = TextChunk | ToolCalled | ToolReturned | TurnEnded[T]
"""Printed one after the other they are the text."""
