"""What the gRPC door costs beside bare gRPC: `python -m benchmarks.kernel_doors`.

A server in a process of its own answers an echo by a bare `grpc.aio` handler, and our get_process
and record_usage on a store in memory, token and deadline included. Rounds of all three take turns,
so that what else the machine does falls on each alike; a figure is the median of the ratios of
rounds that stand beside each other. CPU is that of the server alone.
"""

import asyncio
import multiprocessing
import resource
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, cast

import grpc
import grpc.aio

from benchmarks.figures import Figure, show
from vegakit.concurrency import SteadyClock
from vegakit.kernel import Kernel
from vegakit.server import TokenRole, Tokens, serve_grpc
from vegakit.server.protobuf import kernel_messages
from vegakit.store import open_tenants

__all__ = ["door_figures", "main"]

ROUNDS, CALLS = 15, 200
MOST_CPU, MOST_P50 = 1.6, 1.8
SERVICE = "/vega.kernel.v1.KernelService/"


class Echo(grpc.GenericRpcHandler):
    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        if handler_call_details.method != "/bare/Echo":
            return None
        handler: Any = grpc.unary_unary_rpc_method_handler
        return handler(self._echo)

    async def _echo(self, body: bytes, _: object) -> bytes:
        return body


async def serve(pipe: Any) -> None:
    """Say where the servers are; then say how much CPU was used, whenever asked."""
    store, clock = open_tenants(":memory:"), SteadyClock()
    tokens = Tokens(store, clock)
    token = await tokens.create("acme", "ann", TokenRole.WORKER)
    door = await serve_grpc(Kernel(store, clock), tokens.authenticate, "127.0.0.1:0", sweep=False)
    bare = grpc.aio.server()
    bare.add_generic_rpc_handlers((Echo(),))
    port = bare.add_insecure_port("127.0.0.1:0")
    await bare.start()
    pipe.send((port, door.port, token))
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()
    loop.add_reader(pipe.fileno(), asked.set)
    while True:
        await asked.wait()
        asked.clear()
        if not pipe.poll():
            continue  # it was told of twice
        if not pipe.recv():
            break
        used = resource.getrusage(resource.RUSAGE_SELF)
        pipe.send(used.ru_utime + used.ru_stime)
    await door.stop(0)
    await bare.stop(0)


def run_server(pipe: Any) -> None:
    asyncio.run(serve(pipe))


Call = Callable[[], Awaitable[bytes]]


async def measure(call: Call, pipe: Any) -> tuple[float, float]:
    """Return the server's CPU for a call, and the median time that a client waits, in µs."""
    pipe.send(True)
    before, times = pipe.recv(), list[float]()
    for _ in range(CALLS):
        began = time.perf_counter()
        await call()
        times.append(time.perf_counter() - began)
    pipe.send(True)
    return (pipe.recv() - before) / CALLS * 1e6, statistics.median(times) * 1e6


async def compare(pipe: Any) -> dict[str, list[tuple[float, float]]]:
    """Return the CPU and the median time of each round."""
    bare_port, port, token = pipe.recv()
    messages, who = kernel_messages(), (("authorization", f"Bearer {token}"),)
    async with (
        grpc.aio.insecure_channel(f"127.0.0.1:{bare_port}") as bare,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as ours,
    ):

        def ask(name: str, message: str, **fields: object) -> Call:
            method = cast("Any", ours).unary_unary(SERVICE + name)
            body = messages.message_class(message)(**fields).SerializeToString()
            return lambda: method(body, timeout=10, metadata=who)

        await ask("Submit", "CreateProcessRequest", pid="p")()
        echo = cast("Any", bare).unary_unary("/bare/Echo")
        calls: dict[str, Call] = {
            "echo": lambda: echo(b"\n\x01p", timeout=10, metadata=who),
            "get_process": ask("GetProcess", "PidRequest", pid="p"),
            "record_usage": ask(
                "RecordUsage", "RecordUsageRequest", pid="p", usage={"model_calls": 1}
            ),
        }
        rounds: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
        for _ in range(ROUNDS):
            for name, call in calls.items():
                rounds[name].append(await measure(call, pipe))
    return rounds


def door_figures() -> list[Figure]:
    """Measure, print what was seen, and return the ratios beside their limits."""
    context = multiprocessing.get_context("spawn")
    pipe, other = context.Pipe()
    process = context.Process(target=run_server, args=(other,), daemon=True)
    process.start()
    found = asyncio.run(compare(pipe))
    pipe.send(False)
    process.join()
    for name, rounds in found.items():
        cpu, p50 = (statistics.median(one) for one in zip(*rounds, strict=True))
        print(f"{name}: {cpu:.0f} µs CPU of the server, p50 {p50:.0f} µs")
    figures: list[Figure] = []
    for name in ("get_process", "record_usage"):
        for place, (what, most) in enumerate((("CPU", MOST_CPU), ("p50", MOST_P50))):
            pairs = zip(found[name], found["echo"], strict=True)
            ratio = statistics.median(ours[place] / bare[place] for ours, bare in pairs)
            text = f"{name}: {what} to that of a bare echo, in memory"
            figures.append(Figure(text, f"{ratio:.2f} ×", f"≤ {most:g} ×", ratio <= most))
    return figures


def main() -> int:
    figures = door_figures()
    print(show(figures))
    return 0 if all(figure.holds for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
