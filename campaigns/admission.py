"""What hostile programs cost whoever looks at them: `python -m campaigns.admission [200 [800]]`.

- bombs of at most 40,000 bytes: CPU and memory of the processes that look at them, each; a program
  of 2,000 characters beside them; both as shares of a program that uses up its steps
- a model that sends such a program to a runtime: the longest step of its loop
- eight clients that send them to `vega mcp serve`: how long another client waits, by turns with
  and without them

Times are compared with a loop that is timed in the same run: a slower machine is given more.
Prints its figures last; exits 1 when one falls short.
"""

import asyncio
import gc
import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import Any, Self

from benchmarks.figures import Figure, at_most, show

from campaigns.admission_bombs import Bomb, harmless, nested_loops, some
from vegakit.host import Agent, PreparedGrant, run_program
from vegakit.lang import ModelTerms
from vegakit.money import dollars
from vegakit.program import (
    AdmissionRequest,
    AgentTerms,
    ProgramGrant,
    ProgramRights,
    RefusedProgram,
)
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime
from vegakit.server import Operations, ServerPolicy
from vegakit.server.mcp import call_operation

__all__ = ["LongestStep", "bomb_figures", "flood_figures", "main", "scale", "stall_figures"]

BOMBS, CALLS = 200, 800
MEMORY_MB, STALL_MS, SLOWER = 80, 20, 2.0
MOST_SHARE, QUICK_SHARE = 3.0, 0.25
"""The CPU that a bomb and a short program may take, as shares of what a program takes that uses up
its steps. Measured in one run: bombs take up to 1.6, a short program 0.09."""
ATTACKERS, ROUNDS = 8, 4
_LOOP_MS = 15.0
"""Of CPU for the loop below, on the machine that the limits were set on."""
_SMALL = 'agent A { model fast  max_tokens 100 }\nfor i in range(3) { print(A <- "hello {i}"); }\n'


def scale() -> float:
    """How much slower this machine is, now, than that which the limits were set on; never less
    than 1, as nobody is given less."""

    def once() -> float:
        began, kept = time.process_time(), dict[int, tuple[int, str]]()
        for number in range(100_000):
            kept[number % 1_000] = (number, str(number))
        return (time.process_time() - began) * 1000

    return max(1.0, min(once() for _ in range(5)) / _LOOP_MS)


# Bombs


def _cpu_ms(pids: list[int]) -> float:
    ran = (Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0] for pid in pids)
    return sum(map(int, ran)) / 1e6


def _peak_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def _permit() -> PreparedGrant:
    model = ScriptedModel("x", context_tokens=200_000)
    price = model.price
    assert price is not None
    terms = ModelTerms(price, model.context_tokens, model.default_max_tokens, model.bound_input)
    may = ProgramRights(("fs::read", "fs::write"), ("**",))
    known, languages = AgentTerms({}, {"any": terms}), ("vega", "python")
    return PreparedGrant(
        ProgramGrant(dollars("$1000"), may, {}, frozenset({"any"}), known, languages=languages)
    )


async def _cost_ms(rt: Runtime, permit: PreparedGrant, bomb: Bomb) -> tuple[float, bool]:
    """Return the CPU that the processes take to look at a program, and whether they refuse it. It
    is infinite if one of them was ended."""
    pids = await rt.admission_service.ready()
    before = _cpu_ms(pids)
    inspection = await rt.admission_service.inspect_program(
        AdmissionRequest.ADMIT, bomb.source, bomb.language, permit, bomb.name
    )
    is_refused = isinstance(inspection.verdict, RefusedProgram)
    if await rt.admission_service.ready() != pids:
        return float("inf"), is_refused
    return _cpu_ms(pids) - before, is_refused


async def _bombs(bombs: list[Bomb]) -> list[Figure]:
    permit = _permit()
    async with Runtime() as rt:
        pids = await rt.admission_service.ready()
        idle = {pid: _peak_mb(pid) for pid in pids}
        idle = {pid: _peak_mb(pid) for pid in pids}
        short: list[float] = []
        heavy: list[float] = []
        for number in range(20):
            program = Bomb("a short program", "vega", harmless() + f"// {number}\n")
            cost_ms, is_refused = await _cost_ms(rt, permit, program)
            assert not is_refused
            short.append(cost_ms)
        for number in range(3):
            program = Bomb("all steps", "vega", nested_loops(60) + f"// {number}\n")
            heavy.append((await _cost_ms(rt, permit, program))[0])
        most_ms = MOST_SHARE * median(heavy)
        rows: list[tuple[float, float, str]] = []
        refused = 0
        for bomb in bombs:
            cost_ms, is_refused = await _cost_ms(rt, permit, bomb)
            refused += is_refused
            for _ in range(2):
                if cost_ms > most_ms:  # a busy machine makes one look expensive, seldom three
                    cost_ms = min(cost_ms, (await _cost_ms(rt, permit, bomb))[0])
            pids = await rt.admission_service.ready()
            grown = max(_peak_mb(pid) - min(idle.values()) for pid in pids)
            rows.append((cost_ms, grown, bomb.name))
    for cost_ms, grown, name in sorted(rows, reverse=True)[:5]:
        print(f"{cost_ms:7.0f} ms {grown:5.0f} MB  {name}")
    full_ms = median(heavy)
    print(f"{full_ms:7.0f} ms           a program that uses up its steps")
    return [
        Figure(f"{len(bombs)} bombs, refused", f"{refused}"),
        at_most(
            MOST_SHARE, max(row[0] for row in rows) / full_ms, "×", "  CPU of the most expensive"
        ),
        at_most(MEMORY_MB, max(row[1] for row in rows), "MB", "  memory above an idle process"),
        at_most(QUICK_SHARE, median(short) / full_ms, "×", "a program of 2,000 characters: CPU"),
    ]


def bomb_figures(count: int = BOMBS) -> list[Figure]:
    return asyncio.run(_bombs(some(count)))


# The loop of a runtime


class LongestStep:
    """Of the loop, while it is entered: the CPU that its thread takes, in milliseconds. What was
    there before is frozen: a full collection would count for the step that it falls into."""

    def __init__(self) -> None:
        self.ms, self.what = 0.0, ""
        self._run: Any = getattr(asyncio.Handle, "_run")  # noqa: B009

    def __enter__(self) -> Self:
        def timed(handle: asyncio.Handle) -> None:
            began = time.thread_time()
            self._run(handle)
            took = (time.thread_time() - began) * 1000
            if took > self.ms:
                self.ms, self.what = took, repr(handle)[:160]

        gc.collect()
        gc.freeze()
        setattr(asyncio.Handle, "_run", timed)  # noqa: B010
        return self

    def __exit__(self, *_: object) -> None:
        setattr(asyncio.Handle, "_run", self._run)  # noqa: B010
        gc.unfreeze()


class _Longest:
    def __init__(self) -> None:
        self.steps: list[tuple[float, str]] = []

    @contextmanager
    def of(self, what: str) -> Generator[None]:
        with LongestStep() as step:
            yield
        self.steps.append((step.ms, f"{what}: {step.what}"))

    def figure(self, slower: float, name: str) -> Figure:
        for took, what in sorted(self.steps, reverse=True)[:3]:
            print(f"{took:7.1f} ms  {what}")
        most = max(self.steps)[0]
        return at_most(round(STALL_MS * slower), most, "ms", f"longest step of the loop, {name}")


async def _sent(bombs: list[Bomb], refused: _Longest, accepted: _Longest) -> None:
    """By the model of an agent. What is accepted is installed and runs: steps of another kind."""
    reader = Agent("reader", ScriptedModel("ok"), max_tokens=100)
    tool = run_program([reader], max_cost="$0.25", timeout=5, models=["any"])
    async with Runtime("$100", models=lambda _: ScriptedModel("ok", context_tokens=9_000)) as rt:
        await rt.admission_service.ready()
        for bomb in [Bomb("", "vega", harmless()), *bombs]:
            given = {"source": bomb.source, "language": bomb.language}
            sent = {"calls": [{"name": "run_program", "arguments": given}]}
            model = ScriptedModel([sent, "done"])
            longest = _Longest()
            with longest.of(bomb.name):
                await rt.ask(Agent("planner", model, tools=[tool]), "go")
            is_refused = "refused (" in str(model.requests[-1].messages[-1])[:200]
            (refused if is_refused else accepted).steps += longest.steps if bomb.name else []


async def _served(bombs: list[Bomb], longest: _Longest) -> None:
    """To a server, which tells what is wrong with them, what they cost, and what they do."""
    with tempfile.TemporaryDirectory() as folder:
        async with Runtime("$100", models=lambda _: ScriptedModel("ok")) as rt:
            operations = Operations(
                rt, ServerPolicy(Path(folder), dollars("$1"), models=frozenset({"any"}))
            )
            await rt.admission_service.ready()
            for bomb in [Bomb("", "vega", harmless()), *bombs]:
                given = {"source": bomb.source, "language": bomb.language}
                for tool in ("check", "cost", "explain"):
                    kept = longest if bomb.name else _Longest()
                    with kept.of(f"{tool} {bomb.name}"):
                        await call_operation(operations, tool, given)


def stall_figures(count: int = BOMBS // 2) -> list[Figure]:
    slower, bombs = scale(), some(count)
    bombs += [Bomb("loops", "vega", nested_loops(depth)) for depth in (60, 140)]
    refused, accepted, served = _Longest(), _Longest(), _Longest()
    asyncio.run(_sent(bombs, refused, accepted))
    asyncio.run(_served(bombs, served))
    running = accepted.figure(slower, "")
    return [
        refused.figure(slower, "a model sends them"),
        served.figure(slower, "clients send them"),
        Figure("  to install and run those that are accepted, which is not held", running.value),
    ]


# Clients of a server


class _Client:
    """Of an MCP server, over one connection."""

    def __init__(self, port: int, token: str) -> None:
        self._port, self._token, self._count = port, token, 0
        self._open(60.0)
        self._session = ""
        asked: dict[str, Any] = {"protocolVersion": "2025-06-18", "capabilities": {}}
        self._post("initialize", asked | {"clientInfo": {"name": "x", "version": "1"}})
        self._post("notifications/initialized", None)

    def _open(self, timeout_s: float) -> None:
        self._line = http.client.HTTPConnection("127.0.0.1", self._port, timeout=timeout_s)

    def call(self, tool: str, **given: object) -> str:
        return self._post("tools/call", {"name": tool, "arguments": given})

    def _post(self, method: str, params: Any) -> str:
        body: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            self._count += 1
            body |= {"id": self._count, "params": params}
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Authorization": f"Bearer {self._token}",
        }
        if self._session:
            headers |= {"mcp-session-id": self._session, "mcp-protocol-version": "2025-06-18"}
        sent = json.dumps(body).encode()
        try:
            self._line.request("POST", "/mcp", sent, headers)
            answer = self._line.getresponse()
        except (BrokenPipeError, http.client.RemoteDisconnected):
            # The server closes connections that are idle for long, as any does: nothing was read.
            self._line.close()
            self._line.request("POST", "/mcp", sent, headers)
            answer = self._line.getresponse()
        said = answer.read().decode()
        self._session = answer.headers.get("mcp-session-id") or self._session
        if answer.status >= 400:
            raise OSError(f"{answer.status}: {said[:200]}")
        return said


def _attack(port: int, token: str) -> None:
    """Until its input ends: each of eight sends one bomb after the other, every fifth time as
    somebody new. Then it says how many were answered."""
    answered: list[str] = []

    def one(number: int) -> None:
        bombs = cycle([nested_loops(60 + 9 * number), *(b.source for b in some(3, number))])
        while True:
            try:
                client = _Client(port, token)
                answered.extend(client.call("cost", source=next(bombs)) for _ in range(5))
            except OSError as error:
                print(error, file=sys.stderr)
                time.sleep(0.5)

    threads = [threading.Thread(target=one, args=[n], daemon=True) for n in range(ATTACKERS)]
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    sys.stdin.read()
    print(len(answered), flush=True)
    os._exit(0)


def _waits(client: _Client, calls: int) -> list[float]:
    took: list[float] = []
    for number in range(calls):
        began = time.perf_counter()
        said = client.call("cost" if number % 2 else "check", source=f"{_SMALL}// {number}")
        took.append((time.perf_counter() - began) * 1000)
        assert "refused" not in said, said
    return took


def _flooded(port: int, token: str, calls: int) -> tuple[list[float], list[float], int]:
    client, alone, beside = _Client(port, token), list[float](), list[float]()
    answered = 0
    _waits(client, 20)
    for _ in range(ROUNDS):
        alone += _waits(client, calls // ROUNDS)
        with _process(["-m", "campaigns.admission", "attack", str(port), token]) as attackers:
            assert attackers.stdout is not None
            attackers.stdout.readline()
            time.sleep(1.0)
            beside += _waits(client, calls // ROUNDS)
            answered += int(attackers.communicate()[0])
        time.sleep(1.0)
    return alone, beside, answered


def _process(args: list[str], **more: Any) -> "subprocess.Popen[str]":
    pipe = subprocess.PIPE
    command = [sys.executable, *args]
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, **more)


def _p99(values: list[float]) -> float:
    return sorted(values)[len(values) * 99 // 100]


def flood_figures(calls: int = CALLS) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "vega.toml").write_text('[models]\nfast = "scripted:answers.json"\n')
        (root / "answers.json").write_text('["yes"]')
        env = os.environ | {"VEGA_DATA_DIR": str(root / "data"), "HOME": folder}
        env["VEGA_TRUSTED_FOLDERS"] = folder
        args = ["-m", "vegakit", "mcp", "serve", "--http", "127.0.0.1:0", "--budget", "$1"]
        args += ["--root", folder, "--model", "scripted:answers.json"]
        with _process(args, env=env, cwd=folder, stderr=subprocess.PIPE) as server:
            try:
                assert server.stderr is not None
                told = [server.stderr.readline() for _ in range(2)]
                port = int(told[0].split("127.0.0.1:")[1].split("/")[0])
                token = Path(told[1].rsplit(" ", 1)[1].strip()).read_text(encoding="ascii")
                alone, beside, bombs = _flooded(port, token, calls)
            finally:
                server.terminate()
                server.wait(20)
    was, now = _p99(alone), _p99(beside)
    print(f"another client: median {median(alone):.1f} ms, beside them {median(beside):.1f} ms")
    name = f"beside {ATTACKERS} clients that send bombs, another waits (p99 was {was:.1f} ms)"
    return [
        Figure("bombs that were answered meanwhile", f"{bombs}", "≥ 1", bombs > 0),
        at_most(SLOWER, now / was, "times", name),
    ]


def main(bombs: int = BOMBS, calls: int = CALLS) -> int:
    figures = [*bomb_figures(bombs), *stall_figures(), *flood_figures(calls)]
    print(show(figures))
    return int(not all(figure.holds for figure in figures))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["attack", port, token]:
            _attack(int(port), token)
        case numbers if all(map(str.isdecimal, numbers)) and len(numbers) < 3:
            sys.exit(main(*map(int, numbers)))
        case _:
            sys.exit("usage: python -m campaigns.admission [BOMBS] [CALLS]")
