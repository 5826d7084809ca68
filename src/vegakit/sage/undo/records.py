"""Records of undo: what is known of a path, a turn, its limits and results; and where they are
kept: the database of a workspace, and contents by their hash, outside of it.

| kind | what               | digest              | restored                                       |
|------|--------------------|---------------------|------------------------------------------------|
| `f`  | a file             | hash of its content | content, mode, time, which names are one file  |
| `l`  | a symbolic link    | where it points     | as it was                                      |
| `d`  | a folder           | empty               | mode; an empty one too                         |
| `g`  | an object of git   | its name and size   | by a hard link that is kept; never taken away  |
| `x`  | anything else      | why it is not kept  | never: it is named with that reason            |

Paths are bytes, relative to the workspace, as the operating system lists them.
"""

import hashlib
import os
import re
import shutil
import sqlite3
import sys
from collections.abc import Container, Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from vegakit.config import why_ignored
from vegakit.errors import StoreError, UserError

MIB = 1 << 20
_FORMAT = 2
_SCHEMA = """
create table if not exists meta(name text primary key, value int);
create table if not exists blob(hash blob primary key, size int, data blob);
create table if not exists folder(path blob primary key, names blob);
create table if not exists turn(
    id integer primary key, kind text, label text, at_ms int, state text, facts text);
create table if not exists change(
    turn int, path blob, step int, before blob, after blob, by text,
    primary key(turn, path, step)) without rowid;
create table if not exists plan(
    turn int, path blob, target blob, in_place int default 0,
    primary key(turn, path)) without rowid;
insert or ignore into meta values('groups', 0);
"""
_FROM_1 = """
begin;
alter table change rename to change_1;
create table change(
    turn int, path blob, step int, before blob, after blob, by text,
    primary key(turn, path, step)) without rowid;
insert into change select turn, path, 0, before, after, by from change_1;
drop table change_1;
pragma user_version=2;
commit;
"""
"""Before, a path had one change a turn, whoever had made it."""


class UndoLimits(Struct, frozen=True):
    """Bounds what is kept. The smallest files are recorded first, so what does not fit is large."""

    file_bytes: int = 64 * MIB
    """Disk space above which a file is only watched: its change is told, not undone."""
    store_bytes: int = 2048 * MIB
    """Contents of all turns that can be undone; the oldest turns are forgotten first."""
    free_bytes: int = 1024 * MIB
    """Disk space that is left free, whatever else is allowed."""
    turns: int = 1000
    paths: int = 200_000
    """A workspace with more is not recorded."""
    held_paths: int = 30_000
    """Above it, what is known of a folder is read from the store when it is needed."""


class PathEntry(Struct, array_like=True, frozen=True, gc=False):
    """Says what is at a path, enough to restore it. Names with one `group` are one file."""

    kind: str
    mode: int = 0
    digest: bytes = b""
    size: int = 0
    mtime: int = 0
    group: int = 0


class Known(Struct, array_like=True, frozen=True, gc=False):
    """An entry with the stamps that say whether it must be looked at again. A file that changed
    just before the look may change again within the same stamp: it is `racy`."""

    entry: PathEntry
    ctime: int
    mtime: int
    size: int
    inode: int
    mode: int
    racy: bool = False

    def fits(self, stat: os.stat_result) -> bool:
        """Say whether nothing changed since."""
        return (self.ctime, self.mtime, self.size, self.inode, self.mode) == stamps(stat)


MOST_LISTED = 200
"""Paths of a turn that are named in a list."""
FILE_TYPES = 0o10000
"""The mode of a socket or a pipe is kept with its type: it holds nothing that could be lost."""
Change = tuple[PathEntry | None, PathEntry | None]
"""Before and after; None where nothing is."""


class Unrestored(Struct, frozen=True):
    """A path that was left as it is, and why."""

    path: str
    reason: str


class TurnChanges(Struct, frozen=True):
    """Names what a turn left in the workspace. `by_others` changed while it ran, not through it:
    undo keeps them; of these `by_jobs` while only a command in the background ran, so that nobody
    can tell whose they are. `unrecorded` cannot be undone, with the reason."""

    turn: int
    created: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    by_others: tuple[str, ...] = ()
    unrecorded: tuple[Unrestored, ...] = ()
    by_jobs: tuple[str, ...] = ()


class Restored(Struct, frozen=True):
    """Names what an undo or a redo did. `kept` are files that somebody else changed since.
    `lasting` is what the turns did that nobody can take back, such as requests to a server.
    `by_commands` are restored paths that changed while a command ran, so that nobody can tell
    whether somebody else changed them; a redo gives them again."""

    turn: int
    labels: tuple[str, ...]
    restored: tuple[str, ...] = ()
    kept: tuple[Unrestored, ...] = ()
    not_restored: tuple[Unrestored, ...] = ()
    lasting: tuple[str, ...] = ()
    by_commands: tuple[str, ...] = ()


class UndoTurn(Struct, frozen=True):
    """A turn in the list of turns. `state` is open, done or undone, in a list beside sessions also
    cut off or failed; `key` names the turn of the session that it is. One that went on after a kill
    is several turns here, with one key. `names` are the first of its `paths`."""

    number: int
    label: str
    at_ms: int
    state: str
    paths: int
    key: str = ""
    lasting: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


class UndoneTurns(Struct, frozen=True):
    """The turns that one undo took back, by their keys; `stands` until a redo gives them again."""

    at_ms: int
    stands: bool
    keys: tuple[str, ...]


def stamps(stat: os.stat_result) -> tuple[int, int, int, int, int]:
    """Return what a change of a file moves."""
    return (stat.st_ctime_ns, stat.st_mtime_ns, stat.st_size, stat.st_ino, stat.st_mode)


def same(one: PathEntry | None, other: PathEntry | None) -> bool:
    """Say whether two entries are equal to their reader: times and hard links do not count."""
    if one is None or other is None:
        return one is other
    return (one.kind, one.mode, one.digest, one.size) == (
        other.kind,
        other.mode,
        other.digest,
        other.size,
    )


def parent_of(path: bytes) -> bytes:
    """Return the folder of a path; that of a name in the workspace itself is empty."""
    return path.rpartition(b"/")[0]


_OBJECT = re.compile(
    rb"(?:^|/)\.git/(?:.*/)?objects/((?:[0-9a-f]{2}/[0-9a-f]{38,62})"
    rb"|(?:pack/pack-[0-9a-f]+\.[a-z]+))$"
)
_GIT_FOLDER = re.compile(rb"^((?:.*/)?\.git)/")
_OBJECTS_FOLDER = re.compile(rb"(?:^|/)\.git/(?:.*/)?objects(?:/|$)")


def object_name(path: bytes) -> bytes:
    """Return the name by which git finds an object, or nothing if the path is none of an object.
    Such a file never changes under its name."""
    found = _OBJECT.search(path)
    return found[1].replace(b"/", b"-") if found else b""


def git_folder(path: bytes) -> bytes:
    """Return the `.git` that a path lies in, or nothing."""
    found = _GIT_FOLDER.match(path)
    return found[1] if found else b""


def holds_objects(path: bytes) -> bool:
    """Say whether a path is the folder of git's objects, or lies in it."""
    return bool(_OBJECTS_FOLDER.search(path))


def is_index(path: bytes) -> bool:
    """Say whether a path is an index of git."""
    return path == b".git/index" or path.endswith(b"/.git/index")


def index_entries(text: bytes) -> object:
    """Return what an index of git says without the stamps of files, which `git status` rewrites; a
    format that is not known is compared as it is."""
    if text[:4] != b"DIRC" or text[7] not in (2, 3):
        return text
    at, entries = 12, list[tuple[bytes, bytes]]()
    try:
        for _ in range(int.from_bytes(text[8:12], "big")):
            extended = text[at + 60] & 0x40
            end = text.index(b"\0", at + (64 if extended else 62))
            entries.append((text[at + 24 : at + 28], text[at + 40 : end]))
            at += (end - at + 8) // 8 * 8
    except (IndexError, ValueError):
        return text
    return entries


def outer_git(root: Path) -> tuple[str, str]:
    """Return the git folder of a workspace that lies outside of it, as that of a linked worktree or
    of a repository above, and a digest of where its branch and index stand. It is not recorded: the
    same folder serves others, whose commits are not ours to take back."""
    for folder in (root, *root.parents):
        found = folder / ".git"
        if not os.path.lexists(found) or why_ignored(found):
            continue
        try:
            if found.is_file():
                found = (folder / found.read_text().removeprefix("gitdir:").strip()).resolve()
            if not found.is_dir():
                continue
            if found.is_relative_to(root):
                return "", ""
            hashed = hashlib.blake2b(digest_size=16)
            for name in ("HEAD", "logs/HEAD", "index"):
                with suppress(FileNotFoundError):
                    text = (found / name).read_bytes()
                    # A large index is compared as it is: to take it apart would slow every turn.
                    entries = text if len(text) > MIB else repr(index_entries(text)).encode()
                    hashed.update(entries)
        except (OSError, UnicodeDecodeError):
            return "", ""
        return str(found), hashed.hexdigest()
    return "", ""


# The store: one database a workspace.


def check_places(root: Path, state: Path) -> None:
    """Refuse a workspace that cannot be recorded, and a store inside of one."""
    if sys.platform == "win32":
        raise UserError("turns cannot be undone on Windows; use Linux, macOS or WSL")
    if not root.is_dir():
        raise UserError(f"{root} is no folder; start in the folder of your project")
    if state.is_relative_to(root):
        raise UserError(
            f"the store of undo, {state}, would lie inside of the workspace {root}; start in the "
            "folder of your project, or set VEGA_DATA_DIR to a folder outside"
        )


class UndoStoreInUseError(UserError):
    """Another process has the turns of this workspace open."""


def open_database(file: Path, root: Path) -> sqlite3.Connection:
    """Open the store of a workspace for one process at a time: the lock ends with its process,
    however that ends."""
    try:
        db = sqlite3.connect(file, isolation_level=None, check_same_thread=False, timeout=1)
        db.execute("pragma locking_mode=exclusive")
        db.execute("pragma journal_mode=wal")
        db.execute("pragma synchronous=normal")
        (found,) = db.execute("pragma user_version").fetchone()
        if found == 1:
            db.executescript(_FROM_1)
        elif found not in (0, _FORMAT):
            raise StoreError(f"{file} is of a later version of Vega; upgrade, or delete it")
        if not found:
            db.executescript(_SCHEMA)
            db.execute(f"pragma user_version={_FORMAT}")
        db.execute("begin immediate")
        db.execute("commit")
    except sqlite3.OperationalError as error:
        if "locked" not in str(error):
            raise StoreError(f"{file} cannot be opened: {error}") from error
        raise UndoStoreInUseError(
            f"a turn of another session works in {root}; wait until it ends, or stop it where it "
            "runs, then type it again"
        ) from error
    except sqlite3.DatabaseError as error:
        raise StoreError(f"{file} is damaged: {error}; delete its folder to begin anew") from error
    file.chmod(0o600)
    return db


# Contents by hash: small ones are rows, larger ones files beside the database.

_ROW = MIB
_ZEROS = bytes(MIB)


class Contents:
    """Keeps contents of files by hash, and hard links to objects of git."""

    def __init__(self, db: sqlite3.Connection, folder: Path, limits: UndoLimits) -> None:
        self._db = db
        self._big = os.fsencode(folder) + b"/big/"
        self._pins = os.fsencode(folder) + b"/pin/"
        for made in (self._big, self._pins):
            os.makedirs(made, mode=0o700, exist_ok=True)
        self._limits = limits
        self.used: int = 0
        """Bytes of contents; read anew by `measure`."""
        self._free = 0

    def measure(self) -> None:
        """Read how much is kept and how much may be."""
        row = self._db.execute("select coalesce(sum(size), 0) from blob").fetchone()
        self.used = row[0]
        self._free = shutil.disk_usage(self._big).free - self._limits.free_bytes

    def fits(self, size: int) -> bool:
        """Say whether there is room for so many bytes more."""
        return not self.refusal(size)

    def refusal(self, size: int) -> str:
        """Return why so many bytes more are not kept; nothing if they fit."""
        if size > self._free:
            left = f"{self._limits.free_bytes / (1 << 30):g} GiB"
            return f"less than {left} would be left free on the disk where Vega keeps its data"
        is_full = self.used + size > self._limits.store_bytes
        return "the store of undo is full" if is_full else ""

    def keep(self, path: bytes) -> tuple[bytes, os.stat_result] | None:
        """Read a file, and return the hash of its content and its stamps; None if it changed
        meanwhile."""
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            before = os.fstat(fd)
            if before.st_size <= _ROW:
                text = os.read(fd, _ROW + 1)
                while len(text) < before.st_size and (more := os.read(fd, _ROW)):
                    text += more
                digest = hashlib.blake2b(text, digest_size=32).digest()
                if stamps(os.fstat(fd)) != stamps(before):
                    return None
                self._add(digest, len(text), text)
                return digest, before
            digest = self._copy_in(fd, before.st_size)
            if stamps(os.fstat(fd)) != stamps(before):
                return None
            os.rename(self._big + b"new", self._big + digest.hex().encode())
            self._add(digest, before.st_blocks * 512, None)
            return digest, before
        finally:
            os.close(fd)

    def _add(self, digest: bytes, size: int, text: bytes | None) -> None:
        added = self._db.execute("insert or ignore into blob values(?,?,?)", (digest, size, text))
        if added.rowcount > 0:
            self.used += size
            self._free -= size

    def _copy_in(self, fd: int, size: int) -> bytes:
        """Copy a large file, and return its hash, in which a hole and zeros are the same: file
        systems differ in what they say about holes."""
        hashed = hashlib.blake2b(b"%d" % size, digest_size=32)
        out = os.open(self._big + b"new", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.ftruncate(out, size)
            for at, part in _parts(fd, size):
                hashed.update(b"%d:" % at)
                hashed.update(part)
                os.pwrite(out, part, at)
        finally:
            os.close(out)
        return hashed.digest()

    def read(self, digest: bytes) -> bytes:
        """Return a small content."""
        row = self._db.execute("select data from blob where hash=?", (digest,)).fetchone()
        if row is None or row[0] is None:
            raise FileNotFoundError(f"content {digest.hex()} is not in the store")
        return row[0]

    def write(self, entry: PathEntry, fd: int) -> None:
        """Write the content of an entry into an empty file."""
        if entry.size <= _ROW:
            rest = memoryview(self.read(entry.digest))
            while rest:
                rest = rest[os.write(fd, rest) :]
            return
        source = os.open(self._big + entry.digest.hex().encode(), os.O_RDONLY)
        try:
            os.ftruncate(fd, entry.size)
            for at, part in _parts(source, entry.size):
                os.pwrite(fd, part, at)
        finally:
            os.close(source)

    def pin(self, path: bytes, name: bytes) -> None:
        """Keep an object of git by a hard link, or by a copy where that cannot be."""
        pinned = self._pins + name
        if os.path.lexists(pinned):
            return
        try:
            os.link(path, pinned, follow_symlinks=False)
        except OSError:
            with suppress(OSError):
                shutil.copy2(path, pinned + b".new", follow_symlinks=False)
                os.rename(pinned + b".new", pinned)

    def unpin(self, name: bytes, target: bytes, folder: int) -> None:
        """Put an object of git back."""
        try:
            os.link(self._pins + name, target, dst_dir_fd=folder)
        except FileExistsError:
            return
        except FileNotFoundError:
            raise
        except OSError:
            fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o444, dir_fd=folder)
            with open(self._pins + name, "rb") as source, os.fdopen(fd, "wb") as out:
                shutil.copyfileobj(source, out)

    def sweep(self, used: Container[bytes]) -> None:
        """Forget contents and pins that nothing needs, and files without a row."""
        hashes = [digest for (digest,) in self._db.execute("select hash from blob")]
        gone = [(digest,) for digest in hashes if digest not in used]
        self._db.execute("begin immediate")
        self._db.executemany("delete from blob where hash=?", gone)
        self._db.execute("commit")
        rows = self._db.execute("select hash from blob where data is null")
        files = {digest.hex().encode() for (digest,) in rows}
        for folder, kept in ((self._big, files), (self._pins, used)):
            for name in os.listdir(folder):
                if name not in kept:
                    os.unlink(folder + name)
        self.measure()


def _parts(fd: int, size: int) -> Iterator[tuple[int, bytes]]:
    """Yield the parts of a file that are not all zeros, each a MiB from a multiple of one."""
    at = 0
    while at < size:
        try:
            at = os.lseek(fd, at, os.SEEK_DATA) // MIB * MIB
        except OSError:
            return
        part = os.pread(fd, MIB, at)
        while part and len(part) < min(MIB, size - at):
            more = os.pread(fd, MIB - len(part), at + len(part))
            if not more:
                break
            part += more
        if not part:
            return
        if part != (_ZEROS if len(part) == MIB else bytes(len(part))):
            yield at, part
        at += MIB
