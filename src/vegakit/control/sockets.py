"""The sockets of running runtimes: where they are, who may call, and what is said on them.

A socket is `<os pid>-<name>.sock` in a directory that only its user enters. A runtime that was
killed leaves its socket behind; whoever lists them removes it. A connection carries one request,
which is answered by lines of JSON:

    {"v":1,"verb":"ps"}                             ▶
                                                    ◀  {"v":1,"value":{…}}     for each process
                                                    ◀  {"v":1,"end":true}
    {"v":1,"verb":"kill","id":"coder"}              ▶
                                                    ◀  {"v":1,"end":true,"error":"there is no …"}

Beside `v` and `verb` stand the fields of the request. A connection that closes before an `end` was
cut off. Hanging up ends an answer.
"""

import os
import re
import secrets
import socket
import struct
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw, Struct

from vegakit.control.operations import Operation, Right, request_from, select
from vegakit.errors import UserError
from vegakit.money import Dollars

CONTROL_VERSION = 1
MAX_LINE = 1 << 20

_NOTHING = Raw(b"null")


class ControlReply(Struct, frozen=True, omit_defaults=True):
    """One line of an answer: a value, or its end, with the reason if it was refused."""

    v: int
    value: Raw = _NOTHING
    error: str = ""
    end: bool = False


class _Head(Struct, frozen=True):
    v: int
    verb: str


def encode_request(row: Operation[Any, Any], request: Struct) -> bytes:
    """Return the line that asks for this operation."""
    fields = {"v": CONTROL_VERSION, "verb": row.name, **msgspec.to_builtins(request)}
    return msgspec.json.encode(fields) + b"\n"


def decode_request(
    line: bytes, offered: Mapping[str, Operation[Any, Any]], rights: Collection[Right]
) -> tuple[Operation[Any, Any], Any]:
    """Return the row and the request of a line. Its version and name are read first: of a later
    version nothing else is known, and its fields would only give a misleading error."""
    head = msgspec.json.decode(line, type=_Head)
    if head.v > CONTROL_VERSION or head.verb not in offered:
        raise UserError(
            f"this runtime knows {', '.join(offered)} in version {CONTROL_VERSION}, not "
            f"{head.verb!r} in version {head.v}; use the vega it was started with"
        )
    row = select(head.verb, offered, rights)
    fields = msgspec.json.decode(line, type=dict[str, Any])
    del fields["v"], fields["verb"]
    return row, request_from(row, fields)


def _plain_amount(value: object) -> int:
    """Views of Python code hold `Dollars`, which are sent as the whole numbers they are."""
    if isinstance(value, Dollars):
        return int(value)
    raise TypeError(f"{type(value).__name__} cannot be sent")


_VALUES = msgspec.json.Encoder(enc_hook=_plain_amount)


def encode_reply(*, value: object = None, error: str = "", end: bool = False) -> bytes:
    """Return one line of an answer."""
    encoded = _NOTHING if value is None else Raw(_VALUES.encode(value))
    return msgspec.json.encode(ControlReply(CONTROL_VERSION, encoded, error, end)) + b"\n"


# Finding a runtime, and being found.


_SUFFIX = ".sock"
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_.-]+")
_LONGEST_NAME = 40
_CONNECT_S = 2.0
_ONLY_MINE = 0o700
_WRITTEN_BY_OTHERS = 0o022
_CREDENTIALS = struct.Struct("3i")


class RunningRuntime(Struct, frozen=True):
    """A runtime that listens on the socket at `path`."""

    path: Path
    os_pid: int
    name: str

    def __str__(self) -> str:
        return f"{self.os_pid} ({self.name})"


def open_socket(directory: Path, name: str) -> tuple[socket.socket, Path]:
    """Return a listening socket and its path. It listens under a hidden name before it can be
    found: whoever lists sockets removes one that does not answer."""
    directory.mkdir(mode=_ONLY_MINE, parents=True, exist_ok=True)
    found = directory.stat()
    if found.st_uid != os.geteuid():
        raise PermissionError(f"{directory} belongs to somebody else")
    # A directory that was there keeps its mode: it may be /tmp, and root would take it from all.
    if found.st_mode & _WRITTEN_BY_OTHERS:
        raise PermissionError(f"others may write in {directory}")
    hidden = directory / f"{os.getpid()}-{secrets.token_hex(4)}.new"
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(str(hidden))
        hidden.chmod(0o600)
        listening.listen()
        path = _take_path(hidden, directory, name)
    except OSError:
        listening.close()
        raise
    finally:
        hidden.unlink(missing_ok=True)
    return listening, path


def _take_path(hidden: Path, directory: Path, name: str) -> Path:
    """Give a socket a name that nobody has: runtimes of one name may live in one OS process, and
    open at once in its threads. A link, unlike a new name, takes no other's place."""
    plain = _NOT_PLAIN.sub("_", name)[:_LONGEST_NAME] or "default"
    number, path = 1, directory / f"{os.getpid()}-{plain}{_SUFFIX}"
    while True:
        try:
            path.hardlink_to(hidden)
        except FileExistsError:
            number += 1
            path = directory / f"{os.getpid()}-{plain}~{number}{_SUFFIX}"
        else:
            return path


def running_runtimes(directory: Path) -> list[RunningRuntime]:
    """Return the runtimes that answer, by OS pid, and remove the sockets of those that died."""
    found: list[RunningRuntime] = []
    for path in directory.glob(f"*{_SUFFIX}"):
        os_pid, _, name = path.name.removesuffix(_SUFFIX).partition("-")
        if not os_pid.isdigit() or not name:
            continue
        if _answers(path):
            found.append(RunningRuntime(path, int(os_pid), name))
        else:
            path.unlink(missing_ok=True)
    return sorted(found, key=lambda one: (one.os_pid, one.name))


def find(at: str | Path | None, directory: Path | None) -> Path:
    """Return the socket of a runtime. `at` is the socket itself, or the name or OS pid of a
    runtime; without it there must be just one."""
    if at is not None and (os.sep in str(at) or str(at).endswith(_SUFFIX)):
        return Path(at)
    if directory is None:
        raise UserError(
            'observable.sockets is "", so no runtime can be found; name its socket with --at '
            "PATH, or take observable.sockets out of vega.toml"
        )
    alive = running_runtimes(directory)
    wanted = [one for one in alive if at is None or str(at) in {one.name, str(one.os_pid)}]
    if len(wanted) == 1:
        return wanted[0].path
    raise UserError(_which(at, wanted, alive, directory))


def _which(
    at: str | Path | None,
    wanted: list[RunningRuntime],
    alive: list[RunningRuntime],
    directory: Path,
) -> str:
    if not alive:
        return (
            f"no runtime can be looked into: there is none in {directory}; start a "
            "program with a Runtime (unless it says observable=False), or name a socket: --at PATH"
        )
    listed = ", ".join(map(str, wanted or alive))
    if not wanted:
        return f"no runtime is called {at}; there are {listed}; type --at and a pid or a name"
    pid, name = wanted[-1].os_pid, wanted[-1].name
    several = len({one.os_pid for one in wanted}) == 1
    return f"{len(wanted)} runtimes are open: {listed}; say which: --at {name if several else pid}"


def is_mine(connection: socket.socket) -> bool:
    """Return whether the caller is our own user. Where the system does not tell who called, the
    mode of the directory has to do."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(credentials)
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
