"""`vega serve` as a process of its own, in a folder of its own, and what a shell does with it."""

import json
import os
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Generator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from tests.patience import PATIENCE_S
from vegakit.cli import main

__all__ = ["ServerProcess", "a_server", "a_token", "vega"]


def environment_of(folder: Path) -> dict[str, str]:
    mine = {name: value for name, value in os.environ.items() if not name.startswith("VEGA_")}
    own = {"HOME": str(folder), "VEGA_DATA_DIR": str(folder / "data"), "PYTHONUTF8": "1"}
    return {**mine, **own}


class Said(NamedTuple):
    """The status of a command, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


def vega(folder: Path, *words: str, **variables: str) -> Said:
    """Run a command to its end, in this process: to start one takes longer than most commands."""
    out, err = StringIO(), StringIO()
    environment = {**environment_of(folder), **variables}
    with (
        chdir(folder),
        patch.dict(os.environ, environment, clear=True),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            status = main([*words])
        except SystemExit as end:
            status = int(str(end.code))
    return Said(status, out.getvalue(), err.getvalue())


def a_token(folder: Path, *words: str, tenant: str = "acme", role: str = "operator") -> str:
    made = vega(
        folder, "token", "create", "--tenant", tenant, "--user", "ann", "--role", role, *words
    )
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


class ServerProcess:
    """A server that listens; `said` is what it printed so far."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process, self.said, self.url = process, "", ""
        self.is_open = threading.Event()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.said += line
            if "serving the kernel at " in line:
                self.url = line.split()[-1]
            if "SIGTERM" in line:
                self.is_open.set()
        self.is_open.set()

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def call(self, token: str, name: str, **fields: object) -> Any:
        request = urllib.request.Request(
            f"{self.url}/v1/{name}",
            json.dumps(fields).encode(),
            {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
            return json.load(response)

    def ended(self) -> int:
        """Wait for its end, and return its status."""
        status = self.process.wait(2 * PATIENCE_S)
        self.reader.join(PATIENCE_S)
        return status


@contextmanager
def a_server(
    folder: Path, *words: str, port: int = 0, **variables: str
) -> Generator[ServerProcess]:
    command = [sys.executable, "-m", "vegakit", "serve", "--port", str(port), *words]
    with subprocess.Popen(
        command,
        cwd=folder,
        env={**environment_of(folder), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        server = ServerProcess(process)
        try:
            assert server.is_open.wait(2 * PATIENCE_S)
            assert server.url, server.said
            yield server
        finally:
            process.kill()
            process.wait()
            server.reader.join(PATIENCE_S)
