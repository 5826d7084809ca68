"""An agent's own breaker and rate limit, decided in the program, so that it can catch them."""

from typing import TypeAlias

from msgspec import Struct

from vegakit.errors import CircuitOpen, RateLimited
from vegakit.events import Answered, EffectOutcome, Failed
from vegakit.policy import (
    Admitted,
    Breaker,
    BreakerChange,
    NeverFits,
    NotYet,
    Permit,
    Queued,
    RateLimiter,
    SlowDown,
    left_alone,
    no_more_now,
    too_much_at_once,
)
from vegakit.program.actions import BreakerClosed, BreakerOpened
from vegakit.program.bodies import AgentBody
from vegakit.program.core import Core
from vegakit.program.mail import Fell
from vegakit.program.state import Guard

__all__ = ["Guards", "Wait"]


class Wait(Struct, frozen=True):
    until_ms: int


Verdict: TypeAlias = Permit | Wait | Fell | None


class Guards:
    def __init__(self, core: Core) -> None:
        self._core = core

    def enter(self, name: str, body: AgentBody, who: str, tokens: int) -> Verdict:
        """None: the agent has no breaker, and the call may go. Recorded answers come all at once,
        though calls took their time: limits would refuse what was made long ago."""
        guard = None if self._core.state.replaying else self._guard(name, body)
        if guard is None:
            return None
        now = self._core.now
        if guard.limiter is not None:
            match guard.limiter.ask(who, now, tokens=tokens, priority=body.priority):
                case Queued(wait_ms) | SlowDown(wait_ms):
                    return Wait(now + max(1, wait_ms))
                case NotYet(wait_ms):
                    reason = no_more_now(f"agent {name}", wait_ms)
                    return Fell(RateLimited.__name__, reason)
                case NeverFits(wanted, burst):
                    reason = too_much_at_once(f"agent {name}", wanted, burst)
                    return Fell(RateLimited.__name__, reason)
                case Admitted():
                    pass
        if guard.breaker is None:
            return None
        permit = guard.breaker.admit(now)
        if isinstance(permit, Permit):
            return permit
        self.leave(name, who)
        return Fell(CircuitOpen.__name__, left_alone(f"agent {name}", permit.wait_ms))

    def leave(
        self,
        name: str,
        who: str,
        permit: Permit | None = None,
        outcome: EffectOutcome | None = None,
    ) -> None:
        guard = self._core.state.guards.get(name)
        if guard is None:
            return
        if guard.limiter is not None:
            guard.limiter.release(who)
        if guard.breaker is not None and permit is not None:
            change = _report(guard.breaker, permit, outcome, self._core.now)
            if change is not None:
                news = BreakerOpened if change is BreakerChange.OPENED else BreakerClosed
                self._core.out.append(news(f"agent {name}"))

    def _guard(self, name: str, body: AgentBody) -> Guard | None:
        guards = self._core.state.guards
        if name not in guards:
            if body.breaker is None and body.rate is None:
                return None
            guards[name] = Guard(
                None if body.breaker is None else Breaker(body.breaker),
                None if body.rate is None else RateLimiter(body.rate),
            )
        return guards[name]


def _report(
    breaker: Breaker, permit: Permit, outcome: EffectOutcome | None, now: int
) -> BreakerChange | None:
    match outcome:
        case Answered():
            return breaker.on_success(permit, now)
        case Failed():  # of any kind: an agent whose calls are rejected is of no use either
            return breaker.on_failure(permit, now)
        case _:  # also Unknown: that our side died says nothing about the provider
            breaker.on_cancelled(permit)
            return None
