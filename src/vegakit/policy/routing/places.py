"""Where one stage of a session stands: idle, open, leased or paused."""

from msgspec import Struct

from vegakit.ids import InterruptId
from vegakit.policy.interrupts.kinds import InterruptKind
from vegakit.policy.routing.instructions import TaskId

__all__ = ["Leased", "Open", "Paused", "Place"]


class Open(Struct, frozen=True, tag=True):
    """A run has begun and has to be issued, for the first time or again."""


class Leased(Struct, frozen=True, tag=True):
    task: TaskId
    until_ms: int
    deadline_ms: int | None


class Paused(Struct, frozen=True, tag=True):
    interrupt: InterruptId
    kind: InterruptKind


class Place(Struct):
    """Where a stage stands; `at` None is idle."""

    at: Open | Leased | Paused | None = None
    owed: int = 0
    runs: int = 0
    failures: int = 0
    completions: int = 0
    joined: int = 0

    @property
    def in_play(self) -> bool:
        return self.at is not None or self.owed > 0

    @property
    def is_issuable(self) -> bool:
        return isinstance(self.at, Open) or (self.at is None and self.owed > 0)
