"""Anthropic Messages, from both ends (pure).

    {"messages": [{"role": "user", "content": [block, …]}, …], "tools": …, "system": …}
    {"content": [block, …], "stop_reason": "end_turn", "usage": {…}}

A message is a list of typed blocks. What is asked is written here, and what a server of the format
says; `anthropic_answer` reads the answers, `anthropic_schema` fits schemas to the provider.
"""

import json
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import Raw

from vegakit.conversation import (
    AssistantMessage,
    AssistantPart,
    Effort,
    Finish,
    Media,
    Message,
    ModelRequest,
    Opaque,
    Reasoning,
    Text,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from vegakit.errors import UserError
from vegakit.wires.anthropic_answer import (
    ANTHROPIC_NAME,
    REDACTED_THINKING,
    StreamReader,
    decode_answer,
    read_failure,
)
from vegakit.wires.anthropic_schema import output_schema, tool_schema
from vegakit.wires.serving import (
    ServedCall,
    ServedFailure,
    ServedReply,
    ServedRequest,
    ServedStream,
    WireError,
    WireServer,
    halves,
    joined,
    split_words,
)
from vegakit.wires.sse import write_event
from vegakit.wires.wire import (
    OUTPUT_TOOL_DESCRIPTION,
    AskForm,
    EffortForm,
    ModelFeatures,
    Wire,
    is_worth_caching,
    output_tool,
    read_arguments,
    thinking_tokens,
)

_VERSION = b"2023-06-01"
"""The version whose rules hold for our requests: a constant of ours, since a library moves its own
with a major release. Under the one that the SDK has sent since 2.0, 2026-10-21, `temperature` is
refused. `output_config` needs no newer version than this one: the releases before sent it so, as a
plain field without a beta."""


# A request. What a provider gave us to hand back (a signature, hidden thoughts) goes back to it.
# Reasoning without is left out: another model's thoughts are no answer, and would be billed. Empty
# texts are left out too: the provider refuses them.
#
# A prompt that is worth it is written to the provider's cache for five minutes: the last block is
# marked, and the last one of the call before, where that call wrote to and this one reads from.


_encode_json = msgspec.json.Encoder().encode


def _encode(request: ModelRequest, form: AskForm) -> bytes:
    settings, features = request.settings, form.features
    messages = [said for message in request.messages if (said := _message(message))]
    if form.cache and is_worth_caching(request):
        _mark(messages)
    body: dict[str, Any] = {
        "max_tokens": settings.max_tokens,
        "messages": messages,
        "model": request.model,
        "stream": form.stream,
    }
    if request.output and not output_tool(request, features):
        schema = output_schema(request.output.json_schema)
        body["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
    if request.system:
        body["system"] = [_text(request.system)]
    if settings.temperature is not None and features.temperature:
        body["temperature"] = settings.temperature
    body |= _tools(request, features)
    return _encode_json(_with_fields(body, form.fields))


_MARKED_ROLE = "user"
"""A call ends with what a user or a tool said."""
_MARKS = 2


def _mark(messages: list[dict[str, Any]]) -> None:
    ends = [said["content"][-1] for said in messages if said["role"] == _MARKED_ROLE]
    for block in ends[-_MARKS:]:
        block["cache_control"] = {"type": "ephemeral"}


def _tools(request: ModelRequest, features: ModelFeatures) -> dict[str, Any]:
    """A model that answers by a tool must call one, unless it reasons: a forced call is made
    without any thought."""
    tools = [_tool(tool.name, tool.description, tool.parameters) for tool in request.tools]
    choice = "auto"
    if request.output and output_tool(request, features):
        shape = request.output
        tools.append(_tool(shape.name, OUTPUT_TOOL_DESCRIPTION, shape.json_schema))
        choice = "auto" if features.reasons else "any"
    return {"tool_choice": {"type": choice}, "tools": tools} if tools else {}


def _tool(name: str, description: str, schema: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"name": name, "description": description, "input_schema": tool_schema(schema)}


def _with_fields(body: dict[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """An object joins ours of the same name: an effort does not displace the shape of an answer."""
    for name, value in fields.items():
        ours = body.get(name)
        if isinstance(ours, dict) and isinstance(value, Mapping):
            body[name] = {**cast("Mapping[str, Any]", ours), **cast("Mapping[str, Any]", value)}
        else:
            body[name] = value
    return body


def _message(message: Message) -> dict[str, Any] | None:
    match message:
        case UserMessage():
            blocks = [_said(part) for part in message.parts if part != Text("")]
        case AssistantMessage():
            blocks = [block for part in message.parts if (block := _answered(part))]
        case ToolMessage():
            blocks = [
                {
                    "tool_use_id": result.id,
                    "type": "tool_result",
                    "content": [_text(result.content)],
                    "is_error": result.is_error,
                }
                for result in message.results
            ]
    role = "assistant" if isinstance(message, AssistantMessage) else "user"
    return {"role": role, "content": blocks} if blocks else None


def _said(part: Text | Media) -> dict[str, Any]:
    match part:
        case Text():
            return _text(part.text)
        case Media(url="") if part.media_type.startswith("image/"):
            data = b64encode(part.data).decode()
            source = {"data": data, "media_type": part.media_type, "type": "base64"}
            return {"source": source, "type": "image"}
        case Media(url=""):
            raise UserError(f"a file of type {part.media_type} cannot be sent to {ANTHROPIC_NAME}")
        case Media():
            return {"source": {"type": "url", "url": part.url}, "type": "image"}


def _answered(part: AssistantPart) -> dict[str, Any] | None:
    match part:
        case Text():
            return _text(part.text) if part.text else None
        case ToolCall():
            given = _arguments(part.arguments)
            return {"id": part.id, "type": "tool_use", "name": part.name, "input": given}
        case Reasoning(opaque=Opaque("anthropic", {"id": "redacted_thinking", "signature": data})):
            return {"data": data, "type": REDACTED_THINKING}
        case Reasoning(opaque=Opaque("anthropic", {"signature": signature})):
            return {"thinking": part.text, "signature": signature, "type": "thinking"}
        case Reasoning():
            return None


def _arguments(given: object) -> dict[str, Any]:
    """A call must have an object for its arguments: what is none is shown to the model in one."""
    read = read_arguments(given) if isinstance(given, str) else given
    if isinstance(read, dict):
        return cast("dict[str, Any]", read)
    return {"INVALID_JSON": given if isinstance(given, str) else json.dumps(given)}


def _text(text: str) -> dict[str, str]:
    return {"text": text, "type": "text"}


_LEAST_THINKING = 1_024


def thinking_fields(
    request: ModelRequest, effort: Effort, features: ModelFeatures
) -> dict[str, Any]:
    """Return the fields by which Claude is told how much to reason."""
    if features.effort is EffortForm.LEVEL:
        return {"thinking": {"type": "adaptive"}, "output_config": {"effort": effort}}
    tokens = thinking_tokens(request.settings, effort, _LEAST_THINKING, request.settings.max_tokens)
    return {"thinking": {"type": "enabled", "budget_tokens": tokens}}


def _target(_: str, __: bool) -> str:
    return "/v1/messages"


ANTHROPIC = Wire(
    name=ANTHROPIC_NAME,
    target=_target,
    headers=((b"anthropic-version", _VERSION),),
    encode=_encode,
    decode=decode_answer,
    reader=StreamReader,
    failure=read_failure,
    request_id="request-id",
    effort=thinking_fields,
)


# The server's end.


_STOP_REASONS = {
    Finish.STOP: "end_turn",
    Finish.LENGTH: "max_tokens",
    Finish.TOOL_CALLS: "tool_use",
    Finish.CONTENT_FILTER: "refusal",
}
_ERROR_KINDS = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_ERROR_CAUSES = {
    "quota": "Your credit balance is too low to access the Anthropic API.",
    "context_length": "prompt is too long: 250000 tokens > 200000 maximum",
}


def _error_of(failure: ServedFailure) -> WireError:
    if isinstance(failure.cause, int):
        status, message = failure.cause, f"status {failure.cause}, as scripted"
    else:
        status, message = 400, _ERROR_CAUSES[failure.cause]
    usual = "api_error" if status >= 500 else "invalid_request_error"
    kind, message = _ERROR_KINDS.get(status, usual), failure.message or message
    body = {"type": "error", "error": {"type": kind, "message": message}}
    return WireError(status, kind, None, message, body)


def _whole(reply: ServedReply, request: ServedRequest) -> dict[str, Any]:
    text = [{"type": "text", "text": reply.text}] if reply.text else []
    calls = [{**_tool_use(call), "input": Raw(call.arguments.encode())} for call in reply.calls]
    usage = {"usage": _served_usage(reply.usage)} if reply.usage else {}
    return {**_served_message(request, [*text, *calls]), **_stop(reply), **usage}


def _stream(reply: ServedReply, request: ServedRequest) -> ServedStream:
    message = {**_served_message(request, []), "stop_reason": None, "stop_sequence": None}
    billed = {"usage": {"output_tokens": reply.usage.output_tokens}} if reply.usage else {}
    if reply.usage:
        message["usage"] = {**_served_usage(reply.usage), "output_tokens": 1}
    opening = _event("message_start", message=message) + _event("ping")
    closing = _event("message_delta", delta=_stop(reply), **billed) + _event("message_stop")
    blocks = [_text_pieces(reply.text)] if reply.text else []
    blocks += [_call_pieces(len(blocks) + index, call) for index, call in enumerate(reply.calls)]
    return ServedStream(opening, [piece for block in blocks for piece in block], closing)


def _broken(failure: ServedFailure, _: ServedRequest) -> bytes:
    return write_event(_error_of(failure).body, "error")


def _served_message(request: ServedRequest, content: list[Any]) -> dict[str, Any]:
    return {
        "id": f"msg_{request.n}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": content,
    }


def _stop(reply: ServedReply) -> dict[str, Any]:
    if not reply.refusal:
        return {"stop_reason": _STOP_REASONS[reply.finish], "stop_sequence": None}
    details = {"type": "refusal", "category": None, "explanation": reply.refusal}
    return {"stop_reason": "refusal", "stop_sequence": None, "stop_details": details}


def _served_usage(usage: Usage) -> dict[str, int]:
    cached = usage.cache_read_tokens + usage.cache_write_tokens
    return {
        "input_tokens": usage.input_tokens - cached,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "output_tokens": usage.output_tokens,
    }


def _tool_use(call: ServedCall) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{call.ref}", "name": call.name, "input": {}}


def _text_pieces(text: str) -> list[bytes]:
    deltas = [{"type": "text_delta", "text": word} for word in split_words(text)]
    return _block_pieces(0, {"type": "text", "text": ""}, deltas)


def _call_pieces(index: int, call: ServedCall) -> list[bytes]:
    parts = halves(call.arguments)
    deltas = [{"type": "input_json_delta", "partial_json": part} for part in parts]
    return _block_pieces(index, _tool_use(call), deltas)


def _block_pieces(index: int, block: dict[str, Any], deltas: list[dict[str, str]]) -> list[bytes]:
    start = _event("content_block_start", index=index, content_block=block)
    stop = _event("content_block_stop", index=index)
    pieces = [_event("content_block_delta", index=index, delta=delta) for delta in deltas]
    return joined(start, pieces, stop)


def _event(kind: str, **fields: object) -> bytes:
    return write_event({"type": kind, **fields}, kind)


ANTHROPIC_SERVER = WireServer(_whole, _stream, _error_of, _broken)
