"""A conversation that began with one provider goes on with another: what only the first can read
stays behind, and every call keeps one id for itself and its result."""

import json
from base64 import b64encode
from itertools import permutations
from typing import Any

import pytest

from tests.wires.varied import WEATHER, ServedAsk, ask, user
from vegakit.conversation import (
    AssistantMessage,
    ModelReply,
    Text,
    ToolMessage,
    ToolResult,
)
from vegakit.records import to_json
from vegakit.wires import (
    BEDROCK,
    BEDROCK_SERVER,
    GEMINI,
    GEMINI_SERVER,
    OLLAMA,
    OLLAMA_SERVER,
    VERTEX,
    AskForm,
    ServedCall,
    ServedReply,
    Wire,
)
from vegakit.wires.gemini import NO_SIGNATURE

SECRET = b64encode(b"a signature").decode()
GEMINI_ANSWER = {
    "candidates": [
        {
            "content": {
                "parts": [
                    {"text": "Hm.", "thought": True, "thoughtSignature": SECRET},
                    {"text": "Look.", "thoughtSignature": SECRET},
                    {
                        "functionCall": {"name": "weather", "args": {"city": "Paris"}},
                        "thoughtSignature": SECRET,
                    },
                    {"functionCall": {"name": "weather", "args": {"city": "Rome"}}},
                ]
            },
            "finishReason": "STOP",
        }
    ],
    "responseId": "r-1",
}
BEDROCK_ANSWER = {
    "output": {
        "message": {
            "content": [
                {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": SECRET}}},
                {"reasoningContent": {"redactedContent": SECRET}},
                {"text": "Look."},
                {"toolUse": {"toolUseId": "t-1", "name": "weather", "input": {"city": "Paris"}}},
                {"toolUse": {"toolUseId": "t-2", "name": "weather", "input": {"city": "Rome"}}},
            ]
        }
    },
    "stopReason": "tool_use",
}
OLLAMA_ANSWER = {
    "created_at": "2026-11-16T06:00:00Z",
    "message": {
        "content": "Look.",
        "thinking": SECRET,
        "tool_calls": [
            {"function": {"name": "weather", "arguments": {"city": "Paris"}}},
            {"function": {"name": "weather", "arguments": {"city": "Rome"}}},
        ],
    },
    "done": True,
    "done_reason": "stop",
}
ANSWERS: dict[str, tuple[Wire, Any]] = {
    "google": (GEMINI, GEMINI_ANSWER),
    "vertex": (VERTEX, GEMINI_ANSWER),
    "bedrock": (BEDROCK, BEDROCK_ANSWER),
    "ollama": (OLLAMA, OLLAMA_ANSWER),
}


def answer_of(name: str) -> ModelReply:
    wire, answer = ANSWERS[name]
    return wire.decode(to_json(answer), None)


def sent_to(name: str, message: AssistantMessage) -> bytes:
    results = tuple(ToolResult(call.id, call.name, "sunny") for call in message.tool_calls)
    request = ask(user("Hi"), message, ToolMessage(results), tools=(WEATHER,))
    return ANSWERS[name][0].encode(request, AskForm())


def calls_and_results(name: str, body: bytes) -> tuple[list[Any], list[Any]]:
    """The ids of calls and of results, as the format has them."""
    said = json.loads(body)
    if name == "ollama":
        _, answered, *results = said["messages"]
        return (
            [call.get("id") for call in answered["tool_calls"]],
            [result.get("tool_call_id") for result in results],
        )
    if name == "bedrock":
        blocks = [block for turn in said["messages"] for block in turn["content"]]
        return (
            [block["toolUse"]["toolUseId"] for block in blocks if "toolUse" in block],
            [block["toolResult"]["toolUseId"] for block in blocks if "toolResult" in block],
        )
    parts = [part for content in said["contents"] for part in content["parts"]]
    return (
        [part["functionCall"].get("id") for part in parts if "functionCall" in part],
        [part["functionResponse"].get("id") for part in parts if "functionResponse" in part],
    )


@pytest.mark.parametrize(("first", "then"), list(permutations(ANSWERS, 2)))
def test_what_only_one_provider_can_read_stays_with_it(first: str, then: str) -> None:
    message = answer_of(first).message
    assert message.text == "Look."
    body = sent_to(then, message)
    assert SECRET.encode() not in body
    assert b"Look." in body
    assert (NO_SIGNATURE.encode() in body) == (then in {"google", "vertex"})


@pytest.mark.parametrize("name", ANSWERS)
def test_it_goes_back_to_the_one_it_came_from(name: str) -> None:
    assert SECRET.encode() in sent_to(name, answer_of(name).message)


@pytest.mark.parametrize("first", ANSWERS)
@pytest.mark.parametrize("then", ANSWERS)
def test_calls_and_results_have_the_same_ids(first: str, then: str) -> None:
    calls, results = calls_and_results(then, sent_to(then, answer_of(first).message))
    assert calls == results
    assert len(calls) == 2
    if then == "bedrock":
        assert len(set(calls)) == 2


@pytest.mark.parametrize(
    ("wire", "server"),
    [(GEMINI, GEMINI_SERVER), (BEDROCK, BEDROCK_SERVER), (OLLAMA, OLLAMA_SERVER)],
)
def test_a_long_answer_is_read_in_time(wire: Wire, server: Any) -> None:
    """Ten thousand words and a hundred calls: nothing grows with the square of their number."""
    calls = [ServedCall(str(n), "weather", '{"city":"Paris"}') for n in range(100)]
    reply = ServedReply("word " * 10_000, "", calls, None, answer_of("bedrock").finish)
    stream = server.stream(reply, ServedAsk())
    reader = wire.reader(None)
    for piece in (stream.opening, *stream.pieces, stream.closing):
        reader.feed(piece)
    assert reader.ended
    message = reader.reply().message
    assert len(message.tool_calls) == 100
    assert [part for part in message.parts if isinstance(part, Text)] == [Text("word " * 10_000)]
