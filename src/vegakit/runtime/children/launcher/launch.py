"""The launcher: forks wardens, and ends what a dead one leaves behind."""

import gc
import json
import os
import signal
import socket

from .groups import Groups, Wanted
from .processes import LINUX, NO_NEW_PRIVILEGES, SUBREAPER, descendants, prctl, reap, send_signal
from .wakes import Wakes, receive
from .warden import Warden

__all__ = ["main"]

_LENGTH = 8
"""Digits before the groups of a request."""


def main() -> None:
    gc.disable()
    os.chdir("/")
    prctl(SUBREAPER)
    prctl(NO_NEW_PRIVILEGES)
    requests = socket.socket(fileno=os.dup(0))
    os.dup2(1, 0)  # no descriptor that is received may be 0, 1 or 2: spawning moves them there
    _launch(requests, os.pidfd_open(os.getppid()) if LINUX else None)


def _launch(requests: socket.socket, runtime: int | None) -> None:
    wakes = Wakes(requests.fileno(), runtime)
    wardens: set[int] = set()
    groups = Groups()
    serving = True
    while True:
        died, any_left = reap()
        groups.remove(died)
        if not (serving or any_left):
            return
        if any(exit_code or pid not in wardens for pid, exit_code in died.items()):
            send_signal(descendants(os.getpid(), but=wardens), signal.SIGKILL)
        wardens -= died.keys()
        ready = wakes.next()
        if not ready & {requests.fileno(), runtime}:
            continue
        length, controls = (b"", []) if runtime in ready else receive(requests, _LENGTH)
        if controls:
            wanted = json.loads(requests.recv(int(length), socket.MSG_WAITALL))
            wardens |= _fork_warden(requests, controls[0], runtime, groups, wanted)
        else:
            wakes.forget(requests.fileno(), runtime)
            serving = False


def _fork_warden(
    requests: socket.socket, control: int, runtime: int | None, groups: Groups, wanted: Wanted
) -> set[int]:
    """None when the machine has no room for it: then its control is shut, which says so."""
    made = groups.make(wanted)
    try:
        pid = os.fork()
    except OSError:
        pid = -1
    if pid == 0:
        requests.close()
        Warden(socket.socket(fileno=control), runtime, made).serve()
        os._exit(0)
    os.close(control)
    groups.keep(pid, made)
    return {pid} - {-1}
