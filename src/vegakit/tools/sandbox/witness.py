"""Tells whether somebody outside of the sandbox has replaced a file that a command found guarded.

A guard is a mount on the file. Who puts another file in its place, as editors do when they save,
takes the mount away with the old one, and from then on a command could write to the new one. So the
new one is the person's as it came, and only as long as nothing was done to it since:

| what the kernel tells of a guarded name                       | whose it is     |
|---------------------------------------------------------------|-----------------|
| a file that was made and written once in the same folder was  | the person's    |
| moved there; no more; it is still what it was then            |                 |
| anything else: removed and made anew, moved twice, written,   | nobody can tell |
| its mode changed, come from another folder                    |                 |

A command cannot have moved it: the mount was still there. To write to the new one by its name it
has to open and close it, which the kernel tells; by another name it moves the stamps of the file,
which are noted as soon as it comes. There is no witness on macOS, where the guards are rules about
names and stay.
"""

import asyncio
import ctypes
import hashlib
import os
import stat
import struct
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple, Self

from vegakit.ports import PathGuard
from vegakit.tools.openat import flags

# What the kernel tells of folders.


class Inotify:
    """A queue of events of folders, where there is inotify; else it is not `usable`."""

    ATTRIBUTES, WRITTEN = 0x4, 0x8
    MOVED_FROM, MOVED_TO, CREATED, DELETED = 0x40, 0x80, 0x100, 0x200
    OVERFLOW, IGNORED = 0x4000, 0x8000
    _HEAD = struct.Struct("iIII")
    _AT_ONCE = 1 << 16

    def __init__(self) -> None:
        self.fd = -1
        if sys.platform == "linux":
            self._libc = ctypes.CDLL(None, use_errno=True)
            self.fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self.usable = self.fd >= 0

    def add(self, path: bytes, mask: int) -> int:
        """Watch a folder, and return its number; less than 0 if that cannot be."""
        return self._libc.inotify_add_watch(self.fd, path, mask) if self.usable else -1

    def read(self) -> Iterator[tuple[int, int, int, bytes]]:
        """Yield what is in the queue: number of the folder, kind, cookie and name."""
        with suppress(BlockingIOError):
            while text := os.read(self.fd, self._AT_ONCE):
                at = 0
                while at < len(text):
                    number, mask, cookie, length = self._HEAD.unpack_from(text, at)
                    at += self._HEAD.size + length
                    yield number, mask, cookie, text[at - length : at].rstrip(b"\0")

    def close(self) -> None:
        """End all watches."""
        if self.usable:
            os.close(self.fd)
            self.fd, self.usable = -1, False


# The witness.


Identity = tuple[int, int]
Place = tuple[Identity, str]
"""A name in a folder."""
_MASK = (
    Inotify.ATTRIBUTES
    | Inotify.WRITTEN
    | Inotify.MOVED_FROM
    | Inotify.MOVED_TO
    | Inotify.CREATED
    | Inotify.DELETED
)
_MOST_FOLDERS, _MOST_EVENTS, _MOST_BYTES = 100, 20_000, 1 << 20
"""With more it says nothing, and all is as without a witness."""
_READ = flags("O_RDONLY O_DIRECTORY O_NOFOLLOW O_CLOEXEC O_NONBLOCK")
_READ_FILE = flags("O_RDONLY O_NOFOLLOW O_CLOEXEC O_NONBLOCK O_NOCTTY")


class _Arrival(NamedTuple):
    """A file as it was when it came to a guarded name."""

    identity: Identity
    changed_ns: int
    digest: bytes


class GuardWitness:
    """Watches the folders that guards lie in, from before a command starts until it has ended. It
    is used by the thread of the loop; `vouches` by any, later."""

    def __init__(self, root: int, guards: Mapping[str, PathGuard]) -> None:
        self._events = Inotify()
        self._folders: dict[int, tuple[Identity, int]] = {}
        self._guarded: set[Place] = set()
        self._written: dict[Place, int] = {}
        """By a file that was made in our sight: how often somebody has written to it."""
        self._moving: dict[int, bool] = {}
        """By cookie: whether what is moved was made in our sight and written once."""
        self._arrived: dict[Place, _Arrival | None] = {}
        self._count = 0
        self._watch(root, guards)

    def __enter__(self) -> Self:
        if self._events.usable:
            asyncio.get_running_loop().add_reader(self._events.fd, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        self._hear()
        self._end()

    def vouches(self, folder: Identity, fd: int, name: str) -> bool:
        """Say whether somebody outside has put the file there that has this name now."""
        arrived = self._arrived.get((folder, name))
        return arrived is not None and arrived == _looked_at(fd, name)

    def _watch(self, folder: int, guards: Mapping[str, PathGuard]) -> None:
        names = {name for name, guard in guards.items() if guard["how"] != "pin"}
        if names and len(self._folders) < _MOST_FOLDERS:
            # By its descriptor: no link that is put in the way leads elsewhere.
            number = self._events.add(b"/proc/self/fd/%d" % folder, _MASK)
            if number >= 0:
                about = os.fstat(folder)
                identity = (about.st_dev, about.st_ino)
                self._folders[number] = (identity, os.dup(folder))
                self._guarded |= {(identity, name) for name in names}
        for name, guard in guards.items():
            if guard["how"] == "pin" and guard["below"]:
                with suppress(OSError):
                    below = os.open(name, _READ, dir_fd=folder)
                    try:
                        self._watch(below, guard["below"])
                    finally:
                        os.close(below)

    def _hear(self) -> None:
        if not self._events.usable:
            return
        for number, kind, cookie, raw in self._events.read():
            self._count += 1
            if kind & Inotify.OVERFLOW or self._count > _MOST_EVENTS:
                self._arrived.clear()
                self._end()
                return
            if number in self._folders:
                self._take(number, kind, cookie, os.fsdecode(raw))

    def _take(self, number: int, kind: int, cookie: int, name: str) -> None:
        identity, fd = self._folders[number]
        place = (identity, name)
        if place in self._guarded:
            came_whole = kind & Inotify.MOVED_TO and self._moving.pop(cookie, False)
            is_first = place not in self._arrived
            self._arrived[place] = _looked_at(fd, name) if came_whole and is_first else None
        elif kind & Inotify.CREATED:
            self._written[place] = 0
        elif kind & Inotify.WRITTEN and place in self._written:
            self._written[place] += 1
        elif kind & Inotify.MOVED_FROM:
            self._moving[cookie] = self._written.pop(place, 0) == 1
        elif kind & (Inotify.DELETED | Inotify.MOVED_TO):
            self._written.pop(place, None)

    def _end(self) -> None:
        if self._events.usable:
            asyncio.get_running_loop().remove_reader(self._events.fd)
            self._events.close()
        for _, fd in self._folders.values():
            os.close(fd)
        self._folders.clear()


def _looked_at(fd: int, name: str) -> _Arrival | None:
    """Return a plain file with one name as it is."""
    with suppress(OSError):
        file = os.open(name, _READ_FILE, dir_fd=fd)
        try:
            about = os.fstat(file)
            if not stat.S_ISREG(about.st_mode) or about.st_nlink != 1:
                return None
            text = os.read(file, _MOST_BYTES + 1)
        finally:
            os.close(file)
        if len(text) <= _MOST_BYTES:
            digest = hashlib.blake2b(text, digest_size=32).digest()
            return _Arrival((about.st_dev, about.st_ino), about.st_ctime_ns, digest)
    return None
