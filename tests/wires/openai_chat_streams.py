"""Streams of Chat Completions, as OpenAI and others send them."""

import json
from typing import Any, NamedTuple


class Stream(NamedTuple):
    """`tool` carries the answer. `by_sdk` and `by_library` say who reads it as we do; the reasons
    why not stand with the stream."""

    content: bytes
    tool: str | None = None
    by_sdk: bool = True
    by_library: bool = True


def line(content: Any) -> str:
    return f"data: {json.dumps(content, ensure_ascii=False)}\n\n"


def chunk(delta: Any = None, finish: str | None = None, **rest: Any) -> str:
    choice = {"index": 0, "delta": delta or {}, "logprobs": None, "finish_reason": finish}
    head = {"id": "chatcmpl-C1", "object": "chat.completion.chunk", "created": 1761000000}
    return line({**head, "model": "gpt-4o-2024-08-06", "choices": [choice], **rest})


def usage(prompt: int = 19, completion: int = 10, cached: int = 0, **rest: Any) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached, "audio_tokens": 0, **rest},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }


def tool(index: int | None, arguments: str, name: str = "", call_id: str = "", **rest: Any) -> Any:
    call: dict[str, Any] = {} if index is None else {"index": index}
    if call_id:
        call |= {"id": call_id, "type": "function"}
    call["function"] = {"name": name, "arguments": arguments} if name else {"arguments": arguments}
    return {"tool_calls": [{**call, **rest}]}


DONE = "data: [DONE]\n\n"
ROLE = chunk({"role": "assistant", "content": "", "refusal": None}, usage=None)


def _stream(*events: str, newline: str = "\n", **rest: Any) -> Stream:
    return Stream("".join(events).replace("\n", newline).encode(), **rest)


STREAMS: dict[str, Stream] = {
    "text": _stream(
        ROLE,
        *(chunk({"content": word}, usage=None, obfuscation="x7") for word in ("Par", "is", ".")),
        chunk(finish="stop", usage=None),
        chunk(choices=[], usage=usage(19, 3, 16, cache_write_tokens=2)),
        DONE,
    ),
    "unicode, CRLF and comments": _stream(
        ": ping\n\n",
        ROLE,
        *(chunk({"content": word}) for word in ("Grüße, ", "世界 ", "🌍", "\u2028\n")),
        ": ping\n\n",
        chunk(finish="stop", usage=usage()),
        DONE,
        newline="\r\n",
    ),
    "parallel calls": _stream(
        chunk({"role": "assistant", "content": None}),
        chunk(tool(0, "", "weather", "call_a")),
        chunk(tool(0, '{"ci')),
        chunk(tool(0, 'ty": "Paris"}')),
        chunk(tool(1, "", "weather", "call_b")),
        chunk(tool(1, '{"city": "Rome"}')),
        chunk(finish="tool_calls"),
        chunk(choices=[], usage=usage(80, 40, 64)),
        DONE,
    ),
    "text, then a call without arguments": _stream(
        ROLE,
        chunk({"content": "One moment."}),
        chunk(tool(0, "", "clock", "call_a")),
        chunk(finish="tool_calls", usage=usage()),
        DONE,
    ),
    "arguments that are not JSON": _stream(
        chunk(tool(0, '{"city": ', "weather", "call_a")),
        chunk(finish="length", usage=usage()),
        DONE,
    ),
    "refusal": _stream(
        ROLE,
        *(chunk({"refusal": word}) for word in ("I ", "will ", "not.")),
        chunk(finish="stop"),
        chunk(choices=[], usage=usage(9, 4)),
        DONE,
    ),
    "cut at the limit": _stream(
        ROLE, chunk({"content": "half"}), chunk(finish="length", usage=usage()), DONE
    ),
    "filtered": _stream(
        ROLE, chunk({"content": "ha"}), chunk(finish="content_filter", usage=usage()), DONE
    ),
    "no usage": _stream(ROLE, chunk({"content": "ok"}), chunk(finish="stop"), DONE),
    "thoughts in reasoning_content": _stream(
        chunk({"role": "assistant", "content": None, "reasoning_content": ""}),
        chunk({"content": None, "reasoning_content": "Let me "}),
        chunk({"content": None, "reasoning_content": "think."}),
        chunk({"content": "42", "reasoning_content": None}),
        chunk({"content": "", "reasoning_content": None}, "stop", usage=usage(20, 30)),
        DONE,
    ),
    "thoughts in reasoning": _stream(
        ": OPENROUTER PROCESSING\n\n",
        chunk({"role": "assistant", "content": "", "reasoning": "Hm", "reasoning_details": [{}]}),
        chunk({"role": "assistant", "content": "", "reasoning": ", well."}),
        chunk({"role": "assistant", "content": "Yes."}),
        chunk({"role": "assistant", "content": ""}, "stop", native_finish_reason="completed"),
        chunk({"role": "assistant", "content": ""}, usage=usage(20, 30)),
        DONE,
    ),
    "thoughts between tags": _stream(
        *(
            chunk({"content": word})
            for word in ("<think>", "\nLet ", "me see <b", ">.\n", "</think>", "\n\n", "Yes <b>!")
        ),
        chunk(finish="stop", usage=usage()),
        DONE,
    ),
    # The library knows a tag only if it comes alone.
    "tags in pieces": _stream(
        *(chunk({"content": part}) for part in (" <th", "ink>so", " </thi", "s", "</think", ">No")),
        chunk(finish="stop", usage=usage()),
        DONE,
        by_library=False,
    ),
    # The SDK needs an index.
    "calls without an index": _stream(
        chunk(tool(None, '{"city": "Paris"}', "weather", "call_a")),
        chunk(tool(None, '{"city": ', "weather", "call_b")),
        chunk(tool(None, '"Rome"}')),
        chunk(finish="tool_calls", usage=usage()),
        DONE,
        by_sdk=False,
    ),
    # Both take calls of the same index for one.
    "calls of the same index": _stream(
        chunk(
            tool(0, '{"a": 1}', "f", "call_a", extra_content={"google": {"thought_signature": "s"}})
        ),
        chunk(tool(0, '{"a": 2}', "f", "call_b")),
        chunk({"role": "assistant"}, "stop", usage=usage()),
        DONE,
        by_sdk=False,
        by_library=False,
    ),
    "call with a signature": _stream(
        chunk(
            tool(0, '{"a": 1}', "f", "call_a", extra_content={"google": {"thought_signature": "s"}})
        ),
        chunk({"role": "assistant"}, "tool_calls", usage=usage()),
        DONE,
    ),
    # The SDK adds up what is no text.
    "content in parts": _stream(
        chunk({"content": [{"type": "text", "text": "Par"}]}),
        chunk({"content": [{"type": "reference", "reference_ids": [1]}, "is"]}),
        chunk(finish="stop", usage=usage()),
        DONE,
        by_sdk=False,
    ),
    # The library adds up usages that are each all so far.
    "usage in every chunk": _stream(
        chunk({"content": "a"}, usage=usage(19, 1)),
        chunk({"content": "b"}, usage=usage(19, 2)),
        chunk(finish="stop", usage=usage(19, 2)),
        DONE,
        by_library=False,
    ),
    # The SDK keeps the name of the model that came first, which is empty.
    "filter results first": _stream(
        chunk(choices=[], model="", prompt_filter_results=[{"prompt_index": 0}]),
        ROLE,
        chunk({"content": "ok"}),
        chunk(finish="stop", usage=usage()),
        DONE,
        by_sdk=False,
    ),
    "answer by a tool": _stream(
        chunk({"role": "assistant", "content": None}),
        chunk(tool(0, "", "city", "call_a")),
        *(chunk(tool(0, part)) for part in ('{"name"', ': "Paris', '"}')),
        chunk(finish="tool_calls", usage=usage()),
        DONE,
        tool="city",
    ),
    "answer by a tool beside a call": _stream(
        chunk(tool(0, '{"a": 1}', "f", "call_a")),
        chunk(tool(1, "", "city", "call_b")),
        chunk(tool(1, '{"name": "Rome"}')),
        chunk(finish="tool_calls", usage=usage()),
        DONE,
        tool="city",
    ),
}
