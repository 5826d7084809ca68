"""What of a workspace a command may neither read nor change, found before it starts.

| found in the workspace                                  | the command                            |
|---------------------------------------------------------|----------------------------------------|
| a name that holds secrets or credentials                | finds it empty                         |
| a name that other programs act on; a bare repository    | may read it                            |
| such a name at the top where it is absent               | cannot make it                         |
| such a name made elsewhere                              | may make it; it is set aside afterwards|
| a file that has another name outside                    | may read it: it would change that too  |
| a file of a runtime: `run.db`, one with `.spool` beside | may read it                            |
| its `-wal` and `-journal` where they are absent         | cannot make it                         |
| what cannot be looked into                              | finds it empty                         |
| a folder above one of these                             | can neither move nor remove it         |

The names are those of `protected`. Folders are opened one from the other and no link is followed.
What is found is told by identity (device and inode) as well as by name, so that who mounts a guard
can tell whether it is still the same. Since nothing that is guarded can be moved by a command, nor
a folder above it, no command can hide it from the look before another.
"""

import asyncio
import errno
import os
import sys
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, field

from vegakit.errors import UserError
from vegakit.ports import Guard, GuardsOutdatedError
from vegakit.tools.confined.beneath import flags
from vegakit.tools.confined.protected import (
    ABSENT_FILES,
    ABSENT_FOLDERS,
    Kind,
    folded,
    is_ours,
    kind_of,
)
from vegakit.tools.sandbox.walking import (
    SMALL,
    Identity,
    Trail,
    identity_of,
    is_empty,
    opened_at,
    opened_root,
    shielded,
    trail_to,
    walk,
)

__all__ = ["Found", "is_repository", "kind_at", "look", "look_over"]

_AT_THE_TOP = frozenset({"tools.yaml"})
"""Trusted by ourselves; further down it is another program's."""
_OF_A_REPOSITORY = (
    "head config config.worktree commondir objects refs hooks info packed-refs worktrees modules"
).split()
_MAKE = flags("O_WRONLY O_CREAT O_EXCL O_NOFOLLOW O_CLOEXEC")
_FEW = 16
"""More linked files below one name at the top, and all of it is frozen: each costs a mount."""
_MOST_GUARDS = 5_000
_LOOKS = 3
"""If something is gone before it is opened: perhaps it was moved, and lies where nobody looked. No
command can do that to what is guarded; after so many looks it is a build that is under way."""
_LOGS = ("-wal", "-journal")
"""What SQLite brings into a file when it opens it, whoever wrote that."""
_BESIDE = (*_LOGS, "-shm", ".lock", ".spool")
_STRENGTH = ("pin", "freeze", "hide")


class Found(Struct):
    """`trusted`, `hidden` and `unjudged` are known again by identity; `links` by name: those with a
    protected name, and where they lead; `led_to` are secrets behind such links. Empty names at the
    top are guarded and not known again: perhaps they are the stubs of another process, which takes
    them away."""

    root: Identity = (0, 0)
    guards: dict[str, Guard] = field(default_factory=dict[str, Guard])
    trusted: dict[Identity, Trail] = field(default_factory=dict[Identity, Trail])
    hidden: dict[Identity, Trail] = field(default_factory=dict[Identity, Trail])
    frozen: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])
    links: dict[tuple[str, ...], str] = field(default_factory=dict[tuple[str, ...], str])
    led_to: set[Identity] = field(default_factory=set[Identity])
    repositories: set[Identity] = field(default_factory=set[Identity])
    unjudged: set[Identity] = field(default_factory=set[Identity])
    absent: list[str] = field(default_factory=list[str])


async def look_over(
    workspace: Path,
    *,
    stubs: dict[str, Identity] | None = None,
    known: Collection[Identity] = (),
) -> Found:
    """A small workspace at once: a thread's turn would cost more than the look."""
    found = _look(workspace, SMALL, stubs, known)
    if found is not None:
        return found
    return await shielded(asyncio.to_thread(look, workspace, stubs=stubs, known=known))


def look(
    workspace: Path,
    *,
    stubs: dict[str, Identity] | None = None,
    known: Collection[Identity] = (),
) -> Found:
    """With `stubs`, what is absent at the top is made, empty, so that it can be guarded, and
    remembered there. `known` are files that were found to hold secrets before."""
    found = _look(workspace, sys.maxsize, stubs, known)
    assert found is not None
    return found


def _look(
    workspace: Path,
    most: int,
    stubs: dict[str, Identity] | None,
    known: Collection[Identity],
) -> Found | None:
    with opened_root(workspace) as root:
        looks = 0
        while True:
            before, looks = _Before(workspace, root, known), looks + 1
            if not walk(root, before, most):
                return None
            if not before.missed or looks == _LOOKS:
                break
        before.finish()
        if stubs is not None:
            before.make_absent(stubs)
        return before.found


class _Before:
    """Gathers what is to be guarded."""

    def __init__(self, workspace: Path, root: int, known: Collection[Identity]) -> None:
        self.found = Found(root=identity_of(os.fstat(root)))
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
        names = {folded(entry.name) for entry in entries}
        repository = is_repository(names)
        if repository:
            self.found.repositories.add(trail[-1][1] if trail else self.found.root)
        if repository and trail:
            self._freeze(trail[:-1], *trail[-1])
            return []
        if not trail:
            self._present = names
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
            short = folded(entry.name)
            if f"{short}.spool" in names or (short.endswith(".db") and is_ours(short)):
                ours |= {short, *(f"{short}{ending}" for ending in _BESIDE)}
                self._logs += [
                    (trail, f"{entry.name}{ending}")
                    for ending in _LOGS
                    if f"{short}{ending}" not in names
                ]
        return ours

    def unopened(self, fd: int, trail: Trail, name: str, error: OSError) -> None:
        """What we cannot look into the command might: its owner can change its mode."""
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
            self.found.unjudged.add(identity_of(about))
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
        kind = kind_at(trail, entry.name)
        if kind is None and ours and folded(entry.name) in ours:
            kind = Kind.OURS
        if entry.is_symlink():
            if kind:
                self._follow(fd, trail, entry.name, kind)
            return False
        if kind is None or (kind is Kind.OURS and entry.is_dir(follow_symlinks=False)):
            if inner and folded(entry.name) in _OF_A_REPOSITORY:
                self._freeze(trail, entry.name, identity_of(entry.stat(follow_symlinks=False)))
                return False
            return self._is_plain_folder(trail, entry)
        about = entry.stat(follow_symlinks=False)
        identity = identity_of(about)
        if kind in {Kind.SECRET, Kind.CREDENTIALS}:
            self._hide(trail, entry.name, identity)
        elif kind is Kind.OURS or (not trail and is_empty(fd, entry.name, about)):
            self._guard(trail, entry.name, identity, "freeze")
        else:
            self._freeze(trail, entry.name, identity)
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

    def _follow(self, fd: int, trail: Trail, name: str, kind: Kind) -> None:
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
        if kind in {Kind.SECRET, Kind.CREDENTIALS}:
            self.found.led_to.add(led[-1][1])
            self._hide(led[:-1], *led[-1])
        else:
            self._guard(led[:-1], *led[-1], "freeze")

    def _freeze(self, trail: Trail, name: str, identity: Identity) -> None:
        self.found.trusted[identity] = (*trail, (name, identity))
        self._guard(trail, name, identity, "freeze")

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
                    os.close(os.open(name, os.O_CREAT | os.O_EXCL, 0o644, dir_fd=self._root))
                else:
                    os.mkdir(name, 0o755, dir_fd=self._root)
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


def kind_at(trail: Trail, name: str) -> Kind | None:
    short = folded(name)
    if not trail and short in _AT_THE_TOP:
        return Kind.TRUSTED
    return kind_of(short, folded(trail[-1][0]) if trail else "")


def is_repository(names: set[str]) -> bool:
    """As git sees it, from the names in a folder, folded."""
    return "head" in names and ("commondir" in names or names >= {"objects", "refs"})


def _guard(identity: Identity, how: str) -> Guard:
    return {"id": [*identity], "how": how, "below": {}}


def _prune(guards: dict[str, Guard]) -> None:
    """Below what is hidden there is nothing to guard."""
    for guard in guards.values():
        if guard["how"] == "hide":
            guard["below"] = {}
        _prune(guard["below"])
