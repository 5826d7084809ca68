"""Answers as no provider should write them, and some do: what was paid for is handed over, what
failed says why, and both are charged rightly. Over real sockets, from servers with a script."""

import asyncio
import json
import sys
from typing import Any, NamedTuple

import pytest

from tests.models.asking import ANTHROPIC, BEDROCK, CHAT, GEMINI, OLLAMA, RESPONSES, access
from tests.models.transport.servers import CHUNKED, Peer, serving
from tests.patience import PATIENCE_S
from vegakit import tool
from vegakit.errors import CatchableError
from vegakit.host import Agent, TurnEnded
from vegakit.money import Money
from vegakit.policy import RetryRule
from vegakit.prices import PriceRow, PriceTier
from vegakit.providers import build_model
from vegakit.sdk import Runtime
from vegakit.testing import Provider, ProviderReply, ProviderToolCall
from vegakit.wires import CHAT as CHAT_WIRE
from vegakit.wires.aws import write_frame

PRICE = PriceRow("any", (PriceTier(*[Money(1_000_000_000)] * 4),))
TOKEN = 1_000
MOST = 50
ONE = RetryRule(max_attempts=1)
wires = pytest.mark.parametrize("name", [ANTHROPIC, RESPONSES, CHAT, GEMINI, BEDROCK, OLLAMA])
sse_wires = pytest.mark.parametrize("name", [ANTHROPIC, RESPONSES, CHAT, GEMINI])
both_ways = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


class Came(NamedTuple):
    text: str
    error: CatchableError | None
    spent: int


async def _ask(model: Any, *, stream: bool, tools: tuple[Any, ...] = ()) -> Came:
    agent = Agent("a", model=model, max_tokens=MOST, retry=ONE, tools=tools)
    async with Runtime("$1000") as rt:
        try:
            if not stream:
                return Came((await rt.ask(agent, "hi")).text, None, await rt.spent())
            *_, last = [event async for event in rt.stream(agent, "hi")]
            assert isinstance(last, TurnEnded)
            return Came(last.reply.text, None, await rt.spent())
        except CatchableError as error:
            return Came("", error, await rt.spent())


def ask(name: str, body: bytes, *, stream: bool = False) -> Came:
    """What an agent makes of an answer whose body is this, and what it is charged."""

    async def run() -> Came:
        async def say(peer: Peer) -> None:
            await peer.answer(CHUNKED + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
            await peer.gone()

        async with serving(say) as server:
            url = f"http://127.0.0.1:{server.port}"
            model = build_model(name, access(url, name, price=PRICE))
            try:
                return await _ask(model, stream=stream)
            finally:
                await model.aclose()

    return asyncio.run(asyncio.wait_for(run(), PATIENCE_S))


# Answers of each format that say "Paris" and tell their usage as it is given.


def _events(*events: dict[str, Any]) -> bytes:
    return b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events)


def _anthropic(usage: Any, *, stream: bool) -> bytes:
    text = {"type": "text", "text": "Paris"}
    if not stream:
        said = {"content": [text], "stop_reason": "end_turn", "usage": usage}
        return json.dumps(said).encode()
    return _events(
        {"type": "message_start", "message": {"content": [], "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": {**text, "text": ""}},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": "Paris"},
        },
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
        {"type": "message_stop"},
    )


def _chat(usage: Any, *, stream: bool) -> bytes:
    said = {"delta" if stream else "message": {"content": "Paris"}, "finish_reason": "stop"}
    answer = {"choices": [{"index": 0, **said}], "usage": usage}
    return _events(answer) + b"data: [DONE]\n\n" if stream else json.dumps(answer).encode()


def _responses(usage: Any, *, stream: bool) -> bytes:
    item = {"type": "message", "content": [{"type": "output_text", "text": "Paris"}]}
    response = {"status": "completed", "output": [item], "usage": usage}
    if not stream:
        return json.dumps(response).encode()
    return _events({"type": "response.completed", "response": response})


def _gemini(usage: Any, *, stream: bool) -> bytes:
    candidate = {"content": {"parts": [{"text": "Paris"}]}, "finishReason": "STOP"}
    answer = {"candidates": [candidate], "usageMetadata": usage}
    return _events(answer) if stream else json.dumps(answer).encode()


def _bedrock(usage: Any, *, stream: bool) -> bytes:
    if not stream:
        output = {"message": {"content": [{"text": "Paris"}]}}
        said = {"output": output, "stopReason": "end_turn", "usage": usage}
        return json.dumps(said).encode()
    frames = {
        "contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "Paris"}},
        "messageStop": {"stopReason": "end_turn"},
        "metadata": {"usage": usage},
    }
    return b"".join(
        write_frame({":message-type": "event", ":event-type": kind}, json.dumps(said).encode())
        for kind, said in frames.items()
    )


def _ollama(usage: Any, *, stream: bool) -> bytes:
    counts = usage if isinstance(usage, dict) else {"prompt_eval_count": usage}
    answer = {"message": {"content": "Paris"}, "done": True, "done_reason": "stop", **counts}
    return json.dumps(answer).encode() + b"\n" * stream


BODIES = {
    ANTHROPIC: (_anthropic, "input_tokens", "output_tokens"),
    RESPONSES: (_responses, "input_tokens", "output_tokens"),
    CHAT: (_chat, "prompt_tokens", "completion_tokens"),
    GEMINI: (_gemini, "promptTokenCount", "candidatesTokenCount"),
    BEDROCK: (_bedrock, "inputTokens", "outputTokens"),
    OLLAMA: (_ollama, "prompt_eval_count", "eval_count"),
}
UNREAD = {
    "a text": "many",
    "half a token": 2.5,
    "negative": -7,
    "an object": {"n": 7},
    "true": True,
    "huge": 10**30,
    "beyond numbers": float("1e308"),
}


def answer_with(name: str, count: Any, *, stream: bool) -> bytes:
    """An answer that says it used so much input, and three tokens of output."""
    write, read, written = BODIES[name]
    return write({read: count, written: 3}, stream=stream)


@wires
@both_ways
@pytest.mark.parametrize("count", UNREAD.values(), ids=UNREAD)
def test_usage_that_cannot_be_read_costs_the_reservation(
    name: str, stream: bool, count: Any
) -> None:
    """And not the answer, which was paid for."""
    came = ask(name, answer_with(name, count, stream=stream), stream=stream)
    assert (came.text, came.error) == ("Paris", None)
    assert came.spent >= MOST * TOKEN


@wires
@both_ways
@pytest.mark.parametrize("usage", ["a lot", [7, 3], 7], ids=str)
def test_usage_of_another_shape_costs_the_reservation(name: str, stream: bool, usage: Any) -> None:
    came = ask(name, BODIES[name][0](usage, stream=stream), stream=stream)
    assert (came.text, came.error) == ("Paris", None)
    assert came.spent >= MOST * TOKEN


@wires
@both_ways
@pytest.mark.parametrize("count", [7, 7.0, "7"], ids=repr)
def test_usage_that_is_plainly_a_number_is_read(name: str, stream: bool, count: Any) -> None:
    came = ask(name, answer_with(name, count, stream=stream), stream=stream)
    assert came == ("Paris", None, 10 * TOKEN)


@wires
@both_ways
@pytest.mark.parametrize("written", [{}, None], ids=["no output", "not said"])
def test_words_that_nobody_counted_cost_the_reservation(
    name: str, stream: bool, written: dict[str, int] | None
) -> None:
    """Some servers count the input alone; the answer is not free for that."""
    write, read, counted = BODIES[name]
    usage = {read: 7} if written is None else {read: 7, counted: 0}
    came = ask(name, write(usage, stream=stream), stream=stream)
    assert (came.text, came.error) == ("Paris", None)
    assert came.spent >= MOST * TOKEN


def test_a_count_beyond_every_window_costs_the_reservation() -> None:
    came = ask(BEDROCK, answer_with(BEDROCK, 10**15, stream=False))
    assert MOST * TOKEN <= came.spent < 10_000 * TOKEN


# Ends that nobody knows, and servers that keep to no limit.


ENDS = {ANTHROPIC: b"end_turn", CHAT: b"stop", GEMINI: b"STOP", BEDROCK: b"end_turn"}


@both_ways
@pytest.mark.parametrize("name", ENDS)
def test_an_end_that_nobody_knows_is_billed_as_its_usage_says(name: str, stream: bool) -> None:
    """It is no answer, but what it cost is known."""
    body = answer_with(name, 7, stream=stream)
    # A frame of Bedrock's has a length and a checksum, so the word is as long as the one before.
    odd = b"X" * len(ENDS[name])
    if name == BEDROCK and stream:
        stop = {":message-type": "event", ":event-type": "messageStop"}
        known, unknown = (
            write_frame(stop, json.dumps({"stopReason": word.decode()}).encode())
            for word in (ENDS[name], odd)
        )
        body = body.replace(known, unknown)
    else:
        body = body.replace(b'"%b"' % ENDS[name], b'"%b"' % odd)
    came = ask(name, body, stream=stream)
    assert "broke its answer off (X" in str(came.error)
    assert came.spent == 10 * TOKEN


@both_ways
@pytest.mark.parametrize("word", ["eos", "eos_token", "end_turn"])
def test_other_servers_have_other_words_for_the_end(word: str, stream: bool) -> None:
    body = answer_with(CHAT, 7, stream=stream).replace(b'"stop"', f'"{word}"'.encode())
    assert ask(CHAT, body, stream=stream) == ("Paris", None, 10 * TOKEN)


def test_a_stream_whose_body_ends_after_the_reason_is_whole() -> None:
    """Some servers do not say `[DONE]`; without a reason it was broken off."""
    body = answer_with(CHAT, 7, stream=True).removesuffix(b"data: [DONE]\n\n")
    assert ask(CHAT, body, stream=True) == ("Paris", None, 10 * TOKEN)
    unended = ask(CHAT, body.replace(b'"stop"', b"null"), stream=True)
    assert "ended before its answer" in str(unended.error)


_ENDLESS_CALL = {"tool_calls": [{"index": 0, "function": {"arguments": "word " * 50}}]}


@pytest.mark.parametrize("delta", [{"content": "word " * 50}, _ENDLESS_CALL], ids=["text", "call"])
def test_a_stream_that_knows_no_end_is_left(
    delta: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection is closed, so that the server stops; the reservation is charged."""
    monkeypatch.setattr("vegakit.providers.model.LARGEST_BODY", 1 << 16)
    word = _events({"choices": [{"index": 0, "delta": delta}]})
    sent = 0

    async def run() -> Came:
        async def say(peer: Peer) -> None:
            nonlocal sent
            await peer.answer(CHUNKED)
            while True:
                await peer.say(b"%x\r\n%b\r\n" % (len(word), word))
                sent += 250

        async with serving(say) as server:
            model = build_model(CHAT, access(f"http://127.0.0.1:{server.port}", CHAT, price=PRICE))
            try:
                return await _ask(model, stream=True)
            finally:
                await model.aclose()

    came = asyncio.run(asyncio.wait_for(run(), PATIENCE_S))
    assert f"longer than max_tokens ({MOST}) allows" in str(came.error)
    assert came.spent >= MOST * TOKEN
    assert sent >= MOST * 256


def test_a_bill_above_its_reservation_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """It is charged, and whoever runs it hears that this server keeps to no limit."""
    body = answer_with(CHAT, 7, stream=False).replace(b": 3}", b": 3000}")
    assert ask(CHAT, body).spent == 3_007 * TOKEN
    assert "keeps to no limit (max_tokens was 50)" in caplog.text
    caplog.clear()
    ask(CHAT, answer_with(CHAT, 7, stream=False))
    assert caplog.text == ""


# A status of success, and an error in the body.

ERROR = {"error": {"message": "the engine caught fire", "type": "server_error"}}


@wires
def test_an_error_in_a_body_of_success_is_told(name: str) -> None:
    """In its own words; it may be billed, as one in a stream."""
    came = ask(name, json.dumps(ERROR).encode())
    assert "the engine caught fire" in str(came.error)
    assert came.spent >= MOST * TOKEN


@wires
def test_an_error_instead_of_a_stream_is_told(name: str) -> None:
    """A gateway that fails before its stream answers with one object."""
    came = ask(name, json.dumps(ERROR).encode(), stream=True)
    assert "the engine caught fire" in str(came.error)


@both_ways
@wires
def test_a_web_page_is_told_as_one(name: str, stream: bool) -> None:
    """With a status of success, as a network that wants a login answers."""
    told = str(ask(name, b"\n<!DOCTYPE html><html>Log in</html>", stream=stream).error)
    assert "what came is a web page (HTML), and no answer of a model; check the network" in told


@wires
def test_an_answer_of_no_known_form_says_where_to_look(name: str) -> None:
    """And names nothing of ours."""
    told = str(ask(name, b"[1, 2").error)
    assert "it is not of the form that its protocol says; check that the base_url" in told
    assert "DecodeError" not in told


# Streams.


@sse_wires
@pytest.mark.parametrize("cut", [1, 2], ids=["one line end is missing", "both are missing"])
def test_the_last_event_counts_without_the_line_that_closes_it(name: str, cut: int) -> None:
    """The body came whole, and its last event says how the answer ended."""
    body = answer_with(name, 7, stream=True)
    assert ask(name, body[:-cut], stream=True) == ("Paris", None, 10 * TOKEN)


@sse_wires
def test_half_an_event_at_the_end_is_none(name: str) -> None:
    """The answer was broken off."""
    body = answer_with(name, 7, stream=True)
    start = body.rindex(b"data: ")
    came = ask(name, body[: start + 9], stream=True)
    assert "ended before its answer" in str(came.error)


def test_only_the_first_choice_is_the_answer() -> None:
    """Others come in between where a setting asks for several."""
    said = [(1, "Rome"), (0, "Pa"), (1, "!"), (0, "ris")]
    pieces = [{"choices": [{"index": i, "delta": {"content": text}}]} for i, text in said]
    ends = [{"choices": [{"index": i, "delta": {}, "finish_reason": "stop"}]} for i in (1, 0)]
    usage = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}
    body = _events(*pieces, *ends, usage) + b"data: [DONE]\n\n"
    assert ask(CHAT, body, stream=True) == ("Paris", None, 10 * TOKEN)
    both = [(1, "Rome"), (0, "Paris")]
    choices = [{"index": i, "message": {"content": t}, "finish_reason": "stop"} for i, t in both]
    whole = json.dumps({**usage, "choices": choices}).encode()
    assert ask(CHAT, whole) == ("Paris", None, 10 * TOKEN)


# Tool calls.


def _steps_to_read(calls: int) -> int:
    """How many functions are entered while a stream with so many calls is read."""
    call = {"function": {"name": "look", "arguments": "{}"}}
    body = _events(
        *(
            {"choices": [{"delta": {"tool_calls": [{"index": i, "id": f"c{i}", **call}]}}]}
            for i in range(calls)
        )
    )
    reader, steps = CHAT_WIRE.reader(None), 0

    def count(*_: object) -> None:
        nonlocal steps
        steps += 1

    sys.setprofile(count)
    try:
        reader.feed(body)
    finally:
        sys.setprofile(None)
    return steps


def test_many_calls_are_read_in_a_time_that_grows_with_their_number() -> None:
    """Counted in steps, not by a clock."""
    assert _steps_to_read(2_000) < 2.2 * _steps_to_read(1_000)


@tool()
async def look(city: str) -> str:
    """Look at a city."""
    return f"{city} is sunny"


@wires
@both_ways
def test_arguments_that_are_nested_too_deep_are_an_error_of_the_call(
    name: str, stream: bool
) -> None:
    """The model hears of it and goes on; the process of the agent does not fall."""
    deep: Any = "x"
    for _ in range(900):
        deep = [deep]

    async def run() -> None:
        script = [ProviderReply(calls=[ProviderToolCall("look", {"city": deep})]), "Paris"]
        async with Provider(script) as provider:
            model = build_model(name, access(provider.url, name, price=PRICE))
            came = await _ask(model, stream=stream, tools=(look,))
            await model.aclose()
            assert (came.text, came.error) == ("Paris", None)
            assert "nested hundreds of levels deep" in str(provider.requests[-1].raw)

    asyncio.run(asyncio.wait_for(run(), PATIENCE_S))
