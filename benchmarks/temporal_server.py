"""A real Temporal server: its own port, its file in a folder of the caller's."""

import asyncio
import random
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from vegakit.durable import connect
from vegakit.errors import UserError

TEMPORAL = Path(sys.executable).parent / "temporal"
START_S = 120
"""Against a hang only: on a busy machine it takes its time."""

__all__ = ["KillableServer", "Server", "free_port", "temporal_server"]


class Server(NamedTuple):
    address: str
    pid: int


class KillableServer:
    """One that is killed and started again at the same address, with the same file."""

    def __init__(self, folder: Path) -> None:
        port = free_port()
        flags = f"--headless --ip 127.0.0.1 --port {port} --http-port {free_port()}"
        ports = f"--metrics-port {free_port()} --log-level error --db-filename {folder / 'file.db'}"
        quick = "--sqlite-pragma synchronous=off --sqlite-pragma journal_mode=wal"
        self._command = [TEMPORAL, "server", "start-dev", *f"{flags} {ports} {quick}".split()]
        self._log = folder / "log"
        self.address = f"127.0.0.1:{port}"

    def start(self) -> None:
        """Returns when it is healthy."""
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log)
        wait_healthy(self.address, self.process)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def temporal_server(folder: Path) -> Generator[Server]:
    server = KillableServer(folder)
    try:
        server.start()
        yield Server(server.address, server.process.pid)
    finally:
        server.process.terminate()
        server.process.wait()


def free_port() -> int:
    """Below those that outgoing connections get: a client that tries again and again to reach a
    server that is down would sooner or later be given its very port, and the server could not
    start any more."""
    while True:
        port = random.randint(20_000, 32_000)
        with socket.socket() as taken, suppress(OSError):
            taken.bind(("127.0.0.1", port))
            return port


async def answers(address: str) -> bool:
    try:
        await connect(address)
    except UserError:
        return False
    return True


def wait_healthy(address: str, server: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + START_S
    while not asyncio.run(answers(address)):
        assert server.poll() is None, "the Temporal server has ended; its log tells why"
        assert time.monotonic() < until, f"the Temporal server is not healthy after {START_S} s"
        time.sleep(0.05)
