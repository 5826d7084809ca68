"""Sessions, envelopes and what a report counts, one case at a time."""

import asyncio
from time import process_time

import pytest
from msgspec.structs import replace

from tests.kernel.kernels import ANN, BOB, Bench, refused
from vegakit.control import (
    CreateEnvelopeRequest,
    CreateInterruptRequest,
    CreateProcessRequest,
    EnvelopeIdRequest,
    ExecutionMetrics,
    InitializeSessionRequest,
    InterruptIdRequest,
    KernelEventKind,
    NextInstructionRequest,
    PidRequest,
    RefusalCode,
    RenewTaskRequest,
    ReportRequest,
    ResolveInterruptRequest,
    SessionReply,
    TerminateProcessRequest,
    TerminateSessionRequest,
    UpdateEnvelopeRequest,
    WatchRequest,
)
from vegakit.ids import InterruptId
from vegakit.kernel import TenantKernel
from vegakit.money import Money
from vegakit.policy import (
    Condition,
    InterruptKind,
    Pipeline,
    PipelineBounds,
    QuotaRule,
    Replied,
    RoutingRule,
    RunAgent,
    Stage,
    StageAsked,
    StageCompleted,
    StageFailed,
    StageFailure,
    TaskId,
    TerminalReason,
    Terminate,
    WaitForInterrupts,
    WaitForTasks,
)

TWO = Pipeline(
    (Stage("plan", "planner", default_next="write"), Stage("write", "writer")), lease_ms=1_000
)


async def begun(bench: Bench, quota: QuotaRule | None = None, pid: str = "p") -> SessionReply:
    await bench.of().create_process(CreateProcessRequest(pid, quota=quota or QuotaRule()))
    return await bench.of().initialize_session(InitializeSessionRequest(pid, TWO, {"text": "hi"}))


def task_of(reply: SessionReply) -> TaskId:
    assert isinstance(reply.instruction, RunAgent)
    [task] = reply.instruction.tasks
    return task.id


async def reported(bench: Bench, reply: SessionReply, output: object, **used: int) -> SessionReply:
    metrics = ExecutionMetrics(**used)  # pyright: ignore[reportArgumentType]
    outcome = StageCompleted(output)
    return await bench.of().report_agent_result(
        ReportRequest("p", task_of(reply), outcome, metrics)
    )


async def test_a_session_fills_its_envelope_and_tells_its_steps() -> None:
    bench = Bench()
    first = await begun(bench)
    assert (first.envelope.input, first.envelope.user) == ({"text": "hi"}, "ann")
    second = await reported(bench, first, "a plan", tokens_in=5, tokens_out=6, tool_calls=1)
    assert second.envelope.outputs == {"plan": "a plan"}
    last = await reported(bench, second, {"draft": 1}, llm_calls=2, cost=7)
    assert last.instruction == Terminate(TerminalReason.COMPLETED)
    assert last.envelope.outputs == {"plan": "a plan", "write": {"draft": 1}}
    assert [(one.stage, one.agent, one.status) for one in last.envelope.records] == [
        ("plan", "planner", "completed"),
        ("write", "writer", "completed"),
    ]
    used = (await bench.of().get_process(PidRequest("p"))).quota.used
    assert (used.input_tokens, used.output_tokens, used.tool_calls) == (5, 6, 1)
    assert (used.model_calls, used.money, used.agent_hops, used.iterations) == (2, 7, 2, 2)
    told = [one.event.kind async for one in bench.of().watch_events(WatchRequest(pid="p"))]
    kinds = KernelEventKind
    assert told == [
        kinds.PROCESS_CREATED,
        kinds.STAGE_STARTED,
        kinds.STAGE_COMPLETED,
        kinds.STAGE_STARTED,
        kinds.STAGE_COMPLETED,
        kinds.SESSION_ENDED,
    ]
    after = await bench.of().get_next_instruction(NextInstructionRequest("p"))
    assert after.instruction == last.instruction


@pytest.mark.parametrize(
    ("quota", "used", "reason"),
    [
        (QuotaRule(model_calls=1), {"llm_calls": 2}, TerminalReason.MAX_LLM_CALLS),
        (QuotaRule(money=Money(5)), {"cost": 6}, TerminalReason.RESOURCE_EXHAUSTED),
        (QuotaRule(output_tokens=9), {"tokens_out": 10}, TerminalReason.RESOURCE_EXHAUSTED),
        (QuotaRule(tool_calls=0), {"tool_calls": 1}, TerminalReason.RESOURCE_EXHAUSTED),
        (QuotaRule(agent_hops=1), {}, TerminalReason.MAX_AGENT_HOPS),
        (QuotaRule(iterations=1), {}, TerminalReason.MAX_ITERATIONS),
    ],
)
async def test_a_report_that_passes_a_limit_ends_the_session_with_its_reason(
    quota: QuotaRule, used: dict[str, int], reason: TerminalReason
) -> None:
    bench = Bench()
    reply = await reported(bench, await begun(bench, quota), "a plan", **used)
    assert reply.instruction == Terminate(reason)
    assert reply.envelope.outputs == {"plan": "a plan"}, "what was paid for is kept"
    told = [one.event async for one in bench.of().watch_events(WatchRequest())]
    assert [one.detail["reason"] for one in told if one.kind == "session_ended"] == [reason]
    assert [one.kind for one in told].count(KernelEventKind.RESOURCE_EXCEEDED) == 1


async def test_a_refused_report_counts_nothing() -> None:
    bench = Bench()
    first = await begun(bench)
    await reported(bench, first, "a plan", llm_calls=1)
    before = await bench.of().get_process(PidRequest("p"))
    with refused(RefusalCode.CONFLICT, "no such task is out"):
        await reported(bench, first, "again", llm_calls=1)
    assert await bench.of().get_process(PidRequest("p")) == before


async def test_a_lease_is_renewed_and_ends() -> None:
    bench = Bench()
    task = task_of(await begun(bench))
    bench.clock.advance(999)
    lease = await bench.of().renew_task(RenewTaskRequest("p", task))
    assert lease.until_ms == bench.clock.now() + 1_000
    bench.clock.advance(1_000)
    with refused(RefusalCode.CONFLICT, "lease has ended"):
        await bench.of().renew_task(RenewTaskRequest("p", task))
    again = await bench.of().get_next_instruction(NextInstructionRequest("p"))
    assert task_of(again) != task


async def test_who_waits_for_a_task_hears_of_it_at_once() -> None:
    bench = Bench()
    kernel = bench.kernel()
    first = await begun(bench)
    waiting = asyncio.ensure_future(
        TenantKernel(kernel, ANN).get_next_instruction(NextInstructionRequest("p", wait_ms=60_000))
    )
    for _ in range(5):
        await asyncio.sleep(0)
    assert not waiting.done()
    outcome = StageFailed(StageFailure.LLM_FAILED)
    await TenantKernel(kernel, ANN).report_agent_result(ReportRequest("p", task_of(first), outcome))
    reply = await asyncio.wait_for(waiting, 5)
    assert reply.instruction == Terminate(TerminalReason.LLM_FAILED)
    now = await bench.of().get_next_instruction(NextInstructionRequest("p"))
    assert not isinstance(now.instruction, WaitForTasks)


async def test_a_session_ends_when_it_is_idle_or_its_process_ends() -> None:
    bench = Bench()
    await begun(bench, pid="idle")
    await begun(bench, pid="killed")
    bench.clock.advance(86_400_000 - 1)
    await bench.of().terminate_process(TerminateProcessRequest("killed", "enough"))
    killed = await bench.of().get_session_state(PidRequest("killed"))
    assert (killed.session.ended, killed.message) == (
        Terminate(TerminalReason.USER_CANCELLED),
        "enough",
    )
    assert await bench.kernel().sweep() == 0
    bench.clock.advance(1)
    assert [await bench.kernel().sweep(), await bench.kernel().sweep()] == [1, 0]
    idle = await bench.of().get_session_state(PidRequest("idle"))
    assert idle.session.ended == Terminate(TerminalReason.TIMEOUT)


async def test_the_first_reason_stands() -> None:
    bench = Bench()
    await begun(bench)
    for reason in (TerminalReason.POLICY_VIOLATION, TerminalReason.TIMEOUT):
        ended = await bench.of().terminate_session(TerminateSessionRequest("p", reason))
        assert ended.session.ended == Terminate(TerminalReason.POLICY_VIOLATION)


async def test_a_bad_pipeline_is_refused_with_every_problem() -> None:
    bench = Bench()
    await bench.of().create_process(CreateProcessRequest("p"))
    bad = Pipeline((Stage("a", "x", default_next="b"), Stage("a", "y")))
    with refused(RefusalCode.INVALID, "(?s)2 stages are named 'a'.*which is no stage"):
        await bench.of().initialize_session(InitializeSessionRequest("p", bad))
    with refused(RefusalCode.NOT_FOUND, "no session of process"):
        await bench.of().get_session_state(PidRequest("p"))


QUESTION = CreateInterruptRequest("p", InterruptKind.CLARIFICATION, "Which?", "q")
ASKED = StageAsked(InterruptId("q"), InterruptKind.CLARIFICATION)


@pytest.mark.parametrize(
    "settled", ["answered before", "answered", "cancelled before", "cancelled"]
)
async def test_a_stage_that_asked_goes_on_however_the_question_is_settled(settled: str) -> None:
    bench = Bench()
    task = task_of(await begun(bench))
    await bench.of().create_interrupt(QUESTION)

    async def settle() -> None:
        if "answered" in settled:
            await bench.of(BOB).resolve_interrupt(ResolveInterruptRequest("q", Replied("this")))
        else:
            await bench.of().cancel_interrupt(InterruptIdRequest("q"))

    if "before" in settled:
        await settle()
        reply = await bench.of().report_agent_result(ReportRequest("p", task, ASKED))
    else:
        reply = await bench.of().report_agent_result(ReportRequest("p", task, ASKED))
        assert reply.instruction == WaitForInterrupts((InterruptId("q"),))
        await settle()
        reply = await bench.of().get_next_instruction(NextInstructionRequest("p"))
    assert task_of(reply).startswith("plan#")


async def test_a_stage_waits_for_a_question_of_its_own_process_only() -> None:
    bench = Bench()
    task = task_of(await begun(bench))
    with refused(RefusalCode.INVALID, "no such question"):
        await bench.of().report_agent_result(ReportRequest("p", task, ASKED))
    await bench.of().create_process(CreateProcessRequest("other"))
    await bench.of().create_interrupt(replace(QUESTION, pid="other"))
    with refused(RefusalCode.INVALID, "no such question"):
        await bench.of().report_agent_result(ReportRequest("p", task, ASKED))


async def test_an_envelope_that_is_full_ends_its_session() -> None:
    bench = Bench()
    reply = await reported(bench, await begun(bench), "x" * (5 << 20))
    assert reply.instruction == Terminate(TerminalReason.RESOURCE_EXHAUSTED)
    assert "keep large values elsewhere" in reply.message
    assert reply.envelope.outputs == {}


async def test_a_hostile_pipeline_is_refused_quickly() -> None:
    bench = Bench()
    await bench.of().create_process(CreateProcessRequest("p"))
    rules = tuple(RoutingRule("a", Condition.CONTAINS, value=f"q{n}") for n in range(101))
    stages: tuple[Stage, ...] = ()
    costs: list[float] = []
    for size in (11, 90):
        stages = (
            Stage("a", "x", routing=rules),
            Stage("s" * 101, "x"),
            Stage("b", "x", timeout_ms=10**30),
            *(Stage(f"{'n' * 500}{number}", "x") for number in range(size)),
        )
        bad = Pipeline(stages, start=tuple(f"{'n' * 501}{number}" for number in range(size)))
        before = process_time()
        with refused(RefusalCode.INVALID, "characters; write at most 100"):
            await bench.of().initialize_session(InitializeSessionRequest("p", bad))
        costs.append(process_time() - before)
    assert costs[1] < 24 * max(costs[0], 0.02), "it took 11 s when every name was compared"
    for text in ("101 routing rules; write at most 100", "write at most 604800000"):
        with refused(RefusalCode.INVALID, f"(?s){text}"):
            few = Pipeline(stages[:3], bounds=PipelineBounds(max_iterations=1))
            await bench.of().initialize_session(InitializeSessionRequest("p", few))


async def test_a_session_is_begun_once_and_another_under_its_pid_is_refused() -> None:
    bench = Bench()
    first = await begun(bench)
    request = InitializeSessionRequest("p", TWO, {"text": "hi"})
    again = await bench.of().initialize_session(request)
    assert isinstance(again.instruction, WaitForTasks), "its task is out already"
    assert again.envelope == first.envelope
    others = {
        "pipeline": replace(request, pipeline=Pipeline(TWO.stages[1:])),
        "input": replace(request, input={"text": "ho"}),
        "idle_ms": replace(request, idle_ms=1),
    }
    for field, other in others.items():
        with refused(RefusalCode.CONFLICT, f"session of process 'p' .* another {field};"):
            await bench.of().initialize_session(other)
    await bench.of().terminate_process(TerminateProcessRequest("p"))
    assert isinstance((await bench.of().initialize_session(request)).instruction, Terminate)
    await bench.of().forget_session(PidRequest("p"))
    with refused(RefusalCode.CONFLICT, "process 'p' has ended"):
        await bench.of().initialize_session(request)


async def test_numbers_and_truths_are_not_taken_for_each_other() -> None:
    bench = Bench()
    await bench.of().create_envelope(CreateEnvelopeRequest("e", {"n": 1}))
    assert (await bench.of().create_envelope(CreateEnvelopeRequest("e", {"n": 1}))).version == 1
    for field, other in {
        "input": CreateEnvelopeRequest("e", {"n": True}),
        "request": CreateEnvelopeRequest("e", {"n": 1}, request="r"),
        "metadata": CreateEnvelopeRequest("e", {"n": 1}, metadata={"a": 1}),
    }.items():
        with refused(RefusalCode.CONFLICT, f"envelope 'e' .* another {field};"):
            await bench.of().create_envelope(other)


async def test_an_envelope_of_no_session_is_forgotten_when_nobody_changes_it() -> None:
    bench, week_ms = Bench(), 7 * 86_400_000
    mine = InitializeSessionRequest("p", TWO, idle_ms=week_ms)
    await bench.of().create_process(CreateProcessRequest("p"))
    held = (await bench.of().initialize_session(mine)).envelope.id
    for key in ("old", "changed"):
        await bench.of().create_envelope(CreateEnvelopeRequest(key, session="p"))
    clone = (await bench.of().clone_envelope(EnvelopeIdRequest(held))).id
    bench.clock.advance(week_ms - 1)
    assert await bench.kernel().sweep() == 0
    await bench.of().update_envelope(UpdateEnvelopeRequest("changed", 1, outputs={"x": 1}))
    bench.clock.advance(1)
    assert [await bench.kernel().sweep() > 0, await bench.kernel().sweep()] == [True, 0]
    for key, is_kept in ((held, True), ("changed", True), ("old", False), (clone, False)):
        found = await bench.store.read(ANN.tenant, lambda it, key=key: it.get("envelope", key))
        assert (found is not None) == is_kept, key
    bench.clock.advance(week_ms)
    assert [await bench.kernel().sweep() > 0, await bench.kernel().sweep()] == [True, 0]


async def test_an_update_is_never_lost() -> None:
    bench = Bench()
    await bench.of().create_envelope(CreateEnvelopeRequest("e", "in", metadata={"a": 1}))
    one = await bench.of().update_envelope(UpdateEnvelopeRequest("e", 1, outputs={"x": [1]}))
    with refused(RefusalCode.CONFLICT, "at version 2, not 1"):
        await bench.of().update_envelope(UpdateEnvelopeRequest("e", 1, outputs={"y": 2}))
    copy = await bench.of().clone_envelope(EnvelopeIdRequest("e"))
    await bench.of().update_envelope(UpdateEnvelopeRequest(copy.id, 1, outputs={"z": 3}))
    assert await bench.of().get_envelope(EnvelopeIdRequest("e")) == one
    assert one.outputs == {"x": [1]}
