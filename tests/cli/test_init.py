"""`vega init`, as a person would call it: what it writes runs at once, without a key."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_demo import place
from vegakit.cli import main
from vegakit.cli.init import FILES

VEGA = [sys.executable, "-m", "vegakit"]
STEPS = {
    "check": ([*VEGA, "check", "notes.vega"], "lines are in order"),
    "fmt": ([*VEGA, "fmt", "--check", "notes.vega"], ""),
    "cost": ([*VEGA, "cost", "notes.vega"], "at most $0.25"),
    "run": ([*VEGA, "run", "notes.vega", "owls", "bats", "moths"], "moths listen to the bats"),
    "test": ([*VEGA, "test", "notes.vega"], "1 of 1 passed"),
    "agent": ([sys.executable, "agent.py"], "It has 6 words."),
    "pytest": ([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], "2 passed"),
    "runs": ([*VEGA, "runs"], "agent.py"),
}


def test_what_it_writes_runs_without_a_key(tmp_path: Path) -> None:
    """Each step that it tells of, in a home that holds nothing; the runs are recorded."""
    folder, variables = tmp_path / "project", place(tmp_path)
    assert main(["init", str(folder)]) == 0
    for name, (command, expected) in STEPS.items():
        ran = subprocess.run(
            command,
            cwd=folder,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=120,
        )
        told = ran.stdout.decode()
        assert ran.returncode == 0, f"{name}: {told}"
        assert expected in told, f"{name}: {told}"


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And nothing is written beside what is there."""
    (tmp_path / "agent.py").write_text("mine")
    assert main(["init", str(tmp_path)]) == 1
    assert "agent.py is there already, and nothing was written" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["agent.py"]
    assert (tmp_path / "agent.py").read_text() == "mine"


def test_an_ignore_file_that_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("mine\n")
    assert main(["init", str(tmp_path)]) == 0
    assert (tmp_path / ".gitignore").read_text() == "mine\n"


def test_a_file_is_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main(["init", str(tmp_path / "file")]) == 1
    told = capsys.readouterr().err
    assert "is a file" in told
    assert "vega init FOLDER" in told


def test_a_place_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main(["init", str(tmp_path / "file" / "project")]) == 1
    told = capsys.readouterr().err
    assert "Not a directory" in told
    assert "vega init FOLDER" in told


def test_json_names_what_was_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", str(tmp_path / "project"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["files"] == list(FILES)
    assert all((tmp_path / "project" / name).is_file() for name in told["files"])
