"""Workers: one process may take all roles, or a fleet may have workers for each."""

import asyncio
from collections.abc import Collection
from contextlib import AsyncExitStack
from datetime import timedelta
from enum import StrEnum
from typing import Any

from temporalio.worker import Worker

from vegakit.durable.activities import Activities
from vegakit.durable.client import Connection
from vegakit.durable.deployments import Deployment
from vegakit.durable.host import queue_of
from vegakit.durable.messages import Call
from vegakit.durable.workflows import ProgramWorkflow, provide

__all__ = ["Role", "serve"]


_TAKEN_UP_WITHIN = timedelta(seconds=2)
"""So long a program waits for a worker that died before another takes it up."""
_LEAVES_WITHIN = timedelta(seconds=30)
"""A worker that is told to end lets calls under way finish."""
_CALLS_AT_ONCE = 300


class Role(StrEnum):
    """`CONTROL` steps the programs; the others carry out their calls. A worker that has all roles
    prefers to carry out the calls of the programs that it steps."""

    CONTROL = "control"
    MODELS = "models"
    TOOLS = "tools"


async def serve(
    deployment: Deployment,
    connection: Connection,
    *,
    roles: Collection[Role] = tuple(Role),
    **options: Any,  # noqa: ANN401
) -> None:
    """Until it is cancelled. `options` are further ones of Temporal's `Worker`."""
    queue, client = connection.queue, connection.client
    async with AsyncExitStack() as workers:
        if deployment.answers is not None:
            workers.push_async_callback(deployment.answers.aclose)
        runtime = await workers.enter_async_context(deployment.runtime())
        registry = deployment.registry(runtime)
        provide(queue, registry.code, apart=set(roles) != set(Role))
        made = Activities(deployment, runtime, registry)
        takes: dict[Role, dict[str, Any]] = {
            Role.CONTROL: {
                "task_queue": queue,
                "workflows": [ProgramWorkflow],
                "activities": [made.aftermath, made.call_model, made.call_tool],
                "max_concurrent_activities": _CALLS_AT_ONCE,
            },
            Role.MODELS: {
                "task_queue": queue_of(queue, Call.MODEL),
                "activities": [made.call_model],
            },
            Role.TOOLS: {
                "task_queue": queue_of(queue, Call.TOOL),
                "activities": [made.call_tool],
            },
        }
        usual: dict[str, Any] = {
            "build_id": deployment.version,  # else Temporal compiles every loaded module for one
            "graceful_shutdown_timeout": _LEAVES_WITHIN,
            "sticky_queue_schedule_to_start_timeout": _TAKEN_UP_WITHIN,
        }
        for role in roles:
            worker = Worker(client, **(usual | takes[role] | options))
            await workers.enter_async_context(worker)
        await asyncio.Event().wait()
