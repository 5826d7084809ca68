"""The launcher process, and the supervisor process that it forks for each command.

A supervisor is a subreaper: it adopts whatever its command orphans, so neither `setsid` nor a
double fork escapes it. It runs one command after the other.
"""

import ctypes
import errno
import gc
import itertools
import json
import os
import select
import signal
import socket
import sys
from array import array
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple, NoReturn, TypeAlias, TypedDict

from .guards import GuardedRoot, put_text, set_up

__all__ = [
    "LINUX",
    "NO_NEW_PRIVILEGES",
    "SUBREAPER",
    "ChildSupervisor",
    "CreatedGroups",
    "GroupSettings",
    "Groups",
    "Poller",
    "descendants",
    "join",
    "killed_first",
    "main",
    "prctl",
    "reap",
    "receive",
    "send_signal",
]


# Processes below this one: those that died, all of them, and signals to them.


# ruff: noqa: PTH110, PTH123, PTH208  (pathlib takes longer to import than this to run)


LINUX = sys.platform == "linux"
SUBREAPER, NO_NEW_PRIVILEGES = 36, 38


def reap() -> tuple[dict[int, int], bool]:
    """The exit codes of those that have died, and whether any child is left."""
    died: dict[int, int] = {}
    try:
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            died[found[0]] = os.waitstatus_to_exitcode(found[1])
    except ChildProcessError:
        return died, False
    return died, True


def descendants(root: int, but: Collection[int] = ()) -> list[int]:
    """Those below `root`, except the children `but` and those below them."""
    listed = os.path.exists(f"/proc/{root}/task/{root}/children")
    children_of = _listed_children if listed else _all_children()
    found = [pid for pid in children_of(root) if pid not in but]
    for pid in found:
        found += children_of(pid)
    return found


def _listed_children(pid: int) -> list[int]:
    """Return the children of a process as the kernel lists them: the others on the machine are not
    looked at."""
    found: list[int] = []
    with suppress(FileNotFoundError, ProcessLookupError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with (
                suppress(FileNotFoundError, ProcessLookupError),
                open(f"/proc/{pid}/task/{task}/children") as f,
            ):
                found += map(int, f.read().split())
    return found


def _all_children() -> Callable[[int], list[int]]:
    """Return a function that finds children, for a kernel that does not list them."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc") if LINUX else []):
        with suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{name}/stat", "rb") as f:
            parent = int(f.read().rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(int(name))
    return lambda pid: children.get(pid, [])


def send_signal(pids: Collection[int], signum: int) -> None:
    """Send a signal to those that still live."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signum)


def prctl(option: int) -> None:
    """Set an attribute of this process."""
    if LINUX and ctypes.CDLL(None, use_errno=True).prctl(option, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), f"prctl {option} is not allowed here")


# A launcher or supervisor waits for requests and for the death of its children.


_MAX_DESCRIPTORS = 3
"""In one message: stdin, stdout and stderr."""


def receive(end: socket.socket, size: int) -> tuple[bytes, list[int]]:
    """Receive bytes and descriptors."""
    descriptors = array("i")
    room = socket.CMSG_SPACE(_MAX_DESCRIPTORS * descriptors.itemsize)
    try:
        data, messages, _, _ = end.recvmsg(size, room)
    except ConnectionResetError:
        return b"", []
    for _, _, content in messages:
        descriptors.frombytes(content)
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    return data, list(descriptors)


def _no_default(_signum: int, _frame: object) -> None:
    """Only a handled signal wakes."""


class Poller:
    """Waits for descriptors, the death of a child, the death of the runtime."""

    def __init__(self, *descriptors: int | None) -> None:
        self._alarm, alarmed = os.pipe()
        os.set_blocking(alarmed, False)
        signal.set_wakeup_fd(alarmed, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _no_default)
        self._poll = select.poll()
        for descriptor in (self._alarm, *descriptors):
            if descriptor is not None:
                self._poll.register(descriptor, select.POLLIN)

    def next(self, timeout_ms: int | None = None) -> set[int | None]:
        """Wait and return the descriptors that are ready; None stands for a child that died."""
        ready: set[int | None] = {descriptor for descriptor, _ in self._poll.poll(timeout_ms)}
        if self._alarm in ready:
            os.read(self._alarm, 4096)
        return ready

    def forget(self, *descriptors: int | None) -> None:
        """Stop looking at these descriptors."""
        for descriptor in descriptors:
            if descriptor is not None:
                self._poll.unregister(descriptor)


# Control groups, made for a supervisor, which joins them once and stays.
#
# So its commands are born in them: to be born there costs nothing, to join takes milliseconds.
# They are removed when the supervisor is gone, also if the runtime was killed.


# ruff: noqa: PTH102, PTH106, PTH118, PTH123  (pathlib takes longer to import than this to run)


GroupSettings: TypeAlias = dict[str, dict[str, str]]
"""Settings of a group by the folder that it is made in."""

_ORDER = "/proc/self/oom_score_adj"
_FIRST = "500"


class CreatedGroups(NamedTuple):
    """`error` is why there are not more of them."""

    groups: list[str]
    error: int = 0


class Groups:
    """The control groups made for commands, removed with their supervisor."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._of: dict[int, list[str]] = {}
        self._left: list[str] = []

    def make(self, wanted: GroupSettings) -> CreatedGroups:
        """Make control groups, or none if one of them cannot be made."""
        made: list[str] = []
        try:
            for folder, settings in wanted.items():
                made.append(group := self._made(folder))
                for name, value in settings.items():
                    put_text(os.path.join(group, name), value)
        except OSError as error:
            return CreatedGroups(made, error.errno or errno.EIO)
        return CreatedGroups(made)

    def _made(self, folder: str) -> str:
        """Make a group under a name that is free: one that was killed leaves its groups behind, and
        another process may get its number later."""
        while True:
            group = os.path.join(folder, f"vega-{os.getpid()}-{next(self._numbers)}")
            with suppress(FileExistsError):
                os.mkdir(group)
                return group

    def keep(self, supervisor: int, made: CreatedGroups) -> None:
        """Keep the groups until this supervisor has died; -1 is none."""
        self._of.setdefault(supervisor, []).extend(made.groups)

    def remove(self, died: Collection[int]) -> None:
        """Those of the dead; one that somebody is still in when he is reaped."""
        for pid in (*died, -1):
            self._left += self._of.pop(pid, [])
        self._left = [group for group in self._left if not _removed(group)]


def join(made: CreatedGroups) -> int:
    """Join the groups; return the error number if that was not possible, else 0."""
    try:
        for group in made.groups:
            put_text(os.path.join(group, "cgroup.procs"), "0")
    except OSError as error:
        return error.errno or errno.EIO
    return made.error


@contextmanager
def killed_first() -> Generator[None]:
    """Let what is born here be killed before us when memory is used up. Nobody may go lower than he
    was without rights, so we go higher for a moment."""
    usual = _get(_ORDER)
    _order(_FIRST)
    try:
        yield
    finally:
        _order(usual)


def _removed(group: str) -> bool:
    try:
        os.rmdir(group)
    except OSError as error:
        return error.errno != errno.EBUSY
    return True


def _order(value: str) -> None:
    with suppress(OSError):  # where /proc cannot be written, the largest is killed first
        put_text(_ORDER, value)


def _get(path: str) -> str:
    """A few bytes that the kernel tells."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 4096).decode()
    finally:
        os.close(descriptor)


# A supervisor: keeps one command after the other, each with everything it started.


# ruff: noqa: PTH113, PTH118  (pathlib takes longer to import than this to run)


_AGAIN_MS = 50
"""Who forks while the others are counted is killed the next time."""


class _Request(TypedDict):
    """`opens` are files by the number of the descriptor that they become; `guards` is what the
    command finds guarded, if anything is."""

    argv: list[str]
    cwd: str
    env: dict[str, str]
    opens: dict[str, str]
    guards: GuardedRoot | None


class _NotGuardedError(Exception):
    """The number says why."""


class ChildSupervisor:
    """A child supervisor starts one command after the other and is the parent of all they leave
    behind."""

    def __init__(self, control: socket.socket, runtime: int | None, made: CreatedGroups) -> None:
        prctl(SUBREAPER)
        self._grouped = bool(made.groups)
        self._ungrouped = join(made)
        self._control = control
        self._runtime = runtime
        self._poller = Poller(control.fileno(), runtime)
        self._pending = b""
        self._received: list[int] = []
        self._dismissed = False

    def serve(self) -> None:
        """Serve until dismissed."""
        while not self._dismissed:
            if self._pending.endswith(b"\n"):
                self._run(json.loads(self._pending))
            else:
                self._listen()

    def _run(self, request: _Request) -> None:
        stdio, self._received, self._pending = self._received, [], b""
        step = "groups"
        try:
            if self._ungrouped:
                raise OSError(self._ungrouped, step)  # noqa: TRY301
            step = "cwd"
            os.chdir(request["cwd"])
            step = "exec"
            command = self._spawn(request, stdio)
        except _NotGuardedError as error:
            answer, command = f"failed {error.args[0]} guards", None
        except (OSError, ValueError) as error:
            number = error.errno if isinstance(error, OSError) else errno.EINVAL
            answer, command = f"failed {number} {step}", None
        else:
            answer = f"started {command}"
        for descriptor in stdio:
            os.close(descriptor)
        self._tell(answer)
        if command is not None:
            self._tell(f"ended {self._keep(command)}")
        os.chdir("/")

    def _spawn(self, request: _Request, stdio: Sequence[int]) -> int:
        if not self._grouped:
            return _spawn(request, stdio)
        with killed_first():
            return _spawn(request, stdio)

    def _keep(self, command: int) -> int:
        """Keep the command until its whole tree is gone. Once told to end, the tree may outlive its
        command."""
        exit_code, killing = 0, False
        while True:
            died, any_left = reap()
            exit_code = died.get(command, exit_code)
            if not any_left:
                return exit_code
            killing |= self._dismissed or (command in died and not self._pending)
            if killing:
                self._signal(command, signal.SIGKILL)
            already = self._pending
            self._listen(_AGAIN_MS if killing else None)
            if self._pending != already:
                self._signal(command, signal.SIGTERM)

    def _signal(self, command: int, signum: int) -> None:
        send_signal(descendants(os.getpid()) if LINUX else [-command], signum)

    def _listen(self, timeout_ms: int | None = None) -> None:
        ready = self._poller.next(timeout_ms)
        dismissed = self._runtime in ready
        if self._control.fileno() in ready:
            data, received = receive(self._control, 1 << 16)
            self._pending += data
            self._received += received
            dismissed |= not data
        if dismissed:
            self._dismissed = True
            self._poller.forget(self._control.fileno(), self._runtime)

    def _tell(self, line: str) -> None:
        with suppress(OSError):  # the runtime may be dead
            self._control.sendall(f"{line}\n".encode())


def _spawn(request: _Request, stdio: Sequence[int]) -> int:
    argv, env = request["argv"], request["env"]
    places = [argv[0]]
    if "/" not in argv[0]:
        places = [os.path.join(directory, argv[0]) for directory in os.get_exec_path(env)]
    runnable = (place for place in places if os.path.isfile(place) and os.access(place, os.X_OK))
    program = next(runnable, places[0])
    if request["guards"]:
        return _fork(program, request, request["guards"], stdio)
    return os.posix_spawn(
        program,
        argv,
        env,
        file_actions=[
            *((os.POSIX_SPAWN_DUP2, end, number) for number, end in enumerate(stdio)),
            *(
                (os.POSIX_SPAWN_OPEN, int(number), path, os.O_RDONLY, 0)
                for number, path in request["opens"].items()
            ),
        ],
        setsid=True,
        setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),  # Python ignores them
    )


def _fork(program: str, request: _Request, guards: GuardedRoot, stdio: Sequence[int]) -> int:
    """Guards are set up between fork and exec, which a spawn has no room for. The pipe is closed by
    a successful exec; else it says at what the child failed."""
    reading, writing = os.pipe()
    command = os.fork()
    if command == 0:
        _become(program, request, guards, stdio, writing)
    os.close(writing)
    with open(reading, "rb") as f:
        failed = f.read()
    if not failed:
        return command
    os.waitpid(command, 0)
    step, number = failed.decode().split()
    if step == "guards":
        raise _NotGuardedError(number)
    raise OSError(int(number), step)


def _become(
    program: str, request: _Request, guards: GuardedRoot, stdio: Sequence[int], failing: int
) -> NoReturn:
    step = "guards"
    try:
        os.setsid()
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores them
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        failing, root = _out_of_the_way(failing), _out_of_the_way(set_up(guards))
        step = "exec"
        for number, end in enumerate(stdio):
            os.dup2(end, number)
        for name, path in request["opens"].items():
            os.dup2(_out_of_the_way(os.open(path, os.O_RDONLY)), int(name))
        if guards["fd"] >= 0:
            os.dup2(root, guards["fd"])
        os.execve(program, request["argv"], request["env"])  # noqa: S606
    except BaseException as error:  # noqa: BLE001  (nothing may go on as if it were the supervisor)
        number = error.errno if isinstance(error, OSError) and error.errno else errno.EINVAL
        os.write(failing, f"{step} {number}".encode())
        os._exit(127)


def _out_of_the_way(descriptor: int) -> int:
    """Move a descriptor out of the numbers that the command wants its own under."""
    from fcntl import F_DUPFD_CLOEXEC, fcntl

    return fcntl(descriptor, F_DUPFD_CLOEXEC, 64)


# The launcher: forks supervisors, and ends what a dead one leaves behind.


_LENGTH = 8
"""Digits before the groups of a request."""


def main() -> None:
    """Run the launcher."""
    gc.disable()
    os.chdir("/")
    prctl(SUBREAPER)
    prctl(NO_NEW_PRIVILEGES)
    requests = socket.socket(fileno=os.dup(0))
    os.dup2(1, 0)  # no descriptor that is received may be 0, 1 or 2: spawning moves them there
    _launch(requests, os.pidfd_open(os.getppid()) if LINUX else None)


def _launch(requests: socket.socket, runtime: int | None) -> None:
    poller = Poller(requests.fileno(), runtime)
    supervisors: set[int] = set()
    groups = Groups()
    serving = True
    while True:
        died, any_left = reap()
        groups.remove(died)
        if not (serving or any_left):
            return
        if any(exit_code or pid not in supervisors for pid, exit_code in died.items()):
            send_signal(descendants(os.getpid(), but=supervisors), signal.SIGKILL)
        supervisors -= died.keys()
        ready = poller.next()
        if not ready & {requests.fileno(), runtime}:
            continue
        length, controls = (b"", []) if runtime in ready else receive(requests, _LENGTH)
        if controls:
            wanted = json.loads(requests.recv(int(length), socket.MSG_WAITALL))
            supervisors |= _fork_supervisor(requests, controls[0], runtime, groups, wanted)
        else:
            poller.forget(requests.fileno(), runtime)
            serving = False


def _fork_supervisor(
    requests: socket.socket,
    control: int,
    runtime: int | None,
    groups: Groups,
    wanted: GroupSettings,
) -> set[int]:
    """None when the machine has no room for it: then its control is shut, which says so."""
    made = groups.make(wanted)
    try:
        pid = os.fork()
    except OSError:
        pid = -1
    if pid == 0:
        requests.close()
        ChildSupervisor(socket.socket(fileno=control), runtime, made).serve()
        os._exit(0)
    os.close(control)
    groups.keep(pid, made)
    return {pid} - {-1}
