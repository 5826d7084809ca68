"""A stage for one cell: the installed wheel, a clean folder and home, and a provider on a socket.

Programs and commands run as processes of the installed wheel, with default settings; only the
address of the provider is told to them, and that the folder is trusted. What is judged is what they
print, how they exit, which files they leave, and what the provider counted.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from vegakit.conversation import Usage
from vegakit.testing import (
    Hang,
    Provider,
    ProviderAnswer,
    ProviderReply,
    ProviderRequest,
    ProviderToolCall,
    RequestStatus,
)

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0
ANSWER = Usage(30, 50)
"""Of each answer, on a model of $1 and $5 per million tokens."""
_MARK = "CONTRACT_STAGE"


class BrokenError(Exception):
    """A promise that a cell saw broken."""


def require(holds: object, why: str) -> None:
    if not holds:
        raise BrokenError(why)


@contextmanager
def installed_wheel(lock: str = "all") -> Generator[Path]:
    """Install the wheel in a fresh environment outside of the clone, and give the folder of its
    commands."""
    with tempfile.TemporaryDirectory(prefix="vega-wheel-") as folder:
        install_wheel(Path(folder), lock)
        yield commands_in(Path(folder))


def commands_in(place: Path) -> Path:
    """Return the folder of commands of the wheel that is installed in a place."""
    return place / "env" / "bin"


def install_wheel(place: Path, lock: str = "all") -> None:
    """Build the wheel, and install it with a hashed lock."""
    uv, python = str(Path(sys.executable).with_name("uv")), sys.executable
    for words in (
        f"build --wheel --no-build-isolation --python {python} --out-dir {place}/dist",
        f"venv --python {python} {place}/env",
        f"pip install --python {place}/env --require-hashes -r locks/{lock}.txt",
    ):
        _quietly(uv, *words.split())
    (wheel,) = (place / "dist").glob("*.whl")
    # What a user starts for the second time is compiled; the first start is not the promise.
    install = f"pip install --python {place}/env --no-deps --compile-bytecode {wheel}"
    _quietly(uv, *install.split())


def _quietly(*command: str) -> None:
    words = [command[0], command[1], "--quiet", *command[2:]]
    ran = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    require(not ran.returncode, f"{' '.join(command)}: {ran.stdout}{ran.stderr}")


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def page(self) -> Any:
        return json.loads(self.out)

    def __str__(self) -> str:
        said = " ".join(f"{self.out} {self.err}".split())
        return f"exit {self.code}: {said[-400:]}"


class Stage:
    """`held` are words whose asks get no answer, `plan` is what a model with `run_program` sends,
    `calls` what one with other tools calls, one after the other. In a `session` the coding agent
    has several tools, and each round of its turn is a step."""

    patience_s = PATIENCE_S

    def __init__(self, bin_folder: Path, folder: Path) -> None:
        self.folder = folder / "work"
        self.home = folder / "home"
        self.folder.mkdir()
        self.home.mkdir()
        self._bin = bin_folder
        self.provider = Provider(self.answer)
        self.started: list[subprocess.Popen[str]] = []
        self.environment: dict[str, str] = {}
        self.held: set[str] = set()
        self.plan: Iterator[str] = iter(())
        self.calls: list[dict[str, Any]] = []
        self.usage = ANSWER
        self.session = False

    # What the model says.

    def answer(self, request: ProviderRequest) -> ProviderAnswer:
        if any(word in self._step(request) for word in self.held):
            return Hang()
        if self.session:
            return self._answer_in_session(request)
        if "run_program" in request.tools:
            return self._answer_as_planner(request)
        if request.tools and request.tool_results < len(self.calls):
            call = ProviderToolCall(next(iter(request.tools)), self.calls[request.tool_results])
            return ProviderReply(calls=[call], usage=self.usage)
        return ProviderReply(f"answer to {request.text[:6]}", usage=self.usage)

    def _step(self, request: ProviderRequest) -> str:
        """The text of an ask; in a session, of which round of its turn this is."""
        if self.session and self._prompt(request).startswith("Step "):
            return f"Step {request.tool_results + 1}"
        return request.text

    def _prompt(self, request: ProviderRequest) -> str:
        """The words of a person: a session tells what is around it before them."""
        return request.text.rpartition("\n\n")[2] if self.session else request.text

    def _answer_in_session(self, request: ProviderRequest) -> ProviderReply:
        done, step = request.tool_results, self._step(request)
        if done < len(self.calls):
            command = f"echo {self.calls[done]['amount']} >> paid.txt"
            call = ProviderToolCall("shell", {"command": command})
        elif step in ("Step 1", "Step 2"):
            items = [{"text": f"Step {done + 2} after answer to {step}."}]
            call = ProviderToolCall("todo", {"items": items})
        else:
            return ProviderReply(f"answer to {step[:6]}", usage=self.usage)
        return ProviderReply(calls=[call], usage=self.usage)

    def _answer_as_planner(self, request: ProviderRequest) -> ProviderReply:
        source = next(self.plan, None)
        if source is not None:
            call = ProviderToolCall("run_program", {"source": source})
            return ProviderReply(calls=[call], usage=self.usage)
        return ProviderReply(json.dumps(request.body["messages"][2:]), usage=self.usage)

    # What the provider counted.

    @property
    def requests(self) -> list[ProviderRequest]:
        return list(self.provider.requests)

    def steps(self, *statuses: RequestStatus) -> list[str]:
        """The asks of the work itself, in the order in which they came; those of a model that
        writes a program are not among them."""
        return [
            self._step(one)[:6]
            for one in self.requests
            if self._prompt(one).startswith("Step ") and (not statuses or one.status in statuses)
        ]

    def billed_usd(self, requests: int) -> float:
        return requests * (self.usage.input_tokens * 1e-6 + self.usage.output_tokens * 5e-6)

    # What is started.

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            (self.folder / name).write_text(text, encoding="utf-8")

    def _environment(self) -> dict[str, str]:
        return {
            "HOME": str(self.home),
            "PATH": f"{self._bin}:/usr/local/bin:/usr/bin:/bin",
            "ANTHROPIC_API_KEY": "any",
            "VEGA_PROVIDERS_ANTHROPIC_BASE_URL": self.provider.url,
            _MARK: str(self.folder),
            "VEGA_TRUSTED_FOLDERS": str(self.folder),
            **self.environment,
        }

    def start(self, *command: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def end_of(self, process: "subprocess.Popen[str]") -> Done:
        try:
            out, err = process.communicate(timeout=self.patience_s)
        except subprocess.TimeoutExpired:
            raise BrokenError(f"{process.args} did not end in {self.patience_s:.0f} s") from None
        return Done(process.returncode, out, err)

    def run(self, *command: str) -> Done:
        return self.end_of(self.start(*command))

    def run_well(self, *command: str) -> Done:
        done = self.run(*command)
        require(done.code == 0, f"{' '.join(command)}: {done}")
        return done

    def until(self, holds: Callable[[], Any], what: str) -> Any:
        """Return the first value of `holds` that is true."""
        ends = time.monotonic() + PATIENCE_S
        while time.monotonic() < ends:
            if value := holds():
                return value
            time.sleep(0.02)
        raise BrokenError(f"{what}: not within {PATIENCE_S:.0f} s; it saw {self.steps()}")

    def processes_left(self) -> list[int]:
        """Processes of the operating system that this stage's commands began, however deep."""
        mark = f"{_MARK}={self.folder}".encode()
        return [pid for pid in _pids() if mark in _read(Path(f"/proc/{pid}/environ")).split(b"\0")]

    def clear(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
        for pid in self.processes_left():
            os.kill(pid, signal.SIGKILL)


def _pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it has ended, or is another user's
        return b""


StageT = TypeVar("StageT", bound=Stage)


@contextmanager
def stage(bin_folder: Path, kind: type[StageT] = Stage) -> Generator[StageT]:
    folder = Path(tempfile.mkdtemp(prefix="vega-cell-"))
    made = kind(bin_folder, folder)
    try:
        with made.provider.in_thread():
            try:
                yield made
            finally:
                made.clear()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
