"""One rollout as a machine: how calls are answered, and when evidence moves traffic (pure).

A rollout has a reference that is trusted and a candidate that shall replace it. It stands on one of
the stages below, and every call asks it for a route.

| stage              | candidate answers     | both are compared | entered above | and after       |
|--------------------|-----------------------|-------------------|---------------|-----------------|
| 0 `reference_only` | no call               | no call           |               |                 |
| 1 `shadow`         | no call               | every call        |               |                 |
| 2 `canary`         | 1 % by their inputs   | every call        | 0.95          |                 |
| 3 `canary`         | 5 % by their inputs   | every call        | 0.95          | 20 answers at 2 |
| 4 `dual_verify`    | all it agrees on      | every call        | 0.999         | 20 answers at 3 |
| 5 `direct_only`    | every call            | 1 % by chance     | 0.9999        |                 |

| event                                           | decision                                       |
|-------------------------------------------------|------------------------------------------------|
| the reference was asked twice                   | none; its noise is known after `calibration`   |
| compared, all that the next stage asks for holds| promote by one stage                           |
| compared, they differ, exact, stage 2 or above  | demote to shadow, held                         |
| compared, the detector alarms, stage 2 or above | demote to shadow, held                         |
| the candidate broke its contract, 2 or above    | demote to shadow, held                         |
| the same, at any stage, or on generated inputs  | none; this version is never promoted to 2 or   |
|                                                 | above again, also by no person                 |
| a person promotes, demotes, stops               | just that                                      |
| the money for comparisons is gone               | none; the status says so until one is made     |
| the candidate had no answer to compare          | none; if that is frequent it is told, and the  |
|                                                 | rollout goes no further until it is over       |

Before the candidate is tried the reference is compared with itself. If it ever differs, or the
comparison is declared to be noisy, disagreement of the candidate is counted beside the reference's
own: thresholds are then on what the candidate adds, and no finer than `margin`. These calls count
for nothing else, so that choosing a test by them does not bend it. Where a judge compares, that is
noisy always, and the judge's own errors are taken off the margin.

A rollout that was demoted is held: nothing expires, so evidence from before the fault would promote
it again at once. A person lets it go on, or a new version of the candidate starts from nothing.
"""

from collections.abc import Iterable
from enum import StrEnum
from math import ceil, log, log1p
from typing import TypeAlias

from msgspec import Struct, structs

from vegakit.contracts.confidence import (
    ALPHA,
    MAX_MARGIN,
    MIN_MARGIN,
    MIN_SAMPLE,
    CallCosts,
    Confidence,
    Evidence,
    FaultDetector,
    InputSource,
    JudgeErrors,
    PairedTally,
    Tally,
    calls_to_alarm,
    check_margin,
    difference_of,
)
from vegakit.errors import InvalidRuleError, UserError
from vegakit.records import digest128


class RolloutMode(StrEnum):
    """The ways to answer a call. Names of earlier documents are taken, too."""

    REFERENCE_ONLY = "reference_only"
    SHADOW = "shadow"
    CANARY = "canary"
    DUAL_VERIFY = "dual_verify"
    DIRECT_ONLY = "direct_only"

    @classmethod
    def _missing_(cls, value: object) -> "RolloutMode | None":
        return _ALIASES.get(str(value))


_ALIASES = {
    "python_only": RolloutMode.REFERENCE_ONLY,
    "shadow_direct": RolloutMode.SHADOW,
    "canary_direct": RolloutMode.CANARY,
}


class RolloutStage(Struct, frozen=True):
    """One row of the first table. `answers` before entering are those of the candidate that a call
    was answered with at the stage before."""

    mode: RolloutMode
    candidate_share: float
    compared_share: float
    threshold: float = 0.0
    answers: int = 0


STAGES = (
    RolloutStage(RolloutMode.REFERENCE_ONLY, 0.0, 0.0),
    RolloutStage(RolloutMode.SHADOW, 0.0, 1.0),
    RolloutStage(RolloutMode.CANARY, 0.01, 1.0, threshold=0.95),
    RolloutStage(RolloutMode.CANARY, 0.05, 1.0, threshold=0.95, answers=20),
    RolloutStage(RolloutMode.DUAL_VERIFY, 1.0, 1.0, threshold=0.999, answers=20),
    RolloutStage(RolloutMode.DIRECT_ONLY, 1.0, 0.01, threshold=0.9999),
)
STOPPED, SHADOW, FIRST_SERVED, LAST = 0, 1, 2, len(STAGES) - 1
RECENT, FREQUENT = 100, 10
"""So many of the last calls without an answer of the candidate are told to people."""
FAULTS = (0.1, 0.01, 0.001, 0.0001)
"""The rates of faults of which people are told how long they stay unseen."""


class RolloutRule(Struct, frozen=True):
    """The rule of a rollout, fixed before it begins. `alpha` is the risk of promoting it above what
    is true of it, `margin` what a candidate may add to a noisy reference, `sample` the share of
    calls that is still compared at the last stage, `calibration` the calls for which the reference
    is compared with itself first. It goes no further than `last`. `judge` is how often the judge
    that compares is wrong, if there is one. A candidate that has no answer after `timeout_s` has
    failed. Of the last `differences`, inputs and answers are kept for people to look at."""

    is_noisy: bool = False
    margin: float = 0.01
    alpha: float = ALPHA
    sample: float = STAGES[LAST].compared_share
    calibration: int = 100
    last: RolloutMode = RolloutMode.DIRECT_ONLY
    judge: JudgeErrors | None = None
    timeout_s: float = 120.0
    differences: int = 5

    def __post_init__(self) -> None:
        check_margin(self.margin)
        is_count = type(self.calibration) is int and self.calibration >= 0
        if not (0 < self.alpha < 0.5 and 0 < self.sample <= 1 and is_count):
            raise InvalidRuleError(
                "a rollout needs an alpha between 0 and 0.5, a sample above 0 up to 1 and a "
                f"calibration of 0 calls or more, a whole number; got {self}"
            )
        if self.judge is not None and self.tested_margin(self.margin) < MIN_MARGIN:
            raise InvalidRuleError(_too_fine(self.margin, self.judge))

    @property
    def is_judged(self) -> bool:
        """Return whether a judge compares, so that a single difference may be its mistake."""
        return self.judge is not None

    @property
    def test_alpha(self) -> float:
        """Return the risk that is left for the test: a judge's errors have the other half."""
        return self.alpha if self.judge is None else self.alpha / 2

    def tested_margin(self, margin: float) -> float:
        """Return what must be shown, so that the candidate truly is within the margin."""
        return margin if self.judge is None else self.judge.tested_margin(margin)


def _too_fine(margin: float, judge: JudgeErrors) -> str:
    finest = judge.finest_margin
    said = (
        f"the judge may call {judge.false_same:.1%} of answers that differ the same, and "
        f"{judge.false_different:.1%} of those that are the same different, so agreement above "
        f"{judge.ceiling:.1%} cannot be shown by it, nor a margin of {margin:g}"
    )
    pairs = "give judge(…) more pairs whose verdict is known, or a better agent"
    if finest > MAX_MARGIN:
        return f"{said}; no margin up to {MAX_MARGIN:g} can: {pairs}"
    return f"{said}; give RolloutRule(margin={ceil(finest * 1000) / 1000:g}) or more, or {pairs}"


# Events: what happened to a rollout.


class ReferenceRepeated(Struct, frozen=True, tag=True):
    """The reference was asked twice before the candidate is tried."""

    agrees: bool
    costs: CallCosts | None = None


class Compared(Struct, frozen=True, tag=True):
    """Both answers to one call were compared. A candidate that failed or broke its contract does
    not agree. `reference_agrees` is known if the reference was asked again; `is_answer`: the caller
    had the candidate's answer. `is_breach`: the candidate broke its contract, which is its own
    fault whatever the reference says, so that no noise excuses it."""

    agrees: bool
    reference_agrees: bool | None = None
    is_answer: bool = False
    source: InputSource = InputSource.PRODUCTION
    costs: CallCosts | None = None
    is_breach: bool = False


class PersonAction(StrEnum):
    """The ways in which a person decides about a rollout."""

    PROMOTE = "promote"
    DEMOTE = "demote"
    STOP = "stop"


class PersonDecided(Struct, frozen=True, tag=True):
    """A person decided, whatever the evidence says. `at` is the stage that they saw: if it has
    moved since, they have decided about something else."""

    action: PersonAction
    who: str
    reason: str = ""
    at: int | None = None


class ComparisonsPaused(Struct, frozen=True, tag=True):
    """Calls are not compared any more, until there is money for it again."""

    reason: str


class CandidateUnavailable(Struct, frozen=True, tag=True):
    """A call was not compared: the provider of the candidate was away, too many comparisons were in
    flight, or the caller gave up. That says nothing of its answers."""

    reason: str


RolloutEvent: TypeAlias = (
    ReferenceRepeated | Compared | PersonDecided | ComparisonsPaused | CandidateUnavailable
)


# Decisions, and routes.


class StageChange(Struct, frozen=True):
    """A decision: traffic moves from one stage to another. It holds already for the next call;
    whoever hosts the rollout keeps it and tells people. `by` is empty if evidence decided."""

    before: int
    after: int
    reason: str
    by: str = ""

    @property
    def is_promotion(self) -> bool:
        """Return whether the candidate is trusted more than before."""
        return self.after > self.before


class NextStage(Struct, frozen=True):
    """Says what is missing to the next stage: so many comparisons if none brings a difference,
    and so many answers of the candidate. With `blocked` no evidence promotes it, and that says
    why."""

    stage: int
    mode: RolloutMode
    threshold: float
    calibration: int = 0
    runs: int = 0
    answers: int = 0
    blocked: str = ""


class DetectionDelay(Struct, frozen=True):
    """After how many calls of the last stage a fault of this rate is found: in 95 of 100 cases if
    the reference is exact, typically if it is noisy. None: it is never found."""

    fault: float
    calls: int | None


class RolloutRoute(Struct, frozen=True):
    """Says how one call is answered. With `is_verified` the comparison is waited for, and the
    reference answers where they differ; otherwise it is made while the caller goes on."""

    mode: RolloutMode
    runs_candidate: bool = False
    answers_by_candidate: bool = False
    is_compared: bool = False
    repeats_reference: bool = False
    performed: tuple[tuple[str, str, str, bool], ...] = ()
    """Tool calls that are done already: name, arguments, what came of it, whether that failed."""

    @property
    def is_verified(self) -> bool:
        """Return whether the caller waits for the comparison."""
        return self.mode is RolloutMode.DUAL_VERIFY

    @property
    def is_verifying(self) -> bool:
        """Return whether more is asked than the one path that answers."""
        return self.is_compared or self.repeats_reference

    @property
    def is_calibrating(self) -> bool:
        """Return whether the reference is asked again to learn of its noise, before any candidate
        is asked."""
        return self.repeats_reference and not self.is_compared

    def uncompared(self) -> "RolloutRoute":
        """Return how the call is answered if nothing can be compared: by the candidate where it
        has come to the last stage, else by the reference."""
        answers = self.answers_by_candidate and self.mode is RolloutMode.DIRECT_ONLY
        return RolloutRoute(self.mode, runs_candidate=answers, answers_by_candidate=answers)

    def by_reference(self, performed: Iterable[tuple[str, str, str, bool]] = ()) -> "RolloutRoute":
        """Return how the call is answered once the candidate has failed it: by the reference, which
        finds done what the candidate did."""
        return RolloutRoute(self.mode, performed=tuple(performed))


class Rollout(Struct):
    """The state of one rollout on one input class."""

    name: str
    rule: RolloutRule
    evidence: Evidence
    stage: int = SHADOW
    answers: int = 0
    """Calls at this stage that the candidate answered and that were compared."""
    detector: FaultDetector | None = None
    held_because: str = ""
    paused_because: str = ""
    """Why calls are not compared at present; empty if they are."""
    unavailable: int = 0
    """Calls that were not compared, since there was no answer of the candidate."""
    recent: Tally = Tally()
    """Of the last calls, up to a hundred: all, and those of them that were not compared."""
    unavailable_because: str = ""
    """What people are told while that is frequent."""

    @property
    def mode(self) -> RolloutMode:
        """Return the mode of its stage."""
        return STAGES[self.stage].mode

    @property
    def is_noisy(self) -> bool:
        """Return whether the reference is taken to disagree with itself."""
        return self.rule.is_noisy or self.rule.is_judged or self.evidence.noise.failures > 0

    @property
    def is_calibrating(self) -> bool:
        """Return whether the noise of the reference is still to be found out."""
        return self.evidence.noise.runs < self.rule.calibration

    @property
    def breach(self) -> str:
        """Return in how many comparisons the candidate broke its contract; empty if in none. Such a
        candidate is never promoted to answer calls: no share of wrong answers is small enough."""
        evidence = self.evidence
        if not evidence.breaches:
            return ""
        runs = evidence.production.runs + evidence.generated.runs
        return f"it broke its contract in {evidence.breaches:,} of {runs:,} comparisons"

    def route(self, inputs: str, call: str, repeating: int = 0) -> RolloutRoute:
        """Route a call by a digest of its inputs and its own id, while so many calibrate it.

        Who is answered by the candidate depends on the inputs, so that asking again is answered by
        the same path, also at a larger share. What is sampled depends on the call: by inputs, a
        fault that strikes those outside of the sample would never be seen."""
        stage = STAGES[self.stage]
        if self.stage == STOPPED:
            return RolloutRoute(stage.mode)
        noise = self.evidence.noise.runs + repeating
        if self.stage == SHADOW and noise < self.rule.calibration:
            return RolloutRoute(stage.mode, repeats_reference=True)
        answers = share_of_hash(self.name, inputs) < stage.candidate_share
        share = self.rule.sample if self.stage == LAST else stage.compared_share
        compared = share_of_hash(self.name, inputs, call) < share
        return RolloutRoute(
            stage.mode,
            runs_candidate=answers or compared,
            answers_by_candidate=answers,
            is_compared=compared,
            repeats_reference=compared and self.is_noisy,
        )

    def step(self, event: RolloutEvent) -> StageChange | None:
        """Take what happened; return the decision, which already holds, or None."""
        match event:
            case ReferenceRepeated(agrees, costs):
                self.paused_because = ""
                own, one = self.evidence, Tally(1, int(not agrees))
                self.evidence = structs.replace(
                    own, noise=own.noise.plus(one), costs=own.costs.plus(costs or CallCosts())
                )
                return None
            case ComparisonsPaused(reason):
                self.paused_because = reason
                return None
            case CandidateUnavailable(reason):
                self.unavailable += 1
                self._note_recent(unavailable=1)
                if self.recent.failures >= FREQUENT:
                    self.unavailable_because = self._told_unavailable(reason)
                return None
            case Compared():
                return self._on_compared(event)
            case PersonDecided():
                return self._on_person(event)

    def _on_compared(self, event: Compared) -> StageChange | None:
        self.paused_because = ""
        self.evidence = self.evidence.with_run(
            event.source,
            agrees=event.agrees,
            reference_agrees=event.reference_agrees,
            costs=event.costs,
            is_breach=event.is_breach,
        )
        if event.source is InputSource.GENERATED or self.stage == STOPPED:
            return None
        self._note_recent()
        self.answers += event.is_answer
        if self.stage >= FIRST_SERVED and (fault := self._fault_in(event)):
            self.held_because = fault
            return self._move(SHADOW, fault)
        return self._promotion()

    def _note_recent(self, unavailable: int = 0) -> None:
        if self.recent.runs >= RECENT:
            if self.recent.failures < FREQUENT:
                self.unavailable_because = ""
            self.recent = Tally()
        self.recent = self.recent.plus(Tally(1, unavailable))

    def _told_unavailable(self, reason: str) -> str:
        missed = self.recent.failures
        return (
            f"{missed} calls had no answer of the candidate to compare, while "
            f"{self.recent.runs - missed} were compared: {reason}"
        )

    def _fault_in(self, event: Compared) -> str:
        """Return why the candidate is demoted; empty if it is not."""
        if event.is_breach:
            return "it broke its contract"
        if not self.is_noisy:
            return "" if event.agrees else "it differed from an exact reference"
        if self.detector is None or event.reference_agrees is None:
            return ""
        difference = difference_of(agrees=event.agrees, reference_agrees=event.reference_agrees)
        if not self.detector.observe(difference):
            return ""
        return f"it adds more than {self.detector.tolerance:.1%} to the reference's own noise"

    def _promotion(self) -> StageChange | None:
        after = self.stage + 1
        if self.breach or self.held_because or after > LAST or self._is_last():
            return None
        # What is not compared is not known: those calls may be the ones that differ.
        if self.unavailable_because:
            return None
        asked = STAGES[after]
        if self.answers < asked.answers or not self.is_shown_above(asked.threshold):
            return None
        what = f"adds at most {self.margin_at(after):.4g}" if self.is_noisy else "agrees above"
        threshold = "" if self.is_noisy else f" {asked.threshold:g}"
        return self._move(after, f"it {what}{threshold}, after {self._sample():,} runs")

    def is_shown_above(self, threshold: float, more: int = 0) -> bool:
        """Return whether the evidence, at every look so far taken together, shows that much; or
        would, after so many more calls without a difference."""
        if self._sample() + more < MIN_SAMPLE:
            return False
        evidence = self.evidence
        if more:
            clean = Evidence(
                evidence.version,
                evidence.input_class,
                production=Tally(more),
                pairs=PairedTally(equal=more),
            )
            evidence = evidence.plus(clean)
        return is_shown(self.rule, threshold, evidence, is_noisy=self.is_noisy)

    def shown(self) -> Confidence | None:
        """Return the figures for people; None while there are too few runs to show any."""
        return self.evidence.shown(self.rule.test_alpha, self.rule.judge)

    def next_stage(self) -> NextStage | None:
        """Return what is missing to the next stage; None at the last one that its rule allows."""
        after = self.stage + 1
        if after > LAST or self._is_last():
            return None
        asked = STAGES[after]
        breach = self.breach if after >= FIRST_SERVED else ""
        why = breach or self.held_because or self.unavailable_because
        if why or self.stage == STOPPED:
            why = why or "it is stopped"
            return NextStage(after, asked.mode, asked.threshold, blocked=why)
        is_first = self.stage == SHADOW
        left = max(0, self.rule.calibration - self.evidence.noise.runs) if is_first else 0
        runs, answers = self._runs_to(asked.threshold), max(0, asked.answers - self.answers)
        return NextStage(after, asked.mode, asked.threshold, left, runs, answers)

    def _runs_to(self, threshold: float) -> int:
        """Return the number of calls without a difference after which the threshold is passed."""
        if self.is_shown_above(threshold):
            return 0
        low, high = 0, MIN_SAMPLE
        while not self.is_shown_above(threshold, high):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.is_shown_above(threshold, middle) else (middle, high)
        return high

    def detection(self) -> tuple[DetectionDelay, ...]:
        """Return how long faults of several rates stay unseen at the last stage, by the share of
        calls that its rule compares there."""
        return tuple(DetectionDelay(fault, self._calls_to_detection(fault)) for fault in FAULTS)

    def _calls_to_detection(self, fault: float) -> int | None:
        if not self.is_noisy:
            return calls_to_detection(fault, self.rule.sample)
        compared = calls_to_alarm(fault, self.rule.tested_margin(self.margin_at(LAST)))
        return None if compared is None else ceil(compared / self.rule.sample)

    def _sample(self) -> int:
        return self.evidence.pairs.runs if self.is_noisy else self.evidence.production.runs

    def margin_at(self, stage: int) -> float:
        """Return what a candidate may add to a noisy reference before this stage, and at it."""
        return max(1.0 - STAGES[stage].threshold, self.rule.margin)

    def _is_last(self) -> bool:
        """A mode of two stages is the last one at its second."""
        return self.mode is self.rule.last and STAGES[self.stage + 1].mode is not self.rule.last

    def _on_person(self, event: PersonDecided) -> StageChange | None:
        if event.at is not None and event.at != self.stage:
            raise UserError(
                f"{self.name} has moved from {STAGES[event.at].mode} to {self.mode} meanwhile, so "
                "nothing was decided; look at it again"
            )
        reason = event.reason or f"{event.who} decided so"
        if event.action is PersonAction.PROMOTE:
            if self.stage == LAST:
                raise UserError(
                    f"{self.name} is at {self.mode} already, the last stage; there is nothing to "
                    "promote it to: demote it to take traffic back"
                )
            if self.breach and self.stage + 1 >= FIRST_SERVED:
                raise UserError(
                    f"{self.name} stays at {self.mode}: {self.breach}, and at the next stage it "
                    "would answer calls; change the candidate, which starts again as another "
                    "version, without this evidence; to see the inputs, type: vega rollout status "
                    f"{self.name}"
                )
            self.held_because = ""
            return self._move(self.stage + 1, reason, event.who)
        if self.stage == STOPPED:
            raise UserError(
                f"{self.name} is stopped already, and the reference answers; promote it to start "
                "it again in the shadow"
            )
        # Held, or the evidence would promote it again at the next call.
        self.held_because = reason
        after = STOPPED if event.action is PersonAction.STOP else self.stage - 1
        return self._move(after, reason, event.who)

    def _move(self, after: int, reason: str, by: str = "") -> StageChange:
        change = StageChange(self.stage, after, reason, by)
        self.stage, self.answers = after, 0
        # A detector looks for what this stage does not tolerate, from its first call on.
        self.detector = None
        if after >= FIRST_SERVED:
            self.detector = FaultDetector(self.rule.tested_margin(self.margin_at(after)))
        return change


def is_shown(rule: RolloutRule, threshold: float, evidence: Evidence, *, is_noisy: bool) -> bool:
    """Return whether evidence shows that much; it asks nothing of the size of the sample."""
    if not is_noisy:
        return evidence.production.is_above(threshold, rule.test_alpha)
    margin = rule.tested_margin(max(1.0 - threshold, rule.margin))
    return evidence.pairs.is_within(margin, rule.test_alpha)


def share_of_hash(*words: str) -> float:
    """Return a number from 0 up to 1 that depends on the words alone, in every process."""
    return int(digest128(words), 16) / (1 << 128)


def calls_to_detection(fault: float, sample: float, quantile: float = 0.95) -> int:
    """Return after how many calls an exact comparison has found a fault of this rate, if this share
    of calls is compared: what a person should know before the last promotion."""
    return ceil(log(1.0 - quantile) / log1p(-fault * sample))


def clean_runs(rule: RolloutRule, threshold: float, *, is_noisy: bool) -> int:
    """Return after how many comparisons without any difference a threshold is shown."""

    def shows(runs: int) -> bool:
        clean = Evidence("", production=Tally(runs), pairs=PairedTally(equal=runs))
        return is_shown(rule, threshold, clean, is_noisy=is_noisy)

    low, high = MIN_SAMPLE, MIN_SAMPLE
    while not shows(high):
        low, high = high + 1, 2 * high
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if shows(middle) else (middle + 1, high)
    return low


def calls_to_stages(rule: RolloutRule, *, is_noisy: bool) -> tuple[int, ...]:
    """Return after how many calls each stage is entered from the shadow on, up to the last one of
    the rule, if all of them agree. Answers of the candidate that a stage asks for come by chance:
    as many calls as it takes on average."""
    runs, entered = 0, [0]
    for before, stage in zip(STAGES[SHADOW:], STAGES[FIRST_SERVED:], strict=False):
        if before.mode is rule.last and stage.mode is not rule.last:
            break
        answers = ceil(stage.answers / before.candidate_share) if stage.answers else 1
        runs = max(clean_runs(rule, stage.threshold, is_noisy=is_noisy), runs + answers)
        entered.append(rule.calibration + runs)
    return tuple(entered)
