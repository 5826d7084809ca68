"""Asks: awaited, or by a script that awaits nothing (host).

An ask is a message to a process that lives for this one answer: the program decides its turn, its
retries and its money, with a journal and without one. It is asked when it is awaited, with budget,
span and deadline of where it was written.

    with Runtime(budget="$1") as rt:
        print(rt.run_sync(reviewer, "Review: …"))
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from contextvars import copy_context
from inspect import isawaitable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, Self, TypeVar, Unpack, cast

from vegakit.concurrency import AwaitedWork
from vegakit.conversation import Conversation, Media, Message, Text, UserPart
from vegakit.errors import UserError
from vegakit.host import (
    Agent,
    AskOptions,
    Reply,
    StreamEvent,
    TextChunk,
    TurnEnded,
    budget_wait_ms_of,
    seconds_of,
)
from vegakit.policy import BINDING
from vegakit.ports import Clock
from vegakit.program import Prompt
from vegakit.telemetry import calling_span

if TYPE_CHECKING:
    from vegakit.host import Budgets, ModelRegistry, PendingAsk, ProgramRun


class AskingRuntime(Protocol):
    """The parts of a runtime that an ask uses. Naming only these keeps asks below the class that
    makes them."""

    clock: Clock
    budgets: "Budgets"
    model_registry: "ModelRegistry"

    @property
    def program(self) -> "ProgramRun":
        """The run of all processes."""
        ...


AskT = TypeVar("AskT")


class Ask(AwaitedWork[Reply[AskT]]):
    """A question not yet asked: await it, or give it to `rt.batch` or to whatever of asyncio takes
    a coroutine. It keeps the budget, the span and the deadline of the line it was written on."""

    def __init__(
        self,
        runtime: AskingRuntime,
        agent: Agent[AskT],
        prompt: str,
        *,
        timeout: float | str | None = None,
        budget: str | float | None = None,
        deps: object = None,
        files: Sequence[str | Path | Media] = (),
        history: Conversation | Sequence[Message] = (),
        wait_for_budget: bool | float | str = True,
        max_wait: float | str | None = None,
        on_chunk: Callable[[str], object] | None = None,
    ) -> None:
        _check_asked(agent, prompt)
        self._runtime = runtime
        is_plain = budget is None and max_wait is None
        self._agent = agent if is_plain else agent.varied(budget, max_wait)
        self._on_chunk = on_chunk
        self._parts: tuple[UserPart, ...] = (Text(prompt), *_media(files))
        self._history = history.messages if isinstance(history, Conversation) else tuple(history)
        self._scope = runtime.budgets.current_for_asks
        self._above = calling_span()
        self._deps = deps
        self._budget_wait_ms = budget_wait_ms_of(wait_for_budget)
        timeout = agent.timeout if timeout is None else timeout
        self._timeout_ms = 0 if timeout is None else round(seconds_of(timeout) * 1000)
        now = runtime.clock.now()
        self._deadline_ms = None if timeout is None else now + self._timeout_ms
        super().__init__()  # last: an ask that is refused above is not forgotten

    @property
    def never_awaited(self) -> str:
        """The text of the warning."""
        return (
            f"agent {self._agent.name!r} was never asked: write `await rt.ask(...)`, or for a "
            "stream `async for event in rt.stream(...)`"
        )

    def __repr__(self) -> str:
        return f"<ask of {self._agent.name!r}, not awaited: write `await rt.ask(…)`>"

    def __getattr__(self, name: str) -> NoReturn:
        """A reply has it, and this is none yet: somebody has forgotten to await."""
        missing = f"an ask has no {name!r}"
        if name in Reply.__dataclass_fields__:
            missing += ", its reply has; await it: reply = await rt.ask(…)"
        raise AttributeError(missing, name=name, obj=self)

    async def work(self) -> Reply[AskT]:
        """Ask, and wait for the reply."""
        if self._on_chunk is not None:
            return await self._told(self._on_chunk)
        program = self._runtime.program
        asked = await self._begin()
        try:
            return await asked
        except BaseException:
            await program.finished(asked)
            raise

    async def _told(self, on_chunk: Callable[[str], object]) -> Reply[AskT]:
        """Tell the text as it comes, and return the reply. What is told may be awaited."""
        async with aclosing(self.events(stream=True)) as events:
            async for event in events:
                if isinstance(event, TurnEnded):
                    return event.reply
                if isinstance(event, TextChunk) and isawaitable(told := on_chunk(event.text)):
                    await told
        raise AssertionError("a stream ends with its reply")

    async def events(
        self, *, stream: bool, live: bool = False
    ) -> AsyncGenerator[StreamEvent[AskT]]:
        """Yield what is said and done while it happens; without `stream` only what is done. Where
        answers are recorded, the text of each model call comes when it is complete and kept; with
        `live` it comes as it is said, and of an answer that a kill cuts off some was heard that no
        run has."""
        self.hand_over()
        program = self._runtime.program
        asked = await self._begin(stream=stream, with_events=True)
        if live and asked.context is not None:
            asked.context.is_live = True
        try:
            async for event in asked.buffer:
                yield event
            yield TurnEnded(asked.result())
        finally:
            asked.cancel()
            await program.finished(asked)

    async def _begin(self, *, stream: bool = False, with_events: bool = False) -> "PendingAsk":
        await self._runtime.model_registry.prepare_for(self._agent)
        budgets, cap = self._runtime.budgets, self._agent.cap
        # A part that holds the quote of programs is a bound, of which little is ever spent.
        if cap is not None and self._agent.exceeding in BINDING and not self._agent.writes_programs:
            budgets.check_part(self._scope, cap)
        prompt = Prompt(
            self._parts,
            self._history,
            self._scope,
            stream=stream,
            budget_wait_ms=self._budget_wait_ms,
        )
        return self._runtime.program.ask_once(
            self._agent,
            prompt,
            deps=self._deps,
            deadline_ms=self._deadline_ms,
            timeout_ms=self._timeout_ms,
            above=self._above,
            with_events=with_events,
        )


def _check_asked(agent: object, prompt: object) -> None:
    """Check what types would have said: who forgets the agent, or swaps the two, is told so."""
    if not isinstance(agent, Agent):
        raise UserError(
            f"an ask begins with an Agent, not with {_kind(agent)}; write: "
            'rt.ask(Agent("name", model="fast"), "…")'
        )
    if not isinstance(prompt, str):
        raise UserError(
            f"a prompt is a text, not {_kind(prompt)}; write: rt.ask(agent, "
            '"…"), and pass what was said before as history='
        )


def _kind(given: object) -> str:
    named = type(given).__name__
    return f"the text {given[:40]!r}" if isinstance(given, str) else f"a value of type {named}"


def _media(files: Sequence[str | Path | Media]) -> Iterator[UserPart]:
    if files:
        from vegakit.host import read_media

        yield from (one if isinstance(one, Media) else read_media(one) for one in files)


# A runtime for code that awaits nothing, such as a script. It has an event loop of its own for as
# long as it is open, so that connections, limits and what calls share are kept from one ask to the
# next.


T = TypeVar("T")


class _AsyncRuntime(Protocol):
    """The half that is awaited, which whoever has this half implements."""

    async def __aenter__(self) -> object: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def ask(self, agent: Agent[T], prompt: str, **options: Unpack[AskOptions]) -> Any:  # noqa: ANN401
        """Return a question that is awaited for its reply."""
        ...


class SyncRuntime:
    """The half of a runtime that is for code which awaits nothing."""

    _runner: asyncio.Runner | None = None
    _is_over: bool = False

    def __enter__(self) -> Self:
        """Open the runtime in an event loop of its own."""
        _check_no_loop("open it with `async with Runtime(...) as rt:`")
        if self._is_over:
            raise UserError(
                "this runtime is closed; for several asks write `with Runtime(...) as rt:` around "
                "them"
            )
        self._runner = asyncio.Runner()
        try:
            self._runner.run(cast("_AsyncRuntime", self).__aenter__())
        except BaseException:
            self._end_loop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._runner is not None
        try:
            self._runner.run(cast("_AsyncRuntime", self).__aexit__(kind, error, trace))
        finally:
            self._end_loop()

    def run_sync(self, agent: Agent[T], prompt: str, **options: Unpack[AskOptions]) -> Reply[T]:
        """Ask an agent and wait for the reply; it takes what `ask` takes. Within `with Runtime(...)
        as rt:` it may be called again and again; alone it opens the runtime for this one ask."""
        _check_no_loop("ask with `await rt.ask(agent, …)`")
        if self._runner is None:
            with self:
                return self.run_sync(agent, prompt, **options)
        # A budget block around this line is a variable of this context, not of the loop's.
        return self._runner.run(self._reply(agent, prompt, options), context=copy_context())

    async def _reply(self, agent: Agent[T], prompt: str, options: AskOptions) -> Reply[T]:
        return await cast("_AsyncRuntime", self).ask(agent, prompt, **options)

    def _end_loop(self) -> None:
        if self._runner is not None:
            self._runner.close()
        self._runner, self._is_over = None, True


def _check_no_loop(instead: str) -> None:
    """A loop cannot wait for another one in the same thread: it would wait for ever."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UserError(
        f"run_sync and `with Runtime(...)` are for scripts; here an event loop runs (async code, a "
        f"notebook): {instead}"
    )
