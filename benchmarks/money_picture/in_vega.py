"""A Python program that asks 250 pages under a cap of $1, five at a time: `python -m … URL FILE`.

Every 20 ms it writes the time, what it has spent and what it has left as a line of FILE.
"""

import asyncio
import sys
import time
from pathlib import Path

from vegakit import Agent, BudgetExceeded, Runtime, map_all
from vegakit.providers import ProviderAccess, build_model

__all__ = ["CAP", "MAX_TOKENS", "MODEL", "PAGES", "live"]

CAP = 1.0
MODEL = "gpt-4.1"
MAX_TOKENS = 3_000
PAGES = 250
SAMPLE_S = 0.02


async def live(url: str, samples: Path) -> None:
    access = ProviderAccess(lambda: "any", base_url=f"{url}/v1")
    reader = Agent(
        "reader", model=build_model(f"openai-chat:{MODEL}", access), max_tokens=MAX_TOKENS
    )
    async with Runtime(budget=CAP, journal="run.db") as rt:
        sampler = asyncio.create_task(sample(rt, samples))
        try:
            await map_all(
                lambda page: rt.ask(reader, f"Read page {page}."), range(PAGES), concurrency=5
            )
        except BudgetExceeded as refusal:
            print(refusal)
        await asyncio.sleep(SAMPLE_S * 2)
        sampler.cancel()


async def sample(rt: Runtime, samples: Path) -> None:
    with samples.open("a") as lines:
        while True:
            spent, left = await rt.spent(), await rt.remaining()
            print(time.time(), spent.usd, left.usd if left else 0, file=lines, flush=True)
            await asyncio.sleep(SAMPLE_S)


if __name__ == "__main__":
    asyncio.run(live(sys.argv[1], Path(sys.argv[2])))
