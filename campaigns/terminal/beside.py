"""The terminals of the rivals, driven like ours: ready, keys, a stream, memory. What cannot be
driven is told with the reason."""

import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.timing import slowness

from campaigns.code_complaints.agents import AGENTS, CACHE, Agent
from campaigns.terminal.gauges import echoes, p95, ready, stream
from campaigns.terminal.seats import Vega, seated

__all__ = ["beside"]

KEYS, WORDS, GAP_MS = 48, 240, 20


class Row(NamedTuple):
    """What was seen of one agent."""

    agent: str
    ready_cpu_s: float
    key_busy_ms: float
    key_cpu_ms: float
    key_wall_ms: float
    token_bytes: float
    clears: int
    resident_mb: float


_HEAD = (
    "| agent | ready, CPU-s | key to echo p95, ms: busy | CPU | wall | bytes a token | clears "
    "| resident MB |\n|---|---|---|---|---|---|---|---|"
)


def row(agent: Agent) -> Row:
    """Start an agent twice, and measure the second start: the first may set itself up."""
    base = CACHE.parent / "vega-complaints"
    base.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=base) as place,
        seated(agent, Path(place) / "bench") as seat,
    ):
        seat.it.script("Hello.", repeats=True)
        seat.start()
        ready(seat, time.perf_counter_ns())
        seat.tty.kill()
        seat.tty.make_sane()
        time.sleep(0.3)
        slower = slowness()
        began = time.perf_counter_ns()
        seat.start()
        found = ready(seat, began)
        seat.tty.quiet(0.5, 5)
        keys = echoes(seat.tty, KEYS, random.Random(1))
        busy, wall, cpu = (p95([one[n] for one in keys]) for n in range(3))
        told = stream(seat, WORDS, GAP_MS)
        name = f"{agent.name} {agent.version()}"
        times = (found.cpu_s / slower, busy / slower, cpu / slower, wall)
        return Row(name, *times, told.bytes_per_token, told.clears, told.resident_mb)


def beside(rounds: int = 1) -> str:
    """Return the table, as Markdown."""
    lines = [_HEAD]
    for name, kind in AGENTS.items():
        agent = Vega() if name == "sage" else kind()
        if agent.program() is None:
            lines.append(f"| {name} | not installed: `just code-beside` does that |")
            continue
        found: list[Row] = []
        why = ""
        for _ in range(rounds):
            try:
                found.append(row(Vega() if name == "sage" else kind()))
            except AssertionError as error:
                why = str(error).splitlines()[0]
        if not found:
            lines.append(f"| {name} {agent.version()} | not driven: {why} |")
            continue
        middle = [statistics.median([float(one[n]) for one in found]) for n in range(1, 8)]
        cells = ("{:.2f}", "{:.1f}", "{:.1f}", "{:.0f}", "{:.0f}", "{:.0f}", "{:.0f}")
        shown = [cell.format(value) for cell, value in zip(cells, middle, strict=True)]
        lines.append(f"| {found[0].agent} | {' | '.join(shown)} |")
        print(lines[-1], flush=True)
    return "\n".join(lines)
