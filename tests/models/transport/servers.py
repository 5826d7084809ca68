"""Raw servers on 127.0.0.1, each with a script, and certificates of an authority of our own."""

import asyncio
import datetime as dt
import ipaddress
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.patience import run_skipping, skip
from vegakit.providers import BrokenError, ConnectionPool, Deadlines, HttpAnswer
from vegakit.providers.answer import RequestStage

HEADERS = [(b"content-type", b"application/json"), (b"accept-encoding", b"identity")]
BODY = b'{"ask": "what"}'
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
PATIENT = Deadlines(20, 20, 20, 20)


class Peer:
    """The server's end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def request(self) -> bytes:
        """Reads one request to its end."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        lengths = [int(line[15:]) for line in lines if line.startswith(b"content-length:")]
        return head + await self.reader.readexactly(sum(lengths))

    async def say(self, *parts: bytes, pause_s: float = 0.0) -> None:
        for part in parts:
            self.writer.write(part)
            await self.writer.drain()
            await asyncio.sleep(0)
            if pause_s:
                await skip(pause_s)

    async def answer(self, *parts: bytes) -> None:
        await self.request()
        await self.say(*parts)

    async def gone(self) -> None:
        """Waits until the client has closed the connection."""
        with suppress(ConnectionError):
            while await self.reader.read(1 << 16):
                pass

    def reset(self) -> None:
        self.writer.transport.abort()


Script = Callable[[Peer], Awaitable[Any]]


class Server:
    """`visits` counts connections."""

    def __init__(self, port: int, scheme: str) -> None:
        self.port, self.scheme = port, scheme
        self.visits = 0
        self.failed: list[BaseException] = []

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/v1/ask?x=1"


@asynccontextmanager
async def serving(script: Script, *, tls: ssl.SSLContext | None = None) -> AsyncGenerator[Server]:
    """A server that runs the script on each connection, and closes it at the end."""
    tasks: set[asyncio.Task[None]] = set()

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.visits += 1
        tasks.add(task := asyncio.current_task())  # pyright: ignore[reportArgumentType]
        try:
            await script(Peer(reader, writer))
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        except Exception as error:  # noqa: BLE001
            served.failed.append(error)
        finally:
            tasks.discard(task)  # pyright: ignore[reportArgumentType]
            with suppress(Exception):
                writer.close()

    server = await asyncio.start_server(converse, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    served = Server(port, "https" if tls else "http")
    try:
        yield served
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert not served.failed, served.failed


async def ask(
    pool: ConnectionPool, url: str, deadlines: Deadlines = PATIENT
) -> tuple[HttpAnswer, bytes]:
    async with pool.post(url, HEADERS, BODY, deadlines) as answer:
        return answer, await answer.read()


async def stream(pool: ConnectionPool, url: str, deadlines: Deadlines = PATIENT) -> list[bytes]:
    async with pool.post(url, HEADERS, BODY, deadlines) as answer:
        return [piece async for piece in answer.pieces()]


def talk(
    script: Script, deadlines: Deadlines = PATIENT, **of_pool: Any
) -> tuple[HttpAnswer, bytes]:
    """One request to one server, read whole; and read in pieces, which must come to the same."""

    async def run() -> tuple[HttpAnswer, bytes]:
        pool = ConnectionPool(**of_pool)
        async with serving(script) as server:
            answer, body = await ask(pool, server.url, deadlines)
            assert b"".join(await stream(pool, server.url, deadlines)) == body
            pool.close()
            return answer, body

    return run_skipping(run())


class Broken(NamedTuple):
    stage: RequestStage
    timed_out: bool
    message: str


def fail(script: Script, deadlines: Deadlines = PATIENT) -> Broken:
    """One request that breaks, read whole; and read in pieces, which must break alike."""

    async def run() -> list[Broken]:
        verdicts: list[Broken] = []
        async with serving(script) as server:
            for way in (ask, stream):
                pool = ConnectionPool()
                with pytest.raises(BrokenError) as caught:
                    await way(pool, server.url, deadlines)
                error = caught.value
                assert error.sent is (error.stage is not RequestStage.CONNECT)
                verdicts.append(Broken(error.stage, error.timed_out, str(error)))
                pool.close()
            assert server.visits == 2, "a request was sent again"
        return verdicts

    whole, pieces = run_skipping(run())
    assert whole == pieces
    return whole


class Certificates(NamedTuple):
    server: ssl.SSLContext
    """For 127.0.0.1 and localhost."""
    stranger: ssl.SSLContext
    """For another name, by the same authority."""
    client: ssl.SSLContext
    bundle: bytes


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _certificate(
    subject: str, names: list[x509.GeneralName], issuer: ec.EllipticCurvePrivateKey | None
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = ec.generate_private_key(ec.SECP256R1())
    now = dt.datetime.now(dt.UTC)
    day = dt.timedelta(days=1)
    built = (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name("Test authority"))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + day)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
    )
    if names:
        built = built.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return built.sign(issuer or key, hashes.SHA256()), key


def _pem(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> tuple[bytes, bytes]:
    spelled = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return certificate.public_bytes(serialization.Encoding.PEM), spelled


class KeyPairs(NamedTuple):
    """An authority, and certificate and key of a server at 127.0.0.1 and of a client, as PEM."""

    authority: bytes
    server: tuple[bytes, bytes]
    client: tuple[bytes, bytes]


def key_pairs() -> KeyPairs:
    authority, key = _certificate("Test authority", [], None)
    here = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    server, client = _certificate("here", [here], key), _certificate("client", [], key)
    return KeyPairs(
        authority.public_bytes(serialization.Encoding.PEM), _pem(*server), _pem(*client)
    )


def _server_context(
    folder: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
) -> ssl.SSLContext:
    file = folder / "server.pem"
    file.write_bytes(b"".join(reversed(_pem(certificate, key))))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


@cache
def certificates() -> Certificates:
    authority, key = _certificate("Test authority", [], None)
    here = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
    with TemporaryDirectory() as folder:
        server = _server_context(Path(folder), *_certificate("here", [*here], key))
        elsewhere = [x509.DNSName("elsewhere.example")]
        stranger = _server_context(Path(folder), *_certificate("elsewhere", [*elsewhere], key))
    bundle = authority.public_bytes(serialization.Encoding.PEM)
    client = ssl.create_default_context(cadata=bundle.decode())
    return Certificates(server, stranger, client, bundle)
