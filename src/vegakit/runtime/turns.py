"""Driving one turn: the pure machine decides, the gate and the tools do.

Turn ── AskModel ──▶ gate ── chunks, reply ──▶ Turn ── CallTools ──▶ tools at once ──▶ Turn …
                                                 └── Finished ──▶ Reply
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Generic, TypeVar

from vegakit.agent import (
    AskModel,
    CallTools,
    Failed,
    Finished,
    PlannedCall,
    Summarise,
    ToolOutcome,
    Turn,
    TurnAction,
)
from vegakit.conversation import Message, ModelReply, TextDelta, UserPart
from vegakit.effects import EffectPath, Life, Site, key_of
from vegakit.errors import BugError, raised
from vegakit.ids import EffectKey, ProgramId, ScopeId, TenantId, pid_of
from vegakit.money import Money
from vegakit.ports import Model, Tool
from vegakit.runtime.agents import Agent
from vegakit.runtime.cancelling import all_of
from vegakit.runtime.gate import Account, Gate, ModelCall
from vegakit.runtime.lanes import Lane
from vegakit.runtime.oversight import Caller, Oversight
from vegakit.runtime.replies import (
    Reply,
    StreamEvent,
    TextChunk,
    ToolCalled,
    ToolReturned,
    TurnEnded,
)
from vegakit.runtime.toolcalls import call_tool
from vegakit.runtime.tracing import traced_call
from vegakit.telemetry import Span, Tracer
from vegakit.tools import Sandboxes, current_sandboxes

__all__ = ["TurnRun"]

T = TypeVar("T")


@dataclass(slots=True)
class TurnRun(Generic[T]):
    """One ask of one agent, from its prompt to its reply."""

    agent: Agent[T]
    model: Model
    gate: Gate
    tracer: Tracer
    oversight: Oversight
    sandboxes: Sandboxes
    lanes: Sequence[Lane]
    scope: ScopeId
    program: ProgramId
    span: Span
    deps: object = None
    deadline_ms: int | None = None
    wait_for_budget: bool = False
    stream: bool = False
    charged: int = 0

    async def events(
        self, parts: Sequence[UserPart], history: Sequence[Message]
    ) -> AsyncGenerator[StreamEvent[T]]:
        turn = Turn(self.agent.rule_for(self.model))
        action = turn.start(parts, history, count=self.model.bound_input)
        while not isinstance(action, Finished | Failed):
            if isinstance(action, CallTools):
                step = self._call(turn, action)
            else:
                step = self._ask(turn, action)
            async with aclosing(step) as events:
                async for event in events:
                    if isinstance(event, TurnAction):
                        action = event
                    else:
                        yield event
        if isinstance(action, Failed):
            raise raised(action.error, f"agent {self.agent.name}: {action.reason}")
        yield TurnEnded(self._reply(action, turn))

    async def _ask(
        self, turn: Turn, action: AskModel | Summarise
    ) -> AsyncGenerator[StreamEvent[T] | TurnAction]:
        """What the model says while it says it, then what the turn makes of it."""
        account = Account()
        names = self.agent.name, self.model.name
        try:
            with traced_call(self.tracer, *names, account, self.span) as call:
                async with aclosing(self.gate.chunks(self._model_call(action), account)) as chunks:
                    async for chunk in chunks:
                        if isinstance(chunk, ModelReply):
                            call.reply = chunk
                        elif isinstance(chunk, TextDelta) and isinstance(action, AskModel):
                            yield TextChunk(chunk.text)
        finally:
            self.charged += account.charged
        if call.reply is None:
            raise BugError(f"{self.model.name} ended its answer without a reply")
        yield self._on_reply(turn, action, call.reply)

    def _on_reply(self, turn: Turn, action: AskModel | Summarise, reply: ModelReply) -> TurnAction:
        count = self.model.bound_input
        if isinstance(action, Summarise):
            return turn.on_summary(reply, count=count)
        check = self.agent.answer.problem if self.agent.answer.spec else None
        return turn.on_reply(reply, check, count=count)

    def _model_call(self, action: AskModel | Summarise) -> ModelCall:
        return ModelCall(
            self.model,
            action.request,
            self._key(action.step),
            self.scope,
            self.lanes,
            self.agent.retry,
            stream=self.stream,
            deadline_ms=self.deadline_ms,
            wait_for_budget=self.wait_for_budget,
            priority=self.agent.priority,
        )

    async def _call(
        self, turn: Turn, action: CallTools
    ) -> AsyncGenerator[StreamEvent[T] | TurnAction]:
        tools = self.agent.tools_by_name
        for plan in action.calls:
            yield ToolCalled(plan.call.name, plan.call.arguments, plan.index)
        outcomes = await all_of(
            [self._call_one(tools[plan.call.name], plan, action.step) for plan in action.calls]
        )
        for plan, outcome in zip(action.calls, outcomes, strict=True):
            yield ToolReturned(plan.call.name, outcome.content, outcome.is_error, plan.index)
        results = {plan.index: made for plan, made in zip(action.calls, outcomes, strict=True)}
        yield turn.on_tools(results, count=self.model.bound_input)

    async def _call_one(self, tool: Tool, plan: PlannedCall, step: int) -> ToolOutcome:
        current_sandboxes.set(self.sandboxes)
        who = pid_of(self.program, self.agent.name, 0)
        caller = Caller(self._key(step, plan.index), who, self.agent.name)
        return await call_tool(
            tool, plan, self.deps, self.tracer, self.span, self.oversight, caller
        )

    def _key(self, *loop: int) -> EffectKey:
        life = (Life(self.agent.name, 0),)
        return key_of(EffectPath(TenantId("local"), self.program, life, Site("send", 0), loop))

    def _reply(self, finished: Finished, turn: Turn) -> Reply[T]:
        return Reply(
            self.agent.answer.value(finished.output_text),
            finished.output_text,
            Money(self.charged),
            finished.usage,
            turn.conversation,
            self.span.trace_id,
            steps=finished.steps,
        )
