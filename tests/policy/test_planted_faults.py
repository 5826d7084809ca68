"""The comparisons can fail: each rule, broken on purpose, is found by the model beside it."""

from collections.abc import Callable

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.policy.test_breaker_properties import BreakerAgainstHistory
from tests.policy.test_budget_properties import BudgetAgainstSums, HonestBudget
from vegakit.policy import (
    Breaker,
    BreakerChange,
    BreakerState,
    Budget,
    ClaimState,
    Scope,
    SpendWindow,
)
from vegakit.policy.scopes import ScopeTree

FAST = settings(max_examples=5_000, phases=[Phase.generate], report_multiple_bugs=False)


def finds_a_difference(machine: type[RuleBasedStateMachine]) -> bool:
    try:
        run_state_machine_as_test(machine, settings=FAST)
    except AssertionError:
        return True
    return False


def off_by_one(self: Scope, amount, now, rule):
    return _fits(self, amount - 1, now, rule)


def keeps_nothing_in_flight(self: Scope) -> int:
    return max((self.cap or 0) - self.settled, 0) if self.is_open else 0


def forgets_to_pass_outward(self: ScopeTree, scope_id, released, charged, at, now):
    self.by_id[scope_id].move(released, charged, at, now)
    return ()


def gives_back_old_charges(self: SpendWindow, amount: int, at: int) -> int:
    self.slices[self.starts_ms] = self.slices.get(self.starts_ms, 0) + amount
    return amount


def sends_released_claims(self: Budget, effect, attempt) -> bool:
    claim = self.claims[f"{effect}#{attempt}"]
    sent, claim.state = claim.state is not ClaimState.SENT, ClaimState.SENT
    return sent


def closes_by_any_success(self: Breaker, permit, now):
    if self.state is BreakerState.HALF_OPEN:
        self._enter(BreakerState.CLOSED, now)
        return BreakerChange.CLOSED
    return _on_success(self, permit, now)


_fits, _on_success = Scope.fits, Breaker.on_success

FAULTS: list[tuple[type[RuleBasedStateMachine], type, str, Callable[..., object]]] = [
    (HonestBudget, Scope, "fits", off_by_one),
    (BudgetAgainstSums, Scope, "must_hold", keeps_nothing_in_flight),
    (HonestBudget, ScopeTree, "move", forgets_to_pass_outward),
    (BudgetAgainstSums, SpendWindow, "add", gives_back_old_charges),
    (HonestBudget, Budget, "mark_sent", sends_released_claims),
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
    place: type,
    name: str,
    fault: Callable[..., object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Within five thousand histories; most within a few dozen."""
    monkeypatch.setattr(place, name, fault)
    assert finds_a_difference(machine)
