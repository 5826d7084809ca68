"""Three hundred commands that developers run all day: a sandbox they leave protects nobody."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.tools.sandbox.project import make_project
from tests.tools.sandbox.stage import EXEC, boxed, lines, refusing
from vegakit.policy import Allowed, RunCommand
from vegakit.tools.sandbox.command import ExecTool

HARMLESS: list[tuple[str, tuple[str, ...]]] = [
    (line["kind"], tuple(line["argv"])) for line in lines("harmless.jsonl")
]
PATH = "/usr/local/bin:/usr/bin:/bin"
FIXED = frozenset({("git", "add"), ("git", "commit"), ("git", "checkout"), ("git", "stash")})
"""They change `.git`, which other programs act on: a sandboxed command may only read it."""


def exits_outside(argv: tuple[str, ...], folder: Path) -> int:
    home = folder.parent / "home"
    home.mkdir(exist_ok=True)
    env = {"PATH": PATH, "HOME": str(home), "LANG": "C.UTF-8"}
    return subprocess.run(
        argv, check=False, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True
    ).returncode


def test_harmless_commands_need_no_question() -> None:
    """At least 95 of 100; those given by a path are asked."""
    tool = ExecTool(refusing, EXEC, owner="test", automatic=True)
    asked = [
        argv for _, argv in HARMLESS if not isinstance(tool.verdict(RunCommand(argv)), Allowed)
    ]
    assert len(HARMLESS) == 300
    assert asked == [("./run.sh",), (".venv/bin/pytest",), ("./gradlew", "test")]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", sorted({kind for kind, _ in HARMLESS}))
async def test_harmless_commands_end_as_they_do_outside(kind: str, tmp_path: Path) -> None:
    """With the same exit code, those whose program is installed, at least 95 of 100."""
    twin = tmp_path / "twin"
    commands = [argv for name, argv in HARMLESS if name == kind and argv[:2] not in FIXED]
    named = [argv for argv in commands if "/" not in argv[0]]
    installed = [argv for argv in named if shutil.which(argv[0], path=PATH)]
    differing: list[str] = []
    async with boxed(tmp_path) as box:
        for folder in (box.workspace, twin):
            make_project(folder)
        for argv in installed:
            ran = await box.run(*argv)
            if ran.exit_code != (expected := exits_outside(argv, twin)):
                differing.append(f"{argv}: {ran.exit_code}, not {expected}: {ran.stderr[:300]}")
    assert len(differing) <= len(installed) * 0.05, "\n".join(differing)
