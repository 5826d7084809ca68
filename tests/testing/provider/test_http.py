"""The HTTP that the provider speaks, byte by byte."""

import asyncio
from typing import Any

import pytest

from tests.testing.provider.plain import Line, answers, chat, converse, post, said
from vegakit.testing import Provider, ProviderReply, ProviderRequest, Script


def test_requests_that_arrive_together_are_answered_in_turn() -> None:
    """Both were sent before the first answer."""

    async def conversation(line: Line, _: Provider) -> None:
        line.writer.write(chat("one") + chat("two"))
        assert [said(await line.answer()), said(await line.answer())] == ["first", "second"]

    provider = converse(["first", "second"], conversation)
    assert [request.text for request in provider.requests] == ["one", "two"]


def test_a_request_may_arrive_while_another_is_answered() -> None:
    """It waits its turn, and does not look like a client that leaves."""

    async def conversation(line: Line, provider: Provider) -> None:
        line.writer.write(chat("wait:50"))
        await provider.wait_received()
        line.writer.write(chat("two"))
        await line.answer()
        await line.answer()

    provider = converse(None, conversation)
    assert [request.status for request in provider.requests] == ["answered", "answered"]


def test_a_request_may_arrive_byte_by_byte() -> None:
    """Nothing is answered before it is complete."""

    async def conversation(line: Line, provider: Provider) -> None:
        for byte in chat("hi"):
            assert not provider.requests
            line.writer.write(bytes([byte]))
            await line.writer.drain()
            await asyncio.sleep(0)
        assert said(await line.answer()) == "hello"

    converse("hello", conversation)


def test_a_client_may_ask_to_close() -> None:
    """The answer comes, then the end of the connection."""

    async def conversation(line: Line, _: Provider) -> None:
        line.writer.write(b"GET /v1/models HTTP/1.1\r\nConnection: close\r\n\r\n")
        assert (await line.answer())[0] == 200
        assert await line.reader.read() == b""

    converse(None, conversation)


def test_a_request_cut_off_is_no_request() -> None:
    """A client that leaves in the middle of its body is not in the log."""

    async def conversation(line: Line, _: Provider) -> None:
        line.writer.write(chat("hi")[:-1])
        line.writer.write_eof()
        assert await line.reader.read() == b""

    assert converse(None, conversation).requests == []


@pytest.mark.parametrize(
    ("request_", "status", "words"),
    [
        (b"HELO there\r\n\r\n", 400, "METHOD /path HTTP/1.1"),
        (b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400, "got '-1'"),
        (b"GET / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 413, "at most"),
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411, "chunked body"),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 70_000, 431, "headers of at most"),
        (b"GET /v2 HTTP/1.1\r\n\r\n", 404, "there is POST /v1/messages"),
        (post("/v1/messages", b"{"), 400, "does not fit"),
        (post("/v1/messages", {"messages": "hi"}), 400, "Expected `array`"),
        (post("/v1/responses", [1]), 400, "Expected `object`"),
    ],
)
def test_a_request_that_cannot_be_served_says_why(request_: bytes, status: int, words: str) -> None:
    """In JSON, with the status that fits."""
    ((code, _, body),) = answers(None, request_)
    assert code == status
    assert words in body["error"]["message"]


def test_tokens_are_counted_and_models_are_listed() -> None:
    """Enough for clients that ask before they begin; the log is for model calls only."""
    got = answers(
        None,
        post("/v1/messages/count_tokens", {"messages": []}),
        post("/v1/responses/input_tokens", {"input": "hi"}),
        b"GET /v1/models?limit=1 HTTP/1.1\r\n\r\n",
    )
    bodies = [body for _, _, body in got]
    assert [body.get("input_tokens") for body in bodies] == [4, 3, None]
    assert bodies[2]["data"][0]["id"] == "loopback"


def test_a_query_does_not_matter() -> None:
    """Clients of beta features send one."""
    ((status, headers, body),) = answers("hi", post("/v1/messages?beta=true", {"model": "m"}))
    assert (status, body["content"]) == (200, [{"type": "text", "text": "hi"}])
    assert headers["request-id"] == headers["x-request-id"] == "req_1"


def streamed(script: Script, **fields: Any) -> tuple[bytes, ProviderRequest]:
    """The bytes of a streamed answer, and its request in the log."""
    got: list[bytes] = []

    async def conversation(line: Line, _: Provider) -> None:
        line.writer.write(chat("hi", stream=True, **fields))
        got.append(await line.reader.readuntil(b"\r\n0\r\n\r\n"))

    (request,) = converse(script, conversation).requests
    return got[0], request


def test_a_chat_stream_tells_usage_only_if_asked() -> None:
    """In a chunk of its own, before the end."""
    asked, _ = streamed("hi", stream_options={"include_usage": True})
    assert asked.count(b'"usage"') == 1
    assert b'"usage"' not in streamed("hi")[0]


def test_a_stream_takes_its_time() -> None:
    """Before the first byte, and between each two pieces but not around them."""
    body, request = streamed(ProviderReply("a b c", delay_ms=40, gap_ms=30))
    assert body.count(b'"content":"') == 4
    assert request.ended_ms is not None
    assert 95 <= request.ended_ms - request.started_ms < 60_000
