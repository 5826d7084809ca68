"""The MCP server over HTTP: loopback address, bearer token, checked Host and Origin, and a bounded
number of sessions.
"""

import asyncio
import hmac
import os
import secrets
from collections import OrderedDict
from collections.abc import Callable, Collection, MutableMapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from vegakit.control import RefusalCode
from vegakit.errors import UserError
from vegakit.server.asgi import (
    AsgiApp,
    AsgiReceive,
    AsgiScope,
    AsgiSend,
    http_server,
    is_loopback,
    listen,
    misaddressed,
    send_refusal,
)
from vegakit.server.mcp import server_of
from vegakit.server.operations import Operations

# Sessions over HTTP: as many as are allowed, and a new client always finds room.
#
# A client that goes away without a word leaves its session behind. It ends when it was idle for
# long enough; and when all places are taken, a new one takes the place of the one that was idle
# longest.
#
# | a request       | and                                 | then                       |
# |-----------------|-------------------------------------|----------------------------|
# | opens a session | there is room                       | it is served               |
# | opens a session | all places are taken, some are idle | the one idle longest ends  |
# | opens a session | all places are taken, none is idle  | 503                        |
# | names a session | that is there                       | it is the latest from now  |
# | names a session | that ended                          | 404: the client opens anew |
#
# A session is idle while no request of it is served and no stream of it is open. It is ended as a
# client would end it, by `DELETE`, so that nothing of the server's own is reached into.


_ID = b"mcp-session-id"
_GONE = 404


class Sessions:
    """A guard before the server's own app. It keeps the ids of sessions with how many requests of
    each are served, the one used longest ago first."""

    def __init__(self, app: AsgiApp, most: int) -> None:
        self._app, self._most = app, most
        self._busy: OrderedDict[bytes, int] = OrderedDict()
        self._opening = 0

    async def __call__(self, scope: AsgiScope, receive: AsgiReceive, send: AsgiSend) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif (named := _header(scope["headers"])) is not None:
            await self._continue(named, scope, receive, send)
        else:
            await self._open(scope, receive, send)

    async def _open(self, scope: AsgiScope, receive: AsgiReceive, send: AsgiSend) -> None:
        self._opening += 1
        opened: list[bytes] = []

        async def watch(message: MutableMapping[str, Any]) -> None:
            made = _header(message.get("headers", ()))
            if message["type"] == "http.response.start" and made is not None:
                self._busy[made] = 1
                opened.append(made)
                self._opening -= 1  # it is counted as opened from now on
            await send(message)

        try:
            await self._make_room(scope)
            await self._app(scope, receive, watch)
        finally:
            self._opening -= not opened
            self._release(opened)

    async def _continue(
        self, named: bytes, scope: AsgiScope, receive: AsgiReceive, send: AsgiSend
    ) -> None:
        known = [named] if named in self._busy else []
        for session in known:
            self._busy[session] += 1
            self._busy.move_to_end(session)

        async def watch(message: MutableMapping[str, Any]) -> None:
            is_over = message.get("status") == _GONE or scope["method"] == "DELETE"
            if message["type"] == "http.response.start" and is_over:
                self._busy.pop(named, None)
            await send(message)

        try:
            await self._app(scope, receive, watch)
        finally:
            self._release(known)

    def _release(self, sessions: list[bytes]) -> None:
        for session in sessions:
            if session in self._busy:
                self._busy[session] -= 1
                self._busy.move_to_end(session)

    async def _make_room(self, scope: AsgiScope) -> None:
        """End idle sessions until there is room for this one and those that are being opened beside
        it."""
        while len(self._busy) + self._opening > self._most:
            idle = next((session for session, busy in self._busy.items() if not busy), None)
            if idle is None:
                return
            del self._busy[idle]
            await self._end(idle, scope)

    async def _end(self, session: bytes, scope: AsgiScope) -> None:
        kept = [(name, value) for name, value in scope["headers"] if name == b"host"]
        asked = {**scope, "method": "DELETE", "headers": [*kept, (_ID, session)]}
        await self._app(asked, _empty_body, _discard)


def _header(headers: Any) -> bytes | None:  # noqa: ANN401
    return next((value for name, value in headers if name.lower() == _ID), None)


async def _empty_body() -> MutableMapping[str, Any]:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _discard(message: MutableMapping[str, Any]) -> None:
    del message


# Serving clients over HTTP: on this machine, with a token, and for requests that mean us.
#
# danger                                        | why it comes to nothing
# ----------------------------------------------|------------------------------------------------
# a web page that calls us under another name   | only our own names pass in `Host`
# a web page that calls us across origins       | no `Origin` but our own passes
# another user of this machine                  | every request has to bring the token
# somebody on the network                       | we listen on loopback, unless told otherwise
# huge or many requests                         | caps on bodies and sessions
# clients that go away and leave their sessions | the one idle longest makes room; all end, idle


_PATH = "/mcp"
_MOST_BODY = 2 << 20
_MOST_SESSIONS = 100
_IDLE_S = 1_800.0
_GRACE_S = 1
_ONLY_MINE = 0o077
_UNKNOWN = "send the header Authorization: Bearer TOKEN, with the token that vega mcp serve names"
_NOT_MEANT = "this server has another name, or the request is from a page of another origin"


class Address(Struct, frozen=True):
    """An address to listen on; `name` is what clients call it, where that is not a name of
    loopback."""

    host: str
    port: int
    name: str = ""


def address_of(text: str, name: str = "") -> Address:
    """Return the address in `127.0.0.1:8765`, `localhost:8765` or `[::1]:8765`; beyond loopback
    only with a name."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise UserError(f"{text!r} is no address; type: vega mcp serve --http 127.0.0.1:8765")
    if not is_loopback(host) and not name:
        raise UserError(
            f"{host} is reached from other machines. For this machine only, type: --http "
            f"127.0.0.1:{port}; to serve others, behind something that speaks TLS, add the name "
            "they call it by: --remote vega.example.com"
        )
    return Address(host, int(port), name)


def read_or_create_token(path: Path) -> str:
    """Return the token, which is made with the first server and the same for those that follow."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _read_token(path)
    with os.fdopen(made, "w", encoding="ascii") as file:
        file.write(token := secrets.token_urlsafe(32))
    return token


def _read_token(path: Path) -> str:
    if path.stat().st_mode & _ONLY_MINE:
        raise UserError(f"others may read the token in {path}; type: rm {path}, then start again")
    token = path.read_text(encoding="utf-8").strip()
    if len(token) < 20:
        raise UserError(f"{path} holds no token; type: rm {path}, then start again")
    return token


async def serve_http(
    operations: Operations,
    address: Address,
    token: str,
    on_open: Callable[[str], object],
    *,
    idle_s: float = _IDLE_S,
    most_sessions: int = _MOST_SESSIONS,
) -> None:
    """Serve clients until told to end; `on_open` is called with the address. A session that is idle
    for `idle_s` ends."""
    from mcp.server.transport_security import TransportSecuritySettings

    with listen(address.host, address.port, "--http HOST:PORT") as listening:
        names = _names(address, listening.getsockname()[1])
        app = server_of(operations).streamable_http_app(
            streamable_http_path=_PATH,
            max_request_body_size=_MOST_BODY,
            max_sessions=most_sessions,
            session_idle_timeout=idle_s,
            # Those are compared by the guard, as for every server here.
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )
        guarded = _TokenGuard(Sessions(app, most_sessions), token, names)
        async with http_server(guarded, listening, grace_s=_GRACE_S, lifespan="on") as serving:
            on_open(f"http://{names[0]}{_PATH}")
            await asyncio.shield(serving)


def _names(address: Address, port: int) -> list[str]:
    own = f"[{address.host}]" if ":" in address.host else address.host
    local = (own, "127.0.0.1", "localhost", "[::1]") if is_loopback(address.host) else ()
    given = (address.name, f"{address.name}:{port}") if address.name else ()
    return list(dict.fromkeys((*(f"{name}:{port}" for name in local), *given)))


class _TokenGuard:
    """A guard that tells nothing else to whoever has no token, or does not mean us."""

    def __init__(self, app: AsgiApp, token: str, names: Collection[str]) -> None:
        self._app, self._wanted, self._names = app, f"Bearer {token}".encode(), names

    async def __call__(self, scope: AsgiScope, receive: AsgiReceive, send: AsgiSend) -> None:
        if scope["type"] == "http":
            if not self._is_known(scope):
                await send_refusal(send, 401, RefusalCode.UNAUTHENTICATED.value, _UNKNOWN)
                return
            if status := misaddressed(scope, self._names):
                await send_refusal(send, status, RefusalCode.FORBIDDEN.value, _NOT_MEANT)
                return
        await self._app(scope, receive, send)

    def _is_known(self, scope: AsgiScope) -> bool:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        return len(given) == 1 and hmac.compare_digest(given[0], self._wanted)
