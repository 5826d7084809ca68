"""`kill -9` of the worker at any instant: nothing is lost, wrong, or bought twice unknown.

`VEGA_KILLS` sets how many random kills there are; several programs run under each.
"""

import asyncio
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.durable import accounts
from tests.durable.accounts import (
    CALLS,
    Bill,
    Scene,
    audit,
    audit_shared,
    is_unknown,
    make_scene,
    provider_in,
)
from tests.durable.dying import POINTS, received
from tests.patience import until
from tests.store.postgres import own_schema

KILLS = int(os.environ.get("VEGA_KILLS", "10"))
pytestmark = pytest.mark.timeout(300 + 10 * KILLS)
PROGRAMS = 6
SHORTEST_LIFE_S, LONGEST_LIFE_S, SOON_S = 0.1, 3.5, 0.06
"""After a kill, programs stand still for two seconds; a call takes a bit longer than `SOON_S`."""

EXPECTED = {
    #                 requests, claims, cut off in the ledger, unknown to the program
    "before claim": (CALLS, CALLS, 0, 0),
    "after claim": (CALLS, CALLS + 1, 1, 1),
    "after send": (CALLS + 1, CALLS + 1, 1, 1),
    "after response": (CALLS + 1, CALLS + 1, 1, 1),
    "after settling": (CALLS + 1, CALLS + 1, 0, 1),
    "after record": (CALLS, CALLS, 0, 0),
}


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[str]:
    with provider_in(tmp_path) as url:
        yield url


@pytest.fixture
def schema() -> Iterator[str]:
    with own_schema() as name:
        yield name


@pytest.mark.parametrize("nth", [2, 5])
@pytest.mark.parametrize("point", POINTS)
async def test_a_kill_at_a_named_point(
    temporal: str, tmp_path: Path, provider: str, point: str, nth: int
) -> None:
    """Exactly what was in flight is unknown, and only that is sent again."""
    scene = await make_scene(temporal, tmp_path, provider)
    assert figures_of(await killed_at(scene, point, nth)) == EXPECTED[point]


@pytest.mark.parametrize("point", POINTS)
async def test_the_shared_budget_may_be_on_postgresql(
    temporal: str, tmp_path: Path, provider: str, schema: str, point: str
) -> None:
    """Workers on any machine reserve from it."""
    scene = await make_scene(temporal, tmp_path, provider, schema)
    assert figures_of(await killed_at(scene, point, 3)) == EXPECTED[point]


@pytest.mark.parametrize("point", ["after send", "after record"])
async def test_a_silent_resend_is_found(
    temporal: str, tmp_path: Path, provider: str, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the account, or because the ledger does not let the same call be claimed twice."""
    monkeypatch.setattr(accounts, "FAULT", "resends")
    scene = await make_scene(temporal, tmp_path, provider)
    with pytest.raises((AssertionError, TimeoutError)):
        async with asyncio.timeout(30):
            assert figures_of(await killed_at(scene, point, 2)) == EXPECTED[point]


async def killed_at(scene: Scene, point: str, nth: int) -> Bill:
    worker = scene.start_worker(f"{point}|{nth}")
    try:
        program, asking = await scene.ask(at_once=1)
        await asyncio.to_thread(worker.join)
        assert worker.exitcode == -9
        worker = scene.start_worker()
        found = await audit(scene, program, await asking)
        audit_shared(scene, [found])
        return found
    finally:
        worker.kill()
        worker.join()


def figures_of(found: Bill) -> tuple[int, int, int, int]:
    states = [state for claims in found.claims.values() for state, _ in claims]
    unknown = [o for outcomes in found.outcomes.values() for o in outcomes if is_unknown(o)]
    return found.requests.total(), len(states), states.count("unknown"), len(unknown)


async def test_kills_at_any_moment(temporal: str, tmp_path: Path) -> None:
    """Two calls of each program at once, so that several may be cut off."""
    kills, batches, unknown = 0, 0, 0
    while kills < KILLS:
        folder = tmp_path / str(batches)
        folder.mkdir()
        with provider_in(folder) as url:
            scene = await make_scene(temporal, folder, url)
            more, found = await killed_at_random(scene, random.Random(batches), KILLS - kills)
        kills, batches = kills + more, batches + 1
        unknown += sum(figures_of(each)[3] for each in found)
        print(f"{kills} kills of {batches * PROGRAMS} programs, {unknown} calls cut off in flight")
    assert unknown > 0


async def test_kills_with_a_ledger_on_postgresql(
    temporal: str, tmp_path: Path, provider: str, schema: str
) -> None:
    """The same, with the money of all programs in one place that outlives the machine."""
    scene = await make_scene(temporal, tmp_path, provider, schema)
    kills, _ = await killed_at_random(scene, random.Random(0), 4)
    assert kills > 0


async def killed_at_random(
    scene: Scene, chance: random.Random, most: int
) -> tuple[int, list[Bill]]:
    """Until all programs are done, or it was killed so often."""
    worker, kills = scene.start_worker(), 0
    try:
        firsts = range(0, PROGRAMS * CALLS, CALLS)
        begun = await asyncio.gather(*(scene.ask(2, first) for first in firsts))
        waiting = {asking for _, asking in begun}
        while waiting and kills < most:
            if kills == 0 or chance.random() < 0.2:
                waiting = await soon_after_a_call(scene, waiting, chance)
            else:
                life_s = chance.uniform(SHORTEST_LIFE_S, LONGEST_LIFE_S)
                _, waiting = await asyncio.wait(waiting, timeout=life_s)
            if waiting:
                worker.kill()
                worker.join()
                worker, kills = scene.start_worker(), kills + 1
        told = zip(begun, firsts, strict=True)
        found = [await audit(scene, program, await asking, at) for (program, asking), at in told]
        audit_shared(scene, found)
        return kills, found
    finally:
        worker.kill()
        worker.join()


async def soon_after_a_call(
    scene: Scene, waiting: "set[asyncio.Future[Any]]", chance: random.Random
) -> "set[asyncio.Future[Any]]":
    """Has reached the provider in this life, however long the worker took to begin; or when all are
    done. Who still waits then."""
    log = scene.folder / "provider.jsonl"
    before = received(log)
    await until(lambda: received(log) > before or all(one.done() for one in waiting), 120)
    waiting = {one for one in waiting if not one.done()}
    if waiting:
        _, waiting = await asyncio.wait(waiting, timeout=chance.uniform(0, SOON_S))
    return waiting
