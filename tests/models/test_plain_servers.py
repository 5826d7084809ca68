"""Servers that speak HTTP as simply as they may: the end of the connection ends an answer."""

import asyncio
from typing import Any

import pytest

from tests.models.asking import (
    ANTHROPIC,
    CHAT,
    GEMINI,
    KEY,
    access,
    answer,
    ask as ask_provider,
    request,
)
from tests.models.transport.servers import Peer, serving
from vegakit.conversation import ModelReply
from vegakit.errors import ErrorClass, Phase, WorldError
from vegakit.providers import build_model

HEAD = b"HTTP/1.1 %d said\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
CHUNK = b'data: {"model":"m","choices":[{"index":0,"delta":{"content":"yes"}}]}\n\n'
STOP = b'data: {"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"


def ask(
    said: bytes, name: str = CHAT, *, stream: bool = True, **changes: Any
) -> ModelReply | WorldError:
    """What comes of one call to a server that says these bytes and closes the connection."""

    async def script(peer: Peer) -> None:
        await peer.answer(said)

    async def run() -> ModelReply | WorldError:
        async with serving(script) as server:
            model = build_model(name, access(f"http://127.0.0.1:{server.port}", name, **changes))
            try:
                return await answer(model, request(), stream=stream)
            except WorldError as error:
                return error
            finally:
                await model.aclose()

    return asyncio.run(run())


def test_a_stream_without_a_length_is_whole_with_its_last_event() -> None:
    """Many a server on one's own machine streams so."""
    reply = ask(HEAD % 200 + CHUNK + STOP + DONE)
    assert isinstance(reply, ModelReply)
    assert reply.message.text == "yes"


@pytest.mark.parametrize("said", [CHUNK, CHUNK + STOP, CHUNK + STOP + DONE[:-3], b""])
def test_one_that_is_cut_off_is_not(said: bytes) -> None:
    """It may be billed."""
    error = ask(HEAD % 200 + said)
    assert isinstance(error, WorldError)
    assert (error.error_class, error.phase) == (ErrorClass.CONNECTION, Phase.UNKNOWN)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", [ANTHROPIC, CHAT])
def test_a_refusal_counts_by_its_status(name: str, stream: bool) -> None:
    """Whether or not its words can be read: nothing of it is billed."""
    error = ask(HEAD % 429 + b"slow down", name, stream=stream)
    assert isinstance(error, WorldError)
    assert (error.error_class, error.phase) == (ErrorClass.RATE_LIMIT, Phase.ANSWERED)


def test_an_answer_without_a_length_is_not_taken_for_whole() -> None:
    """Its end could be a cut."""
    error = ask(HEAD % 200 + b"{}", stream=False)
    assert isinstance(error, WorldError)
    assert error.phase is Phase.UNKNOWN


def whole(body: bytes, status: bytes = b"200 OK", headers: bytes = b"") -> bytes:
    """An answer with its length."""
    return b"HTTP/1.1 %b\r\n%bcontent-length: %d\r\n\r\n%b" % (status, headers, len(body), body)


ANSWER = (
    b'{"model":"m","choices":[{"message":{"content":"yes"},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}'
)


@pytest.mark.parametrize("status", [b"201 Created", b"202 Accepted", b"299 Odd"])
def test_any_success_is_an_answer(status: bytes) -> None:
    """It was paid for."""
    reply = ask(whole(ANSWER, status), stream=False)
    assert isinstance(reply, ModelReply)
    assert reply.usage is not None


@pytest.mark.parametrize("status", [b"408 Slow", b"499 Gone", b"504 Slow", b"524 Slow"])
def test_a_gateway_that_gave_up_knows_nothing(status: bytes) -> None:
    """Who it asked may have answered, so it may be billed."""
    error = ask(whole(b"{}", status), stream=False)
    assert isinstance(error, WorldError)
    assert error.phase is Phase.UNKNOWN


@pytest.mark.parametrize(
    "body",
    [
        b'{"error": {"message": "bad authorization: Bearer %b"}}' % KEY.encode(),
        ANSWER.replace(b'"stop"', b'"%b"' % KEY.encode()),
        ANSWER.replace(b'"stop"', b'"%b"' % (b"x" * 100_000)),
    ],
    ids=["an error under 200", "a reason", "a long reason"],
)
def test_what_a_codec_says_is_redacted_and_short(body: bytes) -> None:
    """It names the model, and holds no key."""
    error = ask(whole(body), stream=False)
    assert isinstance(error, WorldError)
    assert str(error).startswith("openai-chat:gpt-4o failed")
    assert KEY not in str(error)
    assert len(str(error)) < 500


def test_a_key_is_not_cut_before_it_is_hidden() -> None:
    """Else its beginning would stand at the end of what is shown."""
    body = b"x" * 280 + KEY.encode() + b"y" * 100
    error = ask(whole(body, b"400 Bad"), stream=False)
    assert KEY[:12] not in str(error)


def _raises() -> str:
    raise RuntimeError(f"the key is {KEY}")


@pytest.mark.parametrize("key", [lambda: "schl\u00fcssel-\u2026", _raises], ids=["odd", "raises"])
def test_a_key_that_is_none_costs_nothing(key: object) -> None:
    """It is told before anything is sent, without its words."""
    error = ask(whole(ANSWER), stream=False, key=key)
    assert isinstance(error, WorldError)
    assert (error.error_class, error.phase) == (ErrorClass.AUTH, Phase.NOTHING_SENT)
    assert KEY not in str(error)


@pytest.mark.parametrize("proxy", ["http://u:PASSWORD/x@h:1", "http://u:PASS#WORD@h:1"])
def test_a_proxy_that_is_none_shows_no_password(proxy: str) -> None:
    """Nothing is sent."""
    error = ask(whole(ANSWER), stream=False, proxy=proxy)
    assert isinstance(error, WorldError)
    assert error.phase is Phase.NOTHING_SENT
    assert "PASS" not in str(error)


def test_a_time_beyond_all_calendars_costs_no_answer() -> None:
    """Limits that cannot be read are as if they were not told."""
    odd = (
        b"date: Wed, 21 Oct 2015 07:28:00 +9999999999999999999\r\n"
        b"anthropic-ratelimit-requests-remaining: 1\r\n"
        b"anthropic-ratelimit-requests-reset: 2026-11-15T12:00:02Z\r\n"
        b"retry-after: Wed, 21 Oct 2015 07:28:00 +9999999999999999999\r\n"
    )
    assert isinstance(ask(whole(ANSWER, headers=odd), stream=False), ModelReply)
    error = ask(whole(b"{}", b"429 Slow", odd), stream=False)
    assert isinstance(error, WorldError)
    assert error.phase is Phase.ANSWERED


def test_what_breaks_after_the_end_takes_nothing_away() -> None:
    """A format without an end event of its own is whole with its reason and its usage."""
    event = (
        b'data: {"candidates":[{"content":{"parts":[{"text":"yes"}]},"finishReason":"STOP"}],'
        b'"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":1,"totalTokenCount":4}}\n\n'
    )
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    reply = ask(head + b"%x\r\n%b\r\n" % (len(event), event), GEMINI)
    assert isinstance(reply, ModelReply)
    assert reply.usage is not None


def test_a_header_of_the_settings_goes_before_ours() -> None:
    """Also before the one with the key, which then is not sent."""
    _, provider = ask_provider(CHAT, "ok", headers={"Authorization": "Bearer gateway"})
    sent = provider.requests[0].headers["authorization"]
    assert sent == "Bearer gateway"
    assert KEY not in str(provider.requests[0].headers)
