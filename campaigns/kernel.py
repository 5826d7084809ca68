"""The kernel at size: `python -m campaigns.kernel [10000 [1000]]`.

On each store (memory, SQLite, PostgreSQL) a tenant has 10,000 processes, of which 1,000 wait for an
answer of a person: what it takes to list, count, sweep, and take the next process from the queue.
Then every process is taken by four servers side by side: each once, the most urgent first, and none
is left.

Times are compared with a loop that is timed in the same run: a slower machine is given more.
Prints its figures last; exits 1 when one falls short.
"""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from statistics import median
from uuid import uuid4

from benchmarks.figures import Figure, at_most, show

from campaigns.admission import scale
from vegakit.concurrency import SteadyClock
from vegakit.control import (
    CreateInterruptRequest,
    CreateProcessRequest,
    EmptyRequest,
    InterruptIdRequest,
    KernelProcess,
    ListInterruptsRequest,
    ListProcessesRequest,
    NextRunnableRequest,
)
from vegakit.ids import TenantId
from vegakit.kernel import Kernel, KernelCaller, TenantKernel
from vegakit.policy import InterruptKind, InterruptStatus, Priority, ProcessState
from vegakit.ports import TenantStore
from vegakit.store import open_tenants

PROCESSES, QUESTIONS, SERVERS, AT_ONCE = 10_000, 1_000, 4, 64
LOOK_MS = 50
_ANN = KernelCaller(TenantId("acme"), "ann")
_POSTGRES = os.environ.get("VEGA_TEST_POSTGRES_URL", "postgresql://postgres@127.0.0.1:5432/test")


async def fill(kernel: TenantKernel, processes: int, questions: int) -> None:
    """Make the processes, of all priorities, and ask the questions."""
    priorities = list(Priority)
    for start in range(0, processes, AT_ONCE):
        numbers = range(start, min(start + AT_ONCE, processes))
        await asyncio.gather(
            *(
                kernel.submit(
                    CreateProcessRequest(f"p{n:06}", priority=priorities[n % len(priorities)])
                )
                for n in numbers
            )
        )
    kind = InterruptKind.CLARIFICATION
    for start in range(0, questions, AT_ONCE):
        numbers = range(start, min(start + AT_ONCE, questions))
        await asyncio.gather(
            *(
                kernel.create_interrupt(CreateInterruptRequest(f"p{n:06}", kind, "Which?", f"q{n}"))
                for n in numbers
            )
        )


async def cancel(kernel: TenantKernel, questions: int) -> None:
    """Close the questions, so that nothing holds the processes that asked them."""
    for number in range(questions):
        await kernel.cancel_interrupt(InterruptIdRequest(f"q{number}"))


async def looks(kernel: Kernel) -> dict[str, float]:
    """Return how many milliseconds each look takes, the median of nine."""
    of = TenantKernel(kernel, _ANN)
    pending = ListInterruptsRequest(status=InterruptStatus.PENDING)
    todo: dict[str, Callable[[], Awaitable[object]]] = {
        "list": lambda: of.list_processes(ListProcessesRequest()),
        "list those that are ready": lambda: of.list_processes(
            ListProcessesRequest(ProcessState.READY)
        ),
        "list questions": lambda: of.list_interrupts(pending),
        "count": lambda: of.get_system_status(EmptyRequest()),
        "sweep": kernel.sweep,
    }
    took: dict[str, float] = {}
    for name, do in todo.items():
        times: list[float] = []
        for _ in range(9):
            began = time.perf_counter()
            await do()
            times.append(1_000 * (time.perf_counter() - began))
        took[name] = median(times)
    return took


async def drain(kernels: list[Kernel]) -> list[KernelProcess]:
    """Return every process as the servers took it, in the order in which they were answered."""
    taken: list[KernelProcess] = []

    async def work(kernel: Kernel, number: int) -> None:
        request = NextRunnableRequest(f"worker {number}", lease_ms=3_600_000)
        while found := (await TenantKernel(kernel, _ANN).get_next_runnable(request)).process:
            taken.append(found)

    await asyncio.gather(*(work(kernel, number) for number, kernel in enumerate(kernels)))
    return taken


async def measure(
    name: str, open_store: Callable[[], TenantStore], servers: int, sizes: tuple[int, int]
) -> list[Figure]:
    """Return the figures of one store."""
    processes, questions = sizes
    async with AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(aclosing(open_store())) for _ in range(servers)]
        kernels = [Kernel(store, SteadyClock()) for store in stores]
        began = time.perf_counter()
        await fill(TenantKernel(kernels[0], _ANN), processes, questions)
        filled_s = time.perf_counter() - began
        took = await looks(kernels[0])
        began = time.perf_counter()
        free = await drain(kernels)
        drained_s = time.perf_counter() - began
        await cancel(TenantKernel(kernels[0], _ANN), questions)
        taken = [*free, *await drain(kernels)]
    limit = LOOK_MS * scale()
    held = sum(one.interrupt is not None for one in taken)
    twice = len(taken) - len({one.pid for one in taken})
    # Servers are answered side by side: the first of all priorities are still the most urgent.
    realtime = [one.priority is Priority.REALTIME for one in free]
    urgent = realtime[: sum(realtime)]
    made = f"{processes:,} processes and {questions:,} questions made"
    return [
        Figure(f"{name}: {made}", f"{filled_s:.1f} s"),
        *(at_most(limit, ms, "ms", f"{name}: {what}") for what, ms in took.items()),
        Figure(f"{name}: {len(free):,} taken by {servers} servers", f"{drained_s:.1f} s"),
        at_most(0, twice, "", f"{name}: taken twice"),
        at_most(0, processes - len(taken), "", f"{name}: left"),
        at_most(0, held, "", f"{name}: taken while a question holds it"),
        at_most(servers, len(urgent) - sum(urgent), "", f"{name}: before the most urgent"),
    ]


async def run(sizes: tuple[int, int]) -> list[Figure]:
    """Return the figures of all stores."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "kernel.db"
        schema = f"campaign_{uuid4().hex}"
        try:
            return [
                *await measure("memory", lambda: open_tenants(":memory:"), 1, sizes),
                *await measure("SQLite", lambda: open_tenants(place), SERVERS, sizes),
                *await measure(
                    "PostgreSQL",
                    lambda: open_tenants(f"{_POSTGRES}?schema={schema}"),
                    SERVERS,
                    sizes,
                ),
            ]
        finally:
            _drop(schema)


def _drop(schema: str) -> None:
    import psycopg
    from psycopg import sql

    with psycopg.connect(_POSTGRES, autocommit=True) as server:
        server.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schema)))


def main() -> int:
    given = [int(text) for text in sys.argv[1:]]
    processes, questions = [*given, *(PROCESSES, QUESTIONS)[len(given) :]]
    figures = asyncio.run(run((processes, questions)))
    print(show(figures))
    return int(not all(figure.holds for figure in figures))


if __name__ == "__main__":
    raise SystemExit(main())
