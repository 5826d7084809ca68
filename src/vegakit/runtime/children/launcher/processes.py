"""Processes below this one: those that died, all of them, and signals to them."""

# ruff: noqa: PTH110, PTH123, PTH208  (pathlib takes longer to import than this to run)

import ctypes
import os
import sys
from collections.abc import Callable, Collection
from contextlib import suppress

__all__ = [
    "LINUX",
    "NO_NEW_PRIVILEGES",
    "SUBREAPER",
    "descendants",
    "prctl",
    "reap",
    "send_signal",
]

LINUX = sys.platform == "linux"
SUBREAPER, NO_NEW_PRIVILEGES = 36, 38


def reap() -> tuple[dict[int, int], bool]:
    """The exit codes of those that have died, and whether any child is left."""
    died: dict[int, int] = {}
    try:
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            died[found[0]] = os.waitstatus_to_exitcode(found[1])
    except ChildProcessError:
        return died, False
    return died, True


def descendants(root: int, but: Collection[int] = ()) -> list[int]:
    """Those below `root`, except the children `but` and those below them."""
    listed = os.path.exists(f"/proc/{root}/task/{root}/children")
    children_of = _listed_children if listed else _all_children()
    found = [pid for pid in children_of(root) if pid not in but]
    for pid in found:
        found += children_of(pid)
    return found


def _listed_children(pid: int) -> list[int]:
    """As the kernel lists them: the others on the machine are not looked at."""
    found: list[int] = []
    with suppress(FileNotFoundError, ProcessLookupError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with (
                suppress(FileNotFoundError, ProcessLookupError),
                open(f"/proc/{pid}/task/{task}/children") as f,
            ):
                found += map(int, f.read().split())
    return found


def _all_children() -> Callable[[int], list[int]]:
    """For a kernel that does not list them."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc") if LINUX else []):
        with suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{name}/stat", "rb") as f:
            parent = int(f.read().rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(int(name))
    return lambda pid: children.get(pid, [])


def send_signal(pids: Collection[int], signum: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signum)


def prctl(option: int) -> None:
    if LINUX and ctypes.CDLL(None, use_errno=True).prctl(option, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), f"prctl {option} is not allowed here")
