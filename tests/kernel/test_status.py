"""How users, processes and the kernel stand: rates, bounds, what is left; listeners in process."""

import asyncio
import logging
from pathlib import Path

import pytest

from tests.kernel.kernels import ANN, BOB, OTHER, Bench, refused
from tests.store.test_tenants import KINDS, opened
from vegakit.concurrency import SteadyClock
from vegakit.control import (
    Bound,
    CheckRateLimitRequest,
    CreateInterruptRequest,
    CreateProcessRequest,
    EmptyRequest,
    EnvelopeIdRequest,
    ExecutionMetrics,
    InitializeSessionRequest,
    KernelEvent,
    KernelEventKind,
    PidRequest,
    RecordUsageRequest,
    RefusalCode,
    RegisterServiceRequest,
    ReportRequest,
    TerminateProcessRequest,
    TransitionRequest,
    WatchRequest,
)
from vegakit.ids import TenantId
from vegakit.kernel import Kernel, TenantKernel
from vegakit.policy import (
    Consumption,
    InterruptKind,
    Pipeline,
    PipelineBounds,
    ProcessState,
    QuotaRule,
    RateSpan,
    RunAgent,
    SpanUsage,
    Stage,
    StageCompleted,
    TaskId,
    TerminalReason,
    Terminate,
    UserRateRule,
)

TWO = Pipeline(
    (Stage("plan", "planner", default_next="write"), Stage("write", "writer")),
    bounds=PipelineBounds(max_iterations=3, max_agent_hops=5, edge_limits={"plan->write": 2}),
)


async def test_a_users_rate_is_limited_and_given_back() -> None:
    bench = Bench()
    kernel = Kernel(bench.store, bench.clock, user_rate=UserRateRule(4, 5, None, 2))
    ann, bob, other = (TenantKernel(kernel, caller) for caller in (ANN, BOB, OTHER))

    async def allowed(of: TenantKernel = ann, user: str = "", wanted: int = 1) -> bool:
        request = CheckRateLimitRequest(user, wanted)
        return (await of.check_rate_limit(request)).decision.allowed

    assert [await allowed() for _ in range(3)] == [True, True, False]
    assert [await allowed(bob), await allowed(other)] == [True, True], "each user by itself"
    bench.clock.advance(15_000)
    assert [await allowed(), await allowed()] == [True, False], "a burst comes back by the minute"
    assert not await allowed(bob, user="ann"), "whoever asks, it is the user's own limit"
    look = CheckRateLimitRequest(take=False)
    seen = await ann.check_rate_limit(look)
    assert (seen.decision.span, seen.decision.wait_ms) == (RateSpan.BURST, 15_000)
    assert seen == await ann.check_rate_limit(look), "a look takes nothing"
    bench.clock.advance(15_000)
    assert await allowed()
    seen = await ann.check_rate_limit(look)
    assert (seen.decision.span, seen.decision.wait_ms) == (RateSpan.MINUTE, 31_000)
    bench.clock.advance(31_000)
    assert [await allowed(), await allowed()] == [True, False]
    reply = await ann.check_rate_limit(look)
    assert reply.decision.span is RateSpan.HOUR
    assert reply.usage[RateSpan.HOUR] == SpanUsage(5, 5)
    assert reply.usage[RateSpan.DAY] == SpanUsage(5, None)
    never = (await ann.check_rate_limit(CheckRateLimitRequest(wanted=6))).decision
    assert (never.allowed, never.wait_ms) == (False, None)
    status = await bob.get_system_status(EmptyRequest())
    used = {user: of.by_span[RateSpan.HOUR].used for user, of in status.rate_limits.items()}
    assert used == {
        "ann": 5,
        "bob": 1,
    }
    bench.clock.advance(86_400_000 + 24 * 60_000)
    assert await bench.kernel().sweep() == 3
    assert (await bob.get_system_status(EmptyRequest())).rate_limits == {}


@KINDS
async def test_many_servers_let_through_what_one_would(kind: str, tmp_path: Path) -> None:
    rule = UserRateRule(7, None, None, None)
    async with opened(kind, tmp_path, count=3) as stores:
        kernels = [Kernel(store, SteadyClock(), user_rate=rule) for store in stores]
        replies = await asyncio.gather(
            *(
                TenantKernel(kernels[number % len(kernels)], ANN).check_rate_limit(
                    CheckRateLimitRequest()
                )
                for number in range(20)
            )
        )
        assert sum(reply.decision.allowed for reply in replies) == 7


async def test_the_status_of_the_kernel_counts_all_there_is() -> None:
    bench = Bench()
    kernel = bench.kernel()
    of = TenantKernel(kernel, ANN)
    bench.clock.advance(1_500)
    await of.create_process(CreateProcessRequest("p"))
    await of.submit(CreateProcessRequest("q"))
    await of.register_service(RegisterServiceRequest("s"))
    await of.create_interrupt(CreateInterruptRequest("p", InterruptKind.TIMEOUT, "?"))
    status = await of.get_system_status(EmptyRequest())
    assert (status.uptime_ms, status.processes.total, status.pending_interrupts) == (1_500, 2, 1)
    states = {state: count for state, count in status.processes.by_state.items() if count}
    assert (states, status.services) == ({"new": 1, "ready": 1}, {"worker": 1})


async def begun(bench: Bench, quota: QuotaRule | None = None) -> None:
    await bench.of().create_process(CreateProcessRequest("p", quota=quota or QuotaRule()))
    reply = await bench.of().initialize_session(InitializeSessionRequest("p", TWO, "in"))
    assert isinstance(reply.instruction, RunAgent)
    used = ExecutionMetrics(llm_calls=2)
    report = ReportRequest("p", reply.instruction.tasks[0].id, StageCompleted("out"), used)
    await bench.of().report_agent_result(report)


async def test_the_status_of_a_request_is_all_that_is_of_it() -> None:
    bench = Bench()
    await begun(bench, QuotaRule(model_calls=5))
    key = "q"
    await bench.of().create_interrupt(
        CreateInterruptRequest("p", InterruptKind.CLARIFICATION, "Which?", key)
    )
    status = await bench.of().get_request_status(PidRequest("p"))
    assert status.process == await bench.of().get_process(PidRequest("p"))
    assert status.envelope is not None
    assert status.envelope.outputs == {"plan": "out"}
    assert status.interrupt is not None
    assert status.interrupt.interrupt.ask.id == "q"
    assert status.remaining == await bench.of().get_remaining(PidRequest("p"))
    assert (status.remaining.model_calls, status.remaining.tool_calls) == (3, None)
    await bench.of().create_process(CreateProcessRequest("bare"))
    bare = await bench.of().get_request_status(PidRequest("bare"))
    assert (bare.envelope, bare.interrupt) == (None, None)
    for name in ("get_request_status", "get_remaining", "check_bounds"):
        with refused(RefusalCode.NOT_FOUND):
            await getattr(bench.of(OTHER), name)(PidRequest("p"))


async def test_every_bound_is_shown_and_the_one_that_ended_it() -> None:
    bench = Bench()
    await begun(bench, QuotaRule(model_calls=3, wall_ms=500))
    bench.clock.advance(100)
    reply = await bench.of().check_bounds(PidRequest("p"))
    process = {bound.name: bound for bound in reply.process}
    assert process["model_calls"] == Bound("model_calls", 2, 3, 1)
    assert process["wall_ms"] == Bound("wall_ms", 100, 500, 400)
    assert process["agent_hops"] == Bound("agent_hops", 2)
    assert reply.session == (
        Bound("max_iterations", 1, 3, 2),
        Bound("max_llm_calls", 2),
        Bound("max_agent_hops", 2, 5, 3),
        Bound("plan->write", 1, 2, 1),
    )
    assert (reply.exceeded, reply.ended_by) == ("", "")
    usage = RecordUsageRequest("p", Consumption(model_calls=2))
    await bench.of().record_usage(usage)
    over = await bench.of().check_bounds(PidRequest("p"))
    assert over.exceeded == "model_calls"
    await bench.of().terminate_process(TerminateProcessRequest("p"))
    over = await bench.of().check_bounds(PidRequest("p"))
    assert over.ended_by == TerminalReason.USER_CANCELLED


async def test_a_session_that_has_ended_is_forgotten_and_another_begun() -> None:
    bench = Bench()
    await begun(bench)
    with refused(RefusalCode.CONFLICT, "has not ended"):
        await bench.of().forget_session(PidRequest("p"))
    session = await bench.of().get_session_state(PidRequest("p"))
    report = ReportRequest("p", TaskId("write#2"), StageCompleted("out"))
    last = await bench.of().report_agent_result(report)
    assert last.instruction == Terminate(TerminalReason.COMPLETED)
    await bench.of().forget_session(PidRequest("p"))
    with refused(RefusalCode.NOT_FOUND):
        await bench.of().get_session_state(PidRequest("p"))
    with refused(RefusalCode.NOT_FOUND):
        await bench.of().get_envelope(EnvelopeIdRequest(session.envelope))
    again = await bench.of().initialize_session(InitializeSessionRequest("p", TWO, "more"))
    assert isinstance(again.instruction, RunAgent)


# Listeners in process.


@KINDS
async def test_listeners_are_told_after_the_commit_in_order_also_of_cancelled_calls(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(kind, tmp_path) as [store]:
        kernel = Kernel(store, SteadyClock())
        told: list[tuple[TenantId, KernelEvent]] = []

        def fails(_tenant: TenantId, _event: KernelEvent) -> None:
            raise ValueError("a listener of no use")

        kernel.on_event(fails)
        kernel.on_event(lambda tenant, event: told.append((tenant, event)))
        of = TenantKernel(kernel, ANN)
        with caplog.at_level(logging.CRITICAL, "vegakit"):
            calls = [
                asyncio.create_task(of.submit(CreateProcessRequest(f"p{number}")))
                for number in range(20)
            ]
            await asyncio.sleep(0)
            for call in calls[::3]:
                call.cancel()
            await asyncio.wait(calls)
            with refused(RefusalCode.CONFLICT):
                await of.transition_state(TransitionRequest("p1", ProcessState.ZOMBIE))
            await of.terminate_process(TerminateProcessRequest("p1", "done"))
        kept = [one.event async for one in of.watch_events(WatchRequest())]
        assert [event for _, event in told] == kept
        assert {tenant for tenant, _ in told} == {ANN.tenant}
        last = told[-1][1]
        assert (last.kind, last.detail) == (KernelEventKind.PROCESS_TERMINATED, {"reason": "done"})
