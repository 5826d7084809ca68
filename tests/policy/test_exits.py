"""Reasons to end, and how one climbs through supervisors."""

import pytest

from vegakit.policy import ExitKind, ExitReason
from vegakit.policy.mailbox import escalated
from vegakit.records import from_json, to_json


@pytest.mark.parametrize("detail", ["", "term"])
@pytest.mark.parametrize("kind", ExitKind)
def test_only_normal_and_shutdown_are_no_failures(kind: ExitKind, detail: str) -> None:
    """Whatever more is said about it."""
    expected = kind.value not in ("normal", "shutdown")
    assert ExitReason(kind, detail).is_abnormal == expected


def test_a_reason_reads_as_one_word() -> None:
    """With its detail in brackets, if there is one."""
    assert str(ExitReason(ExitKind.KILLED)) == "killed"
    assert str(ExitReason(ExitKind.SHUTDOWN, "term")) == "shutdown(term)"


def test_the_first_cause_climbs() -> None:
    """A second level does not wrap it again."""
    once = escalated(ExitReason(ExitKind.CRASHED, "boom"))
    assert once == ExitReason(ExitKind.ESCALATED, "crashed(boom)")
    assert escalated(once) == once


def test_its_words_are_stored() -> None:
    """They are read again by the next release, and by other programs."""
    words = ["normal", "shutdown", "crashed", "killed", "escalated", "noproc"]
    assert [kind.value for kind in ExitKind] == words


def test_it_is_stored_small() -> None:
    """A detail that is not there takes no room."""
    reason = ExitReason(ExitKind.NORMAL)
    assert to_json(reason) == b'{"kind":"normal"}'
    assert from_json(ExitReason, to_json(reason)) == reason
