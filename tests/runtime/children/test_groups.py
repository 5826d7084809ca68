"""Control groups: a child is born in them, and they go when nobody can be born there any more."""

import os
import signal
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from tests.patience import shell_until
from tests.runtime.children.processes import comes_true, parent_of
from vegakit.child_process import Children
from vegakit.child_process.launcher.child_supervisor import Groups
from vegakit.concurrency import SteadyClock
from vegakit.errors import UserError

ROOT = Path("/sys/fs/cgroup")
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may make control groups here"),
]


def parent() -> Path:
    """A group of our own of version 1, or the top of version 2."""
    return ROOT if (ROOT / "cgroup.controllers").exists() else ROOT / "pids"


@asynccontextmanager
async def nursery() -> AsyncGenerator[tuple[Children, Path]]:
    folder = parent() / f"test-{os.getpid()}"
    folder.mkdir()
    try:
        async with aclosing(Children(SteadyClock())) as children:
            yield children, folder
    finally:
        assert comes_true(lambda: groups_in(folder) == [])
        folder.rmdir()


def groups_in(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_dir()]


async def say(children: Children, folder: Path, script: str, **settings: str) -> str:
    child = await children.start(
        ["/bin/sh", "-c", script],
        cwd="/",
        env={"PATH": "/bin"},
        owner="a",
        groups={str(folder): settings},
    )
    await child.wait()
    return (await child.stdout.read()).decode()


async def test_a_child_is_born_in_its_groups() -> None:
    """With all it starts, under their settings; the supervisor counts too."""
    async with nursery() as (children, folder):
        said = await say(
            children, folder, "cat /proc/self/cgroup; true & wait", **{"pids.max": "3"}
        )
        assert f"/{folder.name}/vega-" in said
        assert (groups_in(folder)[0] / "pids.max").read_text() == "3\n"
        refused = "for i in 1 2 3 4; do sleep 0 & done; wait; echo not reached"
        assert await say(children, folder, refused, **{"pids.max": "3"}) == ""


async def test_the_next_one_is_born_in_the_same() -> None:
    """Others with other settings, or with none, are not."""
    async with nursery() as (children, folder):
        for limit in ("50", "50", "60"):
            await say(children, folder, "true", **{"pids.max": limit})
        assert len(groups_in(folder)) == 2
        child = await children.start(["cat", "/proc/self/cgroup"], cwd="/", env={}, owner="a")
        assert folder.name not in (await child.stdout.read()).decode()


async def test_a_command_is_killed_before_its_warden() -> None:
    """When the memory of their group is used up: so somebody is left to end the rest."""
    async with nursery() as (children, folder):
        above = "/proc/$PPID/oom_score_adj"
        settled = shell_until(f"[ $(cat {above}) = 0 ]")
        said = await say(children, folder, f"cat /proc/self/oom_score_adj; {settled}; cat {above}")
        assert said == "500\n0\n"


async def test_groups_go_with_a_killed_warden() -> None:
    async with nursery() as (children, folder):
        child = await children.start(
            ["/bin/sleep", "99"], cwd="/", env={}, owner="a", groups={str(folder): {}}
        )
        assert len(groups_in(folder)) == 1
        os.kill(parent_of(child.pid), signal.SIGKILL)
        await child.wait()
        assert comes_true(lambda: groups_in(folder) == [])


@pytest.mark.parametrize(
    ("folder", "settings"), [("nowhere", {}), ("", {"pids.max": "many"}), ("", {"no.such": "1"})]
)
async def test_without_its_groups_nothing_starts(folder: str, settings: dict[str, str]) -> None:
    """Neither now nor the next time."""
    async with nursery() as (children, place):
        for _ in range(2):
            with pytest.raises(UserError, match="run Vega as another user"):
                await say(children, place / folder, "true", **settings)


def test_what_a_killed_process_left_behind_is_in_nobodys_way(tmp_path: Path) -> None:
    """Its number may come again, and with it the names of its groups."""
    (tmp_path / f"vega-{os.getpid()}-1").mkdir()
    made = Groups().make({str(tmp_path): {}})
    assert (made.error, made.groups) == (0, [str(tmp_path / f"vega-{os.getpid()}-2")])
