"""Rollouts by the thousand: `python -m campaigns.rollouts [full]`.

Simulates candidates whose agreement is known, under people who look after every call, and counts
how often one is promoted that should not be, and how soon a fault is found. Beside our rule stand
TensorZero's stopping rule (its `check_stopping`: Gaussian likelihood ratio above
`ln((1 + ln n) / delta)`, with its defaults and with ours) and Wilson's bound, a test for a sample
of fixed size. All of them see the same histories.

Between two failures nothing but the number of runs changes, and every rule here is passed by enough
clean runs. So a history is its gaps between failures, which are drawn as geometric numbers, and a
rule is asked at the last clean run of each gap; the figure "call by call" shows on whole histories
that nothing is lost by that. The last promotions and every demotion are made by the machine itself.
Rollouts of agents over real sockets, with their quotes, are in `rollout_acceptance`.
"""

import random
import sys
from collections.abc import Callable, Iterator
from functools import cache
from math import log, log1p
from statistics import median
from time import process_time

from benchmarks.figures import Figure, show

from campaigns.rollout_acceptance import acceptance
from vegakit.contracts import (
    ALPHA,
    MIN_SAMPLE,
    STAGES,
    Compared,
    Evidence,
    JudgeTally,
    PairedTally,
    PersonAction,
    PersonDecided,
    ReferenceRepeated,
    Rollout,
    RolloutMode,
    RolloutRule,
    StageChange,
    Tally,
    calls_to_detection,
)
from vegakit.errors import InvalidRuleError

__all__ = ["main"]

SIZES = {"": (2_000, 100, 300), "full": (10_000, 300, 3_000)}
"""Rollouts, failures in each history, and rollouts with a noisy reference."""
RATES = ((0.95, 0.95), (0.999, 0.999), (0.9999, 0.9999), (0.9998, 0.9999))
"""The true agreement, and the threshold that it is not above: at the threshold itself a rule is
wrong most often. The last one is a fault in 1 of 5,000 calls."""
FALSE, DETECTED, MOST_US = 0.1, 500, 20.0
NEVER = 1 << 60
LAST = len(STAGES) - 1

Rule = Callable[[Tally], bool]


def main(size: str = "") -> int:
    rollouts, failures, noisy = SIZES[size]
    print("a fault of 1 % stays for at most so many calls, 95 of 100 times, by the share compared:")
    for share in (1.0, 0.1, RolloutRule().sample):
        print(f"  {share:>5.0%}  {calls_to_detection(0.01, share):>8,}")
    figures = [
        *_false_promotions(rollouts, failures),
        *_machines(rollouts),
        *_demotions(rollouts, noisy),
        *_noisy_promotions(noisy),
        *_judged_promotions(noisy),
        *_speed(),
        *acceptance(size),
    ]
    print(show(figures))
    return 0 if all(figure.holds for figure in figures) else 1


def _at_most_percent(limit: float, count: int, of: int, name: str) -> Figure:
    share = 100 * count / of
    return Figure(name, f"{share:.2f} %", f"≤ {limit:g} %", share <= limit)


# Histories, and rules that look at them.


def _gap(draw: random.Random, rate: float) -> int:
    """Returns how many calls go well before the next one that does not."""
    return int(log(1.0 - draw.random()) / log1p(rate - 1.0)) if rate < 1 else NEVER


def _looks(draw: random.Random, rate: float, failures: int) -> Iterator[Tally]:
    """Yields the counts at the last clean run before each failure."""
    runs = 0
    for failed in range(failures):
        runs += _gap(draw, rate)
        yield Tally(runs, failed)
        runs += 1


def _ours(threshold: float) -> Rule:
    return lambda counts: counts.runs >= MIN_SAMPLE and counts.is_above(threshold)


def _wilson(threshold: float) -> Rule:
    """The quantile for a risk of 0.001 at one look."""
    return lambda counts: counts.runs >= MIN_SAMPLE and counts.wilson_bound(z=3.0902) >= threshold


def _tensorzero(threshold: float, delta: float, least: int) -> Rule:
    """The other arm is one that is known to be right with the rate of the threshold."""

    def passes(counts: Tally) -> bool:
        if counts.runs < least:
            return False
        rate = 1.0 - counts.failures / counts.runs
        variance = max(rate * (1 - rate), 1e-12)
        ratio = max(0.0, rate - threshold) ** 2 * counts.runs / (2 * variance)
        return ratio > log((1 + log(counts.runs)) / delta)

    return passes


def _false_promotions(rollouts: int, failures: int) -> list[Figure]:
    """Counts rollouts in which a rule ever says that agreement is above what it is."""
    figures = list[Figure]()
    for rate, threshold in RATES:
        rules = {
            "ours": _ours(threshold),
            "TensorZero's rule, its defaults": _tensorzero(threshold, 0.05, 10),
            f"TensorZero's rule, {MIN_SAMPLE:,} runs and {ALPHA:g}": _tensorzero(
                threshold, ALPHA, MIN_SAMPLE
            ),
            "Wilson, for one look": _wilson(threshold),
        }
        wrong = dict.fromkeys(rules, 0)
        for seed in range(rollouts):
            looks = [*_looks(random.Random(f"{rate} {seed}"), rate, failures)]
            for name, rule in rules.items():
                wrong[name] += any(map(rule, looks))
        for name, count in wrong.items():
            title = f"{rate:g} shown above {threshold:g}, {name}"
            if name == "ours":
                figures.append(_at_most_percent(FALSE, count, rollouts, title))
            else:
                figures.append(Figure(title, f"{100 * count / rollouts:.2f} %"))
    return figures


# The whole machine.


@cache
def _runs_needed(threshold: float, failures: int) -> int:
    """Returns the runs at which a promotion is earned, with so many failures among them."""
    low, high = MIN_SAMPLE, MIN_SAMPLE
    while not Tally(high, failures).is_above(threshold):
        high *= 2
    while low < high:
        middle = (low + high) // 2
        if Tally(middle, failures).is_above(threshold):
            high = middle
        else:
            low = middle + 1
    return low


class Play:
    """One rollout in production, from failure to failure."""

    def __init__(self, rate: float, draw: random.Random) -> None:
        self.rate, self.draw = rate, draw
        evidence = Evidence("v1", noise=Tally(100))
        self.machine = Rollout("simulated", RolloutRule(), evidence)
        self.changes = list[tuple[int, StageChange]]()

    @property
    def runs(self) -> int:
        return self.machine.evidence.production.runs

    def run(self, is_stepped: bool = False) -> RolloutMode:
        """Plays until it is held or has come to the end; returns the highest mode it reached."""
        highest = 0
        while not self.machine.held_because and self.machine.mode is not RolloutMode.DIRECT_ONLY:
            self._clean(_gap(self.draw, self.rate), is_stepped)
            highest = max(highest, self.machine.stage)
            if highest < LAST:
                self._step(Compared(agrees=False))
        return STAGES[highest].mode

    def _clean(self, gap: int, is_stepped: bool) -> None:
        """Lets so many calls go well, and stops at the last promotion."""
        end = self.runs + gap
        while self.runs < end and self.machine.mode is not RolloutMode.DIRECT_ONLY:
            asked = STAGES[self.machine.stage + 1]
            failures = self.machine.evidence.production.failures
            answers_at = self._answers_at(asked.answers)
            at = max(_runs_needed(asked.threshold, failures), answers_at, self.runs + 1)
            if not is_stepped:
                self._skip(min(at, end + 1) - 1 - self.runs)
                self.machine.answers = asked.answers if answers_at <= self.runs else 0
            while self.runs < min(at, end):
                answered = self.runs + 1 == answers_at
                if answered:
                    self.machine.answers = asked.answers - 1
                self._step(Compared(agrees=True, is_answer=answered))

    def _answers_at(self, answers: int) -> int:
        """Returns at which run the candidate has answered so often at this stage. It is drawn once
        a stage, from random numbers of its own."""
        entered = self.changes[-1][0] if self.changes else 0
        share = STAGES[self.machine.stage].candidate_share
        draw = random.Random(f"{entered} {self.machine.stage}")
        return entered + sum(1 + _gap(draw, 1 - share) for _ in range(answers))

    def _skip(self, runs: int) -> None:
        evidence = self.machine.evidence
        more = Evidence(evidence.version, production=Tally(max(0, runs)))
        self.machine.evidence = evidence.plus(more)

    def _step(self, event: Compared) -> None:
        if change := self.machine.step(event):
            self.changes.append((self.runs, change))


def _machines(rollouts: int) -> list[Figure]:
    """Counts how far whole rollouts come."""
    reached = {
        rate: [Play(rate, random.Random(seed)).run() for seed in range(rollouts)]
        for rate in (0.9998, 0.99999, 1.0)
    }
    direct = {rate: modes.count(RolloutMode.DIRECT_ONLY) for rate, modes in reached.items()}
    same = sum(_is_same_call_by_call(seed) for seed in range(20))
    return [
        _at_most_percent(FALSE, direct[0.9998], rollouts, "a fault in 1 of 5,000 reaches direct"),
        Figure("one in 1 of 100,000 does", f"{100 * direct[0.99999] / rollouts:.1f} %"),
        Figure("none at all does", f"{100 * direct[1.0] / rollouts:.1f} %", "= 100 %",
               direct[1.0] == rollouts),
        Figure("call by call as by gaps", f"{same} of 20", "= 20", same == 20),
    ]  # fmt: skip


def _is_same_call_by_call(seed: int) -> bool:
    rate = random.Random(seed).choice([0.99, 0.999, 0.9998, 0.9999])
    plays = [Play(rate, random.Random(seed)) for _ in range(2)]
    plays[0].run()
    plays[1].run(is_stepped=True)
    for play in plays:  # runs that are skipped are not among the last hundred
        play.machine.recent = Tally()
    return plays[0].changes == plays[1].changes and plays[0].machine == plays[1].machine


# Demotion, after a history that was clean for long.

_ADA = PersonDecided(PersonAction.PROMOTE, "ada")


def _direct(noise: Tally) -> Rollout:
    evidence = Evidence("v1", production=Tally(1_000_000), noise=noise)
    machine = Rollout("simulated", RolloutRule(), evidence)
    while machine.mode is not RolloutMode.DIRECT_ONLY:
        machine.step(_ADA)
    return machine


def _demotions(rollouts: int, noisy: int) -> list[Figure]:
    """Counts compared calls from the begin of a fault to the demotion."""
    exact = sorted(_calls_to_demotion(seed, 0.01) for seed in range(rollouts))
    figures = _detected(exact, "a fault of 1 %, exact", DETECTED)
    for fault, noise in ((0.05, 0.0), (0.05, 0.02), (0.1, 0.02)):
        calls = sorted(_calls_to_demotion(seed, fault, noise, 500) for seed in range(noisy // 3))
        figures += _detected(calls, f"{fault:.0%} more on a noise of {noise:.0%}")
    return figures


def _detected(calls: list[int], name: str, limit: int | None = None) -> list[Figure]:
    p95 = calls[int(0.95 * (len(calls) - 1))]
    return [
        Figure(f"{name}: compared calls to demotion, median", f"{median(calls):,.0f}"),
        Figure(
            "  95 of 100",
            f"{p95:,}",
            f"≤ {limit}" if limit else "",
            limit is None or p95 <= limit,
        ),
    ]


def _calls_to_demotion(
    seed: int, fault: float, noise: float | None = None, history: int = 0
) -> int:
    """With a `noise`, even of 0, the reference is taken to be noisy and asked again."""
    draw = random.Random(seed)
    machine = _direct(Tally(100, noise is not None))
    level = noise or 0.0
    for call in range(-history, 100_000):
        more = fault if call >= 0 else 0.0
        again = None if noise is None else draw.random() >= level
        machine.step(Compared(draw.random() >= level + more, again))
        if machine.held_because:
            return max(0, call + 1)
    return 100_000


# A reference with noise: promotion by paired differences.


def _noisy_promotions(rollouts: int) -> list[Figure]:
    """The candidate adds just the margin to a noise of 2 %; and another adds nothing. Rules are
    asked before each call at which it alone differs, when they are nearest to passing."""
    margin = RolloutRule().margin
    wrong = sum(_is_within(seed, margin, margin, 600) < NEVER for seed in range(rollouts))
    needed = sorted(_is_within(seed, 0.0, margin, 4_000) for seed in range(rollouts // 3))
    machine = _noisy_machine(margin)
    return [
        _at_most_percent(FALSE, wrong, rollouts, "1 % more on a noise of 2 % is promoted"),
        Figure("nothing more is promoted after, median", f"{median(needed):,.0f} runs"),
        Figure("the machine promotes it after", f"{machine:,} runs", "≤ 100,000 runs",
               machine < NEVER),
    ]  # fmt: skip


def _is_within(seed: int, more: float, margin: float, events: int, noise: float = 0.02) -> int:
    """Returns the runs after which the candidate is found to be within the margin."""
    draw = random.Random(seed)
    differs = noise * (1 - noise) * 2 + more * (1 - 2 * noise)
    worse_share = (noise + more) * (1 - noise) / ((noise + more) * (1 - noise)
                                                  + noise * (1 - noise - more))  # fmt: skip
    counts = PairedTally()
    for _ in range(events):
        counts = counts.plus(PairedTally(equal=_gap(draw, 1 - differs)))
        is_worse = draw.random() < worse_share
        if is_worse and counts.runs >= MIN_SAMPLE and counts.is_within(margin):
            return counts.runs
        counts = counts.plus(PairedTally(worse=1) if is_worse else PairedTally(better=1))
    return NEVER


def _noisy_machine(margin: float) -> int:
    """Steps the machine itself, whose first promotion needs a margin of 5 % only."""
    draw = random.Random(1)
    machine = Rollout("simulated", RolloutRule(margin=margin), Evidence("v1"))
    while machine.is_calibrating:
        machine.step(ReferenceRepeated(agrees=draw.random() >= 0.02))
    for call in range(100_000):
        if machine.stage == LAST:
            return call
        machine.step(Compared(draw.random() >= 0.02, draw.random() >= 0.02, is_answer=True))
    return NEVER


# A judge that is wrong at times, as often as its known pairs allow.

JUDGE_PAIRS, MISSED, IMAGINED, JUDGED_RUNS = 2_000, 0.004, 0.004, 100_000


def _judged_promotions(rollouts: int) -> list[Figure]:
    """The candidate adds just the margin; the judge misses some of that, and sees differences that
    are none. Its errors are measured anew for each rollout, as they are for a user."""
    margin = 0.02
    wrong = sum(_is_judged_within(seed, margin, margin) < NEVER for seed in range(rollouts))
    needed = sorted(_is_judged_within(seed, 0.0, margin) for seed in range(rollouts // 3))
    return [
        _at_most_percent(FALSE, wrong, rollouts, "2 % more, by a judge with 0.4 % errors"),
        Figure("nothing more is promoted after, median", f"{median(needed):,.0f} runs"),
    ]


def _is_judged_within(seed: int, more: float, margin: float) -> int:
    """Returns the runs after which a judge shows that the candidate is within the margin."""
    draw = random.Random(seed)

    def wrong(rate: float) -> Tally:
        return Tally(JUDGE_PAIRS, sum(draw.random() < rate for _ in range(JUDGE_PAIRS)))

    errors = JudgeTally(same=wrong(IMAGINED), different=wrong(MISSED)).errors(ALPHA / 2)
    try:
        rule = RolloutRule(margin=margin, judge=errors)
    except InvalidRuleError:
        return NEVER
    seen = more * (1 - MISSED) + (1 - more) * IMAGINED
    worse, better = seen * (1 - IMAGINED), IMAGINED * (1 - seen)
    counts = PairedTally()
    while counts.runs < JUDGED_RUNS:
        counts = counts.plus(PairedTally(equal=_gap(draw, 1 - worse - better)))
        is_worse = draw.random() < worse / (worse + better)
        tested = rule.tested_margin(margin)
        if is_worse and counts.runs >= MIN_SAMPLE and counts.is_within(tested, rule.test_alpha):
            return counts.runs
        counts = counts.plus(PairedTally(worse=1) if is_worse else PairedTally(better=1))
    return NEVER


# What a decision costs.


def _speed() -> list[Figure]:
    """Times one event with its decision, the best of several."""
    young, old = _time_of_step(Tally(2_000)), _time_of_step(Tally(1_000_000, 90))
    tally, pairs = Tally(100_000, 3), PairedTally(400, 50_000, 400)
    decisions = {
        "is_above": _best(lambda: tally.is_above(0.9999)),
        "is_within": _best(lambda: pairs.is_within(0.01)),
    }
    return [
        *(
            Figure(f"a decision, {name}", f"{us:.1f} µs", f"≤ {MOST_US:g} µs", us <= MOST_US)
            for name, us in decisions.items()
        ),
        Figure("an event with its decision", f"{old:.1f} µs"),
        Figure("after 1,000,000 events, to after 2,000", f"{old / young:.2f} ×", "≤ 1.5 ×",
               old <= 1.5 * young),
    ]  # fmt: skip


def _time_of_step(counts: Tally) -> float:
    """Neither is enough for the next stage, so that every step decides in full."""
    machine = Rollout("timed", RolloutRule(), Evidence("v1", production=counts), stage=4)
    event = Compared(agrees=True)
    best = _best(lambda: machine.step(event))
    assert machine.stage == 4, "it was promoted, and then there is less to decide"
    return best


def _best(what: Callable[[], object], rounds: int = 7, calls: int = 3_000) -> float:
    times = list[float]()
    for _ in range(rounds):
        began = process_time()
        for _ in range(calls):
            what()
        times.append(process_time() - began)
    return min(times) / calls * 1e6


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
