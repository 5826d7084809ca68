"""Deployments on Temporal: what a worker serves, the activities that carry out model and tool calls
at most once, and the roles of workers.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from importlib import import_module
from typing import Any

from temporalio import activity
from temporalio.worker import Worker

from vegakit.durable.client import TemporalConnection
from vegakit.durable.messages import ActivityInput, ActivityName, ActivityResult, why_too_large
from vegakit.durable.workflow import ProgramWorkflow, queue_of, register_code
from vegakit.effects import CallTool, Effect
from vegakit.errors import BugError, StoreError, UserError
from vegakit.events import Answered, CallKind, Crashed, EffectCancelled, EffectOutcome, Unknown
from vegakit.host import (
    Account,
    Agent,
    AskContext,
    EffectHandler,
    EffectHandlers,
    Reducer,
    Registry,
    claims_of,
    deploy,
    python_externals,
)
from vegakit.ids import EffectKey
from vegakit.money import Money
from vegakit.policy import Claim, ClaimState
from vegakit.ports import Ledger, Store, Tool
from vegakit.records import from_json, to_json
from vegakit.sdk import Runtime, VegaProgram
from vegakit.telemetry import Span

# What a worker serves: bodies, and the truth about money and answers that its fleet shares.


@dataclass(frozen=True)
class Deployment:
    """The code and the stores that workers of one queue share. `ledger` and `answers` are those of
    all of them: files on one machine, a server for several. With `answers` an answer that was paid
    for outlives a worker that dies before Temporal heard of it. `options` are further ones of
    `Runtime`: budget, models, limits, trace. Of a compiled program each function is a body.
    `version` names the code; Temporal shows it beside every task."""

    bodies: Sequence[Agent[Any] | Reducer | VegaProgram]
    ledger: Ledger
    answers: Store | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    version: str = "unversioned"

    def runtime(self) -> Runtime:
        """Return a runtime for one worker."""
        # What runs is Temporal's to show: the processes of a program are in its history, not here.
        options: dict[str, Any] = {"observable": False, **self.options}
        return Runtime(ledger=self.ledger, **options)

    def registry(self, runtime: Runtime) -> Registry:
        """Return the bodies by name."""
        registry = Registry(runtime.model_registry, lambda: runtime.admission_service)
        for body in self.bodies:
            if isinstance(body, VegaProgram):
                _check_stand_ins(body)
                externals = python_externals(body)
                deploy(
                    body.module,
                    body.root,
                    registry,
                    externals=externals,
                    pipeline=body.pipeline,
                )
            else:
                _check(body)
                registry.register(body)
        return registry


def _check(body: object) -> None:
    if not isinstance(body, Agent | Reducer):
        raise UserError(
            f"{body!r} cannot run on Temporal: no other worker could take up a coroutine where it "
            "stood; write it as a Reducer, or spawn it with a local Runtime"
        )


def _check_stand_ins(program: VegaProgram) -> None:
    if program.stand_ins:
        raise UserError(
            f"{program.module.name} has a rollout for {', '.join(program.stand_ins)}, which cannot "
            "run on Temporal: a worker could not take up its comparisons where another one stood; "
            "deploy the program as it was loaded, and run the rollout with a local Runtime"
        )


def deployment_at(place: str) -> Deployment:
    """Return the deployment that `module:function` makes; the function is called without
    arguments."""
    module, _, name = place.partition(":")
    try:
        made = getattr(import_module(module), name)()
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(
            f"{place!r} is not a function that can be imported ({error}); write module:function, "
            "of a function that returns a Deployment"
        ) from error
    if not isinstance(made, Deployment):
        raise UserError(f"{place} returned {made!r}; it must return a Deployment")
    return made


# The activities: the gate's do-half on whichever worker is free, each call sent once at most.
#
# | a later attempt finds      | and answers                                              |
# |----------------------------|----------------------------------------------------------|
# | the answer kept            | that answer                                              |
# | a claim in the ledger      | Unknown, with what is charged: a worker died while it    |
# |                            | was sent, and nobody sends it again but the program      |
# | claims that cost nothing   | by going on: they were turned away, as by a rate limit   |
# | a tool not to be repeated  | Unknown                                                  |
# | nothing                    | by doing it                                              |


_ANSWERS = "answer"
_BEATS_IN_TIMEOUT = 4


class Activities:
    """The activities of a worker: each carries out one call through the gate of a runtime."""

    def __init__(self, deployment: Deployment, runtime: Runtime, registry: Registry) -> None:
        self._ledger = deployment.ledger
        self._answers = deployment.answers
        self._runtime = runtime
        self._registry = registry

    @activity.defn(name=ActivityName.MODEL)
    async def call_model(self, work: ActivityInput) -> ActivityResult:
        """Carry out a model call."""
        return await self._perform(work)

    @activity.defn(name=ActivityName.TOOL)
    async def call_tool(self, work: ActivityInput) -> ActivityResult:
        """Carry out a tool call."""
        return await self._perform(work)

    @activity.defn(name=ActivityName.FIND_OUTCOME)
    async def find_outcome(self, work: ActivityInput) -> ActivityResult:
        """Return what became of a call whose worker did not say; unknown if nothing was kept."""
        known = await self._known(work.effect)
        if not isinstance(known, ActivityResult):
            known = ActivityResult(work.effect.digest, Unknown(Money(0)))
        if work.cancelled and isinstance(known.outcome, Unknown):
            return ActivityResult(known.digest, EffectCancelled(known.outcome.charged))
        return known

    async def _perform(self, work: ActivityInput) -> ActivityResult:
        with _Heartbeats():
            known = await self._known(work.effect) if activity.info().attempt > 1 else 0
            if isinstance(known, ActivityResult):
                return known
            performed = _limited_result(work.effect, await self._outcome(work, known))
            if self._answers is not None:
                key = _answer_key(work.effect)
                await self._answers.put(_ANSWERS, key, to_json(performed), expected=0)
            return performed

    async def _outcome(self, work: ActivityInput, claimed: int) -> EffectOutcome:
        account = Account(claimed=claimed)
        span = self._runtime.tracer.begin(CallKind.SPAN, work.path)
        try:
            return await self._performer(work, span)(work.effect, account)
        except asyncio.CancelledError:
            if not _is_cancel_requested():
                raise
            return EffectCancelled(Money(account.charged))
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001
            return Crashed(f"{type(error).__name__}: {error}", Money(account.charged))
        finally:
            self._runtime.tracer.end(span)

    def _performer(self, work: ActivityInput, span: Span) -> EffectHandler:
        if work.authored is not None:
            self._registry.restore(work.authored)
        place = _ActivityContext(work, self._registry, AskContext(span))
        handlers = EffectHandlers(self._runtime.services, place).handlers
        return handlers[type(work.effect.request)]

    async def _known(self, effect: Effect) -> ActivityResult | int:
        """Return what an earlier attempt left behind, or how many calls it made that came to
        nothing."""
        kept = (
            None
            if self._answers is None
            else await self._answers.get(_ANSWERS, _answer_key(effect))
        )
        if kept is not None:
            return from_json(ActivityResult, kept[0])
        if isinstance(effect.request, CallTool):
            return (
                0 if effect.request.idempotent else ActivityResult(effect.digest, Unknown(Money(0)))
            )
        claims = await self._claims(effect.key)
        charged = sum(claim.charged for claim in claims)
        if charged or any(claim.state is ClaimState.UNKNOWN for claim in claims):
            return ActivityResult(effect.digest, Unknown(Money(charged)))
        return len(claims)

    async def _claims(self, key: EffectKey) -> Sequence[Claim]:
        """Return the claim of each call. What a worker that died had sent is cut off."""
        claims, now = await claims_of(self._ledger, key), self._runtime.clock.now()
        for attempt, claim in enumerate(claims, 1):
            if claim.state is ClaimState.SENT:
                await self._ledger.cut_off(key, attempt, now)
        return await claims_of(self._ledger, key)


class _ActivityContext:
    """The context of an effect, as far as an activity knows it."""

    def __init__(self, work: ActivityInput, registry: Registry, context: AskContext) -> None:
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

    def context_of(self, effect: Effect) -> AskContext:
        return self._context

    def message_of(self, effect: Effect) -> Any:  # noqa: ANN401
        raise BugError("an activity is told no message")

    def function_of(self, name: str) -> Callable[..., Awaitable[Any]]:
        raise BugError(f"{name} is a coroutine, which no activity runs")


class _Heartbeats:
    """The heartbeats of an activity: Temporal learns from them that we live, and tells us if we are
    to stop. They are a timer and not a task, because most calls end before the first one is due."""

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


def _answer_key(effect: Effect) -> str:
    """Return the key of an answer. A call that was begun, given up and then wanted has an answer
    for each time."""
    return f"{effect.key}#{effect.again}" if effect.again else effect.key


def _limited_result(effect: Effect, outcome: EffectOutcome) -> ActivityResult:
    """Return what a call came to, or why that cannot be kept."""
    performed, asked = ActivityResult(effect.digest, outcome), effect.request
    what = f"the result of tool {asked.tool}" if isinstance(asked, CallTool) else "the answer"
    too_large = why_too_large(what, performed, "ask for less, or hand it over in a file")
    if not too_large:
        return performed
    charged = outcome.charged if isinstance(outcome, Answered) else Money(0)
    return ActivityResult(effect.digest, Crashed(too_large, charged))


def _is_cancel_requested() -> bool:
    """A cancel by the program. A worker that shuts down is no outcome: another one looks what was
    sent."""
    details = activity.cancellation_details()
    return details is not None and details.cancel_requested


# Workers: one process may take all roles, or a fleet may have workers for each.


_TAKEN_UP_WITHIN = timedelta(seconds=2)
"""So long a program waits for a worker that died before another takes it up."""
_LEAVES_WITHIN = timedelta(seconds=30)
"""A worker that is told to end lets calls under way finish."""
_CALLS_AT_ONCE = 300


class Role(StrEnum):
    """The roles of a worker. `CONTROL` steps the programs; the others carry out their calls. A
    worker that has all roles prefers to carry out the calls of the programs that it steps."""

    CONTROL = "control"
    MODELS = "models"
    TOOLS = "tools"


async def serve(
    deployment: Deployment,
    connection: TemporalConnection,
    *,
    roles: Collection[Role] = tuple(Role),
    **options: Any,  # noqa: ANN401
) -> None:
    """Serve a queue until cancelled. `options` are further ones of Temporal's `Worker`."""
    queue, client = connection.queue, connection.client
    async with AsyncExitStack() as workers:
        if deployment.answers is not None:
            workers.push_async_callback(deployment.answers.aclose)
        runtime = await workers.enter_async_context(deployment.runtime())
        registry = deployment.registry(runtime)
        register_code(queue, registry.code, separate_workers=set(roles) != set(Role))
        made = Activities(deployment, runtime, registry)
        takes: dict[Role, dict[str, Any]] = {
            Role.CONTROL: {
                "task_queue": queue,
                "workflows": [ProgramWorkflow],
                "activities": [made.find_outcome, made.call_model, made.call_tool],
                "max_concurrent_activities": _CALLS_AT_ONCE,
            },
            Role.MODELS: {
                "task_queue": queue_of(queue, ActivityName.MODEL),
                "activities": [made.call_model],
            },
            Role.TOOLS: {
                "task_queue": queue_of(queue, ActivityName.TOOL),
                "activities": [made.call_tool],
            },
        }
        usual: dict[str, Any] = {
            "build_id": deployment.version,  # else Temporal compiles every loaded module for one
            "graceful_shutdown_timeout": _LEAVES_WITHIN,
            "sticky_queue_schedule_to_start_timeout": _TAKEN_UP_WITHIN,
        }
        for role in roles:
            worker = Worker(client, **(usual | takes[role] | options))
            await workers.enter_async_context(worker)
        await asyncio.Event().wait()
