"""`vega cost` and `vega explain`, as a person would call them."""

import json
from pathlib import Path

import pytest

from vegakit.cli import main

PROGRAM = """
agent A { model "scripted:s.json" budget $0.25 }
fn main(paths: [str; 4]) {
    for p in paths { A <- p; }
    A <- "done";
}
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.json").write_text('["x"]')
    (tmp_path / "p.vega").write_text(PROGRAM)
    return "p.vega"


def test_a_table_tells_the_total_and_marks_the_dearest(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cost", program]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "p.vega: at most $1.13 in 30 calls"
    assert lines[3].split() == ["▸", "4", "A", "<-", "24", "$1.00", "◂", "dearest"]
    assert lines[4].split() == ["5", "A", "<-", "6", "$0.13"]


@pytest.mark.parametrize(("most", "status"), [("$1.13", 0), ("$1.12", 1)])
def test_max_fails_what_may_cost_more(program: str, most: str, status: int) -> None:
    assert main(["cost", program, "--max", most]) == status


def test_max_fails_what_has_no_bound(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = PROGRAM.replace("; 4]", "]").replace(" budget $0.25", "")
    Path(program).write_text(text)
    assert main(["cost", program, "--max", "$100"]) == 1
    said = capsys.readouterr()
    assert "unbounded at line 4, capped by nothing" in said.out
    assert "give its agents, functions or sessions a budget" in said.err


def test_the_budget_of_the_run_is_a_cap(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", program, "--budget", "$0.10", "--max", "$0.10"]) == 0
    assert "at most $0.10" in capsys.readouterr().out


def test_json_holds_the_quote_and_the_manifest(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cost", program, "--json"]) == 0
    page = json.loads(capsys.readouterr().out)
    assert page["calls"] == 30
    assert page["manifest"]["agents"][0]["name"] == "A"


def test_a_wrong_program_is_refused(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(program).write_text("let x = ;")
    assert main(["cost", program]) == 1
    assert capsys.readouterr().err


def test_explain_lists_what_a_program_may_do(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", program]) == 0
    assert "asks  A (scripted:s.json)" in capsys.readouterr().out
