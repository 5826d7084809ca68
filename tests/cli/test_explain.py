"""`vega explain`: as a tree, as a picture, for Graphviz and for machines."""

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lang.flows.writing import Writer
from vegakit.cli import main
from vegakit.cli.drawing import svg as explain_layout
from vegakit.cli.drawing.svg import Box, Edge, as_svg, boxes_of, laid_out
from vegakit.cli.drawing.text import render_flows
from vegakit.cli.look import Look
from vegakit.lang import DataflowGraph, check_program, dataflow_of

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.vega"))
PROGRAM = """
agent A { model smart }
agent B { model fast }
fn main(xs: [str; 4]) {
    let a = A <- "one";
    let b = B <- "two";
    for x in xs {
        A <- "{a} {b} {x}";
    }
}
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.vega").write_text(PROGRAM)
    return "p.vega"


def flows(text: str) -> tuple[DataflowGraph, ...]:
    checked, problems = check_program(text, "p.vega", lambda _: None)
    assert checked is not None, problems
    return dataflow_of(checked)


def test_a_tree_numbers_what_runs_at_once(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", program]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "main, line 4: 3 calls in 2 steps",
        "Step Line  What                   Waits",
        '  1     5  A <- "one"',
        '  1     6  B <- "two"',
        "        7  for x in xs            every round at once",
        '  2∥    8  └─ A <- "{a} {b} {x}"  needs a, b',
        "at once        1: line 5, 6 · 2: line 8 (all rounds)",
        "longest chain  line 6 → 8",
        "",
        "same number: may run side by side   ∥ all rounds at once   ↻ round after round",
        "",
        "p.vega may do this and no more:",
        "  asks  A (smart)",
        "  asks  B (fast)",
    ]


def test_colour_adds_nothing_but_colour() -> None:
    plain, painted = (render_flows(flows(PROGRAM), "p.vega", Look(colour=c)) for c in (False, True))
    assert painted != plain
    assert re.sub(r"\x1b\[\d*m", "", painted) == plain


@pytest.mark.parametrize("width", [40, 80, 120])
def test_notes_are_broken_at_the_edge_of_the_terminal(width: int) -> None:
    text = Path(EXAMPLES[0]).read_text()
    lines = render_flows(flows(text), "p.vega", Look(width=width)).splitlines()
    table = [line for line in lines if line[:9].strip().isdigit() or line.startswith(" " * 11)]
    assert table
    assert max(map(len, table)) <= max(width, 48)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_explained_in_every_form(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn = tmp_path / "flow.svg"
    for words in ([], ["--dot"], ["--json"], ["--svg", str(drawn)]):
        assert main(["explain", str(path), *words]) == 0
        assert capsys.readouterr().out
    root = ET.fromstring(drawn.read_text(encoding="utf-8"))
    assert root.tag.endswith("svg")
    assert float(root.get("width", "0")) > 100


def test_machines_get_the_manifest_and_the_flows(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", program, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    (flow,) = told["flows"]
    assert [agent["name"] for agent in told["agents"]] == ["A", "B"]
    assert flow["waves"] == [[0, 1], [3]]
    assert flow["chain"] == [1, 3]
    links = {(link["before"], link["after"]): link["text"] for link in flow["links"]}
    assert links == {(0, 3): "needs a", (1, 3): "needs b"}


def test_graphviz_gets_every_step_once(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", program, "--dot"]) == 0
    out = capsys.readouterr().out
    assert [out.count(f" s0_{n} [label") for n in (0, 1, 3)] == [1, 1, 1 + 2]
    assert out.count(" -> s0_3 ") == 2


def test_a_picture_that_cannot_be_written_says_what_to_do(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", program, "--svg", "nowhere/p.svg"]) != 0
    assert "give --svg a file in a folder that is there" in capsys.readouterr().err


def test_text_of_a_program_stays_text_in_the_picture() -> None:
    """What could is refused before; what is left of it is plain text."""
    text = 'agent A { }\nA <- "</text><b>&amp;";\n'
    drawn = ET.fromstring(as_svg(flows(text)))
    assert any((each.text or "").endswith('"</text><b>&amp;"') for each in drawn.iter())


def nested(boxes: list[Box], edges: list[Edge]) -> Iterator[tuple[list[Box], list[Edge]]]:
    yield boxes, edges
    for box in boxes:
        yield from nested(box.parts, box.edges)


def overlap(one: Box, other: Box) -> bool:
    apart_x = one.x + one.width <= other.x or other.x + other.width <= one.x
    apart_y = one.y + one.height <= other.y or other.y + other.height <= one.y
    return not apart_x and not apart_y


def crossed(box: Box, edge: Edge) -> bool:
    """A line turns between the rows only, so its points and what lies between tell."""
    for (x, y), (to_x, to_y) in zip(edge.points, edge.points[1:], strict=False):
        inside_y = y < box.y + box.height and box.y < to_y
        if inside_y and min(x, to_x) < box.x + box.width and box.x < max(x, to_x):
            return True
        if inside_y and x == to_x and box.x < x < box.x + box.width:
            return True
    return False


def wrong_places(flow: DataflowGraph) -> list[str]:
    tops, lines = boxes_of(flow)
    laid_out(tops, lines)
    wrong: list[str] = []
    for boxes, edges in nested(tops, lines):
        pairs = [(a, b) for at, a in enumerate(boxes) for b in boxes[:at]]
        wrong += [f"{a.title} on {b.title}" for a, b in pairs if overlap(a, b)]
        wrong += [
            f"a line through {box.title}"
            for box in boxes
            for edge in edges
            if box.step.id not in (edge.before, edge.after) and crossed(box, edge)
        ]
        for box in boxes:
            inside = all(p.x >= 0 and p.x + p.width <= box.width for p in box.parts)
            below = all(p.y + p.height <= box.height for p in box.parts)
            wrong += [] if inside and below else [f"out of {box.title}"]
    return wrong


def test_no_box_lies_on_another_and_no_line_crosses_one() -> None:
    texts = [path.read_text() for path in EXAMPLES] + [Writer(s).program() for s in range(80)]
    assert [flow.name for text in texts for flow in flows(text) if wrong_places(flow)] == []


def test_a_line_that_gets_no_gap_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explain_layout, "_lanes", lambda rows, edges: {})
    assert any(wrong_places(flow) for seed in range(40) for flow in flows(Writer(seed).program()))
