"""Finding processes by a mark in their arguments, and starting some that carry it."""

import sys
from collections.abc import Callable
from pathlib import Path

from tests import patience
from tests.runtime.children import stubborn
from vegakit.child_process import ChildProcess, Children

PYTHON = [sys.executable, "-I", "-S"]


def marked(mark: str) -> list[int]:
    """Those that run, zombies not counted: a dead process has no arguments left."""
    return [pid for pid, words in _arguments().items() if mark in words]


def runs(pid: int) -> bool:
    return bool(_arguments().get(pid))


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def environment_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


def zombies_of(parent: int) -> list[str]:
    """Their stat lines."""
    found: list[str] = []
    for stat in (pid / "stat" for pid in Path("/proc").glob("[0-9]*")):
        try:
            line = stat.read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        state, owner = line.rpartition(")")[2].split()[:2]
        if state == "Z" and int(owner) == parent:
            found.append(line)
    return found


def _arguments() -> dict[int, str]:
    found: dict[int, str] = {}
    for path in (pid / "cmdline" for pid in Path("/proc").glob("[0-9]*")):
        try:
            found[int(path.parent.name)] = path.read_bytes().decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def comes_true(fact: Callable[[], bool], within_s: float | None = None) -> bool:
    """Whether it was so in time: the death of a process we are no parent of tells nobody."""
    try:
        return patience.wait_until(fact, within_s)
    except TimeoutError:
        return False


async def start_up(children: Children, mark: str, shape: str, owner: str = "a") -> ChildProcess:
    """Started, and all its processes stand."""
    script = str(Path(stubborn.__file__))
    child = await children.start([*PYTHON, script, mark, shape], cwd="/", env={}, owner=owner)
    for _ in range(stubborn.SIZES[shape]):
        assert await child.stdout.readline() == b"up\n"
    return child
