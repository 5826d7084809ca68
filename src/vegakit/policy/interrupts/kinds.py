"""The kinds of interrupts and what each does by default: one table, `INTERRUPT_KINDS`.

A kind says how long it waits, what follows when nobody answers in time, whether it needs an answer
at all, and, when its answer is a permission, how long that permission may lie unused. Settings
replace whole rows. Silence never approves: a row that would resume with `Approved` is refused.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from msgspec import Struct

from vegakit.errors import InvalidRuleError
from vegakit.policy.supervision.terminal import TerminalReason, Terminate

__all__ = [
    "INTERRUPT_KINDS",
    "Answer",
    "Approved",
    "Consequence",
    "Declined",
    "InterruptKind",
    "InterruptRule",
    "KindRule",
    "Replied",
    "Resume",
    "TakeErrorNext",
]


class InterruptKind(StrEnum):
    CLARIFICATION = "clarification"
    CONFIRMATION = "confirmation"
    AGENT_REVIEW = "agent_review"
    CHECKPOINT = "checkpoint"
    RESOURCE_EXHAUSTED = "resource_exhausted"
    TIMEOUT = "timeout"
    SYSTEM_ERROR = "system_error"


class Approved(Struct, frozen=True, tag=True):
    pass


class Declined(Struct, frozen=True, tag=True):
    why: str = ""


class Replied(Struct, frozen=True, tag=True):
    """Words or values, which permit nothing."""

    value: Any = None


Answer: TypeAlias = Approved | Declined | Replied


class Resume(Struct, frozen=True, tag=True):
    """Go on with this answer."""

    answer: Answer


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
        return self.kinds.get(kind) or INTERRUPT_KINDS[kind]
