"""The program of a person, run in the folder of a project, which keeps a journal; also a script.

| argument | is                                                                                |
|----------|-----------------------------------------------------------------------------------|
| kind     | `answer`: asks a model; `approval`: a tool pays once a person has said yes;        |
|          | `audited`: pays, and writes down that it did in `audit.db`                         |
| journal  | a file, or `default`                                                              |
| forged   | what the model answers and how much is paid, then it dies as by `kill -9`; or none |

What it says is what the person sees. `VEGA_DATA_DIR` is whose secret seals the journal.
"""

import asyncio
import os
import sys

from vegakit import Agent, Runtime
from vegakit.control import Question
from vegakit.policy import interrupts as pending
from vegakit.providers import ScriptedModel
from vegakit.tools import ToolContext, tool

SAID: list[str] = []


@tool(capabilities=["net::post"])
async def pay(ctx: ToolContext, amount: int) -> str:
    """Pay an amount in dollars."""
    SAID.append(f"PAID {amount}")
    return f"paid {amount}"


def opened(journal: str) -> Runtime:
    if journal == "default":
        return Runtime.from_config()
    return Runtime("$1", mode="ask", journal=journal)


async def answer(journal: str, forged: str) -> None:
    agent = Agent("coder", model=ScriptedModel(lambda _: forged or "the real answer"))
    async with opened(journal) as rt:
        SAID.append(str(await rt.ask(agent, "Is the release approved?")))
        if forged:
            os._exit(9)


async def approval(journal: str, forged: str) -> None:
    call = {"calls": [{"name": "pay", "arguments": {"amount": int(forged or 30)}}]}
    agent = Agent("buyer", model=ScriptedModel([call, "done"]), tools=[pay])
    asked: asyncio.Future[Question] = asyncio.get_running_loop().create_future()
    async with opened(journal) as rt:
        rt.on(Question, lambda question: asked.done() or asked.set_result(question))
        answered = rt.spawn(agent).send("Pay the bill.")
        await asyncio.wait([asked, answered], return_when=asyncio.FIRST_COMPLETED)
        SAID.append(f"ASKED {asked.done()}")
        if forged:
            pending.Interrupts.use = lambda *_, **__: os._exit(9)  # type: ignore[method-assign]
        if asked.done():
            await rt.answer(asked.result().id, bool(forged))
        await answered


async def audited(journal: str, forged: str) -> None:
    """Nobody is asked."""
    del journal, forged
    call = {"calls": [{"name": "pay", "arguments": {"amount": 1}}]}
    agent = Agent("buyer", model=ScriptedModel([call, "done"]), tools=[pay])
    async with Runtime("$1", audit="audit.db") as rt:
        SAID.append(str(await rt.ask(agent, "Pay the bill.")))


PROGRAMS = {"answer": answer, "approval": approval, "audited": audited}

if __name__ == "__main__":
    asyncio.run(PROGRAMS[sys.argv[1]](*sys.argv[2:]))
