"""A host without tasks: what each effect comes to is worked out when it is started.

start ─▶ fate(effect) ─▶ waits until it is due ─ time jumps there ─▶ next()

It drives a program through any history in one plain loop, and a program that a person wrote to be
resumed over a journal that is held in the hand.
"""

from collections.abc import Sequence

from vegakit.effects import AskHuman, CallModel, CallTool, Effect, SetTimer, check_same_request
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
from vegakit.testing.host import Fate, World

__all__ = ["SimulatedHost"]

_RECORDED = (AskHuman, CallModel, CallTool)


class SimulatedHost:
    """Implements `ports.Host`."""

    def __init__(self, world: World, journal: Journal | None = None, now_ms: int = 0) -> None:
        self._world = world
        self._journal = journal
        self._flying: dict[EffectKey, tuple[Effect, int | None]] = {}
        self._outcomes: dict[EffectKey, EffectOutcome] = {}
        self.now = now_ms

    def start(self, effect: Effect) -> None:
        """When it is due is known once the journal was asked."""
        self._flying[effect.key] = (effect, None)

    def cancel(self, key: EffectKey) -> None:
        if key in self._flying:
            self._flying[key] = (self._flying[key][0], self.now)
            self._outcomes[key] = Cancelled()

    async def next(self) -> Sequence[HostEvent]:
        for effect, due_ms in list(self._flying.values()):
            if due_ms is None:
                await self._begin(effect)
        if not self._flying:
            raise BugError("nothing was started, so nothing will ever happen")
        dues = {key: due_ms or 0 for key, (_, due_ms) in self._flying.items()}
        self.now = max(self.now, min(dues.values()))
        landed = [key for key, due_ms in dues.items() if due_ms <= self.now]
        return in_program_order([await self._land(key) for key in landed])

    async def aclose(self) -> None:
        self._flying.clear()

    async def _begin(self, effect: Effect) -> None:
        takes_ms, outcome = 0, await self._recorded(effect)
        if outcome is None and isinstance(effect.request, SetTimer):
            takes_ms, outcome = max(0, effect.request.due_ms - self.now), Answered(None)
        elif outcome is None:
            takes_ms, outcome = _told(self._world(effect))
        self._outcomes[effect.key] = outcome
        self._flying[effect.key] = (effect, self.now + takes_ms)

    async def _recorded(self, effect: Effect) -> EffectOutcome | None:
        """None: it is to be carried out, and is claimed if it is one to be kept."""
        if self._journal is None or not isinstance(effect.request, _RECORDED):
            return None
        digest, outcome = await self._journal.find(effect.key) or (effect.digest, None)
        check_same_request(effect, digest)
        if outcome is None:
            await self._journal.claim(effect, self.now)
        return outcome

    async def _land(self, key: EffectKey) -> OutcomeArrived:
        effect, outcome = self._flying.pop(key)[0], self._outcomes.pop(key)
        kept = isinstance(effect.request, _RECORDED) and not isinstance(outcome, Cancelled)
        if self._journal is not None and kept:
            await self._journal.record(key, outcome)
        return OutcomeArrived(key, effect.path, outcome)


def _told(fate: Fate) -> tuple[int, EffectOutcome]:
    if isinstance(fate.comes_to, Exception):
        error = fate.comes_to
        return fate.takes_ms, Crashed(f"{type(error).__name__}: {error}")
    return fate.takes_ms, fate.comes_to
