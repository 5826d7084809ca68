"""A session that a door keeps for its clients: its turns one after the other, what is asked
meanwhile, and how a turn is stopped.

    client ── prompt ──▶ LiveSession ── opens, goes on, closes ──▶ SageAgent
           ◀─ events ──┘     ▲ └─ SageQuestion ──▶ client
                             └── answer, cancel ◀──┘

A session is open only while a turn of it runs, as with `vega code --resume`: in between any other
door may go on with it, undo has its files, and a process that is killed leaves nothing to clean up.
So what a door does after a kill is what it does for every prompt.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from contextvars import Context
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from vegakit.concurrency import run_to_completion
from vegakit.config import Settings
from vegakit.control import Question
from vegakit.conversation import Media
from vegakit.errors import UserError
from vegakit.host import StreamBuffer
from vegakit.sage.events import (
    EndReason,
    SageEnd,
    SageEvent,
    SageQuestion,
    SageSession,
    SageToolBegan,
    SageToolEnded,
)
from vegakit.sage.session import SageAgent
from vegakit.sdk import Runtime

_MOST_WAITING = 256
"""Events that wait for who listens; beyond them the turn waits, too."""
_HELD_S = 0.5
"""The longest that a question waits for news of its call."""
_CANCELLED = "cancelled"


async def prompted(
    sage: SageAgent, prompt: str | None, images: Sequence[str | Path | Media] = ()
) -> AsyncGenerator[SageEvent]:
    """Yield the events of what was cut off and of what is asked now. A turn that failed is gone on
    with only if nothing else is asked."""
    if sage.was_cut_off or prompt is None:
        async with aclosing(sage.go_on()) as events:
            async for event in events:
                if not isinstance(event, SageEnd) or prompt is None or event.error:
                    yield event
                if isinstance(event, SageEnd) and event.error:
                    return
    if prompt is not None:
        async with aclosing(sage.turn(prompt, images)) as events:
            async for event in events:
                yield event


async def begin_session(folder: str | Path, **options: Any) -> SageSession:  # noqa: ANN401
    """Begin a session without a prompt; `options` are those of `SageAgent`."""
    async with SageAgent(folder, **options) as sage:
        return await sage.opened()


async def mark_stopped(sage: SageAgent, end: SageEnd, said: str = "") -> None:
    """Note that somebody stopped the turn that goes on: whoever goes on with the session is not to
    finish it first. `said` is what had come of the answer that was cut off, for people to read
    again; a call that did not end is not in the journal."""
    turn = sage.current
    turn.failed, turn.end, turn.cut_text = EndReason.INTERRUPTED, end, said
    await sage.keep_current()


class LiveSession:
    """A session of a folder by its run. With `asks` somebody answers what is asked, by `answer`;
    else it is refused, and `refused` has it. `changes` are options of `SageAgent` for the next
    turn, such as another mode."""

    def __init__(
        self, folder: str | Path, run: str, *, asks: bool = True, settings: Settings | None = None
    ) -> None:
        self.folder, self.run = Path(folder), run
        self.changes: dict[str, Any] = {}
        self.refused: list[Question] = []
        self._asks, self._settings = asks, settings
        self._turning: asyncio.Task[None] | None = None
        self._is_cancelled = self._is_ending = False
        self._asked: dict[str, tuple[Runtime, Question]] = {}
        self._calls: dict[str, SageToolBegan] = {}
        self._held: dict[str, Question] = {}
        self._told: StreamBuffer[SageEvent] | None = None
        self._sage: SageAgent | None = None

    @property
    def is_working(self) -> bool:
        """Whether a turn runs."""
        return self._turning is not None

    @property
    def questions(self) -> list[SageQuestion]:
        """The questions that are open, the oldest first."""
        asked = [(runtime.interrupts(), one) for runtime, one in self._asked.values()]
        return [self._event_of(one) for still_open, one in asked if one in still_open]

    async def turn(
        self, prompt: str | None, images: Sequence[str | Path | Media] = ()
    ) -> AsyncGenerator[SageEvent]:
        """Carry out a turn and yield what happens; the last event is a `SageEnd`, also if it was
        cancelled. Without a prompt the last turn goes on. Who stops listening cuts the turn off:
        the session goes on with it."""
        if self._turning is not None:
            raise UserError("a turn of this session is at work; wait for its end, or cancel it")
        told = self._told = StreamBuffer[SageEvent](_MOST_WAITING)
        self._is_cancelled = self._is_ending = False
        self.refused.clear()
        # In a task and a context of its own: who asks may itself be a program.
        work = self._work(prompt, images, told)
        self._turning = turning = asyncio.create_task(work, context=Context())
        try:
            async for event in told:
                yield event
            with suppress(asyncio.CancelledError):
                await asyncio.shield(turning)
        finally:
            await self._ended(turning)

    async def _ended(self, turning: "asyncio.Task[None]") -> None:
        if self._told is not None:
            self._told.close()
        if not self._is_ending:  # once: what it does to end is not to be cut off
            if self._sage is not None:
                # What is asked is asked again by whoever goes on, as after a kill.
                self._sage.runtime.approvals.questions.keep_open()
            turning.cancel()
        await run_to_completion(asyncio.wait({turning}))
        self._turning, self._told, self._sage = None, None, None
        self._asked.clear()
        self._calls.clear()
        self._held.clear()

    async def _work(
        self,
        prompt: str | None,
        images: Sequence[str | Path | Media],
        told: StreamBuffer[SageEvent],
    ) -> None:
        changes, self.changes = self.changes, {}
        sage = SageAgent(
            self.folder,
            resume=self.run,
            on_question=self._on_question if self._asks else None,
            on_refused=self.refused.append,
            settings=self._settings,
            **changes,
        )
        try:
            async with sage:
                self._sage = sage
                opened = await sage.opened()
                # To a client it goes on when something was said in it before.
                told.push(replace(opened, resumed=sage.record.turns > 0))
                await self._go(sage, prompt, images, told)
        finally:
            told.close()

    async def _go(
        self,
        sage: SageAgent,
        prompt: str | None,
        images: Sequence[str | Path | Media],
        told: StreamBuffer[SageEvent],
    ) -> None:
        turns = sage.record.turns
        try:
            async with aclosing(prompted(sage, prompt, images)) as events:
                async for event in events:
                    self._is_ending = isinstance(event, SageEnd)
                    await told.put(event)
                    self._note(event)
        except asyncio.CancelledError:
            end = await sage.interrupted(_CANCELLED)
            if self._is_cancelled and (sage.record.turns > turns or sage.was_cut_off):
                await mark_stopped(sage, end)
            told.push(end)
            raise

    def cancel(self) -> bool:
        """Stop the turn that runs, and return whether there is one. The session remembers that it
        was stopped; the next prompt begins another turn."""
        if self._turning is None or self._is_ending:
            return False
        self._is_cancelled = self._is_ending = True
        self._turning.cancel()
        return True

    async def answer(self, question: str, answer: bool | str, *, by: str = "") -> None:
        """Answer a question of the turn that runs, by its whole id; it is taken once."""
        known = self._asked.get(question)
        if known is None:
            raise UserError(
                f"there is no open question {question[:80]!r} in this session: it was answered, "
                "its time is over, or it never was"
            )
        await known[0].answer(question, answer, by=by)
        self._asked.pop(question, None)

    # Questions, each after the call that it is about: what is asked may be heard of first.

    def _on_question(self, runtime: Runtime, question: Question) -> None:
        self._asked[question.id] = runtime, question
        self._held[question.id] = question
        if self._event_of(question).call or not _call_in(question)[0]:
            self._tell(question.id)
        else:
            asyncio.get_running_loop().call_later(_HELD_S, self._tell, question.id)

    def _tell(self, key: str) -> None:
        question = self._held.pop(key, None)
        if question is not None and self._told is not None:
            self._told.push(self._event_of(question))

    def _note(self, event: SageEvent) -> None:
        if isinstance(event, SageToolEnded):
            self._calls.pop(event.id, None)
        if isinstance(event, SageToolBegan):
            self._calls[event.id] = event
            for key, question in [*self._held.items()]:
                if self._event_of(question).call == event.id:
                    self._tell(key)

    def _event_of(self, question: Question) -> SageQuestion:
        tool, given = _call_in(question)
        calls = self._calls.values()
        found = (one.id for one in calls if one.name == tool and one.arguments == given)
        call, expires_ms = next(found, ""), question.expires_ms
        return SageQuestion(question.id, question.text, question.permits, expires_ms, call, tool)


def _call_in(question: Question) -> tuple[str, Any]:
    """Return the tool and the arguments that a question is about, as its text spells them: who
    asks, then a colon, the tool and its arguments as JSON."""
    _, _, call = question.text.partition(": ")
    tool, _, rest = call.partition(" ")
    if not question.permits or not rest.startswith("{"):
        return "", None
    try:
        return tool, json.JSONDecoder().raw_decode(rest)[0]
    except ValueError:
        return "", None
