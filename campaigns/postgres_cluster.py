"""A PostgreSQL cluster of one's own: made in a folder, restarted and stopped at will.

The server that the tests share is left alone. `initdb` refuses to run as root, so root hands the
folder to the user `postgres` and works as that.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psycopg
from benchmarks.temporal_server import free_port

__all__ = ["Cluster", "cluster"]

_USER = "postgres"
_QUICK = "-c fsync=on -c max_connections=50 -c shared_buffers=32MB"


class Cluster(NamedTuple):
    folder: Path
    port: int

    @property
    def dsn(self) -> str:
        return f"host=127.0.0.1 port={self.port} user={_USER} dbname=postgres"

    def start(self) -> None:
        where = f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1"
        log = self.folder / "log"
        try:
            self._control("start", "-w", "-l", str(log), "-o", f"{where} {_QUICK}")
        except RuntimeError as error:
            raise RuntimeError(f"{error}; its log ends: {log.read_text()[-1_000:]}") from error

    def stop(self) -> None:
        """As a crash: nothing is finished, the log is read again at the next start."""
        self._control("stop", "-m", "immediate", "-w")

    def asked(self, schema: str, query: str) -> list[tuple[int | str, ...]]:
        with psycopg.connect(self.dsn, connect_timeout=5) as server:
            server.execute(f"SET search_path TO {schema}".encode())
            return server.execute(query.encode()).fetchall()

    def _control(self, *words: str) -> None:
        _run("pg_ctl", "-D", str(self.folder / "data"), *words)


@contextmanager
def cluster() -> Generator[Cluster]:
    """Runs until the end of the block, in a folder of its own that `postgres` can get to."""
    with tempfile.TemporaryDirectory(prefix="vega-postgres-") as name:
        folder = Path(name)
        if os.getuid() == 0:
            shutil.chown(folder, _USER)
        data = str(folder / "data")
        _run("initdb", "-D", data, "-U", _USER, "-A", "trust", "--no-sync", "-E", "UTF8")
        made = Cluster(folder, free_port())
        made.start()
        try:
            yield made
        finally:
            made.stop()


def _run(command: str, *words: str) -> None:
    found = shutil.which(command) or str(_programs() / command)
    prefix = ["runuser", "-u", _USER, "--"] if os.getuid() == 0 else []
    ran = subprocess.run(
        [*prefix, found, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,  # a pipe would be inherited by the server, and never end
        stderr=subprocess.DEVNULL,
        check=False,
        cwd="/",
    )
    if ran.returncode:
        raise RuntimeError(f"{command} {' '.join(words)} ended with {ran.returncode}")


def _programs() -> Path:
    """Debian keeps those of each version in a folder that is not searched."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not folders:
        raise RuntimeError("there is no PostgreSQL here; type: apt-get install postgresql")
    return folders[-1]
