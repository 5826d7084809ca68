"""Scopes that several processes declare, and claims that nobody needs any more."""

import pytest

from vegakit.errors import BugError
from vegakit.ids import EffectKey, HolderId, ScopeId
from vegakit.money import Money
from vegakit.policy import (
    Admission,
    Budget,
    InsufficientBudget,
    NeedsHigherCap,
    OnExceed,
    Reserved,
    ScopeClosed,
    ScopeRule,
)
from vegakit.policy.scopes import CapExceeded

ROOT, LIMIT, PART = ScopeId("root"), ScopeId("limit"), ScopeId("part")
ME = HolderId("me")
HOUR_MS = 3_600_000


def budget() -> Budget:
    fresh = Budget()
    fresh.scopes.open(ROOT, ScopeRule(Money(100)), 0)
    fresh.renew(ME, 100 * HOUR_MS)
    return fresh


def spend(b: Budget, name: str, amount: int, scope: ScopeId = ROOT, now: int = 0) -> None:
    b.reserve(EffectKey(name), 1, scope, Money(amount), ME, now)
    b.answer(EffectKey(name), 1, Money(amount), now)


def test_declaring_twice_keeps_what_was_spent() -> None:
    """The second process to come takes over the figures of the first."""
    b = budget()
    spend(b, "call", 60)
    assert b.scopes.open(ROOT, ScopeRule(Money(70)), 1) == Reserved()
    assert b.scopes.room(ROOT, 1) == 10


def reserve(b: Budget, name: str, amount: int, rule: ScopeRule, scope: ScopeId = ROOT) -> Admission:
    return b.reserve(EffectKey(name), 1, scope, Money(amount), ME, 0, rules={scope: rule})


def test_a_call_is_held_against_the_cap_of_its_own_client() -> None:
    """Lower or higher than the one that somebody else has declared since."""
    b = budget()
    small, large = ScopeRule(Money(50)), ScopeRule(Money(200))
    assert reserve(b, "first", 50, small) == Reserved()
    refused = reserve(b, "second", 1, small)
    assert isinstance(refused, InsufficientBudget)
    assert (refused.cap, refused.reserved, refused.hopeless) == (50, 50, False)
    assert reserve(b, "third", 150, large) == Reserved()
    assert b.scopes.room(ROOT, 0) == 0
    assert b.scopes.room(ROOT, 0, {ROOT: ScopeRule(Money(300))}) == 100


def test_a_call_is_treated_as_its_own_client_says() -> None:
    """One warns and one asks, in the scope that a third has declared to block."""
    b = budget()
    warns = ScopeRule(Money(10), OnExceed.WARN)
    assert reserve(b, "warned", 30, warns) == Reserved((CapExceeded(ROOT, Money(20)),))
    asks = reserve(b, "asked", 30, ScopeRule(Money(40), OnExceed.ASK))
    assert asks == NeedsHigherCap(ROOT, Money(40), Money(20), hopeless=False)


def test_nobody_brings_more_for_a_part_than_was_set_aside() -> None:
    """Its cap is held in its parent, which is not asked again."""
    b = budget()
    b.scopes.open(PART, ScopeRule(Money(10)), 0, parent=ROOT, part=True)
    assert isinstance(reserve(b, "call", 11, ScopeRule(Money(99)), PART), InsufficientBudget)


def test_a_scope_is_declared_where_it_stands() -> None:
    """Under another parent, or as a limit when it is a part, its money would move elsewhere."""
    b = budget()
    b.scopes.open(LIMIT, ScopeRule(Money(10)), 0, parent=ROOT)
    b.scopes.open(PART, ScopeRule(Money(10)), 0, parent=ROOT, part=True)
    with pytest.raises(BugError, match="'limit' stands in 'root' and was declared in None"):
        b.scopes.open(LIMIT, ScopeRule(Money(10)), 0)
    with pytest.raises(BugError, match="'part' stands in 'root' as a part"):
        b.scopes.open(PART, ScopeRule(Money(10)), 0, parent=ROOT)


def test_a_part_is_opened_once() -> None:
    """Twice would set its cap aside twice."""
    b = budget()
    b.scopes.open(PART, ScopeRule(Money(10)), 0, parent=ROOT, part=True)
    with pytest.raises(BugError, match="already open"):
        b.scopes.open(PART, ScopeRule(Money(10)), 0, parent=ROOT, part=True)


def test_a_closed_scope_is_not_declared_open() -> None:
    """Whoever closed it meant it."""
    b = budget()
    b.scopes.close(ROOT)
    assert b.scopes.open(ROOT, ScopeRule(Money(999)), 2) == ScopeClosed(ROOT)
    assert b.scopes.by_id[ROOT].rule.cap == 100


def test_pruning_forgets_the_old_and_settled_only() -> None:
    """What is in flight stays however old it is; so does what was settled since."""
    b = budget()
    b.reserve(EffectKey("in flight"), 1, ROOT, Money(1), ME, 0)
    spend(b, "old", 1, now=4)
    spend(b, "new", 1, now=5)
    assert b.prune(5) == 1
    assert list(b.claims) == ["in flight#1", "new#1"]
    assert b.scopes.by_id[ROOT].claims == 2


def test_pruning_drops_closed_scopes_that_it_empties() -> None:
    """From the inside out, as far as they are closed."""
    b = budget()
    b.scopes.open(LIMIT, ScopeRule(None), 0, parent=ROOT)
    b.scopes.open(PART, ScopeRule(Money(10)), 0, parent=LIMIT, part=True)
    spend(b, "inner", 1, PART)
    spend(b, "outer", 1, LIMIT)
    b.scopes.close(LIMIT)
    assert b.prune(1) == 2
    assert list(b.scopes.by_id) == [ROOT]
    assert b.scopes.by_id[ROOT].children == 0
    assert b.scopes.by_id[ROOT].settled == 2
