"""A conversation as plain text, for the model that summarises it.

Not as messages: providers refuse tool calls in a request that offers no tools, and signatures of
thoughts that are out of their place.
"""

from collections.abc import Iterable

from vegakit.conversation import (
    AssistantMessage,
    AssistantPart,
    Media,
    Message,
    Reasoning,
    Text,
    ToolCall,
    ToolMessage,
    UserMessage,
    UserPart,
)
from vegakit.records import canonical

__all__ = ["transcript"]


def transcript(messages: Iterable[Message]) -> str:
    return "\n".join(line for message in messages for line in _lines(message))


def _lines(message: Message) -> list[str]:
    match message:
        case UserMessage(parts):
            return [f"User: {_words(part)}" for part in parts]
        case AssistantMessage(parts):
            return [f"Assistant: {words}" for part in parts if (words := _words(part))]
        case ToolMessage(results):
            return [f"Result of {result.name}: {result.content}" for result in results]


def _words(part: UserPart | AssistantPart) -> str:
    match part:
        case Text(text):
            return text
        case Media(media_type):
            return f"[{media_type}]"
        case ToolCall():
            return f"[calls {part.name} with {canonical(part.arguments).decode()}]"
        case Reasoning():
            return ""
