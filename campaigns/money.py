"""Rows G2, G3, G4 and PostgreSQL of G18 one after the other: `python -m campaigns.money [full]`.

Prints what each measured, and last a line for each. Exits 1 if one of them falls short.
"""

import sys
import time
from collections.abc import Callable
from typing import NamedTuple

from campaigns import money_cancels, money_caps, money_kills, money_retries, postgres_outage

__all__ = ["main"]


class Part(NamedTuple):
    """`small` and `full` are how much of it."""

    name: str
    run: Callable[[int], int]
    small: int
    full: int


PARTS = (
    Part("G2 caps: seeds", money_caps.main, 3, 100),
    Part("G3 cancels", money_cancels.main, 500, 10_000),
    Part("G3 kills", money_kills.main, 12, 200),
    Part("G4 requests: questions of each kind", money_retries.main, 5, 100),
    Part("G18 PostgreSQL goes away: callers", postgres_outage.main, 40, 1_000),
)


def main(*, full: bool = False) -> int:
    lines: list[str] = []
    short = 0
    for part in PARTS:
        size, started = part.full if full else part.small, time.monotonic()
        missed = part.run(size)
        short += missed
        took_s = time.monotonic() - started
        lines.append(f"{part.name:<36} {size:>6} {took_s:6.0f} s  {'SHORT' if missed else 'ok'}")
    print("", *lines, sep="\n")
    return int(short > 0)


if __name__ == "__main__":
    match sys.argv[1:]:
        case [] | [""]:
            sys.exit(main())
        case ["full"]:
            sys.exit(main(full=True))
        case _:
            sys.exit("usage: python -m campaigns.money [full]")
