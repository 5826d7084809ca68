"""Whatever an answer goes into waits for it, by a link: held against plain runs that taint."""

import os
from random import Random

import pytest

from tests.lang.flows.tainting import Run
from tests.lang.flows.writing import Writer
from vegakit.lang import DataflowGraph, LinkKind, check_program, dataflow_of
from vegakit.lang.analysis import dataflow_expressions as expressions, dataflow_walk as values
from vegakit.lang.analysis.dataflow_walk import (
    NO_DEPENDENCIES,
    DataflowScopes,
    DataflowWalk,
    Place,
    Provenance,
)
from vegakit.lang.syntax.tree import Text

PROGRAMS = int(os.environ.get("VEGA_FLOWS", "100"))
RUNS = 8
TRIED = 150


def flows(text: str) -> tuple[DataflowGraph, ...]:
    checked, problems = check_program(text, "p.vega", lambda _: None)
    assert checked is not None, problems
    return dataflow_of(checked)


def lines_needed(flow: DataflowGraph) -> set[tuple[int, int]]:
    """Pairs of lines: the first is needed by the second, perhaps through the blocks between."""
    steps, needed = flow.steps, set[tuple[int, int]]()
    into: dict[int, set[int]] = {step.id: set() for step in steps}
    for link in flow.links:
        if link.why is LinkKind.NEEDS:
            into[link.after].add(link.before)
    for step in steps:
        due, seen = [step.id], set[int]()
        while due:
            for before in into[due.pop()] - seen:
                seen.add(before)
                needed.add((steps[before].line, step.line))
                due += [before] if steps[before].kind in ("loop", "branch") else []
    return needed


def missing(seed: int) -> set[tuple[int, int]]:
    """What plain runs of this program found and its flows do not have."""
    text = Writer(seed).program()
    known = {pair for flow in flows(text) for pair in lines_needed(flow)}
    found: set[tuple[int, int]] = set()
    for number in range(RUNS):
        run = Run(text, Random(seed * RUNS + number))
        run.main()
        found |= run.found
    return found - known


@pytest.mark.parametrize("first", range(0, PROGRAMS, 50))
def test_no_link_is_missing(first: int) -> None:
    for seed in range(first, min(first + 50, PROGRAMS)):
        assert missing(seed) == set(), f"seed {seed}:\n{Writer(seed).program()}"


def test_plain_runs_find_much() -> None:
    """Else the test above would hold for any flow."""
    found = 0
    for seed in range(50):
        run = Run(Writer(seed).program(), Random(seed))
        run.main()
        found += len(run.found)
    assert found > 100


def _keeps_old(self: DataflowScopes, name: str, value: Provenance) -> None:
    """An assignment changes nothing."""


def _no_parts(w: DataflowWalk, node: Text) -> Provenance:
    return NO_DEPENDENCIES


def _first_only(one: Provenance, other: Provenance) -> Provenance:
    return one


def _nothing_joined(self: DataflowScopes, values: dict[Place, Provenance]) -> None:
    """No round leaves anything to the next, no failure anything to its handler."""


def _no_futures(self: Provenance) -> Provenance:
    return Provenance(self.needs)


FAULTS = {
    "assignments are not followed": (DataflowScopes, "assign", _keeps_old),
    "texts need nothing": (expressions, "_RULES", {**expressions._RULES, Text: _no_parts}),  # pyright: ignore[reportPrivateUsage]
    "one branch is forgotten": (values, "either", _first_only),
    "rounds and handlers begin anew": (DataflowScopes, "join", _nothing_joined),
    "futures are never awaited": (Provenance, "awaited", _no_futures),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*FAULTS[fault])
    assert any(missing(seed) for seed in range(TRIED))
