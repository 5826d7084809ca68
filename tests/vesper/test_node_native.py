"""Nodes as native code: the same outcomes to the digit, one by one and in columns."""

import sys
from array import array
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any, get_args

import pytest
from campaigns.node_programs import NodeMaker
from campaigns.nodes import EDGES, PLANTED_NATIVE, compare_legs, edge_node, find_native

from vegakit.contracts import (
    Expression,
    NodeOutcome,
    NodeProgram,
    NodeStatus,
    interpret,
    llvm_source,
    native_obstacle,
    node_llvm,
)
from vegakit.errors import SettingsError, UserError
from vegakit.vesper import HotPath, NativePath, PythonPath, load_node
from vegakit.vesper.native import link
from vegakit.vesper.node_inputs import InputGenerator

SAMPLES = sorted((Path(__file__).parents[2] / "examples/nodes").glob("*.vsp"))
NATIVE = "convert_currency late_fee prorate refund shipping_cost split_bill transfer".split()


def _sample(name: str) -> NodeProgram:
    return next(load_node(path).program for path in SAMPLES if path.stem == name)


def test_the_samples_that_can_be_native() -> None:
    """Those of scalars; of the others it is said what keeps them out."""
    found = {path.stem: native_obstacle(load_node(path).program) for path in SAMPLES}
    assert [name for name, obstacle in found.items() if not obstacle] == NATIVE
    assert found["price_order"] == "the input items is of type array<LineItem, 50>"
    assert found["sales_tax"] == "the input country is of type string<2>"


@pytest.mark.parametrize("name", NATIVE)
def test_three_paths_of_a_sample_agree(name: str) -> None:
    """Over random inputs with many edges."""
    report = compare_legs(_sample(name), 60, 3)
    assert report.holds, report


@pytest.mark.parametrize("name", [*EDGES])
def test_three_paths_of_an_operator_agree(name: str) -> None:
    """Over numbers of all sizes, where most results do not fit."""
    report = compare_legs(edge_node(name), 40, 5)
    assert report.holds, report


@pytest.mark.parametrize("seed", range(6))
def test_native_rows_of_random_nodes_are_those_of_the_interpreter(seed: int) -> None:
    """Including which trap it is, in which step; as it is written and optimised."""
    node = NodeMaker(Random(seed)).node()
    generator = InputGenerator(node, Random(seed))
    rows = [generator.draw() for _ in range(40)]
    wanted = [interpret(node, row) for row in rows]
    native = NativePath(node, optimise=seed % 2 == 0)
    assert native.run_rows(rows) == wanted
    assert [native.run_values(row) for row in rows] == wanted


@pytest.mark.parametrize(("name", "right", "wrong"), PLANTED_NATIVE)
def test_a_bug_planted_in_the_assembly_is_found(name: str, right: str, wrong: str) -> None:
    """Each within 2,500 inputs."""
    assert find_native(name, right, wrong, 2_500) is not None


def test_every_part_of_the_tree_is_emitted_or_refused() -> None:
    """A new kind of part has to be in the table."""
    assert {*node_llvm._EMISSIONS} == {*get_args(Expression)}  # pyright: ignore[reportPrivateUsage]


def test_a_function_from_outside_is_refused_when_it_is_linked(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The division of 128 bits would be one: called, it would end the process."""
    text = "define i128 @wide(i128 %a, i128 %b) {\n  %q = sdiv i128 %a, %b\n  ret i128 %q\n}\n"
    with pytest.raises(UserError, match="cannot link"):
        link(text, "wide")
    assert "__divti3" in capfd.readouterr().err
    assert "div i128" not in llvm_source(_sample("prorate")).text


def test_columns_of_another_length_are_refused() -> None:
    """Native code would read what lies behind them."""
    native = NativePath(_sample("split_bill"))
    short = [array("q", [1]) for _ in native.source.inputs]
    with pytest.raises(UserError, match="for 2 rows"):
        native.run_columns(short, 2)
    assert native.run_columns([column[:0] for column in short], 0)[0] == array("i")


# The hot path.


class _Scripted:
    """A path whose runs take as long as it is told, by a clock of its own."""

    def __init__(self, node: NodeProgram, clock: list[int], cost: int, wrong: int = 0) -> None:
        self._path, self._clock, self._cost = PythonPath(node), clock, cost
        self._wrong, self.calls = wrong, 0

    def run(self, inputs: Mapping[str, Any]) -> NodeOutcome:
        self.calls += 1
        self._clock[0] += self._cost
        if self._wrong and self.calls >= self._wrong:
            return NodeOutcome(NodeStatus.TRAP, None, "overflow", "x")
        return self._path.run(inputs)


def _hot(cost: int, wrong: int = 0) -> tuple[HotPath, _Scripted, list[int]]:
    """Return a hot path whose native code costs so much; each look at the clock is 10 of Python."""
    node, clock = edge_node("sum"), [0]
    native = _Scripted(node, clock, cost, wrong)

    def cpu_ns() -> int:
        clock[0] += 10
        return clock[0]

    hot = HotPath(node, 5, make=lambda _: native, start=lambda work: work(), cpu_ns=cpu_ns)
    return hot, native, clock


GIVEN: dict[str, Any] = {
    "a": 1,
    "b": 2,
    "x": "0",
    "w": "0",
    "f": True,
    "e": "low",
    **dict.fromkeys(("t", "u"), "2026-01-01T00:00:00Z"),
}


def test_a_node_is_native_from_the_threshold_on() -> None:
    """Not a call sooner."""
    hot, native, _ = _hot(cost=0)
    for _ in range(4):
        hot.run(GIVEN)
    assert (native.calls, hot.why_python) == (0, "it was not called 5 times yet")
    hot.run(GIVEN)
    assert (native.calls, hot.why_python) == (1, "")


@pytest.mark.parametrize(("cost", "kept"), [(0, True), (5, False)])
def test_native_code_that_is_slower_is_dropped(cost: int, kept: bool) -> None:
    """After 32 comparisons, one in 64 calls; that which is as fast stays."""
    hot, native, _ = _hot(cost)
    for _ in range(64 * 33):
        hot.run(GIVEN)
    assert hot.why_python == ("" if kept else "native code takes 1.5 times as long as Python")
    before = native.calls
    hot.run(GIVEN)
    assert native.calls == before + kept


def test_native_code_that_differs_is_dropped_and_not_believed() -> None:
    """The comparison that finds it gives the answer of Python."""
    hot, native, _ = _hot(cost=0, wrong=60)
    outcomes = [hot.run(GIVEN) for _ in range(64)]
    assert outcomes[63].outputs == {"found": 3}
    assert hot.why_python.startswith("native code gave trap overflow at step x where Python gives")
    assert hot.run(GIVEN).outputs == {"found": 3}
    assert native.calls == 61


def test_a_node_that_cannot_be_native_stays_on_python() -> None:
    """It says why, and answers."""
    hot = HotPath(_sample("sales_tax"), 1, start=lambda work: work())
    given = {"net": "1.00", "country": "de", "rates": {"de": "0.1900"}}
    assert hot.run(given).status is NodeStatus.SUCCESS
    assert hot.why_python == "the input country is of type string<2>"


def test_a_node_that_is_hot_is_compiled_for_real() -> None:
    """In a thread of its own, while calls go on."""
    work = list[Any]()
    hot = HotPath(_sample("transfer"), 2, start=work.append)
    given = {"source": 1_000, "target": 5, "fees": 0, "amount": 400}
    first = [hot.run(given) for _ in range(3)]
    assert hot.why_python == "it is being compiled"
    work.pop()()
    assert [hot.run(given) for _ in range(3)] == first
    assert hot.why_python == ""


def test_without_llvm_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python goes on without it."""
    monkeypatch.setitem(sys.modules, "llvmlite.binding", None)
    with pytest.raises(SettingsError, match=r"pip install 'vegakit\[native\]'"):
        NativePath(_sample("transfer"))
    hot = HotPath(_sample("transfer"), 1, start=lambda work: work())
    given = {"source": 1_000, "target": 5, "fees": 0, "amount": 400}
    assert hot.run(given).status is NodeStatus.SUCCESS
    assert "llvmlite, which is not installed" in hot.why_python
