"""Answers by effect key in memory, and any journal as something that is only read."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from msgspec import structs

from vegakit.effects import CallModel, CallTool, Effect, place_of
from vegakit.errors import BugError, LimitReached, ProgramChanged, UserError
from vegakit.events import EffectOutcome, Refused, charged_for, reopened
from vegakit.ids import EffectKey, ProgramId
from vegakit.money import Money
from vegakit.ports import Begun, Claimed, Journal, Kept, Ledger, Recorded, Run

__all__ = ["MemoryJournal", "Replay"]


_CHANGED = (
    "the program does not do what it did when it was recorded; compare it with that version, or "
    "record a new run"
)
_NOT_YET = Refused(LimitReached.__name__, "nothing is begun speculatively in a replay")
"""A refusal of the moment: the program asks again when it comes to it, if it does."""

_CUT_OFF = "the recorded run was cut off here or before; to go on with it, type: vega resume"


class MemoryJournal:
    """Implements `ports.Journal`."""

    shared = False

    def __init__(self) -> None:
        self._runs: list[Run] = []
        self._effects: dict[EffectKey, tuple[Effect, EffectOutcome | None]] = {}
        self._committed: dict[str, dict[EffectKey, None]] = {}

    async def begin(self, run: Run, resume: ProgramId | None = None) -> Run:
        if not self._runs or self._runs[-1].ended_ms is not None:
            self._runs.append(run)
        return self._runs[-1]

    def together(self) -> AbstractContextManager[None]:
        return nullcontext()

    def is_new(self, key: EffectKey) -> bool:
        return False

    def holds(self, ledger: Ledger) -> bool:
        return False

    async def end(self, now: int) -> None:
        self._runs[-1] = structs.replace(self._runs[-1], ended_ms=now)

    async def find(self, key: EffectKey) -> Recorded | None:
        found = self._effects.get(key)
        return None if found is None else (found[0].digest, found[1])

    async def claim(self, effect: Effect, now: int, *, speculative: bool = False) -> Claimed:
        key = effect.key
        others = [self._effects[one][0] for one in self._at(key) if one != key]
        _, outcome = self._effects.setdefault(key, (effect, None))
        if not speculative:
            await self.commit(key)
        return Claimed(outcome, any(other.code != effect.code for other in others))

    async def commit(self, key: EffectKey) -> None:
        if key in self._effects:
            self._at(key)[key] = None

    async def record(self, key: EffectKey, outcome: EffectOutcome) -> None:
        if key not in self._effects:
            raise BugError(f"the effect {key} was not claimed before it was recorded")
        effect, before = self._effects[key]
        self._effects[key] = (effect, before or outcome)

    def keep(self, key: EffectKey, attempt: int, bill: Money, outcome: EffectOutcome) -> None:
        """Do nothing: this journal does not outlive its process."""

    async def kept(self) -> Sequence[Kept]:
        return []

    async def drop(self, key: EffectKey) -> None:
        if self._effects.get(key, (None, None))[1] is None:
            self._effects.pop(key, None)
            self._at(key).pop(key, None)

    async def reopen(self, keys: Sequence[EffectKey]) -> None:
        order = list(self._effects)
        first = min((order.index(key) for key in keys if key in self._effects), default=len(order))
        for key in order[first:]:
            self._at(key).pop(key, None)
        for key in keys:
            effect, outcome = self._effects.get(key, (None, None))
            if effect is None or outcome is None or not self._is_of_this_run(effect):
                continue
            if isinstance(effect.request, CallModel):
                self._effects[key] = effect, reopened(outcome)
            else:
                del self._effects[key]

    async def cut_off(self) -> Sequence[Begun]:
        return [
            Begun(key, type(effect.request).__name__, _repeatable(effect), key not in self._at(key))
            for key, (effect, outcome) in self._effects.items()
            if outcome is None and self._is_of_this_run(effect)
        ]

    async def charges(self) -> Sequence[tuple[EffectKey, Money]]:
        return [
            (key, charged_for(outcome))
            for key, (effect, outcome) in self._effects.items()
            if outcome is not None
            and isinstance(effect.request, CallModel)
            and self._is_of_this_run(effect)
        ]

    async def runs(self) -> Sequence[Run]:
        return list(self._runs)

    async def aclose(self) -> None:
        pass

    def _at(self, key: EffectKey) -> dict[EffectKey, None]:
        """What is committed at the place of an effect."""
        return self._committed.setdefault(place_of(key), {})

    def _is_of_this_run(self, effect: Effect) -> bool:
        return effect.path.program == self._runs[-1].program


class Replay:
    """A journal that is only read: every answer comes from it, and what it does not hold stops the
    program. Implements `ports.Journal`."""

    shared = False

    def __init__(self, journal: Journal, program: str = "") -> None:
        """Of that run, or of the last one."""
        self._journal = journal
        self._program = program
        self._why = _CHANGED

    async def begin(self, run: Run, resume: ProgramId | None = None) -> Run:
        runs = [one for one in await self.runs() if self._program in ("", one.program)]
        if not runs:
            raise UserError(
                f"the journal holds no run {self._program}; to see those it holds, type: vega runs"
            )
        self._why = _CUT_OFF if runs[-1].ended_ms is None else _CHANGED
        return runs[-1]

    def together(self) -> AbstractContextManager[None]:
        return nullcontext()

    def is_new(self, key: EffectKey) -> bool:
        return False

    def holds(self, ledger: Ledger) -> bool:
        return False

    async def end(self, now: int) -> None:
        pass

    async def find(self, key: EffectKey) -> Recorded | None:
        return await self._journal.find(key)

    async def claim(self, effect: Effect, now: int, *, speculative: bool = False) -> Claimed:
        found = await self.find(effect.key)
        if found is not None and found[1] is not None:
            return Claimed(found[1])
        if speculative:
            return Claimed(_NOT_YET)
        raise ProgramChanged(f"nothing is recorded for {effect.path}: {self._why}")

    async def commit(self, key: EffectKey) -> None:
        pass

    async def record(self, key: EffectKey, outcome: EffectOutcome) -> None:
        raise BugError("a replay records nothing")

    def keep(self, key: EffectKey, attempt: int, bill: Money, outcome: EffectOutcome) -> None:
        raise BugError("a replay keeps nothing")

    async def kept(self) -> Sequence[Kept]:
        return []

    async def drop(self, key: EffectKey) -> None:
        raise BugError("a replay changes nothing")

    async def reopen(self, keys: Sequence[EffectKey]) -> None:
        """What was recorded stays so, whatever the replay comes to."""

    async def cut_off(self) -> Sequence[Begun]:
        return []

    async def charges(self) -> Sequence[tuple[EffectKey, Money]]:
        return []

    async def runs(self) -> Sequence[Run]:
        return await self._journal.runs()

    async def aclose(self) -> None:
        await self._journal.aclose()


def _repeatable(effect: Effect) -> bool:
    return isinstance(effect.request, CallTool) and effect.request.repeatable
