"""A day of a runtime, and a quarter more: `python -m benchmarks.life [full] [--programs N]`.

So many programs run through one runtime, hundreds at once, with its ledger and traces on disk: ten
thousand, or a million with `full`, which is a day of eleven a second. The model answers at once and
the clock of the ledger goes on by each program that ends, so that all of them are a day whatever
the machine does. A quarter as many follow, while what is kept for a day is forgotten. Beside it
journaled runs that end, one for every hundred programs. Memory has to be flat and files bounded:
what the quarter after the day adds to memory, to the files and to the claims that the ledger
remembers is measured. Prints its figures last; exits 1 when one falls short.
"""

import argparse
import asyncio
import gc
import os
import sqlite3
import sys
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from benchmarks.asks import ConstantModel
from benchmarks.figures import Figure, at_least, at_most, show
from vegakit.concurrency import SteadyClock
from vegakit.lang import check_program, compile_program
from vegakit.sdk import Runtime, VegaProgram
from vegakit.store import RetentionRule, SqliteJournal, SqliteLedger
from vegakit.telemetry import JsonLinesSink

__all__ = ["main"]

FEW, MANY = 10_000, 1_000_000
AT_ONCE, SAMPLES = 100, 40
DAY_MS = 86_400_000
TRACE_BYTES, JOURNAL_BYTES = 4_000_000, 2_000_000
MOST_BYTES_A_PROGRAM, ARENAS = 20, 1_000_000
"""What the resident set may grow for each program after the day: less than anything that would be
kept of it. Allocators take and give back whole arenas, which counts in a short run. Within the day
the pages of the ledger that SQLite holds grow with what is remembered."""
MOST_AFTER_A_DAY = 1.1
"""A quarter of a day in which nothing was forgotten would be 1.25."""
PROGRAM = """
agent echo { model "any" max_tokens 50 }
fn main(n: int) -> int {
    session budget $0.10 { let said = echo <- "{n}"; let more = echo <- "{said}"; }
    return n;
}
"""


class _DayClock(SteadyClock):
    """A clock that goes on with the work, and as others do beside it: whoever waits for an age or
    for a moment gets there."""

    def __init__(self, programs: int) -> None:
        super().__init__()
        self._programs, self._ended, self._moved = programs, 0, asyncio.Event()

    def now(self) -> int:
        return super().now() + self._ended * DAY_MS // self._programs

    def on_ended(self) -> None:
        self._ended += 1
        self._moved.set()
        self._moved = asyncio.Event()

    async def wait_until(self, at_ms: int) -> None:
        while (left_ms := at_ms - self.now()) > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._moved.wait(), left_ms / 1000)


class Sample(NamedTuple):
    programs: int
    resident: int
    files: int
    claims: int


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
    day = [one for one in samples if one.programs <= programs]
    after, more = samples[len(day) :], samples[-1].programs - day[-1].programs
    grown = (after[-1].resident - day[-1].resident) / more
    most = MOST_BYTES_A_PROGRAM + ARENAS // more
    files, claims = max(one.files for one in after), max(one.claims for one in after)
    return [
        at_least(programs + programs // 4, samples[-1].programs, "", "programs that ended"),
        at_most(most, grown, "bytes", "memory added by a program after the day"),
        Figure(
            "memory after a day and at the end", _megabytes(day[-1].resident, after[-1].resident)
        ),
        Figure("claims after a day, most after it", f"{day[-1].claims:,}, {claims:,}"),
        _times(claims / day[-1].claims, "claims after the day to those of the day"),
        Figure("files after a day, most after it", _megabytes(day[-1].files, files)),
        _times(files / day[-1].files, "files after the day to those of the day"),
    ]


def _times(ratio: float, name: str) -> Figure:
    return Figure(name, f"{ratio:.2f} x", f"≤ {MOST_AFTER_A_DAY:g} x", ratio <= MOST_AFTER_A_DAY)


def _megabytes(*sizes: int) -> str:
    return ", ".join(f"{size / 1e6:.1f} MB" for size in sizes)


async def _live(programs: int, folder: Path) -> list[Sample]:
    checked, diagnostics = check_program(PROGRAM, "main.vega", lambda _path: None)
    assert checked is not None, diagnostics
    program, model = VegaProgram(compile_program(checked), Path()), ConstantModel()
    clock, most = _DayClock(programs), programs + programs // 4
    ledger = SqliteLedger(folder / "ledger.db")
    trace = JsonLinesSink(
        folder / "traces.jsonl", most_bytes=TRACE_BYTES * programs // MANY + 200_000
    )
    samples: list[Sample] = []
    async with Runtime(
        "$1000000", models=lambda _: model, ledger=ledger, trace=trace, clock=clock
    ) as rt:
        done = 0

        async def live(number: int) -> None:
            await rt.run(program, number)
            clock.on_ended()

        while done < most:
            began = time.perf_counter()
            until = done + max(programs // SAMPLES, AT_ONCE)
            while done < until:
                await asyncio.gather(*(live(done + n) for n in range(AT_ONCE)))
                done += AT_ONCE
                await _journaled(program, model, folder / "run.db")
            gc.collect()
            samples.append(Sample(done, _resident(), _files(folder), _claims(folder)))
            rate = (done - (samples[-2].programs if samples[1:] else 0)) / (
                time.perf_counter() - began
            )
            shown = _megabytes(samples[-1].resident, samples[-1].files)
            claims = f"{samples[-1].claims:,} claims"
            print(f"{done:>9,} programs, {rate:,.0f} a second: {shown}, {claims}", flush=True)
    return samples


async def _journaled(program: VegaProgram, model: ConstantModel, place: Path) -> None:
    journal = SqliteJournal(place, shared=True, keep=RetentionRule(DAY_MS, JOURNAL_BYTES))
    async with Runtime("$1", models=lambda _: model, journal=journal) as rt:
        await rt.run(program, 1)


def _resident() -> int:
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _claims(folder: Path) -> int:
    with closing(sqlite3.connect(f"file:{folder / 'ledger.db'}?mode=ro", uri=True)) as ledger:
        ledger.execute("PRAGMA cache_size = 10")  # what is looked at here is not the runtime's
        return int(ledger.execute("SELECT count(*) FROM claims").fetchone()[0])


def _files(folder: Path) -> int:
    return sum(one.stat().st_size for one in folder.rglob("*") if one.is_file())


if __name__ == "__main__":
    sys.exit(main())
