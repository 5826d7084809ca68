"""Periods: when a charge stops counting, to the millisecond."""

from datetime import UTC, datetime

import pytest

from vegakit.errors import InvalidRuleError
from vegakit.ids import EffectKey, HolderId, ScopeId
from vegakit.money import Money, Period
from vegakit.policy import Budget, InsufficientBudget, Reserved, ScopeRule, SpendWindow, WindowRule
from vegakit.policy.scopes import Scope, ThresholdCrossed, windows_of

HOUR, DAY = 3_600_000, 86_400_000


def ms(*moment: int) -> int:
    return int(datetime(*moment, tzinfo=UTC).timestamp()) * 1000  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("period", "at", "last", "first"),
    [
        (Period.HOUR, ms(2026, 3, 1, 5, 30), ms(2026, 3, 1, 6) - 1, ms(2026, 3, 1, 6)),
        (Period.DAY, ms(2026, 3, 1, 5, 30), ms(2026, 3, 2) - 1, ms(2026, 3, 2)),
        (Period.MONTH, ms(2026, 2, 28, 5), ms(2026, 3, 1) - 1, ms(2026, 3, 1)),
        (Period.MONTH, ms(2026, 12, 31, 23), ms(2027, 1, 1) - 1, ms(2027, 1, 1)),
        (Period.MONTH, ms(2028, 2, 1), ms(2028, 3, 1) - 1, ms(2028, 3, 1)),
    ],
)
def test_a_calendar_window_ends_with_its_period(
    period: Period, at: int, last: int, first: int
) -> None:
    """A charge counts to the last millisecond and not in the next period."""
    window = SpendWindow(WindowRule(period))
    assert window.roll(at) == 0
    assert window.add(7, at) == 7
    assert window.roll(last) == 0
    assert window.roll(first) == 7
    assert window.roll(first + 1) == 0


@pytest.mark.parametrize(("period", "length"), [(Period.HOUR, HOUR), (Period.DAY, DAY)])
def test_a_rolling_window_lets_go_a_slice_late_never_early(period: Period, length: int) -> None:
    """A charge counts for a whole period at least, and for a sixtieth more at most."""
    window = SpendWindow(WindowRule(period, rolling=True))
    at = 10 * length + 1
    window.roll(at)
    window.add(7, at)
    assert window.roll(at + length) == 0
    assert window.roll(10 * length + length + length // 60 - 1) == 0
    assert window.roll(10 * length + length + length // 60) == 7


def test_a_rolling_window_lets_go_slice_by_slice() -> None:
    """Older charges leave first."""
    window = SpendWindow(WindowRule(Period.HOUR, rolling=True))
    for minute in range(3):
        window.roll(minute * 60_000)
        window.add(1 << minute, minute * 60_000)
    assert window.roll(61 * 60_000 - 1) == 0
    assert window.roll(61 * 60_000) == 1
    assert window.roll(63 * 60_000) == 2 + 4


def test_a_correction_counts_while_its_charge_does() -> None:
    """Money that comes back for yesterday's call does not enlarge today's allowance."""
    window = SpendWindow(WindowRule(Period.DAY))
    window.roll(DAY)
    window.add(10, DAY)
    assert window.add(-4, DAY) == -4
    window.roll(2 * DAY)
    assert window.add(-6, DAY) == 0
    assert window.roll(3 * DAY) == 0


@pytest.mark.parametrize("rolling", [False, True])
def test_money_that_goes_out_always_counts(rolling: bool) -> None:
    """Even when the clock was set back, or a bill comes late: it counts from now on."""
    window = SpendWindow(WindowRule(Period.DAY, rolling=rolling))
    window.roll(5 * DAY)
    assert window.add(3, DAY) == 3
    assert window.roll(DAY) == 0
    assert window.roll(6 * DAY) == (0 if rolling else 3)
    assert window.roll(7 * DAY) == (3 if rolling else 0)


def test_a_budget_with_a_period_admits_again_in_the_next_one() -> None:
    """The refusal names the instant at which it is worth asking again."""
    budget, scope, me = Budget(), ScopeId("day"), HolderId("me")
    budget.renew(me, 10 * DAY)
    budget.scopes.open(scope, ScopeRule(Money(100), window=WindowRule(Period.DAY)), 0)
    budget.reserve(EffectKey("a"), 1, scope, Money(80), me, 5)
    budget.mark_sent(EffectKey("a"), 1)
    budget.answer(EffectKey("a"), 1, Money(80), 6)
    refused = budget.reserve(EffectKey("b"), 1, scope, Money(21), me, DAY - 1)
    assert isinstance(refused, InsufficientBudget)
    assert (refused.refills_ms, refused.hopeless) == (DAY, True)
    assert budget.scopes.room(scope, DAY) == 100
    assert budget.reserve(EffectKey("b"), 1, scope, Money(100), me, DAY) == Reserved()
    assert budget.scopes.by_id[scope].spent == 80


def test_what_is_reserved_counts_in_the_next_window_too() -> None:
    """A call that spans midnight is settled, and counted, in the new day."""
    budget, scope, me = Budget(), ScopeId("day"), HolderId("me")
    budget.renew(me, 10 * DAY)
    budget.scopes.open(scope, ScopeRule(Money(100), window=WindowRule(Period.DAY)), 0)
    budget.reserve(EffectKey("a"), 1, scope, Money(80), me, DAY - 1)
    budget.mark_sent(EffectKey("a"), 1)
    assert isinstance(
        budget.reserve(EffectKey("b"), 1, scope, Money(21), me, DAY), InsufficientBudget
    )
    budget.answer(EffectKey("a"), 1, Money(80), DAY)
    assert budget.scopes.room(scope, DAY) == 20


def test_alerts_are_told_again_in_the_next_window() -> None:
    """Each day has its own half-way mark."""
    budget, scope, me = Budget(), ScopeId("day"), HolderId("me")
    budget.renew(me, 10 * DAY)
    rule = ScopeRule(Money(100), window=WindowRule(Period.DAY), alert_percents=(50, 90))
    budget.scopes.open(scope, rule, 0)
    for day, effect in enumerate((EffectKey("a"), EffectKey("b"))):
        budget.reserve(effect, 1, scope, Money(60), me, day * DAY)
        budget.mark_sent(effect, 1)
        told = budget.answer(effect, 1, Money(60), day * DAY).notices
        assert told == (ThresholdCrossed(scope, 50),)


def test_a_rolling_alert_is_told_again_only_after_falling_below() -> None:
    """Sixty of a hundred stay in the window when ten leave it: half-way is not news."""
    budget, scope, me = Budget(), ScopeId("hour"), HolderId("me")
    budget.renew(me, 10 * DAY)
    rolling = WindowRule(Period.HOUR, rolling=True)
    budget.scopes.open(scope, ScopeRule(Money(100), window=rolling, alert_percents=(50,)), 0)
    told: list[int] = []
    for minute, amount in ((0, 10), (30, 60), (61, 1), (91, 60)):
        effect = EffectKey(f"at {minute}")
        budget.reserve(effect, 1, scope, Money(amount), me, minute * 60_000)
        budget.mark_sent(effect, 1)
        if budget.answer(effect, 1, Money(amount), minute * 60_000).notices:
            told.append(minute)
    assert told == [30, 91]


def test_no_period_resets_another() -> None:
    """A scope counts by each period of the calendar at once, whichever is declared."""
    scope = Scope(ScopeRule(Money(9)), Money(9))
    scope.declare(ScopeRule(Money(9), window=WindowRule(Period.MONTH)), 0)
    for declared, now in ((Period.HOUR, 0), (Period.DAY, HOUR), (Period.MONTH, DAY)):
        scope.declare(ScopeRule(Money(9), window=WindowRule(declared)), now)
        scope.move(0, 1, now, now)
    assert [scope.settled_by(WindowRule(period)) for period in Period] == [1, 1, 3]
    scope.declare(ScopeRule(Money(9)), DAY)
    assert (scope.settled, scope.settled_by(WindowRule(Period.MONTH))) == (3, 3)


def test_a_rolling_window_that_comes_later_begins_with_what_lies_in_it() -> None:
    """What was charged on the same day, and not what an earlier day of the month was charged."""
    scope = Scope(ScopeRule(Money(9), window=WindowRule(Period.MONTH)), Money(9))
    rolling = WindowRule(Period.DAY, rolling=True)
    scope.window = windows_of(WindowRule(Period.MONTH))
    scope.move(0, 4, 0, 0)
    scope.move(0, 2, 2 * DAY, 2 * DAY)
    scope.declare(ScopeRule(Money(9), window=rolling), 2 * DAY + 1)
    assert scope.settled == 2


def test_a_period_needs_a_cap_and_is_not_for_parts() -> None:
    """A part is a firm amount inside its parent's period."""
    with pytest.raises(InvalidRuleError, match="need a cap"):
        ScopeRule(None, window=WindowRule(Period.DAY))
    budget = Budget()
    budget.scopes.open(ScopeId("root"), ScopeRule(Money(9)), 0)
    daily = ScopeRule(Money(5), window=WindowRule(Period.DAY))
    with pytest.raises(InvalidRuleError, match="no period"):
        budget.scopes.open(ScopeId("part"), daily, 0, parent=ScopeId("root"), part=True)
