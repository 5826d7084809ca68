"""The budget against a model that adds everything up anew at every step.

The machine moves totals; the model keeps only what happened (scopes, claims, charges) and derives
settled, reserved and held from their definitions. `HonestBudget` meets no bill above a reservation
and no lowered cap, so every cap must hold at every step; `WildBudget` meets everything.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec import structs

from vegakit.ids import EffectKey, HolderId, ScopeId
from vegakit.money import Money, Period
from vegakit.policy import (
    LEASE_MS,
    Budget,
    CapOverrun,
    ClaimState,
    InsufficientBudget,
    LeaseWatch,
    NeedsHigherCap,
    OnExceed,
    Reserved,
    ScopeClosed,
    ScopeRule,
)
from vegakit.records import from_json, to_json

HOLDERS = (HolderId("a"), HolderId("b"))
LIVE = ("sent",)
DAY = 86_400_000
STEPS = [0, 1, 4_999, 5_000, 15_000, 60_000, 3_600_000, DAY, 31 * DAY, 400 * DAY, -400 * DAY]
AMOUNTS = st.integers(0, 40)
RULES = st.builds(
    ScopeRule,
    st.one_of(st.none(), st.integers(0, 120).map(Money)),
    st.sampled_from([*OnExceed, OnExceed.BLOCK]),
)
WINDOWED = st.builds(
    ScopeRule,
    st.integers(0, 120).map(Money),
    st.sampled_from([OnExceed.BLOCK, OnExceed.ASK]),
    st.sampled_from(Period),
)
CAPPED = st.builds(ScopeRule, st.integers(0, 120).map(Money))


@dataclass
class ScopeFacts:
    rule: ScopeRule
    cap: int | None
    parent: str | None
    part: bool
    opened: int
    open: bool = True
    charges: list[tuple[int, int]] = field(default_factory=list)


def is_same(period: Period | None, at: int, now: int) -> bool:
    if period is None:
        return True
    shape = {Period.HOUR: "%Y%m%d%H", Period.DAY: "%Y%m%d", Period.MONTH: "%Y%m"}[period]
    spelt = [datetime.fromtimestamp(t / 1000, UTC).strftime(shape) for t in (at, now)]
    return spelt[0] == spelt[1]


@dataclass
class ClaimFacts:
    scope: str
    holder: HolderId
    amount: int
    at: int
    state: str = "sent"
    charged: int = 0


class BudgetAgainstSums(RuleBasedStateMachine):
    honest = False

    def __init__(self) -> None:
        super().__init__()
        self.budget = Budget()
        self.now = 1_700_000_000_000
        self.scopes: dict[str, ScopeFacts] = {}
        self.claims: dict[str, ClaimFacts] = {}
        self.leases: dict[HolderId, int] = {}
        self.excused: set[str] = set()
        self.made = 0

    # The model's definitions

    def outward(self, scope: str | None) -> list[str]:
        path: list[str] = []
        while scope is not None:
            path.append(scope)
            scope = self.scopes[scope].parent
        return path

    def admitting(self, scope: str) -> list[str]:
        path = self.outward(scope)
        parts = [i for i, s in enumerate(path) if self.scopes[s].part]
        return path[: parts[0] + 1] if parts else path

    def settled(self, scope: str, now: int) -> int:
        facts = self.scopes[scope]
        period = facts.rule.period
        return sum(amount for at, amount in facts.charges if is_same(period, at, now))

    def reserved(self, scope: str, now: int) -> int:
        return self.reserved_in(scope, self.scopes[scope].rule.period, now)

    def reserved_in(self, scope: str, period: Period | None, now: int) -> int:
        live = [c for c in self.claims.values() if c.scope == scope and c.state in LIVE]
        total = sum(c.amount for c in live if is_same(period, c.at, now))
        for name, facts in self.scopes.items():
            if facts.parent != scope:
                continue
            if not facts.part:
                total += self.reserved_in(name, period, now)
            elif is_same(period, facts.opened, now):
                total += self.held(name)
        return total

    def held(self, scope: str) -> int:
        facts = self.scopes[scope]
        reserved = self.reserved(scope, self.now)
        if not facts.open or facts.cap is None:
            return reserved
        return max(facts.cap - self.settled(scope, self.now), reserved)

    def used(self, scope: str, now: int) -> int:
        return self.settled(scope, now) + self.reserved(scope, now)

    def counted(self, claim: ClaimFacts) -> list[tuple[str, int]]:
        """Where a claim counts, and at which instant: beyond a part, when that was opened."""
        at, places = claim.at, []
        for name in self.outward(claim.scope):
            places.append((name, at))
            at = self.scopes[name].opened if self.scopes[name].part else at
        return places

    def refusal(self, scope: str, amount: int) -> tuple[type, str] | None:
        asks: list[str] = []
        for name in self.admitting(scope):
            facts = self.scopes[name]
            if not facts.open:
                return ScopeClosed, name
            if facts.cap is not None and self.used(name, self.now) + amount > facts.cap:
                if facts.rule.on_exceed is OnExceed.BLOCK:
                    return InsufficientBudget, name
                if facts.rule.on_exceed is OnExceed.ASK:
                    asks.append(name)
        return (NeedsHigherCap, asks[0]) if asks else None

    def charge(self, claim: ClaimFacts, bill: int) -> None:
        for name, at in self.counted(claim):
            self.scopes[name].charges.append((at, bill - claim.charged))
        claim.charged = bill

    # What happens

    @initialize(rule=st.one_of(RULES, WINDOWED))
    def root(self, rule: ScopeRule) -> None:
        self.add_scope(rule, None, part=False)
        for holder in HOLDERS:
            self.lease(holder)

    def lease(self, holder: HolderId) -> None:
        self.leases[holder] = max(self.leases.get(holder, 0), self.now + 5_000)
        self.budget.renew(holder, self.now + 5_000)

    def add_scope(self, rule: ScopeRule, parent: str | None, *, part: bool) -> None:
        if self.honest:
            rule = ScopeRule(rule.cap, OnExceed.BLOCK, None if part else rule.period)
        self.made += 1
        name = f"s{self.made}"
        expected = None
        if part and parent is not None:
            expected = self.refusal(parent, rule.cap or 0)
        elif parent is not None and not self.scopes[parent].open:
            expected = (ScopeClosed, parent)
        verdict = self.budget.scopes.open(
            ScopeId(name), rule, self.now, parent=ScopeId(parent) if parent else None, part=part
        )
        self.compare(verdict, expected)
        if expected is None:
            self.scopes[name] = ScopeFacts(rule, rule.cap, parent, part, self.now)

    def compare(self, verdict: object, expected: tuple[type, str] | None) -> None:
        if expected is None:
            assert isinstance(verdict, Reserved)
            return
        kind, scope = expected
        assert isinstance(verdict, kind)
        assert getattr(verdict, "scope", None) == scope
        if isinstance(verdict, InsufficientBudget):
            settled = self.settled(scope, self.now)
            assert verdict.settled == settled
            assert verdict.reserved == self.reserved(scope, self.now)
            assert verdict.hopeless == (settled + verdict.wanted > verdict.cap)

    @precondition(lambda self: len(self.scopes) < 8)
    @rule(pick=st.randoms(use_true_random=False), rule=st.one_of(RULES, WINDOWED))
    def open_limit(self, pick, rule: ScopeRule) -> None:
        self.add_scope(rule, pick.choice(sorted(self.scopes)), part=False)

    @precondition(lambda self: len(self.scopes) < 8)
    @rule(pick=st.randoms(use_true_random=False), rule=CAPPED)
    def open_part(self, pick, rule: ScopeRule) -> None:
        self.add_scope(rule, pick.choice(sorted(self.scopes)), part=True)

    @rule(pick=st.randoms(use_true_random=False), amount=AMOUNTS)
    def reserve(self, pick, amount: int) -> None:
        scope, holder = pick.choice(sorted(self.scopes)), pick.choice(HOLDERS)
        self.made += 1
        name = f"e{self.made}"
        verdict = self.budget.reserve(
            EffectKey(name), 1, ScopeId(scope), Money(amount), holder, self.now
        )
        if self.leases.get(holder, 0) < self.now + LEASE_MS // 2:
            self.leases[holder] = max(self.leases.get(holder, 0), self.now + LEASE_MS)
        expected = self.refusal(scope, amount)
        self.compare(verdict, expected)
        if expected is None:
            self.claims[name] = ClaimFacts(scope, holder, amount, self.now)

    def some_claim(self, pick, prefer: str = "") -> tuple[EffectKey, ClaimFacts]:
        preferred = [n for n, c in self.claims.items() if c.state == prefer]
        name = pick.choice(sorted(preferred or self.claims))
        return EffectKey(name), self.claims[name]

    @precondition(lambda self: self.claims)
    @rule(
        pick=st.randoms(use_true_random=False),
        bill=st.integers(0, 60),
        prefer=st.sampled_from(["", "sent", "unknown"]),
    )
    def answer(self, pick, bill: int, prefer: str) -> None:
        name, claim = self.some_claim(pick, prefer)
        if self.honest:
            bill = min(bill, claim.amount)
        before = {s: self.used(s, at) for s, at in self.counted(claim)}
        was, charged = claim.state, claim.charged
        settled = self.budget.answer(name, 1, Money(bill), self.now)
        assert settled.state is ClaimState.ANSWERED
        if was == "answered":
            assert settled.changed == 0
            return
        self.charge(claim, bill)
        claim.state = "answered"
        assert settled.changed == bill - charged
        told = {n.scope for n in settled.notices if isinstance(n, CapOverrun)}
        crossed = {
            s
            for s, at in self.counted(claim)
            if (cap := self.scopes[s].cap) is not None
            and before[s] <= cap < self.used(s, at)
            and self.scopes[s].rule.on_exceed in (OnExceed.BLOCK, OnExceed.ASK)
        }
        assert told == crossed
        self.excused |= crossed

    @precondition(lambda self: self.claims)
    @rule(pick=st.randoms(use_true_random=False))
    def give_up(self, pick) -> None:
        name, claim = self.some_claim(pick, "sent")
        self.budget.cut_off(name, 1, self.now)
        if claim.state == "sent":
            self.charge(claim, claim.amount)
            claim.state = "unknown"

    @rule(pick=st.randoms(use_true_random=False))
    def close(self, pick) -> None:
        scope = pick.choice(sorted(self.scopes))
        self.budget.scopes.close(ScopeId(scope))
        for name, facts in self.scopes.items():
            if scope in self.outward(name):
                facts.open = False

    @precondition(lambda self: not self.honest)
    @rule(pick=st.randoms(use_true_random=False), cap=st.integers(0, 150))
    def declare_again(self, pick, cap: int) -> None:
        name = pick.choice(sorted(self.scopes))
        facts = self.scopes[name]
        if facts.cap is None or facts.part:
            return
        rule = structs.replace(facts.rule, cap=Money(cap))
        parent = None if facts.parent is None else ScopeId(facts.parent)
        verdict = self.budget.scopes.open(ScopeId(name), rule, self.now, parent=parent)
        self.compare(verdict, None if facts.open else (ScopeClosed, name))
        if facts.open:
            facts.rule, facts.cap = rule, cap
            self.excused.add(name)

    @rule(ms=st.sampled_from(STEPS))
    def time_passes(self, ms: int) -> None:
        self.now += ms

    @rule(holder=st.sampled_from(HOLDERS))
    def renew(self, holder: HolderId) -> None:
        self.lease(holder)

    @rule()
    def the_dead_are_settled(self) -> None:
        dead = {h for h, until in self.leases.items() if until <= self.now}
        found = LeaseWatch().ended(self.budget.leases, self.now)
        settled = dict(self.budget.expire(found, self.now))
        assert self.budget.leases == {h: u for h, u in self.leases.items() if h not in dead}
        left = {n: c for n, c in self.claims.items() if c.holder in dead and c.state in LIVE}
        assert set(settled) == {f"{n}#1" for n in left}
        for claim in left.values():
            self.charge(claim, claim.amount)
            claim.state = "unknown"
        self.leases = {h: until for h, until in self.leases.items() if h not in dead}

    @precondition(lambda self: self.claims)
    @rule(pick=st.randoms(use_true_random=False))
    def forget(self, pick) -> None:
        name, claim = self.some_claim(pick)
        assert self.budget.forget(name, 1) == (claim.state not in LIVE)
        if claim.state not in LIVE:
            del self.claims[name]

    @rule()
    def it_is_stored_and_loaded(self) -> None:
        copy = from_json(Budget, to_json(self.budget))
        assert copy == self.budget
        self.budget = copy

    # What must hold

    @invariant()
    def the_sums_are_exact(self) -> None:
        for name, facts in self.scopes.items():
            scope = self.budget.scopes.by_id[ScopeId(name)]
            counter = self.budget.scopes.counter(ScopeId(name), facts.rule.period, self.now)
            assert counter.settled == self.settled(name, self.now), name
            assert counter.reserved == self.reserved(name, self.now), name
            assert scope.settled == sum(amount for _, amount in facts.charges), name
            assert scope.held == (self.held(name) if facts.part else 0), name

    @invariant()
    def caps_hold(self) -> None:
        for name, facts in self.scopes.items():
            firm = facts.rule.on_exceed in (OnExceed.BLOCK, OnExceed.ASK)
            if firm and facts.cap is not None and name not in self.excused:
                assert self.used(name, self.now) <= facts.cap

    @invariant()
    def honest_bills_excuse_nobody(self) -> None:
        assert not (self.honest and self.excused)

    def teardown(self) -> None:
        """Whatever happened, nothing stays reserved once every holder is dead and all is closed."""
        for name in self.scopes:
            self.budget.scopes.close(ScopeId(name))
        self.budget.expire(self.budget.leases.copy(), self.now + 10_000)
        assert all(s.reserved == s.held == 0 for s in self.budget.scopes.by_id.values())
        assert all(counter.reserved == 0 for counter in self.budget.scopes.counters.values())


class HonestBudget(BudgetAgainstSums):
    honest = True


TestWildBudget = BudgetAgainstSums.TestCase
TestHonestBudget = HonestBudget.TestCase
