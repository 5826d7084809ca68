"""Answers by effect key in memory, and any journal as something that is only read."""

from collections.abc import Sequence

from msgspec import structs

from vegakit.effects import CallModel, CallTool, Effect
from vegakit.errors import BugError, ProgramChanged, UserError
from vegakit.events import EffectOutcome, charged_for
from vegakit.ids import EffectKey
from vegakit.money import Money
from vegakit.ports import Begun, Journal, Recorded, Run

__all__ = ["MemoryJournal", "Replay"]


_CHANGED = (
    "the program does not do what it did when it was recorded; compare it with that version, or "
    "record a new run"
)
_CUT_OFF = "the recorded run was cut off here or before; to go on with it, type: vega resume"


class MemoryJournal:
    """Implements `ports.Journal`."""

    def __init__(self) -> None:
        self._runs: list[Run] = []
        self._effects: dict[EffectKey, tuple[Effect, EffectOutcome | None]] = {}

    async def begin(self, run: Run) -> Run:
        if not self._runs or self._runs[-1].ended_ms is not None:
            self._runs.append(run)
        return self._runs[-1]

    async def end(self, now: int) -> None:
        self._runs[-1] = structs.replace(self._runs[-1], ended_ms=now)

    async def find(self, key: EffectKey) -> Recorded | None:
        found = self._effects.get(key)
        return None if found is None else (found[0].digest, found[1])

    async def claim(self, effect: Effect, now: int) -> Recorded | None:
        found = await self.find(effect.key)
        self._effects.setdefault(effect.key, (effect, None))
        return found

    async def record(self, key: EffectKey, outcome: EffectOutcome) -> None:
        if key not in self._effects:
            raise BugError(f"the effect {key} was not claimed before it was recorded")
        effect, before = self._effects[key]
        self._effects[key] = (effect, before or outcome)

    async def drop(self, key: EffectKey) -> None:
        if self._effects.get(key, (None, None))[1] is None:
            self._effects.pop(key, None)

    async def cut_off(self) -> Sequence[Begun]:
        return [
            Begun(key, type(effect.request).__name__, _repeatable(effect))
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

    def _is_of_this_run(self, effect: Effect) -> bool:
        return effect.path.program == self._runs[-1].program


class Replay:
    """A journal that is only read: every answer comes from it, and what it does not hold stops the
    program. Implements `ports.Journal`."""

    def __init__(self, journal: Journal, program: str = "") -> None:
        """Of that run, or of the last one."""
        self._journal = journal
        self._program = program
        self._why = _CHANGED

    async def begin(self, run: Run) -> Run:
        runs = [one for one in await self.runs() if self._program in ("", one.program)]
        if not runs:
            raise UserError(
                f"the journal holds no run {self._program}; to see those it holds, type: vega runs"
            )
        self._why = _CUT_OFF if runs[-1].ended_ms is None else _CHANGED
        return runs[-1]

    async def end(self, now: int) -> None:
        pass

    async def find(self, key: EffectKey) -> Recorded | None:
        return await self._journal.find(key)

    async def claim(self, effect: Effect, now: int) -> Recorded | None:
        found = await self.find(effect.key)
        if found is not None and found[1] is not None:
            return found
        raise ProgramChanged(f"nothing is recorded for {effect.path}: {self._why}")

    async def record(self, key: EffectKey, outcome: EffectOutcome) -> None:
        raise BugError("a replay records nothing")

    async def drop(self, key: EffectKey) -> None:
        raise BugError("a replay changes nothing")

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
