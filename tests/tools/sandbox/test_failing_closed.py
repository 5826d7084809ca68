"""Where there is no sandbox nothing runs, and what to do is said."""

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from contextlib import aclosing
from pathlib import Path

import pytest

from tests.tools.sandbox import contained
from tests.tools.sandbox.stage import boxed
from tests.tools.sandbox.test_unprivileged import NOBODY, REPOSITORY, python_for_all
from vegakit.child_process import Children
from vegakit.concurrency import SteadyClock
from vegakit.errors import UserError
from vegakit.tools.sandbox import bubblewrap
from vegakit.tools.sandbox.selection import Container, SandboxKind, open_sandbox

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run commands as another user")


async def refusal(workspace: Path, kind: SandboxKind = SandboxKind.AUTO) -> str:
    clock = SteadyClock()
    async with aclosing(Children(clock)) as children:
        with pytest.raises(UserError) as caught:
            await open_sandbox(children, clock, workspace, kind=kind)
    return str(caught.value)


async def test_without_bubblewrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not installed: the message says how to."""
    monkeypatch.setattr(bubblewrap, "_PROGRAMS", str(tmp_path))
    assert "apt-get install bubblewrap" in await refusal(tmp_path)


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("bwrap: Unknown option --disable-userns", "0.8 or later"),
        ("bwrap: No permissions to create new namespace", "--security-opt seccomp=unconfined"),
        ("bwrap: setting up uid map: Permission denied", "apparmor_restrict_unprivileged_userns"),
        ("bwrap: something else", "bwrap --unshare-all"),
    ],
)
async def test_a_bubblewrap_that_fails(
    said: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it says, and what to type next."""
    program = tmp_path / "bwrap"
    program.write_text(f"#!/bin/sh\necho '{said}' >&2; exit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(bubblewrap, "_PROGRAMS", str(tmp_path))
    message = await refusal(tmp_path)
    assert said in message
    assert hint in message


@pytest.mark.parametrize("part", ["_program", "_filter"])
async def test_what_goes_missing_later(part: str, tmp_path: Path) -> None:
    """Bubblewrap or the filter is removed while Vega runs: the command does not run."""
    async with boxed(tmp_path) as box:
        setattr(box.sandbox, part, "/nonexistent")
        with pytest.raises(UserError, match="was not started"):
            await box.run("touch", "made")
        assert [*box.workspace.iterdir()] == []


@pytest.mark.parametrize("folder", ["/", "/usr", "/nonexistent", "/proc"])
async def test_a_workspace_is_a_project(folder: str) -> None:
    assert "no workspace" in await refusal(Path(folder))


@ROOT
async def test_root_needs_control_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without them nothing bounds root's processes."""
    monkeypatch.setattr("vegakit.tools.sandbox.bubblewrap._ROOT", tmp_path / "none")
    assert "run Vega as another user" in await refusal(tmp_path)


def contained_says(folder: Path, *user: str, python: str = sys.executable) -> dict[str, str]:
    """What each kind of sandbox does in a container with the usual profile."""
    paths = [REPOSITORY / "src", REPOSITORY, sysconfig.get_path("purelib")]
    env = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": ":".join(map(str, paths)),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [*user, python, Path(contained.__file__), folder]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    return json.loads(ran.stdout)


@ROOT
def test_in_a_usual_container(tmp_path: Path) -> None:
    """Bubblewrap refuses and asks for two flags; the container as the boundary runs commands as
    another user, without a variable of Vega's; so do tools."""
    os.chown(tmp_path, 0, 20_001)
    tmp_path.chmod(0o770)
    said = contained_says(tmp_path)
    for kind in ("auto", "bubblewrap", "tool auto", "tool bubblewrap"):
        assert "--security-opt seccomp=unconfined" in said[kind]
        assert "sandbox='container'" in said[kind]
    for kind in ("container", "tool container"):
        user, *variables = said[kind].splitlines()
        assert int(user) >= 20_000
        names = {line.partition("=")[0] for line in variables}
        assert {name for name in names if not name.startswith("GIT_")} == {
            *("PATH", "HOME", "LANG", "PWD")
        }
    assert (tmp_path / "made").stat().st_uid >= 20_000


@ROOT
def test_in_a_usual_container_without_root() -> None:
    """Nothing runs; each kind says with which flags to start the container."""
    folder = Path(tempfile.mkdtemp())
    os.chown(folder, 65_534, 65_534)
    said = contained_says(folder, *NOBODY, python=python_for_all())
    assert [*folder.iterdir()] == []
    folder.rmdir()
    for kind in ("auto", "bubblewrap", "tool auto", "tool bubblewrap"):
        assert "--security-opt seccomp=unconfined" in said[kind]
    for kind in ("container", "tool container"):
        assert "start it as root with --network none" in said[kind]


@ROOT
async def test_a_container_hides_what_vega_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that is the same user as Vega could read its keys: that is refused."""
    clock = SteadyClock()
    async with aclosing(Children(clock)) as children:
        container = Container(children, clock, tmp_path)
        monkeypatch.setattr("vegakit.tools.sandbox.selection._FIRST_USER", 0)
        monkeypatch.setattr("vegakit.tools.sandbox.selection._USERS", 1)
        with pytest.raises(UserError, match="readable"):
            await container.probe()


async def test_a_container_without_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says with which flags to start it."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "--cap-add SETUID" in await refusal(tmp_path, SandboxKind.CONTAINER)
