"""One generator a machine: each `next` is one round of decisions."""

from collections.abc import Iterator

from vegakit.ids import EffectKey, HolderId, ScopeId
from vegakit.money import Money
from vegakit.policy import (
    Admitted,
    Breaker,
    BreakerRule,
    Budget,
    Permit,
    Rate,
    RateLimiter,
    RateRule,
    Reserved,
    ScopeRule,
)

__all__ = ["bare_call", "breaker_round", "budget_round", "rate_round"]


def bare_call() -> Iterator[object]:
    def nothing() -> None:
        return None

    while True:
        nothing()
        yield None


def budget_round() -> Iterator[object]:
    budget, holder = Budget(), HolderId("here")
    budget.renew(holder, 1_000_000)
    parent = None
    for name in ("tenant", "session", "send"):
        scope = ScopeId(name)
        budget.scopes.open(scope, ScopeRule(Money(10**15)), 0, parent=parent)
        parent = scope
    leaf, worst, bill = ScopeId("send"), Money(50_000_000), Money(9_000_000)
    number = 0
    while True:
        number += 1
        effect = EffectKey(str(number))
        assert isinstance(budget.reserve(effect, 1, leaf, worst, holder, number), Reserved)
        budget.answer(effect, 1, bill, number)
        budget.forget(effect, 1)
        yield None


def breaker_round() -> Iterator[object]:
    breaker = Breaker(BreakerRule())
    while True:
        permit = breaker.admit(0)
        assert isinstance(permit, Permit)
        breaker.on_success(permit, 0)
        yield None


def rate_round() -> Iterator[object]:
    limits = RateRule(Rate(10**9, 1_000, 10**9), Rate(10**9, 1_000, 10**9), slots=64)
    limiter = RateLimiter(limits)
    now = 0
    while True:
        now += 1
        assert isinstance(limiter.ask("call", now, tokens=500), Admitted)
        limiter.release("call")
        yield None
