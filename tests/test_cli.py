"""The command line, as a person would call it."""

import subprocess
import sys
from importlib import import_module

import pytest

from vegakit.cli import main
from vegakit.cli.main import COMMANDS


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


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    """Each with one line."""
    assert main([]) == 0
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    assert all([name, line] in lines for name, (_, line) in COMMANDS.items())


def test_a_mistyped_command_is_guessed(capsys: pytest.CaptureFixture[str]) -> None:
    """And the status is that of wrong usage."""
    with pytest.raises(SystemExit) as end:
        main(["confg", "--json"])
    assert end.value.code == 2
    assert "there is no command 'confg'; did you mean config?" in capsys.readouterr().err


def test_an_unknown_command_lists_the_known(capsys: pytest.CaptureFixture[str]) -> None:
    """Where no guess is near."""
    with pytest.raises(SystemExit):
        main(["zzz"])
    assert "there is no command 'zzz'; there are: answer, audit, build" in capsys.readouterr().err


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_can_be_run(name: str) -> None:
    """A command's module has a function of its name."""
    assert callable(getattr(import_module(COMMANDS[name][0]), f"{name}_command"))


def test_help_loads_no_command() -> None:
    """It stays quick however many commands there are."""
    code = (
        "import sys; from vegakit.cli import main; main([]); print(*sys.modules, file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name for name in ran.stderr.split() if name.startswith(("vegakit.", "msgspec"))}
    assert loaded == {"vegakit.cli", "vegakit.cli.main", "vegakit.errors", "vegakit.lazy"}


def test_a_reader_may_leave_early() -> None:
    """As in `vega config schema | head`: no traceback."""
    command = [sys.executable, "-m", "vegakit", "config", "schema"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == b""
    assert running.returncode == 1


def test_it_runs_as_a_module() -> None:
    """`python -m vegakit` is the same program."""
    ran = subprocess.run(
        [sys.executable, "-m", "vegakit"], capture_output=True, text=True, check=True
    )
    assert ran.stdout.startswith("usage: vega")
