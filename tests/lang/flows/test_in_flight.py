"""What `vega explain` says of random programs is what was in flight together when they ran."""

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.lang.flows.mixing import FUNCTIONS, Mixer
from tests.lang.flows.running import TAG, WINDOW, ran
from vegakit.lang import DataflowGraph, SpeculationRules, check_program, dataflow_of
from vegakit.lang.analysis.dataflow_steps import GraphBuilder, HoldKind
from vegakit.lang.analysis.dataflow_walk import DataflowWalk
from vegakit.vm import machine

PROGRAMS = int(os.environ.get("VEGA_FLOWS", "100"))
TRIED = 150
FIRST = {"what lies behind an undecided block is known": 380}
"""The seed to begin with where a fault shows in few programs."""
OPAQUE = tuple(f"{name}(" for name in FUNCTIONS if name in ("napping", "writing", "paid"))
"""Functions of which more starts early than is told, since a call counts as one step."""


class Told(NamedTuple):
    """What a graph tells of one program: the seconds in which the first and the last round of each
    line start, the lines whose rounds come one after another, and whether it tells how long the
    loops take."""

    text: str
    seconds: dict[int, tuple[int, int]]
    serial: set[int]
    timed: bool
    closing: int


def told_of(seed: int) -> Told:
    text = Mixer(seed).program()
    checked, problems = check_program(text, "main.vega", lambda _: None)
    assert checked is not None, problems
    graph, lines = dataflow_of(checked)[0], text.splitlines()
    asks = {s.id for s in graph.steps if s.lasts and not s.rare and TAG.search(lines[s.line - 1])}
    first, last = (_starts(graph, asks, rounds=rounds) for rounds in (False, True))
    serial = {one for rounds in graph.rounds for one in rounds.serial}
    top = [step.id for step in graph.steps if step.parent is None]
    closing = [r.loop for r in graph.rounds if len(graph.rounds) == 1 and r.loop == top[-1]]
    return Told(
        text,
        {graph.steps[one].line: (first[one], last[one]) for one in asks},
        {graph.steps[one].line for one in serial},
        not serial,
        graph.steps[closing[0]].line if closing else len(lines),
    )


def _starts(graph: DataflowGraph, asks: set[int], *, rounds: bool) -> list[int]:
    """The second in which each step starts, if only asks take time; with `rounds` that of its last
    round, which may wait for something of an earlier one that comes but once."""
    serial = {one for each in graph.rounds for one in each.serial}
    starts = [0] * len(graph.steps)
    for _ in graph.steps:
        for link in graph.links:
            moot = graph.steps[link.before].rare and not graph.steps[link.after].rare
            waits = link.round_of is None or (rounds and link.after not in serial)
            if waits and link.before != link.after and not moot:
                done = starts[link.before] + (link.before in asks)
                starts[link.after] = max(starts[link.after], done)
    return starts


def compared(told: Told, seed: int, folder: Path) -> Iterator[tuple[int, str]]:
    """Yield each line that was asked, and how the run differs from what is told of it."""
    if not told.timed and told.closing == len(told.text.splitlines()):
        return  # nobody tells what comes behind rounds that wait for each other
    asked = defaultdict[int, list[int]](list)
    for line, second in ran(told.text, seed, folder, WINDOW):
        asked[line].append(second)
    for line, seconds in asked.items():
        if line in told.serial:
            # A round that is one call of such a function: the asks in it begin with those before.
            is_opaque = any(name in told.text.splitlines()[line - 1] for name in OPAQUE)
            apart = is_opaque or len({*seconds}) == len(seconds)
            yield line, "" if apart else "together"
        elif line in told.seconds:
            yield line, _difference(told.seconds[line], seconds)


def _difference(told: tuple[int, int], seconds: list[int]) -> str:
    first, last = told
    if max(seconds) > last:
        return "late"
    return "early" if min(seconds) < first else ""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with files; the machine looks as far ahead as it can however often it has waited,
    since how far it goes is not told."""
    monkeypatch.setattr(machine, "_WIDE", 1_000_000)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.txt").write_text("x")
    return tmp_path


def test_what_is_told_to_run_at_once_is_in_flight_together(folder: Path) -> None:
    """No send starts later than it is told, and the rounds that are told to come one after another
    do. What is told to wait seldom starts earlier: only behind a branch that is not taken."""
    found: list[str] = []
    for seed in range(PROGRAMS):
        opaque = any(name in Mixer(seed).program().split("fn main")[1] for name in OPAQUE)
        for line, how in compared(told_of(seed), seed, folder):
            assert how not in ("late", "together"), f"seed {seed}, line {line} is {how}"
            found += [] if opaque else [how]
    assert len(found) > PROGRAMS
    assert found.count("early") < len(found) / 20


def _none(*_: Any, **__: Any) -> None:
    """Does not do what it should."""


def _old_reason(self: SpeculationRules, agent: str) -> str:
    """The rule before it was asked of the machine's: tools that ask others, or call what calls
    itself, were forgotten."""
    why = reason(self, agent)
    return "" if " asks " in why or "calls itself" in why else why


reason = SpeculationRules.why_in_order
FAULTS = {
    "what tools of an agent do is forgotten": (SpeculationRules, "why_in_order", _old_reason),
    "what lies behind an undecided block is known": (DataflowWalk, "step_over", _none),
    "a budget of its own holds up nothing": (DataflowWalk, "come_to", _none),
    "money that is set aside holds up nothing": (DataflowWalk, "hold", _none),
    "gates are open": (HoldKind, "holds", lambda self, act: False),
    "a round leaves nothing to the next": (GraphBuilder, "carry", _none),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_rule_that_is_not_the_machines_is_found(
    fault: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine is asked without the fault, as it may share the rule."""

    def is_found(seed: int) -> bool:
        with monkeypatch.context() as planted:
            planted.setattr(*FAULTS[fault])
            told = told_of(seed)
        differs = told != told_of(seed)
        return differs and any(how == "late" for _, how in compared(told, seed, folder))

    first = FIRST.get(fault, 0)
    assert any(map(is_found, range(first, first + TRIED)))
