"""A warden: keeps one command after the other, each with everything it started."""

# ruff: noqa: PTH113, PTH118  (pathlib takes longer to import than this to run)

import errno
import json
import os
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn, TypedDict

from .groups import Made, join, killed_first
from .guards import Guarded, set_up
from .processes import LINUX, SUBREAPER, descendants, prctl, reap, send_signal
from .wakes import Wakes, receive

__all__ = ["Warden"]

_AGAIN_MS = 50
"""Who forks while the others are counted is killed the next time."""


class _Request(TypedDict):
    """`opens` are files by the number of the descriptor that they become; `guards` is what the
    command finds guarded, if anything is."""

    argv: list[str]
    cwd: str
    env: dict[str, str]
    opens: dict[str, str]
    guards: Guarded | None


class _NotGuardedError(Exception):
    """The number says why."""


class Warden:
    def __init__(self, control: socket.socket, runtime: int | None, made: Made) -> None:
        prctl(SUBREAPER)
        self._grouped = bool(made.groups)
        self._ungrouped = join(made)
        self._control = control
        self._runtime = runtime
        self._wakes = Wakes(control.fileno(), runtime)
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
        """Until the whole tree is gone. Once told to end, it may outlive its command."""
        exit_code, killing = 0, False
        while True:
            died, any_left = reap()
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
        send_signal(descendants(os.getpid()) if LINUX else [-command], signum)

    def _listen(self, timeout_ms: int | None = None) -> None:
        ready = self._wakes.next(timeout_ms)
        dismissed = self._runtime in ready
        if self._control.fileno() in ready:
            heard, received = receive(self._control, 1 << 16)
            self._heard += heard
            self._received += received
            dismissed |= not heard
        if dismissed:
            self._dismissed = True
            self._wakes.forget(self._control.fileno(), self._runtime)

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


def _fork(program: str, request: _Request, guards: Guarded, stdio: Sequence[int]) -> int:
    """Guards are set up between fork and exec, which a spawn has no room for. The pipe is closed by
    a successful exec; else it says at what the child failed."""
    reading, writing = os.pipe()
    command = os.fork()
    if command == 0:
        _become(program, request, guards, stdio, writing)
    os.close(writing)
    with open(reading, "rb") as f:  # noqa: PTH123
        failed = f.read()
    if not failed:
        return command
    os.waitpid(command, 0)
    step, number = failed.decode().split()
    if step == "guards":
        raise _NotGuardedError(number)
    raise OSError(int(number), step)


def _become(
    program: str, request: _Request, guards: Guarded, stdio: Sequence[int], failing: int
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
    except BaseException as error:  # noqa: BLE001  (nothing may go on as if it were the warden)
        number = error.errno if isinstance(error, OSError) and error.errno else errno.EINVAL
        os.write(failing, f"{step} {number}".encode())
        os._exit(127)


def _out_of_the_way(descriptor: int) -> int:
    """Of the numbers that the command wants its own under."""
    from fcntl import F_DUPFD_CLOEXEC, fcntl

    return fcntl(descriptor, F_DUPFD_CLOEXEC, 64)
