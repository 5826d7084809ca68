"""A kernel that is attacked beside a good client: `python -m campaigns.kernel_attacks [5 [5]]`.

For each class of attack there is a server of its own (`vega serve`, HTTP and gRPC, on SQLite; SQL
on PostgreSQL; Redis with a bus on one that loses everything now and then), a good client and the
attackers, each in its own process. Rounds without and with the attack take turns. The good client
makes and counts processes at a steady pace over both doors, and times each call from when it was
due: a server that stands still delays all that is due meanwhile.

Attackers are two other tenants with valid tokens, a forged token and none. They begin `PACE`
attacks a second, some of several requests, and have the lowest claim to the two cores: this is
about the server, and not about the scheduler of the machine. Nor about its disk: SQLite is in
memory where there is a place for it, since a shared disk now and then takes 100 ms to write.

Prints its figures last; exits 1 when one falls short.
"""

import asyncio
import http.client
import json
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Generator
from contextlib import ExitStack, aclosing, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import grpc
from benchmarks.figures import Figure, at_least, at_most, show
from tests.kernel.serving import ServerProcess, environment_of
from tests.store.postgres import own_schema, url_of
from tests.store.redis_server import RedisServer, redis_server

from vegakit.concurrency import SteadyClock
from vegakit.server import TokenRole, Tokens
from vegakit.server.protobuf import kernel_messages
from vegakit.store import open_tenants

__all__ = ["main", "measure"]

CLASSES = ("grpc", "hitl", "redis", "sql", "web", "fuzz")
PACE = {"grpc": 15, "hitl": 15, "redis": 15, "sql": 20, "web": 15, "fuzz": 40}
CALLS_A_SECOND = 25
ROUNDS, SECONDS = 5, 5.0
MOST_RATIO, MOST_MB, MOST_STEP_MS = 2.0, 256, 250
OUR_FAULT = re.compile(r"http 50[03]|grpc (INTERNAL|UNKNOWN|UNAVAILABLE|DATA_LOSS)")
IN_MEMORY = next((place for place in ("/dev/shm",) if Path(place).is_dir()), None)
_SERVICE = "/vega.kernel.v1.KernelService/"


# The good client.


def _calls(number: int, door: str) -> dict[str, tuple[str, dict[str, Any]]]:
    pid = f"{door}{number // 4}"
    return {
        "create_process": ("CreateProcessRequest", {"pid": pid}),
        "get_process": ("PidRequest", {"pid": pid}),
        "record_usage": ("RecordUsageRequest", {"pid": pid, "usage": {"model_calls": 1}}),
        "list_processes": ("ListProcessesRequest", {"limit": 20}),
    }


class GoodClient:
    """Calls over one door, one call after another, each when it is due."""

    def __init__(self, door: str, port: int, token: str) -> None:
        self._door, self._token, self._number = door, token, 0
        self._web = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self._channel: Any = grpc.insecure_channel(f"127.0.0.1:{port}")
        self._messages = kernel_messages()

    def work(self, seconds: float, found: list[tuple[float, bool]]) -> None:
        began = time.perf_counter()
        for n in range(int(seconds * CALLS_A_SECOND)):
            due = began + n / CALLS_A_SECOND
            time.sleep(max(0.0, due - time.perf_counter()))
            is_good = self._call()
            found.append((1_000 * (time.perf_counter() - due), is_good))

    def _call(self) -> bool:
        calls = _calls(self._number, self._door)
        name, (message, fields) = [*calls.items()][self._number % 4]
        self._number += 1
        if self._door == "http":
            sent = {"Content-Type": "application/json", "Authorization": f"Bearer {self._token}"}
            try:
                self._web.request("POST", f"/v1/{name}", json.dumps(fields).encode(), sent)
                response = self._web.getresponse()
                return response.read() != b"" and response.status == 200
            except (OSError, http.client.HTTPException):
                self._web.close()  # the next call opens another one
                return False
        method = self._channel.unary_unary(_SERVICE + name.title().replace("_", ""))
        body = self._messages.message_class(message)(**fields).SerializeToString()
        try:
            method(body, timeout=30, metadata=(("authorization", f"Bearer {self._token}"),))
        except grpc.RpcError:
            return False
        return True


def be_good(http_port: str, grpc_port: str, token: str) -> None:
    """Answer each line `SECONDS` with the milliseconds of each call, and how many failed."""
    ports = {"http": int(http_port), "grpc": int(grpc_port)}
    clients = [GoodClient(door, port, token) for door, port in ports.items()]
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        found: list[tuple[float, bool]] = []
        threads = [
            threading.Thread(target=client.work, args=(float(line), found)) for client in clients
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        failed = sum(not is_good for _, is_good in found)
        print(json.dumps([[took for took, _ in found], failed]), flush=True)


# The server: the command as it is, in a process that also times each step of its loop.


def serve(*words: str) -> None:
    """Run `vega serve`, and say at the end of each second which step of the loop took most CPU."""
    from asyncio import events

    from vegakit.cli import main as vega

    handle: Any = events.Handle
    run, longest = handle._run, [0.0]  # noqa: SLF001

    def timed(self: Any) -> None:
        began = time.thread_time()
        run(self)
        longest[0] = max(longest[0], time.thread_time() - began)

    def tell() -> None:
        while True:
            time.sleep(0.5)
            took, longest[0] = longest[0], 0.0
            print(f"step {1_000 * took:.1f}", flush=True)

    # Not from the first second: until it serves, a server loads what it needs.
    handle._run = timed  # noqa: SLF001
    threading.Thread(target=tell, daemon=True).start()
    sys.exit(vega(["serve", *words]))


class Told(NamedTuple):
    """A process that answers lines."""

    process: "subprocess.Popen[str]"

    def ask(self, seconds: float) -> None:
        assert self.process.stdin
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()

    def said(self) -> Any:
        assert self.process.stdout
        return json.loads(self.process.stdout.readline())


@contextmanager
def started(*words: str) -> Generator[Told]:
    with subprocess.Popen(
        [sys.executable, "-m", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            told = Told(process)
            told.said()
            yield told
        finally:
            process.kill()


@contextmanager
def served(folder: Path, store: str, bus: str) -> Generator[tuple[ServerProcess, int, int]]:
    words = ["--doors", "http,grpc", "--store", store, "--port", "0", "--grpc-port", "0"]
    with subprocess.Popen(
        [sys.executable, "-m", "campaigns.kernel_attacks", "serve", *words, *bus.split()],
        env=environment_of(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        server = ServerProcess(process)
        try:
            server.is_open.wait(60)
            ports = re.findall(r"(?:http|grpc)://[\d.]+:(\d+)", server.said)
            assert len(ports) >= 2, server.said
            yield server, int(ports[0]), int(ports[1])
        finally:
            process.kill()
            process.wait()
            server.reader.join(10)


async def tokens_of(store: str) -> list[str]:
    async with aclosing(open_tenants(store)) as tenants:
        tokens = Tokens(tenants, SteadyClock())
        names = ("good", "attacker", "other attacker")
        return [await tokens.create(name, "ann", TokenRole.OPERATOR) for name in names]


def memory_mb(pid: int, what: str = "VmRSS") -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(what))


# One class of attack.


class Seen(NamedTuple):
    """The p99 of each round in ms, alone and beside the attack, and what became of the server."""

    alone: list[float]
    beside: list[float]
    failed: int
    attacks: int
    answers: Counter[str]
    grown_mb: float
    step_ms: float
    is_up: bool
    tracebacks: int

    @property
    def faults(self) -> int:
        return sum(count for what, count in self.answers.items() if OUR_FAULT.fullmatch(what))


def measure(kind: str, rounds: int, seconds: float) -> Seen:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=IN_MEMORY)))
        schema = stack.enter_context(own_schema() if kind.startswith("sql") else nullcontext(""))
        store = url_of(schema) if schema else str(folder / "kernel.db")
        redis = stack.enter_context(redis_server(folder)) if kind.startswith("redis") else None
        tokens = asyncio.run(tokens_of(store))
        bus = f"--bus {redis.url}" if redis else ""
        server, *ports = stack.enter_context(served(folder, store, bus))
        places = [str(port) for port in ports]
        good = stack.enter_context(started("campaigns.kernel_attacks", "good", *places, tokens[0]))
        attackers = stack.enter_context(
            started(
                "campaigns.kernel_attackers",
                kind,
                *places,
                *tokens[1:],
                str(PACE[kind.partition(":")[0]]),
            )
        )
        return _rounds(server, good, attackers, redis, rounds, seconds)


def _rounds(
    server: ServerProcess,
    good: Told,
    attackers: Told,
    redis: RedisServer | None,
    rounds: int,
    seconds: float,
) -> Seen:
    good.ask(seconds)  # connections, caches
    good.said()
    before_mb, begin = memory_mb(server.process.pid), len(server.said)
    alone, beside = list[float](), list[float]()
    failed, attacks, answers = 0, 0, Counter[str]()
    for _ in range(rounds):
        for is_attacked, found in ((False, alone), (True, beside)):
            if is_attacked:
                attackers.ask(seconds + 1)
                time.sleep(0.5)
            good.ask(seconds)
            if is_attacked and redis:
                time.sleep(seconds / 2)
                redis.client().flushall()  # pyright: ignore[reportUnknownMemberType]
            times, bad = good.said()
            found.append(statistics.quantiles(times, n=100)[98])
            failed += bad
            if is_attacked:
                made, answered = attackers.said()
                attacks += made
                answers.update(answered)
    said = server.said[begin:]
    steps = [float(ms) for ms in re.findall(r"step ([\d.]+)", said)]
    is_up = server.process.poll() is None
    peak_mb = memory_mb(server.process.pid, "VmHWM") if is_up else 0.0
    return Seen(
        alone,
        beside,
        failed,
        attacks,
        answers,
        peak_mb - before_mb,
        max(steps, default=0.0),
        is_up,
        said.count("Traceback"),
    )


def figures_of(kind: str, seen: Seen) -> list[Figure]:
    alone, beside = statistics.median(seen.alone), statistics.median(seen.beside)
    return [
        Figure(f"{kind}: p99 alone, beside", f"{alone:.1f}, {beside:.1f} ms"),
        at_most(MOST_RATIO, beside / alone, "×", f"{kind}: p99 beside the attack"),
        at_most(MOST_STEP_MS, seen.step_ms, "ms", f"{kind}: CPU of the loop's longest step"),
        at_most(MOST_MB, seen.grown_mb, "MB", f"{kind}: memory grown at its peak"),
        at_most(0, (not seen.is_up) + seen.tracebacks, "", f"{kind}: crashes, tracebacks"),
        at_most(0, seen.faults, "", f"{kind}: answers that are our fault"),
        at_most(0, seen.failed, "", f"{kind}: calls of the good client that failed"),
        at_least(1, seen.attacks, "", f"{kind}: attacks"),
    ]


def main(*given: str) -> int:
    rounds = int(given[0]) if given else ROUNDS
    seconds = float(given[1]) if given[1:] else SECONDS
    figures: list[Figure] = []
    for kind in given[2:] or CLASSES:
        seen = measure(kind, rounds, seconds)
        print(kind, dict(seen.answers.most_common()), flush=True)
        print(kind, *(f"{a:.0f}/{b:.0f}" for a, b in zip(seen.alone, seen.beside, strict=True)))
        figures += figures_of(kind, seen)
    print(show(figures))
    return int(not all(figure.holds for figure in figures))


if __name__ == "__main__":
    parts = {"good": be_good, "serve": serve}
    if sys.argv[1:] and sys.argv[1] in parts:
        parts[sys.argv[1]](*sys.argv[2:])
    else:
        sys.exit(main(*sys.argv[1:]))
