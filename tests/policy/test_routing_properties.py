"""Sessions of random pipelines against a naive walk that keeps lists of what happened.

The walk counts by looking through its lists; a join is a row of cups, one for each stage required,
into which completions are poured and from which runs are drawn.
"""

from collections.abc import Iterator
from typing import Any

from hypothesis import assume, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from vegakit.ids import InterruptId
from vegakit.policy import (
    Condition,
    InterruptKind,
    Join,
    Pipeline,
    PipelineBounds,
    PipelineSession,
    Replied,
    Resume,
    RoutingRule,
    RunAgent,
    Stage,
    StageAsked,
    StageCompleted,
    StageFailed,
    StageFailure,
    StageOutcome,
    StageTask,
    TakeErrorNext,
    TaskId,
    TerminalReason,
    Terminate,
    WaitForInterrupts,
    WaitForTasks,
    begin_session,
    most_runs,
    pipeline_problems,
)
from vegakit.records import from_json, to_json

LEASE_MS = 10
WORDS = ["again", "stop"]
KINDS = st.sampled_from([InterruptKind.CLARIFICATION, InterruptKind.CHECKPOINT])
CALLS = st.sampled_from([0, 0, 0, 1, 2])
OUTCOMES = st.one_of(
    st.builds(StageCompleted, st.sampled_from([*WORDS, None]), CALLS),
    st.builds(StageCompleted, st.sampled_from([*WORDS, None]), CALLS),
    st.builds(StageFailed, st.sampled_from(StageFailure), CALLS),
    st.builds(StageAsked, st.sampled_from(["q1", "q2", "q3"]).map(InterruptId), KINDS, CALLS),
)
CONSEQUENCES = st.sampled_from(
    [Resume(Replied()), Resume(Replied()), TakeErrorNext(TerminalReason.TIMEOUT)]
)
PICKS = st.integers(0, 7)


@st.composite
def stages(draw: st.DrawFn) -> list[Stage]:
    names = "abcde"[: draw(st.integers(1, 5))]
    joined = [name for name in names[1:] if draw(st.booleans())]
    routed = [name for name in names if name not in joined]
    target = st.none() | st.sampled_from(routed)
    return [
        Stage(
            name,
            "agent",
            requires=tuple(draw(some(names[:place]))) if name in joined else (),
            after=tuple(draw(st.sets(st.sampled_from(names[place + 1 :]), max_size=1)))
            if names[place + 1 :]
            else (),
            join=draw(st.sampled_from(Join)) if name in joined else Join.ALL,
            routing=tuple(
                RoutingRule(draw(st.sampled_from(routed)), Condition.EQUALS, "", word)
                for word in WORDS
                if draw(st.booleans())
            ),
            default_next=draw(target),
            error_next=draw(target),
            timeout_ms=draw(st.sampled_from([None, None, 7, 10, 15])),
            retries=draw(st.integers(0, 2)),
        )
        for place, name in enumerate(names)
    ]


def some(names: str) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True)


@st.composite
def pipelines(draw: st.DrawFn) -> Pipeline:
    described = draw(stages())
    targets = {target for stage in described for target in stage.targets}
    routed = [stage.name for stage in described if not stage.requires]
    edges = sorted({f"{stage.name}->{to}" for stage in described for to in stage.targets})
    limits = draw(st.dictionaries(st.sampled_from(edges), st.integers(1, 2))) if edges else {}
    pipeline = Pipeline(
        tuple(described),
        start=(routed[0], *(name for name in routed[1:] if name not in targets)),
        bounds=PipelineBounds(
            draw(st.sampled_from([2, 3])),
            draw(st.none() | st.integers(2, 8)),
            draw(st.integers(4, 16)),
            limits,
        ),
        resume_at=draw(st.dictionaries(KINDS, st.sampled_from(routed), max_size=1)),
        lease_ms=LEASE_MS,
    )
    assume(not pipeline_problems(pipeline))
    return pipeline


class Walk:
    """The naive session."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.stages = {stage.name: stage for stage in pipeline.stages}
        self.calls: list[str] = list(pipeline.start)
        self.runs: list[str] = []
        self.issues: list[str] = []
        self.edges: list[str] = []
        self.completions: list[str] = []
        self.llm_calls = 0
        self.cups = {(cup, s.name): 0 for s in pipeline.stages for cup in s.requires}
        self.failures: dict[str, int] = {}
        self.again: list[str] = []
        self.out: dict[TaskId, tuple[str, int, int | None]] = {}
        self.paused: list[tuple[str, InterruptId, InterruptKind]] = []
        self.end: TerminalReason | None = None

    def stop(self, reason: TerminalReason) -> None:
        if self.end is None:
            self.end = reason

    def busy(self) -> list[str]:
        out = [name for name, _, _ in self.out.values()]
        return out + self.again + [name for name, _, _ in self.paused]

    def ready(self) -> list[str]:
        idle = [name for name in self.calls if name not in self.busy()]
        waiting = {*self.again, *idle}
        in_play = {*self.busy(), *self.calls}
        return [
            name
            for name in self.stages
            if name in waiting and not in_play.intersection(self.stages[name].after)
        ]

    def expire(self, now: int) -> None:
        for name in self.stages:
            for task, (holder, until, deadline) in list(self.out.items()):
                if holder == name and now >= until:
                    del self.out[task]
                    if deadline is not None and until >= deadline:
                        self.fail(name, StageFailure.TIMEOUT)
                    else:
                        self.again.append(name)

    def passed_bound(self, ready: list[str]) -> TerminalReason | None:
        bounds = self.pipeline.bounds
        fresh = [name for name in ready if name not in self.again]
        if any(self.runs.count(name) == bounds.max_iterations for name in fresh):
            return TerminalReason.MAX_ITERATIONS
        if ready and bounds.max_llm_calls == self.llm_calls:
            return TerminalReason.MAX_LLM_CALLS
        if len(self.issues) + len(ready) > bounds.max_agent_hops:
            return TerminalReason.MAX_AGENT_HOPS
        return None

    def issue(self, task: StageTask, now: int) -> None:
        name = task.stage
        if name in self.again:
            self.again.remove(name)
        else:
            self.calls.remove(name)
            self.runs.append(name)
            self.failures[name] = 0
        self.issues.append(name)
        timeout_ms = self.stages[name].timeout_ms
        deadline = None if timeout_ms is None else now + timeout_ms
        self.out[task.id] = (name, self.until(now, deadline), deadline)

    def until(self, now: int, deadline: int | None) -> int:
        return now + LEASE_MS if deadline is None else min(deadline, now + LEASE_MS)

    def accepts(self, task: TaskId, now: int) -> bool:
        return self.end is None and task in self.out and now < self.out[task][1]

    def report(self, task: TaskId, outcome: StageOutcome) -> None:
        name = self.out.pop(task)[0]
        self.llm_calls += outcome.llm_calls
        most = self.pipeline.bounds.max_llm_calls
        if most is not None and self.llm_calls > most:
            self.stop(TerminalReason.MAX_LLM_CALLS)
        elif isinstance(outcome, StageFailed):
            self.fail(name, outcome.failure)
        elif isinstance(outcome, StageAsked):
            if outcome.kind is InterruptKind.CHECKPOINT:
                self.go_on(name, outcome.kind, Resume(Replied()))
            else:
                self.paused.append((name, outcome.interrupt, outcome.kind))
        else:
            self.complete(name, outcome.output)

    def complete(self, name: str, output: object) -> None:
        self.completions.append(name)
        for stage in self.pipeline.stages:
            if name in stage.requires:
                self.pour(name, stage)
        stage = self.stages[name]
        fired = [rule.target for rule in stage.routing if rule.value == output]
        self.go(name, [*fired, stage.default_next][0])

    def pour(self, name: str, stage: Stage) -> None:
        self.cups[name, stage.name] += 1
        full = [self.cups[cup, stage.name] > 0 for cup in stage.requires]
        if all(full) if stage.join is Join.ALL else self.cups[name, stage.name] > 0:
            self.calls.append(stage.name)
            for cup in stage.requires:
                self.cups[cup, stage.name] -= 1

    def go(self, name: str, target: str | None) -> None:
        if target is None:
            return
        taken = f"{name}->{target}"
        if self.edges.count(taken) == self.pipeline.bounds.edge_limits.get(taken):
            self.stop(TerminalReason.MAX_EDGE)
        else:
            self.edges.append(taken)
            self.calls.append(target)

    def fail(self, name: str, failure: StageFailure) -> None:
        self.failures[name] += 1
        hopeless = failure in (StageFailure.POLICY_VIOLATION, StageFailure.RESOURCE_EXHAUSTED)
        if self.failures[name] <= self.stages[name].retries and not hopeless:
            self.again.append(name)
        else:
            self.give_up(name, TerminalReason(failure.value))

    def give_up(self, name: str, reason: TerminalReason) -> None:
        target = self.stages[name].error_next
        if target is None:
            self.stop(reason)
        self.go(name, target)

    def settle(self, interrupt: InterruptId, consequence: Any) -> None:
        waiting = sorted(paused for paused in self.paused if paused[1] == interrupt)
        for paused in waiting:
            self.paused.remove(paused)
            self.go_on(paused[0], paused[2], consequence)

    def go_on(self, name: str, kind: InterruptKind, consequence: Any) -> None:
        if isinstance(consequence, TakeErrorNext):
            self.give_up(name, consequence.otherwise)
        elif self.pipeline.resume_at.get(kind, name) == name:
            self.again.append(name)
        else:
            self.calls.append(self.pipeline.resume_at[kind])


class SessionAgainstWalk(RuleBasedStateMachine):
    @initialize(pipeline=pipelines())
    def begin(self, pipeline: Pipeline) -> None:
        self.session = begin_session(pipeline)
        self.walk = Walk(pipeline)
        self.now = 0
        self.issued: list[TaskId] = []
        self.a_worker_asks()

    @rule(ms=st.sampled_from([1, 3, 6, 7, 10, 30]), asks=st.booleans())
    def time_passes(self, ms: int, asks: bool) -> None:
        self.now += ms
        if asks:
            self.a_worker_asks()

    @rule(word=st.sampled_from([*WORDS, None]))
    def workers_complete_everything(self, word: str | None) -> None:
        for task in list(self.walk.out):
            self.reported(task, StageCompleted(word))
        self.a_worker_asks()

    @rule(ms=st.sampled_from([0, 1, 6]), picks=st.lists(PICKS, max_size=3), outcome=OUTCOMES)
    def workers_report(self, ms: int, picks: list[int], outcome: StageOutcome) -> None:
        self.now += ms
        for pick in picks:
            if out := list(self.walk.out):
                self.reported(out[pick % len(out)], outcome)
        self.a_worker_asks()

    def a_worker_asks(self) -> None:
        walk = self.walk
        if walk.end is None:
            walk.expire(self.now)
        instruction = self.session.next_instruction(self.now)
        ready = walk.ready()
        if walk.end is None and (bound := walk.passed_bound(ready)):
            walk.stop(bound)
        if walk.end is not None:
            assert instruction == Terminate(walk.end)
        elif ready:
            assert isinstance(instruction, RunAgent)
            assert [task.stage for task in instruction.tasks] == ready
            for task in instruction.tasks:
                self.take(task)
        elif walk.out:
            assert instruction == WaitForTasks(min(until for _, until, _ in walk.out.values()))
        elif walk.paused:
            asked = [interrupt for _, interrupt, _ in sorted(walk.paused)]
            assert instruction == WaitForInterrupts(tuple(asked))
        else:
            assert instruction == Terminate(TerminalReason.COMPLETED)
            assert not walk.calls
            walk.stop(TerminalReason.COMPLETED)

    def take(self, task: StageTask) -> None:
        assert task.id not in self.issued
        self.issued.append(task.id)
        self.walk.issue(task, self.now)
        name, until, deadline = self.walk.out[task.id]
        assert (task.lease_until_ms, task.deadline_ms) == (until, deadline)
        assert task.iteration == self.walk.runs.count(name)
        assert task.attempt == self.walk.failures[name] + 1

    @rule(pick=PICKS, outcome=OUTCOMES)
    def anyone_reports(self, pick: int, outcome: StageOutcome) -> None:
        tasks = [*self.issued, TaskId("a#99")]
        self.reported(tasks[pick % len(tasks)], outcome)

    def reported(self, task: TaskId, outcome: StageOutcome) -> None:
        before = to_json(self.session)
        refusal = self.session.report(task, outcome, self.now)
        assert (refusal is None) == self.walk.accepts(task, self.now)
        if refusal is None:
            self.walk.report(task, outcome)
        else:
            assert to_json(self.session) == before

    @rule(pick=PICKS)
    def a_lease_is_renewed(self, pick: int) -> None:
        task = [TaskId("a#99"), *self.issued][-1 - pick % (len(self.issued) + 1)]
        renewed = self.session.renew(task, self.now)
        assert isinstance(renewed, int) == self.walk.accepts(task, self.now)
        if isinstance(renewed, int):
            name, _, deadline = self.walk.out[task]
            self.walk.out[task] = (name, self.walk.until(self.now, deadline), deadline)
            assert renewed == self.walk.out[task][1]

    @rule(pick=PICKS, consequence=CONSEQUENCES)
    def an_interrupt_is_settled(self, pick: int, consequence: Any) -> None:
        before = to_json(self.session)
        asked = [interrupt for _, interrupt, _ in self.walk.paused]
        name = [InterruptId("q0"), *asked][-1 - pick % (len(asked) + 1)]
        refusal = self.session.on_interrupt_settled(name, consequence)
        assert (refusal is None) == (self.walk.end is None and name in asked)
        if refusal is None:
            self.walk.settle(name, consequence)
            self.a_worker_asks()
        else:
            assert to_json(self.session) == before

    @rule(patience=st.integers(3, 20))
    def the_user_may_cancel(self, patience: int) -> None:
        if len(self.issued) > patience:
            self.session.terminate(TerminalReason.USER_CANCELLED)
            self.walk.stop(TerminalReason.USER_CANCELLED)

    @rule()
    def it_is_stored_and_loaded(self) -> None:
        copy = from_json(PipelineSession, to_json(self.session))
        assert copy == self.session
        self.session = copy

    @invariant()
    def no_stage_runs_more_often_than_is_quoted(self) -> None:
        most = most_runs(self.session.pipeline)
        assert all(place.runs <= most[name] for name, place in self.session.places.items())

    @invariant()
    def no_bound_is_passed(self) -> None:
        bounds = self.walk.pipeline.bounds
        assert self.session.hops == len(self.walk.issues) <= bounds.max_agent_hops
        for name, place in self.session.places.items():
            assert place.runs == self.walk.runs.count(name) <= (bounds.max_iterations or place.runs)
        for edge, limit in bounds.edge_limits.items():
            assert self.session.taken.get(edge, 0) == self.walk.edges.count(edge) <= limit

    @invariant()
    def a_joined_stage_runs_only_when_its_requirements_are_met(self) -> None:
        for stage in self.joined():
            done = [self.walk.completions.count(name) for name in stage.requires]
            met = min(done) if stage.join is Join.ALL else max(done)
            assert self.session.places[stage.name].runs <= met

    def joined(self) -> Iterator[Stage]:
        return (stage for stage in self.walk.pipeline.stages if stage.requires)

    @invariant()
    def both_have_ended_or_neither(self) -> None:
        ended = self.session.ended
        assert (None if ended is None else ended.reason) == self.walk.end


TestSession = SessionAgainstWalk.TestCase
