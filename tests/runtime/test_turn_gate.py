"""Many that begin at once leave others their turns, and begin in the order in which they came."""

import asyncio
from contextlib import suppress
from itertools import pairwise

from vegakit.concurrency import TurnGate

MOST_MS = 5


class _Work:
    """Each piece takes a millisecond, on a clock of its own."""

    def __init__(self) -> None:
        self.now = 0
        self.gate = TurnGate(lambda: self.now, MOST_MS)
        self.begun: list[int] = []

    async def begin(self, number: int) -> None:
        await self.gate.enter()
        self.now += 1
        self.begun.append(number)


async def test_each_turn_takes_about_as_long_as_it_may() -> None:
    work, looks = _Work(), [0]
    tasks = [asyncio.ensure_future(work.begin(number)) for number in range(300)]
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        looks.append(work.now)
    assert work.begun == [*range(300)]
    assert max(after - before for before, after in pairwise(looks)) <= 2 * MOST_MS


async def test_one_alone_waits_for_nobody() -> None:
    work = _Work()
    coroutine = work.begin(0)
    with suppress(StopIteration):
        coroutine.send(None)
    assert work.begun == [0]


async def test_who_gives_up_keeps_nobody_waiting() -> None:
    work = _Work()
    tasks = [asyncio.ensure_future(work.begin(number)) for number in range(100)]
    await asyncio.sleep(0)
    for task in tasks[20:80]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert work.begun == [*range(20), *range(80, 100)]
