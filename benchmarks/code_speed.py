"""How quick the coding agent is, beside others in one interleaved run:
`python -m benchmarks.code_speed [ROUNDS [alone]]`.

One scripted provider drives all of them. CPU-seconds are of the whole process tree, memory is its
resident pages at the highest sample. Before each figure a fixed loop is timed; what is held against
a limit is the median of what was measured, divided by how much slower than `CALIBRATED_MS` that
loop was. Rivals are those that `just code-beside` has installed. Prints its
figures last; exits 1 when one falls short.
"""

import asyncio
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any

from campaigns.code_complaints.agents import AGENTS, Agent, Sage
from campaigns.code_complaints.bench import Bench, Say, bench, edit, read, shell

from benchmarks.figures import Figure, show
from benchmarks.timing import CALIBRATED_MS, calibration_loop, slowness
from vegakit.config import load
from vegakit.conversation import AssistantMessage, Text, UserMessage
from vegakit.sage import SessionStore, TurnRecord
from vegakit.sdk import runtime_arguments

__all__ = ["main"]

ROUNDS = 5
TURNS = 2_000
WORDS = 40
"""Pieces of a streamed answer, `GAP_MS` apart."""
GAP_MS = 25
LIMITS = {
    "CPU to the first request, s": 0.45,
    "CPU of a whole `-p hi`, s": 0.6,
    "peak of the process tree, MB": 100,
    "first request body, KB": 12,
    "8 parallel tools, × the slowest": 1.1,
    "first token after the provider's, ms": 20,
    "cancel to silence, ms": 100,
    "cancel to the last child's end, s": 1,
    f"resume of {TURNS:,} turns, s": 1,
    "1,000,000 lines of shell output, s": 1.1,
    "CPU of the loop's longest step, ms": 20,
}


@contextmanager
def place(agent: Agent) -> Generator[Bench]:
    """Serve an agent in a new home."""
    with tempfile.TemporaryDirectory() as folder, bench(agent, Path(folder) / "bench") as it:
        yield it


class Beside(Sage):
    """Sage where this file can be run, too."""

    def setup(self, home: Path, url: str) -> dict[str, str]:
        top = Path(__file__).parents[1]
        paths = {"PYTHONPATH": f"{top / 'src'}:{top}", "STEPS": str(home / "steps")}
        return {**super().setup(home, url), **paths}


class Kind(StrEnum):
    """What a figure is measured in, and so how it is scaled: CPU by the CPU of the loop, time by
    the time it took, which is more where others have the cores; sizes and ratios not at all."""

    CPU = "cpu"
    TIME = "time"
    SIZE = "size"


class Found:
    """What was measured, by name, each with how much slower the machine was then."""

    def __init__(self) -> None:
        self.slower = dict.fromkeys(Kind, 1.0)
        self.rows: dict[str, list[tuple[float, float]]] = {}

    def calibrate(self) -> None:
        """Time the loop, by CPU and by the clock."""
        self.slower[Kind.CPU] = slowness()
        times: list[float] = []
        for _ in range(9):
            began = time.perf_counter()
            calibration_loop()
            times.append(1_000 * (time.perf_counter() - began))
        self.slower[Kind.TIME] = max(1.0, statistics.median(times) / CALIBRATED_MS)

    def note(self, name: str, value: float, kind: Kind) -> None:
        """Keep a value."""
        self.rows.setdefault(name, []).append((value, self.slower[kind]))

    def figures(self) -> Generator[Figure]:
        """Yield the medians beside their limits, scaled, and as they were measured."""
        for name, values in self.rows.items():
            scaled = statistics.median(value / slower for value, slower in values)
            plain = sorted(value for value, _ in values)
            limit = LIMITS.get(name)
            held = (f"≤ {limit:g}", scaled <= limit) if limit is not None else ("", True)
            span = f"{plain[0]:.3g}–{plain[-1]:.3g}" if len(plain) > 1 else f"{plain[0]:.3g}"
            yield Figure(f"{name} (as it was: {span})", f"{scaled:.3g}", *held)


# Each agent: `hi`, in a home that it has used before.


def hello(agent: Agent, found: Found) -> None:
    """Ask twice, and measure the second time."""
    with place(agent) as it:
        it.script("Hello.", "Hello.", repeats=True)
        it.ask("hi")
        it.main.clear()
        it.agent.session = type(agent)().session
        ran = it.ask("hi")
        if ran.status != 0 or not it.main:
            print(f"{agent.name} did not answer: {ran.said.strip()[-200:]}")
            return
        name = "" if agent.name == "sage" else f"{agent.name} {agent.version()}: "
        found.note(f"{name}CPU to the first request, s", it.first_cpu_s, Kind.CPU)
        found.note(f"{name}CPU of a whole `-p hi`, s", ran.cpu_s, Kind.CPU)
        found.note(f"{name}peak of the process tree, MB", ran.peak_mb, Kind.SIZE)
        found.note(f"{name}first request body, KB", len(it.main[0].raw) / 1e3, Kind.SIZE)


# Ours alone.


def parallel_tools(found: Found) -> None:
    """One command of a second, then eight of them in one answer."""
    with place(Sage()) as it:
        waits = [shell(f"sleep 1; echo {n}") for n in range(8)]
        at: list[float] = []
        it.on_request = lambda _: at.append(time.monotonic())
        it.script(Say("", [shell("sleep 1; echo alone")]), Say("", waits), "Done.")
        it.ask("Wait.")
        alone, all_eight = at[1] - at[0], at[2] - at[1]
        found.note("8 parallel tools, × the slowest", all_eight / alone, Kind.SIZE)


def _at(log: Path, text: str) -> Callable[[], bool]:
    return lambda: log.exists() and text in log.read_text(errors="replace")


def first_token(found: Found) -> None:
    """Time the first piece of a slow stream, from when the provider sends it to stdout."""
    with place(Sage()) as it:
        seen: list[float] = []
        sent: list[float] = []
        log = it.home.parent / "out1"
        is_there = _at(log, '"type":"text"')

        def look() -> bool:
            if not seen and is_there():
                seen.append(time.monotonic())
            return False

        it.on_request = lambda _: sent.append(time.monotonic())
        it.script(Say("word " * WORDS, gap_ms=GAP_MS))
        it.ask("Talk.", when=look)
        found.note("first token after the provider's, ms", 1_000 * (seen[0] - sent[0]), Kind.TIME)


def cancelling(found: Found) -> None:
    """Ctrl-C while an answer streams, and while commands run that ignore it."""
    order = f"signal {signal.SIGINT.value}"
    with place(Sage()) as it:
        log, ordered = it.home.parent / "out1", list[float]()
        is_there = _at(log, '"type":"text"')

        def speaks() -> bool:
            if is_there():
                ordered.append(time.time())
                return True
            return False

        it.script(Say("word " * 4 * WORDS, gap_ms=GAP_MS))
        it.ask("Talk.", when=speaks, order=order)
        silent = max(0.0, log.stat().st_mtime - ordered[0]) if log.exists() else 0.0
        found.note("cancel to silence, ms", 1_000 * silent, Kind.TIME)
    with place(Sage()) as it:
        line = "trap '' INT TERM; touch began; sleep 100; sleep 100"
        it.script(Say("", [shell(line)] * 3), "Done.")
        ran = it.ask("Wait.", when=(it.folder / "began").exists, order=order)
        found.note("cancel to the last child's end, s", ran.since_order_s + ran.gone_s, Kind.TIME)


def long_output(found: Found) -> None:
    """Time from the answer that wants it to the request that has it."""
    with place(Sage()) as it:
        at: list[float] = []
        it.on_request = lambda _: at.append(time.monotonic())
        it.script(Say("", [shell("true")]), Say("", [shell("seq 1 1000000")]), "Done.")
        it.ask("Count.")
        found.note("1,000,000 lines of shell output, s", at[2] - at[1], Kind.TIME)


def long_session(found: Found) -> None:
    """The CPU that a long session takes more than a new one until its first request. The turns are
    written beside the journal as the session writes them."""
    with place(Beside()) as it:
        it.script("Hello.", repeats=True)
        it.ask("hi")
        it.main.clear()
        it.ask("hi")
        short = it.first_cpu_s
        added = it.run([sys.executable, "-m", "benchmarks.code_speed", "add-turns"])
        assert added.returncode == 0, added.stderr
        it.main.clear()
        ran = it.ask("And now?", resume=True)
        assert it.main, ran.said
        # What does not fit the window that is assumed of this model is summed up.
        events = [json.loads(line) for line in ran.said.splitlines() if line.startswith("{")]
        dropped = [each["dropped"]["turns"] for each in events if each["type"] == "compacted"]
        sent = len(it.main[0].body["messages"]) // 2
        assert sent + sum(dropped) > TURNS - 10, "the turns are in the request, or summed up"
        found.note(f"resume of {TURNS:,} turns, s", it.first_cpu_s - short, Kind.CPU)


async def _add_turns() -> None:
    """Write turns into the last session of this folder."""
    journal = runtime_arguments(load({"journal.enabled": True}))["journal"]
    sessions = SessionStore(journal.store(), Path.cwd())
    record = await sessions.find("")
    assert record is not None
    for number in range(2, TURNS + 1):
        said = (UserMessage((Text(f"question {number}"),)), AssistantMessage((Text("answer"),)))
        await sessions.keep_turn(record, number, TurnRecord(f"question {number}", "", said))
    record.turns = TURNS
    await sessions.keep(record)
    await journal.aclose()


# The loop: how long a step of it takes, of the command as it is.


class Stepping(Beside):
    """`vega code` in a process that times each step of its loop."""

    def program(self) -> list[str]:
        return [sys.executable, "-m", "benchmarks.code_speed", "stepping"]


def stepping(*words: str) -> int:
    """Run `vega code`, and write down when each long step of its loop was, and its CPU."""
    from asyncio import events

    from vegakit.cli import main as vega

    handle: Any = events.Handle
    run, steps = handle._run, list[tuple[float, float, str]]()  # noqa: SLF001

    def timed(self: Any) -> None:
        began = time.thread_time()
        run(self)
        took = time.thread_time() - began
        if took > 0.002:
            steps.append((time.monotonic(), took, repr(self)))

    handle._run = timed  # noqa: SLF001
    status = vega(["code", *words])
    Path(os.environ["STEPS"]).write_text(json.dumps(steps))
    return status


def longest_step(found: Found) -> None:
    """A session of edits, searches, long outputs and parallel reads; what is loaded before the
    first request is left out."""
    with place(Stepping()) as it:
        it.files({f"src/m{n}.py": f"x = {n}\n" * 400 for n in range(40)})
        began: list[float] = []
        it.on_request = lambda _: began.append(time.monotonic())
        it.script(
            Say("I look.", [read(f"src/m{n}.py") for n in range(8)]),
            Say("", [edit(f"src/m{n}.py", f"x = {n}\nx = {n}\n", "y\n") for n in range(2)]),
            Say("", [shell("seq 1 300000"), shell("grep -rn x src"), shell("ls -R")]),
            Say("word " * 200),
            "Done.",
        )
        it.ask("Work.")
        steps = json.loads((it.home / "steps").read_text())
        later = [(took, what) for at, took, what in steps if at > began[0]]
        took, what = max(later, default=(0.0, ""))
        print(f"longest step: {1_000 * took:.1f} ms, {what[:160]}")
        found.note("CPU of the loop's longest step, ms", 1_000 * took, Kind.CPU)


def main(*words: str) -> int:
    """Measure in rounds, each agent in each, and print the figures."""
    if words[:1] == ("stepping",):
        return stepping(*words[1:])
    if words[:1] == ("add-turns",):
        asyncio.run(_add_turns())
        return 0
    rounds = int(words[0]) if words else ROUNDS
    found = Found()
    others = {name: kind for name, kind in AGENTS.items() if name != "sage"}
    rivals = [kind for kind in others.values() if kind().program() and words[1:] != ("alone",)]
    parts = (parallel_tools, first_token, cancelling, long_output, long_session, longest_step)
    for number in range(rounds):
        found.calibrate()
        hello(Sage(), found)
        for part in parts:
            found.calibrate()
            part(found)
        for kind in rivals if number < 3 else ():
            found.calibrate()
            hello(kind(), found)
    figures = [*found.figures()]
    figures.sort(key=lambda figure: figure.limit != "")
    missing = sorted(name for name, kind in others.items() if not kind().program())
    print(f"not installed: {', '.join(missing) or 'none'}")
    print(show(figures))
    return int(not all(figure.holds for figure in figures))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
