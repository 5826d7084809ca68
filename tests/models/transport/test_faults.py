"""Every fault at every stage: where it is told to have happened, and that nothing is sent twice."""

import asyncio
import gzip
import socket

import pytest

from tests.models.transport.servers import (
    BODY,
    CHUNKED,
    HEADERS,
    OK,
    PATIENT,
    Broken,
    Peer,
    ask,
    fail,
    serving,
    stream,
)
from tests.patience import run_skipping, skip, turns
from vegakit.providers import BrokenError, ConnectionPool, Deadlines
from vegakit.providers.answer import LARGEST_BODY, RequestStage

MEANT_S, LATER_S = 40.0, 6_000.0
"""The deadline that is meant, which is reached by skipping, and all others, which nothing reaches
before the test itself is ended."""
HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"


def _no_connection(url: str, deadlines: Deadlines = PATIENT) -> Broken:
    async def run() -> Broken:
        with pytest.raises(BrokenError) as caught:
            await ask(ConnectionPool(), url, deadlines)
        error = caught.value
        assert not error.sent
        return Broken(error.stage, error.timed_out, str(error))

    return asyncio.run(run())


def test_a_connection_is_refused() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        broken = _no_connection(f"http://127.0.0.1:{port}/")
    assert broken[:2] == (RequestStage.CONNECT, False)
    assert f"127.0.0.1:{port}" in broken.message


@pytest.mark.parametrize("host", ["nowhere.invalid", "a" * 64 + ".example", "[::1"])
def test_a_name_leads_nowhere(host: str) -> None:
    if host == "[::1":
        with pytest.raises(ValueError, match="URL"):
            _no_connection(f"http://{host}/")
    else:
        assert _no_connection(f"http://{host}:1/")[:2] == (RequestStage.CONNECT, False)


def test_connecting_takes_too_long() -> None:
    """A server whose queue is full does not answer the first packet."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        address = server.getsockname()
        held: list[socket.socket] = []
        for _ in range(4):
            held.append(client := socket.socket())
            client.setblocking(False)
            client.connect_ex(address)
        broken = _no_connection(f"http://127.0.0.1:{address[1]}/", Deadlines(connect_s=0.2))
        for client in held:
            client.close()
    assert broken[:2] == (RequestStage.CONNECT, True)
    assert "deadline" in broken.message


def _cut_after(said: bytes, how: str):
    async def script(peer: Peer) -> None:
        await peer.answer(said)
        if how == "reset":
            await turns(20)  # or the system drops what was said before
            peer.reset()

    return script


DROPS = {
    "before the head": (b"", RequestStage.FIRST_BYTE),
    "in the status": (b"HTTP/1.1 2", RequestStage.FIRST_BYTE),
    "in the head": (b"HTTP/1.1 200 OK\r\ncontent-", RequestStage.FIRST_BYTE),
    "at the end of the head": (HEAD[:-1], RequestStage.FIRST_BYTE),
    "after a first head": (b"HTTP/1.1 100 Continue\r\n\r\n", RequestStage.FIRST_BYTE),
    "after the head": (HEAD, RequestStage.BETWEEN),
    "in the body": (HEAD + b"hell", RequestStage.BETWEEN),
    "after the head, chunks": (CHUNKED, RequestStage.BETWEEN),
    "in a chunk's size": (CHUNKED + b"1", RequestStage.BETWEEN),
    "in a chunk": (CHUNKED + b"5\r\nhel", RequestStage.BETWEEN),
    "after a chunk": (CHUNKED + b"5\r\nhello\r\n", RequestStage.BETWEEN),
    "in the last chunk": (CHUNKED + b"5\r\nhello\r\n0\r\n", RequestStage.BETWEEN),
    "in the trailers": (CHUNKED + b"5\r\nhello\r\n0\r\nx-a: 1\r\n", RequestStage.BETWEEN),
}


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("name", DROPS)
def test_the_server_drops_the_connection(name: str, how: str) -> None:
    said, stage = DROPS[name]
    broken = fail(_cut_after(said, how))
    assert broken[:2] == (stage, False)
    assert "connection" in broken.message


def test_what_came_before_the_break_is_handed_on() -> None:
    async def run() -> list[bytes]:
        pieces: list[bytes] = []
        async with (
            serving(_cut_after(CHUNKED + b"2\r\nhe\r\n3\r\nl", "close")) as server,
            ConnectionPool().post(server.url, HEADERS, BODY, PATIENT) as answer,
        ):
            with pytest.raises(BrokenError):  # noqa: PT012
                async for piece in answer.pieces():
                    pieces.append(piece)  # noqa: PERF401
        return pieces

    assert b"".join(asyncio.run(run())) == b"hel"


SILENCES = {
    "before the head": (b"", RequestStage.FIRST_BYTE),
    "in the head": (HEAD[:20], RequestStage.FIRST_BYTE),
    "after a first head": (b"HTTP/1.1 100 Continue\r\n\r\n", RequestStage.FIRST_BYTE),
    "after the head": (HEAD, RequestStage.BETWEEN),
    "in the body": (HEAD + b"hell", RequestStage.BETWEEN),
    "in a chunk": (CHUNKED + b"5\r\nhel", RequestStage.BETWEEN),
    "before the last chunk": (CHUNKED + b"5\r\nhello\r\n", RequestStage.BETWEEN),
}


@pytest.mark.parametrize("name", SILENCES)
def test_the_server_falls_silent(name: str) -> None:
    """The connection stays open, and nothing comes."""
    said, stage = SILENCES[name]

    async def script(peer: Peer) -> None:
        await peer.answer(said)
        await skip(MEANT_S + 1)
        await peer.gone()

    first_s, between_s = (
        (MEANT_S, LATER_S) if stage is RequestStage.FIRST_BYTE else (LATER_S, MEANT_S)
    )
    broken = fail(script, Deadlines(LATER_S, LATER_S, first_s, between_s))
    assert broken[:2] == (stage, True)
    assert "deadline" in broken.message


def test_a_head_that_trickles_is_late_as_a_whole() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(*(b"%c" % byte for byte in OK), pause_s=MEANT_S / 8)

    assert fail(script, Deadlines(LATER_S, LATER_S, MEANT_S, LATER_S))[:2] == (
        RequestStage.FIRST_BYTE,
        True,
    )


def test_chunk_extensions_that_trickle_are_no_progress() -> None:
    """Only the body itself moves the deadline."""

    async def script(peer: Peer) -> None:
        await peer.answer(CHUNKED + b"5;")
        await peer.say(*(b"a" for _ in range(40)), pause_s=MEANT_S / 8)

    assert fail(script, Deadlines(LATER_S, LATER_S, LATER_S, MEANT_S))[:2] == (
        RequestStage.BETWEEN,
        True,
    )


def test_a_body_that_trickles_is_not_late() -> None:
    """It takes longer than the deadline in all, and never as long between two bytes."""

    async def script(peer: Peer) -> None:
        await peer.answer(b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n")
        await peer.say(*(b"a" for _ in range(20)), pause_s=MEANT_S / 10)

    async def run() -> None:
        async with serving(script) as server:
            deadlines = Deadlines(LATER_S, LATER_S, LATER_S, MEANT_S)
            (_, whole), pieces = await asyncio.gather(
                ask(ConnectionPool(), server.url, deadlines),
                stream(ConnectionPool(), server.url, deadlines),
            )
            assert whole == b"".join(pieces) == b"a" * 20

    run_skipping(run())


def test_the_first_deadline_does_not_cover_the_body() -> None:
    async def script(peer: Peer) -> None:
        await peer.answer(HEAD)
        await skip(MEANT_S + 1)
        await peer.say(b"hello")

    async def run() -> None:
        async with serving(script) as server:
            deadlines = Deadlines(LATER_S, LATER_S, MEANT_S, LATER_S)
            assert (await ask(ConnectionPool(), server.url, deadlines))[1] == b"hello"

    run_skipping(run())


def test_a_server_that_does_not_read_makes_the_writing_late() -> None:
    async def script(peer: Peer) -> None:
        peer.writer.transport.pause_reading()  # pyright: ignore[reportAttributeAccessIssue]
        await skip(MEANT_S + 1)
        await asyncio.Event().wait()

    async def run() -> BrokenError:
        async with serving(script) as server:
            with pytest.raises(BrokenError) as caught:
                async with ConnectionPool().post(
                    server.url,
                    HEADERS,
                    bytes(30_000_000),
                    Deadlines(LATER_S, MEANT_S, LATER_S, LATER_S),
                ):
                    pass
        return caught.value

    error = run_skipping(run())
    assert (error.stage, error.timed_out, error.sent) == (RequestStage.WRITE, True, True)
    assert "written" in str(error)


def test_the_server_drops_the_connection_while_it_is_written_to() -> None:
    async def script(peer: Peer) -> None:
        await peer.reader.read(1000)
        peer.reset()

    async def run() -> BrokenError:
        async with serving(script) as server:
            with pytest.raises(BrokenError) as caught:
                async with ConnectionPool().post(server.url, HEADERS, bytes(30_000_000), PATIENT):
                    pass
        return caught.value

    error = asyncio.run(run())
    assert (error.stage, error.timed_out, error.sent) == (RequestStage.WRITE, False, True)


def test_a_slow_write_leaves_the_answer_its_own_time() -> None:
    """The deadline of the answer begins when the request is written."""

    async def script(peer: Peer) -> None:
        transport = peer.writer.transport
        transport.pause_reading()  # pyright: ignore[reportAttributeAccessIssue]
        await skip(MEANT_S + 1)
        transport.resume_reading()  # pyright: ignore[reportAttributeAccessIssue]
        await peer.answer(OK)

    async def run() -> None:
        async with (
            serving(script) as server,
            ConnectionPool().post(
                server.url,
                HEADERS,
                bytes(20_000_000),
                Deadlines(LATER_S, LATER_S, MEANT_S, LATER_S),
            ) as answer,
        ):
            assert await answer.read() == b"hello"

    run_skipping(run())


def test_silence_after_a_slow_write_is_counted_from_its_end() -> None:
    """Not from the deadline of the writing, which may be long."""

    async def script(peer: Peer) -> None:
        transport = peer.writer.transport
        transport.pause_reading()  # pyright: ignore[reportAttributeAccessIssue]
        await turns(50)
        transport.resume_reading()  # pyright: ignore[reportAttributeAccessIssue]
        await peer.request()
        await skip(MEANT_S + 1)
        await peer.gone()

    async def run() -> BrokenError:
        async with serving(script) as server:
            with pytest.raises(BrokenError) as caught:
                async with ConnectionPool().post(
                    server.url,
                    HEADERS,
                    bytes(20_000_000),
                    Deadlines(LATER_S, LATER_S, MEANT_S, LATER_S),
                ):
                    pass
        return caught.value

    error = run_skipping(run())
    assert (error.stage, error.timed_out) == (RequestStage.FIRST_BYTE, True)


def test_an_answer_before_the_request_is_read_counts() -> None:
    """A server that refuses a large request by its head; its connection is not used again."""
    refusal = b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno"

    async def script(peer: Peer) -> None:
        peer.writer.transport.pause_reading()  # pyright: ignore[reportAttributeAccessIssue]
        await peer.say(refusal)
        await asyncio.Event().wait()

    async def run() -> None:
        pool = ConnectionPool()
        async with serving(script) as server:
            for visits in (1, 2):
                async with pool.post(server.url, HEADERS, bytes(30_000_000), PATIENT) as answer:
                    assert (answer.status, await answer.read()) == (413, b"no")
                assert server.visits == visits

    asyncio.run(run())


GARBAGE = {
    "text": b"go away\r\n\r\n",
    "HTTP/2": b"\x00\x00\x12\x04\x00\x00\x00\x00\x00" + bytes(18),
    "HTTP/2 in words": b"HTTP/2.0 200 OK\r\ncontent-length: 5\r\n\r\nhello",
    "HTTP/0.9": b"HTTP/0.9 200 OK\r\ncontent-length: 5\r\n\r\nhello",
    "another protocol": b"RTSP/1.0 200 OK\r\ncontent-length: 5\r\n\r\nhello",
    "a TLS alert": b"\x15\x03\x01\x00\x02\x02\x46",
    "an empty line": b"\r\n" + OK,
    "four digits": OK.replace(b"200", b"2000"),
    "no digits": OK.replace(b"200", b"OK!"),
    "status 99": OK.replace(b"200", b"099"),
    "status 600": OK.replace(b"200", b"600"),
    "switching protocols": b"HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n",
    "switching, without words": b"HTTP/1.1 101 Switching\r\n\r\n",
    "a name with a space": OK.replace(b"content-length:", b"content-length :"),
    "no colon": OK.replace(b"content-length: 5", b"content-length"),
    "a folded line": OK.replace(b"length: 5", b"length: 5\r\n x"),
    "a NUL": OK.replace(b"length: 5", b"length: 5\r\nx-a: a\0b"),
    "bare line feeds": OK.replace(b"\r\n", b"\n"),
    "two lengths": OK.replace(b"\r\n\r\n", b"\r\ncontent-length: 6\r\n\r\n"),
    "two equal lengths": OK.replace(b"\r\n\r\n", b"\r\ncontent-length: 5\r\n\r\n"),
    "a list of lengths": OK.replace(b": 5", b": 5, 5"),
    "a signed length": OK.replace(b": 5", b": +5"),
    "a negative length": OK.replace(b": 5", b": -5"),
    "an empty length": OK.replace(b": 5", b":"),
    "a length without end": OK.replace(b": 5", b": " + b"9" * 30),
    "a length and chunks": CHUNKED.replace(b"\r\n\r\n", b"\r\ncontent-length: 5\r\n\r\n"),
    "a long head": OK.replace(b"\r\n", b"\r\nx-a: " + b"a" * 70_000 + b"\r\n", 1),
    "a head of many lines": OK.replace(b"\r\n", b"\r\n" + b"x-a: abcdefghij\r\n" * 5000, 1),
    "an endless name": b"HTTP/1.1 200 OK\r\n" + b"a" * 200_000,
    "an endless reason": b"HTTP/1.1 200 " + b"a" * 200_000,
    "endless first heads": b"HTTP/1.1 103 Early\r\nlink: abc\r\n\r\n" * 5000,
}


@pytest.mark.parametrize("name", GARBAGE)
def test_no_answer_at_all(name: str) -> None:
    assert fail(_kept_open(GARBAGE[name]))[:2] == (RequestStage.FIRST_BYTE, False)


def _encoded(encoding: str, data: bytes, said: bytes = CHUNKED) -> bytes:
    head = said.replace(b"\r\n\r\n", f"\r\ncontent-encoding: {encoding}\r\n\r\n".encode())
    return head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data)


BAD_BODIES = {
    "no chunk size": CHUNKED + b"\r\nhello",
    "a chunk size in words": CHUNKED + b"five\r\nhello\r\n",
    "a signed chunk size": CHUNKED + b"+5\r\nhello\r\n0\r\n\r\n",
    "0x": CHUNKED + b"0x5\r\nhello\r\n0\r\n\r\n",
    "an underscore": CHUNKED + b"1_0\r\nhello\r\n0\r\n\r\n",
    "a space": CHUNKED + b"5 \r\nhello\r\n0\r\n\r\n",
    "a chunk without end": CHUNKED + b"f" * 17 + b"\r\n",
    "a longer chunk": CHUNKED + b"4\r\nhello\r\n0\r\n\r\n",
    "bare line feeds": CHUNKED + b"5\nhello\n0\n\n",
    "a long trailer": CHUNKED + b"5\r\nhello\r\n0\r\nx-a: " + b"a" * 400_000,
    "a long extension": CHUNKED + b"5;" + b"a" * 400_000,
    "no length": b"HTTP/1.1 200 OK\r\n\r\nhello",
    "no length, close": b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhello",
    "no length, old": b"HTTP/1.0 200 OK\r\n\r\nhello",
    "an error without length": b"HTTP/1.1 500 No\r\n\r\nhello",
    "compressed chunks": CHUNKED.replace(b"chunked", b"gzip, chunked") + b"0\r\n\r\n",
    "chunks, compressed": CHUNKED.replace(b"chunked", b"chunked, gzip") + b"0\r\n\r\n",
    "chunked twice": CHUNKED.replace(b"chunked", b"chunked\r\ntransfer-encoding: chunked")
    + b"0\r\n\r\n",
    "chunked, with a tab": CHUNKED.replace(b"chunked", b"chunked\t") + b"0\r\n\r\n",
    "an unknown encoding": _encoded("br", b"hello"),
    "two encodings": _encoded("gzip, gzip", gzip.compress(gzip.compress(b"hello"))),
    "no gzip": _encoded("gzip", b"hello"),
    "no deflate": _encoded("deflate", b"\xff\xff\xff\xff"),
    "a cut gzip": _encoded("gzip", gzip.compress(b"hello" * 99)[:-9]),
    "a gzip without its sum": _encoded("gzip", gzip.compress(b"hello" * 99)[:-8]),
    "a wrong sum": _encoded("gzip", gzip.compress(b"hello")[:-8] + bytes(8)),
    "two gzips": _encoded("gzip", gzip.compress(b"hello") * 2),
    "a bomb": _encoded("gzip", gzip.compress(bytes(LARGEST_BODY + 1), 1)),
}


@pytest.mark.parametrize("name", BAD_BODIES)
def test_a_body_that_is_none(name: str) -> None:
    """It is refused though all of it has come, and the connection stays open."""
    assert fail(_kept_open(BAD_BODIES[name]))[:2] == (RequestStage.BETWEEN, False)


def _kept_open(said: bytes):
    async def script(peer: Peer) -> None:
        await peer.answer(said)
        await peer.gone()

    return script


def test_the_status_is_known_where_the_body_cannot_be_read() -> None:
    """What is wrong with a body is told when it is read: an error's status comes before."""

    async def run() -> None:
        async with (
            serving(_kept_open(BAD_BODIES["an error without length"])) as server,
            ConnectionPool().post(server.url, HEADERS, BODY, PATIENT) as answer,
        ):
            assert answer.status == 500
            with pytest.raises(BrokenError, match="no length"):
                await answer.read()

    asyncio.run(run())


@pytest.mark.parametrize("encoding", ["", "gzip"])
def test_a_body_that_is_read_whole_has_a_bound(encoding: str) -> None:
    said = b"10000\r\n" + bytes(65536) + b"\r\n"
    if encoding:
        packed = gzip.compress(bytes(20 * 65536))
        said = b"%x\r\n%b\r\n" % (len(packed), packed)

    async def script(peer: Peer) -> None:
        await peer.answer(CHUNKED.replace(b"OK", b"OK\r\ncontent-encoding: " + encoding.encode()))
        await peer.say(*[said] * (1 if encoding else 20), b"0\r\n\r\n")
        await peer.gone()

    async def run(limit: int) -> int:
        async with (
            serving(script) as server,
            ConnectionPool().post(server.url, HEADERS, BODY, PATIENT) as answer,
        ):
            return len(await answer.read(limit))

    assert asyncio.run(run(20 * 65536)) == 20 * 65536
    with pytest.raises(BrokenError, match=f"longer than {20 * 65536 - 1} bytes"):
        asyncio.run(run(20 * 65536 - 1))
