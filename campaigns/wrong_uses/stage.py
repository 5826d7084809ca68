"""A clean place for each wrong use, and a process of its own that starts in a few milliseconds.

`python -m campaigns.wrong_uses.stage` loads the commands once and forks for each job that it reads:
the fork has the folder, the variables and the limits of that job, runs it as `vega` or `python`
would, and ends as an interpreter ends. Loading everything again for each of them would be nearly
all of the time; that the result is the same is a test, with real commands.
"""

import ctypes
import gc
import json
import os
import resource
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from campaigns.wrong_uses.table import SCRIPT, Wrong
from vegakit.testing import Provider

LOADED = (
    "vegakit.sdk.runtime vegakit.sdk.composition vegakit.host.program_run vegakit.host.gate "
    "vegakit.providers.registry vegakit.providers.scripted vegakit.providers.model "
    "vegakit.providers.catalog vegakit.server.mcp_http vegakit.cli.mcp uvicorn pydantic "
    "vegakit.store.sqlite asyncio.runners ssl vegakit.config vegakit.lang.python"
).split()
"""What most commands load when they run."""
PATIENCE_S = 100
"""A job that takes longer hangs. It ends by a signal, which is no status that anybody documents."""


# Where a wrong use is made.


class Place:
    """A folder to work in and a home beside it, both empty but for what the wrong use needs."""

    def __init__(self, folder: Path, facts: Mapping[str, str]) -> None:
        self.folder = folder
        self.work, self.home = folder / "work", folder / "home"
        self.facts = facts

    def fill(self, wrong: Wrong) -> None:
        """Write the files of a wrong use."""
        for path in (self.work, self.home):
            path.mkdir()
        files: dict[Path, str | bytes] = {
            self.work / name: content for name, content in wrong.files.items()
        }
        if wrong.script:
            files[self.work / SCRIPT] = wrong.script
        if wrong.settings:
            files[self.home / ".config" / "vega" / "vega.toml"] = wrong.settings
        for path, content in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, bytes):
                path.write_bytes(content)
            else:
                path.write_text(self.told(content), encoding="utf-8")

    def told(self, text: str) -> str:
        """Return a text with what is known only now: `<url>` of the provider, `<pid>` of the
        program beside."""
        for name, value in self.facts.items():
            text = text.replace(f"<{name}>", value)
        return text

    def variables(self, wrong: Wrong) -> dict[str, str]:
        """Return all variables that the wrong use sees."""
        found = {"HOME": str(self.home), "PATH": os.environ["PATH"], "TZ": "UTC"}
        found["VEGA_TRUSTED_FOLDERS"] = str(self.work)
        return found | {name: self.told(value) for name, value in wrong.variables.items()}


@contextmanager
def place(wrong: Wrong) -> Generator[Place]:
    """Make the place of a wrong use: its provider, its files, and the program that runs beside."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vega-wrong-")))
        facts: dict[str, str] = {}
        if wrong.answers is not None:
            provider = Provider([*wrong.answers, *[wrong.answers[-1]] * 9] if wrong.answers else [])
            facts["url"] = stack.enter_context(provider.in_thread()).url
        here = Place(folder, facts)
        here.fill(wrong)
        if wrong.beside:
            facts["pid"], facts["said"] = stack.enter_context(_beside(here, wrong))
        yield here


@contextmanager
def _beside(here: Place, wrong: Wrong) -> Generator[tuple[str, str]]:
    """Run a program beside for as long as the wrong use is made. It says one line when it is
    ready."""
    command = [sys.executable, "-c", here.told(wrong.beside)]
    with subprocess.Popen(
        command,
        cwd=here.work,
        env=here.variables(wrong),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline().strip()
            assert said, "the program beside did not start"
            yield str(process.pid), said
        finally:
            process.kill()


def job(here: Place, wrong: Wrong, words: Sequence[str], script: str) -> dict[str, Any]:
    """Return what the stage is told to do."""
    return {
        "words": [here.told(word) for word in words],
        "script": script,
        "folder": str(here.work),
        "variables": here.variables(wrong),
        "output": str(here.folder / "output"),
        "stdout": wrong.stdout,
        "without": list(wrong.without),
        "largest": wrong.largest,
        "read_only": [str(here.folder / name) for name in wrong.read_only],
    }


# The stage, from outside.


class Stage:
    """A process that makes wrong uses, one after the other."""

    def __init__(self) -> None:
        root = Path(__file__).parents[2]
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            cwd=root,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(root)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._lock = threading.Lock()

    def run(self, given: dict[str, Any]) -> tuple[int, str]:
        """Do a job, and return its status and what it wrote."""
        reader, writer = self._process.stdout, self._process.stdin
        assert reader is not None
        assert writer is not None
        with self._lock:
            writer.write(json.dumps(given) + "\n")
            writer.flush()
            status = json.loads(reader.readline())
        return status, Path(given["output"]).read_text("utf-8", "backslashreplace")

    def close(self) -> None:
        """End the process: it ends when nothing is left to read."""
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()


def made(wrong: Wrong, stage: Stage) -> tuple[int, str, Place]:
    """Make a wrong use and return its status, what it wrote, and where that was."""
    with place(wrong) as here:
        for words in wrong.first:
            script = words[1] if words[0] == "python" else ""
            status, text = stage.run(job(here, wrong, words, script))
            assert script or status == 0, f"{' '.join(words)}: {text}"
        status, text = stage.run(job(here, wrong, wrong.words, SCRIPT if wrong.script else ""))
        for name in wrong.read_only:
            (here.folder / name).chmod(0o755)  # so that the folder can be removed
        return status, text, here


# The stage, from inside.


def main() -> int | str | None:
    """Fork for each job. The fork returns, and ends as any program does."""
    from vegakit.cli import COMMANDS

    loaded = {row.module for row in COMMANDS.values()}
    for module in (*loaded, *LOADED):
        import_module(module)
    gc.freeze()  # what is loaded is looked at by no fork, and shared by all
    for line in sys.stdin:
        given = json.loads(line)
        child = os.fork()
        if child == 0:
            return perform(given)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    return 0


def perform(given: dict[str, Any]) -> int | str | None:
    """Become the process that makes the wrong use, and make it."""
    signal.alarm(PATIENCE_S)
    os.chdir(given["folder"])
    os.environ.clear()
    os.environ.update(given["variables"])
    wanted = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(os.open(given["output"], wanted), 2)
    os.dup2(os.open(given["stdout"], os.O_WRONLY) if given["stdout"] else 2, 1)
    sys.meta_path[:] = [_Hiding(finder, given["without"]) for finder in sys.meta_path]
    if given["read_only"]:
        _obey_modes()
        for path in given["read_only"]:
            Path(path).chmod(0o555)
    if given["largest"]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (given["largest"], given["largest"]))
    if given["script"]:
        sys.argv, sys.path[0] = [given["script"]], given["folder"]
        runpy.run_path(given["script"], run_name="__main__")
        return 0
    from vegakit.cli import main as command

    sys.argv = ["vega", *given["words"]]
    sys.orig_argv = [sys.executable, *sys.argv]
    return command()


class _Hiding:
    """Finds modules as another finder does, but for those that are not to be there."""

    def __init__(self, finder: Any, names: Sequence[str]) -> None:
        self._finder, self._names = finder, names

    def __getattr__(self, name: str) -> Any:
        return getattr(self._finder, name)

    def find_spec(self, name: str, *where: Any) -> Any:
        return None if name in self._names else self._finder.find_spec(name, *where)


def _obey_modes() -> None:
    """Give up root's right to write where modes say no, as any other user has to."""
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    head = (ctypes.c_uint32 * 2)(0x20080522, 0)
    held = (ctypes.c_uint32 * 6)()
    override = 0b110  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH
    if libc.capget(head, held):
        raise OSError(ctypes.get_errno(), "capget")
    held[0] &= ~override
    if libc.capset(head, held):
        raise OSError(ctypes.get_errno(), "capset")


if __name__ == "__main__":
    sys.exit(main())
