"""Decides which paths of a workspace are put back to recorded entries, and puts them back.

Folders are opened step by step from the workspace, never through a link: a command that still runs
may put one in our way, and what is outside must stay as it is. What can be repeated is repeated: a
restore that was killed in the middle is done again, and ends as if it had not been.

| step | what                                                                       |
|------|----------------------------------------------------------------------------|
| 1    | take away what was not there, or was of another kind: the deepest first    |
| 2    | make folders, the outermost first, open to us for now                      |
| 3    | files, links and objects of git: a temporary name, then a rename           |
| 4    | files with several names: written in place where one of them still is that |
|      | file, so that its names outside heal too; the others are linked to it      |
| 5    | modes of folders, the deepest first                                        |
"""

import os
import stat
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from typing import Literal, Self

from vegakit.errors import UserError
from vegakit.sage.undo.records import (
    FILE_TYPES,
    Contents,
    PathEntry,
    git_folder,
    holds_objects,
    index_entries,
    is_index,
    parent_of,
    same,
)
from vegakit.sage.undo.scanning import TEMPORARY, Scanner

OnConflict = Literal["keep", "restore"]
Goal = Mapping[bytes, PathEntry | None]
_OPEN = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_MAX_OPEN = 100


class UndoPlan:
    """Decides what is to be restored, and what is not, with the reasons.

    For each path the changes are read in order. A change by somebody else bars what was before it:
    later turns are undone down to it, and no further."""

    def __init__(
        self,
        scanner: Scanner,
        contents: Contents,
        rows: Iterable[tuple[bytes, PathEntry | None, PathEntry | None, bool]],
        on_conflict: OnConflict,
    ) -> None:
        self._scanner, self._contents = scanner, contents
        self._force = on_conflict == "restore"
        self.goal: dict[bytes, PathEntry | None] = {}
        self.kept: dict[str, str] = {}
        self.not_restored: dict[str, str] = {}
        first: dict[bytes, PathEntry | None] = {}
        target: dict[bytes, PathEntry | None] = {}
        left: dict[bytes, PathEntry | None] = {}
        barred = set[bytes]()
        for path, before, after, ours in rows:
            if ours:
                first.setdefault(path, before)
                target.setdefault(path, before)
                left[path] = after
            elif path in first and not self._means_nothing(path, before, after):
                target.pop(path, None)
                barred.add(path)
        for path, wanted in first.items():
            self._decide(path, wanted, target, left[path], barred=path in barred)
        self.goal = {
            path: wanted
            for path, wanted in self.goal.items()
            if not is_left(path, wanted, scanner.entry(path), self.goal)
        }

    def _means_nothing(
        self, path: bytes, before: PathEntry | None, after: PathEntry | None
    ) -> bool:
        return same(before, after) or self._is_same_index(path, before, after)

    def _is_same_index(self, path: bytes, one: PathEntry | None, other: PathEntry | None) -> bool:
        """Every `git status` writes the index anew; only its entries count."""
        if not is_index(path) or one is None or other is None or {one.kind, other.kind} != {"f"}:
            return False
        try:
            texts = [self._contents.read(each.digest) for each in (one, other)]
        except OSError:
            return False
        return index_entries(texts[0]) == index_entries(texts[1])

    def _decide(
        self,
        path: bytes,
        first: PathEntry | None,
        target: dict[bytes, PathEntry | None],
        left: PathEntry | None,
        *,
        barred: bool,
    ) -> None:
        now = self._scanner.entry(path)
        intact = same(now, left) or self._is_same_index(path, now, left)
        wanted, shown = first, os.fsdecode(path)
        if barred and not (intact and path not in target) and not self._force:
            if path not in target:
                if not same(now, first):
                    self.kept[shown] = "it was changed by somebody else since"
                return
            wanted = target[path]
            self.kept[shown] = "it is restored only to what somebody else made of it in between"
        if now == wanted or (
            now is not None and wanted is not None and {now.kind, wanted.kind} == {"g"}
        ):
            return
        if wanted is not None and wanted.kind == "x":
            self.not_restored[shown] = f"it was not recorded: {os.fsdecode(wanted.digest)}"
        elif not intact and not self._force:
            # Objects that git has once more, after an earlier undo, are nobody's change.
            is_object = wanted is None and holds_objects(path)
            if not same(now, wanted) and not is_object:
                self.kept[shown] = "it is not as the turn left it"
        elif now is not None and now.kind == "x" and now.mode < FILE_TYPES and not self._force:
            why = os.fsdecode(now.digest)
            self.not_restored[shown] = (
                f"what is there now is not recorded, and would be lost: {why}"
            )
        else:
            self.goal[path] = wanted


def check_git_locks(root: bytes, goal: Goal) -> None:
    """Refuse to restore a repository in which git is at work."""
    for folder in {git_folder(path) for path in goal} - {b""}:
        lock = folder + b"/index.lock"
        if lock not in goal and os.path.lexists(root + b"/" + lock):
            raise UserError(
                f"git is at work here: {os.fsdecode(lock)} exists; wait until it is gone, or "
                "delete it if no git runs, then undo again"
            )


class Restorer:
    """Restores the paths of a plan."""

    def __init__(self, scanner: Scanner, contents: Contents) -> None:
        self._scanner = scanner
        self._contents = contents

    def strangers(self, goal: Goal, in_place: frozenset[bytes]) -> dict[bytes, str]:
        """Return the paths that are neither as they were last seen nor as they shall be: somebody
        changed them since. `in_place` were being written when a restore was cut off."""
        found: dict[bytes, str] = {}
        with _Folders(self._scanner.root, None) as folders:
            for path, target in goal.items():
                try:
                    at, name = folders.at(parent_of(path)), path.rpartition(b"/")[2]
                    seen = os.stat(name, dir_fd=at, follow_symlinks=False)
                except OSError:
                    continue  # nothing is there that could be lost
                if path not in in_place and (why := self._strange(path, seen, target)):
                    found[path] = why
        return found

    def _strange(self, path: bytes, seen: os.stat_result, target: PathEntry | None) -> str:
        known = self._scanner.known(path)
        if known is not None and known.fits(seen):
            return ""
        before = known.entry if known else None
        if stat.S_ISDIR(seen.st_mode):
            if any(each is not None and each.kind == "d" for each in (before, target)):
                return ""
            return "a folder was made there meanwhile"
        now, _ = self._scanner.look(path, seen)
        return "" if same(now, before) or same(now, target) else "it was changed meanwhile"

    def restore(
        self, goal: Goal, *, exact: bool, before_in_place: Callable[[list[bytes]], None]
    ) -> dict[bytes, str]:
        """Restore, and return what could not be, with the reason. Files get back their times if all
        is restored (`exact`); else they are new, so that no build trusts what it made of others."""
        work = _Restoring(self._scanner, self._contents, goal, exact=exact)
        work.take_away()
        work.make_folders()
        work.write_files()
        work.write_linked(before_in_place)
        work.set_folder_modes()
        return work.failed


class _Restoring:
    def __init__(self, scanner: Scanner, contents: Contents, goal: Goal, *, exact: bool) -> None:
        self._scanner, self._contents, self._exact = scanner, contents, exact
        self._goal = goal
        self._modes: dict[bytes, int] = {}
        self.failed: dict[bytes, str] = {}

    @contextmanager
    def _trying(self, path: bytes) -> Generator[None]:
        try:
            yield
        except OSError as error:
            self.failed[path] = error.strerror or str(error)

    def take_away(self) -> None:
        """Delete what shall not be there. A folder that holds something else stays."""
        with _Folders(self._scanner.root, self._modes) as folders:
            for path in sorted(self._goal, key=len, reverse=True):
                target, now = self._goal[path], self._scanner.entry(path)
                if target is not None and (
                    now is None or (now.kind == "d") == (target.kind == "d")
                ):
                    continue
                with self._trying(path), suppress(FileNotFoundError, NotADirectoryError):
                    at, name = folders.at(parent_of(path)), path.rpartition(b"/")[2]
                    with suppress(FileNotFoundError):
                        os.unlink(TEMPORARY, dir_fd=at)
                    seen = os.stat(name, dir_fd=at, follow_symlinks=False)
                    if not stat.S_ISDIR(seen.st_mode):
                        os.unlink(name, dir_fd=at)
                        continue
                    if target is not None and target.kind == "d":
                        continue  # made when this was tried before
                    folders.leave(path)
                    with suppress(FileNotFoundError):  # ours, left by a kill
                        os.unlink(path_of(name, TEMPORARY), dir_fd=at)
                    os.rmdir(name, dir_fd=at)

    def make_folders(self) -> None:
        """Make folders, open to us until their modes are set."""
        with _Folders(self._scanner.root, self._modes) as folders:
            for path in sorted(self._goal, key=len):
                target = self._goal[path]
                if target is None or target.kind != "d":
                    continue
                with self._trying(path):
                    at, name = folders.at(parent_of(path)), path.rpartition(b"/")[2]
                    with suppress(FileExistsError):
                        os.mkdir(name, 0o700, dir_fd=at)

    def write_files(self) -> None:
        """Put back links, objects of git, and files with one name."""
        with _Folders(self._scanner.root, self._modes) as folders:
            for path, target in sorted(self._goal.items(), key=lambda each: each[0]):
                if target is None or target.kind == "d" or target.group or path in self.failed:
                    continue
                with self._trying(path):
                    self._write_one(folders, path, target)

    def _write_one(self, folders: "_Folders", path: bytes, target: PathEntry) -> None:
        at, name = folders.at(parent_of(path)), path.rpartition(b"/")[2]
        with suppress(FileNotFoundError):
            os.unlink(TEMPORARY, dir_fd=at)
        if target.kind == "g":
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=at)
            self._contents.unpin(target.digest, name, at)
        elif target.kind == "l":
            os.symlink(target.digest, TEMPORARY, dir_fd=at)
            if self._exact:
                times = (target.mtime, target.mtime)
                os.utime(TEMPORARY, ns=times, dir_fd=at, follow_symlinks=False)
            os.rename(TEMPORARY, name, src_dir_fd=at, dst_dir_fd=at)
        elif not self._is_only_older(path, target):
            self._write_new(at, target)
            os.rename(TEMPORARY, name, src_dir_fd=at, dst_dir_fd=at)
        else:
            self._set_facts(at, name, target)

    def _is_only_older(self, path: bytes, target: PathEntry) -> bool:
        """Say whether only mode and time differ, so that the file itself can stay."""
        known = self._scanner.known(path)
        if known is None or known.entry.group or known.entry.digest != target.digest:
            return False
        try:
            seen = os.lstat(self._scanner.root + b"/" + path)
        except OSError:
            return False
        return seen.st_ino == known.inode and seen.st_size == target.size and known.fits(seen)

    def _set_facts(self, at: int, name: bytes, target: PathEntry) -> None:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
        try:
            os.fchmod(fd, target.mode)
            if self._exact:
                os.utime(fd, ns=(target.mtime, target.mtime))
        finally:
            os.close(fd)

    def _write_new(self, at: int, target: PathEntry) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._fill(os.open(TEMPORARY, flags, 0o600, dir_fd=at), target)

    def _fill(self, fd: int, target: PathEntry) -> None:
        try:
            self._contents.write(target, fd)
            os.fchmod(fd, target.mode)
            if self._exact:
                os.utime(fd, ns=(target.mtime, target.mtime))
        finally:
            os.close(fd)

    def write_linked(self, before_in_place: Callable[[list[bytes]], None]) -> None:
        """Put back files with several names, each file with all of its names."""
        groups: dict[int, list[bytes]] = {}
        for path, target in sorted(self._goal.items(), key=lambda each: each[0]):
            if target is not None and target.group and path not in self.failed:
                groups.setdefault(target.group, []).append(path)
        with _Folders(self._scanner.root, self._modes) as folders:
            for group, paths in groups.items():
                target = self._goal[paths[0]]
                assert target is not None
                with self._trying(paths[0]):
                    self._write_group(folders, group, paths, target, before_in_place)

    def _write_group(
        self,
        folders: "_Folders",
        group: int,
        paths: list[bytes],
        target: PathEntry,
        before_in_place: Callable[[list[bytes]], None],
    ) -> None:
        stay = self._still(group)
        if stay:
            keeper = stay[0]
            if not self._has(keeper, target):
                before_in_place(self._scanner.linked(group))
                self._write_in_place(folders, keeper, target)
            elif self._exact:
                at, name = folders.at(parent_of(keeper)), keeper.rpartition(b"/")[2]
                self._set_facts(at, name, target)
        else:
            keeper = paths[0]
            at, name = folders.at(parent_of(keeper)), keeper.rpartition(b"/")[2]
            with suppress(FileNotFoundError):
                os.unlink(TEMPORARY, dir_fd=at)
            self._write_new(at, target)
            os.rename(TEMPORARY, name, src_dir_fd=at, dst_dir_fd=at)
            self._scanner.groups[os.stat(name, dir_fd=at).st_ino] = group
        inode = self._inode(keeper)
        for path in paths:
            if self._inode(path) != inode:
                with self._trying(path):
                    self._link(folders, keeper, path)

    def _still(self, group: int) -> list[bytes]:
        """Return the names that are this file now and shall be."""
        names: list[bytes] = []
        for path in self._scanner.linked(group):
            wanted = self._goal[path] if path in self._goal else self._scanner.entry(path)
            known = self._scanner.known(path)
            if wanted is None or wanted.kind != "f" or wanted.group != group or known is None:
                continue
            if self._inode(path) == known.inode and path not in self.failed:
                names.append(path)
        return names

    def _has(self, path: bytes, target: PathEntry) -> bool:
        seen = os.lstat(self._scanner.root + b"/" + path)
        now, _ = self._scanner.look(path, seen)
        return same(now, target)

    def _write_in_place(self, folders: "_Folders", path: bytes, target: PathEntry) -> None:
        at, name = folders.at(parent_of(path)), path.rpartition(b"/")[2]
        try:
            fd = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_TRUNC, dir_fd=at)
        except PermissionError:
            self._set_facts(at, name, PathEntry("f", 0o600, mtime=target.mtime))
            fd = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_TRUNC, dir_fd=at)
        self._fill(fd, target)

    def _link(self, folders: "_Folders", keeper: bytes, path: bytes) -> None:
        source = os.dup(folders.at(parent_of(keeper)))
        try:
            self._link_from(source, folders, keeper, path)
        finally:
            os.close(source)

    def _link_from(self, source: int, folders: "_Folders", keeper: bytes, path: bytes) -> None:
        at, name = folders.at(parent_of(path)), path.rpartition(b"/")[2]
        with suppress(FileNotFoundError):
            os.unlink(TEMPORARY, dir_fd=at)
        first = keeper.rpartition(b"/")[2]
        os.link(first, TEMPORARY, src_dir_fd=source, dst_dir_fd=at, follow_symlinks=False)
        os.rename(TEMPORARY, name, src_dir_fd=at, dst_dir_fd=at)

    def _inode(self, path: bytes) -> int:
        with suppress(OSError):
            return os.lstat(self._scanner.root + b"/" + path).st_ino
        return 0

    def set_folder_modes(self) -> None:
        """Give folders their modes, also those that had to be opened for the work."""
        wanted = dict(self._modes)
        for path, target in self._goal.items():
            if target is not None and target.kind == "d" and path not in self.failed:
                wanted[path] = target.mode
        with _Folders(self._scanner.root, {}) as folders:
            for path in sorted(wanted, key=len, reverse=True):
                with self._trying(path), suppress(FileNotFoundError):
                    os.fchmod(folders.at(path), wanted[path])
                    folders.leave(path)


class _Folders:
    """Opens folders of the workspace without following a link, and keeps some of them open. One
    that is closed to its owner is opened, and `modes` remembers what it had; without `modes` it is
    left closed."""

    def __init__(self, root: bytes, modes: dict[bytes, int] | None) -> None:
        self._root, self._modes = root, modes
        self._open: dict[bytes, int] = {}

    def __enter__(self) -> Self:
        self._open[b""] = os.open(self._root, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
        return self

    def __exit__(self, *_: object) -> None:
        for fd in self._open.values():
            os.close(fd)

    def at(self, folder: bytes) -> int:
        """Return the descriptor of a folder."""
        if folder in self._open:
            return self._open[folder]
        parent, _, name = folder.rpartition(b"/")
        above = self.at(parent)
        fd = os.open(name, _OPEN, dir_fd=above)
        mode = os.fstat(fd).st_mode & 0o7777
        if mode & 0o300 != 0o300 and self._modes is not None:
            self._modes.setdefault(folder, mode)
            os.fchmod(fd, mode | 0o700)
        if len(self._open) > _MAX_OPEN:
            self._close_some(keep=parent)
        self._open[folder] = fd
        return fd

    def _close_some(self, keep: bytes) -> None:
        for folder in [each for each in self._open if each not in (b"", keep)]:
            self.leave(folder)

    def leave(self, folder: bytes) -> None:
        """Close a folder, since it goes away or its mode may close it to us."""
        if (fd := self._open.pop(folder, None)) is not None:
            os.close(fd)


def path_of(folder: bytes, name: bytes) -> bytes:
    """Return the path of a name in a folder."""
    return folder + b"/" + name if folder else name


def is_left(path: bytes, target: PathEntry | None, now: PathEntry | None, goal: Goal) -> bool:
    """Say whether git keeps it although it was not there: objects that nothing names do no harm,
    and a redo needs them. They go with their repository."""
    if target is not None or now is None or not holds_objects(path) or now.kind not in "gd":
        return False
    repository = git_folder(path)
    return goal.get(repository, now) is not None
