"""Attacks by what a provider says that a call cost."""

import math
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest

from tests.runtime.attacks import (
    WIRES,
    WORST,
    asked,
    attack,
    costing,
    figures,
    on_wire,
    spending,
)
from vegakit.conversation import AssistantMessage, ModelReply, Text, Usage
from vegakit.errors import AgentFailed, BudgetExceeded, InvalidMoneyError
from vegakit.events import CallKind
from vegakit.host import Agent, TextChunk
from vegakit.money import Money, dollars
from vegakit.prices import PriceRow, PriceTier
from vegakit.sdk import Runtime
from vegakit.testing import Break, DropConnection, ProviderReply


def reply(usage: Usage | None) -> ModelReply:
    return ModelReply(AssistantMessage((Text("ok"),)), usage)


@attack("budget-005")
async def a_bill_above_the_reservation(_: Path) -> None:
    """Charged truly and told; nothing more is admitted."""
    async with spending("$0.01") as (rt, ledger):
        agent = asked([reply(Usage(1, 1_000_000)), "never said"])
        await rt.ask(agent, "hi")
        assert await figures(rt, ledger) == (5_000_001_000, 0)
        assert ledger.overrun == {rt.budgets.root}
        with pytest.raises(BudgetExceeded):
            await rt.ask(agent, "hi")


@attack("budget-006")
async def no_usage(_: Path) -> None:
    await _charged_as_reserved(ProviderReply("ok", usage=None))


@attack("budget-007")
async def negative_usage(_: Path) -> None:
    with warnings.catch_warnings(category=Warning, action="ignore"):
        await _charged_as_reserved(ProviderReply("ok", usage=Usage(-1_000, -1_000)))


async def _charged_as_reserved(answer: ProviderReply) -> None:
    for wire in WIRES:
        async with on_wire(answer) as (rt, ledger, provider, seen):
            with suppress(AgentFailed):  # some clients cannot read a usage that is negative
                await rt.ask(Agent("asked", model=wire, max_tokens=100), "hi")
            (call,) = seen.of(CallKind.MODEL)
            assert call.cost == call.reserved > 0
            assert await figures(rt, ledger) == (call.reserved, 0)
            assert len(provider.requests) == 1


@attack("budget-008")
async def not_a_number(_: Path) -> None:
    """No cap is NaN, and a usage that is charges the reservation."""
    with pytest.raises(InvalidMoneyError):
        Runtime(math.nan)
    async with spending("$1") as (rt, ledger):
        with pytest.raises(InvalidMoneyError), rt.budget(math.nan):
            pass
        with pytest.raises(InvalidMoneyError):
            await rt.ask(Agent("asked", budget=math.nan), "hi")
        await rt.ask(asked(reply(Usage(cast("Any", math.nan), 1))), "hi")
        assert await figures(rt, ledger) == (WORST, 0)


@attack("budget-009")
async def a_model_without_a_price(_: Path) -> None:
    """Refused, not free."""
    for wire in WIRES:
        async with on_wire("never said") as (rt, ledger, provider, _seen):
            nobody_knows = f"{wire.partition(':')[0]}:made-up-yesterday"
            with pytest.raises(BudgetExceeded, match="no known price"):
                await rt.ask(Agent("asked", model=nobody_knows), "hi")
            assert list(provider.requests) == []
            assert await figures(rt, ledger) == (0, 0)


@attack("budget-010")
async def a_stream_that_breaks(_: Path) -> None:
    """Its first words were seen, so it may be billed whole, and is not begun again."""
    for wire in WIRES:
        broken = ProviderReply("once upon a time", breaks=Break(1, DropConnection()))
        async with on_wire(broken) as (rt, ledger, provider, seen):
            events = rt.stream(Agent("asked", model=wire, max_tokens=100), "hi")
            assert isinstance(await anext(events), TextChunk)
            with pytest.raises(AgentFailed):
                await anext(events)
            (call,) = seen.of(CallKind.MODEL)
            assert await figures(rt, ledger) == (call.reserved, 0)
            assert len(provider.requests) == 1


@attack("budget-019")
async def tenths_that_are_not_tenths(_: Path) -> None:
    """Ten times 0.1 is 1, to the last nano-dollar."""
    async with spending(1.0) as (rt, ledger):
        agent = costing(dollars(0.1))
        for _call in range(10):
            await rt.ask(agent, "hi")
        assert await rt.remaining() == 0
        with pytest.raises(BudgetExceeded):
            await rt.ask(agent, "hi")
        assert ledger.overrun == set()
    with pytest.raises(InvalidMoneyError):
        Runtime(0.1 + 0.2)


@attack("budget-020")
async def what_a_cache_costs(_: Path) -> None:
    """A token read from a cache is neither free nor dear; a dearer write was reserved for."""
    tier = PriceTier(*map(dollars, ("$1", "$5", "$0.1", "$1.25")))
    price = PriceRow("scripted", (tier,))
    async with spending("$0.0006") as (rt, ledger):
        question = " ".join(["word"] * 10)
        agent = asked([reply(Usage(10, 0, cache_read_tokens=9))], price=price)
        assert (await rt.ask(agent, question)).cost == Money(1_000 + 9 * 100)
        agent = asked([reply(Usage(10, 100, cache_write_tokens=10))], price=price)
        assert (await rt.ask(agent, question)).cost == Money(10 * 1_250 + 100 * 5_000)
        assert ledger.overrun == set()
