"""What is told is what happens: when the machine starts each ask of a random program, on virtual
time in which every answer takes a second."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lang.flows.running import WINDOW, ran
from tests.lang.flows.writing import Writer
from vegakit.lang import DataflowGraph, LinkKind, check_program, dataflow_of
from vegakit.lang.analysis.dataflow_steps import GraphBuilder

PROGRAMS = 100
BLOCKS = ("if", "for", "attempt", "build", "at_once")


def told_seconds(flow: DataflowGraph) -> dict[int, int]:
    return {flow.steps[one].line: at for at, wave in enumerate(flow.waves) for one in wave}


def flow_of(text: str) -> DataflowGraph | None:
    """None where it is not told how long it takes, as rounds wait for each other; or where nothing
    starts early in a budget, as nobody knows yet how often a loop will ask."""
    checked, problems = check_program(text, "main.vega", lambda _: None)
    assert checked is not None, problems
    (flow,) = dataflow_of(checked)
    doubtful = any(step.kind == "loop" and step.parent is not None for step in flow.steps)
    return flow if not doubtful and all(rounds.at_once for rounds in flow.rounds) else None


def programs() -> Iterator[tuple[int, str, dict[int, int]]]:
    """With the second that is told of each line."""
    for seed in range(PROGRAMS):
        text = Writer(seed, BLOCKS, plain=True).program()
        flow = flow_of(text)
        if flow is not None:
            yield seed, text, told_seconds(flow)


def test_the_machine_starts_every_ask_when_it_is_told_to(tmp_path: Path) -> None:
    """Never later; earlier only behind a branch that is not taken."""
    asks, early, later_in_order = 0, 0, 0
    for seed, text, told in programs():
        asked = ran(text, seed, tmp_path, WINDOW)
        assert [line for line, at in asked if at > told[line]] == [], f"seed {seed}:\n{text}"
        asks += len(asked)
        early += sum(at < told[line] for line, at in asked)
        later_in_order += sum(at > told[line] for line, at in ran(text, seed, tmp_path, 0))
    assert asks > 200
    assert early < asks / 20
    assert later_in_order > asks / 4, "what runs in order does not start as early"


@pytest.mark.parametrize("forgotten", ["needs", "order"])
def test_a_flow_that_forgets_is_found(
    forgotten: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By asks that start later than it tells."""
    link = GraphBuilder.link

    def forgetting(
        self: GraphBuilder, before: int, after: int, why: str, *rest: Any, **how: Any
    ) -> None:
        if why != forgotten:
            link(self, before, after, LinkKind(why), *rest, **how)

    monkeypatch.setattr(GraphBuilder, "link", forgetting)
    assert any(
        at > told[line]
        for seed, text, told in programs()
        for line, at in ran(text, seed, tmp_path, WINDOW)
    )
