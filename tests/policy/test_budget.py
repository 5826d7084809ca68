"""The claim's table, row by row, and what nested scopes, parts and leases do."""

import pytest

from vegakit.errors import BugError, InvalidMoneyError, InvalidRuleError
from vegakit.ids import EffectKey, HolderId, ScopeId
from vegakit.money import Money
from vegakit.policy import (
    LEASE_MS,
    Budget,
    CapOverrun,
    ClaimState,
    InsufficientBudget,
    NeedsHigherCap,
    OnExceed,
    Reserved,
    ScopeClosed,
    ScopeRule,
    Settlement,
    ThresholdCrossed,
)
from vegakit.policy.scopes import CapExceeded

ROOT, CHILD, LEAF = ScopeId("root"), ScopeId("child"), ScopeId("leaf")
CALL, OTHER = EffectKey("call"), EffectKey("other")
ME, YOU = HolderId("me"), HolderId("you")


def budget(cap: int = 100, on_exceed: OnExceed = OnExceed.BLOCK) -> Budget:
    fresh = Budget()
    fresh.scopes.open(ROOT, ScopeRule(Money(cap), on_exceed), 0)
    fresh.renew(ME, 1000)
    return fresh


def reserve(b: Budget, amount: int, effect: EffectKey = CALL, scope: ScopeId = ROOT, now: int = 0):
    return b.reserve(effect, 1, scope, Money(amount), ME, now)


def figures(b: Budget, scope: ScopeId = ROOT) -> tuple[int, int]:
    found = b.scopes.by_id[scope]
    return found.settled, found.reserved


def state(b: Budget, effect: EffectKey = CALL) -> ClaimState | None:
    claim = b.claims.get(f"{effect}#1")
    return claim and claim.state


def test_a_call_that_fits_exactly_is_admitted() -> None:
    """The cap itself may be spent; one nano-dollar more may not."""
    b = budget(100)
    assert reserve(b, 60) == Reserved()
    assert reserve(b, 41, OTHER) == InsufficientBudget(
        ROOT, Money(100), Money(0), Money(60), Money(41), hopeless=False
    )
    assert reserve(b, 40, OTHER) == Reserved()
    assert figures(b) == (0, 100)


def test_hopeless_means_that_waiting_cannot_help() -> None:
    """What is settled stays; what is reserved may come back."""
    b = budget(100)
    reserve(b, 60)
    b.answer(CALL, 1, Money(60), 0)
    edge, over = reserve(b, 40, OTHER), reserve(b, 41, EffectKey("third"))
    assert edge == Reserved()
    assert isinstance(over, InsufficientBudget)
    assert over.hopeless


def test_settling_charges_the_truth_and_frees_the_rest() -> None:
    """Sixty were reserved, twenty billed: eighty are left."""
    b = budget(100)
    reserve(b, 60)
    assert b.answer(CALL, 1, Money(20), 5) == Settlement(ClaimState.ANSWERED, Money(20))
    assert figures(b) == (20, 0)
    assert b.scopes.room(ROOT, 5) == 80


def test_settling_twice_is_settling_once() -> None:
    """The second answer changes nothing, whatever it says."""
    b = budget()
    reserve(b, 60)
    b.answer(CALL, 1, Money(20), 5)
    assert b.answer(CALL, 1, Money(50), 6) == Settlement(ClaimState.ANSWERED, Money(0))
    assert figures(b) == (20, 0)


def test_cutting_off_a_claim_charges_all_of_it_once() -> None:
    """It may have been billed."""
    b = budget()
    reserve(b, 60)
    assert b.cut_off(CALL, 1, 7) == Settlement(ClaimState.UNKNOWN, Money(60))
    assert figures(b) == (60, 0)
    assert b.cut_off(CALL, 1, 7) == Settlement(ClaimState.UNKNOWN, Money(0))


def test_a_late_answer_corrects_an_unknown_charge() -> None:
    """Sixty were charged for safety; the bill says twenty."""
    b = budget()
    reserve(b, 60)
    b.cut_off(CALL, 1, 5)
    assert b.answer(CALL, 1, Money(20), 9) == Settlement(ClaimState.ANSWERED, Money(-40))
    assert figures(b) == (20, 0)


def test_an_overrun_is_settled_reported_and_closes_the_scope() -> None:
    """A bill of 130 on a cap of 100 is booked as 130, and even a free call waits until it fits."""
    b = budget(100)
    reserve(b, 60)
    assert b.answer(CALL, 1, Money(130), 0) == Settlement(
        ClaimState.ANSWERED, Money(130), (CapOverrun(ROOT, Money(30)),)
    )
    refused = reserve(b, 0, OTHER)
    assert isinstance(refused, InsufficientBudget)
    assert b.scopes.room(ROOT, 0) == 0
    b.scopes.open(ROOT, ScopeRule(Money(130)), 0)
    assert reserve(b, 0, OTHER) == Reserved()


def test_an_overrun_is_reported_once() -> None:
    """While the scope stays over its cap, further bills are not news."""
    b = budget(100)
    for effect in (CALL, OTHER):
        reserve(b, 50, effect)
    assert b.answer(CALL, 1, Money(60), 0).notices == (CapOverrun(ROOT, Money(10)),)
    assert b.answer(OTHER, 1, Money(70), 0).notices == ()


def test_a_call_must_fit_every_scope_around_it() -> None:
    """The outer scope refuses what the inner one would allow, and says that it was the outer."""
    b = budget(100)
    b.scopes.open(CHILD, ScopeRule(Money(500)), 0, parent=ROOT)
    refused = reserve(b, 101, scope=CHILD)
    assert isinstance(refused, InsufficientBudget)
    assert refused.scope == ROOT
    assert reserve(b, 100, scope=CHILD) == Reserved()
    assert figures(b, CHILD) == figures(b, ROOT) == (0, 100)


def test_a_scope_without_a_cap_only_counts() -> None:
    """It never refuses; the scope around it still does."""
    b = budget(100)
    b.scopes.open(CHILD, ScopeRule(None), 0, parent=ROOT)
    assert isinstance(reserve(b, 101, scope=CHILD), InsufficientBudget)
    assert reserve(b, 100, scope=CHILD) == Reserved()
    assert b.scopes.room(CHILD, 0) == 0


@pytest.mark.parametrize(("inner", "outer"), [(30, 70), (70, 30)])
def test_room_is_that_of_the_tightest_scope(inner: int, outer: int) -> None:
    """Whether it is the nearer one or the farther one."""
    b = budget(outer)
    b.scopes.open(CHILD, ScopeRule(Money(inner)), 0, parent=ROOT)
    assert b.scopes.room(CHILD, 0) == 30


def test_nothing_limits_a_tree_without_caps() -> None:
    """Then there is no room to report."""
    b = Budget()
    b.scopes.open(ROOT, ScopeRule(None), 0)
    assert b.scopes.room(ROOT, 0) is None


def test_a_part_sets_its_cap_aside_and_gives_the_rest_back() -> None:
    """Inside, calls are admitted by the part alone; outside, only what is left may be used."""
    b = budget(100)
    assert b.scopes.open(CHILD, ScopeRule(Money(70)), 0, parent=ROOT, part=True) == Reserved()
    assert figures(b) == (0, 70)
    reserve(b, 50, scope=CHILD)
    assert figures(b) == (0, 70)
    b.answer(CALL, 1, Money(30), 0)
    assert figures(b, CHILD) == (30, 0)
    assert figures(b) == (30, 40)
    b.scopes.close(CHILD)
    assert figures(b) == (30, 0)


def test_a_part_that_does_not_fit_is_not_opened() -> None:
    """A child's budget is a part of its parent's, never a copy."""
    b = budget(100)
    reserve(b, 40)
    refused = b.scopes.open(CHILD, ScopeRule(Money(61)), 0, parent=ROOT, part=True)
    assert isinstance(refused, InsufficientBudget)
    assert CHILD not in b.scopes.by_id
    assert b.scopes.open(CHILD, ScopeRule(Money(60)), 0, parent=ROOT, part=True) == Reserved()


def test_a_part_inside_a_part_is_held_once() -> None:
    """The root holds the outer part, the outer part holds the inner one."""
    b = budget(100)
    b.scopes.open(CHILD, ScopeRule(Money(70)), 0, parent=ROOT, part=True)
    b.scopes.open(LEAF, ScopeRule(Money(30)), 0, parent=CHILD, part=True)
    assert (figures(b), figures(b, CHILD)) == ((0, 70), (0, 30))
    reserve(b, 20, scope=LEAF)
    b.answer(CALL, 1, Money(20), 0)
    assert (figures(b), figures(b, CHILD), figures(b, LEAF)) == ((20, 50), (20, 10), (20, 0))


def test_a_closed_part_keeps_what_is_in_flight() -> None:
    """Closing does not forget a call that may still be billed."""
    b = budget(100)
    b.scopes.open(CHILD, ScopeRule(Money(70)), 0, parent=ROOT, part=True)
    reserve(b, 50, scope=CHILD)
    b.scopes.close(CHILD)
    assert figures(b) == (0, 50)
    b.answer(CALL, 1, Money(30), 0)
    assert figures(b) == (30, 0)


def test_an_overrun_in_a_part_reaches_the_root() -> None:
    """The part had 70, was billed 90, and still has 20 in flight: the root sees 110."""
    b = budget(100)
    b.scopes.open(CHILD, ScopeRule(Money(70)), 0, parent=ROOT, part=True)
    reserve(b, 50, CALL, CHILD)
    reserve(b, 20, OTHER, CHILD)
    settled = b.answer(CALL, 1, Money(90), 0)
    assert settled.notices == (CapOverrun(CHILD, Money(40)), CapOverrun(ROOT, Money(10)))
    assert figures(b) == (90, 20)


def test_a_refund_in_an_open_part_stays_in_the_part() -> None:
    """The part may spend again what was charged for safety."""
    b = budget(100)
    b.scopes.open(CHILD, ScopeRule(Money(70)), 0, parent=ROOT, part=True)
    reserve(b, 70, scope=CHILD)
    b.cut_off(CALL, 1, 0)
    assert figures(b) == (70, 0)
    b.answer(CALL, 1, Money(10), 0)
    assert figures(b) == (10, 60)
    assert b.scopes.room(CHILD, 0) == 60


@pytest.mark.parametrize("part", [False, True])
def test_a_closed_scope_admits_nothing_here_or_below(part: bool) -> None:
    """Closing a scope closes everything inside it."""
    b = budget(100)
    b.scopes.open(CHILD, ScopeRule(Money(50)), 0, parent=ROOT, part=part)
    b.scopes.close(ROOT)
    assert reserve(b, 1, scope=CHILD) == ScopeClosed(CHILD)
    assert reserve(b, 1) == ScopeClosed(ROOT)
    opened = b.scopes.open(LEAF, ScopeRule(Money(1)), 0, parent=ROOT, part=part)
    assert opened == ScopeClosed(ROOT)
    assert LEAF not in b.scopes.by_id


def test_ask_refuses_until_somebody_raises_the_cap() -> None:
    """It says how much is missing."""
    b = budget(100, OnExceed.ASK)
    assert reserve(b, 130) == NeedsHigherCap(ROOT, Money(100), Money(30))
    b.scopes.open(ROOT, ScopeRule(Money(130), OnExceed.ASK), 0)
    assert reserve(b, 130) == Reserved()


def test_nobody_is_asked_in_vain() -> None:
    """A blocking scope outside refuses although the one inside would only ask."""
    b = budget(100)
    b.scopes.open(CHILD, ScopeRule(Money(10), OnExceed.ASK), 0, parent=ROOT)
    refused = reserve(b, 101, scope=CHILD)
    assert isinstance(refused, InsufficientBudget)
    assert refused.scope == ROOT


def test_the_innermost_scope_asks_first() -> None:
    """Two scopes would ask; the nearer one speaks."""
    b = budget(20, OnExceed.ASK)
    b.scopes.open(CHILD, ScopeRule(Money(10), OnExceed.ASK), 0, parent=ROOT)
    assert reserve(b, 30, scope=CHILD) == NeedsHigherCap(CHILD, Money(10), Money(20))


def test_warn_admits_and_reports_the_crossing_once() -> None:
    """By whom it was crossed, and by how much."""
    b = budget(100, OnExceed.WARN)
    assert reserve(b, 130) == Reserved((CapExceeded(ROOT, Money(30)),))
    assert reserve(b, 1, OTHER) == Reserved()
    assert b.scopes.room(ROOT, 0) is None


def test_allow_admits_silently() -> None:
    """It only counts."""
    b = budget(100, OnExceed.ALLOW)
    assert reserve(b, 130) == Reserved()
    assert b.answer(CALL, 1, Money(500), 0).notices == ()


def test_thresholds_report_once_each_in_rising_order() -> None:
    """One bill may cross several; what is only reserved crosses none."""
    b = Budget()
    b.renew(ME, 1000)
    b.scopes.open(ROOT, ScopeRule(Money(100), alert_percents=(50, 80, 100)), 0)
    reserve(b, 90)
    reserve(b, 10, OTHER)
    assert b.answer(CALL, 1, Money(80), 0).notices == (
        ThresholdCrossed(ROOT, 50),
        ThresholdCrossed(ROOT, 80),
    )
    assert b.answer(OTHER, 1, Money(10), 0).notices == ()


def test_a_dead_holder_leaves_nothing_behind() -> None:
    """What it sent is charged, what is settled stays."""
    b = budget(100)
    for effect in (CALL, OTHER):
        reserve(b, 30, effect)
    assert b.expire({ME: 999}, 1000) == []  # it was renewed since
    b.answer(OTHER, 1, Money(0), 0)
    assert b.expire(b.leases.copy(), 1000) == [
        ("call#1", Settlement(ClaimState.UNKNOWN, Money(30)))
    ]
    assert figures(b) == (30, 0)
    assert b.leases == {}


def test_a_living_holder_keeps_its_claims() -> None:
    """Only the holder whose lease ended is settled."""
    b = budget(100)
    b.renew(YOU, 2000)
    reserve(b, 30)
    b.reserve(OTHER, 1, ROOT, Money(30), YOU, 0)
    assert [key for key, _ in b.expire({ME: b.leases[ME]}, 1500)] == ["call#1"]
    assert state(b, OTHER) is ClaimState.SENT


def test_who_reserves_is_alive() -> None:
    """A lease that has half of its time left stays; one that is ending, ended or never was is
    written anew, so that nothing is reserved that nobody would ever settle."""
    b = budget(100)
    b.renew(ME, LEASE_MS)
    assert reserve(b, 1, now=LEASE_MS // 2) == Reserved()
    assert b.leases[ME] == LEASE_MS
    assert reserve(b, 1, OTHER, now=LEASE_MS // 2 + 1) == Reserved()
    assert b.leases[ME] == LEASE_MS // 2 + 1 + LEASE_MS
    late = 9 * LEASE_MS
    for number, holder in enumerate((ME, YOU)):
        assert b.reserve(OTHER, 2 + number, ROOT, Money(1), holder, late) == Reserved()
        assert b.leases[holder] == late + LEASE_MS


def test_a_lease_is_never_shortened() -> None:
    """Renewals may arrive in any order."""
    b = budget(100)
    b.renew(ME, 500)
    assert b.leases[ME] == 1000
    b.renew(ME, 1500)
    assert b.leases[ME] == 1500


def test_each_attempt_is_a_claim_of_its_own() -> None:
    """Attempt 2 reserves anew; attempt 1 may still be corrected."""
    b = budget(100)
    reserve(b, 30)
    b.cut_off(CALL, 1, 0)
    assert b.reserve(CALL, 2, ROOT, Money(30), ME, 0) == Reserved()
    assert figures(b) == (30, 30)
    b.answer(CALL, 1, Money(5), 0)
    assert figures(b) == (5, 30)


def test_an_attempt_is_claimed_once() -> None:
    """Claiming it again is a bug of the caller, not a second reservation."""
    b = budget(100)
    reserve(b, 30)
    with pytest.raises(BugError, match="attempt 1 of effect call is already claimed"):
        reserve(b, 30)
    assert figures(b) == (0, 30)


def test_only_settled_claims_are_forgotten() -> None:
    """A scope can be dropped when it is closed and nothing refers to it."""
    b = budget(100)
    b.scopes.open(CHILD, ScopeRule(Money(50)), 0, parent=ROOT)
    reserve(b, 30, scope=CHILD)
    assert not b.forget(CALL, 1)
    b.answer(CALL, 1, Money(0), 0)
    assert not b.scopes.drop(CHILD)
    b.scopes.close(CHILD)
    assert not b.scopes.drop(CHILD)
    assert b.forget(CALL, 1)
    assert state(b) is None
    b.scopes.close(ROOT)
    assert not b.scopes.drop(ROOT)
    assert b.scopes.drop(CHILD)
    assert b.scopes.drop(ROOT)
    assert b.scopes.by_id == {}


def test_a_scope_may_be_declared_anew() -> None:
    """Another rule holds from now on; what was spent and reserved stays."""
    b = budget(100)
    reserve(b, 60)
    b.scopes.open(ROOT, ScopeRule(Money(50), OnExceed.WARN), 0)
    assert figures(b) == (0, 60)
    assert reserve(b, 1, OTHER) == Reserved()
    b.scopes.open(ROOT, ScopeRule(Money(61)), 0)
    assert isinstance(reserve(b, 1, EffectKey("third")), InsufficientBudget)


@pytest.mark.parametrize("amount", [-1, 1.0, float("nan"), float("inf"), True])
def test_amounts_are_whole_and_not_negative(amount: object) -> None:
    """A NaN would pass every comparison with a cap."""
    b = budget(100)
    with pytest.raises(InvalidMoneyError, match="whole number of nano-dollars"):
        b.reserve(CALL, 1, ROOT, amount, ME, 0)  # pyright: ignore[reportArgumentType]
    reserve(b, 1)
    with pytest.raises(InvalidMoneyError):
        b.answer(CALL, 1, amount, 0)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidMoneyError):
        ScopeRule(amount)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("alerts", [(0,), (101,), (80, 50), (50, 50)])
def test_alerts_are_rising_percentages(alerts: tuple[int, ...]) -> None:
    """Anything else would be told never, or twice."""
    with pytest.raises(InvalidRuleError, match="from 1 to 100"):
        ScopeRule(Money(1), alert_percents=alerts)
    assert ScopeRule(Money(1), alert_percents=(1, 100)).alert_percents == (1, 100)


def test_alerts_need_a_cap() -> None:
    """A percentage of nothing is never reached."""
    with pytest.raises(InvalidRuleError, match="need a cap"):
        ScopeRule(None, alert_percents=(50,))


@pytest.mark.parametrize("rule", [ScopeRule(None), ScopeRule(Money(1), OnExceed.WARN)])
def test_a_part_is_a_firm_amount(rule: ScopeRule) -> None:
    """Its parent sets exactly its cap aside, so it must not be able to go over."""
    b = budget()
    with pytest.raises(InvalidRuleError, match="sets exactly its cap aside"):
        b.scopes.open(CHILD, rule, 0, parent=ROOT, part=True)
    with pytest.raises(InvalidRuleError):
        b.scopes.open(CHILD, ScopeRule(Money(1)), 0, part=True)


def test_an_answer_after_its_claim_was_forgotten_changes_nothing() -> None:
    """Others may settle and forget a call by a wrong clock. Its maximum stays charged, and the call
    does not fail."""
    b = budget(100)
    reserve(b, 60)
    b.expire({**b.leases}, 0)
    assert b.prune(1) == 1
    nothing = Settlement(ClaimState.ANSWERED, Money(0))
    assert b.answer(CALL, 1, Money(20), 5) == b.cut_off(CALL, 1, 5) == nothing
    assert figures(b) == (60, 0)
