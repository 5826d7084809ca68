"""Whatever ended a run, it goes on; damaged files are found or do no harm. By the vega command."""

import asyncio
import sys

import pytest
from campaigns.damage import damage
from campaigns.resume_matrix import CASES, Case, resume_matrix

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(sys.platform == "win32", reason="forks its commands"),
]
FLIPS, CUTS = 30, 10


def test_a_run_goes_on_after_every_kind_of_failure() -> None:
    """With exactly the requests that are due; every failed life says what to do. A case that
    expects one request less is there to be found."""
    wrong = Case("expects too little", CASES[0].play, (1, 1, 1), CASES[0].failed)
    *figures, found = asyncio.run(resume_matrix((*CASES, wrong)))
    assert len(figures) == len(CASES)
    assert [figure for figure in figures if not figure.holds] == []
    assert not found.holds


def test_damaged_files_are_found_or_do_no_harm() -> None:
    """Bits of journal, ledger, log and spool are changed, and files cut: no wrong answers."""
    tries = asyncio.run(damage(FLIPS, CUTS))
    assert [one for one in tries if one.is_fault] == []
    assert {one.outcome for one in tries} == {"right", "detected"}
