"""How the local host carries out each kind of effect: the gate's do-half for processes."""

import contextvars
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from vegakit.agent import PlannedCall, ToolOutcome
from vegakit.conversation import ModelReply, TextDelta, ToolCall
from vegakit.effects import AskHuman, CallModel, CallTool, Effect, Request, RunForeign, SetTimer
from vegakit.errors import BugError, Raised, WorldError
from vegakit.events import Answered, EffectOutcome, Failed, Refused
from vegakit.ids import Pid, pid_of
from vegakit.money import Money
from vegakit.ports import Tool
from vegakit.program import NOW, Outcome, time_text
from vegakit.records import to_json
from vegakit.runtime.agents import Agent
from vegakit.runtime.gate import Account, ModelCall
from vegakit.runtime.oversight import Caller
from vegakit.runtime.processes.localhost import Perform
from vegakit.runtime.processes.relays import Relay
from vegakit.runtime.replies import StreamEvent, TextChunk
from vegakit.runtime.toolcalls import call_tool
from vegakit.runtime.tracing import traced_call
from vegakit.telemetry import Span
from vegakit.tools import current_sandboxes

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
    heard: Relay[StreamEvent[Any]] | None = None
    """What who hears it piece by piece is told."""
    variables: contextvars.Context | None = None
    """Of who asked: its tools see the budget and all else that is set there."""
    charged: int = 0
    failure: BaseException | None = None
    """What the last failed call raised here."""
    outcome: Outcome | None = None
    """Of the ask, while its span is open."""


class Place(Protocol):
    """Where an effect stands, as the owner of the program knows it."""

    def process_of(self, effect: Effect) -> str: ...

    def message_of(self, effect: Effect) -> Any: ...  # noqa: ANN401

    def context_of(self, effect: Effect) -> Context: ...

    def agent_of(self, effect: Effect) -> Agent[Any]: ...

    def tool_of(self, effect: Effect, name: str) -> tuple[Tool, str]: ...

    def function_of(self, name: str) -> Callable[..., Awaitable[Any]]: ...


@dataclass(slots=True)
class Performing:
    runtime: "Runtime"
    place: Place
    earlier: int = 0
    """Attempts that somebody made at the call before us, all of which came to nothing."""
    counted: bool = False
    """The program runs beside us, so its figures are of the same models and prices as ours."""
    warm: Callable[[Effect], None] = lambda _: None
    """Told when a model is asked: what its answer may need is started meanwhile."""
    performers: dict[type[Request], Perform] = field(init=False)

    def __post_init__(self) -> None:
        self.performers = {
            CallModel: self._call_model,
            CallTool: self._call_tool,
            AskHuman: self._ask_person,
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
        self.warm(effect)
        current_process.set(self.place.process_of(effect))
        scope = await rt.budgets.ready(request.scope or rt.budgets.root)
        call = ModelCall(
            model,
            request.request,
            effect.key,
            scope,
            rt.catalogue.lane_of(model),
            rt.catalogue.retry_of(agent),
            stream=request.stream,
            deadline_ms=effect.deadline_ms,
            wait_for_budget=request.wait_for_budget,
            priority=effect.priority,
            earlier=await self._earlier(effect),
            tried=request.tried,
            bound=(request.tokens, request.worst_case) if self.counted else None,
        )
        heard = None if rt.journaled else context.heard
        try:
            with traced_call(rt.tracer, agent.name, model.name, account, context.span) as traced:
                async with aclosing(rt.gate.chunks(call, account)) as chunks:
                    async for chunk in chunks:
                        if isinstance(chunk, ModelReply):
                            traced.reply = chunk
                            continue
                        if heard is not None and isinstance(chunk, TextDelta):
                            await heard.put(TextChunk(chunk.text))
        except Raised as refused:
            return Refused(type(refused).__name__, str(refused))
        except WorldError as failed:
            context.failure = failed
            return Failed(
                failed.error_class,
                str(failed),
                failed.phase,
                Money(account.charged),
                account.attempts,
                failed.retry_after_ms,
                tuple(account.pieces),
                account.gave_up,
            )
        except Exception as bug:
            context.failure = bug
            raise
        finally:
            context.charged += account.charged
            rt.on_spent(account.charged)
        if traced.reply is None:
            raise BugError(f"{model.name} ended its answer without a reply")
        return Answered(traced.reply, Money(account.charged), tuple(account.pieces))

    async def _earlier(self, effect: Effect) -> int:
        """How many claims the ledger has of it already: the next attempt is the next number."""
        journaled = self.runtime.journaled
        if effect.again or (journaled is not None and journaled.goes_on):
            return await self.runtime.gate.claims_of(effect.key)
        return self.earlier

    async def on_recorded(self, effect: Effect, outcome: EffectOutcome) -> None:
        """Where answers are recorded, their pieces are told when they are kept, in this life and in
        every later one."""
        if not isinstance(effect.request, CallModel) or not effect.request.stream:
            return
        heard = self.place.context_of(effect).heard
        if heard is not None and isinstance(outcome, Answered | Failed):
            for piece in outcome.pieces:
                await heard.put(TextChunk(piece))

    async def _call_tool(self, effect: Effect, account: Account) -> EffectOutcome:
        request, context = effect.request, self.place.context_of(effect)
        assert isinstance(request, CallTool)
        if request.tool == NOW:
            return Answered(ToolOutcome(to_json(time_text(self.runtime.clock.now())).decode()))
        tool, who = self.place.tool_of(effect, request.tool)
        index = effect.path.loop[-1] if effect.path.loop else 0
        plan = PlannedCall(index, ToolCall("", request.tool, request.arguments))
        current_process.set(self.place.process_of(effect))
        current_sandboxes.set(self.runtime.sandboxes)
        rt, caller = self.runtime, Caller(effect.key, self._pid(effect), who)
        try:
            outcome = await call_tool(
                tool, plan, context.deps, rt.tracer, context.span, rt.oversight, caller
            )
        except Exception as bug:
            context.failure = bug
            raise
        return Answered(outcome)

    async def _ask_person(self, effect: Effect, account: Account) -> EffectOutcome:
        return await self.runtime.oversight.ask_person(effect, self._pid(effect))

    def _pid(self, effect: Effect) -> Pid:
        path, lives = effect.path, effect.path.lives
        return pid_of(path.program, self.place.process_of(effect), lives[-1].generation)

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
