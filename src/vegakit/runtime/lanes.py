"""Waiting for one's turn: a model's rate limit, slots and breaker, shared by all who call it.

enter ── ask the limiter ── Queued ──▶ wait to be woken, or for the time it names ──┐
          │  ▲                                                                      │
          │  └──────────────────────────────────────────────────────────────────────┘
          ▼
       Admitted ── ask the breaker ── Permit ──▶ call ──▶ leave(outcome), wake the next
"""

import asyncio
from enum import StrEnum
from typing import NamedTuple

from msgspec import structs

from vegakit.errors import CircuitOpen, RateLimited, WorldError
from vegakit.models import ServerLimits
from vegakit.policy import (
    UNHEALTHY,
    Admitted,
    Breaker,
    BreakerChange,
    BreakerRule,
    NeverFits,
    NotYet,
    Permit,
    Queued,
    RateLimiter,
    RateRule,
    RetryBudget,
    RetryBudgetRule,
    RetryRule,
    SlowDown,
    left_alone,
    no_more_now,
    too_much_at_once,
)
from vegakit.ports import Clock
from vegakit.runtime.cancelling import first_of

__all__ = ["Lane", "LaneRules", "Outcome", "health"]


class Outcome(StrEnum):
    """What a call says of the health of the world; a refusal of ours or a cancellation: nothing."""

    SUCCESS = "success"
    FAILURE = "failure"
    NEITHER = "neither"


def health(error: WorldError) -> Outcome:
    return Outcome.FAILURE if error.error_class in UNHEALTHY else Outcome.NEITHER


class LaneRules(NamedTuple):
    rate: RateRule
    breaker: BreakerRule = BreakerRule()
    retry_budget: RetryBudgetRule = RetryBudgetRule()
    retry: RetryRule = RetryRule()
    """Of agents that call this model and have no rule of their own."""


class Lane:
    def __init__(self, name: str, rules: LaneRules, clock: Clock) -> None:
        self.name = name
        self._limiter = RateLimiter(rules.rate)
        self._breaker = Breaker(rules.breaker)
        self.retry_budget = RetryBudget(rules.retry_budget)
        """Shared by all who call, so that an outage is not answered by a storm of retries."""
        self._clock = clock
        self._waiting: dict[str, asyncio.Event] = {}

    async def enter(self, who: str, tokens: int, priority: int) -> Permit:
        """Waits for a turn; whoever is cancelled while waiting leaves without a trace."""
        try:
            await self._wait_turn(who, tokens, priority)
            verdict = self._breaker.admit(self._clock.now())
        except BaseException:
            self._free(who)
            raise
        if isinstance(verdict, Permit):
            return verdict
        self._free(who)
        raise CircuitOpen(left_alone(self.name, verdict.wait_ms))

    def leave(self, who: str, permit: Permit, outcome: Outcome) -> BreakerChange | None:
        self._free(who)
        now = self._clock.now()
        if outcome is Outcome.SUCCESS:
            return self._breaker.on_success(permit, now)
        if outcome is Outcome.FAILURE:
            return self._breaker.on_failure(permit, now)
        self._breaker.on_cancelled(permit)
        return None

    def heed(self, error: WorldError) -> None:
        """When the server wants to be asked again holds for everybody in this lane."""
        if error.retry_after_ms is not None:
            self._limiter.on_retry_after(error.retry_after_ms, self._clock.now())

    def heed_limits(self, told: ServerLimits) -> None:
        """The call it answers is still in flight and counted by the server: so one request more is
        left than the limiter takes it for. Its tokens may not all be counted yet."""
        requests = told.requests and structs.replace(told.requests, left=told.requests.left + 1)
        self._limiter.on_remaining(self._clock.now(), requests=requests, tokens=told.tokens)
        self._wake_next()

    async def _wait_turn(self, who: str, tokens: int, priority: int) -> None:
        while True:
            verdict = self._limiter.ask(who, self._clock.now(), tokens=tokens, priority=priority)
            match verdict:
                case Admitted():
                    self._wake_next()  # more than one may have left since the last look
                    return
                case Queued(wait_ms) | SlowDown(wait_ms):
                    await self._woken(who, wait_ms)
                case NotYet(wait_ms):
                    raise RateLimited(no_more_now(self.name, wait_ms))
                case NeverFits(tokens, burst):
                    raise RateLimited(too_much_at_once(self.name, tokens, burst))

    async def _woken(self, who: str, wait_ms: int) -> None:
        event = self._waiting[who] = asyncio.Event()
        try:
            await first_of(event.wait(), self._clock.wait_until(self._clock.now() + wait_ms))
        finally:
            del self._waiting[who]

    def _free(self, who: str) -> None:
        self._limiter.release(who)
        self._wake_next()

    def _wake_next(self) -> None:
        following = self._limiter.first_waiting
        if following in self._waiting:
            self._waiting[following].set()
