"""The same operations on the ledger in memory and on PostgreSQL give the same verdicts."""

import asyncio
from contextlib import aclosing
from typing import Any

from hypothesis import given, settings, strategies as st

from tests.store.postgres import DSN, own_schema
from tests.store.test_ledger_properties import (
    LEASE_MS,
    OPERATIONS,
    everything,
    hold_together,
    outcome,
    when,
)
from vegakit.ids import HolderId, ScopeId
from vegakit.money import Money
from vegakit.policy import LeaseWatch, ScopeRule
from vegakit.store import MemoryLedger, PostgresLedger


@settings(max_examples=10)
@given(st.lists(st.tuples(OPERATIONS, st.booleans()), max_size=30))
def test_both_ledgers_say_the_same(steps: list[tuple[Any, bool]]) -> None:
    """Verdicts, errors, claims and figures, after every operation."""
    with own_schema() as schema:

        async def both() -> None:
            one, other = (PostgresLedger(DSN, schema=schema) for _ in range(2))
            await hold_together(steps, (one, other))

        asyncio.run(both())


@settings(max_examples=30)
@given(st.lists(st.lists(OPERATIONS, max_size=12), max_size=6))
def test_operations_that_come_at_once_say_the_same(groups: list[list[Any]]) -> None:
    """They share a transaction, in which each sees what those before it did."""
    with own_schema() as schema:
        asyncio.run(compare_groups(groups, schema))


async def compare_groups(groups: list[list[Any]], schema: str) -> None:
    memory, now = MemoryLedger(), 0
    async with aclosing(PostgresLedger(DSN, schema=schema)) as server:
        for ledger in (memory, server):
            await ledger.renew(HolderId("me"), LEASE_MS)
            await ledger.open(ScopeId("a"), ScopeRule(Money(90)), 0)
        for group in groups:
            calls: list[Any] = []
            leases = await memory.leases()
            for name, arguments, options, later in group:
                now += later
                calls.append(
                    (name, [*arguments, *when(name, now, LeaseWatch().ended(leases, now))], options)
                )
            expected = [await outcome(memory, *call) for call in calls]
            came = await asyncio.gather(*(outcome(server, *call) for call in calls))
            assert came == expected
            assert await everything(server, now) == await everything(memory, now)
