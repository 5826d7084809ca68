"""Parallel is sequential: `python -m campaigns.parallel [PROGRAMS | full] [agreement]`.

Random programs run in order and with windows of several sizes; what `vega explain` tells of them
beside what was in flight together; the same programs again with faults
planted in what looks ahead, each of which must be found; graphs of calls against the shortest time
that there is; and what a window costs a program that only computes. With `agreement` only what is
told beside what was in flight. Prints its figures last, and exits 1 when one falls short.
"""

import gc
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor

from benchmarks.figures import Figure, show
from tests.parallel.faults import FAULTS, MOST, first_found

from campaigns.parallel.explained import (
    Explained,
    explain_and_run_written,
    explained,
    smallest_disagreement,
    written_programs,
)
from campaigns.parallel.makespan import Span, measure
from campaigns.parallel.searching import Looked, search, shown
from campaigns.parallel.speed import cost_of_window

PROGRAMS, ALL_PROGRAMS = 1_000, 10_000
MOST_GRAPHS = 1_000
WINDOW = 64
MOST_OVER_SHORTEST = 1.02
MOST_OVER_SCHEDULE = 1.10
MOST_EXCUSED = 0.05
MOST_OVERTAKEN = 0.04
MOST_RACES = 0.001
"""Of programs; one of 10,000 was seen. More would be an excuse for what differs."""
MOST_SHOWN = 10


def main(*words: str) -> int:
    full = "full" in words
    programs = next((int(word) for word in words if word.isdigit()), PROGRAMS)
    programs = ALL_PROGRAMS if full else programs
    began = time.monotonic()
    # What was imported stays, so nobody has to look for it among what can be freed.
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), initializer=gc.freeze) as pool:
        agreeing = [*_agreement(explained(range(programs), pool)), *_written()]
        figures = (
            agreeing if "agreement" in words else [*_runs(programs, pool, full=full), *agreeing]
        )
    print(show(figures))
    print(f"{time.monotonic() - began:.0f} s in all")
    return int(not all(figure.holds for figure in figures))


def _runs(programs: int, pool: Executor, *, full: bool) -> Iterator[Figure]:
    looked = search(range(programs), full=full, pool=pool)
    if differing := [one for one in looked if one.compared.found]:
        print(shown(differing))
    yield from _programs(looked, len(differing))
    yield from _faults(pool)
    yield from _spans(measure(range(min(programs, MOST_GRAPHS)), pool))
    yield cost_of_window(WINDOW)


def _programs(looked: list[Looked], differing: int) -> Iterator[Figure]:
    all_ = [one.compared for one in looked]
    runs, calls = sum(1 + len(one.windows) for one in looked), sum(one.calls for one in all_)
    yield Figure("programs, each run in order and with windows", f"{len(looked):,}")
    yield Figure("of them ended in an error", f"{sum(one.failed for one in all_):,}")
    yield Figure("runs / calls of the runs in order", f"{runs:,} / {calls:,}")
    yield Figure("programs that differ, or take longer", f"{differing}", "0", not differing)
    excused = sum(one.excused for one in all_)
    most = f"≤ {MOST_EXCUSED:.0%} of runs"
    holds = excused <= MOST_EXCUSED * runs
    yield Figure("runs whose waste met a cap, equal with more money", f"{excused}", most, holds)
    races = sum(one.races for one in all_)
    most = f"≤ {MOST_RACES:.2%} of programs"
    holds = races <= max(1, MOST_RACES * len(looked))
    yield Figure("programs whose result in order depends on time", f"{races}", most, holds)
    faster = sum(one.sequential_ms for one in all_) / sum(one.parallel_ms for one in all_)
    yield Figure("quicker on virtual time, window 64", f"{faster:.2f} ×")
    share = sum(one.waste for one in all_) / sum(one.spent for one in all_)
    yield Figure("waste, of what was spent in order", f"{share:.1%}")


def _agreement(looked: list[Explained]) -> Iterator[Figure]:
    runs = [run for one in looked for run in one.runs]
    if disagreeing := [one for one in looked if one.found]:
        print("\n".join(f"// seed {one.seed}: {one.found[0]}" for one in disagreeing[:MOST_SHOWN]))
        text, found = smallest_disagreement(disagreeing[0].seed)
        print("\n".join(f"// {one}" for one in found), text, sep="\n")
    yield Figure("programs explained and run / runs", f"{len(looked):,} / {len(runs):,}")
    name, found = "programs where explain and the run disagree", f"{len(disagreeing)}"
    yield Figure(name, found, "0", not disagreeing)
    waited = sum(run.waited for run in runs)
    yield Figure("pairs of calls that wait as told", f"{waited:,}")
    yield Figure("pairs that run beside each other as told", f"{sum(run.beside for run in runs):,}")
    again = sum(run.again for run in runs)
    began = sum(run.on_time for run in runs)
    yield Figure("calls begun when told / given up and made again", f"{began:,} / {again:,}")
    overtaken, untold = Counter[str](), Counter[str]()
    for run in runs:
        overtaken += run.overtaken
        untold += run.untold
    share = overtaken.total() / max(waited + overtaken.total(), 1)
    for why, count in overtaken.most_common():
        yield Figure(f"pairs that overlap though told to wait: {why}", f"{count:,}")
    most = f"≤ {MOST_OVERTAKEN:.0%} of pairs"
    yield Figure("all of these", f"{share:.2%}", most, share <= MOST_OVERTAKEN)
    for why, count in untold.most_common():
        yield Figure(f"calls held to nothing: {why}", f"{count:,}")


def _written() -> Iterator[Figure]:
    looked = {name: explain_and_run_written(text) for name, text in written_programs()}
    ran = {name: one for name, one in looked.items() if not isinstance(one, str)}
    if found := {name: one.found for name, one in ran.items() if one.found}:
        print(*found.items(), sep="\n")
    yield Figure("programs of tests, examples and documents, explained and run", f"{len(ran)}")
    yield Figure("of them disagree", f"{len(found)}", "0", not found)
    left_out = Counter(one for one in looked.values() if isinstance(one, str))
    for why, count in left_out.most_common():
        yield Figure(f"left out: {why}", f"{count}")


def _faults(pool: Executor) -> Iterator[Figure]:
    for name, first in zip(FAULTS, pool.map(first_found, FAULTS), strict=True):
        value = f"not in {MOST}" if first is None else f"after {first}"
        yield Figure(f"fault: {name}", value, f"≤ {MOST} programs", first is not None)


def _spans(spans: list[Span]) -> Iterator[Figure]:
    longer = sum(one.parallel_ms > one.shortest_ms for one in spans)
    yield Figure("graphs / longer than their longest way", f"{len(spans):,} / {longer}")
    worst = max(one.parallel_ms / max(one.shortest_ms, 1) for one in spans)
    yield _ratio("graphs: the worst, over its longest way", worst, MOST_OVER_SHORTEST)
    in_slots = sum(one.in_slots_ms for one in spans)
    best = in_slots / sum(one.scheduled_ms for one in spans)
    yield _ratio("in 2 to 8 slots, over a list schedule", best, MOST_OVER_SCHEDULE)
    unforeseen = in_slots / sum(one.unforeseen_ms for one in spans)
    yield Figure("the same, over one that foresees no times", f"{unforeseen:.3f} ×")
    faster = sum(one.sequential_ms for one in spans) / sum(one.parallel_ms for one in spans)
    yield Figure("in order, over parallel", f"{faster:.2f} ×")


def _ratio(name: str, value: float, most: float) -> Figure:
    return Figure(name, f"{value:.3f} ×", f"≤ {most:.2f} ×", value <= most)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
