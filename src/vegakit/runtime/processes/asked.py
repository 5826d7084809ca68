"""Who waits for which answer: futures, their spans, and what an answer is to who asked."""

import asyncio
from collections.abc import Callable, Iterator
from contextvars import copy_context
from typing import Any

from vegakit.errors import AgentFailed, Cancelled, UserError, raised
from vegakit.events import CallKind, CallStatus
from vegakit.money import Money
from vegakit.program import CancelAsk, Event, Fell, Outcome, Said, Told, ToolBegan, ToolEnded
from vegakit.runtime.agents import Agent
from vegakit.runtime.processes.performing import Context, current_process
from vegakit.runtime.processes.relays import Relay
from vegakit.runtime.replies import Reply, StreamEvent, ToolCalled, ToolReturned
from vegakit.telemetry import Span, Tracer

__all__ = ["Asked", "Asks"]

_AHEAD = 64
"""Pieces of a stream that wait to be taken before the model's side waits."""


class Asked(asyncio.Future[Any]):
    """Cancelling it cancels the work. Told by `cancel` itself, not by a callback: most are never
    cancelled, and a callback for each would cost a turn of the loop."""

    def __init__(
        self,
        ask: str,
        path: str,
        submit: Callable[[Event], object],
        agent: Agent[Any] | None = None,
        context: Context | None = None,
    ) -> None:
        super().__init__()
        self.ask = ask
        self.path = path
        self.agent = agent
        self.context = context
        self.once = False
        """Of a process for this one question: its span is open until all that it began has ended,
        so that it tells what it cost even if it was given up."""
        self._submit = submit

    @property
    def heard(self) -> "Relay[StreamEvent[Any]]":
        """What comes before the answer, of one that is asked for piece by piece."""
        assert self.context is not None
        assert self.context.heard is not None
        return self.context.heard

    def cancel(self, msg: Any = None) -> bool:  # noqa: ANN401
        cancelled = super().cancel(msg)
        if cancelled:
            self._submit(CancelAsk(self.ask))
        return cancelled


class Asks:
    def __init__(
        self,
        tracer: Tracer,
        submit: Callable[[Event], object],
        on_said: Callable[[str, str, Said], object] | None = None,
    ) -> None:
        self._tracer = tracer
        self._on_said = on_said
        self._submit = submit
        self._waiting: dict[str, Asked] = {}
        self._number = 0

    def begin(
        self,
        path: str,
        agent: Agent[Any] | None,
        deps: object,
        *,
        stream: bool = False,
        above: Span | None = None,
    ) -> Asked:
        """The answer comes to it; it is found again by its `ask`."""
        self._number += 1
        ask, context = str(self._number), None
        if agent is not None:
            span = self._tracer.begin(CallKind.ASK, agent.name, above)
            heard = Relay[StreamEvent[Any]](_AHEAD) if stream else None
            context = Context(span, deps, heard, copy_context())
        asked = self._waiting[ask] = Asked(ask, path, self._submit, agent, context)
        return asked

    def context_of(self, ask: str) -> Context | None:
        waiting = self._waiting.get(ask)
        return None if waiting is None else waiting.context

    def on_answer(self, ask: str, outcome: Outcome) -> None:
        waiting = self._waiting.pop(ask)
        if waiting.context is not None:
            waiting.context.outcome = outcome
            if waiting.context.heard is not None:
                waiting.context.heard.close()
        if not waiting.once or isinstance(outcome, Told):
            self.end_span(waiting)
        said = _remembered(waiting, outcome)
        if self._on_said is not None and said is not None:
            self._on_said(waiting.path, ask, said)
        if waiting.done():
            return
        if isinstance(outcome, Fell):
            waiting.set_exception(_raised(outcome, waiting))
        else:
            waiting.set_result(_reply(outcome, waiting))

    def on_tool(self, action: ToolBegan | ToolEnded) -> None:
        context = self.context_of(action.ask)
        if context is None or context.heard is None:
            return
        if isinstance(action, ToolBegan):
            context.heard.push(ToolCalled(action.name, action.arguments, action.index))
        else:
            content, is_error = action.outcome.content, action.outcome.is_error
            context.heard.push(ToolReturned(action.name, content, is_error, action.index))

    def pending(self) -> Iterator[Asked]:
        return iter(self._waiting.values())

    def end_span(self, waiting: Asked) -> None:
        """Once; of a failure with all that was charged until now."""
        context, agent = waiting.context, waiting.agent
        outcome = None if context is None else context.outcome
        if context is None or agent is None or outcome is None:
            return
        context.outcome = None
        status, error, cost = CallStatus.OK, "", outcome.charged
        if isinstance(outcome, Fell):
            cancelled = outcome.error == Cancelled.__name__
            status = CallStatus.CANCELLED if cancelled else CallStatus.FAILED
            error = f"{outcome.error}: {outcome.reason}"
            cost = max(cost, Money(context.charged))
        here = current_process.set(waiting.path)
        self._tracer.end(context.span, status, agent=agent.name, cost=cost, error=error)
        current_process.reset(here)


def _remembered(waiting: Asked, outcome: Outcome) -> Said | None:
    """Of a process that is asked again; what lived for one question has nothing to go on with."""
    remembers = waiting.agent is not None and waiting.agent.memory is not None
    said = outcome.value if isinstance(outcome, Told) and remembers and not waiting.once else None
    return said if isinstance(said, Said) else None


def _raised(fell: Fell, waiting: Asked) -> Exception:
    """With what it came from, where that happened in this process. What is for the user to put
    right here, such as a disk that is full, is told as it is."""
    failure = None if waiting.context is None else waiting.context.failure
    if isinstance(failure, UserError) and fell.error == AgentFailed.__name__:
        failure.cause = fell.cause
        return failure
    reason = fell.reason
    who = "" if waiting.agent is None else f"agent {waiting.agent.name}"
    if not reason.startswith(who):  # its own breaker and limits name it already
        reason = f"{who}: {reason}"
    error = raised(fell.error, reason)
    error.cause = fell.cause
    error.__cause__ = failure
    return error


def _reply(told: Told, waiting: Asked) -> Any:  # noqa: ANN401
    said = told.value
    if waiting.agent is None or waiting.context is None or not isinstance(said, Said):
        return said
    return Reply(
        waiting.agent.answer.value(said.text),
        said.text,
        told.charged,
        said.usage,
        said.conversation,
        waiting.context.span.trace_id,
        steps=said.steps,
    )
