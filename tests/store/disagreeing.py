"""Random histories of clients that disagree, on real ledgers, written down as events.

A client is a `Budgets` as a runtime has one: a name, a cap with or without a period, an
`on_exceed`, an agent with a budget of its own, a clock of its own. All are on one ledger, over
several connections. They lose commits, pause for longer than their lease, and their clocks jump by
400 days and back; the owner of the ledger sets and withdraws limits meanwhile. The checker of
`campaigns.money_model` reads the events and computes every sum anew.
"""

import asyncio
import random
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from campaigns.money_model import KINDS, Constraint, Event, Kind, What, check

from vegakit.effects import SharedBudget
from vegakit.host import Budgets
from vegakit.ids import EffectKey, HolderId, ScopeId
from vegakit.money import Money, Period
from vegakit.policy import EVERYBODY, ClaimState, LeaseWatch, OnExceed, Reserved, ScopeRule
from vegakit.ports import Ledger
from vegakit.testing import FakeClock

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
JUMP_MS = 400 * DAY_MS
BEGAN_MS = 1_767_225_600_000 - 30 * HOUR_MS  # shortly before a year begins
SHAPES = {"hour": "%Y%m%d%H", "day": "%Y%m%d", "month": "%Y%m", "total": ""}
REFUSES = (OnExceed.BLOCK, OnExceed.ASK)
PASSES_MS = (0, 1, 1_000, HOUR_MS, DAY_MS)


def calendar(kind: Kind, now: int) -> str:
    """Return the name of a window by the calendar, which no code of the ledger has a part in."""
    return datetime.fromtimestamp(now / 1000, UTC).strftime(SHAPES[kind])


def kind_of(period: Period | None) -> Kind:
    """Return the kind of window that a period has."""
    return next(kind for kind in KINDS if kind == (period or "total"))


def constraint(owner: ScopeId, rule: ScopeRule) -> list[Constraint]:
    """Return a rule as the checker reads it; one without a cap counts, and refuses nothing."""
    return [Constraint(owner, kind_of(rule.period), rule.cap or 0, _refuses(rule))]


def _refuses(rule: ScopeRule) -> bool:
    return rule.cap is not None and rule.on_exceed in REFUSES


@dataclass
class Client:
    name: str
    budgets: Budgets
    ledger: Ledger
    shared: tuple[SharedBudget, ...]
    has_own_root: bool
    rules: list[tuple[ScopeId, ScopeRule]]
    ahead: int = 0
    live: list[EffectKey] = field(default_factory=list[EffectKey])
    wallets: list[ScopeId] = field(default_factory=list[ScopeId])

    @property
    def holder(self) -> HolderId:
        return HolderId(self.name)


class History:
    """One random history on these ledgers, which are one."""

    def __init__(self, seed: int, ledgers: list[Ledger]) -> None:
        self.chance, self.ledgers = random.Random(seed), ledgers
        self.events: list[Event] = []
        self.clients: list[Client] = []
        self.amounts: dict[EffectKey, int] = {}
        self.time = BEGAN_MS
        self._made = 0

    async def play(self, steps: int) -> list[str]:
        """Let things happen, and return what the checker finds wrong."""
        await self._limit()
        await self._begin()
        every = [self._begin, self._limit, self._reserve, self._reserve, self._reserve]
        every += [self._settle, self._settle, self._wallet, self._expire, self._jump, self._look]
        for _ in range(steps):
            await self.chance.choice(every)()
            self.time += self.chance.choice(PASSES_MS)
        return check(self.events, calendar)

    def _name(self, kind: str) -> str:
        self._made += 1
        return f"{kind} {self._made}"

    def _client(self) -> Client:
        return self.chance.choice(self.clients)

    def _now(self, client: Client) -> int:
        return self.time + client.ahead

    async def _limit(self) -> None:
        """The owner of the ledger says all its limits anew."""
        ledger = self.chance.choice(self.ledgers)
        rules = [
            ScopeRule(Money(self.chance.randrange(20, 150)), period=period)
            for period in (*Period, None)
            if self.chance.random() < 0.4
        ]
        if not self.events and not rules:  # who never had a limit is not counted for it
            rules = [ScopeRule(Money(50))]
        await ledger.set_limits(EVERYBODY, rules)
        caps = {kind_of(rule.period): rule.cap for rule in rules}
        for kind in KINDS:
            limit = Event(What.LIMIT, owner=EVERYBODY, kind=kind, cap=caps.get(kind))
            self.events.append(limit)

    def _rule(self, periods: list[Period | None]) -> ScopeRule:
        cap, on_exceed = Money(self.chance.randrange(120)), self.chance.choice([*OnExceed])
        return ScopeRule(cap, on_exceed, self.chance.choice(periods))

    async def _begin(self) -> None:
        """Open a client, which says another cap than the others for what they share."""
        chance, name = self.chance, self._name("client")
        ledger, clock = chance.choice(self.ledgers), FakeClock()
        rule, of_user = self._rule([*Period, None]), self._rule([*Period])
        budgets = Budgets(ledger, clock, chance.choice(["x", "y"]), rule, of_user)
        has_own_root = chance.random() < 0.4
        if has_own_root:
            rule = ScopeRule(rule.cap)
            budgets = Budgets(ledger, clock, "own", rule, of_user)
            budgets.begin_run(HolderId(name))
        shared: tuple[SharedBudget, ...] = ()
        if chance.random() < 0.5:
            agent = self._rule([*Period])
            cap, period = agent.cap or Money(0), agent.period or Period.DAY
            shared = (SharedBudget("A", cap, period, agent.on_exceed),)
        rules = [(budgets.root, rule)]
        if not ledger.is_personal:
            rules.append((EVERYBODY, of_user))
        await budgets.ready(budgets.root)
        client = Client(name, budgets, ledger, shared, has_own_root, rules)
        await ledger.renew(client.holder, self.time + 60_000)
        self.clients.append(client)
        said = [one for owner, rule in rules for one in constraint(owner, rule)]
        self._open(name, said)
        for one in shared:
            agent = ScopeRule(one.cap, OnExceed(one.on_exceed), one.period)
            self._open(f"{name} with A", said + constraint(budgets.scope_of(one), agent))

    def _open(self, run: str, said: list[Constraint]) -> None:
        opened = Event(What.OPEN, run=run, constraints=tuple(said), owners=(EVERYBODY,))
        self.events.append(opened)

    async def _reserve(self) -> None:
        """A call, with its agent or without, in the root of its client or in a wallet."""
        client, chance = self._client(), self.chance
        shared = client.shared if chance.random() < 0.5 else ()
        scope, wallet = client.budgets.root, ""
        if client.wallets and chance.random() < 0.5:
            scope = chance.choice(client.wallets)
            shared, wallet = (), scope
        key, amount = EffectKey(self._name("call")), chance.randrange(1, 60)
        now = self._now(client)
        rules = {} if wallet else client.budgets.rules_around(scope, shared)
        reserving = asyncio.ensure_future(
            client.ledger.reserve(key, 1, scope, Money(amount), client.holder, now, rules=rules)
        )
        is_lost = chance.random() < 0.1
        if is_lost:  # who does not know whether it was committed asks for the claim
            await asyncio.sleep(0)
            reserving.cancel()
            with suppress(asyncio.CancelledError):
                await reserving
            is_admitted = bool(await client.ledger.claims([key]))
        else:
            is_admitted = isinstance(await reserving, Reserved)
        run = f"{client.name} with A" if shared else client.name
        if is_admitted or not is_lost:
            wanted = Event(What.RESERVE, now, run, key, amount, is_admitted, wallet=wallet)
            self.events.append(wanted)
        if is_admitted:
            self.amounts[key] = amount
            client.live.append(key)
            self.events.append(Event(What.SEND, call=key))

    async def _settle(self) -> None:
        """End a call by any bill, up to its reservation but for a few."""
        client, chance = self._client(), self.chance
        if not client.live:
            return
        key, now = chance.choice(client.live), self._now(client)
        client.live.remove(key)
        if chance.random() < 0.7:
            most = self.amounts[key] + (30 if chance.random() < 0.1 else 0)
            bill = chance.randrange(most + 1)
            await client.ledger.answer(key, 1, Money(bill), now)
            self.events.append(Event(What.CHARGE, call=key, amount=bill))
            return
        await client.ledger.cut_off(key, 1, now)
        await self._note(client.ledger, key)

    async def _note(self, ledger: Ledger, key: EffectKey) -> None:
        """Write down how a claim stands that somebody settled."""
        (claim,) = (await ledger.claims([key]))[key]
        if claim.state is ClaimState.UNKNOWN:
            self.events.append(Event(What.CHARGE, call=key, amount=self.amounts[key]))

    async def _expire(self) -> None:
        """A client settles what others left, who paused, or whose clock it does not believe."""
        client = self._client()
        leases, now = await client.ledger.leases(), self._now(client)
        for name, _ in await client.ledger.expire(LeaseWatch().ended(leases, now), now):
            await self._note(client.ledger, EffectKey(name.rpartition("#")[0]))

    async def _wallet(self) -> None:
        """Open a wallet in a run of its own, or end one; its calls are held against it alone."""
        client, chance = self._client(), self.chance
        if not client.has_own_root:
            return
        if client.wallets and chance.random() < 0.5:
            scope = client.wallets.pop(chance.randrange(len(client.wallets)))
            await client.ledger.close(scope)
            self.events.append(Event(What.END, call=scope))
            return
        scope, cap = ScopeId(self._name("wallet")), Money(chance.randrange(80))
        now = self._now(client)
        verdict = await client.ledger.open(
            scope, ScopeRule(cap), now, parent=client.budgets.root, part=True
        )
        is_admitted = isinstance(verdict, Reserved)
        opened = Event(What.RESERVE, now, client.name, scope, cap, is_admitted, is_wallet=True)
        self.events.append(opened)
        if is_admitted:
            client.wallets.append(scope)

    async def _jump(self) -> None:
        """Set the clock of a client wrong, or right again."""
        client = self._client()
        client.ahead = 0 if client.ahead else self.chance.choice([JUMP_MS, -JUMP_MS])

    async def _look(self) -> None:
        """What a client is told that an owner has used is what the events add up to."""
        client = self._client()
        now = self._now(client)
        owners = [owner for owner, _ in client.rules]
        owners += [client.budgets.scope_of(one) for one in client.shared]
        for owner in (*owners, EVERYBODY):
            has_total_only = client.has_own_root and owner == client.budgets.root
            for period in (None,) if has_total_only else (*Period, None):
                counter = await client.ledger.counter(owner, period, now)
                kind, used = kind_of(period), counter.used
                told = Event(What.LOOK, now, owner=owner, kind=kind, amount=used)
                self.events.append(told)
