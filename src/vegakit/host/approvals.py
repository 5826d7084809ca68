"""Approvals: who may call which tool, what people are asked, and the audit of it (host)."""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from os import PathLike
from typing import Any, NamedTuple

from msgspec import structs

from vegakit.concurrency import run_to_completion, wait_first
from vegakit.control import Question, answer_from, question_of, refusal_text, short_id
from vegakit.effects import AskHuman, Effect
from vegakit.errors import InvalidRuleError, LimitReached, StoreError, UserError, did_you_mean
from vegakit.events import Answered, EffectOutcome, Refused
from vegakit.ids import Digest, EffectKey, InterruptId, Pid, TraceId
from vegakit.policy import (
    INTERRUPT_KINDS,
    Allowed,
    ApprovalPending,
    Approved,
    Attempt,
    Denied,
    Interrupt,
    InterruptKind,
    InterruptRefusal,
    InterruptRequest,
    InterruptRule,
    Interrupts,
    InterruptStatus,
    NeedsApproval,
    PermissionMode,
    PermissionRule,
    Permissions,
    Replied,
    Secrets,
    Use,
    apply_permission,
    escape_text,
    parse_permission,
    permit_call,
)
from vegakit.ports import Audit, AuditEntry, AuditLevel, Clock, Store, Tool
from vegakit.records import digest128, from_json, to_json
from vegakit.telemetry import Redactor
from vegakit.tools import ToolRights, audit_level, contents_of, rights_of

# Questions to people: stored before they are shown, answered once, closed when their time is over.
#
#     ask, permit ─▶ opened ─▶ stored ─▶ told ─ … ─ answer ─▶ stored ─▶ who waits goes on
#                                               └── time over, or withdrawn ─▶ stored ─▶ the same
#
# Whatever follows from a change is done when the change is on disk: an approval that was used and
# followed by a crash is used. Who waits and is cancelled withdraws the question, unless the whole
# runtime ends unfinished: then it stays open, and the run that is resumed finds it again.


_KIND = "interrupts"
_REMEMBER_MS = 86_400_000
_SHORTEST = 4
"""Of what a person types of an id."""


class ProposedCall(NamedTuple):
    """A call that is about to be made, and whether a person must be asked."""

    permissions: Permissions
    attempt: Attempt
    verdict: Allowed | NeedsApproval | Denied


class Questions:
    """The questions of one run, stored under its `key`. `on_asked` is called with each that is
    new."""

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
        """Load the questions that an earlier incarnation of the run has stored."""
        found = await self._store.get(_KIND, self.key)
        if found is not None:
            rule = self._interrupts.rule
            self._interrupts, self._version = from_json(Interrupts, found[0]), found[1]
            self._interrupts.rule = rule

    def keep_open(self) -> None:
        """Withdraw nothing from now on: the run is to be taken up again."""
        self._staying_open = True

    async def aclose(self) -> None:
        """Forget the questions of a run that came to its end: what was answered is in its
        journal."""
        if not self._staying_open and self._version:
            await self._store.delete(_KIND, self.key, expected=self._version)

    def open(self) -> list[Question]:
        """Return the questions that may still be answered, the oldest first."""
        now = self._clock.now()
        return [
            self._shown(one)
            for one in self._interrupts.by_id.values()
            if one.status is InterruptStatus.PENDING
            and (one.expires_ms is None or now < one.expires_ms)
        ]

    def not_started(self) -> set[EffectKey]:
        """Return the places whose action was asked about and not begun, since no approval was
        used."""
        asked = self._interrupts.by_id.values()
        used = {_place_of(one) for one in asked if one.used_ms is not None}
        return {_place_of(one) for one in asked} - used

    async def ask(self, ask: InterruptRequest) -> Interrupt | str:
        """Ask, and return how it was settled or why it cannot be asked. A question that stands
        already is not asked again: it keeps its time and its answer."""
        standing = self._interrupts.by_id.get(ask.id)
        asked = standing or self._interrupts.open(ask, self._clock.now())
        if not isinstance(asked, Interrupt):
            return refusal_text(asked)
        async with self._held(ask.id):
            if standing is None:
                await self._keep()
                self._on_asked(self._shown(asked))
            return await self._wait(ask.id)

    async def use(self, interrupt: Interrupt) -> bool:
        """Return whether an action was approved, in time, for this; also when asked again after a
        crash."""
        if interrupt.used_ms is None and interrupt.ask.action is not None:
            action, now = interrupt.ask.action, self._clock.now()
            used = self._interrupts.use(interrupt.ask.id, action, now)
            await self._keep()
            return isinstance(used, Interrupt)
        return isinstance(interrupt.answer, Approved)

    async def permit(
        self, propose: Callable[[], Awaitable[ProposedCall]]
    ) -> tuple[Allowed | Denied, str]:
        """Return the verdict and who gave it. The call is proposed anew after the wait: what
        changed while a person thought is another action."""
        by = ""
        while True:
            verdict, is_new = self._follow(await propose())
            if not isinstance(verdict, ApprovalPending):
                await self._keep()
                return verdict, by
            async with self._held(verdict.id):
                await self._keep()
                if is_new:
                    self._on_asked(self._shown(self._interrupts.by_id[verdict.id]))
                by = (await self._wait(verdict.id)).answered_by or ""

    def _follow(self, proposed: ProposedCall) -> tuple[Allowed | ApprovalPending | Denied, bool]:
        known = len(self._interrupts.by_id)
        verdict = apply_permission(
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
        """Take an answer. `question` is an id as it is shown, or its beginning; `action` what was
        shown with it. `note` keeps a record before anybody acts on the answer. Who approves names
        the whole id: it stands for what they saw, and what begins like it may be something else by
        now."""
        interrupt = self._find(question)
        answer = answer_from(given, permits=self._permits(interrupt))
        if isinstance(answer, Approved) and question != (whole := short_id(interrupt.ask.id)):
            raise UserError(
                f"yes is given to a whole id, since another question may begin like {question}; "
                f"look at {whole} with: vega interrupts"
            )
        shown = interrupt.ask.action if action is None else action
        now = self._clock.now()
        answered = self._interrupts.answer(interrupt.ask.id, answer, by, shown, now)
        if not isinstance(answered, Interrupt):
            raise UserError(f"question {question}: {refusal_text(answered)}")
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
        """Withdraw a question whose asker is cancelled, from the moment it is opened: also while it
        is stored."""
        try:
            yield
        except asyncio.CancelledError:
            await run_to_completion(self._withdraw(interrupt_id))
            raise

    async def _either(self, settled: asyncio.Event, expires_ms: int | None) -> None:
        if expires_ms is None:
            await settled.wait()
            return
        await wait_first(_until(settled), self._clock.wait_until(expires_ms))
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
        """Store the questions. Who is cancelled meanwhile is so when they are written: or we would
        not know their version."""
        await run_to_completion(self._write())

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
        found = [one for one in by_id.values() if short_id(one.ask.id) == question]
        if not found and len(question) >= _SHORTEST:
            found = [one for one in by_id.values() if short_id(one.ask.id).startswith(question)]
        if len(found) == 1:
            return found[0]
        listed = ", ".join(short_id(one.ask.id) for one in found)
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


# A tool call as those see it who permit and audit it.


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a tool, and its place in the program."""

    place: EffectKey
    process: Pid
    agent: str


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A call of a tool with its arguments, as those see it who permit and audit it."""

    tool: Tool
    arguments: Mapping[str, Any]
    caller: Caller
    trace_id: TraceId

    @property
    def name(self) -> str:
        """The name of the tool."""
        return self.tool.spec.name

    @property
    def level(self) -> AuditLevel:
        """The level at which the audit keeps the call."""
        return audit_level(self.tool)


# Who sits at this machine, as its system knows them; no variable can say otherwise.


def user_name() -> str:
    """Return the name of the user of this process."""
    try:
        import pwd  # not on every system

        return pwd.getpwuid(os.geteuid()).pw_name
    except (ImportError, KeyError, AttributeError):
        return f"user {os.geteuid()}" if hasattr(os, "geteuid") else "user"


# What the audit is told of tools and of people: what was decided before, what came of it after.


def as_audit(given: "Audit | str | PathLike[str] | None") -> Audit | None:
    """Return an audit. Keys are hidden in a file that is named here."""
    if isinstance(given, str | PathLike):
        from vegakit.store import SqliteAudit

        return SqliteAudit(given, Redactor(content=True).redact_json)
    return given


class AuditTrail:
    """The audit of one runtime: what was decided, done and answered."""

    def __init__(self, audit: Audit, clock: Clock, user: str) -> None:
        self._audit, self._clock, self._user = audit, clock, user

    async def on_decided(self, use: ToolUse, decision: str) -> None:
        """Record a decision. It is kept when this returns: the effect comes after."""
        made = structs.replace(self._entry(use), decision=decision, inputs=dict(use.arguments))
        await self._audit.append(made, use.level)

    async def on_done(self, use: ToolUse, status: str, result: str) -> None:
        """Record what a call came to."""
        made = structs.replace(self._entry(use), action="call", decision=status, result=result)
        await self._audit.append(made, use.level)

    async def on_answered(self, interrupt: Interrupt) -> None:
        """Record who said what to which question, and what they were shown."""
        ask, by = interrupt.ask, interrupt.answered_by or ""
        verdict = type(interrupt.answer).__name__.lower()
        now, shown = self._clock.now(), ask.text
        entry = AuditEntry(now, by, "answer", ask.id, self._user, inputs=shown, decision=verdict)
        await self._audit.append(entry, AuditLevel.DETAILED)

    def _entry(self, use: ToolUse) -> AuditEntry:
        now, who = self._clock.now(), use.caller.process
        return AuditEntry(now, who, "decide", use.name, self._user, trace_id=use.trace_id)

    async def aclose(self) -> None:
        """Close the audit."""
        await self._audit.aclose()


# Which tool calls run by themselves, which a person is asked about, and which never run.
#
# The rules decide at the moment of the call, with what the tool declares and the arguments at
# hand. They stand in the do-half, next to the call: what is bound to an approval (the tool's
# schema, files it would run, the rules in force) is read there again, just before the action.


class PermissionPolicy:
    """The rules by which tool calls are allowed, denied or asked about. `ttl_ms` is how long a
    person may take; without it, as long as for confirmations."""

    def __init__(
        self,
        rules: Sequence[str | PermissionRule] = (),
        mode: PermissionMode = PermissionMode.ASK,
        ttl_ms: int | None = None,
    ) -> None:
        self._rules = tuple(
            rule if isinstance(rule, PermissionRule) else parse_permission(rule) for rule in rules
        )
        self._mode, self._ttl_ms = mode, ttl_ms

    def decide(self, use: ToolUse) -> Allowed | NeedsApproval | Denied:
        """Return the verdict of the rules on a call."""
        rights = rights_of(use.tool, use.arguments)
        permissions = self._permissions(rights)
        return permit_call(permissions, use.name, rights.wanted, sandboxed=rights.sandboxed)

    async def ask(self, use: ToolUse, questions: Questions) -> tuple[Allowed | Denied, str]:
        """Waits for a person: the verdict, and who gave it."""

        async def propose() -> ProposedCall:
            rights, verdict = rights_of(use.tool, use.arguments), self.decide(use)
            return ProposedCall(
                self._permissions(rights), await _attempt(use, rights, verdict), verdict
            )

        return await questions.permit(propose)

    def _permissions(self, rights: ToolRights) -> Permissions:
        return Permissions(rights.grant, self._mode, self._rules, self._ttl_ms)


def permission_policy_from(
    given: PermissionPolicy | Sequence[str] | None, mode: str | None
) -> PermissionPolicy | None:
    """Return a policy from rules and a mode, or None if neither is given."""
    if isinstance(given, PermissionPolicy):
        return given
    if given is None and mode is None:
        return None
    if isinstance(given, str):
        raise InvalidRuleError(f"permissions is one text; write a list: permissions=[{given!r}]")
    return PermissionPolicy(given or (), PermissionMode.ASK if mode is None else mode_of(mode))


def mode_of(text: str) -> PermissionMode:
    """Return the mode of this name."""
    try:
        return PermissionMode(text)
    except ValueError:
        known = did_you_mean(str(text), PermissionMode)
        raise InvalidRuleError(f"there is no mode {text!r}; {known}") from None


async def _attempt(
    use: ToolUse, rights: ToolRights, verdict: Allowed | NeedsApproval | Denied
) -> Attempt:
    caller = use.caller
    return Attempt(
        caller.place,
        caller.process,
        caller.agent,
        use.name,
        use.arguments,
        Digest(digest128(use.tool.spec)),
        Use("tool") if isinstance(verdict, Denied) else verdict.wanted,
        rights.sandboxed,
        await contents_of(use.tool, use.arguments),
    )


# Everything between a decision to act and the act: rules, people, and the record of both.
#
# tool call ─▶ rules ── deny ──▶ audit ─▶ an error result that the model sees
#                │ ask ─▶ question ─▶ answer ─┐
#                └─ allow ────────────────────┴─▶ audit ─▶ the tool ─▶ audit


_LOG = logging.getLogger("vegakit")
_LONGEST_QUESTION = 20_000


class Approvals:
    """The approvals of one runtime. Without a permission policy tools run unasked, each within its
    own grant. `secrets` are the values that people are shown by name, asked for with each
    question."""

    def __init__(
        self,
        clock: Clock,
        store: Store,
        permission_policy: PermissionPolicy | None,
        audit: Audit | None,
        secrets: Callable[[], Secrets] = dict,
    ) -> None:
        self._clock, self._store = clock, store
        self._permission_policy = permission_policy
        self._audit_trail = None if audit is None else AuditTrail(audit, clock, user_name())
        self._secrets = secrets
        self.questions = Questions(store, clock, "", self._on_asked, secrets=secrets)
        self.listeners: list[Callable[[Question], object]] = []

    @property
    def permits(self) -> bool:
        """Whether a call that nobody vouched for is asked about."""
        return self._permission_policy is not None

    def begin(self, key: str) -> None:
        """Begin a run that has asked nothing yet, unless it was resumed."""
        if key != self.questions.key:
            self.questions = Questions(
                self._store, self._clock, key, self._on_asked, secrets=self._secrets
            )

    async def resume(self, key: str) -> set[EffectKey]:
        """Take up the questions of a run, and return the places where it was waiting for an
        approval, so that nothing was begun there."""
        self.begin(key)
        await self.questions.load()
        return self.questions.not_started()

    async def refusal(self, use: ToolUse) -> str:
        """Return why a call may not be made; empty if it may, once, now."""
        if self._permission_policy is None:
            await self._note(use, "allow")
            return ""
        verdict, decision = self._permission_policy.decide(use), "allow"
        if isinstance(verdict, NeedsApproval):
            await self._note(use, f"ask: {verdict.reason}")
            verdict, by = await self._permission_policy.ask(use, self.questions)
            decision = f"allow: approved by {by}"
        reason = verdict.reason if isinstance(verdict, Denied) else ""
        await self._note(use, f"deny: {reason}" if reason else decision)
        return reason

    async def on_called(self, use: ToolUse, status: str, result: str) -> None:
        """Record what a call came to."""
        if self._audit_trail is not None:
            await run_to_completion(self._audit_trail.on_done(use, status, result))

    async def ask_person(self, effect: Effect, process: Pid) -> EffectOutcome:
        """Ask a person what a program wants to know, and return the outcome."""
        request = effect.request
        assert isinstance(request, AskHuman)
        kind = InterruptKind(request.kind)
        permits = INTERRUPT_KINDS[kind].use_within_ms is not None
        action = request.action or (effect.digest if permits else None)
        text = request.question
        if len(text) > _LONGEST_QUESTION:  # to spell more of it would hold the event loop
            return Refused(LimitReached.__name__, refusal_text(InterruptRefusal.TOO_LONG))
        text = escape_text(text, self._secrets())
        name = InterruptId(f"{effect.key}:{effect.digest}")
        settled = await self.questions.ask(
            InterruptRequest(name, kind, process, text, action, request.expires_ms)
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
        """Take an answer; without `by` it is that of the user of this machine."""
        note = None if self._audit_trail is None else self._audit_trail.on_answered
        await self.questions.answer(question, given, by or user_name(), action, note)

    async def aclose(self) -> None:
        """Close the questions, their store and the audit."""
        await self.questions.aclose()
        await self._store.aclose()
        if self._audit_trail is not None:
            await self._audit_trail.aclose()

    async def _note(self, use: ToolUse, decision: str) -> None:
        if self._audit_trail is not None:
            await self._audit_trail.on_decided(use, decision)

    def _on_asked(self, question: Question) -> None:
        if not self.listeners:  # a program that waits for an hour must not look as if it hung
            _LOG.warning(
                "%s waits for a person; type `vega interrupts` to see for what, and "
                "`vega answer %s %s`; in a program, rt.on(Question, …) is called instead",
                question.process,
                question.id,
                "yes|no" if question.permits else "'…'",
            )
        for listener in self.listeners:
            listener(question)
