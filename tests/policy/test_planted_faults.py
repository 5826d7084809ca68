"""The comparisons can fail: each rule, broken on purpose, is found by the model beside it."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.policy.test_breaker_properties import BreakerAgainstHistory
from tests.policy.test_budget_properties import BudgetAgainstSums, HonestBudget
from vegakit.money import Period
from vegakit.policy import (
    Breaker,
    BreakerChange,
    BreakerState,
    Budget,
    ClaimState,
    Scope,
    scopes,
)
from vegakit.policy.scopes import CapCheck, ScopeTree

FAST = settings(max_examples=5_000, phases=[Phase.generate], report_multiple_bugs=False)


def finds_a_difference(machine: type[RuleBasedStateMachine]) -> bool:
    try:
        run_state_machine_as_test(machine, settings=FAST)
    except AssertionError:
        return True
    return False


def off_by_one(self: CapCheck, amount):
    return _fits(self, amount - 1)


def keeps_nothing_in_flight(self: Scope) -> int:
    return max((self.rule.cap or 0) - self.settled, 0) if self.is_open else 0


def forgets_to_pass_outward(
    self: ScopeTree, scope_id, released, charged, counted_in=(), rules=None
):
    self.by_id[scope_id].move(released, charged)
    self._count(counted_in, released, charged)
    return ()


def counts_in_one_row(hour: int) -> dict[Period, str]:
    return dict(_numbers_at(0))


def frees_nothing_in_windows(self: ScopeTree, names, released, charged):
    _count(self, names, min(released, 0), charged)


def forgets_what_was_cut_off(self: Budget, effect, attempt, now, rules=None):
    return self._settle(self.claims[f"{effect}#{attempt}"], ClaimState.UNKNOWN, 0, now)


def closes_by_any_success(self: Breaker, permit, now):
    if self.state is BreakerState.HALF_OPEN:
        self._enter(BreakerState.CLOSED, now)
        return BreakerChange.CLOSED
    return _on_success(self, permit, now)


_fits, _on_success = CapCheck.fits, Breaker.on_success
_count, _numbers_at = ScopeTree._count, scopes._numbers_at

FAULTS: list[tuple[type[RuleBasedStateMachine], Any, str, Callable[..., object]]] = [
    (HonestBudget, CapCheck, "fits", off_by_one),
    (BudgetAgainstSums, Scope, "must_hold", keeps_nothing_in_flight),
    (HonestBudget, ScopeTree, "move", forgets_to_pass_outward),
    (BudgetAgainstSums, scopes, "_numbers_at", counts_in_one_row),
    (BudgetAgainstSums, ScopeTree, "_count", frees_nothing_in_windows),
    (HonestBudget, Budget, "cut_off", forgets_what_was_cut_off),
    (BreakerAgainstHistory, Breaker, "on_success", closes_by_any_success),
    (BreakerAgainstHistory, Breaker, "on_cancelled", lambda self, permit: None),
    (BreakerAgainstHistory, Breaker, "_has_probe_left", lambda self: True),
]


@pytest.mark.parametrize(
    ("machine", "place", "name", "fault"),
    FAULTS,
    ids=[f"{p.__name__}.{n}" for _, p, n, _ in FAULTS],
)
def test_a_broken_rule_is_found(
    machine: type[RuleBasedStateMachine],
    place: Any,
    name: str,
    fault: Callable[..., object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Within five thousand histories; most within a few dozen."""
    monkeypatch.setattr(place, name, fault)
    assert finds_a_difference(machine)
