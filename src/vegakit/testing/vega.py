"""What a test holds of a runtime: what the model will say, and what came of it."""

import asyncio
from contextlib import aclosing
from dataclasses import replace
from typing import Any, TypeVar

from vegakit.errors import BugError, UserError
from vegakit.models import ScriptedAnswer, ScriptedCall, ScriptedModel, ScriptedReply
from vegakit.money import Money
from vegakit.runtime import Agent, Reply, Runtime, ToolCalled, TurnEnded
from vegakit.store import MemoryLedger

__all__ = ["Vega", "tool"]

T = TypeVar("T")


def tool(name: str, /, **arguments: object) -> ScriptedReply:
    """An answer that calls this tool."""
    return ScriptedReply(calls=(ScriptedCall(name, arguments),))


class Vega:
    """The script answers in place of the agent's own model. All asks share one budget of $10."""

    def __init__(self) -> None:
        self.tools_called: list[str] = []
        """In the order the model called them; names it made up are not among them."""
        self._model: ScriptedModel | None = None
        self._ledger = MemoryLedger()
        self._spent = 0

    @property
    def spent(self) -> Money:
        """By all asks so far, failed ones too."""
        return Money(self._spent)

    def script(self, *replies: ScriptedAnswer) -> None:
        """What the model says, in order; called again, it begins anew."""
        self._model = ScriptedModel(replies)

    def run(self, agent: Agent[T], prompt: str, **options: Any) -> Reply[T]:  # noqa: ANN401
        """Takes what `Runtime.ask` takes."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self.call(agent, prompt, **options))
        raise UserError("vega.run is for plain tests; in this one write `await vega.call(…)`")

    async def call(self, agent: Agent[T], prompt: str, **options: Any) -> Reply[T]:  # noqa: ANN401
        if self._model is None:
            raise UserError('the model has nothing to say; write vega.script("…") before the ask')
        scripted = replace(agent, model=self._model)
        async with Runtime(ledger=self._ledger) as rt:
            try:
                return await self._watched(rt, scripted, prompt, **options)
            finally:
                self._spent += rt.spent

    async def _watched(
        self,
        rt: Runtime,
        agent: Agent[T],
        prompt: str,
        **options: Any,  # noqa: ANN401
    ) -> Reply[T]:
        async with aclosing(rt.ask(agent, prompt, **options).events(stream=False)) as events:
            async for event in events:
                if isinstance(event, ToolCalled):
                    self.tools_called.append(event.name)
                elif isinstance(event, TurnEnded):
                    return event.reply
        raise BugError(f"the turn of {agent.name} ended without a reply")
