"""What `vega explain` tells of random programs, of those of tests, examples and documents, is what
they do; thousands of random ones are looked at by `just parallel`."""

from pathlib import Path
from typing import Any

import pytest
from campaigns.parallel.explained import (
    Explained,
    explain_and_run,
    explain_and_run_written,
    explained,
    written_programs,
)

from vegakit.lang import LinkKind
from vegakit.lang.analysis import dataflow_steps
from vegakit.lang.analysis.dataflow_steps import GraphBuilder, HoldKind
from vegakit.lang.analysis.dataflow_walk import DataflowWalk
from vegakit.vm import lookahead
from vegakit.vm.lookahead import Lookahead

PROGRAMS = range(80)
TRIED = 40
DISAGREED = sorted(Path(__file__).with_name("disagreed").glob("*.vega"))
"""Random programs that once did not agree, by their seeds, cut down to what showed it."""


def _said(looked: list[Explained]) -> list[str]:
    return [f"seed {one.seed}: {found}" for one in looked for found in one.found]


def test_explain_and_the_run_agree() -> None:
    looked = explained(PROGRAMS)
    disagreeing = [one for one in looked if one.found]
    assert not disagreeing, _said(disagreeing)
    runs = [run for one in looked for run in one.runs]
    waited = sum(run.waited for run in runs)
    assert waited > 20 * len(PROGRAMS), "else it would hold of programs that do nothing"
    assert sum(run.beside for run in runs) > 5 * len(PROGRAMS)
    assert sum(run.on_time for run in runs) > 5 * len(PROGRAMS)
    assert sum(run.overtaken.total() for run in runs) < waited / 25


def test_they_agree_on_the_programs_of_tests_examples_and_documents() -> None:
    looked = {name: explain_and_run_written(text) for name, text in written_programs()}
    ran = {name: one for name, one in looked.items() if not isinstance(one, str)}
    assert {name: one.found for name, one in ran.items() if one.found} == {}
    assert len(ran) > 0.75 * len(looked)
    assert sum(one.waited for one in ran.values()) > 200
    assert sum(one.beside for one in ran.values()) > 200


def _disagreements(path: Path) -> list[str]:
    runs = explain_and_run(path.read_text(encoding="utf-8"), int(path.stem))
    return [f"{path.stem}: {found}" for run in runs for found in run.found]


@pytest.mark.parametrize("path", DISAGREED, ids=lambda path: path.stem)
def test_they_agree_where_they_once_did_not(path: Path) -> None:
    assert not _disagreements(path)


def _none(*_: Any, **__: Any) -> None:
    """Does not do what it should."""


def _invented(self: DataflowWalk, *given: Any) -> int:
    """What is told waits for the step before it."""
    number = note(self, *given)
    if number and self.builder.entries[number].step.kind == "send":
        last = self.builder.last_of(self.here.passed & ~(1 << number))
        for before in dataflow_steps.bits(last):
            self.builder.link(before, number, LinkKind.ORDER, "invented")
    return number


def _without(*dropped: LinkKind) -> Any:
    def linking(
        self: GraphBuilder,
        before: int,
        after: int,
        why: LinkKind,
        text: str,
        *rest: Any,
        **how: Any,
    ) -> None:
        if why not in dropped:
            link(self, before, after, why, text, *rest, **how)

    return linking


def _of_all_rounds(self: GraphBuilder, hold: HoldKind, *given: Any) -> None:
    """A send with a budget of its own is waited for to its end."""
    gate(self, HoldKind.BUDGETS if hold is HoldKind.ROUNDS else hold, *given)


note, link, gate = DataflowWalk.note, GraphBuilder.link, GraphBuilder.gate
FAULTS = {
    "explain: needs are dropped": (GraphBuilder, "link", _without(LinkKind.NEEDS)),
    "explain: conflicts are dropped": (GraphBuilder, "link", _without(LinkKind.CONFLICT)),
    "explain: order is dropped": (GraphBuilder, "link", _without(LinkKind.ORDER)),
    "explain: decisions are dropped": (GraphBuilder, "link", _without(LinkKind.DECIDED)),
    "explain: barriers hold up nothing": (DataflowWalk, "bar", _none),
    "explain: undecided blocks hold up nothing": (DataflowWalk, "step_over", _none),
    "explain: tasks that ask one process overlap": (GraphBuilder, "take_turns", _none),
    "explain: all of the last round is waited for": (GraphBuilder, "gate", _of_all_rounds),
    "explain: an order is invented": (DataflowWalk, "note", _invented),
    "the run: conflicts are not looked at": (lookahead, "conflict", lambda one, other: False),
    "the run: nothing begins early": (Lookahead, "_may_begin", lambda *_: False),
    "the run: messages overtake each other": (Lookahead, "_in_line", lambda *_: True),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*FAULTS[fault])
    found = (explained([seed])[0].found for seed in range(TRIED))
    assert any(map(_disagreements, DISAGREED)) or any(found), fault
