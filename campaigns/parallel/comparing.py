"""A parallel run beside its sequential run.

| must be equal                      | may differ                                                |
|------------------------------------|-----------------------------------------------------------|
| what is printed, noted, asked of   | calls of the parallel run that the sequential one does    |
| people and written, in one order   | not make, and what they cost: the waste                   |
| result, or error with its lines    | the time, which is never longer                           |
| files                              | all of it, if waste made a budget too small for something |
| each call with what it was charged | that fits in the sequential run: such programs run again  |
|                                    | with budgets a thousand times larger                      |
|                                    | all of it, if in order it depends on how long answers     |
|                                    | take: of two `async` sends to one process one crashes it  |
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from campaigns.parallel.running import Seen, compiled, run
from campaigns.parallel.trees import Block, shrunk, text_of
from vegakit.lang import Module

__all__ = ["WINDOWS", "Compared", "Difference", "compare", "differences", "smallest"]

WINDOWS = (1, 2, 8, 64)
TEMPOS = (1, 2, 3)
"""In which a program that differs is run in order: in one of them those that race come out another
way."""
_MONEY = re.compile(r"\$0\.(\d+)")
_BROKEN = re.compile(r"crashed\((?!RuntimeError: crash \d)[^)]*\)")
"""Only what the model raises may crash a process; all else is a fault of ours."""


class Difference(NamedTuple):
    window: int
    what: str


class Compared(NamedTuple):
    """`sequential_ms` and `parallel_ms` are on virtual time, with the largest window."""

    found: tuple[Difference, ...] = ()
    excused: int = 0
    races: bool = False
    failed: bool = False
    calls: int = 0
    sequential_ms: int = 0
    parallel_ms: int = 0
    spent: int = 0
    waste: int = 0


def compare(text: str, seed: int, windows: Sequence[int] = WINDOWS) -> Compared:
    module = compiled(text)
    assert module is not None, f"the program of seed {seed} is refused"
    sequential = run(module, seed, 0)
    found: list[Difference] = []
    excused, parallel = 0, sequential
    for window in windows:
        parallel = run(module, seed, window)
        what = differences(sequential, parallel)
        if what and _met_its_cap(sequential, parallel):
            excused += 1
            what = _with_more_money(text, seed, window)
        found += [Difference(window, one) for one in what]
    races = bool(found) and _races(module, seed, sequential)
    return Compared(
        () if races else tuple(found),
        excused,
        races,
        bool(sequential.error),
        len(sequential.charged),
        sequential.took_ms,
        parallel.took_ms,
        sequential.spent,
        _waste(sequential, parallel),
    )


def differences(sequential: Seen, parallel: Seen) -> list[str]:
    found: list[str] = []
    if sequential.log != parallel.log:
        found.append(f"log: {_parted(sequential.log, parallel.log)}")
    for name in ("result", "error"):
        one, other = getattr(sequential, name), getattr(parallel, name)
        if one != other:
            found.append(f"{name}: {one!r}, then {other!r}")
    if sequential.files != parallel.files:
        found.append(f"files: {_changed(sequential.files, parallel.files)}")
    for place, charges in sequential.charged.items():
        if Counter(charges) - Counter(parallel.charged.get(place, [])):
            found.append(f"charged at {place}: {charges}, then {parallel.charged.get(place)}")
            break
    waste = _waste(sequential, parallel)
    if not found and parallel.spent != sequential.spent + waste:
        found.append(f"spent {sequential.spent}, then {parallel.spent} with {waste} wasted")
    if not found and parallel.wasted != waste:
        found.append(f"wasted {waste}, and {parallel.wasted} is reported")
    found += [f"ours: {one}" for one in {*_BROKEN.findall(sequential.told + parallel.told)}]
    if parallel.took_ms > sequential.took_ms:
        found.append(f"took {sequential.took_ms} ms, then {parallel.took_ms} ms")
    return found


def _races(module: Module, seed: int, sequential: Seen) -> bool:
    """Whether in order, too, a program comes to something else when answers take other times."""
    others = (run(module, seed, 0, tempo=tempo) for tempo in TEMPOS)
    return any(_outcome(one) != _outcome(sequential) for one in others)


def _outcome(seen: Seen) -> tuple[object, ...]:
    return seen.log, seen.result, seen.error, seen.files, seen.charged


def _parted(one: list[str], other: list[str]) -> str:
    at = 0
    while at < min(len(one), len(other)) and one[at] == other[at]:
        at += 1
    return f"at {at}: {one[at : at + 2]}, then {other[at : at + 2]}"


def _changed(one: dict[str, str], other: dict[str, str]) -> str:
    names = sorted(name for name in {*one, *other} if one.get(name) != other.get(name))
    return ", ".join(f"{name}: {one.get(name)!r}, then {other.get(name)!r}" for name in names)


def _waste(sequential: Seen, parallel: Seen) -> int:
    return _total(parallel) - _total(sequential)


def _total(seen: Seen) -> int:
    return sum(sum(charges) for charges in seen.charged.values())


def _met_its_cap(sequential: Seen, parallel: Seen) -> bool:
    refused = set(parallel.refused) - set(sequential.refused)
    return bool(refused) and _waste(sequential, parallel) > 0


def _with_more_money(text: str, seed: int, window: int) -> list[str]:
    module = compiled(_MONEY.sub(_a_thousand_times, text))
    assert module is not None
    return differences(run(module, seed, 0, rich=True), run(module, seed, window, rich=True))


def _a_thousand_times(written: "re.Match[str]") -> str:
    digits = written[1].ljust(6, "0")
    return f"${int(digits[:3])}.{digits[3:]}"


def smallest(program: Block, seed: int, window: int, most: int = 400) -> str:
    """Cut down while it still differs in the same way."""
    kinds = {_kind(one) for one in compare(text_of(program), seed, [window]).found[:1]}

    def still(text: str) -> bool:
        if compiled(text) is None:
            return False
        return kinds <= {_kind(one) for one in compare(text, seed, [window]).found}

    return shrunk(program, still, most) if kinds else text_of(program)


def _kind(difference: Difference) -> str:
    return difference.what.split(maxsplit=1)[0]
