"""Truth about answers."""

from collections.abc import Awaitable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias

from msgspec import Struct

from vegakit.effects import Effect
from vegakit.events import EffectOutcome
from vegakit.ids import Digest, EffectKey, ProgramId
from vegakit.money import Money
from vegakit.ports.ledgers import Ledger

__all__ = [
    "Begun",
    "Claimed",
    "Journal",
    "Kept",
    "Recorded",
    "Run",
]


class Run(Struct, frozen=True, omit_defaults=True):
    """One run of a program, as a journal keeps it: enough to start it again. `raised` is how much
    its budget was raised while it was paused. One process may make several runs one after another:
    `first` is the first of them, and `number` which of them this is, counted from 0."""

    program: ProgramId
    started_ms: int
    command: tuple[str, ...] = ()
    folder: str = ""
    ended_ms: int | None = None
    raised: Money = Money(0)
    first: ProgramId = ProgramId("")
    number: int = 0


Recorded: TypeAlias = tuple[Digest, EffectOutcome | None]
"""The digest of what was asked, and what came of it; None: it was claimed."""


class Begun(Struct, frozen=True, omit_defaults=True):
    """An effect that was claimed and has no outcome. `speculative`: the program had not come to
    it."""

    key: EffectKey
    kind: str
    repeatable: bool
    speculative: bool = False


class Claimed(Struct, frozen=True, omit_defaults=True):
    """What a claim found: the outcome of exactly this effect, None if it is to be carried out.
    `changed`: other code asked something else at this place, and the program had come to it."""

    outcome: EffectOutcome | None = None
    changed: bool = False


class Kept(Struct, frozen=True):
    """What came of an attempt, kept before anything else was done with it. `bill` is what this
    attempt costs, 0 for a tool; the outcome tells what all attempts cost."""

    program: ProgramId
    key: EffectKey
    attempt: int
    bill: Money
    outcome: EffectOutcome


class Journal(Protocol):
    """Truth about answers: what was recorded is never bought again. Each run has one writer. A
    write is kept when it returns.

    A journal of one program holds one unfinished run at most, and `begin` takes it up. One that a
    user's programs share holds many, and `begin` takes up what `resume` names.
    """

    @property
    def shared(self) -> bool: ...

    def begin(self, run: Run, resume: ProgramId | None = None) -> Awaitable[Run]:
        """Take up the run that `resume` names, also one that has ended, or else begin this one."""
        ...

    def end(self, now: int) -> Awaitable[None]: ...

    def together(self) -> AbstractContextManager[None]:
        """What is called in the block, here and on a ledger in the same place, is one transaction.
        The block calls and does not wait; elsewhere each call is a transaction of its own."""
        ...

    def is_new(self, key: EffectKey) -> bool:
        """Whether nothing is known of the place of this effect. Then nothing recorded has to be
        looked for, and it may be claimed in the transaction that reserves for it."""
        ...

    def holds(self, ledger: Ledger) -> bool:
        """Whether what is called `together` on both is one transaction."""
        ...

    def find(self, key: EffectKey) -> Awaitable[Recorded | None]: ...

    def claim(self, effect: Effect, now: int, *, speculative: bool = False) -> Awaitable[Claimed]:
        """Before it is carried out. What was there already is left as it is, and answered; a claim
        that is not speculative commits it."""
        ...

    def commit(self, key: EffectKey) -> Awaitable[None]:
        """The program has come to what was claimed speculatively. It need not be waited for, but
        is kept before anything that is claimed after it."""
        ...

    def record(self, key: EffectKey, outcome: EffectOutcome) -> Awaitable[None]:
        """What was claimed. The first outcome stays."""
        ...

    def keep(self, key: EffectKey, attempt: int, bill: Money, outcome: EffectOutcome) -> None:
        """Keep it so that `kill -9` after this call does not lose it. It does not wait, so that
        nothing comes between a reply and its being kept; `record` follows."""
        ...

    def kept(self) -> Awaitable[Sequence[Kept]]:
        """Return what this run kept in an earlier process and may not have recorded."""
        ...

    def drop(self, key: EffectKey) -> Awaitable[None]:
        """A claim that is to be made anew when it is wanted: of what was never sent, or of what
        was speculative and came to no answer."""
        ...

    def reopen(self, keys: Sequence[EffectKey]) -> Awaitable[None]:
        """These outcomes failed the run: they are not final, and are asked again when it goes on.
        A model call that was charged becomes an `Unknown` to be asked again, so that what it cost
        stays known; one that was not is as if it had only been claimed; everything else is
        forgotten. Keys that have no outcome, or are not of this run, are passed over. What was
        claimed after one of them is no longer committed: the run may ask otherwise there now."""
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
