"""Files that a command planted get a name that nobody acts on, as soon as the command has ended.

What a person saves meanwhile is left: a command cannot write into a stub, which is mounted
read-only for it, so what is in one came from outside. A file that took the place of a guarded one
is set aside, also if an editor put it there: it takes the mount away with the old one, and what the
kernel tells of a folder cannot show that no command wrote to the new one at the same moment.

The look after a command never stops at what it finds: what it cannot look into is set aside
itself, and an error is told when everything else is done. A thing is renamed in the folder that
it was found in, by the descriptor of that folder and to a name nobody can guess, so that no swap
makes us rename anything elsewhere, and no taken name is in the way.
"""

import asyncio
import errno
import os
import secrets
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from vegakit.errors import UserError
from vegakit.policy import mark_untrusted, sanitise
from vegakit.tools.openat import best_opener, flags
from vegakit.tools.protected_names import (
    ABSENT_FILES,
    ABSENT_FOLDERS,
    ProtectionKind,
    fold_path,
    kind_of,
)
from vegakit.tools.sandbox.workspace import (
    SETTINGS_OF_A_REPOSITORY,
    SMALL,
    STUB_MARK,
    Identity,
    Trail,
    WorkspaceScan,
    identity_of,
    is_empty,
    is_repository,
    kind_at,
    known_as,
    opened_root,
    shielded,
    walk,
)

_STUBS = frozenset(map(os.fsencode, (*ABSENT_FOLDERS, *ABSENT_FILES)))
_LONGEST = 255
"""Bytes in a name."""
_MAX_SHOWN = 20
_TRIES = 3
_SEE = flags("O_PATH O_NOFOLLOW O_CLOEXEC")
_NOTHING_LEFT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


@asynccontextmanager
async def quarantine(
    workspace: Path, before: WorkspaceScan, stubs: Mapping[str, Identity]
) -> AsyncGenerator[list[str]]:
    """Set aside what is planted in the block, however the block is left; the notes are there
    afterwards. A caller that is cancelled meanwhile waits for it."""
    notes: list[str] = []
    try:
        yield notes
    finally:
        notes += await shielded(_quarantine_async(workspace, before, stubs))


async def _quarantine_async(
    workspace: Path, before: WorkspaceScan, stubs: Mapping[str, Identity]
) -> list[str]:
    notes = _quarantine(workspace, before, stubs, SMALL)
    if notes is None:
        return await asyncio.to_thread(quarantine_sync, workspace, before, stubs)
    return notes


def quarantine_sync(
    workspace: Path,
    before: WorkspaceScan,
    stubs: Mapping[str, Identity],
) -> list[str]:
    """Set aside what was planted and return what was done, a line for each. Raise when all is done,
    if something could not be."""
    notes = _quarantine(workspace, before, stubs, sys.maxsize)
    assert notes is not None
    return notes


def remove_stubs(workspace: Path, stubs: dict[str, Identity]) -> list[int]:
    """Those that are still ours and still empty. Returns a descriptor of each: they have no name
    any more, but some disks are told of what is free and waited for, a millisecond each, and that
    is when the descriptor is closed."""
    removed: list[int] = []
    with suppress(UserError), opened_root(workspace) as root:
        for name, identity in stubs.items():
            with suppress(OSError):
                stub = os.open(name, _SEE, dir_fd=root)
                removed.append(stub)
                if identity_of(os.fstat(stub)) == identity:
                    _remove_empty(root, name, identity)
    stubs.clear()
    return removed


def is_stub(workspace: bytes, name: bytes, about: os.stat_result) -> bool:
    """Return whether a name at the top of a workspace is a stub, in which there is nothing yet."""
    if not about.st_mode & STUB_MARK or name not in _STUBS:
        return False
    root = os.open(workspace, _SEE)
    try:
        return is_empty(root, os.fsdecode(name), about)
    finally:
        os.close(root)


def remove_left_stubs(workspace: Path) -> bool:
    """Remove the stubs of a process that was killed, unless another one has commands there, or its
    own commands have not ended yet. Return whether nobody has."""
    with suppress(UserError), opened_root(workspace) as root:
        return lock_stubs(root)
    return True


def lock_stubs(root: int) -> bool:
    """Hold the stubs of a workspace as long as this descriptor is open, and remove those that
    nobody holds: their process was killed. What a program of the user has locked is left alone.
    Return whether nobody held them."""
    import fcntl  # which Windows has not

    is_free = False
    with suppress(OSError):
        fcntl.flock(root, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for name in (*ABSENT_FOLDERS, *ABSENT_FILES):
            with suppress(OSError):
                about = os.stat(name, dir_fd=root, follow_symlinks=False)
                if about.st_mode & STUB_MARK:
                    _remove_empty(root, name, identity_of(about))
        is_free = True
    with suppress(OSError):
        fcntl.flock(root, fcntl.LOCK_SH | fcntl.LOCK_NB)
    return is_free


def _remove_empty(root: int, name: str, identity: Identity) -> None:
    """A folder is removed only while it is empty; a file is first renamed, so that what somebody
    puts in its place is not removed instead."""
    try:
        os.rmdir(name, dir_fd=root)
    except NotADirectoryError:
        if os.stat(name, dir_fd=root, follow_symlinks=False).st_size:
            return  # a person has written there; it should not be gone even for a moment
        aside = _new_name(name)
        os.rename(name, aside, src_dir_fd=root, dst_dir_fd=root)
        about = os.stat(aside, dir_fd=root, follow_symlinks=False)
        if identity_of(about) == identity and about.st_size == 0:
            os.unlink(aside, dir_fd=root)
        else:
            os.rename(aside, name, src_dir_fd=root, dst_dir_fd=root)


def _quarantine(
    workspace: Path,
    before: WorkspaceScan,
    stubs: Mapping[str, Identity],
    most: int,
) -> list[str] | None:
    with opened_root(workspace) as root:
        after = _QuarantineVisitor(workspace, before, stubs, identity_of(os.fstat(root)))
        if not walk(root, after, most):
            return None
        after.put_links_back(root)
    return after.notes_or_error()


class _QuarantineVisitor:
    def __init__(
        self,
        workspace: Path,
        before: WorkspaceScan,
        stubs: Mapping[str, Identity],
        root: Identity,
    ) -> None:
        self._workspace = workspace
        self._before = before
        self._stubs = stubs
        self._root = root
        self._hidden = {tuple(name for name, _ in each) for each in before.hidden.values()}
        self._top_is_repository = any(
            root == (dev, inode) for _, dev, inode, _ in before.repositories
        )
        self._inodes = {inode for _, _, inode, _ in before.known}
        self._notes: list[str] = []
        self._failed: list[str] = []

    def visit(self, fd: int, trail: Trail, entries: list["os.DirEntry[str]"]) -> list[str]:
        here = trail[-1][1] if trail else self._root
        planted = is_repository({fold_path(entry.name) for entry in entries}) and (
            known_as(fd, "", here) not in self._before.repositories
        )
        below: list[str] = []
        for entry in entries:
            try:
                name = self._judged(fd, trail, entry, planted=planted)
                if name and entry.is_dir(follow_symlinks=False):
                    below.append(name)
            except FileNotFoundError:
                continue  # it is gone again
            except OSError as error:
                self._fail(trail, entry.name, error)
        return below

    def unopened(self, fd: int, trail: Trail, name: str, error: OSError) -> None:
        if error.errno in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}:
            return  # swapped by a command that still runs, whose own look comes
        if error.errno in _NOTHING_LEFT:
            self._fail(trail, name, error)
            return
        try:
            about = os.stat(name, dir_fd=fd, follow_symlinks=False)
            if known_as(fd, name, identity_of(about)) not in self._before.known:
                self._rename(fd, trail, name, "it cannot be looked into")
        except FileNotFoundError:
            return
        except OSError as failure:
            self._fail(trail, name, failure)

    def _judged(
        self, fd: int, trail: Trail, entry: "os.DirEntry[str]", *, planted: bool
    ) -> str | None:
        """The name of what is to be looked into, if it is a folder."""
        if planted and fold_path(entry.name) == "head":
            return self._rename(fd, trail, entry.name, "it makes its folder a git repository")
        if not trail and self._is_setting_of_top(entry.name):
            if self._was_known(fd, entry):
                return None
            return self._rename(fd, trail, entry.name, "git acts on that name in a repository")
        kind = kind_at(trail, entry.name, self._before)
        if kind is None and not entry.is_dir(follow_symlinks=False):
            return None
        if entry.inode() in self._inodes and self._was_known(fd, entry):
            return None
        self._note_uncovered(trail, entry.name)
        if not self._is_acted_on(kind, trail) or self._is_as_before(fd, trail, entry):
            return entry.name
        if self._is_from_outside(trail, entry):
            self._notes.append(
                "what follows was made outside of the sandbox while the command ran, and is left "
                f"as it is:\n{_marked('/'.join((*(each for each, _ in trail), entry.name)))}"
            )
            return None
        return self._rename(fd, trail, entry.name, "programs outside the sandbox act on that name")

    def _is_acted_on(self, kind: ProtectionKind | None, trail: Trail) -> bool:
        """Return whether a name of this kind is set aside here. An environment that came as a whole
        is the command's own, and no tool of the person was set up to use it."""
        if kind is ProtectionKind.INSTALLED:
            return (trail[-1][1] if trail else self._root) in self._before.environments
        return kind in {ProtectionKind.TRUSTED, ProtectionKind.CREDENTIALS}

    def _is_from_outside(self, trail: Trail, entry: "os.DirEntry[str]") -> bool:
        """Return whether a person has filled what we had made empty: the command found it mounted
        read-only, and could neither write there nor take it away."""
        identity = identity_of(entry.stat(follow_symlinks=False))
        return not trail and self._stubs.get(entry.name) == identity

    def _note_uncovered(self, trail: Trail, name: str) -> None:
        """Note a file that lost its cover: who replaces a file, as editors do, takes the mount that
        hid it away with the old one."""
        path = (*(each for each, _ in trail), name)
        if path in self._hidden:
            self._notes.append(
                "what follows was replaced while the command ran, which may have read the new one; "
                f"if it holds a secret, change that:\n{_marked('/'.join(path))}"
            )

    def _is_setting_of_top(self, name: str) -> bool:
        return self._top_is_repository and fold_path(name) in SETTINGS_OF_A_REPOSITORY

    def _was_known(self, fd: int, entry: "os.DirEntry[str]") -> bool:
        identity = identity_of(entry.stat(follow_symlinks=False))
        return known_as(fd, entry.name, identity) in self._before.known

    def _is_as_before(self, fd: int, trail: Trail, entry: "os.DirEntry[str]") -> bool:
        if entry.is_symlink():
            path = (*(each for each, _ in trail), entry.name)
            return self._before.links.get(path) == os.readlink(entry.name, dir_fd=fd)
        if trail:
            return False
        return is_empty(fd, entry.name, entry.stat(follow_symlinks=False))

    def _rename(self, fd: int, trail: Trail, name: str, why: str) -> str | None:
        """Again if somebody puts another in its place meanwhile."""
        aside: str | None = None
        for _ in range(_TRIES):
            try:
                aside = _renamed(fd, name)
            except FileNotFoundError:
                break
            where = self._workspace.joinpath(*(each for each, _ in trail))
            what = f"{_shown(name)} in {_shown(str(where))}, now {_shown(aside)}"
            self._notes.append(
                f"what follows was set aside, because {why}; look at it, then rename it back:\n"
                f"{_marked(what)}"
            )
        return aside

    def put_links_back(self, root: int) -> None:
        """Those with a name that others act on: a link cannot be guarded, so it may be gone."""
        for path, target in self._before.links.items():
            if (
                kind_of(fold_path(path[-1]), fold_path(path[-2]) if path[1:] else "")
                is ProtectionKind.SECRET
            ):
                continue
            with suppress(OSError):
                folder = best_opener()(root, path[:-1])
                try:
                    os.symlink(target, path[-1], dir_fd=folder)
                    self._notes.append(f"this link was put back:\n{_marked('/'.join(path))}")
                finally:
                    os.close(folder)

    def notes_or_error(self) -> list[str]:
        if self._failed:
            raise UserError(
                "the command has ended, and what follows could not be looked at or set aside; "
                f"remove it before any program uses {self._workspace}:\n"
                f"{mark_untrusted(sanitise(_list(self._failed)))}"
            )
        more = len(self._notes) - _MAX_SHOWN
        rest = [f"{more} more were set aside, by names with .set-aside- in them"] * (more > 0)
        return [*self._notes[:_MAX_SHOWN], *rest]

    def _fail(self, trail: Trail, name: str, error: OSError) -> None:
        path = "/".join([*(each for each, _ in trail), name])
        self._failed.append(f"{_shown(path)} ({error.strerror})")


def _renamed(fd: int, name: str) -> str:
    """Rename an entry to a name that nobody can guess. The owner of a folder that he may not write
    to can change its mode, and so do we."""
    aside = _new_name(name)
    try:
        os.rename(name, aside, src_dir_fd=fd, dst_dir_fd=fd)
    except PermissionError:
        mode = os.fstat(fd).st_mode & 0o7777
        os.fchmod(fd, mode | 0o300)
        try:
            os.rename(name, aside, src_dir_fd=fd, dst_dir_fd=fd)
        finally:
            os.fchmod(fd, mode)
    return aside


def _new_name(name: str) -> str:
    suffix = f".set-aside-{secrets.token_hex(8)}"
    return os.fsdecode(os.fsencode(name)[: _LONGEST - len(suffix)]) + suffix


def _list(lines: list[str]) -> str:
    more = f" and {len(lines) - _MAX_SHOWN} more" * (len(lines) > _MAX_SHOWN)
    return ", ".join(lines[:_MAX_SHOWN]) + more


def _marked(name: str) -> str:
    """A command chooses its names, and a model reads them: they are no words of ours."""
    return mark_untrusted(sanitise(_shown(name)))


def _shown(name: str) -> str:
    """Return a name on one line."""
    return (name if name.isprintable() else ascii(name))[:300]
