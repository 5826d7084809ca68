"""Ending: a whole tree goes, whatever it does to stay."""

import asyncio
import signal
from asyncio.subprocess import PIPE
from contextlib import aclosing

import pytest

from tests.runtime.children.processes import PYTHON, marked, parent_of, runs, start_up
from vegakit.child_process import ChildProcess, Children
from vegakit.concurrency import SteadyClock

SHAPES = ["alone", "tree", "daemon"]
POLITE = """
import os, signal, sys
def end(*_):
    os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-I", "-S", "-c", ""])  # takes a moment
    os.write(1, b"bye")
    os._exit(3)
signal.signal(signal.SIGTERM, end)
if "leading" in sys.argv and os.fork():
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
os.write(1, b"up\\n")
while True: signal.pause()
"""


@pytest.mark.parametrize("shape", SHAPES)
def test_what_ignores_sigterm_is_killed_after_the_grace(shape: str, mark: str) -> None:
    """Its forks and its daemons too, and all are gone when `end` returns."""

    async def scenario() -> None:
        async with aclosing(Children(SteadyClock())) as children:
            child = await start_up(children, mark, shape)
            assert await child.end(grace_ms=50) == -signal.SIGKILL
            assert marked(mark) == []
            assert children.all() == []

    asyncio.run(scenario())


def test_sigterm_comes_first() -> None:
    """Who heeds it within the grace exits in its own way."""

    async def scenario() -> None:
        async with aclosing(Children(SteadyClock())) as children:
            child = await children.start([*PYTHON, "-c", POLITE], cwd="/", env={}, owner="a")
            await child.stdout.readline()
            assert await child.end(grace_ms=60_000) == 3
            assert await child.stdout.read() == b"bye"

    asyncio.run(scenario())


def test_the_grace_is_for_the_whole_tree() -> None:
    """The command dies of SIGTERM at once; what it started still gets to say goodbye."""

    async def scenario() -> None:
        async with aclosing(Children(SteadyClock())) as children:
            argv = [*PYTHON, "-c", POLITE, "leading"]
            child = await children.start(argv, cwd="/", env={}, owner="a")
            assert await child.stdout.readline() + await child.stdout.readline() == b"up\nup\n"
            assert await child.end(grace_ms=60_000) == -signal.SIGTERM
            assert await child.stdout.read() == b"bye"

    asyncio.run(scenario())


def test_what_a_command_leaves_behind_goes_with_it(mark: str) -> None:
    """It exits by itself; its daemon is killed before `wait` answers."""

    async def scenario() -> None:
        async with aclosing(Children(SteadyClock())) as children:
            child = await start_up(children, mark, "leaver")
            assert await child.wait() == 0
            assert marked(mark) == []

    asyncio.run(scenario())


async def wait(child: ChildProcess) -> None:
    await child.wait()


async def read(child: ChildProcess) -> None:
    async with child:
        await child.stdout.read()


@pytest.mark.parametrize("awaiting", [wait, read])
def test_cancelling_who_awaits_it_ends_it(awaiting, mark: str) -> None:
    """When the cancelled task is done, nothing is left."""

    async def scenario() -> None:
        async with aclosing(Children(SteadyClock())) as children:
            task = asyncio.ensure_future(awaiting(await start_up(children, mark, "daemon")))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
            assert marked(mark) == []

    asyncio.run(scenario())


def test_cancelling_the_end_kills_at_once(mark: str) -> None:
    """Nobody waits out a grace of ten minutes."""

    async def scenario() -> None:
        async with aclosing(Children(SteadyClock())) as children:
            child = await start_up(children, mark, "daemon")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(child.end(grace_ms=600_000), 0.01)
            assert await child.wait() == -signal.SIGKILL
            assert marked(mark) == []

    asyncio.run(scenario())


def test_an_owner_ends_its_own(mark: str) -> None:
    """Daemons of one owner go, those of another stay, until all are closed."""

    async def scenario() -> None:
        async with aclosing(Children(SteadyClock())) as children:
            ours = [await start_up(children, mark, "daemon", owner="p/a") for _ in range(2)]
            other = await start_up(children, mark, "daemon", owner="p/b")
            assert children.of("p/a") == ours
            assert children.all() == [*ours, other]
            await children.end_of("p/a")
            assert children.all() == [other]
            assert len(marked(mark)) == 2
        assert children.all() == []
        assert marked(mark) == []

    asyncio.run(scenario())


def test_closing_gives_a_grace_too() -> None:
    """Then nothing is left to say."""

    async def scenario() -> None:
        children = Children(SteadyClock())
        child = await children.start([*PYTHON, "-c", POLITE], cwd="/", env={}, owner="a")
        await child.stdout.readline()
        await children.aclose()
        assert await child.wait() == 3
        assert await child.stdout.read() == b"bye"

    asyncio.run(scenario())


def test_closing_ends_launcher_and_wardens() -> None:
    """And closing twice is no error."""

    async def scenario() -> None:
        children = Children(SteadyClock())
        child = await children.start(["cat"], cwd="/", env={}, owner="a", stdin=PIPE)
        supervisor = parent_of(child.pid)
        launcher = parent_of(supervisor)
        assert runs(supervisor)
        assert runs(launcher)
        await children.aclose()
        await children.aclose()
        assert not runs(supervisor)
        assert not runs(launcher)

    asyncio.run(scenario())
