"""The limiter of each model, which all its callers share, and the registry of models by name."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from msgspec import structs

from vegakit.concurrency import wait_first
from vegakit.conversation import ModelChunk, ModelReply, ModelRequest
from vegakit.errors import CircuitOpen, InvalidRuleError, RateLimited, UserError, WorldError
from vegakit.host.agents import Agent
from vegakit.host.budgets import answering_name
from vegakit.policy import (
    UNHEALTHY,
    Admitted,
    Breaker,
    BreakerChange,
    BreakerRule,
    BreakerState,
    LimitWait,
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
    WaitReason,
    describe_long_wait,
    describe_open_breaker,
    describe_oversized_call,
    describe_rate_limit,
    format_wait,
)
from vegakit.ports import Clock, Model, tokenizer_of

if TYPE_CHECKING:
    from vegakit.providers import ServerLimits

# Waiting for one's turn: a model's rate limit, slots and breaker, shared by all who call it.
#
# enter ── ask the limiter ── Queued ──▶ wait to be woken, or for the time it names ──┐
#           │  ▲                                                                      │
#           │  └──────────────────────────────────────────────────────────────────────┘
#           ▼
#        Admitted ── ask the breaker ── Permit ──▶ call ──▶ leave(outcome), wake the next


_LOG = logging.getLogger("vegakit")
_WORTH_SAYING_MS = 5_000
"""A shorter wait is over before anybody has read of it."""


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


OnWait: TypeAlias = Callable[[str, int], None]
"""Told what a call waited for, and for how many milliseconds."""


def unheard(waited_for: str, ms: int) -> None:
    """Let nobody count how long calls wait."""


OnQueued: TypeAlias = Callable[[int, WaitReason], None]
"""Told that a call waits for its turn: for about how many milliseconds, and for which limit."""


def unqueued(wait_ms: int, reason: WaitReason) -> None:
    """Let nobody know that a call waits."""


class Limiter:
    """The limiter of one model or agent: rate, slots and breaker."""

    def __init__(
        self, name: str, rules: LimiterRules, clock: Clock, on_wait: OnWait = unheard
    ) -> None:
        self.name = name
        self._on_wait = on_wait
        self._limiter = RateLimiter(rules.rate)
        self._breaker = Breaker(rules.breaker)
        self.retry_budget = RetryBudget(rules.retry_budget)
        """Shared by all who call, so that an outage is not answered by a storm of retries."""
        self._clock = clock
        self._waiting: dict[str, asyncio.Event] = {}
        self._quiet_until = 0
        self._last_failure = ""

    @property
    def waiting(self) -> int:
        """Return how many calls wait for their turn."""
        return len(self._waiting)

    @property
    def in_flight(self) -> int:
        """Return how many calls have been let through and have not ended."""
        return len(self._limiter.in_flight)

    @property
    def is_open(self) -> bool:
        """Return whether the breaker lets no call through, or only probes."""
        return self._breaker.state is not BreakerState.CLOSED

    async def enter(
        self,
        who: str,
        tokens: int,
        priority: int,
        *,
        own_breaker: bool = False,
        max_wait_ms: int | None = None,
        on_queued: OnQueued = unqueued,
    ) -> Permit | None:
        """Waits for a turn; whoever is cancelled while waiting leaves without a trace. Whoever has
        a breaker of its own is not asked for by this one, and says nothing to it. A wait that is
        known to be longer than `max_wait_ms` is not begun; one that nobody can foretell, for a
        slot, ends then."""
        try:
            await self._wait_turn(who, tokens, priority, max_wait_ms, on_queued)
            if own_breaker:
                return None
            verdict = self._breaker.admit(self._clock.now())
        except BaseException:
            self._free(who)
            raise
        if isinstance(verdict, Permit):
            return verdict
        self._free(who)
        raise CircuitOpen(describe_open_breaker(self.name, verdict.wait_ms, self._last_failure))

    def note_failure(self, error: WorldError) -> None:
        """Remember what the provider said: who is refused because of it is told."""
        if health(error) is CallHealth.FAILURE:
            self._last_failure = str(error)

    def leave(self, who: str, permit: Permit | None, outcome: CallHealth) -> BreakerChange | None:
        """Free the slot, and tell the breaker how the call went."""
        self._free(who)
        if permit is None:
            return None
        now = self._clock.now()
        if outcome is CallHealth.SUCCESS:
            return self._breaker.on_success(permit, now)
        if outcome is CallHealth.FAILURE:
            return self._breaker.on_failure(permit, now)
        self._breaker.on_cancelled(permit)
        return None

    def note_retry_after(self, error: WorldError, most_ms: int) -> None:
        """Wait as long as the server asks; that holds for everybody in this limiter. A longer wait
        than the rule of retries allows is not believed to its end: after that it is asked anew."""
        if error.retry_after_ms is not None:
            wait_ms = min(error.retry_after_ms, most_ms)
            self._limiter.on_retry_after(wait_ms, self._clock.now())
            self._tell(wait_ms)

    def note_server_limits(self, limits: "ServerLimits") -> None:
        """The call it answers is still in flight and counted by the server: so one request more is
        left than the limiter takes it for. Its tokens may not all be counted yet."""
        requests = limits.requests and structs.replace(
            limits.requests, left=limits.requests.left + 1
        )
        self._limiter.on_remaining(self._clock.now(), requests=requests, tokens=limits.tokens)
        used_up = (limit for limit in limits if limit is not None and limit.left == 0)
        self._tell(max((limit.reset_in_ms for limit in used_up), default=0))
        self._wake_next()

    def _tell(self, wait_ms: int) -> None:
        """Say that nobody asks this model for some time; once, however many are told to wait."""
        now = self._clock.now()
        if wait_ms >= _WORTH_SAYING_MS and now >= self._quiet_until:
            self._quiet_until = now + wait_ms
            _LOG.warning("%s asks to wait: no call for %s", self.name, format_wait(wait_ms))

    async def _wait_turn(
        self,
        who: str,
        tokens: int,
        priority: int,
        max_wait_ms: int | None,
        on_queued: OnQueued,
    ) -> None:
        began, is_announced = None, False
        while True:
            now = self._clock.now()
            began = now if began is None else began
            verdict = self._limiter.ask(who, now, tokens=tokens, priority=priority)
            match verdict:
                case Admitted():
                    self._on_wait("limiter", now - began)
                    self._wake_next()  # more than one may have left since the last look
                    return
                case Queued(wait_ms) | SlowDown(wait_ms):
                    left_ms = None if max_wait_ms is None else began + max_wait_ms - now
                    wait = self._limiter.wait_of(who, tokens, wait_ms, left_ms)
                    if wait.too_long and max_wait_ms is not None:
                        text = describe_long_wait(self.name, wait, max_wait_ms)
                        raise _rate_limited(text, wait)
                    if not is_announced:
                        on_queued(wait.wait_ms, wait.reason)
                        is_announced = True
                    await self._woken(who, wait.wait_ms)
                case NotYet(wait_ms):
                    wait = self._limiter.wait_of(who, tokens, wait_ms, None)
                    raise _rate_limited(describe_rate_limit(self.name, wait_ms), wait)
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


def _rate_limited(text: str, wait: LimitWait) -> RateLimited:
    refused = RateLimited(text)
    # The limiter looks for a slot now and then; when one will be free it cannot know.
    refused.wait_s = None if wait.reason is WaitReason.SLOTS else wait.wait_ms / 1000
    return refused


# The models of a runtime by name, and the limiter that everybody who calls one of them shares.


Limits = Mapping[str, RateRule] | Callable[[str], LimiterRules]
FindModels = Callable[[str], Model | tuple[Model, ...]]
"""A name may stand for several models, of which each is asked when the one before is not
available."""


class ModelRegistry:
    """The models by name, each with its limiter. `find` turns a name into a model; `limits` gives
    the rules of its limiter."""

    def __init__(self, find: FindModels | None, limits: Limits | None, clock: Clock) -> None:
        self._find = find
        self._settings_names: Callable[[str], tuple[str, ...]] | None = getattr(
            find, "names_of", None
        )
        self.resolved: dict[str, tuple[str, ...]] = {}
        """The names of the models behind each alias that was resolved."""
        self._moved: Mapping[str, tuple[str, ...]] = {}
        self.on_resolved: Callable[[], Awaitable[None]] = _nothing
        self._limits = limits if callable(limits) else _limits_from(limits or {})
        self._clock = clock
        self.on_wait: OnWait = unheard
        self._limiters: dict[str, Limiter] = {}
        self._known: dict[str, tuple[Model, ...]] = {}
        self._building = asyncio.Lock()

    async def prepare(self, names: Iterable[str]) -> None:
        """Build these models in a thread, so that `model_of` finds them. The first model of a
        provider loads its libraries, which takes seconds on a slow machine. On the event loop that
        would stall every other call, and a lease that was taken before."""
        missing = {name for name in names if name not in self._known}
        if missing and self._find is not None:
            async with self._building:  # who waited finds what was built meanwhile
                for name in sorted(missing - self._known.keys()):
                    self._known[name] = await asyncio.to_thread(self._built, name)
                await self.on_resolved()

    async def prepare_for(self, agent: Agent[Any]) -> None:
        """Build the models of an agent, if that is to be done."""
        missing = [one for one in agent.models if isinstance(one, str) and one not in self._known]
        if missing:
            await self.prepare(missing)

    def models_of(self, agent: Agent[Any]) -> tuple[Model, ...]:
        """Return the models of an agent, in the order in which they are asked."""
        found = [model for given in agent.models for model in self._models(agent, given)]
        # `vega run --model` has one model answer for all names: it is asked once.
        models = tuple({id(model): model for model in found}.values())
        names = [model.name for model in models]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise InvalidRuleError(
                f"agent {agent.name} has several models that are called {', '.join(twice)}; a "
                "model that is not available is retried already, so name each once"
            )
        return models

    def _models(self, agent: Agent[Any], given: str | Model) -> tuple[Model, ...]:
        if not isinstance(given, str):
            return (given,)
        if given not in self._known:
            if self._find is None:
                raise UserError(
                    f"agent {agent.name} names the model {given!r}, and this runtime knows "
                    "none by name; use Runtime.from_config(), or give the agent a model object"
                )
            self._known[given] = self._built(given)
        return self._known[given]

    async def keep(
        self, models: Mapping[str, tuple[str, ...]], moved: Mapping[str, tuple[str, ...]]
    ) -> None:
        """Resolve aliases to these models, also if the settings have changed. The models in `moved`
        answer under the recorded names: a recorded answer is found by its request, which contains
        the name of the model."""
        stale = {name for name in models if self.resolved.get(name) != models[name]} | {*moved}
        self.resolved |= models
        self._moved = moved
        stale &= self._known.keys()
        for name in stale:
            await _close(self._known.pop(name))
        await self.prepare(stale)

    def names_of(self, name: str) -> tuple[str, ...]:
        """Return the models that answer for a name."""
        return self._moved.get(name) or self.resolved.get(name) or self.names_by_settings(name)

    def names_by_settings(self, name: str) -> tuple[str, ...]:
        """Return the models of a name by the settings."""
        return (name,) if self._settings_names is None else self._settings_names(name)

    def _built(self, name: str) -> tuple[Model, ...]:
        assert self._find is not None
        find = self._find
        if name not in self.resolved:
            if (names := self.names_by_settings(name)) != (name,):
                self.resolved[name] = names
            return _in_order(find(name))
        models = [_in_order(find(recorded))[0] for recorded in self.resolved[name]]
        if (moved := self._moved.get(name)) is None:
            return tuple(models)
        last = len(moved) - 1
        new_names = (moved[min(index, last)] for index in range(len(models)))
        pairs = zip(models, new_names, strict=True)
        return tuple(MovedModel(model, _in_order(find(new))[0]) for model, new in pairs)

    def model_of(self, agent: Agent[Any], name: str = "") -> Model:
        """Return the model of an agent of this name, or the one that it asks first."""
        if isinstance(agent.model, str) and len(known := self._known.get(agent.model, ())) == 1:
            return known[0]
        models = self.models_of(agent)
        return next((model for model in models if model.name == name), models[0])

    def limiter_of(self, model: Model) -> Limiter:
        """Return the limiter of a model, which heeds what the provider says of its limits."""
        name = answering_name(model)
        limiter = self._limiters.get(name)
        if limiter is None:
            limits = self._limits(name)
            limiter = self._limiters[name] = Limiter(name, limits, self._clock, self.on_wait)
        if (subscribe_limits := getattr(model, "subscribe_limits", None)) is not None:
            subscribe_limits(limiter.note_server_limits)
        return limiter

    def limiters(self) -> list[Limiter]:
        """Return the limiters of the models that were called."""
        return [*self._limiters.values()]

    def retry_of(self, agent: Agent[Any], model: Model | None = None) -> RetryRule:
        """Return the retry rule of an agent: its own, or else that of its model's limits. Where the
        agent says how long it waits, that holds for a provider that asks to wait, too."""
        rule = agent.retry or self._limits((model or self.model_of(agent)).name).retry
        if agent.max_wait_ms is None:
            return rule
        return structs.replace(rule, max_wait_ms=max(1, agent.max_wait_ms))

    async def aclose(self) -> None:
        """Close the models that were built."""
        for models in self._known.values():
            await _close(models)


class MovedModel:
    """A model that replaces another and keeps its name. The price and the answers are of the new
    model; the window and the length of answers, which shape requests, are of the recorded one."""

    def __init__(self, recorded: Model, current: Model) -> None:
        self.name = recorded.name
        self.price = current.price
        self.context_tokens = recorded.context_tokens
        self.default_max_tokens = recorded.default_max_tokens
        self.bound_input = current.bound_input
        self.tokenizer = tokenizer_of(recorded)
        self.answers_as = current.name
        self.subscribe_limits = getattr(current, "subscribe_limits", _ignored)
        self._models = (recorded, current)

    async def ask(self, request: ModelRequest) -> ModelReply:
        """Ask the other model."""
        return await self._models[1].ask(structs.replace(request, model=self.answers_as))

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk]:
        """Stream the answer of the other model."""
        return self._models[1].stream(structs.replace(request, model=self.answers_as))

    async def aclose(self) -> None:
        """Close both."""
        await _close(self._models)


async def _close(models: Iterable[Model]) -> None:
    for model in models:
        if (aclose := getattr(model, "aclose", None)) is not None:
            await aclose()


async def _nothing() -> None:
    pass


def _ignored(_: object) -> None:
    pass


def _in_order(found: Model | tuple[Model, ...]) -> tuple[Model, ...]:
    return found if isinstance(found, tuple) else (found,)


def _limits_from(limits: Mapping[str, RateRule]) -> Callable[[str], LimiterRules]:
    return lambda name: LimiterRules(limits.get(name) or RateRule())
