"""OS children of a runtime: started by one owner, and killed as whole trees when they, it or the
runtime ends.

Python in the runtime neither forks nor runs `preexec_fn`: it asks the launcher for a supervisor
process and sends the command to that.
"""

import asyncio
import errno
import json
import os
import signal
import socket
import subprocess
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import BinaryIO, NamedTuple, Self

from vegakit.concurrency import gather_all
from vegakit.errors import UserError
from vegakit.ports import Clock, GuardedFolder, GuardsOutdatedError

# The pipes between the runtime and a child: its stdin, stdout and stderr.


class PipeEnds(NamedTuple):
    """The ends of the pipes: ours as files, theirs as descriptors in the order of their numbers."""

    stdin: BinaryIO | None
    stdout: BinaryIO
    stderr: BinaryIO
    theirs: tuple[int, int, int]


@contextmanager
def open_ends(stdin: int) -> Generator[PipeEnds]:
    """Yield both ends of the pipes. Theirs are closed afterwards; ours too if something fails."""
    with ExitStack() as theirs, ExitStack() as ours:
        feed = None
        if stdin == PIPE:
            reading, feed = _pipe(reader=theirs, writer=ours)
            stdin = reading.fileno()
        elif stdin == DEVNULL:
            stdin = theirs.enter_context(Path(os.devnull).open("rb", buffering=0)).fileno()
        stdout, their_stdout = _pipe(reader=ours, writer=theirs)
        stderr, their_stderr = _pipe(reader=ours, writer=theirs)
        yield PipeEnds(feed, stdout, stderr, (stdin, their_stdout.fileno(), their_stderr.fileno()))
        ours.pop_all()


def _pipe(reader: ExitStack, writer: ExitStack) -> tuple[BinaryIO, BinaryIO]:
    reading, writing = os.pipe()
    return (
        reader.enter_context(os.fdopen(reading, "rb", buffering=0)),
        writer.enter_context(os.fdopen(writing, "wb", buffering=0)),
    )


class ReadPipe(NamedTuple):
    """A pipe to read from, and what closes it."""

    stream: asyncio.StreamReader
    finish: Callable[[object], None]
    """To be called when all writers are dead: unread output then holds no descriptor."""


class WritePipe(NamedTuple):
    """A pipe to write to, and what closes it."""

    stream: asyncio.StreamWriter
    finish: Callable[[object], None]


async def read_from(pipe: BinaryIO) -> ReadPipe:
    """Open a pipe for reading."""
    stream = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stream), pipe
    )

    def finish(_: object) -> None:
        if transport.is_closing():
            return
        transport.pause_reading()
        with suppress(BlockingIOError):  # a writer outside the tree was given the pipe
            while left := os.read(pipe.fileno(), 1 << 16):
                stream.feed_data(left)
        transport.close()

    return ReadPipe(stream, finish)


async def write_to(pipe: BinaryIO) -> WritePipe:
    """Open a pipe for writing."""
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), pipe
    )

    def finish(_: object) -> None:
        if not transport.is_closing():
            transport.abort()

    return WritePipe(asyncio.StreamWriter(transport, protocol, None, loop), finish)


# The launcher as the runtime sees it: started with the first child, again if somebody kills it.


_PLACE = Path(__file__).parent
"""Where the folder `launcher` lies."""
_SCRIPT = "import sys; sys.path.append(sys.argv[1]); from launcher import main; main()"


class Launcher:
    """The launcher forks child supervisors for us, since a process with threads must not fork."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None

    def new_control(self, groups: bytes) -> socket.socket:
        """Return our end of a connection to a new supervisor, which is in these groups."""
        ours, theirs = socket.socketpair()
        with theirs, ExitStack() as on_failure:
            on_failure.enter_context(ours)
            # Somebody may have killed the launcher; a dead one is replaced once.
            if self._requests is None or not _hand_over(theirs, self._requests, groups):
                self._bury()
                self._requests = self._start()
                _hand_over(theirs, self._requests, groups)
            on_failure.pop_all()
        return ours

    async def aclose(self) -> None:
        """Wait for the last supervisor to go, and for the launcher."""
        if self._requests is not None:
            with suppress(ConnectionError):  # somebody killed it
                self._requests.shutdown(socket.SHUT_WR)
                self._requests.setblocking(False)
                await asyncio.get_running_loop().sock_recv(self._requests, 1)
            self._bury()

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs, ExitStack() as on_failure:
            on_failure.enter_context(ours)
            self._process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-I", "-S", "-X", "utf8", "-c", _SCRIPT, _PLACE],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                env={},  # ours holds keys, and everybody who is us may read a process's
                start_new_session=True,
            )
            on_failure.pop_all()
        return ours

    def _bury(self) -> None:
        if self._requests is not None:
            self._requests.close()
            self._requests = None
        if self._process is not None:
            self._process.wait()
            self._process = None


def _hand_over(end: socket.socket, requests: socket.socket, groups: bytes) -> bool:
    try:
        socket.send_fds(requests, [f"{len(groups):08}".encode(), groups], [end.fileno()])
    except (BrokenPipeError, ConnectionResetError):
        return False
    return True


# Child supervisors as the runtime sees them; what is said between them stands in `launcher`.


_IDLE = 8
_HINTS = {
    "cwd": "give cwd= a directory that exists and may be entered",
    "groups": (
        "commands of root need control groups that bound their processes and memory, and none "
        "could be made; run Vega as another user than root"
    ),
    "guards": (
        "this machine allows no user namespaces, or its Linux is older than 5.12, so the workspace "
        "cannot be guarded. In a container, start it with `--security-opt seccomp=unconfined "
        "--security-opt apparmor=unconfined`, or let the container be the boundary: "
        "`sandbox='container'`. On Ubuntu 24.04 allow them by "
        "`sysctl kernel.apparmor_restrict_unprivileged_userns=0`"
    ),
    "exec": "install it, give its full path, or put its directory into the PATH of env=",
    "supervisor": "start it again; if that fails too, free memory or raise `ulimit -u`",
}


class CommandRun:
    """One command under a supervisor."""

    def __init__(
        self,
        argv: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        opens: Mapping[int, str],
        guards: GuardedFolder | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.argv = tuple(argv)
        request = {
            "argv": self.argv,
            "cwd": str(cwd.absolute()),
            "env": dict(env),
            "opens": dict(opens),
            "guards": guards,
        }
        self.request = json.dumps(request).encode() + b"\n"
        self.pid: asyncio.Future[int] = loop.create_future()
        self.exit_code: asyncio.Future[int] = loop.create_future()
        """Known when the whole tree is gone."""

    def on_started(self, pid: str) -> None:
        """Note the process id of the command."""
        self.pid.set_result(int(pid))

    def on_failed(self, number: str, step: str) -> None:
        """Note why the command could not be started."""
        why = f"{step}: {os.strerror(int(number))}; {_HINTS[step]}"
        self.exit_code.cancel()
        outdated = step == "guards" and int(number) == errno.ESTALE
        kind = GuardsOutdatedError if outdated else UserError
        self.pid.set_exception(kind(f"{self.argv[0]} was not started: {why}"))

    def on_ended(self, exit_code: str) -> None:
        """Note the exit code of the command."""
        self.exit_code.set_result(int(exit_code))

    def on_supervisor_lost(self) -> None:
        """Fail the command: its supervisor is gone."""
        # The launcher kills what the supervisor kept. Should it be dead too, killing the group is
        # all that we can do.
        if not self.pid.done():
            self.on_failed(str(errno.EAGAIN), "supervisor")
        elif not self.exit_code.done():
            with suppress(ProcessLookupError):
                os.killpg(self.pid.result(), signal.SIGKILL)
            self.on_ended(str(-signal.SIGKILL))


class ChildSupervisorConnection(asyncio.Protocol):
    """A connection to a supervisor, which keeps one command after the other until it is told to end
    one."""

    def __init__(
        self,
        control: socket.socket,
        groups: bytes,
        on_idle: "Callable[[ChildSupervisorConnection], None]",
    ) -> None:
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.groups = groups
        self._control = control
        self._on_idle = on_idle
        self._transport: asyncio.Transport | None = None
        self._pending = b""
        self._run: CommandRun | None = None
        self._is_ending = False

    async def open(self) -> None:
        """Connect to the supervisor."""
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_unix_connection(lambda: self, sock=self._control)

    @property
    def is_open(self) -> bool:
        """Return whether the supervisor can be told something."""
        return self._transport is not None and not self._transport.is_closing()

    def start(self, run: CommandRun, stdio: Sequence[int]) -> None:
        """Send a command, with its standard streams."""
        self._run = run
        try:
            sent = socket.send_fds(self._control, [run.request], stdio)
        except OSError:
            self._lose()
        else:
            self._write(run.request[sent:])

    def terminate(self) -> None:
        """Ask the command to end."""
        self._is_ending = True
        self._write(b"t")

    def dismiss(self) -> None:
        """Let the supervisor kill what it keeps, and go."""
        self._is_ending = True
        # With a command it is told by an end of file and closes when the tree is gone; to close
        # here would leave nobody to tell when that is.
        if self._transport is None or not self.is_open:
            return
        if self._run is None:
            self._transport.close()
        else:
            self._transport.write_eof()

    def data_received(self, data: bytes) -> None:
        """Read what the supervisor says, a line for each event."""
        *lines, self._pending = (self._pending + data).split(b"\n")
        for line in lines:
            self._on_line(*line.decode().split())

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the supervisor is gone."""
        self._lose()
        self.gone.set_result(None)

    def _on_line(self, word: str, *values: str) -> None:
        assert self._run is not None, f"a supervisor without a command said {word}"
        if word == "started":
            self._run.on_started(*values)
            return
        {"failed": self._run.on_failed, "ended": self._run.on_ended}[word](*values)
        self._run = None
        if values[-1] == "groups":  # it will not be in them the next time either
            self.dismiss()
        if not self._is_ending:
            self._on_idle(self)

    def _lose(self) -> None:
        if self._run is not None:
            self._run.on_supervisor_lost()
            self._run = None

    def _write(self, words: bytes) -> None:
        if self._transport is not None and self.is_open:
            self._transport.write(words)


class ChildSupervisorPool:
    """A pool holds a few supervisors ready that have nothing to keep: to fork one costs more than
    to spawn, and to join a control group costs more than both."""

    def __init__(self) -> None:
        self._launcher = Launcher()
        self._idle: list[ChildSupervisorConnection] = []
        self._all: set[ChildSupervisorConnection] = set()

    async def take(self, wanted: Mapping[str, Mapping[str, str]]) -> ChildSupervisorConnection:
        """Return an idle supervisor with these control groups, or a new one."""
        groups = json.dumps(dict(wanted)).encode()
        self._idle = [supervisor for supervisor in self._idle if supervisor.is_open]
        for at, supervisor in reversed([*enumerate(self._idle)]):
            if supervisor.groups == groups:
                return self._idle.pop(at)
        supervisor = ChildSupervisorConnection(
            self._launcher.new_control(groups), groups, self._put_back
        )
        await supervisor.open()
        self._all.add(supervisor)
        supervisor.gone.add_done_callback(lambda _: self._all.discard(supervisor))
        return supervisor

    async def aclose(self) -> None:
        """Dismiss all supervisors and wait until they are gone."""
        self._idle.clear()
        for supervisor in self._all:
            supervisor.dismiss()
        if self._all:
            await asyncio.wait([supervisor.gone for supervisor in self._all])
        await self._launcher.aclose()

    def _put_back(self, supervisor: ChildSupervisorConnection) -> None:
        """Keep a supervisor ready; of too many the one that was idle for longest goes."""
        self._idle.append(supervisor)
        if len(self._idle) > _IDLE:
            self._idle.pop(0).dismiss()


# One OS child: a command and everything it started.


_GRACE_MS = 500


class ChildProcess:
    """Ends as a whole: what its command leaves behind when it exits is killed.

    Leaving `async with child:` ends it, however the block is left.
    """

    def __init__(
        self,
        owner: str,
        started_ms: int,
        run: CommandRun,
        supervisor: ChildSupervisorConnection,
        stdout: ReadPipe,
        stderr: ReadPipe,
        stdin: WritePipe | None,
    ) -> None:
        self.owner = owner
        self.started_ms = started_ms
        self.argv = run.argv
        self.pid = run.pid.result()
        self.stdout = stdout.stream
        self.stderr = stderr.stream
        self.stdin = stdin.stream if stdin else None
        self._exit_code = run.exit_code
        self._supervisor = supervisor

    async def wait(self) -> int:
        """Return the exit code, negative for a signal, when the whole tree is gone.

        Cancelling the wait ends the child.
        """
        try:
            return await asyncio.shield(self._exit_code)
        except asyncio.CancelledError:
            await self.end()
            raise

    async def end(self, grace_ms: int = _GRACE_MS) -> int:
        """Send SIGTERM to the tree, and SIGKILL to what is left after the grace or when
        cancelled."""
        if not self._exit_code.done():
            self._supervisor.terminate()
            try:
                await asyncio.wait([self._exit_code], timeout=grace_ms / 1000)
            finally:
                self._supervisor.dismiss()
        return await asyncio.shield(self._exit_code)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.end()


# The one owner of OS children.


_STARTS_AT_ONCE = 32
"""More could fill the launcher's socket, and a send to it would block the loop."""


class Children:
    """The OS children of a runtime. All of them are gone when it is closed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._supervisors = ChildSupervisorPool()
        self._living: list[ChildProcess] = []
        self._starting: set[asyncio.Task[ChildProcess]] = set()
        self._starts = asyncio.Semaphore(_STARTS_AT_ONCE)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    async def start(
        self,
        argv: Sequence[str],
        *,
        cwd: str | Path,
        env: Mapping[str, str],
        owner: str,
        stdin: int = DEVNULL,
        opens: Mapping[int, str] = MappingProxyType({}),
        groups: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
        guards: GuardedFolder | None = None,
    ) -> ChildProcess:
        """Start a command. `owner` is the path of the process it belongs to; `stdin` is PIPE,
        DEVNULL or the descriptor of a file.

        `env` is all the environment it gets, `opens` are files by the descriptor that it reads them
        from, `groups` the settings of the control groups it is born in, by the folder of each,
        `guards` what it finds guarded: `GuardsOutdatedError` is raised if that changed meanwhile.
        Whoever is cancelled while starting leaves nothing.
        """
        if not argv:
            raise UserError("argv is empty; give a command and its arguments")
        self._refuse_strangers()
        run = CommandRun(argv, Path(cwd), env, opens, guards)
        # A task of its own: a caller that is cancelled half-way would leave a child that nobody
        # knows of. It goes on, and its child is ended before the cancellation is passed on.
        starting = asyncio.ensure_future(self._start(run, groups, owner, stdin))
        self._starting.add(starting)
        starting.add_done_callback(self._starting.discard)
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            await asyncio.wait([starting])
            if starting.exception() is None:
                await starting.result().end()
            raise

    def all(self) -> list[ChildProcess]:
        """Return all living children."""
        return self._living.copy()

    def of(self, owner: str) -> list[ChildProcess]:
        """Return the living children of an owner."""
        return [child for child in self._living if child.owner == owner]

    async def end_of(self, owner: str) -> None:
        """End the children of an owner and wait for it."""
        await gather_all([child.end() for child in self.of(owner)])

    async def aclose(self) -> None:
        """End all children and wait until they are gone."""
        # First no more are let in, then those on their way are waited for: a child that starts
        # after the list was read would outlive us.
        self._closed = True
        if self._starting:
            await asyncio.wait(self._starting)
        await gather_all([child.end() for child in self.all()])
        await self._supervisors.aclose()

    async def _start(
        self, run: CommandRun, groups: Mapping[str, Mapping[str, str]], owner: str, stdin: int
    ) -> ChildProcess:
        async with self._starts:
            self._refuse_when_closed()
            supervisor, ends = await self._launch(run, groups, stdin)
            stdout, stderr = await read_from(ends.stdout), await read_from(ends.stderr)
            feed = await write_to(ends.stdin) if ends.stdin else None
            for pipe in filter(None, (stdout, stderr, feed)):
                run.exit_code.add_done_callback(pipe.finish)
            await run.pid
        child = ChildProcess(owner, self._clock.now(), run, supervisor, stdout, stderr, feed)
        self._living.append(child)
        run.exit_code.add_done_callback(lambda _: self._living.remove(child))
        return child

    async def _launch(
        self, run: CommandRun, groups: Mapping[str, Mapping[str, str]], stdin: int
    ) -> tuple[ChildSupervisorConnection, PipeEnds]:
        try:
            with open_ends(stdin) as ends:
                supervisor = await self._supervisors.take(groups)
                supervisor.start(run, ends.theirs)
        except OSError as error:
            raise UserError(
                f"{run.argv[0]} was not started: {error.strerror}; "
                "end something first, or raise `ulimit -n` and `ulimit -u`"
            ) from error
        return supervisor, ends

    def _refuse_strangers(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop not in {None, loop}:
            raise UserError(
                "children are started only from the event loop that started the first of them; "
                "from another thread use asyncio.run_coroutine_threadsafe(children.start(…), loop)"
            )
        self._loop = loop

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise UserError("these children were closed, so none is started; make new Children")
