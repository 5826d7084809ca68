"""The comments of test programs, and what `vega test` makes of them."""

from pathlib import Path

import pytest

from vegakit.cli import main

OUTSIDE = {
    "upwards": ("p.vega", '// file: ../out.txt = "a"\nprint(1);  // expect: 1', "it steps upwards"),
    "upwards inside": ("p.vega", '// file: a/../../out.txt = "a"\nprint(1);', "it steps upwards"),
    "absolute": ("p.vega", '// file: {root}/out.txt = "a"\nprint(1);', "it is absolute"),
    "in Python": ("p.py", '# file: ../out.txt = "a"\nprint(1)\n', "`# file: ../out.txt"),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_test_writes_no_file_outside_of_its_folder(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Neither where the folder of a run is nor where the program stands."""
    place, text, why = OUTSIDE[name]
    runs = tmp_path / "runs"
    runs.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(runs))
    (tmp_path / place).write_text(text.replace("{root}", str(tmp_path)))
    assert main(["test", str(tmp_path / place)]) == 1
    told = capsys.readouterr().err
    assert why in told
    assert "write out.txt" in told
    assert [*tmp_path.rglob("out.txt")] == []


def test_files_that_exclude_each_other_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "p.vega"
    program.write_text('// file: a = "x"\n// file: a/b = "y"\nprint(1);  // expect: 1\n')
    assert main(["test", str(program)]) == 1
    assert "`// file: a/b = …` cannot be written" in capsys.readouterr().out


def test_replies_in_order_and_by_message_are_not_mixed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of the two would be passed over, and the test fail for another reason."""
    program = tmp_path / "p.vega"
    program.write_text('// reply: a\n// reply "b": c\nprint(1);  // expect: 1\n')
    assert main(["test", str(program)]) == 1
    told = capsys.readouterr()
    assert "write all of them in one of the two ways" in told.out + told.err


def test_a_hidden_file_is_a_file_of_a_test(tmp_path: Path) -> None:
    program = tmp_path / "p.vega"
    head = 'program may [fs::read] allowed_paths [".env"]\n// file: ./.env = "x"\n'
    program.write_text(f'{head}print(file::read(".env"));  // expect: x\n')
    assert main(["test", str(program)]) == 0


def test_programs_in_python_are_found_in_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of others, and Python that is no program, are left out."""
    head = "from vegakit import program\n\n\n@program\ndef main() -> None:\n"
    (tmp_path / "ok.vega").write_text("print(1);  // expect: 1\n")
    (tmp_path / "wrong.py").write_text(f"{head}    print(1)  # expect: 2\n")
    (tmp_path / "other.py").write_text("print(1)  # expect: what I like\n")
    for place in (".venv/lib", "a/node_modules"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "wrong.py").write_text(f"{head}    print(1)  # expect: 2\n")
    assert main(["test", str(tmp_path)]) == 1
    told = capsys.readouterr()
    assert "1 of 2 passed" in told.err
    assert "wrong.py" in told.out
    assert main(["check", str(tmp_path)]) == 0
    (tmp_path / "wrong.py").write_text(f"{head}    print(nope)\n")
    assert main(["check", str(tmp_path)]) == 1
    assert main(["fmt", "--check", str(tmp_path)]) == 0
