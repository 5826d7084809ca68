"""OpenAI Responses: a list of output items, each announced, filled and completed by events.

Every event has a number, and the whole response is sent again when it is complete.
"""

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any, TypeAlias

from vegakit.conversation import Finish, Usage
from vegakit.testing.provider.failures import spell_openai
from vegakit.testing.provider.requests import Api, Request
from vegakit.testing.provider.said import Said, SaidCall
from vegakit.testing.provider.script import Failure
from vegakit.testing.provider.wire import Stream, WireFormat, event, halves, joined, split_words

__all__ = ["RESPONSES"]

_INCOMPLETE = {Finish.LENGTH: "max_output_tokens", Finish.CONTENT_FILTER: "content_filter"}

_Emit: TypeAlias = Callable[..., bytes]


def _whole(said: Said, request: Request) -> dict[str, Any]:
    reason = _INCOMPLETE.get(said.finish)
    return {
        **_response(request, "incomplete" if reason else "completed"),
        "output": _items(said, request),
        "incomplete_details": {"reason": reason} if reason else None,
        "usage": _usage(said.usage) if said.usage else None,
    }


def _stream(said: Said, request: Request) -> Stream:
    emit = partial(_event, count())
    begun = _response(request, "in_progress")
    opening = emit("response.created", response=begun)
    opening += emit("response.in_progress", response=begun)
    pieces: list[bytes] = []
    for index, item in enumerate(_items(said, request)):
        pieces += _item_pieces(partial(emit, output_index=index), item)
    whole = _whole(said, request)
    return Stream(opening, pieces, emit(f"response.{whole['status']}", response=whole))


def _broken(failure: Failure, request: Request) -> bytes:
    spelled = spell_openai(failure)
    fault = {"code": spelled.code or spelled.kind, "message": spelled.message, "param": None}
    return event({"type": "error", "sequence_number": request.sent + 2, **fault}, "error")


def _event(numbers: "count[int]", kind: str, **fields: object) -> bytes:
    return event({"type": kind, "sequence_number": next(numbers), **fields}, kind)


def _response(request: Request, status: str) -> dict[str, Any]:
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


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


def _items(said: Said, request: Request) -> list[dict[str, Any]]:
    calls = [_function_call(call) for call in said.calls]
    if said.refusal:
        return [_message({"type": "refusal", "refusal": said.refusal}, request), *calls]
    if said.text:
        text = {"type": "output_text", "text": said.text, "annotations": (), "logprobs": ()}
        return [_message(text, request), *calls]
    return calls


def _message(part: dict[str, Any], request: Request) -> dict[str, Any]:
    return {
        "type": "message",
        "id": f"msg_{request.n}",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }


def _function_call(call: SaidCall) -> dict[str, Any]:
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

RESPONSES = WireFormat(Api.RESPONSES, _whole, _stream, spell_openai, _broken)
