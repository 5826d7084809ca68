"""Every other provider by way of pydantic-ai, tried with a format that the test provider speaks."""

import pytest

from tests.models.asking import KEY, WEATHER, ask, fail, request
from vegakit.conversation import Finish, Usage
from vegakit.errors import ErrorClass, Phase, SettingsError, WorldError
from vegakit.providers import ProviderAccess, build_model, provider_of
from vegakit.testing import Failure, ProviderReply, ProviderToolCall

NAME = "pydantic-ai:openai-chat:gpt-4o"


@pytest.mark.parametrize("stream", [False, True])
def test_it_answers_with_one_request(stream: bool) -> None:
    """With the key of the settings, and its usage."""
    reply, provider = ask(NAME, ProviderReply("yes", usage=Usage(12, 3)), stream=stream)
    assert (reply.message.text, reply.usage) == ("yes", Usage(12, 3))
    (sent,) = provider.requests
    assert sent.headers["authorization"] == f"Bearer {KEY}"


def test_it_calls_tools() -> None:
    """As the others do."""
    calls = ProviderReply(calls=[ProviderToolCall("get_weather", {"city": "Rome"})])
    reply, _ = ask(NAME, calls, request(tools=(WEATHER,)))
    assert reply.message.tool_calls[0].arguments == {"city": "Rome"}
    assert reply.finish is Finish.TOOL_CALLS


@pytest.mark.parametrize("stream", [False, True])
def test_it_fails_once_and_shows_no_key(stream: bool) -> None:
    """Retries of the library are refused: one admission is one request."""
    error, provider = fail(NAME, Failure(529, f"busy {KEY}"), stream=stream)
    assert isinstance(error, WorldError)
    assert (error.error_class, error.phase) == (ErrorClass.OVERLOADED, Phase.ANSWERED)
    assert len(provider.requests) == 1
    assert KEY not in str(error)


def test_its_key_is_that_of_the_provider_within() -> None:
    """Settings and variables are looked up by it."""
    assert provider_of("pydantic-ai:groq:llama-3.3-70b") == "groq"


def test_a_provider_that_nobody_knows_is_refused() -> None:
    """Before anything is sent."""
    with pytest.raises(SettingsError, match="pydantic-ai cannot build"):
        build_model("pydantic-ai:nobody:m", ProviderAccess(lambda: "k"))
