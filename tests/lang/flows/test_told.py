"""Flows of small programs, reasoned out by hand: what is told of a line stands beside it."""

import sys
from pathlib import Path

import pytest

from vegakit.cli.drawing.text import as_dot, render_flows
from vegakit.lang import (
    DataflowLink,
    DataflowStep,
    LinkKind,
    ShownStep,
    StepKind,
    check_program,
    dataflow_of,
    shown_steps,
)
from vegakit.lang.analysis import dataflow_steps as noting
from vegakit.lang.analysis.dataflow import ordered
from vegakit.lang.analysis.dataflow_steps import GraphBuilder, StepAction
from vegakit.lang.analysis.dataflow_walk import DataflowWalk
from vegakit.testing import run_test

PROGRAMS = sorted(Path(__file__).with_name("programs").glob("*.vega"))
TIMED = [path for path in PROGRAMS if "// expect time:" in path.read_text()]
IN_ORDER = {"failing", "files", "people"}
"""Nothing in them can be early."""
SIGNS = {"at once": "∥", "in turn": "↻", "": ""}


def beside(text: str) -> dict[int, str]:
    lines = enumerate(text.splitlines(), 1)
    parts = {number: line.partition("//") for number, line in lines}
    return {number: said.strip() for number, (code, _, said) in parts.items() if said and code}


def spelled(row: ShownStep) -> str:
    wave = "" if row.wave is None else f"{row.wave}{SIGNS[row.rounds]}"
    return ": ".join(filter(None, [wave, " · ".join(row.notes)]))


def found(text: str) -> dict[int, str]:
    checked, problems = check_program(text, "p.vega", lambda _: None)
    assert checked is not None, problems
    said: dict[int, list[str]] = {}
    for flow in dataflow_of(checked):
        for row in shown_steps(flow):
            if spelled(row):
                said.setdefault(flow.steps[row.step].line, []).append(spelled(row))
    return {line: "; ".join(each) for line, each in sorted(said.items())}


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_every_line_is_told_as_it_is_meant(path: Path) -> None:
    assert found(path.read_text()) == beside(path.read_text())


@pytest.mark.parametrize("path", TIMED, ids=lambda path: path.stem)
def test_what_is_told_is_what_the_machine_does(path: Path) -> None:
    """On virtual time, in which every answer takes a second: as long as the told order takes."""
    assert run_test(path).problems == []


def test_one_after_another_they_take_longer() -> None:
    """Else the test above would hold for a machine that begins nothing early."""
    assert all(run_test(path, window=0).problems for path in TIMED if path.stem not in IN_ORDER)


def _nothing(*_: object, **__: object) -> None:
    """Does not do what it should."""


def _no_clash(one: StepAction, other: StepAction) -> str:
    return ""


def _never_one(one: StepAction, other: StepAction) -> bool:
    return False


FAULTS = {
    "conflicts are not seen": (noting, "clash", _no_clash),
    "one process is taken for two": (noting, "may_be_one", _never_one),
    "nothing is kept in order": (GraphBuilder, "order", _nothing),
    "rounds do not wait for each other": (GraphBuilder, "carry", _nothing),
    "barriers hold up nothing": (DataflowWalk, "bar", _nothing),
    "loops and branches decide nothing": (DataflowWalk, "decides", _nothing),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*FAULTS[fault])
    texts = [path.read_text() for path in PROGRAMS]
    assert any(found(text) != beside(text) for text in texts)


def test_a_program_too_large_is_told_so() -> None:
    """In time, and with its name."""
    checked, _ = check_program("agent A { }\n" + 'A <- "x";\n' * 2_001, "p.vega", lambda _: None)
    assert checked is not None
    (flow,) = dataflow_of(checked)
    assert flow.too_large
    assert (flow.name, flow.steps) == ("main", ())


HEAD = """program may [fs::write] allowed_paths ["**"]
agent A { model "any" }
agent M { model "any" memory conversation }
"""
LONG = {
    "chain": ("let a0 = A <- 0;", "let a{n} = A <- a{m};"),
    "independent": ("", 'let a{n} = A <- "q";'),
    "told": ("", 'let a{n} = A <- "q"; print(a{n});'),
    "one process": ("let p = spawn M;", 'let a{n} = p <- "q";'),
    "processes": ("", 'let p{n} = spawn M; let a{n} = p{n} <- "q";'),
    "branches": ('let x = "";', 'let a{n} = A <- "q"; if len(a{n}) > 3 {{ x = A <- "b"; }}'),
    "futures": ("", 'let f{n} = async A <- "q"; let a{n} = await f{n};'),
    "files": ("", 'file::write("f", "x");'),
}


def _calls_to_explain(kind: str, size: int) -> int:
    """How many functions are called to explain as many lines."""
    first, line = LONG[kind]
    body = "\n".join(line.format(n=n, m=n - 1) for n in range(1, size + 1))
    checked, wrong = check_program(f"{HEAD}fn main() {{\n{first}\n{body}\n}}", "p", lambda _: None)
    assert checked is not None, wrong
    count = 0

    def counted(_frame: object, event: str, _of: object) -> None:
        nonlocal count
        count += event.endswith("call")

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        flows = dataflow_of(checked)
        drawn = render_flows(flows, "p") + as_dot(flows)
    finally:
        sys.setprofile(before)
    assert not flows[0].too_large
    assert drawn
    return count


@pytest.mark.parametrize("kind", LONG)
def test_explaining_twice_as_many_calls_takes_twice_the_work(kind: str) -> None:
    """Counted, not timed. Where every step was looked at for each, it was four times the work."""
    few, many = (_calls_to_explain(kind, size) for size in (100, 200))
    assert many <= 2.2 * few


def test_deep_loops_end() -> None:
    """Each is walked until nothing changes, and each in each."""
    deep = "".join(f"for x{n} in xs {{ a = A <- a; " for n in range(40)) + "}" * 40
    text = f'agent A {{ }}\nfn main(xs: [str; 2]) {{ let a = ""; {deep} }}\n'
    checked, problems = check_program(text, "p.vega", lambda _: None)
    assert checked is not None, problems
    assert len(dataflow_of(checked)) == 1


def test_steps_told_to_wait_for_each_other_come_to_an_end() -> None:
    """A fault of the walk is told wrong; it must not keep `vega explain` from its end."""
    steps = [DataflowStep(n, StepKind.SEND, "a <- b", "p.vega", 1, lasts=True) for n in range(3)]
    ends = [(0, 1), (1, 0), (1, 2), (2, 1)]
    links = [DataflowLink(before, after, LinkKind.NEEDS, "needs") for before, after in ends]
    graph = ordered("main", "main.vega", 1, steps, links)
    assert sorted(one for wave in graph.waves for one in wave) == [0, 1, 2]
    assert len(graph.chain) <= len(steps)
