"""Answers by effect key, in memory: they outlive a program and not the process."""

from vegakit.events import EffectOutcome
from vegakit.ids import Digest, EffectKey

__all__ = ["MemoryJournal"]


class MemoryJournal:
    """Implements `ports.Journal`."""

    def __init__(self) -> None:
        self._recorded: dict[EffectKey, tuple[Digest, EffectOutcome]] = {}

    async def find(self, key: EffectKey) -> tuple[Digest, EffectOutcome] | None:
        return self._recorded.get(key)

    async def record(self, key: EffectKey, digest: Digest, outcome: EffectOutcome) -> None:
        self._recorded[key] = (digest, outcome)
