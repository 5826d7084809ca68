"""A workspace with something beside it, a real sandbox over it, and the lines of a corpus."""

import json
import subprocess
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

from vegakit.child_process import Children
from vegakit.concurrency import SteadyClock
from vegakit.policy import Grant
from vegakit.ports import CommandResult, LaunchedChild
from vegakit.tools import Bubblewrap, SandboxLimits
from vegakit.tools.sandbox.command import DEFAULT_LIMITS, ExecTool

DATA = Path(__file__).parents[2] / "data"
PYTHON = "/usr/bin/python3"
EXEC = Grant(("process::exec",))
GIT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "dev",
    "GIT_AUTHOR_EMAIL": "dev@example.com",
    "GIT_COMMITTER_NAME": "dev",
    "GIT_COMMITTER_EMAIL": "dev@example.com",
}


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]


def git(folder: Path, *words: str) -> str:
    """Outside, as a person at a terminal would."""
    ran = subprocess.run(
        ["git", *words], cwd=folder, env=GIT, capture_output=True, text=True, check=False
    )
    return ran.stdout


def tree_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


class Box:
    def __init__(self, workspace: Path, sandbox: Bubblewrap) -> None:
        self.workspace = workspace
        self.outside = workspace.parent / "outside"
        self.sandbox = sandbox
        self.tool = ExecTool(sandbox, EXEC, owner="test", automatic=True)

    async def run(self, *argv: str) -> CommandResult:
        return await self.sandbox.run(argv, owner="test")

    async def sh(self, script: str) -> CommandResult:
        return await self.run("bash", "-c", script)

    async def python(self, script: str) -> CommandResult:
        return await self.run(PYTHON, "-I", "-c", script)


@asynccontextmanager
async def boxed(folder: Path, limits: SandboxLimits = DEFAULT_LIMITS) -> AsyncGenerator[Box]:
    workspace = folder / "workspace"
    workspace.mkdir(exist_ok=True)
    (folder / "outside").mkdir(exist_ok=True)
    clock = SteadyClock()
    async with aclosing(Children(clock)) as children:
        yield Box(workspace, Bubblewrap(children, clock, workspace, limits=limits))


class Refusing:
    name = "refusing"

    async def run(
        self, argv: Sequence[str], *, owner: str, said: bytes = b"", on_output: object = None
    ) -> CommandResult:
        raise AssertionError(f"{owner} ran {argv}")

    @asynccontextmanager
    async def serve(
        self, argv: Sequence[str], *, owner: str, env: Mapping[str, str]
    ) -> AsyncGenerator[LaunchedChild]:
        raise AssertionError(f"{owner} served {argv}")
        yield


refusing = Refusing()
