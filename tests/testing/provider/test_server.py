"""Starting, stopping and asking the provider; what is left behind."""

import asyncio
import gc
import http.client
import socket
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE_S
from tests.testing.provider.plain import Line, chat, converse
from vegakit.testing import Provider


def ask(provider: Provider, times: int = 1) -> set[Any]:
    """The local ends of the connections that so many requests in a row were sent on."""
    ends: set[Any] = set()
    with closing(http.client.HTTPConnection(provider.url[7:], timeout=PATIENCE_S)) as line:
        for _ in range(times):
            line.request("POST", "/v1/messages", b'{"model":"m","max_tokens":9}')
            assert b"w0 w1 w2 w3 w4 " in line.getresponse().read()
            ends.add(line.sock.getsockname())
    return ends


def open_files() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def test_a_thousand_requests_fit_on_one_connection() -> None:
    """From another thread, by a client that is not ours."""
    with Provider().in_thread() as provider:
        assert len(ask(provider, 1000)) == 1
        assert len(provider.requests) == 1000
        assert {request.status for request in provider.requests} == {"answered"}
        assert provider.requests[-1].attempt == 1000


def test_nothing_is_left_behind() -> None:
    """No task, no thread, no socket, whether clients are idle, waiting or in a stream."""

    async def visit() -> None:
        before = asyncio.all_tasks()
        async with Provider() as provider:
            port = int(provider.url.rpartition(":")[2])
            lines = [await asyncio.open_connection("127.0.0.1", port) for _ in range(4)]
            for text, (_, writer) in zip(["hang", "slow", "hi"], lines, strict=False):
                writer.write(chat(text, stream=True))
            await provider.wait_received(3)
        assert asyncio.all_tasks() == before
        for _, writer in lines:
            writer.close()
            await writer.wait_closed()

    gc.collect()  # what other tests have dropped
    before = open_files()
    for _ in range(3):
        asyncio.run(visit())
    gc.collect()
    assert open_files() == before


def test_what_is_open_when_it_stops_is_logged_as_stopped() -> None:
    """The client did not leave: it was left."""

    async def conversation(line: Line, provider: Provider) -> None:
        line.writer.write(chat("hang"))
        await provider.wait_received()

    (request,) = converse(None, conversation).requests
    assert (request.status, request.code) == ("stopped", 0)


def test_a_client_that_comes_as_it_stops_does_no_harm() -> None:
    """Its connection is closed, though nobody ever served it."""

    async def visit() -> bytes:
        async with Provider() as provider:
            port = int(provider.url.rpartition(":")[2])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            return await reader.read()
        finally:
            writer.close()

    assert asyncio.run(visit()) == b""


def test_a_client_that_takes_nothing_does_not_hold_it_up() -> None:
    """Megabytes of answer nobody reads; the provider stops all the same."""

    async def conversation(line: Line, provider: Provider) -> None:
        line.writer.write(chat("hi"))
        await provider.wait_ended()

    (request,) = converse("x" * 20_000_000, conversation).requests
    assert request.status == "answered"


def test_waiting_in_vain_says_what_there_was() -> None:
    """Else a hanging test says nothing."""

    async def conversation(line: Line, provider: Provider) -> None:
        line.writer.write(chat("hang on"))
        await provider.wait_received()
        await provider.wait_ended(timeout_s=0.01)

    with pytest.raises(TimeoutError, match=r"expected 1 requests ended.*chat 'hang on' open"):
        converse(None, conversation)


def test_it_can_be_waited_for_from_another_loop() -> None:
    """A provider in a thread serves async tests too; a wait given up leaves the others alone."""
    with Provider().in_thread() as provider:

        async def wait_twice() -> int:
            with pytest.raises(TimeoutError):
                await provider.wait_ended(timeout_s=0.001)
            waiting = asyncio.create_task(provider.wait_ended(2))
            await asyncio.to_thread(ask, provider, 2)
            return len(await waiting)

        assert asyncio.run(wait_twice()) == 2


def test_it_has_an_address_only_while_it_runs() -> None:
    """Before and after, the error says what to write."""
    provider = Provider()
    with pytest.raises(RuntimeError, match="async with Provider"):
        _ = provider.url
    with provider.in_thread():
        assert provider.url.startswith("http://127.0.0.1:")
    with pytest.raises(RuntimeError, match="does not run"):
        _ = provider.url


def test_a_port_in_use_is_refused() -> None:
    """In the thread of the one who asked for it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(OSError, match="address already in use"),
            Provider(port=port).in_thread(),
        ):
            pass
