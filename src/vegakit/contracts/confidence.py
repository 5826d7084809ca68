"""Evidence about a candidate, and tests on it that stay valid however often one looks (pure).

A team looks at its counts after every call, so a bound that holds for one look is worth little:
checked after each of 20,000 runs, a 95 % bound is crossed wrongly in a third of all rollouts. Every
test here is a nonnegative martingale under the hypothesis that it rejects. By Ville's inequality
such a martingale ever reaches `1 / alpha` with probability `alpha` at most, whoever looks whenever.

| question                                     | test                                   | state    |
|----------------------------------------------|----------------------------------------|----------|
| is agreement above a threshold?              | mixture of likelihood ratios           | 2 counts |
| is the candidate within a margin of a        | bets on paired differences, mixed over | 3 counts |
| reference that disagrees with itself?        | a grid of bets                         |          |
| has such a candidate become worse?           | the same bets, begun anew at every     | a float  |
|                                              | call and added up (Shiryaev-Roberts)   | a bet    |
| how often is a judge wrong?                  | the first one, on pairs that are known | 2 counts |

The prior is fixed before any data: Robbins, "Statistical methods related to the law of the iterated
logarithm" (1970). The bets follow Waudby-Smith and Ramdas, "Estimating means of bounded random
variables by betting" (2024), the detector Shin, Ramdas and Rinaldo, "E-detectors" (2024).

Calls are assumed to be alike and independent. Where they are not, count each input class apart.
"""

from enum import StrEnum
from functools import lru_cache
from math import ceil, exp, inf, lgamma, log, log1p, sqrt

from msgspec import Struct, field, structs

from vegakit.errors import BugError, InvalidRuleError

ALPHA = 0.001
"""How likely it may be that one rollout is ever promoted above what is true of it."""
MIN_SAMPLE = 1_000
"""Runs before a number is shown or acted on: below, calls of one morning speak for all."""
WILSON_Z = 3.29
"""The quantile of Wilson's bound, which is shown beside ours: valid for one look only."""

PRIOR_SUCCESSES, PRIOR_FAILURES = 200.0, 0.5
"""The prior puts its weight near 1, where the thresholds are: it needs fewer clean runs than
Beta(.5, .5) does, and more once there are several failures."""
_LOG_PRIOR = (
    lgamma(PRIOR_SUCCESSES) + lgamma(PRIOR_FAILURES) - lgamma(PRIOR_SUCCESSES + PRIOR_FAILURES)
)
_HALVINGS = 60
"""A bisection of [0, 1] is then as exact as a float."""


# Agreement with a reference that always answers the same.
#
# With s successes and f failures in n runs, and the prior Beta(a, b), the mixture is
#
#     M_n(t) = B(a + s, b + f) / B(a, b) / (t^s (1 - t)^f)
#
# M_n(p) is a martingale of mean 1 for the true rate p. For t < s / n it falls with t, so if p <= t
# then M_n(p) >= M_n(t): whoever acts on M_n(t) >= 1 / alpha is wrong with probability alpha at
# most, for all thresholds together.


class Tally(Struct, frozen=True):
    """Runs, and how many of them failed. Failures never expire: a count that starts again after a
    failure is passed by any candidate in time."""

    runs: int = 0
    failures: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.failures <= self.runs:
            raise BugError(f"{self.failures} failures in {self.runs} runs")

    def plus(self, other: "Tally") -> "Tally":
        """Return both counts together."""
        return Tally(self.runs + other.runs, self.failures + other.failures)

    def is_above(self, threshold: float, alpha: float = ALPHA) -> bool:
        """Return whether the success rate is above `threshold`. This decides a promotion, so it
        takes a few microseconds and searches nothing."""
        successes = self.runs - self.failures
        return threshold * self.runs < successes and self._log_mixture() - self._log_likelihood(
            threshold
        ) >= -log(alpha)

    def lower_bound(self, alpha: float = ALPHA) -> float:
        """Return the largest threshold that the success rate is above, to be shown to people."""
        if self.runs == self.failures:
            return 0.0
        mixture, enough = self._log_mixture(), -log(alpha)
        low, high = 0.0, 1.0 - self.failures / self.runs
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if mixture - self._log_likelihood(middle) >= enough:
                low = middle
            else:
                high = middle
        return low

    def wilson_bound(self, z: float = WILSON_Z) -> float:
        """Return Wilson's lower bound, which holds for one look at a sample of a fixed size."""
        if not self.runs:
            return 0.0
        rate, z2 = 1.0 - self.failures / self.runs, z * z / self.runs
        spread = sqrt(rate * (1 - rate) * z2 + z2 * z2 / 4)
        return max(0.0, (rate + z2 / 2 - spread) / (1 + z2))

    def _log_mixture(self) -> float:
        successes = PRIOR_SUCCESSES + self.runs - self.failures
        failures = PRIOR_FAILURES + self.failures
        both = lgamma(successes) + lgamma(failures) - lgamma(successes + failures)
        return both - _LOG_PRIOR

    def _log_likelihood(self, rate: float) -> float:
        successes = self.runs - self.failures
        if rate <= 0.0:
            return -inf if successes else 0.0
        # Without failures nothing is subtracted, also at a rate of 1.
        return successes * log(rate) + (self.failures * log1p(-rate) if self.failures else 0.0)


# Agreement with a reference that does not always answer the same.
#
# An agent that is asked twice may answer differently, and a candidate that is compared with one of
# its answers is blamed for it. So a call is answered three times: by the candidate, by the
# reference and by the reference again. The difference of a call is
#
#     D = [candidate != reference] - [reference != reference again]          -1, 0 or 1
#
# whose mean is what the candidate adds to the noise. Against "the mean is `margin` or more" one
# bets a share `lambda` of all one has on each call: it is multiplied by 1 + lambda (margin - D).
# The product depends on the counts of -1, 0 and 1 alone, so nothing else is kept.

BETS = (0.9, 0.5, 0.25, 0.1, 0.05, 0.02, 0.01)
"""Shares to bet, in equal parts. The best one is the gap by the variance of D, which is unknown."""
DETECTOR_BETS = (0.9, 0.5, 0.2, 0.1, 0.05)
"""Shares of the detector: a small one would react slowly, and weigh down the others."""
MAX_MARGIN, MIN_MARGIN = 0.1, 0.001
"""A bet of 0.9 can lose everything at a margin above 0.11. Below the least margin the detector
would alarm at clean calls."""


class PairedTally(Struct, frozen=True):
    """Calls by their difference: the candidate alone disagreed (`worse`), the reference with itself
    alone (`better`), or both or neither did (`equal`)."""

    worse: int = 0
    equal: int = 0
    better: int = 0

    @property
    def runs(self) -> int:
        """Return how many calls were compared three ways."""
        return self.worse + self.equal + self.better

    def plus(self, other: "PairedTally") -> "PairedTally":
        """Return both counts together."""
        return PairedTally(
            self.worse + other.worse, self.equal + other.equal, self.better + other.better
        )

    def is_within(self, margin: float, alpha: float = ALPHA) -> bool:
        """Return whether the candidate adds less than `margin` to the reference's own noise."""
        return self._log_wealth(margin) >= -log(alpha)

    def upper_bound(self, alpha: float = ALPHA) -> float:
        """Return the least margin that the candidate is within, to be shown to people."""
        low, high = 0.0, 1.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if self.is_within(middle, alpha):
                high = middle
            else:
                low = middle
        return high

    def _log_wealth(self, margin: float) -> float:
        logs = [
            self.worse * worse + self.equal * equal + self.better * better
            for worse, equal, better in _log_factors(margin)
        ]
        most = max(logs)
        return most + log(sum(exp(each - most) for each in logs) / len(logs))


@lru_cache(maxsize=16)  # a rollout asks for its own few margins at every call
def _log_factors(margin: float) -> tuple[tuple[float, float, float], ...]:
    return tuple(
        (log1p(bet * (margin - 1)), log1p(bet * margin), log1p(bet * (margin + 1))) for bet in BETS
    )


def difference_of(*, agrees: bool, reference_agrees: bool) -> int:
    """Return 1 if the candidate alone disagreed, -1 if the reference with itself alone, else 0."""
    return int(not agrees) - int(not reference_agrees)


# Demotion is a test of its own. One that asks whether all calls together are good would let a long
# clean history pay for a fault that began today.
#
# The detector bets at every call that everything was well before it and nothing is since. It keeps
# the sum of the wealth of all these bettors, which is one number for each share:
#
#     R_n = (R_(n-1) + 1) (1 + lambda (D - tolerance))
#
# As long as the mean of D is at most `tolerance`, R_n - n is a supermartingale, so that alarms at
# R_n >= `CALLS_BETWEEN_ALARMS` come that many calls apart on average, or later.

CALLS_BETWEEN_ALARMS = 100_000
"""The mean number of compared calls to a false alarm, at least."""


class FaultDetector(Struct):
    """Says when a candidate began to add more than `tolerance` to the noise of its reference. A
    call that brings nothing worse never alarms, which only delays false alarms."""

    tolerance: float
    sums: list[float] = field(default_factory=lambda: [0.0] * len(DETECTOR_BETS))

    def __post_init__(self) -> None:
        check_margin(self.tolerance)

    def observe(self, difference: int) -> bool:
        """Take the difference of one call; return whether to alarm."""
        gap = difference - self.tolerance
        self.sums = [
            (wealth + 1.0) * (1.0 + bet * gap)
            for wealth, bet in zip(self.sums, DETECTOR_BETS, strict=True)
        ]
        return difference > 0 and sum(self.sums) >= CALLS_BETWEEN_ALARMS * len(self.sums)


def calls_to_alarm(fault: float, tolerance: float) -> int | None:
    """Return after how many compared calls the detector typically alarms at a candidate that adds
    a fault of this rate to an otherwise quiet reference; None if it tolerates that much."""
    growths = [
        fault * log1p(bet * (1 - tolerance)) + (1 - fault) * log1p(-bet * tolerance)
        for bet in DETECTOR_BETS
    ]
    fastest = max(growths)
    # The bettor that grows fastest has to bring the sum of all of them to the alarm.
    return ceil(log(CALLS_BETWEEN_ALARMS * len(growths)) / fastest) if fastest > 0 else None


def check_margin(margin: float) -> None:
    """Refuse a margin that the tests on paired differences are not made for."""
    if not MIN_MARGIN <= margin <= MAX_MARGIN:
        raise InvalidRuleError(
            f"a margin of {margin:g} is outside of what can be tested on paired calls; "
            f"give one from {MIN_MARGIN:g} to {MAX_MARGIN:g}"
        )


# A judge says whether two texts mean the same, and is wrong at times. How often is found out first,
# on pairs whose verdict is known; what counts are upper bounds of its rates:
#
#     A   of pairs that differ, it calls the same           (false same)
#     B   of pairs that are the same, it calls different    (false different)
#
# Of the candidate's true rate of differences c and the reference's own r it shows
#
#     mean of D = c (1 - a_c - b) - r (1 - a_r - b)  >=  (c - r) (1 - b) - c A
#
# where a_c and a_r may be anything up to A, as the kinds of differences need not be alike, and b is
# the same for both, up to B. So c - r <= (mean of D + A) / (1 - B), and agreement is at least what
# the judge shows less A. That also holds if A was measured as the share of wrong ones among the
# pairs that the judge calls the same, as it is if people label a sample of them. It means that no
# number of calls shows agreement above 1 - A: it takes a better judge, or more pairs.


class JudgeErrors(Struct, frozen=True):
    """Upper bounds of how often a judge is wrong, each for the risk it was asked for."""

    false_same: float = 0.0
    false_different: float = 0.0

    @property
    def ceiling(self) -> float:
        """Return the agreement above which nothing can be shown by this judge."""
        return 1.0 - self.false_same

    @property
    def finest_margin(self) -> float:
        """Return the least margin that can be tested by this judge."""
        return self.true_excess(MIN_MARGIN)

    def tested_margin(self, margin: float) -> float:
        """Return what the judge must show, so that the candidate truly is within the margin."""
        return margin * (1.0 - self.false_different) - self.false_same

    def true_excess(self, excess: float) -> float:
        """Return what the candidate adds at most, if the judge shows this."""
        seen = 1.0 - self.false_different
        return 1.0 if seen <= 0.0 else min(1.0, (excess + self.false_same) / seen)

    def beside(self, other: "JudgeErrors") -> "JudgeErrors":
        """Return the errors of both, if answers are the same where each says so of its field. A
        difference in one field is missed by its own judge; either may see one that is none."""
        return JudgeErrors(
            max(self.false_same, other.false_same),
            min(1.0, self.false_different + other.false_different),
        )


class JudgeTally(Struct, frozen=True):
    """Counts what a judge said of pairs whose verdict is known: those that are the same, and those
    that differ, each with how many of them it got wrong."""

    same: Tally = Tally()
    different: Tally = Tally()

    def errors(self, alpha: float = ALPHA) -> JudgeErrors:
        """Return upper bounds of both rates, which hold together but for a risk of `alpha`."""
        return JudgeErrors(
            1.0 - self.different.lower_bound(alpha / 2), 1.0 - self.same.lower_bound(alpha / 2)
        )


# What is kept.


class PathCost(Struct, frozen=True, omit_defaults=True):
    """Adds up what the answers of one path have cost, in nano-dollars."""

    answers: int = 0
    nanos: int = 0

    def plus(self, other: "PathCost") -> "PathCost":
        """Return both together."""
        return PathCost(self.answers + other.answers, self.nanos + other.nanos)

    @property
    def mean(self) -> float | None:
        """Return what an answer costs; None if there was none."""
        return self.nanos / self.answers if self.answers else None


class CallCosts(Struct, frozen=True, omit_defaults=True):
    """Adds up what both paths and the judge cost where they were compared."""

    reference: PathCost = PathCost()
    candidate: PathCost = PathCost()
    judge: PathCost = PathCost()

    def plus(self, other: "CallCosts") -> "CallCosts":
        """Return both together."""
        return CallCosts(
            self.reference.plus(other.reference),
            self.candidate.plus(other.candidate),
            self.judge.plus(other.judge),
        )


class InputSource(StrEnum):
    """Says who made an input. Generated ones show faults, and say nothing of how often production
    meets them: they are counted apart."""

    PRODUCTION = "production"
    GENERATED = "generated"


class Evidence(Struct, frozen=True):
    """All that is known of one candidate on one input class. `version` names reference, candidate
    and comparison: other code is another candidate, and starts from nothing."""

    version: str
    input_class: str = ""
    production: Tally = Tally()
    generated: Tally = Tally()
    noise: Tally = Tally()
    """The reference compared with itself, before the candidate is tried."""
    pairs: PairedTally = PairedTally()
    """Calls in production that were compared three ways."""
    costs: CallCosts = CallCosts()
    breaches: int = 0
    """Comparisons, in production or generated, in which the candidate broke its contract."""

    def plus(self, other: "Evidence") -> "Evidence":
        """Return what both know, of the same candidate and input class."""
        if (self.version, self.input_class) != (other.version, other.input_class):
            raise BugError(f"evidence of {other.version!r} was added to that of {self.version!r}")
        return structs.replace(
            self,
            production=self.production.plus(other.production),
            generated=self.generated.plus(other.generated),
            noise=self.noise.plus(other.noise),
            pairs=self.pairs.plus(other.pairs),
            costs=self.costs.plus(other.costs),
            breaches=self.breaches + other.breaches,
        )

    def with_run(
        self,
        source: InputSource,
        *,
        agrees: bool,
        reference_agrees: bool | None = None,
        costs: CallCosts | None = None,
        is_breach: bool = False,
    ) -> "Evidence":
        """Return the evidence with one more comparison, three-way if the reference was asked
        again."""
        one = Tally(1, int(not agrees))
        spent = self.costs if costs is None else self.costs.plus(costs)
        own = structs.replace(self, costs=spent, breaches=self.breaches + is_breach)
        if source is InputSource.GENERATED:
            return structs.replace(own, generated=own.generated.plus(one))
        pairs = own.pairs
        if reference_agrees is not None:
            difference = difference_of(agrees=agrees, reference_agrees=reference_agrees)
            pairs = pairs.plus(_PAIRS[difference])
        return structs.replace(own, production=own.production.plus(one), pairs=pairs)

    def shown(self, alpha: float = ALPHA, judge: JudgeErrors | None = None) -> "Confidence | None":
        """Return the figures for people; None while there are too few runs to show any. What a
        judge may have got wrong is taken off."""
        runs, judge = self.production, judge or JudgeErrors()
        if runs.runs < MIN_SAMPLE:
            return None
        excess = None
        if self.pairs.runs >= MIN_SAMPLE:
            excess = judge.true_excess(self.pairs.upper_bound(alpha))
        lower, wilson = (
            max(0.0, bound - judge.false_same)
            for bound in (runs.lower_bound(alpha), runs.wilson_bound())
        )
        return Confidence(runs, lower, wilson, alpha, excess, judge.ceiling)


_PAIRS = {1: PairedTally(worse=1), 0: PairedTally(equal=1), -1: PairedTally(better=1)}


class Confidence(Struct, frozen=True):
    """Figures for people: agreement is above `lower`, with a risk of `alpha` at all looks together;
    `wilson` is beside it, and `excess` at most is added to a noisy reference. Where a judge
    compares, no number of runs shows more than `ceiling`."""

    runs: Tally
    lower: float
    wilson: float
    alpha: float
    excess: float | None = None
    ceiling: float = 1.0


# The counts at earlier times, for a picture of how confidence grew. They are thinned by a rule that
# depends on the number of runs alone, so that of several processes exactly one keeps each point.

FIRST_STEP, MAX_POINTS = 10, 256
"""Runs between two points at first, and how many points are kept: then every second one goes, and
the step doubles."""


class EvidencePoint(Struct, frozen=True, array_like=True):
    """The counts at one time."""

    at_ms: int
    production: Tally
    pairs: PairedTally = PairedTally()

    @property
    def is_kept(self) -> bool:
        """Return whether this number of runs is one of those that a history keeps."""
        return (
            self.production.runs > 0 and self.production.runs % _step_at(self.production.runs) == 0
        )


class EvidenceHistory(Struct):
    """Earlier counts of one rollout, in the order of their runs."""

    points: list[EvidencePoint] = field(default_factory=list[EvidencePoint])

    def add(self, point: EvidencePoint) -> None:
        """Add a point, and drop those that are too close by now. It may come late: whoever had it
        to keep was slower than the next one."""
        by_runs = {each.production.runs: each for each in self.points}
        by_runs[point.production.runs] = point
        step = _step_at(max(by_runs))
        self.points = [by_runs[runs] for runs in sorted(by_runs) if runs % step == 0]


def _step_at(runs: int) -> int:
    step = FIRST_STEP
    while runs > step * MAX_POINTS:
        step *= 2
    return step
