"""Processes killed while they hold reservations: everything comes back when their leases end.

At full size: `python -m campaigns.money_kills 200`.
"""

import asyncio
from pathlib import Path

import pytest
from campaigns.money_kills import WAYS, kill_while_reserved, reserved_and_drift

from tests.runtime.attacks import figures, spending
from vegakit.ids import EffectKey, HolderId, ScopeId
from vegakit.money import Money
from vegakit.policy import ScopeRule
from vegakit.sdk import Runtime
from vegakit.store import SqliteLedger
from vegakit.testing import FakeClock


@pytest.mark.parametrize("way", WAYS)
def test_what_the_dead_reserved_comes_back(way: str, tmp_path: Path) -> None:
    """Released or charged after their leases, and untouched before."""
    killed = kill_while_reserved(2, [way], tmp_path)
    assert killed.left > 0
    assert killed.settled_early == 0
    assert killed.not_settled == 0
    assert (killed.still_reserved, killed.drift) == (0, 0)


def test_a_runtime_that_lives_on_gets_back_what_the_dead_reserved() -> None:
    """Nobody has to open another one."""
    clock = FakeClock()

    async def live_on() -> int:
        async with spending("$1", clock=clock) as (rt, ledger):
            dead, now = HolderId("dead"), clock.now()
            await ledger.renew(dead, now + 1_000)
            await ledger.reserve(EffectKey("left"), 1, rt.budgets.root, Money(7), dead, now)
            for _ in range(10):
                clock.advance(5_000)
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            return (await figures(rt, ledger))[1]

    assert asyncio.run(live_on()) == 0


def test_what_nobody_settles_is_seen(tmp_path: Path) -> None:
    """A claim whose holder never dies stays reserved, and is told so."""
    path = tmp_path / "ledger.db"

    async def reserve() -> None:
        ledger, holder, root = SqliteLedger(path), HolderId("alive"), ScopeId("runtime:default")
        async with Runtime("$1", ledger=ledger):
            await ledger.renew(holder, 10**15)
            await ledger.open(root, ScopeRule(Money(1_000)), 0)
            await ledger.reserve(EffectKey("call"), 1, root, Money(7), holder, 0)

    asyncio.run(reserve())
    assert reserved_and_drift(path) == (7, 0)
