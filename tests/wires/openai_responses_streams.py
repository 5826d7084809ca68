"""Streams of Responses, as OpenAI and others send them."""

import json
from itertools import count
from typing import Any, NamedTuple


class Stream(NamedTuple):
    """`tool` carries the answer. `by_sdk` and `by_library` say who reads it as we do; the reasons
    why not stand with the stream."""

    content: bytes
    tool: str | None = None
    by_sdk: bool = True
    by_library: bool = True


def event(kind: str, **fields: Any) -> str:
    data = json.dumps({"type": kind, "sequence_number": 0, **fields}, ensure_ascii=False)
    return f"event: {kind}\ndata: {data}\n\n"


def usage(given: int = 19, made: int = 10, cached: int = 0, **rest: Any) -> dict[str, Any]:
    return {
        "input_tokens": given,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0, **rest},
        "output_tokens": made,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": given + made,
    }


def response(*items: Any, status: str = "completed", **rest: Any) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1761000000,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": 256,
        "model": "gpt-4o-2024-08-06",
        "output": list(items),
        "parallel_tool_calls": True,
        "reasoning": {"effort": None, "summary": None},
        "service_tier": "default",
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": usage(),
        "metadata": {},
        **rest,
    }


def text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}


def message(*parts: Any, item_id: str = "msg_1", **rest: Any) -> dict[str, Any]:
    content = [text_part(part) if isinstance(part, str) else part for part in parts]
    head = {"id": item_id, "type": "message", "status": "completed", "role": "assistant"}
    return {**head, "content": content, **rest}


def refusal(text: str) -> dict[str, Any]:
    return {"type": "refusal", "refusal": text}


def call(arguments: str, name: str = "weather", n: int = 1, **rest: Any) -> dict[str, Any]:
    head = {"id": f"fc_{n}", "type": "function_call", "status": "completed"}
    return {**head, "arguments": arguments, "call_id": f"call_{n}", "name": name, **rest}


def thoughts(*summary: str, sealed: str | None = "c2VhbGVk", **rest: Any) -> dict[str, Any]:
    parts = [{"type": "summary_text", "text": text} for text in summary]
    item = {"id": "rs_1", "type": "reasoning", "summary": parts, **rest}
    return {**item, "encrypted_content": sealed} if sealed else item


def _halves(text: str) -> tuple[str, ...]:
    middle = len(text) // 2
    return tuple(part for part in (text[:middle], text[middle:]) if part)


def told(index: int, item: dict[str, Any], *, deltas: bool = True) -> str:
    """The events of one item, as OpenAI sends them."""
    at: dict[str, Any] = {"output_index": index}
    inside = {**at, "item_id": item["id"]}
    pieces: list[str] = []
    match item["type"]:
        case "message":
            blank = {**item, "content": [], "status": "in_progress"}
            for n, part in enumerate(item["content"]):
                name = "text" if "text" in part else "refusal"
                kind = f"response.{part['type']}"
                here = {**inside, "content_index": n}
                pieces.append(event("response.content_part.added", **here, part={**part, name: ""}))
                pieces += [
                    event(f"{kind}.delta", **here, delta=half, logprobs=[], obfuscation="x")
                    for half in _halves(part[name])
                ]
                pieces.append(event(f"{kind}.done", **here, **{name: part[name]}, logprobs=[]))
                pieces.append(event("response.content_part.done", **here, part=part))
        case "function_call":
            blank = {**item, "arguments": "", "status": "in_progress"}
            kind = "response.function_call_arguments"
            halves = _halves(item["arguments"]) if deltas else ()
            pieces += [event(f"{kind}.delta", **inside, delta=half) for half in halves]
            pieces.append(event(f"{kind}.done", **inside, arguments=item["arguments"], name=""))
        case _:
            blank = {**item, "summary": [], "content": [], "encrypted_content": "half"}
            for n, part in enumerate(item["summary"]):
                kind = "response.reasoning_summary"
                here = {**inside, "summary_index": n}
                pieces.append(event(f"{kind}_part.added", **here, part={**part, "text": ""}))
                pieces += [
                    event(f"{kind}_text.delta", **here, delta=half)
                    for half in _halves(part["text"])
                ]
                pieces.append(event(f"{kind}_text.done", **here, text=part["text"]))
                pieces.append(event(f"{kind}_part.done", **here, part=part))
            for n, part in enumerate(item.get("content") or ()):
                here = {**inside, "content_index": n}
                pieces.append(event("response.reasoning_text.delta", **here, delta=part["text"]))
    added = event("response.output_item.added", **at, item=blank)
    return "".join([added, *pieces, event("response.output_item.done", **at, item=item)])


BEGUN = "".join(
    event(f"response.{kind}", response=response(status="in_progress", usage=None))
    for kind in ("created", "in_progress")
)


def stream(*items: Any, deltas: bool = True, end: str = "completed", **rest: Any) -> str:
    events = [told(index, item, deltas=deltas) for index, item in enumerate(items)]
    ended = event(f"response.{end}", response=response(*items, status=end, **rest))
    return "".join([BEGUN, *events, ended])


def _numbered(content: str) -> bytes:
    numbers = count()
    pieces = content.split('"sequence_number": 0')
    return "".join(
        piece if n == 0 else f'"sequence_number": {next(numbers)}{piece}'
        for n, piece in enumerate(pieces)
    ).encode()


def _stream(content: str, newline: str = "\n", **rest: Any) -> Stream:
    return Stream(_numbered(content).replace(b"\n", newline.encode()), **rest)


_RAW = [{"type": "reasoning_text", "text": "raw one"}, {"type": "reasoning_text", "text": "two"}]
_SEARCH = {"id": "ws_1", "type": "web_search_call", "status": "completed", "name": 7, "content": 7}

STREAMS: dict[str, Stream] = {
    "text": _stream(stream(message("Paris."), usage=usage(19, 3, 16, cache_write_tokens=2))),
    "unicode, CRLF and comments": _stream(
        ": ping\n\n" + stream(message("Grüße, 世界 🌍 \u2028\n")), newline="\r\n"
    ),
    "two parts": _stream(stream(message("One. ", "Two."))),
    "two messages": _stream(
        stream(
            message("Let me look.", item_id="msg_1", phase="commentary"),
            message("Sunny.", item_id="msg_2", phase="final_answer"),
        )
    ),
    "parallel calls": _stream(
        stream(call('{"city": "Paris"}'), call('{"city": "Rome"}', n=2), usage=usage(80, 40))
    ),
    "text, then a call without arguments": _stream(stream(message("Hm."), call("", "clock"))),
    "call with a namespace": _stream(stream(call("{}", namespace="maps"))),
    "arguments that are not JSON": _stream(
        stream(
            call('{"city": ', status="incomplete"),
            end="incomplete",
            incomplete_details={"reason": "max_output_tokens"},
        )
    ),
    "arguments at the end": _stream(stream(call('{"city": "Paris"}'), deltas=False)),
    "refusal": _stream(stream(message(refusal("I will not.")))),
    "cut at the limit": _stream(
        stream(
            message("half", status="incomplete"),
            end="incomplete",
            incomplete_details={"reason": "max_output_tokens"},
        )
    ),
    "filtered": _stream(
        stream(
            message("ha", status="incomplete"),
            end="incomplete",
            incomplete_details={"reason": "content_filter"},
        )
    ),
    "no usage": _stream(stream(message("ok"), usage=None)),
    "sealed thoughts": _stream(stream(thoughts(), message("42"), usage=usage(20, 30))),
    "thoughts with a summary": _stream(
        stream(thoughts("Let me think.", "**So**, 42."), message("42"))
    ),
    "thoughts before a call": _stream(stream(thoughts("Hm."), call('{"city": "Paris"}'))),
    "raw thoughts": _stream(stream(thoughts(sealed=None, content=_RAW), message("42"))),
    "no items at the end": _stream(
        stream(thoughts("Hm."), message("42"), call("{}", n=2)).replace(
            json.dumps(response(thoughts("Hm."), message("42"), call("{}", n=2)))[:-1],
            json.dumps(response())[:-1],
        ),
        by_sdk=False,
    ),
    "answer by a tool": _stream(stream(call('{"name": "Paris"}', "city")), tool="city"),
    "answer by a tool at the end": _stream(
        stream(call('{"name": "Paris"}', "city"), deltas=False), tool="city"
    ),
    "answer by a tool beside a call": _stream(
        stream(call('{"a": 1}', "f"), call('{"name": "Rome"}', "city", 2)), tool="city"
    ),
    "unknown events and items": _stream(
        BEGUN
        + event("response.rate_limits", item="none", response=[1], delta={"x": 1})
        + event("response.output_item.added", output_index=0, item=_SEARCH)
        + event("response.code_interpreter_call_code.delta", output_index=0, delta="print")
        + event("response.output_item.done", output_index=0, item=_SEARCH)
        + told(1, message("ok"))
        + event("response.completed", response=response(_SEARCH, message("ok"))),
        by_sdk=False,
        by_library=False,
    ),
}
