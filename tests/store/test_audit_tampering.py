"""The audit among processes that are killed, and under the hands of one who may write its file."""

from pathlib import Path

import pytest
from campaigns.audit import append_and_kill, tamper
from campaigns.audit_tampering import TAMPERINGS

from vegakit.store import audit, audit as audit_chain


def test_four_writers_and_five_kills_make_one_chain(tmp_path: Path) -> None:
    """No fork, no gap; what was acknowledged is there, once."""
    appended = append_and_kill(tmp_path / "audit.db", writers=4, appends=500, kills=5)
    assert appended.holds, appended


def test_a_hundred_changes_are_found_and_told_as_what_they_are(tmp_path: Path) -> None:
    """Each kind several times."""
    changed = tamper(tmp_path, rounds=100)
    assert changed.holds, changed


@pytest.mark.parametrize(
    ("name", "fault", "missed"),
    [
        ("hash_of", lambda number, prev_hash, text: f"{number}{prev_hash[:9]}", "edit_a_text"),
        ("_faults_of", lambda link, before: (), "delete_one"),
        ("_faults_at_end", lambda kept, found, count: (), "delete_the_end"),
        ("_faults_at_end", lambda kept, found, count: (), "rewrite_from_one_on"),
    ],
)
def test_a_verification_that_looks_away_is_found(
    name: str, fault: object, missed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the tamperings can fail."""
    monkeypatch.setattr(audit_chain, name, fault)
    if name == "hash_of":
        monkeypatch.setattr(audit, name, fault)
    assert missed in tamper(tmp_path, rounds=len(TAMPERINGS)).missed
