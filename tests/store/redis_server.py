"""A Redis server of a test's own, in its own folder, that can be paused, killed and flushed."""

import shutil
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError

from tests.kernel.web import free_port
from tests.patience import PATIENCE_S, wait_until

__all__ = ["RedisServer", "redis_server"]


class RedisServer:
    """`keep` is whether it writes what it is told to disk, at most once a second; with `cluster` it
    is the one node of a cluster, which refuses keys of several slots."""

    def __init__(self, folder: Path, *, keep: bool = False, cluster: bool = False) -> None:
        self.port, self._folder, self._keep = free_port(), folder, keep
        self._cluster = cluster
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def client(self) -> "Redis":
        return Redis(port=self.port, socket_timeout=PATIENCE_S)

    def start(self) -> None:
        binary = shutil.which("redis-server")
        assert binary, "no redis-server; type: bash .ci/packages"
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._folder)]
        kept = ["--appendonly", "yes" if self._keep else "no", "--save", ""]
        cluster = ["--cluster-enabled", "yes"] if self._cluster else []
        self._process = subprocess.Popen(
            [binary, *options, *kept, *cluster], stdout=subprocess.DEVNULL
        )
        process = self._process
        wait_until(lambda: self._answers() or process.poll() is not None)
        assert process.poll() is None

    def _answers(self) -> bool:
        try:
            with self.client() as client:
                return bool(client.ping())
        except RedisError:
            return False

    def pause(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def flush(self) -> None:
        with self.client() as client:
            client.flushall()


@contextmanager
def redis_server(
    folder: Path, *, keep: bool = False, cluster: bool = False
) -> Generator[RedisServer]:
    server = RedisServer(folder, keep=keep, cluster=cluster)
    try:
        yield server
    finally:
        server.kill()
