"""Encrypted connections, and connections by way of a proxy."""

import asyncio
import ssl
from base64 import b64encode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.durability.commands import Home
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
from tests.patience import run_skipping, skip, turns
from vegakit.providers import BrokenError, ConnectionPool, Deadlines
from vegakit.providers.answer import RequestStage
from vegakit.providers.transport import tls_context
from vegakit.testing import Provider


async def _echo(peer: Peer) -> None:
    while True:
        await peer.answer(OK)


async def _broken(pool: ConnectionPool, url: str, deadlines: Deadlines = PATIENT) -> BrokenError:
    with pytest.raises(BrokenError) as caught:
        await ask(pool, url, deadlines)
    pool.close()
    return caught.value


def test_an_encrypted_connection_is_used_again() -> None:
    async def run() -> None:
        pool = ConnectionPool(tls=certificates().client)
        async with serving(_echo, tls=certificates().server) as server:
            for _ in range(5):
                assert (await ask(pool, server.url))[1] == b"hello"
            assert await stream(pool, server.url.replace("127.0.0.1", "localhost")) == [b"hello"]
            assert server.visits == 2
            pool.close()

    asyncio.run(run())


def test_a_large_body_in_both_directions_is_encrypted() -> None:
    large = bytes(range(250)) * 20_000

    async def script(peer: Peer) -> None:
        while True:
            assert (await peer.request()).endswith(large)
            await peer.say(CHUNKED, b"4c4b40\r\n" + large + b"\r\n0\r\n\r\n")

    async def run() -> None:
        pool = ConnectionPool(tls=certificates().client)
        async with serving(script, tls=certificates().server) as server:
            for _ in range(2):
                async with pool.post(server.url, HEADERS, large, PATIENT) as answer:
                    assert b"".join([piece async for piece in answer.pieces()]) == large
            assert server.visits == 1
        pool.close()

    asyncio.run(run())


@pytest.mark.parametrize("who", ["a stranger", "an unknown authority"])
def test_a_certificate_that_is_not_trusted(who: str) -> None:
    made = certificates()
    seen: list[bytes] = []

    async def script(peer: Peer) -> None:
        seen.append(await peer.request())

    async def run() -> BrokenError:
        tls = made.stranger if who == "a stranger" else made.server
        async with serving(script, tls=tls) as server:
            pool = ConnectionPool(tls=made.client if who == "a stranger" else None)
            return await _broken(pool, server.url)

    error = asyncio.run(run())
    assert (error.stage, error.timed_out, error.sent) == (RequestStage.CONNECT, False, False)
    assert "certificate is not trusted" in str(error)
    assert not seen


@pytest.mark.parametrize("how", ["no TLS", "drops", "silent"])
def test_a_server_that_does_not_encrypt(how: str) -> None:
    async def script(peer: Peer) -> None:
        await peer.reader.read(1000)
        if how == "no TLS":
            await peer.say(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        elif how == "silent":
            await peer.gone()

    async def run() -> BrokenError:
        async with serving(script) as server:
            pool = ConnectionPool(tls=certificates().client)
            deadlines = Deadlines(0.3 if how == "silent" else 20)
            return await _broken(pool, server.url.replace("http", "https"), deadlines)

    error = asyncio.run(run())
    assert (error.stage, error.timed_out) == (RequestStage.CONNECT, how == "silent")


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize(
    ("said", "stage"),
    [
        (b"", RequestStage.FIRST_BYTE),
        (OK[:-1], RequestStage.BETWEEN),
        (CHUNKED, RequestStage.BETWEEN),
    ],
    ids=["before the head", "in the body", "after the head"],
)
def test_an_encrypted_answer_is_cut_off(said: bytes, stage: RequestStage, how: str) -> None:
    async def script(peer: Peer) -> None:
        await peer.answer(said)
        if how == "reset":
            await turns(20)
            peer.reset()

    async def run() -> BrokenError:
        async with serving(script, tls=certificates().server) as server:
            return await _broken(ConnectionPool(tls=certificates().client), server.url)

    error = asyncio.run(run())
    assert (error.stage, error.timed_out, error.sent) == (stage, False, True)


@pytest.mark.parametrize("reads", ["never", "late"])
def test_the_writing_has_its_deadline_under_encryption(reads: str) -> None:
    """TLS itself takes any amount at once; what counts is what the socket has taken. A request
    that is written in time leaves the answer its own deadline."""

    async def script(peer: Peer) -> None:
        head = await peer.reader.readuntil(b"\r\n\r\n")
        transport = peer.writer.transport
        transport.pause_reading()  # pyright: ignore[reportAttributeAccessIssue]
        if reads == "never":
            await skip(41)
            await asyncio.Event().wait()
        await turns(50)
        transport.resume_reading()  # pyright: ignore[reportAttributeAccessIssue]
        assert b"12000000" in head
        await peer.reader.readexactly(12_000_000)
        await skip(41)  # under TLS it is only seen then that all is written
        await skip(21)
        await peer.gone()

    async def run() -> BrokenError:
        async with serving(script, tls=certificates().server) as server:
            pool = ConnectionPool(tls=certificates().client)
            deadlines = Deadlines(6_000, 40, 20, 6_000)
            with pytest.raises(BrokenError) as caught:
                async with pool.post(server.url, HEADERS, bytes(12_000_000), deadlines):
                    pass
        return caught.value

    error = run_skipping(run())
    stage = RequestStage.WRITE if reads == "never" else RequestStage.FIRST_BYTE
    assert (error.stage, error.timed_out) == (stage, True)


def test_silence_has_its_deadlines_under_encryption() -> None:
    async def script(peer: Peer) -> None:
        await peer.answer(CHUNKED + b"1\r\na\r\n")
        await peer.gone()

    async def run() -> BrokenError:
        async with serving(script, tls=certificates().server) as server:
            pool = ConnectionPool(tls=certificates().client)
            return await _broken(pool, server.url, Deadlines(5, 5, 5, 0.2))

    error = asyncio.run(run())
    assert (error.stage, error.timed_out) == (RequestStage.BETWEEN, True)


def test_certificates_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the system, from a file, or from where the environment says."""
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    bundle = tmp_path / "authority.pem"
    bundle.write_bytes(certificates().bundle)
    usual, ours = tls_context(), tls_context(str(bundle))
    assert usual is tls_context()
    assert ours is tls_context(str(bundle))
    assert usual is not ours
    assert usual.verify_mode is ours.verify_mode is ssl.CERT_REQUIRED
    assert usual.check_hostname
    assert ours.check_hostname
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    assert tls_context() is not usual

    async def run() -> None:
        async with serving(_echo, tls=certificates().server) as server:
            for pool in (ConnectionPool(), ConnectionPool(tls=ours)):
                assert (await ask(pool, server.url))[1] == b"hello"
                pool.close()
            assert (
                await _broken(ConnectionPool(tls=usual), server.url)
            ).stage is RequestStage.CONNECT

    asyncio.run(run())


class Proxy:
    """A proxy that says `refusal` first, if any, and then what its client asks for."""

    def __init__(self, refusal: bytes = b"", established: bytes = b"") -> None:
        self.refusal = refusal
        self.established = established or b"HTTP/1.1 200 Connection established\r\n\r\n"
        self.heads: list[bytes] = []

    async def __call__(self, peer: Peer) -> None:
        head = await peer.request()
        self.heads.append(head)
        if self.refusal:
            await peer.say(self.refusal)
            return
        if not head.startswith(b"CONNECT "):
            await peer.say(OK.replace(b"hello", b"proxy"))
            while True:
                self.heads.append(await peer.request())
                await peer.say(OK.replace(b"hello", b"proxy"))
        host, _, port = head.split()[1].decode().rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        await peer.say(self.established)
        pumps = [_pump(peer.reader, writer), _pump(reader, peer.writer)]
        await asyncio.gather(*pumps)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


@asynccontextmanager
async def _proxied(
    proxy: Proxy, *, secure: bool = False, user: str = ""
) -> AsyncGenerator[tuple[ConnectionPool, Server, Server]]:
    made = certificates()
    async with (
        serving(_echo, tls=made.server) as server,
        serving(proxy, tls=made.server if secure else None) as between,
    ):
        url = f"{between.scheme}://{user}127.0.0.1:{between.port}"
        pool = ConnectionPool(tls=made.client, proxy=url)
        yield pool, server, between
        pool.close()


@pytest.mark.parametrize("secure", [False, True], ids=["http proxy", "https proxy"])
def test_a_tunnel_is_opened_once_and_used_again(secure: bool) -> None:
    """The proxy sees the name of the server and the password for itself, and nothing more."""
    proxy = Proxy()

    async def run() -> int:
        async with _proxied(proxy, secure=secure, user="me:p%40ss@") as (pool, server, between):
            for _ in range(3):
                assert (await ask(pool, server.url))[1] == b"hello"
            assert (server.visits, between.visits) == (1, 1)
            return server.port

    port = asyncio.run(run())
    assert proxy.heads == [
        b"CONNECT 127.0.0.1:%d HTTP/1.1\r\nhost: 127.0.0.1:%d\r\n"
        b"proxy-authorization: Basic %b\r\n\r\n" % (port, port, b64encode(b"me:p@ss"))
    ]


@pytest.mark.parametrize("secure", [False, True], ids=["http proxy", "https proxy"])
def test_a_plain_request_goes_to_the_proxy_itself(secure: bool) -> None:
    proxy = Proxy()

    async def run() -> None:
        async with _proxied(proxy, secure=secure, user="me:word@") as (pool, _, between):
            for _ in range(2):
                assert (await ask(pool, "http://provider.example/v1/ask?x=1"))[1] == b"proxy"
            assert between.visits == 1

    asyncio.run(run())
    assert proxy.heads == 2 * [
        b"POST http://provider.example/v1/ask?x=1 HTTP/1.1\r\nhost: provider.example\r\n"
        b"proxy-authorization: Basic bWU6d29yZA==\r\ncontent-type: application/json\r\n"
        b"accept-encoding: identity\r\ncontent-length: 15\r\n\r\n" + BODY
    ]


REFUSALS = {
    "forbidden": (b"HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno", "status 403"),
    "bad gateway": (b"HTTP/1.1 502 Bad Gateway\r\n\r\n", "status 502"),
    "a redirect": (b"HTTP/1.1 302 Found\r\nlocation: http://login/\r\n\r\n", "status 302"),
    "a password": (
        b"HTTP/1.1 407 Proxy Authentication Required\r\nproxy-authenticate: Basic\r\n\r\n",
        "password",
    ),
    "garbage": (b"go away", "does not speak HTTP/1.1"),
    "a cut head": (b"HTTP/1.1 200 Conn", "closed the connection"),
    "bytes of its own": (b"HTTP/1.1 200 Connection established\r\n\r\nhello", "bytes of its own"),
}


@pytest.mark.parametrize("secure", [False, True], ids=["http proxy", "https proxy"])
@pytest.mark.parametrize("name", REFUSALS)
def test_a_proxy_that_does_not_connect(name: str, secure: bool) -> None:
    """No byte of the request was sent, and no password is shown."""
    refusal, words = REFUSALS[name]

    async def run() -> BrokenError:
        async with _proxied(Proxy(refusal), secure=secure, user="me:secret@") as (pool, server, _):
            error = await _broken(pool, server.url)
            assert server.visits == 0
            return error

    error = asyncio.run(run())
    assert (error.stage, error.timed_out, error.sent) == (RequestStage.CONNECT, False, False)
    assert words in str(error)
    assert "secret" not in str(error)


@pytest.mark.parametrize("how", ["drops", "silent"])
def test_a_proxy_that_says_nothing(how: str) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        if how == "silent":
            await peer.gone()

    async def run() -> BrokenError:
        async with serving(script) as between:
            pool = ConnectionPool(proxy=f"http://127.0.0.1:{between.port}")
            return await _broken(pool, "https://provider.example/", Deadlines(connect_s=0.3))

    error = asyncio.run(run())
    assert (error.stage, error.timed_out) == (RequestStage.CONNECT, how == "silent")


def test_a_tunnel_with_headers_of_the_proxy() -> None:
    established = b"HTTP/1.0 200 OK\r\nvia: proxy\r\ncontent-length: 0\r\n\r\n"

    async def run() -> None:
        async with _proxied(Proxy(established=established)) as (pool, server, _):
            assert (await ask(pool, server.url))[1] == b"hello"

    asyncio.run(run())


def test_the_certificate_is_checked_inside_the_tunnel() -> None:
    async def run() -> BrokenError:
        made = certificates()
        async with serving(_echo, tls=made.stranger) as server, serving(Proxy()) as between:
            pool = ConnectionPool(tls=made.client, proxy=f"http://127.0.0.1:{between.port}")
            return await _broken(pool, server.url)

    error = asyncio.run(run())
    assert (error.stage, error.sent) == (RequestStage.CONNECT, False)
    assert "certificate is not trusted" in str(error)


@pytest.mark.parametrize("url", ["socks5://127.0.0.1:1", "127.0.0.1:8080", "http://", "http://a b"])
def test_a_proxy_that_we_cannot_speak_to_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="URL"):
        ConnectionPool(proxy=url)


# The setting, from a file to the socket.

PROGRAM = 'agent A { model fast  max_tokens 50 }\nfn main() -> str { return A <- "hi"; }\n'
SETTINGS = """
[models]
fast = "openai-chat:test"
[providers.openai]
base_url = "https://127.0.0.1:{port}/v1"
{line}
[prices."openai-chat:test"]
input = "$1"
output = "$1"
"""
ANSWER = (
    b'{"choices": [{"message": {"content": "trusted"}, "finish_reason": "stop"}],'
    b' "usage": {"prompt_tokens": 7, "completion_tokens": 3}}'
)


def vega_run(folder: Path, line: str) -> tuple[str, str]:
    """What `vega run` prints and says of a provider whose authority nobody knows but the file
    `ca.pem` beside the settings."""

    async def answer(peer: Peer) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(ANSWER)
        await peer.answer(head + ANSWER)
        await peer.gone()

    async def run() -> tuple[str, str]:
        with Provider().in_thread() as beside:
            home = Home(folder, beside)
            async with serving(answer, tls=certificates().server) as server:
                text = SETTINGS.replace("{port}", str(server.port)).replace("{line}", line)
                home.settings.write_text(text)
                (home.settings.parent / "ca.pem").write_bytes(certificates().bundle)
                (home.settings.parent / "empty.pem").touch()
                ran = await asyncio.to_thread(home.vega, "run", home.write(PROGRAM))
        return ran.out, ran.err

    return asyncio.run(run())


def test_a_bundle_of_the_settings_is_trusted(tmp_path: Path) -> None:
    """Its path is from the settings file on, as every other."""
    out, err = vega_run(tmp_path, 'ca_bundle = "ca.pem"')
    assert out == "trusted\n", err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "the certificate is not trusted"),
        ('ca_bundle = "gone.pem"', "gone.pem cannot be used: No such file"),
        ('ca_bundle = "empty.pem"', "empty.pem cannot be used: holds no certificate"),
        ('ca_bundle = "."', "cannot be used"),
    ],
)
def test_a_bundle_that_cannot_be_used_is_named(tmp_path: Path, line: str, said: str) -> None:
    """Nothing is sent to a server that nobody vouches for."""
    out, err = vega_run(tmp_path, line)
    assert out == ""
    assert said in err
