"""The audit on a file: what is kept of a call, what a change looks like, who may append."""

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.store.audits import append_all, entry, written
from vegakit.errors import StoreError, UserError
from vegakit.ids import TenantId, TraceId
from vegakit.money import Money
from vegakit.ports import AuditHead, AuditLevel
from vegakit.store import AuditFault, AuditFaultKind, parse_head, read_audit, verify_audit
from vegakit.store.audit import EMPTY

WHOLE = entry(
    7,
    user="ann",
    tenant=TenantId("acme"),
    inputs={"path": "a.py"},
    decision="allowed",
    result="done",
    cost=Money(5),
    trace_id=TraceId("t1"),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new folder" / "audit.db"


def test_a_detailed_entry_is_kept_whole(path: Path) -> None:
    """Every fact there and back."""
    append_all(path, [WHOLE])
    assert written(path) == [WHOLE]


def test_a_basic_entry_keeps_no_content(path: Path) -> None:
    """Neither what went in nor what came out."""
    append_all(path, [WHOLE], AuditLevel.BASIC)
    assert "a.py" not in read_audit(path, 1)[0].text
    (found,) = written(path)
    assert (found.user, found.decision, found.cost) == ("ann", "allowed", Money(5))
    assert (found.inputs, found.result) == (None, "")


def test_level_none_keeps_nothing(path: Path) -> None:
    """The chain does not even grow."""
    assert append_all(path, [WHOLE], AuditLevel.NONE) == EMPTY


def test_the_head_stands_for_all(path: Path) -> None:
    """It is the hash of the last entry, over the hash before it; anybody can work it out."""
    head = append_all(path, [entry(1), entry(2)])
    first, second = read_audit(path, 10)
    assert first.prev_hash == EMPTY.hash == "0" * 64
    assert second.prev_hash == first.hash
    spelled = f"2\n{first.hash}\n{second.text}"
    assert head == AuditHead(2, hashlib.sha256(spelled.encode()).hexdigest())


def test_a_chain_goes_on_where_it_ended(path: Path) -> None:
    """Also in another process, and a head kept before still fits."""
    kept = append_all(path, [entry(1)])
    append_all(path, [entry(2), entry(3)])
    assert verify_audit(path, kept).faults == ()
    assert verify_audit(path).head.count == 3
    assert [found.at_ms for found in written(path)] == [1, 2, 3]


def test_the_last_entries_are_read_oldest_first(path: Path) -> None:
    """As many as are wanted."""
    append_all(path, [entry(n) for n in range(5)])
    assert [link.number for link in read_audit(path, 2)] == [4, 5]


def test_two_entries_cannot_follow_the_same_one(path: Path) -> None:
    """The file itself refuses it, whatever program writes it; also two first ones."""
    append_all(path, [entry(1)])
    with closing(sqlite3.connect(path)) as file:
        for prev_hash in (EMPTY.hash, read_audit(path, 1)[0].prev_hash):
            with pytest.raises(sqlite3.IntegrityError, match=r"UNIQUE.*prev_hash"):
                file.execute("INSERT INTO audit VALUES (9, ?, 'another', '{}')", (prev_hash,))


def test_a_cut_off_end_is_found_by_a_head_kept_elsewhere(path: Path) -> None:
    """Without one it is not: what is left is a whole chain."""
    kept = append_all(path, [entry(n) for n in range(5)])
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("DELETE FROM audit WHERE number > 3")
    assert verify_audit(path).faults == ()
    assert verify_audit(path, kept).faults == (AuditFault(AuditFaultKind.TRUNCATED, 4),)


def test_the_head_of_an_empty_chain_fits_every_chain(path: Path) -> None:
    """Nothing was there to change."""
    append_all(path, [entry(1)])
    assert verify_audit(path, EMPTY).faults == ()
    assert verify_audit(path, AuditHead(0, "f" * 64)).faults == (
        AuditFault(AuditFaultKind.REWRITTEN, 0),
    )


def test_many_faults_are_counted_up_to_a_hundred(path: Path) -> None:
    """A file of a million wrong entries does not fill the memory."""
    append_all(path, [entry(n) for n in range(150)])
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE audit SET entry = '{}'")
    faults = verify_audit(path).faults
    assert faults[0] == AuditFault(AuditFaultKind.EDITED, 1)
    assert len(faults) == 100


def test_reading_makes_no_file(tmp_path: Path) -> None:
    """A mistyped name is told, not made."""
    with pytest.raises(UserError, match=r"there is no audit .*none\.db; name the file"):
        verify_audit(tmp_path / "none.db")
    assert list(tmp_path.iterdir()) == []


def test_other_files_are_told_apart(tmp_path: Path) -> None:
    """One without an audit, and one that is no SQLite file at all."""
    sqlite3.connect(tmp_path / "empty.db").close()
    (tmp_path / "empty.db").write_bytes(b"")
    (tmp_path / "text.db").write_text("no database" * 100)
    with pytest.raises(UserError, match=r"empty\.db holds no audit"):
        verify_audit(tmp_path / "empty.db")
    with pytest.raises(StoreError, match="not a SQLite file"):
        verify_audit(tmp_path / "text.db")


@pytest.mark.parametrize("text", ["", "5", "x:" + "0" * 64, "5:0", "-1:" + "0" * 64])
def test_a_head_is_spelled_as_it_is_printed(text: str) -> None:
    """Anything else is refused rather than guessed."""
    with pytest.raises(UserError, match="a head is a count, a colon and 64 hex digits"):
        parse_head(text)
    assert parse_head("5:" + "a" * 64) == AuditHead(5, "a" * 64)
