"""Where patterns are tried: works that wait for their cue, a runtime that must be left empty."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from vegakit.host import Agent
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime


def agent(script: Any = "yes", **options: Any) -> Agent[str]:
    return Agent("asker", model=ScriptedModel(script, **options))


def within(work: Callable[[Runtime], Awaitable[Any]], **options: Any) -> Any:
    """Nothing may run when the work is done but the runtime's own two tasks."""

    async def opened() -> Any:
        async with Runtime(**options) as rt:
            try:
                return await work(rt)
            finally:
                assert len(asyncio.all_tasks()) == 2

    return asyncio.run(opened())


class Stage:
    """Works that wait for their cue, and take some steps to leave when cancelled."""

    def __init__(self) -> None:
        self.begun: list[object] = []
        self.left: list[object] = []
        self.leaving = asyncio.Event()
        self.running = self.most = 0
        self.cues: dict[object, asyncio.Event] = {}

    async def play(self, name: object, *, fails: bool = False) -> object:
        self.begun.append(name)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.cues.setdefault(name, asyncio.Event()).wait()
        except asyncio.CancelledError:
            self.leaving.set()
            for _ in range(5):
                await asyncio.sleep(0)
            self.left.append(name)
            raise
        finally:
            self.running -= 1
        if fails:
            raise LookupError(name)
        return name

    def cue(self, *names: object) -> None:
        for name in names:
            self.cues.setdefault(name, asyncio.Event()).set()


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)
