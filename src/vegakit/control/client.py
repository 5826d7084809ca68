"""The client of a running runtime: it finds the socket and sends one request a connection."""

import asyncio
import os
import re
import socket
import struct
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from vegakit.config import load
from vegakit.control.process_views import ProcessView
from vegakit.control.protocol import (
    CONTROL_VERSION,
    MAX_LINE,
    ControlReply,
    ControlRequest,
    KillResult,
    LogEntry,
    Question,
    RuntimeView,
)
from vegakit.errors import UserError

# The sockets of running runtimes: `<os pid>-<name>.sock` in a directory only their user enters.
#
# A runtime that was killed leaves its socket behind; whoever lists them removes it.


_SUFFIX = ".sock"
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_.-]+")
_LONGEST_NAME = 40
_CONNECT_S = 2.0
_ONLY_MINE = 0o700
_CREDENTIALS = struct.Struct("3i")


class RunningRuntime(Struct, frozen=True):
    path: Path
    os_pid: int
    name: str

    def __str__(self) -> str:
        return f"{self.os_pid} ({self.name})"


def open_socket(directory: Path, name: str) -> tuple[socket.socket, Path]:
    """Listens before it can be found, so that nobody takes it for one that was left behind."""
    directory.mkdir(mode=_ONLY_MINE, parents=True, exist_ok=True)
    if directory.stat().st_uid != os.geteuid():
        raise PermissionError(f"{directory} belongs to somebody else")
    directory.chmod(_ONLY_MINE)
    path = _free_path(directory, name)
    hidden = path.with_suffix(".new")
    hidden.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(str(hidden))
        hidden.chmod(0o600)
        listening.listen()
        hidden.rename(path)
    except OSError:
        listening.close()
        raise
    return listening, path


def _free_path(directory: Path, name: str) -> Path:
    """Two runtimes of one name may live in one OS process."""
    plain = _NOT_PLAIN.sub("_", name)[:_LONGEST_NAME] or "default"
    number, path = 1, directory / f"{os.getpid()}-{plain}{_SUFFIX}"
    while path.exists():
        number += 1
        path = directory / f"{os.getpid()}-{plain}~{number}{_SUFFIX}"
    return path


def running_runtimes(directory: Path) -> list[RunningRuntime]:
    """By OS pid; what is left of the dead is removed."""
    found: list[RunningRuntime] = []
    for path in directory.glob(f"*{_SUFFIX}"):
        os_pid, _, name = path.name.removesuffix(_SUFFIX).partition("-")
        if not os_pid.isdigit() or not name:
            continue
        if _answers(path):
            found.append(RunningRuntime(path, int(os_pid), name))
        else:
            path.unlink(missing_ok=True)
    return sorted(found, key=lambda one: (one.os_pid, one.name))


def find(at: str | Path | None, directory: Path | None) -> Path:
    """`at` is a socket, the name of a runtime or its OS pid; without it there must be just one."""
    if at is not None and (os.sep in str(at) or str(at).endswith(_SUFFIX)):
        return Path(at)
    if directory is None:
        raise UserError(
            'view.sockets is "", so no runtime can be found; name its socket with --at PATH, or '
            "take view.sockets out of vega.toml"
        )
    alive = running_runtimes(directory)
    wanted = [one for one in alive if at is None or str(at) in {one.name, str(one.os_pid)}]
    if len(wanted) == 1:
        return wanted[0].path
    raise UserError(_which(at, wanted, alive, directory))


def _which(
    at: str | Path | None,
    wanted: list[RunningRuntime],
    alive: list[RunningRuntime],
    directory: Path,
) -> str:
    if not alive:
        return (
            f"no runtime can be looked into: there is none in {directory}; start one with "
            "Runtime.from_config() or Runtime(view=True), or name a socket: --at PATH"
        )
    listed = ", ".join(map(str, wanted or alive))
    if not wanted:
        return f"no runtime is called {at}; there are {listed}; type --at and a pid or a name"
    pid, name = wanted[-1].os_pid, wanted[-1].name
    several = len({one.os_pid for one in wanted}) == 1
    return f"{len(wanted)} runtimes are open: {listed}; say which: --at {name if several else pid}"


def is_mine(connection: socket.socket) -> bool:
    """Where the system tells who called; elsewhere the directory's mode has to do."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(credentials)
    return user == os.geteuid()


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trying:
        trying.settimeout(_CONNECT_S)
        try:
            trying.connect(str(path))
        except ConnectionRefusedError:
            return False
        except OSError:
            return path.exists()
    return True


# A runtime in another process, as Python code sees it.
#
# remote = connect()                    the only one that runs, or connect("night"), connect(4242)
# await remote.ps()                     or, where nothing awaits: connect().blocking.ps()


T = TypeVar("T")

_ANSWER_S = 30.0
_line = msgspec.json.Decoder(ControlReply)


def connect(at: str | int | Path | None = None) -> "ControlClient":
    """`at` is a runtime's name, its OS pid or its socket; not needed where only one runs."""
    wanted = str(at) if isinstance(at, int) else at
    return ControlClient(find(wanted, load().sockets_path))


class ControlClient:
    """Each call is a connection of its own, so a runtime may come and go between them."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket

    @property
    def blocking(self) -> "BlockingControlClient":
        return BlockingControlClient(self)

    async def info(self) -> RuntimeView:
        return await self._only(ControlRequest(CONTROL_VERSION, "info"), RuntimeView)

    async def ps(self) -> list[ProcessView]:
        """In tree order: each before what is below it."""
        async with aclosing(
            self._values(ControlRequest(CONTROL_VERSION, "ps"), ProcessView)
        ) as values:
            return [view async for view in values]

    async def kill(self, id: str, *, tree: bool = False) -> KillResult:  # noqa: A002
        """Ends this life, after which its supervisor decides; with `tree` for good, with all below
        it. Answers when nothing of it is left."""
        return await self._only(ControlRequest(CONTROL_VERSION, "kill", id, tree), KillResult)

    def logs(self, id: str, *, follow: bool = False) -> AsyncGenerator[LogEntry]:  # noqa: A002
        """What is remembered of a process and of those below it; then, if told to follow, on."""
        return self._values(ControlRequest(CONTROL_VERSION, "logs", id, follow=follow), LogEntry)

    async def interrupts(self) -> list[Question]:
        request = ControlRequest(CONTROL_VERSION, "interrupts")
        async with aclosing(self._values(request, Question)) as values:
            return [question async for question in values]

    async def answer(self, question: Question, answer: str) -> None:
        """To exactly what was shown: if that has changed, it is refused."""
        shown = question.action
        request = ControlRequest(
            CONTROL_VERSION, "answer", question.id, answer=answer, action=shown
        )
        await self._only(request, str)

    async def _only(self, request: ControlRequest, kind: type[T]) -> T:
        async with aclosing(self._values(request, kind)) as values:
            return await anext(values)

    async def _values(self, request: ControlRequest, kind: type[T]) -> AsyncGenerator[T]:
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


class BlockingControlClient:
    """For code that awaits nothing; not to be used inside an event loop."""

    def __init__(self, remote: ControlClient) -> None:
        self._remote = remote

    def info(self) -> RuntimeView:
        return asyncio.run(self._remote.info())

    def ps(self) -> list[ProcessView]:
        return asyncio.run(self._remote.ps())

    def kill(self, id: str, *, tree: bool = False) -> KillResult:  # noqa: A002
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
