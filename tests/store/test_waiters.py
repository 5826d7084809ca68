"""What ledgers know of calls that wait inside of others: two connections, which see the same."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.store.postgres import DSN
from vegakit.ids import EffectKey, HolderId, ScopeId
from vegakit.money import Money
from vegakit.policy import Deadlock, Reserved, ScopeRule
from vegakit.ports import Ledger
from vegakit.store import MemoryLedger, PostgresLedger, SqliteLedger

ROOT, ONE, TWO = ScopeId("root"), HolderId("one"), HolderId("two")
OUTER = {ONE: EffectKey("outer one"), TWO: EffectKey("outer two")}
INNER = {ONE: EffectKey("inner one"), TWO: EffectKey("inner two")}
Pair = tuple[Ledger, Ledger]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def pair(request: pytest.FixtureRequest, tmp_path: Path, schema: str) -> Pair:
    if request.param == "sqlite":
        return SqliteLedger(tmp_path / "l.db"), SqliteLedger(tmp_path / "l.db")
    if request.param == "postgres":
        return PostgresLedger(DSN, schema=schema), PostgresLedger(DSN, schema=schema)
    ledger = MemoryLedger()
    return ledger, ledger


def play(pair: Pair, work: Callable[[Ledger, Ledger], Awaitable[None]]) -> None:
    async def played() -> None:
        try:
            await pair[0].open(ROOT, ScopeRule(Money(100)), 0)
            for ledger, holder in zip(pair, OUTER, strict=True):
                await ledger.renew(holder, 1_000)
                reserved = await ledger.reserve(OUTER[holder], 1, ROOT, Money(45), holder, 0)
                assert reserved == Reserved()
            await work(*pair)
        finally:
            for ledger in {*pair}:
                await ledger.aclose()

    asyncio.run(played())


async def waits(ledger: Ledger, holder: HolderId, wanted: int = 30) -> Deadlock | None:
    inner, outer = INNER[holder], [OUTER[holder]]
    return await ledger.wait(inner, ROOT, Money(wanted), outer, holder=holder, now=0)


ALONE = Deadlock(Money(45), {})


def both(other: HolderId) -> Deadlock:
    """Return a deadlock with a call of another process."""
    return Deadlock(Money(45), {other: Money(45)})


def test_the_younger_of_two_processes_is_refused_with_who_holds_what(pair: Pair) -> None:
    """The older one waits on, however often it looks; then it is the only one."""

    async def work(first: Ledger, second: Ledger) -> None:
        assert await waits(first, ONE) is None
        assert await waits(second, TWO) == both(ONE)
        assert await waits(first, ONE) is None
        await second.answer(OUTER[TWO], 1, Money(5), 0)
        assert await first.reserve(INNER[ONE], 1, ROOT, Money(30), ONE, 0) == Reserved()

    play(pair, work)


def test_a_call_that_waits_no_longer_blocks_nobody(pair: Pair) -> None:
    async def work(first: Ledger, second: Ledger) -> None:
        assert await waits(first, ONE) is None
        await first.end_wait(INNER[ONE])
        await first.end_wait(INNER[ONE])
        assert await waits(second, TWO) is None
        assert await waits(first, ONE) == both(TWO)

    play(pair, work)


def test_a_call_is_not_kept_waiting_for_the_money_around_it(pair: Pair) -> None:
    async def work(first: Ledger, second: Ledger) -> None:
        assert await waits(first, ONE, 55) is None
        assert await waits(second, TWO, 56) == both(ONE)
        await first.end_wait(INNER[ONE])
        assert await waits(second, TWO, 56) == ALONE

    play(pair, work)


def test_a_dead_process_does_not_wait(pair: Pair) -> None:
    """What it held is charged, and no one is refused because of it."""

    async def work(first: Ledger, second: Ledger) -> None:
        assert await waits(first, ONE, 10) is None
        await second.expire({ONE: 1_000}, 2_000)
        assert await waits(second, TWO, 10) is None
        assert await second.reserve(INNER[TWO], 1, ROOT, Money(10), TWO, 0) == Reserved()

    play(pair, work)
