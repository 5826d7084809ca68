"""Hears from the kernel what happens in folders: a hint of where, never a proof of who did it.

Two equal events in a row are told as one, so nobody can count by it how often a file was written.
"""

import ctypes
import os
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress


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
