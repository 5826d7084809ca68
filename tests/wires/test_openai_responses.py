"""Responses beside the official SDK and pydantic-ai."""

import json
import random
from itertools import pairwise
from typing import Any, cast

import pytest

from tests.wires.openai_oracle import heard, joined, sdk_answer, sdk_body
from tests.wires.openai_requests import CITY, REQUESTS, ask, called, user
from tests.wires.openai_responses_streams import (
    BEGUN,
    STREAMS,
    Stream,
    call,
    event,
    message,
    refusal,
    response,
    thoughts,
    told,
    usage,
)
from tests.wires.openai_spoiling import spoiled
from vegakit.conversation import (
    AssistantMessage,
    Finish,
    ModelChunk,
    ModelReply,
    ModelRequest,
    Opaque,
    OutputSpec,
    Reasoning,
    ReasoningDelta,
    Text,
    TextDelta,
    ToolCall,
    ToolMessage,
    ToolResult,
    ToolSpec,
    Usage,
)
from vegakit.errors import ErrorClass, WorldError
from vegakit.wires import RESPONSES, UNREADABLE, AskForm, ModelFeatures

BY_TOOL = ModelFeatures(json_output=False)
REASONS = ModelFeatures(temperature=False, reasons=True)
NOT_STORED = {"store": False}


def whole(*items: Any, **rest: Any) -> bytes:
    return json.dumps(response(*items, **rest)).encode()


PARIS = whole(message("Paris."))


def _kept(value: dict[str, Any]) -> Opaque:
    return Opaque("openai", value)


def _thought(text: str = "Hm.", **kept: Any) -> Reasoning:
    return Reasoning(text, _kept({"id": "rs_1", "signature": "c2VhbGVk", **kept}))


def _said(*parts: Any, texts: Any = ({"id": "msg_1"},), model: str = "") -> AssistantMessage:
    return AssistantMessage(parts, model, _kept({"texts": list(texts)}))


def _asked(*messages: Any, **rest: Any) -> ModelRequest:
    return ask(user("Hi"), *messages, user("?"), model="gpt-5.4", **rest)


_CALL = ToolCall("call_1", "weather", {"city": "Rome"}, _kept({"id": "fc_1"}))
_RESULT = ToolMessage((ToolResult("call_1", "weather", "sun"),))
OWN: dict[str, ModelRequest] = {
    "plain": _asked(),
    "text with its id": _asked(_said(Text("Hello."))),
    "two texts of one item": _asked(
        _said(Text("One."), Text("Two."), texts=({"id": "msg_1"}, {"id": "msg_1"}))
    ),
    "two texts of two items": _asked(
        _said(Text("One."), Text("Two."), texts=({"id": "msg_1"}, {"id": "msg_2"}))
    ),
    "two texts, one without an id": _asked(
        _said(Text("One."), Text("Two."), texts=({}, {"id": "msg_2"}))
    ),
    "text in a phase": _asked(
        _said(
            Text("Hello."),
            texts=({"id": "msg_1", "provider_details": {"phase": "final_answer"}},),
            model="gpt-5.4-2026-03-05",
        )
    ),
    "sealed thoughts": _asked(_said(_thought(""), Text("Hello."))),
    "thoughts with a summary": _asked(_said(_thought(), Text("Hello."))),
    "thoughts with two summaries": _asked(
        _said(_thought(), Reasoning("So.", _kept({"id": "rs_1"})), Text("Hello."))
    ),
    "raw thoughts": _asked(
        _said(
            Reasoning("", _kept({"id": "rs_1", "provider_details": {"raw_content": ["a", "b"]}})),
            Text("Hello."),
        )
    ),
    "thoughts before a call": _asked(_said(_thought(), _CALL, texts=()), _RESULT),
    "two thoughts": _asked(
        _said(
            _thought(),
            _CALL,
            Reasoning("Then.", _kept({"id": "rs_2", "signature": "bW9yZQ"})),
            Text("Hello."),
        ),
        _RESULT,
    ),
    "call with a namespace": _asked(
        AssistantMessage(
            (
                ToolCall(
                    "call_1",
                    "weather",
                    {},
                    _kept({"id": "fc_1", "provider_details": {"namespace": "maps"}}),
                ),
            )
        ),
        _RESULT,
    ),
    "call of another format": _asked(
        AssistantMessage((ToolCall("toolu_1", "f", {}, Opaque("anthropic", {"id": "x"})),))
    ),
    "thoughts of another format": _asked(
        AssistantMessage((Reasoning("Hm.", Opaque("openai-chat", {"id": "reasoning"})), Text("A")))
    ),
    "output": _asked(output=OutputSpec("city", CITY)),
}


# Out.


@pytest.mark.parametrize("label", REQUESTS)
def test_a_request_is_the_one_that_the_library_sends(label: str) -> None:
    """Field by field, plain for one half and streamed for the other."""
    stream = list(REQUESTS).index(label) % 2 == 1
    form = AskForm(stream=stream, fields=NOT_STORED)
    answer = STREAMS["text"].content if stream else PARIS
    body = json.loads(RESPONSES.encode(REQUESTS[label], form))
    assert body == heard(RESPONSES, REQUESTS[label], form, answer).body
    assert body["store"] is False
    assert "include" not in body


@pytest.mark.parametrize("label", list(REQUESTS)[::3])
def test_a_request_is_one_that_the_bare_sdk_sends(label: str) -> None:
    """It knows every field by its name."""
    body = json.loads(RESPONSES.encode(REQUESTS[label], AskForm(fields=NOT_STORED)))
    assert body == sdk_body(RESPONSES, body, PARIS)


@pytest.mark.parametrize("label", OWN)
def test_a_request_to_a_model_that_reasons_is_the_one_that_the_library_sends(label: str) -> None:
    """Ids and sealed thoughts go back, and sealed thoughts are asked for."""
    form = AskForm(REASONS, fields={**NOT_STORED, "reasoning": {"effort": "low"}})
    body = json.loads(RESPONSES.encode(OWN[label], form))
    theirs = heard(RESPONSES, OWN[label], form, PARIS).body
    assert body == {**theirs, "reasoning": {"effort": "low"}}
    assert body == sdk_body(RESPONSES, body, PARIS)
    assert body["include"] == ["reasoning.encrypted_content"]


@pytest.mark.parametrize("label", [label for label in REQUESTS if "output" in label])
def test_an_output_by_a_tool_is_the_one_that_the_library_sends(label: str) -> None:
    """The model must call a tool, and the last one carries the answer."""
    body = json.loads(RESPONSES.encode(REQUESTS[label], AskForm(BY_TOOL)))
    assert body == heard(RESPONSES, REQUESTS[label], AskForm(BY_TOOL), PARIS).body
    assert body["tool_choice"] == "required"
    assert "text" not in body


def test_settings_of_the_account_are_those_that_the_library_sends() -> None:
    """They are merged into the body, over what we say."""
    form = AskForm(fields={"service_tier": "default", "store": False})
    asked = REQUESTS["plain"]
    body = json.loads(RESPONSES.encode(asked, form))
    assert body == heard(RESPONSES, asked, form, PARIS).body
    over = AskForm(REASONS, fields={"max_output_tokens": 7, "include": []})
    sent = json.loads(RESPONSES.encode(asked, over))
    assert (sent["max_output_tokens"], sent["include"]) == (7, [])


def test_a_model_without_temperature_is_asked_without() -> None:
    """As the library does for a model that reasons."""
    asked = ask(user("Hi"), model="o3", temperature=0.5)
    body = json.loads(RESPONSES.encode(asked, AskForm(REASONS)))
    assert body == heard(RESPONSES, asked, AskForm(REASONS), PARIS).body
    assert "temperature" not in body


def test_a_request_without_messages_has_an_empty_one() -> None:
    """Else the provider refuses it."""
    asked = ask(system="Say hello.")
    body = json.loads(RESPONSES.encode(asked, AskForm()))
    assert body["input"] == [{"role": "user", "content": ""}]


OPEN = {"type": "object", "properties": {"a": {"type": "string", "default": "x"}}}
DIFFERENCES: dict[str, tuple[ModelRequest, str, Any, Any]] = {
    "a schema that cannot be strict is not closed": (
        ask(user("Hi"), tools=(ToolSpec("f", "F.", OPEN),)),
        "tools.0.parameters.additionalProperties",
        None,
        False,
    ),
    "nor is that of an output": (
        ask(user("Hi"), output=OutputSpec("f", OPEN)),
        "text.format.schema.additionalProperties",
        None,
        False,
    ),
    "arguments that are a list are quoted without spaces": (
        ask(*called([1, 2])),
        "input.1.arguments",
        '{"INVALID_JSON":"[1,2]"}',
        '{"INVALID_JSON":"[1, 2]"}',
    ),
}


@pytest.mark.parametrize("label", DIFFERENCES)
def test_where_a_request_differs_it_is_meant_to(label: str) -> None:
    """With the two tests below this is the whole list."""
    asked, path, ours, theirs = DIFFERENCES[label]
    bodies = [
        json.loads(RESPONSES.encode(asked, AskForm())),
        heard(RESPONSES, asked, AskForm(), PARIS).body,
    ]
    found: list[Any] = []
    for node in bodies:
        *steps, last = path.split(".")
        for step in steps:
            node = cast("Any", node)[int(step) if step.isdigit() else step]  # noqa: PLW2901
        found.append(node.pop(last, None))
    assert found == [ours, theirs]
    assert bodies[0] == bodies[1]


def test_a_model_that_does_not_reason_gets_no_thoughts() -> None:
    """The library writes them into the answer, between tags; the ids it leaves out too."""
    asked = ask(user("Hi"), _said(_thought(), Text("Hello.")), user("?"))
    body = json.loads(RESPONSES.encode(asked, AskForm()))
    theirs = heard(RESPONSES, asked, AskForm(), PARIS).body
    assert body["input"][1] == {"role": "assistant", "content": "Hello."}
    assert theirs["input"].pop(1)["content"].startswith("<think>")
    assert body == theirs


def test_a_phase_goes_back_only_to_the_model_that_gave_it() -> None:
    """The library knows which models have phases; we know which one had."""
    kept = {"id": "msg_1", "provider_details": {"phase": "commentary"}}
    for model, phase in (("gpt-5.4-2026-03-05", "commentary"), ("gpt-5.5", None), ("", None)):
        asked = _asked(_said(Text("Hello."), texts=(kept,), model=model))
        body = json.loads(RESPONSES.encode(asked, AskForm(REASONS)))
        assert body["input"][1].get("phase") == phase


# In: whole answers.

INCOMPLETE = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
ANSWERS: dict[str, bytes] = {
    "text": PARIS,
    "two parts": whole(message("One. ", "Two.")),
    "two messages": whole(message("One."), message("Two.", item_id="msg_2", phase="final_answer")),
    "empty text": whole(message("")),
    "nothing": whole(),
    "calls": whole(call('{"a": 1}'), call('{"a": 2}', n=2)),
    "call without arguments": whole(call("")),
    "call with a namespace": whole(call("{}", namespace="maps")),
    "arguments that are not JSON": whole(call('{"a'), **INCOMPLETE),
    "refusal": whole(message(refusal("No."))),
    "refusal beside a call": whole(message(refusal("No.")), call("{}")),
    "length": whole(message("half"), **INCOMPLETE),
    "filter": whole(status="incomplete", incomplete_details={"reason": "content_filter"}),
    "sealed thoughts": whole(thoughts(), message("42")),
    "thoughts with a summary": whole(thoughts("One.", "Two."), message("42")),
    "thoughts that are not sealed": whole(thoughts("One.", sealed=None), message("42")),
    "empty thoughts": whole(thoughts(sealed=None), message("42")),
    "raw thoughts": whole(
        thoughts(sealed=None, content=[{"type": "reasoning_text", "text": "raw"}]), message("42")
    ),
    "thoughts, call": whole(thoughts("Hm."), call('{"a": 1}')),
    "no usage": whole(message("ok"), usage=None),
    "zero usage": whole(message("ok"), usage=usage(0, 0)),
    "cached": whole(message("ok"), usage=usage(100, 5, 50, cache_write_tokens=40)),
    "unknown fields": whole(message("ok", x=1), y={"z": 1}, moderation=None),
}


@pytest.mark.parametrize("label", ANSWERS)
def test_an_answer_is_the_one_that_the_library_reads(label: str) -> None:
    """Message, usage, finish, and what goes back."""
    expected = heard(RESPONSES, REQUESTS["plain"], AskForm(), ANSWERS[label]).reply
    assert RESPONSES.decode(ANSWERS[label], None) == expected


def test_what_goes_back_is_what_came() -> None:
    """Item by item, apart from what only an answer has."""
    items = [thoughts("One.", "Two."), message("Hm."), call('{"a":1}'), message("So", item_id="m")]
    reply = RESPONSES.decode(whole(*items), None)
    asked = ask(user("Hi"), reply.message, model="gpt-5")
    sent = json.loads(RESPONSES.encode(asked, AskForm(REASONS)))["input"][1:]
    for item in items:
        if item["type"] == "function_call":
            del item["status"]
        for part in item.get("content", ()):
            part.pop("logprobs")
    assert sent == items


def test_an_answer_by_a_tool_is_text() -> None:
    """Word for word."""
    answer = whole(call('{"a": 1}', "f"))
    asked = ask(user("Hi"), output=OutputSpec("f", CITY))
    reply = RESPONSES.decode(answer, "f")
    assert reply == heard(RESPONSES, asked, AskForm(BY_TOOL), answer).reply
    assert (reply.message.text, reply.finish) == ('{"a": 1}', Finish.STOP)


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"input_tokens": 5},
        {"output_tokens": 5},
        {"input_tokens": 5, "output_tokens": -1},
        {"input_tokens": -5, "output_tokens": 1},
        {"input_tokens": "five", "output_tokens": 1},
        usage(5, 1, 6),
        usage(5, 1, -1),
        [5, 1],
    ],
)
def test_usage_that_cannot_be_is_not_told(said: Any) -> None:
    """The answer has been paid for, so it is handed over, and charged as reserved."""
    reply = RESPONSES.decode(whole(message("ok"), usage=said), None)
    assert (reply.usage, reply.message.text) == (None, "ok")


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ("incomplete", None),
        ("incomplete", "max_messages"),
        ("incomplete", "steered"),
        ("in_progress", None),
        ("queued", None),
        ("cancelled", None),
        ("failed", None),
        ("failed", "max_output_tokens"),
        (None, None),
        ("done", None),
    ],
)
def test_an_end_that_nobody_knows_is_no_answer(status: Any, reason: Any) -> None:
    """Whole or streamed."""
    details = {"reason": reason} if reason else None
    said = response(message("half"), status=status, incomplete_details=details)
    with pytest.raises(WorldError, match="broke its answer off") as caught:
        RESPONSES.decode(json.dumps(said).encode(), None)
    assert caught.value.error_class is ErrorClass.CONNECTION
    reader = RESPONSES.reader(None)
    reader.feed(event("response.incomplete", response=said).encode())
    with pytest.raises(WorldError, match="broke its answer off"):
        reader.reply()


def test_a_failed_answer_tells_why() -> None:
    """Though its status was one of success."""
    error = {"code": "rate_limit_exceeded", "message": "slow down"}
    with pytest.raises(WorldError, match="slow down") as caught:
        RESPONSES.decode(whole(status="failed", error=error), None)
    assert caught.value.error_class is ErrorClass.RATE_LIMIT


# In: streams.


def read(stream: Stream, cuts: list[int] | None = None) -> tuple[list[ModelChunk], ModelReply]:
    reader = RESPONSES.reader(stream.tool)
    chunks: list[ModelChunk] = []
    for start, end in pairwise([0, *(cuts or ()), len(stream.content)]):
        chunks += reader.feed(stream.content[start:end])
    assert reader.ended
    assert reader.failure is None
    return chunks, reader.reply()


def test_a_stream_may_be_cut_anywhere() -> None:
    """The chunks say the same, and the answer is the same; five thousand times."""
    draw = random.Random(1)
    expected = {name: read(stream) for name, stream in STREAMS.items()}
    for n in range(5_000):
        name = list(STREAMS)[n % len(STREAMS)]
        size = len(STREAMS[name].content)
        cuts = sorted(draw.randrange(size + 1) for _ in range(draw.randrange(1, 12)))
        chunks, reply = read(STREAMS[name], cuts)
        assert joined(chunks) == joined(expected[name][0])
        assert reply == expected[name][1]


@pytest.mark.parametrize("name", [name for name in STREAMS if STREAMS[name].by_sdk])
def test_a_stream_is_the_answer_that_the_sdk_puts_together(name: str) -> None:
    """Which is read as a whole answer."""
    stream = STREAMS[name]
    together = sdk_answer(RESPONSES, stream.content, stream=True)
    assert RESPONSES.decode(json.dumps(together).encode(), stream.tool) == read(stream)[1]


@pytest.mark.parametrize("name", [name for name in STREAMS if STREAMS[name].by_library])
def test_a_stream_is_the_one_that_the_library_reads(name: str) -> None:
    """The reply, and the chunks as they come."""
    stream = STREAMS[name]
    output = OutputSpec(stream.tool, CITY) if stream.tool else None
    asked = ask(user("Hi"), output=output)
    _, chunks, reply = heard(RESPONSES, asked, AskForm(BY_TOOL, stream=True), stream.content)
    ours, our_reply = read(stream)
    assert joined(ours) == joined(chunks)
    assert our_reply == reply


@pytest.mark.parametrize("name", STREAMS)
def test_chunks_are_the_reply(name: str) -> None:
    """Joined they are its text and its thoughts."""
    chunks, reply = read(STREAMS[name])
    said = "".join(part.text for part in chunks if isinstance(part, TextDelta))
    thought = "".join(part.text for part in chunks if isinstance(part, ReasoningDelta))
    parts = reply.message.parts
    assert reply.finish is Finish.CONTENT_FILTER or said == reply.message.text
    assert thought == "".join(part.text for part in parts if isinstance(part, Reasoning))


def test_an_answer_is_put_together_where_its_end_does_not_tell_it() -> None:
    """From whole items, and from pieces of those that were not told whole."""
    items = [message("One."), call('{"a": 1}'), message(refusal(""), item_id="msg_2")]
    events = [told(index, item) for index, item in enumerate(items)]
    unfinished = [
        text.replace("response.output_item.done", "response.output_item.none") for text in events
    ]
    for told_items in (events, unfinished):
        end = event("response.completed", response=response())
        reply = read(Stream("".join([BEGUN, *told_items, end]).encode()))[1]
        assert reply.message.text == "One."
        assert [each.arguments for each in reply.message.tool_calls] == [{"a": 1}]
    refused = told(0, message(refusal("No."))).replace("item.done", "item.none")
    end = event("response.completed", response=response())
    reply = read(Stream((BEGUN + refused + end).encode()))[1]
    assert (reply.message.text, reply.finish) == ("No.", Finish.CONTENT_FILTER)


def test_words_of_an_item_that_was_never_told_are_kept() -> None:
    """So are arguments that came with the beginning of a call."""
    words = [event("response.output_text.delta", output_index=0, delta=w) for w in ("a", "b")]
    begun = event("response.output_item.added", output_index=1, item=call('{"a"', "f"))
    more = event("response.function_call_arguments.delta", output_index=1, delta=": 1}")
    end = event("response.completed", response=response())
    content = "".join([*words, begun, more, end]).encode()
    reply = read(Stream(content))[1]
    assert reply.message.text == "ab"
    assert [each.arguments for each in reply.message.tool_calls] == [{"a": 1}]
    chunks, reply = read(Stream(content, "f"))
    assert joined(chunks) == [TextDelta('ab{"a": 1}')]
    assert reply.message.text == 'ab{"a": 1}'


def test_raw_thoughts_are_kept_where_only_their_beginning_comes() -> None:
    """Some servers send a thought whole when it begins, and no end of it."""
    raw = [{"type": "reasoning_text", "text": "Let me see."}]
    begun = event("response.output_item.added", output_index=0, item=thoughts(content=raw))
    end = event("response.completed", response=response())
    (thought,) = read(Stream((begun + end).encode()))[1].message.parts
    assert isinstance(thought, Reasoning)
    assert thought.opaque
    assert thought.opaque.value["provider_details"] == {"raw_content": ["Let me see."]}


def test_thoughts_are_sealed_by_the_event_that_ends_them() -> None:
    """What the last event repeats may be half of it."""
    item = thoughts("Hm.")
    end = event("response.completed", response=response({**item, "encrypted_content": "half"}))
    (thought,) = read(Stream((told(0, item) + end).encode()))[1].message.parts
    assert isinstance(thought, Reasoning)
    assert thought.opaque
    assert thought.opaque.value["signature"] == "c2VhbGVk"


def test_a_stream_without_its_end_is_not_ended() -> None:
    """Though all words were there."""
    for name, stream in STREAMS.items():
        reader = RESPONSES.reader(stream.tool)
        for end in ("completed", "incomplete"):
            cut = stream.content.replace(f'"response.{end}"'.encode(), b'"response.none"')
            if cut != stream.content:
                reader.feed(cut)
        assert not reader.ended, name


def test_nothing_is_heard_after_the_end() -> None:
    """Neither words nor an error, nor the end of the other format."""
    late = event("response.output_text.delta", delta="!") + "data: {\n\ndata: [DONE]\n\n"
    stream = Stream(STREAMS["text"].content + late.encode())
    assert read(stream) == read(STREAMS["text"])


SLOW = {"code": "rate_limit_exceeded", "message": "slow down", "param": None}
ERRORS = [
    event("error", **SLOW),
    event("error", error={**SLOW, "type": "requests"}),
    f"data: {json.dumps({'error': SLOW})}\n\n",
    event("response.failed", response=response(status="failed", error=SLOW)),
]


@pytest.mark.parametrize("failing", ERRORS)
def test_an_error_in_a_stream_ends_it(failing: str) -> None:
    """What was said before it is heard, what comes after it is not."""
    said = event("response.output_text.delta", output_index=0, item_id="m", delta="one ")
    end = event("response.completed", response=response())
    reader = RESPONSES.reader(None)
    assert reader.feed((BEGUN + said + failing + said + end).encode()) == [TextDelta("one ")]
    assert not reader.ended
    assert reader.failure
    assert (reader.failure.kind, reader.failure.message) == (ErrorClass.RATE_LIMIT, "slow down")


def test_a_failure_without_a_reason_is_one_of_the_server() -> None:
    """It is no answer."""
    reader = RESPONSES.reader(None)
    reader.feed(event("response.failed", response=response(status="failed")).encode())
    assert reader.failure
    assert reader.failure.kind is ErrorClass.SERVER


def _told(content: bytes) -> dict[str, Any] | None:
    """The usage that the last event tells a lenient reader."""
    for text in content.replace(b"\r", b"\n").split(b"\n"):
        try:
            said = json.loads(text.removeprefix(b"data: "))
        except ValueError:
            continue
        if isinstance(said, dict) and said.get("type") in {
            "response.completed",
            "response.incomplete",
        }:
            return said["response"].get("usage")
    return None


def test_spoiled_streams_are_refused_or_read() -> None:
    """Nothing else is raised, and no usage is below what the bytes say."""
    draw = random.Random(2)
    replies = 0
    for n in range(5_000):
        stream = list(STREAMS.values())[n % len(STREAMS)]
        content = spoiled(stream.content, draw)
        reader = RESPONSES.reader(stream.tool)
        try:
            reader.feed(content)
            if not reader.ended:
                continue
            reply = reader.reply()
        except (*UNREADABLE, WorldError):
            continue
        replies += 1
        if reply.usage:
            said = _told(content) or {"input_tokens": 0, "output_tokens": 0}
            assert reply.usage.input_tokens >= said["input_tokens"]
            assert reply.usage.output_tokens >= said["output_tokens"]
    assert replies > 300


def test_spoiled_answers_are_refused_or_read() -> None:
    """Nothing else is raised."""
    draw = random.Random(3)
    for n in range(3_000):
        content = spoiled(list(ANSWERS.values())[n % len(ANSWERS)], draw)
        try:
            RESPONSES.decode(content, draw.choice([None, "weather"]))
        except (*UNREADABLE, WorldError):
            continue


def test_endless_nesting_is_refused() -> None:
    """Not by a crash."""
    nested = b'{"output": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    with pytest.raises(UNREADABLE):
        RESPONSES.decode(nested, None)
    with pytest.raises(UNREADABLE):
        RESPONSES.reader(None).feed(b"data: " + nested + b"\n\n")


def test_usage_is_that_of_the_last_event() -> None:
    """Not of one that repeats the request."""
    begun = event("response.in_progress", response=response(usage=usage(1, 1)))
    stream = Stream(begun.encode() + STREAMS["text"].content)
    assert read(stream)[1].usage == Usage(19, 3, 16, 2)
