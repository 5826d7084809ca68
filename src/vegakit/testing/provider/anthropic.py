"""Anthropic Messages: typed content blocks, each opened, filled and closed by events."""

from typing import Any

from msgspec import Raw

from vegakit.conversation import Finish, Usage
from vegakit.testing.provider.failures import spell_anthropic
from vegakit.testing.provider.requests import Api, Request
from vegakit.testing.provider.said import Said, SaidCall
from vegakit.testing.provider.script import Failure
from vegakit.testing.provider.wire import Stream, WireFormat, event, halves, joined, split_words

__all__ = ["ANTHROPIC"]

_STOP_REASONS = {
    Finish.STOP: "end_turn",
    Finish.LENGTH: "max_tokens",
    Finish.TOOL_CALLS: "tool_use",
    Finish.CONTENT_FILTER: "refusal",
}


def _whole(said: Said, request: Request) -> dict[str, Any]:
    text = [{"type": "text", "text": said.text}] if said.text else []
    calls = [{**_tool_use(call), "input": Raw(call.arguments.encode())} for call in said.calls]
    usage = {"usage": _usage(said.usage)} if said.usage else {}
    return {**_message(request, [*text, *calls]), **_stop(said), **usage}


def _stream(said: Said, request: Request) -> Stream:
    message = {**_message(request, []), "stop_reason": None, "stop_sequence": None}
    billed = {"usage": {"output_tokens": said.usage.output_tokens}} if said.usage else {}
    if said.usage:
        message["usage"] = {**_usage(said.usage), "output_tokens": 1}
    opening = _event("message_start", message=message) + _event("ping")
    closing = _event("message_delta", delta=_stop(said), **billed) + _event("message_stop")
    blocks = [_text_block(said.text)] if said.text else []
    blocks += [_call_block(len(blocks) + index, call) for index, call in enumerate(said.calls)]
    return Stream(opening, [piece for block in blocks for piece in block], closing)


def _broken(failure: Failure, _: Request) -> bytes:
    return event(spell_anthropic(failure).body, "error")


def _message(request: Request, content: list[Any]) -> dict[str, Any]:
    return {
        "id": f"msg_{request.n}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": content,
    }


def _stop(said: Said) -> dict[str, Any]:
    if not said.refusal:
        return {"stop_reason": _STOP_REASONS[said.finish], "stop_sequence": None}
    details = {"type": "refusal", "category": None, "explanation": said.refusal}
    return {"stop_reason": "refusal", "stop_sequence": None, "stop_details": details}


def _usage(usage: Usage) -> dict[str, int]:
    """Cached tokens stand beside the others, not among them."""
    cached = usage.cache_read_tokens + usage.cache_write_tokens
    return {
        "input_tokens": usage.input_tokens - cached,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "output_tokens": usage.output_tokens,
    }


def _tool_use(call: SaidCall) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{call.ref}", "name": call.name, "input": {}}


def _text_block(text: str) -> list[bytes]:
    deltas = [{"type": "text_delta", "text": word} for word in split_words(text)]
    return _block(0, {"type": "text", "text": ""}, deltas)


def _call_block(index: int, call: SaidCall) -> list[bytes]:
    parts = halves(call.arguments)
    deltas = [{"type": "input_json_delta", "partial_json": part} for part in parts]
    return _block(index, _tool_use(call), deltas)


def _block(index: int, block: dict[str, Any], deltas: list[dict[str, str]]) -> list[bytes]:
    start = _event("content_block_start", index=index, content_block=block)
    stop = _event("content_block_stop", index=index)
    pieces = [_event("content_block_delta", index=index, delta=delta) for delta in deltas]
    return joined(start, pieces, stop)


def _event(kind: str, **fields: object) -> bytes:
    return event({"type": kind, **fields}, kind)


ANTHROPIC = WireFormat(Api.ANTHROPIC, _whole, _stream, spell_anthropic, _broken)
