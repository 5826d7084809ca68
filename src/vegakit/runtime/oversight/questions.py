"""Questions to people: stored before they are shown, answered once, over when their time is.

    ask, permit ─▶ opened ─▶ stored ─▶ told ─ … ─ answer ─▶ stored ─▶ who waits goes on
                                              └── time over, or withdrawn ─▶ stored ─▶ the same

Whatever follows from a change is done when the change is on disk: an approval that was used and
followed by a crash is used. Who waits and is cancelled withdraws the question, unless the whole
runtime ends unfinished: then it stays open, and the run that is resumed finds it again.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

from vegakit.errors import StoreError, UserError
from vegakit.ids import Digest, EffectKey, InterruptId
from vegakit.policy import (
    Allowed,
    Approved,
    Ask,
    Asked,
    AskFirst,
    Attempt,
    Denied,
    Interrupt,
    InterruptRule,
    Interrupts,
    InterruptStatus,
    Permissions,
    Secrets,
    follow,
)
from vegakit.ports import Clock, Store
from vegakit.records import from_json, to_json
from vegakit.runtime.cancelling import first_of, to_its_end
from vegakit.runtime.oversight.spelling import (
    Question,
    answer_from,
    question_of,
    refusal_in_words,
    shown_id,
)

__all__ = ["Proposed", "Questions"]

_KIND = "interrupts"
_REMEMBER_MS = 86_400_000
_SHORTEST = 4
"""Of what a person types of an id."""


class Proposed(NamedTuple):
    """What is about to be done, and whether a person must be asked."""

    permissions: Permissions
    attempt: Attempt
    verdict: Allowed | AskFirst | Denied


class Questions:
    """Of one run, under its `key`. `on_asked` is told each that is new."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        key: str,
        on_asked: Callable[[Question], object],
        rule: InterruptRule | None = None,
        *,
        secrets: Callable[[], Secrets] = dict,
    ) -> None:
        self._store, self._clock, self.key = store, clock, key
        self._on_asked, self._secrets = on_asked, secrets
        self._interrupts = Interrupts(rule or InterruptRule())
        self._version = 0
        self._writing = asyncio.Lock()
        self._settled: dict[InterruptId, asyncio.Event] = {}
        self._staying_open = False

    async def load(self) -> None:
        found = await self._store.get(_KIND, self.key)
        if found is not None:
            rule = self._interrupts.rule
            self._interrupts, self._version = from_json(Interrupts, found[0]), found[1]
            self._interrupts.rule = rule

    def stay_open(self) -> None:
        """From now on nothing is withdrawn: the run is to be taken up again."""
        self._staying_open = True

    async def aclose(self) -> None:
        """Of a run that came to its end nothing is kept: what was answered is in its journal."""
        if not self._staying_open and self._version:
            await self._store.delete(_KIND, self.key, expected=self._version)

    def open(self) -> list[Question]:
        """The oldest first; not those that nobody may answer any more."""
        now = self._clock.now()
        return [
            self._shown(one)
            for one in self._interrupts.by_id.values()
            if one.status is InterruptStatus.PENDING
            and (one.expires_ms is None or now < one.expires_ms)
        ]

    def unbegun(self) -> set[EffectKey]:
        """Places whose action was asked about and not begun, since no leave was used."""
        asked = self._interrupts.by_id.values()
        used = {_place_of(one) for one in asked if one.used_ms is not None}
        return {_place_of(one) for one in asked} - used

    async def ask(self, ask: Ask) -> Interrupt | str:
        """How it was settled, or why it cannot be asked. One that stands already is not asked
        again: it keeps its time and its answer."""
        standing = self._interrupts.by_id.get(ask.id)
        asked = standing or self._interrupts.open(ask, self._clock.now())
        if not isinstance(asked, Interrupt):
            return refusal_in_words(asked)
        async with self._held(ask.id):
            if standing is None:
                await self._keep()
                self._on_asked(self._shown(asked))
            return await self._wait(ask.id)

    async def use(self, interrupt: Interrupt) -> bool:
        """Whether it was approved, in time, for this; also when asked again after a crash."""
        if interrupt.used_ms is None and interrupt.ask.action is not None:
            action, now = interrupt.ask.action, self._clock.now()
            used = self._interrupts.use(interrupt.ask.id, action, now)
            await self._keep()
            return isinstance(used, Interrupt)
        return isinstance(interrupt.answer, Approved)

    async def permit(
        self, propose: Callable[[], Awaitable[Proposed]]
    ) -> tuple[Allowed | Denied, str]:
        """The verdict and who gave it. It is proposed anew after the wait: what changed while a
        person thought is another action."""
        by = ""
        while True:
            verdict, is_new = self._follow(await propose())
            if not isinstance(verdict, Asked):
                await self._keep()
                return verdict, by
            async with self._held(verdict.id):
                await self._keep()
                if is_new:
                    self._on_asked(self._shown(self._interrupts.by_id[verdict.id]))
                by = (await self._wait(verdict.id)).answered_by or ""

    def _follow(self, proposed: Proposed) -> tuple[Allowed | Asked | Denied, bool]:
        known = len(self._interrupts.by_id)
        verdict = follow(
            proposed.verdict,
            proposed.permissions,
            proposed.attempt,
            self._interrupts,
            self._clock.now(),
            self._secrets(),
        )
        return verdict, len(self._interrupts.by_id) > known

    async def answer(
        self,
        question: str,
        given: bool | str,
        by: str,
        action: Digest | None = None,
        note: Callable[[Interrupt], Awaitable[None]] | None = None,
    ) -> None:
        """`question` is an id as it is shown, or its beginning; `action` what was shown with it.
        `note` keeps a record before anybody acts on the answer. Who approves names the whole id:
        it stands for what they saw, and what begins like it may be something else by now."""
        interrupt = self._find(question)
        answer = answer_from(given, permits=self._permits(interrupt))
        if isinstance(answer, Approved) and question != (whole := shown_id(interrupt.ask.id)):
            raise UserError(
                f"yes is given to a whole id, since another question may begin like {question}; "
                f"look at {whole} with: vega interrupts"
            )
        shown = interrupt.ask.action if action is None else action
        now = self._clock.now()
        answered = self._interrupts.answer(interrupt.ask.id, answer, by, shown, now)
        if not isinstance(answered, Interrupt):
            raise UserError(f"question {question}: {refusal_in_words(answered)}")
        await self._keep()
        if note is not None:
            await note(answered)
        self._tell(interrupt.ask.id)

    async def _wait(self, interrupt_id: InterruptId) -> Interrupt:
        while (standing := self._interrupts.by_id[interrupt_id]).status is InterruptStatus.PENDING:
            settled = self._settled.setdefault(interrupt_id, asyncio.Event())
            await self._either(settled, standing.expires_ms)
        return standing

    @asynccontextmanager
    async def _held(self, interrupt_id: InterruptId) -> AsyncGenerator[None]:
        """From the moment it is opened: who is cancelled while it is stored asks no more, too."""
        try:
            yield
        except asyncio.CancelledError:
            await to_its_end(self._withdraw(interrupt_id))
            raise

    async def _either(self, settled: asyncio.Event, expires_ms: int | None) -> None:
        if expires_ms is None:
            await settled.wait()
            return
        await first_of(_until(settled), self._clock.wait_until(expires_ms))
        if expired := self._interrupts.on_timer(self._clock.now()):
            await self._keep()
            for one in expired:
                self._tell(one.id)

    async def _withdraw(self, interrupt_id: InterruptId) -> None:
        if not self._staying_open:
            self._interrupts.cancel(interrupt_id, self._clock.now())
            self._settled.pop(interrupt_id, None)
            await self._keep()

    def _tell(self, interrupt_id: InterruptId) -> None:
        settled = self._settled.pop(interrupt_id, None)
        if settled is not None:
            settled.set()

    async def _keep(self) -> None:
        """Who is cancelled meanwhile is so when it is written: or we would not know its version."""
        await to_its_end(self._write())

    async def _write(self) -> None:
        async with self._writing:
            self._interrupts.reap(self._clock.now() - _REMEMBER_MS)
            text = to_json(self._interrupts)
            if not await self._store.put(_KIND, self.key, text, expected=self._version):
                raise StoreError(
                    "another runtime writes the questions of this run, so none can be trusted; "
                    "end the other one"
                )
            self._version += 1

    def _find(self, question: str) -> Interrupt:
        by_id = self._interrupts.by_id
        found = [one for one in by_id.values() if shown_id(one.ask.id) == question]
        if not found and len(question) >= _SHORTEST:
            found = [one for one in by_id.values() if shown_id(one.ask.id).startswith(question)]
        if len(found) == 1:
            return found[0]
        listed = ", ".join(shown_id(one.ask.id) for one in found)
        raise UserError(
            f"{question!r} begins {len(found)} ids: {listed}; type more of it"
            if found
            else f"there is no question {question!r}; to see what is asked, type: vega interrupts"
        )

    def _permits(self, interrupt: Interrupt) -> bool:
        return self._interrupts.rule.of(interrupt.ask.kind).use_within_ms is not None

    def _shown(self, interrupt: Interrupt) -> Question:
        return question_of(interrupt, permits=self._permits(interrupt))


async def _until(settled: asyncio.Event) -> None:
    await settled.wait()


def _place_of(interrupt: Interrupt) -> EffectKey:
    return EffectKey(interrupt.ask.id.partition(":")[0])
