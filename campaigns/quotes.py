"""How close quotes are: `python -m campaigns.quotes [PROGRAMS] [FIRST]`; and how they fall while a
program runs: `python -m campaigns.quotes live [RUNS] [FIRST]`.

Random programs, each quoted and then run by a model that makes it as expensive as it can: billed
failures, answers that do not fit, the longest lists and messages, as many steps and tools as there
may be, and here and there less of it, so that one more call fits a budget. Prints quoted to spent
of the most expensive run of each, and exits 1 when one is below 1 (the quote was wrong), or when
more than one of a hundred is above 1.5 (they say little). Left out are programs with a send that no
budget of theirs could ever pay, which `vega cost` names, and those that can spend nothing. The
search for a more expensive run of a program ends when one comes close; of many programs, when one
is close enough.

With `live` each is run once, by a model that bills little here and there: what the run may come to
at most must only fall, and never be below what it comes to.
"""

import sys
from collections.abc import Iterator
from statistics import mean, median

from benchmarks.figures import Figure, show
from tests.lang.quoting.running import Came, generous_run, worst_of
from tests.lang.quoting.writing import Writer

__all__ = ["main"]

MOST, CLOSE = 1.5, 1.15
TRIES, MORE, MANY = 24, 150, 500


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
    most = values[-(-99 * len(values) // 100) - 1]
    figures = [
        Figure("programs", f"{len(values):,}", f"of {programs:,} written"),
        Figure("spent or called more than quoted", f"{wrong}", "= 0", wrong == 0),
        Figure("quoted to spent, least", f"{values[0]:.3f}", "≥ 1", values[0] >= 1),
        Figure("median", f"{median(values):.3f}"),
        Figure("99 of 100", f"{most:.3f}", f"≤ {MOST}", most <= MOST),
        Figure("most", f"{values[-1]:.3f}"),
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


def live(runs: int = 1_000, first: int = 0) -> int:
    """Runs that a bound holds for, of programs with budgets and without."""
    wrong, shares = list[int](), list[float]()
    for seed in range(first, first + runs):
        came = generous_run(Writer(seed, is_fair=bool(seed % 2)).program(), seed)
        if not came.quote.total:
            continue
        if not came.live_holds:
            wrong.append(seed)
            print(f"program {seed}: {came}")
        if came.quote.total > came.spent:
            shares.append((came.quote.total - came.live[-1]) / (came.quote.total - came.spent))
    falls = sum(share > 0 for share in shares)
    figures = [
        Figure("runs", f"{runs:,}"),
        Figure("rose, or fell below what was spent", f"{len(wrong)}", "= 0", not wrong),
        Figure("fell before the end", f"{falls / len(shares):.0%}"),
        Figure("by how much of what was not spent, on average", f"{mean(shares):.0%}"),
    ]
    print(show(figures))
    return 0 if all(figure.holds for figure in figures) else 1


if __name__ == "__main__":
    run, numbers = (live, sys.argv[2:4]) if sys.argv[1:2] == ["live"] else (main, sys.argv[1:3])
    sys.exit(run(*map(int, numbers)))
