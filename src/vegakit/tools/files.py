"""Files below one root, within a grant.

| danger                                   | why it comes to nothing                               |
|------------------------------------------|-------------------------------------------------------|
| `..`, absolute, odd spellings            | `policy` refuses the name                             |
| a link in the path, or swapped into it   | folders are opened beneath the root, links refused    |
| the file itself is or becomes a link     | it is opened and looked at without following          |
| another name of a file elsewhere         | read only while it has no other name; a write makes a |
|                                          | new file and puts it in the place of the old one      |
| pipes, devices, sockets                  | only plain files are read and replaced                |
| huge files and folders                   | caps                                                  |

All of it happens in threads. A call that is cancelled ends when its thread does, so nothing
happens after it.
"""

import asyncio
import errno
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ParamSpec, TypeVar

from msgspec import Struct

from vegakit.errors import CapabilityDenied, LimitReached, ToolFailed, UserError
from vegakit.policy import Grant, ReadPath, WritePath
from vegakit.tools.openat import (
    FileKind,
    OpenFolder,
    best_opener,
    check_inside,
    check_plain,
    flags,
    identity,
    kind_by_entry,
    kind_by_mode,
    lstat_at,
    make_folders,
    read_part,
    replace_file,
    writable_mode,
)
from vegakit.tools.protected_names import authorize_path, installed_below

P = ParamSpec("P")
T = TypeVar("T")

_MAX_BYTES = 10_000_000
_MAX_NAMES = 10_000

_READ = flags("O_RDONLY O_NOFOLLOW O_CLOEXEC O_NONBLOCK O_NOCTTY")
_LIST = _READ | flags("O_DIRECTORY")
_SEE = flags("O_PATH O_NOFOLLOW O_CLOEXEC O_NONBLOCK")
_LINK_IN_THE_WAY = {errno.ELOOP, errno.ENOTDIR, errno.EXDEV}


class Entry(Struct, frozen=True):
    """An entry of a folder."""

    name: str
    kind: FileKind


class Listing(Struct, frozen=True):
    """`left_out` are those that may not be read."""

    entries: tuple[Entry, ...]
    left_out: int


class Stat(Struct, frozen=True):
    """The facts about a file."""

    kind: FileKind
    size: int
    modified_ms: int


class Files:
    """The root is the folder that stands there now. If another takes its place, all is refused."""

    def __init__(
        self,
        root: Path,
        grant: Grant,
        *,
        max_bytes: int = _MAX_BYTES,
        max_names: int = _MAX_NAMES,
        open_folder: OpenFolder | None = None,
    ) -> None:
        if os.open not in os.supports_dir_fd:
            raise UserError(
                "confined files need a system that opens files from a folder's descriptor; "
                "use Linux, macOS or WSL"
            )
        self._root = root.resolve(strict=True)
        self._root_is = identity(self._root.stat())
        self._grant = grant
        self._max_bytes = max_bytes
        self._max_names = max_names
        self._open_folder = open_folder or best_opener()

    async def read(self, path: str, *, start: int = 0, size: int | None = None) -> bytes:
        """All of it, or so many bytes from `start`."""
        return await _in_thread(self._read, path, start, size)

    async def write(self, path: str, content: bytes) -> None:
        """All of it at once; folders that are missing are made."""
        await _in_thread(self._write, path, content)

    async def list(self, path: str = ".") -> Listing:
        """List a folder."""
        return await _in_thread(self._list, path)

    async def stat(self, path: str) -> Stat:
        """Return the facts about a file; of a link only that it is one."""
        return await _in_thread(self._stat, path)

    async def move(self, path: str, target: str) -> None:
        """Give a file another name that nothing has; folders that are missing are made."""
        await _in_thread(self._move, path, target)

    async def remove(self, path: str) -> None:
        """A file, a link or an empty folder."""
        await _in_thread(self._remove, path)

    def _read(self, path: str, start: int, size: int | None) -> bytes:
        if start < 0 or (size is not None and not 0 <= size <= self._max_bytes):
            raise LimitReached(f"read 0 to {self._max_bytes} bytes at once, from 0 or later")
        with self._place(ReadPath(path)) as (clean, folder, name):
            check_plain(clean, lstat_at(folder, name))
            file = os.open(name, _READ, dir_fd=folder)
            try:
                check_inside(clean, file, folder, name)
                wanted = self._max_bytes + 1 if size is None else size
                content = read_part(file, start, wanted)
            finally:
                os.close(file)
        if len(content) > self._max_bytes:
            raise LimitReached(
                f"{clean!r} holds more than {self._max_bytes} bytes; read a part: start=0, size=..."
            )
        return content

    def _write(self, path: str, content: bytes) -> None:
        if len(content) > self._max_bytes:
            raise LimitReached(
                f"{len(content)} bytes for {path!r:.80} are more than {self._max_bytes}; write less"
            )
        with self._place(WritePath(path), make=True) as (clean, folder, name):
            mode = None
            with suppress(FileNotFoundError):
                before = lstat_at(folder, name)
                check_plain(clean, before)
                mode = writable_mode(clean, before)
            replace_file(folder, name, content, mode)

    def _list(self, path: str) -> Listing:
        with self._place(ReadPath(path)) as (clean, folder, name):
            here = os.open(name, _LIST, dir_fd=folder)
            try:
                found = self._entries(clean, here)
            finally:
                os.close(here)
        readable = [entry for entry in found if self._is_readable(clean, entry.name)]
        readable.sort(key=lambda entry: entry.name)
        return Listing(tuple(readable), len(found) - len(readable))

    def _stat(self, path: str) -> Stat:
        with self._place(ReadPath(path)) as (clean, folder, name):
            it = os.open(name, _SEE, dir_fd=folder)
            try:
                found = os.fstat(it)
                kind = kind_by_mode(found.st_mode)
                if kind is FileKind.FILE:
                    check_inside(clean, it, folder, name)
            finally:
                os.close(it)
        size = found.st_size if kind is FileKind.FILE else 0
        return Stat(kind, size, found.st_mtime_ns // 1_000_000)

    def _move(self, path: str, target: str) -> None:
        with (
            self._place(WritePath(path)) as (clean, folder, name),
            self._place(WritePath(target), make=True) as (_, there, new_name),
        ):
            check_plain(clean, lstat_at(folder, name))
            with suppress(FileNotFoundError):
                lstat_at(there, new_name)
                raise ToolFailed(f"{target!r} is there already; choose another name, or remove it")
            os.rename(name, new_name, src_dir_fd=folder, dst_dir_fd=there)

    def _remove(self, path: str) -> None:
        with self._place(WritePath(path)) as (_, folder, name):
            is_folder = kind_by_mode(lstat_at(folder, name).st_mode) is FileKind.FOLDER
            (os.rmdir if is_folder else os.unlink)(name, dir_fd=folder)

    @contextmanager
    def _place(
        self, wanted: ReadPath | WritePath, *, make: bool = False
    ) -> Generator[tuple[str, int, str]]:
        """The clean path, the folder it is in and its name there."""
        clean = authorize_path(self._grant, wanted)
        *above, name = clean.split("/")
        with _translated_errors(clean):
            if isinstance(wanted, WritePath):
                self._check_not_installed(clean)
            folder = self._folder(above, make=make)
            try:
                yield clean, folder, name
            finally:
                os.close(folder)

    def _check_not_installed(self, path: str) -> None:
        for mark in installed_below(path):
            if os.path.lexists(self._root / mark):
                raise CapabilityDenied(
                    f"{path[:80]!a} is never written by a tool, because {mark[:80]!a} says that it "
                    "belongs to an environment, whose programs others run; change it yourself"
                )

    def _folder(self, names: Sequence[str], *, make: bool) -> int:
        root = os.open(self._root, _LIST)
        try:
            if identity(os.fstat(root)) != self._root_is:
                raise CapabilityDenied(
                    f"another folder took the place of {str(self._root)!r}; make these files anew"
                )
            try:
                return self._open_folder(root, names)
            except FileNotFoundError:
                if not make:
                    raise
            make_folders(root, names)
            return self._open_folder(root, names)
        finally:
            os.close(root)

    def _entries(self, path: str, folder: int) -> Sequence[Entry]:
        found: list[Entry] = []
        with os.scandir(folder) as entries:
            for entry in entries:
                if len(found) == self._max_names:
                    raise LimitReached(
                        f"{path!r} holds more than {self._max_names} names; list a folder below it"
                    )
                found.append(Entry(entry.name, kind_by_entry(entry)))
        return found

    def _is_readable(self, folder: str, name: str) -> bool:
        path = name if folder == "." else f"{folder}/{name}"
        try:
            authorize_path(self._grant, ReadPath(path))
        except CapabilityDenied:
            return False
        return True


@contextmanager
def _translated_errors(path: str) -> Generator[None]:
    try:
        yield
    except FileNotFoundError:
        raise ToolFailed(f"there is no {path!r} below the root; list the folder it is in") from None
    except OSError as error:
        if error.errno in _LINK_IN_THE_WAY:
            raise CapabilityDenied(
                f"{path!r} leads over a link, or over what is no folder; name the real place"
            ) from None
        raise ToolFailed(f"{path!r}: {error.strerror}") from None


async def _in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    running = asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs))
    try:
        return await asyncio.shield(running)
    finally:
        if not running.done():
            await asyncio.wait([running])
