"""The budget against a model that adds everything up anew at every step.

The machine moves totals; the model keeps only what happened (scopes, claims, charges) and derives
settled, reserved and held from their definitions. `HonestBudget` meets no bill above a reservation
and no lowered cap, so every cap must hold at every step; `WildBudget` meets everything.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

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
    WindowRule,
)
from vegakit.records import from_json, to_json

HOLDERS = (HolderId("a"), HolderId("b"))
LIVE = ("reserved", "sent")
DAY = 86_400_000
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
    st.builds(WindowRule, st.sampled_from(Period), st.booleans()),
)
CAPPED = st.builds(ScopeRule, st.integers(0, 120).map(Money))


@dataclass
class ScopeFacts:
    rule: ScopeRule
    cap: int | None
    parent: str | None
    part: bool
    open: bool = True
    charges: list[tuple[int, int]] = field(default_factory=list)

    def counts(self, at: int, now: int) -> bool:
        window = self.rule.window
        if window is None:
            return True
        if window.rolling:
            days = {Period.HOUR: 1 / 24, Period.DAY: 1, Period.MONTH: 30}[window.period]
            width = int(days * DAY) // 60
            return (at // width + 61) * width > now
        shape = {Period.HOUR: "%Y%m%d%H", Period.DAY: "%Y%m%d", Period.MONTH: "%Y%m"}
        spell = [
            datetime.fromtimestamp(t / 1000, UTC).strftime(shape[window.period]) for t in (at, now)
        ]
        return spell[0] == spell[1]

    def settled(self, now: int) -> int:
        return sum(amount for at, amount in self.charges if self.counts(at, now))


@dataclass
class ClaimFacts:
    scope: str
    holder: HolderId
    amount: int
    state: str = "reserved"
    charged: int = 0
    at: int = 0


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

    def reserved(self, scope: str) -> int:
        direct = sum(c.amount for c in self.claims.values() if c.scope == scope and c.state in LIVE)
        children = [n for n, s in self.scopes.items() if s.parent == scope]
        return direct + sum(
            self.held(n) if self.scopes[n].part else self.reserved(n) for n in children
        )

    def held(self, scope: str) -> int:
        facts = self.scopes[scope]
        if not facts.open or facts.cap is None:
            return self.reserved(scope)
        return max(facts.cap - facts.settled(self.now), self.reserved(scope))

    def used(self, scope: str) -> int:
        return self.scopes[scope].settled(self.now) + self.reserved(scope)

    def refusal(self, scope: str, amount: int) -> tuple[type, str] | None:
        asks: list[str] = []
        for name in self.admitting(scope):
            facts = self.scopes[name]
            if not facts.open:
                return ScopeClosed, name
            if facts.cap is not None and self.used(name) + amount > facts.cap:
                if facts.rule.on_exceed is OnExceed.BLOCK:
                    return InsufficientBudget, name
                if facts.rule.on_exceed is OnExceed.ASK:
                    asks.append(name)
        return (NeedsHigherCap, asks[0]) if asks else None

    def charge(self, claim: ClaimFacts, bill: int) -> None:
        diff = bill - claim.charged
        if claim.state != "unknown":
            claim.at = self.now
        for name in self.outward(claim.scope):
            facts = self.scopes[name]
            if facts.counts(claim.at, self.now):
                facts.charges.append((claim.at, diff))
            elif diff > 0:
                facts.charges.append((self.now, diff))
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
            rule = ScopeRule(rule.cap, OnExceed.BLOCK, None if part else rule.window)
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
            self.scopes[name] = ScopeFacts(rule, rule.cap, parent, part)

    def compare(self, verdict: object, expected: tuple[type, str] | None) -> None:
        if expected is None:
            assert isinstance(verdict, Reserved)
            return
        kind, scope = expected
        assert isinstance(verdict, kind)
        assert getattr(verdict, "scope", None) == scope
        if isinstance(verdict, InsufficientBudget):
            settled = self.scopes[scope].settled(self.now)
            assert verdict.settled == settled
            assert verdict.reserved == self.reserved(scope)
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
            self.claims[name] = ClaimFacts(scope, holder, amount)

    def some_claim(self, pick, prefer: str = "") -> tuple[EffectKey, ClaimFacts]:
        preferred = [n for n, c in self.claims.items() if c.state == prefer]
        name = pick.choice(sorted(preferred or self.claims))
        return EffectKey(name), self.claims[name]

    @precondition(lambda self: self.claims)
    @rule(pick=st.randoms(use_true_random=False))
    def send(self, pick) -> None:
        name, claim = self.some_claim(pick, "reserved")
        assert self.budget.mark_sent(name, 1) == (claim.state == "reserved")
        if claim.state == "reserved":
            claim.state = "sent"

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
            if claim.state == "released":
                return
        before = {s: self.used(s) for s in self.scopes}
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
            for s in self.outward(claim.scope)
            if (cap := self.scopes[s].cap) is not None
            and before[s] <= cap < self.used(s)
            and self.scopes[s].rule.on_exceed in (OnExceed.BLOCK, OnExceed.ASK)
        }
        assert told == crossed
        self.excused |= crossed

    @precondition(lambda self: self.claims)
    @rule(pick=st.randoms(use_true_random=False), how=st.sampled_from(["cut_off", "release"]))
    def give_up(self, pick, how: str) -> None:
        name, claim = self.some_claim(pick, "sent")
        getattr(self.budget, how)(name, 1, self.now)
        if claim.state == "reserved":
            claim.state = "released"
        elif claim.state == "sent" and how == "cut_off":
            self.charge(claim, claim.amount)
            claim.state = "unknown"

    @rule(pick=st.randoms(use_true_random=False))
    def close(self, pick) -> None:
        scope = pick.choice(sorted(self.scopes))
        self.budget.scopes.close(ScopeId(scope), self.now)
        for name, facts in self.scopes.items():
            if scope in self.outward(name):
                facts.open = False

    @precondition(lambda self: not self.honest)
    @rule(pick=st.randoms(use_true_random=False), cap=st.integers(0, 150))
    def set_cap(self, pick, cap: int) -> None:
        scope = pick.choice(sorted(self.scopes))
        facts = self.scopes[scope]
        if facts.cap is None:
            return
        expected = None
        if facts.part and facts.open and facts.parent is not None:
            more = max(cap - facts.settled(self.now), self.reserved(scope)) - self.held(scope)
            expected = self.refusal(facts.parent, more) if more > 0 else None
        verdict = self.budget.scopes.set_cap(ScopeId(scope), Money(cap), self.now)
        self.compare(verdict, expected)
        if expected is None:
            facts.cap = cap
            self.excused.add(scope)

    @rule(ms=st.sampled_from([0, 1, 4_999, 5_000, 15_000, 60_000, 3_600_000, DAY, 31 * DAY]))
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
            if claim.state == "sent":
                self.charge(claim, claim.amount)
                claim.state = "unknown"
            else:
                claim.state = "released"
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
            scope.roll(self.now)
            assert scope.settled == facts.settled(self.now), name
            assert scope.reserved == self.reserved(name), name
            assert scope.held == (self.held(name) if facts.part else 0), name

    @invariant()
    def caps_hold(self) -> None:
        for name, facts in self.scopes.items():
            firm = facts.rule.on_exceed in (OnExceed.BLOCK, OnExceed.ASK)
            if firm and facts.cap is not None and name not in self.excused:
                assert self.used(name) <= facts.cap

    @invariant()
    def honest_bills_excuse_nobody(self) -> None:
        assert not (self.honest and self.excused)

    def teardown(self) -> None:
        """Whatever happened, nothing stays reserved once every holder is dead and all is closed."""
        for name in self.scopes:
            self.budget.scopes.close(ScopeId(name), self.now)
        self.budget.expire(self.budget.leases.copy(), self.now + 10_000)
        assert all(s.reserved == s.held == 0 for s in self.budget.scopes.by_id.values())


class HonestBudget(BudgetAgainstSums):
    honest = True


TestWildBudget = BudgetAgainstSums.TestCase
TestHonestBudget = HonestBudget.TestCase
