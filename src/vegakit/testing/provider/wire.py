"""The wire formats of the test provider: Anthropic Messages, OpenAI Chat Completions and OpenAI
Responses (kit).

A piece is what arrives at once: one delta, with the events that must go before or after it.
Pauses and breaks fall between pieces, so they mean the same in every format.
"""

import re
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any, NamedTuple, TypeAlias

from msgspec import UNSET, Raw, Struct

from vegakit.conversation import Finish, Usage
from vegakit.records import to_json
from vegakit.testing.provider.script import (
    Api,
    Failure,
    ProviderReply,
    ProviderRequest,
    ProviderToolCall,
)

# Providers fail in their own ways: the same cause has another status, type and wording.


class WireError(NamedTuple):
    """An error as a provider spells it."""

    status: int
    kind: str
    code: str | None
    message: str
    body: object


_ANTHROPIC_KINDS = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_ANTHROPIC_CAUSES = {
    "quota": "Your credit balance is too low to access the Anthropic API.",
    "context_length": "prompt is too long: 250000 tokens > 200000 maximum",
}
_OPENAI_KINDS: dict[int, tuple[str, str | None]] = {
    401: ("invalid_request_error", "invalid_api_key"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
    503: ("service_unavailable_error", None),
    529: ("overloaded_error", None),
}
_OPENAI_CAUSES = {
    "quota": (429, "insufficient_quota", "insufficient_quota", "You exceeded your current quota."),
    "context_length": (
        400,
        "invalid_request_error",
        "context_length_exceeded",
        "This model's maximum context length is 128000 tokens.",
    ),
}


def anthropic_error(failure: Failure) -> WireError:
    """Return a failure as Anthropic spells it."""
    if isinstance(failure.cause, int):
        status, message = failure.cause, f"status {failure.cause}, as scripted"
    else:
        status, message = 400, _ANTHROPIC_CAUSES[failure.cause]
    usual = "api_error" if status >= 500 else "invalid_request_error"
    kind, message = _ANTHROPIC_KINDS.get(status, usual), failure.message or message
    body = {"type": "error", "error": {"type": kind, "message": message}}
    return WireError(status, kind, None, message, body)


def openai_error(failure: Failure) -> WireError:
    """Return a failure as OpenAI spells it."""
    if isinstance(failure.cause, int):
        status, message = failure.cause, f"status {failure.cause}, as scripted"
        usual = "server_error" if status >= 500 else "invalid_request_error"
        kind, code = _OPENAI_KINDS.get(status, (usual, None))
    else:
        status, kind, code, message = _OPENAI_CAUSES[failure.cause]
    message = failure.message or message
    body = {"error": {"message": message, "type": kind, "param": None, "code": code}}
    return WireError(status, kind, code, message, body)


# A reply with nothing left open: what every wire format has to say in its own words.


_CHARACTERS_A_TOKEN = 4


class ResolvedCall(Struct, frozen=True):
    """`ref` is the same for every format; each puts its own prefix before it."""

    ref: str
    name: str
    arguments: str


class ResolvedReply(Struct, frozen=True):
    """A reply with everything filled in that the script left out."""

    text: str
    refusal: str
    calls: list[ResolvedCall]
    usage: Usage | None
    finish: Finish


def resolve_reply(reply: ProviderReply, request: ProviderRequest) -> ResolvedReply:
    """Fill in what the script left out."""
    text, calls = reply.text, list(reply.calls)
    if reply.output is not UNSET:
        if request.output_tool and not request.output_schema:
            calls = [ProviderToolCall(request.output_tool, reply.output)]
        else:
            text = to_json(reply.output).decode()
    resolved_calls = [
        ResolvedCall(f"{request.n}_{index}", call.name, to_json(call.arguments).decode())
        for index, call in enumerate(calls)
    ]
    usage = _estimated_usage(request, text, resolved_calls) if reply.usage is UNSET else reply.usage
    finish = reply.finish or (Finish.TOOL_CALLS if calls else Finish.STOP)
    return ResolvedReply(text, reply.refusal, resolved_calls, usage, finish)


def _estimated_usage(request: ProviderRequest, text: str, calls: list[ResolvedCall]) -> Usage:
    """Never more output than was allowed: no provider bills for more."""
    answered = len(text) + sum(len(call.arguments) for call in calls)
    output = answered // _CHARACTERS_A_TOKEN + 1
    most = request.max_tokens or output
    return Usage(request.characters // _CHARACTERS_A_TOKEN + 1, min(output, most))


# The three wire formats share server-sent events, and a stream as opening, pieces, closing.
#
# A piece is what arrives at once: one delta, together with the events that must go before or after
# it. Pauses and breaks fall between pieces, so they mean the same in every format.


_WORD = re.compile(r"\S+\s*|\s+")


class Stream(NamedTuple):
    """A streamed answer in its pieces."""

    opening: bytes
    pieces: list[bytes]
    closing: bytes


class WireFormat(NamedTuple):
    """`broken` is the event that ends an open stream with an error."""

    api: Api
    whole: Callable[[ResolvedReply, ProviderRequest], object]
    stream: Callable[[ResolvedReply, ProviderRequest], Stream]
    error_of: Callable[[Failure], WireError]
    broken: Callable[[Failure, ProviderRequest], bytes]


def event(content: object, name: str = "") -> bytes:
    """Return a server-sent event."""
    heading = b"event: %b\n" % name.encode() if name else b""
    return b"%bdata: %b\n\n" % (heading, to_json(content))


def joined(start: bytes, pieces: list[bytes], stop: bytes) -> list[bytes]:
    """The same pieces, with what goes before the first and after the last."""
    first, *rest = pieces
    *most, last = [start + first, *rest]
    return [*most, last + stop]


def split_words(text: str) -> list[str]:
    """Split a text into words with the space that follows."""
    return _WORD.findall(text)


def halves(text: str) -> tuple[str, str]:
    """Split a text in two."""
    middle = len(text) // 2
    return text[:middle], text[middle:]


# Anthropic Messages: typed content blocks, each opened, filled and closed by events.


_STOP_REASONS = {
    Finish.STOP: "end_turn",
    Finish.LENGTH: "max_tokens",
    Finish.TOOL_CALLS: "tool_use",
    Finish.CONTENT_FILTER: "refusal",
}


def _anthropic_whole(reply: ResolvedReply, request: ProviderRequest) -> dict[str, Any]:
    text = [{"type": "text", "text": reply.text}] if reply.text else []
    calls = [{**_tool_use(call), "input": Raw(call.arguments.encode())} for call in reply.calls]
    usage = {"usage": _anthropic_usage(reply.usage)} if reply.usage else {}
    return {**_anthropic_message(request, [*text, *calls]), **_anthropic_stop(reply), **usage}


def _anthropic_stream(reply: ResolvedReply, request: ProviderRequest) -> Stream:
    message = {**_anthropic_message(request, []), "stop_reason": None, "stop_sequence": None}
    billed = {"usage": {"output_tokens": reply.usage.output_tokens}} if reply.usage else {}
    if reply.usage:
        message["usage"] = {**_anthropic_usage(reply.usage), "output_tokens": 1}
    opening = _anthropic_event("message_start", message=message) + _anthropic_event("ping")
    closing = _anthropic_event(
        "message_delta", delta=_anthropic_stop(reply), **billed
    ) + _anthropic_event("message_stop")
    blocks = [_text_block(reply.text)] if reply.text else []
    blocks += [_call_block(len(blocks) + index, call) for index, call in enumerate(reply.calls)]
    return Stream(opening, [piece for block in blocks for piece in block], closing)


def _anthropic_broken(failure: Failure, _: ProviderRequest) -> bytes:
    return event(anthropic_error(failure).body, "error")


def _anthropic_message(request: ProviderRequest, content: list[Any]) -> dict[str, Any]:
    return {
        "id": f"msg_{request.n}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": content,
    }


def _anthropic_stop(reply: ResolvedReply) -> dict[str, Any]:
    if not reply.refusal:
        return {"stop_reason": _STOP_REASONS[reply.finish], "stop_sequence": None}
    details = {"type": "refusal", "category": None, "explanation": reply.refusal}
    return {"stop_reason": "refusal", "stop_sequence": None, "stop_details": details}


def _anthropic_usage(usage: Usage) -> dict[str, int]:
    """Cached tokens stand beside the others, not among them."""
    cached = usage.cache_read_tokens + usage.cache_write_tokens
    return {
        "input_tokens": usage.input_tokens - cached,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "output_tokens": usage.output_tokens,
    }


def _tool_use(call: ResolvedCall) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{call.ref}", "name": call.name, "input": {}}


def _text_block(text: str) -> list[bytes]:
    deltas = [{"type": "text_delta", "text": word} for word in split_words(text)]
    return _anthropic_block(0, {"type": "text", "text": ""}, deltas)


def _call_block(index: int, call: ResolvedCall) -> list[bytes]:
    parts = halves(call.arguments)
    deltas = [{"type": "input_json_delta", "partial_json": part} for part in parts]
    return _anthropic_block(index, _tool_use(call), deltas)


def _anthropic_block(
    index: int, block: dict[str, Any], deltas: list[dict[str, str]]
) -> list[bytes]:
    start = _anthropic_event("content_block_start", index=index, content_block=block)
    stop = _anthropic_event("content_block_stop", index=index)
    pieces = [_anthropic_event("content_block_delta", index=index, delta=delta) for delta in deltas]
    return joined(start, pieces, stop)


def _anthropic_event(kind: str, **fields: object) -> bytes:
    return event({"type": kind, **fields}, kind)


ANTHROPIC = WireFormat(
    Api.ANTHROPIC, _anthropic_whole, _anthropic_stream, anthropic_error, _anthropic_broken
)


# OpenAI Chat Completions: one message, streamed as chunks of it, usage last and only if asked.


_DONE = b"data: [DONE]\n\n"


def _chat_whole(reply: ResolvedReply, request: ProviderRequest) -> dict[str, Any]:
    message: dict[str, Any] = {
        "role": "assistant",
        "content": reply.text or None,
        "refusal": reply.refusal or None,
    }
    if reply.calls:
        message["tool_calls"] = [_chat_tool_call(call, call.arguments) for call in reply.calls]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reply.finish}
    usage = {"usage": _chat_usage(reply.usage)} if reply.usage else {}
    return {**_chat_head(request, "chat.completion"), "choices": [choice], **usage}


def _chat_stream(reply: ResolvedReply, request: ProviderRequest) -> Stream:
    head = _chat_head(request, "chat.completion.chunk")

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return event({**head, "choices": [choice]})

    pieces = [chunk({"content": word}) for word in split_words(reply.text)]
    pieces += [chunk({"refusal": word}) for word in split_words(reply.refusal)]
    for index, call in enumerate(reply.calls):
        start = chunk({"tool_calls": [{"index": index, **_chat_tool_call(call, "")}]})
        parts = [
            chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
            for part in halves(call.arguments)
        ]
        pieces += joined(start, parts, b"")
    closing = chunk({}, reply.finish)
    if reply.usage and request.stream_usage:
        closing += event({**head, "choices": [], "usage": _chat_usage(reply.usage)})
    return Stream(chunk({"role": "assistant", "content": ""}), pieces, closing + _DONE)


def _chat_broken(failure: Failure, _: ProviderRequest) -> bytes:
    return event(openai_error(failure).body)


def _chat_head(request: ProviderRequest, kind: str) -> dict[str, Any]:
    created = request.started_ms // 1000
    name = f"chatcmpl-{request.n}"
    return {"id": name, "object": kind, "created": created, "model": request.model}


def _chat_tool_call(call: ResolvedCall, arguments: str) -> dict[str, Any]:
    function = {"name": call.name, "arguments": arguments}
    return {"id": f"call_{call.ref}", "type": "function", "function": function}


def _chat_usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


CHAT = WireFormat(Api.CHAT, _chat_whole, _chat_stream, openai_error, _chat_broken)


# OpenAI Responses: a list of output items, each announced, filled and completed by events.
#
# Every event has a number, and the whole response is sent again when it is complete.


_INCOMPLETE = {Finish.LENGTH: "max_output_tokens", Finish.CONTENT_FILTER: "content_filter"}

_Emit: TypeAlias = Callable[..., bytes]


def _responses_whole(reply: ResolvedReply, request: ProviderRequest) -> dict[str, Any]:
    reason = _INCOMPLETE.get(reply.finish)
    return {
        **_response(request, "incomplete" if reason else "completed"),
        "output": _responses_items(reply, request),
        "incomplete_details": {"reason": reason} if reason else None,
        "usage": _responses_usage(reply.usage) if reply.usage else None,
    }


def _responses_stream(reply: ResolvedReply, request: ProviderRequest) -> Stream:
    emit = partial(_responses_event, count())
    begun = _response(request, "in_progress")
    opening = emit("response.created", response=begun)
    opening += emit("response.in_progress", response=begun)
    pieces: list[bytes] = []
    for index, item in enumerate(_responses_items(reply, request)):
        pieces += _item_pieces(partial(emit, output_index=index), item)
    whole = _responses_whole(reply, request)
    return Stream(opening, pieces, emit(f"response.{whole['status']}", response=whole))


def _responses_broken(failure: Failure, request: ProviderRequest) -> bytes:
    wire_error = openai_error(failure)
    fault = {
        "code": wire_error.code or wire_error.kind,
        "message": wire_error.message,
        "param": None,
    }
    return event({"type": "error", "sequence_number": request.sent + 2, **fault}, "error")


def _responses_event(numbers: "count[int]", kind: str, **fields: object) -> bytes:
    return event({"type": kind, "sequence_number": next(numbers), **fields}, kind)


def _response(request: ProviderRequest, status: str) -> dict[str, Any]:
    return {
        "id": f"resp_{request.n}",
        "object": "response",
        "created_at": request.started_ms // 1000,
        "status": status,
        "model": request.model,
        "output": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": None,
    }


def _responses_usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


def _responses_items(reply: ResolvedReply, request: ProviderRequest) -> list[dict[str, Any]]:
    calls = [_function_call(call) for call in reply.calls]
    if reply.refusal:
        return [_responses_message({"type": "refusal", "refusal": reply.refusal}, request), *calls]
    if reply.text:
        text = {"type": "output_text", "text": reply.text, "annotations": (), "logprobs": ()}
        return [_responses_message(text, request), *calls]
    return calls


def _responses_message(part: dict[str, Any], request: ProviderRequest) -> dict[str, Any]:
    return {
        "type": "message",
        "id": f"msg_{request.n}",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }


def _function_call(call: ResolvedCall) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": f"fc_{call.ref}",
        "call_id": f"call_{call.ref}",
        "name": call.name,
        "arguments": call.arguments,
        "status": "completed",
    }


def _item_pieces(emit: _Emit, item: dict[str, Any]) -> list[bytes]:
    fill, blank = _FILLS[item["type"]]
    added = emit("response.output_item.added", item={**item, **blank, "status": "in_progress"})
    pieces = fill(partial(emit, item_id=item["id"]), item)
    return joined(added, pieces, emit("response.output_item.done", item=item))


def _fill_call(emit: _Emit, item: dict[str, Any]) -> list[bytes]:
    kind, arguments = "response.function_call_arguments", item["arguments"]
    pieces = [emit(f"{kind}.delta", delta=part) for part in halves(arguments)]
    return joined(b"", pieces, emit(f"{kind}.done", arguments=arguments, name=item["name"]))


def _fill_message(emit: _Emit, item: dict[str, Any]) -> list[bytes]:
    (part,) = item["content"]
    field = "text" if "text" in part else "refusal"
    emit, kind = partial(emit, content_index=0), f"response.{part['type']}"
    added = emit("response.content_part.added", part={**part, field: ""})
    pieces = [emit(f"{kind}.delta", delta=word, logprobs=[]) for word in split_words(part[field])]
    done = emit(f"{kind}.done", **{field: part[field]}, logprobs=[])
    return joined(added, pieces, done + emit("response.content_part.done", part=part))


_FILLS: dict[str, tuple[Callable[[_Emit, dict[str, Any]], list[bytes]], dict[str, Any]]] = {
    "function_call": (_fill_call, {"arguments": ""}),
    "message": (_fill_message, {"content": ()}),
}

RESPONSES = WireFormat(
    Api.RESPONSES, _responses_whole, _responses_stream, openai_error, _responses_broken
)
