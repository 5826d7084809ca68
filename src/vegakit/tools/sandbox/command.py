"""One command in a sandbox: its limits, how it runs within them, and the tool `exec` that models
call.
"""

import asyncio
import hashlib
import os
import re
import stat
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from vegakit.conversation import ToolSpec
from vegakit.errors import CapabilityDenied, InvalidRuleError, UserError
from vegakit.ids import Digest
from vegakit.policy import (
    Allowed,
    Denied,
    Grant,
    RunCommand,
    Use,
    decide,
    mark_untrusted,
    parse_command,
    sanitise,
)
from vegakit.ports import (
    ChildInput,
    ChildLauncher,
    ChildOutput,
    Clock,
    CommandResult,
    GuardedFolder,
    LaunchedChild,
    Sandbox,
)
from vegakit.tools.functions import ToolArgumentsError, ToolRights
from vegakit.tools.openat import flags

# Limits on what a command may take, and on what is kept of what it says.


_MB = 1 << 20


class SandboxLimits(Struct, frozen=True):
    """Memory and processes are those of the whole tree: control groups count them, or rlimits bound
    each process and the tree is weighed a few times a second. `file_bytes` bounds one file,
    `disk_bytes` and `entries` what the disk may lose while it runs. When commands have left more
    than `left_bytes` in the workspace, or `entries`, the next is refused. Who writes more than
    `output_bytes` is ended; of each stream the first and the last half of `kept_bytes` are kept."""

    wall_ms: int = 120_000
    cpu_s: int = 600
    memory_bytes: int = 1024 * _MB
    processes: int = 256
    open_files: int = 1024
    file_bytes: int = 256 * _MB
    disk_bytes: int = 1024 * _MB
    left_bytes: int = 4096 * _MB
    entries: int = 500_000
    output_bytes: int = 10_000_000
    kept_bytes: int = 64_000


DEFAULT_LIMITS = SandboxLimits()


# A command under way: what it says is kept within bounds, and it ends when it takes too much.


_POLL_S = 0.05
_WEIGH = 4
"""Looks between two times that a tree is weighed: that takes a millisecond."""
_QUEUES = ("tcp", "tcp6", "udp", "udp6")
_LEAST_QUEUED = 1 << 17
"""What a socket takes before its reader has read much."""
_GRACE_MS = 200
_CHUNK = 1 << 16
_PRLIMIT = "prlimit"


class LaunchOptions(Struct, frozen=True):
    """The things a command is born with: files by descriptor, control groups by their folder, and
    guards over its workspace."""

    opens: Mapping[int, str] = {}
    groups: Mapping[str, Mapping[str, str]] = {}
    guards: GuardedFolder | None = None


_PLAIN = LaunchOptions()


async def run_within(
    launcher: ChildLauncher,
    clock: Clock,
    argv: Sequence[str],
    workspace: Path,
    limits: SandboxLimits,
    owner: str,
    options: LaunchOptions = _PLAIN,
    *,
    said: bytes = b"",
    on_output: Callable[[bytes], object] | None = None,
) -> CommandResult:
    """`argv` is sandboxed already; `said` is what it reads. `on_output` is called with each piece
    of what it says, as it comes."""
    started = clock.now()
    disk = _free(workspace)
    child = await launcher.start(
        argv,
        cwd=str(workspace),
        env={},
        owner=owner,
        stdin=PIPE if said else DEVNULL,
        opens=options.opens,
        groups=options.groups,
        guards=options.guards,
    )
    stdout, stderr = _OutputBuffer(limits.kept_bytes), _OutputBuffer(limits.kept_bytes)
    reading = asyncio.gather(
        stdout.read(child.stdout, on_output),
        stderr.read(child.stderr, on_output),
        _write_stdin(child.stdin, said),
    )

    looks = 0

    async def objection() -> str | None:
        nonlocal looks
        looks += 1
        if clock.now() - started >= limits.wall_ms:
            return f"ended: it ran longer than {limits.wall_ms} ms"
        if stdout.received + stderr.received > limits.output_bytes:
            return f"ended: it wrote more than {limits.output_bytes} bytes of output"
        lost = disk.lost_to(_free(workspace))
        if lost.size > limits.disk_bytes:
            return f"ended: the disk lost more than {limits.disk_bytes} bytes while it ran"
        if lost.entries > limits.entries:
            return f"ended: the disk lost room for more than {limits.entries} files while it ran"
        if looks % _WEIGH:
            return None
        weighed = _waiting_in_sockets if options.groups else _memory_of
        if await asyncio.to_thread(weighed, child.pid) > limits.memory_bytes:
            return f"ended: it took more than {limits.memory_bytes} bytes of memory in all"
        return None

    try:
        exit_code, why = await _until(child, objection)
        await reading
    finally:
        await child.end(grace_ms=0)
        reading.cancel()
    notes = (why, stdout.cut("stdout"), stderr.cut("stderr"))
    return CommandResult(
        exit_code,
        stdout.text(),
        stderr.text(),
        clock.now() - started,
        tuple(note for note in notes if note),
    )


@asynccontextmanager
async def serve_within(
    launcher: ChildLauncher,
    argv: Sequence[str],
    workspace: Path,
    env: Mapping[str, str],
    owner: str,
    options: LaunchOptions = _PLAIN,
) -> AsyncGenerator[LaunchedChild]:
    """`argv` is sandboxed already. It ends with the block."""
    child = await launcher.start(
        argv,
        cwd=str(workspace),
        env=env,
        owner=owner,
        stdin=PIPE,
        opens=options.opens,
        groups=options.groups,
        guards=options.guards,
    )
    try:
        yield child
    finally:
        await child.end(grace_ms=_GRACE_MS)


def with_limits(limits: SandboxLimits, argv: Sequence[str]) -> list[str]:
    """Set inside the sandbox: there its processes are counted apart from the user's others."""
    return [
        _PRLIMIT,
        "--core=0",
        f"--cpu={limits.cpu_s}",
        f"--data={limits.memory_bytes}",
        f"--fsize={limits.file_bytes}",
        f"--nofile={limits.open_files}",
        f"--nproc={limits.processes}",
        "--",
        *argv,
    ]


def with_notes(ran: CommandResult, notes: Sequence[str]) -> CommandResult:
    """Return a result with what was done about files that the command, or a person, made."""
    return replace(ran, notes=(*ran.notes, *notes), about_files=tuple(notes))


async def _until(
    child: LaunchedChild, objection: Callable[[], Awaitable[str | None]]
) -> tuple[int, str]:
    exiting = asyncio.ensure_future(child.wait())
    try:
        while True:
            await asyncio.wait([exiting], timeout=_POLL_S)
            if exiting.done():
                return exiting.result(), ""
            if why := await objection():
                return await child.end(grace_ms=0), why
    finally:
        if not exiting.done():
            exiting.cancel()
            await asyncio.wait([exiting])


async def _write_stdin(stdin: ChildInput | None, said: bytes) -> None:
    if stdin is not None:
        with suppress(ConnectionError):  # it need not listen
            stdin.write(said)
            await stdin.drain()
        stdin.close()


class _DiskSpace(NamedTuple):
    """The free space of a disk, in bytes and files. Some file systems do not count files: then none
    are lost."""

    size: int
    entries: int

    def lost_to(self, now: "_DiskSpace") -> "_DiskSpace":
        return _DiskSpace(self.size - now.size, self.entries - now.entries)


def _free(folder: Path) -> _DiskSpace:
    about = os.statvfs(folder)
    return _DiskSpace(about.f_bavail * about.f_frsize, about.f_ffree)


class WorkspaceUsage:
    """A count of what commands have left in a workspace since `since_ms`. The loss of free space is
    only a hint, since others use the disk too: when that is too much, files are counted, which
    takes a while."""

    def __init__(self, workspace: Path, limits: SandboxLimits, since_ms: int) -> None:
        self._workspace = workspace
        self._limits = limits
        self._since_s = since_ms // 1000
        self._lost = _DiskSpace(0, 0)

    @contextmanager
    def measured(self) -> Generator[None]:
        """Add what the disk loses during the block."""
        before = _free(self._workspace)
        try:
            yield
        finally:
            more = before.lost_to(_free(self._workspace))
            self._lost = _DiskSpace(self._lost.size + more.size, self._lost.entries + more.entries)

    async def check(self) -> None:
        """Raises if there is too much for another command."""
        if self._is_within():
            return
        self._lost = await asyncio.to_thread(_changed_since, self._workspace, self._since_s)
        if not self._is_within():
            raise UserError(
                f"no command is run: commands have left {self._lost.entries:,} files with "
                f"{self._lost.size >> 20:,} MB in {self._workspace}, where "
                f"{self._limits.entries:,} files and {self._limits.left_bytes >> 20:,} MB are "
                "allowed; remove what is not needed, or give it larger `SandboxLimits`"
            )

    def _is_within(self) -> bool:
        size, entries = self._lost
        return size <= self._limits.left_bytes and entries <= self._limits.entries


def _changed_since(folder: Path, since_s: int) -> _DiskSpace:
    """Nobody can set the time that the kernel notes a change under back."""
    size, seen = 0, set[tuple[int, int]]()
    for _, folders, files, fd in os.fwalk(folder):
        for name in (*folders, *files):
            with suppress(OSError):  # it is gone again
                about = os.stat(name, dir_fd=fd, follow_symlinks=False)
                if about.st_ctime >= since_s and (about.st_dev, about.st_ino) not in seen:
                    seen.add((about.st_dev, about.st_ino))
                    size += about.st_blocks * 512
    return _DiskSpace(size, len(seen))


def _memory_of(pid: int) -> int:
    """Return the memory of a process and of all it started, what they share counted once, and what
    waits in sockets; 0 where the system does not say. Other memory that nobody has mapped is not
    seen."""
    total = _waiting_in_sockets(pid)
    for process in _tree(pid):
        with suppress(OSError):  # it has ended, or may not be looked at
            for line in (process / "smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) * 1024
    return total


def _tree(pid: int) -> Iterator[Path]:
    left = [pid]
    while left:
        process = Path("/proc", str(left.pop()))
        yield process
        with suppress(OSError):
            for task in (process / "task").iterdir():
                left += map(int, (task / "children").read_text().split())


def _waiting_in_sockets(pid: int) -> int:
    """Return the bytes that were sent on the loopback of the sandbox and not yet read, which belong
    to no process. The first process with another network than ours is in the sandbox, and its
    network is that of all there."""
    for process in _tree(pid):
        with suppress(OSError):  # it has ended, or there is no such thing here
            if not (process / "ns/net").samefile("/proc/self/ns/net"):
                return sum(_queued(process / "net" / name) for name in _QUEUES)
    return 0


def _queued(table: Path) -> int:
    """Add up the kernel's table of sockets: the fifth column is what waits to be sent and to be
    read, in hexadecimal. Small packets take more than they hold: a socket with anything in it
    counts as one full of them."""
    total = 0
    with suppress(OSError), table.open("rb") as f:
        next(f, None)
        for line in f:
            sending, _, reading = line.split(None, 5)[4].partition(b":")
            if sending != b"00000000" or reading != b"00000000":
                total += max(_LEAST_QUEUED, int(sending, 16) + int(reading, 16))
    return total


class _OutputBuffer:
    """The first and the last half."""

    def __init__(self, limit: int) -> None:
        self.received = 0
        self._half = limit // 2
        self._first = bytearray()
        self._last = bytearray()

    async def read(self, stream: ChildOutput, on_output: Callable[[bytes], object] | None) -> None:
        while chunk := await stream.read(_CHUNK):
            if on_output is not None:
                on_output(chunk)
            self.received += len(chunk)
            room = self._half - len(self._first)
            self._first += chunk[:room]
            self._last += chunk[room:]
            del self._last[: -self._half]

    @property
    def _left_out(self) -> int:
        return self.received - len(self._first) - len(self._last)

    def cut(self, name: str) -> str:
        return f"{self._left_out} of {self.received} bytes of {name} left out" * bool(
            self._left_out
        )

    def text(self) -> str:
        gap = f"\n[{self._left_out} bytes left out]\n" * bool(self._left_out)
        first, last = (bytes(part).decode(errors="replace") for part in (self._first, self._last))
        return f"{first}{gap}{last}"


# The tool `exec`: one command, its rights looked up, run in the sandbox.
#
# | asked                                     | grant                  | automatic                 |
# |-------------------------------------------|------------------------|---------------------------|
# | words of a clean command                  | a rule must fit        | runs, if exec is granted  |
# | a line that is nothing but words          | the same, as words     | the same, as words        |
# | a line with shell syntax                  | refused                | refused                   |
# | an environment, a folder, anything else   | refused                | refused                   |
#
# Automatic stands on the sandbox: inside it, one command can do no more than another.


_EXEC = "process::exec"
_MARGIN_MS = 10_000
_BETWEEN_NAMES = re.compile(r"[\s;|&<>()'\"`$={}:,@]+")
_READ_FILE = flags("O_RDONLY O_NONBLOCK O_CLOEXEC O_NOCTTY")
"""A pipe is not waited for."""
_MOST_DIGESTED = 64 * _MB
_MOST_BYTES = 28_000
"""Of each stream: both are less than any result may have."""
_DESCRIPTION = (
    "Run one command in a sandbox: no shell, no network; only the project folder is writable. "
    'Give it as a list of words, ["pytest", "-q", "tests"], one program each time.'
)
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "command": {
            "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}],
            "description": "program and arguments",
        }
    },
    "required": ["command"],
    "additionalProperties": False,
}


class ExecTool:
    """A tool that runs one command in the sandbox."""

    idempotent = False

    def __init__(
        self,
        sandbox: Sandbox,
        grant: Grant,
        *,
        owner: str,
        automatic: bool = False,
        timeout_ms: int = 120_000 + _MARGIN_MS,
    ) -> None:
        self.spec = ToolSpec("exec", _DESCRIPTION, _SCHEMA)
        self.timeout_ms = timeout_ms
        self._sandbox = sandbox
        self._grant = grant
        self._owner = owner
        self._automatic = automatic

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        del deps
        verdict = self.verdict(_command(arguments))
        if isinstance(verdict, Denied):
            raise CapabilityDenied(verdict.reason)
        assert isinstance(verdict.wanted, RunCommand)
        return shown_run(await self._sandbox.run(verdict.wanted.argv, owner=self._owner))

    def rights(self, arguments: Mapping[str, Any]) -> ToolRights:
        """A command that is denied wants nothing: the call itself says why it does not run."""
        verdict = self.verdict(_command(arguments))
        if isinstance(verdict, Denied):
            return ToolRights((), self._grant, sandboxed=True)
        assert isinstance(verdict.wanted, RunCommand)
        grant = _only(verdict.wanted) if self._automatic else self._grant
        return ToolRights((verdict.wanted,), grant, sandboxed=True)

    async def contents(self, arguments: Mapping[str, Any]) -> dict[str, Digest]:
        """Return the digests of the files that the command names."""
        verdict = self.verdict(_command(arguments))
        if isinstance(verdict, Denied):
            return {}
        assert isinstance(verdict.wanted, RunCommand)
        return await digests_of_named(self._sandbox, verdict.wanted.argv)

    def verdict(self, command: RunCommand | Denied) -> Allowed | Denied:
        """Return whether the command may run; `automatic` lets any clean one."""
        if isinstance(command, Denied):
            return command
        if not self._automatic:
            return decide(self._grant, command)
        granted = decide(self._grant, Use(_EXEC))
        return granted if isinstance(granted, Denied) else _alone(command)


async def digests_of_named(sandbox: Sandbox, argv: Sequence[str]) -> dict[str, Digest]:
    """Return the digests of the files in the workspace that a command names: who approves `sh
    build.sh` approves what stands in it now. A sandbox that does not tell its workspace has
    none."""
    workspace: Path | None = getattr(sandbox, "workspace", None)
    if workspace is None:
        return {}
    return await asyncio.to_thread(_digests, workspace, argv)


def _digests(workspace: Path, argv: Sequence[str]) -> dict[str, Digest]:
    """Links are followed, as the command would; what they lead to outside it does not see."""
    found: dict[str, Digest] = {}
    for word in dict.fromkeys(part for each in argv for part in _possible_names(each)):
        with suppress(OSError, ValueError):  # no file, or no name at all
            path = Path(os.path.realpath(workspace / word))
            name = str(path.relative_to(workspace))
            if name not in found:
                found[name] = _digest_of(path)
    return found


def _possible_names(word: str) -> Iterator[str]:
    """`--file=a.py`, `a.py::test`, `@a.txt`, `-fa.mk` and the words of a script name files, too."""
    yield word
    yield word[2:] if word.startswith("-") else ""
    yield from _BETWEEN_NAMES.split(word)


def _digest_of(path: Path) -> Digest:
    """Raises OSError where there is no plain file. Of a very large one the kernel's note of its
    last change, which nobody can set back, stands for its content."""
    file = os.open(path, _READ_FILE)
    with open(file, "rb") as f:  # noqa: PTH123
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode):
            raise IsADirectoryError
        if about.st_size > _MOST_DIGESTED:
            return Digest(f"{about.st_dev}:{about.st_ino}:{about.st_size}:{about.st_ctime_ns}")
        return Digest(hashlib.file_digest(f, lambda: hashlib.blake2b(digest_size=16)).hexdigest())


def shown_run(ran: CommandResult) -> str:
    """Return a run for a model: what it said, between the marks of what is not to be trusted, then
    how it ended. Each stream is cut by itself, so that the marks stay on it."""
    streams = [
        f"{name}:\n{mark_untrusted(sanitise(text.rstrip(), _MOST_BYTES))}"
        for name, text in (("stdout", ran.stdout), ("stderr", ran.stderr))
        if text.strip()
    ]
    return "\n".join([*streams, *ran.notes, f"exit code {ran.exit_code} in {ran.duration_ms} ms"])


def _command(arguments: Mapping[str, Any]) -> RunCommand | Denied:
    match dict(arguments):
        case {"command": str(line), **rest} if not rest:
            return parse_command(line)
        case {"command": [*words], **rest} if not rest and all(isinstance(w, str) for w in words):
            return RunCommand(tuple(words))
        case _:
            raise ToolArgumentsError(
                "the arguments of exec are wrong: give `command` as a list of words, for example "
                f'["pytest", "-q"], and nothing else; got {", ".join(arguments) or "nothing"}'
            )


def _alone(command: RunCommand) -> Allowed | Denied:
    """Return whether the command is clean; nothing else is left to decide."""
    try:
        return decide(_only(command), command)
    except InvalidRuleError as error:
        return Denied(str(error))


def _only(command: RunCommand) -> Grant:
    """Its program with any arguments."""
    program = command.argv[0] if command.argv else ""
    return Grant((_EXEC,), commands=(f"{program} ***",))
