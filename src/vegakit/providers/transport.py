"""This module speaks as much HTTP/1.1 as a provider needs: one POST, its answer whole or in pieces,
over a pool of connections.

No redirects, no resending, no cookies, and nothing is read from the environment but where the
trusted certificates are. A request that was written is never written again: whether the server has
acted on it is for the caller to judge, by the stage at which it broke.
"""

import asyncio
import re
import socket
import ssl
import sys
from base64 import b64encode
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from functools import lru_cache, partial
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import SplitResult, unquote_to_bytes, urlsplit

from vegakit.errors import SettingsError
from vegakit.providers.answer import BrokenError, Deadlines, HttpAnswer, RequestStage
from vegakit.providers.connection import Connection
from vegakit.wires import Header

_IDLE_S: Final = 15.0
"""Providers, and what stands before them, close idle connections after 30 s to some minutes."""
_PLAIN_IDLE_S: Final = 4.0
"""Servers without TLS are near, so that a new connection costs little, and many of them wait for
five seconds without saying so."""

_KEEPALIVE_S: Final = 60
_SECOND_ADDRESS_AFTER_S: Final = 0.25
_NAME: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_OURS: Final = frozenset({b"host", b"content-length", b"transfer-encoding", b"connection"})


class _Place(NamedTuple):
    """Where a connection leads."""

    secure: bool
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class _Target(NamedTuple):
    place: _Place
    opening: bytes
    """The first two lines of a request."""


class _Proxy(NamedTuple):
    place: _Place
    authorization: bytes
    """The header line with the password; empty without one."""


class ConnectionPool:
    """Connections that are kept for the next request. A pool may be used from several event loops;
    each has connections of its own.

    `proxy` is an http or https URL, with a name and a password if the proxy asks for them. `tls` is
    for servers and proxies alike; without it, what the system trusts is trusted.
    """

    def __init__(
        self, *, proxy: str | None = None, tls: ssl.SSLContext | None = None, most_idle: int = 100
    ) -> None:
        self._proxy = None if proxy is None else _read_proxy(proxy)
        self._tls = tls
        self._most_idle = most_idle
        self._shelves: dict[asyncio.AbstractEventLoop, _Shelf] = {}
        self._last_shelf: _Shelf | None = None

    def post(
        self,
        url: str,
        headers: Sequence[Header],
        body: bytes,
        deadlines: Deadlines,
        on_write: Callable[[], None] = lambda: None,
    ) -> AbstractAsyncContextManager[HttpAnswer]:
        """Send a request; the context begins with the head of its answer. Leaving it before the end
        of the answer closes the connection at once. `on_write` is called before the first byte of
        the request is written, so that whoever is cancelled knows whether it was. Raises
        `BrokenError`; a URL or a header that cannot be sent is a `ValueError`, before anything is
        sent."""
        return _Exchange(partial(self._begin, url, headers, body, deadlines), deadlines, on_write)

    def close(self) -> None:
        """Close the idle connections, those of other event loops by way of these loops."""
        for shelf in list(self._shelves.values()):
            shelf.close_from_anywhere()

    async def _begin(
        self, url: str, headers: Sequence[Header], body: bytes, deadlines: Deadlines
    ) -> "_Begun":
        """Return a connection, and the message that is to be written to it."""
        target = _read_url(url, through_proxy=self._proxy is not None)
        place = target.place
        extra = b""
        if self._proxy is not None and not place.secure:
            extra = self._proxy.authorization
        message = _write_message(target.opening + extra, headers, body)
        shelf = self._last_shelf
        if shelf is None or shelf.loop is not asyncio.get_running_loop():
            shelf = await self._shelf()
        connection = shelf.take(place)
        if connection is None:
            connection = await self._connect(place, deadlines.connect_s)
        return shelf, place, connection, message

    async def _shelf(self) -> "_Shelf":
        loop = asyncio.get_running_loop()
        shelf = self._shelves.get(loop)
        if shelf is None:
            for ended in [one for one in list(self._shelves) if one.is_closed()]:
                self._shelves.pop(ended, None)
            shelf = self._shelves[loop] = _Shelf(loop, self._most_idle)
            await shelf.close_with_loop()
        self._last_shelf = shelf
        return shelf

    async def _connect(self, place: _Place, within_s: float) -> Connection:
        """Open a connection that is ready for a request."""
        connection = Connection(asyncio.get_running_loop())
        try:
            by_way = f" by way of the proxy {self._proxy.place}" if self._proxy else ""
            with _told(f"{place}{by_way}"):
                async with asyncio.timeout(within_s):
                    await self._open(connection, place, within_s)
        except BaseException:
            connection.close()
            raise
        return connection

    async def _open(self, connection: Connection, place: _Place, within_s: float) -> None:
        proxy = self._proxy
        if proxy is None:
            await _open_socket(connection, place)
        else:
            await _open_socket(connection, proxy.place)
            if proxy.place.secure:
                await self._start_tls(connection, proxy.place)
            if place.secure:
                await _open_tunnel(connection, place, proxy, within_s)
        if place.secure:
            await self._start_tls(connection, place)

    async def _start_tls(self, connection: Connection, place: _Place) -> None:
        tls = self._tls or tls_context()
        await connection.start_tls(tls, place.host)


_Begun: TypeAlias = "tuple[_Shelf, _Place, Connection, bytes]"


class _Exchange(AbstractAsyncContextManager[HttpAnswer]):
    """One request and its answer. A class, since a generator costs some microseconds more."""

    __slots__ = ("_begin", "_begun", "_deadlines", "_on_write")

    def __init__(
        self,
        begin: "Callable[[], Awaitable[_Begun]]",
        deadlines: Deadlines,
        on_write: Callable[[], None],
    ) -> None:
        self._begin, self._deadlines, self._on_write = begin, deadlines, on_write

    async def __aenter__(self) -> HttpAnswer:
        self._begun = shelf, place, connection, message = await self._begin()
        deadlines = self._deadlines
        try:
            self._on_write()
            answer = connection.request(message, deadlines)
            await connection.read_head(answer, deadlines)
        except BaseException:
            shelf.give_back(place, connection)
            raise
        return answer

    async def __aexit__(self, *_: object) -> None:
        shelf, place, connection, _message = self._begun
        shelf.give_back(place, connection)


class _Shelf:
    """The idle connections of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, most_idle: int) -> None:
        self.loop = loop
        self._most_idle = most_idle
        self._idle: dict[_Place, list[Connection]] = {}
        self._sweep: asyncio.TimerHandle | None = None
        self._end = self._wait_for_end()

    def take(self, place: _Place) -> Connection | None:
        """Return the connection that was used last, if it is still alive."""
        idle = self._idle.get(place)
        if not idle:
            return None
        now = self.loop.time()
        while idle:
            connection = idle.pop()
            if connection.expires_at >= now and connection.is_usable():
                return connection
            connection.close()
        return None

    def give_back(self, place: _Place, connection: Connection) -> None:
        """Keep a connection whose answer was read to its end; close any other."""
        idle = self._idle.setdefault(place, [])
        usual_s = _IDLE_S if place.secure else _PLAIN_IDLE_S
        if not connection.leave(usual_s) or len(idle) >= self._most_idle:
            connection.close()
            return
        idle.append(connection)
        if self._sweep is None:
            self._sweep = self.loop.call_at(connection.expires_at, self._close_expired)

    def close(self) -> None:
        """Close all idle connections."""
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        for idle in self._idle.values():
            for connection in idle:
                connection.close()
        self._idle.clear()

    def close_from_anywhere(self) -> None:
        """Close all idle connections in the event loop that they belong to."""
        if _running_loop() is self.loop:
            self.close()
            return
        with suppress(RuntimeError):  # the loop has ended, and its connections with it
            self.loop.call_soon_threadsafe(self.close)

    async def close_with_loop(self) -> None:
        """Have the idle connections closed when the event loop ends: it ends the generators that
        were begun in it."""
        await anext(self._end)

    async def _wait_for_end(self) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            self.close()

    def _close_expired(self) -> None:
        self._sweep = None
        now = self.loop.time()
        for place, idle in list(self._idle.items()):
            kept = [one for one in idle if one.expires_at > now and not one.lost]
            for connection in set(idle).difference(kept):
                connection.close()
            self._idle[place] = kept
            if not kept:
                del self._idle[place]
        ends = [one.expires_at for idle in self._idle.values() for one in idle]
        if ends:
            self._sweep = self.loop.call_at(min(ends), self._close_expired)


def tls_context(ca_bundle: str | None = None) -> ssl.SSLContext:
    """Return a context that trusts what the system trusts, or the certificates of a file instead.
    It is made once: reading the certificates takes longer than a request."""
    return _make_context(ca_bundle, ssl.get_default_verify_paths())


def bundle_context(ca_bundle: str) -> ssl.SSLContext:
    """Return a context that trusts the certificates of a file that the settings name."""
    try:
        return tls_context(ca_bundle)
    except OSError as error:  # that of a file without a certificate is one, too
        why = "holds no certificate" if isinstance(error, ssl.SSLError) else error.strerror
        raise SettingsError(
            f"the ca_bundle {ca_bundle} cannot be used: {why}; write the path of a file with the "
            "certificates of your authority, in PEM"
        ) from None


@lru_cache(maxsize=16)
def _make_context(ca_bundle: str | None, paths: ssl.DefaultVerifyPaths) -> ssl.SSLContext:
    # SSL_CERT_FILE and SSL_CERT_DIR stand in the paths, and OpenSSL heeds them.
    usual = {None, paths.openssl_cafile, paths.openssl_capath}
    context = None
    if ca_bundle is None and {paths.cafile, paths.capath} <= usual:
        context = _system_context()
    if context is None:
        context = ssl.create_default_context(cafile=ca_bundle)
    context.set_alpn_protocols(["http/1.1"])
    return context


def _system_context() -> ssl.SSLContext | None:
    """Return a context that asks the system itself where OpenSSL does not know its certificates."""
    if sys.platform not in {"darwin", "win32"}:
        return None
    try:
        import truststore
    except ImportError:
        return None
    return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@contextmanager
def _told(place: str) -> Generator[None]:
    """Say in one way that there is no connection."""
    try:
        yield
    except TimeoutError:
        message = f"{place}: the deadline passed before there was a connection"
        raise BrokenError(RequestStage.CONNECT, message, timed_out=True) from None
    except BrokenError as error:
        timed_out = error.timed_out
        raise BrokenError(RequestStage.CONNECT, f"{place}: {error}", timed_out=timed_out) from None
    except ssl.SSLCertVerificationError as error:
        message = f"{place}: the certificate is not trusted ({error.verify_message})"
        raise BrokenError(RequestStage.CONNECT, message) from error
    except (OSError, ValueError) as error:
        message = f"{place}: no connection ({error})"
        raise BrokenError(RequestStage.CONNECT, message) from error


async def _open_socket(connection: Connection, place: _Place) -> None:
    loop = asyncio.get_running_loop()
    # Another event loop than that of asyncio may not know this option.
    host, port = place.host, place.port
    if isinstance(loop, asyncio.BaseEventLoop):
        after_s = _SECOND_ADDRESS_AFTER_S
        await loop.create_connection(lambda: connection, host, port, happy_eyeballs_delay=after_s)
    else:
        await loop.create_connection(lambda: connection, host, port)
    sock = connection.socket_transport.get_extra_info("socket")
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # macOS calls the first of these by another name.
    for name in ("TCP_KEEPIDLE", "TCP_KEEPALIVE", "TCP_KEEPINTVL"):
        if (option := getattr(socket, name, None)) is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, _KEEPALIVE_S)


async def _open_tunnel(
    connection: Connection, place: _Place, proxy: _Proxy, within_s: float
) -> None:
    """Have the proxy connect us with a server. All that can go wrong is a want of connection."""
    waits = Deadlines(write_s=within_s, first_byte_s=within_s)
    asked = b"CONNECT %b HTTP/1.1\r\nhost: %b\r\n" % ((str(place).encode("ascii"),) * 2)
    answer = connection.request(asked + proxy.authorization + b"\r\n", waits)
    try:
        await connection.read_head(answer, waits)
    except BrokenError as error:
        message = f"the proxy {proxy.place} did not connect: {error}"
        raise BrokenError(RequestStage.CONNECT, message, timed_out=error.timed_out) from None
    if answer.status == 407:
        raise BrokenError(
            RequestStage.CONNECT, f"the proxy {proxy.place} asks for a name and a password"
        )
    if answer.status >= 300:
        message = f"the proxy {proxy.place} refused to connect (status {answer.status})"
        raise BrokenError(RequestStage.CONNECT, message)
    if answer.buffered or answer.surplus:
        message = f"the proxy {proxy.place} sent bytes of its own into the connection"
        raise BrokenError(RequestStage.CONNECT, message)
    connection.leave()


@lru_cache(maxsize=256)
def _read_url(url: str, *, through_proxy: bool) -> _Target:
    parts = _split(url)
    place = _place(parts)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if through_proxy and not place.secure:
        path = f"http://{parts.netloc}{path}"
    opening = f"POST {path} HTTP/1.1\r\nhost: {parts.netloc}\r\n"
    if parts.username is not None or parts.password is not None:
        raise ValueError("the URL of a provider must not hold a name or a password")
    return _Target(place, opening.encode("ascii"))


def _read_proxy(url: str) -> _Proxy:
    parts = _split(url)
    if parts.username is None and parts.password is None:
        return _Proxy(_place(parts), b"")
    user, password = (unquote_to_bytes(part or "") for part in (parts.username, parts.password))
    encoded = b64encode(b"%b:%b" % (user, password))
    return _Proxy(_place(parts), b"proxy-authorization: Basic %b\r\n" % encoded)


def proxy_secrets(url: str) -> tuple[str, ...]:
    """Return what must not be shown of the URL of a proxy, as it stands there and as it is sent."""
    parts = _split(url)
    encoded = _read_proxy(url).authorization.rpartition(b" ")[2].strip().decode()
    return tuple(filter(None, (parts.password, encoded)))


def _split(url: str) -> SplitResult:
    # `urlsplit` drops line breaks in silence. The message shows no URL: there may be a key in it.
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("a URL must consist of printable ASCII characters without spaces")
    return urlsplit(url)


def _place(parts: SplitResult) -> _Place:
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("a URL must begin with http:// or https:// and a host")
    secure = parts.scheme == "https"
    try:
        port = parts.port
    except ValueError:
        # Its own words hold the text, which may be a password with a character that ends a host.
        raise ValueError(
            "the port of a URL is no number; in a password write / as %2F, # as %23 and @ as %40"
        ) from None
    return _Place(secure, parts.hostname, port or (443 if secure else 80))


def _write_message(opening: bytes, headers: Sequence[Header], body: bytes) -> bytes:
    """Return the request. No header can begin another one, or end the head."""
    lines = [opening]
    for name, value in headers:
        if not _is_ours_to_send(name):
            raise ValueError(f"the header {name[:40]!r} cannot be sent")
        lines.append(b"%b: %b\r\n" % (name, value))
    lines.append(b"content-length: %d\r\n\r\n" % len(body))
    head = b"".join(lines)
    breaks = opening.count(b"\n") + len(headers) + 2
    if head.count(b"\n") != breaks or head.count(b"\r") != breaks or b"\0" in head:
        raise ValueError("a header holds a line break or a NUL character")
    return head + body


@lru_cache(maxsize=1024)
def _is_ours_to_send(name: bytes) -> bool:
    return _NAME.fullmatch(name) is not None and name.lower() not in _OURS


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
