"""Confidence against tables, an integral written from the formula, and exact probabilities."""

from itertools import pairwise
from math import erfc, exp, inf, log, sqrt
from random import Random

import pytest
from hypothesis import given, strategies as st

from vegakit.contracts import (
    MIN_SAMPLE,
    Evidence,
    EvidenceHistory,
    EvidencePoint,
    InputSource,
    Tally,
)
from vegakit.errors import BugError
from vegakit.records import from_json, to_json

WILSONS_ALPHA = erfc(3.29 / sqrt(2)) / 2
"""The risk at one look that the quantile 3.29 stands for, 0.0005."""
COUNTS = st.tuples(st.integers(1, 200_000), st.integers(0, 40)).filter(lambda c: c[1] <= c[0])
THRESHOLDS = st.sampled_from([0.5, 0.9, 0.95, 0.99, 0.999, 0.9999])
ALPHAS = st.sampled_from([0.05, 0.001, 0.0005])


def runs_needed(threshold: float, alpha: float, failures: int = 0) -> int:
    low, high = failures, 1 << 22
    while low < high:
        middle = (low + high) // 2
        if Tally(middle, failures).is_above(threshold, alpha):
            high = middle
        else:
            low = middle + 1
    return low


@pytest.mark.parametrize(
    ("alpha", "failures", "runs"),
    [
        (WILSONS_ALPHA, 0, [154, 9_538, 107_432]),
        (0.001, 0, [140, 8_808, 100_171]),
        (0.001, 1, [216, 12_175, 134_587]),
        (0.001, 10, [621, 30_185, 318_394]),
        (0.05, 0, [62, 4_582, 58_358]),
    ],
)
def test_so_many_runs_are_needed(alpha: float, failures: int, runs: list[int]) -> None:
    """The table that was computed with SciPy, for 0.95, 0.999 and 0.9999."""
    assert [runs_needed(each, alpha, failures) for each in (0.95, 0.999, 0.9999)] == runs


def test_wilson_needs_these_clean_runs() -> None:
    """Without failures the bound is n / (n + z²)."""
    for runs, threshold in ((206, 0.95), (10_814, 0.999), (108_231, 0.9999)):
        assert Tally(runs).wilson_bound() >= threshold > Tally(runs - 1).wilson_bound()


def log_mean_likelihood(successes: float, failures: float) -> float:
    """Integrates p^s (1 - p)^f over (0, 1) with p = 1 - u², which has no pole for f = -1/2."""

    def log_height(u: float) -> float:
        if u <= 0.0 or u >= 1.0:
            return -inf if (u >= 1.0 or failures > -0.5) else 0.0
        return successes * log(1 - u * u) + (2 * failures + 1) * log(u)

    peak = sqrt((2 * failures + 1) / (2 * successes + 2 * failures + 1))
    width, most = 12 / sqrt(2 * successes), log_height(peak)
    low, high, parts = max(0.0, peak - width), min(1.0, peak + width), 4_000
    step = (high - low) / parts
    heights = [exp(log_height(low + n * step) - most) for n in range(parts + 1)]
    simpson = sum(h * (4 if n % 2 else 2) for n, h in enumerate(heights)) - heights[0] - heights[-1]
    return log(2 * simpson * step / 3) + most


@pytest.mark.parametrize("failures", [0, 1, 2, 7, 40])
@pytest.mark.parametrize("runs", [150, 1_000, 9_000, 100_171, 500_000])
def test_the_bound_is_where_the_integral_says(runs: int, failures: int) -> None:
    """At the bound the mean likelihood under the prior is 1,000 times that of the bound."""
    bound = Tally(runs, failures).lower_bound(0.001)
    successes = runs - failures
    mean = log_mean_likelihood(successes + 199, failures - 0.5) - log_mean_likelihood(199, -0.5)
    likelihood = successes * log(bound) + (failures * log(1 - bound) if failures else 0.0)
    assert mean - likelihood == pytest.approx(log(1_000), abs=1e-5)


@given(COUNTS, THRESHOLDS, ALPHAS)
def test_the_decision_is_the_bound(counts: tuple[int, int], threshold: float, alpha: float) -> None:
    """What is decided without a search is what is shown after one."""
    tally = Tally(*counts)
    if abs(tally.lower_bound(alpha) - threshold) > 1e-9:
        assert tally.is_above(threshold, alpha) == (tally.lower_bound(alpha) > threshold)


@given(COUNTS, ALPHAS)
def test_a_failure_lowers_the_bound_and_a_success_raises_it(
    counts: tuple[int, int], alpha: float
) -> None:
    """Whatever came before."""
    runs, failures = counts
    bound = Tally(runs, failures).lower_bound(alpha)
    assert Tally(runs + 1, failures + 1).lower_bound(alpha) <= bound + 1e-12
    assert Tally(runs + 1, failures).lower_bound(alpha) >= bound - 1e-12
    assert bound <= 1 - failures / runs


def ever_above(rate: float, horizon: int, passes) -> float:
    """The exact probability that one who looks after every run ever sees it pass: all histories at
    once, by their number of failures."""
    alive, crossed = {0: 1.0}, 0.0
    for runs in range(1, horizon + 1):
        after: dict[int, float] = {}
        for failures, weight in alive.items():
            after[failures] = after.get(failures, 0.0) + weight * rate
            after[failures + 1] = after.get(failures + 1, 0.0) + weight * (1 - rate)
        alive = {}
        for failures, weight in after.items():
            if passes(Tally(runs, failures)):
                crossed += weight
            elif weight > 1e-15:
                alive[failures] = weight
    return crossed


def test_who_looks_after_every_run_is_rarely_wrong() -> None:
    """The true rate is the threshold, and alpha large enough to come near it."""
    assert 0.01 < ever_above(0.95, 1_500, lambda tally: tally.is_above(0.95, 0.05)) <= 0.05


def test_wilson_is_wrong_more_often_than_it_says() -> None:
    """The test above can fail: a bound for one look of 5 % does."""
    assert ever_above(0.95, 1_500, lambda tally: tally.wilson_bound(1.645) >= 0.95) > 0.15


def test_nothing_is_known_without_runs() -> None:
    """Neither bound claims anything, also of what only failed."""
    for tally in (Tally(), Tally(5, 5)):
        assert (tally.lower_bound(), tally.is_above(0.5)) == (0.0, False)
        assert tally.wilson_bound() < 0.01


def test_more_failures_than_runs_are_a_bug() -> None:
    """Counts that cannot be are not tested."""
    with pytest.raises(BugError, match="3 failures in 2 runs"):
        Tally(2, 3)


def test_a_number_is_shown_after_a_thousand_runs() -> None:
    """Below that there is none; then Wilson stands beside it."""
    evidence = Evidence("v1", production=Tally(MIN_SAMPLE - 1))
    assert evidence.shown() is None
    shown = evidence.with_run(InputSource.PRODUCTION, agrees=True).shown()
    assert shown is not None
    assert shown.runs == Tally(1_000)
    assert 0.98 < shown.wilson < shown.lower < 1


def test_generated_inputs_are_counted_apart() -> None:
    """They neither help nor harm in production."""
    evidence = Evidence("v1").with_run(InputSource.GENERATED, agrees=False)
    assert (evidence.production, evidence.generated) == (Tally(), Tally(1, 1))


@given(st.lists(st.tuples(st.sampled_from(InputSource), st.booleans(), st.none() | st.booleans())))
def test_evidence_of_two_processes_is_merged(
    runs: list[tuple[InputSource, bool, bool | None]],
) -> None:
    """However the runs are split, and through JSON."""
    halves, whole = [Evidence("v1"), Evidence("v1")], Evidence("v1")
    for number, (source, agrees, again) in enumerate(runs):
        whole = whole.with_run(source, agrees=agrees, reference_agrees=again)
        half = halves[number % 2]
        halves[number % 2] = half.with_run(source, agrees=agrees, reference_agrees=again)
    assert halves[0].plus(halves[1]) == from_json(Evidence, to_json(whole)) == whole


def test_evidence_of_another_version_is_not_merged() -> None:
    """Other code starts from nothing."""
    with pytest.raises(BugError, match="evidence of 'v2' was added to that of 'v1'"):
        Evidence("v1").plus(Evidence("v2"))


def history(numbers: list[int]) -> EvidenceHistory:
    made = EvidenceHistory()
    for runs in numbers:
        if (point := EvidencePoint(runs, Tally(runs))).is_kept:
            made.add(point)
    return made


@given(st.integers(0, 9_000), st.randoms(use_true_random=False))
def test_a_history_is_small_and_covers_all(runs: int, order: Random) -> None:
    """Points come a little late, and in any order; each process decides alone what it keeps."""
    numbers = [*range(10, runs + 1, 10)]
    for at in range(0, len(numbers), 8):
        part = numbers[at : at + 8]
        order.shuffle(part)
        numbers[at : at + 8] = part
    kept = [point.production.runs for point in history(numbers).points]
    assert len(kept) <= 256
    assert kept == sorted(set(kept))
    steps = {after - before for before, after in pairwise([0, *kept])}
    assert len(steps) <= 1, "they stand at equal steps, from the first call to the last"
    assert not kept or runs - kept[-1] < min(steps)


def test_a_history_of_a_million_is_written_a_few_thousand_times() -> None:
    """And takes a few kilobytes."""
    points = [EvidencePoint(n, Tally(n)) for n in range(10, 1_000_001, 10)]
    assert sum(point.is_kept for point in points) < 2_500
    assert len(to_json(history([*range(10, 1_000_001, 10)]))) < 16_000
