"""The ways, each in a process of its own, and one provider for all of them, here in a thread.

A run is one program by one way: what it gave, how long it took, and what the provider was asked.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.speedups.answers import Asked, asked
from benchmarks.speedups.ways import Way
from vegakit.testing import Provider, RequestStatus

__all__ = ["Lane", "NotRunningError", "Run", "lane_of"]

ROOT = Path(__file__).parents[2]
PEERS_PYTHON = ROOT / ".bench" / "speedups" / "bin" / "python"
ENVIRONMENT = {
    "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LANGSMITH_TRACING": "false",
}


class NotRunningError(Exception):
    """Says why a way does not run, in the last words of its process."""


class Run(NamedTuple):
    """`began_ms` is when each request came, counted from the order to run, `ended_ms` when it was
    first answered; `cut` counts requests that the client left before they were answered; `notes`
    are what a way tells of itself."""

    result: Any
    seconds: float
    cpu_s: float
    began_ms: dict[Asked, list[int]]
    ended_ms: dict[Asked, int]
    cut: int
    notes: dict[str, Any]

    @property
    def asked(self) -> Counter[Asked]:
        return Counter({prompt: len(times) for prompt, times in self.began_ms.items()})

    @property
    def calls(self) -> int:
        return self.asked.total()


class Lane:
    """One way that is ready to run programs."""

    def __init__(
        self, process: "subprocess.Popen[str]", last_words: Path, provider: Provider
    ) -> None:
        self._process, self._last_words, self._provider = process, last_words, provider
        self.version: str = self._hear()

    def run(self, case: str) -> Run:
        assert self._process.stdin
        self._provider.reset()
        began_ms = time.time_ns() // 1_000_000
        print(case, file=self._process.stdin, flush=True)
        told = self._hear()
        came, ended, cut = dict[Asked, list[int]](), dict[Asked, int](), 0
        for request in self._provider.requests:
            prompt = asked(request.body["messages"])
            came.setdefault(prompt, []).append(request.started_ms - began_ms)
            if request.status is RequestStatus.ANSWERED and request.ended_ms is not None:
                ended.setdefault(prompt, request.ended_ms - began_ms)
            else:
                cut += 1
        return Run(told["result"], told["seconds"], told["cpu_s"], came, ended, cut, told["notes"])

    def _hear(self) -> Any:
        assert self._process.stdout
        if line := self._process.stdout.readline():
            return json.loads(line)
        self._process.wait(10)
        said = self._last_words.read_text(errors="replace").strip().splitlines()
        raise NotRunningError(said[-1] if said else "it ended without a word")


@contextmanager
def lane_of(way: Way, provider: Provider) -> Generator[Lane]:
    """What the way leaves on disk goes to a folder that is gone afterwards."""
    python = PEERS_PYTHON if way.is_peer else Path(sys.executable)
    if not python.exists():
        raise NotRunningError(f"no {python.relative_to(ROOT)}")
    spelled = json.dumps([way.module, way.package, dict(way.options)])
    with tempfile.TemporaryDirectory() as folder:
        last_words = Path(folder, "stderr")
        with last_words.open("w") as stderr:
            process = subprocess.Popen(
                [str(python), "-m", "benchmarks.speedups.worker", provider.url, spelled],
                cwd=folder,
                env={**os.environ, **ENVIRONMENT, "HOME": folder},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        try:
            yield Lane(process, last_words, provider)
        finally:
            process.kill()
            process.communicate()
