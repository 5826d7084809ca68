"""Folders and files opened by descriptor, so that no link and no swap leads out of the root."""

import ctypes
import errno
import os
import secrets
import stat
import struct
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from vegakit.errors import CapabilityDenied, ToolFailed, UserError

# Folders below a root, opened so that no link and no swap leads out of it.
#
# `open_with_openat2` asks the kernel (Linux 5.6) to resolve the whole path and to refuse any link
# in it; `open_by_walk` goes down one name at a time, each from the descriptor of the one before,
# and works on every POSIX system. What is opened is a descriptor: renaming what led to it changes
# nothing.


OpenFolder: TypeAlias = Callable[[int, Sequence[str]], int]
"""From the descriptor of the root and plain names to a new descriptor, which the caller closes."""


def flags(names: str) -> int:
    """Those that this system has; one that has too few of them is refused by `Files`."""
    return sum({getattr(os, name, 0) for name in names.split()})


_FOLDER = flags("O_DIRECTORY O_PATH O_CLOEXEC")
_UNLINKED_FOLDER = _FOLDER | flags("O_NOFOLLOW")

_OPENAT2 = 437
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08


class _OpenHow(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


def open_with_openat2(root: int, names: Sequence[str]) -> int:
    """Open a folder below `root` in one call of the kernel, which follows no link."""
    path = "/".join(names) or "."
    how = _OpenHow(_FOLDER, 0, _BENEATH | _NO_SYMLINKS | _NO_MAGICLINKS)
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


def open_by_walk(root: int, names: Sequence[str]) -> int:
    """Open a folder below `root` name by name, for a kernel without openat2."""
    return _walk(root, names, make=False)


def make_folders(root: int, names: Sequence[str]) -> None:
    """Those that are missing."""
    os.close(_walk(root, names, make=True))


@cache
def best_opener() -> OpenFolder:
    """An old kernel does not know the call, and some containers forbid it."""
    if sys.platform != "linux":
        return open_by_walk
    here = os.open("/", _FOLDER)
    try:
        os.close(open_with_openat2(here, ()))
    except OSError:
        return open_by_walk
    finally:
        os.close(here)
    return open_with_openat2


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


# Plain files, told by the folder they are in and their name there; no link is followed.


_CHUNK = 1 << 20
_CREATE = flags("O_WRONLY O_CREAT O_EXCL O_NOFOLLOW O_CLOEXEC")


class FileKind(StrEnum):
    """The kinds of files."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "other"


_KINDS = {stat.S_IFREG: FileKind.FILE, stat.S_IFDIR: FileKind.FOLDER, stat.S_IFLNK: FileKind.LINK}


def replace_file(
    folder: int, name: str, content: bytes, mode: int | None, *, is_new: bool = False
) -> None:
    """The old file is not opened: were it a link or known elsewhere too, nothing there changes.
    With `is_new` a file of that name raises `FileExistsError`."""
    fresh = name if is_new else f".{secrets.token_hex(8)}.new"
    file = os.open(fresh, _CREATE, 0o666 if mode is None else mode, dir_fd=folder)
    try:
        try:
            _put(file, content)
            if mode is not None:
                os.fchmod(file, mode)
        finally:
            os.close(file)
        if not is_new:
            os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(fresh, dir_fd=folder)
        raise


def write_output(
    path: Path, content: bytes, advice: str, *, is_new: bool = False, mode: int | None = None
) -> None:
    """Write what a command made to the file that it is for, in one step. A folder that somebody
    else made may hold a link of that name: what it leads to stays as it is. Nor does a link in the
    folder where the command was typed lead it out of there. `advice` is what to type if the file
    cannot be written.

    With `is_new` the file must not be there yet, and its folders are made. `mode` is that of a file
    that was not there; one that was there keeps its own.
    """
    here = Path.cwd()
    written = Path(os.path.abspath(path.parent))  # noqa: PTH100  (without `..`, and links as named)
    leads_to = path.parent.resolve()
    if written.is_relative_to(here) and not leads_to.is_relative_to(here):
        raise UserError(
            f"cannot write {path}: a link leads {path.parent} to {leads_to}; if you mean that "
            "folder, name it itself"
        )
    try:
        if is_new:
            path.parent.mkdir(parents=True, exist_ok=True)
        folder = os.open(path.parent, flags("O_RDONLY O_DIRECTORY O_CLOEXEC"))
        try:
            mode = _mode_of_plain(folder, path.name) or mode
            replace_file(folder, path.name, content, mode, is_new=is_new)
        finally:
            os.close(folder)
    except OSError as error:
        why = error.strerror or str(error)
        raise UserError(f"cannot write {path}: {why}; {advice}") from error


def _mode_of_plain(folder: int, name: str) -> int | None:
    """Raises OSError if something has this name that is not a plain file which may be written."""
    try:
        mode = lstat_at(folder, name).st_mode
    except FileNotFoundError:
        return None
    kind = kind_by_mode(mode)
    if kind is not FileKind.FILE:
        raise OSError("it is no plain file" if kind is FileKind.OTHER else f"it is a {kind}")
    if not mode & 0o222:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return stat.S_IMODE(mode) & 0o777


def _put(file: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(file, left) :]


def read_part(file: int, start: int, size: int) -> bytes:
    """Read `size` bytes from `start`, or fewer at the end of the file."""
    parts: list[bytes] = []
    while size and (part := os.pread(file, min(size, _CHUNK), start)):
        parts.append(part)
        start += len(part)
        size -= len(part)
    return b"".join(parts)


def lstat_at(folder: int, name: str) -> os.stat_result:
    """Return the facts about a name, not of what a link leads to."""
    return os.stat(name, dir_fd=folder, follow_symlinks=False)


def identity(found: os.stat_result) -> tuple[int, int]:
    """Return the device and inode of a file."""
    return found.st_dev, found.st_ino


def kind_by_mode(mode: int) -> FileKind:
    """Return the kind of a file by its mode."""
    return _KINDS.get(stat.S_IFMT(mode), FileKind.OTHER)


def kind_by_entry(entry: os.DirEntry[str]) -> FileKind:
    """Return the kind of an entry of a folder."""
    if entry.is_symlink():
        return FileKind.LINK
    if entry.is_dir(follow_symlinks=False):
        return FileKind.FOLDER
    return FileKind.FILE if entry.is_file(follow_symlinks=False) else FileKind.OTHER


def check_plain(path: str, found: os.stat_result) -> None:
    """Raise `CapabilityDenied` unless this is a plain file with one name."""
    kind = kind_by_mode(found.st_mode)
    if kind is not FileKind.FILE:
        what = "neither file, folder nor link" if kind is FileKind.OTHER else f"a {kind}"
        raise CapabilityDenied(f"{path!r} is {what}; only plain files are read and written")
    if found.st_nlink > 1:
        raise CapabilityDenied(
            f"{path!r} is one of {found.st_nlink} names of a file, and another may be outside of "
            "the root; put a copy in its place"
        )


def writable_mode(path: str, found: os.stat_result) -> int:
    """Putting a new file in its place would pass over a mode that says not to."""
    mode = stat.S_IMODE(found.st_mode) & 0o777
    if not mode & 0o222:
        raise ToolFailed(f"{path!r} is read-only; chmod it if it is meant to be written")
    return mode


def check_inside(path: str, file: int, folder: int, name: str) -> None:
    """Check that the file opened here has this name and no other, all at one moment.

    Its count of names alone does not tell: one that is outside too has a count of one as soon as
    its name here is taken away. So the count is followed by a look at the very name it was opened
    by, which does not come back once it is gone. The kernel lowers the count first and takes away
    the name then, both under the folder's lock; to look for a name that nobody has used waits for
    that lock.
    """
    check_plain(path, os.fstat(file))
    with suppress(FileNotFoundError):
        lstat_at(folder, f".{secrets.token_hex(8)}")
    if not _is_still_named(file, folder, name):
        raise CapabilityDenied(f"{path!r} was swapped for another file while it was opened")


def _is_still_named(file: int, folder: int, name: str) -> bool:
    """Return whether the file still has its name. Without `/proc` that is told by comparing what
    the name leads to, which a very quick swap may pass."""
    try:
        opened, here = (os.readlink(f"/proc/self/fd/{it}") for it in (file, folder))  # noqa: PTH115
    except OSError:
        return identity(lstat_at(folder, name)) == identity(os.fstat(file))
    return opened == f"{here.rstrip('/')}/{name}"


# When a file was made: a new one may have the inode of one that was removed, but not its birth.


_EMPTY_PATH, _NO_FOLLOW, _WANT_BIRTH = 0x1000, 0x100, 0x800
_STATX_SIZE, _STATX_MASK, _STATX_BIRTH = 256, struct.Struct("=I"), struct.Struct("=qI")
_BIRTH_AT = 80
_statx: Any = getattr(ctypes.CDLL(None), "statx", None) if sys.platform == "linux" else None
"""Python's own stat does not tell on Linux when a file was made."""


def born_ns(fd: int, name: str) -> int:
    """Return when `name` in the folder `fd` was made, or that folder itself if there is no name; 0
    where the file system does not tell."""
    if _statx is None:
        about = os.stat(name, dir_fd=fd, follow_symlinks=False) if name else os.fstat(fd)
        return int(getattr(about, "st_birthtime", 0) * 1_000_000_000)
    told = ctypes.create_string_buffer(_STATX_SIZE)
    flags_ = _NO_FOLLOW | (0 if name else _EMPTY_PATH)
    if _statx(fd, os.fsencode(name), flags_, _WANT_BIRTH, told):
        return 0
    (mask,) = _STATX_MASK.unpack_from(told)
    seconds, nanoseconds = _STATX_BIRTH.unpack_from(told, _BIRTH_AT)
    return seconds * 1_000_000_000 + nanoseconds if mask & _WANT_BIRTH else 0


def folder_mark(folder: Path) -> str:
    """Return what tells a folder from another that takes its path: when it was made, and its inode
    where that is not known. Some file systems number their folders anew with each mount."""
    fd = os.open(folder, flags("O_RDONLY O_DIRECTORY O_CLOEXEC"))
    try:
        born = born_ns(fd, "")
        return f"born {born}" if born else f"inode {os.fstat(fd).st_ino}"
    finally:
        os.close(fd)
