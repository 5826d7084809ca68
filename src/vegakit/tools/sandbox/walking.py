"""A workspace, gone through by descriptors: one folder opened from the other, no link followed."""

import asyncio
import errno
import os
import stat
import sys
from collections.abc import Coroutine, Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

from vegakit.errors import UserError
from vegakit.tools.confined.beneath import best_way, flags

__all__ = [
    "SMALL",
    "Identity",
    "Trail",
    "Visitor",
    "identity_of",
    "is_empty",
    "opened_at",
    "opened_root",
    "shielded",
    "trail_to",
    "walk",
]

Identity: TypeAlias = tuple[int, int]
"""Device and inode."""
Trail: TypeAlias = tuple[tuple[str, Identity], ...]
"""The folders that lead to something from the root of the workspace."""
_T = TypeVar("_T")


SMALL = 500
"""So many entries are gone through at once: a thread's turn would cost more."""
_AT_ONCE = 1_000
"""Entries read, or forgotten, before another thread has its turn."""
_DEEPEST = 100
"""Folders in folders; each holds a descriptor while it is gone through."""
_READ = flags("O_RDONLY O_DIRECTORY O_NOFOLLOW O_CLOEXEC O_NONBLOCK")


class Visitor(Protocol):
    def visit(self, fd: int, trail: Trail, entries: list["os.DirEntry[str]"]) -> list[str]:
        """The names of the folders to go on with."""
        ...

    def unopened(self, fd: int, trail: Trail, name: str, error: OSError) -> None: ...


class _TooManyError(Exception):
    """More than are looked at without a thread."""


def walk(root: int, visitor: Visitor, most: int = sys.maxsize) -> bool:
    """Whether all of it was visited: False if there is more than `most`. It holds one descriptor
    for each level, so that no path is ever put together, however long it would be."""
    stack: list[tuple[int, Trail, Iterator[str]]] = []
    seen = 0

    def enter(fd: int, trail: Trail) -> None:
        nonlocal seen
        stack.append((fd, trail, iter(())))
        entries = _entries(fd, most - seen)
        seen += len(entries)
        stack[-1] = (fd, trail, iter(visitor.visit(fd, trail, entries)))
        while entries:
            del entries[-_AT_ONCE:]

    try:
        enter(os.dup(root), ())
        while stack:
            fd, trail, names = stack[-1]
            name = next(names, None)
            if name is None:
                stack.pop()
                os.close(fd)
                continue
            try:
                if len(stack) >= _DEEPEST:
                    raise OSError(errno.ENAMETOOLONG, "too many folders in folders")  # noqa: TRY301
                below = os.open(name, _READ, dir_fd=fd)
            except OSError as error:
                visitor.unopened(fd, trail, name, error)
            else:
                enter(below, (*trail, (name, identity_of(os.fstat(below)))))
    except _TooManyError:
        return False
    finally:
        for fd, _, _ in stack:
            os.close(fd)
    return True


def _entries(fd: int, most: int) -> list["os.DirEntry[str]"]:
    found: list[os.DirEntry[str]] = []
    with os.scandir(fd) as scan:
        while some := list(islice(scan, _AT_ONCE)):
            found += some
            if len(found) > most:
                raise _TooManyError
    return found


@contextmanager
def opened_root(workspace: Path) -> Generator[int]:
    """No link leads to it."""
    top = os.open("/", flags("O_PATH O_DIRECTORY O_CLOEXEC"))
    try:
        found = best_way()(top, workspace.parts[1:])
    except OSError as error:
        raise UserError(
            f"no command is run: the workspace {workspace} cannot be opened ({error.strerror}); "
            "name a folder that exists, by a path without links"
        ) from error
    finally:
        os.close(top)
    try:
        root = os.open(".", _READ, dir_fd=found)
    finally:
        os.close(found)
    try:
        yield root
    finally:
        os.close(root)


async def shielded(work: Coroutine[Any, Any, _T]) -> _T:
    """It is finished also if who waits for it is cancelled, however often."""
    future, cancelled = asyncio.ensure_future(work), False
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError
    return future.result()


def identity_of(about: os.stat_result) -> Identity:
    return about.st_dev, about.st_ino


def is_empty(fd: int, name: str, about: os.stat_result) -> bool:
    if not stat.S_ISDIR(about.st_mode):
        return stat.S_ISREG(about.st_mode) and about.st_size == 0
    try:
        folder = os.open(name, _READ, dir_fd=fd)
    except OSError:
        return False
    try:
        with os.scandir(folder) as scan:
            return next(scan, None) is None
    finally:
        os.close(folder)


def opened_at(root: int, trail: Trail) -> int:
    """Raises OSError where something else is in the way than there was."""
    here = os.dup(root)
    for name, identity in trail:
        try:
            below = os.open(name, _READ, dir_fd=here)
        finally:
            os.close(here)
        here = below
        if identity_of(os.fstat(here)) != identity:
            os.close(here)
            raise OSError(errno.ESTALE, "changed meanwhile")
    return here


def trail_to(root: int, names: Sequence[str]) -> Trail:
    """Raises OSError where a link is in the way."""
    trail: list[tuple[str, Identity]] = []
    here = os.dup(root)
    try:
        for number, name in enumerate(names, 1):
            about = os.stat(name, dir_fd=here, follow_symlinks=False)
            if number < len(names):
                below = os.open(name, _READ, dir_fd=here)
                os.close(here)
                here, about = below, os.fstat(below)
            trail.append((name, identity_of(about)))
    finally:
        os.close(here)
    return tuple(trail)
