"""`vega check` and `vega fmt` on files and folders."""

from pathlib import Path

import pytest

from vegakit.cli.main import main


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
