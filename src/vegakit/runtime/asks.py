"""A question: asked when it is awaited, with budget, span and deadline of where it was written.

It is a message to a process that lives for this one answer: the program decides its turn, its
retries and its money, with a journal and without one.
"""

from collections.abc import AsyncGenerator, Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from vegakit.conversation import Conversation, Message, Text, UserPart
from vegakit.program import Prompt
from vegakit.runtime.agents import Agent
from vegakit.runtime.files import read_media
from vegakit.runtime.replies import Reply, StreamEvent, TurnEnded
from vegakit.telemetry import current_span

if TYPE_CHECKING:
    from vegakit.runtime.processes.asked import Asked
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
        self._timeout_ms = 0 if timeout_s is None else round(timeout_s * 1000)
        now = runtime.clock.now()
        self._deadline_ms = None if timeout_s is None else now + self._timeout_ms

    def __await__(self) -> Generator[Any, Any, Reply[T]]:
        return self._reply().__await__()

    async def _reply(self) -> Reply[T]:
        program = self._runtime.program
        asked = await self._begin()
        try:
            return await asked
        except BaseException:
            await program.landed(asked)
            raise

    async def events(self, *, stream: bool) -> AsyncGenerator[StreamEvent[T]]:
        """What is said and done while it is, without `stream` only what is done. Where answers are
        recorded, the text of each model call comes when it is complete and kept."""
        program = self._runtime.program
        asked = await self._begin(stream=stream, hears=True)
        try:
            async for event in asked.heard:
                yield event
            yield TurnEnded(asked.result())
        finally:
            asked.cancel()
            await program.landed(asked)

    async def _begin(self, *, stream: bool = False, hears: bool = False) -> "Asked":
        await self._runtime.catalogue.prepare_for(self._agent)
        budgets, cap = self._runtime.budgets, self._agent.cap
        # A part that holds the quote of programs is a bound, of which little is ever spent.
        if cap is not None and not self._agent.writes_programs:
            budgets.check_part(self._scope, cap)
        prompt = Prompt(
            self._parts,
            self._history,
            self._scope,
            stream=stream,
            wait_for_budget=self._wait_for_budget,
        )
        return self._runtime.program.ask_once(
            self._agent,
            prompt,
            deps=self._deps,
            deadline_ms=self._deadline_ms,
            timeout_ms=self._timeout_ms,
            above=self._above,
            hears=hears,
        )
