"""OpenAI's two formats as a server speaks them: Chat Completions and Responses (pure)."""

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any, TypeAlias

from vegakit.conversation import Finish, Usage
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

# The same cause has its own status, type and wording.


_SERVED_KINDS: dict[int, tuple[str, str | None]] = {
    401: ("invalid_request_error", "invalid_api_key"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
    503: ("service_unavailable_error", None),
    529: ("overloaded_error", None),
}
_SERVED_CAUSES = {
    "quota": (429, "insufficient_quota", "insufficient_quota", "You exceeded your current quota."),
    "context_length": (
        400,
        "invalid_request_error",
        "context_length_exceeded",
        "This model's maximum context length is 128000 tokens.",
    ),
}


def _openai_error(failure: ServedFailure) -> WireError:
    """Return a failure as OpenAI spells it."""
    if isinstance(failure.cause, int):
        status, message = failure.cause, f"status {failure.cause}, as scripted"
        usual = "server_error" if status >= 500 else "invalid_request_error"
        kind, code = _SERVED_KINDS.get(status, (usual, None))
    else:
        status, kind, code, message = _SERVED_CAUSES[failure.cause]
    message = failure.message or message
    body = {"error": {"message": message, "type": kind, "param": None, "code": code}}
    return WireError(status, kind, code, message, body)


# OpenAI Chat Completions: one message, streamed as chunks of it, usage last and only if asked.


_DONE = b"data: [DONE]\n\n"


def _chat_whole(reply: ServedReply, request: ServedRequest) -> dict[str, Any]:
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


def _chat_stream(reply: ServedReply, request: ServedRequest) -> ServedStream:
    head = _chat_head(request, "chat.completion.chunk")

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return write_event({**head, "choices": [choice]})

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
        closing += write_event({**head, "choices": [], "usage": _chat_usage(reply.usage)})
    return ServedStream(chunk({"role": "assistant", "content": ""}), pieces, closing + _DONE)


def _chat_broken(failure: ServedFailure, _: ServedRequest) -> bytes:
    return write_event(_openai_error(failure).body)


def _chat_head(request: ServedRequest, kind: str) -> dict[str, Any]:
    created = request.started_ms // 1000
    name = f"chatcmpl-{request.n}"
    return {"id": name, "object": kind, "created": created, "model": request.model}


def _chat_tool_call(call: ServedCall, arguments: str) -> dict[str, Any]:
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


CHAT_SERVER = WireServer(_chat_whole, _chat_stream, _openai_error, _chat_broken)


# OpenAI Responses: a list of output items, each announced, filled and completed by events.
#
# Every event has a number, and the whole response is sent again when it is complete.


_INCOMPLETE = {Finish.LENGTH: "max_output_tokens", Finish.CONTENT_FILTER: "content_filter"}

_Emit: TypeAlias = Callable[..., bytes]


def _responses_whole(reply: ServedReply, request: ServedRequest) -> dict[str, Any]:
    reason = _INCOMPLETE.get(reply.finish)
    return {
        **_response(request, "incomplete" if reason else "completed"),
        "output": _responses_items(reply, request),
        "incomplete_details": {"reason": reason} if reason else None,
        "usage": _responses_usage(reply.usage) if reply.usage else None,
    }


def _responses_stream(reply: ServedReply, request: ServedRequest) -> ServedStream:
    emit = partial(_responses_event, count())
    begun = _response(request, "in_progress")
    opening = emit("response.created", response=begun)
    opening += emit("response.in_progress", response=begun)
    pieces: list[bytes] = []
    for index, item in enumerate(_responses_items(reply, request)):
        pieces += _item_pieces(partial(emit, output_index=index), item)
    whole = _responses_whole(reply, request)
    return ServedStream(opening, pieces, emit(f"response.{whole['status']}", response=whole))


def _responses_broken(failure: ServedFailure, request: ServedRequest) -> bytes:
    wire_error = _openai_error(failure)
    fault = {
        "code": wire_error.code or wire_error.kind,
        "message": wire_error.message,
        "param": None,
    }
    return write_event({"type": "error", "sequence_number": request.sent + 2, **fault}, "error")


def _responses_event(numbers: "count[int]", kind: str, **fields: object) -> bytes:
    return write_event({"type": kind, "sequence_number": next(numbers), **fields}, kind)


def _response(request: ServedRequest, status: str) -> dict[str, Any]:
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


def _responses_items(reply: ServedReply, request: ServedRequest) -> list[dict[str, Any]]:
    calls = [_function_call(call) for call in reply.calls]
    if reply.refusal:
        return [_responses_message({"type": "refusal", "refusal": reply.refusal}, request), *calls]
    if reply.text:
        text = {"type": "output_text", "text": reply.text, "annotations": (), "logprobs": ()}
        return [_responses_message(text, request), *calls]
    return calls


def _responses_message(part: dict[str, Any], request: ServedRequest) -> dict[str, Any]:
    return {
        "type": "message",
        "id": f"msg_{request.n}",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }


def _function_call(call: ServedCall) -> dict[str, Any]:
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

RESPONSES_SERVER = WireServer(_responses_whole, _responses_stream, _openai_error, _responses_broken)
