"""How long tests wait for what must come: long, since only a failure waits it out.

A verdict must not hang on how fast the machine is; how long things take is measured in benchmarks.
"""

import asyncio
import os
from collections.abc import Callable

PATIENCE_S = 30.0
"""Tests that look for a planted fault set less: there it is the usual end."""
GONE_S = float(os.environ.get("VEGA_GONE_S", PATIENCE_S))
"""For what a kill takes along. On a quiet machine, VEGA_GONE_S=1 holds the second we promise."""


async def until(fact: Callable[[], object], within_s: float | None = None) -> None:
    """Looks until it is so: nobody tells."""
    async with asyncio.timeout(within_s or PATIENCE_S):
        while not fact():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
