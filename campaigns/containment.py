"""What takes all it can get, and how long after its limit it is gone: part of `just sandbox`."""

import time
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from benchmarks.figures import Figure

from vegakit.ports import ChildLauncher, Clock
from vegakit.tools import Bubblewrap, SandboxLimits

__all__ = ["contained"]

GONE_MS = 2_000
MB = 1 << 20
PYTHON = "/usr/bin/python3"
BRIEF = SandboxLimits(wall_ms=1_000, processes=64)
FILES = SandboxLimits(disk_bytes=64 * MB, file_bytes=16 * MB)
TOGETHER = SandboxLimits(wall_ms=1_000, processes=64, memory_bytes=256 * MB)


class Bomb(NamedTuple):
    """`timed`: it is ended by its time, so it has that besides."""

    name: str
    script: str
    limits: SandboxLimits
    timed: bool = True


BOMBS = (
    Bomb("a fork bomb", ":(){ :|:& };:", BRIEF),
    Bomb("a loop that ignores signals", "trap '' TERM HUP INT; while :; do sleep 9; done", BRIEF),
    Bomb("sessions in sessions", "(setsid setsid sleep 99 &); setsid sleep 99", BRIEF),
    Bomb("two that burn", "yes > /dev/null & yes > /dev/null", BRIEF),
    Bomb(
        "60 processes of 20 MB in 256 MB",
        f"for i in $(seq 60); do {PYTHON} -c 'x = b\"x\" * (20 << 20); input()' <&0 & done; wait",
        TOGETHER,
    ),
    Bomb(
        "a daemon that is left behind",
        "setsid nohup sleep 999 & disown",
        SandboxLimits(),
        timed=False,
    ),
    Bomb("4 GB of memory", f"{PYTHON} -c 'bytearray(4 << 30)'", SandboxLimits(), timed=False),
    Bomb(
        "a disk full of files",
        "while :; do i=$((i+1)); head -c 8M /dev/zero > f$i || exit 7; done",
        FILES,
        timed=False,
    ),
    Bomb("1 GB of output", "head -c 1G /dev/zero", SandboxLimits(), timed=False),
)


async def contained(launcher: ChildLauncher, clock: Clock, folder: Path) -> list[Figure]:
    """When its command was told to be gone, nobody of it may be left."""
    return [await _figure(launcher, clock, folder, bomb) for bomb in BOMBS]


async def _figure(launcher: ChildLauncher, clock: Clock, folder: Path, bomb: Bomb) -> Figure:
    mark, began = uuid4().hex, time.monotonic()
    sandbox = Bubblewrap(launcher, clock, folder, limits=bomb.limits)
    script = f"{bomb.script}\n: {mark}"
    await sandbox.run(["bash", "-c", script], owner="bench")
    took_ms = (time.monotonic() - began) * 1_000
    late_ms = max(0, took_ms - bomb.limits.wall_ms * bomb.timed)
    left = _marked(mark)
    _clear(folder)
    return Figure(
        bomb.name,
        f"{late_ms:.0f} ms, {left} left",
        f"≤ {GONE_MS} ms, 0 left",
        late_ms <= GONE_MS and left == 0,
    )


def _clear(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


def _marked(mark: str) -> int:
    """Processes whose arguments, or those of bubblewrap above them, hold the mark."""
    return sum(mark in _words(path) for path in Path("/proc").glob("[0-9]*/cmdline"))


def _words(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
