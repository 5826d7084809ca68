"""The host of Temporal does what every host does: the checks run inside a workflow.

Those of a journal are left out: here the history is the journal, and replay is tested with it.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from temporalio import workflow
from temporalio.client import WorkflowFailureError
from temporalio.worker import Worker

from tests.hosts.conformance import HOST_CHECKS, HostCheck, World
from tests.patience import turns
from vegakit.durable import Deployment, TemporalConnection, TemporalHost, connect
from vegakit.durable.deployment import Activities
from vegakit.durable.messages import ActivityInput, ActivityName
from vegakit.durable.workflow import queue_of
from vegakit.effects import Effect
from vegakit.events import EffectOutcome, HostEvent
from vegakit.host import Account, EffectHandler
from vegakit.ids import ProgramId
from vegakit.ports import Journal
from vegakit.program import InFlightEffect, ProcessRecord, ProcessSpec, Program
from vegakit.store import SqliteLedger
from vegakit.telemetry import Span

LONG_MS = 1_000
"""A check that has an effect take longer never waits for its end."""
WORLDS: dict[str, World] = {}
OF_A_JOURNAL = {
    "_keeps_before_it_tells",
    "_performs_nothing_twice",
    "_gives_no_answer_to_another_request",
    "_finds_an_edit_when_it_commits",
    "_keeps_no_failure_before_its_turn",
    "_keeps_what_is_committed_meanwhile",
}
CHECKS = {c.__name__: c for c in HOST_CHECKS if c.__name__ not in OF_A_JOURNAL}


class Checked(TemporalHost):
    """It is told what the machine would know of an effect."""

    def start(self, effect: Effect, *, speculative: bool = False) -> None:
        self._state.effects_in_flight[effect.key] = InFlightEffect(effect, "a", 1)
        super().start(effect, speculative=speculative)


class TellsTwice(Checked):
    def tell(self, event: HostEvent) -> None:
        super().tell(event)
        super().tell(event)


class WorldActivities(Activities):
    def _performer(self, work: ActivityInput, span: Span, earlier: int) -> EffectHandler:
        async def perform(effect: Effect, account: Account) -> EffectOutcome:
            fate = WORLDS[work.body](effect)
            if fate.takes_ms >= LONG_MS:
                await asyncio.Event().wait()
            await turns(fate.takes_ms)
            if isinstance(fate.outcome, Exception):
                raise fate.outcome
            return fate.outcome

        return perform


@workflow.defn(sandboxed=False, failure_exception_types=[AssertionError])
class CheckingWorkflow:
    @workflow.run
    async def run(self, check: str, kind: str) -> None:
        await CHECKS[check](lambda world, journal: make_host(world, journal, kind))


def make_host(world: World, journal: Journal | None, kind: str) -> TemporalHost:
    here = workflow.info()
    WORLDS[here.workflow_id] = world
    state = Program(ProgramId("p"), processes={"a": ProcessRecord(ProcessSpec(here.workflow_id))})
    made = {"Checked": Checked, "TellsTwice": TellsTwice}[kind]
    return made(state, here.task_queue, 500)


@asynccontextmanager
async def checking(address: str, folder: Path) -> AsyncGenerator[TemporalConnection]:
    connection = await connect(address, queue=f"check-{secrets.token_hex(4)}")
    deployment = Deployment([], SqliteLedger(folder / "ledger.db"))
    client, queue = connection.client, connection.queue
    async with deployment.runtime() as runtime:
        made = WorldActivities(deployment, runtime, deployment.registry(runtime))
        programs = {"workflows": [CheckingWorkflow], "activities": [made.find_outcome]}
        tools: dict[str, Any] = {"activities": [made.call_tool]}
        async with (
            Worker(client, task_queue=queue, build_id="test", **programs),  # type: ignore[arg-type]
            Worker(client, task_queue=queue_of(queue, ActivityName.TOOL), build_id="test", **tools),
        ):
            yield connection


async def run_check(connection: TemporalConnection, check: str, kind: str) -> None:
    await connection.client.execute_workflow(
        CheckingWorkflow.run,
        args=[check, kind],
        id=secrets.token_hex(4),
        task_queue=connection.queue,
    )


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
async def test_the_host_of_temporal(check: HostCheck, temporal: str, tmp_path: Path) -> None:
    """On real time."""
    async with checking(temporal, tmp_path) as connection:
        await run_check(connection, check.__name__, "Checked")


async def test_a_faulty_host_is_found(temporal: str, tmp_path: Path) -> None:
    """The checks can fail here too."""
    async with checking(temporal, tmp_path) as connection:
        with pytest.raises(WorkflowFailureError):
            await run_check(connection, "_brings_one_outcome_of_each", "TellsTwice")


def test_only_what_is_of_a_journal_is_left_out() -> None:
    """A new check is run here unless it is named."""
    assert len(CHECKS) == len(HOST_CHECKS) - len(OF_A_JOURNAL)
