"""`kill -9` at any moment loses nothing that was paid for, and buys nothing twice."""

import random
from pathlib import Path

import pytest
from campaigns.kills import kill_runs, killed_run
from campaigns.kills_program import Fault

from tests.journal import faults
from tests.journal.test_resume import test_an_edited_program_is_told_so as edits_a_program
from vegakit.ports import ClaimResult
from vegakit.store import journal as sql_journal

RANDOM, EACH = 8, 1


def test_kills_lose_nothing_and_buy_nothing_twice() -> None:
    """At random moments and at five points; the provider's own log is the witness."""
    kills = kill_runs(RANDOM, EACH)
    print(kills)
    assert kills.kills >= RANDOM + 5 * EACH
    assert kills.unknown > 0
    assert kills.holds, kills


@pytest.mark.parametrize(
    ("fault", "point"),
    [
        (faults.claims_after_the_answer, "after send"),
        (faults.loses_a_record, "after record"),
        (faults.forgets_what_was_cut_off, "after send"),
    ],
)
def test_a_broken_promise_is_found(fault: Fault, point: str) -> None:
    """By the figures, or because the program cannot go on."""
    try:
        holds = killed_run([(point, 2)], random.Random(0), fault).holds
    except RuntimeError:
        holds = False
    assert not holds


async def test_a_digest_that_is_not_checked_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then an edited program gets an answer to another question."""
    monkeypatch.setattr(sql_journal, "ClaimResult", lambda outcome, changed: ClaimResult(outcome))
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        await edits_a_program(str(tmp_path / "run.db"))
