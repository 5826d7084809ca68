"""What the official clients hear, over real sockets, on each of the three wire formats."""

from typing import Any

import pytest

from tests.testing.provider.clients import CLIENTS, Client, ask, talk
from vegakit.conversation import Finish, Usage
from vegakit.testing import Provider, ProviderReply, ProviderToolCall

APIS = list(CLIENTS)
pytestmark = [
    pytest.mark.parametrize("api", APIS),
    pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"]),
]

FINISHES = {
    "anthropic": ["end_turn", "max_tokens", "tool_use", "refusal"],
    "chat": ["stop", "length", "tool_calls", "content_filter"],
    "responses": ["completed", "max_output_tokens", "completed", "content_filter"],
}


def test_text_arrives_as_it_was_scripted(api: str, stream: bool) -> None:
    """Blanks, line ends and letters beyond ASCII are the same, in pieces or not."""
    text = "  Zwölf Boxkämpfer\n\njagen  Viktor. \t"
    assert ask(api, text, stream=stream).text == text


def test_parallel_calls_arrive_in_their_order(api: str, stream: bool) -> None:
    """Two calls of one tool and one of another, with text before them."""
    calls = [("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Rome"}), ("stop", {})]
    reply = ProviderReply(
        "Let me look.", calls=[ProviderToolCall(name, arguments) for name, arguments in calls]
    )
    heard = ask(api, reply, tools=True, stream=stream)
    assert (heard.text, heard.calls) == ("Let me look.", calls)
    assert heard.finish == FINISHES[api][2]


@pytest.mark.parametrize("finish", list(Finish))
def test_a_finish_has_each_providers_word(api: str, stream: bool, finish: Finish) -> None:
    """Also when nothing was said."""
    heard = ask(api, ProviderReply(finish=finish), stream=stream)
    assert heard.finish == FINISHES[api][list(Finish).index(finish)]
    assert heard.text == ""


def test_a_refusal_says_why(api: str, stream: bool) -> None:
    """OpenAI has a field for it and ends as usual; Anthropic has a stop reason with details."""
    heard = ask(api, ProviderReply(refusal="I will not do that."), stream=stream)
    assert (heard.text, heard.refusal) == ("", "I will not do that.")
    assert heard.finish in {"refusal", "stop", "completed"}


def test_usage_is_what_was_scripted(api: str, stream: bool) -> None:
    """Cached tokens are part of the input, however the provider splits them."""
    usage = Usage(170, 30, cache_read_tokens=50, cache_write_tokens=20)
    assert ask(api, ProviderReply("hi", usage=usage), stream=stream).tokens == (170, 30)


def test_usage_not_scripted_grows_with_the_text(api: str, stream: bool) -> None:
    """About four characters a token."""
    short, long = ask(api, "a" * 40, "hi", stream=stream), ask(api, "a" * 80, "h" * 400)
    assert short.tokens == (1, 11)
    assert long.tokens == (101, 21)


def test_usage_may_be_missing(api: str, stream: bool) -> None:
    """As with servers that only look like the real ones."""
    events: list[Any] = []

    async def listen(client: Client, _: Provider) -> None:
        if stream:
            events.extend([event async for event in await client.open("hi")])
        else:
            events.append(await client.ask("hi"))

    talk(api, ProviderReply("hi", usage=None), listen)
    assert all(getattr(event, "usage", None) is None for event in events)
    assert all(getattr(event, "tokens", None) is None for event in events)


def test_output_is_text_unless_the_client_has_a_tool_for_it(api: str, stream: bool) -> None:
    """The tools that a client merely offers are not for output."""
    heard = ask(api, ProviderReply(output={"city": "Paris"}), tools=True, stream=stream)
    assert (heard.text, heard.calls) == ('{"city":"Paris"}', [])


def test_the_log_tells_what_was_asked(api: str, stream: bool) -> None:
    """With the headers and the body as they came."""

    async def once(client: Client, _: Provider) -> None:
        await client.ask("What is the capital of France?", stream=stream)

    (request,) = talk(api, "Paris it is", once).requests
    assert (request.api, request.text) == (api, "What is the capital of France?")
    assert (request.stream, request.sent) == (stream, 3 * stream)
    assert (request.status, request.code, request.attempt) == ("answered", 200, 1)
    assert request.body["model"] == request.model
    assert "sk-canary" in str(request.headers)
    assert request.ended_ms is not None
    assert request.ended_ms >= request.started_ms
