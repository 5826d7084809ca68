"""Sessions of random pipelines through the kernel, against the naive walk of the policy's tests.

Every call is answered by a new kernel on the same store, as if the one before had been killed.
Reports come late, twice, for tasks that are not out, and with questions to people in between.
"""

import asyncio
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from msgspec.structs import replace

from tests.kernel.kernels import BOB, Bench
from tests.policy.test_routing_properties import CALLS, KINDS, PICKS, WORDS, Walk, pipelines
from vegakit.control import (
    CreateInterruptRequest,
    CreateProcessRequest,
    ExecutionMetrics,
    InitializeSessionRequest,
    NextInstructionRequest,
    OperationError,
    PidRequest,
    ReportRequest,
    ResolveInterruptRequest,
    SessionReply,
)
from vegakit.ids import InterruptId
from vegakit.policy import (
    InterruptKind,
    Pipeline,
    Replied,
    Resume,
    RunAgent,
    StageAsked,
    StageCompleted,
    StageFailed,
    StageFailure,
    StageOutcome,
    TakeErrorNext,
    TaskId,
    TerminalReason,
    Terminate,
    WaitForInterrupts,
    WaitForTasks,
)

PLAIN = st.one_of(
    st.builds(StageCompleted, st.sampled_from([*WORDS, None])),
    st.builds(StageCompleted, st.sampled_from([*WORDS, None])),
    st.builds(StageFailed, st.sampled_from(StageFailure)),
)
PATIENCE_MS = 25


class KernelAgainstWalk(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.bench, self.runner = Bench(), asyncio.Runner()
        self.issued: list[TaskId] = []
        self.asked = 0
        self.questions: dict[InterruptId, tuple[InterruptKind, int | None]] = {}

    def teardown(self) -> None:
        self.runner.close()

    def do(self, name: str, request: object, caller: Any = None) -> Any:
        kernel = self.bench.of(caller) if caller else self.bench.of()
        return self.runner.run(getattr(kernel, name)(request))

    @initialize(pipeline=pipelines())
    def begin(self, pipeline: Pipeline) -> None:
        self.walk = Walk(pipeline)
        self.do("create_process", CreateProcessRequest("p"))
        request = InitializeSessionRequest("p", pipeline, input={"n": 1})
        self.check(self.do("initialize_session", request))

    @rule(ms=st.sampled_from([1, 3, 6, 7, 10, 30]))
    def time_passes(self, ms: int) -> None:
        self.bench.clock.advance(ms)
        self.runner.run(self.bench.kernel().sweep())
        self.expire_questions()
        self.check(self.do("get_next_instruction", NextInstructionRequest("p")))

    def expire_questions(self) -> None:
        now = self.bench.clock.now()
        due = [(until, key) for key, (_, until) in self.questions.items() if until is not None]
        for until, key in sorted(due):
            if until <= now:
                del self.questions[key]
                if self.walk.end is None:
                    self.walk.settle(key, TakeErrorNext(TerminalReason.TIMEOUT))

    @rule(pick=PICKS, outcome=PLAIN, calls=CALLS)
    def a_worker_reports(self, pick: int, outcome: StageOutcome, calls: int) -> None:
        tasks = [*self.walk.out, *self.issued, TaskId("a#99")]
        self.report(tasks[pick % len(tasks)], outcome, calls)

    @rule(pick=PICKS, kind=KINDS, short=st.booleans(), calls=CALLS)
    def a_worker_asks_a_person(
        self, pick: int, kind: InterruptKind, short: bool, calls: int
    ) -> None:
        out = list(self.walk.out)
        if not out or not self.walk.accepts(out[pick % len(out)], self.bench.clock.now()):
            return
        self.asked += 1
        key = InterruptId(f"q{self.asked}")
        until = self.bench.clock.now() + PATIENCE_MS if short else None
        self.do(
            "create_interrupt",
            CreateInterruptRequest("p", kind, "which one?", key, expires_ms=until),
        )
        if kind is not InterruptKind.CHECKPOINT:
            self.questions[key] = (kind, until)
        self.report(out[pick % len(out)], StageAsked(key, kind), calls)

    @rule(pick=PICKS)
    def a_person_answers(self, pick: int) -> None:
        now = self.bench.clock.now()
        open_ = [key for key, (_, until) in self.questions.items() if until is None or until > now]
        if not open_:
            return
        key = open_[pick % len(open_)]
        del self.questions[key]
        self.do("resolve_interrupt", ResolveInterruptRequest(key, Replied("that")), BOB)
        if self.walk.end is None:
            self.walk.settle(key, Resume(Replied("that")))
        self.check(self.do("get_next_instruction", NextInstructionRequest("p")))

    def report(self, task: TaskId, outcome: StageOutcome, calls: int) -> None:
        now = self.bench.clock.now()
        accepts = self.walk.accepts(task, now)
        before = self.do("get_session_state", PidRequest("p"))
        request = ReportRequest("p", task, outcome, ExecutionMetrics(llm_calls=calls))
        try:
            reply = self.do("report_agent_result", request)
        except OperationError:
            assert not accepts
            assert self.do("get_session_state", PidRequest("p")) == before, "nothing was changed"
            return
        assert accepts
        self.walk.report(task, replace(outcome, llm_calls=calls))
        self.check(reply)

    def check(self, reply: SessionReply) -> None:
        walk, now, instruction = self.walk, self.bench.clock.now(), reply.instruction
        if walk.end is None:
            walk.expire(now)
        ready = walk.ready()
        if walk.end is None and (bound := walk.passed_bound(ready)):
            walk.stop(bound)
        if walk.end is not None:
            assert instruction == Terminate(walk.end)
        elif ready:
            assert isinstance(instruction, RunAgent)
            assert [task.stage for task in instruction.tasks] == ready
            for task in instruction.tasks:
                assert task.id not in self.issued
                self.issued.append(task.id)
                walk.issue(task, now)
        elif walk.out:
            assert instruction == WaitForTasks(min(until for _, until, _ in walk.out.values()))
        elif walk.paused:
            asked = [interrupt for _, interrupt, _ in sorted(walk.paused)]
            assert instruction == WaitForInterrupts(tuple(asked))
        else:
            assert instruction == Terminate(TerminalReason.COMPLETED)
            walk.stop(TerminalReason.COMPLETED)
        quota = self.do("get_process", PidRequest("p")).quota
        assert quota.used.model_calls == walk.llm_calls
        assert quota.used.agent_hops == len(self.issued)


TestKernelAgainstWalk = KernelAgainstWalk.TestCase
