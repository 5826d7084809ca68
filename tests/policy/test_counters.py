"""Counters: in which windows a reservation counts, and that each window stands for itself."""

from datetime import UTC, datetime

import pytest

from vegakit.errors import InvalidRuleError
from vegakit.ids import EffectKey, HolderId, ScopeId
from vegakit.money import Money, Period
from vegakit.policy import (
    EVERYBODY,
    Admission,
    Budget,
    CapOverrun,
    Counter,
    InsufficientBudget,
    NeedsHigherCap,
    OnExceed,
    Reserved,
    ScopeRule,
    ThresholdCrossed,
    counter_id,
    counter_ids,
)
from vegakit.policy.scopes import CapExceeded

HOUR, DAY = 3_600_000, 86_400_000
ROOT, TEAM, PART, ME = ScopeId("root"), ScopeId("team"), ScopeId("part"), HolderId("me")
DAILY = ScopeRule(Money(100), period=Period.DAY)
UNLIMITED = ScopeRule(None)


def ms(*moment: int) -> int:
    return int(datetime(*moment, tzinfo=UTC).timestamp()) * 1000  # pyright: ignore[reportArgumentType]


def budget(rule: ScopeRule = UNLIMITED) -> Budget:
    fresh = Budget()
    fresh.scopes.open(ROOT, rule, 0)
    return fresh


def reserve(
    b: Budget, name: str, amount: int, now: int = 0, rules: dict[ScopeId, ScopeRule] | None = None
) -> Admission:
    return b.reserve(EffectKey(name), 1, ROOT, Money(amount), ME, now, rules=rules or {})


def spend(
    b: Budget, name: str, amount: int, now: int = 0, rules: dict[ScopeId, ScopeRule] | None = None
) -> None:
    assert isinstance(reserve(b, name, amount, now, rules), Reserved)
    b.answer(EffectKey(name), 1, Money(amount), now)


@pytest.mark.parametrize(
    ("period", "last", "first"),
    [
        (Period.HOUR, ms(2026, 3, 1, 6) - 1, ms(2026, 3, 1, 6)),
        (Period.DAY, ms(2026, 3, 2) - 1, ms(2026, 3, 2)),
        (Period.MONTH, ms(2026, 3, 1) - 1, ms(2026, 3, 1)),
        (Period.MONTH, ms(2027, 1, 1) - 1, ms(2027, 1, 1)),
        (Period.MONTH, ms(2028, 3, 1) - 1, ms(2028, 3, 1)),
    ],
)
def test_a_window_ends_with_its_period(period: Period, last: int, first: int) -> None:
    """A charge counts to the last millisecond and not in the next period, and the refusal names
    the instant at which it is worth asking again."""
    b = budget(ScopeRule(Money(10), period=period))
    spend(b, "full", 10, last)
    refused = reserve(b, "more", 1, last)
    assert isinstance(refused, InsufficientBudget)
    assert (refused.refills_ms, refused.hopeless) == (first, True)
    assert reserve(b, "next", 10, first) == Reserved()


def test_a_counter_is_named_by_its_window_and_its_owner() -> None:
    """So that people can read it, and a counter of one period is never taken for another."""
    now = ms(2026, 11, 19, 5, 30)
    names = "2026-11-19T05 team", "2026-11-19 team", "2026-11 team", "total team"
    assert counter_ids(TEAM, now) == [*names]
    assert counter_id(ScopeId("a b"), None, now) == "total a b"


def test_a_call_is_settled_in_the_window_of_its_reservation() -> None:
    """The answer that comes after midnight belongs to the day before."""
    b = budget(DAILY)
    reserve(b, "late", 80, DAY - 1)
    assert b.scopes.room(ROOT, DAY) == 100
    b.answer(EffectKey("late"), 1, Money(70), DAY)
    assert (b.scopes.room(ROOT, DAY - 1), b.scopes.room(ROOT, DAY)) == (30, 100)
    assert b.scopes.counter(ROOT, None, DAY).settled == 70


def test_a_late_correction_goes_to_the_window_of_its_reservation() -> None:
    """Money that comes back for the call of yesterday does not enlarge the allowance of today."""
    b = budget(DAILY)
    reserve(b, "lost", 80, 0)
    b.cut_off(EffectKey("lost"), 1, 5)
    b.answer(EffectKey("lost"), 1, Money(10), DAY)
    assert (b.scopes.room(ROOT, 0), b.scopes.room(ROOT, DAY)) == (90, 100)


def test_no_period_resets_another() -> None:
    """Clients whose caps have other periods count in one scope, and each window by itself."""
    b = budget(ScopeRule(Money(90), is_shared=True))
    hourly = ScopeRule(Money(50), period=Period.HOUR)
    monthly = ScopeRule(Money(90), period=Period.MONTH)
    spend(b, "first", 40, 0)
    spend(b, "second", 40, DAY, {ROOT: hourly})
    assert b.scopes.room(ROOT, DAY, {ROOT: hourly}) == 10
    assert b.scopes.room(ROOT, DAY, {ROOT: DAILY}) == 60
    assert b.scopes.room(ROOT, DAY, {ROOT: monthly}) == 10
    assert b.scopes.room(ROOT, DAY) == 10


def test_a_clock_that_was_ahead_leaves_nothing_behind() -> None:
    """Three calls are made 400 days ahead; the clock is right again, and so are the figures."""
    b = budget(DAILY)
    spend(b, "before", 30, 0)
    for number in range(3):
        spend(b, f"ahead {number}", 30, 400 * DAY)
    assert b.scopes.room(ROOT, 0) == 70
    assert b.scopes.room(ROOT, -400 * DAY) == 100


def test_the_caps_of_two_clients_on_one_owner_do_not_mix() -> None:
    """Each is held against its own, in the sum of both."""
    b = budget()
    small, large = ({TEAM: ScopeRule(Money(cap), period=Period.DAY)} for cap in (30, 60))
    spend(b, "large", 40, 0, large)
    assert isinstance(reserve(b, "small", 1, 0, small), InsufficientBudget)
    spend(b, "more", 20, 0, large)
    assert isinstance(reserve(b, "too much", 1, 0, large), InsufficientBudget)


def test_who_warns_warns_for_itself() -> None:
    """And of its own cap; another client is refused all the same."""
    b = budget()
    warns = {TEAM: ScopeRule(Money(10), OnExceed.WARN, Period.DAY)}
    assert reserve(b, "warned", 30, 0, warns) == Reserved((CapExceeded(TEAM, Money(20)),))
    assert isinstance(reserve(b, "refused", 80, 0, {TEAM: DAILY}), InsufficientBudget)
    asks = {TEAM: ScopeRule(Money(10), OnExceed.ASK, Period.DAY)}
    assert reserve(b, "asked", 5, 0, asks) == NeedsHigherCap(
        TEAM, Money(10), Money(25), hopeless=False, period=Period.DAY
    )


def test_a_bill_is_told_to_the_client_whose_cap_it_crosses() -> None:
    """By the rules that it brings along with the bill."""
    b = budget()
    rules = {TEAM: ScopeRule(Money(100), period=Period.DAY, alert_percents=(50,))}
    assert reserve(b, "call", 40, 0, rules) == Reserved()
    told = b.answer(EffectKey("call"), 1, Money(130), DAY, rules).notices
    assert told == (CapOverrun(TEAM, Money(30)), ThresholdCrossed(TEAM, 50))


def test_alerts_are_told_again_in_the_next_window() -> None:
    """Each day has its own half-way mark."""
    b = budget(ScopeRule(Money(100), period=Period.DAY, alert_percents=(50, 90)))
    for day in range(2):
        name = EffectKey(str(day))
        reserve(b, name, 60, day * DAY)
        assert b.answer(name, 1, Money(60), day * DAY).notices == (ThresholdCrossed(ROOT, 50),)


def test_a_limit_holds_for_who_does_not_name_it() -> None:
    """From the next reservation on, lowered or raised, whatever the client brings along."""
    b = budget(ScopeRule(Money(1_000)))
    b.scopes.set_limits(EVERYBODY, [DAILY])
    spend(b, "first", 60)
    b.scopes.set_limits(EVERYBODY, [ScopeRule(Money(50), period=Period.DAY)])
    refused = reserve(b, "second", 1, 0, {EVERYBODY: ScopeRule(Money(1_000), period=Period.DAY)})
    assert isinstance(refused, InsufficientBudget)
    assert (refused.scope, refused.cap, refused.settled) == (EVERYBODY, 50, 60)
    b.scopes.set_limits(EVERYBODY, [ScopeRule(Money(70), period=Period.DAY)])
    assert b.scopes.room(ROOT, 0) == 10


def test_limits_have_versions_and_go_on_counting() -> None:
    """One that is withdrawn still counts: it may be set again on the same day."""
    b = budget()
    for rules in ([DAILY], [DAILY], []):
        b.scopes.set_limits(EVERYBODY, rules)
    [limit] = b.scopes.limits.values()
    assert (limit.rules, limit.version) == ((), 2)
    spend(b, "between", 60)
    b.scopes.set_limits(EVERYBODY, [DAILY])
    assert b.scopes.room(ROOT, 0) == 40


def test_an_owner_without_a_cap_counts_for_the_cap_that_comes() -> None:
    """Money spent earlier today is in the budget that a user writes at noon."""
    b = budget()
    b.scopes.set_limits(EVERYBODY, [])
    spend(b, "morning", 60)
    b.scopes.set_limits(EVERYBODY, [DAILY])
    assert b.scopes.room(ROOT, 0) == 40
    assert isinstance(reserve(b, "noon", 41), InsufficientBudget)


def test_a_limit_of_another_owner_is_not_above() -> None:
    """Of a team it holds for who counts in its name."""
    b = budget()
    b.scopes.set_limits(TEAM, [DAILY])
    assert reserve(b, "alone", 500) == Reserved()
    rules = {TEAM: ScopeRule(Money(900))}
    assert isinstance(reserve(b, "in the team", 101, 0, rules), InsufficientBudget)


def test_a_part_counts_where_it_was_opened_until_it_is_closed() -> None:
    """Its calls are held against it alone; what they leave goes back to the window it was in."""
    b = budget(DAILY)
    b.scopes.set_limits(EVERYBODY, [DAILY])
    assert b.scopes.open(PART, ScopeRule(Money(80)), DAY - 1, parent=ROOT, part=True) == Reserved()
    assert b.reserve(EffectKey("call"), 1, PART, Money(60), ME, DAY) == Reserved()
    assert (b.scopes.room(ROOT, DAY - 1), b.scopes.room(ROOT, DAY)) == (20, 100)
    b.answer(EffectKey("call"), 1, Money(50), DAY)
    b.scopes.close(PART)
    yesterday = b.scopes.counter(EVERYBODY, Period.DAY, DAY - 1)
    assert yesterday == b.scopes.counter(ROOT, Period.DAY, DAY - 1) == Counter(50, 0)
    assert b.scopes.room(ROOT, DAY) == 100


def test_a_period_needs_a_cap_and_is_not_for_parts() -> None:
    """A part is a firm amount inside its parent's period."""
    with pytest.raises(InvalidRuleError, match="need a cap"):
        ScopeRule(None, period=Period.DAY)
    b = budget()
    with pytest.raises(InvalidRuleError, match="no period"):
        b.scopes.open(PART, DAILY, 0, parent=ROOT, part=True)


def test_a_hopeless_refusal_outweighs_one_that_settling_may_lift() -> None:
    """Else a call would wait for the team's money, and then hear that the root has none."""
    b = budget(ScopeRule(Money(115)))
    spend(b, "alone", 70)
    rules = {TEAM: ScopeRule(Money(50))}
    assert isinstance(reserve(b, "beside", 40, rules=rules), Reserved)
    refused = reserve(b, "more", 50, rules=rules)
    assert isinstance(refused, InsufficientBudget)
    assert (refused.scope, refused.hopeless) == (ROOT, True)
    refused = reserve(b, "less", 30, rules=rules)
    assert isinstance(refused, InsufficientBudget)
    assert (refused.scope, refused.hopeless) == (TEAM, False)
