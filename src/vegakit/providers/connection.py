"""This module holds one HTTP/1.1 connection to a provider, as a protocol of asyncio.

There is no stream between the socket and the parser, and at most one coroutine waits for an answer.
A deadline covers that waiting alone, never the time that the reader of an answer takes for himself.
"""

import asyncio
import re
import select
import ssl
import sys
from typing import Final, cast

from vegakit.providers.answer import BrokenError, Deadlines, Goal, HttpAnswer, RequestStage

_WAITS = re.compile(r"\btimeout=(\d{1,6})\b", re.IGNORECASE | re.ASCII)
_MARGIN_S = 1.0
"""A request that is on its way when the server stops waiting is never read, and nobody can tell."""


class Connection(asyncio.Protocol):
    """A connection that carries one request after another."""

    __slots__ = (
        "_answer",
        "_deadline",
        "_is_made",
        "_loop",
        "_paused",
        "_timer",
        "_transport",
        "_waiter",
        "expires_at",
        "is_writing",
        "lost",
        "socket_transport",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._answer: HttpAnswer | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0
        self._paused = self._is_made = False
        self._transport: asyncio.Transport
        self.socket_transport: asyncio.Transport
        """The lowest transport. Under TLS, only this one knows what is not yet sent."""
        self.is_writing = False
        self.expires_at = 0.0
        """Until when it may wait for another request, while nobody uses it."""
        self.lost = ""
        """Why the connection can be used no more; empty while it can."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport of the socket."""
        self.socket_transport = self._transport = cast("asyncio.Transport", transport)
        # With this limit, writing is paused until the very last byte is handed to the system.
        self.socket_transport.set_write_buffer_limits(high=0)
        self._is_made = True

    async def start_tls(self, tls: ssl.SSLContext, host: str) -> None:
        """Encrypt all that follows, above what was encrypted before."""
        if self.lost:
            raise ConnectionError(self.lost)
        transport = await self._loop.start_tls(self._transport, self, tls, server_hostname=host)
        if transport is None:
            raise ConnectionError("the server closed the connection before it was encrypted")
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Hand on what has arrived, and wake the one who waits for it."""
        answer = self._answer
        if answer is None or answer.whole:
            self.close("the server sent bytes that nobody had asked for")
            return
        answer.feed(data)
        if answer.fault is not None:
            self.close(str(answer.fault))
        elif answer.is_reached():
            self._wake()
        elif (within_s := answer.renew()) is not None and self._waiter is not None:
            self._set_deadline(within_s)

    def eof_received(self) -> None:
        """Note that no more will come; the transport closes itself."""
        self._lose("the server closed the connection")

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the connection is gone."""
        self._lose(f"the connection was lost ({exc})" if exc else "the connection was closed")
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def pause_writing(self) -> None:
        """Note that the system takes no more for now."""
        self.is_writing = True

    def resume_writing(self) -> None:
        """Note that the request is written; from now on the answer is waited for."""
        self.is_writing = self._unsent()
        if self.is_writing:
            return  # TLS says so when it has handed all of it to the socket, not the socket itself
        if self._waiter is not None and self._answer is not None and not self._answer.headed:
            self._set_deadline(self._answer.first_byte_s())

    def request(self, message: bytes, deadlines: Deadlines) -> HttpAnswer:
        """Write a request, and return the answer that is to come."""
        answer = self._answer = HttpAnswer(self, deadlines)
        if self.lost:
            answer.fault = BrokenError(
                RequestStage.CONNECT, f"{self.lost} {_WHEN[RequestStage.WRITE]}"
            )
            return answer
        self._transport.write(message)
        self.is_writing = self._unsent()
        return answer

    async def read_head(self, answer: HttpAnswer, deadlines: Deadlines) -> None:
        """Wait for the head of an answer. What is wrong with its body is told when that is read."""
        if not answer.is_reached():
            within_s = deadlines.write_s if self.is_writing else deadlines.first_byte_s
            await self.wait("head", within_s)
        if answer.fault is not None and not answer.headed:
            raise answer.fault

    async def wait(self, goal: Goal, within_s: float) -> None:
        """Wait until the answer has come that far. The deadline is one for all of the wait, except
        that a wait for the whole body begins anew with each part of it."""
        if self._waiter is not None:
            raise RuntimeError("an answer has one reader")
        if (answer := self._answer) is not None:
            answer.goal = goal
            if goal == "whole":
                self.go_on_reading()
        self._set_deadline(within_s)
        waiter = self._waiter = self._loop.create_future()
        try:
            await waiter
        finally:
            self._waiter = None

    def is_usable(self) -> bool:
        """Return true if an idle connection can take a request. One on which anything has arrived,
        be it only its end, is dead, even if the event loop has not come to see it."""
        return not self.lost and not _is_readable(self.socket_transport)

    def leave(self, usual_s: float = 0.0) -> bool:
        """Take leave of the answer; return true if the connection can take another request. The
        server may say for how long it waits for one."""
        answer, self._answer = self._answer, None
        if answer is None:
            return False
        said = _WAITS.search(answer.headers.get("keep-alive", ""))
        kept_s = min(usual_s, int(said[1]) - _MARGIN_S) if said else usual_s
        self.expires_at = self._loop.time() + kept_s
        answer.release()
        self._wake()
        clean = answer.whole and answer.kept_alive and not answer.surplus
        return clean and not self.lost and not self._paused and not self._unsent()

    def close(self, reason: str = "the connection was closed") -> None:
        """Close the socket at once, and drop what is unsent."""
        self._lose(reason)
        if self._is_made:
            self.socket_transport.abort()

    def stop_reading(self) -> None:
        """Leave what comes next to the system, since the reader is behind."""
        if not self._paused and not self.lost:
            self._paused = True
            self._transport.pause_reading()

    def go_on_reading(self) -> None:
        """Take in more."""
        if self._paused:
            self._paused = False
            if not self.lost:
                self._transport.resume_reading()

    def _unsent(self) -> bool:
        return self.socket_transport.get_write_buffer_size() > 0

    def _lose(self, reason: str) -> None:
        if self.lost:
            return
        self.lost = reason
        answer = self._answer
        if answer is not None and not answer.whole and answer.fault is None:
            stage = answer.stage()
            answer.fault = BrokenError(stage, f"{reason} {_WHEN[stage]}")
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _set_deadline(self, within_s: float) -> None:
        """Move the deadline. The timer stays as it is unless it would come too late: when it comes
        too early, it is set anew. So a stream costs no timer for each of its pieces."""
        self._deadline = self._loop.time() + within_s
        if self._timer is not None:
            if self._timer.when() <= self._deadline:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(self._deadline, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        answer = self._answer
        if self._waiter is None or answer is None:
            return
        if self._loop.time() < self._deadline:
            self._timer = self._loop.call_at(self._deadline, self._on_timer)
        elif self.is_writing and not answer.headed and not self._unsent():
            # Under TLS nobody says when the last byte is gone.
            self.resume_writing()
        elif not answer.is_reached():
            stage = answer.stage()
            message = f"the deadline passed {_WHEN[stage]}"
            answer.fault = BrokenError(stage, message, timed_out=True)
            self._wake()


_WHEN: Final = {
    RequestStage.CONNECT: "before there was a connection",
    RequestStage.WRITE: "before all of the request was written",
    RequestStage.FIRST_BYTE: "before the head of the answer had come",
    RequestStage.BETWEEN: "before the end of the answer",
}


def _is_readable(transport: asyncio.Transport) -> bool:
    sock = transport.get_extra_info("socket")
    if sock is None or sock.fileno() < 0:
        return True
    if sys.platform == "win32":
        return bool(select.select([sock.fileno()], [], [], 0)[0])
    poll = select.poll()
    poll.register(sock.fileno(), select.POLLIN)
    return bool(poll.poll(0))
