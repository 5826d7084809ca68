"""What each word of the last user message brings, without a server."""

import json
from typing import Any

import pytest

from tests.testing.provider.clients import CITY
from vegakit.conversation import Finish
from vegakit.testing import (
    Api,
    Break,
    DropConnection,
    Failure,
    Hang,
    ProviderAnswer,
    ProviderReply,
    ProviderToolCall,
)
from vegakit.testing.provider.script import Route, default_answer, read_request

FIVE = "w0 w1 w2 w3 w4 "


def answer(text: str, *, attempt: int = 1, api: Api = Api.CHAT, **fields: Any) -> ProviderAnswer:
    body = {"messages": [{"role": "user", "content": text}], **fields}
    return default_answer(read_request(1, Route(api), json.dumps(body).encode(), {}, attempt, 0))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hello", ProviderReply(FIVE)),
        ("please err:503 now", Failure(503, retry_after_s=1)),
        ("quota", Failure("quota")),
        ("ctx", Failure("context_length")),
        ("drop", DropConnection()),
        ("hang", Hang()),
        ("drop-mid", ProviderReply(FIVE, breaks=Break(3, DropConnection()))),
        ("stall", ProviderReply(FIVE, breaks=Break(3, Hang()))),
        ("stream-error", ProviderReply(FIVE, breaks=Break(3, Failure(500)))),
        ("wait:70", ProviderReply(FIVE, delay_ms=70)),
        ("refuse", ProviderReply(finish=Finish.CONTENT_FILTER)),
        ("length no-usage", ProviderReply(FIVE, finish=Finish.LENGTH, usage=None)),
        ("tools", ProviderReply(FIVE)),
    ],
)
def test_a_word_chooses(text: str, expected: ProviderAnswer) -> None:
    """Words can be combined, and stand anywhere in the text."""
    assert answer(text) == expected


@pytest.mark.parametrize("text", ["wait: what?", "err:", "xerr:500", "err:500x", "dropped", ""])
def test_words_that_only_look_alike_mean_nothing(text: str) -> None:
    """Ordinary prompts get the ordinary answer."""
    assert answer(text) == ProviderReply(FIVE)


def test_slow_is_two_hundred_words() -> None:
    """Ten seconds, if nobody leaves before."""
    reply = answer("slow")
    assert isinstance(reply, ProviderReply)
    assert (len(reply.text.split()), reply.gap_ms) == (200, 50)


def test_a_counted_error_ends() -> None:
    """The first two times this very request comes."""
    got = [answer("err:429:2", attempt=attempt) for attempt in (1, 2, 3)]
    assert got == [
        Failure(429, retry_after_s=1),
        Failure(429, retry_after_s=1),
        ProviderReply(FIVE),
    ]


def test_the_usual_error_in_a_stream_differs() -> None:
    """Anthropic says that it is overloaded."""
    assert answer("stream-error", api=Api.ANTHROPIC) == ProviderReply(
        FIVE, breaks=Break(3, Failure(529))
    )


def tool(name: str) -> dict[str, Any]:
    return {"name": name, "parameters": CITY}


def test_tools_are_called_twice_in_parallel() -> None:
    """The only tool twice, with arguments that differ; of several the first two."""
    paris, london = {"city": "Paris"}, {"city": "London"}
    assert answer("tools", tools=[tool("a")]) == ProviderReply(
        calls=[ProviderToolCall("a", paris), ProviderToolCall("a", london)]
    )
    assert answer("tools", tools=[tool("a"), tool("b"), tool("c")]) == ProviderReply(
        calls=[ProviderToolCall("a", paris), ProviderToolCall("b", london)]
    )


def test_tools_are_not_called_again_when_their_results_are_there() -> None:
    """Text follows; a new question begins anew."""
    asked, result = {"role": "user", "content": "tools"}, {"role": "tool", "content": "21"}
    assert answer("", tools=[tool("a")], messages=[asked, result]) == ProviderReply(FIVE)
    again = answer("", tools=[tool("a")], messages=[asked, result, asked])
    assert isinstance(again, ProviderReply)
    assert len(again.calls) == 2


def test_output_that_the_client_asks_for_is_made_up() -> None:
    """By a schema for text, or by a tool that must be called."""
    schema = {"json_schema": {"name": "x", "schema": CITY}}
    assert answer("hi", response_format=schema) == ProviderReply(output={"city": "Paris"})
    assert answer("hi", tools=[tool("a"), tool("final_result")]) == ProviderReply(
        output={"city": "Paris"}
    )
    assert answer("tools", tools=[tool("a"), tool("final_result")]) == ProviderReply(
        calls=[ProviderToolCall("a", {"city": "Paris"}), ProviderToolCall("a", {"city": "London"})]
    )
