"""Answers of all wire formats, over real sockets."""

import json
from typing import Any

import pytest

from tests.models.asking import (
    ANTHROPIC,
    AZURE,
    AZURE_CHAT,
    BEDROCK,
    CITY,
    GEMINI,
    KEY,
    OLLAMA,
    RESPONSES,
    WEATHER,
    WIRES,
    WITHOUT_JSON,
    ask,
    listen,
    request,
    talk,
)
from vegakit.conversation import (
    AssistantMessage,
    Finish,
    Media,
    ModelReply,
    ModelSettings,
    OutputSpec,
    Text,
    TextDelta,
    ToolCall,
    ToolCallStarted,
    ToolMessage,
    ToolResult,
    Usage,
    UserMessage,
)
from vegakit.errors import Phase, WorldError
from vegakit.ports import Model
from vegakit.testing import Provider, ProviderReply, ProviderToolCall

wires = pytest.mark.parametrize("name", WIRES)
both_ways = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (64).to_bytes(4, "big") * 2


@wires
@both_ways
def test_a_plain_answer_is_one_request(name: str, stream: bool) -> None:
    """The text, the tokens and the finish come back; the wire saw one request."""
    usage = Usage(12, 3) if name == OLLAMA else Usage(12, 3, cache_read_tokens=4)
    reply, provider = ask(name, ProviderReply("Paris", usage=usage), stream=stream)
    assert reply.message.text == "Paris"
    assert reply.usage == usage
    assert reply.finish is Finish.STOP
    assert len(provider.requests) == 1


def found(body: Any, name: str) -> Any:
    """The field of this name, which some formats keep among the settings of a model."""
    places = [body, *(inner for inner in body.values() if isinstance(inner, dict))]
    return next((place[name] for place in places if name in place), None)


@wires
@both_ways
def test_settings_reach_the_wire(name: str, stream: bool) -> None:
    """max_tokens, temperature and the system prompt are sent."""
    settings = ModelSettings(77, temperature=0.25)
    _, provider = ask(name, "ok", request(settings=settings, system="Be brief."), stream=stream)
    (sent,) = provider.requests
    assert sent.max_tokens == 77
    assert found(sent.body, "temperature") == 0.25
    assert "Be brief." in sent.raw.decode()
    assert sent.stream is stream


@wires
def test_a_stream_comes_in_pieces(name: str) -> None:
    """The deltas are the text of the reply that ends them."""
    heard: list[Any] = []

    async def conversation(model: Model, _: Provider) -> None:
        heard.extend(await listen(model, request()))

    talk(name, "one two three", conversation)
    *deltas, reply = heard
    assert len(deltas) > 1
    assert "".join(delta.text for delta in deltas) == reply.message.text == "one two three"


@wires
@both_ways
def test_parallel_tool_calls_come_in_order(name: str, stream: bool) -> None:
    """Each call has its id, name and arguments."""
    calls = [
        ProviderToolCall("get_weather", {"city": "Paris"}),
        ProviderToolCall("get_weather", {"city": "Rome"}),
    ]
    reply, provider = ask(
        name, ProviderReply(calls=calls), request(tools=(WEATHER,)), stream=stream
    )
    first, second = reply.message.tool_calls
    assert (first.name, first.arguments, second.arguments) == (
        "get_weather",
        {"city": "Paris"},
        {"city": "Rome"},
    )
    assert first.id != second.id
    assert reply.finish is Finish.TOOL_CALLS
    assert list(provider.requests[0].tools) == ["get_weather"]


@wires
def test_a_stream_tells_when_a_tool_call_begins(name: str) -> None:
    """By its name and its place in the answer."""
    heard: list[Any] = []

    async def conversation(model: Model, _: Provider) -> None:
        heard.extend(await listen(model, request(tools=(WEATHER,))))

    talk(
        name,
        ProviderReply(calls=[ProviderToolCall("get_weather"), ProviderToolCall("get_weather")]),
        conversation,
    )
    begun = [chunk for chunk in heard if isinstance(chunk, ToolCallStarted)]
    assert begun == [ToolCallStarted("get_weather", 0), ToolCallStarted("get_weather", 1)]


@wires
def test_tool_results_go_back_under_their_ids(name: str) -> None:
    """A result that is an error is one for the model too."""
    history = (
        UserMessage((Text("weather?"),)),
        AssistantMessage((ToolCall("call_a", "get_weather", {"city": "Paris"}),)),
        ToolMessage((ToolResult("call_a", "get_weather", "no such city", is_error=True),)),
    )
    _, provider = ask(name, "ok", request(messages=history, tools=(WEATHER,)))
    wire = provider.requests[0].raw.decode()
    assert provider.requests[0].tool_results == 1
    assert wire.count("call_a") == 2 or wire.count("get_weather") >= 3  # some know names only
    assert "no such city" in wire
    assert "error" in wire


@pytest.mark.parametrize("name", [*WIRES, *WITHOUT_JSON])
@both_ways
def test_a_structured_answer_is_json_text(name: str, stream: bool) -> None:
    """Whether the model has JSON answers or needs a tool for them, nobody sees."""
    reply, provider = ask(
        name, ProviderReply(output={"city": "Rome"}), request(output=CITY), stream=stream
    )
    assert json.loads(reply.message.text) == {"city": "Rome"}
    assert reply.message.tool_calls == ()
    assert reply.finish is Finish.STOP
    assert bool(provider.requests[0].output_tool) is (name in WITHOUT_JSON)


@pytest.mark.parametrize("name", [ANTHROPIC, RESPONSES])
def test_a_map_is_answered_by_a_shape_that_has_room_for_it(name: str) -> None:
    """A provider that closes every object would let it be empty only, so it is asked by a tool."""
    counts = OutputSpec("Counts", {"type": "object", "additionalProperties": {"type": "integer"}})
    nested = OutputSpec("Nested", {"type": "object", "properties": {"by": counts.json_schema}})
    for output in (counts, nested):
        answer = ProviderReply(output={"red": 2})
        reply, provider = ask(name, answer, request(output=output))
        assert json.loads(reply.message.text) == {"red": 2}
        assert bool(provider.requests[0].output_tool) is (name == ANTHROPIC)


@pytest.mark.parametrize("name", WITHOUT_JSON)
def test_an_answer_by_tool_streams_as_text(name: str) -> None:
    """The pieces of its JSON are text deltas."""
    heard: list[Any] = []

    async def conversation(model: Model, _: Provider) -> None:
        heard.extend(await listen(model, request(output=CITY)))

    talk(name, ProviderReply(output={"city": "Rome"}), conversation)
    text = "".join(chunk.text for chunk in heard if isinstance(chunk, TextDelta))
    assert json.loads(text) == {"city": "Rome"}
    assert isinstance(heard[-1], ModelReply)


@wires
@pytest.mark.parametrize(
    "image", [Media("image/png", PNG), Media("image/png", url="https://images.test/a.png")]
)
def test_images_reach_the_wire(name: str, image: Media) -> None:
    """By their bytes or by their address, which is not fetched here. A format that knows no
    addresses says so before anything is sent."""
    if image.url and name in {BEDROCK, OLLAMA}:
        with pytest.raises(WorldError, match="send") as refused:
            ask(name, "ok", request(messages=(UserMessage((Text("see"), image)),)))
        assert refused.value.phase is Phase.NOTHING_SENT
        return
    _, provider = ask(name, "ok", request(messages=(UserMessage((Text("see"), image)),)))
    assert provider.requests[0].images == 1
    assert not image.url or image.url in provider.requests[0].raw.decode()


@pytest.mark.parametrize("name", [name for name in WIRES if name != OLLAMA])
@both_ways
def test_a_filtered_answer_is_a_reply_with_its_cost(name: str, stream: bool) -> None:
    """The finish says so, the text says why."""
    script = ProviderReply(refusal="I will not.", usage=Usage(9, 2))
    reply, _ = ask(name, script, stream=stream)
    assert reply.finish is Finish.CONTENT_FILTER
    assert reply.message.text == "I will not."
    assert reply.usage == Usage(9, 2)


@wires
@both_ways
def test_an_answer_cut_at_max_tokens_says_so(name: str, stream: bool) -> None:
    """The text so far comes with it."""
    reply, _ = ask(name, ProviderReply("half", finish=Finish.LENGTH), stream=stream)
    assert (reply.finish, reply.message.text) == (Finish.LENGTH, "half")


@wires
@both_ways
def test_usage_that_is_not_reported_is_none(name: str, stream: bool) -> None:
    """It is never a zero: a zero would be a free call. The answer is handed over all the same."""
    reply, _ = ask(name, ProviderReply("ok", usage=None), stream=stream)
    assert (reply.usage, reply.message.text) == (None, "ok")


@wires
def test_the_key_is_read_for_every_call(name: str) -> None:
    """A key that changes is used at once; the client's own placeholder is never sent."""
    keys = iter(["first-key", "second-key"])

    async def key() -> str:
        return next(keys)

    async def conversation(model: Model, _: Provider) -> None:
        await listen(model, request())
        await listen(model, request())

    provider = talk(name, "ok", conversation, key=key, headers={"x-team": "blue"})
    named = {ANTHROPIC: "x-api-key", GEMINI: "x-goog-api-key", AZURE: "api-key"}
    header = {**named, AZURE_CHAT: "api-key"}.get(name, "authorization")
    sent = [one.headers[header].removeprefix("Bearer ") for one in provider.requests]
    assert sent == ["first-key", "second-key"]
    assert provider.requests[0].headers["x-team"] == "blue"
    assert "placeholder" not in str(provider.requests[0].headers)


def test_answers_are_not_stored_at_the_provider() -> None:
    """A later call is then billed for what it sends, not for what lies there."""
    _, provider = ask(RESPONSES, "ok")
    assert provider.requests[0].body["store"] is False


def test_a_model_shows_no_secret() -> None:
    """Neither its key nor its headers nor its proxy."""
    from tests.models.asking import access
    from vegakit.providers import build_model

    given = access(
        "https://models.test", headers={"x-secret": "s3cret"}, proxy="http://u:pw@p.test"
    )
    shown = repr(given) + repr(build_model(ANTHROPIC, given))
    assert not any(secret in shown for secret in (KEY, "s3cret", "pw@"))
