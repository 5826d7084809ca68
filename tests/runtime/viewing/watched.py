"""An OS process with a runtime to look into: `python watched.py DIRECTORY NAME`.

    team        supervisor  restart_all
    ├─ coder    agent       waits for a model that never answers
    │  └─ aide  function    spawned by the coder's tool, at work, with an OS child
    └─ critic   agent       idle
    counter     reducer     idle, its timer is set
    stubborn    function    takes a while to be cancelled
    flaky       service     crashes once, and lives on

Says `ready` when all this holds, and ends when its input does.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

from tests.patience import turns, until
from vegakit.conversation import ModelReply, ModelRequest
from vegakit.host import Agent, Child, Reducer, Supervisor
from vegakit.program import Respond, SendAfter
from vegakit.providers import ScriptedModel
from vegakit.sdk import ControlServer, Runtime

PATH = {"PATH": "/usr/bin:/bin"}
KEY = "sk-ant-api03-" + "x" * 40


async def aide(message: Any) -> None:
    await asyncio.Event().wait()


async def stubborn(message: Any) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        await turns(100)


class Stalling(ScriptedModel):
    """Answers once, then never."""

    async def ask(self, request: ModelRequest) -> ModelReply:
        if self.requests:
            await asyncio.Event().wait()
        return await super().ask(request)


class Flaky:
    lives = 0


async def flaky() -> None:
    Flaky.lives += 1
    if Flaky.lives == 1:
        raise ValueError(f"bad luck with {KEY}")
    await asyncio.Event().wait()


def count(total: int, message: Any) -> tuple[int, list[Any]]:
    return total + 1, [Respond(total + 1), SendAfter(3_600_000, "tick")]


async def watched(directory: str, name: str) -> None:
    async with Runtime("$10", name=name, observable=ControlServer(Path(directory))) as rt:

        async def call_aide() -> str:
            called = rt.spawn(aide)
            called.tell("help")
            await rt.children.start(["sleep", "1000"], cwd="/", env=PATH, owner=called.path)
            return "called"

        calls = {"calls": [{"name": "call_aide", "arguments": {}}]}
        coder = Agent("coder", model=Stalling([calls], "slow:model"), tools=[call_aide])
        critic = Agent("critic", model=ScriptedModel("fine", "quick:model"))
        team = Supervisor("restart_all", [Child(coder, wallet="$2"), critic], name="team")
        rt.spawn(team)
        counter = rt.spawn(Reducer("counter", count, 0))
        worker = rt.spawn(stubborn)
        rt.spawn(flaky)
        rt.program.tell("team/coder", "write")
        worker.tell("work")
        await rt.program.send("team/critic", "well?")
        await counter.ask("one")
        await until(lambda: len(rt.ps()) == 7 and rt.ps()[1].waiting_for == "model slow:model")
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(watched(*sys.argv[1:]))
