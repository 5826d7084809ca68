"""The commands for programs take a file in Python as they take one in Vega."""

from importlib import import_module
from pathlib import Path

import pytest

from vegakit.cli import COMMANDS

PROGRAM = """from vegakit import Agent, program

writer = Agent("writer", model="fast", max_tokens=50)


@program(budget="$1.00")
def main(topic: str) -> str:
    return writer(f"Write about {topic}.")
"""


VEGA = """agent writer {
    model "fast"
    max_tokens 50
}

fn main(topic: str) -> str budget $1.00 {
    return writer <- "Write about {topic}.";
}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "vega.toml").write_text("", encoding="utf-8")
    (tmp_path / "script.json").write_text('["About tea."]', encoding="utf-8")
    (tmp_path / "write.py").write_text(PROGRAM, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return "write.py"


def _run(command: str, *words: str) -> int:
    return getattr(import_module(COMMANDS[command][0]), f"{command}_command")(list(words))


@pytest.mark.parametrize(
    ("command", "words", "says"),
    [
        ("check", [], "lines are in order"),
        ("cost", ["--model", "scripted:script.json"], "write.py: at most $1.00"),
        ("explain", [], "writer (fast)"),
        ("disasm", [], "fn main(topic: str) -> str"),
        ("build", [], "write.vgb: "),
        ("run", ["tea", "--model", "scripted:script.json"], "About tea."),
    ],
)
def test_a_command_takes_a_program_in_python(
    file: str, command: str, words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(command, file, *words) == 0
    assert says in capsys.readouterr().out


def test_a_program_is_printed_as_python(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("write.vega").write_text(VEGA, encoding="utf-8")
    assert _run("fmt", "write.vega", "--to", "python") == 0
    assert capsys.readouterr().out == Path(file).read_text(encoding="utf-8")


def test_python_is_not_printed_as_python(file: str) -> None:
    """The message says what to type."""
    from vegakit.errors import UserError

    with pytest.raises(UserError, match=r"write\.py is not a \.vega file; give the path of one"):
        _run("fmt", file, "--to", "python")
    with pytest.raises(UserError, match=r"type: ruff format write\.py"):
        _run("fmt", file)


def test_what_is_refused_is_shown_with_its_line(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = PROGRAM.replace("return writer", "await writer")
    Path(file).write_text(text, encoding="utf-8")
    assert _run("check", file) == 1
    assert "write.py:8:5" in capsys.readouterr().err
