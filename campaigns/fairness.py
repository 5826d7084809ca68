"""How long one endless loop keeps others waiting: a hundred programs beside it, on the real loop.

Each program sleeps and looks how late it wakes; the same is measured without the loop. Of several
rounds the best counts, as others may be busy on the same machine.
"""

import asyncio
import time
from itertools import pairwise
from pathlib import Path

from benchmarks.figures import Figure, at_most

from vegakit.lang import check_program, compile_program
from vegakit.program import Printed
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime, VegaProgram

__all__ = ["fairness_figures", "sends_figures"]

PROGRAMS, NAPS, NAP_MS, ROUNDS = 100, 10, 50, 3
LIMIT_MS = 20
SENDS, ITEMS = 100, 100_000
SENDS_LIMIT = 3.0
NAPPING = "fn main(n: int) { for i in range(n) { process::sleep(50ms); print(i); } }"
ENDLESS = "fn main() { let n = 0; while true { n = (n + 1) % 1000; } }"
HOLDING = """
agent echo { model "any" }
fn main(items: int, sends: int) -> int {
    let held = str::split(str::repeat("0123456789,", items), ",");
    for i in range(sends) { let said = echo <- "{i}"; }
    return len(held);
}
"""


def fairness_figures() -> list[Figure]:
    rounds = [(asyncio.run(_lateness(0)), asyncio.run(_lateness(1))) for _ in range(ROUNDS)]
    alone, beside = (min(late) for late in zip(*rounds, strict=True))
    name = f"{PROGRAMS} programs beside an endless loop: p99 later by (alone {alone:.1f} ms)"
    return [at_most(LIMIT_MS, beside - alone, "ms", name)]


def sends_figures() -> list[Figure]:
    """A send costs the same whatever the program holds."""
    light = min(asyncio.run(_sends(0)) for _ in range(ROUNDS))
    heavy = min(asyncio.run(_sends(ITEMS)) for _ in range(ROUNDS))
    name = f"a send of a program that holds 1 MB, beside one that holds nothing ({light:.2f} ms)"
    return [at_most(SENDS_LIMIT, heavy / light, "times", name)]


def _program(text: str) -> VegaProgram:
    checked, diagnostics = check_program(text, "main.vega", lambda _path: None)
    assert checked is not None, diagnostics
    return VegaProgram(compile_program(checked), Path())


async def _lateness(loops: int) -> float:
    """Of the 99th of a hundred naps, in milliseconds."""
    woke: dict[str, list[float]] = {}
    async with Runtime("$1") as rt:
        rt.on(Printed, lambda news: woke.setdefault(news.path, []).append(time.monotonic()))
        endless = [asyncio.ensure_future(rt.run(_program(ENDLESS))) for _ in range(loops)]
        program = _program(NAPPING)
        await asyncio.gather(*(_nap(rt, program, number) for number in range(PROGRAMS)))
        for task in endless:
            task.cancel()
        await asyncio.gather(*endless, return_exceptions=True)
    late = sorted(
        (after - before) * 1_000 - NAP_MS
        for times in woke.values()
        for before, after in pairwise(times)
    )
    return late[len(late) * 99 // 100]


async def _nap(rt: Runtime, program: VegaProgram, number: int) -> None:
    """Not all at the same moment: then they would wait for each other."""
    await asyncio.sleep(number * NAP_MS / PROGRAMS / 1_000)
    await rt.run(program, NAPS)


async def _sends(items: int) -> float:
    """Milliseconds of CPU time for each."""
    model = ScriptedModel("yes")
    async with Runtime("$100", models=lambda _: model) as rt:
        program = _program(HOLDING)
        bare_s, sending_s = [
            min([await _cpu_s(rt, program, items, sends) for _ in range(3)]) for sends in (0, SENDS)
        ]
    return (sending_s - bare_s) * 1_000 / SENDS


async def _cpu_s(rt: Runtime, program: VegaProgram, items: int, sends: int) -> float:
    began = time.process_time()
    await rt.run(program, items, sends)
    return time.process_time() - began


if __name__ == "__main__":
    from benchmarks.figures import show

    print(show([*fairness_figures(), *sends_figures()]))
