"""Chat Completions beside the official SDK and pydantic-ai."""

import json
import random
from itertools import pairwise
from typing import Any, cast

import pytest

from tests.wires.openai_chat_streams import DONE, STREAMS, Stream, chunk, line, usage
from tests.wires.openai_oracle import heard, joined, sdk_answer, sdk_body
from tests.wires.openai_requests import CITY, REQUESTS, ask, called, user
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
    Text,
    TextDelta,
    ToolCall,
    ToolMessage,
    ToolResult,
    ToolSpec,
    Usage,
)
from vegakit.errors import ErrorClass, WorldError
from vegakit.wires import CHAT, UNREADABLE, AskForm, ModelFeatures

BY_TOOL = ModelFeatures(json_output=False)
TOKENS = usage(19, 10, 16)


def whole(message: Any = None, finish: Any = "stop", **rest: Any) -> bytes:
    said = {"role": "assistant", "content": "Paris.", "refusal": None, **(message or {})}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1761000000}
    choice = {"index": 0, "message": said, "logprobs": None, "finish_reason": finish}
    body = {**head, "model": "gpt-4o-2024-08-06", "choices": [choice], "usage": TOKENS, **rest}
    return json.dumps(body).encode()


def _field(name: str, text: str) -> Reasoning:
    return Reasoning(text, Opaque("openai-chat", {"id": name}))


def _extra() -> ToolCall:
    kept = {"provider_details": {"extra_content": {"google": {"thought_signature": "s"}}}}
    return ToolCall("call_1", "weather", {}, Opaque("openai-chat", kept))


OWN: dict[str, ModelRequest] = {
    "thoughts in a field": ask(
        user("Hi"), AssistantMessage((_field("reasoning_content", "Hm."), Text("Yes."))), user("?")
    ),
    "thoughts in the other field": ask(
        user("Hi"), AssistantMessage((_field("reasoning", "Hm."), Text("Yes."))), user("?")
    ),
    "thoughts in pieces": ask(
        user("Hi"),
        AssistantMessage((_field("reasoning", "Hm."), _field("reasoning", "So."), Text("Yes."))),
        user("?"),
    ),
    "thoughts between tags": ask(
        user("Hi"), AssistantMessage((_field("content", "Hm."), Text("Yes."))), user("?")
    ),
    "nothing but thoughts": ask(
        user("Hi"), AssistantMessage((_field("reasoning", "Hm."),)), user("?")
    ),
    "thoughts of the other format": ask(
        user("Hi"),
        AssistantMessage((Reasoning("Hm.", Opaque("openai", {"id": "rs_1"})), Text("Yes."))),
        user("?"),
    ),
    "calls after thoughts": ask(
        user("Hi"),
        AssistantMessage((_field("reasoning_content", "Hm."), ToolCall("call_0", "weather", {}))),
        ToolMessage((ToolResult("call_0", "weather", "sun"),)),
        AssistantMessage((ToolCall("call_1", "weather", {}),)),
        ToolMessage((ToolResult("call_1", "weather", "sun"),)),
    ),
    "calls after thoughts of an earlier question": ask(
        user("Hi"),
        AssistantMessage((_field("reasoning_content", "Hm."), Text("Yes."))),
        *called({}),
        user("And?"),
    ),
    "call with a signature": ask(
        user("Hi"),
        AssistantMessage((_extra(),)),
        ToolMessage((ToolResult("call_1", "weather", "sun"),)),
    ),
    "two texts": ask(user("Hi"), AssistantMessage((Text("One."), Text("Two."))), user("?")),
    "a server's own model": ask(user("Hi"), model="llama3.2:3b", max_tokens=64),
}
ALL = {**REQUESTS, **OWN}


# Out.


@pytest.mark.parametrize("label", ALL)
def test_a_request_is_the_one_that_the_library_sends(label: str) -> None:
    """Field by field, plain for one half and streamed for the other."""
    stream = list(ALL).index(label) % 2 == 1
    form = AskForm(stream=stream)
    answer = STREAMS["text"].content if stream else whole()
    body = json.loads(CHAT.encode(ALL[label], form))
    assert body == heard(CHAT, ALL[label], form, answer).body


@pytest.mark.parametrize("label", list(ALL)[::3])
def test_a_request_is_one_that_the_bare_sdk_sends(label: str) -> None:
    """It knows every field by its name."""
    body = json.loads(CHAT.encode(ALL[label], AskForm()))
    assert body == sdk_body(CHAT, body, whole())


@pytest.mark.parametrize("label", [label for label in REQUESTS if "output" in label])
def test_an_output_by_a_tool_is_the_one_that_the_library_sends(label: str) -> None:
    """The model must call a tool, and the last one carries the answer."""
    form = AskForm(BY_TOOL)
    body = json.loads(CHAT.encode(REQUESTS[label], form))
    assert body == heard(CHAT, REQUESTS[label], form, whole()).body
    assert body["tool_choice"] == "required"
    assert "response_format" not in body


def test_other_servers_are_told_the_length_by_the_name_that_all_know() -> None:
    """A server that passes over a name it does not know would answer without end. A model of OpenAI
    that reasons refuses that name, wherever it is reached."""
    asked = REQUESTS["plain"]

    def names(form: AskForm) -> set[str]:
        body = json.loads(CHAT.encode(asked, form))
        return {"max_tokens", "max_completion_tokens"} & body.keys()

    assert names(AskForm()) == {"max_completion_tokens"}
    assert names(AskForm(elsewhere=True)) == {"max_tokens"}
    reasons = ModelFeatures(reasons=True, temperature=False)
    assert names(AskForm(reasons, elsewhere=True)) == {"max_completion_tokens"}


def test_settings_of_the_account_are_those_that_the_library_sends() -> None:
    """They are merged into the body, over what we say."""
    form = AskForm(fields={"service_tier": "default", "store": False})
    asked = REQUESTS["plain"]
    body = json.loads(CHAT.encode(asked, form))
    assert body == heard(CHAT, asked, form, whole()).body
    over = AskForm(fields={"max_completion_tokens": 7, "reasoning_effort": "low"})
    sent = json.loads(CHAT.encode(asked, over))
    assert (sent["max_completion_tokens"], sent["reasoning_effort"]) == (7, "low")


def test_a_model_without_temperature_is_asked_without() -> None:
    """As the library does for a model that reasons."""
    asked = ask(user("Hi"), model="o3", temperature=0.5)
    form = AskForm(ModelFeatures(temperature=False, reasons=True))
    body = json.loads(CHAT.encode(asked, form))
    assert body == heard(CHAT, asked, form, whole()).body
    assert "temperature" not in body


OPEN = {"type": "object", "properties": {"a": {"type": "string", "default": "x"}}}
DIFFERENCES: dict[str, tuple[ModelRequest, str, Any, Any]] = {
    "a schema that cannot be strict is not closed": (
        ask(user("Hi"), tools=(ToolSpec("f", "F.", OPEN),)),
        "tools.0.function.parameters.additionalProperties",
        None,
        False,
    ),
    "nor is that of an output": (
        ask(user("Hi"), output=OutputSpec("f", OPEN)),
        "response_format.json_schema.schema.additionalProperties",
        None,
        False,
    ),
    "a schema without a type for a field is not strict, which OpenAI refuses": (
        ask(user("Hi"), output=OutputSpec("f", {**CITY, "properties": {"name": {}, "people": {}}})),
        "response_format.json_schema.strict",
        False,
        True,
    ),
    "arguments that are a list are quoted without spaces": (
        ask(*called([1, 2])),
        "messages.1.tool_calls.0.function.arguments",
        '{"INVALID_JSON":"[1,2]"}',
        '{"INVALID_JSON":"[1, 2]"}',
    ),
}


@pytest.mark.parametrize("label", DIFFERENCES)
def test_where_a_request_differs_it_is_meant_to(label: str) -> None:
    """This is the whole list."""
    asked, path, ours, theirs = DIFFERENCES[label]
    bodies = [
        json.loads(CHAT.encode(asked, AskForm())),
        heard(CHAT, asked, AskForm(), whole()).body,
    ]
    found: list[Any] = []
    for node in bodies:
        *steps, last = path.split(".")
        for step in steps:
            node = cast("Any", node)[int(step) if step.isdigit() else step]  # noqa: PLW2901
        found.append(node.pop(last, None))
    assert found == [ours, theirs]
    assert bodies[0] == bodies[1]


# In: whole answers.

CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
BROKEN_CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{"}}
ANSWERS: dict[str, bytes] = {
    "text": whole(),
    "no text": whole({"content": None}),
    "calls": whole({"content": None, "tool_calls": [CALL, {**CALL, "id": "call_2"}]}, "tool_calls"),
    "calls that stop": whole({"tool_calls": [CALL]}, "stop"),
    "no calls that do not": whole({}, "tool_calls"),
    "arguments that are not JSON": whole({"tool_calls": [BROKEN_CALL]}, "length"),
    "signature": whole({"tool_calls": [{**CALL, "extra_content": {"google": "s"}}]}),
    "refusal": whole({"content": None, "refusal": "No."}),
    "refusal beside a call": whole({"refusal": "No.", "tool_calls": [CALL]}),
    "length": whole(finish="length"),
    "filter": whole(finish="content_filter"),
    "function": whole(finish="function_call"),
    "reasoning": whole({"reasoning": "Hm."}),
    "reasoning_content": whole({"reasoning_content": "Hm."}),
    "both": whole({"reasoning_content": "Hm.", "reasoning": "So."}),
    "tags": whole({"content": "<think>\nHm.\n</think>\n\nYes."}),
    "parts": whole({"content": [{"type": "text", "text": "Par"}, {"type": "text", "text": "is"}]}),
    "no usage": whole(usage=None),
    "zero usage": whole(usage=usage(0, 0)),
    "no details": whole(usage={"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}),
    "writes to the cache": whole(usage=usage(100, 5, 50, cache_write_tokens=40)),
    "unknown fields": whole({"audio": None, "annotations": []}, service_tier="flex", x={"y": 1}),
}


@pytest.mark.parametrize("label", ANSWERS)
def test_an_answer_is_the_one_that_the_library_reads(label: str) -> None:
    """Message, usage, finish, and what goes back."""
    expected = heard(CHAT, REQUESTS["plain"], AskForm(), ANSWERS[label]).reply
    assert CHAT.decode(ANSWERS[label], None) == expected


def test_an_answer_by_a_tool_is_text() -> None:
    """Word for word."""
    answer = whole({"content": None, "tool_calls": [CALL]}, "tool_calls")
    asked = ask(user("Hi"), output=OutputSpec("f", CITY))
    reply = CHAT.decode(answer, "f")
    assert reply == heard(CHAT, asked, AskForm(BY_TOOL), answer).reply
    assert (reply.message.text, reply.finish) == ('{"a": 1}', Finish.STOP)


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"prompt_tokens": 5},
        {"completion_tokens": 5},
        {"prompt_tokens": 5, "completion_tokens": -1},
        {"prompt_tokens": -5, "completion_tokens": 1},
        {"prompt_tokens": "five", "completion_tokens": 1},
        {"prompt_tokens": 5.5, "completion_tokens": 1},
        usage(5, 1, 6),
        usage(5, 1, -1),
        [5, 1],
        "many",
    ],
)
def test_usage_that_cannot_be_is_not_told(said: Any) -> None:
    """The answer has been paid for, so it is handed over, and charged as reserved."""
    reply = CHAT.decode(whole(usage=said), None)
    assert (reply.usage, reply.message.text) == (None, "Paris.")


@pytest.mark.parametrize("reason", [None, "", "abort", "pause", "error"])
def test_an_end_that_nobody_knows_is_no_answer(reason: Any) -> None:
    """Whole or streamed."""
    with pytest.raises(WorldError, match="broke its answer off") as caught:
        CHAT.decode(whole(finish=reason), None)
    assert caught.value.error_class is ErrorClass.CONNECTION
    streamed = chunk({"content": "half"}) + chunk(finish=reason, usage=usage()) + DONE
    reader = CHAT.reader(None)
    reader.feed(streamed.encode())
    assert reader.ended
    with pytest.raises(WorldError, match="broke its answer off"):
        reader.reply()


def test_arguments_that_are_an_object_are_taken() -> None:
    """Some servers do not quote them; some leave the ids out."""
    call = {"function": {"name": "f", "arguments": {"a": 1}}}
    reply = CHAT.decode(whole({"tool_calls": [call, call]}), None)
    assert [(c.id, c.arguments) for c in reply.message.tool_calls] == [
        ("call_0", {"a": 1}),
        ("call_1", {"a": 1}),
    ]


@pytest.mark.parametrize("body", [b'{"choices": []}', b"{}", b'{"choices": [{"index": 0}]}'])
def test_an_answer_without_a_choice_is_a_failure(body: bytes) -> None:
    """Of the server."""
    with pytest.raises(WorldError) as caught:
        CHAT.decode(body, None)
    assert caught.value.error_class is ErrorClass.SERVER


def test_an_error_with_a_status_of_success_is_one() -> None:
    """A gateway learns too late that the model behind it failed."""
    with pytest.raises(WorldError, match="slow down") as caught:
        CHAT.decode(b'{"error": {"message": "slow down", "code": 429}}', None)
    assert caught.value.error_class is ErrorClass.RATE_LIMIT


# In: streams.


def read(stream: Stream, cuts: list[int] | None = None) -> tuple[list[ModelChunk], ModelReply]:
    reader = CHAT.reader(stream.tool)
    chunks: list[ModelChunk] = []
    places = [0, *(cuts or ()), len(stream.content)]
    for start, end in pairwise(places):
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


@pytest.mark.parametrize("name", ["tags in pieces", "parallel calls"])
def test_a_stream_may_come_byte_by_byte(name: str) -> None:
    """Every cut of it at once."""
    stream = STREAMS[name]
    assert read(stream, list(range(1, len(stream.content)))) == read(stream)


@pytest.mark.parametrize("name", [name for name in STREAMS if STREAMS[name].by_sdk])
def test_a_stream_is_the_answer_that_the_sdk_puts_together(name: str) -> None:
    """Which is read as a whole answer."""
    stream = STREAMS[name]
    together = sdk_answer(CHAT, stream.content, stream=True)
    assert CHAT.decode(json.dumps(together).encode(), stream.tool) == read(stream)[1]


@pytest.mark.parametrize("name", [name for name in STREAMS if STREAMS[name].by_library])
def test_a_stream_is_the_one_that_the_library_reads(name: str) -> None:
    """The reply, and the chunks as they come."""
    stream = STREAMS[name]
    output = OutputSpec(stream.tool, CITY) if stream.tool else None
    asked = ask(user("Hi"), output=output)
    _, chunks, reply = heard(CHAT, asked, AskForm(BY_TOOL, stream=True), stream.content)
    ours, our_reply = read(stream)
    assert joined(ours) == joined(chunks)
    assert our_reply == reply


@pytest.mark.parametrize("name", STREAMS)
def test_chunks_are_the_reply(name: str) -> None:
    """Joined they are its text."""
    chunks, reply = read(STREAMS[name])
    said = "".join(part.text for part in chunks if isinstance(part, TextDelta))
    assert reply.finish is Finish.CONTENT_FILTER or said == reply.message.text


def test_calls_of_the_same_index_are_told_apart_by_their_ids() -> None:
    """What belongs to one goes back with it."""
    reply = read(STREAMS["calls of the same index"])[1]
    first, second = reply.message.tool_calls
    assert (first.id, first.arguments) == ("call_a", {"a": 1})
    assert (second.id, second.arguments) == ("call_b", {"a": 2})
    assert first.opaque
    assert second.opaque is None


def test_tags_may_be_cut() -> None:
    """And only a whole tag is one."""
    reply = read(STREAMS["tags in pieces"])[1]
    thought, answer = reply.message.parts
    assert isinstance(thought, Reasoning)
    assert (thought.text, answer) == ("so </this", Text("No"))


@pytest.mark.parametrize("text", [" <thi", "a <think>b</think>", "<thinking>", "<", ""])
def test_what_is_no_tag_is_text(text: str) -> None:
    """Also at the very end."""
    content = "".join([*(chunk({"content": c}) for c in text), chunk(finish="stop"), DONE])
    assert read(Stream(content.encode()))[1].message.text == text


def test_an_answer_that_begins_with_much_space_is_not_held_back_for_ever() -> None:
    """A tag comes soon or not at all."""
    reader = CHAT.reader(None)
    event = chunk({"content": " " * 100}).encode()
    assert [len(reader.feed(event)) for _ in range(12)] == [0] * 10 + [1, 1]


def test_usage_is_the_most_that_was_told() -> None:
    """And unknown if one time it could not be read."""
    assert read(STREAMS["usage in every chunk"])[1].usage == Usage(19, 2)
    told = [usage(19, 50), usage(19, 2), {"prompt_tokens": "?"}]
    for count, expected in ((2, Usage(19, 50)), (3, None)):
        events = [chunk({"content": "a"}, usage=each) for each in told[:count]]
        content = "".join([*events, chunk(finish="stop", usage=usage(19, 3)), DONE])
        assert read(Stream(content.encode()))[1].usage == expected


def test_usage_that_was_told_before_the_end_is_not_all_of_it() -> None:
    """Then nobody knows, and the call is charged as reserved."""
    early = chunk({"content": "a"}, usage=usage(19, 1))
    content = "".join([early, chunk({"content": "b"}), chunk(finish="stop"), DONE])
    assert read(Stream(content.encode()))[1].usage is None


def test_what_only_the_total_counts_is_output() -> None:
    """Some servers count what a model thought nowhere else."""
    told = {"prompt_tokens": 37, "completion_tokens": 530, "total_tokens": 40_567}
    content = "".join([chunk({"content": "a"}), chunk(finish="stop", usage=told), DONE])
    assert read(Stream(content.encode()))[1].usage == Usage(37, 40_530)


def test_a_stream_without_its_end_is_not_ended() -> None:
    """Though all words were there."""
    for name, stream in STREAMS.items():
        reader = CHAT.reader(stream.tool)
        reader.feed(stream.content.replace(b"data: [DONE]", b": [DONE]"))
        assert not reader.ended, name


def test_nothing_is_heard_after_the_end() -> None:
    """Neither words nor an error."""
    late = Stream(STREAMS["text"].content + chunk({"content": "!"}).encode() + b"data: {\n\n")
    assert read(late) == read(STREAMS["text"])


ERRORS = [
    line({"error": {"message": "slow down", "type": "requests", "code": "rate_limit_exceeded"}}),
    line({"error": {"message": "slow down", "code": 429}}),
    'event: error\ndata: {"message": "slow down", "code": 429}\n\n',
]


@pytest.mark.parametrize("event", ERRORS)
def test_an_error_in_a_stream_ends_it(event: str) -> None:
    """What was said before it is heard, what comes after it is not."""
    reader = CHAT.reader(None)
    content = chunk({"content": "one "}) + event + chunk({"content": "two"}) + DONE
    assert reader.feed(content.encode()) == [TextDelta("one ")]
    assert not reader.ended
    assert reader.failure
    assert (reader.failure.kind, reader.failure.message) == (ErrorClass.RATE_LIMIT, "slow down")


def test_unknown_events_are_skipped() -> None:
    """Also those without data."""
    content = "event: ping\ndata:\n\n" + line({"object": "moderation", "x": [1]})
    stream = Stream(content.encode() + STREAMS["text"].content)
    assert read(stream) == read(STREAMS["text"])


def _told(content: bytes) -> list[dict[str, Any]]:
    """Every usage that a lenient reader finds before the end."""
    found: list[dict[str, Any]] = []
    for text in content.replace(b"\r", b"\n").split(b"\n"):
        if text.startswith(b"data: [DONE]"):
            break
        try:
            said = json.loads(text.removeprefix(b"data: "))
        except ValueError:
            continue
        if isinstance(said, dict) and isinstance(said.get("usage"), dict):
            found.append(said["usage"])
    return found


def test_spoiled_streams_are_refused_or_read() -> None:
    """Nothing else is raised, and no usage is below what the bytes say."""
    draw = random.Random(2)
    replies = 0
    for n in range(5_000):
        stream = list(STREAMS.values())[n % len(STREAMS)]
        content = spoiled(stream.content, draw)
        reader = CHAT.reader(stream.tool)
        try:
            reader.feed(content)
            if not reader.ended:
                continue
            reply = reader.reply()
        except (*UNREADABLE, WorldError):
            continue
        replies += 1
        if reply.usage:
            for told in _told(content):
                assert reply.usage.input_tokens >= told["prompt_tokens"]
                assert reply.usage.output_tokens >= told["completion_tokens"]
    assert replies > 500


def test_spoiled_answers_are_refused_or_read() -> None:
    """So are errors."""
    draw = random.Random(3)
    for n in range(4_000):
        content = spoiled(list(ANSWERS.values())[n % len(ANSWERS)], draw)
        CHAT.failure(draw.choice([400, 429, 500]), content)
        try:
            CHAT.decode(content, draw.choice([None, "f"]))
        except (*UNREADABLE, WorldError):
            continue


@pytest.mark.parametrize("depth", [10, 100_000])
def test_endless_nesting_is_refused(depth: int) -> None:
    """Not by a crash."""
    nested = b'{"choices": ' + b"[" * depth + b"]" * depth + b"}"
    with pytest.raises(UNREADABLE):
        CHAT.decode(nested, None)
    with pytest.raises(UNREADABLE):
        CHAT.reader(None).feed(b"data: " + nested + b"\n\n")
