"""A process that kills itself in the middle of an ask: `python -m tests.runtime.dying FILE MOMENT`.

`asked`: the model has been asked, nothing is settled. `settled`: the ledger has the bill, and
nobody has heard of it.
"""

import asyncio
import os
import signal
import sys
from typing import Any

from vegakit.conversation import ModelRequest
from vegakit.host import Agent
from vegakit.policy import Settlement
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime
from vegakit.store import SqliteLedger


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Dying(SqliteLedger):
    async def answer(self, *facts: Any, **more: Any) -> Settlement:
        settled = await super().answer(*facts, **more)
        die()
        return settled


def die_when_asked(_: ModelRequest) -> str:
    die()
    return "never said"


async def ask(path: str, moment: str) -> None:
    ledger, script = {
        "asked": (SqliteLedger(path), die_when_asked),
        "settled": (Dying(path), "one two three"),
    }[moment]
    async with Runtime("$1", ledger=ledger) as rt:
        await rt.ask(Agent("asked", model=ScriptedModel(script), max_tokens=100), "hi")


if __name__ == "__main__":
    asyncio.run(ask(sys.argv[1], sys.argv[2]))
