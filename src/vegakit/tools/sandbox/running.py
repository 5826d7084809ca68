"""A command under way: what it says is kept within bounds, and it ends when it takes too much."""

import asyncio
import os
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from msgspec import Struct

from vegakit.ports import ChildInput, ChildOutput, Clock, Guarded, Launched, Launcher, Ran
from vegakit.tools.sandbox.limits import Limits

__all__ = ["Birth", "joined", "run_within", "serve_within", "with_limits"]

_LOOK_S = 0.05
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
    disk_free = _disk_free(workspace)
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

    def objection() -> str | None:
        if clock.now() - started >= limits.wall_ms:
            return f"ended: it ran longer than {limits.wall_ms} ms"
        if stdout.heard + stderr.heard > limits.output_bytes:
            return f"ended: it wrote more than {limits.output_bytes} bytes of output"
        if disk_free - _disk_free(workspace) > limits.disk_bytes:
            return f"ended: the disk lost more than {limits.disk_bytes} bytes while it ran"
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


async def _until(child: Launched, objection: Callable[[], str | None]) -> tuple[int, str]:
    exiting = asyncio.ensure_future(child.wait())
    try:
        while True:
            await asyncio.wait([exiting], timeout=_LOOK_S)
            if exiting.done():
                return exiting.result(), ""
            if why := objection():
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


def _disk_free(folder: Path) -> int:
    about = os.statvfs(folder)
    return about.f_bavail * about.f_frsize


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
