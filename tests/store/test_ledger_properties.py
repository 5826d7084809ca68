"""The same operations on the ledger in memory and on a file give the same verdicts and figures.

The file is opened twice and each operation goes to one of the two, so that rows that one of them
has read are outdated by the other all the time.
"""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, strategies as st

from vegakit.errors import VegaError
from vegakit.ids import HolderId
from vegakit.money import Money, Period
from vegakit.policy import LeaseWatch, OnExceed, ScopeRule
from vegakit.ports import Ledger
from vegakit.store import MemoryLedger, SqliteLedger

SCOPES = st.sampled_from(["a", "b", "c", "d"])
EFFECTS = st.sampled_from(["p", "q", "r", "s", "t"])
HOLDERS = st.sampled_from(["me", "you"])
AMOUNTS = st.integers(0, 60).map(Money)
JUMP_MS = 400 * 86_400_000
STEPS = st.integers(0, 1_000_000) | st.sampled_from([0, 1, JUMP_MS, -JUMP_MS])
RULES = st.one_of(
    st.builds(ScopeRule, AMOUNTS, st.sampled_from([*OnExceed]), alert_percents=st.just((50,))),
    st.builds(ScopeRule, AMOUNTS, period=st.sampled_from(Period)),
    st.builds(ScopeRule, st.none(), is_shared=st.booleans()),
)


def operation(name: str, *arguments: st.SearchStrategy[Any], **options: st.SearchStrategy[Any]):
    return st.tuples(st.just(name), st.tuples(*arguments), st.fixed_dictionaries(options), STEPS)


BROUGHT = st.dictionaries(st.sampled_from(["a", "b", "e", "user"]), RULES, max_size=2)
OPERATIONS = st.one_of(
    operation("open", SCOPES, RULES, parent=st.none() | SCOPES, part=st.booleans()),
    operation("open", SCOPES, RULES),
    operation("reserve", EFFECTS, st.just(1), SCOPES, AMOUNTS, HOLDERS),
    operation("reserve", EFFECTS, st.just(1), SCOPES, AMOUNTS, HOLDERS, rules=BROUGHT),
    operation("answer", EFFECTS, st.just(1), AMOUNTS),
    operation("answer", EFFECTS, st.just(1), AMOUNTS, rules=BROUGHT),
    operation("set_limits", st.sampled_from(["a", "user"]), st.lists(RULES, max_size=2)),
    operation("cut_off", EFFECTS, st.just(1)),
    operation("wait", EFFECTS, SCOPES, AMOUNTS, st.lists(EFFECTS, max_size=2), HOLDERS),
    operation("end_wait", EFFECTS),
    operation("close", SCOPES),
    operation("room", SCOPES),
    operation("room", SCOPES, rules=BROUGHT),
    operation("renew", HOLDERS),
    operation("expire"),
    operation("prune"),
)
TIMELESS = {"close", "set_limits", "end_wait"}
OWNERS = ["a", "e", "user"]
LEASE_MS = 3_000_000


@given(st.lists(st.tuples(OPERATIONS, st.booleans()), max_size=60))
def test_both_ledgers_say_the_same(steps: list[tuple[Any, bool]]) -> None:
    """Verdicts, errors, claims and figures, after every operation."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(compare(steps, Path(folder) / "ledger.db"))


async def compare(steps: list[tuple[Any, bool]], path: Path) -> None:
    await hold_together(steps, (SqliteLedger(path), SqliteLedger(path)))


async def hold_together(steps: list[tuple[Any, bool]], files: tuple[Ledger, Ledger]) -> None:
    memory, now = MemoryLedger(), 0
    try:
        for ledger in (memory, files[0]):
            for holder in ("me", "you"):
                await ledger.renew(holder, LEASE_MS)  # pyright: ignore[reportArgumentType]
            await ledger.open("a", ScopeRule(Money(90)), 0)  # pyright: ignore[reportArgumentType]
        for (name, arguments, options, later), which in steps:
            now += later
            seen = LeaseWatch().ended(await memory.leases(), now)
            call = (name, [*arguments, *when(name, now, seen)], options)
            expected = await outcome(memory, *call)
            assert await outcome(files[which], *call) == expected
            assert await everything(files[not which], now) == await everything(memory, now)
    finally:
        for ledger in files:
            await ledger.aclose()


def when(name: str, now: int, ended: dict[HolderId, int]) -> list[Any]:
    if name == "renew":
        return [now + LEASE_MS]
    if name == "expire":
        return [ended, now]
    return [] if name in TIMELESS else [now]


async def outcome(ledger: Any, name: str, arguments: list[Any], options: dict[str, Any]) -> object:
    try:
        found = await getattr(ledger, name)(*arguments, **options)
    except (VegaError, KeyError) as error:
        return type(error), str(error)
    return sorted(found) if name == "expire" else found


async def everything(ledger: Any, now: int) -> list[object]:
    scopes = [await ledger.scope(scope) for scope in "abcd"]
    counters = [await ledger.counter(o, p, now) for o in OWNERS for p in (Period.DAY, None)]
    return [await ledger.leases(), *scopes, *counters, await ledger.claims([*"pqrst"])]
