"""The session's table, row by row."""

import msgspec
import pytest

from vegakit.errors import InvalidRuleError
from vegakit.ids import InterruptId
from vegakit.policy import (
    Condition,
    Consequence,
    Declined,
    Instruction,
    InterruptKind,
    Join,
    Pipeline,
    PipelineBounds,
    PipelineSession,
    Replied,
    ReportRefusal,
    Resume,
    RoutingRule,
    RunAgent,
    Stage,
    StageAsked,
    StageCompleted,
    StageFailed,
    StageFailure,
    StageTask,
    TakeErrorNext,
    TaskId,
    TerminalReason,
    Terminate,
    WaitForInterrupts,
    WaitForTasks,
    begin_session,
)
from vegakit.records import from_json, to_json

LEASE_MS = 100
DONE = StageCompleted()
TOOL_FAILED = StageFailed(StageFailure.TOOL_FAILED)
COMPLETED = Terminate(TerminalReason.COMPLETED)
Q = InterruptId("q")


def stage(name: str, default_next: str | None = None, **more: object) -> Stage:
    return msgspec.convert(
        {"name": name, "agent": f"{name}-agent", "default_next": default_next, **more}, Stage
    )


def begin(*stages: Stage, start: tuple[str, ...] = (), **bounds: object) -> PipelineSession:
    limits = msgspec.convert(bounds, PipelineBounds)
    return begin_session(Pipeline(stages, start=start, bounds=limits, lease_ms=LEASE_MS))


def issued(instruction: Instruction) -> list[StageTask]:
    assert isinstance(instruction, RunAgent)
    return list(instruction.tasks)


def only(instruction: Instruction) -> StageTask:
    (task,) = issued(instruction)
    return task


def names(instruction: Instruction) -> list[str]:
    return [task.stage for task in issued(instruction)]


def complete(session: PipelineSession, now: int = 0, output: object = None) -> None:
    """Completes every task that is ready."""
    for task in issued(session.next_instruction(now)):
        assert session.report(task.id, StageCompleted(output), now) is None


def ask(session: PipelineSession, kind: InterruptKind = InterruptKind.CLARIFICATION) -> None:
    task = only(session.next_instruction(0))
    assert session.report(task.id, StageAsked(Q, kind), 0) is None


def test_a_task_says_all_a_worker_needs() -> None:
    """Stage, agent, iteration, attempt, lease, time limit, tools and calls left."""
    session = begin(stage("a", timeout_ms=500, tools=["read"]), max_llm_calls=9)
    assert only(session.next_instruction(7)) == StageTask(
        TaskId("a#1"),
        "a",
        "a-agent",
        iteration=1,
        attempt=1,
        lease_until_ms=7 + LEASE_MS,
        deadline_ms=507,
        tools=("read",),
        llm_calls_left=9,
    )


def test_stages_follow_each_other_and_the_last_completes() -> None:
    """No default_next and no rule that fires: nothing is left to do."""
    session = begin(stage("a", "b"), stage("b"))
    complete(session)
    assert session.taken == {"a->b": 1}
    assert names(session.next_instruction(0)) == ["b"]
    assert session.report(TaskId("b#2"), DONE, 0) is None
    assert session.next_instruction(0) == COMPLETED
    assert session.next_instruction(1) == COMPLETED
    assert session.ended == COMPLETED


def test_output_decides_the_route() -> None:
    """The first rule that holds, before the default."""
    rule = RoutingRule("c", Condition.EQUALS, "verdict", "bad")
    stages = (Stage("a", "x", routing=(rule,), default_next="b"), stage("b"), stage("c"))
    for output, target in (({"verdict": "bad"}, "c"), ({"verdict": "ok"}, "b")):
        session = begin(*stages)
        complete(session, output=output)
        assert names(session.next_instruction(0)) == [target]


def test_parallel_stages_are_issued_together() -> None:
    """In the order of the pipeline; when all are taken the next asker waits for a lease to end."""
    session = begin(stage("a"), stage("c", requires=["a"]), stage("b", requires=["a"]))
    complete(session)
    assert names(session.next_instruction(5)) == ["c", "b"]
    assert session.next_instruction(6) == WaitForTasks(5 + LEASE_MS)


def test_join_all_waits_for_every_one() -> None:
    """The joined stage runs once, after the last."""
    session = begin(stage("a"), stage("b"), stage("c", requires=["a", "b"]), start=("a", "b"))
    first, second = issued(session.next_instruction(0))
    session.report(second.id, DONE, 1)
    assert isinstance(session.next_instruction(1), WaitForTasks)
    session.report(first.id, DONE, 2)
    assert names(session.next_instruction(2)) == ["c"]
    assert session.report(TaskId("c#3"), DONE, 2) is None
    assert session.next_instruction(2) == COMPLETED


def test_join_any_runs_at_the_first_and_ignores_the_late() -> None:
    """The late one runs to its end and calls nobody a second time."""
    joined = stage("c", requires=["a", "b"], join="any")
    session = begin(stage("a"), stage("b"), joined, start=("a", "b"))
    first, second = issued(session.next_instruction(0))
    session.report(second.id, DONE, 1)
    complete(session, 1)
    assert isinstance(session.next_instruction(1), WaitForTasks)
    session.report(first.id, DONE, 2)
    assert session.next_instruction(2) == COMPLETED
    assert session.places["c"].runs == 1


@pytest.mark.parametrize("join", [Join.ALL, Join.ANY])
def test_the_second_round_joins_again(join: Join) -> None:
    """The n-th joined run needs the n-th completions."""
    loop = RoutingRule("a", Condition.EQUALS, "", "again")
    session = begin(
        stage("a"),
        stage("b", requires=["a"]),
        stage("c", requires=["a"]),
        Stage("d", "x", requires=("b", "c"), join=join, routing=(loop,)),
        max_iterations=2,
    )
    complete(session)
    complete(session)
    complete(session, output="again")
    complete(session)
    assert [session.places[name].runs for name in "abcd"] == [2, 1, 1, 1]
    complete(session)
    complete(session)
    assert session.places["d"].runs == 2
    assert session.next_instruction(0) == COMPLETED


def test_a_join_whose_branch_was_not_taken_does_not_run() -> None:
    """Nothing is left that could call it, so the session is complete."""
    rule = RoutingRule("b", Condition.EQUALS, "", "b")
    session = begin(Stage("a", "x", routing=(rule,)), stage("b"), stage("c", requires=["a", "b"]))
    complete(session, output="not b")
    assert session.next_instruction(0) == COMPLETED


def test_after_waits_for_what_is_in_play_only() -> None:
    """A stage named in after is waited for when it runs, is owed or paused, and else not."""
    session = begin(
        stage("a", after=["b"]),
        stage("b", after=["c"]),
        stage("c"),
        stage("d", "c"),
        start=("a", "b", "d"),
        max_iterations=1,
    )
    assert names(session.next_instruction(0)) == ["b", "d"]
    session.report(TaskId("b#1"), StageAsked(Q, InterruptKind.CLARIFICATION), 0)
    assert isinstance(session.next_instruction(0), WaitForTasks)
    session.report(TaskId("d#2"), DONE, 0)
    assert names(session.next_instruction(0)) == ["c"]
    session.on_interrupt_settled(Q, Resume(Replied()))
    assert isinstance(session.next_instruction(0), WaitForTasks)
    session.report(TaskId("c#3"), DONE, 0)
    assert names(session.next_instruction(0)) == ["b"]
    session.report(TaskId("b#4"), DONE, 0)
    assert names(session.next_instruction(0)) == ["a"]


def test_each_call_is_a_run() -> None:
    """Two branches that lead to one stage run it twice, one after the other."""
    session = begin(stage("a", "c"), stage("b", "c"), stage("c"), start=("a", "b"))
    complete(session)
    first = only(session.next_instruction(0))
    assert first.iteration == 1
    assert isinstance(session.next_instruction(0), WaitForTasks)
    session.report(first.id, DONE, 0)
    assert only(session.next_instruction(0)).iteration == 2


def test_a_failed_run_is_tried_again_then_takes_error_next() -> None:
    """Retries are attempts of one iteration; each failure counts, also in the last."""
    session = begin(stage("a", error_next="b", retries=1), stage("b"))
    task = only(session.next_instruction(0))
    session.report(task.id, TOOL_FAILED, 0)
    again = only(session.next_instruction(0))
    assert (again.id, again.iteration, again.attempt) == ("a#2", 1, 2)
    session.report(again.id, TOOL_FAILED, 0)
    assert session.taken == {"a->b": 1}
    assert names(session.next_instruction(0)) == ["b"]


def test_a_new_run_has_all_its_retries() -> None:
    """Failures of an earlier run are forgotten."""
    session = begin(stage("a", "a", retries=1), max_iterations=2)
    for attempt in (1, 2):
        task = only(session.next_instruction(0))
        assert task.attempt == attempt
        session.report(task.id, TOOL_FAILED if attempt == 1 else DONE, 0)
    assert only(session.next_instruction(0)).attempt == 1


@pytest.mark.parametrize("failure", list(StageFailure))
def test_a_failure_without_error_next_terminates_with_its_reason(failure: StageFailure) -> None:
    """The reason is the failure, and whoever else runs finds the session ended."""
    session = begin(stage("a"), stage("b"), start=("a", "b"))
    a, b = issued(session.next_instruction(0))
    assert session.report(a.id, StageFailed(failure), 0) is None
    assert session.next_instruction(0) == Terminate(TerminalReason(failure.value))
    assert session.report(b.id, DONE, 0) is ReportRefusal.SESSION_ENDED
    assert session.renew(b.id, 0) is ReportRefusal.SESSION_ENDED


def test_a_policy_violation_is_not_tried_again() -> None:
    """What was forbidden once stays so; error_next may still say what to do."""
    session = begin(stage("a", retries=5))
    task = only(session.next_instruction(0))
    session.report(task.id, StageFailed(StageFailure.POLICY_VIOLATION), 0)
    assert session.next_instruction(0) == Terminate(TerminalReason.POLICY_VIOLATION)


def test_an_expired_lease_makes_the_task_runnable_again() -> None:
    """At its millisecond; it is the same attempt of the same run, under a new task id."""
    session = begin(stage("a"))
    lost = only(session.next_instruction(0))
    assert session.next_instruction(LEASE_MS - 1) == WaitForTasks(LEASE_MS)
    again = only(session.next_instruction(LEASE_MS))
    assert (again.id, again.iteration, again.attempt) == ("a#2", 1, 1)
    assert session.report(lost.id, DONE, LEASE_MS) is ReportRefusal.NOT_RUNNING
    assert session.report(again.id, DONE, LEASE_MS) is None


def test_a_renewed_lease_holds_longer() -> None:
    """From the moment of renewal, though never past the stage's time limit."""
    session = begin(stage("a", timeout_ms=150))
    task = only(session.next_instruction(0))
    assert session.renew(task.id, 30) == 30 + LEASE_MS
    assert session.next_instruction(129) == WaitForTasks(130)
    assert session.renew(task.id, 60) == 150
    assert session.renew(task.id, 150) is ReportRefusal.LATE


def test_a_stage_times_out_at_its_limit() -> None:
    """That is a failure, retried and then taken to error_next like any other."""
    session = begin(stage("a", error_next="b", timeout_ms=40, retries=1), stage("b"))
    session.next_instruction(0)
    assert session.next_instruction(39) == WaitForTasks(40)
    again = only(session.next_instruction(40))
    assert (again.attempt, again.deadline_ms) == (2, 80)
    assert names(session.next_instruction(80)) == ["b"]


def test_a_time_limit_as_long_as_the_lease_is_a_time_limit() -> None:
    """A worker that held on to the end was slow, not dead."""
    session = begin(stage("a", timeout_ms=LEASE_MS))
    session.next_instruction(0)
    assert session.next_instruction(LEASE_MS) == Terminate(TerminalReason.TIMEOUT)


def test_a_lease_that_ended_before_the_time_limit_was_lost() -> None:
    """However late that is noticed."""
    session = begin(stage("a", timeout_ms=LEASE_MS + 1))
    session.next_instruction(0)
    assert only(session.next_instruction(10 * LEASE_MS)).attempt == 1


def test_reports_that_do_not_count_change_nothing() -> None:
    """Late, twice, of a stage that does not run, of no stage, or with a negative count."""
    session = begin(stage("a", "b"), stage("b"))
    task = only(session.next_instruction(0))
    before = to_json(session)
    for wrong, outcome, now, refusal in (
        (task.id, DONE, LEASE_MS, ReportRefusal.LATE),
        (task.id, StageCompleted(llm_calls=-1), 0, ReportRefusal.NEGATIVE_COUNT),
        (TaskId("a#2"), DONE, 0, ReportRefusal.NOT_RUNNING),
        (TaskId("b#1"), DONE, 0, ReportRefusal.NOT_RUNNING),
        (TaskId("x#1"), DONE, 0, ReportRefusal.NOT_RUNNING),
        (TaskId("a"), DONE, 0, ReportRefusal.NOT_RUNNING),
    ):
        assert session.report(wrong, outcome, now) is refusal
    assert session.renew(TaskId("a#2"), 0) is ReportRefusal.NOT_RUNNING
    assert to_json(session) == before
    assert session.report(task.id, DONE, LEASE_MS - 1) is None
    assert session.report(task.id, DONE, LEASE_MS - 1) is ReportRefusal.NOT_RUNNING


def test_a_stage_runs_at_most_max_iterations_times() -> None:
    """Two runs are allowed; the third is not begun."""
    session = begin(stage("a", "a"), max_iterations=2)
    complete(session)
    complete(session)
    assert session.next_instruction(0) == Terminate(TerminalReason.MAX_ITERATIONS)
    assert (session.places["a"].runs, session.hops) == (2, 2)


def test_one_stage_at_its_last_run_is_enough() -> None:
    """Its neighbour's first run is not begun without it."""
    session = begin(
        stage("a", "a"), stage("b"), stage("c", "b"), max_iterations=1, start=("a", "c")
    )
    complete(session)
    assert session.next_instruction(0) == Terminate(TerminalReason.MAX_ITERATIONS)
    assert session.places["b"].runs == 0


def test_the_wait_is_for_the_first_lease_to_end() -> None:
    """Whichever stage holds it."""
    session = begin(stage("a", timeout_ms=50), stage("b", timeout_ms=40), start=("a", "b"))
    session.next_instruction(0)
    assert session.next_instruction(1) == WaitForTasks(40)


def test_a_broken_pipeline_does_not_begin() -> None:
    """It would stop half way."""
    with pytest.raises(InvalidRuleError, match="did you mean 'plan'"):
        begin(stage("plan", "plam"))


def test_a_retry_is_no_iteration_but_a_hop() -> None:
    """The last allowed run may still be tried again, until the hops are gone."""
    session = begin(stage("a", retries=9), max_iterations=1, max_agent_hops=2)
    for _ in range(2):
        session.report(only(session.next_instruction(0)).id, TOOL_FAILED, 0)
    assert session.next_instruction(0) == Terminate(TerminalReason.MAX_AGENT_HOPS)
    assert session.hops == 2


def test_lost_leases_use_up_hops() -> None:
    """A task that kills every worker does not go on for ever."""
    session = begin(stage("a"), max_agent_hops=2)
    assert isinstance(session.next_instruction(0), RunAgent)
    assert isinstance(session.next_instruction(LEASE_MS), RunAgent)
    assert session.next_instruction(2 * LEASE_MS) == Terminate(TerminalReason.MAX_AGENT_HOPS)


def test_a_step_that_does_not_fit_is_not_begun() -> None:
    """Two stages are ready and one hop is left: neither is issued."""
    stages = (stage("a"), stage("b", requires=["a"]), stage("c", requires=["a"]))
    session = begin(*stages, max_agent_hops=2)
    complete(session)
    assert session.next_instruction(0) == Terminate(TerminalReason.MAX_AGENT_HOPS)
    fits = begin(*stages, max_agent_hops=3)
    complete(fits)
    assert names(fits.next_instruction(0)) == ["b", "c"]


def test_no_task_is_issued_once_the_llm_calls_are_used() -> None:
    """Completing with the very last call is fine; going on without any left is not."""
    session = begin(stage("a", "b"), stage("b"), max_llm_calls=3)
    session.report(only(session.next_instruction(0)).id, StageCompleted(llm_calls=2), 0)
    last = only(session.next_instruction(0))
    assert last.llm_calls_left == 1
    session.report(last.id, StageCompleted(llm_calls=1), 0)
    assert session.next_instruction(0) == COMPLETED

    session = begin(stage("a", "b"), stage("b"), max_llm_calls=3)
    session.report(only(session.next_instruction(0)).id, StageCompleted(llm_calls=3), 0)
    assert session.next_instruction(0) == Terminate(TerminalReason.MAX_LLM_CALLS)


def test_more_llm_calls_than_allowed_end_the_session() -> None:
    """Even when that was the last stage; failed attempts count as well."""
    session = begin(stage("a", retries=1), max_llm_calls=3)
    calls = StageFailed(StageFailure.LLM_FAILED, llm_calls=2)
    session.report(only(session.next_instruction(0)).id, calls, 0)
    assert (
        session.report(only(session.next_instruction(0)).id, StageCompleted(llm_calls=2), 0) is None
    )
    assert session.ended == Terminate(TerminalReason.MAX_LLM_CALLS)
    assert session.llm_calls == 4


def test_the_bounds_are_told_in_order() -> None:
    """Iterations before LLM calls before hops when several are met at once."""
    session = begin(stage("a", "a"), max_iterations=1, max_llm_calls=1, max_agent_hops=1)
    session.report(only(session.next_instruction(0)).id, StageCompleted(llm_calls=1), 0)
    assert session.next_instruction(0) == Terminate(TerminalReason.MAX_ITERATIONS)
    session = begin(stage("a", "b"), stage("b"), max_llm_calls=1, max_agent_hops=1)
    session.report(only(session.next_instruction(0)).id, StageCompleted(llm_calls=1), 0)
    assert session.next_instruction(0) == Terminate(TerminalReason.MAX_LLM_CALLS)


def test_an_edge_is_taken_as_often_as_its_limit() -> None:
    """The next time ends the session, at the report that would take it."""
    session = begin(stage("a", "a"), edge_limits={"a->a": 2})
    for _ in range(3):
        assert session.ended is None
        complete(session)
    assert session.ended == Terminate(TerminalReason.MAX_EDGE)
    assert session.taken == {"a->a": 2}


def test_error_edges_have_limits_too() -> None:
    """An error_next that leads back is a loop like any other."""
    session = begin(stage("a", error_next="a"), edge_limits={"a->a": 1})
    for _ in range(2):
        session.report(only(session.next_instruction(0)).id, TOOL_FAILED, 0)
    assert session.next_instruction(0) == Terminate(TerminalReason.MAX_EDGE)


def test_a_question_pauses_its_stage_only() -> None:
    """Others go on; when nothing else is left the answer is to wait for the interrupt."""
    session = begin(stage("a"), stage("b"), start=("a", "b"))
    a, b = issued(session.next_instruction(0))
    session.report(a.id, StageAsked(Q, InterruptKind.CONFIRMATION, llm_calls=1), 0)
    assert session.llm_calls == 1
    assert session.next_instruction(0) == WaitForTasks(LEASE_MS)
    session.report(b.id, StageAsked(InterruptId("r"), InterruptKind.CLARIFICATION), 0)
    assert session.next_instruction(1 << 60) == WaitForInterrupts((Q, InterruptId("r")))


def test_after_an_answer_the_asking_stage_goes_on() -> None:
    """Declined is an answer too; it is the same run, with the failures it had."""
    session = begin(stage("a", retries=1), max_iterations=1)
    session.report(only(session.next_instruction(0)).id, TOOL_FAILED, 0)
    ask(session)
    assert session.on_interrupt_settled(Q, Resume(Declined())) is None
    task = only(session.next_instruction(0))
    assert (task.iteration, task.attempt) == (1, 2)
    assert session.on_interrupt_settled(Q, Resume(Declined())) is ReportRefusal.NOT_WAITING


def test_one_answer_serves_all_that_wait_for_it() -> None:
    """An interrupt is settled once, so nobody may be left behind."""
    session = begin(stage("a"), stage("b"), stage("c"), start=("a", "b", "c"))
    tasks = issued(session.next_instruction(0))
    for task, interrupt in zip(tasks, (Q, InterruptId("r"), Q), strict=True):
        session.report(task.id, StageAsked(interrupt, InterruptKind.CLARIFICATION), 0)
    session.on_interrupt_settled(Q, Resume(Replied("x")))
    assert names(session.next_instruction(0)) == ["a", "c"]


def test_resume_at_names_another_stage() -> None:
    """For its kind only; the asking stage's run is over, uncompleted, and no edge was taken."""
    pipeline = Pipeline(
        (stage("a", "b"), stage("b"), stage("c", requires=["b"])),
        resume_at={InterruptKind.CLARIFICATION: "a", InterruptKind.TIMEOUT: "b"},
    )
    session = begin_session(pipeline)
    complete(session)
    ask(session)
    session.on_interrupt_settled(Q, Resume(Replied("x")))
    assert session.places["b"].completions == 0
    assert session.taken == {"a->b": 1}
    again = only(session.next_instruction(0))
    assert (again.stage, again.iteration) == ("a", 2)
    session.report(again.id, DONE, 0)
    again = only(session.next_instruction(0))
    assert (again.stage, again.iteration) == ("b", 2)
    session.report(again.id, DONE, 0)
    complete(session)
    assert session.next_instruction(0) == COMPLETED


def test_a_checkpoint_never_holds() -> None:
    """The stage goes on at once, or the stage to resume at does."""
    session = begin(stage("a"))
    ask(session, InterruptKind.CHECKPOINT)
    task = only(session.next_instruction(0))
    assert (task.id, task.iteration) == ("a#2", 1)
    assert session.on_interrupt_settled(Q, Resume(Replied())) is ReportRefusal.NOT_WAITING


@pytest.mark.parametrize(
    ("consequence", "reason"),
    [
        (TakeErrorNext(TerminalReason.TIMEOUT), TerminalReason.TIMEOUT),
        (Terminate(TerminalReason.SYSTEM_ERROR), TerminalReason.SYSTEM_ERROR),
    ],
)
def test_an_expired_interrupt_may_end_the_session(
    consequence: Consequence, reason: TerminalReason
) -> None:
    """Where there is no error_next, or where expiry terminates."""
    session = begin(stage("a"))
    ask(session)
    assert session.on_interrupt_settled(Q, consequence) is None
    assert session.next_instruction(0) == Terminate(reason)
    assert session.on_interrupt_settled(Q, consequence) is ReportRefusal.SESSION_ENDED


def test_an_expired_interrupt_may_take_error_next() -> None:
    """Past any retries: nobody will answer the second time either."""
    session = begin(stage("a", error_next="b", retries=3), stage("b"))
    ask(session)
    session.on_interrupt_settled(Q, TakeErrorNext(TerminalReason.TIMEOUT))
    assert session.taken == {"a->b": 1}
    assert names(session.next_instruction(0)) == ["b"]


def test_the_first_end_stands_for_ever() -> None:
    """Whatever else ends it, whatever expires."""
    session = begin(stage("a", timeout_ms=1))
    session.next_instruction(0)
    assert session.terminate(TerminalReason.USER_CANCELLED) == Terminate(
        TerminalReason.USER_CANCELLED
    )
    before = to_json(session)
    session.terminate(TerminalReason.COMPLETED)
    assert session.next_instruction(99) == Terminate(TerminalReason.USER_CANCELLED)
    assert to_json(session) == before


def test_two_time_limits_at_once() -> None:
    """The first stage in the pipeline's order decides."""
    session = begin(stage("a", timeout_ms=1), stage("b", timeout_ms=1), start=("a", "b"))
    session.next_instruction(0)
    assert session.next_instruction(1) == Terminate(TerminalReason.TIMEOUT)


def test_it_is_the_same_after_storing() -> None:
    """With a task out, one owed and one paused."""
    session = begin(stage("a", "c"), stage("b", "c"), stage("c"), stage("d"), start=("a", "b", "d"))
    tasks = issued(session.next_instruction(0))
    session.report(tasks[0].id, DONE, 0)
    session.report(tasks[1].id, StageAsked(Q, InterruptKind.CLARIFICATION), 0)
    copy = from_json(PipelineSession, to_json(session))
    assert copy == session
    assert copy.next_instruction(1) == session.next_instruction(1)
