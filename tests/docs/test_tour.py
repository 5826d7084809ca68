"""The tour names only files that its calls enter, in the order in which they enter them."""

import itertools
import re
from pathlib import Path

import pytest

from tools import flow  # pyright: ignore[reportAttributeAccessIssue]

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "tour.md"
DIAGRAM = re.compile(r"<!-- flow: (.+?) -->\n```text\n(.*?)^```", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"^ *([a-z_/]+\.py)(?: |$)", re.MULTILINE)
DIAGRAMS: dict[str, str] = dict(DIAGRAM.findall(PAGE.read_text(encoding="utf-8")))


def faults_of(diagram: str, files: list[str]) -> list[str]:
    """Say what a diagram names and a trace does not enter, or enters earlier than named before."""
    named = FILE.findall(diagram)
    missing = [f"{name} is not entered" for name in named if name not in files]
    known = [name for name in named if name in files]
    late = [
        f"{second} is entered before {first}"
        for first, second in itertools.pairwise(known)
        if files.index(second) <= files.index(first)
    ]
    return missing + late


def test_every_traced_call_has_a_diagram() -> None:
    assert list(DIAGRAMS) == list(flow.FLOWS)


@pytest.mark.parametrize("name", flow.FLOWS)
def test_a_diagram_is_what_is_traced(name: str) -> None:
    assert len(FILE.findall(DIAGRAMS[name])) >= 12
    assert faults_of(DIAGRAMS[name], flow.entered(name)) == []


def test_a_wrong_file_and_a_wrong_order_are_found() -> None:
    files, diagram = flow.entered("ask"), DIAGRAMS["ask"]
    planted = diagram.replace("host/gate.py ", "host/approvals.py ")
    assert faults_of(planted, files) == ["host/approvals.py is not entered"]
    swapped = diagram.replace("host/gate.py ", "X").replace("agent/turn.py ", "host/gate.py ")
    assert any("is entered before host/gate.py" in fault for fault in faults_of(swapped, files))
