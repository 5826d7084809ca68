"""`python -m benchmarks.speedups`: ten programs by four ways, over sockets, at 0.2 to 1 s a call.

Prints one table of speed-ups over one call after the other, and its figures last; exits 1 when one
falls short or a framework does not run. `bash benchmarks/speedups/setup.sh` installs the
frameworks; `--without NAME` leaves one out, `--quick` only compares what the ways do.
"""

import argparse
import os
import platform
import sys
from collections.abc import Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from benchmarks.figures import Figure, show
from benchmarks.speedups.answers import Answers
from benchmarks.speedups.cases import CASES
from benchmarks.speedups.comparing import (
    LEAST_RATIO,
    Measured,
    differences,
    lost,
    row,
    shares,
    waste,
)
from benchmarks.speedups.running import Lane, NotRunningError, Run, lane_of
from benchmarks.speedups.ways import HAND, IN_TURN, OURS, PLANTED, PROFILED, WAYS, Way
from vegakit.testing import Provider

__all__ = ["main"]

ROUNDS = 3
PEERS = [name for name, way in WAYS.items() if way.is_peer]
Runs = dict[str, list[Run]]


class Opened(NamedTuple):
    lanes: dict[str, Lane]
    failed: dict[str, str]


@contextmanager
def _opened(ways: Mapping[str, Way], provider: Provider) -> Generator[Opened]:
    with ExitStack() as stack:
        opened = Opened({}, {})
        for name, way in ways.items():
            try:
                opened.lanes[name] = stack.enter_context(lane_of(way, provider))
            except NotRunningError as error:
                opened.failed[name] = str(error)
        yield opened


def _run_all(opened: Opened, cases: Iterable[str]) -> dict[str, Runs]:
    """Each program once by each way, without waiting: warm afterwards, and compared."""
    runs: dict[str, Runs] = {case: {} for case in cases}
    for name, lane in list(opened.lanes.items()):
        try:
            found = {case: [lane.run(case)] for case in runs}
        except NotRunningError as error:
            opened.failed[name] = str(error)
            del opened.lanes[name]
        else:
            for case, run in found.items():
                runs[case][name] = run
    return runs


def _measure(lanes: Mapping[str, Lane], case: str, rounds: int) -> Runs:
    """Ways take turns; in turn it is run once, since waiting is all it does."""
    runs: Runs = {name: [] for name in lanes}
    for number in range(rounds):
        for name, lane in lanes.items():
            if name != IN_TURN or number == 0:
                runs[name].append(lane.run(case))
    return runs


def _profile(cases: list[str], provider: Provider, compared: Mapping[str, Runs]) -> None:
    """Where the CPU time goes of programs that fell short."""
    if not cases:
        return
    try:
        with lane_of(PROFILED, provider) as lane:
            for case in cases:
                calls = compared[case][IN_TURN][0].calls
                print(f"{case}: {shares(lane.run(case), calls)}")
    except NotRunningError as error:
        print(f"where CPU time goes is not known: {error}")


def _table(measured: Mapping[str, Measured], lanes: Mapping[str, Lane]) -> str:
    ways = [name for name in lanes if name != IN_TURN]
    head = f"{'':<10} {'calls':>5} " + "".join(f"{name:>11}" for name in ways)
    lines = [head + f"{'ours : by hand':>17}{'median':>8}"]
    for case, found in measured.items():
        speedups = "".join(f"{found.speedups[name]:>10.2f}x" for name in ways)
        lines.append(
            f"{case:<10} {found.calls:>5} {speedups}{found.best:>17.3f}{found.median:>8.3f}"
        )
    return "\n".join(lines)


def _figures(compared: Mapping[str, Runs], measured: Mapping[str, Measured]) -> list[Figure]:
    unlike = {case: differences(runs) for case, runs in compared.items()}
    for case, found in unlike.items():
        for line in found[:3]:
            print(f"{case}: {line}")
    wasted = [waste(runs) for runs in compared.values()]
    calls, nanos = (sum(each) for each in zip(*wasted, strict=True))
    same = sum(not found for found in unlike.values())
    figures = [
        Figure("programs alike by all ways", f"{same}", f"{len(unlike)}", same == len(unlike)),
        Figure("calls begun ahead for nothing", f"{calls}", "0", calls == 0),
        Figure("spent otherwise than in turn", f"{nanos} n$", "0", nanos == 0),
    ]
    if not measured:
        return figures
    held_up = sum(found.held_up for found in measured.values())
    worst = min(measured, key=lambda case: measured[case].best)
    low = measured[worst]
    name = f"speed beside by hand, worst ({worst})"
    return [
        *figures,
        Figure("calls that waited for another in vain", f"{held_up}", "0", held_up == 0),
        Figure(name, f"{low.best:.3f}", f"≥ {LEAST_RATIO}", low.holds),
    ]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speedups")
    parser.add_argument("--without", action="append", default=[], choices=PEERS, metavar="NAME")
    parser.add_argument("--only", action="append", choices=list(CASES), metavar="PROGRAM")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--quick", action="store_true", help="compare, without waiting or timing")
    parser.add_argument("--plant", choices=list(PLANTED), help="a fault, which has to be seen")
    return parser.parse_args()


def main() -> int:
    options = _arguments()
    ways = {**WAYS, **PLANTED.get(options.plant, {})}
    ways = {name: way for name, way in ways.items() if name not in options.without}
    cases: list[str] = options.only or list(CASES)
    answers = Answers()
    with (
        Provider(answers).in_thread() as provider,
        _opened(ways, provider) as opened,
    ):
        lanes, failed = opened
        answers.is_quick = True
        compared = _run_all(opened, cases)
        answers.is_quick = False
        for needed in (OURS, IN_TURN, HAND):
            if needed in failed:
                print(f"{needed} does not run: {failed[needed]}")
                print("type: just setup, or look at one alone: --quick --only review")
                return 1
        measured = dict[str, Measured]()
        for case in cases if not options.quick else ():
            runs = _measure(lanes, case, options.rounds)
            measured[case] = row(runs)
            compared[case] = {name: [*compared[case][name], *runs[name]] for name in lanes}
            if not measured[case].holds:
                print("\n".join(f"{case}: {line}" for line in lost(runs)))
        answers.is_quick = True
        _profile([case for case, found in measured.items() if not found.holds], provider, compared)
    return _report(lanes, failed, compared, measured)


def _report(
    lanes: Mapping[str, Lane],
    failed: Mapping[str, str],
    compared: Mapping[str, Runs],
    measured: Mapping[str, Measured],
) -> int:
    versions = ", ".join(f"{name} {lane.version}" for name, lane in lanes.items())
    load = os.getloadavg()[0]
    print(
        f"\nPython {platform.python_version()}, {platform.machine()}, load {load:.1f}; {versions}"
    )
    for name, why in failed.items():
        print(f"{name} does not run: {why}; type: bash benchmarks/speedups/setup.sh")
        print(f"or leave it out: --without {name}")
    if measured:
        print(f"\nspeed-up over one call after the other\n{_table(measured, lanes)}")
    figures = [
        *_figures(compared, measured),
        *(Figure(name, "did not run", holds=False) for name in failed),
    ]
    print(f"\n{show(figures)}")
    return int(not all(figure.holds for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
