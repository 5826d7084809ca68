"""`vega repl`: pieces of a program, each run when it is typed, and all of them as one program."""

import io
import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S
from vegakit.cli import main

SESSIONS = {
    "values": ["1 + 2", "let x = it * 2", "x", 'let x = "n"', '"{x}{x}"'],
    "values of several types": [
        "1 + 2",
        "it",
        '"a"',
        '"{it}b"',
        "it",
        "2.5",
        "it + 1.0",
        "[it]",
        "it",
    ],
    "several lines": ["let xs: [int] = [];", "for n in range(3) {\n  xs = xs + [n];\n}", "xs"],
    "records": ["type P { name: str, n: int }", 'let p = P(name: "A", n: 1)', "p.n = 2;", "p"],
    "all kinds": ["let t = 5s", "t", 'let m = {"a": $1.50}', "m", "let o: str? = null", "o ?? t"],
    "comments": ["let a = 1 // one", "// nothing", "a // shown", 'let a_ = "x"', "a_"],
    "functions": ["fn f(a: int) -> int { return a + 1; }", "f(f(1))", "print(f(it))"],
    "agents": ["agent A { model fast  max_tokens 10 }", 'let a = A <- "x"', 'A <- "and {a}"'],
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "says.json").write_text('{"matches": {"": "a word"}}')
    return tmp_path


def typed(monkeypatch: pytest.MonkeyPatch, *pieces: str, options: tuple[str, ...] = ()) -> int:
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{one}\n" for one in pieces)))
    return main(["repl", "--model", "scripted:says.json", *options])


@pytest.mark.parametrize("name", SESSIONS)
def test_what_is_saved_prints_what_was_shown(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pieces = SESSIONS[name]
    is_sound = name != "all kinds"  # the last of them gives a text or a time, which is no type
    assert typed(monkeypatch, *pieces, ":save all.vega") == (0 if is_sound else 1)
    shown = capsys.readouterr().out
    assert main(["run", "all.vega", "--model", "scripted:says.json"]) == 0
    assert f"{capsys.readouterr().out}saved; to run it, type: vega run all.vega\n" == shown


def test_each_piece_is_run_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("says.json").write_text(json.dumps({"matches": {"x": "one", "y": "two"}}))
    agent = "agent A { model fast  max_tokens 10 }"
    assert typed(monkeypatch, agent, 'let a = A <- "x"', "a", "a", 'A <- "y"', "a") == 0
    assert capsys.readouterr().out == "one\none\ntwo\none\n"


def test_pieces_share_a_budget(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    long = json.dumps(["word " * 50] * 9)
    Path("says.json").write_text(long)
    agent = "agent A { model fast  max_tokens 100 }"
    asks = ['A <- "again"'] * 9
    assert typed(monkeypatch, agent, *asks, options=("--budget", "$0.0012")) == 1
    told = capsys.readouterr()
    assert 0 < told.out.count("word word") < len(asks) * 40
    assert "BudgetExceeded" in told.err


WRONG = {
    "an unknown name": ("y + 1", "nothing is called `y` here", "1 | y + 1"),
    "a fault of the run": ("1 / 0", "division by zero", "at repl.vega:1 in main"),
    "main": ("fn main() {}", "there is no `main` here", "give it another name"),
    "a mixture": ("let a = 1; fn f() {}", "not in one piece", "type the declarations first"),
    "a wrong declaration": ("agent B { modl fast }", "no field `modl`", "did you mean `model`?"),
    "an unknown command": (":nope", "there is no command :nope", "try: :help"),
    "a file that exists": (
        ":save says.json",
        "cannot write says.json: File exists",
        "name a new file",
    ),
    "no file": (":save", "a program is saved in a file", "try: :save hello.vega"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_changes_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    piece, *parts = WRONG[name]
    assert typed(monkeypatch, "let kept = 3", piece, "kept", ":vars") == 1
    told = capsys.readouterr()
    assert told.out == "3\nkept: int\nit: int\n"
    assert [part for part in parts if part not in told.err] == []


def test_what_lives_for_a_run_ends_with_its_piece(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed(monkeypatch, "agent A { model fast }", "let h = spawn A;", ":vars") == 0
    told = capsys.readouterr()
    assert (told.out, told.err.partition(":")[0]) == ("", "h is over")


def test_a_program_says_what_it_may_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("note.txt").write_text("hello")
    read = 'file::read("note.txt")'
    may = 'program may [fs::read] allowed_paths ["*.txt"]'
    assert typed(monkeypatch, read) == 1
    capsys.readouterr()
    assert typed(monkeypatch, may, read) == 0
    assert capsys.readouterr().out == "hello\n"


def test_a_terminal_is_asked_line_by_line() -> None:
    """Open lines go on, Ctrl-C gives up what was typed, Ctrl-D leaves."""
    with _session() as (child, ours):
        seen = ""
        for text, until in [
            ("", "> "),
            ("[1,\n", "… "),
            ("2]\n", "[1,2]\r\n> "),
            ("[3,\n", "… "),
            ("\n", "error"),
            ("it\n", "[1,2]\r\n> "),
            ("\x04", ""),
        ]:
            os.write(ours, text.encode())
            seen = _read_until(ours, until) if until else seen
        assert child.wait(PATIENCE_S) == 0


def test_no_ctrl_c_ends_a_session() -> None:
    """However many come, and wherever: the variables are still there, and nothing is told as a
    fault of ours."""
    seen = ""
    with _session() as (_, ours):
        seen += _read_until(ours, "> ")
        os.write(ours, b"let keep = 40;\n")
        for _ in range(8):
            os.write(ours, b'print("on"); while true { process::sleep(0ms); }\n')
            seen += _read_until(ours, "\r\non\r\n")
            for _ in range(6):
                os.write(ours, b"\x03")
                select.select([ours], [], [], 0.02)
            seen += _type_until(ours, "keep + 2\n", "\r\n42\r\n")
    assert "interrupted" in seen
    assert "Traceback" not in seen
    assert "cannot go on" not in seen


@contextmanager
def _session() -> Generator[tuple["subprocess.Popen[bytes]", int]]:
    """A session at a terminal of its own, whose Ctrl-C is a signal."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-c", _AT_TERMINAL],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        env=os.environ | {"TERM": "dumb", "PYTHONUTF8": "1"},
    )
    os.close(theirs)
    try:
        yield child, ours
    finally:
        child.kill()
        child.wait()
        os.close(ours)


_AT_TERMINAL = """
import fcntl, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from vegakit.cli import main
raise SystemExit(main(["repl"]))
"""


def _type_until(ours: int, text: str, wanted: str) -> str:
    """A line that is typed while a Ctrl-C is on its way may be given up with it, so it is typed
    until it was taken."""
    seen, end = "", time.monotonic() + PATIENCE_S
    while wanted not in seen:
        assert time.monotonic() < end, seen
        os.write(ours, text.encode())
        for _ in range(10):
            if wanted not in seen and select.select([ours], [], [], 0.1)[0]:
                seen += _read(ours, seen).decode(errors="replace")
    return seen


def _read_until(ours: int, wanted: str) -> str:
    # In bytes: a terminal may tell a letter in two halves.
    seen, end = b"", time.monotonic() + PATIENCE_S
    while wanted.encode() not in seen:
        assert time.monotonic() < end, seen
        if select.select([ours], [], [], 0.1)[0]:
            seen += _read(ours, seen)
    return seen.decode()


def _read(ours: int, seen: str | bytes) -> bytes:
    try:
        return os.read(ours, 4096)
    except OSError as error:  # as when the other end is closed
        raise AssertionError(f"the session has ended, after {seen!r}") from error
