"""Commands, git options and variables that got out of other systems, run for real.

Each tries to make a file PWNED beside the workspace. The fault that is planted: a sandbox drawn one
folder too wide, in which most of them succeed.
"""

import re
import shlex
from pathlib import Path

import pytest

from tests.tools.sandbox.project import make_project
from tests.tools.sandbox.stage import EXEC, Box, boxed, git, lines, refusing, tree_of
from vegakit.errors import CapabilityDenied
from vegakit.tools import Bubblewrap, SandboxLimits, ToolArgumentsError
from vegakit.tools.sandbox.command import ExecTool

SHORT = SandboxLimits(wall_ms=3_000, processes=64)
CANARY = "canary-4f1d9c"
LASTING = frozenset({"cmd-101", "cmd-109", "cmd-110"})
"""A removed home, a process that stays and a fork bomb are for `test_bombs`."""


def attacks(kind: str) -> list[dict[str, str]]:
    return [line for line in lines(f"attacks/{kind}.jsonl") if line["id"] not in LASTING]


async def effects(box: Box, kind: str) -> list[str]:
    """The attacks that did something outside, or said what they must not know."""
    found: list[str] = []
    (box.outside / "secret").write_text(CANARY)
    (box.workspace / ".env").write_text(f"KEY={CANARY}")
    before = tree_of(box.outside)
    aim = str(box.outside / "PWNED")
    for attack in attacks(kind):
        script = f"{attack.get('before', 'true')}\n{attack['input']}".replace("PWNED", aim)
        ran = await box.sh(f"cd {shlex.quote(str(box.workspace))}\n{script}")
        git(box.workspace, "status")
        after = tree_of(box.outside)
        if after != before or CANARY in ran.stdout + ran.stderr:
            found.append(attack["id"])
            for name in set(after) - set(before):
                (box.outside / name).unlink()
    return found


@pytest.mark.parametrize("kind", ["cmd", "git"])
async def test_nothing_happens_outside(kind: str, tmp_path: Path) -> None:
    """Not even when a person looks at the repository afterwards; no secret is read."""
    async with boxed(tmp_path, SHORT) as box:
        make_project(box.workspace)
        assert await effects(box, kind) == []


async def test_they_do_bite(tmp_path: Path) -> None:
    """In a sandbox that takes in what lies outside, most attacks succeed."""
    async with boxed(tmp_path, SHORT) as box:
        make_project(box.workspace)
        wide = Bubblewrap(box.sandbox._launcher, box.sandbox._clock, tmp_path, limits=SHORT)
        assert len(await effects(Box(box.workspace, wide), "cmd")) >= 70


@pytest.mark.parametrize("kind", ["cmd", "git"])
async def test_none_is_run_without_a_rule(kind: str) -> None:
    """As a line and as words, a grant without rules refuses it before the sandbox is asked."""
    tool = ExecTool(refusing, EXEC, owner="test")
    for attack in lines(f"attacks/{kind}.jsonl"):
        for command in (attack["input"], attack["input"].split()):
            with pytest.raises(CapabilityDenied):
                await tool.call({"command": command}, None)


async def test_a_shell_line_is_never_run() -> None:
    """Not automatically either: what a shell would read as more than words is refused."""
    tool = ExecTool(refusing, EXEC, owner="test", automatic=True)
    outside_quotes = (re.sub(r"'[^']*'", "", a["input"]) for a in lines("attacks/cmd.jsonl"))
    syntax = [line for line in outside_quotes if set(line) & set(";&|<>`$\n\\(){}")]
    assert len(syntax) >= 60
    for line in syntax:
        with pytest.raises(CapabilityDenied):
            await tool.call({"command": line}, None)


async def test_no_variable_of_ours_arrives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever stands in the environment of Vega, a command and its parents have three names."""
    for attack in lines("attacks/env.jsonl"):
        name, _, value = attack["input"].partition("=")
        if name not in {"LD_PRELOAD", "LD_AUDIT", "PYTHONHOME"}:  # they would break this test
            monkeypatch.setenv(name, f"{value}{CANARY}")
    async with boxed(tmp_path) as box:
        ran = await box.sh("env -0; cat /proc/[0-9]*/environ")
    names = {part.partition("=")[0] for part in ran.stdout.split("\0") if part}
    assert names == {"PATH", "HOME", "LANG", "PWD", "SHLVL", "_"}
    assert CANARY not in ran.stdout


async def test_no_variable_can_be_given() -> None:
    """Neither beside the command, nor before it, nor as its program."""
    tool = ExecTool(refusing, EXEC, owner="test", automatic=True)
    for attack in lines("attacks/env.jsonl"):
        name, _, value = attack["input"].partition("=")
        with pytest.raises(ToolArgumentsError):
            await tool.call({"command": ["env"], "env": {name: value}}, None)
        for command in (f"{attack['input']} env", [attack["input"], "env"]):
            with pytest.raises(CapabilityDenied):
                await tool.call({"command": command}, None)
