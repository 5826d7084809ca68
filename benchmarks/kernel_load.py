"""Three servers of a kernel under mixed load: `python -m benchmarks.kernel_load [--seconds 60]`.

First comes what the door alone costs, in memory (see `kernel_doors`).

Clients behind one address, which takes turns among three `vega serve` on one PostgreSQL, lead
processes through their lives: made, moved, through a session, counted, listed, watched and ended.
Beside them stand three bare servers, which run the same statements in the same transactions on the
same PostgreSQL (see `kernel_bare`). Both are loaded alike and take turns, a few seconds each, so
that what else the machine does falls on both; a ratio is of two neighbouring rounds, and a figure
is the median of those.

What the kernel answered is checked: the calls of each process and of each tenant fit the order of
its events (see `campaigns.kernel_histories`), and readers saw every event once. At the end clients
move one process against each other, which is checked as well and not measured.
"""

import argparse
import asyncio
import multiprocessing
import random
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import grpc.aio
import msgspec
from campaigns.kernel_chaos import Server, make_token
from campaigns.kernel_histories import Move, Reply, are_moves_linearizable, is_linearizable
from campaigns.postgres_cluster import cluster

from benchmarks.figures import Figure, show
from benchmarks.kernel_bare import Asked, run_bare
from benchmarks.kernel_doors import door_figures
from benchmarks.kernel_life import LIFE, MARK, PLENTY, SHARED, Recorded, record, wire
from benchmarks.temporal_server import free_port
from vegakit.control import (
    CreateProcessRequest,
    NextRunnableRequest,
    TransitionRequest,
    WatchRequest,
)
from vegakit.policy import ProcessState, QuotaRule

__all__ = ["main"]

SERVERS, TENANTS, CLIENTS = 3, ("t1", "t2", "t3"), 4
ROUND_S, CONTENTION_S = 5, 5
MOST = 1.5
_DEADLINE_S = 60
_CONTESTED = "moved by all clients"
_pids = count(1)

Times = dict[str, list[float]]
"""How long the calls of each operation took, in seconds."""


class Done(NamedTuple):
    """A call of the kernel that was answered."""

    asked: float
    answered: float
    place: int
    pid: str


class Kernel:
    """Three servers as one address, for one tenant; and what they have answered."""

    def __init__(self, channel: Any, tenant: str, token: str) -> None:
        self.tenant, self._who = tenant, (("authorization", f"Bearer {token}"),)
        self._wires = {
            name: wire(name)
            for name in {call.name for call in LIFE} | {"submit", "get_next_runnable"}
        }
        self._methods = {
            name: (channel.unary_stream if name == "watch_events" else channel.unary_unary)(of.path)
            for name, of in self._wires.items()
        }
        self._bodies = [self._wires[call.name].request_bytes(call.request) for call in LIFE]
        self.done: list[Done] = []
        self.counted: list[Reply] = []
        self.moves: list[tuple[Move, str]] = []
        self.numbers: list[int] = []
        self.events: list[Any] = []
        self._cursors: dict[int, int] = {}

    async def call(self, place: int, pid: str, client: int) -> None:
        name, asked = LIFE[place].name, time.perf_counter()
        if name == "watch_events":
            self._cursors[client] = await self.watch(self._cursors.get(client, 0))
            return
        body = self._bodies[place].replace(MARK.encode(), pid.encode())
        reply = await self._methods[name](body, timeout=_DEADLINE_S, metadata=self._who)
        answered = time.perf_counter()
        if is_shared(place):
            left = self._wires[name].reply_class.FromString(reply).remaining.model_calls
            self.counted.append(Reply(asked, answered, left))
        else:
            self.done.append(Done(asked, answered, place, pid))

    async def ask(self, name: str, request: Any) -> Any:
        of = self._wires[name]
        body = of.request_bytes(request)
        reply = await self._methods[name](body, timeout=_DEADLINE_S, metadata=self._who)
        return of.reply_class.FromString(reply)

    async def watch(self, after: int) -> int:
        """Read what there is after a cursor, and return the next one."""
        of, last = self._wires["watch_events"], b""
        body = of.request_bytes(WatchRequest(after=after))
        stream = self._methods["watch_events"](body, timeout=_DEADLINE_S, metadata=self._who)
        async for message in stream:
            last = message
        return of.reply_class.FromString(last).number if last else after

    async def follow(self) -> None:
        """Keep all that is told, until cancelled."""
        of = self._wires["watch_events"]
        body = of.request_bytes(WatchRequest(follow=True))
        stream = self._methods["watch_events"](body, timeout=3_600, metadata=self._who)
        async for message in stream:
            told = of.reply_class.FromString(message)
            self.numbers.append(told.number)
            self.events.append(told.event)

    async def move(self, to: ProcessState, reason: str) -> None:
        request = TransitionRequest(_CONTESTED, to, reason=reason)
        asked = time.perf_counter()
        try:
            await self.ask("transition_state", request)
            number = 0  # it is known when its event is
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.FAILED_PRECONDITION:
                raise
            number = None
        self.moves.append((Move(asked, time.perf_counter(), to, number), reason))


class Bare:
    """Three bare servers as one address, for one tenant."""

    def __init__(self, channel: Any, tenant: str) -> None:
        self._tenant, self._encode = tenant, msgspec.msgpack.encode
        self._call = channel.unary_unary("/bare/Call")
        self._watch = channel.unary_stream("/bare/Watch")
        self._bodies = [wire(call.name).request_bytes(call.request) for call in LIFE]
        self._cursors: dict[int, int] = {}

    async def call(self, place: int, pid: str, client: int) -> None:
        if LIFE[place].name != "watch_events":
            asked = Asked(self._tenant, place, pid, body=self._bodies[place])
            await self._call(self._encode(asked), timeout=_DEADLINE_S)
            return
        last, asked = b"", Asked(self._tenant, place, after=self._cursors.get(client, 1))
        async for message in self._watch(self._encode(asked), timeout=_DEADLINE_S):
            last = message
        self._cursors[client] = int.from_bytes(last, "big")

    async def follow(self) -> None:
        place = next(n for n, call in enumerate(LIFE) if call.name == "watch_events")
        asked = Asked(self._tenant, place, after=1, follow=True)
        async for _ in self._watch(self._encode(asked), timeout=3_600):
            pass


def is_shared(place: int) -> bool:
    return getattr(LIFE[place].request, "pid", "") == SHARED


# Load.


async def loaded(sides: list[Any], seconds: float, clients: int) -> Times:
    """Have clients of every tenant lead processes through their lives for so long."""
    times: Times = defaultdict(list)
    until = time.perf_counter() + seconds

    async def client(side: Any, number: int) -> None:
        while True:
            pid = f"p{next(_pids):025d}"
            for place, call in enumerate(LIFE):
                began = time.perf_counter()
                if began >= until:
                    return
                await side.call(place, pid, number)
                times[call.name].append(time.perf_counter() - began)

    await asyncio.gather(*(client(side, n) for side in sides for n in range(clients)))
    return times


@asynccontextmanager
async def followed(sides: list[Any]) -> AsyncGenerator[None]:
    """One reader of each tenant follows its events meanwhile."""
    following = [asyncio.ensure_future(side.follow()) for side in sides]
    try:
        yield
        for one in following:
            if one.done():
                one.result()  # a stream that ended early
    finally:
        for one in following:
            one.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*following)


async def contested(kernel: Kernel, seconds: float, clients: int) -> None:
    """Move one process against each other."""
    await kernel.ask("submit", CreateProcessRequest(_CONTESTED, quota=QuotaRule()))
    taken = ""
    while taken != _CONTESTED:  # lives that were cut short are in the queue as well
        request = NextRunnableRequest("bench", lease_ms=3_600_000)
        taken = (await kernel.ask("get_next_runnable", request)).process.pid
    until = time.perf_counter() + seconds

    async def mover(name: int) -> None:
        for n in count():
            if time.perf_counter() >= until:
                return
            to = random.choice((ProcessState.RUNNING, ProcessState.WAITING, ProcessState.BLOCKED))
            await kernel.move(to, f"{name}/{n}")

    await asyncio.gather(*(mover(n) for n in range(clients)))


# What must hold.

_TOLD = {
    "create_process": ("PROCESS_CREATED", None),
    "transition_state": ("PROCESS_STATE_CHANGED", "state"),
    "report_agent_result": ("STAGE_COMPLETED", "task"),
}
"""The event by which a call is told, and the detail that says which call it was."""


_MOVED = ("old_state", "state", "reason")
_ALLOWED = {"running": ("waiting", "blocked"), "waiting": ("running",), "blocked": ("running",)}
"""Of the moves that clients make against each other, written anew and not taken from the kernel."""


def _key(place: int, pid: str) -> tuple[str, str, str] | None:
    """Return what the event of a call says of itself."""
    name, request = LIFE[place]
    if name not in _TOLD:
        return None
    kind, field = _TOLD[name]
    word = str(getattr(request, {"state": "to"}.get(field, field))) if field else ""
    return kind, pid, word


def checks(kernel: Kernel) -> dict[str, int]:
    """Return how many faults of each kind the history of a tenant has."""
    named = kernel.events[0].DESCRIPTOR.fields_by_name["kind"].enum_type.values_by_number
    kinds = {n: one.name.removeprefix("KERNEL_EVENT_KIND_") for n, one in named.items()}
    numbers: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    contested_moves: list[tuple[int, str, str, str]] = []
    for number, event in zip(kernel.numbers, kernel.events, strict=True):
        kind, detail = kinds[event.kind], event.detail.fields
        field = dict(_TOLD.values()).get(kind)
        numbers[kind, event.pid, detail[field].string_value if field else ""].append(number)
        if event.pid == _CONTESTED and detail["reason"].string_value:
            before, after, reason = (detail[name].string_value for name in _MOVED)
            contested_moves.append((number, before, after, reason))
    history: dict[str, list[Reply]] = defaultdict(list)
    faults = 0
    for done in kernel.done:
        key = _key(done.place, done.pid)
        if key is None:
            continue
        told = numbers[key]
        if len(told) != 1:
            faults += 1
            continue
        history[done.pid].append(Reply(done.asked, done.answered, -told[0]))
    of_reason = {reason: number for number, *_, reason in contested_moves}
    moves = [
        move._replace(number=of_reason.get(reason, -1)) if move.number is not None else move
        for move, reason in kernel.moves
    ]
    whole = [reply for replies in history.values() for reply in replies]
    counts = len(kernel.counted)
    return {
        "acknowledged calls that are told not at all, or twice": faults,
        "processes whose history is not linearizable": sum(
            not is_linearizable(replies) for replies in history.values()
        ),
        "tenants whose history is not linearizable": not is_linearizable(whole),
        "shared counters that are not linearizable": not is_linearizable(kernel.counted)
        or min(reply.left for reply in kernel.counted) != PLENTY - counts,
        "contested processes whose moves are not linearizable": not are_moves_linearizable(
            moves, [told[:3] for told in contested_moves], _ALLOWED
        ),
        "events lost, doubled or out of order": kernel.numbers
        != [*range(1, len(kernel.numbers) + 1)],
    }


# Both sides, by turns.


@contextmanager
def bare_servers(dsn: str, schema: str, lives: dict[str, list[Recorded]]) -> Generator[list[int]]:
    context = multiprocessing.get_context("spawn")
    pipes: list[Any] = []
    for _ in range(SERVERS):
        pipe, other = context.Pipe()
        context.Process(target=run_bare, args=(other, dsn, schema, lives), daemon=True).start()
        pipes.append(pipe)
    try:
        yield [pipe.recv() for pipe in pipes]
    finally:
        for pipe in pipes:
            pipe.send(None)


@contextmanager
def kernel_servers(store: str, folder: Path) -> Generator[list[int]]:
    ports = [free_port() for _ in range(SERVERS)]
    servers = [
        Server(store, folder, "--doors", "http,grpc", "--grpc-port", str(port)) for port in ports
    ]
    for server in servers:
        server.start()
    try:
        for server in servers:
            server.wait()
        yield ports
    finally:
        for server in servers:
            server.end()


def one_address(ports: list[int]) -> Any:
    """Return a channel to all of these servers, which take turns."""
    options = [("grpc.lb_policy_name", "round_robin"), ("grpc.use_local_subchannel_pool", 1)]
    address = "ipv4:" + ",".join(f"127.0.0.1:{port}" for port in ports)
    return grpc.aio.insecure_channel(address, options=options)


class Round(NamedTuple):
    """One turn of each, which had the machine as it was then."""

    ours: Times
    bare: Times


async def measure(
    ports: list[int], bare_ports: list[int], tokens: dict[str, str], seconds: float, clients: int
) -> tuple[list[Round], list[Kernel]]:
    async with AsyncExitStack() as stack:
        ours, bare = [
            await stack.enter_async_context(one_address(one)) for one in (ports, bare_ports)
        ]
        kernels = [Kernel(ours, tenant, token) for tenant, token in tokens.items()]
        bares = [Bare(bare, tenant) for tenant in tokens]
        rule = QuotaRule(model_calls=PLENTY)
        for kernel in kernels:
            await kernel.ask("create_process", CreateProcessRequest(SHARED, quota=rule))
        rounds: list[Round] = []
        each_s = min(ROUND_S, seconds / 2)
        async with followed(kernels), followed(bares):
            for sides in (kernels, bares):
                await loaded(sides, each_s / 2, clients)  # connections, plans, imports
            for n in range(max(1, round(seconds / each_s))):
                turns = [kernels, bares][:: 1 if n % 2 else -1]
                found = [await loaded(sides, each_s, clients) for sides in turns]
                rounds.append(Round(*found[:: 1 if n % 2 else -1]))
            await asyncio.gather(
                *(contested(one, min(CONTENTION_S, seconds), clients) for one in kernels)
            )
            await _all_is_told(kernels)
        return rounds, kernels


async def _all_is_told(kernels: list[Kernel]) -> None:
    """Wait until the readers have seen what there is."""
    for kernel in kernels:
        last, until = await kernel.watch(0), time.monotonic() + _DEADLINE_S
        while kernel.numbers[-1:] != [last] and time.monotonic() < until:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def _quantile(times: list[float], part: float) -> float:
    return sorted(times)[int(part * (len(times) - 1))] * 1e3


def _median_ratio(rounds: list[Round], of: Callable[[Times], float]) -> float:
    return statistics.median(of(one.ours) / of(one.bare) for one in rounds)


def _mean(times: Times) -> float:
    """Of all calls; in a closed loop it is also what each client gets done."""
    return statistics.fmean(time for found in times.values() for time in found)


def figures(rounds: list[Round], kernels: list[Kernel], each_s: float) -> list[Figure]:
    names = [*dict.fromkeys(call.name for call in LIFE)]
    of_side = f"{'calls/s':>10}{'p50 ms':>9}{'p99 ms':>9}"
    print(f"{'':22}{of_side}   |{of_side}   of the echo with bare statements")
    for name in names:
        row = f"{name:22}"
        for side in ("ours", "bare"):
            times = [time for one in rounds for time in getattr(one, side)[name]]
            rate = len(times) / each_s / len(rounds)
            row += f"{rate:10.0f}{_quantile(times, 0.5):9.1f}{_quantile(times, 0.99):9.1f}   |"
        print(row)
    print()
    found = [Figure("rounds of each side", f"{len(rounds)} of {each_s:g} s")]
    ratios: dict[str, float] = {"all calls, mean": _median_ratio(rounds, _mean)}
    for name in names:
        ratios[f"{name}, p50"] = _median_ratio(
            rounds, lambda times, name=name: statistics.median(times[name])
        )
    for name, ratio in ratios.items():
        text = f"{name}: to the echo with bare statements"
        found.append(Figure(text, f"{ratio:.2f} ×", f"≤ {MOST:g} ×", ratio <= MOST))
    calls = sum(len(one.done) + len(one.counted) for one in kernels)
    found.append(Figure("calls whose history is checked", f"{calls:,}"))
    moves = [move for one in kernels for move, _ in one.moves]
    refused = sum(move.number is None for move in moves)
    found.append(Figure("contested moves, of which refused", f"{len(moves):,}, {refused:,}"))
    found.append(Figure("events read", f"{sum(len(one.events) for one in kernels):,}"))
    per_tenant = [checks(one) for one in kernels]
    for name in per_tenant[0]:
        faults = sum(int(one[name]) for one in per_tenant)
        found.append(Figure(name, f"{faults}", "0", faults == 0))
    return found


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Load three servers of a kernel.")
    parser.add_argument("--seconds", type=float, default=60, help="under load, of each side")
    parser.add_argument("--clients", type=int, default=CLIENTS, help="of each of three tenants")
    asked = parser.parse_args(words)
    found = door_figures()
    print()
    with tempfile.TemporaryDirectory() as name, cluster() as database:
        folder, schema = Path(name), "bare"
        store = f"postgresql://postgres@127.0.0.1:{database.port}/postgres"
        lives = {one: asyncio.run(record(f"{store}?schema={schema}", one)) for one in TENANTS}
        with (
            kernel_servers(store, folder) as ports,
            bare_servers(database.dsn, schema, lives) as bare_ports,
        ):
            tokens = {tenant: make_token(store, folder, tenant) for tenant in TENANTS}
            seen = measure(ports, bare_ports, tokens, asked.seconds, asked.clients)
            rounds, kernels = asyncio.run(seen)
    found += figures(rounds, kernels, min(ROUND_S, asked.seconds / 2))
    print(show(found))
    return 0 if all(figure.holds for figure in found) else 1


if __name__ == "__main__":
    sys.exit(main())
