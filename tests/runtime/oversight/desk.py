"""An agent that wants to act, and a person at the desk."""

import asyncio
from typing import Any

from vegakit.control import Question
from vegakit.conversation import ModelRequest, ToolMessage
from vegakit.host import Agent
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime
from vegakit.tools import ToolContext, tool


class Shop:
    """A service that remembers what it was told, and by which key."""

    def __init__(self, *, stalls: bool = False) -> None:
        self.paid: list[int] = []
        self.keys: list[str] = []
        self.begun = asyncio.Event()

        @tool(capabilities=["net::post"], audit="detailed")
        async def pay(ctx: ToolContext, amount: int, token: str = "") -> str:
            """Pay an amount."""
            self.paid.append(amount)
            self.keys.append(ctx.idempotency_key)
            self.begun.set()
            if stalls:
                await asyncio.Event().wait()
            return f"paid {amount}"

        @tool(capabilities=["fs::read"])
        async def look(ctx: ToolContext) -> str:
            """Look at the shelf."""
            return "full"

        async def plain() -> str:
            """Nobody knows what it does."""
            return "done"

        @tool
        def bare() -> str:
            """Nobody knows what it does either: the mark alone says nothing."""
            return "done"

        @tool(capabilities=[])
        def computes() -> str:
            """Says that it touches nothing."""
            return "done"

        self.pay = pay
        self.tools = [pay, look, plain, bare, computes]


def calls(name: str, **arguments: Any) -> dict[str, Any]:
    return {"calls": [{"name": name, "arguments": arguments}]}


def buyer(shop: Shop, *script: Any) -> Agent[str]:
    """Goes by what it was told so far, so that it goes on where an earlier life stopped."""

    def say(request: ModelRequest) -> Any:
        rounds = sum(isinstance(message, ToolMessage) for message in request.messages)
        return [*script, "done"][rounds]

    return Agent("buyer", model=ScriptedModel(say), tools=shop.tools)


def results(agent: Agent[str]) -> list[str]:
    """What the model was told by its tools, in order."""
    model: Any = agent.model
    told = [m for m in model.requests[-1].messages if isinstance(m, ToolMessage)]
    return [result.content for message in told for result in message.results]


async def next_question(rt: Runtime) -> Question:
    """One that is open, or the next one."""
    coming: asyncio.Future[Question] = asyncio.get_running_loop().create_future()
    rt.on(Question, lambda question: coming.done() or coming.set_result(question))
    return rt.interrupts()[0] if rt.interrupts() else await coming
