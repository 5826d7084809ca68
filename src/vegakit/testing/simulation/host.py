"""A host without tasks: what each effect comes to is worked out when it is started.

start ─▶ fate(effect) ─▶ waits until it is due ─ time jumps there ─▶ next()

It drives a program through any history in one plain loop, and a program that a person wrote to be
resumed over a journal that is held in the hand.
"""

from collections.abc import Sequence

from msgspec import Struct

from vegakit.effects import Effect, SetTimer, changed
from vegakit.errors import BugError
from vegakit.events import (
    Answered,
    Cancelled,
    Crashed,
    EffectOutcome,
    HostEvent,
    OutcomeArrived,
    in_program_order,
)
from vegakit.ids import EffectKey
from vegakit.ports import Journal
from vegakit.runtime import Recording
from vegakit.testing.host import Fate, World

__all__ = ["SimulatedHost"]


class _Flying(Struct):
    """`due_ms` None: it has not begun."""

    effect: Effect
    speculative: bool
    due_ms: int | None = None
    outcome: EffectOutcome | None = None
    is_found: bool = False


class SimulatedHost:
    """Implements `ports.Host`."""

    def __init__(self, world: World, journal: Journal | None = None, now_ms: int = 0) -> None:
        self._world = world
        self._recording = Recording(journal)
        self._flying: list[_Flying] = []
        self._committed: list[EffectKey] = []
        self.now = now_ms

    def start(self, effect: Effect, *, speculative: bool = False) -> None:
        """When it is due is known once the journal was asked."""
        self._flying.append(_Flying(effect, speculative))

    def commit(self, key: EffectKey) -> None:
        """At the next look at the journal, before anything else is claimed."""
        for one in self._flying:
            if one.effect.key == key:
                one.speculative = False
        self._committed.append(key)

    def cancel(self, key: EffectKey, *, late: bool = False) -> None:
        mine = [one for one in self._flying if one.effect.key == key]
        if mine:
            mine[-1].due_ms, mine[-1].outcome = self.now, Cancelled()
        else:
            self._recording.forget(key)

    async def next(self) -> Sequence[HostEvent]:
        await self._commit_all()
        under_way = set[EffectKey]()
        for one in self._flying:
            if one.due_ms is None and one.effect.key not in under_way:
                await self._begin(one)
            under_way.add(one.effect.key)
        if not self._flying:
            raise BugError("nothing was started, so nothing will ever happen")
        self.now = max(self.now, min(one.due_ms for one in self._flying if one.due_ms is not None))
        landed: dict[EffectKey, _Flying] = {}
        for one in self._flying:
            if one.due_ms is not None and one.due_ms <= self.now:
                landed.setdefault(one.effect.key, one)
        self._flying = [one for one in self._flying if landed.get(one.effect.key) is not one]
        return in_program_order([await self._land(one) for one in landed.values()])

    async def aclose(self) -> None:
        await self._commit_all()
        self._flying.clear()

    async def _commit_all(self) -> None:
        keys, self._committed = self._committed, []
        for key in keys:
            if (effect := self._recording.is_changed(key)) is not None:
                raise changed(effect)
            await self._recording.commit(key, self.now)

    async def _begin(self, one: _Flying) -> None:
        effect = one.effect
        self._recording.begin(effect, speculative=one.speculative)
        outcome, takes_ms = await self._recording.claim(effect, self.now), 0
        one.is_found = outcome is not None
        if outcome is None and isinstance(effect.request, SetTimer):
            takes_ms, outcome = max(0, effect.request.due_ms - self.now), Answered(None)
        elif outcome is None:
            takes_ms, outcome = _told(self._world(effect))
        one.due_ms, one.outcome = self.now + takes_ms, outcome

    async def _land(self, one: _Flying) -> OutcomeArrived:
        assert one.outcome is not None
        if isinstance(one.outcome, Cancelled):
            self._recording.forget(one.effect.key)
        elif not one.is_found:
            await self._recording.keep(one.effect, one.outcome)
        return OutcomeArrived(one.effect.key, one.effect.path, one.outcome)


def _told(fate: Fate) -> tuple[int, EffectOutcome]:
    if isinstance(fate.comes_to, Exception):
        error = fate.comes_to
        return fate.takes_ms, Crashed(f"{type(error).__name__}: {error}")
    return fate.takes_ms, fate.comes_to
