"""`vega node list`, `deps`, `who-needs` and what `check` says of a folder; `vesper`."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.vesper.test_node_repository import write
from vegakit.__main__ import vesper
from vegakit.cli import main

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write(tmp_path, "price_v1", "fee", "rate_v1")
    write(tmp_path, "fee_v1", "rate_v1")
    write(tmp_path, "fee_v2", "rate_v1")
    write(tmp_path, "rate_v1")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(capsys: Captured, *words: str) -> tuple[int, str, str]:
    status = main(["node", *words])
    out, err = capsys.readouterr()
    return status, out, err


def as_json(capsys: Captured, *words: str) -> Any:
    return json.loads(said(capsys, *words, "--json")[1])


def test_a_list_has_the_newest_with_its_versions(folder: Path, capsys: Captured) -> None:
    """All of them are in the JSON."""
    status, out, _ = said(capsys, "list")
    rows = [line.split()[:3] for line in out.splitlines()[1:]]
    assert status == 0
    assert rows == [["fee_v2", "v1,", "v2"], ["price_v1", "v1", "rule"], ["rate_v1", "v1", "rule"]]
    found = as_json(capsys, "list")["nodes"]
    assert [(one["node_id"], one["newest"]) for one in found][:2] == [
        ("fee_v1", False),
        ("fee_v2", True),
    ]
    assert found[0]["inputs"] == {"count": "integer"}


def test_a_tree_shows_how_each_is_named_and_what_was_drawn_once(
    folder: Path, capsys: Captured
) -> None:
    """By name, by id and by file."""
    for word in ("price", "price_v1", "price_v1.vsp"):
        assert said(capsys, "deps", word)[1].splitlines() == [
            "price_v1",
            "├─ fee_v2 (as fee)",
            "│  └─ rate_v1",
            "└─ rate_v1",
        ]
    [found] = as_json(capsys, "deps", "price")["nodes"]
    assert found["dependencies"] == {"fee": "fee_v2", "rate_v1": "rate_v1"}
    assert found["all"] == ["rate_v1", "fee_v2"]


def test_a_lock_is_written_and_told_when_it_is_stale(folder: Path, capsys: Captured) -> None:
    """The folder is in order until something changes, and says what to type then."""
    assert said(capsys, "deps", "--lock")[1] == "✓ nodes.lock: 4 nodes locked\n"
    assert said(capsys, "check", ".")[0] == 0
    write(folder, "fee_v2", "rate_v1", more=7)
    status, _, err = said(capsys, "check", ".")
    assert status == 1
    assert "nodes.lock is stale: fee_v2 has changed" in err
    assert "vega node deps --lock" in err
    assert said(capsys, "deps", "--lock")[0] == 0
    assert said(capsys, "check", ".")[0] == 0


def test_a_check_of_a_file_sees_what_it_depends_on(folder: Path, capsys: Captured) -> None:
    """A circle is told once."""
    write(folder, "rate_v1", "price")
    status, _, err = said(capsys, "check", "price_v1.vsp")
    assert status == 1
    assert "in a circle" in err


def test_who_needs_a_node(folder: Path, capsys: Captured) -> None:
    """Directly, or through others."""
    assert said(capsys, "who-needs", "fee_v2")[1] == "price_v1 (v1)\n"
    found = as_json(capsys, "who-needs", "rate_v1")["nodes"]
    assert [(one["id"], one["through"]) for one in found] == [
        ("fee_v1", []),
        ("fee_v2", []),
        ("price_v1", []),
    ]
    assert "no node in . needs price" in said(capsys, "who-needs", "price")[1]
    assert main(["node", "who-needs", "database.write"]) == 1


def test_vesper_is_another_name(
    folder: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same arguments; the help says so."""
    monkeypatch.setattr(sys, "argv", ["vesper", "deps", "rate"])
    assert vesper() == 0
    assert capsys.readouterr().out == "rate_v1\n"
    with pytest.raises(SystemExit):
        main(["node", "--help"])
    assert "`vesper` is a second name" in " ".join(capsys.readouterr().out.split())
