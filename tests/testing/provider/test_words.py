"""What each word of the last user message brings, without a server."""

import json
from typing import Any

import pytest

from tests.testing.provider.clients import CITY
from vegakit.conversation import Finish
from vegakit.testing.provider import Answer, Api, Break, Call, Drop, Failure, Hang, Reply
from vegakit.testing.provider.requests import read_request
from vegakit.testing.provider.words import answer_by_words

FIVE = "w0 w1 w2 w3 w4 "


def answer(text: str, *, attempt: int = 1, api: Api = Api.CHAT, **fields: Any) -> Answer:
    body = {"messages": [{"role": "user", "content": text}], **fields}
    return answer_by_words(read_request(1, api, json.dumps(body).encode(), {}, attempt, 0))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hello", Reply(FIVE)),
        ("please err:503 now", Failure(503, retry_after_s=1)),
        ("quota", Failure("quota")),
        ("ctx", Failure("context_length")),
        ("drop", Drop()),
        ("hang", Hang()),
        ("drop-mid", Reply(FIVE, breaks=Break(3, Drop()))),
        ("stall", Reply(FIVE, breaks=Break(3, Hang()))),
        ("stream-error", Reply(FIVE, breaks=Break(3, Failure(500)))),
        ("wait:70", Reply(FIVE, delay_ms=70)),
        ("refuse", Reply(finish=Finish.CONTENT_FILTER)),
        ("length no-usage", Reply(FIVE, finish=Finish.LENGTH, usage=None)),
        ("tools", Reply(FIVE)),
    ],
)
def test_a_word_chooses(text: str, expected: Answer) -> None:
    """Words can be combined, and stand anywhere in the text."""
    assert answer(text) == expected


@pytest.mark.parametrize("text", ["wait: what?", "err:", "xerr:500", "err:500x", "dropped", ""])
def test_words_that_only_look_alike_mean_nothing(text: str) -> None:
    """Ordinary prompts get the ordinary answer."""
    assert answer(text) == Reply(FIVE)


def test_slow_is_two_hundred_words() -> None:
    """Ten seconds, if nobody leaves before."""
    reply = answer("slow")
    assert isinstance(reply, Reply)
    assert (len(reply.text.split()), reply.gap_ms) == (200, 50)


def test_a_counted_error_ends() -> None:
    """The first two times this very request comes."""
    got = [answer("err:429:2", attempt=attempt) for attempt in (1, 2, 3)]
    assert got == [Failure(429, retry_after_s=1), Failure(429, retry_after_s=1), Reply(FIVE)]


def test_the_usual_error_in_a_stream_differs() -> None:
    """Anthropic says that it is overloaded."""
    assert answer("stream-error", api=Api.ANTHROPIC) == Reply(FIVE, breaks=Break(3, Failure(529)))


def tool(name: str) -> dict[str, Any]:
    return {"name": name, "parameters": CITY}


def test_tools_are_called_twice_in_parallel() -> None:
    """The only tool twice, with arguments that differ; of several the first two."""
    paris, london = {"city": "Paris"}, {"city": "London"}
    assert answer("tools", tools=[tool("a")]) == Reply(calls=[Call("a", paris), Call("a", london)])
    assert answer("tools", tools=[tool("a"), tool("b"), tool("c")]) == Reply(
        calls=[Call("a", paris), Call("b", london)]
    )


def test_tools_are_not_called_again_when_their_results_are_there() -> None:
    """Text follows; a new question begins anew."""
    asked, result = {"role": "user", "content": "tools"}, {"role": "tool", "content": "21"}
    assert answer("", tools=[tool("a")], messages=[asked, result]) == Reply(FIVE)
    again = answer("", tools=[tool("a")], messages=[asked, result, asked])
    assert isinstance(again, Reply)
    assert len(again.calls) == 2


def test_output_that_the_client_asks_for_is_made_up() -> None:
    """By a schema for text, or by a tool that must be called."""
    schema = {"json_schema": {"name": "x", "schema": CITY}}
    assert answer("hi", response_format=schema) == Reply(output={"city": "Paris"})
    assert answer("hi", tools=[tool("a"), tool("final_result")]) == Reply(output={"city": "Paris"})
    assert answer("tools", tools=[tool("a"), tool("final_result")]) == Reply(
        calls=[Call("a", {"city": "Paris"}), Call("a", {"city": "London"})]
    )
