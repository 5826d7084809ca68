"""Deaths above a child: of the runtime, of the launcher, of a supervisor. Nobody is orphaned."""

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path

from tests.patience import PATIENCE_S
from tests.runtime.children.processes import comes_true, marked, parent_of, runs, start_up
from vegakit.child_process import Children
from vegakit.concurrency import SteadyClock

REPOSITORY = Path(__file__).parents[3]


def orphans_of_a_killed_runtime(
    mark: str, *launcher: str, within_s: float = PATIENCE_S
) -> list[int]:
    """Sixteen processes that ignore SIGTERM, half of them daemons; then `kill -9` above them."""
    command = [sys.executable, "-m", "tests.runtime.children.doomed", mark, *launcher]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE) as runtime:
        assert runtime.stdout is not None
        assert runtime.stdout.readline() == b"up\n"
        below = set(marked(mark)) - {runtime.pid}
        assert len(below) == 16
        for _ in ("supervisors", "launcher"):
            below |= {parent_of(pid) for pid in below} - {1, runtime.pid}
        runtime.kill()
    comes_true(lambda: not any(map(runs, below)), within_s)
    return [pid for pid in below if runs(pid)]


def test_a_killed_runtime_leaves_no_orphans(mark: str) -> None:
    """Nor a launcher or a supervisor."""
    assert orphans_of_a_killed_runtime(mark) == []


def test_a_fork_of_the_runtime_keeps_nothing_alive(mark: str) -> None:
    """A worker of `multiprocessing` holds copies of our descriptors; the death counts, not they."""
    script = f"""
import asyncio, os, signal
from tests.runtime.children.processes import start_up
from vegakit.concurrency import SteadyClock
from vegakit.child_process import Children
async def main():
    child = await start_up(Children(SteadyClock()), "{mark}", "alone")
    if os.fork() == 0:
        signal.pause()
    print(child.pid, flush=True)
    signal.pause()
asyncio.run(main())
"""
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE) as runtime:
        assert runtime.stdout is not None
        child = int(runtime.stdout.readline())
        runtime.kill()
    assert comes_true(lambda: not runs(child))


def test_a_killed_launcher_is_replaced(mark: str) -> None:
    """Its children live on under their supervisors, and are ended as ever."""

    async def scenario() -> None:
        async with aclosing(Children(SteadyClock())) as children:
            old = await start_up(children, mark, "daemon")
            launcher = parent_of(parent_of(old.pid))
            os.kill(launcher, signal.SIGKILL)
            assert comes_true(lambda: not runs(launcher))
            new = await start_up(children, mark, "daemon")
            assert len(marked(mark)) == 4
            await old.end(grace_ms=0)
            await new.end(grace_ms=0)
            assert marked(mark) == []

    asyncio.run(scenario())


def test_closing_needs_no_launcher(mark: str) -> None:
    """It was killed, and what it launched is ended all the same."""

    async def scenario() -> None:
        async with aclosing(Children(SteadyClock())) as children:
            child = await start_up(children, mark, "daemon")
            os.kill(parent_of(parent_of(child.pid)), signal.SIGKILL)
        assert marked(mark) == []

    asyncio.run(scenario())


def test_a_killed_warden_takes_its_tree_along(mark: str) -> None:
    """What it kept falls to the launcher, which kills it."""

    async def scenario() -> None:
        async with aclosing(Children(SteadyClock())) as children:
            child = await start_up(children, mark, "daemon")
            os.kill(parent_of(child.pid), signal.SIGKILL)
            assert await child.wait() == -signal.SIGKILL
            assert comes_true(lambda: marked(mark) == [])

    asyncio.run(scenario())


def test_launcher_and_warden_killed_together(mark: str) -> None:
    """The runtime itself then kills the session of the command; a daemon of it would escape."""

    async def scenario() -> None:
        async with aclosing(Children(SteadyClock())) as children:
            child = await start_up(children, mark, "tree")
            supervisor = parent_of(child.pid)
            os.kill(parent_of(supervisor), signal.SIGKILL)
            os.kill(supervisor, signal.SIGKILL)
            assert await child.wait() == -signal.SIGKILL
            assert comes_true(lambda: marked(mark) == [])

    asyncio.run(scenario())


def test_a_runtime_that_only_exits_leaves_no_orphans(mark: str) -> None:
    """Forgetting to close is as harmless as being killed."""
    script = (
        "import asyncio, sys\n"
        "from tests.runtime.children.processes import start_up\n"
        "from vegakit.concurrency import SteadyClock\n"
        "from vegakit.child_process import Children\n"
        f"asyncio.run(start_up(Children(SteadyClock()), {mark!r}, 'daemon'))\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, check=True)
    assert comes_true(lambda: marked(mark) == [])
