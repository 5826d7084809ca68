"""The command line, as a person would call it."""

import signal
import subprocess
import sys
from importlib import import_module

import pytest

from vegakit.cli import COMMANDS, main
from vegakit.cli.main import MOST_USED


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
    assert all([name, command.line] in lines for name, command in COMMANDS.items())


def test_help_begins_with_what_is_used_most(capsys: pytest.CaptureFixture[str]) -> None:
    """Five commands as one types them; then all, in groups. It fits 80 columns in ASCII."""
    assert main([]) == 0
    told = capsys.readouterr().out
    assert all(COMMANDS[name].example in told for name in MOST_USED)
    places = [told.index(f"\n{group}:") for group in "Run Understand Watch Ask Build".split()]
    assert [told.index("Most used:"), *places] == sorted([told.index("Most used:"), *places])
    assert told.isascii()
    assert max(map(len, told.partition("options:")[2].splitlines())) <= 80


@pytest.mark.parametrize("name", COMMANDS)
def test_an_example_is_of_its_command(name: str) -> None:
    """As a person types it."""
    assert COMMANDS[name].example.split()[:2] == ["vega", name]


def test_a_flag_for_all_may_stand_before_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """As in other programs."""
    assert main(["--color", "never", "version"]) == 0
    assert capsys.readouterr().out.startswith("vega 0.1.0 (Python 3.")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_and_flags(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of every command, read from its own parser."""
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(name in script for name in COMMANDS)
    assert "no-journal" in script


def test_bash_runs_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    """The real shell answers what would be typed next."""
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    asked = "COMP_WORDS=(vega run --no); COMP_CWORD=2; _vega; echo ${COMPREPLY[@]}"
    first = "COMP_WORDS=(vega exp); COMP_CWORD=1; _vega; echo ${COMPREPLY[@]}"
    word = "COMP_WORDS=(vega rollout st); COMP_CWORD=2; _vega; echo ${COMPREPLY[@]}"
    ran = subprocess.run(
        ["bash", "-c", f"{script}\n{asked}\n{first}\n{word}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.splitlines() == ["--no-journal", "explain", "start status stop"]


def test_a_mistyped_command_is_guessed(capsys: pytest.CaptureFixture[str]) -> None:
    """And the status is that of wrong usage."""
    with pytest.raises(SystemExit) as end:
        main(["confg", "--json"])
    assert end.value.code == 2
    told = "error: there is no command 'confg'\n  did you mean config?\n  try: vega --help\n"
    assert capsys.readouterr().err == told


def test_an_unknown_command_says_where_all_are(capsys: pytest.CaptureFixture[str]) -> None:
    """Where no guess is near."""
    with pytest.raises(SystemExit):
        main(["zzz"])
    assert capsys.readouterr().err == "error: there is no command 'zzz'\n  try: vega --help\n"


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
    assert running.returncode == 128 + signal.SIGPIPE


def test_it_runs_as_a_module() -> None:
    """`python -m vegakit` is the same program."""
    ran = subprocess.run(
        [sys.executable, "-m", "vegakit"], capture_output=True, text=True, check=True
    )
    assert ran.stdout.startswith("usage: vega")
