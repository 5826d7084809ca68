"""No call begins before a question that stands before it is answered, and what is begun behind
guards in vain keeps to its limit; thousands of random programs are run by `just consent`."""

import pytest
from campaigns.consent import FAULTS, look_at, planted
from campaigns.consent_programs import program
from campaigns.parallel.explained import explain_and_run

PROGRAMS = range(12)
EXPLAINED = range(8)
SHOWN_BY = {
    "questions in helpers hold nothing back": 1,
    "questions in a catch hold nothing back": 72,
    "questions of tools that models call hold nothing back": 9,
    "a cast to one text is no guard": 10,
    "guesses have no limit": 2,
    "calls behind guards are no guesses": 44,
}
"""The first program that shows each fault. Where the programs become others, the campaign tells
which it is then."""


def test_random_programs_keep_to_consent() -> None:
    programs = [look_at(seed) for seed in PROGRAMS]
    assert {one.seed: one.problems for one in programs if one.problems} == {}
    assert sum(one.questions for one in programs) > len(PROGRAMS)
    saved = [one.took_ms["in order"] - one.took_ms["0"] for one in programs]
    assert sum(saved) > 0, "else it would hold of programs that do nothing"


def test_explain_and_the_run_agree_on_them() -> None:
    """A call behind a question or a guard is told to wait, and all others begin as told."""
    runs = [run for seed in EXPLAINED for run in explain_and_run(program(seed, calm=True), seed)]
    assert [run.found for run in runs if run.found] == []
    assert sum(run.waited for run in runs) > 2 * len(EXPLAINED)


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_show(fault: str) -> None:
    with planted(fault):
        assert look_at(SHOWN_BY[fault]).problems
