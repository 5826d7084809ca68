"""Tests on paired differences: what a candidate adds to a reference that disagrees with itself."""

import random
from itertools import product

import pytest
from hypothesis import given, strategies as st

from vegakit.contracts import (
    CALLS_BETWEEN_ALARMS,
    Evidence,
    FaultDetector,
    JudgeErrors,
    JudgeTally,
    PairedTally,
    Tally,
    calls_to_alarm,
    difference_of,
)
from vegakit.contracts.confidence import BETS
from vegakit.errors import InvalidRuleError

COUNTS = st.builds(PairedTally, st.integers(0, 300), st.integers(0, 30_000), st.integers(0, 300))
MARGINS = st.sampled_from([0.001, 0.01, 0.02, 0.05, 0.1])


def wealth(differences: list[int], margin: float) -> float:
    """What the bettors have after these calls, from the definition, call by call."""
    pockets = [1.0] * len(BETS)
    for difference in differences:
        pockets = [
            pocket * (1 + bet * (margin - difference))
            for pocket, bet in zip(pockets, BETS, strict=True)
        ]
    return sum(pockets) / len(pockets)


@given(st.lists(st.sampled_from([-1, 0, 0, 0, 1]), max_size=200), MARGINS)
def test_counts_are_as_good_as_the_whole_history(differences: list[int], margin: float) -> None:
    """The order of calls is forgotten without a loss."""
    counts = PairedTally(differences.count(1), differences.count(0), differences.count(-1))
    has = wealth(differences, margin)
    assert counts.is_within(margin, alpha=1 / has * 1.000001)
    assert not counts.is_within(margin, alpha=1 / has * 0.999999)


@given(MARGINS, st.floats(0, 0.3), COUNTS)
def test_nobody_wins_by_betting_against_what_is_true(
    margin: float, noise: float, counts: PairedTally
) -> None:
    """If the candidate adds just `margin`, wealth stays what it was, on average: so it reaches
    1 / alpha with probability alpha at most."""
    chances = {1: noise + margin, 0: 1 - 2 * noise - margin, -1: noise}
    for bet in BETS:
        mean = sum(chance * (1 + bet * (margin - d)) for d, chance in chances.items())
        assert mean == pytest.approx(1)


@given(COUNTS, MARGINS)
def test_the_bound_shown_is_the_decision(counts: PairedTally, margin: float) -> None:
    """What is within a margin is within every larger one."""
    bound = counts.upper_bound()
    if abs(bound - margin) > 1e-9:
        assert counts.is_within(margin) == (bound < margin)


def test_a_noisy_reference_is_not_the_candidates_fault() -> None:
    """The candidate differs in 3 % of all calls, and so does the reference from itself."""
    assert PairedTally(worse=450, equal=14_100, better=450).is_within(0.01)
    assert not PairedTally(worse=450, equal=14_400, better=150).is_within(0.01)


@pytest.mark.parametrize(("agrees", "again"), [*product([True, False], repeat=2)])
def test_the_difference_is_what_one_did_alone(agrees: bool, again: bool) -> None:
    """When both disagree, or neither, nobody is worse."""
    expected = 0 if agrees == again else 1 if again else -1
    assert difference_of(agrees=agrees, reference_agrees=again) == expected


def alarm_after(detector: FaultDetector, every: int, most: int = 100_000) -> int:
    for call in range(1, most + 1):
        if detector.observe(int(call % every == 0)):
            return call
    return most


@pytest.mark.parametrize("tolerance", [0.01, 0.05])
def test_a_long_clean_history_does_not_hide_a_fault(tolerance: float) -> None:
    """A fault in every fifth call is found as soon as without the 50,000 clean calls before it."""
    fresh, old = FaultDetector(tolerance), FaultDetector(tolerance)
    for _ in range(50_000):
        assert not old.observe(0)
    assert alarm_after(old, every=5) <= alarm_after(fresh, every=5) <= 150


def test_history_would_hide_it_from_one_test_of_all_calls() -> None:
    """The test above can fail: with all calls together the candidate is still within 1 %."""
    assert PairedTally(worse=200, equal=50_800).is_within(0.01)


@given(MARGINS, st.lists(st.sampled_from([-1, 0, 1]), max_size=50), st.floats(0, 0.3))
def test_alarms_are_as_far_apart_as_promised(
    tolerance: float, differences: list[int], noise: float
) -> None:
    """While the candidate adds no more than is tolerated the sum grows by 1 a call at most, on
    average; so it takes `CALLS_BETWEEN_ALARMS` calls, on average, to come to that."""
    detector = FaultDetector(tolerance)
    for difference in differences:
        detector.observe(difference)
    before = sum(detector.sums) / len(detector.sums)
    mean = 0.0
    for difference, chance in {
        1: noise + tolerance,
        0: 1 - 2 * noise - tolerance,
        -1: noise,
    }.items():
        after = FaultDetector(tolerance, [*detector.sums])
        after.observe(difference)
        assert min(after.sums) >= 0
        mean += chance * sum(after.sums) / len(after.sums)
    assert mean <= (before + 1) * 1.000001


def test_noise_alone_alarms_late() -> None:
    """At 2 % of noise, with nothing added and 1 % tolerated, in one long history."""
    draw, detector = random.Random(1), FaultDetector(0.01)
    for _ in range(CALLS_BETWEEN_ALARMS):
        difference = int(draw.random() < 0.02) - int(draw.random() < 0.02)
        assert not detector.observe(difference)


@pytest.mark.parametrize("fault", [0.03, 0.1, 0.3])
def test_a_fault_is_found_about_when_people_are_told(fault: float) -> None:
    """The median of 201 rollouts, each from the first call of its stage on."""
    told = calls_to_alarm(fault, 0.01)
    assert told is not None
    delays: list[int] = []
    for seed in range(201):
        draw, detector, calls = random.Random(seed), FaultDetector(0.01), 1
        while not detector.observe(int(draw.random() < fault)):
            calls += 1
        delays.append(calls)
    median = sorted(delays)[100]
    assert told / 2 < median < told * 2, (told, median)
    assert calls_to_alarm(0.01, 0.01) is None, "what is tolerated is not found"


@pytest.mark.parametrize("margin", [0.0, 0.0001, 0.2])
def test_a_margin_that_cannot_be_tested_is_refused(margin: float) -> None:
    """The message says which can be."""
    with pytest.raises(InvalidRuleError, match=r"give one from 0\.001 to 0\.1"):
        FaultDetector(margin)


# Judges.

RATES = st.floats(0, 1)


@given(RATES, RATES, RATES, RATES, st.floats(0, 0.5), st.floats(0, 0.5))
def test_a_judge_hides_no_more_than_its_errors(
    candidate: float, reference: float, missed: float, missed_too: float, a: float, b: float
) -> None:
    """Whatever kinds of differences it misses up to its bound, on either side."""
    judge = JudgeErrors(a, b)
    shown = candidate * (1 - a * missed - b) - reference * (1 - a * missed_too - b)
    assert judge.true_excess(shown) >= candidate - reference - 1e-9
    agreement = (1 - candidate) * (1 - b) + candidate * a * missed
    assert 1 - candidate >= agreement - judge.false_same - 1e-9


@given(st.floats(0.002, 0.1), st.floats(0, 0.05), st.floats(0, 0.5))
def test_what_is_tested_is_what_is_promised(margin: float, a: float, b: float) -> None:
    """A candidate that the judge shows at the tested margin truly is at the margin at most."""
    judge = JudgeErrors(a, b)
    assert judge.true_excess(judge.tested_margin(margin)) == pytest.approx(margin)


def test_pairs_bound_the_errors_of_a_judge() -> None:
    """Without a mistake in 500 pairs it may still be wrong in 1.8 %; without pairs, always."""
    clean = JudgeTally(Tally(500), Tally(500, 5)).errors(0.0005)
    assert clean.false_different == pytest.approx(0.0177, abs=1e-4)
    assert clean.false_same > 0.03
    assert JudgeTally().errors() == JudgeErrors(1.0, 1.0)
    assert JudgeErrors(1.0, 1.0).finest_margin == 1.0
    assert JudgeErrors(0.1, 0.1).beside(JudgeErrors(0.2, 0.3)) == JudgeErrors(0.2, 0.4)


def test_a_judge_lowers_what_is_shown() -> None:
    """Agreement by its false sames, and never above its ceiling."""
    evidence = Evidence("v1", production=Tally(10**6), pairs=PairedTally(equal=10**6))
    plain, judged = evidence.shown(), evidence.shown(judge=JudgeErrors(0.02, 0.01))
    assert plain is not None
    assert judged is not None
    assert judged.ceiling == 0.98 > judged.lower > 0.979
    assert judged.lower == pytest.approx(plain.lower - 0.02)
    assert plain.excess is not None
    assert judged.excess == pytest.approx((plain.excess + 0.02) / 0.99)
