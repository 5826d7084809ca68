"""Budget scopes: caps on spending that nest, and the windows of time they count in (pure).

A scope refuses, asks for a higher cap, warns or allows when a call does not fit. A part is a
child scope whose cap is set aside in its parent, so its calls never ask the parent again.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import TypeAlias

from msgspec import Struct, field, structs

from vegakit.errors import BugError, InvalidMoneyError, InvalidRuleError
from vegakit.ids import HolderId, ScopeId
from vegakit.money import Money, Period

# A window counts what was spent in the current hour, day or month.
#
# | kind     | a charge made at t counts until                                             |
# |----------|-----------------------------------------------------------------------------|
# | calendar | the hour, day or month of t (UTC) has ended                                 |
# | rolling  | one period after t, rounded up to a sixtieth of the period: never too early |
#
# A window never moves backwards, so a clock that is set back opens nothing. Money that goes out
# always counts; money that comes back counts only while the charge it corrects still does.


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LENGTH_MS = {Period.HOUR: 3_600_000, Period.DAY: 86_400_000, Period.MONTH: 30 * 86_400_000}
_SLICES = 60


class WindowRule(Struct, frozen=True):
    """`rolling` months are 30 days."""

    period: Period
    rolling: bool = False


class SpendWindow(Struct, omit_defaults=True):
    """A window counts what was spent in the present period, or in the last one if it rolls."""

    rule: WindowRule
    starts_ms: int = 0
    ends_ms: int = 0
    slices: dict[int, int] = field(default_factory=dict)
    """Spent by slice number, oldest first; a calendar window has one slice, its start."""
    others: list["SpendWindow"] = field(default_factory=list["SpendWindow"])
    """The windows of other periods, in which the same money counts."""

    @property
    def total(self) -> int:
        """Return what counts now."""
        return sum(self.slices.values())

    def roll(self, now: int) -> int:
        """Move on to `now` and return how much no longer counts."""
        if now < self.ends_ms:
            return 0
        gone = 0
        self.starts_ms, self.ends_ms = self._bounds(now)
        for number in [n for n in self.slices if self._end_of(n) <= now]:
            gone += self.slices.pop(number)
        return gone

    def add(self, amount: int, at: int) -> int:
        """Return how much of it counts: all, unless it gives back a charge that has left."""
        if at < self.starts_ms:
            if amount < 0:
                return 0
            at = self.ends_ms - 1
        number = at // self._slice_ms() if self.rule.rolling else self.starts_ms
        self.slices[number] = self.slices.get(number, 0) + amount
        return amount

    def _bounds(self, now: int) -> tuple[int, int]:
        if self.rule.rolling:
            width = self._slice_ms()
            return (now // width - _SLICES) * width, (now // width + 1) * width
        if self.rule.period is Period.MONTH:
            return _month_of(now)
        length = _LENGTH_MS[self.rule.period]
        start = now // length * length
        return start, start + length

    def _end_of(self, number: int) -> int:
        """Return when a slice stops counting."""
        if self.rule.rolling:
            return (number + 1 + _SLICES) * self._slice_ms()
        return self.starts_ms if number < self.starts_ms else self.ends_ms

    def _slice_ms(self) -> int:
        return _LENGTH_MS[self.rule.period] // _SLICES


def windows_of(rule: WindowRule) -> SpendWindow:
    """Return a window, and beside it those of the other periods of the calendar."""
    calendar = (WindowRule(period) for period in Period)
    return SpendWindow(rule, others=[SpendWindow(other) for other in calendar if other != rule])


def _month_of(now: int) -> tuple[int, int]:
    day = _EPOCH + timedelta(milliseconds=now)
    start = day.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    after = (start + timedelta(days=32)).replace(day=1)
    return _ms(start), _ms(after)


def _ms(instant: datetime) -> int:
    return (instant - _EPOCH) // timedelta(milliseconds=1)


# A budget scope: one cap, what counts against it, and the answers it gives.
#
# | on_exceed | a call that does not fit                                       |
# |-----------|----------------------------------------------------------------|
# | block     | Short: refused; `hopeless` says that waiting cannot help       |
# | ask       | MustAsk: refused until somebody raises the cap                 |
# | warn      | admitted; WentOver is reported when the cap is crossed         |
# | allow     | admitted                                                       |
#
# In a scope with a period, settled is what was charged in the current window; what is reserved
# counts in every window until it is settled. Such a scope counts by the hour, the day and the month
# at once, beside all it has ever spent: clients that share it may have different periods, and none
# resets the window of another.


class OnExceed(StrEnum):
    """The ways to treat a call above a cap."""

    BLOCK = "block"
    ASK = "ask"
    WARN = "warn"
    ALLOW = "allow"


class ScopeRule(Struct, frozen=True):
    """`cap` None limits nothing and only counts; `alert_percents` report what was settled. What is
    spent in the scope counts in the root scope `also`, too, which may refuse it: so the calls of an
    agent draw on their run and on what all runs of the agent share."""

    cap: Money | None
    on_exceed: OnExceed = OnExceed.BLOCK
    window: WindowRule | None = None
    alert_percents: tuple[int, ...] = ()
    also: ScopeId | None = None

    def __post_init__(self) -> None:
        if self.cap is not None:
            check_amount(self.cap)
        if self.cap is None and (self.window or self.alert_percents):
            raise InvalidRuleError("a period and alerts need a cap; give the scope an amount")
        if list(self.alert_percents) != sorted({*self.alert_percents} & {*range(1, 101)}):
            raise InvalidRuleError(
                f"alerts are rising percentages from 1 to 100; got {self.alert_percents}"
            )


ScopeRules: TypeAlias = Mapping[ScopeId, ScopeRule]
"""The rules that a client brings along with a call, by scope."""
NO_RULES: ScopeRules = MappingProxyType({})


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
    refills_ms: int | None = None


class NeedsHigherCap(Struct, frozen=True, tag=True):
    """The call waits until a person raises the cap. `hopeless`: not even when everything in flight
    turns out to be free."""

    scope: ScopeId
    cap: Money
    missing: Money
    hopeless: bool = True


class ScopeClosed(Struct, frozen=True, tag=True):
    """The scope is closed."""

    scope: ScopeId


ScopeAdmission: TypeAlias = Reserved | InsufficientBudget | NeedsHigherCap | ScopeClosed

BINDING = {OnExceed.BLOCK, OnExceed.ASK}
_CROSSING = {OnExceed.BLOCK: CapOverrun, OnExceed.ASK: CapOverrun, OnExceed.WARN: CapExceeded}


class Scope(Struct):
    """A scope is one budget in the tree: its cap, what is spent and set aside in it, and the parts
    cut from it."""

    rule: ScopeRule
    cap: Money | None
    parent: ScopeId | None = None
    is_part: bool = False
    is_open: bool = True
    settled: int = 0
    reserved: int = 0
    held: int = 0
    """Of a part: what its parent still sets aside for it."""
    spent: int = 0
    window: SpendWindow | None = None
    alerted_percent: int = 0
    children: int = 0
    claims: int = 0
    holder: HolderId | None = None
    """Of a part: whose it is; it is closed when that lease ends."""

    @property
    def used(self) -> int:
        """Return what is settled and reserved."""
        return self.settled + self.reserved

    def used_by(self, rule: ScopeRule) -> int:
        """Return what is settled, as this rule counts it, and reserved."""
        return self.settled_by(rule.window) + self.reserved

    def declare(self, rule: ScopeRule, now: int) -> None:
        """Take another rule, and count in its window from now on; what was spent stays.

        The first windows begin with all that was ever spent, since nothing says when that was; a
        rolling one that is added later with what is known to lie in it.
        """
        self.roll(now)
        if rule.window is not None and self.window is None:
            self.window = windows_of(rule.window)
            self.roll(now)
            for window in self._windows() if self.spent else ():
                window.add(self.spent, now)
        elif rule.window is not None and rule.window not in {w.rule for w in self._windows()}:
            fresh = SpendWindow(rule.window)
            fresh.roll(now)
            fresh.add(max(w.total for w in self._windows() if w.starts_ms >= fresh.starts_ms), now)
            self._windows()[0].others.append(fresh)
        self.rule = rule
        self.cap = rule.cap
        self.settled = self.settled_by(rule.window)

    def settled_by(self, window: WindowRule | None) -> int:
        """Return what was settled in the current window of a period; without one, ever."""
        if window is None:
            return self.spent
        return next((one.total for one in self._windows() if one.rule == window), self.spent)

    def _windows(self) -> tuple[SpendWindow, ...]:
        return () if self.window is None else (self.window, *self.window.others)

    def roll(self, now: int) -> None:
        """Let a new period begin if it is time; what was spent before no longer counts."""
        if self.window is None:
            return
        for window in self._windows():
            window.roll(now)
        settled = self.settled_by(self.rule.window)
        if settled != self.settled:
            self.settled = settled
            # Alerts are due anew in each period, but not those that are still crossed: a rolling
            # window would repeat them at every step.
            self.alerted_percent = 0
            self.alerted_percent = max(self._due_alerts(), default=0)

    def rule_for(self, brought: ScopeRule | None) -> ScopeRule:
        """Return the rule that a call has to meet: the one that its client brings, or else that of
        the scope. A part admits by its own cap only, since no more is set aside for it."""
        if brought is not None and not self.is_part:
            return brought
        return self.rule if self.rule.cap == self.cap else structs.replace(self.rule, cap=self.cap)

    def fits(self, amount: int, now: int, rule: ScopeRule) -> bool:
        """Return whether an amount fits under the cap of a rule now."""
        if self.window is not None:
            self.roll(now)
        return rule.cap is None or self.used_by(rule) + amount <= rule.cap

    def short(
        self, scope_id: ScopeId, amount: int, rule: ScopeRule
    ) -> InsufficientBudget | NeedsHigherCap | None:
        """Return the refusal of an amount that does not fit, if the rule refuses at all."""
        if rule.cap is None or rule.on_exceed not in BINDING:
            return None
        settled = self.settled_by(rule.window)
        hopeless = settled + amount > rule.cap
        if rule.on_exceed is OnExceed.ASK:
            missing = Money(self.used_by(rule) + amount - rule.cap)
            return NeedsHigherCap(scope_id, rule.cap, missing, hopeless)
        return InsufficientBudget(
            scope_id,
            rule.cap,
            settled=Money(settled),
            reserved=Money(self.reserved),
            wanted=Money(amount),
            hopeless=hopeless,
            refills_ms=next((w.ends_ms for w in self._windows() if w.rule == rule.window), None),
        )

    def move(self, released: int, charged: int, at: int, now: int) -> None:
        """Free what was reserved and charge what was billed, in the period of `at`."""
        self.reserved -= released
        self.spent += charged
        self.roll(now)
        for window in self._windows():
            window.add(charged, at)
        self.settled = self.settled_by(self.rule.window)

    def charge(
        self, scope_id: ScopeId, released: int, charged: int, at: int, now: int
    ) -> tuple[Notice, ...]:
        """Move the money as `move` does, and return what is to be told of it."""
        notices: tuple[Notice, ...] = ()
        if charged > released:
            self.roll(now)
            rule = self.rule_for(None)
            notices = self.crossing(scope_id, charged - released, rule)
        self.move(released, charged, at, now)
        return notices + self.alerts(scope_id) if self.rule.alert_percents else notices

    def must_hold(self) -> int:
        """Return what a part needs set aside above: all it may still spend, or once closed what is
        in flight."""
        if not self.is_open or self.cap is None:
            return self.reserved
        return max(self.cap - self.settled, self.reserved)

    def crossing(self, scope_id: ScopeId, more: int, rule: ScopeRule) -> tuple[Notice, ...]:
        """Return a notice when this much more is about to cross the cap of a rule, none while the
        scope is over it."""
        notice, used = _CROSSING.get(rule.on_exceed), self.used_by(rule)
        if notice is None or rule.cap is None or not used <= rule.cap < used + more:
            return ()
        return (notice(scope_id, Money(used + more - rule.cap)),)

    def alerts(self, scope_id: ScopeId) -> tuple[Notice, ...]:
        """Return the thresholds crossed since the last call, and remember them."""
        due = self._due_alerts()
        self.alerted_percent = max(due, default=self.alerted_percent)
        return tuple(ThresholdCrossed(scope_id, percent) for percent in due)

    def _due_alerts(self) -> list[int]:
        return [
            percent
            for percent in self.rule.alert_percents
            if percent > self.alerted_percent and self.settled * 100 >= percent * (self.cap or 0)
        ]


def check_amount(amount: int) -> None:
    """Raise `InvalidMoneyError` unless the amount is a whole number, not negative."""
    # A float would drift, a NaN would pass every comparison, and True is an int.
    if type(amount) is not int or amount < 0:
        raise InvalidMoneyError(
            f"expected a whole number of nano-dollars, not negative; got {amount!r}"
        )


# Budget scopes as a tree, and how money moves through it.
#
# A call must fit every scope around it, at the instant it is admitted:
#
#     settled + reserved + worst case  <=  cap
#
# A *part* is a child whose cap was set aside in its parent when it opened: calls inside it are
# admitted by the part alone, and what it leaves unspent goes back when it closes. Any other child
# is only a limit: calls inside it draw on every scope around it.
#
#     root $10          reserved  5 + 2      the part, and the call below the limit
#     ├── part $5       reserved  3          its calls do not ask the root again
#     └── limit $4      reserved  2          its calls are reserved here and in the root
#
# A scope may name one root more, `also`: what counts in the scope counts there, in the same step.
# Two roots are then moved by one claim, so that no kill can leave one of them behind.
#
# A blocking refusal anywhere outweighs a scope that would ask: nobody is asked in vain.
#
# Clients that share a scope may disagree about its cap, its period and on_exceed. Each call brings
# the rules of its own client and is held against these; the rule in the scope is that of the last
# client that declared it, and admits only calls that bring none. So no client raises or lowers the
# cap of another, though each may use up the room of all.


_RESERVED = Reserved()


class ScopeTree(Struct):
    """The tree of scopes. A call draws on its scope and on those around it, up to the nearest part,
    whose money was set aside above when it was opened."""

    by_id: dict[ScopeId, Scope] = field(default_factory=dict)

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
        """Open a scope. A part is admitted like a call; any other scope always opens."""
        if scope_id in self.by_id:
            raise BugError(f"budget scope {scope_id!r} is already open")
        self._check_also(rule)
        if part:
            _check_part(rule, parent)
        elif parent is not None and not self.by_id[parent].is_open:
            return ScopeClosed(parent)
        window = windows_of(rule.window) if rule.window else None
        scope = Scope(rule, rule.cap, parent, part, window=window, holder=holder)
        verdict: ScopeAdmission = _RESERVED
        if part and parent is not None and rule.cap is not None:
            verdict = self.admit(parent, rule.cap, now)
            scope.held = rule.cap
        if isinstance(verdict, Reserved):
            self.by_id[scope_id] = scope
            if parent is not None:
                self.by_id[parent].children += 1
        return verdict

    def ensure(
        self,
        scope_id: ScopeId,
        rule: ScopeRule,
        now: int,
        *,
        parent: ScopeId | None = None,
        part: bool = False,
        holder: HolderId | None = None,
    ) -> ScopeAdmission:
        """Open a scope, or declare it anew if it is there; a part is opened once."""
        scope = self.by_id.get(scope_id)
        if scope is None or part:
            return self.open(scope_id, rule, now, parent=parent, part=part, holder=holder)
        if scope.is_part or scope.parent != parent:
            raise BugError(
                f"budget scope {scope_id!r} stands in {scope.parent!r}"
                f"{' as a part' if scope.is_part else ''} and was declared in {parent!r}"
            )
        if scope.rule.also != rule.also:
            raise BugError(
                f"budget scope {scope_id!r} counts in {scope.rule.also!r}, too, and was declared "
                f"to count in {rule.also!r}"
            )
        if not scope.is_open:
            return ScopeClosed(scope_id)
        scope.declare(rule, now)
        return _RESERVED

    def _check_also(self, rule: ScopeRule) -> None:
        if rule.also is None:
            return
        other = self.by_id.get(rule.also)
        if other is None or other.parent is not None or other.rule.also is not None:
            raise BugError(f"{rule.also!r} is no open root, so nothing can count there, too")

    def close(self, scope_id: ScopeId, now: int) -> None:
        """Admit nothing more, here and below; an unspent part goes back to its parent."""
        scope = self.by_id[scope_id]
        if scope.children:
            for child_id in [i for i, s in self.by_id.items() if s.parent == scope_id]:
                self.close(child_id, now)
        if scope.is_open:
            scope.is_open = False
            # Nothing is charged: the move passes on what a closed part no longer needs held. Calls
            # in flight keep their share until they are settled.
            self.move(scope_id, 0, 0, now, now)

    def close_parts_of(self, holders: set[HolderId], now: int) -> None:
        """Close every part whose holder is gone."""
        for scope_id in [i for i, scope in self.by_id.items() if scope.holder in holders]:
            self.close(scope_id, now)

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

    def set_cap(self, scope_id: ScopeId, cap: Money, now: int) -> ScopeAdmission:
        """Raise or lower a cap; a part that grows takes the difference from its parent."""
        check_amount(cap)
        scope = self.by_id[scope_id]
        if scope.is_part and scope.is_open and scope.parent is not None:
            more = max(cap - scope.settled, scope.reserved) - scope.held
            if more > 0:
                verdict = self.admit(scope.parent, more, now)
                if not isinstance(verdict, Reserved):
                    return verdict
                scope.held += more
        scope.cap = cap
        self.move(scope_id, 0, 0, now, now)
        return _RESERVED

    def room(self, scope_id: ScopeId, now: int, rules: ScopeRules = NO_RULES) -> Money | None:
        """Return the largest call that would be admitted now; None where nothing limits it."""
        room: int | None = None
        for here, scope in self._admitting(scope_id):
            scope.roll(now)
            rule = scope.rule_for(rules.get(here))
            if rule.cap is not None and rule.on_exceed in BINDING:
                left = max(0, rule.cap - scope.used_by(rule))
                room = left if room is None else min(room, left)
        return None if room is None else Money(room)

    def _admitting(self, scope_id: ScopeId | None) -> list[tuple[ScopeId, Scope]]:
        """Return the scopes that a call in this one draws on: outward up to the nearest part."""
        chain: list[tuple[ScopeId, Scope]] = []
        while scope_id is not None:
            scope = self.by_id[scope_id]
            chain.append((scope_id, scope))
            if (also := scope.rule.also) is not None:
                chain.append((also, self.by_id[also]))
            scope_id = None if scope.is_part else scope.parent
        return chain

    def admit(
        self, scope_id: ScopeId, amount: int, now: int, rules: ScopeRules = NO_RULES
    ) -> ScopeAdmission:
        """Reserve an amount in every scope that a call draws on, or change nothing and say which
        one refuses. `rules` are those of the client that makes the call."""
        # Every scope is asked before any is changed: a reservation that one of them refuses must
        # not stay behind in the others.
        chain = self._admitting(scope_id)
        ask: NeedsHigherCap | None = None
        notices: tuple[Notice, ...] = ()
        for here, scope in chain:
            if not scope.is_open:
                return ScopeClosed(here)
            rule = scope.rule_for(rules.get(here))
            if not scope.fits(amount, now, rule):
                refusal = scope.short(here, amount, rule)
                if isinstance(refusal, InsufficientBudget):
                    return refusal
                ask = ask or refusal
                notices += scope.crossing(here, amount, rule)
        if ask is not None:
            return ask
        for _, scope in chain:
            scope.reserved += amount
        return Reserved(notices) if notices else _RESERVED

    def move(
        self, scope_id: ScopeId, released: int, charged: int, at: int, now: int
    ) -> tuple[Notice, ...]:
        """Let go of `released` and charge `charged`, here and in every scope around.

        A part passes on to its parent what it no longer needs held, which keeps the parent's sum.
        """
        notices: tuple[Notice, ...] = ()
        outward: ScopeId | None = scope_id
        while outward is not None:
            scope = self.by_id[outward]
            notices += scope.charge(outward, released, charged, at, now)
            if (also := scope.rule.also) is not None:
                notices += self.by_id[also].charge(also, released, charged, at, now)
            if scope.is_part:
                still_held = scope.must_hold()
                released = scope.held - still_held
                scope.held = still_held
            outward = scope.parent
        return notices


def _check_part(rule: ScopeRule, parent: ScopeId | None) -> None:
    sound = rule.cap is not None and rule.window is None and parent is not None and not rule.also
    if not sound or rule.on_exceed not in BINDING:
        raise InvalidRuleError(
            "a part has a parent, a cap, no period, and blocks or asks when it is exceeded, "
            "because its parent sets exactly its cap aside"
        )
