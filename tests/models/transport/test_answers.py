"""Whole answers: how they are framed, encoded, cut, and what of the request the server sees."""

import asyncio
import gzip
import zlib

import pytest

from tests.models.transport.servers import (
    BODY,
    CHUNKED,
    HEADERS,
    OK,
    PATIENT,
    Peer,
    ask,
    serving,
    stream,
    talk,
)
from tests.patience import run_skipping, skip, turns, until
from vegakit.providers import ConnectionPool, HttpAnswer


def _saying(*parts: bytes):
    async def script(peer: Peer) -> None:
        while True:
            await peer.answer(*parts)

    return script


def test_the_request_is_what_was_asked() -> None:
    seen: list[bytes] = []

    async def script(peer: Peer) -> None:
        seen.append(await peer.request())
        await peer.say(OK)

    async def run() -> int:
        async with serving(script) as server:
            pool = ConnectionPool()
            await ask(pool, server.url)
            pool.close()
            return server.port

    port = asyncio.run(run())
    assert seen == [
        b"POST /v1/ask?x=1 HTTP/1.1\r\nhost: 127.0.0.1:%d\r\ncontent-type: application/json\r\n"
        b"accept-encoding: identity\r\ncontent-length: 15\r\n\r\n%b" % (port, BODY)
    ]


WHOLE = {
    "length": (OK, b"hello"),
    "no body": (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    "empty": (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", b""),
    "chunks": (CHUNKED + b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", b"hello"),
    "chunk extension": (CHUNKED + b"5;a=b\r\nhello\r\n0\r\n\r\n", b"hello"),
    "trailers": (CHUNKED + b"5\r\nhello\r\n0\r\nx-sum: 1\r\n\r\n", b"hello"),
    "early hints": (b"HTTP/1.1 103 Early\r\nlink: x\r\n\r\nHTTP/1.1 100 Go\r\n\r\n" + OK, b"hello"),
    "no reason": (b"HTTP/1.1 200\r\ncontent-length: 2\r\n\r\nok", b"ok"),
    "status": (b"HTTP/1.1 529 Overloaded\r\ncontent-length: 2\r\n\r\nno", b"no"),
    "coding with a space": (
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked \r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"ok",
    ),
    "coding in capitals": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"ok",
    ),
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_answer(name: str) -> None:
    said, body = WHOLE[name]
    answer, read = talk(_saying(said))
    assert (read, answer.whole) == (body, True)
    assert answer.status == {"no body": 204, "status": 529}.get(name, 200)
    assert "link" not in answer.headers
    assert "x-sum" not in answer.headers


@pytest.mark.parametrize("name", WHOLE)
def test_bytes_may_come_one_by_one(name: str) -> None:
    """Where an answer is cut by the network makes no difference."""
    said, body = WHOLE[name]

    class Still:
        is_writing = False

        async def wait(self, goal: str, within_s: float) -> None:
            raise AssertionError(f"there is nothing to wait for: {goal} {within_s}")

        def stop_reading(self) -> None: ...

        def go_on_reading(self) -> None: ...

    answer = HttpAnswer(Still(), PATIENT)
    for at in range(len(said)):
        assert not answer.whole
        answer.feed(said[at : at + 1])
    assert answer.fault is None
    assert asyncio.run(answer.read()) == body


def test_headers_have_small_names_and_are_joined() -> None:
    answer, _ = talk(
        _saying(OK.replace(b"\r\n", b"\r\nX-A:  1 \t\r\nX-Ratelimit: \xe9\r\nx-a: 2\r\n", 1))
    )
    assert answer.headers == {"x-a": "1, 2", "x-ratelimit": "é", "content-length": "5"}


def _compressed(encoding: str, data: bytes) -> bytes:
    head = "HTTP/1.1 200 OK\r\ncontent-encoding: {}\r\ncontent-length: {}\r\n\r\n"
    return head.format(encoding, len(data)).encode() + data


TEXT = bytes(range(256)) * 9000  # inflates to more than one part


@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        ("gzip", gzip.compress(TEXT)),
        ("X-GZIP", gzip.compress(TEXT)),
        ("deflate", zlib.compress(TEXT)),
        ("deflate", zlib.compress(TEXT)[2:-4]),
        ("identity", TEXT),
    ],
    ids=["gzip", "x-gzip", "zlib", "bare deflate", "identity"],
)
def test_a_body_is_inflated_if_the_server_compressed_it_unasked(encoding: str, data: bytes) -> None:
    assert talk(_saying(_compressed(encoding, data)))[1] == TEXT


def test_an_empty_body_needs_no_inflating() -> None:
    assert talk(_saying(_compressed("gzip", b"")))[1] == b""


def test_a_compressed_stream_comes_in_pieces() -> None:
    """Each flush of the server is a piece, or the first word would wait for the last."""
    deflater = zlib.compressobj(wbits=31)
    parts = [deflater.compress(word) + deflater.flush(zlib.Z_SYNC_FLUSH) for word in (b"a", b"b")]
    parts.append(deflater.flush())
    came: list[bytes] = []

    async def script(peer: Peer) -> None:
        await peer.answer(CHUNKED.replace(b"\r\n\r\n", b"\r\ncontent-encoding: gzip\r\n\r\n"))
        for n, part in enumerate(parts):
            await peer.say(b"%x\r\n%b\r\n" % (len(part), part))
            await until(lambda: len(came) >= min(n + 1, 2))  # noqa: B023
        await peer.say(b"0\r\n\r\n")

    async def run() -> None:
        pool = ConnectionPool()
        async with (
            serving(script) as server,
            asyncio.timeout(20),
            pool.post(server.url, HEADERS, BODY, PATIENT) as answer,
        ):
            async for piece in answer.pieces():
                came.append(piece)  # noqa: PERF401
        pool.close()

    asyncio.run(run())
    assert came == [b"a", b"b"]


def test_pieces_come_as_they_are_sent_and_what_came_together_stays_together() -> None:
    async def run() -> list[bytes]:
        may_go_on = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.answer(CHUNKED, b"1\r\na\r\n1\r\nb\r\n1\r\nc\r\n")
            await may_go_on.wait()
            await peer.say(b"1\r\nd\r\n0\r\n\r\n")

        pool = ConnectionPool()
        pieces: list[bytes] = []
        async with (
            serving(script) as server,
            asyncio.timeout(20),
            pool.post(server.url, HEADERS, BODY, PATIENT) as answer,
        ):
            async for piece in answer.pieces():
                pieces.append(piece)
                may_go_on.set()
        pool.close()
        return pieces

    assert asyncio.run(run()) == [b"abc", b"d"]


def test_a_large_body_in_both_directions() -> None:
    """8 MB each way, which no buffer of the system holds."""
    large = bytes(8_000_000)

    async def script(peer: Peer) -> None:
        while True:
            assert (await peer.request()).endswith(large)
            await peer.say(b"HTTP/1.1 200 OK\r\ncontent-length: 8000000\r\n\r\n", large)

    async def run() -> None:
        pool = ConnectionPool()
        async with serving(script) as server:
            async with pool.post(server.url, HEADERS, large, PATIENT) as answer:
                assert await answer.read() == large
            async with pool.post(server.url, HEADERS, large, PATIENT) as answer:
                assert sum([len(piece) async for piece in answer.pieces()]) == len(large)
            assert server.visits == 1
        pool.close()

    asyncio.run(run())


def test_a_slow_reader_holds_the_server_back() -> None:
    """What nobody has read yet stays with the server: an answer does not fill the memory."""
    sent = 0

    async def script(peer: Peer) -> None:
        nonlocal sent
        await peer.answer(CHUNKED)
        for _ in range(1000):
            await peer.say(b"10000\r\n" + bytes(65536) + b"\r\n")
            sent += 65536
        await peer.say(b"0\r\n\r\n")

    async def run() -> int:
        pool = ConnectionPool()
        async with (
            serving(script) as server,
            pool.post(server.url, HEADERS, BODY, PATIENT) as answer,
        ):
            before = -1
            while sent > before:
                before = sent
                await turns(200)
            assert answer.buffered <= 1 << 19
            held = sent
            total = 0
            async for piece in answer.pieces():
                assert len(piece) <= 1 << 19
                total += len(piece)
            assert total == 65_536_000
        pool.close()
        return held

    assert asyncio.run(run()) < 40_000_000


def test_the_reader_takes_his_time() -> None:
    """A deadline covers the waiting for the server, not what the reader does between pieces."""
    hasty, is_reading = PATIENT.__class__(500, 500, 500, 30), asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.answer(CHUNKED, b"1\r\na\r\n")
        await is_reading.wait()
        await peer.say(b"1\r\nb\r\n0\r\n\r\n")

    async def run() -> list[bytes]:
        pool = ConnectionPool()
        pieces: list[bytes] = []
        async with (
            serving(script) as server,
            pool.post(server.url, HEADERS, BODY, hasty) as answer,
        ):
            async for piece in answer.pieces():
                await skip(50)
                is_reading.set()
                pieces.append(piece)
        pool.close()
        return pieces

    assert run_skipping(run()) == [b"a", b"b"]


def test_sixty_four_streams_at_once() -> None:
    async def script(peer: Peer) -> None:
        request = await peer.request()
        number = request[request.index(b"\r\n\r\n") + 4 :]
        await peer.say(CHUNKED)
        for n in range(20):
            await peer.say(b"%x\r\n%b.%03d \r\n" % (len(number) + 5, number, n))
        await peer.say(b"0\r\n\r\n")

    async def run() -> None:
        pool = ConnectionPool()

        async def one(number: bytes) -> None:
            async with pool.post(server.url, HEADERS, number, PATIENT) as answer:
                said = b"".join([piece async for piece in answer.pieces()])
            assert said == b"".join(b"%b.%03d " % (number, n) for n in range(20))

        async with serving(script) as server:
            await asyncio.gather(*(one(b"%d" % n) for n in range(64)))
            assert server.visits == 64
        pool.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    "header",
    [
        (b"x-key", b"a\r\nx-evil: 1"),
        (b"x-key", b"a\nb"),
        (b"x-key", b"a\rb"),
        (b"x-key", b"a\0b"),
        (b"x-key\r\nx-evil", b"a"),
        (b"x key", b"a"),
        (b"x:key", b"a"),
        (b"", b"a"),
        (b"Content-Length", b"0"),
        (b"transfer-encoding", b"chunked"),
        (b"Host", b"other"),
    ],
)
def test_a_header_that_cannot_be_sent_is_refused_first(header: tuple[bytes, bytes]) -> None:
    _refused("http://127.0.0.1:{port}/", [*HEADERS, header])


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/a b",
        "http://127.0.0.1:{port}/a\r\nx-evil: 1",
        "http://127.0.0.1:{port}/é",
        "http://127.0.0.1:{port}/\0",
        "http://me:secret@127.0.0.1:{port}/",
        "ftp://127.0.0.1:{port}/",
        "127.0.0.1:{port}/",
        "http:///path",
        "",
    ],
)
def test_a_url_that_cannot_be_sent_is_refused_first(url: str) -> None:
    _refused(url, HEADERS)


def _refused(url: str, headers: list[tuple[bytes, bytes]]) -> None:
    async def run() -> None:
        async with serving(_saying(OK)) as server:
            with pytest.raises(ValueError, match=r"URL|header") as caught:
                async with ConnectionPool().post(
                    url.format(port=server.port), headers, BODY, PATIENT
                ):
                    pass
            assert "secret" not in str(caught.value)
            assert server.visits == 0

    asyncio.run(run())


def test_two_readers_of_one_answer_are_a_mistake() -> None:
    async def run() -> None:
        async def script(peer: Peer) -> None:
            await peer.answer(CHUNKED)
            await peer.gone()

        async with (
            serving(script) as server,
            ConnectionPool().post(server.url, HEADERS, BODY, PATIENT) as answer,
        ):
            first = asyncio.create_task(answer.read())
            await turns(5)
            with pytest.raises(RuntimeError, match="one reader"):
                await answer.read()
            first.cancel()

    asyncio.run(run())


def test_a_stream_is_read_by_a_pool_of_connections() -> None:
    """A stream that was read to its end leaves its connection for the next."""

    async def run() -> None:
        pool = ConnectionPool()
        async with serving(_saying(CHUNKED, b"1\r\na\r\n", b"0\r\n\r\n")) as server:
            for _ in range(5):
                assert b"".join(await stream(pool, server.url)) == b"a"
            assert server.visits == 1
        pool.close()

    asyncio.run(run())
