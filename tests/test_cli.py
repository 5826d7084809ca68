"""The command line, as a person would call it."""

import subprocess
import sys

import pytest

from vegakit.cli import main


def test_help_says_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """`vega` alone prints the help and succeeds."""
    assert main([]) == 0
    assert "Run agent programs under a contract" in capsys.readouterr().out


def test_version_names_python_and_system(capsys: pytest.CaptureFixture[str]) -> None:
    """What a bug report needs first."""
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out.startswith("vega 0.1.0 (Python 3.")


def test_it_runs_as_a_module() -> None:
    """`python -m vegakit` is the same program."""
    ran = subprocess.run(
        [sys.executable, "-m", "vegakit"], capture_output=True, text=True, check=True
    )
    assert ran.stdout.startswith("usage: vega")
