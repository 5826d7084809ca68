"""Asks that a model makes before it answers: whose money they wait for, and who is refused."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from vegakit.conversation import ModelChunk, ModelReply, ModelRequest
from vegakit.errors import BudgetExceeded
from vegakit.host import Agent
from vegakit.providers import SCRIPTED_PRICE, ScriptedModel
from vegakit.sdk import Runtime
from vegakit.testing import VirtualClock, run_virtual
from vegakit.tools import tool


class Asking(ScriptedModel):
    """A model that asks an agent before it answers, and keeps what that agent said."""

    def __init__(self, inner: Agent[Any], after_ms: int = 0, **options: Any) -> None:
        super().__init__(lambda _: "yes", "asking", price=SCRIPTED_PRICE)
        self.inner, self.after_ms, self.options = inner, after_ms, options
        self.runtime: Runtime | None = None
        self.said = ""

    async def ask(self, request: ModelRequest) -> ModelReply:
        assert self.runtime is not None
        await self.runtime.clock.wait_until(self.runtime.clock.now() + self.after_ms)
        try:
            self.said = (await self.runtime.ask(self.inner, "?", **self.options)).text
        except BudgetExceeded as refused:
            self.said = str(refused)
        return await super().ask(request)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
        yield await self.ask(request)


def asked(budget: str, *models: Asking) -> tuple[list[str], int]:
    """Ask all models in parallel; return what each heard, and how many milliseconds it took."""

    async def opened() -> tuple[list[str], int]:
        async with Runtime(budget=budget, clock=VirtualClock(), observable=False) as rt:
            for model in models:
                model.runtime = rt
            began = rt.clock.now()
            agents = [Agent(f"outer{n}", model=one, max_tokens=50) for n, one in enumerate(models)]
            replies = await rt.batch(*(rt.ask(one, "?") for one in agents))
            assert [reply.text for reply in replies] == ["yes"] * len(models)
            return [model.said for model in models], rt.clock.now() - began

    return run_virtual(opened())


def inner(text: str = "deep", **settings: Any) -> Agent[Any]:
    model = ScriptedModel(lambda _: text, latency_ms=10)
    return Agent("inner", model=model, max_tokens=50, **settings)


def test_an_ask_does_not_wait_for_the_call_around_it() -> None:
    """It is refused at once, by both sums, and the outer call goes its way."""
    [said], took_ms = asked("$0.0004", Asking(inner()))
    assert "could cost $0.000251" in said
    assert "$0.000251 of it is held by calls around this one, which end after it" in said
    assert "try again" not in said
    assert took_ms < 1_000


def test_of_two_that_wait_for_each_other_the_younger_is_refused() -> None:
    """The older one gets the money when the outer call of the younger one has ended."""
    (first, second), took_ms = asked("$0.0006", Asking(inner(), 20), Asking(inner(), 10))
    assert second == "deep"
    assert "this call began to wait last, so it is refused and the others continue" in first
    assert "$0.000251 by calls of default:" in first
    assert took_ms < 1_000


def test_an_ask_of_a_tool_inside_knows_the_call_around_it() -> None:
    """Through an agent, its tool, and an agent that the tool asks."""
    model = Asking(inner())
    deepest = Agent("deepest", model=ScriptedModel("never said"), max_tokens=80)

    @tool
    async def consult() -> str:
        """Ask another one."""
        assert model.runtime is not None
        return (await model.runtime.ask(deepest, "?")).text

    script = [{"calls": [{"name": "consult", "arguments": {}}]}]
    model.inner = Agent("inner", model=ScriptedModel(script), tools=[consult], max_tokens=50)
    [said], took_ms = asked("$0.00055", model)
    assert "$0.000251 of it is held by calls around this one" in said
    assert took_ms < 1_000


class Endless(Asking):
    """One that asks until it is refused, and lets that pass."""

    async def ask(self, request: ModelRequest) -> ModelReply:
        assert self.runtime is not None
        while True:
            await self.runtime.ask(self.inner, "?")


async def test_a_call_whose_inner_ask_is_refused_costs_what_the_inner_asks_cost() -> None:
    """Nothing of its own was sent."""
    model, asked_inside = Endless(inner()), inner()
    async with Runtime(budget="$0.0006", observable=False) as rt:
        model.runtime = rt
        each = (await rt.ask(asked_inside, "?")).cost
        with pytest.raises(BudgetExceeded):
            await rt.ask(Agent("outer", model=model, max_tokens=50), "?")
        spent = await rt.spent()
        assert spent % each == 0
        assert spent > 2 * each
        assert (await rt.ask(asked_inside, "?")).text == "deep"
