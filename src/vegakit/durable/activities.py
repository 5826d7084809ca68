"""The activities: the gate's do-half on whichever worker is free, each call sent once at most.

| a later attempt finds      | and answers                                              |
|----------------------------|----------------------------------------------------------|
| the answer kept            | that answer                                              |
| a claim in the ledger      | Unknown, with what is charged: a worker died while it    |
|                            | was sent, and nobody sends it again but the program      |
| claims that cost nothing   | by going on: they were turned away, as by a rate limit   |
| a tool not to be repeated  | Unknown                                                  |
| nothing                    | by doing it                                              |
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from temporalio import activity

from vegakit.durable.deployments import Deployment
from vegakit.durable.messages import Call, Performed, Work
from vegakit.durable.payloads import why_too_large
from vegakit.effects import CallTool, Effect
from vegakit.errors import BugError, StoreError
from vegakit.events import Answered, CallKind, Cancelled, Crashed, EffectOutcome, Unknown
from vegakit.ids import EffectKey
from vegakit.money import Money
from vegakit.policy import Claim, ClaimState
from vegakit.ports import Tool
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
        known = await self._known(work.effect)
        if not isinstance(known, Performed):
            known = Performed(work.effect.digest, Unknown(Money(0)))
        if work.cancelled and isinstance(known.outcome, Unknown):
            return Performed(known.digest, Cancelled(known.outcome.charged))
        return known

    async def _perform(self, work: Work) -> Performed:
        with _Heartbeats():
            known = await self._known(work.effect) if activity.info().attempt > 1 else 0
            if isinstance(known, Performed):
                return known
            performed = _fitting(work.effect, await self._outcome(work, known))
            if self._answers is not None:
                key = _kept_as(work.effect)
                await self._answers.put(_ANSWERS, key, to_json(performed), expected=0)
            return performed

    async def _outcome(self, work: Work, earlier: int) -> EffectOutcome:
        account = Account()
        span = self._runtime.tracer.begin(CallKind.SPAN, work.path)
        try:
            return await self._performer(work, span, earlier)(work.effect, account)
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

    def _performer(self, work: Work, span: Span, earlier: int) -> Perform:
        if work.authored is not None:
            self._registry.restore(work.authored)
        place = _Place(work, self._registry, Context(span))
        return Performing(self._runtime, place, earlier).performers[type(work.effect.request)]

    async def _known(self, effect: Effect) -> Performed | int:
        """What an earlier attempt left behind, or how many calls it made that came to nothing."""
        kept = (
            None if self._answers is None else await self._answers.get(_ANSWERS, _kept_as(effect))
        )
        if kept is not None:
            return from_json(Performed, kept[0])
        if isinstance(effect.request, CallTool):
            return 0 if effect.request.repeatable else Performed(effect.digest, Unknown(Money(0)))
        claims = await self._claims(effect.key)
        charged = sum(claim.charged for claim in claims)
        if charged or any(claim.state is ClaimState.UNKNOWN for claim in claims):
            return Performed(effect.digest, Unknown(Money(charged)))
        return len(claims)

    async def _claims(self, key: EffectKey) -> list[Claim]:
        """Of each call; what a worker that died had sent is cut off."""
        claims, now = list[Claim](), self._runtime.clock.now()
        while (claim := await self._ledger.claim(key, len(claims) + 1)) is not None:
            if claim.state in (ClaimState.RESERVED, ClaimState.SENT):
                await self._ledger.cut_off(key, len(claims) + 1, now)
                claim = await self._ledger.claim(key, len(claims) + 1) or claim
            claims.append(claim)
        return claims


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

    def tool_of(self, effect: Effect, name: str) -> tuple[Tool, str]:
        body = self._work.body
        return self._registry.tools(body)[name], body

    def context_of(self, effect: Effect) -> Context:
        return self._context

    def message_of(self, effect: Effect) -> Any:  # noqa: ANN401
        raise BugError("an activity is told no message")

    def function_of(self, name: str) -> Callable[..., Awaitable[Any]]:
        raise BugError(f"{name} is a coroutine, which no activity runs")


class _Heartbeats:
    """Temporal learns from them that we live, and tells us if we are to stop. A timer, not a task:
    most calls end before the first one is due."""

    def __enter__(self) -> None:
        timeout = activity.info().heartbeat_timeout or timedelta(seconds=10)
        self._every_s = timeout.total_seconds() / _BEATS_IN_TIMEOUT
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(self._every_s, self._beat)

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def _beat(self) -> None:
        activity.heartbeat()
        self._timer = self._loop.call_later(self._every_s, self._beat)


def _kept_as(effect: Effect) -> str:
    """What was begun, given up and then wanted has an answer for each time."""
    return f"{effect.key}#{effect.again}" if effect.again else effect.key


def _fitting(effect: Effect, outcome: EffectOutcome) -> Performed:
    """What it came to, or why that cannot be kept."""
    performed, asked = Performed(effect.digest, outcome), effect.request
    what = f"the result of tool {asked.tool}" if isinstance(asked, CallTool) else "the answer"
    too_large = why_too_large(what, performed, "ask for less, or hand it over in a file")
    if not too_large:
        return performed
    charged = outcome.charged if isinstance(outcome, Answered) else Money(0)
    return Performed(effect.digest, Crashed(too_large, charged))


def _is_wanted() -> bool:
    """A cancel by the program. A worker that shuts down is no outcome: another one looks what was
    sent."""
    details = activity.cancellation_details()
    return details is not None and details.cancel_requested
