"""`vega runs`, `resume` and `replay`, as a person would call them."""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.test_looking import golden
from vegakit.cli import main
from vegakit.cli.look import Look, Tone
from vegakit.cli.runs import render_runs
from vegakit.ids import ProgramId
from vegakit.money import Money, dollars
from vegakit.ports.storage import RunRecord
from vegakit.store import RunSummary, list_runs

STARTED = 1_794_719_004_676
RUNS = [
    RunSummary(
        RunRecord(
            ProgramId("01a1dd96b8045d7ee978fa89"), STARTED, ("python", "report.py"), "/home/ada"
        ),
        STARTED + 61_000,
        is_running=False,
        recorded=12,
        cut_off=0,
        spent=dollars("$1.25"),
    ),
    RunSummary(
        RunRecord(
            ProgramId("01a1dd9a11f3aa01bb02cc03"), STARTED + 90_000, ("python", "a b.py", "\x1b[2J")
        ),
        None,
        is_running=False,
        recorded=3,
        cut_off=2,
        spent=Money(60_000),
    ),
]

PROGRAM = """
import asyncio, sys
from vegakit import Agent, Runtime
from vegakit.testing import ScriptedModel

async def main():
    model = ScriptedModel(lambda request: f"<{request.messages[-1].parts[0].text}>")
    agent = Agent("a", model=model, max_tokens=10)
    async with Runtime("$0.00009", on_exceed="ask", journal="run.db") as rt:
        for number in range(5):
            print((await rt.ask(agent, f"question {number}")).text)
    print("asked", len(model.requests))

asyncio.run(main())
"""


def vega(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "vegakit", *words]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )


def start(folder: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "program.py"]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
def paused(tmp_path: Path) -> Path:
    """A run that stopped where its budget did."""
    (tmp_path / "program.py").write_text(PROGRAM)
    assert "Paused" in start(tmp_path).stderr
    return tmp_path


def test_the_table_of_runs() -> None:
    """The last run stands last; what is unfinished stands out; nothing steers the terminal."""
    assert render_runs(RUNS) == golden("runs")
    look = Look(colour=True)
    assert look.paint("! unfinished", Tone.ASK) in render_runs(RUNS, look).splitlines()[2]


@pytest.mark.parametrize("width", [40, 60, 80, 140])
def test_a_narrow_table_of_runs_has_all_its_money(width: int) -> None:
    """Other columns give way, the command first."""
    lines = render_runs(RUNS, Look(width=width)).splitlines()
    assert max(map(len, lines)) <= width
    assert all("$" in line for line in lines[1:])


def test_a_paused_run_goes_on_with_more_money_and_is_then_replayed(paused: Path) -> None:
    """The first life bought four answers, the second one, the replay none."""
    resumed = vega(paused, "resume", "run.db", "--budget", "+$5")
    said = [f"<question {number}>" for number in range(5)]
    assert resumed.stdout.splitlines() == [*said, "asked 1"]
    assert "4 calls recorded, 0 cut off, <$0.0001 spent; its budget is raised by" in resumed.stderr
    before = (paused / "run.db").read_bytes()
    replayed = vega(paused, "replay", "run.db")
    assert replayed.stdout.splitlines() == [*said, "asked 0"]
    assert (paused / "run.db").read_bytes() == before
    [told] = json.loads(vega(paused, "runs", "run.db", "--json").stdout)
    assert (told["recorded"], told["cut_off"], told["spent_usd"]) == (5, 0, 0.00006)


def test_a_replay_stops_at_the_first_difference(paused: Path) -> None:
    """It neither asks a model nor answers something else."""
    vega(paused, "resume", "run.db", "--budget", "+$5")
    (paused / "program.py").write_text(PROGRAM.replace("question", "riddle"))
    replayed = vega(paused, "replay", "run.db")
    assert replayed.stdout == ""
    assert "ProgramChanged: nothing is recorded for" in replayed.stderr
    [run] = list_runs(paused / "run.db")
    assert run.recorded == 5


def test_a_replay_of_a_cut_off_run_says_so(paused: Path) -> None:
    """It comes as far as the run did."""
    replayed = vega(paused, "replay", "run.db")
    assert replayed.stdout.splitlines() == [f"<question {number}>" for number in range(4)]
    assert "cut off here or before; to go on with it, type: vega resume" in replayed.stderr


def test_without_a_raise_it_pauses_again(paused: Path) -> None:
    """And nothing was bought."""
    assert "Paused" in vega(paused, "resume", "run.db").stderr
    [run] = list_runs(paused / "run.db")
    assert (run.recorded, run.spent) == (4, 48_000)


def test_what_went_wrong_and_what_to_type(
    paused: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No traceback, and status 1."""
    monkeypatch.chdir(paused)

    def told(*words: str) -> str:
        assert main(words) == 1
        return capsys.readouterr().err

    assert "there is no journal none.db\n  name the file" in told("runs", "none.db")
    with closing(sqlite3.connect("other.db")) as other, other:
        other.execute("CREATE TABLE something (other)")
    assert "other.db holds no journal" in told("runs", "other.db")
    assert "it is not a SQLite file" in told("runs", "program.py")
    assert "no run in run.db begins with 'x'\n  try: vega runs run.db" in told(
        "replay", "run.db", "x"
    )
    assert not (paused / "none.db").exists()
    vega(paused, "resume", "run.db", "--budget", "+$5")
    assert "no run in run.db is unfinished" in told("resume", "run.db")


def test_a_folder_that_is_gone_is_told(
    paused: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what to type elsewhere."""
    moved = paused.rename(paused.with_name("moved"))
    monkeypatch.chdir(moved)
    assert main(["resume", "run.db"]) == 1
    assert (
        "which is gone\n  bring that folder back, or type in another: " in capsys.readouterr().err
    )


def test_a_run_that_goes_on_is_not_started_twice(
    paused: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The one that writes holds the lock."""
    from vegakit.store.spool import lock_file

    monkeypatch.chdir(paused)
    lock = lock_file(Path("run.db"))
    assert lock is not None
    try:
        assert main(["resume", "run.db"]) == 1
        assert "is running\n  wait until it has ended" in capsys.readouterr().err
        assert main(["runs", "run.db"]) == 0
        assert "◐ running  " in capsys.readouterr().out
    finally:
        os.close(lock)
    assert main(["runs", "run.db"]) == 0
    assert "  ! unfinished  " in capsys.readouterr().out


@pytest.mark.parametrize("raise_", ["+", "+$0", "-$5", "much"])
def test_a_raise_is_an_amount(raise_: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A shell that read $5 as its own leaves a bare plus."""
    with pytest.raises(SystemExit):
        main(["resume", f"--budget={raise_}"])
    assert "in quotes, since a shell reads $5 as its own: '+$5'" in capsys.readouterr().err


@pytest.mark.parametrize(("period", "left"), [("", [994, 994, 994]), ("/day", [994, 988, 982])])
def test_a_run_that_is_not_recorded_has_a_cap_of_its_own(
    period: str, left: list[int], tmp_path: Path
) -> None:
    """One with a period is for all runs of its time."""
    (tmp_path / "p.vega").write_text(
        'agent W { model fast  max_tokens 20 }\nfn main() -> str { return W <- "Write"; }\n'
    )
    (tmp_path / "says.json").write_text('["well"]')
    settings = {"HOME": str(tmp_path), "VEGA_BUDGET_DEFAULT": f"$0.001{period}"}
    command = [sys.executable, "-m", "vegakit", "run", "p.vega", "--no-journal", "--json"]
    found: list[float] = []
    for _ in left:
        ran = subprocess.run(
            [*command, "--model", "scripted:says.json"],
            cwd=tmp_path,
            env=os.environ | settings,
            capture_output=True,
            text=True,
            check=True,
        )
        found.append(json.loads(ran.stdout)["account"]["left_usd"])
    assert [round(one * 1_000_000) for one in found] == left
