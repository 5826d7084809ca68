"""Interrupts: questions that hold a process until someone answers, and permissions used once.

| status   | event                                       | next      | and                         |
|----------|---------------------------------------------|-----------|-----------------------------|
| –        | open                                        | pending   | expires at opened + ttl     |
| pending  | answer before expiry, by another, to this   | resolved  | who and when are kept       |
| pending  | on_timer at or after expiry                 | expired   | the kind's consequence      |
| pending  | cancel, or its process ended                | cancelled |                             |
| resolved | approved: use of this action in time        | resolved  | the permission is used up   |
| resolved | approved, unused: cancel, its process ended | resolved  | the permission is withdrawn |

Anything else is an `InterruptRefusal` and changes no interrupt. A time limit ends *at* its
millisecond: an answer at `expires_ms` is late. An approval is good for `use_within_ms` from the
moment it was given, whatever was left of the question's own time; nobody waits for an unused one
to lapse, so it needs no timer. A process does not answer its own question, in any generation.

Time never runs back here: a `now` before the latest one seen counts as the latest, so a clock that
is set back revives nothing.
"""

from bisect import bisect_left, insort
from enum import StrEnum

from msgspec import Struct, field
from msgspec.structs import replace

from vegakit.ids import Digest, InterruptId, Pid
from vegakit.policy.interrupts.asks import Ask
from vegakit.policy.interrupts.kinds import (
    Answer,
    Approved,
    Consequence,
    InterruptKind,
    InterruptRule,
    Replied,
)
from vegakit.policy.interrupts.showing import MOST_SHOWN

__all__ = [
    "Interrupt",
    "InterruptExpired",
    "InterruptRefusal",
    "InterruptStatus",
    "Interrupts",
]

_LONG = 4_000


class InterruptStatus(StrEnum):
    PENDING = "pending"
    RESOLVED = "resolved"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


class InterruptRefusal(StrEnum):
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
    """What was asked and how it stands; `use_before_ms` is set while a permission exists."""

    ask: Ask
    opened_ms: int
    expires_ms: int | None
    status: InterruptStatus = InterruptStatus.PENDING
    settled_ms: int | None = None
    answer: Answer | None = None
    answered_by: str | None = None
    use_before_ms: int | None = None
    used_ms: int | None = None


class InterruptExpired(Struct, frozen=True):
    id: InterruptId
    kind: InterruptKind
    owner: Pid
    consequence: Consequence


class Interrupts(Struct):
    rule: InterruptRule = field(default_factory=InterruptRule)
    by_id: dict[InterruptId, Interrupt] = field(default_factory=dict)
    deadlines: list[tuple[int, InterruptId]] = field(default_factory=list)
    latest_ms: int = 0

    def open(self, ask: Ask, now: int) -> Interrupt | InterruptRefusal:
        now = self._advance(now)
        refusal = self._why_not_open(ask)
        if refusal is not None:
            return refusal
        interrupt = Interrupt(ask, now, self._expiry_of(ask, now))
        if interrupt.expires_ms is not None:
            insort(self.deadlines, (interrupt.expires_ms, ask.id))
        return self._keep(interrupt)

    def answer(
        self, interrupt_id: InterruptId, answer: Answer, by: str, action: Digest | None, now: int
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
        self._advance(now)
        interrupt = self.by_id.get(interrupt_id)
        if interrupt is None:
            return InterruptRefusal.UNKNOWN
        if interrupt.status is InterruptStatus.PENDING:
            return self._keep(self._settle(interrupt, InterruptStatus.CANCELLED))
        if interrupt.use_before_ms is None:
            return InterruptRefusal.SETTLED
        return self._keep(replace(interrupt, use_before_ms=None))

    def on_process_ended(self, owner: Pid, now: int) -> list[InterruptId]:
        """What was cancelled or withdrawn, in the order it was opened."""
        self._advance(now)
        own = [key for key, interrupt in self.by_id.items() if interrupt.ask.owner == owner]
        return [key for key in own if isinstance(self.cancel(key, now), Interrupt)]

    def next_expiry(self) -> int | None:
        return self.deadlines[0][0] if self.deadlines else None

    def on_timer(self, now: int) -> list[InterruptExpired]:
        """What expired by `now`: the earliest first, of one millisecond by id."""
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

    def _why_not_open(self, ask: Ask) -> InterruptRefusal | None:
        kind = self.rule.of(ask.kind)
        if ask.id in self.by_id:
            return InterruptRefusal.ALREADY_OPENED
        if len(ask.text) > MOST_SHOWN:
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

    def _expiry_of(self, ask: Ask, now: int) -> int | None:
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
