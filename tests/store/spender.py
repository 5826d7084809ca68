"""A process that spends until it is killed: `python -m tests.store.spender ledger.db name`.

It prints each call whose answer the ledger has acknowledged.
"""

import asyncio
import random
import sys

from vegakit.ids import EffectKey, HolderId, ScopeId
from vegakit.money import Money
from vegakit.policy import Reserved
from vegakit.ports import Ledger
from vegakit.store import SqliteLedger

LEASE_MS = 20_000
CALLERS = 8


async def spend(path: str, name: str) -> None:
    await spend_from(SqliteLedger(path), name)


async def spend_from(ledger: Ledger, name: str) -> None:
    holder = HolderId(name)
    await ledger.renew(holder, LEASE_MS)
    await asyncio.gather(*(call_for_ever(ledger, holder, number) for number in range(CALLERS)))


async def call_for_ever(ledger: Ledger, holder: HolderId, number: int) -> None:
    chance = random.Random(f"{holder}/{number}")
    count = 0
    while True:
        count += 1
        effect = EffectKey(f"{holder}/{number}/{count}")
        scope = ScopeId(chance.choice(["root", "leaf", "part"]))
        amount = chance.randrange(100)
        verdict = await ledger.reserve(effect, 1, scope, Money(amount), holder, 0)
        assert isinstance(verdict, Reserved)
        if chance.random() < 0.2:
            await ledger.answer(effect, 1, Money(0), 1)
            continue
        await ledger.answer(effect, 1, Money(amount // 2), 2)
        print(effect, flush=True)


if __name__ == "__main__":
    asyncio.run(spend(sys.argv[1], sys.argv[2]))
