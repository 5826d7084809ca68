"""Many seeds, each run twice: as it is, and with its program going through JSON on the way."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from vegakit.testing.simulation.story import Ran, simulate
from vegakit.testing.simulation.world import Faults

__all__ = ["Tally", "run_seeds"]

_RESTORE_EVERY = 50


@dataclass
class Tally:
    seeds: int = 0
    steps: int = 0
    faults: Faults = field(default_factory=Counter[str])
    failures: list[str] = field(default_factory=list[str])

    def add(self, other: "Tally") -> None:
        self.seeds += other.seeds
        self.steps += other.steps
        self.faults += other.faults
        self.failures += other.failures


def run_seeds(seeds: Iterable[int], restore_every: int = _RESTORE_EVERY) -> Tally:
    tally = Tally()
    for seed in seeds:
        ran, restored = simulate(seed), simulate(seed, restore_every=restore_every)
        problems = ran.broken or restored.broken or _differences(ran, restored)
        tally.add(Tally(1, ran.steps + restored.steps, ran.faults + restored.faults))
        tally.failures += [f"seed {seed}: {problem}" for problem in problems[:3]]
    return tally


def _differences(one: Ran, other: Ran) -> list[str]:
    if one.digest == other.digest:
        return []
    pairs = enumerate(zip(one.lines, other.lines, strict=False))
    at = next((n for n, (left, right) in pairs if left != right), "the end of the shorter")
    return [f"a second run, stored and reloaded on the way, differs from line {at} on"]
