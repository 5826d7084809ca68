"""Clients that share budgets and disagree about them, against a model that keeps only charges.

A client is a `Budgets` as a runtime has one: a name, a cap with or without a period, an
`on_exceed`, and perhaps the budget of a user. All of them are on one ledger, over several
connections. The model knows each charge with its time, each reservation, and what each client said;
it adds up anew at every call what counts for the client that makes it.
"""

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from hypothesis import strategies as st

from vegakit.host import USER_SCOPE, Budgets
from vegakit.ids import EffectKey, HolderId, ScopeId
from vegakit.money import Money, Period
from vegakit.policy import (
    Admission,
    InsufficientBudget,
    NeedsHigherCap,
    OnExceed,
    Reserved,
    ScopeRule,
    WindowRule,
)
from vegakit.ports import Ledger
from vegakit.testing import FakeClock

HOUR_MS = 3_600_000
BEGAN_MS = 1_767_225_600_000 - 30 * HOUR_MS  # shortly before a year begins
ME = HolderId("me")
SHAPES = {Period.HOUR: "%Y%m%d%H", Period.DAY: "%Y%m%d", Period.MONTH: "%Y%m"}
VERDICTS = {OnExceed.BLOCK: InsufficientBudget, OnExceed.ASK: NeedsHigherCap}

CAPS = st.integers(0, 120).map(Money)
WINDOWS = st.builds(WindowRule, st.sampled_from(Period))
RULES = st.one_of(
    st.builds(ScopeRule, CAPS, st.sampled_from(OnExceed), WINDOWS | st.none()),
    st.just(ScopeRule(None)),
)
USERS = st.none() | st.builds(
    ScopeRule, CAPS, st.sampled_from([OnExceed.BLOCK, OnExceed.WARN]), WINDOWS
)
AMOUNTS = st.integers(0, 60)


class Client(NamedTuple):
    name: str
    rule: ScopeRule
    of_user: ScopeRule | None


CLIENTS = st.lists(
    st.builds(Client, st.sampled_from(["x", "y"]), RULES, USERS), min_size=2, max_size=4
)
CALLS = st.tuples(st.just("call"), st.lists(st.tuples(st.integers(0, 3), AMOUNTS), min_size=1))
STEPS = st.lists(
    st.one_of(
        CALLS,
        CALLS,
        st.tuples(st.just("settle"), st.integers(0, 20), AMOUNTS),
        st.tuples(st.just("reopen"), st.integers(0, 3)),
        st.tuples(st.just("later"), st.sampled_from([1, HOUR_MS, 24 * HOUR_MS, 300 * HOUR_MS])),
    ),
    max_size=25,
)


@dataclass
class Counter:
    """`windowed_ms` is when a client first gave it a period; what was charged before counts as if
    it had been charged then, since a ledger without periods keeps no times."""

    charges: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    reserved: int = 0
    windowed_ms: int | None = None

    def used(self, window: WindowRule | None, now: int) -> int:
        if window is None:
            return sum(amount for _, amount in self.charges) + self.reserved
        shape, since = SHAPES[window.period], self.windowed_ms or 0
        return self.reserved + sum(
            amount
            for at, amount in self.charges
            if _spelt(max(at, since), shape) == _spelt(now, shape)
        )

    def declare(self, rule: ScopeRule, now: int) -> None:
        if rule.window is not None and self.windowed_ms is None:
            self.windowed_ms = now


def _spelt(at: int, shape: str) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).strftime(shape)


@dataclass
class Model:
    counters: dict[str, Counter] = field(default_factory=dict[str, Counter])

    def counted(self, client: Client) -> list[tuple[Counter, ScopeRule]]:
        both = [(client.name, client.rule)]
        if client.of_user is not None:
            both.append(("the user", client.of_user))
        return [(self.counters.setdefault(name, Counter()), rule) for name, rule in both]

    def verdict(self, client: Client, amount: int, now: int) -> type:
        full = {
            VERDICTS.get(rule.on_exceed, Reserved)
            for counter, rule in self.counted(client)
            if rule.cap is not None and counter.used(rule.window, now) + amount > rule.cap
        }
        return next((one for one in (InsufficientBudget, NeedsHigherCap) if one in full), Reserved)


class Disagreement:
    """Clients on these ledgers, which are one, beside the model."""

    def __init__(self, clients: list[Client], ledgers: list[Ledger]) -> None:
        self.clients, self.ledgers = clients, ledgers
        self.model, self.clock = Model(), FakeClock(BEGAN_MS)
        self.opened: dict[int, Budgets] = {}
        self.live: list[tuple[EffectKey, Client, int, Ledger]] = []
        self._made = 0

    async def scope_of(self, number: int) -> tuple[Budgets, ScopeId]:
        """Return the scope of a call of a client, which opens its budgets if it has to."""
        client = self.clients[number]
        if number not in self.opened:
            ledger = self.ledgers[number % len(self.ledgers)]
            budgets = Budgets(ledger, self.clock, client.name, client.rule, client.of_user)
            self.opened[number] = budgets
            for counter, rule in self.model.counted(client):
                counter.declare(rule, self.clock.now())
        budgets = self.opened[number]
        return budgets, await budgets.ready(budgets.within(budgets.root, ()))

    async def call(self, calls: list[tuple[int, int]]) -> None:
        """Make calls at once, of which those on one connection share a transaction."""
        calls = [(number % len(self.clients), amount) for number, amount in calls]
        for number, _ in calls:
            await self.scope_of(number)
        for which, ledger in enumerate(self.ledgers):
            batch = [call for call in calls if call[0] % len(self.ledgers) == which]
            keys = [EffectKey(f"call {self._made + place}") for place in range(len(batch))]
            self._made += len(batch)
            verdicts = await asyncio.gather(*map(self._reserve, keys, batch))
            for key, (number, amount), verdict in zip(keys, batch, verdicts, strict=True):
                client = self.clients[number]
                assert type(verdict) is self.model.verdict(client, amount, self.clock.now())
                if isinstance(verdict, Reserved):
                    self.live.append((key, client, amount, ledger))
                    for counter, _ in self.model.counted(client):
                        counter.reserved += amount

    async def _reserve(self, key: EffectKey, call: tuple[int, int]) -> Admission:
        number, amount = call
        budgets, ledger = self.opened[number], self.ledgers[number % len(self.ledgers)]
        scope, now = budgets.within(budgets.root, ()), self.clock.now()
        rules = budgets.rules_around(scope)
        return await ledger.reserve(key, 1, scope, Money(amount), ME, now, sent=True, rules=rules)

    async def settle(self, pick: int, bill: int) -> None:
        """Settle a call that is in flight, by any bill."""
        if not self.live:
            return
        key, client, amount, ledger = self.live.pop(pick % len(self.live))
        await ledger.answer(key, 1, Money(bill), self.clock.now())
        for counter, _ in self.model.counted(client):
            counter.reserved -= amount
            counter.charges.append((self.clock.now(), bill))

    async def reopen(self, number: int) -> None:
        """End a client; its next call opens its budgets again."""
        self.opened.pop(number % len(self.clients), None)

    async def later(self, ms: int) -> None:
        """Let time pass."""
        self.clock.advance(ms)

    async def check_figures(self) -> None:
        """What each client is told it has spent is what the model counts for it."""
        for number, budgets in self.opened.items():
            (own, rule), *of_user = self.model.counted(self.clients[number])
            found, now = await budgets.figures(budgets.root), self.clock.now()
            assert (found.used, found.cap) == (own.used(rule.window, now), rule.cap)
            for counter, limit in of_user:
                scope = await self.ledgers[0].scope(USER_SCOPE, now)
                assert scope is not None
                assert scope.used_by(limit) == counter.used(limit.window, now)


async def disagree(
    clients: list[Client], steps: list[tuple[Any, ...]], ledgers: list[Ledger]
) -> None:
    """Carry out the steps on these ledgers and on the model."""
    disagreement = Disagreement(clients, ledgers)
    for kind, *said in steps:
        await getattr(disagreement, kind)(*said)
    await disagreement.check_figures()
