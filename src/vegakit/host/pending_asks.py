"""Asks that wait for an answer, the context of each effect (its process, message, agent and span),
the files that are sent along with a prompt, and what agents with memory keep of their answers.
"""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Mapping
from contextvars import copy_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from vegakit.conversation import AssistantMessage, Conversation, Media, ModelReply, ToolCall
from vegakit.effects import Effect
from vegakit.errors import (
    AgentFailed,
    Cancelled,
    RateLimited,
    StoreError,
    UserError,
    WorldError,
    rebuild_error,
)
from vegakit.events import Answered, CallKind, CallStatus, EffectOutcome
from vegakit.host.agents import (
    Agent,
    Reply,
    StreamEvent,
    ToolCalled,
    ToolReturned,
    current_process,
)
from vegakit.host.effect_handlers import AskContext, StreamBuffer
from vegakit.host.registry import Registry
from vegakit.ids import EffectKey, SpanId, TraceId
from vegakit.money import Dollars, Money
from vegakit.ports import Memory, Tool
from vegakit.program import (
    AgentBody,
    AgentReply,
    CancelAsk,
    Event,
    HistoryCompacted,
    Machine,
    MessageFailed,
    Outcome,
    ProcessMessage,
    ProgramAdmitted,
    Remember,
    Returned,
    ToolBegan,
    ToolEnded,
    TraceNote,
    TraceSpanEnded,
    origin_of,
    source_in,
)
from vegakit.records import digest128
from vegakit.telemetry import Span, Tracer

if TYPE_CHECKING:
    from vegakit.host.authors import HostAuthor


# Who waits for which answer: futures, their spans, and what an answer is to who asked.


_BUFFERED = 64
"""Pieces of a stream that wait to be taken before the model's side waits."""


class PendingAsk(asyncio.Future[Any]):
    """Cancelling it cancels the work. Told by `cancel` itself, not by a callback: most are never
    cancelled, and a callback for each would cost a turn of the loop."""

    def __init__(
        self,
        ask: str,
        path: str,
        submit: Callable[[Event], object],
        variables: contextvars.Context,
        agent: Agent[Any] | None = None,
        context: AskContext | None = None,
    ) -> None:
        super().__init__()
        self.ask = ask
        self.path = path
        self.variables = variables
        """Of who asked: what is done for it sees the budget, the span and all else that is set
        there."""
        self.agent = agent
        self.context = context
        self.once = False
        """Of a process for this one question: its span is open until all that it began has ended,
        so that it tells what it cost even if it was given up."""
        self._submit = submit

    @property
    def buffer(self) -> "StreamBuffer[StreamEvent[Any]]":
        """The pieces that come before the answer, of an ask that wants them."""
        assert self.context is not None
        assert self.context.buffer is not None
        return self.context.buffer

    def cancel(self, msg: Any = None) -> bool:  # noqa: ANN401
        """Cancel the ask, and the work with it."""
        cancelled = super().cancel(msg)
        if cancelled:
            self._submit(CancelAsk(self.ask))
        return cancelled


class PendingAsks:
    """The asks of a host that wait for their answers."""

    def __init__(
        self,
        tracer: Tracer,
        submit: Callable[[Event], object],
        on_reply: Callable[[str, str, AgentReply], object] | None = None,
    ) -> None:
        self._tracer = tracer
        self._on_reply = on_reply
        self._submit = submit
        self._waiting: dict[str, PendingAsk] = {}
        self._number = 0

    def begin(
        self,
        path: str,
        agent: Agent[Any] | None,
        deps: object,
        *,
        stream: bool = False,
        above: Span | None = None,
        function: str = "",
        key: str = "",
    ) -> PendingAsk:
        """The answer comes to it; it is found again by its `ask`. An agent has a span for it, and
        so has a `function` of a compiled program. With a `key` their ids are made from it: a run
        that goes on adds to the spans that it left behind, which are below this one."""
        self._number += 1
        ask, context, variables = str(self._number), None, copy_context()
        named = digest128(key) if key else ""
        ids = (SpanId(named[:16]) if named else None, TraceId(named) if named else None)
        if agent is not None:
            span = self._tracer.begin(CallKind.ASK, agent.name, above, *ids)
            buffer = StreamBuffer[StreamEvent[Any]](_BUFFERED) if stream else None
            context = AskContext(span, deps, buffer)
        elif function:
            context = AskContext(self._tracer.begin(CallKind.SPAN, function, above, *ids))
        asked = PendingAsk(ask, path, self._submit, variables, agent, context)
        self._waiting[ask] = asked
        return asked

    def get(self, ask: str) -> PendingAsk | None:
        """Return an ask that waits."""
        return self._waiting.get(ask)

    def context_of(self, ask: str) -> AskContext | None:
        """Return what an ask brought along."""
        waiting = self._waiting.get(ask)
        return None if waiting is None else waiting.context

    def on_answer(self, ask: str, outcome: Outcome) -> None:
        """Give the outcome to who asked."""
        waiting = self._waiting.pop(ask)
        if waiting.context is not None:
            waiting.context.outcome = outcome
            if waiting.context.buffer is not None:
                waiting.context.buffer.close()
        if not waiting.once or isinstance(outcome, Returned):
            self.end_span(waiting)
        reply = _remembered(waiting, outcome)
        if self._on_reply is not None and reply is not None:
            self._on_reply(waiting.path, ask, reply)
        if waiting.done():
            return
        if isinstance(outcome, MessageFailed):
            waiting.set_exception(_raised(outcome, waiting))
        else:
            waiting.set_result(_reply(outcome, waiting))

    def on_tool(self, action: ToolBegan | ToolEnded | HistoryCompacted | ProgramAdmitted) -> None:
        """Tell who streams that a tool was called or has returned, that a program begins, or that
        the conversation was summed up."""
        context = self.context_of(action.ask)
        if context is None or context.buffer is None:
            return
        if isinstance(action, HistoryCompacted):
            context.buffer.push(action.history)
        elif isinstance(action, ProgramAdmitted):
            context.buffer.push(action.quote)
        elif isinstance(action, ToolBegan):
            called = ToolCalled(action.name, action.arguments, action.index, action.step)
            context.buffer.push(called)
        else:
            content, is_error = action.outcome.content, action.outcome.is_error
            place = action.index, action.step
            context.buffer.push(ToolReturned(action.name, content, is_error, *place))

    def give_up(self, failure: Exception) -> None:
        """Fail all asks that wait, as the run has failed; who reads a stream waits for its end."""
        for waiting in self._waiting.values():
            if waiting.context is not None and waiting.context.buffer is not None:
                waiting.context.buffer.close()
            if not waiting.done():
                waiting.set_exception(failure)

    def end_span(self, waiting: PendingAsk) -> None:
        """End the span of an ask, once; of a failure with all that was charged until now."""
        context, agent = waiting.context, waiting.agent
        outcome = None if context is None else context.outcome
        if context is None or outcome is None:
            return
        context.outcome = None
        status, error, cost = CallStatus.OK, "", outcome.charged
        if isinstance(outcome, MessageFailed):
            cancelled = outcome.error == Cancelled.__name__
            status = CallStatus.CANCELLED if cancelled else CallStatus.FAILED
            error = f"{outcome.error}: {outcome.reason}"
            cost = max(cost, Money(context.charged))
        here = current_process.set(waiting.path)
        facts: dict[str, Any] = {} if agent is None else {"agent": agent.name, "cost": cost}
        self._tracer.end(context.span, status, error=error, **facts)
        current_process.reset(here)


def _remembered(waiting: PendingAsk, outcome: Outcome) -> AgentReply | None:
    """Return the conversation of a process that is asked again; what lived for one question has
    nothing to go on with."""
    remembers = waiting.agent is not None and waiting.agent.memory is not None
    reply = (
        outcome.value if isinstance(outcome, Returned) and remembers and not waiting.once else None
    )
    return reply if isinstance(reply, AgentReply) else None


def _raised(failed: MessageFailed, waiting: PendingAsk) -> Exception:
    """Return the error to raise, with its cause where that happened in this process. An error that
    can be fixed here, such as a wrong setting or a full disk, is told as it is."""
    failure = None if waiting.context is None else waiting.context.failure
    is_refusal = isinstance(failure, RateLimited)
    has_no_name = failed.error == AgentFailed.__name__ and not is_refusal
    if has_no_name and isinstance(failure, UserError | StoreError):
        failure.cause, failure.messages = failed.cause, failed.messages
        return failure
    reason = failed.reason
    who = "" if waiting.agent is None else f"agent {waiting.agent.name}"
    if not reason.startswith(who):  # its own breaker and limits name it already
        reason = f"{who}: {reason}"
    error = rebuild_error(failed.error, reason)
    error.cause, error.messages = failed.cause, failed.messages
    error.is_outage = failed.is_outage
    if isinstance(error, RateLimited):
        error.wait_s = _wait_s(failure)
    if not is_refusal:  # the refusal says nothing that the error does not
        error.__cause__ = failure
    return error


def _wait_s(failure: BaseException | None) -> float | None:
    """Return how long who was refused may wait, if a limiter of ours or the provider said so."""
    if isinstance(failure, WorldError) and failure.retry_after_ms is not None:
        return failure.retry_after_ms / 1000
    return failure.wait_s if isinstance(failure, RateLimited) else None


def _reply(returned: Returned, waiting: PendingAsk) -> Any:  # noqa: ANN401
    reply = returned.value
    if waiting.agent is None or waiting.context is None or not isinstance(reply, AgentReply):
        return reply
    return Reply(
        waiting.agent.answer.value(reply.text),
        reply.text,
        Dollars.of_nanos(returned.charged),
        reply.usage,
        reply.conversation,
        waiting.context.span.trace_id,
        steps=reply.steps,
    )


# Where an effect stands: its process, its message, its agent, and what its asker brought along.


class ToolRound(NamedTuple):
    """The place of a tool call: the step of its turn, which call of that answer it is, and the
    calls of all answers of the turn until now, of which its own is the last."""

    step: int
    number: int
    answers: tuple[tuple[ToolCall, ...], ...]


class LocalEffectContexts:
    """Implements `performing.Place`."""

    def __init__(
        self, machine: Machine, registry: Registry, asks: PendingAsks, tracer: Tracer
    ) -> None:
        self.machine = machine
        self._registry = registry
        self._asks = asks
        self._tracer = tracer
        self._span: Span | None = None
        self._program_spans: dict[str, Span] = {}
        """Those that compiled programs have opened and not ended, by their ids."""
        self._variables = copy_context()
        """Of who opened the program: a process that an alarm restarts is below that span."""

    def process_of(self, effect: Effect) -> str:
        """Return the process that an effect is of."""
        return self.machine.state.effects_in_flight[effect.key].path

    def message_of(self, effect: Effect) -> Any:  # noqa: ANN401
        """Return the message that an effect is for."""
        return self._process_message(effect).content

    def context_of(self, effect: Effect) -> AskContext:
        """Return what the ask behind an effect brought along. What compiled programs do, and the
        agents that they ask, has only the span of it: deps and stream are for the agent that was
        asked from outside. Effects without an ask are below a span of all processes."""
        flight = self.machine.state.effects_in_flight[effect.key]
        message = self._process_message(effect)
        asked = None if message.sender else self._asks.get(message.ask)
        if asked is not None and asked.agent is not None and asked.context is not None:
            return asked.context
        ask, span = origin_of(self.machine.state, flight.path, flight.message_id)
        return AskContext(self._around(ask, flight.span or span))

    def _around(self, ask: str, span: str) -> Span:
        """Return the span around what is done for an ask: one that a compiled program has opened,
        or that of the ask, or that of all processes."""
        asked = self._asks.get(ask)
        if asked is not None and asked.context is not None:
            outer = asked.context.span
        else:
            outer = self._span = self._span or self._variables.copy().run(
                self._tracer.begin, CallKind.SPAN, "program"
            )
        if not span:
            return outer
        # By its id alone: a call that is begun early may be around before its span is opened.
        return Span(outer.trace_id, SpanId(span), None, CallKind.SPAN, "", 0, sampled=outer.sampled)

    def on_note(self, note: TraceNote) -> None:
        """Write to the trace what a compiled program says of itself."""
        around = self._around(note.ask, note.span)
        here = current_process.set(note.path)
        if note.kind == "span":
            made = self._tracer.begin(CallKind.SPAN, note.text, around, SpanId(note.id))
            self._program_spans[note.id] = made
        elif note.kind == "event":
            self._tracer.end(self._tracer.begin(CallKind.EVENT, note.text, around))
        else:
            # Outside of its own spans a program speaks of the run, whose span is open, too.
            around = self._program_spans.get(around.span_id, around)
            around.attributes[note.key] = note.value
        current_process.reset(here)

    def on_span_ended(self, ended: TraceSpanEnded) -> None:
        """End a span of a compiled program."""
        span = self._program_spans.pop(ended.id, None)
        if span is not None:
            cancelled = ended.error.startswith(f"{Cancelled.__name__}:")
            failed = CallStatus.CANCELLED if cancelled else CallStatus.FAILED
            self._tracer.end(span, failed if ended.error else CallStatus.OK, error=ended.error)

    def agent_of(self, effect: Effect) -> Agent[Any]:
        """Return the agent that an effect is of."""
        process = self.machine.state.processes[self.process_of(effect)]
        return self._registry.agent(process.spec.body)

    def tool_of(self, effect: Effect, name: str) -> tuple[Tool, str]:
        """The tool, and who calls it."""
        body = self.machine.state.processes[self.process_of(effect)].spec.body
        who = self._registry.agent(body).name if self._registry.is_agent(body) else body
        return self._registry.tools(body)[name], who

    def round_of(self, key: EffectKey) -> ToolRound:
        """Return where a tool call in flight stands in its turn."""
        state = self.machine.state
        flight = state.effects_in_flight[key]
        send = (state.processes[flight.path].sends or {})[flight.message_id]
        answers = tuple(
            message.tool_calls
            for message in send.turn.messages
            if isinstance(message, AssistantMessage) and message.tool_calls
        )
        return ToolRound(flight.effect.path.loop[0], flight.index, answers)

    def function_of(self, name: str) -> Callable[..., Awaitable[Any]]:
        """Return the function of this name."""
        return self._registry.function(name)

    def variables_of(self, effect: Effect) -> contextvars.Context | None:
        """The context variables that it is carried out with; None those of whoever starts it."""
        flight = self.machine.state.effects_in_flight[effect.key]
        if not flight.path:
            return self._variables  # the alarm rings for whoever comes next
        if not flight.message_id:
            return None
        ask, _ = origin_of(self.machine.state, flight.path, flight.message_id)
        asked = self._asks.get(ask)
        return None if asked is None else asked.variables

    async def prepare_admission(self, effect: Effect, outcome: EffectOutcome) -> None:
        """Inspect programs that a model has just sent elsewhere, before the machine decides on
        them: it does so at once, and nothing else goes on meanwhile."""
        if not isinstance(outcome, Answered) or not isinstance(outcome.value, ModelReply):
            return
        authors, path = self._authors_of(effect)
        repeats = self.machine.state.bounds.paid_repeats
        for name, author in authors.items():
            calls = (part for part in outcome.value.message.parts if isinstance(part, ToolCall))
            given = [source_in(call.arguments) for call in calls if call.name == name]
            written = [(one[0], one[1]) for one in given if not isinstance(one, str)]
            await author.prepare_admission(written, path, repeats)

    def warm(self, effect: Effect) -> None:
        """Start the admission while the model still thinks."""
        for author in self._authors_of(effect)[0].values():
            author.warm()

    def _authors_of(self, effect: Effect) -> "tuple[Mapping[str, HostAuthor], str]":
        flight = self.machine.state.effects_in_flight.get(effect.key)
        process = None if flight is None else self.machine.state.processes.get(flight.path)
        body = None if process is None else self._registry.code.get(process.spec.body)
        if flight is None or not isinstance(body, AgentBody):
            return {}, ""
        return cast("Mapping[str, HostAuthor]", body.authors), flight.path

    def close(self) -> None:
        """End the spans that are left."""
        for span in reversed(self._program_spans.values()):
            self._tracer.end(span, CallStatus.CANCELLED)
        if self._span is not None:
            self._tracer.end(self._span)

    def _process_message(self, effect: Effect) -> ProcessMessage:
        flight = self.machine.state.effects_in_flight[effect.key]
        mailbox = self.machine.state.processes[flight.path].mailbox
        taken = None if mailbox is None else mailbox.taken(flight.message_id)
        return ProcessMessage(None) if taken is None else taken.message


# Files that are sent along with a prompt.


_MAX_BYTES = 20_000_000


def read_media(path: str | Path) -> Media:
    """Return a file as a part of a prompt."""
    file = Path(path)
    from mimetypes import guess_type  # reads the tables of the system when it is first used

    kind, _ = guess_type(file.name)
    if kind is None:
        raise UserError(f"{file}: its ending does not say what it is; name it like photo.png")
    if not file.is_file():
        raise UserError(f"{file} is not a file; give the path of one that exists")
    if (size := file.stat().st_size) > _MAX_BYTES:
        raise UserError(f"{file} has {size:,} bytes; at most {_MAX_BYTES:,} can be sent")
    return Media(kind, file.read_bytes())


# What agents with memory say, kept beyond their program, by the path of each.


class ConversationMemory:
    """A turn is written once, under the word of its ask, and in the order of the answers."""

    def __init__(self, memory: Memory, program: str, submit: Callable[[Event], object]) -> None:
        self._memory = memory
        self._program = program
        self._submit = submit
        self._last: asyncio.Task[None] | None = None

    async def recall(self, path: str, limit: int) -> int:
        """Recall a conversation, and return how many messages are known now."""
        messages = tuple(await self._memory.load(path, limit))
        if messages:
            self._submit(Remember(path, Conversation(messages)))
        return len(messages)

    def on_reply(self, path: str, ask: str, reply: AgentReply) -> None:
        """Remember what was said with a reply."""
        before, key = self._last, f"{self._program}.{ask}"
        messages = reply.conversation.messages[-reply.new :]

        async def keep() -> None:
            if before is not None:
                await asyncio.wait([before])
            await self._memory.append(path, messages, key=key)

        self._last = asyncio.ensure_future(keep())

    async def aclose(self) -> None:
        """Keep all that was said; what could not be kept is raised."""
        if self._last is not None:
            await self._last
