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
from vegakit.policy.interrupts.showing import (
    MOST_SHOWN,
    Secrets,
    Unshown,
    escaped,
    in_lines,
    named,
    spelled,
    spelled_json,
)

__all__ = [
    "INTERRUPT_KINDS",
    "MOST_SHOWN",
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
    "Secrets",
    "TakeErrorNext",
    "Unshown",
    "escaped",
    "in_lines",
    "named",
    "spelled",
    "spelled_json",
]
