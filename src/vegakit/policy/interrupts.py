"""Interrupts: questions that hold a process until a person answers, and approvals that permit one
action once (pure).

Silence never approves, and a process never answers its own question.
"""

import re
from bisect import bisect_left, insort
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from vegakit.errors import InvalidRuleError
from vegakit.ids import Digest, InterruptId, Pid
from vegakit.policy.safe_text import MAX_QUESTION_CHARACTERS
from vegakit.records import digest128

# A session ends once, with one reason, for ever.


class TerminalReason(StrEnum):
    """The reasons for which a session of a pipeline ends."""

    COMPLETED = "completed"
    MAX_ITERATIONS = "max_iterations"
    MAX_LLM_CALLS = "max_llm_calls"
    MAX_AGENT_HOPS = "max_agent_hops"
    MAX_EDGE = "max_edge"
    USER_CANCELLED = "user_cancelled"
    TOOL_FAILED = "tool_failed"
    LLM_FAILED = "llm_failed"
    POLICY_VIOLATION = "policy_violation"
    TIMEOUT = "timeout"
    RESOURCE_EXHAUSTED = "resource_exhausted"
    SYSTEM_ERROR = "system_error"


class Terminate(Struct, frozen=True, tag=True):
    """End the session for this reason."""

    reason: TerminalReason


# The kinds of interrupts and what each does by default: one table, `INTERRUPT_KINDS`.
#
# A kind says how long it waits, what follows when nobody answers in time, whether it needs an
# answer at all, and, when its answer is a permission, how long that permission may lie unused.
# Settings replace whole rows. Silence never approves: a row that would resume with `Approved` is
# refused.


class InterruptKind(StrEnum):
    """The kinds of interrupts; `INTERRUPT_KINDS` says what each does."""

    CLARIFICATION = "clarification"
    CONFIRMATION = "confirmation"
    AGENT_REVIEW = "agent_review"
    CHECKPOINT = "checkpoint"
    RESOURCE_EXHAUSTED = "resource_exhausted"
    TIMEOUT = "timeout"
    SYSTEM_ERROR = "system_error"


class Approved(Struct, frozen=True, tag=True):
    """A person allowed the action."""


class Declined(Struct, frozen=True, tag=True):
    """A person refused the action."""

    why: str = ""


class Replied(Struct, frozen=True, tag=True):
    """Words or values, which permit nothing."""

    value: Any = None


InterruptAnswer: TypeAlias = Approved | Declined | Replied


class Resume(Struct, frozen=True, tag=True):
    """Go on with this answer."""

    answer: InterruptAnswer


class TakeErrorNext(Struct, frozen=True, tag=True):
    """Go to the asking stage's error_next; where it has none, terminate."""

    otherwise: TerminalReason


Consequence: TypeAlias = Resume | TakeErrorNext | Terminate


class KindRule(Struct, frozen=True):
    """`ttl_ms` None waits without limit; `use_within_ms` None means an answer permits nothing.

    Without `at_expiry` the kind never holds anyone and never expires.
    """

    ttl_ms: int | None
    at_expiry: Consequence | None
    needs_response: bool = False
    use_within_ms: int | None = None

    def __post_init__(self) -> None:
        if any(ms is not None and ms < 1 for ms in (self.ttl_ms, self.use_within_ms)):
            raise InvalidRuleError(
                f"an interrupt needs ttl and use_within of at least 1 ms, or none; got {self}"
            )
        if self.ttl_ms is not None and self.at_expiry is None:
            raise InvalidRuleError(
                "an interrupt that expires needs at_expiry: Resume, TakeErrorNext or Terminate; "
                f"got {self}"
            )
        if isinstance(self.at_expiry, Resume) and isinstance(self.at_expiry.answer, Approved):
            raise InvalidRuleError("nobody approves by silence; let at_expiry resume with Declined")


_MINUTE = 60_000
_HOUR = 60 * _MINUTE
_DECLINE = Resume(Declined("nobody answered in time"))

INTERRUPT_KINDS: Final[Mapping[InterruptKind, KindRule]] = MappingProxyType(
    {
        InterruptKind.CLARIFICATION: KindRule(
            24 * _HOUR, TakeErrorNext(TerminalReason.TIMEOUT), needs_response=True
        ),
        InterruptKind.CONFIRMATION: KindRule(
            _HOUR, _DECLINE, needs_response=True, use_within_ms=10 * _MINUTE
        ),
        InterruptKind.AGENT_REVIEW: KindRule(
            30 * _MINUTE, _DECLINE, needs_response=True, use_within_ms=10 * _MINUTE
        ),
        InterruptKind.CHECKPOINT: KindRule(None, None),
        InterruptKind.RESOURCE_EXHAUSTED: KindRule(
            5 * _MINUTE, Terminate(TerminalReason.RESOURCE_EXHAUSTED)
        ),
        InterruptKind.TIMEOUT: KindRule(5 * _MINUTE, Terminate(TerminalReason.TIMEOUT)),
        InterruptKind.SYSTEM_ERROR: KindRule(_HOUR, Terminate(TerminalReason.SYSTEM_ERROR)),
    }
)


class InterruptRule(Struct, frozen=True):
    """`kinds` replaces rows of `INTERRUPT_KINDS`; `max_pending` and `max_characters`, of all open
    texts together, keep people from being flooded."""

    kinds: dict[InterruptKind, KindRule] = {}
    max_pending: int = 1000
    max_characters: int = 1_000_000

    def __post_init__(self) -> None:
        if self.max_pending < 1:
            raise InvalidRuleError(
                f"max_pending lets at least 1 question wait; got {self.max_pending}"
            )

    def of(self, kind: InterruptKind) -> KindRule:
        """Return the rule of a kind, the usual one unless another is set."""
        return self.kinds.get(kind) or INTERRUPT_KINDS[kind]


# A question to a person or reviewer is bound to the exact action it is about.
#
# An action's digest covers its tool, its arguments whatever the order of their keys, their
# schema, the policy in force, on whose behalf it acts, and the contents of the files it names:
# change one and it is another action, which nobody approved.


# Control characters but tab and newline, half surrogates, marks that turn the direction of text,
# and invisible tags.
_MISLEADING = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
    "\U000e0000-\U000e007f]"
)


class ApprovableAction(Struct, frozen=True):
    """`contents` are digests of the files it runs or sends, by path."""

    tool: str
    arguments: Any
    schema: Digest
    policy: Digest
    principal: str
    contents: dict[str, Digest] = {}

    @property
    def digest(self) -> Digest:
        """Return the digest of all that a person approves; a change of any of it needs another
        approval."""
        return Digest(digest128(self))


class InterruptRequest(Struct, frozen=True):
    """`expires_ms` replaces the kind's own time limit; kinds that permit need an `action`."""

    id: InterruptId
    kind: InterruptKind
    owner: Pid
    text: str
    action: Digest | None = None
    expires_ms: int | None = None

    @property
    def misleads(self) -> bool:
        """Return whether a person could read another question on some screen than the one asked."""
        return _MISLEADING.search(self.text) is not None


# Interrupts: questions that hold a process until someone answers, and permissions used once.
#
# status   | event                                       | next      | and
# ---------|---------------------------------------------|-----------|----------------------------
# –        | open                                        | pending   | expires at opened + ttl
# pending  | answer before expiry, by another, to this   | resolved  | who and when are kept
# pending  | on_timer at or after expiry                 | expired   | the kind's consequence
# pending  | cancel, or its process ended                | cancelled |
# resolved | approved: use of this action in time        | resolved  | the permission is used up
# resolved | approved, unused: cancel, its process ended | resolved  | the permission is withdrawn
#
# Anything else is an `InterruptRefusal` and changes no interrupt. A time limit ends *at* its
# millisecond: an answer at `expires_ms` is late. An approval is good for `use_within_ms` from the
# moment it was given, whatever was left of the question's own time; nobody waits for an unused one
# to lapse, so it needs no timer. A process does not answer its own question, in any generation.
#
# Time never runs back here: a `now` before the latest one seen counts as the latest, so a clock
# that is set back revives nothing.


_LONG = 4_000


class InterruptStatus(StrEnum):
    """The states of an interrupt."""

    PENDING = "pending"
    RESOLVED = "resolved"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


class InterruptRefusal(StrEnum):
    """The reasons for which an interrupt is not opened, answered or used."""

    UNKNOWN = "unknown"
    ALREADY_OPENED = "already_opened"
    MISLEADING_TEXT = "misleading_text"
    NO_ACTION = "no_action"
    TOO_LONG = "too_long"
    TOO_MANY = "too_many"
    SETTLED = "settled"
    LATE = "late"
    ANONYMOUS = "anonymous"
    OWN_QUESTION = "own_question"
    WRONG_ACTION = "wrong_action"
    WRONG_ANSWER = "wrong_answer"
    NOT_APPROVED = "not_approved"
    ALREADY_USED = "already_used"


class Interrupt(Struct, frozen=True):
    """A question and how it stands; `use_before_ms` is set while a permission exists."""

    ask: InterruptRequest
    opened_ms: int
    expires_ms: int | None
    status: InterruptStatus = InterruptStatus.PENDING
    settled_ms: int | None = None
    answer: InterruptAnswer | None = None
    answered_by: str | None = None
    use_before_ms: int | None = None
    used_ms: int | None = None


class InterruptExpired(Struct, frozen=True):
    """Nobody answered in time, and the stated consequence follows."""

    id: InterruptId
    kind: InterruptKind
    owner: Pid
    consequence: Consequence


class Interrupts(Struct):
    """All questions to people, open and settled, and when the open ones expire."""

    rule: InterruptRule = field(default_factory=InterruptRule)
    by_id: dict[InterruptId, Interrupt] = field(default_factory=dict)
    deadlines: list[tuple[int, InterruptId]] = field(default_factory=list)
    latest_ms: int = 0

    def open(self, ask: InterruptRequest, now: int) -> Interrupt | InterruptRefusal:
        """Open a question, or say why it cannot be asked."""
        now = self._advance(now)
        refusal = self._why_not_open(ask)
        if refusal is not None:
            return refusal
        interrupt = Interrupt(ask, now, self._expiry_of(ask, now))
        if interrupt.expires_ms is not None:
            insort(self.deadlines, (interrupt.expires_ms, ask.id))
        return self._keep(interrupt)

    def answer(
        self,
        interrupt_id: InterruptId,
        answer: InterruptAnswer,
        by: str,
        action: Digest | None,
        now: int,
    ) -> Interrupt | InterruptRefusal:
        """`by` is who answers, as authenticated; `action` the digest of what they were shown."""
        now = self._advance(now)
        interrupt = self.by_id.get(interrupt_id)
        if interrupt is None:
            return InterruptRefusal.UNKNOWN
        use_within_ms = self.rule.of(interrupt.ask.kind).use_within_ms
        refusal = _why_not_answer(interrupt, by, action, now)
        if refusal is not None:
            return refusal
        if isinstance(answer, Replied) != (use_within_ms is None):
            return InterruptRefusal.WRONG_ANSWER
        settled = self._settle(interrupt, InterruptStatus.RESOLVED)
        until = now + use_within_ms if use_within_ms and isinstance(answer, Approved) else None
        return self._keep(replace(settled, answer=answer, answered_by=by, use_before_ms=until))

    def use(
        self, interrupt_id: InterruptId, action: Digest, now: int
    ) -> Interrupt | InterruptRefusal:
        """Leave to do `action` now, given exactly once."""
        now = self._advance(now)
        interrupt = self.by_id.get(interrupt_id)
        if interrupt is None:
            return InterruptRefusal.UNKNOWN
        if interrupt.used_ms is not None:
            return InterruptRefusal.ALREADY_USED
        if interrupt.use_before_ms is None:
            return InterruptRefusal.NOT_APPROVED
        if action != interrupt.ask.action:
            return InterruptRefusal.WRONG_ACTION
        if now >= interrupt.use_before_ms:
            return InterruptRefusal.LATE
        return self._keep(replace(interrupt, use_before_ms=None, used_ms=now))

    def cancel(self, interrupt_id: InterruptId, now: int) -> Interrupt | InterruptRefusal:
        """Close an open question, or take back a permission that was not used yet."""
        self._advance(now)
        interrupt = self.by_id.get(interrupt_id)
        if interrupt is None:
            return InterruptRefusal.UNKNOWN
        if interrupt.status is InterruptStatus.PENDING:
            return self._keep(self._settle(interrupt, InterruptStatus.CANCELLED))
        if interrupt.use_before_ms is None:
            return InterruptRefusal.SETTLED
        return self._keep(replace(interrupt, use_before_ms=None))

    def on_timer(self, now: int) -> list[InterruptExpired]:
        """Expire what is due by `now` and return it, the earliest first, of one millisecond by
        id."""
        now = self._advance(now)
        expired: list[InterruptExpired] = []
        while self.deadlines and self.deadlines[0][0] <= now:
            expired.append(self._expire(self.deadlines[0][1]))
        return expired

    def reap(self, before_ms: int) -> list[InterruptId]:
        """Forget what was over before then; ids are never given twice. Nobody is shown again what
        is settled, so that a long text is not kept until then."""
        for key, interrupt in self.by_id.items():
            if interrupt.settled_ms is not None and len(interrupt.ask.text) > _LONG:
                self.by_id[key] = replace(interrupt, ask=replace(interrupt.ask, text=""))
        over = [key for key, interrupt in self.by_id.items() if _is_over(interrupt, before_ms)]
        for key in over:
            del self.by_id[key]
        return over

    def _advance(self, now: int) -> int:
        self.latest_ms = max(self.latest_ms, now)
        return self.latest_ms

    def _why_not_open(self, ask: InterruptRequest) -> InterruptRefusal | None:
        kind = self.rule.of(ask.kind)
        if ask.id in self.by_id:
            return InterruptRefusal.ALREADY_OPENED
        if len(ask.text) > MAX_QUESTION_CHARACTERS:
            return InterruptRefusal.TOO_LONG
        if ask.misleads:
            return InterruptRefusal.MISLEADING_TEXT
        if kind.use_within_ms is not None and ask.action is None:
            return InterruptRefusal.NO_ACTION
        if kind.needs_response and len(self.deadlines) >= self.rule.max_pending:
            return InterruptRefusal.TOO_MANY
        waiting = sum(len(self.by_id[key].ask.text) for _, key in self.deadlines)
        if waiting + len(ask.text) > self.rule.max_characters:
            return InterruptRefusal.TOO_MANY
        return None

    def _expiry_of(self, ask: InterruptRequest, now: int) -> int | None:
        kind = self.rule.of(ask.kind)
        if kind.at_expiry is None:
            return None
        if ask.expires_ms is not None or kind.ttl_ms is None:
            return ask.expires_ms
        return now + kind.ttl_ms

    def _expire(self, interrupt_id: InterruptId) -> InterruptExpired:
        interrupt = self._keep(self._settle(self.by_id[interrupt_id], InterruptStatus.EXPIRED))
        ask = interrupt.ask
        consequence = self.rule.of(ask.kind).at_expiry
        assert consequence is not None, "only kinds with a consequence have a deadline"
        return InterruptExpired(interrupt_id, ask.kind, ask.owner, consequence)

    def _settle(self, interrupt: Interrupt, status: InterruptStatus) -> Interrupt:
        if interrupt.expires_ms is not None:
            deadline = (interrupt.expires_ms, interrupt.ask.id)
            del self.deadlines[bisect_left(self.deadlines, deadline)]
        return replace(interrupt, status=status, settled_ms=self.latest_ms)

    def _keep(self, interrupt: Interrupt) -> Interrupt:
        self.by_id[interrupt.ask.id] = interrupt
        return interrupt


def _why_not_answer(
    interrupt: Interrupt, by: str, action: Digest | None, now: int
) -> InterruptRefusal | None:
    if interrupt.status is not InterruptStatus.PENDING:
        return InterruptRefusal.SETTLED
    if interrupt.expires_ms is not None and now >= interrupt.expires_ms:
        return InterruptRefusal.LATE
    if not by:
        return InterruptRefusal.ANONYMOUS
    if _any_generation(by) == _any_generation(interrupt.ask.owner):
        return InterruptRefusal.OWN_QUESTION
    if action != interrupt.ask.action:
        return InterruptRefusal.WRONG_ACTION
    return None


def _any_generation(pid: str) -> str:
    return pid.rpartition("#")[0] or pid


def _is_over(interrupt: Interrupt, before_ms: int) -> bool:
    if interrupt.settled_ms is None:
        return False
    return max(interrupt.settled_ms, interrupt.use_before_ms or 0) < before_ms
