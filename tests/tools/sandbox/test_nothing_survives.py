"""A kill takes sandboxed commands with all they started: by one word, or of the runtime itself."""

import os
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from tests.patience import GONE_S, until
from tests.runtime.children.processes import comes_true, marked
from tests.runtime.children.test_children_faults import planted
from tests.tools.sandbox.doomed import AGENTS, start_up
from vegakit.sdk import Runtime

REPOSITORY = Path(__file__).parents[3]
WITHIN_S = 10


def groups_of(launcher: int) -> list[Path]:
    """Walked, as others come and go meanwhile, which a glob does not bear."""
    return [
        Path(folder, name)
        for folder, names, _ in os.walk("/sys/fs/cgroup")
        for name in names
        if name.startswith(f"vega-{launcher}-")
    ]


def launcher_of(runtime: int) -> int:
    return int(Path(f"/proc/{runtime}/task/{runtime}/children").read_text())


async def test_a_kill_of_the_tree(tmp_path: Path) -> None:
    """Eight agents with a stubborn command each, which has a daemon: all gone."""
    mark = uuid4().hex
    async with Runtime() as rt:
        process = await start_up(rt, mark, tmp_path)
        assert len(marked(mark)) >= 2 * AGENTS
        await process.kill()
        await until(lambda: not (rt.children.all() or marked(mark)), GONE_S)


def left_of_a_killed_runtime(folder: Path, *place: str) -> tuple[list[int], list[Path]]:
    """After `kill -9`: processes, and control groups."""
    mark, work = uuid4().hex, folder / "work"
    work.mkdir()
    command = [sys.executable, "-m", "tests.tools.sandbox.doomed", mark, str(work), *place]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE) as runtime:
        assert runtime.stdout is not None
        assert runtime.stdout.readline() == b"up\n"
        launcher = launcher_of(runtime.pid)
        assert len(groups_of(launcher)) >= (AGENTS if os.geteuid() == 0 else 0)
        runtime.kill()
    comes_true(lambda: not marked(mark) and not groups_of(launcher), WITHIN_S)
    return marked(mark), groups_of(launcher)


def test_a_killed_runtime(tmp_path: Path) -> None:
    """Neither a process nor a control group is left."""
    assert left_of_a_killed_runtime(tmp_path) == ([], [])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make control groups here")
def test_a_launcher_that_forgets_groups_leaves_some(tmp_path: Path) -> None:
    """So the test above can fail."""
    faulty = planted(tmp_path, "groups.remove(died)", "pass")
    processes, left = left_of_a_killed_runtime(tmp_path, str(faulty))
    for group in left:
        group.rmdir()
    assert (processes, len(left) >= AGENTS) == ([], True)
