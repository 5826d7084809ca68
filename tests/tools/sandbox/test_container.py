"""Where the container is the boundary, owners are users: one does nothing to another."""

import os
import shutil
import tempfile
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from vegakit.child_process import Children
from vegakit.concurrency import SteadyClock
from vegakit.errors import UserError
from vegakit.tools.sandbox.selection import Container

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
TOKEN = "token-of-the-server"


@pytest.fixture
def folder() -> Generator[Path]:
    """That of a test is closed to other users."""
    made = Path(tempfile.mkdtemp(prefix="vega-container-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def workspace_at(folder: Path, group: int, mode: int = 0o770) -> Path:
    folder.mkdir()
    os.chown(folder, 0, group)
    folder.chmod(mode)
    return folder


@asynccontextmanager
async def opened(folder: Path) -> AsyncGenerator[tuple[Container, Container]]:
    """Two workspaces, each of a group of its own."""
    clock = SteadyClock()
    async with aclosing(Children(clock)) as children:
        workspaces = (workspace_at(folder / name, 20_001 + at) for at, name in enumerate("ab"))
        one, other = (Container(children, clock, workspace) for workspace in workspaces)
        yield one, other


async def said(container: Container, owner: str, script: str) -> str:
    ran = await container.run(["sh", "-c", script], owner=owner)
    return (ran.stdout + ran.stderr).strip()


async def test_a_server_is_neither_read_nor_ended(folder: Path) -> None:
    """By a command of somebody else, in its workspace or in another."""
    steal = "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep NOTES; echo over"
    async with opened(folder) as (one, other):
        serving = one.serve(["sleep", "60"], owner="mcp", env={"NOTES": TOKEN})
        async with serving as child:
            for container in (one, other):
                assert await said(container, "agent", steal) == "over"
                assert "not permitted" in await said(container, "agent", f"kill -9 {child.pid}")
            own = await said(one, "mcp", f"tr '\\0' '\\n' < /proc/{child.pid}/environ | grep NOTES")
            assert own == f"NOTES={TOKEN}"


async def test_each_has_a_home(folder: Path) -> None:
    """In which nobody else plants anything."""
    async with opened(folder) as (one, other):
        homes = [
            (await said(container, owner, "echo $HOME; stat -c %a $HOME; echo x > $HOME/mine"))
            for container in (one, other)
            for owner in ("agent", "mcp")
        ]
        assert len({*homes}) == 4
        assert all(home.endswith("\n700") for home in homes)
        for home in homes[1:]:
            assert "denied" in await said(one, "agent", f"ls {home.splitlines()[0]}")
            assert "denied" in await said(one, "agent", f"echo > {home.splitlines()[0]}/.gitconfig")
        assert await said(one, "agent", "cat $HOME/mine") == "x"


async def test_a_home_that_somebody_else_made_is_refused(folder: Path) -> None:
    async with opened(folder) as (one, other):
        home = one._who("victim").home
        for plant in (f"mkdir -m 777 {home}", f"rmdir {home}; ln -s $HOME {home}"):
            assert await said(other, "agent", plant) == ""
            assert "somebody else made the home" in await said(one, "victim", "echo ran")
        await said(other, "agent", f"rm {home}")


async def test_a_workspace_is_written_by_its_own_commands_alone(folder: Path) -> None:
    """Owners share it, and what they make in it."""
    async with opened(folder) as (one, other):
        assert await said(one, "agent", "mkdir d; echo x > d/f") == ""
        assert await said(one, "mcp", "echo y >> d/f; touch d/g; cat d/f") == "x\ny"
        assert "denied" in await said(other, "agent", f"cat {folder}/a/d/f")
        assert "denied" in await said(other, "agent", f"echo z > {folder}/a/planted")
        users = {path.stat().st_uid for path in (folder / "a/d").iterdir()}
        assert len(users) == 2
        assert all(user >= 20_000 for user in users)


async def test_git_works_in_it(folder: Path) -> None:
    """Though the repository is another user's."""
    async with opened(folder) as (one, _):
        await said(one, "agent", "git init -q")
        assert "No commits yet" in await said(one, "mcp", "git status")


@pytest.mark.parametrize(
    ("group", "mode"),
    [(0, 0o770), (65_534, 0o770), (20_001, 0o777), (20_001, 0o775), (20_001, 0o750)],
)
def test_a_workspace_that_is_not_apart_is_refused(folder: Path, group: int, mode: int) -> None:
    """With what to type."""
    workspace = workspace_at(folder / "w", group, mode)
    if mode == 0o750:
        os.chown(workspace, 65_534, group)
    clock = SteadyClock()
    with pytest.raises(UserError, match=r"chgrp -R \d+ .* && chmod -R g\+rwX,o-rwx"):
        Container(Children(clock), clock, workspace)


async def test_two_workspaces_of_one_group_are_refused(folder: Path) -> None:
    async with opened(folder):
        other = workspace_at(folder / "c", 20_001)
        clock = SteadyClock()
        with pytest.raises(UserError, match="no other workspace"):
            Container(Children(clock), clock, other)


async def test_one_that_is_ours_is_only_looked_at(folder: Path) -> None:
    clock = SteadyClock()
    workspace = workspace_at(folder / "ours", 0, 0o755)
    async with aclosing(Children(clock)) as children:
        container = Container(children, clock, workspace)
        assert "denied" in await said(container, "agent", "touch f")
