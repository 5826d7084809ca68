"""A provider's answer, by way of pydantic-ai, in our records.

Kinds of parts that we do not know (files, tools that a provider ran itself) are left out. What
a provider wants back with a part travels in `opaque`, under the name of the wire format.
"""

import json
from typing import Any

import msgspec
from pydantic_ai.messages import (
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from pydantic_ai.usage import RequestUsage

from vegakit.conversation import (
    AssistantMessage,
    AssistantPart,
    Finish,
    ModelReply,
    Opaque,
    Reasoning,
    Text,
    ToolCall,
    Usage,
)
from vegakit.errors import ErrorClass, WorldError
from vegakit.models.naming import Wire

__all__ = ["our_message", "our_reply"]

_FINISHES = {
    "stop": Finish.STOP,
    "length": Finish.LENGTH,
    "tool_call": Finish.TOOL_CALLS,
    "content_filter": Finish.CONTENT_FILTER,
}


def our_reply(response: ModelResponse, wire: Wire, output_tool: str | None) -> ModelReply:
    """A filtered answer is a reply too: what it cost is then known."""
    finish = _FINISHES.get(response.finish_reason or "")
    if finish is None or response.state != "complete":
        raise WorldError(
            f"{wire.provider} broke its answer off ({response.finish_reason or 'no reason given'})",
            ErrorClass.CONNECTION,
        )
    message = our_message(response, wire, output_tool)
    if finish is Finish.CONTENT_FILTER and not message.parts:
        message = msgspec.structs.replace(message, parts=_refusal(response))
    if finish in {Finish.STOP, Finish.TOOL_CALLS}:
        finish = Finish.TOOL_CALLS if message.tool_calls else Finish.STOP
    return ModelReply(message, _usage(response.usage), finish)


def our_message(response: ModelResponse, wire: Wire, output_tool: str | None) -> AssistantMessage:
    """What belongs to its texts stands with the message, in their order."""
    ours = (_part(part, wire, output_tool) for part in response.parts)
    texts = [_handed_back(part) for part in response.parts if isinstance(part, TextPart)]
    kept = {"texts": texts} if any(texts) and output_tool is None else {}
    return AssistantMessage(
        tuple(part for part in ours if part), response.model_name or "", _opaque(kept, wire)
    )


def _part(part: ModelResponsePart, wire: Wire, output_tool: str | None) -> AssistantPart | None:
    match part:
        case TextPart():
            return Text(part.content)
        case ThinkingPart():
            return Reasoning(part.content, _opaque(_handed_back(part), wire))
        case ToolCallPart() if part.tool_name == output_tool:
            return Text(part.args if isinstance(part.args, str) else json.dumps(part.args or {}))
        case ToolCallPart():
            kept = _opaque(_handed_back(part), wire)
            return ToolCall(part.tool_call_id, part.tool_name, _arguments(part.args), kept)
        case _:
            return None


def _handed_back(part: TextPart | ThinkingPart | ToolCallPart) -> dict[str, Any]:
    names = ("id", "signature", "provider_details")
    return {name: kept for name in names if (kept := getattr(part, name, None))}


def _opaque(kept: dict[str, Any], wire: Wire) -> Opaque | None:
    return Opaque(wire.name, kept) if kept else None


def _arguments(args: object) -> object:
    """What is not JSON stays a text, and whoever checks the arguments says so to the model."""
    if not isinstance(args, str):
        return args or {}
    try:
        return json.loads(args) if args else {}
    except ValueError:
        return args


def _refusal(response: ModelResponse) -> tuple[Text, ...]:
    said = (response.provider_details or {}).get("refusal")
    return (Text(said),) if said else ()


def _usage(usage: RequestUsage) -> Usage | None:
    """No call has no input: a zero is a provider that did not say."""
    if usage.unmeasured_requests or not usage.input_tokens:
        return None
    return Usage(
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
    )
