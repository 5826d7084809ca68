"""A budget scope: one cap, what counts against it, and the answers it gives.

| on_exceed | a call that does not fit                                       |
|-----------|----------------------------------------------------------------|
| block     | Short: refused; `hopeless` says that waiting cannot help       |
| ask       | MustAsk: refused until somebody raises the cap                 |
| warn      | admitted; WentOver is reported when the cap is crossed         |
| allow     | admitted                                                       |

In a scope with a period, settled is what was charged in the current window; what is reserved counts
in every window until it is settled.
"""

from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct

from vegakit.errors import InvalidMoneyError, InvalidRuleError
from vegakit.ids import HolderId, ScopeId
from vegakit.money import Money
from vegakit.policy.budget.spend_window import SpendWindow, WindowRule

__all__ = [
    "BINDING",
    "MustAsk",
    "Notice",
    "OnExceed",
    "Overran",
    "Reserved",
    "Scope",
    "ScopeAdmission",
    "ScopeClosed",
    "ScopeRule",
    "Short",
    "ThresholdCrossed",
    "WentOver",
    "check_amount",
]


class OnExceed(StrEnum):
    BLOCK = "block"
    ASK = "ask"
    WARN = "warn"
    ALLOW = "allow"


class ScopeRule(Struct, frozen=True):
    """`cap` None limits nothing and only counts; `alert_percents` report what was settled."""

    cap: Money | None
    on_exceed: OnExceed = OnExceed.BLOCK
    window: WindowRule | None = None
    alert_percents: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.cap is not None:
            check_amount(self.cap)
        if self.cap is None and (self.window or self.alert_percents):
            raise InvalidRuleError("a period and alerts need a cap; give the scope an amount")
        if list(self.alert_percents) != sorted({*self.alert_percents} & {*range(1, 101)}):
            raise InvalidRuleError(
                f"alerts are rising percentages from 1 to 100; got {self.alert_percents}"
            )


class WentOver(Struct, frozen=True, tag=True):
    scope: ScopeId
    by: Money


class Overran(Struct, frozen=True, tag=True):
    scope: ScopeId
    by: Money


class ThresholdCrossed(Struct, frozen=True, tag=True):
    scope: ScopeId
    percent: int


Notice: TypeAlias = WentOver | Overran | ThresholdCrossed


class Reserved(Struct, frozen=True, tag=True):
    notices: tuple[Notice, ...] = ()


class Short(Struct, frozen=True, tag=True):
    """`hopeless`: not even when everything in flight turns out to be free, before `refills_ms`."""

    scope: ScopeId
    cap: Money
    settled: Money
    reserved: Money
    wanted: Money
    hopeless: bool
    refills_ms: int | None = None


class MustAsk(Struct, frozen=True, tag=True):
    scope: ScopeId
    cap: Money
    missing: Money


class ScopeClosed(Struct, frozen=True, tag=True):
    scope: ScopeId


ScopeAdmission: TypeAlias = Reserved | Short | MustAsk | ScopeClosed

BINDING = {OnExceed.BLOCK, OnExceed.ASK}
_CROSSING = {OnExceed.BLOCK: Overran, OnExceed.ASK: Overran, OnExceed.WARN: WentOver}


class Scope(Struct):
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
        return self.settled + self.reserved

    def roll(self, now: int) -> None:
        if self.window is not None and (gone := self.window.roll(now)):
            self.settled -= gone
            self.alerted_percent = 0
            self.alerted_percent = max(self._due_alerts(), default=0)

    def fits(self, amount: int, now: int) -> bool:
        if self.window is not None:
            self.roll(now)
        return self.cap is None or self.settled + self.reserved + amount <= self.cap

    def short(self, scope_id: ScopeId, amount: int) -> Short | MustAsk | None:
        """The refusal of an amount that does not fit, if this scope refuses at all."""
        if self.cap is None or self.rule.on_exceed not in BINDING:
            return None
        if self.rule.on_exceed is OnExceed.ASK:
            return MustAsk(scope_id, self.cap, Money(self.used + amount - self.cap))
        return Short(
            scope_id,
            self.cap,
            settled=Money(self.settled),
            reserved=Money(self.reserved),
            wanted=Money(amount),
            hopeless=self.settled + amount > self.cap,
            refills_ms=self.window.ends_ms if self.window else None,
        )

    def move(self, released: int, charged: int, at: int, now: int) -> None:
        self.reserved -= released
        self.spent += charged
        if self.window is None:
            self.settled += charged
        else:
            self.roll(now)
            self.settled += self.window.add(charged, at)

    def must_hold(self) -> int:
        """What a part needs set aside: all it may still spend, or once closed what is in flight."""
        if not self.is_open or self.cap is None:
            return self.reserved
        return max(self.cap - self.settled, self.reserved)

    def crossing(self, scope_id: ScopeId, after: int) -> tuple[Notice, ...]:
        """News only when the cap is about to be crossed, not while the scope stays over it."""
        notice = _CROSSING.get(self.rule.on_exceed)
        if notice is None or self.cap is None or not self.used <= self.cap < after:
            return ()
        return (notice(scope_id, Money(after - self.cap)),)

    def alerts(self, scope_id: ScopeId) -> tuple[Notice, ...]:
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
    """A float would drift and a NaN would pass every comparison."""
    if type(amount) is not int or amount < 0:
        raise InvalidMoneyError(
            f"expected a whole number of nano-dollars, not negative; got {amount!r}"
        )
