"""The limiter of each model, which all its callers share, and the registry of models by name."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import structs

from vegakit.concurrency import wait_first
from vegakit.errors import CircuitOpen, RateLimited, UserError, WorldError
from vegakit.host.agents import Agent
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
    describe_open_breaker,
    describe_oversized_call,
    describe_rate_limit,
)
from vegakit.ports import Clock, Model

if TYPE_CHECKING:
    from vegakit.providers import ServerLimits

# Waiting for one's turn: a model's rate limit, slots and breaker, shared by all who call it.
#
# enter ── ask the limiter ── Queued ──▶ wait to be woken, or for the time it names ──┐
#           │  ▲                                                                      │
#           │  └──────────────────────────────────────────────────────────────────────┘
#           ▼
#        Admitted ── ask the breaker ── Permit ──▶ call ──▶ leave(outcome), wake the next


class CallHealth(StrEnum):
    """The health of the world by a call's result; a refusal of ours or a cancellation says nothing
    of it."""

    SUCCESS = "success"
    FAILURE = "failure"
    NEITHER = "neither"


def health(error: WorldError) -> CallHealth:
    """Return what an error says of the health of the world."""
    return CallHealth.FAILURE if error.error_class in UNHEALTHY else CallHealth.NEITHER


class LimiterRules(NamedTuple):
    """The rules of one limiter: rate, slots, breaker and retries."""

    rate: RateRule
    breaker: BreakerRule = BreakerRule()
    retry_budget: RetryBudgetRule = RetryBudgetRule()
    retry: RetryRule = RetryRule()
    """Of agents that call this model and have no rule of their own."""


class Limiter:
    """The limiter of one model or agent: rate, slots and breaker."""

    def __init__(self, name: str, rules: LimiterRules, clock: Clock) -> None:
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
        raise CircuitOpen(describe_open_breaker(self.name, verdict.wait_ms))

    def leave(self, who: str, permit: Permit, outcome: CallHealth) -> BreakerChange | None:
        """Free the slot, and tell the breaker how the call went."""
        self._free(who)
        now = self._clock.now()
        if outcome is CallHealth.SUCCESS:
            return self._breaker.on_success(permit, now)
        if outcome is CallHealth.FAILURE:
            return self._breaker.on_failure(permit, now)
        self._breaker.on_cancelled(permit)
        return None

    def note_retry_after(self, error: WorldError) -> None:
        """Wait as long as the server asks; that holds for everybody in this limiter."""
        if error.retry_after_ms is not None:
            self._limiter.on_retry_after(error.retry_after_ms, self._clock.now())

    def note_server_limits(self, limits: "ServerLimits") -> None:
        """The call it answers is still in flight and counted by the server: so one request more is
        left than the limiter takes it for. Its tokens may not all be counted yet."""
        requests = limits.requests and structs.replace(
            limits.requests, left=limits.requests.left + 1
        )
        self._limiter.on_remaining(self._clock.now(), requests=requests, tokens=limits.tokens)
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
                    raise RateLimited(describe_rate_limit(self.name, wait_ms))
                case NeverFits(tokens, burst):
                    raise RateLimited(describe_oversized_call(self.name, tokens, burst))

    async def _woken(self, who: str, wait_ms: int) -> None:
        event = self._waiting[who] = asyncio.Event()
        try:
            await wait_first(event.wait(), self._clock.wait_until(self._clock.now() + wait_ms))
        finally:
            del self._waiting[who]

    def _free(self, who: str) -> None:
        self._limiter.release(who)
        self._wake_next()

    def _wake_next(self) -> None:
        following = self._limiter.first_waiting
        if following in self._waiting:
            self._waiting[following].set()


# The models of a runtime by name, and the limiter that everybody who calls one of them shares.


Limits = Mapping[str, RateRule] | Callable[[str], LimiterRules]


class ModelRegistry:
    """The models by name, each with its limiter. `find` turns a name into a model; `limits` gives
    the rules of its limiter."""

    def __init__(
        self, find: Callable[[str], Model] | None, limits: Limits | None, clock: Clock
    ) -> None:
        self._find = find
        self._limits = limits if callable(limits) else _limits_from(limits or {})
        self._clock = clock
        self._limiters: dict[str, Limiter] = {}
        self._known: dict[str, Model] = {}
        self._building = asyncio.Lock()

    async def prepare(self, names: Iterable[str]) -> None:
        """Build these models in a thread, so that `model_of` finds them. The first model of a
        provider loads its libraries, which takes seconds on a slow machine. On the event loop that
        would stall every other call, and a lease that was taken before."""
        missing = {name for name in names if name not in self._known}
        if missing and self._find is not None:
            async with self._building:  # who waited finds what was built meanwhile
                for name in sorted(missing - self._known.keys()):
                    self._known[name] = await asyncio.to_thread(self._find, name)

    async def prepare_for(self, agent: Agent[Any]) -> None:
        """Build the model of an agent, if that is to be done."""
        if isinstance(agent.model, str) and agent.model not in self._known:
            await self.prepare([agent.model])

    def model_of(self, agent: Agent[Any]) -> Model:
        """Return the model of an agent."""
        if not isinstance(agent.model, str):
            return agent.model
        if agent.model not in self._known:
            if self._find is None:
                raise UserError(
                    f"agent {agent.name} names the model {agent.model!r}, and this runtime knows "
                    "none by name; use Runtime.from_config(), or give the agent a model object"
                )
            self._known[agent.model] = self._find(agent.model)
        return self._known[agent.model]

    def limiter_of(self, model: Model) -> Limiter:
        """Return the limiter of a model, which heeds what the provider says of its limits."""
        limiter = self._limiters.get(model.name)
        if limiter is None:
            limiter = self._limiters[model.name] = Limiter(
                model.name, self._limits(model.name), self._clock
            )
        if (subscribe_limits := getattr(model, "subscribe_limits", None)) is not None:
            subscribe_limits(limiter.note_server_limits)
        return limiter

    def retry_of(self, agent: Agent[Any]) -> RetryRule:
        """Return the retry rule of an agent: its own, or else that of its model's limits."""
        if agent.retry is not None:
            return agent.retry
        return self._limits(self.model_of(agent).name).retry

    async def aclose(self) -> None:
        """Close the models that were built."""
        for model in self._known.values():
            if (aclose := getattr(model, "aclose", None)) is not None:
                await aclose()


def _limits_from(limits: Mapping[str, RateRule]) -> Callable[[str], LimiterRules]:
    return lambda name: LimiterRules(limits.get(name) or RateRule())
