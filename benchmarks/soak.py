"""`python -m benchmarks.soak [minutes]`: a runtime under load for a long time (Linux).

Agents are asked, streamed, cancelled, crashed, killed and spawned anew without a pause, with ledger
and traces on disk. Every few seconds memory, tasks and file descriptors are written down. Over the
last two thirds they must not rise. Prints its figures last; exits 1 when one does.
"""

import asyncio
import gc
import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.asks import ConstantModel
from benchmarks.figures import at_least, at_most, show
from vegakit.errors import VegaError
from vegakit.host import Agent, Process, Supervisor
from vegakit.sdk import Runtime
from vegakit.store import SqliteLedger
from vegakit.telemetry import JsonLinesSink

__all__ = ["main"]

AGENTS, USERS = 100, 20
SAMPLE_S = 3.0
MOST_KIB_A_MINUTE = 512


class Sample(NamedTuple):
    at_s: float
    resident: int
    tasks: int
    descriptors: int


def main() -> int:
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 10
    with tempfile.TemporaryDirectory() as folder:
        samples, done = asyncio.run(_soak(minutes * 60, Path(folder)))
    settled = samples[len(samples) // 3 :]
    figures = [
        at_least(1, sum(done.values()) / (minutes * 60), "a second", "things done"),
        at_most(MOST_KIB_A_MINUTE, _slope(settled) * 60 / 1024, "KiB/min", "memory rises by"),
        at_most(2, _rise(settled, "tasks"), "", "tasks more at the end"),
        at_most(2, _rise(settled, "descriptors"), "", "descriptors more at the end"),
    ]
    print(f"{minutes:g} minutes, {len(samples)} samples; done: {dict(done)}")
    print(show(figures))
    return 0 if all(figure.holds for figure in figures) else 1


async def _soak(seconds: float, folder: Path) -> tuple[list[Sample], Counter[str]]:
    ledger, trace = SqliteLedger(folder / "ledger.db"), JsonLinesSink(folder / "traces")
    done: Counter[str] = Counter()
    samples: list[Sample] = []
    async with Runtime(None, ledger=ledger, trace=trace) as rt:
        agent = Agent("worker", model=ConstantModel())
        workers = rt.program.spawn_many(agent, AGENTS)
        end = time.monotonic() + seconds
        users = [
            asyncio.ensure_future(_use(rt, agent, workers, n, end, done)) for n in range(USERS)
        ]
        while time.monotonic() < end:
            samples.append(_sample(seconds - (end - time.monotonic())))
            await asyncio.sleep(SAMPLE_S)
        await asyncio.gather(*users)
    return samples, done


async def _use(
    rt: Runtime,
    agent: Agent[str],
    workers: list[Process[Any]],
    number: int,
    end: float,
    done: Counter[str],
) -> None:
    chance = random.Random(number)
    while time.monotonic() < end:
        place = chance.randrange(len(workers))
        deed = chance.choices(list(_DEEDS), [60, 10, 10, 8, 6, 6])[0]
        try:
            await _DEEDS[deed](rt, agent, workers, place)
        except VegaError:
            done[f"{deed} refused"] += 1
        else:
            done[deed] += 1
        await asyncio.sleep(chance.random() / 100)


async def _ask(rt: Runtime, agent: Agent[str], workers: list[Any], place: int) -> None:
    await workers[place].ask("What is the capital of France?")


async def _stream(rt: Runtime, agent: Agent[str], workers: list[Any], place: int) -> None:
    async for _ in workers[place].stream("Tell me"):
        pass


async def _cancel(rt: Runtime, agent: Agent[str], workers: list[Any], place: int) -> None:
    sent = workers[place].send("Never mind")
    await asyncio.sleep(0)
    sent.cancel()


async def _crash(rt: Runtime, agent: Agent[str], workers: list[Any], place: int) -> None:
    workers[place].exit("chaos")


async def _replace(rt: Runtime, agent: Agent[str], workers: list[Any], place: int) -> None:
    old, workers[place] = workers[place], rt.spawn(agent, wallet="$1")
    await old.kill()


async def _group(rt: Runtime, agent: Agent[str], workers: list[Any], place: int) -> None:
    team = rt.spawn(Supervisor("restart_all", [agent]), name=f"team{time.monotonic_ns()}")
    await team.kill()


_DEEDS = {
    "asked": _ask,
    "streamed": _stream,
    "cancelled": _cancel,
    "crashed": _crash,
    "replaced": _replace,
    "grouped": _group,
}


def _sample(at_s: float) -> Sample:
    gc.collect()
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    descriptors = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    resident = int(pages) * os.sysconf("SC_PAGE_SIZE")
    return Sample(at_s, resident, len(asyncio.all_tasks()), descriptors)


def _slope(samples: list[Sample]) -> float:
    """Bytes a second, by least squares."""
    count = len(samples)
    mean_at = sum(sample.at_s for sample in samples) / count
    mean = sum(sample.resident for sample in samples) / count
    above = sum((sample.at_s - mean_at) * (sample.resident - mean) for sample in samples)
    return above / sum((sample.at_s - mean_at) ** 2 for sample in samples)


def _rise(samples: list[Sample], of: str) -> float:
    """Between the first and the last third, by their middle values."""
    third = len(samples) // 3
    values = [getattr(sample, of) for sample in samples]
    return sorted(values[-third:])[third // 2] - sorted(values[:third])[third // 2]


if __name__ == "__main__":
    sys.exit(main())
