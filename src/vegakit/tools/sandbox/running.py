"""A command under way: what it says is kept within bounds, and it ends when it takes too much."""

import asyncio
import os
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from vegakit.errors import UserError
from vegakit.ports import ChildInput, ChildOutput, Clock, Guarded, Launched, Launcher, Ran
from vegakit.tools.sandbox.limits import Limits

__all__ = ["Birth", "Leavings", "joined", "run_within", "serve_within", "with_limits"]

_LOOK_S = 0.05
_WEIGH = 4
"""Looks between two times that a tree is weighed: that takes a millisecond."""
_GRACE_MS = 200
_CHUNK = 1 << 16
_PRLIMIT = "prlimit"


class Birth(Struct, frozen=True):
    """With what a command is born: files by descriptor, control groups by their folder, and guards
    over its workspace."""

    opens: Mapping[int, str] = {}
    groups: Mapping[str, Mapping[str, str]] = {}
    guards: Guarded | None = None


_PLAIN = Birth()


async def run_within(
    launcher: Launcher,
    clock: Clock,
    argv: Sequence[str],
    workspace: Path,
    limits: Limits,
    owner: str,
    birth: Birth = _PLAIN,
    *,
    said: bytes = b"",
) -> Ran:
    """`argv` is sandboxed already; `said` is what it reads."""
    started = clock.now()
    disk = _free(workspace)
    child = await launcher.start(
        argv,
        cwd=str(workspace),
        env={},
        owner=owner,
        stdin=PIPE if said else DEVNULL,
        opens=birth.opens,
        groups=birth.groups,
        guards=birth.guards,
    )
    stdout, stderr = _Kept(limits.kept_bytes), _Kept(limits.kept_bytes)
    reading = asyncio.gather(
        stdout.read(child.stdout), stderr.read(child.stderr), _say(child.stdin, said)
    )

    looks = 0

    async def objection() -> str | None:
        nonlocal looks
        looks += 1
        if clock.now() - started >= limits.wall_ms:
            return f"ended: it ran longer than {limits.wall_ms} ms"
        if stdout.heard + stderr.heard > limits.output_bytes:
            return f"ended: it wrote more than {limits.output_bytes} bytes of output"
        lost = disk.lost_to(_free(workspace))
        if lost.size > limits.disk_bytes:
            return f"ended: the disk lost more than {limits.disk_bytes} bytes while it ran"
        if lost.entries > limits.entries:
            return f"ended: the disk lost room for more than {limits.entries} files while it ran"
        if birth.groups or looks % _WEIGH:
            return None
        if await asyncio.to_thread(_memory_of, child.pid) > limits.memory_bytes:
            return f"ended: it took more than {limits.memory_bytes} bytes of memory in all"
        return None

    try:
        exit_code, why = await _until(child, objection)
        await reading
    finally:
        await child.end(grace_ms=0)
        reading.cancel()
    notes = (why, stdout.cut("stdout"), stderr.cut("stderr"))
    return Ran(
        exit_code,
        stdout.text(),
        stderr.text(),
        clock.now() - started,
        tuple(note for note in notes if note),
    )


@asynccontextmanager
async def serve_within(
    launcher: Launcher,
    argv: Sequence[str],
    workspace: Path,
    env: Mapping[str, str],
    owner: str,
    birth: Birth = _PLAIN,
) -> AsyncGenerator[Launched]:
    """`argv` is sandboxed already. It ends with the block."""
    child = await launcher.start(
        argv,
        cwd=str(workspace),
        env=env,
        owner=owner,
        stdin=PIPE,
        opens=birth.opens,
        groups=birth.groups,
        guards=birth.guards,
    )
    try:
        yield child
    finally:
        await child.end(grace_ms=_GRACE_MS)


def with_limits(limits: Limits, argv: Sequence[str]) -> list[str]:
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


def joined(ran: Ran, notes: Sequence[str]) -> Ran:
    return Ran(ran.exit_code, ran.stdout, ran.stderr, ran.duration_ms, (*ran.notes, *notes))


async def _until(
    child: Launched, objection: Callable[[], Awaitable[str | None]]
) -> tuple[int, str]:
    exiting = asyncio.ensure_future(child.wait())
    try:
        while True:
            await asyncio.wait([exiting], timeout=_LOOK_S)
            if exiting.done():
                return exiting.result(), ""
            if why := await objection():
                return await child.end(grace_ms=0), why
    finally:
        if not exiting.done():
            exiting.cancel()
            await asyncio.wait([exiting])


async def _say(stdin: ChildInput | None, said: bytes) -> None:
    if stdin is not None:
        with suppress(ConnectionError):  # it need not listen
            stdin.write(said)
            await stdin.drain()
        stdin.close()


class _Room(NamedTuple):
    """On a disk, in bytes and files. Some file systems do not count files: then none are lost."""

    size: int
    entries: int

    def lost_to(self, now: "_Room") -> "_Room":
        return _Room(self.size - now.size, self.entries - now.entries)


def _free(folder: Path) -> _Room:
    about = os.statvfs(folder)
    return _Room(about.f_bavail * about.f_frsize, about.f_ffree)


class Leavings:
    """What commands have left in a workspace since `since_ms`. What the disk lost meanwhile is only
    a hint, since others use it too: when that is too much, it is counted, which takes a while."""

    def __init__(self, workspace: Path, limits: Limits, since_ms: int) -> None:
        self._workspace = workspace
        self._limits = limits
        self._since_s = since_ms // 1000
        self._lost = _Room(0, 0)

    @contextmanager
    def noted(self) -> Generator[None]:
        before = _free(self._workspace)
        try:
            yield
        finally:
            more = before.lost_to(_free(self._workspace))
            self._lost = _Room(self._lost.size + more.size, self._lost.entries + more.entries)

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
                "allowed; remove what is not needed, or give it larger `Limits`"
            )

    def _is_within(self) -> bool:
        size, entries = self._lost
        return size <= self._limits.left_bytes and entries <= self._limits.entries


def _changed_since(folder: Path, since_s: int) -> _Room:
    """Nobody can set the time that the kernel notes a change under back."""
    size, seen = 0, set[tuple[int, int]]()
    for _, folders, files, fd in os.fwalk(folder):
        for name in (*folders, *files):
            with suppress(OSError):  # it is gone again
                about = os.stat(name, dir_fd=fd, follow_symlinks=False)
                if about.st_ctime >= since_s and (about.st_dev, about.st_ino) not in seen:
                    seen.add((about.st_dev, about.st_ino))
                    size += about.st_blocks * 512
    return _Room(size, len(seen))


def _memory_of(pid: int) -> int:
    """Of it and of all it started, what they share counted once; 0 where the system does not say.
    Memory that nobody has mapped is not seen."""
    total, left = 0, [pid]
    while left:
        process = Path("/proc", str(left.pop()))
        with suppress(OSError):  # it has ended, or may not be looked at
            for line in (process / "smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) * 1024
        with suppress(OSError):
            for task in (process / "task").iterdir():
                left += map(int, (task / "children").read_text().split())
    return total


class _Kept:
    """The first and the last half."""

    def __init__(self, limit: int) -> None:
        self.heard = 0
        self._half = limit // 2
        self._first = bytearray()
        self._last = bytearray()

    async def read(self, stream: ChildOutput) -> None:
        while chunk := await stream.read(_CHUNK):
            self.heard += len(chunk)
            room = self._half - len(self._first)
            self._first += chunk[:room]
            self._last += chunk[room:]
            del self._last[: -self._half]

    @property
    def _left_out(self) -> int:
        return self.heard - len(self._first) - len(self._last)

    def cut(self, name: str) -> str:
        return f"{self._left_out} of {self.heard} bytes of {name} left out" * bool(self._left_out)

    def text(self) -> str:
        gap = f"\n[{self._left_out} bytes left out]\n" * bool(self._left_out)
        first, last = (bytes(part).decode(errors="replace") for part in (self._first, self._last))
        return f"{first}{gap}{last}"
