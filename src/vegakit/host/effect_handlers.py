"""The local host carries out each kind of effect here: model calls through the gate, tool calls,
questions, timers, Python bodies."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar, cast

from msgspec import structs
from msgspec.structs import replace

from vegakit.agent import PlannedCall, ToolOutcome
from vegakit.conversation import Conversation, ModelReply, ModelRequest, TextDelta, ToolCall
from vegakit.effects import (
    RACE,
    WHOLE_INCARNATION,
    AskHuman,
    CallModel,
    CallTool,
    Effect,
    EffectRequest,
    RunCoroutine,
    SetTimer,
)
from vegakit.errors import (
    AgentFailed,
    BugError,
    CapabilityDenied,
    CatchableError,
    RateLimited,
    VegaError,
    WorldError,
    causes_of,
)
from vegakit.events import Answered, CallKind, CallStatus, EffectOutcome, Failed, Refused
from vegakit.host.agents import Agent, StreamEvent, TextChunk, ValueTool, current_process
from vegakit.host.approvals import Approvals, Caller, ToolUse
from vegakit.host.budgets import answering_name
from vegakit.host.gate import Account, ModelCall, WaitAsked
from vegakit.host.limiter import OnQueued
from vegakit.host.local import EffectHandler
from vegakit.host.services import HostServices, ProgramSend
from vegakit.ids import EffectKey, Pid, pid_of
from vegakit.money import Money
from vegakit.policy import (
    Notice,
    RetryAt,
    ThresholdCrossed,
    Untrusted,
    WaitReason,
    mark_untrusted,
    sanitise,
)
from vegakit.ports import Tool
from vegakit.program import (
    NOW,
    AgentReply,
    CallQueued,
    CallRetried,
    CostAlert,
    MessageFailed,
    News,
    Outcome,
    Prompt,
    Returned,
    time_text,
)
from vegakit.records import to_json
from vegakit.telemetry import Span, Tracer
from vegakit.tools import (
    ToolArgumentsError,
    current_effect,
    current_sandboxes,
    returns_untrusted_text,
)

current_part: ContextVar[str] = ContextVar("current_part", default="")
"""The part of a send that somebody answers in place of an agent: all that is asked there, by a
function or a judge, too, is paid from it."""


# From one task to another, piece by piece: who is ahead waits, and closing wakes both.


T = TypeVar("T")


class StreamBuffer(Generic[T]):
    """Pieces of a stream between who says them and who takes them; at most `ahead` of them wait."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._pieces: deque[T] = deque()
        self._closed = False
        self._changed = asyncio.Event()

    async def put(self, piece: T) -> None:
        """Put a piece, and wait while there is no room."""
        while len(self._pieces) >= self._capacity and not self._closed:
            await self._wait()
        self.push(piece)

    def push(self, piece: T) -> None:
        """Put a piece without waiting, also beyond `ahead`."""
        self._pieces.append(piece)
        self._changed.set()

    def close(self) -> None:
        """Put no more. What was put is still taken; after it comes the end."""
        self._closed = True
        self._changed.set()

    def __aiter__(self) -> "StreamBuffer[T]":
        return self

    async def __anext__(self) -> T:
        while not self._pieces:
            if self._closed:
                raise StopAsyncIteration
            await self._wait()
        self._changed.set()
        return self._pieces.popleft()

    async def _wait(self) -> None:
        self._changed = asyncio.Event() if self._changed.is_set() else self._changed
        await self._changed.wait()


# What a model call came to, as its trace record: refused, failed and cancelled ones too.


class TracedCall:
    """A call that is being traced. `reply` is set by whoever makes the call; without one it was cut
    off."""

    reply: ModelReply | None = None


@contextmanager
def traced_call(
    tracer: Tracer, agent: str, model: str, account: Account, above: Span, request: ModelRequest
) -> Generator[TracedCall]:
    """Record one call when the block is left, however it is left."""
    span, call = tracer.begin(CallKind.MODEL, model, above), TracedCall()
    status, error = CallStatus.CANCELLED, ""
    try:
        yield call
    except CatchableError as refused:
        status, error = CallStatus.REFUSED, f"{type(refused).__name__}: {refused}"
        raise
    except WorldError as failed:
        status, error = CallStatus.FAILED, f"{failed.error_class}: {failed}"
        raise
    finally:
        if call.reply is not None:
            status = CallStatus.OK
        facts = _facts(agent, model, account, call.reply, span)
        if status is CallStatus.FAILED and account.failures:  # its last failure was not retried
            facts["retries"] -= 1
        if tracer.wants_content:
            answer = None if call.reply is None else call.reply.message
            facts["content"] = {
                "system": request.system,
                "messages": request.messages,
                "answer": answer,
            }
        # Before the call itself: whoever exports a span has its events by then.
        _tell_notices(tracer, account.notices, span)
        tracer.end(span, status, error=error, **facts)


def _facts(
    agent: str, model: str, account: Account, reply: ModelReply | None, span: Span
) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "agent": agent,
        "model": model,
        "cost": Money(account.charged),
        "reserved": Money(account.reserved),
        "retries": len(account.failures),
        "request_id": account.request_id,
        "cached": account.cached,
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


def _tell_notices(tracer: Tracer, notices: Sequence[Notice | WaitAsked], span: Span) -> None:
    """A budget that went over or reached a mark, and a wait that a provider asked for, are events
    below the call that met them."""
    for notice in notices:
        event = tracer.begin(CallKind.EVENT, type(notice).__name__, span)
        event.attributes.update(structs.asdict(notice))
        tracer.end(event)


# Calling a tool: when it may, within its time, its failure a value, what it says harmless to read.
#
# What a function of the library or of Python gives to a program is a value and stays as it is: a
# program reads it, and what it says to a model or a person is made harmless there. An error that
# a model can read is the outcome of a refusal, too: it may try something else. What a tool brings
# from elsewhere is put between the marks of what is not to be trusted here, once, errors
# included; only our own refusals are said plainly.


_OWN_ERRORS = (CapabilityDenied, ToolArgumentsError)


async def call_tool(
    tool: Tool,
    plan: PlannedCall,
    deps: object,
    tracer: Tracer,
    parent: Span,
    approvals: Approvals,
    caller: Caller,
) -> ToolOutcome:
    """Call a tool with arguments of its own, which nobody can change between an approval and the
    call."""
    span = tracer.begin(CallKind.TOOL, _shown(plan.call.name), parent)
    status, error, result = CallStatus.CANCELLED, "", None
    arguments = cast("Mapping[str, Any]", deepcopy(plan.call.arguments))
    use = ToolUse(tool, arguments, caller, span.trace_id)
    try:
        refused = await _refusal(approvals, use)
        outcome = refused or await _watched(use, deps, tracer, span, approvals)
        status = CallStatus.REFUSED if refused else _status(outcome)
        error, result = outcome.content if outcome.is_error else "", outcome.content
    finally:
        given = {"arguments": plan.call.arguments, "result": result}
        tracer.end(span, status, error=error, content=given if tracer.wants_content else None)
    return outcome


def _shown(tool: str) -> str:
    """Return the name of a tool as its user wrote it: a program calls `python:look` and
    `file::read@2`, with the number of its rights."""
    return tool.removeprefix("python:").partition("@")[0]


async def _refusal(approvals: Approvals, use: ToolUse) -> ToolOutcome | None:
    try:
        reason = await approvals.refusal(use)
    except ToolArgumentsError as wrong:
        return ToolOutcome(sanitise(f"{type(wrong).__name__}: {wrong}"), is_error=True)
    if not reason:
        return None
    return ToolOutcome(sanitise(f"{CapabilityDenied.__name__}: {reason}"), is_error=True)


async def _watched(
    use: ToolUse, deps: object, tracer: Tracer, span: Span, approvals: Approvals
) -> ToolOutcome:
    """Audit the result as the tool said it, and mark it for the model alone."""
    status, result_text = CallStatus.CANCELLED, ""
    try:
        outcome, is_its_own = await _outcome(use, deps, tracer, span)
        status, result_text = _status(outcome), outcome.content
    finally:
        await approvals.on_called(use, status, result_text)
    if is_its_own and returns_untrusted_text(use.tool):
        return replace(outcome, content=mark_untrusted(Untrusted(outcome.content)))
    return outcome


def _status(outcome: ToolOutcome) -> CallStatus:
    return CallStatus.FAILED if outcome.is_error else CallStatus.OK


async def _outcome(
    use: ToolUse, deps: object, tracer: Tracer, span: Span
) -> tuple[ToolOutcome, bool]:
    """Return the outcome, and whether its text is the tool's and not ours. The tool runs as a task
    of its own, so that whatever it raises is looked at, not caught."""
    with tracer.within(span):
        task = asyncio.ensure_future(_run(use, deps))
    timeout_ms = use.tool.timeout_ms
    try:
        await asyncio.wait([task], timeout=timeout_ms / 1000)
        if not task.done():
            return ToolOutcome(f"timed out after {timeout_ms} ms", is_error=True), False
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
    if task.cancelled():
        return ToolOutcome("was cancelled", is_error=True), False
    if (raised := task.exception()) is not None:
        cause = tuple(map(EffectKey, causes_of(raised)))
        text = sanitise(f"{type(raised).__name__}: {raised}")
        return ToolOutcome(text, is_error=True, cause=cause), not isinstance(raised, _OWN_ERRORS)
    result = task.result()
    return ToolOutcome(result if isinstance(use.tool, ValueTool) else sanitise(result)), True


async def _run(use: ToolUse, deps: object) -> str:
    current_effect.set(use.caller.place)
    return await use.tool.call(use.arguments, deps)


# How the local host carries out each kind of effect: the gate's do-half for processes.


@dataclass(slots=True)
class AskContext:
    """The part of an ask that is not in the program's state: its span, its dependencies, its
    stream."""

    span: Span
    deps: object = None
    buffer: StreamBuffer[StreamEvent[Any]] | None = None
    """What who hears it piece by piece is told."""
    charged: int = 0
    failure: BaseException | None = None
    """What the last failed call raised here."""
    outcome: Outcome | None = None
    """Of the ask, while its span is open."""
    is_live: bool = False
    """Whether text is told as it is said, also before it is recorded."""
    heard: set[EffectKey] = field(default_factory=set[EffectKey])
    """The calls whose text was told so: it is not told again when it is recorded."""


class EffectContexts(Protocol):
    """The context of each effect, as the owner of the program knows it."""

    def process_of(self, effect: Effect) -> str:
        """Return the process that an effect is of."""
        ...

    def message_of(self, effect: Effect) -> Any:  # noqa: ANN401
        """Return the message that an effect is for."""
        ...

    def context_of(self, effect: Effect) -> AskContext:
        """Return what the ask behind an effect brought along."""
        ...

    def agent_of(self, effect: Effect) -> Agent[Any]:
        """Return the agent that an effect is of."""
        ...

    def tool_of(self, effect: Effect, name: str) -> tuple[Tool, str]:
        """Return the tool of this name for an effect."""
        ...

    def function_of(self, name: str) -> Callable[..., Awaitable[Any]]:
        """Return the function of this name."""
        ...


@dataclass(slots=True)
class EffectHandlers:
    """The handlers of effects: each carries out one kind, through the gate where money is spent."""

    services: HostServices
    contexts: EffectContexts
    counted: bool = False
    """The program runs beside us, so its figures are of the same models and prices as ours."""
    tell: Callable[[News], object] = lambda _: None
    """Told what who asks `rt.on` may want to know."""
    warm: Callable[[Effect], None] = lambda _: None
    """Told when a model is asked: what its answer may need is started meanwhile."""
    handlers: dict[type[EffectRequest], EffectHandler] = field(init=False)

    def __post_init__(self) -> None:
        self.handlers = {
            CallModel: self._call_model,
            CallTool: self._call_tool,
            AskHuman: self._ask_person,
            SetTimer: self._wait,
            RunCoroutine: self._run_foreign,
        }

    async def _call_model(self, effect: Effect, account: Account) -> EffectOutcome:
        rt, agent, context = (
            self.services,
            self.contexts.agent_of(effect),
            self.contexts.context_of(effect),
        )
        request = effect.request
        assert isinstance(request, CallModel)
        model = rt.model_registry.model_of(agent, request.request.model)
        self.warm(effect)
        process = self.contexts.process_of(effect)
        current_process.set(process)

        retry = rt.model_registry.retry_of(agent, model)
        on_queued, on_retry = self._waits_of(process, model.name, retry.max_attempts)
        inside = rt.budgets.enter_call(request.scope, effect.key)
        scope = await rt.budgets.ready(request.scope or rt.budgets.root)
        if effect.again or (rt.journaled is not None and rt.journaled.is_resumed):
            await rt.gate.count_claims(effect.key, account)
        call = ModelCall(
            model,
            request.request,
            effect.key,
            scope,
            rt.model_registry.limiter_of(model),
            retry,
            stream=request.stream,
            deadline_ms=effect.deadline_ms,
            budget_wait_ms=request.budget_wait_ms,
            priority=effect.priority,
            attempts=request.attempts,
            own_breaker=agent.breaker is not None,
            max_wait_ms=agent.max_wait_ms,
            on_queued=on_queued,
            on_retry=on_retry,
            bound=(request.tokens, request.worst_case) if self.counted else None,
            rules=rt.budgets.rules_around(scope, request.shared),
            inside=inside,
        )
        buffer = self._heard_at_once(effect.key, context)
        try:
            with traced_call(
                rt.tracer, agent.name, answering_name(model), account, context.span, request.request
            ) as traced:
                async with aclosing(rt.gate.chunks(call, account)) as chunks:
                    async for chunk in chunks:
                        if isinstance(chunk, ModelReply):
                            traced.reply = chunk
                            continue
                        if buffer is not None and isinstance(chunk, TextDelta):
                            await buffer.put(TextChunk(chunk.text))
        except CatchableError as refused:
            if isinstance(refused, RateLimited):
                context.failure = refused
            return Refused(type(refused).__name__, str(refused))
        except WorldError as failed:
            context.failure = failed
            return Failed(
                failed.error_class,
                str(failed),
                failed.phase,
                Money(account.charged),
                len(account.failures),
                failed.retry_after_ms,
                tuple(account.pieces),
                account.gave_up,
            )
        except Exception as bug:
            context.failure = bug
            raise
        finally:
            context.charged += account.charged
            await self._tell_overspent(process, request, account)
        if traced.reply is None:
            raise BugError(f"{model.name} ended its answer without a reply")
        return Answered(traced.reply, Money(account.charged), tuple(account.pieces))

    async def _tell_overspent(self, process: str, request: CallModel, account: Account) -> None:
        """Tell of an agent that has spent its budget for a period, which only warns."""
        crossed = [one.scope for one in account.notices if isinstance(one, ThresholdCrossed)]
        for shared in request.shared if crossed else ():
            if self.services.budgets.scope_of(shared) in crossed:
                spent = await self.services.budgets.spent_by(shared)
                self.tell(CostAlert(process, spent, shared.cap))

    def _waits_of(
        self, process: str, model: str, attempts: int
    ) -> tuple[OnQueued, Callable[[WorldError, RetryAt, int], object]]:
        """Return what tells that a call waits for its turn, and that it is made again."""

        def on_queued(wait_ms: int, reason: WaitReason) -> None:
            self.tell(CallQueued(process, model, model, wait_ms, reason))

        def on_retry(error: WorldError, verdict: RetryAt, wait_ms: int) -> None:
            number, reason = verdict.attempt, str(error)
            self.tell(CallRetried(process, model, reason, number, attempts, wait_ms))

        return on_queued, on_retry

    def _heard_at_once(
        self, key: EffectKey, context: AskContext
    ) -> StreamBuffer[StreamEvent[Any]] | None:
        """Return where the text of a call is told while it is said; None if it is told when it is
        recorded, or never."""
        if context.buffer is None or (self.services.journaled and not context.is_live):
            return None
        context.heard.add(key)
        return context.buffer

    async def on_recorded(self, effect: Effect, outcome: EffectOutcome) -> None:
        """Tell the pieces of an answer when it is kept, in this incarnation and in every later
        one."""
        if not isinstance(effect.request, CallModel) or not effect.request.stream:
            return
        context = self.contexts.context_of(effect)
        buffer = None if effect.key in context.heard else context.buffer
        if buffer is not None and isinstance(outcome, Answered | Failed):
            for piece in outcome.pieces:
                await buffer.put(TextChunk(piece))

    async def _call_tool(self, effect: Effect, account: Account) -> EffectOutcome:
        request, context = effect.request, self.contexts.context_of(effect)
        assert isinstance(request, CallTool)
        if request.tool == RACE:
            return Answered(ToolOutcome(request.arguments["first"]))
        if request.tool == NOW:
            return Answered(ToolOutcome(to_json(time_text(self.services.clock.now())).decode()))
        tool, who = self.contexts.tool_of(effect, request.tool)
        index = effect.path.loop[-1] if effect.path.loop else 0
        plan = PlannedCall(index, ToolCall("", request.tool, request.arguments))
        current_process.set(self.contexts.process_of(effect))
        current_sandboxes.set(self.services.sandboxes)
        self.services.budgets.enter_call(request.scope)
        rt, caller = self.services, Caller(effect.key, self._pid(effect), who)
        try:
            outcome = await call_tool(
                tool, plan, context.deps, rt.tracer, context.span, rt.approvals, caller
            )
        except Exception as bug:
            context.failure = bug
            raise
        return Answered(outcome)

    async def _ask_person(self, effect: Effect, account: Account) -> EffectOutcome:
        return await self.services.approvals.ask_person(effect, self._pid(effect))

    def _pid(self, effect: Effect) -> Pid:
        path, incarnations = effect.path, effect.path.incarnations
        return pid_of(path.program, self.contexts.process_of(effect), incarnations[-1].generation)

    async def _wait(self, effect: Effect, account: Account) -> EffectOutcome:
        assert isinstance(effect.request, SetTimer)
        await self.services.clock.wait_until(effect.request.due_ms)
        return Answered(None)

    async def _run_foreign(self, effect: Effect, account: Account) -> EffectOutcome:
        assert isinstance(effect.request, RunCoroutine)
        function = self.contexts.function_of(effect.request.body)
        current_process.set(self.contexts.process_of(effect))
        if effect.request.message is not None:
            return Answered(await self._stand_in(function, effect, effect.request.message))
        if effect.path.site.function == WHOLE_INCARNATION:
            return Answered(await function())
        return Answered(await function(self.contexts.message_of(effect)))

    async def _stand_in(
        self, answer: Callable[..., Awaitable[Any]], effect: Effect, prompt: Prompt
    ) -> Outcome:
        """Answer a send in place of an agent. What fails there is told as the agent would tell it,
        with the effects behind it: they are asked again when the run goes on."""
        span = self.contexts.context_of(effect).span
        current_part.set(prompt.session)
        try:
            text = await answer(ProgramSend(prompt, effect.key, span))
        except VegaError as error:
            name = type(error).__name__ if isinstance(error, CatchableError) else ""
            cause = tuple(map(EffectKey, causes_of(error)))
            return MessageFailed(name or AgentFailed.__name__, str(error), cause=cause)
        return Returned(AgentReply(text, Conversation(())))
