"""The example programs: each is in order, and does what it is there to show.

Each runs by the command in its own head, on a copy of the folder, as somebody who tries it would.
What it prints stands in `printed/`.
"""

import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.typist import type_when_asked
from vegakit.cli import main
from vegakit.lang import check_program, format_source
from vegakit.testing import run_test

EXAMPLES = Path(__file__).parents[2] / "examples"
PRINTED = Path(__file__).parent / "printed"
PROGRAMS = sorted(EXAMPLES.glob("*.vega"))
COMMAND = re.compile(r"^//   vega (run .+)$", re.MULTILINE)
ASKING = {"interview": ["I opened an empty file.", "It was gone."], "newsletter": ["yes"]}
"""What a person says at the terminal."""
QUIET = [path for path in PROGRAMS if path.stem not in ASKING]


def name_of(path: Path) -> str:
    return path.stem


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    copy = tmp_path / "examples"
    shutil.copytree(EXAMPLES, copy, ignore=shutil.ignore_patterns("out"))
    monkeypatch.chdir(copy)
    return copy


def command_of(program: Path) -> list[str]:
    found = COMMAND.search(program.read_text(encoding="utf-8"))
    assert found is not None, f"{program.name} does not say how it is run"
    return shlex.split(found[1])


def test_there_are_enough_of_them() -> None:
    """Each with its script."""
    assert len(PROGRAMS) >= 10
    assert [path.stem for path in PROGRAMS if not path.with_suffix(".script.json").exists()] == []


@pytest.mark.parametrize("program", PROGRAMS, ids=name_of)
def test_an_example_is_in_order(program: Path) -> None:
    """No errors, no warnings, formatted, and no line that is cut in a window of 100 columns."""
    text = program.read_text(encoding="utf-8")
    assert check_program(text, program.name, lambda _: None)[1] == ()
    assert format_source(text) == text
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize("program", QUIET, ids=name_of)
def test_an_example_prints(program: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the command in its head, and nothing on stderr but its quote and one line of account."""
    status = main(command_of(program))
    said = capsys.readouterr()
    assert said.out == (PRINTED / f"{program.stem}.txt").read_text(encoding="utf-8")
    *quoted, account = said.err.splitlines()
    assert (status, account[0]) == (0, "✓"), said.err
    assert not quoted or quoted[0].startswith(f"{program.name}: typical $"), said.err
    assert all(line.startswith(("! ", "  ")) for line in quoted[1:]), said.err


@pytest.mark.parametrize("name", ASKING)
def test_a_person_at_a_terminal_is_asked(name: str, folder: Path) -> None:
    """The answers are typed."""
    out = at_a_terminal(command_of(EXAMPLES / f"{name}.vega"), ASKING[name], folder)
    assert out == (PRINTED / f"{name}.txt").read_text(encoding="utf-8")


def test_without_approval_nothing_is_sent(folder: Path) -> None:
    """`no` is an answer."""
    out = at_a_terminal(command_of(EXAMPLES / "newsletter.vega"), ["no"], folder)
    assert out.endswith("not sent\n0\n")
    assert not (folder / "out").exists()


def test_what_was_approved_is_sent(folder: Path) -> None:
    """To each reader."""
    at_a_terminal(command_of(EXAMPLES / "newsletter.vega"), ["yes"], folder)
    sent = sorted(path.name for path in (folder / "out/mail").iterdir())
    assert sent == ["ada@example.com.txt", "grace@example.com.txt"]


def test_a_question_outlives_a_kill(folder: Path) -> None:
    """Killed while a person thinks: the run that goes on asks again, and buys nothing again."""
    words = [*command_of(EXAMPLES / "newsletter.vega"), "--journal", "run.db"]
    with started(words, folder) as first:
        asked = question_of(first)
        first.kill()
    with started(["resume", "run.db"], folder) as second:
        assert question_of(second) == asked
        assert main(["answer", asked, "yes"]) == 0
        out, account = second.communicate(timeout=60)
    assert out.endswith("sent to 2 readers\n2\n")
    assert "0 calls" in account


def test_files_are_written(folder: Path) -> None:
    """The table and the translation."""
    assert main(command_of(EXAMPLES / "extract.vega")) == 0
    assert main(command_of(EXAMPLES / "translate.vega")) == 0
    table = (folder / "out/invoices.csv").read_text(encoding="utf-8")
    assert table == "supplier,number,items,total\nNordlicht GmbH,N-118,2,$42.00\n"
    assert (folder / "out/de/hello.md").read_text(encoding="utf-8").startswith("# Hallo\n")


def test_the_watcher_outlives_a_crash(folder: Path) -> None:
    """Its message is answered by its next life, and nobody is told that it is gone."""
    quiet = '{"output": {"level": "quiet", "says": "Nothing."}}'
    said = f"""// reply: {{"crash": "boom"}}\n// reply: {quiet}\n// args: data/service.log 1
// file: data/service.log = "10:00 GET"\n// expect: 1. quiet: Nothing.\n// expect calls: 2\n"""
    program = folder / "watch.vega"
    program.write_text(said + program.read_text(encoding="utf-8"), encoding="utf-8")
    assert run_test(program).problems == []


def started(words: list[str], folder: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "vegakit", *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def question_of(program: "subprocess.Popen[str]") -> str:
    """The id that it says when it asks."""
    for line in program.stderr or ():
        if found := re.search(r"vega answer (\w+) ", line):
            return found[1]
    raise AssertionError("it did not ask")


def at_a_terminal(words: list[str], said: list[str], folder: Path) -> str:
    """Its standard output."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "vegakit", *words]
    try:
        with subprocess.Popen(
            command, cwd=folder, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE
        ) as running:
            for answer in said:
                type_when_asked(ours, answer)
            out, _ = running.communicate(timeout=60)
        assert running.returncode == 0
    finally:
        os.close(theirs)
        os.close(ours)
    return out.decode()
