"""One of several processes with the same rollout: `python -m tests.vesper.worker STORE CALLS`.

Says a line for each call whose comparison is counted.
"""

import asyncio
import sys

from vegakit.sdk import Runtime
from vegakit.store import SqliteStore
from vegakit.vesper import RolloutRule, rollout


async def double(number: int) -> int:
    return 2 * number


async def shift(number: int) -> int:
    return number << 1


async def main(store: str, calls: int) -> None:
    rule = RolloutRule(calibration=0)
    async with (
        Runtime(store=SqliteStore(store), observable=False) as rt,
        rollout(rt, "double", reference=double, candidate=shift, rule=rule) as doubled,
    ):
        for number in range(calls):
            await doubled(number)
            await doubled.settle()
            print("counted", flush=True)
        print(doubled.status().evidence.production.runs, flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
