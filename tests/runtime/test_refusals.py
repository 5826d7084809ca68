"""Every refusal of a budget says what the call could cost, why it is refused and what to set."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, cast, get_args

import pytest

from tests.runtime.attacks import asked, spending
from vegakit.errors import BudgetExceeded
from vegakit.host import Agent
from vegakit.money import dollars
from vegakit.policy import (
    Admission,
    InsufficientBudget,
    NeedsHigherCap,
    OnExceed,
    Reserved,
    ScopeClosed,
    ScopeRule,
)
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime
from vegakit.testing import FakeClock

LITTLE = "$0.0001"
ASKING = ScopeRule(dollars(LITTLE), on_exceed=OnExceed.ASK)
COULD_COST = "could cost $0.000501 (max_tokens 100)"
MAY_SPEND = "this ask may spend $5.00"
WITH_PART = Agent("greedy", model=ScriptedModel("never said"), max_tokens=100, budget="$5")
WITH_LESS = Agent("modest", model=ScriptedModel("never said"), max_tokens=100, budget="$0.50")


async def at_once(rt: Runtime, agent: Agent[Any]) -> None:
    await rt.ask(agent, "hi")


async def beside_another(rt: Runtime, agent: Agent[Any]) -> None:
    """Room for two after the first is billed, for one while it is under way."""
    clock = FakeClock()
    slow = asked("ok", latency_ms=5, clock=clock)
    under_way = asyncio.ensure_future(rt.ask(slow, "hi"))
    for _ in range(5):
        await asyncio.sleep(0)
    try:
        await rt.ask(agent, "hi", wait_for_budget=False)
    finally:
        clock.advance(5)
        await under_way


async def in_a_closed_block(rt: Runtime, agent: Agent[Any]) -> None:
    with rt.budget("$1"):
        await rt.ask(asked(), "hi")
        late = rt.ask(agent, "hi")
    await rt.ask(asked(), "hi")
    await late


async def in_a_small_block(rt: Runtime, agent: Agent[Any]) -> None:
    with rt.budget("$1"):
        await rt.ask(agent, "hi")


class Refused(NamedTuple):
    """`verdict` is the ledger's, None where it was not even asked."""

    name: str
    verdict: type | None
    cap: Any
    provoke: Callable[[Runtime, Agent[Any]], Awaitable[None]]
    cost: str
    why: str
    advice: str
    agent: Agent[Any] = asked("never said")


CALLS = [
    Refused(
        "too large",
        InsufficientBudget,
        LITTLE,
        at_once,
        COULD_COST,
        f"has {LITTLE} left of {LITTLE}: $0.00 spent, $0.00 reserved",
        "raise the budget, or lower max_tokens",
    ),
    Refused(
        "too large for the day",
        InsufficientBudget,
        f"{LITTLE}/day",
        at_once,
        COULD_COST,
        f"has {LITTLE} left of {LITTLE}: $0.00 spent, $0.00 reserved",
        "or wait for its next period, from 20",
    ),
    Refused(
        "too large for now",
        InsufficientBudget,
        "$0.0006",
        beside_another,
        COULD_COST,
        "$0.000501 reserved by calls under way",
        "or try again when a call under way has ended",
    ),
    Refused(
        "too large without asking",
        NeedsHigherCap,
        ASKING,
        at_once,
        COULD_COST,
        f"$0.000401 more than budget 'runtime:default' of {LITTLE} holds, and it is set to ask",
        "raise it, and run it again",
    ),
    Refused(
        "in a closed block",
        ScopeClosed,
        "$5",
        in_a_closed_block,
        COULD_COST,
        "is closed",
        "make the call inside its `with` block",
    ),
    Refused(
        "without a price",
        None,
        "$5",
        at_once,
        "what a call could cost cannot be capped",
        "scripted has no known price",
        'give it one in vega.toml: [prices."scripted"] input = "$1" output = "$5"',
        asked("never said", price=None),
    ),
]
PARTS = [
    Refused(
        "part too large",
        None,
        "$1",
        at_once,
        MAY_SPEND,
        "budget 'runtime:default' has only $1.00",
        "raise that budget, or give the agent a smaller one",
        WITH_PART,
    ),
    Refused(
        "part too large for a block",
        None,
        "$9",
        in_a_small_block,
        MAY_SPEND,
        "budget 'runtime:default/$1#1@",
        "raise that budget, or give the agent a smaller one",
        WITH_PART,
    ),
    Refused(
        "part too large without asking",
        NeedsHigherCap,
        ASKING,
        at_once,
        COULD_COST,
        f"more than budget 'runtime:default' of {LITTLE} holds, and it is set to ask",
        "raise it, and run it again",
        WITH_PART,
    ),
    Refused(
        "part in a closed block",
        ScopeClosed,
        "$9",
        in_a_closed_block,
        COULD_COST,
        "is closed",
        "inside its `with` block",
        WITH_LESS,
    ),
]


@pytest.mark.parametrize("refused", [*CALLS, *PARTS], ids=lambda refused: refused.name)
def test_a_refusal_says_cost_reason_and_remedy(refused: Refused) -> None:
    """And nothing was sent."""

    async def provoke() -> str:
        async with spending(refused.cap) as (rt, _):
            with pytest.raises(BudgetExceeded) as raised:
                await refused.provoke(rt, refused.agent)
            return str(raised.value)

    said = asyncio.run(provoke())
    assert [part for part in refused[4:7] if part not in said] == [], said
    assert cast("ScriptedModel", refused.agent.model).requests == []


def test_every_verdict_of_the_ledger_is_among_them() -> None:
    """A new one needs its words."""
    known = {refused.verdict for refused in CALLS} - {None}
    assert known == set(get_args(Admission)) - {Reserved}
