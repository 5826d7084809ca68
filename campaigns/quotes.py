"""How close quotes are: `python -m campaigns.quotes [PROGRAMS] [FIRST]`.

Random programs, each quoted and then run by a model that makes it as dear as it can: billed
failures, answers that do not fit, the longest lists and messages, as many steps and tools as there
may be, and here and there less of it, so that one more call fits a budget. Prints quoted to spent
of the most expensive run of each, and exits 1 when one is below 1 (the quote was wrong) or above
1.5 (it says little). Left out are programs with a send that no budget of theirs could ever pay,
which `vega cost` names, and those that can spend nothing. The search for a dearer run of a
program ends when one comes close; of many programs, when one is close enough.
"""

import sys
from collections.abc import Iterator
from statistics import median

from benchmarks.figures import Figure, show
from tests.lang.quoting.running import Came, worst_of
from tests.lang.quoting.writing import Writer

__all__ = ["main"]

MOST, CLOSE = 1.5, 1.15
TRIES, MORE, MANY = 24, 400, 500


def main(programs: int = 200, first: int = 0) -> int:
    ratios: dict[int, float] = {}
    wrong = 0
    close = CLOSE if programs <= MANY else MOST
    for seed, came in _worst_runs(range(first, first + programs), close):
        ratios[seed] = came.ratio or 1.0
        wrong += not came.holds
        if not came.holds or ratios[seed] > MOST:
            print(f"program {seed}: {ratios[seed]:.2f}, {came}")
    values = sorted(ratios.values())
    figures = [
        Figure("programs", f"{len(values):,}", f"of {programs:,} written"),
        Figure("spent or called more than quoted", f"{wrong}", "= 0", wrong == 0),
        Figure("quoted to spent, least", f"{values[0]:.3f}", "≥ 1", values[0] >= 1),
        Figure("median", f"{median(values):.3f}"),
        Figure("99 of 100", f"{values[int(0.99 * (len(values) - 1))]:.3f}"),
        Figure("most", f"{values[-1]:.3f}", f"≤ {MOST}", values[-1] <= MOST),
    ]
    print(show(figures))
    return 0 if all(figure.holds for figure in figures) else 1


def _worst_runs(seeds: range, close: float) -> Iterator[tuple[int, Came]]:
    for seed in seeds:
        text = Writer(seed, is_fair=True).program()
        came = worst_of(text, TRIES, enough=close)
        if not came.is_payable or not came.quote.total:
            continue
        if came.ratio is not None and came.ratio > MOST:
            came = worst_of(text, MORE, enough=MOST)
        yield seed, came


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:3])))
