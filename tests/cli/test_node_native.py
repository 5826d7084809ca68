"""`vega node` with native code, as a person would call it."""

import json
from pathlib import Path

import pytest

from vegakit.cli import main

SAMPLES = Path(__file__).parents[2] / "examples/nodes"
TRANSFER = str(SAMPLES / "transfer.vsp")
ROWS = [{"source": n, "target": 5, "fees": 0, "amount": 400} for n in (1_000, 10, -1)]
WANTED = [
    {"status": "success", "outputs": {"source": 599, "target": 405, "fees": 1}},
    {"status": "error", "reason": "insufficient_funds", "step": "source"},
]

Captured = pytest.CaptureFixture[str]


def test_a_run_is_native(capsys: Captured) -> None:
    """With the outputs of the other paths."""
    given = ["--inputs", json.dumps(ROWS[0]), "--path", "native"]
    assert main(["node", "run", TRANSFER, *given]) == 0
    assert json.loads(capsys.readouterr().out) == WANTED[0]["outputs"]


def test_a_node_that_cannot_be_native_says_why(capsys: Captured) -> None:
    """Before its inputs are looked at."""
    given = ["--inputs", '{"net": "1", "country": "de", "rates": {}}', "--path", "native"]
    assert main(["node", "run", str(SAMPLES / "sales_tax.vsp"), *given]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "sales_tax_v1 cannot be native: the input country is of type string<2>" in said
    assert "use --path python" in said


def test_check_says_whether_a_node_can_be_native(capsys: Captured) -> None:
    """And if not, which part keeps it out."""
    places = [TRANSFER, str(SAMPLES / "rate_card.vsp")]
    assert main(["node", "check", *places]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "operations a run; can be native" in said
    assert "not native: the input tiers is of type array<Tier, 12>" in said
    assert main(["node", "check", "--json", *places]) == 0
    found = [each["node"]["not_native"] for each in json.loads(capsys.readouterr().out)["nodes"]]
    assert found == ["", "the input tiers is of type array<Tier, 12>"]


@pytest.mark.parametrize("path", ["hot", "python", "direct", "native"])
def test_a_batch_prints_an_outcome_a_line(path: str, tmp_path: Path, capsys: Captured) -> None:
    """The same ones by all paths; what was run is told apart from them."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text("\n".join(map(json.dumps, ROWS)) + "\n\n")
    assert main(["node", "batch", TRANSFER, str(rows), "--path", path]) == 0
    said = capsys.readouterr()
    outcomes = [json.loads(line) for line in said.out.splitlines()]
    assert outcomes[:2] == WANTED
    assert (len(outcomes), outcomes[2]["status"]) == (3, "broken")
    assert f"3 rows on the path {path}: 1 broken, 1 error, 1 success" in said.err
    assert ("it was not called 4,000 times yet" in said.err) == (path == "hot")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[1]", "rows.jsonl:2: this is no object"),
        ("{", "rows.jsonl:2: this is no JSON"),
        ('{"source": "x"}', "rows.jsonl:2: source: 'x' is no whole number"),
        ('{"sorce": 1}', "did you mean source"),
    ],
)
def test_a_wrong_line_is_told_with_its_number(
    line: str, said: str, tmp_path: Path, capsys: Captured
) -> None:
    """What came before it was run."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text(f"{json.dumps(ROWS[0])}\n{line}\n")
    assert main(["node", "batch", TRANSFER, str(rows), "--path", "python"]) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out) == WANTED[0]
    assert said in " ".join(printed.err.split())


def test_wrong_arguments_of_a_batch(tmp_path: Path, capsys: Captured) -> None:
    """A file that is not there, and no rows."""
    assert main(["node", "batch", TRANSFER, str(tmp_path / "none")]) == 1
    assert "cannot be read" in capsys.readouterr().err
    assert main(["node", "batch", TRANSFER, str(tmp_path), "--native-after", "0"]) == 1
    assert "1 or more" in capsys.readouterr().err


def test_a_test_runs_nodes_as_they_are_written(capsys: Captured) -> None:
    """Without the optimiser, too, all paths agree."""
    assert main(["node", "test", TRANSFER, "--cases", "40", "--no-optimise"]) == 0
    assert "none differ" in capsys.readouterr().out
