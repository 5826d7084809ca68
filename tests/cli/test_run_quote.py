"""The quote of a run: told before its first call, recorded, and kept to."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.raising import raised, resume_next_command
from vegakit.cli import main
from vegakit.config import ResumeTarget
from vegakit.money import Money
from vegakit.ports import RunQuote
from vegakit.store import list_runs

TWICE = """
agent A { model fast  max_tokens 10 }
fn main(name: str) {
    let a = A <- "Who is {name}?";
    let b = A <- "Again: {a}";
    print(A <- "And: {b} {a}");
}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.vega").write_text(TWICE)
    return tmp_path


def run(answers: list[str], *words: str) -> int:
    Path("says.json").write_text(json.dumps(answers))
    return main(["run", "p.vega", "Ada", "--model", "scripted:says.json", *words])


def recorded() -> RunQuote:
    quoted = list_runs("run.db")[-1].run.quote
    assert quoted is not None
    return quoted


def cost_of(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    Path("says.json").write_text('["x"]')
    assert main(["cost", "p.vega", *words, "--json", "--model", "scripted:says.json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_run_opens_with_the_three_figures_of_its_arguments(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quoted = cost_of(capsys, "Ada")
    assert run(["x", "y", "z"], "--json", "--no-journal") == 0
    page = json.loads(capsys.readouterr().out)
    figures = {"typical_usd": quoted["typical_usd"], "at_most_usd": quoted["total_usd"]}
    now = {"at_most_now_usd": page["account"]["spent_usd"]}
    assert page["quote"] == {**figures, "cap_usd": 10.0, **now}
    assert cost_of(capsys)["total_usd"] > figures["at_most_usd"]
    assert run(["x", "y", "z"], "--no-journal") == 0
    told = capsys.readouterr()
    assert told.out == "z\n"
    assert told.err.splitlines()[0] == "p.vega: typical $0.0002, at most $0.0006, cap $10.00"
    assert run(["x", "y", "z"], "--no-journal", "--quiet") == 0
    assert not capsys.readouterr().err


def test_a_run_that_is_longer_than_quoted_pauses_and_goes_on_with_the_same_quote(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No answer is cut or lost; what is missing is named, and the quote stays as it was though the
    program would be quoted otherwise by now."""
    answers = ["w " * 400, "x " * 300, "done"]
    assert run(answers, "--journal", "run.db") == 1
    told, quoted = capsys.readouterr().err, recorded()
    assert "Paused: a call of scripted:says.json could cost" in told
    assert "this run was quoted at most" in told
    assert "or calls were charged again and again that timed out or were cut off" in told
    assert "vega resume run.db --budget '+$0.01'" in told
    assert quoted.wallet is not None
    assert list_runs("run.db")[-1].spent <= quoted.wallet
    resume_next_command(monkeypatch, raised("$0.01"))
    assert run(["done"], "--journal", "run.db", "--set", "bounds.paid_repeats=90") == 0
    assert capsys.readouterr().out == "done\n"
    assert recorded() == quoted
    assert len(list_runs("run.db")) == 1


def test_a_run_that_is_not_recorded_does_not_offer_to_go_on(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It cannot, and `vega resume` would go on with another one."""
    assert run(["w " * 400, "x " * 300, "done"], "--no-journal") == 1
    assert "this run was quoted at most" in (paused := capsys.readouterr().err)
    assert run(["x", "y", "z"], "--no-journal", "--budget", "$0.000001") == 1
    assert "at its cap what does not fit is refused\n" in (refused := capsys.readouterr().err)
    (folder / "p.vega").write_text(TWICE.replace("10 }", "10  budget $0.000001  on_exceed ask }"))
    assert run(["x"], "--no-journal") == 1
    assert "it is set to ask, but the run is not recorded" in (asked := capsys.readouterr().err)
    assert "vega resume" not in paused + refused + asked


def test_more_money_does_not_raise_what_a_run_may_cost(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its quote stands as it was; only its cap is higher."""
    assert run(["x"], "--journal", "run.db", "--budget", "$0.0004") == 1
    assert "at its cap what does not fit is refused" in capsys.readouterr().err
    resume_next_command(monkeypatch, raised("$1"))
    assert run(["y", "z"], "--journal", "run.db", "--budget", "$0.0004") == 0
    told = capsys.readouterr().err
    kill = "each kill may add at most $0.0003"
    assert f"p.vega: typical $0.0002, at most $0.0006, cap $1.0004, {kill}\n" in told
    assert "at its cap what does not fit is refused" not in told


def test_money_that_is_added_to_a_higher_cap_is_told_apart_from_the_quote(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The quote is the most that the run may cost, however much is added to its cap."""
    assert run(["w " * 400], "--journal", "run.db") == 1
    capsys.readouterr()
    resume_next_command(monkeypatch, raised("$5"))
    assert run(["x", "y"], "--journal", "run.db") == 0
    told = capsys.readouterr().err
    assert "at most $0.0006 by its quote ($5.0006 with what you added), cap $15.00" in told


def test_a_resumed_run_tells_what_a_kill_adds_with_its_own_lookahead(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["w " * 400], "--journal", "run.db", "--sequential") == 1
    assert "each kill may add at most $0.0002" in capsys.readouterr().err
    resume_next_command(monkeypatch, raised("$5"))
    assert run(["x", "y"], "--journal", "run.db") == 0
    assert "each kill may add at most $0.0003" in capsys.readouterr().err


def test_a_run_with_the_current_settings_names_the_model_that_is_asked(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the command to resume it keeps the flag."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-loopback")
    words = ["run", "p.vega", "Ada", "--journal", "run.db"]
    (folder / "says.json").write_text(json.dumps(["w " * 400]))
    (folder / "vega.toml").write_text('[models]\nfast = "scripted:says.json"\n')
    assert main(words) == 1
    capsys.readouterr()
    (folder / "vega.toml").write_text('[models]\nfast = "anthropic:claude-nothing"\n')
    resume_next_command(monkeypatch, ResumeTarget(current_settings=True))
    assert main(words) == 1
    told = " ".join(capsys.readouterr().err.split())
    assert "refused: BudgetExceeded: anthropic:claude-nothing has no known price" in told
    assert "try: vega resume run.db --use-current-settings" in told


def test_a_run_whose_program_was_changed_says_so_and_continues(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its recorded calls are the same; a comment is no change."""
    assert run(["x"], "--journal", "run.db") == 1
    for text, is_changed in (
        ("// A comment.\n" + TWICE, False),
        (TWICE.replace("And", "Or"), True),
    ):
        capsys.readouterr()
        (folder / "p.vega").write_text(text)
        assert run(["y"], "--journal", "run.db") == 1 - is_changed
        told = " ".join(capsys.readouterr().err.split())
        assert ("p.vega was changed after this run began" in told) is is_changed


def test_where_the_cap_comes_first_it_holds_and_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["x", "y", "z"], "--journal", "run.db", "--budget", "$0.0004") == 0
    first, second, *_ = capsys.readouterr().err.splitlines()
    assert first == "p.vega: typical $0.0002, at most $0.0004, cap $0.0004"
    assert second.startswith("! it could cost $0.0006; at its cap what does not fit is refused")
    assert recorded().wallet is None


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--max", "$0.0001"], "may cost $0.0006, which is more than $0.0001"),
        (["--max", "$0.0003"], "it usually costs, $0.0002: --admit typical"),
        (["--max", "$0.0001", "--admit", "typical"], "usually costs $0.0002"),
        (["--budget", "$0.0003", "--admit", "at most"], "may cost $0.0006"),
    ],
)
def test_a_run_that_is_not_accepted_is_not_begun(
    words: list[str], told: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["x"], "--journal", "run.db", *words) == 1
    assert told in " ".join(capsys.readouterr().err.split())
    assert not Path("run.db").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["--max", "$0.0003", "--admit", "typical"],
        ["--budget", "$0.0005", "--admit", "typical"],
        ["--max", "$0.0007"],
        ["--max", "$0.0005", "--budget", "$0.0005"],
    ],
)
def test_a_run_is_accepted_by_the_figure_that_is_named(words: list[str], folder: Path) -> None:
    assert run(["x", "y", "z"], "--no-journal", *words) == 0


@pytest.mark.parametrize(
    ("at_most", "cap", "wallet", "live"),
    [(9, 20, 9, 5), (9, None, 9, 5), (9, 7, None, 5), (9, 4, None, 4), (None, 7, None, 7)],
)
def test_a_quote_is_the_wallet_where_its_cap_does_not_come_first(
    at_most: int | None, cap: int | None, wallet: int | None, live: int
) -> None:
    at, top = (None if one is None else Money(one) for one in (at_most, cap))
    quoted = RunQuote(at, None, top)
    assert quoted.wallet == wallet
    assert quoted.bound(saved=4) == live
    is_capped = at_most is None or live < at_most - 4
    assert quoted.bound(saved=4, raised=1) == (live + 1 if is_capped else live)
    assert quoted.bound(saved=4, raised=1, beyond=1) == live + 1


PIPELINE = """stages:
  - {name: write, agent: writer}
agents:
  writer: {model: fast, max_tokens: 50, budget: "$0.01"}
"""


def test_a_pipeline_opens_with_them_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The figures of `vega cost`; and it is not begun where a user accepts less."""
    (folder / "one.yaml").write_text(PIPELINE)
    (folder / "says.json").write_text('["done", "done"]')
    model = ("--model", "scripted:says.json")
    assert main(["cost", "one.yaml", "--json", *model]) == 0
    quoted = json.loads(capsys.readouterr().out)
    words = ["run", "one.yaml", "--input", "rain", "--no-journal", *model]
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["quote"]
    assert told["typical_usd"] == quoted["typical_usd"]
    assert told["at_most_usd"] == quoted["total_usd"]
    assert main(words) == 0
    assert "one.yaml: typical $" in capsys.readouterr().err
    assert main([*words, "--max", "$0.000001"]) == 1
    assert "one.yaml may cost" in capsys.readouterr().err


def test_what_usually_costs_more_than_its_budget_is_not_begun(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The budget does not make it cheaper; and where nothing fits, the figures are told as well."""
    typical = cost_of(capsys, "Ada")["typical_usd"]
    budget = ("--no-journal", "--budget", f"${typical / 2:.6f}")
    assert run(["x", "y", "z"], *budget, "--admit", "typical") == 1
    assert "usually costs" in capsys.readouterr().err
    assert run(["x", "y", "z"], "--no-journal", "--budget", "$0.000001") == 1
    assert "p.vega: typical $" in capsys.readouterr().err


def test_a_session_that_only_warns_is_told_of(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = 'session budget $0.000001 on_exceed warn { print(A <- "x"); print(A <- "y"); }'
    text = f"agent A {{ model fast  max_tokens 10 }}\nfn main(name: str) {{ {session} }}\n"
    (folder / "p.vega").write_text(text)
    assert run(["x", "y"], "--no-journal") == 0
    assert capsys.readouterr().err.count("main has spent") == 1


def open_scopes() -> int:
    with closing(sqlite3.connect("run.db")) as ledger:
        wanted = "SELECT count(*) FROM scopes WHERE is_open AND parent IS NOT NULL"
        return ledger.execute(wanted).fetchone()[0]


def test_the_account_of_a_quote_is_closed_with_its_run(folder: Path) -> None:
    """One that is done is pruned with its calls some day; one that may go on stays as it is."""
    assert run(["x", "y", "z"], "--journal", "run.db") == 0
    assert open_scopes() == 0
    assert run(["x" * 900, "y"], "--journal", "run.db") == 1
    assert open_scopes() == 1


def test_a_budget_below_that_of_main_is_told_alike_by_cost_and_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of it is refused, which is not to cost nothing."""
    text = "agent A { model fast  max_tokens 100 }\nfn main(x: str) budget $0.02 {\n"
    Path("p.vega").write_text(text + "    while true limit 1000 { print(A <- x); }\n}\n")
    Path("says.json").write_text('["x"]')
    words = ["p.vega", "Ada", "--model", "scripted:says.json", "--budget", "$0.01"]
    assert main(["cost", *words]) == 0
    told = capsys.readouterr().out
    assert "at most $0.0100 in 1,000 sends" in told
    assert "always refused: main takes $0.02, which is more than --budget $0.01" in told
    assert main(["cost", *words, "--max", "$1"]) == 1
    assert "it is always refused: main takes $0.02" in capsys.readouterr().err
    assert main(["cost", *words, "--json"]) == 0
    page = json.loads(capsys.readouterr().out)
    assert page["always_refused"] is True
    assert page["total_usd"] == 0.01
    assert main(["run", *words, "--no-journal"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("p.vega: typical $0.0100, at most $0.0100, cap $0.0100\n")
    assert "a budget of $0.02 does not fit: main has only $0.01 left" in told
    assert main(["cost", *words[:-1], "$0.02", "--max", "$1"]) == 0
    assert "refused" not in capsys.readouterr().out


@pytest.mark.parametrize("count", [4, 40])
def test_the_files_of_a_folder_are_typical_as_they_are(
    folder: Path, capsys: pytest.CaptureFixture[str], count: int
) -> None:
    """They are no ten unknown files, and cost what the same files cost that are given by name."""
    (folder / "src").mkdir()
    names = [f"src/f{at:02}.txt" for at in range(count)]
    for at, name in enumerate(names):
        Path(name).write_text("a" * 1000 * (1 + at % 3))
    head = "agent A { model fast  max_tokens 40 }\n"
    may = 'may [fs::read] allowed_paths ["src/**"]'
    ask = '{ print(A <- "{p}: {file::read(p)}"); } }\n'
    Path("p.vega").write_text(f"{head}fn main(xs: [str]) {may} {{ for p in xs {ask}")
    named = cost_of(capsys, *names)
    Path("p.vega").write_text(f"{head}fn main(x: str) {may} {{ for p in file::list(x) {ask}")
    listed = cost_of(capsys, "src")
    assert listed["sends"] == named["sends"] == count
    assert listed["typical_usd"] == pytest.approx(named["typical_usd"], rel=0.01)
    assert listed["typical_usd"] < listed["total_usd"] / 2


def test_the_budget_of_main_is_the_cap_where_it_comes_first(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("p.vega").write_text(TWICE.replace(") {", ") budget $0.0004 {"))
    assert run(["x", "y", "z"], "--journal", "run.db") == 0
    first, *_, last = capsys.readouterr().err.splitlines()
    assert first == "p.vega: typical $0.0002, at most $0.0004, cap $0.0004"
    assert " of the cap $0.0004," in last
    assert run(["x", "y", "z"], "--no-journal", "--json") == 0
    assert json.loads(capsys.readouterr().out)["quote"]["cap_usd"] == 0.0004
