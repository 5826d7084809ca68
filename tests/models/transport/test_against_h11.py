"""Generated answers, valid, mutated and cut, read by our transport and by h11.

Where both take an answer, they read the same. Where one refuses what the other takes, the reason
is one of those written below. An answer that was cut off is never a whole one.
"""

import asyncio
import gzip
import random
import zlib
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, NamedTuple

import h11
import pytest

from tests.models.transport.servers import PATIENT
from vegakit.providers import BrokenError
from vegakit.providers.connection import Connection

COUNT = 5000


class Read(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class Transport(asyncio.Transport):
    """A transport that sends nowhere."""

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes | bytearray | memoryview) -> None: ...

    def abort(self) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


def _finished(coroutine: Coroutine[Any, Any, bytes]) -> bytes:
    """Runs a coroutine that has nothing to wait for."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("a coroutine waits although its answer is whole or broken")


def read_by_us(pieces: list[bytes], loop: asyncio.AbstractEventLoop) -> Read | str:
    connection = Connection(loop)
    connection.connection_made(Transport())
    answer = connection.request(b"", PATIENT)
    for piece in pieces:
        connection.data_received(piece)
    connection.eof_received()
    try:
        body = _finished(answer.read())
    except BrokenError as error:
        return str(error)
    assert answer.whole
    return Read(answer.status, answer.headers, body)


def read_by_h11(pieces: list[bytes]) -> Read | str:
    client = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 16)
    client.send(h11.Request(method="POST", target="/", headers=[("host", "a")]))
    client.send(h11.EndOfMessage())
    head: h11.Response | None = None
    body = b""
    left = [*pieces, b""]
    try:
        while True:
            event = client.next_event()
            if event is h11.NEED_DATA:
                client.receive_data(left.pop(0))
            elif isinstance(event, h11.Response):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                break
            elif not isinstance(event, h11.InformationalResponse):
                return f"h11 says {event!r}"
    except h11.RemoteProtocolError as error:
        return str(error)
    assert head is not None
    headers: dict[str, str] = {}
    for raw_name, raw_value in head.headers:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    if headers.get("content-encoding") == "gzip":
        # What cannot be inflated is for us to say.
        with suppress(OSError, EOFError, zlib.error):
            body = gzip.decompress(body)
    return Read(head.status_code, headers, body)


def _chunks(rng: random.Random, body: bytes) -> bytes:
    said = b""
    while body:
        size = rng.randint(1, len(body))
        extension = rng.choice([b"", b"", b";a=b", b';a="b c"', b";a"])
        said += b"%x%b\r\n%b\r\n" % (size, extension, body[:size])
        body = body[size:]
    trailers = rng.choice([b"", b"", b"x-sum: 1\r\n", b"x-a: b\r\nx-c: d\r\n"])
    return said + rng.choice([b"0", b"0", b"000"]) + b"\r\n" + trailers + b"\r\n"


def valid(rng: random.Random) -> bytes:
    """An answer that ends with its last byte."""
    status = rng.choice([200, 200, 200, 201, 204, 304, 400, 401, 429, 500, 503, 529])
    body = rng.randbytes(rng.choice([0, 1, 5, 40, 700]))
    lines = [b"HTTP/1.1 %d %b" % (status, rng.choice([b"OK", b"Too Many Requests", b"", b"\xe9"]))]
    lines += rng.choices(
        [
            b"Content-Type: text/event-stream",
            b"x-request-id:req_1",
            b"Retry-After:  2 \t",
            b"x-empty:",
            b"x-list: a",
            b"X-List: b, c",
            b"connection: keep-alive",
            b"Connection: close",
            b"x-latin: \xe9\xff",
        ],
        k=rng.randint(0, 6),
    )
    if rng.random() < 0.15:
        lines.append(b"content-encoding: gzip")
        body = gzip.compress(body, mtime=0)
    if status in {204, 304}:
        body = b""
    elif rng.random() < 0.5:
        lines.insert(rng.randint(1, len(lines)), b"Transfer-Encoding: chunked")
        body = _chunks(rng, body)
    else:
        lines.insert(rng.randint(1, len(lines)), b"Content-Length: %d" % len(body))
    first = rng.choice(
        [b"", b"", b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 E\r\nlink: a\r\n\r\n"]
    )
    return first + b"\r\n".join(lines) + b"\r\n\r\n" + body


def mutated(rng: random.Random, said: bytes) -> bytes:
    """The same, with some of its bytes changed; most of it in the head, where there is more to
    break."""
    for _ in range(rng.choice([1, 1, 2, 5])):
        reach = said.find(b"\r\n\r\n") + 8 if rng.random() < 0.7 else len(said)
        at = rng.randrange(max(1, min(reach, len(said))))
        match rng.choice([0, 0, 1, 1, 2, 2, 3, 4, 4, 5, 5, 5, 6, 7]):
            case 0:
                said = said[:at] + rng.randbytes(1) + said[at + 1 :]
            case 1:
                said = said[:at] + said[at + 1 :]
            case 2:
                said = said[:at] + rng.choice(ODD) + said[at:]
            case 3:
                said = said.replace(b"\r\n", b"\n", rng.randint(1, 9))
            case 4:
                said = said[:at] + said[at:][: rng.randint(0, 30)] + said[at:]
            case 5:
                end = said.find(b"\r\n", at)
                said = said[: end + 2] + rng.choice(LINES) + b"\r\n" + said[end + 2 :]
            case 6:
                said = said[: rng.randint(0, len(said))]
            case _:
                said += rng.choice([b"\r\n", b"x", b"0\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n"])
    return said


ODD = [
    b"\0",
    b"\r",
    b"\n",
    b"\r\n",
    b" ",
    b"\t",
    b":",
    b";",
    b"0",
    b"f",
    b"-",
    b"\x7f",
    b"\x80",
    b",",
]
LINES = [
    b"content-length: 5",
    b"content-length: 0",
    b"Content-Length: 5, 5",
    b"transfer-encoding: chunked",
    b"transfer-encoding: gzip, chunked",
    b"transfer-encoding: identity",
    b" folded",
    b"no colon",
    b": no name",
    b"upgrade: h2c",
    b"connection: upgrade",
    b"content-encoding: br",
    b"x-long: " + b"a" * 3000,
]


def cut(rng: random.Random, said: bytes) -> list[bytes]:
    """The same bytes as the network may hand them on."""
    places = sorted(rng.choices(range(len(said) + 1), k=rng.choice([0, 1, 3, 20])))
    ends = zip([0, *places], [*places, len(said)], strict=True)
    return [said[start:stop] for start, stop in ends if stop > start]


WE_REFUSE = {
    "gives no length": "h11 takes the end of the connection for the end of the answer",
    "which nobody asked for": "h11 leaves encodings to its caller",
    "cannot be inflated": "h11 leaves encodings to its caller",
    "goes on after the end of its data": "h11 leaves encodings to its caller",
    "ends within its data": "h11 leaves encodings to its caller",
    "Missing expected CR": "h11 takes bare line feeds; who reads them otherwise is led astray",
    "Missing expected LF": "the same, for bare carriage returns",
    "Invalid response status": "the same, after the status",
    "Invalid header field char": "the same, where the head would end",
    "Unexpected whitespace after header value": "h11 takes folded lines, which are obsolete",
    "can't be present with": "a length and chunks at once: whose end is meant is in doubt",
    "Invalid character in Content-Length": "h11 takes a list of equal lengths",
    "Duplicate Content-Length": "h11 takes equal lengths",
    "Invalid header value char": "h11 takes control characters in values",
    "Invalid character in chunk extensions": "h11 passes over extensions unseen",
    "Invalid quoted-pair in chunk extensions": "h11 passes over extensions unseen",
    "Invalid HTTP version": "h11 takes any digits",
    "the server answered with HTTP/": "h11 takes any digits of a version, and statuses to 999",
    "longer than 65536 bytes": "the bound of h11 is for one event",
}
H11_REFUSES = {
    "Only Transfer-Encoding: chunked is supported": "also where an answer has no body: 1xx, 204",
    "multiple Transfer-Encoding headers": "also where an answer has no body: 1xx, 204",
    "no response line received": "empty lines after a 1xx head; llhttp passes over them",
    "illegal request line": "the same",
    "illegal status line": "control characters in the reason, which nobody reads",
}


def _allowed(reasons: dict[str, str], message: str) -> bool:
    return any(reason in message for reason in reasons)


@pytest.mark.parametrize("part", range(5))
def test_what_both_take_both_read_alike(part: int) -> None:
    rng = random.Random(f"answers {part}")
    loop = asyncio.new_event_loop()
    alike = refused = 0
    for number in range(COUNT // 5):
        said = valid(rng)
        if is_mutated := number % 3 > 0:
            said = mutated(rng, said)
        pieces = cut(rng, said)
        ours, theirs = read_by_us(pieces, loop), read_by_h11(pieces)
        if isinstance(ours, str):
            assert is_mutated, (said, ours)
            assert isinstance(theirs, str) or _allowed(WE_REFUSE, ours), (said, ours, theirs)
            refused += 1
        elif isinstance(theirs, str):
            assert _allowed(H11_REFUSES, theirs), (said, ours, theirs)
        else:
            assert ours == theirs, said
            alike += 1
    loop.close()
    assert alike > 400
    assert refused > 200


@pytest.mark.parametrize("part", range(5))
def test_a_cut_answer_is_never_whole(part: int) -> None:
    rng = random.Random(f"cuts {part}")
    loop = asyncio.new_event_loop()
    for _ in range(COUNT // 5):
        said = valid(rng)
        ours = read_by_us(cut(rng, said[: rng.randrange(len(said))]), loop)
        assert isinstance(ours, str), said
    loop.close()


def test_no_cut_of_an_answer_is_whole() -> None:
    """The same at every place of a few answers: with chunks, compressed, after another head."""
    rng = random.Random("every cut")
    loop = asyncio.new_event_loop()
    for _ in range(12):
        said = valid(rng)
        for end in range(len(said)):
            assert isinstance(read_by_us([said[:end]], loop), str), said[:end]
        assert isinstance(read_by_us([said], loop), Read)
    loop.close()
