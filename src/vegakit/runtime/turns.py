"""Driving one turn: the pure machine decides, the gate and the tools do.

Turn ── AskModel ──▶ gate ── chunks, reply ──▶ Turn ── CallTools ──▶ tools at once ──▶ Turn …
                                                 └── Finished ──▶ Reply
"""

from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from msgspec import structs

from vegakit.agent import (
    AskModel,
    CallTools,
    Failed,
    Finished,
    Summarise,
    ToolOutcome,
    Turn,
    TurnAction,
)
from vegakit.conversation import Message, ModelChunk, ModelReply, TextDelta, UserPart
from vegakit.effects import EffectPath, Life, Site, key_of
from vegakit.errors import (
    AgentFailed,
    BugError,
    ContractViolated,
    LimitReached,
    OutputTruncated,
    Raised,
    ToolFailed,
    WorldError,
)
from vegakit.events import CallKind, CallStatus
from vegakit.ids import EffectKey, ProgramId, ScopeId, TenantId
from vegakit.money import Money
from vegakit.policy import Notice
from vegakit.ports import Model
from vegakit.runtime.agents import Agent
from vegakit.runtime.cancelling import all_of
from vegakit.runtime.gate import Account, Gate, ModelCall
from vegakit.runtime.lanes import Lane
from vegakit.runtime.replies import (
    Reply,
    StreamEvent,
    TextChunk,
    ToolCalled,
    ToolReturned,
    TurnEnded,
)
from vegakit.runtime.toolcalls import call_tool
from vegakit.telemetry import Span, Tracer

__all__ = ["TurnRun"]

T = TypeVar("T")

_RAISED: dict[str, type[Raised]] = {
    kind.__name__: kind
    for kind in (AgentFailed, ContractViolated, LimitReached, OutputTruncated, ToolFailed)
}


@dataclass(slots=True)
class TurnRun(Generic[T]):
    """One ask of one agent, from its prompt to its reply."""

    agent: Agent[T]
    model: Model
    gate: Gate
    tracer: Tracer
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
            raised = _RAISED.get(action.error, AgentFailed)
            raise raised(f"agent {self.agent.name}: {action.reason}")
        yield TurnEnded(self._reply(action, turn))

    async def _ask(
        self, turn: Turn, action: AskModel | Summarise
    ) -> AsyncGenerator[StreamEvent[T] | TurnAction]:
        """What the model says while it says it, then what the turn makes of it."""
        reply: ModelReply | None = None
        async with aclosing(self._chunks(action)) as chunks:
            async for chunk in chunks:
                if isinstance(chunk, ModelReply):
                    reply = chunk
                elif isinstance(chunk, TextDelta) and isinstance(action, AskModel):
                    yield TextChunk(chunk.text)
        if reply is None:
            raise BugError(f"{self.model.name} ended its answer without a reply")
        count = self.model.bound_input
        if isinstance(action, Summarise):
            yield turn.on_summary(reply, count=count)
        else:
            check = self.agent.answer.problem if self.agent.answer.spec else None
            yield turn.on_reply(reply, check, count=count)

    async def _call(
        self, turn: Turn, action: CallTools
    ) -> AsyncGenerator[StreamEvent[T] | TurnAction]:
        tools = self.agent.tools_by_name
        works: list[Coroutine[Any, Any, ToolOutcome]] = []
        for plan in action.calls:
            yield ToolCalled(plan.call.name, plan.call.arguments, plan.index)
            tool = tools[plan.call.name]
            works.append(call_tool(tool, plan, self.deps, self.tracer, self.span))
        outcomes = await all_of(works)
        for plan, outcome in zip(action.calls, outcomes, strict=True):
            yield ToolReturned(plan.call.name, outcome.content, outcome.is_error, plan.index)
        results = {plan.index: made for plan, made in zip(action.calls, outcomes, strict=True)}
        yield turn.on_tools(results, count=self.model.bound_input)

    async def _chunks(self, action: AskModel | Summarise) -> AsyncGenerator[ModelChunk]:
        call = ModelCall(
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
        account, span = Account(), self.tracer.begin(CallKind.MODEL, self.model.name, self.span)
        status, error, reply = CallStatus.CANCELLED, "", None
        try:
            async with aclosing(self.gate.chunks(call, account)) as chunks:
                async for chunk in chunks:
                    if isinstance(chunk, ModelReply):
                        status, reply = CallStatus.OK, chunk
                    yield chunk
        except Raised as refused:
            status, error = CallStatus.REFUSED, f"{type(refused).__name__}: {refused}"
            raise
        except WorldError as failed:
            status, error = CallStatus.FAILED, f"{failed.error_class}: {failed}"
            raise
        finally:
            self.charged += account.charged
            self.tracer.end(span, status, error=error, **_facts(self, account, reply, span))
            self._tell(account.notices, span)

    def _tell(self, notices: Sequence[Notice], span: Span) -> None:
        """A budget that went over, or reached a mark, is an event below the call that did it."""
        for notice in notices:
            event = self.tracer.begin(CallKind.EVENT, type(notice).__name__, span)
            event.attributes.update(structs.asdict(notice))
            self.tracer.end(event)

    def _key(self, step: int) -> EffectKey:
        life = (Life(self.agent.name, 0),)
        return key_of(EffectPath(TenantId("local"), self.program, life, Site("send", 0), (step,)))

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


def _facts(
    run: "TurnRun[Any]", account: Account, reply: ModelReply | None, span: Span
) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "agent": run.agent.name,
        "model": run.model.name,
        "cost": Money(account.charged),
        "reserved": Money(account.reserved),
        "retries": max(0, account.attempts - 1),
    }
    if account.first_chunk_ms is not None:
        facts["first_token_ms"] = float(account.first_chunk_ms - span.at_ms)
    if reply is not None:
        facts["finish"] = str(reply.finish)
        if reply.usage is not None:
            facts |= {
                "input_tokens": reply.usage.input_tokens,
                "output_tokens": reply.usage.output_tokens,
                "cache_read_tokens": reply.usage.cache_read_tokens,
                "cache_write_tokens": reply.usage.cache_write_tokens,
            }
    return facts
