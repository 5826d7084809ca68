"""Two workers in processes of their own: ours, and one with a workflow written by hand."""

import asyncio
import multiprocessing
from collections.abc import Coroutine
from datetime import timedelta
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker

from vegakit.conversation import ModelRequest, ModelSettings, Text, UserMessage
from vegakit.durable import Deployment, connect, serve
from vegakit.host import Agent, Reducer
from vegakit.program import AskProcess, DeferReply, Prompt, ReducerAction, Respond, ResultMessage
from vegakit.providers import ScriptedModel
from vegakit.store import SqliteLedger, SqliteStore

__all__ = ["Plain", "serve_ours", "serve_plain", "start"]

HEARTBEAT = timedelta(seconds=10)
BEATS = 4
LATENCY_MS = 20
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["benchmarks.temporal_cost_workers"])
_QUESTION = "What is the capital of France? " * 8
_MODEL = ScriptedModel("It is Paris. " * 16, latency_ms=LATENCY_MS)


def start(serving: Any, *facts: Any) -> ForkServerProcess:
    """`serving` is a coroutine function, which runs until it is killed."""
    worker = _FORKS.Process(target=_run, args=(serving, facts), daemon=True)
    worker.start()
    return worker


def _run(serving: Any, facts: tuple[Any, ...]) -> None:
    served: Coroutine[Any, Any, None] = serving(*facts)
    asyncio.run(served)


def chain(left: int | None, message: Any) -> tuple[int | None, list[ReducerAction]]:
    """Asks so many questions, one after the other."""
    if isinstance(message, ResultMessage):
        assert left is not None
        return left - 1, [_asked()] if left > 1 else [Respond("done", "client")]
    return message, [DeferReply("client"), _asked()]


def _asked() -> AskProcess:
    return AskProcess("guide", Prompt((Text(_QUESTION),)), "a")


async def serve_ours(address: str, queue: str, folder: Path) -> None:
    bodies = [Agent("guide", _MODEL), Reducer("chain", chain)]
    ledger, answers = SqliteLedger(folder / "ledger.db"), SqliteStore(folder / "answers.db")
    deployment = Deployment(bodies, ledger, answers, {"budget": "$1000"})
    await serve(deployment, await connect(address, queue=queue))


@activity.defn
async def call_plainly(prompt: str, answer_bytes: int) -> str:
    beating = asyncio.ensure_future(_beat())
    try:
        message = UserMessage((Text(_QUESTION),))
        await _MODEL.ask(ModelRequest("scripted", (message,), ModelSettings(100)))
    finally:
        beating.cancel()
    return "x" * answer_bytes


async def _beat() -> None:
    while True:
        await asyncio.sleep(HEARTBEAT.total_seconds() / BEATS)
        activity.heartbeat()


@workflow.defn(sandboxed=False)
class Plain:
    @workflow.run
    async def run(self, calls: int, prompt: str, answer_bytes: int) -> None:
        for _ in range(calls):
            await workflow.execute_activity(
                call_plainly,
                args=[prompt, answer_bytes],
                start_to_close_timeout=timedelta(days=1),
                heartbeat_timeout=HEARTBEAT,
            )


async def serve_plain(address: str, queue: str) -> None:
    client = await Client.connect(address)
    async with Worker(
        client,
        task_queue=queue,
        workflows=[Plain],
        activities=[call_plainly],
        build_id="plain",
    ):
        await asyncio.Event().wait()
