"""How fast the language is: lines parsed, checked and formatted, and instructions run, a second of
CPU time; how soon commands begin, how long a loop keeps others waiting, what a send costs.

    python -m benchmarks.language_speed

A limit holds on a machine on which a bare function call takes 50 ns; where others are busy on the
same core it takes longer, and figures are counted up by as much. The fastest of many rounds counts.
"""

import sys
import time
from collections.abc import Callable

from campaigns.fairness import fairness_figures, sends_figures

from benchmarks import decisions
from benchmarks.figures import Figure, at_least, show
from benchmarks.language_program import program
from benchmarks.starting import starting_figures
from benchmarks.timing import ns_per_step
from vegakit.lang import Module, check_program, compile_program, format_source, parse
from vegakit.vm import Status, Vm, start

LINES = 5_000
ROUNDS = 15
BARE_CALL_NS = 50
PARSED = 80_000
CHECKED = 10_000
"""5,000 lines in half a second, parsing included."""
FORMATTED = 5_000
INSTRUCTIONS = 5_000_000
LOOP = """
fn main(n: int) -> int {
    let sum = 0;
    let i = 0;
    while i < n {
        if i % 3 == 0 { sum = sum + i * 2; } else { sum = sum - 1; }
        i = i + 1;
    }
    return sum;
}
"""
"""Arithmetic, comparison and branches, no sends."""


def main() -> int:
    figures = [
        _lines_a_second("parse: lines/s", parse, PARSED),
        _lines_a_second("check: lines/s", _check, CHECKED, rounds=5),
        _lines_a_second("format: lines/s", format_source, FORMATTED, rounds=3),
        _instructions_a_second("run: instructions/s", INSTRUCTIONS),
        *starting_figures(),
        *fairness_figures(),
        *sends_figures(),
    ]
    print(show(figures))
    return int(not all(figure.holds for figure in figures))


def _lines_a_second(
    name: str, work: Callable[[str], object], limit: int, rounds: int = ROUNDS
) -> Figure:
    text = program(LINES)
    assert parse(text).diagnostics == ()
    slower = max(1.0, ns_per_step(decisions.bare_call, 50) / BARE_CALL_NS)
    raw = text.count("\n") / min(_seconds(work, text) for _ in range(rounds))
    figure = at_least(limit, raw * slower, "lines/s", name)
    return figure._replace(name=f"{name} (as measured {raw:,.0f})")


def _instructions_a_second(name: str, limit: int) -> Figure:
    found, _ = check_program(LOOP, "main.vega", lambda _path: None)
    assert found is not None
    module = compile_program(found)
    slower = max(1.0, ns_per_step(decisions.bare_call, 50) / BARE_CALL_NS)
    raw = max(_loop(module) for _ in range(10 * ROUNDS))
    figure = at_least(limit, raw * slower, "instructions/s", name)
    return figure._replace(name=f"{name} (as measured {raw:,.0f})")


def _loop(module: Module) -> float:
    vm = Vm(module, start(module, module.main, [3_000]))
    began = time.process_time()
    step = vm.run(1_000_000)
    seconds = time.process_time() - began
    assert step.status is Status.FINISHED
    return vm.state.fuel_used / seconds


def _check(text: str) -> None:
    found, _ = check_program(text, "main.vega", lambda _path: None)
    assert found is not None


def _seconds(work: Callable[[str], object], text: str) -> float:
    began = time.process_time()
    work(text)
    return time.process_time() - began


if __name__ == "__main__":
    sys.exit(main())
