"""`vega audit`: what a person is told of an audit, whole or changed."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.store.audits import append_all, entry
from vegakit.cli import main
from vegakit.money import Money
from vegakit.ports import AuditHead


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "audit.db"


def spelled(head: AuditHead) -> str:
    return f"{head.count}:{head.hash}"


def change(file: Path, statement: str) -> None:
    with closing(sqlite3.connect(file)) as opened, opened:
        opened.execute(statement)


def test_a_whole_audit_gives_its_head(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And says what to do with it."""
    head = spelled(append_all(file, [entry(n) for n in range(3)]))
    assert main(["audit", "verify", str(file)]) == 0
    told = capsys.readouterr().out
    assert told.startswith(f"3 entries, none changed\nhead {head}\n")
    assert told.endswith(f"vega audit verify {file} --head {head}\n")


def test_a_head_that_fits_needs_no_advice(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also after more was appended."""
    kept = spelled(append_all(file, [entry(1)]))
    head = spelled(append_all(file, [entry(2)]))
    assert main(["audit", "verify", str(file), "--head", kept]) == 0
    assert capsys.readouterr().out == f"2 entries, none changed\nhead {head}\n"


def test_a_change_is_told_with_its_entry(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The status is that of a failure, and no head is given to keep."""
    append_all(file, [entry(n) for n in range(3)])
    change(file, "UPDATE audit SET entry = '{}' WHERE number = 2")
    assert main(["audit", "verify", str(file)]) == 1
    told = capsys.readouterr().out
    assert told.startswith("entry 2: edited: its text, number or link was changed\n")
    assert "head" not in told


def test_a_cut_off_end_is_told_by_its_head(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kept before."""
    kept = spelled(append_all(file, [entry(n) for n in range(3)]))
    change(file, "DELETE FROM audit WHERE number = 3")
    assert main(["audit", "verify", str(file), "--head", kept]) == 1
    assert capsys.readouterr().out.startswith("entry 3: truncated: it and all after it were cut")


def test_a_clock_that_ran_back_is_told(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is no fault."""
    append_all(file, [entry(3_600_000), entry(0)])
    assert main(["audit", "verify", str(file)]) == 0
    assert "a clock ran back by up to 3,600,000 ms" in capsys.readouterr().out


def test_entries_are_shown_a_line_each(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The last ones, the latest last; nothing in them steers the terminal or starts a line."""
    hostile = entry(60_000, "a\x1b[2J\nb", user="ann", decision="allowed", cost=Money(10**9))
    append_all(file, [entry(n) for n in range(5)] + [hostile])
    assert main(["audit", "show", str(file), "--last", "2"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "5  1970-01-01 00:00:00Z  local  agent  tool.call  notes.md",
        "6  1970-01-01 00:01:00Z  local  agent for ann  tool.call  a [2J b  allowed  $1.0000",
    ]


def test_entries_as_json_come_in_ascii(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With number and hash."""
    head = append_all(file, [entry(1, "é\u202e\n")])
    assert main(["audit", "show", str(file), "--json"]) == 0
    told = capsys.readouterr().out
    assert told.isascii()
    found = json.loads(told)
    assert (found["number"], found["hash"]) == (head.count, head.hash)
    assert found["entry"]["subject"] == "é\u202e\n"


def test_what_is_no_entry_is_shown_as_it_is(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An edited one may be anything."""
    append_all(file, [entry(1), entry(2), entry(3)])
    change(file, "UPDATE audit SET entry = 'x' WHERE number = 1")
    change(file, "UPDATE audit SET entry = replace(entry, '\"at_ms\":2', '\"at_ms\":9e99')")
    change(
        file,
        "UPDATE audit SET entry = replace(entry, '\"at_ms\":3', '\"at_ms\":999999999999999999')",
    )
    assert main(["audit", "show", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "1  x"
    assert [line.split("  ")[1][:9] for line in lines[1:]] == ['{"action"'] * 2


@pytest.mark.parametrize("action", ["verify", "show"])
def test_a_file_that_is_not_there_is_told(
    action: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And not made."""
    assert main(["audit", action, str(file)]) == 1
    assert "error: there is no audit" in capsys.readouterr().err
    assert not file.exists()


def test_a_mistyped_head_is_told(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is compared with it."""
    append_all(file, [entry(1)])
    assert main(["audit", "verify", str(file), "--head", "1:abc"]) == 1
    assert "a head is a count, a colon and 64 hex digits" in capsys.readouterr().err
