"""OpenAI Chat Completions: one message, streamed as chunks of it, usage last and only if asked."""

from typing import Any

from vegakit.conversation import Usage
from vegakit.testing.provider.failures import spell_openai
from vegakit.testing.provider.requests import Api, Request
from vegakit.testing.provider.said import Said, SaidCall
from vegakit.testing.provider.script import Failure
from vegakit.testing.provider.wire import Stream, WireFormat, event, halves, joined, split_words

__all__ = ["CHAT"]

_DONE = b"data: [DONE]\n\n"


def _whole(said: Said, request: Request) -> dict[str, Any]:
    message: dict[str, Any] = {
        "role": "assistant",
        "content": said.text or None,
        "refusal": said.refusal or None,
    }
    if said.calls:
        message["tool_calls"] = [_tool_call(call, call.arguments) for call in said.calls]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": said.finish}
    usage = {"usage": _usage(said.usage)} if said.usage else {}
    return {**_head(request, "chat.completion"), "choices": [choice], **usage}


def _stream(said: Said, request: Request) -> Stream:
    head = _head(request, "chat.completion.chunk")

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return event({**head, "choices": [choice]})

    pieces = [chunk({"content": word}) for word in split_words(said.text)]
    pieces += [chunk({"refusal": word}) for word in split_words(said.refusal)]
    for index, call in enumerate(said.calls):
        start = chunk({"tool_calls": [{"index": index, **_tool_call(call, "")}]})
        parts = [
            chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
            for part in halves(call.arguments)
        ]
        pieces += joined(start, parts, b"")
    closing = chunk({}, said.finish)
    if said.usage and request.stream_usage:
        closing += event({**head, "choices": [], "usage": _usage(said.usage)})
    return Stream(chunk({"role": "assistant", "content": ""}), pieces, closing + _DONE)


def _broken(failure: Failure, _: Request) -> bytes:
    return event(spell_openai(failure).body)


def _head(request: Request, kind: str) -> dict[str, Any]:
    created = request.started_ms // 1000
    name = f"chatcmpl-{request.n}"
    return {"id": name, "object": kind, "created": created, "model": request.model}


def _tool_call(call: SaidCall, arguments: str) -> dict[str, Any]:
    function = {"name": call.name, "arguments": arguments}
    return {"id": f"call_{call.ref}", "type": "function", "function": function}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


CHAT = WireFormat(Api.CHAT, _whole, _stream, spell_openai, _broken)
