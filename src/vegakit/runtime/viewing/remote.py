"""A runtime in another process, as Python code sees it.

remote = connect()                    the only one that runs, or connect("night"), connect(4242)
await remote.ps()                     or, where nothing awaits: connect().blocking.ps()
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import TypeVar

import msgspec

from vegakit.config import load
from vegakit.errors import UserError
from vegakit.runtime.oversight import Question
from vegakit.runtime.processes import LogEntry, ProcessView
from vegakit.runtime.viewing.protocol import (
    MAX_LINE,
    VIEW_VERSION,
    Killed,
    Line,
    Request,
    RuntimeView,
)
from vegakit.runtime.viewing.sockets import find

__all__ = ["BlockingRemote", "Remote", "connect"]

T = TypeVar("T")

_ANSWER_S = 30.0
_line = msgspec.json.Decoder(Line)


def connect(at: str | int | Path | None = None) -> "Remote":
    """`at` is a runtime's name, its OS pid or its socket; not needed where only one runs."""
    wanted = str(at) if isinstance(at, int) else at
    return Remote(find(wanted, load().sockets_path))


class Remote:
    """Each call is a connection of its own, so a runtime may come and go between them."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket

    @property
    def blocking(self) -> "BlockingRemote":
        return BlockingRemote(self)

    async def info(self) -> RuntimeView:
        return await self._only(Request(VIEW_VERSION, "info"), RuntimeView)

    async def ps(self) -> list[ProcessView]:
        """In tree order: each before what is below it."""
        async with aclosing(self._values(Request(VIEW_VERSION, "ps"), ProcessView)) as values:
            return [view async for view in values]

    async def kill(self, id: str, *, tree: bool = False) -> Killed:  # noqa: A002
        """Ends this life, after which its supervisor decides; with `tree` for good, with all below
        it. Answers when nothing of it is left."""
        return await self._only(Request(VIEW_VERSION, "kill", id, tree), Killed)

    def logs(self, id: str, *, follow: bool = False) -> AsyncGenerator[LogEntry]:  # noqa: A002
        """What is remembered of a process and of those below it; then, if told to follow, on."""
        return self._values(Request(VIEW_VERSION, "logs", id, follow=follow), LogEntry)

    async def interrupts(self) -> list[Question]:
        request = Request(VIEW_VERSION, "interrupts")
        async with aclosing(self._values(request, Question)) as values:
            return [question async for question in values]

    async def answer(self, question: Question, answer: str) -> None:
        """To exactly what was shown: if that has changed, it is refused."""
        shown = question.action
        request = Request(VIEW_VERSION, "answer", question.id, answer=answer, action=shown)
        await self._only(request, str)

    async def _only(self, request: Request, kind: type[T]) -> T:
        async with aclosing(self._values(request, kind)) as values:
            return await anext(values)

    async def _values(self, request: Request, kind: type[T]) -> AsyncGenerator[T]:
        reader, writer = await self._open()
        try:
            writer.write(msgspec.json.encode(request) + b"\n")
            within_s = None if request.follow else _ANSWER_S
            while True:
                line = _line.decode(await self._next_line(reader, within_s))
                if line.error:
                    raise UserError(line.error)
                if line.end:
                    return
                yield msgspec.json.decode(line.value, type=kind)
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


class BlockingRemote:
    """For code that awaits nothing; not to be used inside an event loop."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote

    def info(self) -> RuntimeView:
        return asyncio.run(self._remote.info())

    def ps(self) -> list[ProcessView]:
        return asyncio.run(self._remote.ps())

    def kill(self, id: str, *, tree: bool = False) -> Killed:  # noqa: A002
        return asyncio.run(self._remote.kill(id, tree=tree))

    def interrupts(self) -> list[Question]:
        return asyncio.run(self._remote.interrupts())

    def answer(self, question: Question, answer: str) -> None:
        asyncio.run(self._remote.answer(question, answer))

    def logs(self, id: str, *, follow: bool = False) -> Iterator[LogEntry]:  # noqa: A002
        entries = self._remote.logs(id, follow=follow)
        with asyncio.Runner() as runner:
            while (entry := runner.run(_next(entries))) is not None:
                yield entry


async def _next(entries: AsyncGenerator[LogEntry]) -> LogEntry | None:
    return await anext(entries, None)
