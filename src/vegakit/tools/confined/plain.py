"""Plain files, told by the folder they are in and their name there; no link is followed."""

import os
import secrets
import stat
from contextlib import suppress
from enum import StrEnum

from vegakit.errors import CapabilityDenied, ToolFailed
from vegakit.tools.confined.beneath import flags

__all__ = [
    "Kind",
    "check_inside",
    "check_plain",
    "identity",
    "kind_by_entry",
    "kind_by_mode",
    "look",
    "read_part",
    "replace",
    "writable_mode",
]

_CHUNK = 1 << 20
_CREATE = flags("O_WRONLY O_CREAT O_EXCL O_NOFOLLOW O_CLOEXEC")


class Kind(StrEnum):
    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "other"


_KINDS = {stat.S_IFREG: Kind.FILE, stat.S_IFDIR: Kind.FOLDER, stat.S_IFLNK: Kind.LINK}


def replace(folder: int, name: str, content: bytes, mode: int | None) -> None:
    """The old file is not opened: were it a link or known elsewhere too, nothing there changes."""
    fresh = f".{secrets.token_hex(8)}.new"
    file = os.open(fresh, _CREATE, 0o666 if mode is None else mode, dir_fd=folder)
    try:
        try:
            _put(file, content)
            if mode is not None:
                os.fchmod(file, mode)
        finally:
            os.close(file)
        os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(fresh, dir_fd=folder)
        raise


def _put(file: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(file, left) :]


def read_part(file: int, start: int, size: int) -> bytes:
    parts: list[bytes] = []
    while size and (part := os.pread(file, min(size, _CHUNK), start)):
        parts.append(part)
        start += len(part)
        size -= len(part)
    return b"".join(parts)


def look(folder: int, name: str) -> os.stat_result:
    return os.stat(name, dir_fd=folder, follow_symlinks=False)


def identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def kind_by_mode(mode: int) -> Kind:
    return _KINDS.get(stat.S_IFMT(mode), Kind.OTHER)


def kind_by_entry(entry: os.DirEntry[str]) -> Kind:
    if entry.is_symlink():
        return Kind.LINK
    if entry.is_dir(follow_symlinks=False):
        return Kind.FOLDER
    return Kind.FILE if entry.is_file(follow_symlinks=False) else Kind.OTHER


def check_plain(path: str, found: os.stat_result) -> None:
    kind = kind_by_mode(found.st_mode)
    if kind is not Kind.FILE:
        what = "neither file, folder nor link" if kind is Kind.OTHER else f"a {kind}"
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
    """That the file opened here has this name and no other, all at one moment.

    Its count of names alone does not tell: one that is outside too has a count of one as soon as
    its name here is taken away. So the count is followed by a look at the very name it was opened
    by, which does not come back once it is gone. The kernel lowers the count first and takes away
    the name then, both under the folder's lock; to look for a name that nobody has used waits for
    that lock.
    """
    check_plain(path, os.fstat(file))
    with suppress(FileNotFoundError):
        look(folder, f".{secrets.token_hex(8)}")
    if not _is_still_named(file, folder, name):
        raise CapabilityDenied(f"{path!r} was swapped for another file while it was opened")


def _is_still_named(file: int, folder: int, name: str) -> bool:
    """Without `/proc` by comparing what the name leads to, which a very quick swap may pass."""
    try:
        opened, here = (os.readlink(f"/proc/self/fd/{it}") for it in (file, folder))  # noqa: PTH115
    except OSError:
        return identity(look(folder, name)) == identity(os.fstat(file))
    return opened == f"{here.rstrip('/')}/{name}"
