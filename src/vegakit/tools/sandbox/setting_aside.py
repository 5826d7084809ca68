"""What a command planted gets a name that nobody acts on, as soon as the command has ended.

The look after a command never stops at what it finds: what it cannot look into is set aside itself,
and an error is told when everything else is done. A thing is renamed in the folder that it was
found in, by the descriptor of that folder and to a name nobody can guess, so that no swap makes us
rename anything elsewhere, and no taken name is in the way.
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
from vegakit.tools.confined.beneath import best_way, flags
from vegakit.tools.confined.protected import Kind, folded, kind_of
from vegakit.tools.sandbox.walking import (
    SMALL,
    Identity,
    Trail,
    identity_of,
    is_empty,
    opened_root,
    shielded,
    walk,
)
from vegakit.tools.sandbox.workspace import Found, is_repository, kind_at

__all__ = ["remove_stubs", "set_aside", "tidied"]

_LONGEST = 255
"""Bytes in a name."""
_TOLD = 20
_TRIES = 3
_SEE = flags("O_PATH O_NOFOLLOW O_CLOEXEC")
_NOTHING_LEFT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


@asynccontextmanager
async def tidied(
    workspace: Path, before: Found, stubs: Mapping[str, Identity]
) -> AsyncGenerator[list[str]]:
    """What is planted in the block is set aside, however the block is left; the notes are there
    afterwards. Who is cancelled meanwhile waits for it."""
    notes: list[str] = []
    try:
        yield notes
    finally:
        notes += await shielded(_set_aside(workspace, before, stubs))


async def _set_aside(workspace: Path, before: Found, stubs: Mapping[str, Identity]) -> list[str]:
    notes = _look_after(workspace, before, stubs, SMALL)
    if notes is None:
        return await asyncio.to_thread(set_aside, workspace, before, stubs)
    return notes


def set_aside(workspace: Path, before: Found, stubs: Mapping[str, Identity]) -> list[str]:
    """What was done, a line for each. Raises when all is done, if something could not be."""
    notes = _look_after(workspace, before, stubs, sys.maxsize)
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


def _remove_empty(root: int, name: str, identity: Identity) -> None:
    """A folder is removed only while it is empty; a file is first renamed, so that what somebody
    puts in its place is not removed instead."""
    try:
        os.rmdir(name, dir_fd=root)
    except NotADirectoryError:
        aside = _new_name(name)
        os.rename(name, aside, src_dir_fd=root, dst_dir_fd=root)
        about = os.stat(aside, dir_fd=root, follow_symlinks=False)
        if identity_of(about) == identity and about.st_size == 0:
            os.unlink(aside, dir_fd=root)
        else:
            os.rename(aside, name, src_dir_fd=root, dst_dir_fd=root)


def _look_after(
    workspace: Path, before: Found, stubs: Mapping[str, Identity], most: int
) -> list[str] | None:
    with opened_root(workspace) as root:
        after = _After(workspace, before, stubs, identity_of(os.fstat(root)))
        if not walk(root, after, most):
            return None
        after.put_links_back(root)
    return after.told()


class _After:
    def __init__(
        self, workspace: Path, before: Found, stubs: Mapping[str, Identity], root: Identity
    ) -> None:
        self._workspace = workspace
        self._before = before
        self._stubs = stubs
        self._root = root
        self._known = {*before.trusted, *before.hidden, *before.unjudged}
        self._inodes = {inode for _, inode in self._known}
        self._notes: list[str] = []
        self._failed: list[str] = []

    def visit(self, fd: int, trail: Trail, entries: list["os.DirEntry[str]"]) -> list[str]:
        here = trail[-1][1] if trail else self._root
        planted = here not in self._before.repositories and is_repository(
            {folded(entry.name) for entry in entries}
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
            if identity_of(about) not in self._before.unjudged:
                self._rename(fd, trail, name, "it cannot be looked into")
        except FileNotFoundError:
            return
        except OSError as failure:
            self._fail(trail, name, failure)

    def _judged(
        self, fd: int, trail: Trail, entry: "os.DirEntry[str]", *, planted: bool
    ) -> str | None:
        """The name of what is to be looked into, if it is a folder."""
        if planted and folded(entry.name) == "head":
            return self._rename(fd, trail, entry.name, "it makes its folder a git repository")
        kind = kind_at(trail, entry.name)
        if kind is None and not entry.is_dir(follow_symlinks=False):
            return None
        if entry.inode() in self._inodes and (
            identity_of(entry.stat(follow_symlinks=False)) in self._known
        ):
            return None
        if kind not in {Kind.TRUSTED, Kind.CREDENTIALS} or self._is_as_before(fd, trail, entry):
            return entry.name
        return self._rename(fd, trail, entry.name, "programs outside the sandbox act on that name")

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
            self._notes.append(
                f"{_shown(name)} in {_shown(str(where))} was set aside as {_shown(aside)}: {why}; "
                "look at it, then rename it back"
            )
        return aside

    def put_links_back(self, root: int) -> None:
        """Those with a name that others act on: a link cannot be guarded, so it may be gone."""
        for path, target in self._before.links.items():
            if kind_of(folded(path[-1]), folded(path[-2]) if path[1:] else "") is Kind.SECRET:
                continue
            with suppress(OSError):
                folder = best_way()(root, path[:-1])
                try:
                    os.symlink(target, path[-1], dir_fd=folder)
                    self._notes.append(f"the link {_shown('/'.join(path))} was put back")
                finally:
                    os.close(folder)

    def told(self) -> list[str]:
        if self._failed:
            raise UserError(
                "the command has ended, and what follows could not be looked at or set aside; "
                f"remove it before any program uses {self._workspace}: {_list(self._failed)}"
            )
        more = len(self._notes) - _TOLD
        rest = [f"{more} more were set aside, by names with .set-aside- in them"] * (more > 0)
        return [*self._notes[:_TOLD], *rest]

    def _fail(self, trail: Trail, name: str, error: OSError) -> None:
        path = "/".join([*(each for each, _ in trail), name])
        self._failed.append(f"{_shown(path)} ({error.strerror})")


def _renamed(fd: int, name: str) -> str:
    """In a folder that its owner may not write to, he may all the same: he can change its mode."""
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
    more = f" and {len(lines) - _TOLD} more" * (len(lines) > _TOLD)
    return ", ".join(lines[:_TOLD]) + more


def _shown(name: str) -> str:
    """A name can be anything but a sentence of ours."""
    return (name if name.isprintable() else ascii(name))[:300]
