"""Programs whose worker is killed, and the account of every call: program, ledger and provider.

The provider runs in a process of its own and keeps its own log of requests.
"""

import asyncio
import secrets
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import closing, contextmanager
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tests.durable.nursery import start_worker
from tests.durable.oracle import answer_to, number_in, usage_of
from tests.durable.warm import PRICE
from tests.store.postgres import asked
from vegakit.durable import ProgramHandle, TemporalConnection, connect
from vegakit.durable.messages import ActivityInput, ActivityResult
from vegakit.effects import CallModel
from vegakit.events import Answered, Unknown
from vegakit.prices import bill
from vegakit.records import from_json

CALLS = 6
FAULT = ""
"""A fault that workers shall have."""
REPOSITORY = Path(__file__).parents[2]
HEARTBEAT_MS = 2_500
"""How long a worker may give no sign of life before its call is handed out again."""


class Scene(NamedTuple):
    folder: Path
    url: str
    connection: TemporalConnection
    address: str
    schema: str = ""
    """Of a ledger on PostgreSQL; else it is a file."""

    def start_worker(self, die: str = "never|0") -> ForkServerProcess:
        return start_worker(
            self.address,
            self.connection.queue,
            VEGA_TEST_FOLDER=str(self.folder),
            VEGA_TEST_PROVIDER=self.url,
            VEGA_TEST_SCHEMA=self.schema,
            VEGA_TEST_DIE=die,
            VEGA_TEST_FAULT=FAULT,
        )

    async def ask(
        self, at_once: int, first: int = 0, calls: int = CALLS
    ) -> "tuple[ProgramHandle, asyncio.Future[Any]]":
        """Questions from the first on."""
        program = await self.connection.start_program(heartbeat_ms=HEARTBEAT_MS)
        await program.spawn("guide", wallet="$5")
        await program.spawn("chain")
        message = {"first": first, "count": calls, "at_once": at_once}
        return program, asyncio.ensure_future(program.ask("chain", message))

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        if self.schema:
            return asked(self.schema, query)
        with closing(sqlite3.connect(self.folder / "ledger.db")) as file:
            return file.execute(query).fetchall()


class Bill(NamedTuple):
    """What program, ledger and provider each know of the calls, by question."""

    outcomes: dict[int, list[Any]]
    claims: dict[int, list[tuple[str, int]]]
    requests: Counter[int]
    wallet: int


@contextmanager
def provider_in(folder: Path) -> Generator[str]:
    """Its address."""
    command = [sys.executable, "-m", "tests.durable.oracle", str(folder / "provider.jsonl")]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE) as oracle:
        assert oracle.stdout is not None
        try:
            yield oracle.stdout.readline().decode().strip()
        finally:
            oracle.kill()  # else it would be waited for


async def make_scene(address: str, folder: Path, url: str, schema: str = "") -> Scene:
    connection = await connect(address, queue=f"kill-{secrets.token_hex(4)}")
    return Scene(folder, url, connection, address, schema)


async def audit(
    scene: Scene,
    program: ProgramHandle,
    answers: dict[str, str],
    first: int = 0,
    calls: int = CALLS,
) -> Bill:
    """Every figure of every question, from the program, the ledger and the provider."""
    numbers = range(first, first + calls)
    assert answers == {str(n): answer_to(n) for n in numbers}
    found = await look(scene, program)
    assert PRICE is not None
    for number in numbers:
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
    works, outcomes, claims = dict[int, ActivityInput](), dict[int, list[Any]](), dict[int, Any]()
    for event in history.events:
        if event.HasField("activity_task_scheduled_event_attributes"):
            payload = event.activity_task_scheduled_event_attributes.input.payloads[0]
            works[event.event_id] = from_json(ActivityInput, payload.data)
        if event.HasField("activity_task_completed_event_attributes"):
            ended = event.activity_task_completed_event_attributes
            work = works[ended.scheduled_event_id]
            performed = from_json(ActivityResult, ended.result.payloads[0].data)
            assert isinstance(performed.outcome, Answered | Unknown), performed
            number = number_of(work)
            outcomes.setdefault(number, []).append(performed.outcome)
            claims.setdefault(number, []).extend(claims_of(scene, work.effect.key))
    state = await program.state()
    return Bill(outcomes, claims, requests_in(scene), state.wallets["guide"].spent)


def number_of(work: ActivityInput) -> int:
    request = work.effect.request
    assert isinstance(request, CallModel)
    return number_in(msgspec.json.encode(request.request.messages).decode())


def claims_of(scene: Scene, key: str) -> list[tuple[str, int]]:
    return scene.rows(f"SELECT state, charged FROM claims WHERE id LIKE '{key}#%'")


def audit_shared(scene: Scene, found: list[Bill]) -> None:
    """The budget that all programs share holds what they spent, and nothing is left reserved."""
    [(settled, reserved)] = scene.rows("SELECT settled, reserved FROM scopes WHERE parent IS NULL")
    assert reserved == 0
    assert settled == sum(each.wallet for each in found)


def requests_in(scene: Scene) -> Counter[int]:
    lines = (scene.folder / "provider.jsonl").read_text().splitlines()
    logged = [msgspec.json.decode(line) for line in lines]
    return Counter(number_in(line["text"]) for line in logged if line["event"] == "received")


def is_unknown(outcome: Any) -> bool:
    return isinstance(outcome, Unknown)
