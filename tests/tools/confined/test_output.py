"""A file that a command writes takes the place of a plain file, and of nothing else."""

import os
from pathlib import Path

import pytest

from vegakit.errors import UserError
from vegakit.tools import write_output


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_it_takes_the_place_of_a_plain_file_and_keeps_its_mode(tmp_path: Path) -> None:
    """Nothing else is left in the folder."""
    file = tmp_path / "x"
    file.write_bytes(b"old")
    file.chmod(0o640)
    write_output(file, b"new", "try again")
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"new", 0o640)
    assert names_in(tmp_path) == ["x"]


def test_another_name_of_the_file_keeps_its_content(tmp_path: Path) -> None:
    (tmp_path / "own").write_bytes(b"old")
    os.link(tmp_path / "own", tmp_path / "x")
    write_output(tmp_path / "x", b"new", "try again")
    assert (tmp_path / "own").read_bytes() == b"old"


@pytest.mark.parametrize("target", ["own", "absent", "x"])
def test_a_link_is_refused_wherever_it_leads(tmp_path: Path, target: str) -> None:
    (tmp_path / "own").write_bytes(b"old")
    (tmp_path / "x").symlink_to(tmp_path / target)
    with pytest.raises(UserError, match=r"cannot write .*/x: it is a link; try again"):
        write_output(tmp_path / "x", b"new", "try again")
    assert (tmp_path / "own").read_bytes() == b"old"
    assert names_in(tmp_path) == ["own", "x"]


def test_a_new_file_takes_no_name_that_is_there(tmp_path: Path) -> None:
    """Its folders are made. A link counts as a name, wherever it leads."""
    write_output(tmp_path / "a/b/x", b"new", "try again", is_new=True, mode=0o600)
    assert (tmp_path / "a/b/x").stat().st_mode & 0o777 == 0o600
    (tmp_path / "link").symlink_to(tmp_path / "absent")
    for name, why in {
        "a/b/x": "File exists",
        "link": "it is a link",
        "a": "it is a folder",
    }.items():
        with pytest.raises(UserError, match=f"{why}; try again"):
            write_output(tmp_path / name, b"other", "try again", is_new=True)
    assert (tmp_path / "a/b/x").read_bytes() == b"new"
    assert names_in(tmp_path) == ["a", "link"]
    assert names_in(tmp_path / "a/b") == ["x"]


def test_no_folder_is_made_behind_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, work = tmp_path / "own", tmp_path / "work"
    own.mkdir()
    work.mkdir()
    (work / "out").symlink_to(own)
    monkeypatch.chdir(work)
    with pytest.raises(UserError, match="a link leads"):
        write_output(Path("out/deep/x"), b"new", "try again", is_new=True)
    assert names_in(own) == []


def test_what_is_no_plain_file_stays(tmp_path: Path) -> None:
    """A folder, a pipe, a read-only file and a name in a folder that is not there."""
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "kept").touch(mode=0o444)
    for name, why in {
        "folder": "it is a folder",
        "pipe": "it is no plain file",
        "kept": "Permission denied",
        "absent/x": "No such file or directory",
    }.items():
        with pytest.raises(UserError, match=why):
            write_output(tmp_path / name, b"new", "try again")
    assert names_in(tmp_path) == ["folder", "kept", "pipe"]
