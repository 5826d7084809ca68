"""The machine of a rollout: stages, routes, promotion by evidence, demotion, and people."""

from collections import Counter

import pytest
from hypothesis import given, strategies as st
from msgspec import structs

from vegakit.contracts import (
    STAGES,
    CallCosts,
    Compared,
    ComparisonsPaused,
    Evidence,
    InputSource,
    JudgeErrors,
    PathCost,
    PersonAction,
    PersonDecided,
    ReferenceRepeated,
    Rollout,
    RolloutMode,
    RolloutRule,
    StageChange,
    Tally,
    calls_to_detection,
    calls_to_stages,
    clean_runs,
)
from vegakit.errors import InvalidRuleError, UserError
from vegakit.records import from_json, to_json

AGREED, ANSWERED = Compared(agrees=True), Compared(agrees=True, is_answer=True)
DIFFERED = Compared(agrees=False)
BROKE = Compared(agrees=False, is_breach=True)


def rollout(rule: RolloutRule | None = None, stage: int = 1, runs: int = 0) -> Rollout:
    """One whose reference was found to agree with itself."""
    evidence = Evidence("v1", production=Tally(runs), noise=Tally(100))
    return Rollout("prices", rule or RolloutRule(), evidence, stage)


def play(machine: Rollout, event: Compared, most: int = 200_000) -> StageChange:
    for _ in range(most):
        if change := machine.step(event):
            return change
    raise AssertionError(f"nothing was decided in {most} calls")


def person(action: PersonAction) -> PersonDecided:
    return PersonDecided(action, "ada", "I looked at it")


def test_names_of_earlier_documents_are_taken() -> None:
    """They are other names of the same modes."""
    assert RolloutMode("python_only") is RolloutMode.REFERENCE_ONLY
    assert RolloutMode("shadow_direct") is RolloutMode.SHADOW
    assert RolloutMode("canary_direct") is RolloutMode.CANARY
    with pytest.raises(ValueError, match="is not a valid RolloutMode"):
        RolloutMode("hope")


def test_a_clean_candidate_climbs_every_stage() -> None:
    """At the least sample, after 20 answers at each share, and where the bound passes."""
    machine, seen = rollout(), list[tuple[RolloutMode, int]]()
    while machine.mode is not RolloutMode.DIRECT_ONLY:
        change = play(machine, AGREED if machine.stage == 1 else ANSWERED)
        assert change.is_promotion
        seen.append((machine.mode, machine.evidence.production.runs))
    assert seen == [
        (RolloutMode.CANARY, 1_000),
        (RolloutMode.CANARY, 1_020),
        (RolloutMode.DUAL_VERIFY, 8_808),
        (RolloutMode.DIRECT_ONLY, 100_171),
    ]


def test_a_canary_that_answered_nobody_is_not_promoted() -> None:
    """Agreement in the shadow says nothing of answers that were used."""
    machine = rollout(stage=2, runs=50_000)
    assert [machine.step(AGREED) for _ in range(1_000)] == [None] * 1_000


@pytest.mark.parametrize("stage", range(2, len(STAGES)))
def test_the_first_difference_demotes(stage: int) -> None:
    """Of an exact comparison, at every stage where the candidate answers."""
    machine = rollout(stage=stage, runs=5_000_000)
    change = machine.step(DIFFERED)
    assert change == StageChange(stage, 1, "it differed from an exact reference")
    assert not machine.route("a", "1").answers_by_candidate


def test_what_was_demoted_is_held() -> None:
    """Its evidence would promote it again, so a person decides."""
    machine = rollout(stage=5, runs=5_000_000)
    machine.step(DIFFERED)
    assert machine.step(AGREED) is None
    assert machine.held_because == "it differed from an exact reference"
    assert machine.step(person(PersonAction.PROMOTE)) == StageChange(1, 2, "I looked at it", "ada")
    assert machine.held_because == ""


def test_a_difference_in_the_shadow_is_only_counted() -> None:
    """Nobody was answered by it; it never expires."""
    machine = rollout()
    assert machine.step(DIFFERED) is None
    assert machine.evidence.production == Tally(1, 1)


PAIRED = Compared(agrees=True, reference_agrees=True)


@pytest.mark.parametrize(("rule", "clean"), [(None, AGREED), (RolloutRule(is_noisy=True), PAIRED)])
@pytest.mark.parametrize("source", InputSource)
def test_no_evidence_promotes_what_broke_its_contract(
    rule: RolloutRule | None, clean: Compared, source: InputSource
) -> None:
    """Once in the shadow is enough, also beside a noisy reference and on a generated input."""
    machine = rollout(rule)
    assert machine.step(structs.replace(BROKE, source=source)) is None
    assert [machine.step(clean) for _ in range(9_999)] == [None] * 9_999
    assert machine.is_shown_above(0.95)
    wanted = machine.next_stage()
    assert wanted is not None
    assert wanted.blocked == "it broke its contract in 1 of 10,000 comparisons"


@pytest.mark.parametrize("stage", range(1, 5))
def test_nobody_promotes_what_broke_its_contract(stage: int) -> None:
    """It would answer calls; in the shadow, from where it was stopped, it answers none."""
    machine = rollout(stage=stage)
    machine.step(BROKE)
    assert machine.stage == 1
    with pytest.raises(UserError, match="stays at shadow: it broke its contract in 1 of 1 comp"):
        machine.step(person(PersonAction.PROMOTE))
    machine.step(person(PersonAction.STOP))
    assert machine.step(person(PersonAction.PROMOTE)) == StageChange(0, 1, "I looked at it", "ada")
    with pytest.raises(UserError, match="type: vega rollout status prices"):
        machine.step(person(PersonAction.PROMOTE))


def test_generated_inputs_move_no_traffic() -> None:
    """They are shown beside it."""
    machine = rollout(stage=2, runs=5_000)
    assert machine.step(Compared(agrees=False, source=InputSource.GENERATED)) is None
    assert (machine.mode, machine.evidence.generated) == (RolloutMode.CANARY, Tally(1, 1))


def test_the_reference_is_compared_with_itself_first() -> None:
    """For 100 calls the candidate is not run at all."""
    machine = Rollout("prices", RolloutRule(), Evidence("v1"))
    for _ in range(100):
        route = machine.route("a", "1")
        assert (route.runs_candidate, route.repeats_reference) == (False, True)
        assert machine.step(ReferenceRepeated(agrees=True)) is None
    assert machine.route("a", "1").runs_candidate
    assert not machine.is_noisy


def noisy(stage: int) -> Rollout:
    machine = rollout(stage=1)
    machine.step(ReferenceRepeated(agrees=False))
    while machine.stage < stage:
        machine.step(person(PersonAction.PROMOTE))
    return machine


def test_a_noisy_reference_is_asked_again_at_every_comparison() -> None:
    """Only so one knows what the candidate adds."""
    assert noisy(1).route("a", "1").repeats_reference


def test_a_candidate_is_not_blamed_for_noise() -> None:
    """It differs in every fiftieth call, and so does the reference from itself: no demotion."""
    machine = noisy(4)
    for call in range(20_000):
        event = Compared(agrees=call % 50 != 0, reference_agrees=call % 50 != 25)
        assert machine.step(event) is None or machine.stage == 5
    assert machine.stage == 5


def test_a_candidate_that_becomes_worse_is_demoted() -> None:
    """After it was as good as its reference for long."""
    machine = noisy(5)
    for _ in range(20_000):
        machine.step(Compared(agrees=True, reference_agrees=True))
    calls = 0
    while machine.stage == 5:
        calls += 1
        machine.step(Compared(agrees=calls % 5 != 0, reference_agrees=True))
    assert (machine.stage, machine.held_because[:20]) == (1, "it adds more than 1.0%"[:20])
    assert calls <= 100


def test_the_share_of_answers_is_that_of_the_stage() -> None:
    """1 % and 5 % by the inputs; who was answered by the candidate at 1 % is at 5 %, too."""
    few, more = rollout(stage=2), rollout(stage=3)
    first = {n for n in range(20_000) if few.route(f"{n}", "1").answers_by_candidate}
    second = {n for n in range(20_000) if more.route(f"{n}", "1").answers_by_candidate}
    assert first < second
    assert 140 <= len(first) <= 260
    assert 870 <= len(second) <= 1_130


def test_the_same_inputs_take_the_same_path() -> None:
    """Whichever call it is; another rollout chooses others."""
    machine = rollout(stage=3)
    inputs = [f"{n}" for n in range(2_000)]
    chosen = [each for each in inputs if machine.route(each, "1").answers_by_candidate]
    assert chosen == [each for each in inputs if machine.route(each, "2").answers_by_candidate]
    machine.name = "names"
    assert chosen != [each for each in inputs if machine.route(each, "1").answers_by_candidate]


def test_the_sample_is_of_calls_and_not_of_inputs() -> None:
    """So that a fault on one input is met, if it is asked often enough."""
    machine = rollout(stage=5)
    compared = Counter(machine.route("one", f"{n}").is_compared for n in range(20_000))
    assert 140 <= compared[True] <= 260


def test_dual_verification_waits_and_others_do_not() -> None:
    """There the caller has no answer before they agree."""
    routes = [rollout(stage=stage).route("a", "1") for stage in range(len(STAGES))]
    assert [route.is_verified for route in routes] == [False] * 4 + [True, False]
    assert [route.is_compared for route in routes[:5]] == [False, True, True, True, True]


def test_people_stop_and_start_again() -> None:
    """Stopped, the reference answers and nothing is compared."""
    machine = rollout(stage=4, runs=1_000_000)
    assert machine.step(person(PersonAction.DEMOTE)) == StageChange(4, 3, "I looked at it", "ada")
    assert machine.step(ANSWERED) is None, "held"
    machine.step(person(PersonAction.STOP))
    assert not machine.route("a", "1").runs_candidate
    with pytest.raises(UserError, match="promote it to start it again"):
        machine.step(person(PersonAction.STOP))
    machine.step(person(PersonAction.PROMOTE))
    assert machine.mode is RolloutMode.SHADOW


def test_there_is_nothing_above_the_last_stage() -> None:
    """The message says what else to type."""
    with pytest.raises(UserError, match="demote it to take traffic back"):
        rollout(stage=5).step(person(PersonAction.PROMOTE))


@pytest.mark.parametrize("last", [RolloutMode.SHADOW, RolloutMode.CANARY, RolloutMode.DUAL_VERIFY])
def test_a_rollout_goes_no_further_than_it_may(last: RolloutMode) -> None:
    """A team may keep verifying for ever."""
    machine = rollout(RolloutRule(last=last), runs=10_000_000)
    for _ in range(200):
        machine.step(ANSWERED)
    assert machine.mode is last
    assert machine.stage + 1 == len(STAGES) or STAGES[machine.stage + 1].mode is not last


@pytest.mark.parametrize("wrong", [{"alpha": 0}, {"sample": 0}, {"calibration": -1}, {"margin": 1}])
def test_a_rule_that_cannot_hold_is_refused(wrong: dict[str, float]) -> None:
    """Before the rollout begins."""
    with pytest.raises(InvalidRuleError):
        RolloutRule(**wrong)  # pyright: ignore[reportArgumentType]


def test_a_person_is_told_how_long_a_fault_may_stay() -> None:
    """A fault of 1 % is met within 298 compared calls, and 1 % of all calls are compared."""
    assert calls_to_detection(0.01, 1.0) == 299
    assert calls_to_detection(0.01, 0.01) == 29_956


@pytest.mark.parametrize(
    ("stage", "runs", "missing"),
    [(1, 0, 1_000), (1, 400, 600), (3, 8_000, 808), (4, 99_000, 1_171)],
)
def test_a_person_is_told_what_is_missing(stage: int, runs: int, missing: int) -> None:
    """So many calls without a difference promote it, and not one less."""
    machine = rollout(stage=stage, runs=runs)
    machine.answers = 20
    wanted = machine.next_stage()
    assert wanted is not None
    assert (wanted.stage, wanted.runs, wanted.answers, wanted.blocked) == (
        stage + 1,
        missing,
        0,
        "",
    )
    assert not [change for _ in range(missing - 1) if (change := machine.step(AGREED))]
    change = machine.step(AGREED)
    assert change is not None
    assert change.after == stage + 1


def test_calibration_and_answers_are_missing_too() -> None:
    """The reference is compared with itself first, and a canary has to have answered."""
    fresh = Rollout("r", RolloutRule(calibration=30), Evidence("v1", noise=Tally(10)))
    wanted = fresh.next_stage()
    assert wanted is not None
    assert (wanted.calibration, wanted.answers) == (20, 0)
    wanted = rollout(stage=2, runs=5_000).next_stage()
    assert wanted is not None
    assert (wanted.calibration, wanted.runs, wanted.answers) == (0, 0, 20)


def test_a_failure_makes_it_longer_and_noise_has_its_own_count() -> None:
    """Failures never expire; of a noisy reference the calls that were compared three ways count."""
    clean, failed = rollout(runs=5_000), rollout(runs=5_000)
    failed.evidence = failed.evidence.plus(Evidence("v1", production=Tally(1, 1)))
    clean.stage = failed.stage = 3
    ways = [one.next_stage() for one in (clean, failed)]
    assert ways[0] is not None
    assert ways[1] is not None
    assert ways[0].runs < ways[1].runs
    noisy = rollout(RolloutRule(is_noisy=True), runs=5_000)
    wanted = noisy.next_stage()
    assert wanted is not None
    paired = Compared(agrees=True, reference_agrees=True)
    assert not [change for _ in range(wanted.runs - 1) if (change := noisy.step(paired))]
    assert noisy.step(paired) is not None


def test_nothing_is_missing_where_no_evidence_promotes() -> None:
    """At the last stage, at the last of its rule, and while a person has to let it go on."""
    assert rollout(stage=5).next_stage() is None
    assert rollout(RolloutRule(last=RolloutMode.SHADOW)).next_stage() is None
    machine = rollout(stage=3)
    machine.step(DIFFERED)
    held = machine.next_stage()
    assert held is not None
    assert held.blocked == "it differed from an exact reference"
    machine.step(person(PersonAction.STOP))
    assert machine.next_stage() is not None


def test_a_decision_about_another_stage_is_refused() -> None:
    """Evidence promoted it while a person looked: what they saw is not what they would promote."""
    machine = rollout(stage=4)
    with pytest.raises(UserError, match="moved from canary to dual_verify meanwhile"):
        machine.step(PersonDecided(PersonAction.PROMOTE, "ada", at=3))
    assert machine.stage == 4
    assert machine.step(PersonDecided(PersonAction.PROMOTE, "ada", at=4)) is not None


def test_detection_is_told_by_the_share_that_is_compared() -> None:
    """With an exact reference the first difference shows it; a noisy one needs more of them."""
    exact, noisy = rollout(), rollout(RolloutRule(is_noisy=True, sample=1.0))
    assert {each.fault: each.calls for each in exact.detection()}[0.01] == 29_956
    often, _, seldom, _ = noisy.detection()
    assert often.calls is not None
    assert 100 < often.calls < 1_000
    assert seldom.calls is None, "what is tolerated is never found"


EVENTS = (
    st.builds(Compared, st.booleans(), st.none() | st.booleans(), st.booleans())
    | st.builds(ReferenceRepeated, st.booleans())
    | st.sampled_from(InputSource).map(lambda source: structs.replace(BROKE, source=source))
)


@given(st.lists(EVENTS, max_size=60), st.integers(1, 5))
def test_it_goes_on_from_json_at_any_step(events: list[Compared], stage: int) -> None:
    """With the same decisions and the same state."""
    whole, stored = (rollout(stage=stage, runs=900) for _ in range(2))
    for event in events:
        decision = whole.step(event)
        stored = from_json(Rollout, to_json(stored))
        assert stored.step(event) == decision
    assert stored == whole


@given(st.lists(EVENTS, max_size=60), st.integers(1, 5))
def test_evidence_promotes_by_one_and_demotes_to_the_shadow(
    events: list[Compared | ReferenceRepeated], stage: int
) -> None:
    """Nothing else is ever decided without a person; after a breach nothing promotes it."""
    machine, is_broken = rollout(stage=stage, runs=200_000), False
    for event in events:
        is_broken |= isinstance(event, Compared) and event.is_breach
        if change := machine.step(event):
            assert not (is_broken and change.is_promotion)
            assert change.after in (change.before + 1, 1)
            assert bool(machine.held_because) != change.is_promotion


# Judges, quotes and pauses.

JUDGED = RolloutRule(judge=JudgeErrors(0.005, 0.01), margin=0.02)


def test_a_judge_that_cannot_show_the_margin_is_refused() -> None:
    """With what it can show, and what else to give."""
    with pytest.raises(InvalidRuleError, match=r"above 98.2% cannot.*margin=0.02\) or more"):
        RolloutRule(judge=JudgeErrors(0.018, 0.018), margin=0.01)
    with pytest.raises(InvalidRuleError, match=r"no margin up to 0.1 can: give judge"):
        RolloutRule(judge=JudgeErrors(1.0, 1.0))


def test_a_difference_may_be_the_judges_mistake() -> None:
    """So it demotes nobody by itself, and the reference is asked again from the first call on."""
    machine = rollout(JUDGED, stage=4)
    assert machine.route("a", "b").repeats_reference
    assert machine.step(Compared(agrees=False, reference_agrees=True)) is None


def test_a_judge_makes_the_test_harder() -> None:
    """The margin is less by its errors, and half of the risk is theirs."""
    plain = clean_runs(RolloutRule(margin=0.005), 0.999, is_noisy=True)
    judged = clean_runs(
        RolloutRule(margin=0.005, judge=JudgeErrors(0.003, 0.1)), 0.999, is_noisy=True
    )
    assert judged > 3 * plain


def test_so_many_clean_runs_are_quoted() -> None:
    """Those at which the machine promotes."""
    rule = RolloutRule()
    assert [clean_runs(rule, t, is_noisy=False) for t in (0.95, 0.999, 0.9999)] == [
        1_000,
        8_808,
        100_171,
    ]
    assert calls_to_stages(rule, is_noisy=False) == (0, 1_100, 3_100, 8_908, 100_271)
    assert calls_to_stages(rule, is_noisy=True) == (0, 1_100, 3_100, 3_500, 3_501)
    assert len(calls_to_stages(RolloutRule(last=RolloutMode.CANARY), is_noisy=False)) == 3


def test_the_machine_promotes_where_it_was_quoted() -> None:
    """Of a noisy reference, if all answers agree and every hundredth is the candidate's."""
    machine, entered = rollout(JUDGED), [0]
    shares = {1: 0, 2: 100, 3: 20, 4: 1}
    for call in range(1, 10_000):
        every = shares[machine.stage]
        answer = bool(every) and (call - entered[-1]) % every == 0
        if machine.step(Compared(True, True, is_answer=answer)):
            entered.append(call)
        if machine.mode is RolloutMode.DIRECT_ONLY:
            break
    quoted = calls_to_stages(JUDGED, is_noisy=True)
    assert entered == [max(0, calls - JUDGED.calibration) for calls in quoted]


@pytest.mark.parametrize("stage", range(6))
def test_without_comparisons_only_the_last_stage_trusts_the_candidate(stage: int) -> None:
    """Elsewhere nobody would see what it does."""
    machine = rollout(RolloutRule(sample=1.0), stage)
    for number in range(300):
        plain = machine.route(str(number), "call").uncompared()
        assert not plain.is_verifying
        assert plain.answers_by_candidate is plain.runs_candidate is (stage == 5)


def test_a_pause_is_told_until_a_call_is_compared() -> None:
    """It decides nothing by itself."""
    for event in (AGREED, ReferenceRepeated(agrees=True)):
        machine = rollout()
        assert machine.step(ComparisonsPaused("no money")) is None
        assert machine.paused_because == "no money"
        machine.step(event)
        assert not machine.paused_because


def test_costs_are_added_up() -> None:
    """Of the reference also where it is compared with itself."""
    machine, one = rollout(), CallCosts(PathCost(1, 30), PathCost(1, 3), PathCost(2, 8))
    machine.step(Compared(agrees=True, costs=one))
    machine.step(ReferenceRepeated(agrees=True, costs=CallCosts(reference=PathCost(2, 60))))
    machine.step(Compared(agrees=True, source=InputSource.GENERATED, costs=one))
    costs = machine.evidence.costs
    assert (costs.reference, costs.candidate) == (PathCost(4, 120), PathCost(2, 6))
    assert (costs.judge.mean, PathCost().mean) == (4, None)
