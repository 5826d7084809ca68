"""Errors of OpenAI's two formats, by the classes that pydantic-ai has for them; and what the server
end of the formats says, heard by the official SDK."""

import json
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from tests.wires.openai_chat_streams import chunk, line
from tests.wires.openai_oracle import class_of, heard, sdk_answer
from tests.wires.openai_requests import REQUESTS
from tests.wires.openai_responses_streams import BEGUN, event, response
from vegakit.conversation import (
    AssistantMessage,
    Finish,
    ModelReply,
    Opaque,
    Text,
    ToolCall,
    Usage,
)
from vegakit.errors import ErrorClass, WorldError
from vegakit.testing import Failure
from vegakit.wires import (
    CHAT,
    CHAT_SERVER,
    RESPONSES,
    RESPONSES_SERVER,
    AskForm,
    ServedCall,
    ServedReply,
    Wire,
    WireServer,
)

STATUSES = (400, 401, 402, 403, 404, 429, 500, 503, 529)
MORE_STATUSES = (409, 413, 422, 502)
FLAGGED = {"error": {"message": "Flagged.", "code": 403, "metadata": {"flagged_input": "…"}}}
BODIES: tuple[Any, ...] = (
    {"error": {"message": "No.", "type": "invalid_request_error", "param": None, "code": None}},
    {"error": {"message": "No.", "type": "insufficient_quota", "code": "insufficient_quota"}},
    {"error": {"message": "No.", "type": "x", "code": "billing_hard_limit_reached"}},
    {"error": {"message": "No.", "code": "context_length_exceeded"}},
    {"error": {"message": "This model's maximum context length is 8 tokens.", "code": 400}},
    {"error": {"message": "No.", "code": "content_filter"}},
    {"error": {"message": "No.", "code": "content_policy_violation"}},
    {"error": {"message": "No.", "code": "model_not_found"}},
    {"error": {"message": "No.", "code": "invalid_api_key"}},
    {"error": {"message": "No.", "type": "overloaded_error"}},
    {"error": {"message": "The server is currently overloaded.", "code": None}},
    FLAGGED,
    {"object": "error", "message": "No.", "type": "BadRequestError", "code": 400},
    {"error": "No."},
    {"detail": "No."},
    "No.",
)


def _by_library(wire: Wire, body: bytes, status: int, *, stream: bool = False) -> ErrorClass:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        heard(wire, REQUESTS["plain"], AskForm(stream=stream), body, status)
    return class_of(caught.value)


@pytest.mark.parametrize("status", STATUSES + MORE_STATUSES)
def test_an_error_is_of_the_class_that_the_library_has(status: int) -> None:
    """By status, code, type and words."""
    for body in BODIES if status in STATUSES else BODIES[:1]:
        content = json.dumps(body).encode()
        assert CHAT.failure(status, content).kind == _by_library(CHAT, content, status), body


@pytest.mark.parametrize("status", [408, 504])
def test_a_timeout_of_the_server_is_one(status: int) -> None:
    """Which the library does not tell from other errors."""
    assert CHAT.failure(status, b"{}").kind is ErrorClass.TIMEOUT


IN_STREAMS = [body for body in BODIES if isinstance(body, dict) and "error" in body]


@pytest.mark.parametrize("body", [body for body in IN_STREAMS if body is not FLAGGED])
def test_an_error_in_a_stream_is_of_the_class_that_the_library_has(body: Any) -> None:
    """It comes without a status. Of input that is not fit, the library blames the key here."""
    for wire, begun in ((CHAT, chunk({"content": "a"})), (RESPONSES, BEGUN)):
        content = (begun + line(body)).encode()
        reader = wire.reader(None)
        reader.feed(content)
        assert reader.failure
        assert reader.failure.kind == _by_library(wire, content, 200, stream=True), body


CODES = (
    "server_error rate_limit_exceeded invalid_prompt insufficient_quota content_filter "
    "context_length_exceeded server_is_overloaded vector_store_timeout"
).split()


@pytest.mark.parametrize("code", CODES)
def test_a_response_that_failed_is_of_the_class_that_the_library_has(code: str) -> None:
    """Whole, as the end of a stream, and as an event of its own."""
    error = {"code": code, "message": "No."}
    ended = response(status="failed", error=error)
    with pytest.raises(WorldError) as caught:
        RESPONSES.decode(json.dumps(ended).encode(), None)
    expected = _by_library(RESPONSES, json.dumps(ended).encode(), 200)
    assert caught.value.error_class == expected
    for content in (event("response.failed", response=ended), event("error", **error)):
        streamed = (BEGUN + content).encode()
        reader = RESPONSES.reader(None)
        reader.feed(streamed)
        assert reader.failure
        assert reader.failure.kind == _by_library(RESPONSES, streamed, 200, stream=True)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error": {"message": "No."}}', "No."),
        (b'{"error": "No."}', "No."),
        (b'{"message": "No."}', "No."),
        (b"<html>Bad gateway</html>", "<html>Bad gateway</html>"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"", ""),
        (b'{"error": [1]}', '{"error": [1]}'),
        (b'{"error": {"message": [1]}}', '{"error": {"message": [1]}}'),
    ],
)
def test_an_error_is_told_in_the_words_of_the_provider(body: bytes, message: str) -> None:
    """Or by the beginning of its body."""
    assert CHAT.failure(400, body).message == message


# The other end.


class Served(Struct):
    n: int = 7
    model: str = "gpt-4o"
    started_ms: int = 1761000000000
    stream_usage: bool = True
    sent: int = 2


PAIRS = [(CHAT, CHAT_SERVER), (RESPONSES, RESPONSES_SERVER)]
both = pytest.mark.parametrize(("wire", "server"), PAIRS, ids=["chat", "responses"])
CALLS = [ServedCall("7_0", "f", '{"a":1}'), ServedCall("7_1", "g", "{}")]
REPLIES: dict[str, ServedReply] = {
    "text": ServedReply("one two", "", [], Usage(9, 2, 4), Finish.STOP),
    "calls": ServedReply("", "", CALLS, Usage(9, 2), Finish.TOOL_CALLS),
    "text and calls": ServedReply("one two", "", CALLS, Usage(9, 2), Finish.TOOL_CALLS),
    "refusal": ServedReply("", "I will not.", [], Usage(9, 2), Finish.STOP),
    "length": ServedReply("half of", "", [], None, Finish.LENGTH),
    "filter": ServedReply("half of", "", [], Usage(9, 2), Finish.CONTENT_FILTER),
}


def _expected(wire: Wire, served: ServedReply) -> ModelReply:
    """The same reply in our records, with the ids that Responses wants back."""
    items = wire is RESPONSES

    def kept(value: dict[str, Any]) -> Opaque | None:
        return Opaque("openai", value) if items else None

    if served.refusal:
        said = AssistantMessage((Text(served.refusal),), "gpt-4o")
        return ModelReply(said, served.usage, Finish.CONTENT_FILTER)
    texts = (Text(served.text),) if served.text else ()
    calls = tuple(
        ToolCall(
            f"call_{each.ref}",
            each.name,
            json.loads(each.arguments),
            kept({"id": f"fc_{each.ref}"}),
        )
        for each in served.calls
    )
    opaque = kept({"texts": [{"id": "msg_7"}]}) if texts else None
    said = AssistantMessage((*texts, *calls), "gpt-4o", opaque)
    return ModelReply(said, served.usage, served.finish)


@both
@pytest.mark.parametrize("label", REPLIES)
def test_what_the_server_says_the_sdk_reads(wire: Wire, server: WireServer, label: str) -> None:
    """Whole and streamed alike, and so do we, from the bytes and from what the SDK read."""
    expected = _expected(wire, REPLIES[label])
    body = msgspec.json.encode(server.whole(REPLIES[label], Served()))
    opening, pieces, closing = server.stream(REPLIES[label], Served())
    streamed = b"".join([opening, *pieces, closing])
    reader = wire.reader(None)
    reader.feed(streamed)
    assert reader.ended
    assert wire.decode(body, None) == reader.reply() == expected
    for stream, content in ((False, body), (True, streamed)):
        by_sdk = sdk_answer(wire, content, stream=stream)
        assert wire.decode(json.dumps(by_sdk).encode(), None) == expected


@both
@pytest.mark.parametrize("cause", [400, 401, 429, 500, 503, 529, "quota", "context_length"])
def test_what_the_server_fails_with_the_library_knows(
    wire: Wire, server: WireServer, cause: Any
) -> None:
    """As a status and inside a stream."""
    told = server.error_of(Failure(cause))
    content = msgspec.json.encode(told.body)
    assert wire.failure(told.status, content).kind == _by_library(wire, content, told.status)
    broken = server.broken(Failure(cause), Served())
    reader = wire.reader(None)
    reader.feed(broken)
    assert reader.failure
    assert reader.failure.message == told.message
    assert reader.failure.kind == _by_library(wire, broken, 200, stream=True)
