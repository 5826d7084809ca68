"""Short words for the tests of a turn."""

from typing import Any

from vegakit.agent import AskModel, Turn, TurnFailed, TurnRule
from vegakit.conversation import (
    AssistantMessage,
    Finish,
    Message,
    ModelReply,
    ModelRequest,
    ModelSettings,
    Text,
    ToolCall,
    ToolMessage,
    ToolResult,
    ToolSpec,
    Usage,
    UserMessage,
)
from vegakit.records import from_json, to_json

ADD = ToolSpec("add", "Add two numbers.", {"type": "object"})
FIND = ToolSpec("find", "Find a file.", {"type": "object"})
PROMPT = (Text("go"),)
USAGE = Usage(10, 5)


def rule(
    max_tokens: int = 100, tools: tuple[ToolSpec, ...] = (ADD, FIND), **changes: Any
) -> TurnRule:
    return TurnRule("test:m", ModelSettings(max_tokens), tools=tools, **changes)


def count(request: ModelRequest) -> int:
    """A token for each letter of a text, result or call's name."""
    return sum(letters(message) for message in request.messages)


def letters(message: Message) -> int:
    match message:
        case ToolMessage(results):
            return sum(len(result.content) for result in results)
        case UserMessage(parts) | AssistantMessage(parts):
            return sum(
                len(getattr(part, "text", "") or getattr(part, "name", "")) for part in parts
            )


def user(text: str) -> UserMessage:
    return UserMessage((Text(text),))


def said(text: str) -> AssistantMessage:
    return AssistantMessage((Text(text),))


def call(name: str = "add", arguments: Any = None, ref: str = "") -> ToolCall:
    return ToolCall(ref, name, {} if arguments is None else arguments)


def calls(*wanted: ToolCall, finish: Finish = Finish.TOOL_CALLS) -> ModelReply:
    return ModelReply(AssistantMessage(wanted), USAGE, finish)


def text(words: str, finish: Finish = Finish.STOP, usage: Usage | None = USAGE) -> ModelReply:
    return ModelReply(AssistantMessage((Text(words),) if words else ()), usage, finish)


def begin(changed: TurnRule | None = None, history: tuple[Message, ...] = ()) -> Turn:
    turn = Turn(changed or rule())
    assert isinstance(turn.start(PROMPT, history, count=count), AskModel)
    return turn


def restored(turn: Turn) -> Turn:
    return from_json(Turn, to_json(turn))


def results(turn: Turn) -> tuple[ToolResult, ...]:
    last = turn.messages[-1]
    assert isinstance(last, ToolMessage)
    return last.results


def failure(action: object) -> tuple[str, str]:
    assert isinstance(action, TurnFailed)
    return action.error, action.reason
