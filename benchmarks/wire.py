"""Ours beside SDKs and frameworks over real sockets, each in its own process, one server for all.

The callers take turns, a few calls at a time, so that a busy moment falls on all of them.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from campaigns.callers import CALLERS, WIRES

from benchmarks.figures import Figure, at_most

__all__ = ["PEERS", "wire_figures"]

ROOT = Path(__file__).parents[1]
BENCH_PYTHON = ROOT / ".bench" / "bin" / "python"
IN_BENCH = {"langgraph", "litellm"}
PEERS = [name for name, caller in CALLERS.items() if caller.is_peer]
NO_NETWORK = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LANGSMITH_TRACING": "false",
}
WARM_UP, ROUNDS, ASKS = 20, 21, 10
STREAM_ROUNDS, STREAMS = 60, 5
CHUNK_ROUNDS, CHUNK_STREAMS = 15, 3
BESIDE_THE_SDK = {"vega with a journal": 0.9, "vega in memory": 0.4, "vega's wire alone": 0.25}
"""The CPU of a call at most, as a part of what the bare SDK's call takes."""
CHUNK_LIMIT = 0.4
AT_ONCE_ROUNDS, AT_ONCE = 9, 64


class Talk:
    """Orders to a process, one line each, and its answers."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.version = self.hear()

    def hear(self) -> Any:
        assert self._process.stdout
        if not (line := self._process.stdout.readline()):
            raise ChildProcessError(f"{self._process.args} ended with {self._process.wait(10)}")
        return json.loads(line)

    def order(self, order: str) -> Any:
        assert self._process.stdin
        print(order, file=self._process.stdin, flush=True)
        return self.hear()


def wire_figures(without: set[str]) -> list[Figure]:
    with _running([sys.executable, "-m", "vegakit.testing.provider"]) as provider:
        assert provider.stdout
        url = provider.stdout.readline().strip()
        return [figure for wire in WIRES for figure in _wire(wire, url, without)]


def _wire(wire: str, url: str, without: set[str]) -> list[Figure]:
    with ExitStack() as stack:
        talks, failed = dict[str, Talk](), dict[str, str]()
        for name, caller in CALLERS.items():
            if name in without or (caller.is_peer and not WIRES[wire].has_peers):
                continue
            try:
                talk = stack.enter_context(_talking(name, wire, url))
                talk.order(f"ask {WARM_UP}")
                talks[name] = talk
            except OSError as error:
                failed[name] = str(error)
        missing = [_missing(wire, name, error) for name, error in failed.items()]
        if any(not CALLERS[name].is_peer for name in failed):
            return missing  # there is nothing to compare
        return [
            *_cpu_figures(wire, talks),
            *_chunk_figures(wire, talks),
            *missing,
            *(Figure(f"{wire}: {name}", "left out", "--without") for name in sorted(without)),
            _first_piece(wire, talks),
            *_at_once_figures(wire, talks),
        ]


def _cpu_figures(wire: str, talks: dict[str, Talk]) -> list[Figure]:
    took = _in_turn(talks, ROUNDS, lambda talk: talk.order(f"ask {ASKS}"))
    ours = median(took["vega"])
    figures: list[Figure] = []
    for name, each in took.items():
        value = median(each)
        limit = f"> {ours:.2f} ms" if CALLERS[name].is_peer else ""
        shown = f"{wire}: {name} {talks[name].version}, CPU per call"
        figures.append(Figure(shown, f"{value:.2f} ms", limit, not limit or value > ours))
    bare = median(took["sdk"])
    for name, limit in BESIDE_THE_SDK.items():
        ratio = median(took[name]) / bare
        shown = f"{wire}: {name}, CPU beside the SDK's"
        figures.append(Figure(shown, f"{ratio:.2f} ×", f"≤ {limit:g} ×", ratio <= limit))
    return figures


def _chunk_figures(wire: str, talks: dict[str, Talk]) -> list[Figure]:
    """A piece of an answer that comes all at once."""
    both = {name: talks[name] for name in ("vega's wire alone", "vega in memory", "sdk")}
    took = _in_turn(both, CHUNK_ROUNDS, lambda talk: talk.order(f"chunks {CHUNK_STREAMS}"))
    bare = median(took["sdk"])
    figures: list[Figure] = []
    for name, each in took.items():
        ratio = median(each) / bare
        held = name != "vega's wire alone" or ratio <= CHUNK_LIMIT
        limit = f"≤ {CHUNK_LIMIT:g} ×" if name == "vega's wire alone" else ""
        shown = f"{wire}: {name}, CPU of a chunk in a burst, {median(each):.1f} µs"
        figures.append(Figure(shown, f"{ratio:.2f} ×", limit, held))
    return figures


def _first_piece(wire: str, talks: dict[str, Talk]) -> Figure:
    """The difference of the 95th percentiles."""
    both = {name: talks[name] for name in ("vega", "sdk")}
    for talk in both.values():
        talk.order(f"stream {WARM_UP}")
    took = _in_turn(both, STREAM_ROUNDS, lambda talk: talk.order(f"stream {STREAMS}"))
    ours, bare = (_p95([ms for few in took[name] for ms in few]) for name in both)
    name = f"{wire}: first piece, p95, beyond the SDK's {bare:.1f} ms"
    return at_most(0, ours - bare, "ms", name)


def _at_once_figures(wire: str, talks: dict[str, Talk]) -> list[Figure]:
    """Streams that are open together: their CPU, and when the first pieces of nearly all came. A
    moment in which the machine does something else falls on a whole round, so rounds are compared
    by their medians."""
    names = ("vega with a journal", "vega in memory", "vega's wire alone", "sdk")
    for name in names:
        talks[name].order(f"at_once {AT_ONCE}")
    took = _in_turn(
        {name: talks[name] for name in names},
        AT_ONCE_ROUNDS,
        lambda talk: talk.order(f"at_once {AT_ONCE}"),
    )
    cpu = {name: median(each for each, _ in rounds) for name, rounds in took.items()}
    first = {name: median(_p95(each) for _, each in rounds) for name, rounds in took.items()}
    figures: list[Figure] = []
    for name in names[:-1]:
        ratio = cpu[name] / cpu["sdk"]
        shown = f"{wire}: {name}, {AT_ONCE} streams at once, CPU beside the SDK's"
        limit = BESIDE_THE_SDK["vega with a journal"]
        figures.append(Figure(shown, f"{ratio:.2f} ×", f"≤ {limit:g} ×", ratio <= limit))
    beyond = first["vega in memory"] - first["sdk"]
    shown = f"{wire}: first piece of {AT_ONCE}, p95, beyond the SDK's {first['sdk']:.1f} ms"
    return [*figures, at_most(0, beyond, "ms", shown)]


def _p95(values: list[float]) -> float:
    return quantiles(values, n=20)[-1]


def _in_turn(
    talks: dict[str, Talk], rounds: int, measure: Callable[[Talk], Any]
) -> dict[str, list[Any]]:
    took: dict[str, list[Any]] = {name: [] for name in talks}
    for _ in range(rounds):
        for name, talk in talks.items():
            took[name].append(measure(talk))
    return took


def _missing(wire: str, name: str, error: str) -> Figure:
    print(f"{name}: {error}; type: bash benchmarks/peers_setup.sh, or add --without {name}")
    return Figure(f"{wire}: {name}", "did not run", holds=False)


@contextmanager
def _talking(name: str, wire: str, url: str) -> Generator[Talk]:
    python = str(BENCH_PYTHON) if name in IN_BENCH else sys.executable
    with _running([python, "-m", "campaigns.callers", name, wire, url]) as process:
        yield Talk(process)


@contextmanager
def _running(command: list[str]) -> "Generator[subprocess.Popen[str]]":
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **NO_NETWORK},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
