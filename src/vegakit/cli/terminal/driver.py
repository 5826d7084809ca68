"""A session behind the screen: it opens the agent, passes its events to the reducer, carries out
what the reducer asks for, and is opened anew for what can only be changed from outside."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

from vegakit.cli.terminal.amounts import limit
from vegakit.cli.terminal.diffs import fields_of, whole_lines
from vegakit.cli.terminal.reducer import (
    cut_text,
    next_turn,
    on_event,
    on_question,
    on_withdrawn,
    plain,
)
from vegakit.cli.terminal.state import (
    Action,
    AnswerQuestion,
    BeginTurn,
    EndTree,
    MoneyView,
    NoteItem,
    StopTurn,
    ToolItem,
    ToolState,
    TurnState,
    TypedPrompt,
    ViewState,
)
from vegakit.concurrency import SteadyClock
from vegakit.config import ignored_settings
from vegakit.control import Question
from vegakit.errors import UserError, VegaError
from vegakit.host import Agent, price_of
from vegakit.money import dollars
from vegakit.sage import (
    SageAgent,
    SageEvent,
    SageToolEnded,
    SageTurn,
    SessionMovedError,
    context_share,
    export_session,
    mark_stopped,
)
from vegakit.sdk import Runtime

T = TypeVar("T")
_MOST_WIDENED = 1_000_000
"""Bytes of a file that are read to show the lines around an edit."""


class Screen(Protocol):
    """The parts of the screen that a session uses."""

    def changed(self) -> None:
        """Draw anew what changed, soon."""
        ...

    def ended(self) -> None:
        """Leave the screen."""
        ...

    def unsaid(self, text: str) -> None:
        """Give a prompt back that was not said."""
        ...


class SessionDriver:
    """One session. `options` are the arguments of `SageAgent`."""

    def __init__(self, folder: Path, options: dict[str, Any], screen: Screen) -> None:
        self.folder, self.state = folder, ViewState()
        self._options, self._screen = options, screen
        self._budget: str | None = options.get("budget")
        self._agent: SageAgent | None = None
        self._is_open = False
        self._turn: asyncio.Task[None] | None = None
        self._unheard: TypedPrompt | None = None
        """The prompt that was begun, until the agent tells that it has it."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._clock = SteadyClock()
        self._changing = asyncio.Lock()
        """Held while the session is closed for a moment: two changes come one after the other."""
        self._put_off: list[Callable[[], Awaitable[None]]] = []
        self._is_settling = False
        self.compacts = False
        """Whether the conversation is summed up before the next prompt."""

    @property
    def was_resumed(self) -> bool:
        """Whether something was said before: in the session, or in the one it is a fork of."""
        agent = self._agent
        return agent is not None and (agent.resumed or bool(agent.record.forked_from))

    def now(self) -> int:
        """Return the time, in milliseconds."""
        return self._clock.now()

    async def open(self, **changes: Any) -> None:  # noqa: ANN401
        """Open the session, with other options than before if some are given."""
        options: dict[str, Any] = {**self._options, **changes}
        agent = SageAgent(self.folder, on_question=self._on_question, **options)
        await agent.__aenter__()
        self._agent = agent
        opened = await agent.opened()
        self._options = {
            **options,
            "resume": opened.run,
            "session": "",
            "fork": None,
            "budget": None,
            "raise_budget": None,
            "mode": None,
            "model": "",
        }
        on_event(self.state, opened, self.now())
        on_event(self.state, await agent.cost(), self.now())
        self._start(self.note_model())
        # The screen hides the log.
        for note in (*await asyncio.to_thread(ignored_settings, self.folder), *agent.notes):
            self.say(note)
        self._tell_limit(options.get("budget"))
        await self._weigh()

    def _tell_limit(self, wanted: str | None) -> None:
        """Say that the settings allow less than the budget that was asked for."""
        at_most = self.state.money.at_most
        if wanted is not None and at_most is not None and dollars(wanted) > at_most:
            why = f"your settings allow no more; --budget is {wanted}"
            self.say(f"at most {limit(at_most)} ({why})")

    async def load(self) -> None:
        """Show what was said in the session before."""
        told = (await export_session(self.state.run, self.folder))[1:]
        if self._agent is not None and self._agent.was_cut_off:
            # It is told anew when the session goes on with it.
            last = max(at for at, event in enumerate(told) if isinstance(event, SageTurn))
            del told[last:]
        # What each turn cost is counted from the first one on; what is spent and left by now is
        # not what the last of them said, as of a fork, whose turns are those of another session.
        kept, self.state.money = self.state.money, MoneyView()
        for event in told:
            on_event(self.state, event, self.now())
        kept.unbilled, self.state.money = self.state.money.unbilled, kept
        self.state.turn_state = TurnState.IDLE
        if self._agent is not None:
            # The last turn that stands knows nothing of those that were taken back.
            on_event(self.state, await self._agent.cost(), self.now())
        self._screen.changed()

    async def close(self) -> None:
        """End what goes on, and close the session. What is asked in a turn that nobody has stopped
        is asked again by whoever goes on with it, as after a kill."""
        if self._agent is not None and self.state.turn_state is TurnState.WORKING:
            self._agent.runtime.approvals.questions.keep_open()
        await self._stop()
        await self.release()

    async def reopen(self, **changes: Any) -> None:  # noqa: ANN401
        """Close the session and open it again, with what is to be changed; as it was, if that is
        refused."""
        try:
            async with self._between_turns():
                try:
                    await self.open(**changes)
                except VegaError:
                    await self.open()
                    raise
        finally:
            self.begin_next()

    @asynccontextmanager
    async def _between_turns(self) -> AsyncGenerator[None]:
        """Close the session for a while. One at a time: who opens it again would find it open."""
        async with self._changing:
            if self.state.is_working:
                raise UserError("a turn has begun meanwhile; type it again when it has ended")
            await self.release()
            yield

    async def check_model(self, name: str) -> None:
        """Refuse a name that stands for no model, or for one that no budget can hold, before
        anything is changed."""
        if self._agent is None:
            return
        registry = self._agent.runtime.model_registry
        await registry.prepare([name])
        if self.state.money.at_most is not None:
            for model in registry.models_of(Agent("sage", model=name)):
                price_of(model)

    async def note_model(self) -> None:
        """Note which model is asked, and whether it can be: by the settings, nobody is asked."""
        from vegakit.cli.terminal.models import model_named, read_settings  # the first screen waits

        state, before = self.state, self.state.model_problem
        with suppress(VegaError):  # what is wrong with the settings was told when they were read
            settings = await asyncio.to_thread(read_settings, self.folder)
            state.real_model, state.model_price, state.model_problem = await asyncio.to_thread(
                model_named, settings, state.model
            )
        if state.items and state.model_problem not in {"", before}:
            self.say(state.model_problem, "error")
        self._screen.changed()

    async def release(self) -> None:
        """Close the session, so that others can work on what it holds."""
        agent, self._agent, self._is_open = self._agent, None, False
        if agent is not None:
            await agent.__aexit__(None, None, None)

    async def closed(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do something while the session is closed."""
        async with self._between_turns():
            try:
                return await work()
            finally:
                await self.open()
                self.begin_next()

    def begin_next(self) -> None:
        """Begin what was typed while the session was not open; from here on it is."""
        self._is_open = True
        if not self._is_settling:
            self.carry_out(next_turn(self.state))

    def put_off(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do something when the turn has ended, before the prompts that wait."""
        self._put_off.append(work)

    async def _settle(self) -> None:
        """Do what was put off in a turn, in its order."""
        self._is_settling = True
        try:
            while self._put_off:
                await self._put_off.pop(0)()
        finally:
            self._is_settling = False

    async def reload(self) -> None:
        """Show the conversation as it is kept now."""
        state = self.state
        state.items, state.todo, state.turn = [], [], 0
        state.agents, state.changed = {}, {}
        unbilled = state.money.unbilled
        await self.load()
        state.money.unbilled = unbilled

    def beside(self) -> "SessionDriver":
        """Return another session of the same folder, not opened yet."""
        kept = {"mode": self.state.mode, "model": self.state.model, "budget": self._budget}
        return SessionDriver(self.folder, {**self._options, **kept}, self._screen)

    async def stop(self) -> None:
        """Stop the turn and all that it runs."""
        if self.state.is_working:
            self.state.turn_state = TurnState.STOPPING
        await self._stop()

    def has_command(self, name: str) -> bool:
        """Return whether a prompt may begin with a command of this name, of a file or a plugin."""
        agent = self._agent
        return agent is not None and any(one.name == name for one in agent.commands())

    def stop_command(self) -> bool:
        """Stop the command that was started last, and return whether one runs."""
        running = [one.id for one in self.state.tools.values() if one.name == "shell"]
        agent = self._agent
        return agent is not None and any(agent.stop_command(one) for one in reversed(running))

    async def whole_result(self, item: ToolItem) -> str:
        """Return all that a tool call returned, from the journal if the screen has a part."""
        if item.ended_ms is None or item.result_lines <= item.result.count("\n") + 1:
            return item.result
        for event in await export_session(self.state.run, self.folder):
            if isinstance(event, SageToolEnded) and event.id == item.id:
                return plain(event.result)
        return item.result

    def say(self, text: str, kind: str = "note") -> None:
        """Show a note."""
        self.state.items.append(NoteItem(kind=kind, text=text))
        self._screen.changed()

    def carry_out(self, actions: list[Action]) -> None:
        """Do what the reducer asks for."""
        for action in actions:
            match action:
                case BeginTurn(prompt) if not self._is_open:
                    # The session is not open yet, or for a moment not: it is said when it is.
                    self.state.turn_state = TurnState.IDLE
                    self.state.queue.insert(0, prompt)
                case BeginTurn(prompt):
                    self._unheard = prompt
                    self._turn = self._start(self._run(prompt))
                case AnswerQuestion(id=question, answer=answer):
                    self._start(self._answer(question, answer))
                case StopTurn():
                    self._start(self._stop())
                case EndTree():
                    self._screen.ended()
                case _:
                    pass
        self._screen.changed()

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        """Tell what nobody waits for: a fault must not look like silence."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.state.turn_state = TurnState.IDLE
            self.say(f"{type(error).__name__}: {error}; the session is kept", "error")

    # Turns.

    def go_on(self) -> None:
        """Go on with a turn of this session that was cut off."""
        if self._agent is not None and self._agent.resumed and self._agent.was_cut_off:
            self.state.turn_state = TurnState.WORKING
            self._turn = self._start(self._run(None))

    async def _run(self, prompt: TypedPrompt | None) -> None:
        agent, before = self._agent, self.state.turn
        assert agent is not None
        try:
            compacts, self.compacts = self.compacts, False
            events = (
                agent.go_on()
                if prompt is None
                else agent.turn(prompt.text, prompt.images, compacts=compacts)
            )
            async with aclosing(events):
                async for event in events:
                    self._hear(event)
        except asyncio.CancelledError:
            is_meant = self.state.turn_state is TurnState.STOPPING
            end = await agent.interrupted("stopped by you")
            if is_meant and (self.state.turn > before or agent.was_cut_off):
                await mark_stopped(agent, end, cut_text(self.state))
            self._hear(end)
        except SessionMovedError:
            await self._catch_up()
        except VegaError as error:
            self.say(str(error), "error")
        finally:
            self.state.turn_state = TurnState.IDLE
            self._give_back()
            self._screen.changed()
        await self._weigh()
        await self._settle()
        self.carry_out(next_turn(self.state))

    async def _catch_up(self) -> None:
        """Show the session as it is kept: somebody took turns of it back in another terminal."""
        await self.release()
        await self.open()
        self._is_open = True
        await self.reload()
        self.say(
            "turns of this session were taken back elsewhere; the conversation is as it is now. "
            "Your prompt was not sent: send it again if it still fits",
            "error",
        )

    def _give_back(self) -> None:
        """Give a prompt back that was stopped or refused before the agent had it."""
        unheard, self._unheard = self._unheard, None
        if unheard is not None:
            self._screen.unsaid(unheard.text)

    async def _weigh(self) -> None:
        """Note how full the window of the model is."""
        if self._agent is not None:
            with suppress(VegaError):  # a model without a key or a price is told by its turn
                self.state.context_share = await context_share(self._agent)
        self._screen.changed()

    def _hear(self, event: SageEvent) -> None:
        if isinstance(event, SageTurn):
            self._unheard = None
        item = self.state.tools.get(event.id) if isinstance(event, SageToolEnded) else None
        on_event(self.state, event, self.now())
        if item is not None and item.name == "edit" and item.state is ToolState.DONE:
            self._widen(item)
        self._screen.changed()

    def _widen(self, item: ToolItem) -> None:
        """Show the whole lines of the file that an edit has just changed words of."""
        with suppress(OSError, ValueError):
            path = self.folder / str(fields_of(item.arguments).get("path", ""))
            if path.stat().st_size <= _MOST_WIDENED:
                item.arguments = whole_lines(item.arguments, item.result, path.read_text("utf-8"))

    async def _stop(self) -> None:
        turn, self._turn, unheard = self._turn, None, self._unheard
        if turn is not None and not turn.done():
            turn.cancel()
            with suppress(asyncio.CancelledError):
                await turn
            if self._unheard is unheard:
                self._give_back()  # it was stopped before its first step
            if self.state.turn_state is TurnState.STOPPING:
                # Nor has it said then that it is over.
                self.state.turn_state = TurnState.IDLE
                await self._settle()
                self.carry_out(next_turn(self.state))

    # Money and questions.

    async def refresh_cost(self) -> None:
        """Ask what is spent and reserved by now: a call in flight tells nothing until it ends."""
        agent = self._agent
        if agent is None or self.state.turn_state is not TurnState.WORKING:
            return
        cost = await agent.cost()
        if agent is not self._agent:
            return  # it was closed meanwhile
        on_event(self.state, cost, self.now())
        on_withdrawn(self.state, {one.id for one in agent.runtime.interrupts()})
        self._screen.changed()

    def _on_question(self, runtime: Runtime, question: Question) -> None:
        del runtime
        self.carry_out(on_question(self.state, question))

    async def _answer(self, question: str, answer: bool | str) -> None:
        if self._agent is None:
            self.say("the answer came too late: the session is closed", "error")
            return
        try:
            await self._agent.runtime.answer(question, answer)
        except UserError as error:
            self.say(f"the answer came too late: {error}", "error")
