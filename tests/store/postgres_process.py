"""A process on a PostgreSQL ledger: `python -m tests.store.postgres_process call|spend|move …`.

call schema number     spends until the cap is taken, as `campaigns.money_caps` tells
spend schema name      spends until it is killed, as `tests.store.spender` tells
move schema name       spends in many roots at once, in an order of its own
"""

import asyncio
import random
import sys
from contextlib import aclosing

from campaigns.money_caps import call_all

from tests.store.postgres import DSN
from tests.store.spender import spend_from
from vegakit.ids import EffectKey, HolderId, ScopeId
from vegakit.money import Money
from vegakit.policy import Reserved
from vegakit.store import PostgresLedger, PostgresStore
from vegakit.testing import settle_ended

ROOTS, MOVES, AT_ONCE = 6, 4, 30
SHARED = [HolderId("one"), HolderId("two"), HolderId("three")]


async def move(schema: str, name: str) -> None:
    """Roots, leases and documents are shared with the other processes, the order is not."""
    chance = random.Random(name)
    async with (
        aclosing(PostgresLedger(DSN, schema=schema)) as ledger,
        aclosing(PostgresStore(DSN, schema=schema)) as store,
    ):

        async def one(number: int) -> None:
            effect, root = EffectKey(f"{name}/{number}"), ScopeId(f"root {number % ROOTS}")
            holder = chance.choice(SHARED)
            await ledger.renew(holder, 1000)
            assert await ledger.reserve(effect, 1, root, Money(2), holder, 0) == Reserved()
            await ledger.answer(effect, 1, Money(1), 0)
            await settle_ended(ledger, 1)

        for turn in range(MOVES):
            numbers = [*range(turn * AT_ONCE, (turn + 1) * AT_ONCE)]
            chance.shuffle(numbers)
            await asyncio.gather(*map(one, numbers))
            for _ in range(20):
                chance.shuffle(numbers)
                shared = [*SHARED, *SHARED]
                chance.shuffle(shared)
                await asyncio.gather(
                    *(store.put("kind", str(n % ROOTS), b"", expected=9) for n in numbers),
                    *(ledger.renew(holder, 1000) for holder in shared),
                )


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["call", schema, number]:
            asyncio.run(call_all(PostgresLedger(DSN, schema=schema), 0, int(number)))
        case ["spend", schema, name]:
            asyncio.run(spend_from(PostgresLedger(DSN, schema=schema), name))
        case ["move", schema, name]:
            asyncio.run(move(schema, name))
        case wrong:
            sys.exit(f"no such process: {wrong}")
