"""Workers in other languages: the one in JavaScript against a real server."""

import asyncio
import json
import os
import shutil
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.web import Client, served
from tests.patience import PATIENCE_S, until
from vegakit.concurrency import SteadyClock
from vegakit.kernel import Kernel
from vegakit.server import TokenRole, Tokens
from vegakit.store import open_tenants

WORKERS = Path(__file__).parents[2] / "examples/workers"
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="there is no node here")


class Site:
    def __init__(self, port: int, worker: str, person: str) -> None:
        self.port, self.worker = port, worker
        self.client = Client(port, person)

    async def start(self) -> asyncio.subprocess.Process:
        assert NODE is not None
        known = {"VEGA_URL": f"http://127.0.0.1:{self.port}", "VEGA_TOKEN": self.worker}
        command = [NODE, str(WORKERS / "worker.mjs"), str(WORKERS / "pipeline.json")]
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            *command, env=os.environ | known, stdout=pipe, stderr=pipe
        )

    async def call(self, name: str, **fields: object) -> Any:
        status, reply = await asyncio.to_thread(self.client.call, name, **fields)
        assert status == 200, reply
        return reply

    async def question(self) -> str:
        """Wait for a question, and return its id."""

        async def asked() -> list[Any]:
            return (await self.call("list_interrupts", status="pending"))["interrupts"]

        return (await until(asked))[0]["interrupt"]["ask"]["id"]

    async def events(self) -> list[str]:
        told = await asyncio.to_thread(self.client.events, 1_000)
        return [f"{one['event']['kind']} {one['event']['detail'].get('stage')}" for _, one in told]


async def line_of(worker: asyncio.subprocess.Process) -> str:
    assert worker.stdout is not None
    return (await asyncio.wait_for(worker.stdout.readline(), PATIENCE_S)).decode()


async def stopped(worker: asyncio.subprocess.Process) -> str:
    worker.terminate()
    out, errors = await asyncio.wait_for(worker.communicate(), PATIENCE_S)
    assert (worker.returncode, errors.decode()) == (0, "")
    return out.decode()


async def a_walk(*, kill: bool) -> None:
    async with aclosing(open_tenants(":memory:")) as store:
        kernel = Kernel(store, SteadyClock())
        tokens = Tokens(store, kernel.clock)
        worker = await tokens.create("acme", "node", TokenRole.WORKER)
        person = await tokens.create("acme", "ann", TokenRole.OPERATOR)
        async with served(kernel) as port:
            site = Site(port, worker, person)
            await site.call("submit", pid="p1", request="owls")
            first = await site.start()
            question = await site.question()
            if kill:
                first.kill()
                await first.wait()
            await site.call(
                "resolve_interrupt", id=question, answer={"type": "Replied", "value": "yes"}
            )
            second = await site.start() if kill else first
            assert await line_of(second) == "p1 completed\n"
            assert await stopped(second) == ""
            outputs = (await site.call("get_session_state", pid="p1"))["envelope"]
            envelope = await site.call("get_envelope", id=outputs)
            process = await site.call("get_process", pid="p1")
            told = await site.events()
    assert envelope["outputs"] == {
        "draft": "draft about owls",
        "facts": "found on the second attempt",
        "send": {"sent": "yes", "facts": "found on the second attempt"},
    }
    assert (process["state"], process["reason"]) == ("terminated", "completed")
    assert told.count("stage_failed facts") == 1
    # Once to ask, once with the answer; who was killed before it had reported that it asked, again.
    assert told.count("stage_started send") in ((2, 3) if kill else (2,))
    started = [told.index(f"stage_started {stage}") for stage in ("draft", "facts")]
    completed = told.index("stage_completed draft")
    assert max(started) < completed, "stages that may run side by side are handed out together"


@needs_node
async def test_a_worker_in_javascript_walks_a_pipeline() -> None:
    """Two stages side by side, a failure that is tried again, and a question to a person."""
    await a_walk(kill=False)


@needs_node
async def test_a_worker_that_is_killed_while_a_person_is_asked_is_replaced() -> None:
    await a_walk(kill=True)


def test_its_pipeline_is_one() -> None:
    names = {
        stage["name"] for stage in json.loads((WORKERS / "pipeline.json").read_text())["stages"]
    }
    assert names == {"draft", "facts", "send"}


def test_it_needs_no_packages() -> None:
    text = (WORKERS / "worker.mjs").read_text()
    imported = [line.split('"')[1] for line in text.splitlines() if line.startswith("import ")]
    assert imported
    assert all(name.startswith("node:") for name in imported)
