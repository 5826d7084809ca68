"""`vega run --journal`, killed, and `vega resume`: as a person would."""

import json
import signal
import subprocess
import sys
from pathlib import Path

from tests.cli.test_recorded import vega

PROGRAM = """
agent A { model fast }

fn main() -> str {
    for i in range(2) {
        print(A <- "before {i}");
    }
    process::sleep(5s);
    for i in range(2) {
        print(A <- "after {i}");
    }
    return "done";
}
"""
RUN = ["run", "main.vega", "--model", "scripted:says.json", "--journal", "run.db", "--quiet"]


def prepared(folder: Path) -> None:
    (folder / "vega.toml").touch()
    (folder / "main.vega").write_text(PROGRAM)
    (folder / "says.json").write_text(json.dumps(["first", "second", "third", "fourth"]))


def killed(folder: Path, after: int) -> list[str]:
    """What it had printed when it was killed."""
    command = [sys.executable, "-m", "vegakit", *RUN]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as life:
        assert life.stdout is not None
        said = [life.stdout.readline().strip() for _ in range(after)]
        life.send_signal(signal.SIGKILL)
    return said


def test_a_killed_program_goes_on(tmp_path: Path) -> None:
    """Its script begins anew with each life: what was recorded was not asked again."""
    prepared(tmp_path)
    assert killed(tmp_path, after=2) == ["first", "second"]
    resumed = vega(tmp_path, "resume", "run.db")
    assert resumed.stdout.splitlines() == ["first", "second", "first", "second", "done"]
    assert "2 calls recorded" in resumed.stderr


def test_a_program_that_was_edited_is_told_so(tmp_path: Path) -> None:
    """Its answers are to other messages."""
    prepared(tmp_path)
    killed(tmp_path, after=2)
    (tmp_path / "main.vega").write_text(PROGRAM.replace("before", "earlier"))
    resumed = vega(tmp_path, "resume", "run.db")
    assert resumed.returncode == 1
    assert "error: the program was changed since its run was recorded: " in resumed.stderr
    assert "now differs from the recorded request" in resumed.stderr
