"""Processes of the kernel: moves, queue, leases, trees, quotas, pages, and other tenants."""

import asyncio
from heapq import heappop, heappush
from itertools import pairwise

from hypothesis import given, strategies as st

from tests.kernel.kernels import ANN, BOB, OTHER, Bench, refused
from vegakit.control import (
    CheckQuotaRequest,
    CreateProcessRequest,
    EmptyRequest,
    KernelEventKind,
    KernelProcess,
    ListProcessesRequest,
    NextRunnableRequest,
    PidRequest,
    RecordUsageRequest,
    RefusalCode,
    RenewProcessRequest,
    TerminateProcessRequest,
    TransitionRequest,
    WatchRequest,
)
from vegakit.money import Money
from vegakit.policy import (
    AgingRule,
    Consumption,
    Priority,
    ProcessState,
    QuotaExceeded,
    QuotaRule,
    SoftWallReached,
    WithinQuota,
    ready_rank,
)


async def submitted(bench: Bench, pid: str, **more: object) -> KernelProcess:
    return await bench.of().submit(CreateProcessRequest(pid, **more))  # pyright: ignore[reportArgumentType]


async def test_a_process_goes_its_way_and_every_step_is_told() -> None:
    bench = Bench()
    made = await bench.of().create_process(CreateProcessRequest("p", request="r", session="s"))
    assert (made.state, made.user, made.request, made.session) == ("new", "ann", "r", "s")
    await bench.of().schedule_process(PidRequest("p"))
    bench.clock.advance(5)
    taken = (await bench.of().get_next_runnable(NextRunnableRequest("w"))).process
    assert taken is not None
    assert (taken.pid, taken.state, taken.holder) == ("p", "running", "w")
    with refused(RefusalCode.NOT_FOUND):
        await bench.of().schedule_process(PidRequest("other"))
    for to in (ProcessState.WAITING, ProcessState.RUNNING, ProcessState.BLOCKED):
        await bench.of().transition_state(TransitionRequest("p", to, stage="plan", service="s"))
    await bench.of().terminate_process(TerminateProcessRequest("p", "done"))
    over = await bench.of().transition_state(TransitionRequest("p", ProcessState.ZOMBIE))
    assert (over.stage, over.service) == ("plan", "s")
    assert (over.reason, over.ended_ms) == ("done", bench.clock.now())
    told = [one async for one in bench.of().watch_events(WatchRequest())]
    assert [one.number for one in told] == [*range(1, len(told) + 1)]
    moves = [one.event.detail for one in told if one.event.kind == "process_state_changed"]
    states = "new ready running waiting running blocked terminated zombie".split()
    assert [(one["old_state"], one["state"]) for one in moves] == [*pairwise(states)]
    assert (told[0].event.kind, told[0].event.detail["process"]["pid"]) == ("process_created", "p")
    ends = [one for one in told if one.event.kind is KernelEventKind.PROCESS_TERMINATED]
    assert [one.event.detail for one in ends] == [{"reason": "done"}]


async def test_a_move_that_is_not_in_the_table_is_refused_in_its_words() -> None:
    bench = Bench()
    await bench.of().create_process(CreateProcessRequest("p"))
    with refused(RefusalCode.CONFLICT, "from NEW a process may go to READY or to TERMINATED"):
        await bench.of().transition_state(TransitionRequest("p", ProcessState.RUNNING))
    with refused(RefusalCode.NOT_FOUND, "no process 'q'"):
        await bench.of().schedule_process(PidRequest("q"))
    assert (await bench.of().get_process(PidRequest("p"))).state is ProcessState.NEW


async def test_whoever_asks_again_makes_no_second_process() -> None:
    bench = Bench()
    first = await submitted(bench, "p")
    bench.clock.advance(1)
    assert await submitted(bench, "p") == first
    with refused(RefusalCode.CONFLICT, "process 'p' is there already, with another user;"):
        await bench.of(BOB).submit(CreateProcessRequest("p"))
    others: dict[str, object] = {
        "request": "r",
        "session": "s",
        "parent": "q",
        "priority": Priority.HIGH,
        "quota": QuotaRule(model_calls=1),
    }
    for field, other in others.items():
        with refused(RefusalCode.CONFLICT, f"'p' is there already, with another {field};"):
            await submitted(bench, "p", **{field: other})
    with refused(RefusalCode.CONFLICT, "another request and another session;"):
        await submitted(bench, "p", request="r", session="s")
    assert (await bench.of().get_process_counts(EmptyRequest())).total == 1


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), st.sampled_from(Priority)),
        st.tuples(st.just("take"), st.none()),
        st.tuples(st.just("wait"), st.sampled_from([1, 5_000, 10_000, 30_000])),
    ),
    max_size=30,
)


@given(STEPS)
def test_the_queue_is_that_of_the_policy(steps: list[tuple[str, object]]) -> None:
    """The order that an index of the store gives is that of the ranks."""

    async def run() -> None:
        bench, queue, made = Bench(), list[tuple[int, str]](), 0
        for step, what in [*steps, *[("take", None)] * len(steps)]:
            if isinstance(what, Priority):
                made += 1
                await submitted(bench, f"p{made:03}", priority=what)
                rank = ready_rank(AgingRule(), what, bench.clock.now())
                heappush(queue, (rank, f"p{made:03}"))
            elif isinstance(what, int):
                bench.clock.advance(what)
            else:
                taken = (await bench.of().get_next_runnable(NextRunnableRequest("w"))).process
                first = heappop(queue)[1] if queue else None
                assert (taken.pid if taken else None) == first, step

    asyncio.run(run())


async def test_a_process_whose_holder_is_gone_is_ready_again() -> None:
    bench = Bench()
    await submitted(bench, "p")
    await bench.of().get_next_runnable(NextRunnableRequest("w", lease_ms=100))
    bench.clock.advance(60)
    await bench.of().renew_process(RenewProcessRequest("p", "w", lease_ms=100))
    bench.clock.advance(99)
    assert await bench.kernel().sweep() == 0
    bench.clock.advance(1)
    assert await bench.kernel().sweep() == 1
    assert (await bench.of().get_process(PidRequest("p"))).state is ProcessState.READY
    again = (await bench.of().get_next_runnable(NextRunnableRequest("x"))).process
    assert again is not None
    assert again.holder == "x"
    with refused(RefusalCode.CONFLICT, "'w' no longer holds process 'p'"):
        await bench.of().transition_state(TransitionRequest("p", ProcessState.WAITING, holder="w"))
    with refused(RefusalCode.CONFLICT, "'w' no longer holds process 'p'"):
        await bench.of().renew_process(RenewProcessRequest("p", "w"))


async def test_nothing_runs_without_a_lease() -> None:
    bench = Bench()
    await submitted(bench, "p")
    with refused(RefusalCode.CONFLICT, "in the queue; take the next one"):
        await bench.of().transition_state(TransitionRequest("p", ProcessState.RUNNING))
    await bench.of().get_next_runnable(NextRunnableRequest("w"))
    await bench.of().transition_state(TransitionRequest("p", ProcessState.WAITING, holder="w"))
    again = TransitionRequest("p", ProcessState.RUNNING, holder="w", lease_ms=50)
    assert (await bench.of().transition_state(again)).holder == "w"
    bench.clock.advance(50)
    assert await bench.kernel().sweep() == 1
    assert (await bench.of().get_process(PidRequest("p"))).state is ProcessState.READY


async def test_names_with_slashes_are_not_taken_for_each_other() -> None:
    bench = Bench()
    for pid, usage_id in (("g/b", "c"), ("g", "b/c")):
        await submitted(bench, pid)
        usage = RecordUsageRequest(pid, Consumption(model_calls=1), usage_id)
        await bench.of().record_usage(usage)
        assert (await bench.of().get_process(PidRequest(pid))).quota.used.model_calls == 1


async def test_a_tree_ends_from_below() -> None:
    bench = Bench()
    for pid, parent in (("a", ""), ("b", "a"), ("c", "b"), ("d", "a")):
        await submitted(bench, pid, parent=parent)
    await bench.of().terminate_process(TerminateProcessRequest("d", "early"))
    await bench.of().terminate_process(TerminateProcessRequest("a", "over"))
    await bench.of().terminate_process(TerminateProcessRequest("a", "again"))
    told = [
        (one.event.pid, one.event.detail["reason"])
        async for one in bench.of().watch_events(
            WatchRequest(kinds=(KernelEventKind.PROCESS_TERMINATED,))
        )
    ]
    assert told == [("d", "early"), ("c", "over"), ("b", "over"), ("a", "over")]
    with refused(RefusalCode.CONFLICT, "takes no more children"):
        await submitted(bench, "e", parent="a")


async def test_whoever_counts_usage_is_warned_once_of_the_soft_wall() -> None:
    bench = Bench()
    await submitted(bench, "p", quota=QuotaRule(soft_wall_ms=5, wall_ms=1_000))
    bench.clock.advance(6)
    used = RecordUsageRequest("p", Consumption(model_calls=1))
    verdicts = [(await bench.of().record_usage(used)).verdict for _ in range(2)]
    assert verdicts == [WithinQuota(SoftWallReached(5, 6)), WithinQuota()]


async def test_usage_is_counted_once_truly_and_told_when_it_passes_a_limit() -> None:
    bench = Bench()
    rule = QuotaRule(model_calls=2, money=Money(10), wall_ms=1_000)
    await submitted(bench, "p", quota=rule)
    used = Consumption(model_calls=2, input_tokens=7, money=Money(4))
    for _ in range(3):
        reply = await bench.of().record_usage(RecordUsageRequest("p", used, usage_id="u1"))
        left = reply.remaining
        assert (left.model_calls, left.money, left.input_tokens) == (0, 6, None)
        assert isinstance(reply.verdict, WithinQuota)
    with refused(RefusalCode.CONFLICT, "usage 'u1' of process 'p' .* another usage;"):
        other = Consumption(model_calls=2, input_tokens=7, money=Money(5))
        await bench.of().record_usage(RecordUsageRequest("p", other, usage_id="u1"))
    one_more = CheckQuotaRequest("p", Consumption(model_calls=1))
    verdict = (await bench.of().check_quota(one_more)).verdict
    assert isinstance(verdict, QuotaExceeded)
    assert (verdict.used, verdict.limit) == (2, 2)
    await bench.of().record_usage(RecordUsageRequest("p", Consumption(money=Money(7))))
    await bench.of().record_usage(RecordUsageRequest("p", Consumption(money=Money(1))))
    told = [
        one.event.detail
        async for one in bench.of().watch_events(WatchRequest())
        if one.event.kind is KernelEventKind.RESOURCE_EXCEEDED
    ]
    assert told == [{"resource": "money", "used": 11, "limit": 10}], "once, when it is passed"


async def test_a_list_is_paged_whole_and_filtered() -> None:
    bench = Bench()
    for number in range(25):
        await bench.of(ANN if number % 2 else BOB).create_process(
            CreateProcessRequest(f"p{number:02}")
        )
        bench.clock.advance(number % 3)
    await bench.of().schedule_process(PidRequest("p07"))
    seen: list[str] = []
    after = ""
    while True:
        page = await bench.of().list_processes(ListProcessesRequest(after=after, limit=4))
        seen += [one.pid for one in page.processes]
        after = page.next
        if not after:
            break
    assert sorted(seen) == [f"p{number:02}" for number in range(25)]
    ready = await bench.of().list_processes(ListProcessesRequest(ProcessState.READY))
    assert [one.pid for one in ready.processes] == ["p07"]
    bobs = await bench.of().list_processes(ListProcessesRequest(user="bob"))
    assert len(bobs.processes) == 13
    counts = await bench.of().get_process_counts(EmptyRequest())
    assert (counts.by_state["new"], counts.by_state["ready"], counts.total) == (24, 1, 25)


async def test_a_page_misses_nobody_who_moves_meanwhile() -> None:
    bench = Bench()
    for number in range(6):
        await bench.of().create_process(CreateProcessRequest(f"p{number}"))
    first = await bench.of().list_processes(ListProcessesRequest(limit=3))
    for number in range(6):
        await bench.of().schedule_process(PidRequest(f"p{number}"))
    rest = await bench.of().list_processes(ListProcessesRequest(after=first.next, limit=5))
    assert [one.pid for one in (*first.processes, *rest.processes)] == [f"p{n}" for n in range(6)]


async def test_what_ended_long_ago_is_forgotten_with_all_that_is_of_it() -> None:
    bench = Bench()
    for pid in ("old", "new"):
        await submitted(bench, pid)
        await bench.of().record_usage(RecordUsageRequest(pid, Consumption(), usage_id="u"))
    await bench.of().terminate_process(TerminateProcessRequest("old"))
    bench.clock.advance(7 * 86_400_000 - 1)
    assert await bench.kernel().sweep() == 0
    bench.clock.advance(1)
    assert [await bench.kernel().sweep(), await bench.kernel().sweep()] == [1, 0]
    with refused(RefusalCode.NOT_FOUND):
        await bench.of().get_process(PidRequest("old"))
    left = await bench.store.read(ANN.tenant, lambda it: [one.key for one in it.find("usage")])
    assert left == ["3:new/u"]


async def test_another_tenant_sees_nothing_and_takes_nothing() -> None:
    bench = Bench()
    await submitted(bench, "p")
    theirs = bench.of(OTHER)
    assert (await theirs.get_next_runnable(NextRunnableRequest("w"))).process is None
    assert (await theirs.list_processes(ListProcessesRequest())).processes == ()
    assert (await theirs.get_process_counts(EmptyRequest())).total == 0
    assert [one async for one in theirs.watch_events(WatchRequest())] == []
    with refused(RefusalCode.NOT_FOUND):
        await theirs.get_process(PidRequest("p"))
    with refused(RefusalCode.NOT_FOUND):
        await theirs.terminate_process(TerminateProcessRequest("p"))
    assert (await theirs.submit(CreateProcessRequest("p"))).state is ProcessState.READY
    assert (await bench.of().get_system_status(EmptyRequest())).processes.total == 1


async def test_many_kernels_give_each_process_to_one_holder() -> None:
    bench = Bench()
    for number in range(40):
        await submitted(bench, f"p{number}")
    taken = [
        (await bench.of().get_next_runnable(NextRunnableRequest(f"w{number % 5}"))).process
        for number in range(45)
    ]
    pids = [one.pid for one in taken if one is not None]
    assert len(pids) == len({*pids}) == 40
