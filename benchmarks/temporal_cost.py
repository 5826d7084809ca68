"""What a model call costs on Temporal through us: `python -m benchmarks.temporal_cost`.

Beside it, a workflow written by hand makes the same number of calls in the same order: as many
activities, with the same model, the same heartbeat and payloads of the same size, but without
ledger, kept answers, budgets or records of its own. Counted is the CPU of the worker and of the
Temporal server, their children included, and what starting and ending a program takes; rounds of
both take turns, and the ratio is that of the medians. Exits 1 when it is above its limit.
"""

import asyncio
import os
import secrets
import statistics
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from temporalio.client import Client

from benchmarks.figures import Figure, show
from benchmarks.temporal_cost_workers import Plain, serve_ours, serve_plain, start
from benchmarks.temporal_server import temporal_server
from vegakit.durable import ProgramHandle, TemporalConnection, connect

__all__ = ["main"]

ROUNDS, PROGRAMS, CALLS = 5, 4, 100
MOST_TIMES = 1.15
_TICKS = os.sysconf("SC_CLK_TCK")
_OURS, _PLAIN = "cost-ours", "cost-plain"


class Cpu(NamedTuple):
    """In milliseconds a call."""

    worker: float
    server: float


class Sizes(NamedTuple):
    """Of what an activity is given and of what it returns, in bytes."""

    given: int
    returned: int


def cpu_s(pid: int) -> float:
    """Of all its threads, and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICKS


async def measured(worker: int, server: int, work: Callable[[], Awaitable[object]]) -> Cpu:
    before = cpu_s(worker), cpu_s(server)
    await asyncio.gather(*(work() for _ in range(PROGRAMS)))
    after = cpu_s(worker), cpu_s(server)
    calls = PROGRAMS * CALLS
    return Cpu(*((now - was) / calls * 1000 for was, now in zip(before, after, strict=True)))


async def run_ours(connection: TemporalConnection) -> ProgramHandle:
    program = await connection.start_program()
    for body in ("guide", "chain"):
        await program.spawn(body)
    assert await program.ask("chain", CALLS) == "done"
    await program.stop()
    return program


async def run_plain(client: Client, sizes: Sizes) -> None:
    """JSON puts quotes around a text."""
    arguments = [CALLS, "x" * (sizes.given - 2), sizes.returned - 2]
    await client.execute_workflow(
        Plain.run, args=arguments, id=secrets.token_hex(8), task_queue=_PLAIN
    )


async def sizes_of(program: ProgramHandle, connection: TemporalConnection) -> Sizes:
    history = await connection.client.get_workflow_handle(program.id).fetch_history()
    given, returned = list[int](), list[int]()
    for event in history.events:
        if event.HasField("activity_task_scheduled_event_attributes"):
            payloads = event.activity_task_scheduled_event_attributes.input.payloads
            given.append(len(payloads[0].data))
        if event.HasField("activity_task_completed_event_attributes"):
            payloads = event.activity_task_completed_event_attributes.result.payloads
            returned.append(len(payloads[0].data))
    assert len(given) == len(returned) == CALLS
    return Sizes(round(statistics.mean(given)), round(statistics.mean(returned)))


async def measure(
    address: str, server: int, ours: int, plain: int
) -> tuple[list[Cpu], list[Cpu], Sizes]:
    connection, client = await connect(address, queue=_OURS), await Client.connect(address)
    sizes = await sizes_of(await run_ours(connection), connection)
    await run_plain(client, sizes)
    mine, theirs = list[Cpu](), list[Cpu]()
    for _ in range(ROUNDS):
        mine.append(await measured(ours, server, lambda: run_ours(connection)))
        theirs.append(await measured(plain, server, lambda: run_plain(client, sizes)))
    return mine, theirs, sizes


def figures_of(ours: Sequence[Cpu], plain: Sequence[Cpu]) -> list[Figure]:
    shown, totals = list[Figure](), list[float]()
    for name, rounds in (("through us", ours), ("by hand", plain)):
        worker = statistics.median(cpu.worker for cpu in rounds)
        server = statistics.median(cpu.server for cpu in rounds)
        totals.append(statistics.median(sum(cpu) for cpu in rounds))
        what = f"a call {name}: worker {worker:.1f} + server {server:.1f} ms of CPU"
        shown.append(Figure(what, f"{totals[-1]:.1f} ms"))
    times = totals[0] / totals[1]
    ratio = Figure("ratio", f"{times:.2f} x", f"≤ {MOST_TIMES:g} x", times <= MOST_TIMES)
    return [*shown, ratio]


def main() -> int:
    with tempfile.TemporaryDirectory() as folder, temporal_server(Path(folder)) as server:
        ours = start(serve_ours, server.address, _OURS, Path(folder))
        plain = start(serve_plain, server.address, _PLAIN)
        try:
            assert ours.pid
            assert plain.pid
            measuring = measure(server.address, server.pid, ours.pid, plain.pid)
            mine, theirs, sizes = asyncio.run(measuring)
        finally:
            for worker in (ours, plain):
                worker.kill()
    print(f"{ROUNDS} rounds of {PROGRAMS} × {CALLS} calls each, {sizes.given:,} bytes there and")
    print(f"{sizes.returned:,} back\n{show(figures_of(mine, theirs))}")
    return int(not all(figure.holds for figure in figures_of(mine, theirs)))


if __name__ == "__main__":
    sys.exit(main())
