"""Folders below a root, opened so that no link and no swap leads out of it.

`by_kernel` asks the kernel (Linux 5.6) to resolve the whole path and to refuse any link in it;
`by_walk` goes down one name at a time, each from the descriptor of the one before, and works on
every POSIX system. What is opened is a descriptor: renaming what led to it changes nothing.
"""

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import TypeAlias

__all__ = ["OpenFolder", "best_way", "by_kernel", "by_walk", "flags", "make_folders"]

OpenFolder: TypeAlias = Callable[[int, Sequence[str]], int]
"""From the descriptor of the root and plain names to a new descriptor, which the caller closes."""


def flags(names: str) -> int:
    """Those that this system has; one that has too few of them is refused by `Files`."""
    return sum({getattr(os, name, 0) for name in names.split()})


_FOLDER = flags("O_DIRECTORY O_PATH O_CLOEXEC")
_UNLINKED_FOLDER = _FOLDER | flags("O_NOFOLLOW")

_OPENAT2 = 437
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08


class _How(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


def by_kernel(root: int, names: Sequence[str]) -> int:
    path = "/".join(names) or "."
    how = _How(_FOLDER, 0, _BENEATH | _NO_SYMLINKS | _NO_MAGICLINKS)
    found: int = _syscall()(
        ctypes.c_long(_OPENAT2),
        ctypes.c_long(root),
        ctypes.c_char_p(os.fsencode(path)),
        ctypes.byref(how),
        ctypes.c_size_t(ctypes.sizeof(how)),
    )
    if found < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), path)
    return found


def by_walk(root: int, names: Sequence[str]) -> int:
    return _walk(root, names, make=False)


def make_folders(root: int, names: Sequence[str]) -> None:
    """Those that are missing."""
    os.close(_walk(root, names, make=True))


@cache
def best_way() -> OpenFolder:
    """An old kernel does not know the call, and some containers forbid it."""
    if sys.platform != "linux":
        return by_walk
    here = os.open("/", _FOLDER)
    try:
        os.close(by_kernel(here, ()))
    except OSError:
        return by_walk
    finally:
        os.close(here)
    return by_kernel


def _walk(root: int, names: Sequence[str], *, make: bool) -> int:
    here = os.open(".", _UNLINKED_FOLDER, dir_fd=root)
    for name in names:
        try:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=here)
            below = os.open(name, _UNLINKED_FOLDER, dir_fd=here)
        finally:
            os.close(here)
        here = below
    return here


@cache
def _syscall() -> Callable[..., int]:
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    return syscall
