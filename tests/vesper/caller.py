"""A worker that calls without end: `python -m tests.vesper.caller DSN SAMPLE`.

For each call it prints when it began, by a clock that all processes of a machine share, and which
path answered. It ends at a line on its standard input, and says how often the candidate ran: so
many comparisons there are with a sample of 1, by which every call is compared.
"""

import asyncio
import sys
import time
from typing import Any

from vegakit.sdk import Runtime
from vegakit.store import PostgresStore
from vegakit.vesper import Comparison, RolledOut, RolloutRule, rollout

SCHEMA, WRONG = "calls", 13


async def reference(number: int) -> tuple[str, int]:
    return "reference", 2 * number


ran: list[int] = []


async def candidate(number: int) -> tuple[str, int]:
    ran.append(number)
    return "candidate", 2 * number + (number == WRONG)


def opened(rt: Runtime, sample: float = 1.0) -> RolledOut[..., tuple[str, int]]:
    """Answers say who gave them, and are compared without that."""
    rule = RolloutRule(calibration=0, sample=sample)
    same = Comparison("numbers", _is_same)
    return rollout(rt, "double", reference=reference, candidate=candidate, compare=same, rule=rule)


def _is_same(one: Any, other: Any) -> bool:
    return one[1] == other[1]


def runtime(dsn: str) -> Runtime:
    return Runtime(store=PostgresStore(dsn, schema=SCHEMA), observable=False)


async def main(dsn: str, sample: float) -> None:
    async with runtime(dsn) as rt, opened(rt, sample) as double:
        while await asyncio.to_thread(sys.stdin.readline):
            began = time.monotonic()
            who, _ = await double(1)
            print(began, who, flush=True)
    print(len(ran), "ran")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2])))
