"""What a transaction on PostgreSQL locks, it locks in one order: nobody waits in a circle.

A gate is held while operations queue up behind it, so that they share the next transaction. The
first thing in order is held too: the transaction waits for it, and may hold nothing that is later.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any

import psycopg
import pytest

from tests.patience import PATIENCE_S, until
from tests.store.postgres import DSN, connected, dsn_of, waits
from vegakit.ids import EffectKey, HolderId, ScopeId
from vegakit.money import Money
from vegakit.policy import ScopeRule
from vegakit.store import PostgresLedger, PostgresStore
from vegakit.store.postgres.connection import key_lock

NAMES = ["a", "b", "c", "d", "e", "f"]
MIXED = ["d", "b", "f", "a", "e", "c"]


@asynccontextmanager
async def held(query: str, *values: object) -> AsyncGenerator[None]:
    with psycopg.connect(DSN) as other:
        other.execute(query.encode(), values)
        yield


async def queue_up(
    schema: str,
    gate: str,
    operate: Callable[[str], Awaitable[Any]],
    hold: Callable[[str], Any],
    order: list[str],
) -> AsyncExitStack:
    """Returns when all but the gate wait for the first in order; leaving lets them go on."""
    holding = AsyncExitStack()
    async with AsyncExitStack() as at_gate:
        await at_gate.enter_async_context(hold(gate))
        passing = asyncio.ensure_future(operate(gate))
        await until(lambda: waits(schema))
        rest = asyncio.gather(*map(operate, MIXED))
        holding.push_async_callback(asyncio.wait_for, rest, PATIENCE_S)
        await asyncio.sleep(0)
        await holding.enter_async_context(hold(order[0]))
    await passing
    await until(lambda: waits(schema))
    return holding


@pytest.mark.parametrize("table", ["scopes", "leases"])
def test_rows_are_locked_in_order(schema: str, table: str) -> None:
    """Roots by name, and leases by name."""
    row = f'SELECT id FROM "{schema}".{table} WHERE id = %s FOR UPDATE'

    async def use() -> None:
        me = HolderId("me")
        async with aclosing(PostgresLedger(dsn_of(schema), schema=schema)) as ledger:
            for name in [*NAMES, "gate", "me"]:
                await ledger.open(ScopeId(name), ScopeRule(None), 0)
                await ledger.renew(HolderId(name), 1000)

            async def operate(name: str) -> object:
                if table == "leases":
                    return await ledger.renew(HolderId(name), 1000)
                return await ledger.reserve(EffectKey(name), 1, ScopeId(name), Money(1), me, 0)

            going = await queue_up(schema, "gate", operate, lambda name: held(row, name), NAMES)
            async with going:
                with connected() as server:
                    for name in NAMES[1:]:
                        assert server.execute(f"{row} NOWAIT".encode(), (name,)).fetchall()

    asyncio.run(use())


def test_documents_are_locked_in_order(schema: str) -> None:
    """By the number that stands for their name."""
    lock = "SELECT pg_advisory_xact_lock(%s)"
    numbers = {name: key_lock(schema, "kind", name) for name in [*NAMES, "gate"]}
    order = sorted(NAMES, key=numbers.__getitem__)

    async def use() -> None:
        async with aclosing(PostgresStore(dsn_of(schema), schema=schema)) as store:

            async def operate(name: str) -> bool:
                return await store.put("kind", name, b"", expected=0)

            def hold(name: str) -> Any:
                return held(lock, numbers[name])

            async with await queue_up(schema, "gate", operate, hold, order):
                with connected() as server:
                    for name in order[1:]:
                        tried = "SELECT pg_try_advisory_xact_lock(%s)"
                        assert server.execute(tried, (numbers[name],)).fetchone() == (True,)

    asyncio.run(use())
