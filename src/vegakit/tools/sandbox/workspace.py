"""The guards of a workspace: what a command may neither read nor change, found before it starts by
walking the workspace through descriptors.

No link is followed. What is found is identified by device and inode as well as by name, so that
whoever mounts a guard can tell whether it is still the same.
"""

import asyncio
import errno
import os
import stat
import sys
from collections import Counter
from collections.abc import Collection, Coroutine, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

from msgspec import Struct, field

from vegakit.errors import UserError
from vegakit.ports import GuardsOutdatedError, PathGuard
from vegakit.tools.openat import best_opener, born_ns, flags
from vegakit.tools.protected_names import (
    ABSENT_FILES,
    ABSENT_FOLDERS,
    ENVIRONMENT_MARK,
    ENVIRONMENTS,
    SECRET_FILES,
    ProtectionKind,
    fold_path,
    is_ours,
    kind_of,
)

# A workspace, gone through by descriptors: one folder opened from the other, no link followed.


Identity: TypeAlias = tuple[int, int]
"""Device and inode."""
Known: TypeAlias = tuple[str, int, int, int]
"""How a thing is known again later: folded name, device, inode and birth. Device and inode alone
would not do: when a file is removed, the next one that is made may get its inode."""
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
    """A visitor is told of all that is in a workspace."""

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
        found = best_opener()(top, workspace.parts[1:])
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
    """Return the device and inode of a file."""
    return about.st_dev, about.st_ino


def known_as(fd: int, name: str, identity: Identity) -> Known:
    """Return the mark of `name` in the folder `fd`, or of the folder itself if there is no name.
    Where the file system does not tell when a file was made, that is 0."""
    return fold_path(name), *identity, born_ns(fd, name)


def is_empty(fd: int, name: str, about: os.stat_result) -> bool:
    """Return whether a file or folder has nothing in it."""
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


# The scan finds what a command may neither read nor change, before it starts.
#
# found in the workspace                                  | the command
# --------------------------------------------------------|---------------------------------------
# a name that holds secrets or credentials                | finds it empty
# a name that other programs act on; a bare repository    | may read it
# such a name at the top where it is absent               | cannot make it
# such a name made elsewhere                              | may make it; it is set aside afterwards
# code that the person's tools run: `.venv/bin`           | may read it
# more of that in the same environment                    | may make it; it is set aside afterwards
# a file that has another name outside                    | may read it: it would change that too
# a file of a runtime: `run.db`, one with `.spool` beside | may read it
# its `-wal` and `-journal` where they are absent         | cannot make it
# what cannot be looked into                              | finds it empty
# a folder above one of these                             | can neither move nor remove it
#
# The names are those of `protected`. Folders are opened one from the other and no link is
# followed. What is found is told by identity (device and inode) as well as by name, so that who
# mounts a guard can tell whether it is still the same. Since nothing that is guarded can be moved
# by a command, nor a folder above it, no command can hide it from the look before another.


_AT_THE_TOP = frozenset({"tools.yaml"})
"""Trusted by ourselves; further down it is another program's."""
SETTINGS_OF_A_REPOSITORY = frozenset(
    "config config.worktree commondir hooks info worktrees modules".split()
)
_OF_A_REPOSITORY = SETTINGS_OF_A_REPOSITORY.union("head objects refs packed-refs".split())
_MAKE = flags("O_WRONLY O_CREAT O_EXCL O_NOFOLLOW O_CLOEXEC")
_FEW = 16
"""More linked files below one name at the top, and all of it is frozen: each costs a mount."""
_MOST_GUARDS = 5_000
_LOOKS = 3
"""If something is gone before it is opened: perhaps it was moved, and lies where nobody looked. No
command can do that to what is guarded; after so many looks it is a build that is under way."""
STUB_MARK = stat.S_ISVTX
"""A bit in the mode of a stub, by which one that a killed process left is known again. A stub is
made with it: a mark that is set afterwards would be missing if the kill comes in between."""
_LOGS = ("-wal", "-journal")
"""What SQLite brings into a file when it opens it, whoever wrote that."""
_BESIDE = (*_LOGS, "-shm", ".lock", ".spool")
_STRENGTH = ("pin", "freeze", "hide")


class WorkspaceScan(Struct):
    """The findings of a walk. Everything in `known` was there before; `repositories` are folders,
    known again without their names. `links` are known by name: those with a protected name, and
    where they lead; `led_to` are secrets behind such links. `environments` are folders that
    installed code lies in. Empty names at the top are guarded and
    not known again: perhaps they are the stubs of another process, which takes them away."""

    root: Identity = (0, 0)
    guards: dict[str, PathGuard] = field(default_factory=dict[str, PathGuard])
    known: set[Known] = field(default_factory=set[Known])
    hidden: dict[Identity, Trail] = field(default_factory=dict[Identity, Trail])
    frozen: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])
    links: dict[tuple[str, ...], str] = field(default_factory=dict[tuple[str, ...], str])
    led_to: set[Identity] = field(default_factory=set[Identity])
    repositories: set[Known] = field(default_factory=set[Known])
    absent: list[str] = field(default_factory=list[str])
    environments: set[Identity] = field(default_factory=set[Identity])


async def scan_workspace(
    workspace: Path,
    *,
    stubs: dict[str, Identity] | None = None,
    known: Collection[Identity] = (),
) -> WorkspaceScan:
    """A small workspace at once: a thread's turn would cost more than the look."""
    found = _scan(workspace, SMALL, stubs, known)
    if found is not None:
        return found
    return await shielded(
        asyncio.to_thread(scan_workspace_sync, workspace, stubs=stubs, known=known)
    )


def scan_workspace_sync(
    workspace: Path,
    *,
    stubs: dict[str, Identity] | None = None,
    known: Collection[Identity] = (),
) -> WorkspaceScan:
    """Walk the workspace. With `stubs`, protected names that are absent at the top are made, empty,
    so that they can be guarded, and remembered there. `known` are files that were found to hold
    secrets before."""
    found = _scan(workspace, sys.maxsize, stubs, known)
    assert found is not None
    return found


def _scan(
    workspace: Path,
    most: int,
    stubs: dict[str, Identity] | None,
    known: Collection[Identity],
) -> WorkspaceScan | None:
    with opened_root(workspace) as root:
        looks = 0
        while True:
            before, looks = _GuardCollector(workspace, root, known), looks + 1
            if not walk(root, before, most):
                return None
            if not before.missed or looks == _LOOKS:
                break
        before.finish()
        if stubs is not None:
            before.make_absent(stubs)
        return before.found


class _GuardCollector:
    """Gathers what is to be guarded."""

    def __init__(self, workspace: Path, root: int, known: Collection[Identity]) -> None:
        self.found = WorkspaceScan(root=identity_of(os.fstat(root)))
        self._workspace = workspace
        self._root = root
        self._known = known
        self._links: dict[Identity, list[tuple[Trail, str]]] = {}
        self._counts: dict[Identity, int] = {}
        self._present: set[str] = set()
        self._guards = 0
        self.missed = False
        self._logs: list[tuple[Trail, str]] = []

    def visit(self, fd: int, trail: Trail, entries: list["os.DirEntry[str]"]) -> list[str]:
        names = {fold_path(entry.name) for entry in entries}
        repository = is_repository(names)
        if repository:
            here = trail[-1][1] if trail else self.found.root
            unnamed = known_as(fd, "", here)
            self.found.repositories.add(unnamed)
            if trail:
                self.found.known.add((fold_path(trail[-1][0]), *unnamed[1:]))
                self._guard(trail[:-1], *trail[-1], "freeze")
                return []
        if not trail:
            self._present = names
        if ENVIRONMENT_MARK in names or (trail and fold_path(trail[-1][0]) in ENVIRONMENTS):
            self.found.environments.add(trail[-1][1] if trail else self.found.root)
        below: list[str] = []
        ours = self._kept_by_runtimes(trail, entries, names)
        for entry in entries:
            try:
                if self._is_gone_into(fd, trail, entry, inner=repository, ours=ours):
                    below.append(entry.name)
            except FileNotFoundError:
                self.missed = True
        return below

    def _kept_by_runtimes(
        self, trail: Trail, entries: list["os.DirEntry[str]"], names: set[str]
    ) -> set[str]:
        """Names of journals, whatever they are called, and of what lies beside them."""
        ours: set[str] = set()
        if not any(name.endswith((".spool", ".db")) for name in names):
            return ours
        for entry in entries:
            short = fold_path(entry.name)
            if f"{short}.spool" in names or (short.endswith(".db") and is_ours(short)):
                ours |= {short, *(f"{short}{ending}" for ending in _BESIDE)}
                self._logs += [
                    (trail, f"{entry.name}{ending}")
                    for ending in _LOGS
                    if f"{short}{ending}" not in names
                ]
        return ours

    def unopened(self, fd: int, trail: Trail, name: str, error: OSError) -> None:
        """Guard a folder whole that we cannot look into: the command might, since its owner can
        change its mode."""
        if error.errno in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}:
            self.missed = True
            return
        if error.errno in {errno.EMFILE, errno.ENFILE, errno.ENOMEM}:
            raise UserError(
                f"no command is run: the workspace cannot be looked over ({error.strerror}); "
                "close something, or raise `ulimit -n`"
            ) from error
        with suppress(FileNotFoundError):
            about = os.stat(name, dir_fd=fd, follow_symlinks=False)
            self._know(fd, name, identity_of(about))
            self._guard(trail, name, identity_of(about), "hide")

    def _is_gone_into(
        self,
        fd: int,
        trail: Trail,
        entry: "os.DirEntry[str]",
        *,
        inner: bool,
        ours: Collection[str],
    ) -> bool:
        kind = kind_at(trail, entry.name, self.found)
        if kind is None and ours and fold_path(entry.name) in ours:
            kind = ProtectionKind.OURS
        if kind is None and fold_path(entry.name) in SECRET_FILES and entry.is_file():
            kind = ProtectionKind.SECRET
        if entry.is_symlink():
            if kind:
                self._follow(fd, trail, entry.name, kind)
            elif inner and fold_path(entry.name) in SETTINGS_OF_A_REPOSITORY:
                self._know(fd, entry.name, identity_of(entry.stat(follow_symlinks=False)))
            return False
        if kind is None or (kind is ProtectionKind.OURS and entry.is_dir(follow_symlinks=False)):
            if inner and fold_path(entry.name) in _OF_A_REPOSITORY:
                identity = identity_of(entry.stat(follow_symlinks=False))
                self._know(fd, entry.name, identity)
                self._guard(trail, entry.name, identity, "freeze")
                return False
            return self._is_plain_folder(trail, entry)
        about = entry.stat(follow_symlinks=False)
        identity = identity_of(about)
        if kind in {ProtectionKind.SECRET, ProtectionKind.CREDENTIALS}:
            self._know(fd, entry.name, identity)
            self._hide(trail, entry.name, identity)
            return False
        if kind is not ProtectionKind.OURS and (trail or not is_empty(fd, entry.name, about)):
            self._know(fd, entry.name, identity)
        self._guard(trail, entry.name, identity, "freeze")
        return False

    def _is_plain_folder(self, trail: Trail, entry: "os.DirEntry[str]") -> bool:
        if entry.is_dir(follow_symlinks=False):
            return True
        if entry.is_file(follow_symlinks=False):
            about = entry.stat(follow_symlinks=False)
            identity = identity_of(about)
            if identity in self._known:
                self._hide(trail, entry.name, identity)
            elif about.st_nlink > 1:
                self._links.setdefault(identity, []).append((trail, entry.name))
                self._counts[identity] = about.st_nlink
        return False

    def _follow(self, fd: int, trail: Trail, name: str, kind: ProtectionKind) -> None:
        """A link itself cannot be guarded, but where it leads can, if that is in the workspace.
        What is found by name here is only taken for names: they are opened without following."""
        path = (*(each for each, _ in trail), name)
        try:
            self.found.links[path] = os.readlink(name, dir_fd=fd)
            target = Path(os.path.realpath(self._workspace.joinpath(*path)))
            names = target.relative_to(self._workspace).parts
            led = trail_to(self._root, names)
        except (OSError, ValueError):
            return  # a loop, or it leads nowhere or outside, where the command is not
        if not led:
            return
        if kind in {ProtectionKind.SECRET, ProtectionKind.CREDENTIALS}:
            self.found.led_to.add(led[-1][1])
            self._hide(led[:-1], *led[-1])
        else:
            self._guard(led[:-1], *led[-1], "freeze")

    def _know(self, fd: int, name: str, identity: Identity) -> None:
        self.found.known.add(known_as(fd, name, identity))

    def _hide(self, trail: Trail, name: str, identity: Identity) -> None:
        self.found.hidden[identity] = (*trail, (name, identity))
        self._guard(trail, name, identity, "hide")

    def _guard(self, trail: Trail, name: str, identity: Identity, how: str) -> None:
        """The folders above are pinned: who moved one would hide what is in it from the look
        before the next command."""
        self._guards += 1
        if self._guards > _MOST_GUARDS:
            raise UserError(
                f"no command is run: more than {_MOST_GUARDS} names in {self._workspace} hold "
                "secrets or are trusted by other programs; move them to a folder outside"
            )
        below = self.found.guards
        for each, at in trail:
            below = below.setdefault(each, _guard(at, "pin"))["below"]
        guard = below.setdefault(name, _guard(identity, how))
        guard["how"] = max(guard["how"], how, key=_STRENGTH.index)
        if how == "freeze":
            self.found.frozen.append((*(each for each, _ in trail), name))

    def finish(self) -> None:
        outside = [
            (trail, name, at)
            for at, places in self._links.items()
            if len(places) < self._counts[at]
            for trail, name in places
        ]
        tops = Counter(trail[0] for trail, _, _ in outside if trail)
        many = {top for top, count in tops.items() if count > _FEW}
        for top in sorted(many):
            self._guard((), *top, "freeze")
        for trail, name, at in outside:
            if not trail or trail[0] not in many:
                self._guard(trail, name, at, "freeze")
        self.found.absent = [
            name for name in (*ABSENT_FOLDERS, *ABSENT_FILES) if name not in self._present
        ]
        _prune(self.found.guards)

    def make_absent(self, stubs: dict[str, Identity]) -> None:
        for name in self.found.absent:
            try:
                if name in ABSENT_FILES:
                    os.close(
                        os.open(name, os.O_CREAT | os.O_EXCL, STUB_MARK | 0o644, dir_fd=self._root)
                    )
                else:
                    os.mkdir(name, STUB_MARK | 0o755, dir_fd=self._root)
            except FileExistsError as error:
                raise GuardsOutdatedError(f"{name} was made meanwhile; look again") from error
            except OSError:
                continue  # nobody can make anything here
            stubs[name] = identity_of(os.stat(name, dir_fd=self._root, follow_symlinks=False))
            self._guard((), name, stubs[name], "freeze")
        for trail, name in self._logs:
            self._make_log(trail, name)

    def _make_log(self, trail: Trail, name: str) -> None:
        """An empty one means nothing to SQLite. It is not taken away again: a runtime may have
        begun to write to it."""
        try:
            folder = opened_at(self._root, trail)
        except OSError as error:
            raise GuardsOutdatedError(f"the folder of {name} was moved; look again") from error
        try:
            made = os.open(name, _MAKE, 0o600, dir_fd=folder)
        except FileExistsError as error:
            raise GuardsOutdatedError(f"{name} was made meanwhile; look again") from error
        except OSError:
            return  # nobody can make anything here
        finally:
            os.close(folder)
        self._guard(trail, name, identity_of(os.fstat(made)), "freeze")
        os.close(made)


def kind_at(trail: Trail, name: str, found: WorkspaceScan) -> ProtectionKind | None:
    """Return why a name is protected here, or None. An environment that a walk found is one
    whatever it is called."""
    short = fold_path(name)
    if not trail and short in _AT_THE_TOP:
        return ProtectionKind.TRUSTED
    above, here = (fold_path(trail[-1][0]), trail[-1][1]) if trail else ("", found.root)
    if above not in ENVIRONMENTS and here in found.environments:
        above = ".venv"
    return kind_of(short, above)


def is_repository(names: set[str]) -> bool:
    """Return whether git sees a repository here, from the names in a folder, folded."""
    return "head" in names and ("commondir" in names or names >= {"objects", "refs"})


def _guard(identity: Identity, how: str) -> PathGuard:
    return {"id": [*identity], "how": how, "below": {}}


def _prune(guards: dict[str, PathGuard]) -> None:
    """Below what is hidden there is nothing to guard."""
    for guard in guards.values():
        if guard["how"] == "hide":
            guard["below"] = {}
        _prune(guard["below"])
