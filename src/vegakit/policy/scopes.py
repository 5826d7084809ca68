"""Counters of money, and the caps that a reservation has to fit (pure).

A counter is the sum of one owner in one window. A limit is a cap that the owner sets for everybody;
a constraint is a cap that a client brings along. A part is a scope whose cap is set aside in its
parent, so its calls never ask the parent again.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from msgspec import Struct, field

from vegakit.errors import BugError, InvalidMoneyError, InvalidRuleError
from vegakit.ids import HolderId, ScopeId
from vegakit.money import Money, Period

# A counter is named by its window and its owner: `2026-11-19T05 user` counts an hour, `2026-11-19
# user` a day, `2026-11 user` a month (UTC), `total user` all time.
#
# The window is that of the reservation, by the clock of the ledger, and the call is settled in the
# same one, also when its answer comes in the next. So no window resets another, and a wrong clock
# counts in windows of its own, which nobody looks at when it is set right.


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR_MS = 3_600_000
_NUMBERS = {Period.HOUR: "%Y-%m-%dT%H", Period.DAY: "%Y-%m-%d", Period.MONTH: "%Y-%m"}
# The length of a window's name tells its period.
_LENGTHS = {Period.HOUR: 13, Period.DAY: 10, Period.MONTH: 7, None: len("total")}


class Counter(Struct):
    """A counter is what one owner has settled and reserved in one window, without cap or rule."""

    settled: int = 0
    reserved: int = 0

    @property
    def used(self) -> int:
        """Return what is settled and reserved."""
        return self.settled + self.reserved

    def move(self, released: int, charged: int) -> None:
        """Free what was reserved and charge what was billed."""
        self.reserved -= released
        self.settled += charged


def counter_id(owner: ScopeId, period: Period | None, now: int) -> str:
    """Return the name of the counter of an owner in the present window of a period; without a
    period, of all time."""
    number = "total" if period is None else _numbers_at(now // _HOUR_MS)[period]
    return f"{number} {owner}"


def counter_ids(owner: ScopeId, now: int) -> list[str]:
    """Return the names of all counters of an owner at an instant."""
    return [counter_id(owner, period, now) for period in _LENGTHS]


@lru_cache(maxsize=64)
def _numbers_at(hour: int) -> Mapping[Period, str]:
    moment = _EPOCH + timedelta(hours=hour)
    return {period: moment.strftime(shape) for period, shape in _NUMBERS.items()}


def _window_ends_ms(period: Period | None, now: int) -> int | None:
    """Return when the present window of a period ends."""
    if period is None:
        return None
    if period is not Period.MONTH:
        hours = 1 if period is Period.HOUR else 24
        return (now // _HOUR_MS // hours + 1) * hours * _HOUR_MS
    start = (_EPOCH + timedelta(hours=now // _HOUR_MS)).replace(day=1, hour=0)
    return ((start + timedelta(days=32)).replace(day=1) - _EPOCH) // timedelta(milliseconds=1)


# A rule: one cap, the period that it holds for, and the answer to a call that does not fit.
#
# | on_exceed | a call that does not fit                                       |
# |-----------|----------------------------------------------------------------|
# | block     | Short: refused; `hopeless` says that waiting cannot help       |
# | ask       | MustAsk: refused until somebody raises the cap                 |
# | warn      | admitted; WentOver is reported when the cap is crossed         |
# | allow     | admitted                                                       |


class OnExceed(StrEnum):
    """The ways to treat a call above a cap."""

    BLOCK = "block"
    ASK = "ask"
    WARN = "warn"
    ALLOW = "allow"


class ScopeRule(Struct, frozen=True):
    """`cap` None limits nothing and only counts; `alert_percents` report what was settled. What
    `is_shared` counts by the hour, the day and the month even if its own cap has no period: another
    client may come whose cap has one."""

    cap: Money | None
    on_exceed: OnExceed = OnExceed.BLOCK
    period: Period | None = None
    alert_percents: tuple[int, ...] = ()
    is_shared: bool = False

    def __post_init__(self) -> None:
        if self.cap is not None:
            check_amount(self.cap)
        if self.cap is None and (self.period or self.alert_percents):
            raise InvalidRuleError("a period and alerts need a cap; give the scope an amount")
        if list(self.alert_percents) != sorted({*self.alert_percents} & {*range(1, 101)}):
            raise InvalidRuleError(
                f"alerts are rising percentages from 1 to 100; got {self.alert_percents}"
            )

    @property
    def has_windows(self) -> bool:
        """Return whether what is spent under it counts by the hour, the day and the month."""
        return self.is_shared or self.period is not None


ScopeRules: TypeAlias = Mapping[ScopeId, ScopeRule]
"""The constraints that a client brings along with a call, by scope or by another owner."""
NO_RULES: ScopeRules = MappingProxyType({})
EVERYBODY = ScopeId("user")
"""The owner above every run: the user of a ledger."""


class Limit(Struct, frozen=True):
    """The caps that an owner sets for every reservation under it, also for clients that bring none
    along. Without a cap, it still counts."""

    rules: tuple[ScopeRule, ...]
    version: int = 1


class CapExceeded(Struct, frozen=True, tag=True):
    """A call was let through though it may exceed a cap."""

    scope: ScopeId
    by: Money


class CapOverrun(Struct, frozen=True, tag=True):
    """A bill came to more than a cap allows."""

    scope: ScopeId
    by: Money


class ThresholdCrossed(Struct, frozen=True, tag=True):
    """A scope has used so many percent of its cap."""

    scope: ScopeId
    percent: int


Notice: TypeAlias = CapExceeded | CapOverrun | ThresholdCrossed


class Reserved(Struct, frozen=True, tag=True):
    """The amount is set aside."""

    notices: tuple[Notice, ...] = ()


class InsufficientBudget(Struct, frozen=True, tag=True):
    """`hopeless`: not even when everything in flight turns out to be free, before `refills_ms`."""

    scope: ScopeId
    cap: Money
    settled: Money
    reserved: Money
    wanted: Money
    hopeless: bool
    period: Period | None = None
    refills_ms: int | None = None


class NeedsHigherCap(Struct, frozen=True, tag=True):
    """The call waits until a person raises the cap. `hopeless`: not even when everything in flight
    turns out to be free."""

    scope: ScopeId
    cap: Money
    missing: Money
    hopeless: bool = True
    period: Period | None = None


class ScopeClosed(Struct, frozen=True, tag=True):
    """The scope is closed."""

    scope: ScopeId


ScopeAdmission: TypeAlias = Reserved | InsufficientBudget | NeedsHigherCap | ScopeClosed

BINDING = {OnExceed.BLOCK, OnExceed.ASK}
_CROSSING = {OnExceed.BLOCK: CapOverrun, OnExceed.ASK: CapOverrun, OnExceed.WARN: CapExceeded}


class CapCheck(NamedTuple):
    """One rule with the counter that it limits: whether a call fits, and the notices about it."""

    owner: ScopeId
    rule: ScopeRule
    counter: Counter

    def fits(self, amount: int) -> bool:
        """Return whether an amount fits under the cap."""
        return self.rule.cap is None or self.counter.used + amount <= self.rule.cap

    def short(self, amount: int, now: int) -> InsufficientBudget | NeedsHigherCap | None:
        """Return the refusal of an amount that does not fit, if the rule refuses at all."""
        rule = self.rule
        if rule.cap is None or rule.on_exceed not in BINDING:
            return None
        hopeless = self.counter.settled + amount > rule.cap
        if rule.on_exceed is OnExceed.ASK:
            missing = Money(self.counter.used + amount - rule.cap)
            return NeedsHigherCap(self.owner, rule.cap, missing, hopeless, rule.period)
        return InsufficientBudget(
            self.owner,
            rule.cap,
            settled=Money(self.counter.settled),
            reserved=Money(self.counter.reserved),
            wanted=Money(amount),
            hopeless=hopeless,
            period=rule.period,
            refills_ms=_window_ends_ms(rule.period, now),
        )

    def crossing(self, more: int) -> tuple[Notice, ...]:
        """Return a notice when this much more is about to cross the cap, none while it is passed
        already."""
        rule = self.rule
        used = self.counter.used
        notice = _CROSSING.get(rule.on_exceed)
        if notice is None or rule.cap is None or not used <= rule.cap < used + more:
            return ()
        return (notice(self.owner, Money(used + more - rule.cap)),)

    def settling(self, released: int, charged: int) -> tuple[Notice, ...]:
        """Return the notices when this much is freed and charged: a bill that crosses the cap, and
        the thresholds that it reaches."""
        notices = self.crossing(charged - released) if charged > released else ()
        settled = self.counter.settled
        return notices + tuple(
            ThresholdCrossed(self.owner, percent)
            for percent in self.rule.alert_percents
            if settled * 100 < percent * (self.rule.cap or 0) <= (settled + charged) * 100
        )


class Scope(Counter, kw_only=True):
    """A scope is a node in the tree of a run, and the counter of its money of all time."""

    rule: ScopeRule
    parent: ScopeId | None = None
    is_part: bool = False
    is_open: bool = True
    held: int = 0
    """Of a part: what its parent still sets aside for it."""
    counted_in: list[str] = field(default_factory=list[str])
    """Of a part: the windows that its cap is reserved in."""
    children: int = 0
    claims: int = 0
    holder: HolderId | None = None
    """Of a part: whose it is; it is closed when that lease ends."""

    def rule_for(self, brought: ScopeRule | None) -> ScopeRule:
        """Return the rule that a call has to meet: the one that its client brings, or else that of
        the scope. A part admits by its own cap only, since no more is set aside for it."""
        return self.rule if brought is None or self.is_part else brought

    def must_hold(self) -> int:
        """Return what a part needs set aside above: all it may still spend, or once closed what is
        in flight."""
        if not self.is_open or self.rule.cap is None:
            return self.reserved
        return max(self.rule.cap - self.settled, self.reserved)


def check_amount(amount: int) -> None:
    """Raise `InvalidMoneyError` unless the amount is a whole number, not negative."""
    # A float would drift, a NaN would pass every comparison, and True is an int.
    if type(amount) is not int or amount < 0:
        raise InvalidMoneyError(
            f"expected a whole number of nano-dollars, not negative; got {amount!r}"
        )


# Budget scopes as a tree, and how money moves through it.
#
# A call must fit every bound on it, at the instant it is admitted:
#
#     settled + reserved + worst case  <=  cap
#
# | bound      | on whose counter                             | who says the cap                  |
# |------------|----------------------------------------------|-----------------------------------|
# | scope      | the scope of the call and those around it    | the client, with the call         |
# | constraint | another owner: an agent, the user            | the client, with the call         |
# | limit      | an owner above the call                      | the owner, for all calls under it |
#
# A *part* is a child whose cap was set aside in its parent when it opened: calls inside it are
# admitted by the part alone, and what it leaves unspent goes back when it closes. Any other child
# only bounds: calls inside it draw on every scope around it.
#
#     root $10          reserved  5 + 2      the part, and the call below the limit
#     ├── part $5       reserved  3          its calls do not ask the root again
#     └── limit $4      reserved  2          its calls are reserved here and in the root
#
# A blocking refusal anywhere outweighs a scope that would ask: nobody is asked in vain. A hopeless
# refusal outweighs one that others may lift: no call waits in vain.
#
# Clients that share a scope may disagree about its cap, its period and on_exceed. Each call brings
# the rules of its own client and is held against these; the rule in the scope is that of the last
# client that declared it, and admits only calls that bring none. So no client raises or lowers the
# cap of another, though each may use up the room of all.


def _weight(refusal: InsufficientBudget | NeedsHigherCap) -> tuple[bool, bool]:
    return isinstance(refusal, InsufficientBudget), refusal.hopeless


_RESERVED = Reserved()
_Reach: TypeAlias = tuple[dict[ScopeId, Scope], list[tuple[ScopeId, tuple[ScopeRule, ...]]]]


class ScopeTree(Struct):
    """The tree of scopes, the counters of windows, and the limits of owners. A call draws
    on its scope and on those around it, up to the nearest part, whose money was set aside above
    when it was opened."""

    by_id: dict[ScopeId, Scope] = field(default_factory=dict)
    counters: dict[str, Counter] = field(default_factory=dict)
    limits: dict[ScopeId, Limit] = field(default_factory=dict)

    def set_limits(self, owner: ScopeId, rules: Sequence[ScopeRule]) -> None:
        """Set all caps of an owner, in a new version where they change. From then on the owner
        counts, also without a cap: a cap that is set later holds for what was spent before."""
        limit = self.limits.get(owner)
        if limit is None or limit.rules != (*rules,):
            self.limits[owner] = Limit((*rules,), 1 if limit is None else limit.version + 1)

    def open(
        self,
        scope_id: ScopeId,
        rule: ScopeRule,
        now: int,
        *,
        parent: ScopeId | None = None,
        part: bool = False,
        holder: HolderId | None = None,
    ) -> ScopeAdmission:
        """Open a scope, or declare it anew if it is there. A part is opened once, and admitted like
        a call; any other scope always opens."""
        if scope_id in self.by_id:
            return self._declare(scope_id, rule, parent, is_part=part)
        if part:
            _check_part(rule, parent)
        elif parent is not None and not self.by_id[parent].is_open:
            return ScopeClosed(parent)
        scope = Scope(rule=rule, parent=parent, is_part=part, holder=holder)
        verdict: ScopeAdmission = _RESERVED
        if part and parent is not None and rule.cap is not None:
            scope.counted_in = self.counted_in(parent, now)
            verdict = self.admit(parent, rule.cap, now, counted_in=scope.counted_in)
            scope.held = rule.cap
        if isinstance(verdict, Reserved):
            self.by_id[scope_id] = scope
            if parent is not None:
                self.by_id[parent].children += 1
        return verdict

    def _declare(
        self, scope_id: ScopeId, rule: ScopeRule, parent: ScopeId | None, *, is_part: bool
    ) -> ScopeAdmission:
        scope = self.by_id[scope_id]
        if is_part:
            raise BugError(f"budget scope {scope_id!r} is already open")
        if scope.is_part or scope.parent != parent:
            raise BugError(
                f"budget scope {scope_id!r} stands in {scope.parent!r}"
                f"{' as a part' if scope.is_part else ''} and was declared in {parent!r}"
            )
        if not scope.is_open:
            return ScopeClosed(scope_id)
        scope.rule = rule
        return _RESERVED

    def close(self, scope_id: ScopeId) -> None:
        """Admit nothing more, here and below; an unspent part goes back to its parent."""
        scope = self.by_id[scope_id]
        if scope.children:
            for child_id in [i for i, s in self.by_id.items() if s.parent == scope_id]:
                self.close(child_id)
        if scope.is_open:
            scope.is_open = False
            # Nothing is charged: the move passes on what a closed part no longer needs held. Calls
            # in flight keep their share until they are settled.
            self.move(scope_id, 0, 0)

    def close_parts_of(self, holders: set[HolderId]) -> None:
        """Close every part whose holder is gone."""
        for scope_id in [i for i, scope in self.by_id.items() if scope.holder in holders]:
            self.close(scope_id)

    def drop(self, scope_id: ScopeId) -> bool:
        """Forget a closed scope that nothing refers to any more."""
        scope = self.by_id[scope_id]
        if scope.is_open or scope.children or scope.claims:
            return False
        del self.by_id[scope_id]
        if scope.parent is not None:
            self.by_id[scope.parent].children -= 1
        return True

    def drop_outward(self, scope_id: ScopeId) -> None:
        """Drop a scope if nothing refers to it, then the scope around it, and so on."""
        scope = self.by_id.get(scope_id)
        if scope is not None and self.drop(scope_id) and scope.parent is not None:
            self.drop_outward(scope.parent)

    def room(
        self, scope_id: ScopeId, now: int, rules: ScopeRules = NO_RULES, *, settled: bool = False
    ) -> Money | None:
        """Return the largest call that would be admitted now; None where nothing limits it. With
        `settled` calls in flight hold nothing: no run can spend more than that in this period."""
        rooms = [
            max(0, bound.rule.cap - (bound.counter.settled if settled else bound.counter.used))
            for bound in self._bounds(scope_id, now, rules)
            if bound.rule.cap is not None and bound.rule.on_exceed in BINDING
        ]
        return Money(min(rooms)) if rooms else None

    def counter(self, owner: ScopeId, period: Period | None, now: int) -> Counter:
        """Return the counter of an owner in the present window of a period; without a period, of
        all time."""
        scope = self.by_id.get(owner) if period is None else None
        return scope or self.counters.get(counter_id(owner, period, now)) or Counter()

    def settled_in(self, name: str) -> int:
        """Return what is settled in the counter of this name."""
        number, _, owner = name.partition(" ")
        scope = self.by_id.get(ScopeId(owner)) if number == "total" else None
        return (scope or self.counters.get(name) or Counter()).settled

    def counters_of(self, scope_id: ScopeId, counted_in: Iterable[str]) -> tuple[str, ...]:
        """Return the names of all counters in which a reservation of a scope counts."""
        totals = [counter_id(owner, None, 0) for owner in self._reach(scope_id, NO_RULES)[0]]
        return tuple(dict.fromkeys([*totals, *counted_in]))

    def counted_in(self, scope_id: ScopeId, now: int, rules: ScopeRules = NO_RULES) -> list[str]:
        """Return the counters of windows that a call counts in."""
        chain, others = self._reach(scope_id, rules)
        owners = [
            owner
            for owner, scope in chain.items()
            if scope.rule.has_windows or (owner in rules and rules[owner].has_windows)
        ]
        owners += [owner for owner, _ in others]
        return [name for owner in dict.fromkeys(owners) for name in counter_ids(owner, now)]

    def _around(self, scope_id: ScopeId | None) -> dict[ScopeId, Scope]:
        """Return the scope and those around it, outward."""
        around: dict[ScopeId, Scope] = {}
        while scope_id is not None:
            around[scope_id] = scope = self.by_id[scope_id]
            scope_id = scope.parent
        return around

    def _reach(self, scope_id: ScopeId, rules: ScopeRules) -> _Reach:
        """Return the scopes that a call draws on, outward up to the nearest part, and the rules on
        it that are not of a scope, by owner: constraints, and limits. A call in a part was held
        against the limits when the part was opened."""
        chain = around = self._around(scope_id)
        part = next((owner for owner, scope in around.items() if scope.is_part), None)
        others = [(owner, (rule,)) for owner, rule in rules.items() if owner not in around]
        if part is not None:
            owners = [*around]
            chain = {owner: around[owner] for owner in owners[: owners.index(part) + 1]}
        elif self.limits:
            above = {EVERYBODY, *around, *rules}
            others += [(owner, one.rules) for owner, one in self.limits.items() if owner in above]
        return chain, others

    def _bounds(self, scope_id: ScopeId, now: int, rules: ScopeRules) -> list[CapCheck]:
        chain, others = self._reach(scope_id, rules)
        pairs = [(owner, rule) for owner, many in others for rule in many]
        pairs += [(owner, scope.rule_for(rules.get(owner))) for owner, scope in chain.items()]
        return [
            CapCheck(owner, rule, self.counter(owner, rule.period, now)) for owner, rule in pairs
        ]

    def caps_on(self, scope_id: ScopeId, now: int, rules: ScopeRules) -> dict[str, Money]:
        """Return the caps that a call has to fit, by counter."""
        caps: dict[str, Money] = {}
        for owner, rule, _ in self._bounds(scope_id, now, rules):
            if rule.cap is not None and rule.on_exceed in BINDING:
                name = counter_id(owner, rule.period, now)
                caps[name] = min(rule.cap, caps.get(name, rule.cap))
        return caps

    def admit(
        self,
        scope_id: ScopeId,
        amount: int,
        now: int,
        rules: ScopeRules = NO_RULES,
        *,
        counted_in: Iterable[str] = (),
    ) -> ScopeAdmission:
        """Reserve an amount in every scope that a call draws on and in these counters, or change
        nothing and say whose cap refuses. `rules` are those of the client that makes the call."""
        # Every bound is asked before anything is changed: a reservation that one of them refuses
        # must not stay behind in the others.
        chain, _ = self._reach(scope_id, NO_RULES)
        for here, scope in chain.items():
            if not scope.is_open:
                return ScopeClosed(here)
        refusals: list[InsufficientBudget | NeedsHigherCap] = []
        notices: tuple[Notice, ...] = ()
        for bound in self._bounds(scope_id, now, rules):
            if not bound.fits(amount):
                if (refusal := bound.short(amount, now)) is not None:
                    refusals.append(refusal)
                notices += bound.crossing(amount)
        if refusals:
            return max(refusals, key=_weight)
        for scope in chain.values():
            scope.move(-amount, 0)
        self._count(counted_in, -amount, 0)
        return Reserved(notices) if notices else _RESERVED

    def _count(self, names: Iterable[str], released: int, charged: int) -> None:
        for name in names:
            self.counters.setdefault(name, Counter()).move(released, charged)

    def move(
        self,
        scope_id: ScopeId,
        released: int,
        charged: int,
        counted_in: Sequence[str] = (),
        rules: ScopeRules = NO_RULES,
    ) -> tuple[Notice, ...]:
        """Let go of `released` and charge `charged`, here, in every scope around and in these
        counters, which are those of the reservation.

        A part passes on to its parent what it no longer needs held, which keeps the parent's sum.
        """
        around = self._around(scope_id)
        pairs = [(owner, rule) for owner, rule in rules.items() if owner not in around]
        notices: tuple[Notice, ...] = ()
        for here, scope in around.items():
            rule = scope.rule_for(rules.get(here))
            if rule.period is not None:
                pairs.append((here, rule))
            elif charged > released or rule.alert_percents:
                notices += CapCheck(here, rule, scope).settling(released, charged)
            scope.move(released, charged)
            if scope.is_part:
                notices += self._settle(counted_in, pairs, released, charged)
                pairs = []
                counted_in = scope.counted_in
                still_held = scope.must_hold()
                released = scope.held - still_held
                scope.held = still_held
        return notices + self._settle(counted_in, pairs, released, charged)

    def _settle(
        self,
        counted_in: Sequence[str],
        pairs: Iterable[tuple[ScopeId, ScopeRule]],
        released: int,
        charged: int,
    ) -> tuple[Notice, ...]:
        """Settle in these counters, and return the notices of these rules."""
        notices: tuple[Notice, ...] = ()
        for owner, rule in pairs:
            for name in counted_in:
                if _is_of(name, owner, rule.period):
                    notices += CapCheck(owner, rule, self.counters.get(name) or Counter()).settling(
                        released, charged
                    )
        self._count(counted_in, released, charged)
        return notices


def _is_of(name: str, owner: ScopeId, period: Period | None) -> bool:
    number, _, of = name.partition(" ")
    return of == owner and len(number) == _LENGTHS[period]


def _check_part(rule: ScopeRule, parent: ScopeId | None) -> None:
    sound = rule.cap is not None and rule.period is None and parent is not None
    if not sound or rule.on_exceed not in BINDING:
        raise InvalidRuleError(
            "a part has a parent, a cap, no period, and blocks or asks when it is exceeded, "
            "because its parent sets exactly its cap aside"
        )
