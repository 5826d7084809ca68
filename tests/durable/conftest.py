"""A real Temporal server for the tests of this folder: its own port, its file thrown away."""

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from vegakit.durable import connect
from vegakit.errors import UserError

TEMPORAL = Path(sys.executable).parent / "temporal"
START_S = 30


@pytest.fixture(scope="session")
def temporal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its address."""
    folder, port = tmp_path_factory.mktemp("temporal"), free_port()
    flags = f"--headless --ip 127.0.0.1 --port {port} --http-port {free_port()}"
    ports = f"--metrics-port {free_port()} --log-level error --db-filename {folder / 'file.db'}"
    quick = "--sqlite-pragma synchronous=off --sqlite-pragma journal_mode=wal"
    command = [TEMPORAL, "server", "start-dev", *f"{flags} {ports} {quick}".split()]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as p:
        try:
            wait_healthy(f"127.0.0.1:{port}", p)
            yield f"127.0.0.1:{port}"
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
