"""How the official clients meet each failure, on each of the three wire formats."""

import asyncio
from typing import Any

import anthropic
import openai
import pytest

from tests.testing.provider.clients import CLIENTS, SDK_ERRORS, Client, talk
from vegakit.testing import Break, DropConnection, Failure, Hang, Provider, ProviderReply, Script

pytestmark = pytest.mark.parametrize("api", list(CLIENTS))
streamed = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])

STATUSES = {
    400: "BadRequestError",
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    429: "RateLimitError",
    500: "InternalServerError",
    503: "InternalServerError",
    529: "InternalServerError",
}


def sdk(api: str) -> Any:
    return anthropic if api == "anthropic" else openai


def failed(api: str, script: Script, *, stream: bool = False, **options: Any) -> tuple[Any, Any]:
    """The error that one question meets, and its request in the log."""
    errors: list[Any] = []

    async def conversation(client: Client, provider: Provider) -> None:
        with pytest.raises(SDK_ERRORS) as caught:
            await client.ask("hi", stream=stream)
        errors.append(caught.value)
        await provider.wait_ended()

    (request,) = talk(api, script, conversation, **options).requests
    return errors[0], request


@streamed
@pytest.mark.parametrize("status", STATUSES)
def test_a_status_is_the_clients_own_error(api: str, stream: bool, status: int) -> None:
    """The log counts one request for one failure."""
    error, request = failed(api, Failure(status), stream=stream)
    assert isinstance(error, getattr(sdk(api), STATUSES[status]))
    assert (error.status_code, request.code, request.status) == (status, status, "failed")


def test_an_error_has_the_providers_shape(api: str) -> None:
    """Message, type and code stand where each provider puts them."""
    error, _ = failed(api, Failure(429, "slow down"))
    body = error.body["error"] if api == "anthropic" else error.body
    assert body["message"] == "slow down"
    assert body["type"] == ("rate_limit_error" if api == "anthropic" else "requests")
    assert body.get("code") == (None if api == "anthropic" else "rate_limit_exceeded")


@pytest.mark.parametrize(("seconds", "header"), [(None, None), (1, "1"), (0.25, "0.25")])
def test_retry_after_is_a_header(api: str, seconds: float | None, header: str | None) -> None:
    """It is there only if it was scripted."""
    error, _ = failed(api, Failure(429, retry_after_s=seconds))
    assert error.response.headers.get("retry-after") == header


def test_an_empty_account_is_said_in_the_providers_way(api: str) -> None:
    """OpenAI has a code under 429, Anthropic only a wording under 400."""
    error, _ = failed(api, Failure("quota"))
    said = {
        "anthropic": (400, "credit balance is too low"),
        "chat": (429, "insufficient_quota"),
        "responses": (429, "insufficient_quota"),
    }
    status, words = said[api]
    assert error.status_code == status
    assert words in str(error.body)


def test_a_prompt_too_long_is_said_in_the_providers_way(api: str) -> None:
    """Both under 400: OpenAI with a code, Anthropic with a wording."""
    error, _ = failed(api, Failure("context_length"))
    assert error.status_code == 400
    words = "prompt is too long" if api == "anthropic" else "context_length_exceeded"
    assert words in str(error.body)


@streamed
def test_a_drop_comes_before_any_byte(api: str, stream: bool) -> None:
    """The client sees a lost connection, not a status."""
    error, request = failed(api, DropConnection(), stream=stream)
    assert isinstance(error, sdk(api).APIConnectionError)
    assert not isinstance(error, sdk(api).APITimeoutError)
    assert (request.status, request.code) == ("dropped", 0)


def listen(api: str, script: Script) -> tuple[list[Any], Any, Any]:
    """The events of a raw stream, the error that ended it if any, and its request in the log."""
    events: list[Any] = []
    errors: list[Any] = [None]

    async def conversation(client: Client, provider: Provider) -> None:
        try:
            async for event in await client.open("hi"):
                events.append(event)  # noqa: PERF401
        except SDK_ERRORS as error:
            errors.append(error)
        await provider.wait_ended()

    (request,) = talk(api, script, conversation).requests
    return events, errors[-1], request


@pytest.mark.parametrize("after", [0, 2, 9])
def test_a_stream_can_be_cut(api: str, after: int) -> None:
    """After so many pieces, or after all but the end."""
    reply = ProviderReply("uno due tre", breaks=Break(after, DropConnection()))
    events, error, request = listen(api, reply)
    assert error is not None
    assert not isinstance(error, anthropic.APIStatusError | openai.APIStatusError)
    assert (request.status, request.sent, request.code) == ("dropped", min(after, 3), 200)
    heard = [word for word in ("uno", "due", "tre") if word in str(events)]
    assert len(heard) == min(after, 3)


def test_an_error_can_stand_in_a_stream(api: str) -> None:
    """The status was 200 by then; the client raises, or hands an error event of Responses on."""
    reply = ProviderReply("uno due tre", breaks=Break(1, Failure(529, delay_ms=1)))
    events, error, request = listen(api, reply)
    assert "overloaded_error" in str(error.body if error else events[-1])
    assert (request.status, request.sent, request.code) == ("failed", 1, 200)
    assert "uno" in str(events)


def test_a_whole_answer_can_be_cut(api: str) -> None:
    """Half of its body arrives."""
    error, request = failed(api, ProviderReply("a b c", breaks=Break(0, DropConnection())))
    assert isinstance(error, sdk(api).APIConnectionError)
    assert (request.status, request.code) == ("dropped", 200)


def test_a_whole_answer_has_no_middle_to_fail_in(api: str) -> None:
    """The failure comes instead of it."""
    error, request = failed(api, ProviderReply("a b c", breaks=Break(1, Failure(503))))
    assert (error.status_code, request.code) == (503, 503)


@streamed
@pytest.mark.parametrize("silence", [Hang(), ProviderReply("a b", breaks=Break(1, Hang()))])
def test_silence_lasts_until_the_client_gives_up(api: str, stream: bool, silence: Script) -> None:
    """At the client's read timeout; the log says that it left."""
    error, request = failed(api, silence, stream=stream, timeout_s=0.2)
    assert "imeout" in type(error).__name__ + str(error)
    assert request.status == "disconnected"


@streamed
@pytest.mark.parametrize("answer", ["hang", "slow", "wait:60000"])
def test_a_client_that_leaves_is_noticed(api: str, stream: bool, answer: str) -> None:
    """Whatever the answer waits for, and not only when that has come."""
    if (answer, stream) == ("slow", False):
        answer = "stall"

    async def leave(client: Client, provider: Provider) -> None:
        call = asyncio.create_task(client.ask(answer, stream=stream))
        await provider.wait_received()
        call.cancel()
        await provider.wait_ended()

    (request,) = talk(api, None, leave).requests
    assert request.status == "disconnected"


def test_retries_of_a_client_are_counted(api: str) -> None:
    """Two retries are three requests with the same body; the third one succeeds."""

    async def persist(client: Client, _: Provider) -> None:
        assert (await client.ask("hi")).text == "Paris"

    script = [Failure(500, retry_after_s=0.01), Failure(529, retry_after_s=0.01), "Paris"]
    requests = talk(api, script, persist, max_retries=2).requests
    assert [r.attempt for r in requests] == [1, 2, 3]
    assert [r.status for r in requests] == ["failed", "failed", "answered"]
    assert [r.headers["x-stainless-retry-count"] for r in requests] == ["0", "1", "2"]
