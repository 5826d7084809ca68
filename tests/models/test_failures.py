"""Failures, by class and by how far the request had come."""

import asyncio
from itertools import product

import pytest

from tests.models.asking import (
    ANTHROPIC,
    BEDROCK,
    CHAT,
    KEY,
    RESPONSES,
    WIRES,
    access,
    answer,
    fail,
    request,
    talk,
)
from vegakit.conversation import ModelSettings, TextDelta
from vegakit.errors import BugError, ErrorClass, Phase, SettingsError, VegaError, WorldError
from vegakit.events import CallKind, CallTraced
from vegakit.host import Agent
from vegakit.ports import Model
from vegakit.providers import admitted, build_model
from vegakit.sdk import Runtime
from vegakit.telemetry import call_of, line_of
from vegakit.testing import Break, DropConnection, Failure, Hang, Provider, ProviderReply
from vegakit.wires import CHAT as CHAT_WIRE

wires = pytest.mark.parametrize("name", WIRES)
both_ways = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])

STATUSES = {
    400: ErrorClass.REJECTED,
    401: ErrorClass.AUTH,
    403: ErrorClass.AUTH,
    404: ErrorClass.REJECTED,
    409: ErrorClass.REJECTED,
    413: ErrorClass.REJECTED,
    429: ErrorClass.RATE_LIMIT,
    500: ErrorClass.SERVER,
    502: ErrorClass.SERVER,
    503: ErrorClass.UNAVAILABLE,
    529: ErrorClass.OVERLOADED,
}


def _world(error: VegaError) -> tuple[ErrorClass, Phase]:
    assert isinstance(error, WorldError)
    return error.error_class, error.phase


@pytest.mark.parametrize(
    ("name", "status", "stream"),
    [(name, status, bool(n % 2)) for n, (name, status) in enumerate(product(WIRES, STATUSES))],
)
def test_a_status_is_an_answer(name: str, status: int, stream: bool) -> None:
    """Each has its class, nothing of it is billed, and it is sent exactly once."""
    error, provider = fail(name, Failure(status), stream=stream)
    assert _world(error) == (STATUSES[status], Phase.ANSWERED)
    assert len(provider.requests) == 1


@wires
@pytest.mark.parametrize(
    ("cause", "kind"),
    [("quota", ErrorClass.QUOTA), ("context_length", ErrorClass.CONTEXT_LENGTH)],
)
def test_each_provider_has_its_own_words(name: str, cause: str, kind: ErrorClass) -> None:
    """For an empty account and for a prompt that is too long."""
    error, provider = fail(name, Failure(cause))  # pyright: ignore[reportArgumentType]
    assert _world(error) == (kind, Phase.ANSWERED)
    assert len(provider.requests) == 1


@wires
@both_ways
def test_the_wait_that_was_asked_for_is_kept(name: str, stream: bool) -> None:
    """In milliseconds."""
    error, _ = fail(name, Failure(429, retry_after_s=2), stream=stream)
    assert isinstance(error, WorldError)
    assert error.retry_after_ms == 2_000


@wires
@both_ways
def test_a_dropped_connection_may_be_billed(name: str, stream: bool) -> None:
    """It is not sent again."""
    error, provider = fail(name, DropConnection(), stream=stream)
    assert _world(error) == (ErrorClass.CONNECTION, Phase.UNKNOWN)
    assert len(provider.requests) == 1


@wires
@both_ways
def test_an_answer_that_breaks_off_may_be_billed(name: str, stream: bool) -> None:
    """In the middle of its body or of its stream."""
    error, _ = fail(
        name, ProviderReply("one two three", breaks=Break(1, DropConnection())), stream=stream
    )
    assert _world(error) == (ErrorClass.CONNECTION, Phase.UNKNOWN)


@pytest.mark.parametrize(
    ("name", "failure", "kind"),
    [
        (ANTHROPIC, Failure(529), ErrorClass.OVERLOADED),
        (CHAT, Failure(500), ErrorClass.SERVER),
        (RESPONSES, Failure(500), ErrorClass.SERVER),
    ],
)
def test_an_error_inside_a_stream_may_be_billed(
    name: str, failure: Failure, kind: ErrorClass
) -> None:
    """Though it is spelled like a status."""
    error, _ = fail(name, ProviderReply("one two three", breaks=Break(2, failure)), stream=True)
    assert _world(error) == (kind, Phase.UNKNOWN)


@wires
@both_ways
def test_silence_ends_at_the_timeout(name: str, stream: bool) -> None:
    """And may be billed."""
    asked = request(settings=ModelSettings(10, timeout_ms=1_000))
    error, provider = fail(name, Hang(), asked, stream=stream)
    assert _world(error) == (ErrorClass.TIMEOUT, Phase.UNKNOWN)
    assert len(provider.requests) == 1


@wires
def test_without_a_connection_nothing_was_sent(name: str) -> None:
    """So nothing is billed, and it may be sent again."""

    async def run() -> VegaError:
        async with Provider() as provider:
            url = provider.url
        model = build_model(name, access(url, name))
        with pytest.raises(WorldError) as caught:
            await answer(model, request(), stream=False)
        await model.aclose()
        return caught.value

    assert _world(asyncio.run(run())) == (ErrorClass.CONNECTION, Phase.NOTHING_SENT)


@wires
@both_ways
def test_what_the_gate_did_not_admit_is_not_sent(name: str, stream: bool) -> None:
    """It is a bug of ours, not the world's."""

    async def run() -> Provider:
        async with Provider() as provider:
            model = build_model(name, access(provider.url, name))
            going = anext(model.stream(request())) if stream else model.ask(request())
            with pytest.raises(BugError, match="around the gate"):
                await going
            await model.aclose()
        return provider

    assert asyncio.run(run()).requests == []


def test_a_library_that_would_send_again_by_itself_may_not() -> None:
    """One admission is one request: the second is refused and the first was answered."""
    stale = Failure(400, "The block is bound to a different conversation")
    error, provider = fail("anthropic:claude-sonnet-5-5", stale)
    assert _world(error) == (ErrorClass.REJECTED, Phase.ANSWERED)
    assert len(provider.requests) == 1


@wires
def test_a_message_holds_no_key(name: str) -> None:
    """Nor another header's value, even if the provider sends them back."""
    for status in (400, 401, 500):
        failure = Failure(status, f"bad key {KEY}, Bearer {KEY}, pass s3cret")
        error, _ = fail(name, failure, headers={"x-pass": "s3cret"})
        assert KEY not in str(error)
        assert "s3cret" not in str(error)
        assert error.__cause__ is None


def _missing() -> str:
    raise SettingsError("the variable OPENAI_API_KEY holds no key; set it in your shell")


@pytest.mark.parametrize("key", [_missing, lambda: ""])
def test_a_missing_key_names_its_variable(key: object) -> None:
    """Nothing is sent, so nothing is charged."""
    error, provider = fail(RESPONSES, "ok", key=key)
    assert _world(error) == (ErrorClass.AUTH, Phase.NOTHING_SENT)
    assert "OPENAI_API_KEY" in str(error)
    assert provider.requests == []


def test_a_filter_that_is_a_status_is_a_filter() -> None:
    """Some put it into the code of a 400."""
    body = b'{"error": {"message": "no", "code": "content_policy_violation"}}'
    assert CHAT_WIRE.failure(400, body).kind is ErrorClass.CONTENT_FILTER


@wires
def test_an_error_in_a_stream_comes_after_what_was_said(name: str) -> None:
    """The words before it are heard."""
    heard: list[object] = []

    async def conversation(model: Model, _: Provider) -> None:
        stream = model.stream(request())
        with admitted():
            heard.append(await anext(stream))
        with pytest.raises(WorldError):
            heard.extend([chunk async for chunk in stream])

    talk(name, ProviderReply("one two three", breaks=Break(2, DropConnection(20))), conversation)
    assert heard == [TextDelta("one ")]


NAMED = {ANTHROPIC: "request-id", RESPONSES: "x-request-id", BEDROCK: "x-amzn-requestid"}


@pytest.mark.parametrize(("name", "header"), NAMED.items(), ids=NAMED)
@both_ways
def test_an_error_names_the_request_as_its_provider_does(
    name: str, header: str, stream: bool
) -> None:
    """Support asks for it first. What does not look like a name is not shown."""
    error, _ = fail(name, Failure(500, headers={header: "req_011CSHoEeqs5"}), stream=stream)
    assert str(error).endswith("(request req_011CSHoEeqs5)")
    error, _ = fail(name, Failure(500, headers={header: "<b>evil</b> \x1b[31m"}), stream=stream)
    assert "evil" not in str(error)


def test_a_trace_names_the_request_as_its_provider_does() -> None:
    """Of an answer, too."""
    records: list[CallTraced] = []

    class Sink:
        def record(self, call: CallTraced) -> None:
            records.append(call)

        async def aclose(self) -> None:
            pass

    async def run() -> None:
        async with Provider("fine") as provider, Runtime(trace=Sink()) as rt:
            model = build_model(ANTHROPIC, access(provider.url))
            await rt.ask(Agent("a", model=model), "hi")
            await model.aclose()

    asyncio.run(run())
    [traced] = [call for call in records if call.kind is CallKind.MODEL]
    assert traced.request_id == "req_1"
    read = call_of(line_of(traced))
    assert read is not None
    assert read.request_id == "req_1"
