"""`kill -9` of the worker at any instant: nothing is lost, wrong, or bought twice unknown.

The provider runs in a process of its own and keeps its own log of requests. `VEGA_KILLS` sets how
many random kills there are.
"""

import asyncio
import os
import random
import secrets
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from tests.durable.dying import POINTS
from tests.durable.nursery import start_worker
from tests.durable.oracle import answer_to, number_in, usage_of
from tests.durable.warm import PRICE
from vegakit.durable import Connection, ProgramHandle, connect
from vegakit.durable.messages import Performed, Work
from vegakit.effects import CallModel
from vegakit.events import Answered, Unknown
from vegakit.prices import bill
from vegakit.records import from_json

KILLS = int(os.environ.get("VEGA_KILLS", "10"))
CALLS = 6
REPOSITORY = Path(__file__).parents[2]
LIFE_S = 1.0

EXPECTED = {
    #                 requests, claims, cut off in the ledger, unknown to the program
    "before claim": (CALLS, CALLS, 0, 0),
    "after claim": (CALLS, CALLS + 1, 1, 1),
    "after send": (CALLS + 1, CALLS + 1, 1, 1),
    "after response": (CALLS + 1, CALLS + 1, 1, 1),
    "after settling": (CALLS + 1, CALLS + 1, 0, 1),
    "after record": (CALLS, CALLS, 0, 0),
}


class Scene(NamedTuple):
    folder: Path
    url: str
    connection: Connection
    address: str

    def start_worker(self, die: str = "never|0") -> ForkServerProcess:
        return start_worker(
            self.address,
            self.connection.queue,
            VEGA_TEST_FOLDER=str(self.folder),
            VEGA_TEST_PROVIDER=self.url,
            VEGA_TEST_DIE=die,
        )

    async def ask(self, at_once: int) -> "tuple[ProgramHandle, asyncio.Future[Any]]":
        program = await self.connection.start_program(heartbeat_ms=1_500)
        await program.spawn("guide", wallet="$5")
        await program.spawn("chain")
        message = {"count": CALLS, "at_once": at_once}
        return program, asyncio.ensure_future(program.ask("chain", message))


class Bill(NamedTuple):
    """What program, ledger and provider each know of the calls, by question."""

    outcomes: dict[int, list[Any]]
    claims: dict[int, list[tuple[str, int]]]
    requests: Counter[int]
    wallet: int


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "tests.durable.oracle", str(tmp_path / "provider.jsonl")]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE) as oracle:
        assert oracle.stdout is not None
        yield oracle.stdout.readline().decode().strip()
        oracle.kill()


async def make_scene(address: str, folder: Path, url: str) -> Scene:
    connection = await connect(address, queue=f"kill-{secrets.token_hex(4)}")
    return Scene(folder, url, connection, address)


@pytest.mark.parametrize("nth", [2, 5])
@pytest.mark.parametrize("point", POINTS)
async def test_a_kill_at_a_named_point(
    temporal: str, tmp_path: Path, provider: str, point: str, nth: int
) -> None:
    """Exactly what was in flight is unknown, and only that is sent again."""
    scene = await make_scene(temporal, tmp_path, provider)
    worker = scene.start_worker(f"{point}|{nth}")
    try:
        program, asking = await scene.ask(at_once=1)
        await asyncio.to_thread(worker.join)
        assert worker.exitcode == -9
        worker = scene.start_worker()
        found = await audit(scene, program, await asking)
        states = [state for claims in found.claims.values() for state, _ in claims]
        unknown = [o for outcomes in found.outcomes.values() for o in outcomes if is_unknown(o)]
        figures = (found.requests.total(), len(states), states.count("unknown"), len(unknown))
        assert figures == EXPECTED[point]
    finally:
        worker.kill()
        worker.join()


@pytest.mark.parametrize("seed", range(KILLS))
async def test_a_kill_at_any_moment(
    temporal: str, tmp_path: Path, provider: str, seed: int
) -> None:
    """Two calls at once, so that several may be cut off."""
    scene, chance = await make_scene(temporal, tmp_path, provider), random.Random(seed)
    worker = scene.start_worker()
    try:
        program, asking = await scene.ask(at_once=2)
        await asyncio.sleep(chance.uniform(0, LIFE_S))
        worker.kill()
        worker.join()
        worker = scene.start_worker()
        await audit(scene, program, await asking)
    finally:
        worker.kill()
        worker.join()


async def audit(scene: Scene, program: ProgramHandle, answers: dict[str, str]) -> Bill:
    """Every figure of every question, from the program, the ledger and the provider."""
    assert answers == {str(n): answer_to(n) for n in range(CALLS)}
    found = await look(scene, program)
    assert PRICE is not None
    for number in range(CALLS):
        outcomes, claims = found.outcomes[number], found.claims[number]
        lost = sum(map(is_unknown, outcomes))
        assert len(outcomes) == 1 + lost, "a recorded call was made again"
        assert len(claims) == len(outcomes), "a call without its claim, or a claim too many"
        assert sorted(o.charged for o in outcomes) == sorted(charge for _, charge in claims)
        assert all(state in ("answered", "unknown") for state, _ in claims)
        true_bill = bill(PRICE, usage_of(number))
        assert {charge for state, charge in claims if state == "answered"} == {true_bill}
        answered = sum(state == "answered" for state, _ in claims)
        assert answered <= found.requests[number] <= len(claims)
    assert found.wallet == sum(charge for claims in found.claims.values() for _, charge in claims)
    await program.stop()
    return found


async def look(scene: Scene, program: ProgramHandle) -> Bill:
    history = await scene.connection.client.get_workflow_handle(program.id).fetch_history()
    works, outcomes, claims = dict[int, Work](), dict[int, list[Any]](), dict[int, Any]()
    for event in history.events:
        if event.HasField("activity_task_scheduled_event_attributes"):
            payload = event.activity_task_scheduled_event_attributes.input.payloads[0]
            works[event.event_id] = from_json(Work, payload.data)
        if event.HasField("activity_task_completed_event_attributes"):
            ended = event.activity_task_completed_event_attributes
            work = works[ended.scheduled_event_id]
            performed = from_json(Performed, ended.result.payloads[0].data)
            assert isinstance(performed.outcome, Answered | Unknown), performed
            number = number_of(work)
            outcomes.setdefault(number, []).append(performed.outcome)
            claims.setdefault(number, []).extend(claims_of(scene, work.effect.key))
    state = await program.state()
    return Bill(outcomes, claims, requests_in(scene), state.wallets["guide"].spent)


def number_of(work: Work) -> int:
    request = work.effect.request
    assert isinstance(request, CallModel)
    return number_in(msgspec.json.encode(request.request.messages).decode())


def claims_of(scene: Scene, key: str) -> list[tuple[str, int]]:
    with closing(sqlite3.connect(scene.folder / "ledger.db")) as file:
        rows = file.execute("SELECT state, charged FROM claims WHERE id LIKE ?", [f"{key}#%"])
        return rows.fetchall()


def requests_in(scene: Scene) -> Counter[int]:
    lines = (scene.folder / "provider.jsonl").read_text().splitlines()
    logged = [msgspec.json.decode(line) for line in lines]
    return Counter(number_in(line["text"]) for line in logged if line["event"] == "received")


def is_unknown(outcome: Any) -> bool:
    return isinstance(outcome, Unknown)
