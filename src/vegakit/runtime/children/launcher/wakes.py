"""What a launcher or a warden waits for, and what it is told."""

import os
import select
import signal
import socket
from array import array

__all__ = ["Wakes", "receive"]

_MAX_DESCRIPTORS = 3
"""In one message: stdin, stdout and stderr."""


def receive(end: socket.socket, size: int) -> tuple[bytes, list[int]]:
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


class Wakes:
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
