"""The launcher and its wardens: a script that runs in processes of its own.

    runtime ── one byte, one descriptor ──▶ launcher ── fork ──▶ warden ── spawn ──▶ command
       └────────────────────────── control ────────────────────────┘

A warden adopts whatever its command orphans (it is a subreaper), so neither `setsid` nor a double
fork escapes it. It kills the whole tree when the command has exited by itself, when control is shut
and when the runtime has died; then it waits for the next command. On control:

    to the warden    {"argv", "cwd", "env"}\\n      from it    started <pid>\\n
                       with stdin, stdout, stderr              failed <errno> <step>\\n
                     t            SIGTERM to all
                     end of file  SIGKILL to all               ended <exit code>\\n   all are gone

A dead launcher takes nothing along; the tree of a dead warden falls to the launcher, which kills
it. Nothing here can gain rights (`sudo` refuses), for what has other rights cannot be killed. Off
Linux the process group stands for the tree: written for macOS, untested, and what calls `setsid`
there escapes.
"""

# ruff: noqa: PTH113, PTH118, PTH123, PTH208  (pathlib takes longer to import than this to run)

import ctypes
import errno
import gc
import json
import os
import select
import signal
import socket
import sys
from array import array
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import TypedDict

__all__ = ["main"]

_LINUX = sys.platform == "linux"
_SUBREAPER, _NO_NEW_PRIVILEGES = 36, 38
_AGAIN_MS = 50
"""Who forks while the others are counted is killed the next time."""
_MAX_DESCRIPTORS = 3
"""In one message: stdin, stdout and stderr."""


class _Request(TypedDict):
    argv: list[str]
    cwd: str
    env: dict[str, str]


def main() -> None:
    gc.disable()
    os.chdir("/")
    _prctl(_SUBREAPER)
    _prctl(_NO_NEW_PRIVILEGES)
    requests = socket.socket(fileno=os.dup(0))
    os.dup2(1, 0)  # no descriptor that is received may be 0, 1 or 2: spawning moves them there
    _launch(requests, os.pidfd_open(os.getppid()) if _LINUX else None)


def _launch(requests: socket.socket, runtime: int | None) -> None:
    wakes = _Wakes(requests.fileno(), runtime)
    wardens: set[int] = set()
    serving = True
    while True:
        died, any_left = _reap()
        if not (serving or any_left):
            return
        if any(exit_code or pid not in wardens for pid, exit_code in died.items()):
            _signal(_descendants(os.getpid(), but=wardens), signal.SIGKILL)
        wardens -= died.keys()
        ready = wakes.next()
        if not ready & {requests.fileno(), runtime}:
            continue
        controls = [] if runtime in ready else _receive(requests, 1)[1]
        if controls:
            wardens |= _fork_warden(requests, controls[0], runtime)
        else:
            wakes.forget(requests.fileno(), runtime)
            serving = False


def _fork_warden(requests: socket.socket, control: int, runtime: int | None) -> set[int]:
    """None when the machine has no room for it: then its control is shut, which says so."""
    try:
        pid = os.fork()
    except OSError:
        pid = -1
    if pid == 0:
        requests.close()
        _Warden(socket.socket(fileno=control), runtime).serve()
        os._exit(0)
    os.close(control)
    return {pid} - {-1}


class _Warden:
    def __init__(self, control: socket.socket, runtime: int | None) -> None:
        _prctl(_SUBREAPER)
        self._control = control
        self._runtime = runtime
        self._wakes = _Wakes(control.fileno(), runtime)
        self._heard = b""
        self._received: list[int] = []
        self._dismissed = False

    def serve(self) -> None:
        while not self._dismissed:
            if self._heard.endswith(b"\n"):
                self._run(json.loads(self._heard))
            else:
                self._listen()

    def _run(self, request: _Request) -> None:
        stdio, self._received, self._heard = self._received, [], b""
        step = "cwd"
        try:
            os.chdir(request["cwd"])
            step = "exec"
            command = _spawn(request["argv"], request["env"], stdio)
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

    def _keep(self, command: int) -> int:
        """Until the whole tree is gone. Once told to end, it may outlive its command."""
        exit_code, killing = 0, False
        while True:
            died, any_left = _reap()
            exit_code = died.get(command, exit_code)
            if not any_left:
                return exit_code
            killing |= self._dismissed or (command in died and not self._heard)
            if killing:
                self._signal(command, signal.SIGKILL)
            already = self._heard
            self._listen(_AGAIN_MS if killing else None)
            if self._heard != already:
                self._signal(command, signal.SIGTERM)

    def _signal(self, command: int, signum: int) -> None:
        _signal(_descendants(os.getpid()) if _LINUX else [-command], signum)

    def _listen(self, timeout_ms: int | None = None) -> None:
        ready = self._wakes.next(timeout_ms)
        dismissed = self._runtime in ready
        if self._control.fileno() in ready:
            heard, received = _receive(self._control, 1 << 16)
            self._heard += heard
            self._received += received
            dismissed |= not heard
        if dismissed:
            self._dismissed = True
            self._wakes.forget(self._control.fileno(), self._runtime)

    def _tell(self, line: str) -> None:
        with suppress(OSError):  # the runtime may be dead
            self._control.sendall(f"{line}\n".encode())


def _spawn(argv: list[str], env: Mapping[str, str], stdio: Sequence[int]) -> int:
    places = [argv[0]]
    if "/" not in argv[0]:
        places = [os.path.join(directory, argv[0]) for directory in os.get_exec_path(env)]
    runnable = (place for place in places if os.path.isfile(place) and os.access(place, os.X_OK))
    return os.posix_spawn(
        next(runnable, places[0]),
        argv,
        env,
        file_actions=[(os.POSIX_SPAWN_DUP2, end, number) for number, end in enumerate(stdio)],
        setsid=True,
        setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),  # Python ignores them
    )


def _receive(end: socket.socket, size: int) -> tuple[bytes, list[int]]:
    descriptors = array("i")
    room = socket.CMSG_SPACE(_MAX_DESCRIPTORS * descriptors.itemsize)
    try:
        heard, messages, _, _ = end.recvmsg(size, room)
    except ConnectionResetError:
        return b"", []
    for _, _, content in messages:
        descriptors.frombytes(content)
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    return heard, list(descriptors)


def _no_default(_signum: int, _frame: object) -> None:
    """Only a handled signal wakes."""


class _Wakes:
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
        ready: set[int | None] = {descriptor for descriptor, _ in self._poll.poll(timeout_ms)}
        if self._alarm in ready:
            os.read(self._alarm, 4096)
        return ready

    def forget(self, *descriptors: int | None) -> None:
        for descriptor in descriptors:
            if descriptor is not None:
                self._poll.unregister(descriptor)


def _reap() -> tuple[dict[int, int], bool]:
    """The exit codes of those that have died, and whether any child is left."""
    died: dict[int, int] = {}
    try:
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            died[found[0]] = os.waitstatus_to_exitcode(found[1])
    except ChildProcessError:
        return died, False
    return died, True


def _descendants(root: int, but: Collection[int] = ()) -> list[int]:
    """Those below `root`, except the children `but` and those below them."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc") if _LINUX else []):
        with suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{name}/stat", "rb") as f:
            parent = int(f.read().rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(int(name))
    found = [pid for pid in children.get(root, []) if pid not in but]
    for pid in found:
        found += children.get(pid, [])
    return found


def _signal(pids: Collection[int], signum: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signum)


def _prctl(option: int) -> None:
    if _LINUX and ctypes.CDLL(None, use_errno=True).prctl(option, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), f"prctl {option} is not allowed here")


if __name__ == "__main__":
    main()
