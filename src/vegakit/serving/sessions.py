"""Sessions over HTTP: as many as are allowed, and a new client always finds room.

A client that goes away without a word leaves its session behind. It ends when it was idle for long
enough; and when all places are taken, a new one takes the place of the one that was idle longest.

| a request       | and                                 | then                       |
|-----------------|-------------------------------------|----------------------------|
| opens a session | there is room                       | it is served               |
| opens a session | all places are taken, some are idle | the one idle longest ends  |
| opens a session | all places are taken, none is idle  | 503                        |
| names a session | that is there                       | it is the latest from now  |
| names a session | that ended                          | 404: the client opens anew |

A session is idle while no request of it is served and no stream of it is open. It is ended as a
client would end it, by `DELETE`, so that nothing of the server's own is reached into.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

__all__ = ["App", "Receive", "Scope", "Send", "Sessions"]

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

_ID = b"mcp-session-id"
_GONE = 404


class Sessions:
    """Stands before the server's own app. Keeps the ids with how many requests of each are served,
    the one used longest ago first."""

    def __init__(self, app: App, most: int) -> None:
        self._app, self._most = app, most
        self._busy: OrderedDict[bytes, int] = OrderedDict()
        self._opening = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif (named := _header(scope["headers"])) is not None:
            await self._go_on(named, scope, receive, send)
        else:
            await self._open(scope, receive, send)

    async def _open(self, scope: Scope, receive: Receive, send: Send) -> None:
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
            self._leave(opened)

    async def _go_on(self, named: bytes, scope: Scope, receive: Receive, send: Send) -> None:
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
            self._leave(known)

    def _leave(self, sessions: list[bytes]) -> None:
        for session in sessions:
            if session in self._busy:
                self._busy[session] -= 1
                self._busy.move_to_end(session)

    async def _make_room(self, scope: Scope) -> None:
        """For this one and those that are being opened beside it."""
        while len(self._busy) + self._opening > self._most:
            idle = next((session for session, busy in self._busy.items() if not busy), None)
            if idle is None:
                return
            del self._busy[idle]
            await self._end(idle, scope)

    async def _end(self, session: bytes, scope: Scope) -> None:
        kept = [(name, value) for name, value in scope["headers"] if name == b"host"]
        asked = {**scope, "method": "DELETE", "headers": [*kept, (_ID, session)]}
        await self._app(asked, _nothing, _nobody)


def _header(headers: Any) -> bytes | None:  # noqa: ANN401
    return next((value for name, value in headers if name.lower() == _ID), None)


async def _nothing() -> MutableMapping[str, Any]:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _nobody(message: MutableMapping[str, Any]) -> None:
    del message
