"""Programs on Temporal with the worker in the test's own loop."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

from tests import patience
from vegakit.durable import (
    RECORDS,
    Deployment,
    ProgramHandle,
    ProgramWorkflow,
    TemporalConnection,
    connect,
    serve,
    workflow as workflows,
)
from vegakit.store import SqliteLedger, SqliteStore

PATIENCE_S = 60


class Stage:
    def __init__(self, connection: TemporalConnection) -> None:
        self.connection = connection
        self.programs: list[ProgramHandle] = []

    @property
    def code(self) -> dict[str, Any]:
        """That of the worker."""
        return workflows._provided[self.connection.queue][0]  # type: ignore[return-value]

    async def start(self, **options: Any) -> ProgramHandle:
        program = await self.connection.start_program(heartbeat_ms=2_000, **options)
        self.programs.append(program)
        return program

    async def histories(self) -> list[WorkflowHistory]:
        """Of every run of every program."""
        client, found = self.connection.client, list[WorkflowHistory]()
        for program in self.programs:
            run_id: str | None = None
            while True:
                history = await client.get_workflow_handle(
                    program.id, run_id=run_id
                ).fetch_history()
                found.append(history)
                before = history.events[0].workflow_execution_started_event_attributes
                run_id = before.continued_execution_run_id
                if not run_id:
                    break
        return found


@asynccontextmanager
async def stage(
    address: str,
    folder: Path,
    bodies: Sequence[Any],
    *,
    queue: str = "",
    cache: int = 1_000,
    **options: Any,
) -> AsyncGenerator[Stage]:
    """Each has a queue of its own. When it is left, every history is replayed."""
    connection = await connect(address, queue=queue or f"test-{secrets.token_hex(4)}")
    deployment = Deployment(
        bodies,
        SqliteLedger(folder / "ledger.db"),
        SqliteStore(folder / "answers.db"),
        {"budget": "$10", **options},
    )
    serving = asyncio.ensure_future(serve(deployment, connection, max_cached_workflows=cache))
    made = Stage(connection)
    try:
        yield made
        await replay(await made.histories())
    finally:
        serving.cancel()
        await asyncio.wait([serving])
    assert serving.cancelled() or serving.exception() is None, serving.exception()


async def replay(histories: Sequence[WorkflowHistory]) -> None:
    """Raises what differs."""
    replayer = Replayer(workflows=[ProgramWorkflow], data_converter=RECORDS, build_id="test")
    for history in histories:
        await replayer.replay_workflow(history)


async def until(holds: Callable[[], Any]) -> Any:
    """What it gives, as soon as that is true; `holds` may be a coroutine function."""
    return await patience.until(holds, PATIENCE_S)
