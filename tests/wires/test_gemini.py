"""Gemini: bodies beside those of Google's SDK, streams cut anywhere, and the SDK as a client of our
server's end."""

import json
import warnings
from base64 import b64decode
from collections.abc import Iterator
from typing import Any

import pytest

from tests.wires.loopback import Loopback
from tests.wires.varied import (
    CITY,
    PNG,
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
from vegakit.errors import ErrorClass, WorldError
from vegakit.records import to_json
from vegakit.wires import GEMINI, GEMINI_SERVER, VERTEX, AskForm, ModelFeatures
from vegakit.wires.gemini import NO_SIGNATURE

with warnings.catch_warnings():
    # Its sources have escapes in texts at which the compiler warns when they are compiled first.
    warnings.simplefilter("ignore")
    from google.genai import Client, errors, types

BY_TOOL = AskForm(ModelFeatures(json_output=False))


@pytest.fixture(scope="module")
def loopback() -> Iterator[Loopback]:
    with Loopback(GEMINI_SERVER, lambda path, _: "alt=sse" in path) as server:
        server.reply = SERVED["text"]
        yield server


@pytest.fixture(scope="module")
def sdk(loopback: Loopback) -> Iterator[Client]:
    options = types.HttpOptions(base_url=loopback.url, api_version="v1beta")
    with Client(api_key="k", http_options=options) as client:
        yield client


@pytest.fixture(autouse=True)
def _whole(loopback: Loopback) -> None:
    loopback.whole = loopback.failure = loopback.breaks = None


# What is sent.


def contents(messages: tuple[Message, ...]) -> list[types.Content]:
    """Messages in the types of the SDK, written down anew."""
    found: list[types.Content] = []
    for message in messages:
        match message:
            case UserMessage():
                parts = [
                    types.Part(text=part.text)
                    if isinstance(part, Text)
                    else types.Part.from_uri(file_uri=part.url, mime_type=part.media_type)
                    if part.url
                    else types.Part.from_bytes(data=part.data, mime_type=part.media_type)
                    for part in message.parts
                ]
                found.append(types.Content(role="user", parts=parts))
            case ToolMessage():
                parts = [
                    types.Part(
                        function_response=types.FunctionResponse(
                            id=result.id,
                            name=result.name,
                            response={"error" if result.is_error else "output": result.content},
                        )
                    )
                    for result in message.results
                ]
                found.append(types.Content(role="user", parts=parts))
            case AssistantMessage():
                found.append(types.Content(role="model", parts=model_parts(message)))
    return found


def model_parts(message: AssistantMessage) -> list[types.Part]:
    parts: list[types.Part] = []
    unsigned = True
    for part in message.parts:
        if isinstance(part, Text):
            parts.append(types.Part(text=part.text))
        elif isinstance(part, ToolCall):
            call = types.FunctionCall(id=part.id, name=part.name, args=part.arguments)
            kept = part.opaque.value["thoughtSignature"] if part.opaque else None
            signature = b64decode(kept) if kept else b"skip_thought_signature_validator"
            signed = signature if unsigned or kept else None
            parts.append(types.Part(function_call=call, thought_signature=signed))
            unsigned = False
        elif part.opaque and part.opaque.provider == "google":
            signature = b64decode(part.opaque.value["thoughtSignature"])
            parts.append(types.Part(text=part.text, thought=True, thought_signature=signature))
    return parts


def config(request: ModelRequest) -> types.GenerateContentConfig:
    tools = [
        types.FunctionDeclaration(
            name=spec.name,
            description=spec.description or None,
            parameters_json_schema=spec.parameters,
        )
        for spec in request.tools
    ]
    shape: dict[str, Any] = {}
    if request.output:
        shape["response_mime_type"] = "application/json"
        shape["response_json_schema"] = request.output.json_schema
    return types.GenerateContentConfig(
        system_instruction=request.system or None,
        temperature=request.settings.temperature,
        max_output_tokens=request.settings.max_tokens,
        tools=[types.Tool(function_declarations=tools)] if tools else None,
        **shape,
    )


def signed_requests() -> dict[str, ModelRequest]:
    signature = Opaque("google", {"thoughtSignature": "c2ln"})
    thought = Reasoning("Hm.", Opaque("google", {"thought": True, "thoughtSignature": "c2lnMg=="}))
    conversation = called()
    signed = AssistantMessage(
        (
            ToolCall("call_1", "weather", {"city": "Paris"}, signature),
            ToolCall("call_2", "weather", {"city": "Rome"}),
        )
    )
    return {
        "signed call": ask(conversation[0], signed, conversation[2], tools=(WEATHER,)),
        "signed thought": ask(user("Hi"), AssistantMessage((thought, Text("Yes."))), user("?")),
        "two user turns": ask(user("One."), user("Two.", "Three.")),
        "results, then user": ask(*called(), user("Well?"), tools=(WEATHER,)),
        "address": ask(user(Media("image/png", url="https://example.com/a.png"), "What?")),
        "output and tool": ask(user("Name a city."), output=CITY, tools=(WEATHER,)),
    }


_SNAKE = {
    "parameters_json_schema": "parametersJsonSchema",
    "mime_type": "mimeType",
    "file_uri": "fileUri",
}


def sent_by_sdk(body: bytes) -> Any:
    """The SDK leaves some names as Python spells them and writes bytes in the alphabet for URLs;
    Google reads both spellings of either as the same."""

    def spelled(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = {_SNAKE.get(name, name): value for name, value in pairs}
        for name in ("data", "thoughtSignature"):
            if name in found:
                found[name] = found[name].replace("-", "+").replace("_", "/")
        return found

    return json.loads(body, object_pairs_hook=spelled)


REQUESTS = {**requests(), **signed_requests()}


@pytest.mark.parametrize("name", REQUESTS)
def test_bodies_are_those_of_the_sdk(name: str, sdk: Client, loopback: Loopback) -> None:
    request = REQUESTS[name]
    sdk.models.generate_content(
        model=request.model, contents=contents(request.messages), config=config(request)
    )
    assert json.loads(GEMINI.encode(request, AskForm())) == sent_by_sdk(loopback.bodies[-1])
    assert loopback.paths[-1] == GEMINI.target(request.model, False)


def test_streamed_request_is_that_of_the_sdk(sdk: Client, loopback: Loopback) -> None:
    request = REQUESTS["tools"]
    for _ in sdk.models.generate_content_stream(
        model=request.model, contents=contents(request.messages), config=config(request)
    ):
        pass
    sent = GEMINI.encode(request, AskForm(stream=True))
    assert json.loads(sent) == sent_by_sdk(loopback.bodies[-1])
    assert loopback.paths[-1] == GEMINI.target(request.model, True)
    assert loopback.headers[-1]["x-goog-api-key"] == "k"


def test_output_by_tool_is_that_of_the_sdk(sdk: Client, loopback: Loopback) -> None:
    request = ask(user("Name a city."), output=CITY, tools=(WEATHER,))
    output = types.FunctionDeclaration(
        name="city",
        description="Call this with your final answer.",
        parameters_json_schema=CITY.json_schema,
    )
    asked = config(ask(user("Name a city."), tools=(WEATHER,)))
    tools: Any = asked.tools
    tools[0].function_declarations.append(output)
    mode = types.FunctionCallingConfig(mode=types.FunctionCallingConfigMode.ANY)
    asked.tool_config = types.ToolConfig(function_calling_config=mode)
    sdk.models.generate_content(
        model="some-model", contents=contents(request.messages), config=asked
    )
    assert json.loads(GEMINI.encode(request, BY_TOOL)) == sent_by_sdk(loopback.bodies[-1])


def test_bodies_for_vertex_are_those_of_the_sdk(loopback: Loopback) -> None:
    """Signatures of the other service are left out, so requests that have some are left out too."""
    options = types.HttpOptions(base_url=loopback.url, api_version="v1")
    with Client(vertexai=True, api_key="k", http_options=options) as sdk:
        for name, request in list(REQUESTS.items())[::3]:
            if not name.startswith("signed"):
                sdk.models.generate_content(
                    model=request.model, contents=contents(request.messages), config=config(request)
                )
                ours = json.loads(VERTEX.encode(request, AskForm()))
                assert ours == sent_by_sdk(loopback.bodies[-1]), name
                assert loopback.paths[-1] == f"/v1{VERTEX.target(request.model, False)}"


def test_empty_texts_are_left_out() -> None:
    request = ask(user("Hi"), AssistantMessage((Text(""),)), user("Again"))
    body = json.loads(GEMINI.encode(request, AskForm()))
    assert [content["role"] for content in body["contents"]] == ["user", "user"]


def test_targets() -> None:
    assert GEMINI.target("gemini-2.5-pro", False) == "/v1beta/models/gemini-2.5-pro:generateContent"
    assert (
        VERTEX.target("gemini-2.5-pro", True)
        == "/publishers/google/models/gemini-2.5-pro:streamGenerateContent?alt=sse"
    )
    assert GEMINI.target("a/../b", False) == "/v1beta/models/a%2F..%2Fb:generateContent"


def test_fields_are_joined_and_leave_the_limit_on_tokens() -> None:
    fields = {"generationConfig": {"thinkingConfig": {"thinkingBudget": 0}}, "serviceTier": "flex"}
    body = json.loads(GEMINI.encode(REQUESTS["plain"], AskForm(fields=fields)))
    assert body["generationConfig"] == {
        "maxOutputTokens": 256,
        "thinkingConfig": {"thinkingBudget": 0},
    }
    assert body["serviceTier"] == "flex"


def test_no_temperature_for_a_model_that_takes_none() -> None:
    form = AskForm(ModelFeatures(temperature=False))
    assert b"temperature" not in GEMINI.encode(REQUESTS["temperature 0.7"], form)


def test_signatures_go_back_to_their_own_service_only() -> None:
    request = REQUESTS["signed call"]
    assert b"c2ln" in GEMINI.encode(request, AskForm())
    assert b'"c2ln"' not in VERTEX.encode(request, AskForm())
    assert NO_SIGNATURE.encode() in VERTEX.encode(request, AskForm())


def test_arguments_that_are_no_object_are_put_into_one() -> None:
    message = AssistantMessage((ToolCall("call_1", "weather", "no JSON"),))
    body = json.loads(GEMINI.encode(ask(user("Hi"), message), AskForm()))
    assert body["contents"][1]["parts"][0]["functionCall"]["args"] == {"arguments": "no JSON"}


# What is received. The streams are written after the service's documentation.


def sse(*events: dict[str, Any]) -> bytes:
    return b"".join(b"data: " + to_json(event) + b"\r\n\r\n" for event in events)


def piece(*parts: dict[str, Any], finish: str = "", **more: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "modelVersion": "gemini-x", "responseId": "r-1", **more}


def counts(prompt: int, written: int, **more: int) -> dict[str, int]:
    total = prompt + written + sum(more.get(name, 0) for name in ("thoughtsTokenCount",))
    named = {"promptTokenCount": prompt, "candidatesTokenCount": written}
    return {**named, "totalTokenCount": total, **more}


CALL = {"functionCall": {"name": "weather", "args": {"city": "Paris"}}}
STREAMS = {
    "text": sse(
        piece({"text": "Grüße, "}, usageMetadata={"promptTokenCount": 7, "totalTokenCount": 7}),
        piece({"text": "世界 🌍"}, usageMetadata=counts(7, 3)),
        piece({"text": "."}, finish="STOP", usageMetadata=counts(7, 6)),
    ),
    "thoughts": sse(
        piece({"text": "Let me ", "thought": True}),
        piece({"text": "think.", "thought": True}),
        piece({"text": "42"}, usageMetadata=counts(9, 1, thoughtsTokenCount=80)),
        piece(
            {"text": "", "thoughtSignature": "c2ln"},
            finish="STOP",
            usageMetadata=counts(9, 2, thoughtsTokenCount=90),
        ),
    ),
    "signed call": sse(
        piece({"text": "Look."}, {**CALL, "thoughtSignature": "c2ln"}, usageMetadata=counts(9, 4)),
        piece({"functionCall": {"name": "clock", "id": "c-7", "args": {}}}),
        piece({"text": ""}, finish="STOP", usageMetadata=counts(9, 12)),
    ),
    "signed text": sse(
        piece({"text": "One, "}),
        piece({"text": "two, ", "thoughtSignature": "c2ln"}),
        piece({"text": "three."}, finish="STOP", usageMetadata=counts(5, 5)),
    ),
    "cut at the limit": sse(
        piece({"text": "Once upon"}),
        piece({"text": " a"}, finish="MAX_TOKENS", usageMetadata=counts(5, 4)),
    ),
    "cached": sse(
        piece(
            {"text": "Yes."},
            finish="STOP",
            usageMetadata=counts(4_000, 2, cachedContentTokenCount=3_000),
        ),
    ),
    "blocked prompt": sse(
        {
            "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
            "usageMetadata": {"promptTokenCount": 8, "totalTokenCount": 8},
            "modelVersion": "gemini-x",
        },
    ),
    "filtered answer": sse(
        piece({"text": "How to "}),
        {"candidates": [{"finishReason": "SAFETY"}], "usageMetadata": counts(8, 2)},
    ),
    "usage after the end": sse(
        piece({"text": "Late."}, finish="STOP"), {"usageMetadata": counts(5, 3)}
    ),
}


def streamed(name: str) -> ModelReply:
    return read(GEMINI.reader(None), [STREAMS[name]])[0]


def test_cuts_change_nothing() -> None:
    check_cuts(GEMINI, STREAMS, 250)


def test_no_beginning_of_a_stream_is_whole() -> None:
    for name, data in STREAMS.items():
        if name != "usage after the end":
            assert not list(ends_early(GEMINI, data)), name


def test_streams_are_read_as_they_are_meant() -> None:
    assert streamed("text").message.parts == (Text("Grüße, 世界 🌍."),)
    assert streamed("text").usage == Usage(7, 6)
    thoughts = streamed("thoughts")
    signature = Opaque("google", {"thoughtSignature": "c2ln"})
    assert thoughts.message.parts == (
        Reasoning("Let me think."),
        Text("42"),
        Reasoning("", signature),
    )
    assert thoughts.usage == Usage(9, 92)
    calls = streamed("signed call")
    assert calls.finish is Finish.TOOL_CALLS
    weather, clock = calls.message.tool_calls
    assert (weather.name, weather.arguments) == ("weather", {"city": "Paris"})
    assert weather.opaque == signature
    assert (clock.id, clock.arguments, clock.opaque) == ("c-7", {}, None)
    assert streamed("cut at the limit").finish is Finish.LENGTH
    assert streamed("cached").usage == Usage(4_000, 2, 3_000)
    assert streamed("blocked prompt").finish is Finish.CONTENT_FILTER
    assert streamed("blocked prompt").usage == Usage(8, 0)
    assert streamed("filtered answer").finish is Finish.CONTENT_FILTER
    assert streamed("filtered answer").message.text == "How to "
    assert streamed("usage after the end").usage == Usage(5, 3)


def test_what_was_received_goes_back_as_it_came() -> None:
    for name in ("thoughts", "signed call", "signed text"):
        message = streamed(name).message
        body = json.loads(GEMINI.encode(ask(user("Hi"), message), AskForm()))
        back = body["contents"][1]["parts"]
        signed = [part for part in back if "thoughtSignature" in part]
        assert [part["thoughtSignature"] for part in signed] == ["c2ln"], name
        expected = {
            "thoughts": {"text": "", "thoughtSignature": "c2ln"},
            "signed call": {**CALL, "thoughtSignature": "c2ln"},
            "signed text": {"text": "two, ", "thoughtSignature": "c2ln"},
        }
        assert signed == [expected[name]], name
    texts = [part for part in streamed("signed text").message.parts if isinstance(part, Text)]
    assert [text.text for text in texts] == ["One, ", "two, ", "three."]


def test_ids_are_made_where_there_are_none_and_stay_here() -> None:
    message = streamed("signed call").message
    made = message.tool_calls[0].id
    assert made
    assert (
        made
        != read(GEMINI.reader(None), [STREAMS["signed call"].replace(b"r-1", b"r-2")])[0]
        .message.tool_calls[0]
        .id
    )
    assert made.encode() not in GEMINI.encode(ask(user("Hi"), message), AskForm())
    assert b"c-7" in GEMINI.encode(ask(user("Hi"), message), AskForm())


@pytest.mark.parametrize("name", [n for n in STREAMS if n != "usage after the end"])
def test_the_sdk_reads_the_same(name: str, sdk: Client, loopback: Loopback) -> None:
    loopback.whole = STREAMS[name]
    theirs = list(sdk.models.generate_content_stream(model="some-model", contents="Hi"))
    ours = streamed(name)
    parts = [
        part
        for event in theirs
        for candidate in event.candidates or ()
        if candidate.content
        for part in candidate.content.parts or ()
    ]
    texts = [part.text for part in parts if part.text and not part.thought]
    calls = [part.function_call for part in parts if part.function_call]
    assert "".join(texts) == ours.message.text
    assert [(call.name, call.args) for call in calls] == [
        (call.name, call.arguments) for call in ours.message.tool_calls
    ]
    usage = theirs[-1].usage_metadata
    assert usage is not None
    assert ours.usage is not None
    assert usage.prompt_token_count == ours.usage.input_tokens
    written = (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0)
    assert written == ours.usage.output_tokens


def test_a_stream_without_its_end_is_not_whole() -> None:
    reader = GEMINI.reader(None)
    reader.feed(sse(piece({"text": "Hello"}, usageMetadata=counts(5, 3))))
    assert not reader.ended


@pytest.mark.parametrize(
    "reason", ["MALFORMED_FUNCTION_CALL", "OTHER", "LANGUAGE", "FINISH_REASON_UNSPECIFIED", "NEW"]
)
def test_an_unknown_end_is_no_whole_answer(reason: str) -> None:
    reader = GEMINI.reader(None)
    reader.feed(sse(piece({"text": "Hello"}, finish=reason, usageMetadata=counts(5, 3))))
    with pytest.raises(WorldError, match=reason):
        reader.reply()
    with pytest.raises(WorldError, match=reason):
        GEMINI.decode(to_json(piece({"text": "Hello"}, finish=reason)), None)


def test_an_answer_without_an_end_or_a_candidate_is_none() -> None:
    for answer in (piece({"text": "Hello"}), {"usageMetadata": counts(5, 3)}, {}):
        with pytest.raises(WorldError):
            GEMINI.decode(to_json(answer), None)


def test_usage_that_nobody_knows() -> None:
    no_usage = GEMINI.decode(to_json(piece({"text": "Hi"}, finish="STOP")), None)
    assert no_usage.usage is None
    reader = GEMINI.reader(None)
    reader.feed(sse(piece({"text": "Hello"}, usageMetadata=counts(5, 3))))
    reader.feed(sse(piece({"text": "."}, finish="STOP")))
    assert reader.reply().usage is None


def test_what_the_parts_leave_out_counts_as_output() -> None:
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 115}
    reply = GEMINI.decode(to_json(piece({"text": "Hi"}, finish="STOP", usageMetadata=usage)), None)
    assert reply.usage == Usage(10, 105)
    usage = {**counts(10, 5), "toolUsePromptTokenCount": 7, "totalTokenCount": 22}
    reply = GEMINI.decode(to_json(piece({"text": "Hi"}, finish="STOP", usageMetadata=usage)), None)
    assert reply.usage == Usage(17, 5)
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "thoughtsTokenCount": 40}
    reply = GEMINI.decode(to_json(piece({"text": "Hi"}, finish="STOP", usageMetadata=usage)), None)
    assert reply.usage == Usage(10, 45)


def test_output_by_tool_comes_as_text() -> None:
    call = {"functionCall": {"name": "city", "args": {"name": "Paris", "people": 2}}}
    stream = sse(piece(call, finish="STOP", usageMetadata=counts(5, 3)))
    reply, chunks = read(GEMINI.reader("city"), [stream])
    check_chunks(reply, chunks)
    assert json.loads(reply.message.text) == {"name": "Paris", "people": 2}
    assert (reply.finish, reply.message.tool_calls) == (Finish.STOP, ())


def test_a_call_in_pieces_is_not_taken_for_a_whole_one() -> None:
    call = {"functionCall": {"name": "city", "willContinue": True}}
    with pytest.raises(ValueError, match="pieces"):
        GEMINI.reader(None).feed(sse(piece(call)))


def test_damaged_bytes_raise_nothing_else() -> None:
    wholes = [to_json(GEMINI_SERVER.whole(reply, ServedAsk())) for reply in SERVED.values()] + [
        to_json(GEMINI_SERVER.error_of(Broken("quota")).body)
    ]
    assert check_damaged(GEMINI, wholes, list(STREAMS.values()), 1_500) > 500


# What goes wrong.


def error(status: str, message: str = "", *details: dict[str, Any]) -> bytes:
    return to_json({"error": {"status": status, "message": message, "details": list(details)}})


DAILY = {"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}
MINUTE = {"violations": [{"quotaId": "GenerateRequestsPerMinutePerProjectPerModel"}]}
FAILURES = [
    (429, error("RESOURCE_EXHAUSTED", "", MINUTE), ErrorClass.RATE_LIMIT),
    (429, error("RESOURCE_EXHAUSTED", "", DAILY), ErrorClass.QUOTA),
    (429, error("RESOURCE_EXHAUSTED", "Your prepayment credits are depleted."), ErrorClass.QUOTA),
    (503, error("UNAVAILABLE", "The model is overloaded."), ErrorClass.OVERLOADED),
    (503, error("UNAVAILABLE", "Try later."), ErrorClass.UNAVAILABLE),
    (500, error("INTERNAL"), ErrorClass.SERVER),
    (400, error("INVALID_ARGUMENT", "No such field."), ErrorClass.REJECTED),
    (400, error("INVALID_ARGUMENT", "", {"reason": "API_KEY_INVALID"}), ErrorClass.AUTH),
    (
        400,
        error("INVALID_ARGUMENT", "The input token count (9) exceeds the maximum"),
        ErrorClass.CONTEXT_LENGTH,
    ),
    (401, error("UNAUTHENTICATED"), ErrorClass.AUTH),
    (403, error("PERMISSION_DENIED"), ErrorClass.AUTH),
    (404, error("NOT_FOUND"), ErrorClass.REJECTED),
    (504, error("DEADLINE_EXCEEDED"), ErrorClass.TIMEOUT),
    (429, b"[" + error("RESOURCE_EXHAUSTED") + b"]", ErrorClass.RATE_LIMIT),
    (502, b"<html>Bad gateway</html>", ErrorClass.SERVER),
    (429, b"", ErrorClass.RATE_LIMIT),
    (429, b"[]", ErrorClass.RATE_LIMIT),
]


@pytest.mark.parametrize(("status", "body", "kind"), FAILURES)
def test_failures_by_class(status: int, body: bytes, kind: ErrorClass) -> None:
    assert GEMINI.failure(status, body).kind is kind


def test_an_error_inside_a_stream() -> None:
    reader = GEMINI.reader(None)
    reader.feed(sse(piece({"text": "Hello"})))
    reader.feed(b"data: " + error("UNAVAILABLE", "The model is overloaded.") + b"\n\n")
    assert not reader.ended
    assert reader.failure is not None
    assert reader.failure.kind is ErrorClass.OVERLOADED
    assert reader.failure.message == "The model is overloaded."


# The server's end.


@pytest.mark.parametrize("name", SERVED)
def test_our_client_reads_our_server(name: str) -> None:
    reply = SERVED[name]
    whole = GEMINI.decode(to_json(GEMINI_SERVER.whole(reply, ServedAsk())), None)
    stream = GEMINI_SERVER.stream(reply, ServedAsk())
    pieces = [stream.opening, *stream.pieces, stream.closing]
    assert read(GEMINI.reader(None), pieces)[0] == whole
    assert whole.message.text == (reply.text or reply.refusal)
    assert whole.usage == reply.usage
    assert whole.finish is reply.finish
    assert whole.message.model == "some-model"
    assert [call.name for call in whole.message.tool_calls] == [call.name for call in reply.calls]


@pytest.mark.parametrize("cause", [400, 401, 403, 404, 429, 500, 503, 504, 529, "quota"])
def test_our_client_reads_our_failures(cause: int | str) -> None:
    made = GEMINI_SERVER.error_of(Broken(cause, "why"))
    ours = GEMINI.failure(made.status, to_json(made.body))
    assert ours.message.endswith("why")
    expected = {429: ErrorClass.RATE_LIMIT, "quota": ErrorClass.QUOTA, 529: ErrorClass.OVERLOADED}
    assert ours.kind is expected.get(cause, ours.kind)
    reader = GEMINI.reader(None)
    reader.feed(GEMINI_SERVER.broken(Broken(cause, "why"), ServedAsk()))
    assert reader.failure == ours


def test_our_server_says_that_a_request_is_too_long() -> None:
    made = GEMINI_SERVER.error_of(Broken("context_length"))
    assert GEMINI.failure(made.status, to_json(made.body)).kind is ErrorClass.CONTEXT_LENGTH


@pytest.mark.parametrize("name", [name for name in SERVED if name != "no usage"])
def test_the_sdk_asks_our_server(name: str, sdk: Client, loopback: Loopback) -> None:
    loopback.reply = reply = SERVED[name]
    whole = sdk.models.generate_content(model="some-model", contents="Hi")
    events = list(sdk.models.generate_content_stream(model="some-model", contents="Hi"))
    for answer in (whole, events[-1]):
        assert answer.candidates is not None
        assert answer.candidates[0].finish_reason is not None
        assert answer.usage_metadata is not None
        assert reply.usage is not None
        assert answer.usage_metadata.prompt_token_count == reply.usage.input_tokens
        assert answer.usage_metadata.candidates_token_count == reply.usage.output_tokens
        assert answer.usage_metadata.cached_content_token_count == reply.usage.cache_read_tokens
    calls = [call for event in events for call in event.function_calls or ()]
    assert [call.model_dump() for call in calls] == [
        call.model_dump() for call in whole.function_calls or ()
    ]
    assert [(call.name, json.dumps(call.args)) for call in calls] == [
        (call.name, json.dumps(json.loads(call.arguments))) for call in reply.calls
    ]
    texts = [part.text or "" for event in events for part in event.parts or ()]
    assert "".join(texts) == reply.text


def test_the_sdk_raises_our_failures(sdk: Client, loopback: Loopback) -> None:
    loopback.failure = Broken(429, "slow down")
    with pytest.raises(errors.ClientError) as caught:
        sdk.models.generate_content(model="some-model", contents="Hi")
    assert (caught.value.code, caught.value.status) == (429, "RESOURCE_EXHAUSTED")
    loopback.failure = None
    loopback.reply, loopback.breaks = served("Hello there."), Broken(503, "gone")
    with pytest.raises(errors.ServerError) as broken:
        list(sdk.models.generate_content_stream(model="some-model", contents="Hi"))
    assert broken.value.code == 503


def test_an_image_is_sent_by_its_data() -> None:
    body = json.loads(GEMINI.encode(REQUESTS["image"], AskForm()))
    assert b64decode(body["contents"][0]["parts"][0]["inlineData"]["data"]) == PNG
