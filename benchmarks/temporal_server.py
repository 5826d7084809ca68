"""A real Temporal server: its own port, its file in a folder of the caller's."""

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from vegakit.durable import connect
from vegakit.errors import UserError

TEMPORAL = Path(sys.executable).parent / "temporal"
START_S = 30

__all__ = ["Server", "temporal_server"]


class Server(NamedTuple):
    address: str
    pid: int


@contextmanager
def temporal_server(folder: Path) -> Generator[Server]:
    port = free_port()
    flags = f"--headless --ip 127.0.0.1 --port {port} --http-port {free_port()}"
    ports = f"--metrics-port {free_port()} --log-level error --db-filename {folder / 'file.db'}"
    quick = "--sqlite-pragma synchronous=off --sqlite-pragma journal_mode=wal"
    command = [TEMPORAL, "server", "start-dev", *f"{flags} {ports} {quick}".split()]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as p:
        try:
            wait_healthy(f"127.0.0.1:{port}", p)
            yield Server(f"127.0.0.1:{port}", p.pid)
        finally:
            p.terminate()


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


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
