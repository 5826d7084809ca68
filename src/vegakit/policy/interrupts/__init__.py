"""Questions to people, and approvals that permit one action once (pure)."""

from vegakit.policy.interrupts.asks import Action, Ask
from vegakit.policy.interrupts.kinds import (
    INTERRUPT_KINDS,
    Answer,
    Approved,
    Consequence,
    Declined,
    InterruptKind,
    InterruptRule,
    KindRule,
    Replied,
    Resume,
    TakeErrorNext,
)
from vegakit.policy.interrupts.pending import (
    Interrupt,
    InterruptExpired,
    InterruptRefusal,
    Interrupts,
    InterruptStatus,
)

__all__ = [
    "INTERRUPT_KINDS",
    "Action",
    "Answer",
    "Approved",
    "Ask",
    "Consequence",
    "Declined",
    "Interrupt",
    "InterruptExpired",
    "InterruptKind",
    "InterruptRefusal",
    "InterruptRule",
    "InterruptStatus",
    "Interrupts",
    "KindRule",
    "Replied",
    "Resume",
    "TakeErrorNext",
]
