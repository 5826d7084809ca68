"""Questions of the kernel: held, answered, expired as the table of kinds says, and never twice."""

from pathlib import Path

import pytest

from tests.kernel.kernels import BOB, OTHER, Bench, refused
from tests.store.test_tenants import KINDS, opened
from vegakit.control import (
    CreateInterruptRequest,
    CreateProcessRequest,
    EmptyRequest,
    InterruptIdRequest,
    InterruptRecord,
    KernelEventKind,
    ListInterruptsRequest,
    NextRunnableRequest,
    PidRequest,
    RefusalCode,
    ResolveInterruptRequest,
    TerminateProcessRequest,
    TransitionRequest,
    UseApprovalRequest,
    WatchRequest,
)
from vegakit.ids import Digest
from vegakit.policy import (
    INTERRUPT_KINDS,
    Approved,
    Declined,
    InterruptKind,
    InterruptStatus,
    ProcessState,
    Replied,
    Resume,
)

ACTION = Digest("0" * 32)


async def running(bench: Bench, pid: str = "p") -> None:
    await bench.of().submit(CreateProcessRequest(pid))
    await bench.of().get_next_runnable(NextRunnableRequest("w", lease_ms=7 * 86_400_000))


async def asked(
    bench: Bench, kind: InterruptKind, key: str = "q", pid: str = "p"
) -> InterruptRecord:
    permits = INTERRUPT_KINDS[kind].use_within_ms is not None
    return await bench.of().create_interrupt(
        CreateInterruptRequest(pid, kind, "May I?", key, action=ACTION if permits else None)
    )


async def state_of(bench: Bench, pid: str = "p") -> ProcessState:
    return (await bench.of().get_process(PidRequest(pid))).state


DAY, HOUR, MINUTE = 86_400_000, 3_600_000, 60_000
TTL = {
    InterruptKind.CLARIFICATION: DAY,
    InterruptKind.CONFIRMATION: HOUR,
    InterruptKind.AGENT_REVIEW: 30 * MINUTE,
    InterruptKind.CHECKPOINT: None,
    InterruptKind.RESOURCE_EXHAUSTED: 5 * MINUTE,
    InterruptKind.TIMEOUT: 5 * MINUTE,
    InterruptKind.SYSTEM_ERROR: HOUR,
}


@pytest.mark.parametrize("kind", InterruptKind)
async def test_silence_has_the_consequence_of_the_kind(kind: InterruptKind) -> None:
    bench = Bench()
    await running(bench)
    record = await asked(bench, kind)
    ttl_ms = TTL[kind]
    if ttl_ms is None:
        assert (record.interrupt.expires_ms, await state_of(bench)) == (None, ProcessState.RUNNING)
        return
    assert await state_of(bench) is ProcessState.BLOCKED
    bench.clock.advance(ttl_ms - 1)
    assert await bench.kernel().sweep() == 0
    bench.clock.advance(1)
    with refused(RefusalCode.CONFLICT, "its time is over"):
        answer = ResolveInterruptRequest("q", Replied("late"), record.interrupt.ask.action)
        await bench.of(BOB).resolve_interrupt(answer)
    assert [await bench.kernel().sweep(), await bench.kernel().sweep()] == [1, 0]
    over = (await bench.of().get_interrupt(InterruptIdRequest("q"))).interrupt
    assert over.status is InterruptStatus.EXPIRED
    declines = isinstance(INTERRUPT_KINDS[kind].at_expiry, Resume)
    assert await state_of(bench) is (ProcessState.READY if declines else ProcessState.TERMINATED)


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        (InterruptKind.CLARIFICATION, Replied("blue")),
        (InterruptKind.CONFIRMATION, Approved()),
        (InterruptKind.AGENT_REVIEW, Declined("no")),
    ],
)
async def test_an_answer_lets_the_process_go_on_once(
    kind: InterruptKind, answer: Approved | Declined | Replied
) -> None:
    bench = Bench()
    await running(bench)
    asked_with = (await asked(bench, kind)).interrupt.ask.action
    found = await bench.of().get_pending_interrupt(PidRequest("p"))
    assert found.interrupt is not None
    assert found.interrupt.interrupt.ask.id == "q"
    request = ResolveInterruptRequest("q", answer, asked_with)
    settled = (await bench.of(BOB).resolve_interrupt(request)).interrupt
    assert (settled.answer, settled.answered_by) == (answer, "bob")
    assert await state_of(bench) is ProcessState.READY
    assert (await bench.of().get_pending_interrupt(PidRequest("p"))).interrupt is None
    with refused(RefusalCode.CONFLICT, "settled already"):
        await bench.of(BOB).resolve_interrupt(request)
    assert await state_of(bench) is ProcessState.READY


async def test_an_approval_is_of_the_action_that_was_shown() -> None:
    bench = Bench()
    await running(bench)
    await asked(bench, InterruptKind.CONFIRMATION)
    for action in (None, Digest("1" * 32)):
        with refused(RefusalCode.CONFLICT, "another action"):
            await bench.of(BOB).resolve_interrupt(ResolveInterruptRequest("q", Approved(), action))
    with refused(RefusalCode.INVALID, "approve or decline"):
        await bench.of(BOB).resolve_interrupt(ResolveInterruptRequest("q", Replied("ok"), ACTION))
    with refused(RefusalCode.INVALID, "send the digest"):
        await bench.of().create_interrupt(
            CreateInterruptRequest("p", InterruptKind.CONFIRMATION, "May I?")
        )


async def test_an_approval_is_used_once_in_time_for_its_action() -> None:
    bench = Bench()
    await running(bench)
    for key in ("q1", "q2", "q3"):
        await asked(bench, InterruptKind.CONFIRMATION, key)
    with refused(RefusalCode.CONFLICT, "nobody approved"):
        await bench.of().use_approval(UseApprovalRequest("q1", ACTION))
    for key in ("q1", "q2"):
        await bench.of(BOB).resolve_interrupt(ResolveInterruptRequest(key, Approved(), ACTION))
    await bench.of(BOB).resolve_interrupt(ResolveInterruptRequest("q3", Declined(), ACTION))
    with refused(RefusalCode.CONFLICT, "another action"):
        await bench.of().use_approval(UseApprovalRequest("q1", Digest("1" * 32)))
    await bench.of().use_approval(UseApprovalRequest("q1", ACTION))
    with refused(RefusalCode.CONFLICT, "was used"):
        await bench.of().use_approval(UseApprovalRequest("q1", ACTION))
    with refused(RefusalCode.CONFLICT, "nobody approved"):
        await bench.of().use_approval(UseApprovalRequest("q3", ACTION))
    bench.clock.advance(10 * MINUTE)
    with refused(RefusalCode.CONFLICT, "time is over"):
        await bench.of().use_approval(UseApprovalRequest("q2", ACTION))


async def test_nobody_moves_a_process_past_its_question() -> None:
    bench = Bench()
    await running(bench)
    await asked(bench, InterruptKind.CLARIFICATION)
    for to in (ProcessState.RUNNING, ProcessState.READY):
        with refused(RefusalCode.CONFLICT, "held by question 'q'"):
            await bench.of().transition_state(TransitionRequest("p", to))


async def take_next(bench: Bench) -> str | None:
    taken = (await bench.of().get_next_runnable(NextRunnableRequest("w"))).process
    return None if taken is None else taken.pid


@KINDS
async def test_nobody_takes_a_process_past_its_question(kind: str, tmp_path: Path) -> None:
    """Those behind it are taken; it keeps its place in the queue for when it is answered."""
    async with opened(kind, tmp_path) as [store]:
        bench = Bench(store)
        for pid in ("p", "second", "third"):
            await bench.of().submit(CreateProcessRequest(pid))
            bench.clock.advance(1)
        for key in ("q1", "q2"):
            await asked(bench, InterruptKind.CLARIFICATION, key)
        assert await take_next(bench) == "second"
        await bench.of(BOB).resolve_interrupt(ResolveInterruptRequest("q1", Replied("yes")))
        await bench.of().submit(CreateProcessRequest("last"))
        with refused(RefusalCode.CONFLICT, "held by question 'q2'"):
            await bench.of().transition_state(TransitionRequest("p", ProcessState.RUNNING))
        await bench.of().cancel_interrupt(InterruptIdRequest("q2"))
        assert await take_next(bench) == "p"
        assert await take_next(bench) == "third"
        await asked(bench, InterruptKind.CLARIFICATION, "q3", "last")
        assert await take_next(bench) is None


@pytest.mark.parametrize("kind", INTERRUPT_KINDS)
async def test_a_process_in_the_queue_is_held_by_the_kinds_that_hold(kind: InterruptKind) -> None:
    """A checkpoint only notes where a process stands."""
    bench = Bench()
    await bench.of().submit(CreateProcessRequest("p"))
    await asked(bench, kind)
    is_held = INTERRUPT_KINDS[kind].at_expiry is not None
    assert await take_next(bench) == (None if is_held else "p")


async def test_a_process_goes_on_when_no_question_holds_it_any_more() -> None:
    bench = Bench()
    await running(bench)
    for key in ("q1", "q2"):
        await asked(bench, InterruptKind.CLARIFICATION, key)
    await bench.of().cancel_interrupt(InterruptIdRequest("q2"))
    assert await state_of(bench) is ProcessState.BLOCKED
    with refused(RefusalCode.CONFLICT, "held by question 'q1'"):
        await bench.of().schedule_process(PidRequest("p"))
    await bench.of(BOB).resolve_interrupt(ResolveInterruptRequest("q1", Replied("yes")))
    assert await state_of(bench) is ProcessState.READY


async def test_checkpoints_take_no_place_among_questions() -> None:
    bench = Bench()
    await running(bench)
    for number in range(1_001):
        await asked(bench, InterruptKind.CHECKPOINT, f"c{number}")
    await asked(bench, InterruptKind.CLARIFICATION, "q")
    assert (await bench.of().get_system_status(EmptyRequest())).pending_interrupts == 1


async def test_whoever_asks_again_opens_no_second_question() -> None:
    bench = Bench()
    await running(bench)
    first = await asked(bench, InterruptKind.CLARIFICATION)
    bench.clock.advance(1)
    assert await asked(bench, InterruptKind.CLARIFICATION) == first
    with refused(RefusalCode.CONFLICT, "question .* is there already, with another kind;"):
        await asked(bench, InterruptKind.TIMEOUT)


async def test_a_process_that_ends_takes_its_questions_with_it() -> None:
    bench = Bench()
    await running(bench)
    for key in ("q1", "q2"):
        await asked(bench, InterruptKind.CLARIFICATION, key)
    await bench.of().terminate_process(TerminateProcessRequest("p"))
    page = await bench.of().list_interrupts(ListInterruptsRequest("p"))
    assert {one.interrupt.status for one in page.interrupts} == {InterruptStatus.CANCELLED}
    told = [
        one.event.detail["id"]
        async for one in bench.of().watch_events(WatchRequest())
        if one.event.kind is KernelEventKind.INTERRUPT_RESOLVED
    ]
    assert told == ["q1", "q2"]
    with refused(RefusalCode.CONFLICT, "has ended"):
        await asked(bench, InterruptKind.CLARIFICATION, "q3")


async def test_silence_on_one_question_ends_the_others_of_its_process() -> None:
    bench = Bench()
    await running(bench)
    await asked(bench, InterruptKind.TIMEOUT, "q1")
    await asked(bench, InterruptKind.CLARIFICATION, "q2")
    bench.clock.advance(5 * MINUTE)
    await bench.kernel().sweep()
    stands = {
        key: (await bench.of().get_interrupt(InterruptIdRequest(key))).interrupt.status
        for key in ("q1", "q2")
    }
    assert stands == {"q1": InterruptStatus.EXPIRED, "q2": InterruptStatus.CANCELLED}
    assert await state_of(bench) is ProcessState.TERMINATED


async def test_cancelled_means_that_nobody_asked() -> None:
    bench = Bench()
    await running(bench)
    await asked(bench, InterruptKind.CLARIFICATION)
    cancelled = await bench.of().cancel_interrupt(InterruptIdRequest("q"))
    assert cancelled.interrupt.status is InterruptStatus.CANCELLED
    assert await state_of(bench) is ProcessState.READY


async def test_another_tenant_answers_nothing() -> None:
    bench = Bench()
    await running(bench)
    await asked(bench, InterruptKind.CLARIFICATION)
    with refused(RefusalCode.NOT_FOUND):
        await bench.of(OTHER).resolve_interrupt(ResolveInterruptRequest("q", Replied("x")))
    assert (await bench.of(OTHER).list_interrupts(ListInterruptsRequest())).interrupts == ()


async def test_people_are_not_flooded() -> None:
    bench = Bench()
    await running(bench)
    for number in range(1_000):
        await asked(bench, InterruptKind.CLARIFICATION, f"q{number}")
    with refused(RefusalCode.EXHAUSTED, "too many questions"):
        await asked(bench, InterruptKind.CLARIFICATION, "one more")
