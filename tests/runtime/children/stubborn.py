"""A command that ignores SIGTERM, in one of several shapes; each process says `up` and waits.

python stubborn.py MARK alone | tree | daemon | leaver
"""

import os
import signal
import sys
from collections.abc import Callable


def stay(tell: int | None = None) -> None:
    os.write(1, b"up\n")
    if tell is not None:
        os.write(tell, b"!")
    while True:
        signal.pause()


def fork(then: Callable[[], object]) -> int:
    pid = os.fork()
    if pid == 0:
        then()
        os._exit(0)
    return pid


def tree() -> None:
    fork(lambda: (fork(stay), stay()))
    stay()


def daemon() -> None:
    """The classic double fork, out of the session and out of the parent's sight."""
    leave_daemon()
    stay()


def leave_daemon() -> None:
    """The one between is gone too, so that nobody counts it."""
    told, tell = os.pipe()
    between = fork(lambda: (os.setsid(), fork(lambda: stay(tell))))
    os.read(told, 1)
    os.waitpid(between, 0)


SHAPES = {"alone": stay, "tree": tree, "daemon": daemon, "leaver": leave_daemon}
SIZES = {"alone": 1, "tree": 3, "daemon": 2, "leaver": 1}

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    SHAPES[sys.argv[2]]()
