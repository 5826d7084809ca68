"""The client of a running runtime: it sends one request a connection, for any row of the table.

remote = connect()              the only one that runs, or connect("night"), connect(4242)
await remote.ps()               or, where nothing awaits: connect().blocking.ps()
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from pathlib import Path

import msgspec

from vegakit.config import load
from vegakit.control.messages import (
    AnswerRequest,
    EmptyRequest,
    KillRequest,
    KillResult,
    LogEntry,
    LogsRequest,
    ProcessView,
    RuntimeView,
)
from vegakit.control.operations import (
    ANSWER,
    INFO,
    INTERRUPTS,
    KILL,
    LOGS,
    PS,
    Operation,
    ReplyT,
    RequestT,
)
from vegakit.control.questions import Question
from vegakit.control.sockets import MAX_LINE, ControlReply, encode_request, find
from vegakit.errors import UserError
from vegakit.ids import Digest

_ANSWER_S = 30.0
_line = msgspec.json.Decoder(ControlReply)


def connect(at: str | int | Path | None = None) -> "ControlClient":
    """Return the client of a running runtime. `at` is its name, its OS pid or its socket; it is not
    needed where only one runs."""
    wanted = str(at) if isinstance(at, int) else at
    return ControlClient(find(wanted, load().sockets_path))


class ControlClient:
    """Implements `ProcessControl` for a runtime in another process. Each call is a connection of
    its own, so a runtime may come and go between them."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket

    @property
    def blocking(self) -> "BlockingControlClient":
        """The same runtime for code that awaits nothing."""
        return BlockingControlClient(self)

    async def info(self) -> RuntimeView:
        """Return the runtime as a whole."""
        return await self.one(INFO, EmptyRequest())

    async def ps(self) -> list[ProcessView]:
        """Return every process in tree order: each before what is below it."""
        return await self.every(PS, EmptyRequest())

    async def kill(self, id: str, *, tree: bool = False) -> KillResult:  # noqa: A002
        """End this incarnation, after which the supervisor decides; with `tree` end it for good,
        with all below it. Return when nothing of it is left."""
        return await self.one(KILL, KillRequest(id, tree))

    def logs(self, id: str, *, follow: bool = False) -> AsyncGenerator[LogEntry]:  # noqa: A002
        """Yield what is remembered of a process and of those below it; with `follow`, go on."""
        return self.stream(LOGS, LogsRequest(id, follow), within_s=None if follow else _ANSWER_S)

    async def interrupts(self) -> list[Question]:
        """Return the questions that people have not answered, the oldest first."""
        return await self.every(INTERRUPTS, EmptyRequest())

    async def answer(
        self,
        id: str,  # noqa: A002
        answer: bool | str,
        *,
        action: Digest | None = None,
    ) -> None:
        """Answer a question. With `action`, that of the question as it was shown, the answer is
        refused if the question has changed."""
        await self.one(ANSWER, AnswerRequest(id, answer, action))

    async def one(self, row: Operation[RequestT, ReplyT], request: RequestT) -> ReplyT:
        """Ask for an operation that replies with one value."""
        async with aclosing(self.stream(row, request)) as values:
            return await anext(values)

    async def every(self, row: Operation[RequestT, ReplyT], request: RequestT) -> list[ReplyT]:
        """Ask for an operation that replies with a list."""
        async with aclosing(self.stream(row, request)) as values:
            return [value async for value in values]

    async def stream(
        self,
        row: Operation[RequestT, ReplyT],
        request: RequestT,
        *,
        within_s: float | None = _ANSWER_S,
    ) -> AsyncGenerator[ReplyT]:
        """Ask for any operation, and yield the values of its reply as they come."""
        reader, writer = await self._open()
        try:
            writer.write(encode_request(row, request))
            while True:
                line = _line.decode(await self._next_line(reader, within_s))
                if line.error:
                    raise UserError(line.error)
                if line.end:
                    return
                yield msgspec.json.decode(line.value, type=row.reply)
        finally:
            writer.close()

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            return await asyncio.open_unix_connection(str(self.socket), limit=MAX_LINE)
        except OSError as error:
            raise UserError(
                f"the runtime at {self.socket} does not answer ({error.strerror or error}); it may "
                "have ended; to see those that run, leave out --at"
            ) from error

    async def _next_line(self, reader: asyncio.StreamReader, within_s: float | None) -> bytes:
        try:
            line = await asyncio.wait_for(reader.readline(), within_s)
        except TimeoutError:
            raise UserError(
                f"the runtime at {self.socket} did not answer within {_ANSWER_S:.0f} s: its event "
                "loop is blocked; end it from outside with `kill` and its OS pid"
            ) from None
        except ConnectionError:
            line = b""
        if not line:
            raise UserError(
                f"the runtime at {self.socket} hung up: it has ended, or its log says why not"
            )
        return line


class BlockingControlClient:
    """A runtime in another process, for code that awaits nothing. It runs a loop of its own for
    each call, so it is not for use inside one."""

    def __init__(self, remote: ControlClient) -> None:
        self._remote = remote

    def info(self) -> RuntimeView:
        """Return the runtime as a whole, as `ControlClient.info` does."""
        return asyncio.run(self._remote.info())

    def ps(self) -> list[ProcessView]:
        """Return every process in tree order, as `ControlClient.ps` does."""
        return asyncio.run(self._remote.ps())

    def kill(self, id: str, *, tree: bool = False) -> KillResult:  # noqa: A002
        """End a process, with `tree` all below it too, as `ControlClient.kill` does."""
        return asyncio.run(self._remote.kill(id, tree=tree))

    def interrupts(self) -> list[Question]:
        """Return the open questions, the oldest first, as `ControlClient.interrupts` does."""
        return asyncio.run(self._remote.interrupts())

    def answer(
        self,
        id: str,  # noqa: A002
        answer: bool | str,
        *,
        action: Digest | None = None,
    ) -> None:
        """Answer a question, as `ControlClient.answer` does."""
        asyncio.run(self._remote.answer(id, answer, action=action))

    def logs(self, id: str, *, follow: bool = False) -> Iterator[LogEntry]:  # noqa: A002
        """Yield what is remembered of a process, as `ControlClient.logs` does."""
        entries = self._remote.logs(id, follow=follow)
        with asyncio.Runner() as runner:
            while (entry := runner.run(_next(entries))) is not None:
                yield entry


async def _next(entries: AsyncGenerator[LogEntry]) -> LogEntry | None:
    return await anext(entries, None)
