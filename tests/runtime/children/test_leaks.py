"""Leaks: no descriptor, no process, no zombie, whether a start succeeds, fails or is cancelled."""

import asyncio
import gc
import os
import resource
from collections.abc import Generator
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path

import pytest

from tests.runtime.children.processes import PYTHON, marked, zombies_of
from vegakit.child_process import ChildProcess, Children
from vegakit.concurrency import SteadyClock
from vegakit.errors import UserError

SHELL = {"PATH": "/usr/bin:/bin"}


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def settle() -> None:
    """What is about to be closed is closed: a pipe goes in the next turns of the loop, and what
    other tests have dropped goes now."""
    gc.collect()
    for _ in range(20):
        await asyncio.sleep(0)


@contextmanager
def all_descriptors_taken_but(free: int) -> Generator[None]:
    """The limit is a little above the highest number in use: how many descriptors the tests before
    this one have left open to the process is not its subject."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(descriptor.name) for descriptor in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 64, limits[1]))
    taken: list[int] = []
    try:
        with suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        for _ in range(free):
            os.close(taken.pop())
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for descriptor in taken:
            os.close(descriptor)


def test_a_start_without_descriptors_says_so_and_leaves_none() -> None:
    """And the next one works."""

    async def scenario() -> None:
        async with aclosing(Children(SteadyClock())) as children:
            await (await children.start(["true"], cwd="/", env=SHELL, owner="a")).wait()
            await settle()
            before = open_descriptors()
            refused = pytest.raises(UserError, match="true was not started: Too many open files")
            with all_descriptors_taken_but(4), refused:
                await children.start(["true"], cwd="/", env=SHELL, owner="a")
            assert open_descriptors() == before
            child = await children.start(["true"], cwd="/", env=SHELL, owner="a")
            assert await child.wait() == 0

    asyncio.run(scenario())


def test_unread_output_is_kept_when_the_child_is_gone() -> None:
    """Even what the stream had left in the pipe, which is then closed."""

    async def scenario() -> None:
        async with aclosing(Children(SteadyClock())) as children:
            await (await children.start(["true"], cwd="/", env=SHELL, owner="a")).wait()
            await settle()
            before = open_descriptors()
            argv = ["head", "-c", "180000", "/dev/zero"]
            child = await children.start(argv, cwd="/", env=SHELL, owner="a")
            assert await child.wait() == 0
            await settle()
            assert open_descriptors() == before
            assert len(await child.stdout.read()) == 180_000

    asyncio.run(scenario())


@pytest.mark.parametrize("turns", range(12))
def test_a_cancelled_start_leaves_nothing(turns: int, mark: str) -> None:
    """Wherever in its course it is cancelled."""

    async def scenario() -> None:
        async with aclosing(Children(SteadyClock())) as children:
            argv = [*PYTHON, "-c", "import signal; signal.pause()", mark]
            starting = asyncio.ensure_future(children.start(argv, cwd="/", env={}, owner="a"))
            for _ in range(turns):
                await asyncio.sleep(0)
            starting.cancel()
            await asyncio.wait([starting])
            assert starting.cancelled()
            assert children.all() == []
            assert marked(mark) == []

    asyncio.run(scenario())


def test_two_hundred_starts_leave_nothing() -> None:
    """No descriptor, no zombie; their failures neither."""

    async def burst(children: Children, command: str) -> None:
        async def one() -> ChildProcess | None:
            try:
                return await children.start([command], cwd="/", env=SHELL, owner="a")
            except UserError:
                return None

        for child in await asyncio.gather(*(one() for _ in range(20))):
            if child is not None:
                await child.wait()

    async def scenario() -> None:
        async with aclosing(Children(SteadyClock())) as children:
            await burst(children, "true")
            await settle()
            before = open_descriptors()
            for _ in range(10):
                await burst(children, "true")
            await burst(children, "no-such")
            await settle()
            assert open_descriptors() == before
            assert zombies_of(os.getpid()) == []

    asyncio.run(scenario())
