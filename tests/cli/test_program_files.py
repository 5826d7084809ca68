"""`vega check` and `vega fmt` on files and folders."""

import os
from pathlib import Path

import pytest

from vegakit.cli import main

NODES = Path(__file__).parents[2] / "examples" / "nodes"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "lib").mkdir()
    (tmp_path / "a.vega").write_text("print( 1 );\n")
    (tmp_path / "lib/b.vega").write_text("print(2);\n")
    return tmp_path


def test_a_folder_is_checked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With all below it."""
    assert main(["check", str(folder)]) == 0
    said = capsys.readouterr().out
    assert "a.vega: " in said
    assert "b.vega: " in said


@pytest.mark.parametrize("command", ["check", "test", "fmt --check", "node check"])
def test_only_files_of_a_folder_are_read(command: str, tmp_path: Path) -> None:
    """The folder `.vega` ends like a program, and nobody writes into the pipe."""
    (tmp_path / ".vega").mkdir()
    (tmp_path / "a.vega").write_text("print(1);  // expect: 1\n")
    (tmp_path / "refund.vsp").write_bytes((NODES / "refund.vsp").read_bytes())
    for name in ("b.vega", "b.py", "b.vsp"):
        os.mkfifo(tmp_path / name)
    assert main([*command.split(), str(tmp_path)]) == 0


@pytest.mark.parametrize("command", ["fmt --check", "test"])
def test_a_file_that_is_no_text_is_no_crash(
    command: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "a.vega").write_text("print(1);  // expect: 1\n")
    (folder / "b.vega").write_bytes(b"\xc1\xc2")
    assert main([*command.split(), str(folder)]) == int(command != "test")
    said = capsys.readouterr().err
    assert "1 of 1 passed" in said or "b.vega cannot be read: it is not UTF-8" in said


def test_one_fault_fails_the_check_of_a_folder(folder: Path) -> None:
    """Wherever it lies."""
    (folder / "lib/b.vega").write_text("print(x);\n")
    assert main(["check", str(folder)]) == 1


def test_a_folder_is_formatted(folder: Path) -> None:
    """And is then in order."""
    assert main(["fmt", "--check", str(folder)]) == 1
    assert main(["fmt", str(folder)]) == 0
    assert (folder / "a.vega").read_text() == "print(1);\n"
    assert main(["fmt", "--check", str(folder)]) == 0


def test_a_faulty_file_does_not_keep_others_from_being_formatted(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is shown, and left as it is."""
    (folder / "a.vega").write_text("let  = ;\n")
    (folder / "lib/b.vega").write_text("print( 2 );\n")
    assert main(["fmt", str(folder)]) == 1
    assert "a.vega:1" in capsys.readouterr().err
    assert (folder / "a.vega").read_text() == "let  = ;\n"
    assert (folder / "lib/b.vega").read_text() == "print(2);\n"


def test_a_folder_without_programs_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rather than passed over."""
    assert main(["check", str(tmp_path)]) == 1
    assert "there is no .vega file in" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["FILE", "--budget", "5", "Bob"],
        ["FILE", "--budget", "$5", "Bob"],
        ["--budget", "$5", "FILE", "Bob"],
        ["FILE", "Bob", "--budget", "5"],
        ["FILE", "--budget", "5", "--", "Bob"],
    ],
)
def test_options_may_stand_anywhere(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before the file, after it, and between it and the arguments of the program."""
    file = tmp_path / "hello.vega"
    file.write_text('fn main(who: str) { print("hello {who}"); }\n')
    given = [str(file) if one == "FILE" else one for one in arguments]
    assert main(["run", "--no-journal", *given]) == 0
    assert "hello Bob" in capsys.readouterr().out


def test_a_bound_of_the_settings_holds_and_a_run_may_raise_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says what to write."""
    monkeypatch.setenv("VEGA_BOUNDS_WIDTH", "2")
    file = tmp_path / "many.vega"
    file.write_text(
        "agent A { model fast }\n"
        "fn main() { let a = spawn A; let b = spawn A; let c = spawn A; print(3); }\n"
    )
    (tmp_path / "s.json").write_text('["never asked"]')
    run = ["run", "--no-journal", "--model", f"scripted:{tmp_path / 's.json'}", str(file)]
    assert main(run) == 1
    assert "the bound width=2 is reached" in capsys.readouterr().err
    assert main([*run, "--set", "bounds.width=3"]) == 0
    assert main([*run, "--set", "bounds.width"]) == 1
    assert "--set bounds.width=200" in capsys.readouterr().err


def test_a_file_that_is_not_there_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fmt", "none.vega"]) == 1
    assert "give the path of a .vega or .py file" in capsys.readouterr().err


def test_a_capability_that_is_misspelt_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing would be allowed by it; a tool may have one of another name."""
    (tmp_path / "p.vega").write_text("fn main() { print(1); }\n")
    words = ["run", str(tmp_path / "p.vega"), "--no-journal", "--quiet", "--allow"]
    assert main([*words, "fs::raed"]) == 1
    assert "--allow fs::raed names no capability" in capsys.readouterr().err
    assert main([*words, "fs::read", "--allow", "mail::send"]) == 0


def test_an_error_is_told_to_people_without_marks_for_models(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.vega").write_text(
        'fn main() { fail("look: <untrusted>\\nnot there\\n</untrusted>"); }\n'
    )
    assert main(["run", str(tmp_path / "p.vega"), "--no-journal", "--quiet"]) == 1
    told = capsys.readouterr().err
    assert "look: not there" in told
    assert "untrusted" not in told
