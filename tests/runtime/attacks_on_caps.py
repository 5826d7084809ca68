"""Attacks on caps: many at once, other ways in, other times, other caps."""

import asyncio
from pathlib import Path

import pytest

from tests.runtime.attacks import (
    CENT,
    WIRES,
    admitted,
    asked,
    attack,
    costing,
    figures,
    on_wire,
    spending,
)
from vegakit.conversation import ModelRequest, ModelSettings, Text, UserMessage
from vegakit.errors import BudgetExceeded, BugError
from vegakit.host import Agent
from vegakit.money import dollars
from vegakit.sdk import Runtime
from vegakit.store import SqliteLedger
from vegakit.testing import FakeClock

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@attack("budget-001")
async def a_thousand_at_once(_: Path) -> None:
    async with spending("$1.00") as (rt, ledger):
        assert await admitted(rt, costing(CENT, latency_ms=1), 1_000) == 100
        assert await figures(rt, ledger) == (dollars("$1.00"), 0)
        assert ledger.overrun == set()


@attack("budget-012")
async def the_first_call_of_somebody_new(folder: Path) -> None:
    """The cap stands before the first call, also if ten first calls come at once."""
    agent = costing(CENT, latency_ms=1)
    async with Runtime("$1", ledger=SqliteLedger(folder / "new.db")) as rt:
        with rt.budget("$0.02", name="somebody new"):
            assert await admitted(rt, agent, 10) == 2
        with rt.budget("$0.001", name="somebody else"):
            assert await admitted(rt, agent, 1) == 0
        assert await rt.spent() == 2 * CENT


@attack("budget-013")
async def another_way_in(_: Path) -> None:
    """Batches pass the gate; what does not come from the gate is not sent."""
    async with spending("$0.02") as (rt, ledger):
        with pytest.raises(BudgetExceeded):
            await rt.batch(*(rt.ask(costing(CENT, latency_ms=1), "hi") for _ in range(10)))
        assert ledger.overrun == set()
    request = ModelRequest("asked", (UserMessage((Text("hi"),)),), ModelSettings(100))
    for wire in WIRES:
        async with on_wire("never said") as (rt, _ledger, provider, _seen):
            model = rt.model_registry.model_of(Agent("asked", model=wire))
            with pytest.raises(BugError, match="around the gate"):
                await model.ask(request)
            with pytest.raises(BugError, match="around the gate"):
                await anext(model.stream(request))
            assert list(provider.requests) == []


@attack("budget-014")
async def a_clock_that_jumps(_: Path) -> None:
    """A new day is a new window once; set back, the clock opens neither day again. What is under
    way when the day ends counts in the day that it was reserved in."""
    agent = costing(CENT)
    clock = FakeClock(20_000 * DAY_MS + DAY_MS // 2)
    async with spending("$1", clock=clock) as (rt, ledger):
        with rt.budget("$0.01/day"):
            assert await admitted(rt, agent, 3) == 1
            await _jump(clock, DAY_MS)
            assert await admitted(rt, agent, 3) == 1
            clock._now_ms -= DAY_MS
            assert await admitted(rt, agent, 3) == 0
            clock._now_ms += DAY_MS
            await _jump(clock, DAY_MS)
            slow = costing(CENT, latency_ms=2 * DAY_MS, clock=clock)
            under_way = asyncio.ensure_future(admitted(rt, slow, 1))
            await _turns()
            await _jump(clock, DAY_MS)
            assert await admitted(rt, agent, 3) == 1
            await _jump(clock, DAY_MS)
            assert await under_way == 1
        assert ledger.overrun == set()


@attack("budget-015")
async def two_windows(_: Path) -> None:
    """The hour has room again and the day has not."""
    agent, clock = costing(CENT), FakeClock(20_000 * DAY_MS)
    async with spending("$1", clock=clock) as (rt, ledger):
        with rt.budget("$0.03/day"), rt.budget("$0.02/hour"):
            assert await admitted(rt, agent, 5) == 2
            await _jump(clock, HOUR_MS)
            assert await admitted(rt, agent, 5) == 1
            with pytest.raises(BudgetExceeded, match="/day' has"):
                await rt.ask(agent, "hi")
        assert ledger.overrun == set()


async def _jump(clock: FakeClock, ms: int) -> None:
    """The runtime gets a moment to renew its lease."""
    clock.advance(ms)
    await _turns()


async def _turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@attack("budget-016")
async def a_child_larger_than_what_is_left(_: Path) -> None:
    """A part must fit whole; a block is also held by all around it."""
    async with spending("$0.02") as (rt, ledger):
        greedy = asked("never said")
        with pytest.raises(BudgetExceeded, match="has only"):
            await rt.ask(Agent("greedy", model=greedy.model, budget="$5"), "hi")
        with rt.budget("$5"), rt.budget("$3"):
            assert await admitted(rt, costing(CENT, latency_ms=1), 10) == 2
        assert ledger.overrun == set()


@attack("budget-021")
async def a_cap_lowered_below_what_is_spent(_: Path) -> None:
    """What is under way is still charged truly; nothing more is admitted until it is raised."""
    async with spending("$1.00") as (rt, ledger):
        agent = costing(CENT, latency_ms=5)
        with rt.budget("$1.00", name="team"):
            under_way = asyncio.ensure_future(admitted(rt, agent, 5))
            await _turns()
        with rt.budget("$0.01", name="team"):
            assert await admitted(rt, agent, 5) == 0
            assert await under_way == 5
            assert await figures(rt, ledger) == (5 * CENT, 0)
            assert await admitted(rt, agent, 5) == 0
        with rt.budget("$0.06", name="team"):
            assert await admitted(rt, agent, 5) == 1
