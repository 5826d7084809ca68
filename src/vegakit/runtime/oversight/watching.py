"""Everything between a decision to act and the act: rules, people, and the record of both.

tool call ─▶ rules ── deny ──▶ audit ─▶ an error result that the model sees
               │ ask ─▶ question ─▶ answer ─┐
               └─ allow ────────────────────┴─▶ audit ─▶ the tool ─▶ audit
"""

from collections.abc import Callable

from vegakit.effects import AskHuman, Effect
from vegakit.errors import LimitReached
from vegakit.events import Answered, EffectOutcome, Refused
from vegakit.ids import Digest, EffectKey, InterruptId, Pid
from vegakit.policy import (
    INTERRUPT_KINDS,
    Ask,
    AskFirst,
    Denied,
    InterruptKind,
    InterruptRefusal,
    Replied,
    Secrets,
    spelled,
)
from vegakit.ports import Audit, Clock, Store
from vegakit.runtime.cancelling import to_its_end
from vegakit.runtime.oversight.auditing import Auditing
from vegakit.runtime.oversight.calls import ToolUse
from vegakit.runtime.oversight.permitting import Permitting
from vegakit.runtime.oversight.questions import Questions
from vegakit.runtime.oversight.spelling import Question, refusal_in_words
from vegakit.runtime.oversight.users import user_name

__all__ = ["Oversight"]

_LONGEST_QUESTION = 20_000


class Oversight:
    """Of one runtime. Without `permitting` tools run unasked, each within its own grant. `secrets`
    are the values that people are shown by name, asked for with each question."""

    def __init__(
        self,
        clock: Clock,
        store: Store,
        permitting: Permitting | None,
        audit: Audit | None,
        secrets: Callable[[], Secrets] = dict,
    ) -> None:
        self._clock, self._store = clock, store
        self._permitting = permitting
        self._auditing = None if audit is None else Auditing(audit, clock, user_name())
        self._secrets = secrets
        self.questions = Questions(store, clock, "", self._on_asked, secrets=secrets)
        self.listeners: list[Callable[[Question], object]] = []

    @property
    def permits(self) -> bool:
        """Whether a call that nobody vouched for is asked about."""
        return self._permitting is not None

    def begin(self, key: str) -> None:
        """A run that asked nothing yet, unless it was resumed."""
        if key != self.questions.key:
            self.questions = Questions(
                self._store, self._clock, key, self._on_asked, secrets=self._secrets
            )

    async def resume(self, key: str) -> set[EffectKey]:
        """Places where it was waiting for leave, so that nothing was begun there."""
        self.begin(key)
        await self.questions.load()
        return self.questions.unbegun()

    async def refusal(self, use: ToolUse) -> str:
        """Why the call may not be made; empty if it may, once, now."""
        if self._permitting is None:
            await self._note(use, "allow")
            return ""
        verdict, decision = self._permitting.decide(use), "allow"
        if isinstance(verdict, AskFirst):
            await self._note(use, f"ask: {verdict.reason}")
            verdict, by = await self._permitting.ask(use, self.questions)
            decision = f"allow: approved by {by}"
        reason = verdict.reason if isinstance(verdict, Denied) else ""
        await self._note(use, f"deny: {reason}" if reason else decision)
        return reason

    async def on_called(self, use: ToolUse, status: str, result: str) -> None:
        if self._auditing is not None:
            await to_its_end(self._auditing.on_done(use, status, result))

    async def ask_person(self, effect: Effect, process: Pid) -> EffectOutcome:
        request = effect.request
        assert isinstance(request, AskHuman)
        kind = InterruptKind(request.kind)
        permits = INTERRUPT_KINDS[kind].use_within_ms is not None
        action = request.action or (effect.digest if permits else None)
        text = request.question
        if len(text) > _LONGEST_QUESTION:  # to spell more of it would hold the event loop
            return Refused(LimitReached.__name__, refusal_in_words(InterruptRefusal.TOO_LONG))
        text = spelled(text, self._secrets())
        name = InterruptId(f"{effect.key}:{effect.digest}")
        settled = await self.questions.ask(
            Ask(name, kind, process, text, action, request.expires_ms)
        )
        if isinstance(settled, str):
            return Refused(LimitReached.__name__, settled)
        if settled.answer is None:
            return Answered(None)
        if isinstance(settled.answer, Replied):
            return Answered(settled.answer.value)
        return Answered(await self.questions.use(settled))

    async def answer(
        self,
        question: str,
        given: bool | str,
        by: str,
        action: Digest | None = None,
    ) -> None:
        note = None if self._auditing is None else self._auditing.on_answered
        await self.questions.answer(question, given, by or user_name(), action, note)

    async def aclose(self) -> None:
        await self.questions.aclose()
        await self._store.aclose()
        if self._auditing is not None:
            await self._auditing.aclose()

    async def _note(self, use: ToolUse, decision: str) -> None:
        if self._auditing is not None:
            await self._auditing.on_decided(use, decision)

    def _on_asked(self, question: Question) -> None:
        for listener in self.listeners:
            listener(question)
