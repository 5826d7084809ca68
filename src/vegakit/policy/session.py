"""Sessions: one walk through a pipeline, told what happened, answering what to do next (pure)."""

from enum import StrEnum
from typing import Any, Final, NewType, TypeAlias, assert_never

from msgspec import Struct, field

from vegakit.errors import (
    BudgetExceeded,
    CapabilityDenied,
    ContractViolated,
    Timeout,
    ToolFailed,
    VegaError,
)
from vegakit.ids import InterruptId
from vegakit.policy.interrupts import (
    Consequence,
    InterruptKind,
    Resume,
    TakeErrorNext,
    TerminalReason,
    Terminate,
)
from vegakit.policy.pipeline import Join, Pipeline, Stage, check_pipeline, edge
from vegakit.records import Json

# Instructions of a session to its workers, and their reports.


TaskId = NewType("TaskId", str)


class StageTask(Struct, frozen=True):
    """One issue of a stage to a worker; `llm_calls_left` is shared by all tasks that are out."""

    id: TaskId
    stage: str
    agent: str
    iteration: int
    attempt: int
    lease_until_ms: int
    deadline_ms: int | None = None
    tools: tuple[str, ...] | None = None
    llm_calls_left: int | None = None


class RunAgent(Struct, frozen=True, tag=True):
    """Run these tasks."""

    tasks: tuple[StageTask, ...]


class WaitForTasks(Struct, frozen=True, tag=True):
    """All tasks are taken; the first lease to expire does so at `until_ms`."""

    until_ms: int


class WaitForInterrupts(Struct, frozen=True, tag=True):
    """Wait until a person has answered."""

    interrupts: tuple[InterruptId, ...]


Instruction: TypeAlias = RunAgent | WaitForTasks | WaitForInterrupts | Terminate


class StageFailure(StrEnum):
    """Each is also a reason to terminate."""

    TOOL_FAILED = "tool_failed"
    LLM_FAILED = "llm_failed"
    POLICY_VIOLATION = "policy_violation"
    TIMEOUT = "timeout"
    RESOURCE_EXHAUSTED = "resource_exhausted"


_FINAL_FAILURES = (StageFailure.POLICY_VIOLATION, StageFailure.RESOURCE_EXHAUSTED)
"""What would fail in the same way again."""


_FAILURES: Final[tuple[tuple[type[VegaError], StageFailure], ...]] = (
    (BudgetExceeded, StageFailure.RESOURCE_EXHAUSTED),
    (Timeout, StageFailure.TIMEOUT),
    (ToolFailed, StageFailure.TOOL_FAILED),
    (CapabilityDenied, StageFailure.POLICY_VIOLATION),
    (ContractViolated, StageFailure.POLICY_VIOLATION),
)


def failure_of(error: VegaError) -> StageFailure:
    """Return how a task failed that ended with an error; every other error is one of the model."""
    failures = (failure for kind, failure in _FAILURES if isinstance(error, kind))
    return next(failures, StageFailure.LLM_FAILED)


class StageCompleted(Struct, frozen=True, tag=True):
    """A task came to an end with this output."""

    output: Any = None
    llm_calls: int = 0


class StageFailed(Struct, frozen=True, tag=True):
    """A task failed."""

    failure: StageFailure
    llm_calls: int = 0


class StageAsked(Struct, frozen=True, tag=True):
    """It opened an interrupt and cannot go on before that is settled.

    If that happened before this report came, whoever takes the report settles it again here.
    """

    interrupt: InterruptId
    kind: InterruptKind
    llm_calls: int = 0


StageOutcome: TypeAlias = StageCompleted | StageFailed | StageAsked


class ReportRefusal(StrEnum):
    """The reasons for which a report changes nothing."""

    SESSION_ENDED = "session_ended"
    NOT_RUNNING = "not_running"
    LATE = "late"
    NEGATIVE_COUNT = "negative_count"
    NOT_WAITING = "not_waiting"


# One stage of a session is idle, open, leased or paused.


class StageOpen(Struct, frozen=True, tag=True):
    """A run has begun and has to be issued, for the first time or again."""


class StageLeased(Struct, frozen=True, tag=True):
    """A worker has the task until its lease ends."""

    task: TaskId
    until_ms: int
    deadline_ms: int | None


class StagePaused(Struct, frozen=True, tag=True):
    """The stage waits for a person."""

    interrupt: InterruptId
    kind: InterruptKind


class StageState(Struct):
    """The state of one stage; `at` None is idle."""

    at: StageOpen | StageLeased | StagePaused | None = None
    owed: int = 0
    runs: int = 0
    failures: int = 0
    completions: int = 0
    joined: int = 0

    @property
    def in_play(self) -> bool:
        """Return whether the session still has something to do here."""
        return self.at is not None or self.owed > 0

    @property
    def is_issuable(self) -> bool:
        """Return whether a task of this stage can be handed out."""
        return isinstance(self.at, StageOpen) or (self.at is None and self.owed > 0)


# A session: one walk through a pipeline, told what happened, answering what to do next.
#
# a stage is | event                                     | becomes | and
# -----------|-------------------------------------------|---------|-----------------------------
# any        | called: routed to, joined or resumed at   | same    | one more run is owed
# idle, owed | nothing named in `after` is in play       | leased  | a new run: its iteration + 1
# open       | nothing named in `after` is in play       | leased  | the same run goes on
# leased     | completes                                 | idle    | its joins, then its route
# leased     | fails or times out, retries left          | open    |
# leased     | fails or times out, none left             | idle    | error_next, else Terminate
# leased     | its lease expires                         | open    | no failure: its worker died
# leased     | asks                                      | paused  | a checkpoint resumes at once
# paused     | settled: Resume, no other stage is named  | open    |
# paused     | settled: Resume, at another stage         | idle    | that stage is called
# paused     | settled: TakeErrorNext                    | idle    | error_next, else Terminate
#
# - Route: the first rule that holds, else default_next; neither ends this branch. When nothing is
#   owed, open, leased or paused the session is COMPLETED.
# - Joins: the n-th joined run of a stage needs the n-th completion of all, or of any, of the stages
#   it requires. So under `any` the late ones run to their end and call it no second time.
# - Each call is one run; a stage has one task out at a time, and owed runs follow each other.
# - Iterations are counted by stage: no stage begins run max_iterations + 1. Hops are tasks issued,
#   with every retry and every task issued again. LLM calls are what workers report. Tasks that are
#   ready go out together or not at all: a step that would pass a bound terminates the session.
# - A lease, and a stage's time limit, end *at* their millisecond; a lease is never renewed past the
#   time limit. A report is taken from the holder of a live lease only; any other changes nothing.
# - A policy violation is not tried again, nor is what there is no money left for.


class PipelineSession(Struct):
    """`taken` counts the edges gone, by their names in `edge_limits`."""

    pipeline: Pipeline
    places: dict[str, StageState]
    taken: dict[str, int] = field(default_factory=dict)
    hops: int = 0
    llm_calls: int = 0
    ended: Terminate | None = None

    def next_instruction(self, now: int) -> Instruction:
        """Return what to do now: run tasks, wait, or end."""
        if self.ended is None:
            self._take_back_expired(now)
        return self.ended or self._step(now)

    def report(self, task: TaskId, outcome: StageOutcome, now: int) -> ReportRefusal | None:
        """Take the outcome of a task and route it on."""
        stage = self._holder(task, now)
        if isinstance(stage, ReportRefusal):
            return stage
        if outcome.llm_calls < 0:
            return ReportRefusal.NEGATIVE_COUNT
        self.llm_calls += outcome.llm_calls
        most = self.pipeline.bounds.max_llm_calls
        if most is not None and self.llm_calls > most:
            self.terminate(TerminalReason.MAX_LLM_CALLS)
        else:
            self._apply(stage, outcome)
        return None

    def renew(self, task: TaskId, now: int) -> int | ReportRefusal:
        """Renew the lease of a task and return until when it holds."""
        stage = self._holder(task, now)
        if isinstance(stage, ReportRefusal):
            return stage
        place = self.places[stage.name]
        assert isinstance(place.at, StageLeased)
        place.at = self._lease(task, place.at.deadline_ms, now)
        return place.at.until_ms

    def on_interrupt_settled(
        self, interrupt: InterruptId, consequence: Consequence
    ) -> ReportRefusal | None:
        """Let every stage go on that waits for the interrupt. An answer is `Resume(answer)`."""
        if self.ended is not None:
            return ReportRefusal.SESSION_ENDED
        waiting = [
            (stage, at.kind)
            for stage in self.pipeline.stages
            if isinstance(at := self.places[stage.name].at, StagePaused)
            and at.interrupt == interrupt
        ]
        for stage, kind in waiting:
            self._go_on(stage, kind, consequence)
        return None if waiting else ReportRefusal.NOT_WAITING

    @property
    def tasks_out(self) -> tuple[TaskId, ...]:
        """Return the tasks that workers have."""
        standing = (place.at for place in self.places.values())
        return tuple(at.task for at in standing if isinstance(at, StageLeased))

    def take_back_all(self) -> None:
        """Take every task back, as if its lease had expired: who had them is known to be gone."""
        for place in self.places.values():
            if isinstance(place.at, StageLeased):
                place.at = StageOpen()

    def terminate(self, reason: TerminalReason) -> Terminate:
        """The first reason stands."""
        self.ended = self.ended or Terminate(reason)
        return self.ended

    def _step(self, now: int) -> Instruction:
        ready = [stage for stage in self.pipeline.stages if self._is_ready(stage)]
        bound = self._passed_bound(ready)
        if bound is not None:
            return self.terminate(bound)
        if ready:
            return RunAgent(tuple(self._issue(stage, now) for stage in ready))
        return self._wait_or_complete()

    def _is_ready(self, stage: Stage) -> bool:
        return self.places[stage.name].is_issuable and not any(
            self.places[name].in_play for name in stage.after
        )

    def _passed_bound(self, ready: list[Stage]) -> TerminalReason | None:
        if not ready:
            return None
        places = [self.places[stage.name] for stage in ready]
        bounds = self.pipeline.bounds
        iteration = max(place.runs + (place.at is None) for place in places)
        for reason, reached, most in (
            (TerminalReason.MAX_ITERATIONS, iteration, bounds.max_iterations),
            (TerminalReason.MAX_LLM_CALLS, self.llm_calls + 1, bounds.max_llm_calls),
            (TerminalReason.MAX_AGENT_HOPS, self.hops + len(ready), bounds.max_agent_hops),
        ):
            if most is not None and reached > most:
                return reason
        return None

    def _issue(self, stage: Stage, now: int) -> StageTask:
        place = self.places[stage.name]
        if place.at is None:
            place.owed -= 1
            place.runs += 1
            place.failures = 0
        self.hops += 1
        deadline_ms = None if stage.timeout_ms is None else now + stage.timeout_ms
        place.at = self._lease(TaskId(f"{stage.name}#{self.hops}"), deadline_ms, now)
        most = self.pipeline.bounds.max_llm_calls
        return StageTask(
            place.at.task,
            stage.name,
            stage.agent,
            iteration=place.runs,
            attempt=place.failures + 1,
            lease_until_ms=place.at.until_ms,
            deadline_ms=deadline_ms,
            tools=stage.tools,
            llm_calls_left=None if most is None else most - self.llm_calls,
        )

    def _lease(self, task: TaskId, deadline_ms: int | None, now: int) -> StageLeased:
        until_ms = now + self.pipeline.lease_ms
        if deadline_ms is not None:
            until_ms = min(until_ms, deadline_ms)
        return StageLeased(task, until_ms, deadline_ms)

    def _wait_or_complete(self) -> Instruction:
        standing = [self.places[stage.name].at for stage in self.pipeline.stages]
        leases = [at.until_ms for at in standing if isinstance(at, StageLeased)]
        if leases:
            return WaitForTasks(min(leases))
        asked = tuple(at.interrupt for at in standing if isinstance(at, StagePaused))
        return WaitForInterrupts(asked) if asked else self.terminate(TerminalReason.COMPLETED)

    def _take_back_expired(self, now: int) -> None:
        for stage in self.pipeline.stages:
            at = self.places[stage.name].at
            if not isinstance(at, StageLeased) or now < at.until_ms:
                continue
            if at.until_ms == at.deadline_ms:
                self._fail(stage, StageFailure.TIMEOUT)
            else:
                self.places[stage.name].at = StageOpen()

    def _holder(self, task: TaskId, now: int) -> Stage | ReportRefusal:
        if self.ended is not None:
            return ReportRefusal.SESSION_ENDED
        name, _, _ = task.rpartition("#")
        place = self.places.get(name)
        if place is None or not isinstance(place.at, StageLeased) or place.at.task != task:
            return ReportRefusal.NOT_RUNNING
        return self.pipeline.by_name[name] if now < place.at.until_ms else ReportRefusal.LATE

    def _apply(self, stage: Stage, outcome: StageOutcome) -> None:
        match outcome:
            case StageCompleted():
                self._complete(stage, outcome.output)
            case StageFailed():
                self._fail(stage, outcome.failure)
            case StageAsked(kind=InterruptKind.CHECKPOINT):
                self._resume(stage, outcome.kind)
            case StageAsked():
                self.places[stage.name].at = StagePaused(outcome.interrupt, outcome.kind)
            case _:
                assert_never(outcome)

    def _complete(self, stage: Stage, output: Json) -> None:
        place = self.places[stage.name]
        place.at = None
        place.completions += 1
        for requirer in self.pipeline.requirers(stage.name):
            self._join(requirer)
        self._route(stage, stage.next_after(output))

    def _join(self, stage: Stage) -> None:
        place = self.places[stage.name]
        rounds = min if stage.join is Join.ALL else max
        if place.joined < rounds(self.places[name].completions for name in stage.requires):
            place.joined += 1
            place.owed += 1

    def _route(self, stage: Stage, target: str | None) -> None:
        if target is None:
            return
        name = edge(stage.name, target)
        times = self.taken.get(name, 0) + 1
        if times > self.pipeline.bounds.edge_limits.get(name, times):
            self.terminate(TerminalReason.MAX_EDGE)
            return
        self.taken[name] = times
        self.places[target].owed += 1

    def _fail(self, stage: Stage, failure: StageFailure) -> None:
        place = self.places[stage.name]
        place.failures += 1
        if place.failures <= stage.retries and failure not in _FINAL_FAILURES:
            place.at = StageOpen()
        else:
            self._take_error_next(stage, TerminalReason(failure))

    def _take_error_next(self, stage: Stage, otherwise: TerminalReason) -> None:
        self.places[stage.name].at = None
        if stage.error_next is None:
            self.terminate(otherwise)
        else:
            self._route(stage, stage.error_next)

    def _go_on(self, stage: Stage, kind: InterruptKind, consequence: Consequence) -> None:
        match consequence:
            case Resume():
                self._resume(stage, kind)
            case TakeErrorNext(otherwise=reason):
                self._take_error_next(stage, reason)
            case Terminate(reason=reason):
                self.terminate(reason)
            case _:
                assert_never(consequence)

    def _resume(self, stage: Stage, kind: InterruptKind) -> None:
        target = self.pipeline.resume_at.get(kind, stage.name)
        if target == stage.name:
            self.places[stage.name].at = StageOpen()
        else:
            self.places[stage.name].at = None
            self.places[target].owed += 1


def begin_session(pipeline: Pipeline) -> PipelineSession:
    """Raises InvalidRuleError that tells every problem of the pipeline."""
    check_pipeline(pipeline)
    session = PipelineSession(pipeline, {stage.name: StageState() for stage in pipeline.stages})
    for name in pipeline.first:
        session.places[name].owed += 1
    return session
