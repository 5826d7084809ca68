"""`vega cost` and `vega explain`, as a person would call them."""

import json
import subprocess
import sys
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
    assert lines[0] == "p.vega: at most $1.0615 in 5 sends, at most 2 paid repeats"
    assert lines[1].strip() == "typical $0.0414 for 5 sends, each answered at once (no promise)"
    rows = [line.split() for line in lines]
    assert ["▸", "4", "A", "<-", "4", "$1.0000", "◂", "most", "expensive"] in rows
    assert ["5", "A", "<-", "1", "$0.0615"] in rows


def test_arguments_and_files_are_quoted_as_they_are(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With two of four texts, and a file that is there; and what does not fit is refused as a run
    refuses it."""
    text = """program may [fs::read]
agent A { model fast  max_tokens 100  max_steps 1  retry { max_attempts 1 } }
fn main(paths: [str; 4]) { for path in paths { print(A <- file::read(path)); } }
"""
    Path(program).write_text(text)
    for name in ("a.txt", "b.txt"):
        Path(name).write_text("hello")

    def most(*arguments: str) -> float:
        assert main(["cost", program, "--json", *arguments]) == 0
        return json.loads(capsys.readouterr().out)["total_usd"]

    assert most("a.txt", "b.txt") == 2 * most("a.txt")
    assert most() > 100 * most("a.txt", "b.txt")
    assert main(["cost", program, *"abcde"]) == 1
    assert "takes at most 4, 5 are given" in capsys.readouterr().err


def test_why_says_what_makes_the_bound_of_a_line(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cost", program, "--why", "4"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    for words in (
        "line 4, A <-: at most $1.0000",
        "sent 4 times at most",
        "its message has no bound",
        "2 paid repeats of the whole run may fall on it",
        "str::slice(text, 0, 2000)",
    ):
        assert words in told
    assert main(["cost", program, "--why", "5"]) == 0
    assert "sent once its longest message has 4 bytes" in " ".join(capsys.readouterr().out.split())
    assert main(["cost", program, "--why", "3"]) == 1
    assert "lines that send: 4, 5" in capsys.readouterr().err


def test_the_attempts_of_the_settings_are_quoted(
    program: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of agents without a `retry` of their own: they hold for these at run time, too."""
    monkeypatch.setenv("VEGA_LIMITS_DEFAULT_RETRY_MAX_ATTEMPTS", "1")
    assert main(["cost", program]) == 0
    assert "at most $1.0410 in 5 sends" in capsys.readouterr().out


@pytest.mark.parametrize(("most", "status"), [("$1.07", 0), ("$1.06", 1)])
def test_max_fails_what_may_cost_more(program: str, most: str, status: int) -> None:
    assert main(["cost", program, "--max", most]) == status


def test_max_fails_what_has_no_bound(
    program: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A budget that is only warned of is none."""
    text = PROGRAM.replace("; 4]", "]").replace(" budget $0.25", "")
    Path(program).write_text(text)
    monkeypatch.setenv("VEGA_BUDGET_ON_EXCEED", "warn")
    assert main(["cost", program, "--max", "$100"]) == 1
    said = capsys.readouterr()
    assert "unbounded at line 4, capped by nothing" in said.out
    assert "give its agents, functions or sessions a budget" in said.err


def test_the_budget_of_the_settings_is_a_cap(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in `vega run`, where no other is given."""
    Path(program).write_text(PROGRAM.replace("; 4]", "]"))
    Path("vega.toml").write_text('[budget]\ndefault = "$3"\n')
    assert main(["cost", program, "--max", "$3"]) == 0
    said = capsys.readouterr().out
    assert "at most $3.00" in said
    assert "the budget of your settings caps it: $3.00" in said
    assert main(["cost", program, "--budget", "$2", "--max", "$2"]) == 0


def test_the_budget_of_the_run_is_a_cap(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", program, "--budget", "$0.60", "--max", "$0.60"]) == 0
    assert "at most $0.60" in capsys.readouterr().out


def test_a_send_that_never_fits_is_named(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Its quarter is never there, so nothing is spent."""
    assert main(["cost", program, "--budget", "$0.10"]) == 0
    said = capsys.readouterr().out
    assert "at most $0.0000 in 0 sends" in said
    assert said.count("never fits its budget") == 2


def test_json_holds_the_quote_and_the_manifest(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cost", program, "--json"]) == 0
    page = json.loads(capsys.readouterr().out)
    assert (page["calls"], page["paid_repeats"]) == (5, 2)
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


RECORDED = """
agent A { model "scripted:s.json" max_tokens 4000 }
agent B { model "scripted:s.json" }
fn main(n: int) {
    for i in range(25) { if i < n { A <- "x"; } }
    if n > 99 { B <- "y"; }
}
"""


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs: answers of 1 to 25 words, then one answer of 120."""
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "p.vega").write_text(RECORDED)
    for rounds, words in [(25, range(1, 26)), (1, [120])]:
        replies = [" ".join(["word"] * count) for count in words]
        (folder / "s.json").write_text(json.dumps(replies))
        command = [sys.executable, "-m", "vegakit", "run", "p.vega", str(rounds), "--sequential"]
        command += ["--journal", "run.db"]
        subprocess.run(command, cwd=folder, check=True, timeout=60)
    return folder


@pytest.fixture
def recorded(journal: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(journal)
    return "p.vega"


def test_recorded_runs_stand_beside_the_quote(
    recorded: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """25 answers of 13 words on average, each for one word; and one of 120."""
    capsys.readouterr()
    assert main(["cost", recorded]) == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("p.vega: at most $0.64")
    assert rest[-1] == (
        "typical: 2 recorded runs came to $0.0012 on average, the most expensive to $0.0017 "
        "(no promise)"
    )


def test_recorded_runs_are_apart_from_the_quote_in_json(
    recorded: str, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["cost", recorded, "--json", "--tune"]) == 0
    page = json.loads(capsys.readouterr().out)
    assert page["total_usd"] > 0.6
    assert page["recorded"] == {"runs": 2, "expected_usd": 0.0011255, "p95_usd": 0.00165}
    assert page["tune"][0] == {
        "agent": "A",
        "calls": 26,
        "cut": 0,
        "p99": 120,
        "max_tokens": 150,
    }


def test_tune_says_what_it_rests_on(recorded: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["cost", recorded, "--tune"]) == 0
    lines = capsys.readouterr().out.splitlines()[-3:]
    assert lines[0] == "A: max_tokens 150 – 99 of 100 of 26 answers had 120 tokens or less"
    assert lines[1] == "B: too little to say, 0 recorded answers; 20 are needed"
    assert lines[2].startswith("with these it may cost $0.14")


def test_runs_of_other_programs_do_not_count(
    recorded: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("q.vega").write_text(RECORDED)
    capsys.readouterr()
    assert main(["cost", "q.vega", "--tune"]) == 0
    said = capsys.readouterr().out
    assert "recorded run" not in said
    assert "A: too little to say, 0 recorded answers" in said


def test_tune_without_a_journal_says_how_to_get_one(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cost", program, "--tune"]) == 0
    assert "run it with --journal run.db" in capsys.readouterr().out


def test_what_is_left_of_a_period_is_told(
    program: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By `vega cost` before the first run and after it, and by each run at its end; of a budget
    without a period each run has the whole."""
    Path("s.json").write_text('["x", "x"]')
    monkeypatch.setenv("VEGA_DATA_DIR", str(Path.cwd() / "data"))
    monkeypatch.setenv("VEGA_BUDGET_DEFAULT", "5/day")
    assert main(["cost", program]) == 0
    assert "of your budget of $5/day, $5.0000 is left" in capsys.readouterr().out
    assert main(["run", program, "--json", "a.py"]) == 0
    account = json.loads(capsys.readouterr().out)["account"]
    assert account["left_usd"] == pytest.approx(5 - account["spent_usd"], abs=1e-12)
    assert main(["run", program, "--budget", "0.50", "a.py"]) == 0
    assert "of $0.5000, $0.4999 left" in capsys.readouterr().err
    assert main(["cost", program]) == 0
    assert "of your budget of $5/day, $4.99" in capsys.readouterr().out
    monkeypatch.setenv("VEGA_BUDGET_DEFAULT", "$5")
    assert main(["cost", program]) == 0
    assert "left" not in capsys.readouterr().out


PIPELINE = """
stages:
  - {name: plan, agent: a, default_next: write}
  - {name: write, agent: b, retries: 1, default_next: plan}
agents:
  a: {model: "scripted:s.json", max_tokens: 500, budget: "$0.01"}
  b: {model: "scripted:s.json", max_tokens: 500, budget: "$0.02"}
bounds: {max_iterations: 3}
"""


def test_a_pipeline_is_quoted_by_its_bounds(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three runs of each stage, and of one of them two attempts: 3 * $0.01 + 6 * $0.02."""
    Path("p.yaml").write_text(PIPELINE)
    assert main(["cost", "p.yaml"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("p.yaml: at most $0.1500 in ")
    assert lines[3].split()[:2] == ["3", "plan"]
    assert lines[4].split()[1:3] == ["4", "write"]
    assert lines[5] == "how often stages run is bounded by max_iterations: 3"
    assert main(["cost", "p.yaml", "--max", "$0.15"]) == 0
    assert main(["cost", "p.yaml", "--max", "$0.14"]) == 1


def test_the_hops_of_a_pipeline_bound_all_stages_together(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The most expensive go first: 4 * $0.02."""
    bounds = "bounds: {max_iterations: 3, max_agent_hops: 4}"
    Path("p.yaml").write_text(PIPELINE.replace("bounds: {max_iterations: 3}", bounds))
    assert main(["cost", "p.yaml", "--json"]) == 0
    page = json.loads(capsys.readouterr().out)
    assert (page["total_usd"], page["decided_by"]) == (0.08, "max_agent_hops: 4")


def test_a_pipeline_that_cannot_be_run_has_no_price(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`vega run` says the same."""
    texts = {
        "agent c is not defined in this file": PIPELINE.replace("agent: b", "agent: c").replace(
            "  b: ", "# "
        ),
        "there is no provider for the model 'nosuch:m'": PIPELINE.replace(
            "scripted:s.json", "nosuch:m", 1
        ),
    }
    for told, text in texts.items():
        Path("p.yaml").write_text(text)
        for words in (["cost", "p.yaml"], ["run", "p.yaml", "--input", "x", "--budget", "$1"]):
            assert main(words) == 1
            assert told in " ".join(capsys.readouterr().err.split())
