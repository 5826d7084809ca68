"""A session of the coding agent: one run in the journal, one budget, turns one after the other, and
the events of each.

    begin ─▶ record ─▶ turn ─▶ SageTurn, SageText, SageToolBegan … SageEnd ─▶ its messages are kept
                         ▲                                                        │
    kill -9 ─▶ resume ───┴── a turn that was cut off goes on by the journal ◀─────┘

What a request begins with is made from what is kept and from nothing else: the instructions as they
were when the session began, then the messages of its turns that stand. So it is the same, byte by
byte, after a kill, in a fork, and when AGENTS.md was changed meanwhile; the change is told with the
next prompt. A turn that was undone is left out: what follows it begins as it did.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractContextManager, aclosing, nullcontext
from contextvars import Context
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from msgspec.structs import replace

from vegakit.agent import CompactedHistory
from vegakit.config import (
    BudgetChange,
    CutOffTools,
    ResumeTarget,
    Settings,
    load,
    user_config_dir,
)
from vegakit.control import Question
from vegakit.conversation import Media, Message
from vegakit.errors import CapabilityDenied, UserError, VegaError, error_name
from vegakit.host import (
    PermissionPolicy,
    StreamBuffer,
    StreamEvent,
    TextChunk,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    seconds_of,
)
from vegakit.ids import ProgramId
from vegakit.money import Money, dollars, to_usd
from vegakit.policy import BreakerRule, RetryRule
from vegakit.ports import Tool
from vegakit.sage.coding_agent import (
    PATIENT,
    PINNED_TOOL,
    SILENT_S,
    STEADY,
    Silence,
    coding_agent,
    output_event,
    told_with,
)
from vegakit.sage.context import ignored_files, read_instructions, system_prompt
from vegakit.sage.environment import check_workspace
from vegakit.sage.events import (
    POLICIES,
    EndReason,
    SageCost,
    SageEnd,
    SageEvent,
    SageMode,
    SageRetry,
    SageSession,
    SageText,
    SageToolBegan,
    SageToolEnded,
    SageTurn,
    call_id,
    message_of,
    progress_event,
    reason_of,
    retry_event,
    usual_mode,
)
from vegakit.sage.extensions.loading import CommandInfo, Extensions
from vegakit.sage.extensions.plugins import PluginHost
from vegakit.sage.extensions.turn_tools import TurnTools
from vegakit.sage.knowledge import Knowledge, read_images
from vegakit.sage.sessions import (
    MOST_TOKENS,
    SageRecord,
    SessionStore,
    TurnRecord,
    budget_text,
    capped_rule,
    check_name,
    check_raise,
    missing,
    said_in,
    turn_key,
)
from vegakit.sage.skills import SkillSet, find_skills
from vegakit.sage.tools import Jobs, Workspace
from vegakit.sage.tools.outside import check_nodes
from vegakit.sage.undo.recorder import TurnRecorder, lasting_effect
from vegakit.sdk import Ask, CallRetried, ProgramQuote, Runtime, runtime_arguments
from vegakit.tools import remove_left_stubs

_MOST_TOLD = 256
"""Events that wait for who listens."""


class SageAgent:
    """A session of the coding agent in a folder.

    `budget` caps all its turns, within the budget of the settings: "$1", or a number of dollars.
    `mode` is plan, ask or auto; what is asked goes to `on_question`; without one it is refused, and
    `on_refused` is told.
    `session` names a new session; `resume` goes on with one by its name or run, with "" the last of
    the folder. `fork` begins a session with the conversation of another, which stays as it is.
    `raise_budget` is added to the budget of a session that goes on; its `budget` is that of all its
    turns, and what they have spent counts. With `resend` tool calls that were cut off are made
    again. With `programs` the agent of a new session may write programs
    and run them, and with `nodes` call the nodes of this folder of the workspace. `max_tokens` is
    the most that an answer of the model may have, 8,000 if it is not given; a session that goes on
    keeps its own, and so does a turn. `timeout` is how long the model may say nothing before it is
    asked again, five minutes if it is not given. `tools` are yours beside its own, under the same
    modes and rules; give the same ones when it goes on: every request begins with them."""

    def __init__(
        self,
        folder: str | Path = ".",
        *,
        model: str = "",
        budget: str | float | Decimal | None = None,
        mode: str | None = None,
        session: str = "",
        resume: str | None = None,
        fork: str | None = None,
        raise_budget: str | float | Decimal | None = None,
        resend: bool = False,
        programs: bool = False,
        nodes: str = "",
        max_tokens: int | None = None,
        timeout: float | str | None = None,
        tools: Sequence[Tool | Callable[..., Any]] = (),
        on_question: Callable[[Runtime, Question], object] | None = None,
        on_refused: Callable[[Question], object] | None = None,
        settings: Settings | None = None,
    ) -> None:
        self.folder = Path(folder).resolve()
        if session:
            check_name(session)
        # Checked here: a record with an amount that nobody can read would break its whole folder.
        self._budget = None if budget is None else budget_text(budget)
        self._more = None if raise_budget is None else dollars(raise_budget)
        if max_tokens is not None and max_tokens < 1:
            raise UserError(f"max_tokens is at least 1; got {max_tokens}; leave it out for 8,000")
        self._model, self._session, self._max_tokens = model, session, max_tokens
        self.silent_ms = round(1000 * (SILENT_S if timeout is None else seconds_of(timeout)))
        if self.silent_ms < 1:
            raise UserError(f"timeout is above 0; got {timeout}; write it like '5m'")
        self._mode = None if mode is None else SageMode(mode)
        self._resume, self._resend, self._fork, self._more_tools = resume, resend, fork, tools
        self._on_question, self._on_refused = on_question, on_refused
        self._settings, self._programs, self._nodes = settings, programs, nodes
        self._failure: BaseException | None = None
        self.history: list[Message] = []
        self._lasting: set[str] = set()
        self._answering: set[asyncio.Task[None]] = set()
        self._last: TurnRecord | None = None
        self._refused = 0
        self._last_number = 0
        self._spent = Money(0)
        self._unbilled = Money(0)
        self._told: StreamBuffer[StreamEvent[str] | SageEvent] | None = None
        self._skills = SkillSet()
        self._ignored: list[str] = []

    async def __aenter__(self) -> Self:
        settings = self._settings or load({"journal.enabled": True}, directory=self.folder)
        check_workspace(self.folder, settings)
        # A session records its own budget. The settings may lower it while the session is closed.
        parts = runtime_arguments(settings, {"keeps_budget": False})
        journal = parts["journal"]
        parts["store"] = store = journal.store()
        self._sessions = SessionStore(store, self.folder)
        try:
            known = await self._sessions.to_resume(self._resume, self._fork, self._session)
            forked = None if self._fork is None else await self._sessions.named(self._fork)
            before = known or forked
            mode = self._mode or (before.mode if before else usual_mode(settings.permissions.mode))
            policy, rules = POLICIES[mode]
            parts["permissions"] = PermissionPolicy(
                (*(settings.permission_rules or ()), *rules), policy, settings.answer_within_ms
            )
            if known is not None and (self._more or self._budget) is not None:
                run = next(one for one in await journal.runs() if one.program == known.run)
                self._more = self._more or missing(known, run.raised, self._budget or "")
                if self._more:
                    check_raise(settings, known, run.raised, self._more)
        except BaseException:
            await journal.aclose()
            raise
        # What somebody wrote into the settings holds; where they say nothing, patience does.
        usual = settings.limits_for("")
        self.retry = PATIENT if usual.retry == RetryRule() else None
        self.breaker = STEADY if usual.breaker == BreakerRule() else None
        parts["budget"] = capped_rule(
            parts["budget"], known.budget if known else self._budget or ""
        )
        parts["resume"] = self._resume_target(known)
        self.runtime = Runtime(**parts)
        self._undo = TurnRecorder(self.folder, settings.data_path)
        await self.runtime.__aenter__()
        try:
            await self._begin(known, forked, mode, settings)
        except BaseException as error:
            await self.runtime.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # A turn that failed leaves the run unfinished: what failed it is asked again on resume.
        failed = error or self._failure
        try:
            await self.runtime.__aexit__(failed and type(failed), failed, trace)
        finally:
            await self._undo.aclose()

    def _resume_target(self, known: SageRecord | None) -> ResumeTarget | None:
        if known is None:
            return None
        # Skipped: the model is told that nobody knows whether the call was done, and looks.
        tools = CutOffTools.RESEND if self._resend else CutOffTools.SKIP
        change = BudgetChange(self._more, is_more=True) if self._more else None
        run = known.run
        return ResumeTarget(run, tools, alone=True, decided=run, budget=change)

    async def _begin(
        self,
        known: SageRecord | None,
        forked: SageRecord | None,
        mode: SageMode,
        settings: Settings,
    ) -> None:
        journaled = self.runtime.journaled
        assert journaled is not None
        run = journaled.run.program
        outputs = settings.data_path / "sage" / ProgramId(run)
        self._skills = await find_skills(self.folder, user_config_dir())
        self._ignored = await asyncio.to_thread(ignored_files, self.folder)
        self.resumed = known is not None
        if known is not None:
            known.mode = mode
            known.model = self._model or known.model
            known.max_tokens = self._max_tokens or known.max_tokens
        elif forked is not None:
            known = replace(
                forked,
                run=run,
                name=self._session or run[:12],
                model=self._model or forked.model,
                max_tokens=self._max_tokens or forked.max_tokens,
                mode=mode,
                budget=self._budget or "",
                forked_from=forked.run,
            )
            await self._sessions.copy_turns(forked, known, await self._undo.undone(), outputs)
        else:
            told = await read_instructions(self.folder, self._skills.told())
            known = SageRecord(
                run=run,
                name=self._session or run[:12],
                folder=str(self.folder),
                model=self._model or "smart",
                mode=mode,
                budget=self._budget or "",
                system=system_prompt(self.folder, told),
                told=told,
                programs=self._programs,
                nodes=await asyncio.to_thread(check_nodes, self.folder, self._nodes),
                max_tokens=self._max_tokens or MOST_TOKENS,
            )
        self.record = known
        # Of a session that was killed while it ran a command: they are no part of the project.
        await asyncio.to_thread(remove_left_stubs, self.folder)
        self._knowledge = Knowledge(self.folder, known, self._skills)
        self._workspace = Workspace(self.folder, outputs, self._undo.changing, self._skills)
        self._workspace.tell_output = self._tell_output
        self.jobs = Jobs(self._workspace, self.runtime.clock)
        plugins = PluginHost(self.runtime.sandboxes, self.folder)
        self._turn_tools = TurnTools(self, self._workspace, plugins, self._with_news)
        await self._turn_tools.open(settings, self._on_question, self._more_tools)
        self._extensions = Extensions(self.folder, settings, plugins)
        await self._load_turns()
        await self._extensions.refresh(self._turn_tools.names)
        self.tools = self._turn_tools.of(self._extensions.current)
        self.runtime.on(Question, self._on_asked)
        self.runtime.on(CallRetried, lambda news: self._told and self._told.push(retry_event(news)))
        await self._keep()

    async def _load_turns(self) -> None:
        known = self.record
        turns = await self._sessions.turns(known)
        if self.resumed and turns:
            # An undo that was killed may have restored the files and not yet marked the turns.
            await self._sessions.rewind(known, turns, await self._undo.undone())
        standing = {number: turn for number, turn in turns.items() if not turn.undone_ms}
        for number, turn in standing.items():
            if self._last is not None and not self._last.messages:
                self._remember(self._last)
            self._last, self._last_number = turn, number
            self._knowledge.learn(turn)
            if turn.messages:
                self._remember(turn)
        kept = self._last.extensions if self._last else ""
        self._extensions.current = await self._sessions.extensions(kept)

    @property
    def was_cut_off(self) -> bool:
        """Whether the last turn was cut off, and did not come to an end of its own."""
        return self._last is not None and not self._last.messages and not self._last.failed

    @property
    def current(self) -> TurnRecord:
        """The turn that goes on, or was the last."""
        assert self._last is not None
        return self._last

    async def keep_current(self) -> None:
        """Write the turn that goes on."""
        await self._sessions.keep_turn(self.record, self._last_number, self.current)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what a person should know of its context, such as skills that were left out."""
        return (*self._ignored, *self._skills.notes, *self._extensions.notes)

    def commands(self) -> tuple[CommandInfo, ...]:
        """Return the commands that a prompt may begin with now: `/name words`."""
        return self._extensions.commands()

    async def opened(self) -> SageSession:
        """Return the event that a session begins with."""
        with self.allowance():
            spent, left = await self.runtime.spent(), await self.runtime.remaining()
            over = await self.runtime.budgets.overspent()
        known = self.record
        at_most = None if left is None else to_usd(Money(spent + left - over))
        return SageSession(
            known.name, known.run, known.folder, known.model, known.mode, at_most, self.resumed
        )

    async def turn(
        self, prompt: str, images: Sequence[str | Path | Media] = (), *, compacts: bool = False
    ) -> AsyncGenerator[SageEvent]:
        """Carry out a turn, and yield what happens; the last event is a `SageEnd`. `images` are
        seen with the prompt, those of files, too. A turn before that failed is told to the agent as
        such; one that was cut off is for `go_on`. If it `compacts`, the conversation before it is
        summed up first, by a call of the model."""
        media = tuple(await asyncio.to_thread(read_images, images))
        if self._last is not None and not self._last.messages:
            self._remember(self._last)
        number, extensions = self.record.turns + 1, self._extensions
        self._workspace.notes += await extensions.refresh(self._turn_tools.names)
        said = extensions.said(prompt)
        self.tools = self._turn_tools.of(extensions.current)
        mode, now = self.record.mode, self.runtime.clock.now()
        said = "" if said == prompt else said
        turn = await self._knowledge.new_turn(prompt, media, mode, now, said)
        turn.extensions = await self._sessions.keep_extensions(extensions.current)
        turn.max_tokens, turn.compacts = self.record.max_tokens, compacts
        # The prompt is kept before it is asked: whoever goes on after a kill knows it.
        await self._sessions.keep_turn(self.record, number, turn)
        self.record.turns, self._last, self._last_number = number, turn, number
        await self._keep()
        async with aclosing(self._heard(number, turn)) as events:
            async for event in events:
                yield event

    async def go_on(self) -> AsyncGenerator[SageEvent]:
        """Go on with the last turn, cut off or failed. What was answered is not bought again."""
        if self._last is None or self._last.messages:
            raise UserError("the last turn of this session is done; to go on, add: -p '…'")
        await self._knowledge.look_again(self._last)
        kept = await self._sessions.extensions(self._last.extensions)
        self.tools = self._turn_tools.of(kept)
        async with aclosing(self._heard(self._last_number, self._last)) as events:
            async for event in events:
                yield event
                # A runtime tells of new questions only, and who was asked before a kill may be
                # gone. Within the turn: whoever hears that one begins drops the questions before.
                for question in self.runtime.interrupts() if isinstance(event, SageTurn) else ():
                    self._on_asked(question)

    async def _heard(self, number: int, turn: TurnRecord) -> AsyncGenerator[SageEvent]:
        now = self.runtime.clock.now
        self._silence = Silence(self.record.model, self.silent_ms, now())
        async with aclosing(self._events(number, turn)) as events:
            async for event in events:
                self._silence.heard(event, now())
                yield event

    async def _with_news(self, said: str) -> str:
        """Return a result with what changed while the turn was cut off."""
        news = self._knowledge.news_for(self.current)
        if not news:
            return said
        await self.keep_current()
        return f"{said}\n\n[{news}]"

    async def _events(self, number: int, turn: TurnRecord) -> AsyncGenerator[SageEvent]:
        yield SageTurn(number, turn.prompt)
        agent = coding_agent(
            f"sage {number}",
            self.record.model,
            self.record.system,
            tuple(self.tools.values()),
            turn.max_tokens,
            retry=self.retry,
            breaker=self.breaker,
            silent_ms=self.silent_ms,
            pinned=self._knowledge.pinned(),
            compacts=turn.compacts,
        )
        cost, said = await self.cost(), ""
        spent = self._spent
        yield cost
        with self.allowance():
            ask = self.runtime.ask(agent, turn.text, history=tuple(self.history), files=turn.media)
        key, is_recorded = turn_key(self.record.run, number), self.record.mode is not SageMode.PLAN
        try:
            async with (
                self._undo.turn(turn.prompt, key, is_recorded=is_recorded),
                self.jobs,
                aclosing(self._told_with(ask)) as events,
            ):
                async for event in events:
                    if isinstance(event, TextChunk):
                        # At once: what a call cost is known when it has ended.
                        yield SageText(event.text)
                        continue
                    if (now := await self.cost()) != cost:
                        if isinstance(event, SageRetry):  # it stays charged, and its bill unknown
                            self._unbilled = Money(self._unbilled + self._spent - spent)
                        spent = self._spent
                        yield (cost := now)
                    if isinstance(event, TurnEnded):
                        said = event.reply.text
                        self._finish(turn, event.reply.messages.messages)
                    else:
                        yield await self._as_told(event, number, turn)
        except VegaError as error:
            turn.failed, self._failure = reason_of(error), error
            if error.messages:
                turn.partial = self._new_in(turn, error.messages)
            turn.end = await self._end(reason_of(error), error=error)
            self._knowledge.settle_news(turn)
            await self._sessions.keep_turn(self.record, number, turn)
            yield turn.end
            return
        self._failure = None
        self._remember(turn)
        turn.end = await self._end(EndReason.DONE, text=said)
        self._knowledge.settle_news(turn)
        await self._sessions.keep_turn(self.record, number, turn)
        yield turn.end

    async def _as_told(
        self,
        event: ToolCalled | ToolReturned | ProgramQuote | CompactedHistory | SageEvent,
        number: int,
        turn: TurnRecord,
    ) -> SageEvent:
        """Return an event of the runtime as one of the session."""
        match event:
            case ToolCalled(name, arguments, index, step):
                call = call_id(number, step, index)
                turn.steps = tuple(sorted({*turn.steps, step}))
                await self.note_call(call, name, arguments)
                return SageToolBegan(call, name, arguments)
            case ToolReturned(name, content, is_error, index, step):
                call = call_id(number, step, index)
                await self.note_result(call, content, is_error=is_error)
                if name == PINNED_TOOL and not is_error:
                    turn.todo = content
                return SageToolEnded(call, name, content, is_error)
            case CompactedHistory() | ProgramQuote():
                return progress_event(event, number, self._knowledge.pinned())
            case _:
                return event

    async def note_call(self, call: str, name: str, arguments: object) -> None:
        """Note what a call of the agent or of a sub-agent does that nobody can take back."""
        tool = self.tools.get(name)
        if tool is None or not isinstance(arguments, dict):
            return
        if what := lasting_effect(tool, cast("dict[str, Any]", arguments)):
            self._lasting.add(call)
            await self._undo.lasts(call, what)

    async def note_result(self, call: str, content: str, *, is_error: bool) -> None:
        """Note how a call ended: what was refused was not done, and need not be taken back."""
        if call in self._lasting and is_error and content.startswith(CapabilityDenied.__name__):
            await self._undo.lasts(call, "")

    def stop_command(self, call: str) -> bool:
        """End the command of one call, and return whether it runs. The agent is told, and the turn
        goes on."""
        program, turn = self.runtime.program, self._last_number
        for effect, task in [*self._workspace.running.items()]:
            event = output_event(program, turn, effect, "", 0)
            if event is not None and event.id == call:
                return task.cancel()
        return False

    async def tell(self, event: SageEvent) -> None:
        """Add an event of a sub-agent to those of the turn."""
        if self._told is not None:
            await self._told.put(event)

    def _tell_output(self, effect: str, text: str, lines: int) -> None:
        event = output_event(self.runtime.program, self._last_number, effect, text, lines)
        if event is not None and self._told is not None:
            self._told.push(event)

    def _told_with(self, ask: Ask[str]) -> AsyncGenerator[StreamEvent[str] | SageEvent]:
        """Return what is told of an ask, and of the sub-agents that it starts, as it comes."""
        told = self._told = StreamBuffer[StreamEvent[str] | SageEvent](_MOST_TOLD)
        return told_with(ask, told, self._silence, self.runtime.clock)

    def _finish(self, turn: TurnRecord, conversation: tuple[Message, ...]) -> None:
        turn.failed, turn.partial = "", ()
        turn.messages = self._new_in(turn, conversation)

    def _new_in(self, turn: TurnRecord, said: tuple[Message, ...]) -> tuple[Message, ...]:
        """Return what a turn has added to the conversation, or all of it if what was before is
        summed up in it now."""
        before = len(self.history)
        turn.is_whole = said[:before] != tuple(self.history)
        return said if turn.is_whole else said[before:]

    def _remember(self, turn: TurnRecord) -> None:
        self._knowledge.finish(turn)
        self.history = [*(() if turn.is_whole else self.history), *said_in(turn)]

    async def _end(
        self,
        reason: EndReason,
        *,
        text: str = "",
        error: VegaError | None = None,
        message: str = "",
    ) -> SageEnd:
        before = self._spent
        cost = await self.cost()
        if reason is EndReason.INTERRUPTED or (error is not None and error.is_outage):
            # Of calls that were cut off.
            self._unbilled = Money(self._unbilled + max(0, self._spent - before))
        name, message = ("", message) if error is None else (error_name(error), message_of(error))
        undo = self._undo
        if reason is not EndReason.INTERRUPTED:
            await self._turn_tools.turn_ended(reason)
        with self.allowance():
            over = to_usd(await self.runtime.budgets.overspent()) or 0.0
        notes, self._workspace.notes[:] = (*self._workspace.notes,), []
        told = (undo.changed, undo.problem, undo.lasting, over, notes, undo.unrecorded)
        end = SageEnd(reason, text, name, message, cost.spent_usd, self._refused, *told)
        unbilled, self._unbilled = to_usd(self._unbilled) or 0.0, Money(0)
        return replace(end, paths=undo.paths, unbilled_usd=unbilled)

    async def interrupted(self, why: str) -> SageEnd:
        """Return the event that a turn ends with which was cancelled; `why` is told with it. The
        session goes on with that turn."""
        return await self._end(EndReason.INTERRUPTED, message=why)

    async def cost(self) -> SageCost:
        """Return what the session has spent, and what is left to it."""
        with self.allowance():
            spent, left = await self.runtime.spent(), await self.runtime.remaining()
        self._spent = Money(spent)
        return SageCost(to_usd(spent), to_usd(left))

    def allowance(self) -> AbstractContextManager[Any]:
        """Return the budget of the session, as a block."""
        budget = self.record.budget
        # With its run: sessions of a user may share a budget, such as one for a day.
        name = f"session {self.record.run}"
        return self.runtime.budget(budget, name) if budget else nullcontext()

    def _on_asked(self, question: Question) -> None:
        if self._on_question is not None:
            # In a context of its own: a program does not answer what a program asks, and here the
            # process that asks is the current one.
            Context().run(self._on_question, self.runtime, question)
            return
        self._refused += 1
        if self._on_refused is not None:
            self._on_refused(question)
        declined = self.runtime.answer(question.id, answer=False)
        task = asyncio.get_running_loop().create_task(declined, context=Context())
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _keep(self) -> None:
        self.record.used_ms = self.runtime.clock.now()
        await self._sessions.keep(self.record)
