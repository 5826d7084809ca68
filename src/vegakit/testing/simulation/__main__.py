"""Simulates so many seeds from the first on, and prints figures last."""

import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from vegakit.testing.simulation.seeds import Tally, run_seeds

_PIECE = 50


def main(seeds: int, first: int = 0) -> int:
    """Exit code 1 if an invariant broke; the seeds that break one are printed."""
    began = time.monotonic()
    total = Tally()
    pieces = [
        range(at, min(at + _PIECE, first + seeds)) for at in range(first, first + seeds, _PIECE)
    ]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for tally in pool.map(run_seeds, pieces):
            total.add(tally)
            for failure in tally.failures:
                _say(failure)
    for kind, count in Counter(total.faults).most_common():
        _say(f"{count:>9,}  {kind}")
    seconds = time.monotonic() - began
    _say(
        f"{total.seeds:,} seeds, {total.steps:,} steps, {sum(total.faults.values()):,} faults of "
        f"{len(total.faults)} kinds, {len(total.failures)} failures, {seconds:.1f} s"
    )
    return int(bool(total.failures))


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
