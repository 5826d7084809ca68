"""Truth about answers."""

from collections.abc import Awaitable, Sequence
from typing import Protocol, TypeAlias

from msgspec import Struct

from vegakit.effects import Effect
from vegakit.events import EffectOutcome
from vegakit.ids import Digest, EffectKey, ProgramId
from vegakit.money import Money

__all__ = [
    "Begun",
    "Journal",
    "Recorded",
    "Run",
]


class Run(Struct, frozen=True, omit_defaults=True):
    """One run of a program, as a journal keeps it: enough to start it again. `raised` is how much
    its budget was raised while it was paused."""

    program: ProgramId
    started_ms: int
    command: tuple[str, ...] = ()
    folder: str = ""
    ended_ms: int | None = None
    raised: Money = Money(0)


Recorded: TypeAlias = tuple[Digest, EffectOutcome | None]
"""The digest of what was asked, and what came of it; None: it was claimed."""


class Begun(Struct, frozen=True):
    """An effect that was claimed and has no outcome."""

    key: EffectKey
    kind: str
    repeatable: bool


class Journal(Protocol):
    """Truth about answers: what was recorded is never bought again. It has one writer, and holds
    one unfinished run at most. A write is kept when it returns."""

    def begin(self, run: Run) -> Awaitable[Run]:
        """The unfinished run of this journal, or else this one."""
        ...

    def end(self, now: int) -> Awaitable[None]: ...

    def find(self, key: EffectKey) -> Awaitable[Recorded | None]: ...

    def claim(self, effect: Effect, now: int) -> Awaitable[Recorded | None]:
        """Before it is carried out. What was there already is left as it is, and answered."""
        ...

    def record(self, key: EffectKey, outcome: EffectOutcome) -> Awaitable[None]:
        """What was claimed. The first outcome stays."""
        ...

    def drop(self, key: EffectKey) -> Awaitable[None]:
        """A claim of what was never sent."""
        ...

    def cut_off(self) -> Awaitable[Sequence[Begun]]:
        """What this run left without an outcome."""
        ...

    def charges(self) -> Awaitable[Sequence[tuple[EffectKey, Money]]]:
        """What the recorded model calls of this run came to."""
        ...

    def runs(self) -> Awaitable[Sequence[Run]]:
        """The first first."""
        ...

    def aclose(self) -> Awaitable[None]: ...
