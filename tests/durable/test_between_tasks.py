"""A query at a bad moment: a worker has died, and the next one has begun no task yet."""

import asyncio
import secrets
import time
from pathlib import Path
from typing import Any

import pytest
from campaigns.dataflow_worker import Workers

from tests.durable.bodies import clerk
from tests.durable.stage import replay, until
from vegakit.durable import Deployment, ProgramHandle, ProgramWorkflow, connect, register_code
from vegakit.host import Reducer
from vegakit.store import MemoryLedger

pytestmark = pytest.mark.timeout(300)


def bodies() -> list[Any]:
    return [Reducer("clerk", clerk)]


def steps_between_tasks() -> list[Any]:
    ProgramWorkflow._check_in_task = lambda self: None  # type: ignore[method-assign]
    return bodies()


async def fired(program: ProgramHandle) -> bool:
    history = await program._workflow.fetch_history()
    return any(event.HasField("timer_fired_event_attributes") for event in history.events)


async def kill_before_a_timer(
    address: str, folder: Path, fault: Any, due_s: int = 4
) -> ProgramHandle:
    """Its task waits for the dead worker for a while; meanwhile the next one is asked.

    0         killed          due - wait              due         due + wait
    |-----------|-----------------|--------------------|--------------|-----
                                  queries begin, and come to the next one between due and
                                  due + wait, when the task comes to it too
    """
    queue = f"between-{secrets.token_hex(4)}"
    deployment = Deployment(bodies(), MemoryLedger())
    register_code(queue, deployment.registry(deployment.runtime()).code)
    program = await (await connect(address, queue=queue)).start_program()
    workers = Workers(queue, address, folder, 1_000, fault)
    await program.spawn("clerk")
    await program.tell("clerk", due_s * 1000)
    await until(lambda: has_timer(program))
    workers.end()
    workers = Workers(queue, address, folder, 1_000, fault)
    due = await timer_started(program) + due_s
    asking = [asyncio.ensure_future(ask_at(program, due - number / 10)) for number in range(1, 18)]
    try:
        await until(lambda: fired(program))
        await asyncio.wait(asking)
        await until(lambda: is_past(program))
    finally:
        workers.end()
    return program


async def timer_started(program: ProgramHandle) -> float:
    events = (await program._workflow.fetch_history()).events
    started = [event for event in events if event.HasField("timer_started_event_attributes")]
    return started[0].event_time.ToNanoseconds() / 1e9


async def ask_at(program: ProgramHandle, at: float) -> None:
    """The timer is one of the server, and so is the clock."""
    await until(lambda: time.time() >= at)
    await program.state()


async def has_timer(program: ProgramHandle) -> bool:
    return bool((await program.state()).timers)


async def is_past(program: ProgramHandle) -> bool:
    """The task that the timer is for was completed."""
    events = list((await program._workflow.fetch_history()).events)
    return events[-1].HasField("workflow_task_completed_event_attributes") or events[-1].HasField(
        "timer_started_event_attributes"
    )


async def test_no_step_is_made_between_two_tasks(temporal: str, tmp_path: Path) -> None:
    """So that the program replays."""
    program = await kill_before_a_timer(temporal, tmp_path, bodies)
    await replay([await program._workflow.fetch_history()])


async def test_such_a_step_would_not_replay(temporal: str, tmp_path: Path) -> None:
    """Its time is that of the task before: the timer would seem not to be due. A machine may be too
    slow to kill and to ask before that; so there are more attempts, each with more time."""
    for due_s in (4, 8, 16):
        program = await kill_before_a_timer(temporal, tmp_path, steps_between_tasks, due_s)
        try:
            await replay([await program._workflow.fetch_history()])
        except Exception as error:
            if "TMPRL1100" not in str(error):
                raise
            return
    pytest.fail("each of them replays")
