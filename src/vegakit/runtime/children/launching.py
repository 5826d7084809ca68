"""The launcher as the runtime sees it: started with the first child, again if somebody kills it."""

import asyncio
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path

__all__ = ["Launcher"]

_PLACE = Path(__file__).parent
"""Where the folder `launcher` lies."""
_SCRIPT = "import sys; sys.path.append(sys.argv[1]); from launcher import main; main()"


class Launcher:
    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None

    def new_control(self, groups: bytes) -> socket.socket:
        """The runtime's end; a new warden, which is in these groups, holds the other."""
        ours, theirs = socket.socketpair()
        with theirs, ExitStack() as on_failure:
            on_failure.enter_context(ours)
            if self._requests is None or not _hand_over(theirs, self._requests, groups):
                self._bury()
                self._requests = self._start()
                _hand_over(theirs, self._requests, groups)
            on_failure.pop_all()
        return ours

    async def aclose(self) -> None:
        """Waits for its last warden to go, and for it."""
        if self._requests is not None:
            with suppress(ConnectionError):  # somebody killed it
                self._requests.shutdown(socket.SHUT_WR)
                self._requests.setblocking(False)
                await asyncio.get_running_loop().sock_recv(self._requests, 1)
            self._bury()

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs, ExitStack() as on_failure:
            on_failure.enter_context(ours)
            self._process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-I", "-S", "-X", "utf8", "-c", _SCRIPT, _PLACE],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                env={},  # ours holds keys, and everybody who is us may read a process's
                start_new_session=True,
            )
            on_failure.pop_all()
        return ours

    def _bury(self) -> None:
        if self._requests is not None:
            self._requests.close()
            self._requests = None
        if self._process is not None:
            self._process.wait()
            self._process = None


def _hand_over(end: socket.socket, requests: socket.socket, groups: bytes) -> bool:
    try:
        socket.send_fds(requests, [f"{len(groups):08}".encode(), groups], [end.fileno()])
    except (BrokenPipeError, ConnectionResetError):
        return False
    return True
