"""Whether the ways did the same, how fast each was, and where time goes that we lose."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

from benchmarks.speedups.answers import LEAST_MS, Asked
from benchmarks.speedups.running import Run
from benchmarks.speedups.ways import HAND, IN_TURN, OURS

__all__ = ["LEAST_RATIO", "Measured", "differences", "lost", "row", "shares", "waste"]

LEAST_RATIO = 0.97
Runs = Mapping[str, Sequence[Run]]


class Measured(NamedTuple):
    """Of one program: speed-ups over one call after the other by way; ours beside by hand."""

    calls: int
    speedups: dict[str, float]
    best: float
    median: float
    held_up: int

    @property
    def holds(self) -> bool:
        return self.best >= LEAST_RATIO


def row(runs: Runs) -> Measured:
    best = {way: min(run.seconds for run in each) for way, each in runs.items()}
    typical = {way: median(run.seconds for run in each) for way, each in runs.items()}
    speedups = {way: best[IN_TURN] / seconds for way, seconds in best.items() if way != IN_TURN}
    ratios = best[HAND] / best[OURS], typical[HAND] / typical[OURS]
    return Measured(runs[IN_TURN][0].calls, speedups, *ratios, held_up(runs))


def differences(runs: Runs) -> list[str]:
    """What any run gave or asked otherwise than the program does when it runs in turn."""
    known, found = runs[IN_TURN][0], list[str]()
    for way, each in runs.items():
        for run in each:
            if run.result != known.result:
                found.append(f"{way} gave {run.result!r}, in turn it is {known.result!r}")
            for what, prompts in (
                ("asked besides", run.asked - known.asked),
                ("did not ask", known.asked - run.asked),
            ):
                found += [f"{way} {what}: {prompt[-1][1]!r}" for prompt in prompts]
            if way == OURS and run.notes["printed"] != known.notes["printed"]:
                found.append(f"{way} printed {run.notes['printed']!r}")
    return list(dict.fromkeys(found))


def waste(runs: Runs) -> tuple[int, int]:
    """Calls of ours that the program in turn does not make or that were left; nano-dollars more."""
    known = runs[IN_TURN][0]
    calls = sum((run.asked - known.asked).total() + run.cut for run in runs[OURS])
    spent = sum(abs(run.notes["spent"] - known.notes["spent"]) for run in runs[OURS])
    return calls, spent


def late_ms(runs: Runs) -> dict[Asked, int]:
    """How much later each call began with us than by hand, both in the round where it was first."""
    ours, hand = _first_ms(runs[OURS]), _first_ms(runs[HAND])
    return {prompt: ours[prompt] - hand[prompt] for prompt in ours.keys() & hand.keys()}


def _first_ms(each: Sequence[Run]) -> dict[Asked, int]:
    prompts = {prompt for run in each for prompt in run.began_ms}
    return {
        prompt: min(min(run.began_ms[prompt]) for run in each if prompt in run.began_ms)
        for prompt in prompts
    }


def held_up(runs: Runs) -> int:
    """Calls that lost so much time, beyond what those before them had lost, that they must have
    waited for another; before a call are those that by hand were answered when it began."""
    late = late_ms(runs)
    hand = min(runs[HAND], key=lambda run: run.seconds)
    count = 0
    for prompt, behind in late.items():
        began = min(hand.began_ms[prompt])
        before = (late.get(other, 0) for other, ended in hand.ended_ms.items() if ended <= began)
        count += behind - max(before, default=0) >= LEAST_MS
    return count


def lost(runs: Runs) -> list[str]:
    """Our best run beside the best by hand: CPU, and the calls that began later."""
    ours, hand = (min(runs[way], key=lambda run: run.seconds) for way in (OURS, HAND))
    ms = (ours.seconds - hand.seconds) * 1_000
    cpu, bare = (run.cpu_s * 1_000 / run.calls for run in (ours, hand))
    later = f"{ms:.0f} ms later, {ms / ours.calls:.1f} a call"
    lines = [f"{later}; CPU a call {cpu:.1f} ms, by hand {bare:.1f}"]
    for prompt, behind in sorted(late_ms(runs).items(), key=lambda item: -item[1])[:3]:
        lines.append(f"began {behind} ms later: {prompt[0][1]} …{prompt[-1][1][-40:]!r}")
    return lines


def shares(run: Run, calls: int) -> str:
    """Of a profiled run, by who works: milliseconds of CPU a call."""
    parts = ", ".join(f"{who} {ms / calls:.2f}" for who, ms in run.notes.items())
    return f"CPU ms a call: {parts}"
