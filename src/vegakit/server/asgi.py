"""Small pieces of an HTTP server and of an application on plain ASGI: where it listens, a bounded
body, JSON, server-sent events.

What is served here has a dozen routes made from a table, and is mounted into applications of
others: it needs no framework, and brings none.
"""

import asyncio
import ipaddress
import re
import socket
import ssl
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Collection,
    Generator,
    MutableMapping,
)
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Literal, TypeAlias

from vegakit.control import OperationError, RefusalCode
from vegakit.errors import UserError
from vegakit.records import to_json
from vegakit.server.admission import MOST_VALUES, FailureCode

AsgiScope: TypeAlias = MutableMapping[str, Any]
AsgiReceive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
AsgiSend: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
AsgiApp: TypeAlias = Callable[[AsgiScope, AsgiReceive, AsgiSend], Awaitable[None]]

STATUS = {
    RefusalCode.INVALID: 400,
    RefusalCode.UNAUTHENTICATED: 401,
    RefusalCode.BUDGET_EXCEEDED: 402,
    RefusalCode.FORBIDDEN: 403,
    RefusalCode.NOT_FOUND: 404,
    RefusalCode.CONFLICT: 409,
    RefusalCode.EXHAUSTED: 429,
    FailureCode.BUG: 500,
    FailureCode.UNAVAILABLE: 503,
    FailureCode.DEADLINE: 504,
}
_MOST_CONNECTIONS = 2_000
_HEAD_S = 20.0
"""The head of a request must be there within this."""
_JSON = b"application/json"
_RPC_REFUSED = -32_000
_DEEPEST = 64
_TEXTS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
"""A text, or the rest of the body where it does not end: a pattern that can fail after it has read
to the end would be tried from every quote, and a body of them would hold the loop for an hour."""
_BEFORE_VALUES = (b",", b"[", b"{")
_NO_BRACKETS = bytes(one for one in range(256) if one not in b"[]{}")


def is_loopback(host: str) -> bool:
    """Say whether an address is reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int, flag: str) -> socket.socket:
    """Return a socket that listens at an address; if it cannot, say why, and the `flag` that names
    another."""
    try:
        listening = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET
        )
    except OSError as error:
        raise UserError(
            f"{host}:{port} cannot be listened on: {error.strerror or error}; name another port: "
            f"{flag}"
        ) from None
    # For those it accepts too: else the end of each answer waits 40 ms for an acknowledgement.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


@asynccontextmanager
async def http_server(
    app: AsgiApp,
    listening: socket.socket,
    *,
    grace_s: int,
    tls: ssl.SSLContext | None = None,
    lifespan: Literal["on", "off"] = "off",
) -> "AsyncGenerator[asyncio.Future[None]]":
    """Serve an application while the block lasts; what is yielded is done when it fails. At the end
    nobody is admitted any more, and requests in flight have `grace_s` to finish."""
    import uvicorn

    class HttpServer(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Generator[None]:
            yield  # signals are for the program, which may serve more than this

    served: Any = app
    config = uvicorn.Config(
        served,
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        http=_bounded_connection(),
        lifespan=lifespan,
        ws="none",
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_graceful_shutdown=grace_s,
    )
    config.load()
    config.ssl = tls
    web = HttpServer(config)
    serving = asyncio.ensure_future(web.serve(sockets=[listening]))
    try:
        yield serving
    finally:
        web.should_exit = True
        await asyncio.wait({serving})
    serving.result()


def _bounded_connection() -> Any:  # noqa: ANN401  (a class of uvicorn's)
    """Return connections with a bounded time for the head of each request, bounded in number."""
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    loop, most = asyncio.get_running_loop(), _most_connections()
    base: Any = AutoHTTPProtocol  # by httptools if that is installed, else by h11

    def expect_head(connection: Any) -> None:  # noqa: ANN401  (one of those below)
        connection.head = loop.call_later(_HEAD_S, connection.transport.close)

    class HttpConnection(base):
        """Has a bounded time for its next request's head, and a place among a bounded number."""

        head: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:  # noqa: ANN401  (of asyncio)
            base.connection_made(self, transport)
            if len(self.connections) > most:
                transport.abort()
            else:
                expect_head(self)

        def data_received(self, data: bytes) -> None:
            # Once from its first byte: a head that trickles in gets no time for each byte.
            if self.head is None and not _has_request(self):
                expect_head(self)
            base.data_received(self, data)
            if _has_request(self):
                _forget_head(self)

        def connection_lost(self, exc: Exception | None) -> None:
            _forget_head(self)
            base.connection_lost(self, exc)

    return HttpConnection


def _has_request(connection: Any) -> bool:  # noqa: ANN401  (a connection of uvicorn's)
    return connection.cycle is not None and not connection.cycle.response_complete


def _forget_head(connection: Any) -> None:  # noqa: ANN401  (a connection of uvicorn's)
    if connection.head is not None:
        connection.head.cancel()
        connection.head = None


def _most_connections() -> int:
    """Leave descriptors for the store and the rest of the process."""
    import resource

    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(16, min(_MOST_CONNECTIONS, allowed // 2))


def misaddressed(scope: AsgiScope, names: Collection[str] = ()) -> int | None:
    """Return the status for a request that does not mean us: 421 if its `Host` is none of our
    names, 403 if a page of another origin sends it. Without names any `Host` is ours."""
    host, origin = header(scope, b"host"), header(scope, b"origin")
    if names and host not in names:
        return 421
    ours = {f"{way}://{name}" for name in names or (host,) for way in ("http", "https")}
    has_origin = any(name == b"origin" for name, _ in scope["headers"])
    return 403 if has_origin and origin not in ours else None


class ClientGoneError(Exception):
    """The client has gone before it had sent all of its request."""


def header(scope: AsgiScope, name: bytes) -> str:
    """Return the one header of this name; empty if there is none, or several that disagree."""
    found = {value for key, value in scope["headers"] if key == name}
    return found.pop().decode("latin-1") if len(found) == 1 else ""


def path_of(scope: AsgiScope) -> str:
    """Return the path below the place where the application is mounted."""
    return scope["path"].removeprefix(scope.get("root_path", "")) or "/"


async def read_json_body(scope: AsgiScope, receive: AsgiReceive, most: int) -> bytes:
    """Return the body of a request for JSON, which must say that it is."""
    body = await read_body(scope, receive, most)
    check_json(body)
    return body


async def read_body(scope: AsgiScope, receive: AsgiReceive, most: int) -> bytes:
    """Return the body of a request that says it is JSON, unseen. A browser sends other types to
    other sites without asking, so they are refused."""
    kind = header(scope, b"content-type").partition(";")[0].strip().lower()
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGoneError
        body += message.get("body", b"")
        if len(body) > most:
            raise OperationError(RefusalCode.INVALID, f"the request is larger than {most} bytes")
        if not message.get("more_body"):
            break
        _check_kind(kind)
    if body:  # a request without fields needs no body, and so no type of it
        _check_kind(kind)
    return bytes(body)


def _check_kind(kind: str) -> None:
    if kind != _JSON.decode():
        raise OperationError(RefusalCode.INVALID, "send JSON, and Content-Type: application/json")


def check_json(body: bytes) -> None:
    """Refuse what takes long to decode, or is too deep for whoever encodes it again."""
    if has_too_many(body):
        raise OperationError(RefusalCode.INVALID, f"the JSON has more than {MOST_VALUES} values")
    if is_too_deep(body):
        raise OperationError(RefusalCode.INVALID, f"the JSON is nested deeper than {_DEEPEST}")


def has_too_many(body: bytes) -> bool:
    """Say whether JSON has more values than are made of one request: each comma and each bracket
    that opens is at most one more. A value and its key have four quotes."""
    if body.count(b'"') - body.count(b'\\"') > 4 * MOST_VALUES:
        return True
    if sum(map(body.count, _BEFORE_VALUES)) <= MOST_VALUES:
        return False
    rest = _TEXTS.sub(b"", body)
    return sum(map(rest.count, _BEFORE_VALUES)) > MOST_VALUES


def is_too_deep(body: bytes) -> bool:
    """Say whether JSON is nested deeper than any honest request. What can just be decoded here may
    be too deep to be encoded elsewhere, where less of the stack is left."""
    if body.count(b"[") + body.count(b"{") <= _DEEPEST:
        return False
    brackets = _TEXTS.sub(b"", body).translate(None, _NO_BRACKETS)
    # Each round takes away the innermost pairs, so this takes time in proportion to the body.
    for _ in range(_DEEPEST):
        if not brackets:
            return False
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    return bool(brackets)


async def send_json(send: AsgiSend, status: int, value: object, *more: tuple[bytes, bytes]) -> None:
    """Send one value as the whole response, with more headers than all have."""
    await send_json_text(send, status, to_json(value), *more)


async def send_json_text(
    send: AsgiSend, status: int, body: bytes, *more: tuple[bytes, bytes]
) -> None:
    """Send JSON as the whole response, with more headers than all have."""
    headers = [
        (b"content-type", _JSON),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
        *more,
    ]
    if status == STATUS[RefusalCode.UNAUTHENTICATED]:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def send_refusal(
    send: AsgiSend, status: int, code: str, message: str, *more: tuple[bytes, bytes]
) -> None:
    """Send why a request was refused, for machines and for people."""
    await send_json(send, status, {"error": {"code": code, "message": message}}, *more)


async def send_rpc_refusal(send: AsgiSend, status: int, code: str, message: str) -> None:
    """Send why a request was refused as an error of JSON-RPC: clients of MCP show no other. Its id
    is not known, as the request may not have been read."""
    error = {"code": _RPC_REFUSED, "message": message, "data": {"code": code}}
    await send_json(send, status, {"jsonrpc": "2.0", "id": None, "error": error})


async def until_gone(receive: AsgiReceive) -> None:
    """Return when the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


class EventStream:
    """A response of server-sent events. It begins with the first event, so that an error before it
    still has a status of its own."""

    def __init__(self, send: AsgiSend) -> None:
        self._send, self.has_begun = send, False

    async def begin(self) -> None:
        """Send the head, once."""
        if self.has_begun:
            return
        self.has_begun = True
        headers = [
            (b"content-type", b"text/event-stream"),
            (b"cache-control", b"no-store"),
            (b"x-content-type-options", b"nosniff"),
        ]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})

    async def event(self, name: str, value: object, number: int | None = None) -> None:
        """Send one event; its number is what a client that comes back says it has seen."""
        await self.begin()
        key = b"" if number is None else b"id: %d\n" % number
        text = key + b"event: " + name.encode() + b"\ndata: " + to_json(value) + b"\n\n"
        await self._send({"type": "http.response.body", "body": text, "more_body": True})

    async def keep_alive(self) -> None:
        """Send a comment, so that proxies do not take a quiet stream for a dead one."""
        await self.begin()
        await self._send({"type": "http.response.body", "body": b": \n\n", "more_body": True})

    async def end(self) -> None:
        """End the response."""
        await self.begin()
        await self._send({"type": "http.response.body", "body": b""})
