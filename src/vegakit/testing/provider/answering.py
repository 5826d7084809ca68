"""Carries one scripted answer out on a connection, and logs how it ended."""

from typing import assert_never

from vegakit.records import to_json
from vegakit.testing.provider.http import ClosedError, Connection
from vegakit.testing.provider.log import Log
from vegakit.testing.provider.requests import Request, RequestStatus
from vegakit.testing.provider.said import say
from vegakit.testing.provider.script import Choose, Drop, Failure, Hang, Reply
from vegakit.testing.provider.wire import WireFormat

__all__ = ["Exchange"]

_JSON = {"content-type": "application/json"}
_EVENTS = {"content-type": "text/event-stream; charset=utf-8"}


class Exchange:
    """One request and its answer; raises `ClosedError` if the client left or is dropped."""

    __slots__ = ("_format", "_line", "_log", "_request")

    def __init__(self, line: Connection, form: WireFormat, request: Request, log: Log) -> None:
        self._line, self._format, self._request, self._log = line, form, request, log

    async def carry_out(self, choose: Choose) -> None:
        try:
            answer = choose(self._request)
            await self._perform(Reply(answer) if isinstance(answer, str) else answer)
        except ClosedError:
            self._end(RequestStatus.DISCONNECTED)
            raise
        finally:
            self._end(RequestStatus.STOPPED)

    async def _perform(self, answer: Reply | Failure | Drop | Hang) -> None:
        match answer:
            case Reply():
                await self._wait(answer.delay_ms)
                await (self._stream(answer) if self._request.stream else self._whole(answer))
            case Failure():
                await self._wait(answer.delay_ms)
                await self._fail(answer)
            case Drop():
                await self._wait(answer.delay_ms)
                await self._line.flush()
                self._end(RequestStatus.DROPPED)
                raise ClosedError
            case Hang():
                await self._line.pause(None)
            case _:
                assert_never(answer)

    async def _whole(self, reply: Reply) -> None:
        body = to_json(self._format.whole(say(reply, self._request), self._request))
        headers = self._headers(_JSON, reply)
        self._request.code = 200
        if reply.breaks is None:
            self._line.send_whole(200, headers, body)
            await self._finish(RequestStatus.ANSWERED)
            return
        if not isinstance(reply.breaks.by, Failure):
            self._line.send_whole(200, headers, body, upto=len(body) // 2)
        await self._perform(reply.breaks.by)

    async def _stream(self, reply: Reply) -> None:
        stream = self._format.stream(say(reply, self._request), self._request)
        self._request.code = 200
        self._line.start_stream(200, self._headers(_EVENTS, reply))
        self._line.send_chunk(stream.opening)
        last = reply.breaks.after if reply.breaks else None
        for piece in stream.pieces[:last]:
            if self._request.sent:
                await self._wait(reply.gap_ms)
            self._line.send_chunk(piece)
            self._request.sent += 1
        if reply.breaks is not None:
            await self._break_off(reply.breaks.by)
            return
        self._line.send_chunk(stream.closing)
        self._line.end_stream()
        await self._finish(RequestStatus.ANSWERED)

    async def _break_off(self, by: Drop | Hang | Failure) -> None:
        if not isinstance(by, Failure):
            await self._perform(by)
            return
        await self._wait(by.delay_ms)
        self._line.send_chunk(self._format.broken(by, self._request))
        self._line.end_stream()
        await self._finish(RequestStatus.FAILED)

    async def _fail(self, failure: Failure) -> None:
        spelled = self._format.spell(failure)
        headers = self._headers(_JSON, failure)
        if failure.retry_after_s is not None:
            headers["retry-after"] = f"{failure.retry_after_s:g}"
        self._request.code = spelled.status
        self._line.send_whole(spelled.status, headers, to_json(spelled.body))
        await self._finish(RequestStatus.FAILED)

    async def _wait(self, delay_ms: int) -> None:
        if delay_ms:
            await self._line.pause(delay_ms / 1000)

    async def _finish(self, status: RequestStatus) -> None:
        self._end(status)
        await self._line.flush()

    def _headers(self, headers: dict[str, str], answer: Reply | Failure) -> dict[str, str]:
        name = f"req_{self._request.n}"
        return {**headers, "request-id": name, "x-request-id": name, **answer.headers}

    def _end(self, status: RequestStatus) -> None:
        self._log.ended(self._request, status)
