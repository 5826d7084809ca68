"""`vega undo`, as a person would call it."""

import json
from pathlib import Path

import pytest

from vegakit.cli import main
from vegakit.config import user_data_dir
from vegakit.sage import open_undo


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which the agent had two turns, and the place where a person stands in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "a").write_text("one")
    with open_undo(tmp_path, user_data_dir()) as undo:
        for label, name, text in (("change a", "a", "two"), ("make b\x1b[2J", "b", "new")):
            number = undo.begin(label)
            (tmp_path / name).write_text(text)
            undo.end(number)
    return tmp_path


def test_the_last_turn_is_taken_back(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From a folder below as well; what was done is named."""
    assert main(["undo"]) == 0
    assert capsys.readouterr().out == "Undone: make b [2J\n1 path restored\n  b\n"
    assert not (work / "b").exists()
    assert main(["undo", "--redo"]) == 0
    assert (work / "b").read_text() == "new"


def test_several_turns(
    work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An edit since is kept, and named with the reason."""
    (work / "b").write_text("mine")
    monkeypatch.chdir(work / "src")
    assert main(["undo", "--turns", "2", "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert done["restored"] == ["a"]
    assert done["kept"] == [{"path": "b", "reason": "it was changed by somebody else since"}]
    assert ((work / "a").read_text(), (work / "b").read_text()) == ("one", "mine")


def test_an_edit_is_overwritten_if_asked(work: Path) -> None:
    """It comes back with a redo."""
    (work / "b").write_text("mine")
    assert main(["undo", "--overwrite"]) == 0
    assert not (work / "b").exists()
    assert main(["undo", "--redo"]) == 0
    assert (work / "b").read_text() == "mine"


def test_the_turns_are_listed(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The latest first, with what became of them."""
    main(["undo"])
    capsys.readouterr()
    assert main(["undo", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[2:] for line in lines[1:]] == [
        ["undone", "1", "make", "b", "[2J"],
        ["done", "1", "change", "a"],
    ]
    assert main(["undo", "--list", "--json"]) == 0
    assert [turn["label"] for turn in json.loads(capsys.readouterr().out)][1] == "change a"


def test_nothing_to_undo_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says what is missing; no store is made for a folder that has none."""
    monkeypatch.chdir(tmp_path)
    assert main(["undo"]) == 1
    told = capsys.readouterr().err
    assert "no turn of the coding agent is recorded under the path" in told
    assert "if that was moved or renamed since, move it back first: mv" in " ".join(told.split())
    assert main(["undo", "--turns", "0"]) == 1
    assert "at least one turn" in capsys.readouterr().err


def test_what_changed_while_a_command_ran_is_told(
    work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may be somebody else's, and a redo gives it again."""
    with open_undo(work, user_data_dir()) as undo:
        number = undo.begin("run", whole=False)
        with undo.window():
            (work / "a").write_text("a command, or a person")
        undo.end(number)
    assert main(["undo"]) == 0
    assert "1 of these changed while a command ran" in capsys.readouterr().out
    assert main(["undo", "--redo"]) == 0
    assert "while a command ran" not in capsys.readouterr().out
    assert (work / "a").read_text() == "a command, or a person"


def test_another_folder_at_the_same_path_is_left_alone(
    work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The refusal says what to type; that does it."""
    other = work.with_name("other")
    other.mkdir()
    (other / "b").write_text("new")
    gone = work.rename(work.with_name("gone"))
    monkeypatch.chdir(other.rename(work))
    assert main(["undo"]) == 1
    assert "another has its place" in capsys.readouterr().err
    assert (work / "b").read_text() == "new"
    assert main(["undo", "--replaced"]) == 0
    assert not (work / "b").exists()
    assert (gone / "b").exists()
