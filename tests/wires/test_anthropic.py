"""Anthropic Messages beside the official SDK and pydantic-ai: the same requests, the same bytes."""

import asyncio
import json
from typing import Any

import anthropic
import pytest
from msgspec import Struct
from pydantic_ai import exceptions as theirs

from tests.wires.anthropic_oracles import (
    as_reply,
    failed_by_pydantic_ai,
    read_by_sdk,
    read_whole_by_sdk,
    sent_by_pydantic_ai,
    sent_by_sdk,
)
from tests.wires.anthropic_requests import REQUESTS, ask, user
from tests.wires.anthropic_streams import (
    OVERLOADED,
    begin,
    end,
    event,
    heard,
    text,
)
from vegakit.conversation import (
    AssistantMessage,
    Finish,
    Media,
    ModelReply,
    Text,
    TextDelta,
    ToolCall,
    Usage,
)
from vegakit.errors import ErrorClass, UserError
from vegakit.records import to_json
from vegakit.wires import (
    ANTHROPIC,
    ANTHROPIC_SERVER,
    AskForm,
    ModelFeatures,
    ServedCall,
    ServedReply,
)

both_ways = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


# Requests.


@both_ways
@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.filterwarnings("ignore:The model:DeprecationWarning")
def test_a_body_is_what_the_libraries_send(name: str, stream: bool) -> None:
    """JSON for JSON, as pydantic-ai and as the bare SDK put it on the wire."""
    asked = REQUESTS[name]
    ours: Any = json.loads(ANTHROPIC.encode(asked.request, asked.form(stream=stream)))
    assert ours == asyncio.run(sent_by_pydantic_ai(asked.request, stream=stream))
    assert ours == asyncio.run(sent_by_sdk(dict(ours)))


def test_a_request_does_not_change_what_it_is_made_of() -> None:
    """The schemas of tools and answers are read, not written to."""
    asked = REQUESTS["rich output"].request
    before = to_json(asked)
    ANTHROPIC.encode(asked, AskForm())
    assert to_json(asked) == before


def _body(form: AskForm, **changes: Any) -> dict[str, Any]:
    return json.loads(ANTHROPIC.encode(ask(user("Hi"), **changes).request, form))


def test_fields_of_the_form_are_added() -> None:
    """Over ours; an object joins ours of the same name."""
    output = REQUESTS["output"].request.output
    fields = {"service_tier": "standard_only", "output_config": {"effort": "low"}}
    body = _body(AskForm(fields=fields), output=output)
    assert body["service_tier"] == "standard_only"
    assert body["output_config"].keys() == {"format", "effort"}
    assert _body(AskForm(fields={"max_tokens": 7}))["max_tokens"] == 7


def test_nothing_is_cached_unless_the_form_asks_for_it() -> None:
    """Writing to a cache costs more than input does."""
    tools = REQUESTS["tools"].request.tools
    assert "cache_control" not in str(_body(AskForm(), tools=tools, system="Be kind."))
    fields = {"cache_control": {"type": "ephemeral"}}
    assert _body(AskForm(fields=fields))["cache_control"] == {"type": "ephemeral"}


def test_the_place_and_the_version_are_fixed() -> None:
    """Under a newer version the temperature would be refused."""
    assert {ANTHROPIC.target("claude-x", stream) for stream in (False, True)} == {"/v1/messages"}
    assert ANTHROPIC.headers == ((b"anthropic-version", b"2023-06-01"),)
    assert (ANTHROPIC.name, ANTHROPIC.request_id) == ("anthropic", "request-id")


def test_a_file_that_is_no_image_is_not_sent() -> None:
    """What it costs is not known."""
    with pytest.raises(UserError, match="application/pdf"):
        ANTHROPIC.encode(ask(user(Media("application/pdf", b"%PDF"))).request, AskForm())


def test_a_model_without_temperature_is_sent_none() -> None:
    """It would refuse the request."""
    for taken in (True, False):
        form = AskForm(ModelFeatures(temperature=taken))
        assert ("temperature" in _body(form, temperature=0.0)) is taken


# Failures.


_CLASSES: tuple[tuple[type[Exception], ErrorClass], ...] = (
    (theirs.ModelContextWindowExceededError, ErrorClass.CONTEXT_LENGTH),
    (theirs.ModelAuthenticationError, ErrorClass.AUTH),
    (theirs.ModelQuotaExceededError, ErrorClass.QUOTA),
    (theirs.ModelRateLimitError, ErrorClass.RATE_LIMIT),
    (theirs.ModelOverloadedError, ErrorClass.OVERLOADED),
    (theirs.ModelUnavailableError, ErrorClass.UNAVAILABLE),
    (theirs.ModelServerError, ErrorClass.SERVER),
    (theirs.ModelHTTPError, ErrorClass.REJECTED),
    (Exception, ErrorClass.SERVER),
)


def _error(kind: str, message: str = "words") -> bytes:
    return json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()


_KINDS = (
    "invalid_request_error authentication_error billing_error permission_error not_found_error "
    "request_too_large rate_limit_error api_error overloaded_error new_error"
).split()
_BODIES = {
    **{kind: _error(kind) for kind in _KINDS},
    "too long": _error("invalid_request_error", "Prompt is too long: 250000 > 200000"),
    "too long, api_error": _error("api_error", "prompt is too long"),
    "no money": _error("invalid_request_error", "Your credit balance is too low to access"),
    "over capacity": _error("api_error", "We are over capacity"),
    "overloaded": _error("api_error", "Currently overloaded."),
    "no JSON": b"<html>Bad Gateway</html>",
    "empty": b"",
    "other JSON": b'{"detail": "no"}',
    "a list": b"[1]",
    "an error that is a text": b'{"error": "no"}',
}


@pytest.mark.parametrize(
    "status", [400, 401, 402, 403, 404, 409, 413, 422, 429, 500, 502, 503, 529]
)
def test_a_failure_has_the_class_that_pydantic_ai_gives_it(status: int) -> None:
    """For every type of error under every status."""
    for label, body in _BODIES.items():
        error = asyncio.run(failed_by_pydantic_ai(status, body))
        expected = next(ours for kind, ours in _CLASSES if isinstance(error, kind))
        assert (label, ANTHROPIC.failure(status, body).kind) == (label, expected)


@pytest.mark.parametrize("kind", [*_KINDS, "prompt is too long", "credit balance is too low"])
def test_a_failure_inside_a_stream_has_the_same_class(kind: str) -> None:
    """Though it comes with no status of its own."""
    spelled = (kind, "words") if kind in _KINDS else ("invalid_request_error", kind)
    failed = event("error", error=dict(zip(("type", "message"), spelled, strict=True)))
    stream = begin() + text(0, "Hel") + failed
    error = asyncio.run(failed_by_pydantic_ai(200, stream, stream=True))
    expected = next(ours for theirs, ours in _CLASSES if isinstance(error, theirs))
    chunks, failure = heard(stream + text(1, "lo") + end("end_turn"))
    assert (failure.kind, failure.message) == (expected, spelled[1])
    assert chunks == [TextDelta("Hel")]


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (408, _error("invalid_request_error"), ErrorClass.TIMEOUT),
        (504, _error("timeout_error"), ErrorClass.TIMEOUT),
        (413, _error("request_too_large"), ErrorClass.REJECTED),
        (
            400,
            _error(
                "invalid_request_error",
                "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
            ),
            ErrorClass.CONTEXT_LENGTH,
        ),
    ],
)
def test_some_failures_are_told_better(status: int, body: bytes, kind: ErrorClass) -> None:
    """Where the library has no class of its own for them."""
    assert ANTHROPIC.failure(status, body).kind is kind
    stream = b"event: error\ndata: " + body + b"\n\n"
    if status != 408:
        assert heard(stream)[1].kind is kind


def test_a_failure_keeps_the_providers_words() -> None:
    """Or shows the body, or at least the status."""
    assert ANTHROPIC.failure(400, _error("x", "Bad thing.")).message == "Bad thing."
    assert ANTHROPIC.failure(502, b"<html>").message == "<html>"
    assert ANTHROPIC.failure(502, b"").message == "HTTP status 502"
    assert heard(b"event: error\ndata: oops\n\n")[1].message == "oops"
    assert heard(OVERLOADED)[1].kind is ErrorClass.OVERLOADED


# The server's end, with the official SDK as its client.


class Served(Struct):
    n: int = 3
    model: str = "claude-test"
    started_ms: int = 0
    stream_usage: bool = True
    sent: int = 0


class Failing(Struct):
    cause: int | str
    message: str = ""


_USED = Usage(170, 30, 50, 20)
_CALLS = [ServedCall("3_0", "get_weather", '{"city":"Rōma"}'), ServedCall("3_1", "stop", "{}")]
_SERVED = {
    "text": ServedReply("  Zwölf Boxkämpfer\n\njagen  Viktor. \t", "", [], _USED, Finish.STOP),
    "empty": ServedReply("", "", [], _USED, Finish.STOP),
    "calls": ServedReply("Let me look.", "", _CALLS, _USED, Finish.TOOL_CALLS),
    "refusal": ServedReply("", "I will not.", [], _USED, Finish.CONTENT_FILTER),
    "length": ServedReply("half", "", [], _USED, Finish.LENGTH),
}


def _served_bytes(reply: ServedReply, *, stream: bool) -> bytes:
    if not stream:
        return to_json(ANTHROPIC_SERVER.whole(reply, Served()))
    streamed = ANTHROPIC_SERVER.stream(reply, Served())
    return b"".join([streamed.opening, *streamed.pieces, streamed.closing])


@both_ways
@pytest.mark.parametrize("name", _SERVED)
def test_the_sdk_and_we_hear_what_is_served(name: str, stream: bool) -> None:
    """The same parts, tokens and end."""
    served = _SERVED[name]
    given = _served_bytes(served, stream=stream)
    theirs = asyncio.run(read_by_sdk(given) if stream else read_whole_by_sdk(given))
    ours = heard(given)[1] if stream else ANTHROPIC.decode(given, None)
    assert ours == as_reply(theirs)
    calls = [ToolCall(f"toolu_{c.ref}", c.name, json.loads(c.arguments)) for c in served.calls]
    spoken = [Text(served.text or served.refusal)] if served.text or served.refusal else []
    message = AssistantMessage((*spoken, *calls), "claude-test")
    assert ours == ModelReply(message, _USED, served.finish)


@both_ways
def test_usage_need_not_be_served(stream: bool) -> None:
    """As with servers that only look like the real ones."""
    given = _served_bytes(ServedReply("hi", "", [], None, Finish.STOP), stream=stream)
    reply = heard(given)[1] if stream else ANTHROPIC.decode(given, None)
    assert (reply.message.text, reply.usage) == ("hi", None)


def test_a_served_stream_comes_in_pieces() -> None:
    """A word each, and a call in halves: so breaks fall between them."""
    pieces = ANTHROPIC_SERVER.stream(_SERVED["calls"], Served()).pieces
    assert len(pieces) == 3 + 2 * len(_CALLS)
    assert ANTHROPIC_SERVER.content_type == "text/event-stream"


@pytest.mark.parametrize(
    ("cause", "sdk_error", "kind"),
    [
        (400, anthropic.BadRequestError, ErrorClass.REJECTED),
        (401, anthropic.AuthenticationError, ErrorClass.AUTH),
        (402, anthropic.APIStatusError, ErrorClass.QUOTA),
        (403, anthropic.PermissionDeniedError, ErrorClass.AUTH),
        (404, anthropic.NotFoundError, ErrorClass.REJECTED),
        (413, anthropic.APIStatusError, ErrorClass.REJECTED),
        (429, anthropic.RateLimitError, ErrorClass.RATE_LIMIT),
        (500, anthropic.InternalServerError, ErrorClass.SERVER),
        (503, anthropic.InternalServerError, ErrorClass.UNAVAILABLE),
        (504, anthropic.InternalServerError, ErrorClass.TIMEOUT),
        (529, anthropic.InternalServerError, ErrorClass.OVERLOADED),
        ("quota", anthropic.BadRequestError, ErrorClass.QUOTA),
        ("context_length", anthropic.BadRequestError, ErrorClass.CONTEXT_LENGTH),
    ],
)
def test_a_served_failure_is_understood(
    cause: int | str, sdk_error: type[anthropic.APIStatusError], kind: ErrorClass
) -> None:
    """By the SDK and by us, as an answer; the scripted words go with it."""
    error = ANTHROPIC_SERVER.error_of(Failing(cause))
    body = to_json(error.body)
    with pytest.raises(sdk_error) as caught:
        asyncio.run(read_whole_by_sdk(body, error.status))
    assert caught.value.status_code == error.status
    assert ANTHROPIC.failure(error.status, body).kind is kind
    assert ANTHROPIC_SERVER.error_of(Failing(500, "As told.")).message == "As told."


def test_a_served_stream_breaks_with_an_error() -> None:
    """Which the SDK raises, and which ends ours."""
    streamed = ANTHROPIC_SERVER.stream(_SERVED["text"], Served())
    broken = streamed.opening + streamed.pieces[0]
    broken += ANTHROPIC_SERVER.broken(Failing(529), Served())
    with pytest.raises(anthropic.APIStatusError):
        asyncio.run(read_by_sdk(broken))
    chunks, failure = heard(broken)
    assert failure.kind is ErrorClass.OVERLOADED
    assert len(chunks) == 1
