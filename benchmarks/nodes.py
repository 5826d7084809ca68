"""What native code of nodes saves: `python -m benchmarks.nodes [full]`.

Of integer and decimal samples, over inputs that succeed, by CPU time, all variants by turns in one
process and of each the best round:

- a row in columns, natively, beside a call of the generated function, to which values are given as
  it takes them: at least 10 times as fast for nodes of integers
- the same with packing and unpacking, and a single call of each path from JSON to its outcome
- the time to compile, and after how many calls from JSON it has been saved: the greatest of these
  is what `NATIVE_AFTER` rounds up
- what entering by ctypes costs without anything else
- the smallest node, entered by columns of one row each, which costs more than it saves: the hot
  path goes back to Python

Prints its figures last; exits 1 when one falls short.
"""

import ctypes
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from benchmarks.figures import Figure, show
from vegakit.contracts import NodeOutcome, NodeProgram, NodeStatus, interpret
from vegakit.vesper import (
    NATIVE_AFTER,
    HotPath,
    NativePath,
    NodePath,
    PythonPath,
    load_node,
    parse_node,
)
from vegakit.vesper.node_inputs import InputGenerator

__all__ = ["dropped", "main", "measured"]

SAMPLES = Path(__file__).parents[1] / "examples" / "nodes"
INTEGERS, DECIMALS = ("transfer", "shipping_cost", "split_bill"), ("prorate", "convert_currency")
LEAST_RATIO, MOST_SHARE = 10.0, 1.25
ROWS, CALLS = 2_000, 400


class NodeSpeed(NamedTuple):
    """CPU time of one node in microseconds, of a row or a call."""

    name: str
    compile_ms: float
    function: float
    columns: float
    rows: float
    python: float
    native: float
    entry: float

    @property
    def break_even(self) -> float:
        saved = self.python - self.native
        return self.compile_ms * 1_000 / saved if saved > 0 else float("inf")


def _spent(what: Callable[[], object]) -> float:
    began = time.process_time()
    what()
    return (time.process_time() - began) * 1e6


def measured(name: str, node: NodeProgram, rounds: int) -> NodeSpeed:
    """Return the figures of a node: every round runs all variants, so that they meet one load."""
    NativePath(node)  # what LLVM loads once for the process is not this node's
    compile_ms = min(_spent(lambda: NativePath(node)) for _ in range(3)) / 1_000
    python, native = PythonPath(node), NativePath(node)
    values = _successes(node, ROWS)
    shown = [node.show_inputs(each) for each in values[:CALLS]]
    taken, function = [python.arguments(each) for each in shown], python.function
    columns, entry = native.columns(values), _entry(native, values[0])
    variants: dict[str, tuple[int, Callable[[], object]]] = {
        "function": (CALLS, lambda: [function(**each) for each in taken]),
        "columns": (ROWS, lambda: native.run_columns(columns, ROWS)),
        "rows": (ROWS, lambda: native.run_rows(values)),
        "python": (CALLS, lambda: [python.run(each) for each in shown]),
        "native": (CALLS, lambda: [native.run(each) for each in shown]),
        "entry": (CALLS, lambda: [entry() for _ in range(CALLS)]),
    }
    best = dict.fromkeys(variants, float("inf"))
    for _ in range(rounds):
        for variant, (number, what) in variants.items():
            best[variant] = min(best[variant], _spent(what) / number)
    return NodeSpeed(name, compile_ms, **best)


def _successes(node: NodeProgram, rows: int) -> list[dict[str, Any]]:
    """Return inputs of runs that succeed: exceptions of Python would flatter native code."""
    generator, found = InputGenerator(node, Random(1)), list[dict[str, Any]]()
    while len(found) < 200:
        values = generator.draw()
        if interpret(node, values).status is NodeStatus.SUCCESS:
            found.append(values)
    return [found[n % len(found)] for n in range(rows)]


def _entry(native: NativePath, values: dict[str, Any]) -> Callable[[], int]:
    """Return a call into native code with all packing done."""
    packed, buffer = native.pack(values), ctypes.create_string_buffer(4_096)
    place = ctypes.addressof(buffer)
    return lambda: native.enter(packed, place) + 0 * len(buffer)


SMALLEST = """\
node_id: smallest_v1
type: test
intent: Give back a flag.
inputs: {flag: {type: boolean}}
outputs: {success: {same: boolean}}
flow: [{step: same, operation: compute, parameters: {value: flag}}]
"""


class OneRowColumns:
    """Native code that is entered by columns of one row."""

    def __init__(self, node: NodeProgram) -> None:
        self._native = NativePath(node)

    def run(self, inputs: Mapping[str, Any]) -> NodeOutcome:
        return self._native.run_rows([self._native.node.read_inputs(inputs)])[0]


def dropped(make: Callable[[NodeProgram], NodePath]) -> str:
    """Return why the hot path of the smallest node is back on Python, if it is."""
    node = parse_node(SMALLEST.encode(), "smallest.vsp").program
    hot = HotPath(node, 1, make=make, start=lambda work: work())
    for _ in range(64 * 33):
        hot.run({"flag": True})
    return hot.why_python


def figures(rounds: int) -> list[Figure]:
    """Measure all nodes and print their table; return what is held against limits."""
    made, found = list[NodeSpeed](), list[Figure]()
    for name in (*INTEGERS, *DECIMALS):
        made.append(measured(name, load_node(SAMPLES / f"{name}.vsp").program, rounds))
    made.append(measured("smallest", parse_node(SMALLEST.encode(), "").program, rounds))
    head = f"{'µs of CPU':<22}" + "".join(f"{each:>10}" for each in NodeSpeed._fields[1:])
    print(f"{head}{'pays after':>12}")
    for each in made:
        numbers = "".join(f"{number:>10.3f}" for number in each[1:])
        print(f"{each.name:<22}{numbers}{each.break_even:>12,.0f}")
    for each in made[: len(INTEGERS) + len(DECIMALS)]:
        ratio, least = each.function / each.columns, LEAST_RATIO if each.name in INTEGERS else 1.0
        name = f"{each.name}: generated function beside a row of columns"
        found.append(Figure(name, f"{ratio:.1f} x", f">= {least:g} x", ratio >= least))
        single = f"{each.name}: path python beside path native, a call"
        found.append(Figure(single, f"{each.python / each.native:.2f} x"))
    most = max(each.break_even for each in made[: len(INTEGERS) + len(DECIMALS)])
    limit = NATIVE_AFTER * MOST_SHARE  # what a busy machine adds to it is not a finding
    name = "calls until compiling is paid"
    found.append(Figure(name, f"{most:,.0f}", f"<= {limit:,.0f}", most <= limit))
    return found


def main(arguments: list[str]) -> int:
    """Measure, print the figures, and return the status."""
    found = figures(25 if "full" in arguments else 5)
    for name, make, holds in (("a packed row", NativePath, ""), ("columns", OneRowColumns, "slow")):
        why = dropped(make)
        said = f"dropped: {why}" if why else "kept"
        found.append(Figure(f"smallest, entered by {name}", said, "", bool(why) == bool(holds)))
    print(show(found))
    return 0 if all(figure.holds for figure in found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
