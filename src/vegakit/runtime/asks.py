"""A question: asked when it is awaited, with budget, span and deadline of where it was written."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from vegakit.conversation import Conversation, Message, Text, UserPart
from vegakit.errors import AgentFailed, BugError, Raised, Timeout, WorldError
from vegakit.events import CallKind, CallStatus
from vegakit.ids import new_program_id
from vegakit.money import Money
from vegakit.ports import Clock
from vegakit.program import Prompt
from vegakit.runtime.agents import Agent
from vegakit.runtime.files import read_media
from vegakit.runtime.replies import Reply, StreamEvent, TurnEnded
from vegakit.runtime.turns import TurnRun
from vegakit.telemetry import Span, current_span

if TYPE_CHECKING:
    from vegakit.runtime.runtime import Runtime

__all__ = ["Ask"]

T = TypeVar("T")


class Ask(Generic[T]):
    """A question not yet asked: await it, or give it to `rt.batch`. It keeps the budget, the span
    and the deadline of the line it was written on."""

    def __init__(
        self,
        runtime: "Runtime",
        agent: Agent[T],
        prompt: str,
        *,
        timeout_s: float | None,
        deps: object,
        files: Sequence[str | Path],
        history: Conversation | Sequence[Message],
        wait_for_budget: bool,
    ) -> None:
        self._runtime = runtime
        self._agent = agent
        self._parts: tuple[UserPart, ...] = (Text(prompt), *map(read_media, files))
        self._history = history.messages if isinstance(history, Conversation) else tuple(history)
        self._scope = runtime.budgets.current
        self._above = current_span()
        self._deps = deps
        self._wait_for_budget = wait_for_budget
        timeout_s = agent.timeout if timeout_s is None else timeout_s
        self._timeout_s = timeout_s
        now = runtime.clock.now()
        self._deadline_ms = None if timeout_s is None else now + int(timeout_s * 1000)

    def __await__(self) -> Generator[Any, Any, Reply[T]]:
        return self._reply().__await__()

    async def _reply(self) -> Reply[T]:
        async with aclosing(self.events(stream=False)) as events:
            async for event in events:
                if isinstance(event, TurnEnded):
                    return event.reply
        raise BugError(f"the turn of {self._agent.name} ended without a reply")

    def events(self, *, stream: bool) -> AsyncGenerator[StreamEvent[T]]:
        """Where answers are recorded, they come when they are complete and kept."""
        if self._runtime.journaled is None and not self._agent.writes_programs:
            return self._events(stream=stream)
        prompt = Prompt(self._parts, self._history, self._scope, stream=stream)
        return self._runtime.program.ask_once(
            self._agent, prompt, deps=self._deps, deadline_ms=self._deadline_ms
        )

    async def _events(self, *, stream: bool) -> AsyncGenerator[StreamEvent[T]]:
        rt, agent = self._runtime, self._agent
        span = rt.tracer.begin(CallKind.ASK, agent.name, self._above)
        status, error, run = CallStatus.CANCELLED, "", None
        try:
            async with AsyncExitStack() as stack:
                run = await self._prepare(stack, span, stream=stream)
                events = run.events(self._parts, self._history)
                if self._deadline_ms is not None:
                    events = _until(events, self._deadline_ms, rt.clock, self._timeout_s)
                await stack.enter_async_context(aclosing(events))
                async for event in events:
                    if isinstance(event, TurnEnded):
                        status = CallStatus.OK
                    yield event
        except Raised as raised:
            status, error = CallStatus.FAILED, f"{type(raised).__name__}: {raised}"
            raise
        except WorldError as failed:
            status, error = CallStatus.FAILED, f"{failed.error_class}: {failed}"
            raise AgentFailed(f"agent {agent.name}: {failed.error_class}: {failed}") from failed
        finally:
            charged = run.charged if run else 0
            rt.on_spent(charged)
            rt.tracer.end(span, status, agent=agent.name, cost=Money(charged), error=error)

    async def _prepare(self, stack: AsyncExitStack, span: Span, *, stream: bool) -> TurnRun[T]:
        rt, agent = self._runtime, self._agent
        scope = await rt.budgets.ready(self._scope)
        program = new_program_id(rt.clock.now(), secrets.token_bytes(10))
        if agent.budget is not None or agent.tools:
            scope = await stack.enter_async_context(rt.budgets.part(scope, program, agent.cap))
        model = rt.catalogue.model_of(agent)
        return TurnRun(
            agent,
            model,
            rt.gate,
            rt.tracer,
            rt.oversight,
            rt.sandboxes,
            rt.catalogue.lanes_of(agent, model),
            scope,
            program,
            span,
            deps=self._deps,
            deadline_ms=self._deadline_ms,
            wait_for_budget=self._wait_for_budget,
            stream=stream,
        )


async def _until(
    events: AsyncGenerator[StreamEvent[T]],
    deadline_ms: int,
    clock: Clock,
    timeout_s: float | None,
) -> AsyncGenerator[StreamEvent[T]]:
    async with aclosing(events):
        while True:
            try:
                async with asyncio.timeout(max(0, deadline_ms - clock.now()) / 1000):
                    event = await anext(events)
            except StopAsyncIteration:
                return
            except TimeoutError as late:
                raise Timeout(
                    f"no answer within {timeout_s} s; give it more with timeout=, or ask for less"
                ) from late
            yield event
