"""The runtime people use: it owns ledger, lanes and traces, and every ask goes through it.

async with Runtime(budget="$10") as rt:
    reply = await rt.ask(agent, "…")            scope and deadline are those of this line
    with rt.budget("$1/day"): …                 a cap inside the cap
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from vegakit.config import Settings, load
from vegakit.conversation import Conversation, Message
from vegakit.errors import UserError
from vegakit.events import CallTraced
from vegakit.ids import HolderId, ScopeId
from vegakit.money import Money
from vegakit.policy import BreakerRule, RateRule, ScopeRule
from vegakit.ports import Clock, Ledger, Model, Sink
from vegakit.runtime.agents import Agent
from vegakit.runtime.asks import Ask
from vegakit.runtime.budgets import Budgets, rule_of
from vegakit.runtime.cancelling import all_of
from vegakit.runtime.clock import SteadyClock
from vegakit.runtime.composing import parts_from
from vegakit.runtime.gate import Gate
from vegakit.runtime.lanes import Lane, LaneRules
from vegakit.runtime.replies import Reply, StreamEvent
from vegakit.store import MemoryLedger
from vegakit.telemetry import Tracer

__all__ = ["Runtime"]

T = TypeVar("T")

_LEASE_MS = 20_000
_RENEW_MS = 5_000
_PRUNE_MS = 600_000
_REMEMBER_MS = 86_400_000
"""How long a late bill still finds its claim."""


class _NoSink:
    def record(self, call: CallTraced) -> None:
        pass

    async def aclose(self) -> None:
        pass


class Runtime:
    """`name` names the cap: runtimes of one name on one ledger share it. `models` turns a model's
    name into a model; without it names are looked up in the settings."""

    def __init__(
        self,
        budget: str | float | ScopeRule | None = "$10",
        *,
        name: str = "default",
        ledger: Ledger | None = None,
        trace: Sink | None = None,
        limits: Mapping[str, RateRule] | Callable[[str], LaneRules] | None = None,
        models: Callable[[str], Model] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.clock: Clock = clock or SteadyClock()
        self._ledger: Ledger = ledger or MemoryLedger()
        self._sink: Sink = trace or _NoSink()
        self._name = name
        self._models = models
        self._limits = limits if callable(limits) else _limits_from(limits or {})
        self._lanes: dict[str, Lane] = {}
        self._known: dict[str, Model] = {}
        self._spent = 0
        self._renewing: asyncio.Task[None] | None = None
        root = ScopeId(f"runtime:{name}")
        self.budgets = Budgets(self._ledger, self.clock, root, rule_of(budget))
        self.tracer = Tracer(self._sink, self.clock)

    @classmethod
    def from_config(cls, settings: Settings | None = None, **flags: object) -> "Runtime":
        """As vega.toml and `VEGA_*` say: models by name, a ledger and traces on disk. `flags` are
        settings by dotted name, with `_` for the dots."""
        return cls(**parts_from(settings or load(flags)))

    async def __aenter__(self) -> Self:
        """Takes a lease, and settles what holders left behind who died."""
        now = self.clock.now()
        self._holder = HolderId(f"{self._name}:{secrets.token_hex(8)}")
        self.gate = Gate(self._ledger, self.clock, self._holder)
        await self._ledger.renew(self._holder, now + _LEASE_MS)
        await self._ledger.expire(now)
        await self.budgets.ready(self.budgets.root)
        self._renewing = asyncio.ensure_future(self._renew())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait([self._renewing])
        await self.budgets.close_left()
        for model in self._known.values():
            if (aclose := getattr(model, "aclose", None)) is not None:
                await aclose()
        await self._sink.aclose()
        await self._ledger.aclose()

    def ask(
        self,
        agent: Agent[T],
        prompt: str,
        *,
        timeout: float | None = None,
        deps: object = None,
        files: Sequence[str | Path] = (),
        history: Conversation | Sequence[Message] = (),
        wait_for_budget: bool = False,
    ) -> Ask[T]:
        self._check_entered()
        return Ask(
            self,
            agent,
            prompt,
            timeout_s=timeout,
            deps=deps,
            files=files,
            history=history,
            wait_for_budget=wait_for_budget,
        )

    def stream(
        self,
        agent: Agent[T],
        prompt: str,
        **options: Any,  # noqa: ANN401
    ) -> AsyncGenerator[StreamEvent[T]]:
        """Takes what `ask` takes. Leaving the loop early closes the connection."""
        return self.ask(agent, prompt, **options).events(stream=True)

    async def batch(self, *asks: Ask[Any]) -> tuple[Reply[Any], ...]:
        """At once; if one fails, the others are cancelled."""
        return tuple(await all_of([_awaited(ask) for ask in asks]))

    def budget(
        self, allowance: str | float, name: str | None = None
    ) -> AbstractContextManager[ScopeId]:
        """A named block, or one with a period, goes on where it was left; others start anew."""
        return self.budgets.block(allowance, name)

    @property
    def spent(self) -> Money:
        """By the asks of this runtime."""
        return Money(self._spent)

    async def remaining(self) -> Money | None:
        """Of the current budget; None where nothing limits it."""
        scope = await self.budgets.ready(self.budgets.current)
        return await self._ledger.room(scope, self.clock.now())

    def on_spent(self, amount: int) -> None:
        self._spent += amount

    def model_of(self, agent: Agent[Any]) -> Model:
        if not isinstance(agent.model, str):
            return agent.model
        if agent.model not in self._known:
            if self._models is None:
                raise UserError(
                    f"agent {agent.name} names the model {agent.model!r}, and this runtime knows "
                    "none by name; use Runtime.from_config(), or give the agent a model object"
                )
            self._known[agent.model] = self._models(agent.model)
        return self._known[agent.model]

    def lanes_of(self, agent: Agent[Any], model: Model) -> list[Lane]:
        lanes = [self._lane(model.name, self._limits(model.name))]
        if agent.rate is not None or agent.breaker is not None:
            own = LaneRules(agent.rate or RateRule(), agent.breaker or BreakerRule())
            lanes.append(self._lane(f"agent {agent.name}", own))
        return lanes

    def _lane(self, name: str, rules: LaneRules) -> Lane:
        if name not in self._lanes:
            self._lanes[name] = Lane(name, rules, self.clock)
        return self._lanes[name]

    async def _renew(self) -> None:
        """Keeps the lease, and forgets old claims now and then, so that a long life stays small."""
        prune_at = 0
        while True:
            now = self.clock.now()
            await self._ledger.renew(self._holder, now + _LEASE_MS)
            if now >= prune_at:
                await self._ledger.prune(now - _REMEMBER_MS)
                prune_at = now + _PRUNE_MS
            await self.clock.wait_until(now + _RENEW_MS)

    def _check_entered(self) -> None:
        if self._renewing is None:
            raise UserError("open the runtime first: `async with Runtime(...) as rt:`")


def _limits_from(limits: Mapping[str, RateRule]) -> Callable[[str], LaneRules]:
    return lambda name: LaneRules(limits.get(name) or RateRule())


async def _awaited(ask: Ask[T]) -> Reply[T]:
    return await ask
