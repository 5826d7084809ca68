"""`python -m benchmarks`: decisions, each beside its limit; exits 1 when one falls short.

Limits are microseconds on a 2-core cloud machine, held as ratios to a bare function call, which
takes about 50 ns there: a faster or busier machine moves both. What falls short is measured again
with its bare call, a few times: a neighbour that comes or goes between the two moves only one.
"""

import platform
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

from benchmarks import decisions
from benchmarks.timing import ns_per_step

BARE_CALL_US = 0.05
STEPS, ATTEMPTS = 50, 8


class Case(NamedTuple):
    name: str
    steps: Callable[[], Iterator[object]]
    limit_us: float


CASES = [
    Case("budget: reserve, send, settle in 3 scopes", decisions.budget_round, 10),
    Case("breaker: admit and report", decisions.breaker_round, 2),
    Case("rate: admit and release", decisions.rate_round, 3),
]


class Measured(NamedTuple):
    ratio: float
    ns: float


def measured(case: Case, limit: float) -> Measured:
    best = Measured(float("inf"), 0)
    for _ in range(ATTEMPTS):
        bare = ns_per_step(decisions.bare_call, STEPS)
        ns = ns_per_step(case.steps, STEPS)
        best = min(best, Measured(ns / bare, ns))
        if best.ratio <= limit:
            break
    return best


def main() -> int:
    bare = ns_per_step(decisions.bare_call, STEPS)
    print(f"Python {platform.python_version()}, {platform.machine()}; bare call {bare:.0f} ns\n")
    print(f"{'decision':<44} {'ops/s':>10} {'µs':>7} {'× bare':>7} {'limit':>6}")
    short = 0
    for case in CASES:
        limit = case.limit_us / BARE_CALL_US
        ratio, ns = measured(case, limit)
        verdict = "ok" if ratio <= limit else "SHORT"
        short += verdict != "ok"
        figures = f"{1e9 / ns:>10,.0f} {ns / 1000:>7.2f} {ratio:>7.0f} {limit:>6.0f}"
        print(f"{case.name:<44} {figures}  {verdict}")
    return int(short > 0)


if __name__ == "__main__":
    sys.exit(main())
