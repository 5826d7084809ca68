"""Guards over a folder: a command starts in a mount namespace where they are already in place.

Every folder is opened from the one before it, one name at a time and without following a link,
and must be the inode that the caller found. So a swapped name or a planted link fails with
ESTALE, and nothing runs.

| how    | the command                                                                        |
|--------|------------------------------------------------------------------------------------|
| pin    | can neither move nor remove this folder: it lies above something that is guarded   |
| freeze | can read it, and change nothing in it                                              |
| hide   | finds it empty                                                                     |
| pass   | has its rights: only what is below is guarded                                      |
"""

import ctypes
import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import TypedDict

__all__ = [
    "FolderGuard",
    "GuardedRoot",
    "set_up",
    "step",
]


class FolderGuard(TypedDict):
    """`id` is what must be there; `below` are guards in it, by name."""

    id: list[int]
    how: str
    below: "dict[str, FolderGuard]"


class GuardedRoot(TypedDict):
    """`fd` is the number under which the command finds `root`, or -1; `empty` is an empty file."""

    root: str
    id: list[int]
    fd: int
    empty: str
    below: dict[str, FolderGuard]


_NEWNS, _NEWUSER = 0x00020000, 0x10000000
_MS_REC, _MS_SLAVE = 0x4000, 0x80000
_OPEN_TREE, _MOVE_MOUNT, _FSOPEN, _FSCONFIG, _FSMOUNT, _SETATTR = 428, 429, 430, 431, 432, 442
_CLONE, _CLOEXEC, _EMPTY_PATH, _RECURSIVE = 1, 0o2000000, 0x1000, 0x8000
_FROM_AND_TO_DESCRIPTORS = 0x04 | 0x40
_READ_ONLY, _NO_SETUID, _NO_DEVICES = 1, 2, 4
_SAFE = _NO_SETUID | _NO_DEVICES
_SET_STRING, _CREATE = 1, 6
_HERE = -100
_MOST = {"max_inotify_instances": "32", "max_inotify_watches": "16384"}
"""Of what the kernel gives each user a few hundred: a command would use up the person's."""
_AT = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC if hasattr(os, "O_PATH") else os.O_NOFOLLOW
_FOLDER = _AT | os.O_DIRECTORY

_LIBC = ctypes.CDLL(None, use_errno=True)


def _nothing(_: str) -> None:
    """Called before each step."""


step: Callable[[str], None] = _nothing
"""Tests put something in its place that swaps what is about to be opened or mounted."""


class _Attributes(ctypes.Structure):
    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns", ctypes.c_uint64),
    )


_ATTRIBUTES = {
    "pin": _Attributes(_SAFE, 0, 0, 0),
    "freeze": _Attributes(_SAFE | _READ_ONLY, 0, 0, 0),
}


def set_up(guarded: GuardedRoot) -> int:
    """Set up the guards for this process and those that it becomes, and return a descriptor of the
    guarded folder. Raise OSError: then nothing may run."""
    is_bounded = _leave_namespace()
    step("root")
    root = os.open("/", _FOLDER)
    for name in guarded["root"].split("/"):
        if name:
            root = _opened(root, name, _FOLDER)
    _must_be(root, guarded["id"])
    _guard_below(root, guarded["below"], guarded["empty"])
    if not is_bounded and guarded["fd"] >= 0:
        # Last: in it root may no longer pass through folders of other users, and who is given the
        # workspace by descriptor need not. Where there are none, no sandbox starts anyway.
        with suppress(OSError):
            _enter_user_namespace(_NEWUSER)
    step("exec")
    return root


def _guard_below(folder: int, guards: dict[str, FolderGuard], empty: str) -> None:
    for name, guard in guards.items():
        step(f"open {name}")
        target = _opened(folder, name, _AT)
        _must_be(target, guard["id"])
        step(f"clone {name}")
        if guard["how"] == "pass":
            _guard_below(target, guard["below"], empty)
            os.close(target)
            continue
        if guard["how"] == "hide":
            mount = _empty_folder() if stat.S_ISDIR(os.fstat(target).st_mode) else _clone_of(empty)
        else:
            mount = _call(_OPEN_TREE, target, b"", _CLONE | _CLOEXEC | _EMPTY_PATH | _RECURSIVE)
            _set_attributes(mount, _ATTRIBUTES[guard["how"]])
        step(f"mount {name}")
        _call(_MOVE_MOUNT, mount, b"", target, b"", _FROM_AND_TO_DESCRIPTORS)
        if guard["below"]:
            # the descriptor of the mount, not the name: what lies below is guarded in the mount
            _guard_below(mount, guard["below"], empty)
        os.close(target)
        os.close(mount)


def _leave_namespace() -> bool:
    """Whether into a user namespace, too. Root needs none for it, unless it has no rights over
    mounts."""
    if os.geteuid() == 0 and _LIBC.unshare(_NEWNS) == 0:
        # else the guards would appear for everybody where mounts are shared, as systemd has it
        if _LIBC.mount(None, b"/", None, _MS_REC | _MS_SLAVE, None):
            _fail("mount")
        return False
    _enter_user_namespace(_NEWUSER | _NEWNS)
    return True


def _enter_user_namespace(flags: int) -> None:
    """Enter a user namespace as the same user. The kernel's counts by user are bounded in it."""
    user, group = os.geteuid(), os.getegid()
    if _LIBC.unshare(flags):
        _fail("unshare")
    with suppress(OSError):  # root may keep its groups
        put_text("/proc/self/setgroups", "deny")
    put_text("/proc/self/uid_map", f"{user} {user} 1")
    put_text("/proc/self/gid_map", f"{group} {group} 1")
    for name, most in _MOST.items():
        with suppress(OSError):  # a kernel that does not count it by namespace
            put_text(f"/proc/sys/user/{name}", most)


def _opened(folder: int, name: str, how: int) -> int:
    """Open a name, or fail: one that is no longer there, or has become a link or a file, is not
    what was found."""
    try:
        return os.open(name, how, dir_fd=folder)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise OSError(errno.ESTALE, "changed meanwhile") from error


def _must_be(descriptor: int, identity: list[int]) -> None:
    found = os.fstat(descriptor)
    if [found.st_dev, found.st_ino] != identity:
        raise OSError(errno.ESTALE, "changed meanwhile")


def _clone_of(path: str) -> int:
    mount = _call(_OPEN_TREE, _HERE, os.fsencode(path), _CLONE | _CLOEXEC)
    _set_attributes(mount, _ATTRIBUTES["freeze"])
    return mount


def _empty_folder() -> int:
    files = _call(_FSOPEN, b"tmpfs", 1)
    for name, value in ((b"size", b"4096"), (b"mode", b"0555")):
        _call(_FSCONFIG, files, _SET_STRING, name, value, 0)
    _call(_FSCONFIG, files, _CREATE, None, None, 0)
    mount = _call(_FSMOUNT, files, 1, _SAFE | _READ_ONLY)
    os.close(files)
    return mount


def _set_attributes(mount: int, attributes: _Attributes) -> None:
    size = ctypes.sizeof(attributes)
    _call(
        _SETATTR,
        mount,
        b"",
        _EMPTY_PATH | _RECURSIVE,
        ctypes.byref(attributes),
        ctypes.c_size_t(size),
    )


def _call(number: int, *values: object) -> int:
    result: int = _LIBC.syscall(number, *values)
    if result < 0:
        _fail(f"system call {number}")
    return result


def _fail(what: str) -> None:
    raise OSError(ctypes.get_errno(), what)


def put_text(path: str, text: str) -> None:
    """Write without Python's own files: they take five times as long, and each command pays for
    it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
