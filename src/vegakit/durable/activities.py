"""The activities: the gate's do-half on whichever worker is free, each call sent once at most.

| a later attempt finds      | and answers                                              |
|----------------------------|----------------------------------------------------------|
| the answer kept            | that answer                                              |
| a claim in the ledger      | Unknown, with what is charged: a worker died while it    |
|                            | was sent, and nobody sends it again but the program      |
| a tool not to be repeated  | Unknown                                                  |
| nothing                    | by doing it                                              |
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from temporalio import activity

from vegakit.durable.deployments import Deployment
from vegakit.durable.messages import Call, Performed, Work
from vegakit.effects import CallTool, Effect
from vegakit.errors import BugError, StoreError
from vegakit.events import CallKind, Cancelled, Crashed, EffectOutcome, Unknown
from vegakit.ids import EffectKey
from vegakit.money import Money
from vegakit.policy import ClaimState
from vegakit.records import from_json, to_json
from vegakit.runtime import Account, Agent, Context, Perform, Performing, Registry, Runtime
from vegakit.telemetry import Span

__all__ = ["Activities"]

_ANSWERS = "answer"
_BEATS_IN_TIMEOUT = 4


class Activities:
    def __init__(self, deployment: Deployment, runtime: Runtime, registry: Registry) -> None:
        self._ledger = deployment.ledger
        self._answers = deployment.answers
        self._runtime = runtime
        self._registry = registry

    @activity.defn(name=Call.MODEL)
    async def call_model(self, work: Work) -> Performed:
        return await self._perform(work)

    @activity.defn(name=Call.TOOL)
    async def call_tool(self, work: Work) -> Performed:
        return await self._perform(work)

    @activity.defn(name=Call.AFTERMATH)
    async def aftermath(self, work: Work) -> Performed:
        known = await self._known(work.effect) or Performed(work.effect.digest, Unknown(Money(0)))
        if work.cancelled and isinstance(known.outcome, Unknown):
            return Performed(known.digest, Cancelled(known.outcome.charged))
        return known

    async def _perform(self, work: Work) -> Performed:
        async with _heartbeats():
            if activity.info().attempt > 1:
                known = await self._known(work.effect)
                if known is not None:
                    return known
            performed = Performed(work.effect.digest, await self._outcome(work))
            if self._answers is not None:
                key = work.effect.key
                await self._answers.put(_ANSWERS, key, to_json(performed), expected=0)
            return performed

    async def _outcome(self, work: Work) -> EffectOutcome:
        account = Account()
        span = self._runtime.tracer.begin(CallKind.SPAN, work.path)
        try:
            return await self._performer(work, span)(work.effect, account)
        except asyncio.CancelledError:
            if not _is_wanted():
                raise
            return Cancelled(Money(account.charged))
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001
            return Crashed(f"{type(error).__name__}: {error}", Money(account.charged))
        finally:
            self._runtime.tracer.end(span)

    def _performer(self, work: Work, span: Span) -> Perform:
        place = _Place(work, self._registry, Context(span))
        return Performing(self._runtime, place).performers[type(work.effect.request)]

    async def _known(self, effect: Effect) -> Performed | None:
        """What an earlier attempt left behind."""
        kept = None if self._answers is None else await self._answers.get(_ANSWERS, effect.key)
        if kept is not None:
            return from_json(Performed, kept[0])
        if isinstance(effect.request, CallTool):
            charged = None if effect.request.repeatable else Money(0)
        else:
            charged = await self._charged(effect.key)
        return None if charged is None else Performed(effect.digest, Unknown(charged))

    async def _charged(self, key: EffectKey) -> Money | None:
        """None: nothing was ever claimed."""
        charged, attempt, now = 0, 0, self._runtime.clock.now()
        while (claim := await self._ledger.claim(key, attempt + 1)) is not None:
            attempt += 1
            charged += claim.charged
            if claim.state in (ClaimState.RESERVED, ClaimState.SENT):
                charged += (await self._ledger.cut_off(key, attempt, now)).changed
        return Money(charged) if attempt else None


class _Place:
    """Where an effect stands, as far as an activity knows it."""

    def __init__(self, work: Work, registry: Registry, context: Context) -> None:
        self._work = work
        self._registry = registry
        self._context = context

    def process_of(self, effect: Effect) -> str:
        return self._work.path

    def agent_of(self, effect: Effect) -> Agent[Any]:
        return self._registry.agent(self._work.body)

    def context_of(self, effect: Effect) -> Context:
        return self._context

    def message_of(self, effect: Effect) -> Any:  # noqa: ANN401
        raise BugError("an activity is told no message")

    def function_of(self, name: str) -> Callable[..., Awaitable[Any]]:
        raise BugError(f"{name} is a coroutine, which no activity runs")


@asynccontextmanager
async def _heartbeats() -> AsyncGenerator[None]:
    """Temporal learns from them that we live, and tells us if we are to stop."""
    timeout = activity.info().heartbeat_timeout or timedelta(seconds=10)
    beating = asyncio.ensure_future(_beat(timeout.total_seconds() / _BEATS_IN_TIMEOUT))
    try:
        yield
    finally:
        beating.cancel()


async def _beat(every_s: float) -> None:
    while True:
        activity.heartbeat()
        await asyncio.sleep(every_s)


def _is_wanted() -> bool:
    """A cancel by the program. A worker that shuts down is no outcome: another one looks what was
    sent."""
    details = activity.cancellation_details()
    return details is not None and details.cancel_requested
