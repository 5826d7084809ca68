"""The sockets of running runtimes: `<os pid>-<name>.sock` in a directory only their user enters.

A runtime that was killed leaves its socket behind; whoever lists them removes it.
"""

import os
import re
import socket
import struct
from pathlib import Path

from msgspec import Struct

from vegakit.errors import UserError

__all__ = ["Found", "find", "is_mine", "living", "open_socket"]

_SUFFIX = ".sock"
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_.-]+")
_LONGEST_NAME = 40
_CONNECT_S = 2.0
_ONLY_MINE = 0o700
_CREDENTIALS = struct.Struct("3i")


class Found(Struct, frozen=True):
    path: Path
    os_pid: int
    name: str

    def __str__(self) -> str:
        return f"{self.os_pid} ({self.name})"


def open_socket(directory: Path, name: str) -> tuple[socket.socket, Path]:
    """Listens before it can be found, so that nobody takes it for one that was left behind."""
    directory.mkdir(mode=_ONLY_MINE, parents=True, exist_ok=True)
    if directory.stat().st_uid != os.geteuid():
        raise PermissionError(f"{directory} belongs to somebody else")
    directory.chmod(_ONLY_MINE)
    path = _free_path(directory, name)
    hidden = path.with_suffix(".new")
    hidden.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(str(hidden))
        hidden.chmod(0o600)
        listening.listen()
        hidden.rename(path)
    except OSError:
        listening.close()
        raise
    return listening, path


def _free_path(directory: Path, name: str) -> Path:
    """Two runtimes of one name may live in one OS process."""
    plain = _NOT_PLAIN.sub("_", name)[:_LONGEST_NAME] or "default"
    number, path = 1, directory / f"{os.getpid()}-{plain}{_SUFFIX}"
    while path.exists():
        number += 1
        path = directory / f"{os.getpid()}-{plain}~{number}{_SUFFIX}"
    return path


def living(directory: Path) -> list[Found]:
    """By OS pid; what is left of the dead is removed."""
    found: list[Found] = []
    for path in directory.glob(f"*{_SUFFIX}"):
        os_pid, _, name = path.name.removesuffix(_SUFFIX).partition("-")
        if not os_pid.isdigit() or not name:
            continue
        if _answers(path):
            found.append(Found(path, int(os_pid), name))
        else:
            path.unlink(missing_ok=True)
    return sorted(found, key=lambda one: (one.os_pid, one.name))


def find(at: str | Path | None, directory: Path | None) -> Path:
    """`at` is a socket, the name of a runtime or its OS pid; without it there must be just one."""
    if at is not None and (os.sep in str(at) or str(at).endswith(_SUFFIX)):
        return Path(at)
    if directory is None:
        raise UserError(
            'view.sockets is "", so no runtime can be found; name its socket with --at PATH, or '
            "take view.sockets out of vega.toml"
        )
    alive = living(directory)
    wanted = [one for one in alive if at is None or str(at) in {one.name, str(one.os_pid)}]
    if len(wanted) == 1:
        return wanted[0].path
    raise UserError(_which(at, wanted, alive, directory))


def _which(at: str | Path | None, wanted: list[Found], alive: list[Found], directory: Path) -> str:
    if not alive:
        return (
            f"no runtime can be looked into: there is none in {directory}; start one with "
            "Runtime.from_config() or Runtime(view=True), or name a socket: --at PATH"
        )
    listed = ", ".join(map(str, wanted or alive))
    if not wanted:
        return f"no runtime is called {at}; there are {listed}; type --at and a pid or a name"
    pid, name = wanted[-1].os_pid, wanted[-1].name
    several = len({one.os_pid for one in wanted}) == 1
    return f"{len(wanted)} runtimes are open: {listed}; say which: --at {name if several else pid}"


def is_mine(connection: socket.socket) -> bool:
    """Where the system tells who called; elsewhere the directory's mode has to do."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(told)
    return user == os.geteuid()


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trying:
        trying.settimeout(_CONNECT_S)
        try:
            trying.connect(str(path))
        except ConnectionRefusedError:
            return False
        except OSError:
            return path.exists()
    return True
