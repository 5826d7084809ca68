"""Who waits for which answer: futures, their spans, and what an answer is to who asked."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from vegakit.conversation import ModelChunk
from vegakit.errors import Cancelled, raised
from vegakit.events import CallKind, CallStatus
from vegakit.program import CancelAsk, Event, Fell, Outcome, Said, Told
from vegakit.runtime.agents import Agent
from vegakit.runtime.processes.performing import Context, current_process
from vegakit.runtime.replies import Reply
from vegakit.telemetry import Tracer

__all__ = ["Asked", "Asks", "OnChunk"]

OnChunk = Callable[[ModelChunk], Awaitable[None]]


class Asked(asyncio.Future[Any]):
    """Cancelling it cancels the work. Told by `cancel` itself, not by a callback: most are never
    cancelled, and a callback for each would cost a turn of the loop."""

    def __init__(self, on_cancelled: Callable[[], object]) -> None:
        super().__init__()
        self._on_cancelled = on_cancelled

    def cancel(self, msg: Any = None) -> bool:  # noqa: ANN401
        cancelled = super().cancel(msg)
        if cancelled:
            self._on_cancelled()
        return cancelled


@dataclass(slots=True)
class _Waiting:
    future: Asked
    path: str
    agent: Agent[Any] | None
    context: Context | None


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
        self._waiting: dict[str, _Waiting] = {}
        self._number = 0

    def begin(
        self, path: str, agent: Agent[Any] | None, deps: object, on_chunk: OnChunk | None
    ) -> tuple[str, Asked]:
        """The word that the answer will carry, and the future that it comes to."""
        self._number += 1
        ask, context = str(self._number), None
        if agent is not None:
            context = Context(self._tracer.begin(CallKind.ASK, agent.name), deps, on_chunk)
        future = Asked(lambda: self._submit(CancelAsk(ask)))
        self._waiting[ask] = _Waiting(future, path, agent, context)
        return ask, future

    def context_of(self, ask: str) -> Context | None:
        waiting = self._waiting.get(ask)
        return None if waiting is None else waiting.context

    def on_answer(self, ask: str, outcome: Outcome) -> None:
        waiting = self._waiting.pop(ask)
        self._end_span(waiting, outcome)
        said = _remembered(waiting, outcome)
        if self._on_said is not None and said is not None:
            self._on_said(waiting.path, ask, said)
        if waiting.future.done():
            return
        if isinstance(outcome, Fell):
            waiting.future.set_exception(raised(outcome.error, outcome.reason))
        else:
            waiting.future.set_result(_reply(outcome, waiting))

    def pending(self) -> Iterator[Asked]:
        return (waiting.future for waiting in self._waiting.values())

    def _end_span(self, waiting: _Waiting, outcome: Outcome) -> None:
        if waiting.context is None or waiting.agent is None:
            return
        status, error = CallStatus.OK, ""
        if isinstance(outcome, Fell):
            cancelled = outcome.error == Cancelled.__name__
            status = CallStatus.CANCELLED if cancelled else CallStatus.FAILED
            error = f"{outcome.error}: {outcome.reason}"
        facts = {"agent": waiting.agent.name, "cost": outcome.charged, "error": error}
        here = current_process.set(waiting.path)
        self._tracer.end(waiting.context.span, status, **facts)
        current_process.reset(here)


def _remembered(waiting: _Waiting, outcome: Outcome) -> Said | None:
    remembers = waiting.agent is not None and waiting.agent.memory is not None
    said = outcome.value if remembers and isinstance(outcome, Told) else None
    return said if isinstance(said, Said) else None


def _reply(told: Told, waiting: _Waiting) -> Any:  # noqa: ANN401
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
