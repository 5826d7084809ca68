"""`kill -9` of worker and server at any instant: each call that was asked twice is explained.

`VEGA_KILLS` sets how many kills there are; each is of the worker, of the server, or of both.
"""

import asyncio
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.temporal_server import KillableServer

from tests.durable.accounts import Bill, Scene, audit, audit_shared, make_scene, provider_in
from tests.durable.explaining import Kill, Repeat, check_known, repeats, table_of
from tests.durable.test_kills import PROGRAMS, soon_after_a_call

pytestmark = pytest.mark.timeout(0)
KILLS = int(os.environ.get("VEGA_KILLS", "4"))
LONGEST_LIFE_S = 2.5
CALLS = 20
"""Of each program, two at once: enough for a dozen kills before all are done."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[KillableServer]:
    folder = tmp_path / "temporal"
    folder.mkdir()
    made = KillableServer(folder)
    made.start()
    try:
        yield made
    finally:
        made.kill()


async def test_every_call_asked_twice_was_in_flight_at_a_kill(
    server: KillableServer, tmp_path: Path
) -> None:
    """And the program, the ledger and the provider agree on all of them."""
    began_ms, kills, found = _now_ms(), list[Kill](), list[Repeat]()
    batches = 0
    while len(kills) < KILLS:
        folder = tmp_path / str(batches)
        folder.mkdir()
        with provider_in(folder) as url:
            scene = await make_scene(server.address, folder, url)
            chance, left = random.Random(batches), KILLS - len(kills)
            more, bills = await _killed_at_random(server, scene, chance, left)
            again = repeats(scene, more)
            check_known(again, bills)
        kills, found, batches = kills + more, found + again, batches + 1
        for repeat in again:
            print(repeat.line(began_ms))
        done = f"{len(kills)} kills, {batches * PROGRAMS} programs"
        print(f"{done}, {len(found)} calls asked twice", flush=True)
    who = {name: sum(kill.who == name for kill in kills) for name in ("worker", "server", "both")}
    print(f"\nkills: {who}\ncalls asked twice, by cause, of {batches * PROGRAMS * CALLS}:")
    print(table_of(found))
    assert [repeat for repeat in found if repeat.kill is None] == []


class Worker:
    """One that is started again whenever it has ended, as by whoever runs workers: it also ends by
    itself when no server answers at its start."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._process = scene.start_worker()
        self._keeping = asyncio.ensure_future(self._keep())

    def kill(self) -> None:
        self._process.kill()

    async def aclose(self) -> None:
        self._keeping.cancel()
        self._process.kill()
        await asyncio.to_thread(self._process.join)

    async def _keep(self) -> None:
        while True:
            await asyncio.to_thread(self._process.join)
            self._process = self._scene.start_worker()


async def _killed_at_random(
    server: KillableServer, scene: Scene, chance: random.Random, most: int
) -> tuple[list[Kill], list[Bill]]:
    """Until all programs are done, or there were so many kills."""
    worker, kills = Worker(scene), list[Kill]()
    try:
        firsts = range(0, PROGRAMS * CALLS, CALLS)
        begun = await asyncio.gather(*(scene.ask(2, first, CALLS) for first in firsts))
        waiting = {asking for _, asking in begun}
        while waiting and len(kills) < most:
            if chance.random() < 0.7:
                waiting = await soon_after_a_call(scene, waiting, chance)
            else:
                _, waiting = await asyncio.wait(
                    waiting, timeout=chance.uniform(0.1, LONGEST_LIFE_S)
                )
            if not waiting:
                break
            kills.append(Kill(_now_ms(), chance.choice(["worker", "server", "both"])))
            if kills[-1].who != "server":
                worker.kill()
            if kills[-1].who != "worker":
                server.kill()
                await asyncio.to_thread(server.start)
                kills[-1] = kills[-1]._replace(until_ms=_now_ms())
        told = zip(begun, firsts, strict=True)
        found = [
            await audit(scene, program, await asking, at, CALLS) for (program, asking), at in told
        ]
        audit_shared(scene, found)
        return kills, found
    finally:
        await worker.aclose()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
