"""Looks through a workspace for what changed since the last look, and records it.

What is known of a folder is one row of the store, which is read when it is needed: opening reads
nothing, and a workspace of many files is never whole in memory. A full look compares the stamps of
every known path and lists the folders whose stamps moved. inotify, where there is one, only says
which folders to look at; it is blind to some writes, so what it says is never the last word.

Names come from listing a folder, never from asking for one: where case folds, both would answer.
"""

import errno
import os
import sqlite3
import stat
import struct
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress

from msgspec import msgpack

from vegakit.errors import UserError
from vegakit.sage.undo.records import (
    Change,
    Contents,
    Known,
    PathEntry,
    UndoLimits,
    object_name,
    parent_of,
    stamps,
)
from vegakit.tools import is_stub

TEMPORARY = b".vega-undo"
"""Our own file beside one that is restored; it is gone after the rename."""
_TICK_NS = 20_000_000
_COARSE_TICK_NS = 2_100_000_000
"""How long a stamp may stand for two writes; where stamps are whole seconds, longer."""
_TRIES = 3

Names = dict[bytes, Known]
_PACK = msgpack.Encoder()
_UNPACK = msgpack.Decoder(Names)
Suspect = tuple[bytes, bytes, os.stat_result]


class Scanner:
    """Holds what is known of a workspace. A scan writes to the store within the transaction of its
    caller; `forget` follows one that was rolled back."""

    def __init__(
        self,
        root: bytes,
        db: sqlite3.Connection,
        contents: Contents,
        limits: UndoLimits,
        *,
        hints: bool,
    ) -> None:
        self.root = root
        self._db = db
        self._contents = contents
        self._limits = limits
        self._watch = FolderWatch() if hints and sys.platform == "linux" else None
        self._held: dict[bytes, Names] = {}
        self.forget()

    def forget(self) -> None:
        """Know nothing but what the store says; the next scan is a full one."""
        self._held.clear()
        self._all_held = self._compared = self._indexed = False
        self._count = 0
        self._racy: set[bytes] = set()
        self._linked: dict[bytes, int] = {}
        self._mates: dict[int, set[bytes]] = {}
        self.groups: dict[int, int] = {}
        """The group of each inode that has several names. Our own numbers, not inodes: a file that
        is restored has another inode, and inodes are used again."""

    def close(self) -> None:
        """Give the watches back."""
        if self._watch is not None:
            self._watch.close()

    # What is known.

    def known(self, path: bytes) -> Known | None:
        """Return what was last seen at a path."""
        folder, _, name = path.rpartition(b"/")
        return self._names(folder).get(name)

    def entry(self, path: bytes) -> PathEntry | None:
        """Return what was last seen at a path, without its stamps."""
        known = self.known(path)
        return known.entry if known else None

    def has_baseline(self) -> bool:
        """Say whether the workspace was ever recorded."""
        return self._db.execute("select 1 from folder limit 1").fetchone() is not None

    def linked(self, group: int) -> list[bytes]:
        """Return the known names of a file with several."""
        return sorted(
            path
            for inode, paths in self._mates.items()
            if self.groups.get(inode) == group
            for path in paths
        )

    def every(self) -> Iterator[tuple[bytes, Names]]:
        """Yield every known folder with its names."""
        if self._all_held:
            yield from self._held.items()
            return
        for path, packed in self._db.execute("select path, names from folder"):
            yield path, self._held.get(path) or _UNPACK.decode(packed)

    def _names(self, folder: bytes) -> Names:
        names = self._held.get(folder)
        if names is None:
            row = None
            if not self._all_held:
                found = self._db.execute("select names from folder where path=?", (folder,))
                row = found.fetchone()
            names = _UNPACK.decode(row[0]) if row else {}
            self._held[folder] = names
        return names

    def _is_folder(self, path: bytes) -> bool:
        entry = self.entry(path) if path else None
        return not path or (entry is not None and entry.kind == "d")

    # One scan.

    def scan(self, *, full: bool = False) -> dict[bytes, Change]:
        """Bring what is known up to date, record contents, and return what changed."""
        self._began = time.time_ns()
        self._changes: dict[bytes, Change] = {}
        self._touched: set[bytes] = set()
        self._listing: set[bytes] = set()
        self._suspects: list[Suspect] = []
        self._pending: list[tuple[int, bytes, os.stat_result]] = []
        self._loose: set[int] = set()
        self._moved: set[bytes] = set()
        dirty = self._watch.dirty() if self._watch is not None else None
        if full or dirty is None or not self._compared:
            self._compare_all()
            hinted = False
        else:
            self._compare_hinted(dirty)
            hinted = True
        if self._suspects or self._listing:
            self._take_suspects(hinted=hinted)
            self._list_folders()
            self._record_pending()
            self._write_back()
        for inode in self._loose - self._mates.keys():
            self.groups.pop(inode, None)
        self._release()
        return {path: change for path, change in self._changes.items() if change[0] != change[1]}

    def _compare_all(self) -> None:
        self._listing.add(b"")
        count = 0
        keep = self._all_held or self._rows_fit()
        self.index()
        for folder, names in list(self.every()) if keep else self.every():
            if self._watch is not None and not self._watch.armed:
                self._watch.add(self.root, folder)
            if keep:
                self._held[folder] = names
            count += len(names)
            self._compare(folder, names)
        if not count and not self.has_baseline():
            self._touched.add(b"")
        self._all_held, self._compared, self._count = keep, True, count
        if self._watch is not None:
            self._watch.armed = True

    def _rows_fit(self) -> bool:
        """A row is about 120 bytes a path."""
        row = self._db.execute("select coalesce(sum(length(names)), 0) from folder").fetchone()
        return row[0] <= self._limits.held_paths * 120

    def index(self) -> None:
        """Read from the store which names are one file. A restore that goes on after a kill needs
        it before the first scan."""
        if not self._indexed:
            self._indexed = True
            for folder, names in self.every():
                self._index(folder, names)

    def _index(self, folder: bytes, names: Names) -> None:
        prefix = folder + b"/" if folder else b""
        for name, known in names.items():
            if known.racy:
                self._racy.add(prefix + name)
            if known.entry.group:
                self.groups[known.inode] = known.entry.group
                self._linked[prefix + name] = known.inode
                self._mates.setdefault(known.inode, set()).add(prefix + name)

    def _compare_hinted(self, dirty: Iterable[bytes]) -> None:
        """Look at the folders that inotify named, at files that may have changed again within one
        stamp, and at those that have names outside of the workspace: nobody tells of them."""
        for folder in dirty:
            if self._is_folder(folder):
                self._listing.add(folder)
                self._compare(folder, self._names(folder))
        for path in {*self._racy, *self._linked}:
            folder, _, name = path.rpartition(b"/")
            if folder not in self._listing and (known := self.known(path)):
                self._compare(folder, {name: known})

    def _compare(self, folder: bytes, names: Names) -> None:
        lstat, suspects = os.lstat, self._suspects
        prefix = self.root + b"/" + folder + b"/" if folder else self.root + b"/"
        for name, known in names.items():
            try:
                seen = lstat(prefix + name)
            except OSError:
                self._listing.add(folder)
                continue
            if (
                seen.st_ctime_ns != known.ctime
                or seen.st_mtime_ns != known.mtime
                or seen.st_size != known.size
                or seen.st_ino != known.inode
                or seen.st_mode != known.mode
                or known.racy
            ):
                suspects.append((folder, name, seen))

    def _take_suspects(self, *, hinted: bool) -> None:
        for folder, name, seen in self._suspects:  # grows while it is read
            path = folder + b"/" + name if folder else name
            if not self._is_folder(folder):  # a link stands there now: this is seen through it
                continue
            if stat.S_ISDIR(seen.st_mode):
                known = self.known(path)
                self._set(path, PathEntry("d", seen.st_mode & 0o7777), seen)
                self._listing.add(path)
                if hinted and known is not None and known.inode != seen.st_ino:
                    self._compare_below(path)  # another folder has its name: all below may differ
            else:
                if self._is_folder(path):
                    self._drop(path)
                self._pending.append((seen.st_size, path, seen))

    def _compare_below(self, path: bytes) -> None:
        names = self._names(path)
        self._listing.add(path)
        self._compare(path, names)
        for name, known in [*names.items()]:
            if known.entry.kind == "d":
                self._compare_below(path + b"/" + name)

    def _list_folders(self) -> None:
        queue = deque(sorted(self._listing, key=len))
        while queue:
            folder = queue.popleft()
            if not self._is_folder(folder):
                continue
            if self._watch is not None:  # before it is listed: nothing falls between
                self._watch.add(self.root, folder)
            prefix = folder + b"/" if folder else b""
            try:
                with os.scandir(self.root + b"/" + folder) as listed:
                    found = {each.name: each for each in listed}
            except OSError:  # gone: its parent will say so; or closed to us: it stays as known
                continue
            names = self._names(folder)
            for name, each in found.items():
                if name in names or name == TEMPORARY:
                    continue
                with suppress(OSError):
                    seen = each.stat(follow_symlinks=False)
                    if not folder and is_stub(self.root, name, seen):
                        continue  # it comes and goes with commands, whoever's tools look meanwhile
                    if stat.S_ISDIR(seen.st_mode):
                        self._set(prefix + name, PathEntry("d", seen.st_mode & 0o7777), seen)
                        queue.append(prefix + name)
                    else:
                        self._pending.append((seen.st_size, prefix + name, seen))
            for name in [name for name in names if name not in found]:
                self._drop(prefix + name)

    def _record_pending(self) -> None:
        """Record contents, the smallest first: if the store is full, large files are left out."""
        if self._count + len(self._pending) > self._limits.paths:
            raise UserError(
                f"the workspace holds more than {self._limits.paths:,} files, so its turns cannot "
                "be undone; start in a folder with fewer"
            )
        for _, path, listed in sorted(self._pending, key=lambda each: each[0]):
            if not self._is_folder(parent_of(path)):
                continue
            entry, seen = self.look(path, listed)
            if entry is None:
                self._drop(path)
            else:
                self._set(path, entry, seen)

    def look(self, path: bytes, seen: os.stat_result) -> tuple[PathEntry | None, os.stat_result]:
        """Record what is at a path that is no folder; None if it went away."""
        full = self.root + b"/" + path
        if stat.S_ISLNK(seen.st_mode):
            try:
                return PathEntry("l", 0, os.readlink(full), 0, seen.st_mtime_ns), seen
            except OSError:
                return None, seen
        if not stat.S_ISREG(seen.st_mode):
            return PathEntry("x", seen.st_mode, b"it is no file, folder or link"), seen
        if name := object_name(path):
            pinned = b"%s-%d" % (name, seen.st_size)
            self._contents.pin(full, pinned)
            with suppress(OSError):
                seen = os.lstat(full)  # the hard link moved its stamp
            return PathEntry("g", 0, pinned, seen.st_size), seen
        if seen.st_blocks * 512 > self._limits.file_bytes:
            reason = b"it is larger than %d MiB" % (self._limits.file_bytes >> 20)
            return self._unkept(reason, seen), seen
        if why := self._contents.refusal(min(seen.st_size, seen.st_blocks * 512)):
            return self._unkept(why.encode(), seen), seen
        return self._look_inside(full, seen)

    def _look_inside(
        self, full: bytes, seen: os.stat_result
    ) -> tuple[PathEntry | None, os.stat_result]:
        for _ in range(_TRIES):
            try:
                kept = self._contents.keep(full)
            except FileNotFoundError:
                return None, seen
            except OSError as error:
                reason = (error.strerror or errno.errorcode.get(error.errno or 0, "?")).encode()
                return self._unkept(b"it cannot be read: " + reason, seen), seen
            if kept is not None:
                digest, seen = kept
                mode, group = seen.st_mode & 0o7777, self._group(seen)
                return PathEntry("f", mode, digest, seen.st_size, seen.st_mtime_ns, group), seen
        return self._unkept(b"it changed while it was read", seen), seen

    def _unkept(self, reason: bytes, seen: os.stat_result) -> PathEntry:
        # Its stamp is part of the entry: a change of it is a change, though nothing is kept.
        mode, group = seen.st_mode & 0o7777, self._group(seen)
        return PathEntry("x", mode, reason, seen.st_size, seen.st_ctime_ns, group)

    def _group(self, seen: os.stat_result) -> int:
        if seen.st_nlink < 2:
            return 0
        if seen.st_ino not in self.groups:
            taken = "update meta set value=value+1 where name='groups' returning value"
            self.groups[seen.st_ino] = self._db.execute(taken).fetchone()[0]
        return self.groups[seen.st_ino]

    def _set(self, path: bytes, entry: PathEntry, seen: os.stat_result) -> None:
        folder, _, name = path.rpartition(b"/")
        names = self._names(folder)
        before = names.get(name)
        tick = _TICK_NS if seen.st_ctime_ns % 1_000_000_000 else _COARSE_TICK_NS
        racy = entry.kind != "g" and seen.st_ctime_ns >= self._began - tick
        known = Known(entry, *stamps(seen), racy)
        if known == before:
            return
        names[name] = known
        self._touched.add(folder)
        if entry.kind == "d" and (before is None or before.inode != known.inode):
            self._moved.add(path)
        if entry.kind == "d" and (before is None or before.entry.kind != "d"):
            self._held[path] = {}
            self._touched.add(path)
        self._note(path, before.entry if before else None, entry)
        (self._racy.add if racy else self._racy.discard)(path)
        self._link(path, known if entry.group else None)

    def _link(self, path: bytes, known: Known | None) -> None:
        before = self._linked.pop(path, None)
        if known is not None:
            self._linked[path] = known.inode
            self._mates.setdefault(known.inode, set()).add(path)
        if before is not None and (known is None or known.inode != before):
            mates = self._mates[before]
            mates.discard(path)
            if not mates:
                del self._mates[before]
                self._loose.add(before)

    def _drop(self, path: bytes) -> None:
        folder, _, name = path.rpartition(b"/")
        before = self._names(folder).pop(name, None)
        if before is None:
            return
        if before.entry.kind == "d":
            below = self._names(path)
            for inner in [*below]:
                self._drop(path + b"/" + inner)
            self._touched.add(path)
        self._touched.add(folder)
        self._note(path, before.entry, None)
        self._racy.discard(path)
        self._link(path, None)

    def _note(self, path: bytes, before: PathEntry | None, after: PathEntry | None) -> None:
        first = self._changes[path][0] if path in self._changes else before
        self._changes[path] = (first, after)

    def _write_back(self) -> None:
        for folder in self._touched:
            if self._is_folder(folder):
                row = (folder, _PACK.encode(self._names(folder)))
                self._db.execute("insert or replace into folder values(?,?)", row)
            else:
                self._db.execute("delete from folder where path=?", (folder,))
                self._held.pop(folder, None)

    def _release(self) -> None:
        if not self._all_held or sum(map(len, self._held.values())) > self._limits.held_paths:
            self._held.clear()
            self._all_held = False

    def moved_at(self, path: bytes) -> int:
        """Return when a path changed, as far as stamps say. A folder that is moved changes its own
        stamp, not those of what it holds; what is gone changed that of the nearest folder."""
        if known := self.known(path):
            at = known.ctime
        else:
            while path and self.known(path) is None:
                path = parent_of(path)
            at = self._ctime(path)  # its known stamp may be older: only what it holds was looked at
        while path := parent_of(path):
            if path in self._moved:
                at = max(at, self._ctime(path))
        return at

    def stands(self, folder: bytes) -> bool:
        """Say whether a folder is the one that was there before the last scan."""
        return self._is_folder(folder) and folder not in self._moved

    def _ctime(self, path: bytes) -> int:
        with suppress(OSError):
            return os.lstat(self.root + b"/" + path).st_ctime_ns
        return 0


class FolderWatch:
    """Asks inotify which folders changed. It knows nothing before all folders are watched, after
    its queue overflowed, and where there are more folders than it may watch."""

    # Modified, attributes, closed after writing, moved from and to, created, deleted, the folder
    # itself deleted or moved; folders only, and no links.
    _MASK = 0x2 | 0x4 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800 | 0x01000000 | 0x02000000
    _OVERFLOW, _IGNORED = 0x4000, 0x8000
    _HEAD = struct.Struct("iIII")

    def __init__(self) -> None:
        import ctypes

        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._folders: dict[int, bytes] = {}
        self._usable = self._fd >= 0
        self.armed = False

    def add(self, root: bytes, folder: bytes) -> None:
        """Watch a folder, under the name that it has now."""
        if not self._usable:
            return
        number = self._libc.inotify_add_watch(self._fd, root + b"/" + folder, self._MASK)
        if number >= 0:
            self._folders[number] = folder
        elif os.path.isdir(root + b"/" + folder):
            self._usable = False  # there are no more watches: every scan is a full one

    def dirty(self) -> set[bytes] | None:
        """Return the folders that changed since the last time; None if it does not know."""
        if not self._usable:
            return None
        changed, known = set[bytes](), self.armed
        with suppress(BlockingIOError):
            while text := os.read(self._fd, MAX_READ):
                at = 0
                while at < len(text):
                    number, mask, _, length = self._HEAD.unpack_from(text, at)
                    at += self._HEAD.size + length
                    if mask & self._OVERFLOW:
                        known = self.armed = False
                    elif number in self._folders:
                        changed.add(self._folders[number])
                    if mask & self._IGNORED:
                        self._folders.pop(number, None)
        return changed if known else None

    def close(self) -> None:
        """End all watches."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd, self._usable = -1, False


MAX_READ = 1 << 16
