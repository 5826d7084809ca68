"""Why a process ended: one word, and what more is to be said.

| kind      | said by                                    | abnormal |
|-----------|--------------------------------------------|----------|
| normal    | a process that finished                    |          |
| shutdown  | whoever stopped it, with or without detail |          |
| crashed   | its own code, or `exit(reason)`            | yes      |
| killed    | a kill, which cannot be refused            | yes      |
| escalated | a supervisor that gave up                  | yes      |
| noproc    | a link or monitor to nobody                | yes      |

OTP's supervisors give up with `shutdown`, so a transient one is never restarted and nothing climbs
further. Ours say `escalated`, with the first cause, through any number of levels.
"""

from enum import StrEnum

from msgspec import Struct

from vegakit.ids import EffectKey

__all__ = ["ExitKind", "ExitReason", "escalated"]


class ExitKind(StrEnum):
    NORMAL = "normal"
    SHUTDOWN = "shutdown"
    CRASHED = "crashed"
    KILLED = "killed"
    ESCALATED = "escalated"
    NOPROC = "noproc"


class ExitReason(Struct, frozen=True, omit_defaults=True):
    """`cause` are the effects whose outcomes ended it, if it was these."""

    kind: ExitKind
    detail: str = ""
    cause: tuple[EffectKey, ...] = ()

    @property
    def is_abnormal(self) -> bool:
        return self.kind is not ExitKind.NORMAL and self.kind is not ExitKind.SHUTDOWN

    def __str__(self) -> str:
        return f"{self.kind}({self.detail})" if self.detail else self.kind.value


def escalated(cause: ExitReason) -> ExitReason:
    if cause.kind is ExitKind.ESCALATED:
        return cause
    return ExitReason(ExitKind.ESCALATED, str(cause), cause.cause)
