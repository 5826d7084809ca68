"""Connections: which are used again, which never, and how soon one is closed."""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from tests.models.transport.servers import (
    BODY,
    CHUNKED,
    HEADERS,
    OK,
    PATIENT,
    Peer,
    Server,
    ask,
    certificates,
    serving,
    stream,
)
from tests.patience import PATIENCE_S, run_skipping, skip, turns, until
from vegakit.providers import BrokenError, ConnectionPool, HttpAnswer, transport
from vegakit.providers.answer import RequestStage
from vegakit.providers.connection import Connection


async def _echo(peer: Peer) -> None:
    while True:
        await peer.answer(OK)


def _run(
    body: Callable[[ConnectionPool, Server], Awaitable[None]], script=_echo, **of_pool: int
) -> None:
    async def run() -> None:
        pool = ConnectionPool(**of_pool)  # pyright: ignore[reportArgumentType]
        async with serving(script) as server:
            await body(pool, server)
            pool.close()

    run_skipping(run())


def test_a_connection_is_used_again() -> None:
    async def body(pool: ConnectionPool, server: Server) -> None:
        for _ in range(50):
            assert (await ask(pool, server.url))[1] == b"hello"
        assert server.visits == 1

    _run(body)


def test_requests_at_once_have_connections_of_their_own_and_leave_them() -> None:
    async def body(pool: ConnectionPool, server: Server) -> None:
        for _ in range(3):
            await asyncio.gather(*(ask(pool, server.url) for _ in range(10)))
            assert server.visits == 10

    _run(body)


def test_no_more_are_kept_than_asked_for() -> None:
    async def body(pool: ConnectionPool, server: Server) -> None:
        for _ in range(2):
            await asyncio.gather(*(ask(pool, server.url) for _ in range(10)))
        assert server.visits == 17

    _run(body, most_idle=3)


NOT_AGAIN = {
    "close": OK.replace(b"\r\n", b"\r\nconnection: close\r\n", 1),
    "close among others": OK.replace(b"\r\n", b"\r\nconnection: x-a, Close\r\n", 1),
    "HTTP/1.0": OK.replace(b"1.1", b"1.0"),
    "HTTP/1.0, kept": OK.replace(b"1.1", b"1.0").replace(
        b"\r\n", b"\r\nconnection: keep-alive\r\n", 1
    ),
    "a long body": OK + b"!",
    "a second answer": OK + OK,
    "a long chunked body": CHUNKED + b"5\r\nhello\r\n0\r\n\r\n5\r\nhello\r\n",
    "a body where none can be": b"HTTP/1.1 204 No\r\ncontent-length: 5\r\n\r\nhello",
}


@pytest.mark.parametrize("name", NOT_AGAIN)
def test_a_connection_is_not_used_again(name: str) -> None:
    async def script(peer: Peer) -> None:
        while True:
            await peer.answer(NOT_AGAIN[name])

    async def body(pool: ConnectionPool, server: Server) -> None:
        for visits in range(1, 4):
            assert (await ask(pool, server.url))[1] in {b"hello", b""}
            assert server.visits == visits

    _run(body, script)


def test_an_answer_that_comes_late_is_not_taken_for_the_next_one() -> None:
    """Bytes on an idle connection end it, whether or not the event loop has seen them."""
    wrong = OK.replace(b"hello", b"wrong")

    late = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.answer(OK)
        await late.wait()
        await peer.say(wrong)
        await peer.answer(wrong)

    async def body(pool: ConnectionPool, server: Server) -> None:
        for visits in (1, 2, 3):
            late.clear()
            assert (await ask(pool, server.url))[1] == b"hello"
            assert server.visits == visits
            late.set()
            await turns(20)

    _run(body, script)


def _threaded_server(
    after: Callable[[socket.socket], None], *closed: threading.Event
) -> tuple[str, threading.Thread]:
    """A server beside the event loop: two connections, one answer each."""
    listening = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        with listening:
            for _ in range(2):
                connection, _ = listening.accept()
                with connection:
                    while not connection.recv(1 << 16).endswith(BODY):
                        pass
                    connection.sendall(OK)
                    after(connection)
                for event in closed:
                    event.set()

    thread = threading.Thread(target=run, daemon=True)  # a test that fails leaves it waiting
    thread.start()
    return f"http://127.0.0.1:{listening.getsockname()[1]}/", thread


@pytest.mark.parametrize("how", ["the end", "some bytes"])
def test_a_dead_connection_is_noticed_although_the_event_loop_was_busy(how: str) -> None:
    def after(connection: socket.socket) -> None:
        if how == "some bytes":
            connection.sendall(OK.replace(b"hello", b"wrong"))

    closed = threading.Event()
    url, thread = _threaded_server(after, closed)

    async def run() -> None:
        pool = ConnectionPool()
        assert (await ask(pool, url))[1] == b"hello"
        assert closed.wait(PATIENCE_S)  # the loop does nothing meanwhile
        assert (await ask(pool, url))[1] == b"hello"
        pool.close()

    asyncio.run(run())
    thread.join()


def test_a_request_on_a_used_connection_is_never_sent_again() -> None:
    """The server closed it when the request was under way. It may have acted on it: not ours to
    know."""
    seen: list[bytes] = []

    async def script(peer: Peer) -> None:
        await peer.answer(OK)
        seen.append(await peer.request())

    async def body(pool: ConnectionPool, server: Server) -> None:
        await ask(pool, server.url)
        with pytest.raises(BrokenError) as caught:
            await ask(pool, server.url)
        assert (caught.value.stage, caught.value.sent) == (RequestStage.FIRST_BYTE, True)
        assert (server.visits, len(seen)) == (1, 1)

    _run(body, script)


def test_an_idle_connection_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is closed when its time is over, without any further request."""
    monkeypatch.setattr(transport, "_PLAIN_IDLE_S", 600.0)
    gone: list[Peer] = []

    async def script(peer: Peer) -> None:
        await peer.answer(OK)
        await peer.gone()
        gone.append(peer)

    async def body(pool: ConnectionPool, server: Server) -> None:
        await asyncio.gather(ask(pool, server.url), ask(pool, server.url))
        await skip(500)
        assert gone == []
        await skip(101)
        await until(lambda: len(gone) == 2)
        await ask(pool, server.url)
        assert server.visits == 3

    _run(body, script)


def test_an_expired_connection_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even if the timer is late."""

    async def body(pool: ConnectionPool, server: Server) -> None:
        monkeypatch.setattr(transport, "_PLAIN_IDLE_S", -1.0)
        await ask(pool, server.url)
        await ask(pool, server.url)
        assert server.visits == 2

    _run(body)


@pytest.mark.parametrize(("said", "visits"), [(b"timeout=1", 2), (b"max=9, Timeout=60", 1)])
def test_a_server_may_say_how_long_it_waits(said: bytes, visits: int) -> None:
    """A request that it does not read any more would be charged, and is not sent there."""

    async def script(peer: Peer) -> None:
        while True:
            await peer.answer(OK.replace(b"\r\n", b"\r\nkeep-alive: %b\r\n" % said, 1))

    async def body(pool: ConnectionPool, server: Server) -> None:
        await ask(pool, server.url)
        await skip(0.01)
        await ask(pool, server.url)
        assert server.visits == visits

    _run(body, script)


def test_a_pool_serves_one_event_loop_after_another() -> None:
    """A connection of a loop that has ended is never used; it was closed with the loop."""
    ends: list[bytes] = []

    def after(connection: socket.socket) -> None:
        connection.settimeout(20)
        ends.append(connection.recv(1))

    url, thread = _threaded_server(after)
    pool = ConnectionPool()
    for _ in range(2):
        assert asyncio.run(ask(pool, url))[1] == b"hello"
    thread.join()
    assert ends == [b"", b""]
    assert len(pool._shelves) == 1
    pool.close()


def test_a_pool_serves_two_event_loops_at_once() -> None:
    pool = ConnectionPool()
    errors: list[BaseException] = []
    started, closed = threading.Barrier(2, timeout=20), threading.Event()

    async def run(first: bool) -> None:
        async with serving(_echo) as server:
            for _ in range(30):
                await asyncio.gather(*(ask(pool, server.url) for _ in range(3)))
            assert server.visits == 3
            started.wait()
            if first:
                pool.close()
                closed.set()
            closed.wait(20)
            await turns(20)
            await ask(pool, server.url)
            assert server.visits == 4

    def thread(first: bool) -> None:
        try:
            asyncio.run(run(first))
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=thread, args=(first,)) for first in (True, False)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not errors
    pool.close()


def test_closing_a_pool_closes_its_sockets_and_no_stream() -> None:
    gone = 0

    async def script(peer: Peer) -> None:
        nonlocal gone
        request = await peer.request()
        await peer.say(CHUNKED + b"1\r\na\r\n")
        if request.endswith(b"slow"):
            await until(lambda: gone)
        await peer.say(b"0\r\n\r\n")
        await peer.gone()
        gone += 1

    async def body(pool: ConnectionPool, server: Server) -> None:
        async with pool.post(server.url, HEADERS, b"slow", PATIENT) as answer:
            await stream(pool, server.url)
            assert gone == 0
            pool.close()
            assert await answer.read() == b"a"
        assert gone == 1

    _run(body, script)


def test_sockets_have_their_options() -> None:
    async def body(pool: ConnectionPool, server: Server) -> None:
        async with pool.post(server.url, HEADERS, BODY, PATIENT) as answer:
            connection = answer._source
            assert isinstance(connection, Connection)
            sock = connection.socket_transport.get_extra_info("socket")
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            if hasattr(socket, "TCP_KEEPIDLE"):
                assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60

    _run(body)


AT_ONCE = 100
"""Turns of the loop, in which no timer comes due: what takes longer waits for one."""
LEFT = {
    "before the head": b"",
    "in the head": OK[:20],
    "after the head": CHUNKED,
    "in the body": CHUNKED + b"5\r\nhel",
    "between chunks": CHUNKED + b"5\r\nhello\r\n",
}


@pytest.mark.parametrize("way", ["whole", "pieces", "secure"])
@pytest.mark.parametrize("name", LEFT)
def test_a_cancelled_request_closes_its_socket_at_once(name: str, way: str) -> None:
    said = asyncio.Event()
    secure = certificates() if way == "secure" else None

    async def run() -> None:
        gone = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.answer(LEFT[name])
            said.set()
            await peer.gone()
            gone.set()

        async with serving(script, tls=secure.server if secure else None) as server:
            pool = ConnectionPool(tls=secure.client if secure else None)
            task = asyncio.create_task(
                (ask if way == "whole" else stream)(pool, server.url)  # pyright: ignore[reportArgumentType]
            )
            await said.wait()
            await turns(20)
            task.cancel()
            await turns(AT_ONCE)
            assert gone.is_set()
            assert task.cancelled()

    asyncio.run(run())


def test_a_request_cancelled_while_it_is_written_closes_its_socket_at_once() -> None:
    async def run() -> None:
        gone, begun, cancelled = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.reader.read(1000)
            transport = peer.writer.transport
            transport.pause_reading()  # pyright: ignore[reportAttributeAccessIssue]
            begun.set()
            await cancelled.wait()
            transport.resume_reading()  # pyright: ignore[reportAttributeAccessIssue]
            await peer.gone()
            gone.set()

        async def asked() -> None:
            async with ConnectionPool().post(server.url, HEADERS, bytes(30_000_000), PATIENT):
                pass

        async with serving(script) as server:
            task = asyncio.create_task(asked())
            await begun.wait()
            await turns(20)
            task.cancel()
            cancelled.set()
            await turns(10 * AT_ONCE)  # the server reads what the system holds for it first
            assert gone.is_set()

    asyncio.run(run())


@pytest.mark.parametrize("stage", ["greeting", "proxy"])
def test_a_request_cancelled_while_it_connects_closes_its_socket_at_once(stage: str) -> None:
    """A server that takes the connection and says nothing: no TLS, no tunnel."""

    async def run() -> None:
        gone, begun = asyncio.Event(), asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.reader.read(1000)
            begun.set()
            await peer.gone()
            gone.set()

        async with serving(script) as server:
            proxy = f"http://127.0.0.1:{server.port}" if stage == "proxy" else None
            pool = ConnectionPool(tls=certificates().client, proxy=proxy)
            task = asyncio.create_task(ask(pool, f"https://127.0.0.1:{server.port}/"))
            await begun.wait()
            await turns(20)
            task.cancel()
            await turns(AT_ONCE)
            assert gone.is_set()

    asyncio.run(run())


@pytest.mark.parametrize("how", ["an error", "a break", "the end of the context"])
def test_leaving_an_answer_early_closes_its_socket(how: str) -> None:
    async def read(answer: HttpAnswer) -> None:
        async for _ in answer.pieces():
            if how == "an error":
                raise LookupError
            break

    async def run() -> None:
        gone = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.answer(CHUNKED + b"1\r\na\r\n")
            await peer.gone()
            gone.set()

        async with serving(script) as server:
            with suppress(LookupError):
                async with ConnectionPool().post(server.url, HEADERS, BODY, PATIENT) as answer:
                    if how != "the end of the context":
                        await read(answer)
            await asyncio.wait_for(gone.wait(), 5)  # an idle one is closed after 15

    asyncio.run(run())


def test_an_answer_that_has_come_to_its_end_unread_leaves_its_connection() -> None:
    async def body(pool: ConnectionPool, server: Server) -> None:
        for _ in range(3):
            async with pool.post(server.url, HEADERS, BODY, PATIENT) as answer:
                assert answer.status == 200
        assert server.visits == 1

    _run(body)


@pytest.mark.parametrize("way", ["read", "pieces"])
def test_an_answer_that_was_left_is_not_waited_for(way: str) -> None:
    """Neither by one who comes later, nor by one who waits when it is left."""

    async def script(peer: Peer) -> None:
        await peer.answer(CHUNKED)
        await peer.gone()

    async def read(answer: HttpAnswer) -> bytes:
        if way == "read":
            return await answer.read()
        return b"".join([piece async for piece in answer.pieces()])

    async def body(pool: ConnectionPool, server: Server) -> None:
        async with pool.post(server.url, HEADERS, BODY, PATIENT) as answer:
            waiting = asyncio.create_task(read(answer))
            await turns(5)
        for one in (waiting, read(answer)):
            with pytest.raises(BrokenError, match="left before its end"):
                await asyncio.wait_for(one, 20)

    _run(body, script)
