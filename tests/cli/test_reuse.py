"""`vega run --reuse`: an edited program keeps the answers whose requests are unchanged."""

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pytest

from vegakit.cli import main
from vegakit.money import to_usd
from vegakit.ports import ReusedRun
from vegakit.store import RunSummary, list_runs

PROGRAM = """
agent Writer { model smart  system "Write."  max_tokens 50 }
agent Judge { model smart  system "Judge."  max_tokens 20 }

fn main(topics: [str; 3]) {
    for topic in topics {
        let text = Writer <- "write of {topic}";
        print("{text}: {Judge <- "judge {text}"}");
    }
    print(Writer <- "sum up");
}
"""
ANSWERS = {
    "write of a": "A",
    "write of b": "B",
    "write of c": "C",
    "write on a": "AA",
    "judge A": "good",
    "judge B": "bad",
    "judge C": "fair",
    "judge AA": "fine",
    "sum up": "done",
}
GIVEN = ("p.vega", '["a", "b", "c"]', "--model", "scripted:s.json", "--journal", "j.db")


class Said(NamedTuple):
    stdout: str
    stderr: str
    returncode: int


Vega: TypeAlias = Callable[..., Said]


@pytest.fixture
def vega(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Vega:
    """A command in this process."""
    monkeypatch.chdir(tmp_path)

    def called(*words: str) -> Said:
        code = main(words)
        said = capsys.readouterr()
        return Said(said.out, said.err, code)

    return called


def process(folder: Path, *words: str) -> Said:
    """A command in a process of its own."""
    command = [sys.executable, "-m", "vegakit", *words]
    ran = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    return Said(ran.stdout, ran.stderr, ran.returncode)


def account(ran: Said) -> tuple[int, int]:
    """Answers kept and bought."""
    told = json.loads(ran.stdout)["account"]
    return told.get("kept", 0), told["calls"]


def runs(folder: Path) -> list[RunSummary]:
    return list_runs(folder / "j.db")


def last(folder: Path) -> str:
    return runs(folder)[-1].run.program


def said_of(summary: RunSummary) -> ReusedRun:
    assert summary.run.reused is not None
    return summary.run.reused


def edit(folder: Path, old: str, new: str) -> None:
    assert old in PROGRAM
    (folder / "p.vega").write_text(PROGRAM.replace(old, new))


def write_answers(folder: Path, answers: dict[str, str]) -> None:
    """The longest first: a text that stands in another one would answer both."""
    matches = {one: answers[one] for one in sorted(answers, key=len, reverse=True)}
    (folder / "s.json").write_text(json.dumps({"matches": matches or {"nothing": "no"}}))


@pytest.fixture
def ran(tmp_path: Path, vega: Vega) -> Path:
    """A run that bought seven answers."""
    (tmp_path / "p.vega").write_text(PROGRAM)
    write_answers(tmp_path, ANSWERS)
    assert account(vega("run", *GIVEN, "--json")) == (0, 7)
    return tmp_path


@pytest.mark.parametrize(
    ("old", "new", "kept", "bought", "said"),
    [
        ("Write.", "Write.", 7, 0, "7 of 7 answers kept, 0 to buy, at most $0.0000"),
        ("let text", "print(1); let text", 7, 0, "7 of 7 answers kept, 0 to buy"),
        ("sum up", "write of a", 6, 1, "6 of 7 answers kept, 1 to buy, at most $0.00"),
        ('"Judge."  max_tokens 20', '"Judge."  max_tokens 21', 4, 3, "4 of 7 answers kept, "),
        ('"Judge."', '"Judge well."', 4, 3, "4 of 7 answers kept, 3 to buy"),
        ("max_tokens 20", "max_tokens 20 temperature 0.5", 4, 3, "4 of 7 answers kept, "),
        ("for topic", 'print(Writer <- "write on a");\n    for topic', 7, 1, "7 of 8 answers "),
    ],
    ids=["nothing", "literal", "message", "max_tokens", "system", "temperature", "insert"],
)
def test_what_is_unchanged_is_kept_and_the_rest_is_bought(
    ran: Path, vega: Vega, old: str, new: str, kept: int, bought: int, said: str
) -> None:
    """The same program prints what a new run of it prints, and costs no more than was said."""
    edit(ran, old, new)
    fresh = vega("run", *GIVEN[:-1], "fresh.db")
    told = vega("run", *GIVEN, "--reuse", last(ran)[:12])
    assert told.stdout == fresh.stdout
    assert told.stderr.startswith(f"✓ {said}"), told.stderr
    assert f"{bought} call{'s' * (bought != 1)}, {kept} kept" in told.stderr.replace("\xa0", " ")
    one = runs(ran)[-1]
    assert said_of(one).kept == kept
    assert one.spent <= (said_of(one).at_most or 0)
    assert account(vega("run", *GIVEN, "--reuse", last(ran), "--json")) == (kept + bought, 0)


def test_a_file_that_changed_may_be_bought_for(tmp_path: Path, vega: Vega) -> None:
    """What is read now may be another text than was recorded: nothing is said for certain."""
    program = """agent Reader { model smart  max_tokens 50 }
fn main() may [fs::read] allowed_paths ["*.txt"] {
    print(Reader <- file::read("a.txt"));
}
"""
    (tmp_path / "p.vega").write_text(program)
    (tmp_path / "a.txt").write_text("judge A")
    (tmp_path / "s.json").write_text(json.dumps({"matches": ANSWERS}))
    given = ("p.vega", *GIVEN[2:])
    assert vega("run", *given).returncode == 0
    (tmp_path / "a.txt").write_text("judge B")
    told = vega("run", *given, "--reuse", last(tmp_path))
    assert told.stdout == "bad\n"
    assert told.stderr.startswith("✓ up to 1 of 1 answer kept, 0 or more to buy, at most $0.00")


def test_what_stands_behind_a_bought_answer_is_kept_when_the_program_comes_to_it(
    ran: Path, vega: Vega
) -> None:
    """Nobody knows before what is judged; it is what was judged then, so no judgement is bought."""
    edit(ran, "max_tokens 50", "max_tokens 51")
    told = vega("run", *GIVEN, "--reuse", last(ran))
    assert told.stdout.splitlines() == ["A: good", "B: bad", "C: fair", "done"]
    assert told.stderr.startswith("✓ 0 of 7 answers kept, 4 to 7 to buy, at most $0.00")
    assert "4 calls, 3 kept" in told.stderr.replace("\xa0", " ")


def test_a_changed_program_offers_the_command_that_keeps_its_answers(tmp_path: Path) -> None:
    """`vega resume` refuses it; what it says to type goes on with what was paid."""
    (tmp_path / "p.vega").write_text(PROGRAM)
    write_answers(tmp_path, {one: said for one, said in ANSWERS.items() if one != "sum up"})
    assert process(tmp_path, "run", *GIVEN).returncode == 1
    write_answers(tmp_path, ANSWERS)
    edit(tmp_path, "write of {topic}", "write on {topic}")
    write_answers(tmp_path, {**ANSWERS, "write on b": "B", "write on c": "C"})
    refused = process(tmp_path, "resume", "j.db")
    assert "to start a new run that keeps the answers whose requests are unchanged" in (
        " ".join(refused.stderr.split())
    )
    [typed] = [line for line in refused.stderr.splitlines() if line.startswith("  try: vega run")]
    assert typed.endswith(f"--reuse {last(tmp_path)[:12]}")
    gone_on = process(tmp_path, "run", *GIVEN, "--reuse", typed.split()[-1])
    assert gone_on.stdout.splitlines() == ["AA: fine", "B: bad", "C: fair", "done"]
    assert [one.run.is_given_up for one in runs(tmp_path)] == [True, False]


def test_a_run_that_keeps_answers_goes_on_without_the_earlier_one(ran: Path) -> None:
    """What it keeps is in its own rows from the start."""
    edit(ran, "sum up", "write on a")
    write_answers(ran, {})
    failed = process(ran, "run", *GIVEN, "--reuse", last(ran))
    assert failed.returncode == 1
    assert failed.stderr.startswith("✓ 6 of 7 answers kept, 1 to buy")
    with closing(sqlite3.connect(ran / "j.db")) as journal, journal:
        first = journal.execute("SELECT MIN(program) FROM runs").fetchone()
        for table in ("effects", "runs"):
            journal.execute(f"DELETE FROM {table} WHERE program = ?", first)
    write_answers(ran, {"write on a": "AA"})
    gone_on = process(ran, "resume", "j.db")
    assert gone_on.stdout.splitlines() == ["A: good", "B: bad", "C: fair", "AA"]
    [one] = runs(ran)
    assert f"✓ 6 answers of run {first[0][:12]} kept, at most $0.00" in gone_on.stderr
    assert said_of(one).kept == 6
    assert 0 < one.spent <= (said_of(one).at_most or 0)


@pytest.mark.usefixtures("ran")
def test_what_went_wrong_and_what_to_type(vega: Vega) -> None:
    """A run that is not there, and a journal that is not kept."""
    assert "no run in j.db begins with 'ff'" in vega("run", *GIVEN, "--reuse", "ff").stderr
    told = vega("run", *GIVEN[:-2], "--no-journal", "--reuse", "ff").stderr
    assert "leave out --no-journal" in " ".join(told.split())
    assert "needs the beginning of the id" in vega("run", *GIVEN, "--reuse", "").stderr
    told = " ".join(vega("run", *GIVEN[:-1], "new.db", "--reuse", "ff").stderr.split())
    assert "looks for run ff in new.db" in told
    assert "name the journal that has it" in told


def test_a_limit_is_compared_with_what_is_left_to_buy(ran: Path, vega: Vega) -> None:
    """What is kept costs nothing, so a limit below the whole quote lets it begin."""
    words = (*GIVEN, "--reuse", last(ran), "--max", "$0.000001")
    assert vega("run", *words).stderr.startswith("✓ 7 of 7 answers kept")
    edit(ran, "sum up", "write of a")
    refused = vega("run", *words)
    assert refused.returncode == 1
    assert "with the answers that are kept" in " ".join(refused.stderr.split())


def test_a_run_that_is_not_begun_is_no_run_to_go_on_with(ran: Path, vega: Vega) -> None:
    """It would be refused again, however much is added; the next run is a new one."""
    edit(ran, "sum up", "write of a")
    words = (*GIVEN, "--reuse", last(ran))
    refused = vega("run", *words, "--max", "$0.000001")
    assert "so it was not begun" in " ".join(refused.stderr.split())
    assert "vega resume" not in refused.stderr
    assert [one.run.is_given_up for one in runs(ran)] == [False, True]
    assert "no run in j.db is unfinished" in vega("resume", "j.db").stderr
    assert vega("run", *words).stderr.startswith("✓ 6 of 7 answers kept")


def test_a_kept_answer_is_not_refused_for_money(ran: Path, vega: Vega) -> None:
    """The budget is for what is bought: each call that is kept could cost more than all of it."""
    edit(ran, "sum up", "sum up, with {budget::remaining()}")
    write_answers(ran, {"sum up": "done"})
    words = (*GIVEN, "--reuse", runs(ran)[0].run.program, "--budget")
    bought = vega("run", *words, "$0.0003")
    assert bought.stdout.endswith("done\n"), bought.stderr
    told = vega("run", *words, "$0.000002")
    assert told.returncode == 1
    assert "6 of 7 answers kept, 1 to buy, at most $0.0001" in told.stderr
    assert "has $0.000002 left of $0.000002" in " ".join(told.stderr.split())
    assert "6 kept" in told.stderr.replace("\xa0", " ")


def test_json_says_what_is_kept_and_what_is_left_to_buy(ran: Path, vega: Vega) -> None:
    edit(ran, "sum up", "write on a")
    page = json.loads(vega("run", *GIVEN, "--reuse", last(ran), "--json").stdout)
    quoted, said = page["quote"], said_of(runs(ran)[-1])
    assert (quoted["kept"], quoted["to_buy"]) == (6, 1)
    assert quoted["at_most_usd"] == to_usd(said.at_most)
    assert "typical_usd" not in quoted


def test_an_edited_pipeline_keeps_answers_within_its_budget(tmp_path: Path, vega: Vega) -> None:
    """Nothing is quoted of it, so its budget caps what is bought."""
    stages = [{"name": "plan", "agent": "a", "default_next": "write"}]
    stages += [{"name": "write", "agent": "b"}]
    agents = {one: {"model": "fast", "max_tokens": 20, "instructions": one} for one in "ab"}
    (tmp_path / "p.json").write_text(json.dumps({"stages": stages, "agents": agents}))
    (tmp_path / "s.json").write_text('["one", "two", "three"]')
    words = ("run", "p.json", "--input", "x", "--model", "scripted:s.json", "--journal", "j.db")
    assert vega(*words).returncode == 0
    agents["b"]["instructions"] = "other"
    (tmp_path / "p.json").write_text(json.dumps({"stages": stages, "agents": agents}))
    told = vega(*words, "--reuse", last(tmp_path))
    assert told.returncode == 0, told.stderr
    assert "1 call, 1 kept" in told.stderr.replace("\xa0", " ")
