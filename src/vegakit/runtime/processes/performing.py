"""How the local host carries out each kind of effect: the gate's do-half for processes."""

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from vegakit.agent import PlannedCall
from vegakit.conversation import ModelChunk, ModelReply, ToolCall
from vegakit.effects import CallModel, CallTool, Effect, Request, RunForeign, SetTimer
from vegakit.errors import BugError, Raised, WorldError
from vegakit.events import Answered, EffectOutcome, Failed, Refused
from vegakit.money import Money
from vegakit.runtime.agents import Agent
from vegakit.runtime.gate import Account, ModelCall
from vegakit.runtime.processes.localhost import Perform
from vegakit.runtime.toolcalls import call_tool
from vegakit.runtime.tracing import traced_call
from vegakit.telemetry import Span

if TYPE_CHECKING:
    from vegakit.runtime.runtime import Runtime

__all__ = ["Context", "Performing", "Place", "current_process"]

current_process: ContextVar[str] = ContextVar("vega_process", default="")
"""The process whose body is running, so that what it spawns is its child."""


@dataclass(slots=True)
class Context:
    """What an ask brings along that is not part of the program's state."""

    span: Span
    deps: object = None
    on_chunk: Callable[[ModelChunk], Awaitable[None]] | None = None


class Place(Protocol):
    """Where an effect stands, as the owner of the program knows it."""

    def process_of(self, effect: Effect) -> str: ...

    def message_of(self, effect: Effect) -> Any: ...  # noqa: ANN401

    def context_of(self, effect: Effect) -> Context: ...

    def agent_of(self, effect: Effect) -> Agent[Any]: ...

    def function_of(self, name: str) -> Callable[..., Awaitable[Any]]: ...


@dataclass(slots=True)
class Performing:
    runtime: "Runtime"
    place: Place
    performers: dict[type[Request], Perform] = field(init=False)

    def __post_init__(self) -> None:
        self.performers = {
            CallModel: self._call_model,
            CallTool: self._call_tool,
            SetTimer: self._wait,
            RunForeign: self._run_foreign,
        }

    async def _call_model(self, effect: Effect, account: Account) -> EffectOutcome:
        rt, agent, context = (
            self.runtime,
            self.place.agent_of(effect),
            self.place.context_of(effect),
        )
        request, model = effect.request, rt.catalogue.model_of(agent)
        assert isinstance(request, CallModel)
        current_process.set(self.place.process_of(effect))
        scope = await rt.budgets.ready(request.scope or rt.budgets.root)
        call = ModelCall(
            model,
            request.request,
            effect.key,
            scope,
            [rt.catalogue.lane_of(model)],
            agent.retry,
            stream=request.stream,
            deadline_ms=effect.deadline_ms,
            priority=effect.priority,
            earlier=rt.journaled.attempts.get(effect.key, 0) if rt.journaled else 0,
            retry_billed=False,
        )
        try:
            with traced_call(rt.tracer, agent.name, model.name, account, context.span) as traced:
                async with aclosing(rt.gate.chunks(call, account)) as chunks:
                    async for chunk in chunks:
                        if isinstance(chunk, ModelReply):
                            traced.reply = chunk
                        elif context.on_chunk is not None:
                            await context.on_chunk(chunk)
        except Raised as refused:
            return Refused(type(refused).__name__, str(refused))
        except WorldError as failed:
            return Failed(
                failed.error_class,
                str(failed),
                failed.phase,
                Money(account.charged),
                account.attempts,
                failed.retry_after_ms,
            )
        finally:
            rt.on_spent(account.charged)
        if traced.reply is None:
            raise BugError(f"{model.name} ended its answer without a reply")
        return Answered(traced.reply, Money(account.charged))

    async def _call_tool(self, effect: Effect, account: Account) -> EffectOutcome:
        request, context = effect.request, self.place.context_of(effect)
        assert isinstance(request, CallTool)
        tool = self.place.agent_of(effect).tools_by_name[request.tool]
        index = effect.path.loop[-1]
        plan = PlannedCall(index, ToolCall("", request.tool, request.arguments))
        current_process.set(self.place.process_of(effect))
        outcome = await call_tool(tool, plan, context.deps, self.runtime.tracer, context.span)
        return Answered(outcome)

    async def _wait(self, effect: Effect, account: Account) -> EffectOutcome:
        assert isinstance(effect.request, SetTimer)
        await self.runtime.clock.wait_until(effect.request.due_ms)
        return Answered(None)

    async def _run_foreign(self, effect: Effect, account: Account) -> EffectOutcome:
        assert isinstance(effect.request, RunForeign)
        function = self.place.function_of(effect.request.body)
        current_process.set(self.place.process_of(effect))
        if effect.path.site.function == "life":
            return Answered(await function())
        return Answered(await function(self.place.message_of(effect)))
