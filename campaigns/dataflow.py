"""Random dataflow programs on Temporal, their worker killed: `python -m campaigns.dataflow 500`.

Many run at once on one worker, which is ended by `kill -9` every few seconds, with whatever its
programs had in flight, and started again. Each must come to what a plain evaluation of its graph
comes to. Then some again with a workflow cache of nought, so that every step replays all before it.
Prints its figures last; exits 1 if a program came to anything else.
"""

import asyncio
import random
import secrets
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from benchmarks.temporal_server import temporal_server

from campaigns.dataflow_programs import bodies, evaluate
from campaigns.dataflow_worker import Fault, Workers
from vegakit.durable import ProgramHandle, TemporalConnection, connect
from vegakit.errors import VegaError

__all__ = ["Flows", "main", "run_killed"]

AT_ONCE = 50
UNCACHED_PART = 10
HEARTBEAT_MS = 1_500
PATIENCE_S = 900


class Flows(NamedTuple):
    programs: int = 0
    met: int = 0
    kills: int = 0
    answered: int = 0
    unknown: int = 0
    wrong: int = 0
    late: int = 0

    @property
    def holds(self) -> bool:
        return not (self.wrong or self.late)

    def __str__(self) -> str:
        return (
            f"{self.programs} programs, {self.met} of them under at least one of {self.kills} "
            f"kills: {self.answered} calls answered, {self.unknown} cut off in flight, "
            f"{self.wrong} programs with a wrong result, {self.late} without one: "
            f"{'ok' if self.holds else 'BROKEN'}"
        )


async def run_killed(
    address: str, seeds: Iterable[int], *, cache: int = 1_000, fault: Fault = bodies
) -> Flows:
    with tempfile.TemporaryDirectory() as folder:
        queue = f"dataflow-{secrets.token_hex(4)}"
        workers = Workers(queue, address, Path(folder), cache, fault)
        connection = await connect(address, queue=queue)
        try:
            async with asyncio.TaskGroup() as tasks:
                killing = tasks.create_task(workers.kill_now_and_then(random.Random(0)))
                found = await _run_all(connection, workers, seeds)
                killing.cancel()
        finally:
            workers.end()
        answered, unknown = _claims(Path(folder) / "ledger.db")
    met = sum(was_met for was_met, _ in found)
    ends = [end for _, end in found]
    return Flows(
        len(found), met, workers.kills, answered, unknown, ends.count("wrong"), ends.count("late")
    )


async def _run_all(
    connection: TemporalConnection, workers: Workers, seeds: Iterable[int]
) -> list[tuple[bool, str]]:
    """Whether each was met by a kill, and whether it came to what it must: right, wrong, late."""
    places = asyncio.Semaphore(AT_ONCE)

    async def run(seed: int) -> tuple[bool, str]:
        async with places:
            before = workers.kills
            values = await _run(connection, seed)
            right = "right" if values == evaluate(seed) else "wrong"
            return workers.kills > before, "late" if values is None else right

    return await asyncio.gather(*map(run, seeds))


async def _run(connection: TemporalConnection, seed: int) -> list[str] | None:
    program = await connection.start_program(heartbeat_ms=HEARTBEAT_MS)
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await _ask(program, seed)
    except (VegaError, TimeoutError) as error:
        print(f"seed {seed} came to nothing: {error!r}")
        return None


async def _ask(program: ProgramHandle, seed: int) -> list[str]:
    for body in ("oracle", "flow"):
        await program.spawn(body)
    values = await program.ask("flow", {"seed": seed, "depth": 0, "path": "flow"})
    await program.stop()
    return values


def _claims(ledger: Path) -> tuple[int, int]:
    """Calls that were answered, and those cut off in flight."""
    with closing(sqlite3.connect(ledger)) as file:
        states = [state for (state,) in file.execute("SELECT state FROM claims")]
    return states.count("answered"), states.count("unknown")


def main(programs: int = 20) -> int:
    began, uncached = time.monotonic(), -(-programs // UNCACHED_PART)
    with tempfile.TemporaryDirectory() as folder, temporal_server(Path(folder)) as server:
        cached = asyncio.run(run_killed(server.address, range(programs)))
        without = range(programs, programs + uncached)
        replayed = asyncio.run(run_killed(server.address, without, cache=0))
    print(f"{cached}\nwith no workflow cache: {replayed}; {time.monotonic() - began:.0f} s in all")
    return int(not (cached.holds and replayed.holds))


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
