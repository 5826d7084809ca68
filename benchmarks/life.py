"""A day of a runtime: `python -m benchmarks.life [full] [--programs N]`.

So many programs run through one runtime, hundreds at once, with its ledger and traces on disk: ten
thousand, or a million with `full`, which is a day of eleven a second. The model answers at once and
the clock of the ledger goes a day in the same time, so that what is kept for a time is forgotten
within the run. Beside it journaled runs that end, one for every hundred programs. Memory has to
be flat and files bounded: what the last half adds is measured. Prints its figures last; exits 1
when one falls short.
"""

import argparse
import asyncio
import gc
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.asks import ConstantModel
from benchmarks.figures import Figure, at_least, at_most, show
from vegakit.concurrency import SteadyClock
from vegakit.lang.codegen.compiler import compile_program
from vegakit.lang.frontends import check_program
from vegakit.sdk.programs import VegaProgram
from vegakit.sdk.runtime import Runtime
from vegakit.store import RetentionRule
from vegakit.store.sqlite.journal import SqliteJournal
from vegakit.store.sqlite.stores import SqliteLedger
from vegakit.telemetry.jsonl import JsonLinesSink

__all__ = ["main"]

FEW, MANY = 10_000, 1_000_000
AT_ONCE, SAMPLES = 100, 40
DAY_MS = 86_400_000
TRACE_BYTES, JOURNAL_BYTES = 4_000_000, 2_000_000
MOST_BYTES_A_PROGRAM = 20
"""What the resident set may grow for each program of the last half: less than anything that would
be kept of it. Allocators take and give back whole arenas."""
PROGRAM = """
agent echo { model "any" max_tokens 50 }
fn main(n: int) -> int {
    session budget $0.10 { let said = echo <- "{n}"; let more = echo <- "{said}"; }
    return n;
}
"""


class _FastClock(SteadyClock):
    """A clock that goes so many times as fast, for what waits for an age and not for a task."""

    def __init__(self, times: float) -> None:
        super().__init__()
        self._times, self._start = times, super().now()

    def now(self) -> int:
        return self._start + int((super().now() - self._start) * self._times)


class Sample(NamedTuple):
    programs: int
    resident: int
    files: int


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.life")
    parser.add_argument("size", nargs="?", choices=["full"])
    parser.add_argument("--programs", type=int)
    chosen = parser.parse_args()
    programs = chosen.programs or (MANY if chosen.size else FEW)
    with tempfile.TemporaryDirectory() as folder:
        samples = asyncio.run(_live(programs, Path(folder)))
    figures = _figures(programs, samples)
    print(show(figures))
    return int(not all(figure.holds for figure in figures))


def _figures(programs: int, samples: list[Sample]) -> list[Figure]:
    half = samples[len(samples) // 2 :]
    grown = (half[-1].resident - half[0].resident) / (half[-1].programs - half[0].programs)
    largest = [max(one.files for one in part) for part in (samples[: len(samples) // 2], half)]
    return [
        at_least(programs, samples[-1].programs, "", "programs that ended"),
        at_most(MOST_BYTES_A_PROGRAM, grown, "bytes", "memory added by a program, last half"),
        Figure(
            "memory at the half and at the end", _megabytes(half[0].resident, half[-1].resident)
        ),
        at_most(1.25, largest[1] / largest[0], "×", "files of the last half to those of the first"),
        Figure("files at most, first half and last", _megabytes(*largest)),
    ]


def _megabytes(*sizes: int) -> str:
    return ", ".join(f"{size / 1e6:.1f} MB" for size in sizes)


async def _live(programs: int, folder: Path) -> list[Sample]:
    checked, diagnostics = check_program(PROGRAM, "main.vega", lambda _path: None)
    assert checked is not None, diagnostics
    program, model = VegaProgram(compile_program(checked), Path()), ConstantModel()
    # A million programs take about half an hour: 50 times as fast, that is a day.
    clock = _FastClock(50 * MANY / programs)
    ledger = SqliteLedger(folder / "ledger.db")
    trace = JsonLinesSink(
        folder / "traces.jsonl", most_bytes=TRACE_BYTES * programs // MANY + 200_000
    )
    samples: list[Sample] = []
    async with Runtime(
        "$1000000", models=lambda _: model, ledger=ledger, trace=trace, clock=clock
    ) as rt:
        done = 0
        while done < programs:
            began = time.perf_counter()
            until = min(programs, done + max(programs // SAMPLES, AT_ONCE))
            while done < until:
                await asyncio.gather(*(rt.run(program, done + n) for n in range(AT_ONCE)))
                done += AT_ONCE
                await _journaled(program, model, folder / "run.db")
            gc.collect()
            samples.append(Sample(done, _resident(), _files(folder)))
            rate = (samples[-1].programs - (samples[-2].programs if samples[1:] else 0)) / (
                time.perf_counter() - began
            )
            shown = _megabytes(samples[-1].resident, samples[-1].files)
            print(f"{done:>9,} programs, {rate:,.0f} a second: {shown}", flush=True)
    return samples


async def _journaled(program: VegaProgram, model: ConstantModel, place: Path) -> None:
    journal = SqliteJournal(place, shared=True, keep=RetentionRule(DAY_MS, JOURNAL_BYTES))
    async with Runtime("$1", models=lambda _: model, journal=journal) as rt:
        await rt.run(program, 1)


def _resident() -> int:
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _files(folder: Path) -> int:
    return sum(one.stat().st_size for one in folder.rglob("*") if one.is_file())


if __name__ == "__main__":
    sys.exit(main())
