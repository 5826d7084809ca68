"""Ollama's chat: bodies beside those of its own library, streams cut anywhere, and the library as a
client of our server's end."""

import json
from collections.abc import Iterator
from typing import Any

import ollama
import pytest

from tests.wires.loopback import Loopback
from tests.wires.varied import (
    CITY,
    SERVED,
    WEATHER,
    Broken,
    ServedAsk,
    ask,
    called,
    check_chunks,
    check_cuts,
    check_damaged,
    ends_early,
    read,
    requests,
    served,
    user,
)
from vegakit.conversation import (
    AssistantMessage,
    Finish,
    Media,
    Message,
    ModelReply,
    ModelRequest,
    Opaque,
    Reasoning,
    Text,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from vegakit.errors import ErrorClass, UserError, WorldError
from vegakit.records import to_json
from vegakit.wires import OLLAMA, OLLAMA_SERVER, AskForm, ModelFeatures

BY_TOOL = AskForm(ModelFeatures(json_output=False))
THOUGHT = Opaque("ollama", {"field": "thinking"})


@pytest.fixture(scope="module")
def loopback() -> Iterator[Loopback]:
    with Loopback(OLLAMA_SERVER, lambda _, body: json.loads(body)["stream"]) as server:
        server.reply = SERVED["text"]
        yield server


@pytest.fixture(scope="module")
def sdk(loopback: Loopback) -> Iterator[ollama.Client]:
    with ollama.Client(host=loopback.url) as client:
        yield client


@pytest.fixture(autouse=True)
def _whole(loopback: Loopback) -> None:
    loopback.whole = loopback.failure = loopback.breaks = None


# What is sent.


def said(messages: tuple[Message, ...]) -> list[ollama.Message]:
    """Messages in the types of the library, written down anew."""
    found: list[ollama.Message] = []
    for message in messages:
        match message:
            case UserMessage():
                texts = [part.text for part in message.parts if isinstance(part, Text)]
                images = [
                    ollama.Image(value=part.data)
                    for part in message.parts
                    if isinstance(part, Media)
                ]
                text = "\n".join(texts)
                found.append(ollama.Message(role="user", content=text, images=images or None))
            case ToolMessage():
                for result in message.results:
                    failed = json.dumps({"error": result.content}, separators=(",", ":"))
                    content = failed if result.is_error else result.content
                    found.append(
                        ollama.Message(role="tool", content=content, tool_name=result.name)
                    )
            case AssistantMessage():
                found.append(answered(message))
    return found


def answered(message: AssistantMessage) -> ollama.Message:
    calls = [
        ollama.Message.ToolCall(
            function=ollama.Message.ToolCall.Function(name=call.name, arguments=call.arguments)
        )
        for call in message.tool_calls
    ]
    thoughts = [
        part.text
        for part in message.parts
        if isinstance(part, Reasoning) and part.opaque and part.opaque.provider == "ollama"
    ]
    return ollama.Message(
        role="assistant",
        content=message.text,
        thinking="".join(thoughts) or None,
        tool_calls=calls or None,
    )


def arguments(request: ModelRequest) -> dict[str, Any]:
    options: dict[str, Any] = {"num_predict": request.settings.max_tokens}
    if request.settings.temperature is not None:
        options["temperature"] = request.settings.temperature
    system = [ollama.Message(role="system", content=request.system)] if request.system else []
    tools = [
        {
            "type": "function",
            "function": {
                "name": spec.name,
                "parameters": spec.parameters,
                **({"description": spec.description} if spec.description else {}),
            },
        }
        for spec in request.tools
    ]
    return {
        "model": request.model,
        "messages": [*system, *said(request.messages)],
        "options": options,
        "tools": tools or None,
        "format": request.output.json_schema if request.output else None,
    }


def further_requests() -> dict[str, ModelRequest]:
    thought = AssistantMessage((Reasoning("Hm.", THOUGHT), Text("Yes.")))
    calling = AssistantMessage((Reasoning("Hm.", THOUGHT), ToolCall("call_1", "weather", {})))
    return {
        "thought": ask(user("Hi"), thought, user("?")),
        "thought before a call": ask(user("Hi"), calling, called()[2], tools=(WEATHER,)),
        "two user turns": ask(user("One."), user("Two.", "Three.")),
        "results, then user": ask(*called(), user("Well?"), tools=(WEATHER,)),
        "output and tool": ask(user("Name a city."), output=CITY, tools=(WEATHER,)),
    }


REQUESTS = {**requests(), **further_requests()}


def without_ids(body: dict[str, Any]) -> dict[str, Any]:
    """The server knows ids of calls, its library does not yet; nor does it send a list of no
    tools otherwise than empty."""
    for message in body["messages"]:
        message.pop("tool_call_id", None)
        for call in message.get("tool_calls", ()):
            call.pop("id", None)
    return {"tools": [], **body}


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("stream", [False, True])
def test_bodies_are_those_of_the_library(
    name: str, stream: bool, sdk: ollama.Client, loopback: Loopback
) -> None:
    request = REQUESTS[name]
    if stream:
        list(sdk.chat(**arguments(request), stream=True))
    else:
        sdk.chat(**arguments(request))
    ours = json.loads(OLLAMA.encode(request, AskForm(stream=stream)))
    assert without_ids(ours) == json.loads(loopback.bodies[-1])
    assert loopback.paths[-1] == OLLAMA.target(request.model, stream)


def test_ids_of_calls_are_sent() -> None:
    body = json.loads(OLLAMA.encode(REQUESTS["tool results"], AskForm()))
    assert [call["id"] for call in body["messages"][1]["tool_calls"]] == ["call_1", "call_2"]
    assert [message["tool_call_id"] for message in body["messages"][2:]] == ["call_1", "call_2"]


def test_output_by_tool() -> None:
    body = json.loads(OLLAMA.encode(REQUESTS["output and tool"], BY_TOOL))
    assert "format" not in body
    assert body["tools"][1]["function"] == {
        "name": "city",
        "description": "Call this with your final answer.",
        "parameters": CITY.json_schema,
    }


def test_fields_are_joined_and_leave_the_limit_on_tokens() -> None:
    fields = {"options": {"num_ctx": 8_192}, "think": False, "truncate": False}
    body = json.loads(OLLAMA.encode(REQUESTS["plain"], AskForm(fields=fields)))
    assert body["options"] == {"num_predict": 256, "num_ctx": 8_192}
    assert (body["think"], body["truncate"]) == (False, False)


def test_no_temperature_for_a_model_that_takes_none() -> None:
    form = AskForm(ModelFeatures(temperature=False))
    assert b"temperature" not in OLLAMA.encode(REQUESTS["temperature 0.7"], form)


def test_an_image_by_its_address_is_refused() -> None:
    with pytest.raises(UserError, match="send its data"):
        OLLAMA.encode(ask(user(Media("image/png", url="https://example.com/a.png"))), AskForm())


# What is received. The streams are written after the server's sources.


def lines(*events: dict[str, Any]) -> bytes:
    return b"".join(
        to_json({"model": "llama", "created_at": "2026-11-16T06:00:00Z", "done": False, **event})
        + b"\n"
        for event in events
    )


def piece(content: str = "", **more: Any) -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": content, **more}}


def end(reason: str = "stop", **more: Any) -> dict[str, Any]:
    counts = {"prompt_eval_count": 10, "eval_count": 5, "total_duration": 1}
    return {**piece(), "done": True, "done_reason": reason, **counts, **more}


def call(name: str, given: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"function": {"index": 0, "name": name, "arguments": given}, **more}


STREAMS = {
    "text": lines(piece("Grüße, "), piece("世界 🌍"), piece("."), end()),
    "thoughts": lines(
        piece(thinking="Let me "), piece(thinking="think."), piece("4"), piece("2"), end()
    ),
    "calls": lines(
        piece("Look."),
        piece(tool_calls=[call("weather", {"city": "Paris"})]),
        piece(tool_calls=[call("clock", {}, id="call_7"), call("clock", {})]),
        end(),
    ),
    "thoughts and a call": lines(
        piece(thinking="Hm."), piece(tool_calls=[call("weather", {"city": "Rome"})]), end()
    ),
    "cut at the limit": lines(piece("Once upon a"), end("length")),
    "no usage": lines(piece("Cached."), end(prompt_eval_count=None)),
    "nothing said": lines(end()),
    "blank lines": b"\n" + lines(piece("Hi.")) + b"\r\n\n" + lines(end()),
}


def streamed(name: str) -> ModelReply:
    return read(OLLAMA.reader(None), [STREAMS[name]])[0]


def test_cuts_change_nothing() -> None:
    check_cuts(OLLAMA, STREAMS, 300)


def test_no_beginning_of_a_stream_is_whole() -> None:
    for name, data in STREAMS.items():
        assert not list(ends_early(OLLAMA, data)), name


def test_streams_are_read_as_they_are_meant() -> None:
    assert streamed("text").message == AssistantMessage((Text("Grüße, 世界 🌍."),), "llama")
    assert streamed("text").usage == Usage(10, 5)
    assert streamed("thoughts").message.parts == (Reasoning("Let me think.", THOUGHT), Text("42"))
    calls = streamed("calls")
    assert calls.finish is Finish.TOOL_CALLS
    assert [(one.name, one.arguments) for one in calls.message.tool_calls] == [
        ("weather", {"city": "Paris"}),
        ("clock", {}),
        ("clock", {}),
    ]
    assert streamed("cut at the limit").finish is Finish.LENGTH
    assert streamed("no usage").usage is None
    assert streamed("nothing said").message.parts == ()


def test_ids_are_made_where_there_are_none_and_stay_here() -> None:
    message = streamed("calls").message
    ids = [one.id for one in message.tool_calls]
    assert ids[1] == "call_7"
    assert len(set(ids)) == 3
    later = STREAMS["calls"].replace(b"06:00", b"07:00")
    assert read(OLLAMA.reader(None), [later])[0].message.tool_calls[0].id != ids[0]
    sent = OLLAMA.encode(ask(user("Hi"), message), AskForm())
    assert ids[0].encode() not in sent
    assert b"call_7" in sent


@pytest.mark.parametrize("name", [name for name in STREAMS if name != "blank lines"])
def test_the_library_reads_the_same(name: str, sdk: ollama.Client, loopback: Loopback) -> None:
    loopback.whole = STREAMS[name]
    theirs = list(sdk.chat(**arguments(REQUESTS["plain"]), stream=True))
    ours = streamed(name)
    assert "".join(one.message.content or "" for one in theirs) == ours.message.text
    thoughts = [part.text for part in ours.message.parts if isinstance(part, Reasoning)]
    assert "".join(one.message.thinking or "" for one in theirs) == "".join(thoughts)
    calls = [found for one in theirs for found in one.message.tool_calls or ()]
    assert [(found.function.name, found.function.arguments) for found in calls] == [
        (found.name, found.arguments) for found in ours.message.tool_calls
    ]
    if ours.usage:
        assert theirs[-1].prompt_eval_count == ours.usage.input_tokens
        assert theirs[-1].eval_count == ours.usage.output_tokens


@pytest.mark.parametrize("reason", ["load", "unload", "new", None, ""])
def test_an_unknown_end_is_no_whole_answer(reason: str | None) -> None:
    reader = OLLAMA.reader(None)
    reader.feed(lines(piece("Hello"), {**end(), "done_reason": reason}))
    with pytest.raises(WorldError, match=reason or "no reason"):
        reader.reply()


def test_an_answer_that_is_not_done_is_none() -> None:
    for body in (lines(piece("Hello")), b"{}", b'{"done_reason": "stop"}'):
        with pytest.raises(WorldError):
            OLLAMA.decode(body, None)


def test_output_by_tool_comes_as_text() -> None:
    stream = lines(piece(tool_calls=[call("city", {"name": "Paris", "people": 2})]), end())
    reply, chunks = read(OLLAMA.reader("city"), [stream])
    check_chunks(reply, chunks)
    assert json.loads(reply.message.text) == {"name": "Paris", "people": 2}
    assert (reply.finish, reply.message.tool_calls) == (Finish.STOP, ())


def test_an_endless_line_is_refused() -> None:
    reader = OLLAMA.reader(None)
    reader.feed(b"x" * (1 << 24))
    with pytest.raises(ValueError, match="longer"):
        reader.feed(b"x")


def test_damaged_bytes_raise_nothing_else() -> None:
    wholes = [to_json(OLLAMA_SERVER.whole(reply, ServedAsk())) for reply in SERVED.values()]
    assert check_damaged(OLLAMA, wholes, list(STREAMS.values()), 2_500) > 500


# What goes wrong.


FAILURES = [
    (400, b'{"error":"the input length exceeds the context length"}', ErrorClass.CONTEXT_LENGTH),
    (400, b'{"error":"json: cannot unmarshal"}', ErrorClass.REJECTED),
    (401, b'{"error":"unauthorized","signin_url":"https://ollama.com"}', ErrorClass.AUTH),
    (402, b'{"error":"upgrade"}', ErrorClass.QUOTA),
    (404, b'{"error":"model \'x\' not found"}', ErrorClass.REJECTED),
    (429, b'{"error":"too many requests"}', ErrorClass.RATE_LIMIT),
    (500, b'{"error":"llama runner process has terminated"}', ErrorClass.SERVER),
    (500, b'{"error":{"message":"exceeds the available context size"}}', ErrorClass.CONTEXT_LENGTH),
    (503, b'{"error":"server busy, please try again."}', ErrorClass.OVERLOADED),
    (503, b'{"error":"later"}', ErrorClass.UNAVAILABLE),
    (502, b"<html>Bad gateway</html>", ErrorClass.SERVER),
    (404, b"404 page not found", ErrorClass.REJECTED),
    (500, b"", ErrorClass.SERVER),
]


@pytest.mark.parametrize(("status", "body", "kind"), FAILURES)
def test_failures_by_class(status: int, body: bytes, kind: ErrorClass) -> None:
    assert OLLAMA.failure(status, body).kind is kind


def test_an_error_inside_a_stream() -> None:
    reader = OLLAMA.reader(None)
    reader.feed(lines(piece("Hello")) + b'{"error":"it broke"}\n')
    assert not reader.ended
    assert reader.failure is not None
    assert (reader.failure.kind, reader.failure.message) == (ErrorClass.SERVER, "it broke")


# The server's end.


@pytest.mark.parametrize("name", SERVED)
def test_our_client_reads_our_server(name: str) -> None:
    """The format has no word for a refusal, nor for what was cached."""
    reply = SERVED[name]
    whole = OLLAMA.decode(to_json(OLLAMA_SERVER.whole(reply, ServedAsk())), None)
    stream = OLLAMA_SERVER.stream(reply, ServedAsk())
    pieces = [stream.opening, *stream.pieces, stream.closing]
    assert read(OLLAMA.reader(None), pieces)[0] == whole
    assert whole.message.text == (reply.text or reply.refusal)
    billed = reply.usage and Usage(reply.usage.input_tokens, reply.usage.output_tokens)
    assert whole.usage == billed
    assert whole.finish is (Finish.STOP if reply.refusal else reply.finish)
    assert whole.message.model == "some-model"
    assert [one.name for one in whole.message.tool_calls] == [one.name for one in reply.calls]


@pytest.mark.parametrize("cause", [400, 401, 403, 404, 429, 500, 503, 504, 529, "quota"])
def test_our_client_reads_our_failures(cause: int | str) -> None:
    made = OLLAMA_SERVER.error_of(Broken(cause, "why"))
    ours = OLLAMA.failure(made.status, to_json(made.body))
    assert ours.message.endswith("why")
    expected = {429: ErrorClass.RATE_LIMIT, "quota": ErrorClass.QUOTA, 529: ErrorClass.OVERLOADED}
    assert ours.kind is expected.get(cause, ours.kind)
    reader = OLLAMA.reader(None)
    reader.feed(OLLAMA_SERVER.broken(Broken(cause, "why"), ServedAsk()))
    assert reader.failure is not None
    assert reader.failure.message == ours.message


def test_our_server_says_that_a_request_is_too_long() -> None:
    made = OLLAMA_SERVER.error_of(Broken("context_length"))
    assert OLLAMA.failure(made.status, to_json(made.body)).kind is ErrorClass.CONTEXT_LENGTH


@pytest.mark.parametrize("name", SERVED)
def test_the_library_asks_our_server(name: str, sdk: ollama.Client, loopback: Loopback) -> None:
    loopback.reply = reply = SERVED[name]
    asked = arguments(REQUESTS["plain"])
    whole = sdk.chat(**asked)
    events = list(sdk.chat(**asked, stream=True))
    assert whole.message.content == (reply.text or reply.refusal)
    assert "".join(event.message.content or "" for event in events) == whole.message.content
    assert events[-1].done_reason == whole.done_reason
    assert events[-1].eval_count == whole.eval_count
    assert whole.eval_count == (reply.usage.output_tokens if reply.usage else None)
    calls = [found for event in events for found in event.message.tool_calls or ()]
    assert calls == list(whole.message.tool_calls or ())
    assert [(found.function.name, found.function.arguments) for found in calls] == [
        (found.name, json.loads(found.arguments)) for found in reply.calls
    ]


def test_the_library_raises_our_failures(sdk: ollama.Client, loopback: Loopback) -> None:
    asked = arguments(REQUESTS["plain"])
    loopback.failure = Broken(404, "no such model")
    with pytest.raises(ollama.ResponseError, match="no such model") as caught:
        sdk.chat(**asked)
    assert caught.value.status_code == 404
    loopback.failure = None
    loopback.reply, loopback.breaks = served("Hello there."), Broken(500, "it broke")
    with pytest.raises(ollama.ResponseError, match="it broke"):
        list(sdk.chat(**asked, stream=True))
