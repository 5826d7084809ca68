"""Services of the kernel: found, chosen, asked, worked for, and gone when they say nothing."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.kernel.kernels import ANN, BOB, OTHER, Bench, refused
from tests.patience import PATIENCE_S, turns, until
from tests.store.test_tenants import KINDS, opened
from vegakit.concurrency import SteadyClock
from vegakit.control import (
    CompleteCallRequest,
    CreateProcessRequest,
    DispatchReply,
    DispatchRequest,
    EmptyRequest,
    KernelEventKind,
    ListServicesRequest,
    PipelineEnvelope,
    RefusalCode,
    RegisterServiceRequest,
    RenewCallRequest,
    ServiceCall,
    ServiceNameRequest,
    ServiceOutcome,
    ServiceRequest,
    ServiceResponse,
    ServiceStats,
    TakeCallRequest,
    TakenCall,
    TerminateProcessRequest,
    UpdateHealthRequest,
    WatchRequest,
)
from vegakit.kernel import Kernel, TenantKernel
from vegakit.kernel.tables import CALL
from vegakit.policy import ServiceHealth, ServiceType

ASK = ServiceRequest(envelope=PipelineEnvelope("e", 1, "in"), metadata={"n": 1})


async def registered(bench: Bench, name: str, most: int = 1, **more: object) -> None:
    request = RegisterServiceRequest(name, max_concurrent=most, capabilities=("cut",), **more)  # pyright: ignore[reportArgumentType]
    await bench.of().register_service(request)


async def load_of(bench: Bench, name: str) -> int:
    return (await bench.of().get_service(ServiceNameRequest(name))).load


async def taken(
    of: TenantKernel, service: str, holder: str = "w", lease_ms: int = 100, wait_ms: int = 0
) -> ServiceCall | None:
    request = TakeCallRequest(service, holder, lease_ms, wait_ms)
    return (await of.take_request(request)).call


@asynccontextmanager
async def asked(
    bench: Bench, key: str, service: str = "", timeout_ms: int = 60_000
) -> AsyncGenerator["asyncio.Task[DispatchReply]"]:
    """A dispatch that is under way: by capability, unless a service is named."""
    capability = "" if service else "cut"
    request = DispatchRequest(service, capability, ASK, key, timeout_ms)
    waiting = asyncio.create_task(bench.of().dispatch(request))
    # It is under way when its request is kept, which takes a store on a disk a while.
    while not waiting.done() and not await bench.store.read(  # noqa: ASYNC110
        ANN.tenant, lambda it: it.get(CALL.name, key)
    ):
        await asyncio.sleep(0)
    try:
        yield waiting
    finally:
        waiting.cancel()
        await asyncio.wait({waiting})


async def reply_of(bench: Bench, waiting: "asyncio.Task[DispatchReply]") -> DispatchReply:
    """What a dispatch returns, at most a few looks of it later."""

    def is_over() -> bool:
        bench.clock.advance(250)
        return waiting.done()

    await until(lambda: waiting.done() or is_over())
    return waiting.result()


async def test_a_service_is_shown_as_it_registered_itself() -> None:
    bench = Bench()
    request = RegisterServiceRequest(
        "s", ServiceType.INFERENCE, "1.2", ("cut", "sew"), 4, metadata={"zone": "a"}
    )
    shown = await bench.of().register_service(request)
    facts = shown.service
    assert (facts.name, facts.type, facts.version) == ("s", ServiceType.INFERENCE, "1.2")
    assert (facts.capabilities, facts.max_concurrent) == (("cut", "sew"), 4)
    assert (facts.health, facts.checked_ms) == (ServiceHealth.HEALTHY, bench.clock.now())
    assert facts.metadata == {"zone": "a"}
    assert (shown.load, shown.can_accept) == (0, True)
    assert shown.expires_ms == bench.clock.now() + 30_000
    assert await bench.of().get_service(ServiceNameRequest("s")) == shown
    with refused(RefusalCode.NOT_FOUND, "no service 's'"):
        await bench.of(OTHER).get_service(ServiceNameRequest("s"))
    with refused(RefusalCode.INVALID, "metadata of a service"):
        await registered(bench, "t", metadata={"x": "y" * 17_000})
    assert await bench.of().unregister_service(ServiceNameRequest("s")) == shown
    with refused(RefusalCode.NOT_FOUND):
        await bench.of().unregister_service(ServiceNameRequest("s"))
    told = [one.event async for one in bench.of().watch_events(WatchRequest())]
    assert [one.kind for one in told] == [
        KernelEventKind.SERVICE_REGISTERED,
        KernelEventKind.SERVICE_REMOVED,
    ]


async def test_services_are_listed_by_type_and_capability_and_counted() -> None:
    bench = Bench()
    for number in range(7):
        kind = ServiceType.FLOW if number % 2 else ServiceType.VERTICAL
        capabilities = ("cut",) if number < 3 else ("sew",)
        request = RegisterServiceRequest(f"s{number}", kind, "", capabilities, 2)
        await bench.of().register_service(request)
    await bench.of().update_health(UpdateHealthRequest("s0", ServiceHealth.DEGRADED))

    async def names(after: str = "", **wanted: object) -> list[str]:
        request = ListServicesRequest(after=after, limit=2, **wanted)  # pyright: ignore[reportArgumentType]
        page = await bench.of().list_services(request)
        found = [one.service.name for one in page.services]
        return found + (await names(page.next, **wanted) if page.next else [])

    assert await names() == [f"s{number}" for number in range(7)]
    assert await names(type=ServiceType.FLOW) == ["s1", "s3", "s5"]
    assert await names(capability="cut") == ["s0", "s1", "s2"]
    assert await names(type=ServiceType.VERTICAL, capability="sew") == ["s4", "s6"]
    async with asked(bench, "r"):
        stats = await bench.of().get_service_stats(EmptyRequest())
    assert stats == ServiceStats(7, 6, {"flow": 3, "vertical": 4}, load=1, capacity=13)
    assert (await bench.of().get_system_status(EmptyRequest())).services == stats.by_type


async def test_a_service_that_says_nothing_is_gone_and_its_requests_go_to_others() -> None:
    bench = Bench()
    await registered(bench, "a", ttl_ms=1_000)
    async with asked(bench, "r1") as first:
        await registered(bench, "b", ttl_ms=0)
        assert await taken(bench.of(), "a") is not None
        bench.clock.advance(999)
        assert await load_of(bench, "a") == 1
        bench.clock.advance(1)
        with refused(RefusalCode.NOT_FOUND, "has said nothing for 1000 ms"):
            await bench.of().get_service(ServiceNameRequest("a"))
        assert [await bench.kernel().sweep(), await bench.kernel().sweep()] == [1, 0]
        with refused(RefusalCode.NOT_FOUND, "no service 'a'"):
            await bench.of().get_service(ServiceNameRequest("a"))
        again = await taken(bench.of(), "b", "v")
        assert again is not None
        assert (again.id, again.service, again.taken, again.request) == ("r1", "b", 2, ASK)
        with refused(RefusalCode.CONFLICT, "'w' no longer holds"):
            await bench.of().complete_request(CompleteCallRequest("r1", "w"))
        await bench.of().complete_request(CompleteCallRequest("r1", "v"))
        assert (await reply_of(bench, first)).service == "b"


async def test_signs_of_life_keep_a_service() -> None:
    bench = Bench()
    await registered(bench, "a", ttl_ms=900)
    for _ in range(4):
        bench.clock.advance(600)
        await bench.of().update_health(UpdateHealthRequest("a"))
        bench.clock.advance(600)
        assert await taken(bench.of(), "a") is None, "to ask for work is a sign of life"
        assert await bench.kernel().sweep() == 0
    waiting = asyncio.create_task(taken(bench.of(), "a", wait_ms=5_000))
    for _ in range(12):
        await until(lambda: bench.clock._sleepers)
        bench.clock.advance(250)
        await turns(20)
    await bench.of().get_service(ServiceNameRequest("a"))
    assert not waiting.done(), "to wait for work is a sign of life, too"
    waiting.cancel()


async def test_the_least_loaded_healthy_service_is_asked_then_a_degraded_one_to_its_half() -> None:
    bench = Bench()
    await registered(bench, "big", 4)
    await registered(bench, "small", 2)
    await registered(bench, "worn", 4, health=ServiceHealth.DEGRADED)
    await registered(bench, "ill", 9, health=ServiceHealth.UNHEALTHY)
    await registered(bench, "new", 9, health=ServiceHealth.UNKNOWN)
    asked_for: list[str] = []
    waiting: list[asyncio.Task[DispatchReply]] = []
    for number in range(8):
        request = DispatchRequest(capability="cut", request=ASK, id=f"r{number}")
        waiting.append(asyncio.create_task(bench.of().dispatch(request)))
        await asyncio.sleep(0)
        page = await bench.of().list_services(ListServicesRequest())
        loads = {one.service.name: one.load for one in page.services}
        asked_for.append(next(name for name in loads if loads[name] > asked_for.count(name)))
    assert asked_for == ["big", "small", "big", "big", "small", "big", "worn", "worn"]
    with refused(RefusalCode.EXHAUSTED, "no service with the capability 'cut' takes"):
        await bench.of().dispatch(DispatchRequest(capability="cut"))
    with refused(RefusalCode.EXHAUSTED, "'worn' is degraded and has 2 of 2 requests"):
        await bench.of().dispatch(DispatchRequest("worn"))
    for name in ("ill", "new"):
        with refused(RefusalCode.EXHAUSTED, "0 of 0"):
            await bench.of().dispatch(DispatchRequest(name))
    with refused(RefusalCode.NOT_FOUND, "no service 'none'"):
        await bench.of().dispatch(DispatchRequest("none"))
    for service, capability in (("", ""), ("big", "cut")):
        with refused(RefusalCode.INVALID, "name the service"):
            await bench.of().dispatch(DispatchRequest(service, capability))
    for one in waiting:
        one.cancel()


async def test_a_request_is_done_and_its_slot_comes_back() -> None:
    bench = Bench()
    await registered(bench, "a")
    await bench.of().submit(CreateProcessRequest("p"))
    async with asked(bench, "r") as waiting:
        assert await load_of(bench, "a") == 1
        call = await taken(bench.of(BOB), "a")
        assert call is not None
        assert (call.id, call.request, call.holder) == ("r", ASK, "w")
        assert await taken(bench.of(), "a") is None
        made = PipelineEnvelope("e", 1, "in", outputs={"cut": "fine"})
        response = ServiceResponse(made, metadata={"took": 5})
        done = CompleteCallRequest("r", "w", response)
        assert (await bench.of(BOB).complete_request(done)).outcome is ServiceOutcome.COMPLETED
        assert await load_of(bench, "a") == 0
        reply = await reply_of(bench, waiting)
        assert reply == DispatchReply("r", "a", ServiceOutcome.COMPLETED, response)
    await bench.of(BOB).complete_request(done)  # whoever heard no reply says it again
    again = await bench.of().dispatch(DispatchRequest("", "cut", ASK, "r"))
    assert again == reply, "whoever asks again has it done once"
    with refused(RefusalCode.CONFLICT, "request 'r' is there already, with another"):
        await bench.of().dispatch(DispatchRequest("a", "", ASK, "r"))
    assert await taken(bench.of(), "a") is None
    bench.clock.advance(3_600_000)
    await registered(bench, "a")
    assert await bench.kernel().sweep() == 1
    with refused(RefusalCode.NOT_FOUND):
        await bench.of().complete_request(done)


async def test_what_a_service_says_went_wrong_is_told() -> None:
    bench = Bench()
    await registered(bench, "a")
    async with asked(bench, "r", "a") as waiting:
        await taken(bench.of(), "a")
        failed = ServiceResponse(error="no scissors")
        await bench.of().complete_request(CompleteCallRequest("r", "w", failed))
        reply = await reply_of(bench, waiting)
    assert (reply.outcome, reply.response.error) == (ServiceOutcome.FAILED, "no scissors")


async def test_a_request_whose_holder_died_is_handed_out_again_and_the_late_one_refused() -> None:
    bench = Bench()
    await registered(bench, "a", ttl_ms=0)
    async with asked(bench, "r"):
        await taken(bench.of(), "a", lease_ms=100)
        bench.clock.advance(60)
        await bench.of().renew_request(RenewCallRequest("r", "w", 100))
        bench.clock.advance(99)
        assert await bench.kernel().sweep() == 0
        bench.clock.advance(1)
        late = CompleteCallRequest("r", "w")
        with refused(RefusalCode.CONFLICT, "no longer holds request 'r'"):
            await bench.of().complete_request(late)
        assert await bench.kernel().sweep() == 1
        assert await load_of(bench, "a") == 1, "it is still to be done"
        again = await taken(bench.of(), "a", "v")
        assert again is not None
        assert (again.id, again.taken) == ("r", 2)
        with refused(RefusalCode.CONFLICT):
            await bench.of().complete_request(late)
        with refused(RefusalCode.CONFLICT):
            await bench.of().renew_request(RenewCallRequest("r", "w"))


async def test_a_request_that_kills_its_holders_is_given_up() -> None:
    bench = Bench()
    await registered(bench, "a", ttl_ms=0)
    async with asked(bench, "r") as waiting:
        for number in range(5):
            assert await taken(bench.of(), "a", f"w{number}") is not None
            bench.clock.advance(100)
            await bench.kernel().sweep()
        assert await taken(bench.of(), "a") is None
        assert await load_of(bench, "a") == 0
        reply = await reply_of(bench, waiting)
    assert (reply.outcome, "5 workers took it" in reply.response.error) == ("lost", True)


async def test_a_deadline_frees_the_slot_whether_or_not_anybody_waits() -> None:
    bench = Bench()
    await registered(bench, "a", 2, ttl_ms=0)
    async with asked(bench, "r1", timeout_ms=1_000):
        pass  # its caller is killed
    async with asked(bench, "r2", timeout_ms=1_000) as waiting:
        assert await load_of(bench, "a") == 2
        await taken(bench.of(), "a", lease_ms=60_000)
        bench.clock.advance(1_000)
        assert await taken(bench.of(), "a") is None
        await bench.kernel().sweep()
        assert await load_of(bench, "a") == 0
        reply = await reply_of(bench, waiting)
    assert (reply.outcome, reply.response.error) == ("late", "no response came before its deadline")


async def test_who_waits_is_told_of_the_deadline_without_a_sweep() -> None:
    bench = Bench()
    await registered(bench, "a", ttl_ms=0)
    async with asked(bench, "r", timeout_ms=700) as waiting:
        assert (await reply_of(bench, waiting)).outcome is ServiceOutcome.LATE
    assert await load_of(bench, "a") == 0


async def test_requests_that_wait_leave_a_service_that_takes_no_more() -> None:
    bench = Bench()
    await registered(bench, "a", 3)
    async with asked(bench, "held"), asked(bench, "free"), asked(bench, "named", "a"):
        held = await taken(bench.of(), "a", lease_ms=10_000)
        assert held is not None
        await registered(bench, "b", 3)
        await bench.of().update_health(UpdateHealthRequest("a", ServiceHealth.UNHEALTHY))
        moved = {"free", "held"} - {held.id}
        queued = [await taken(bench.of(), "b") for _ in range(3)]
        assert {one.id for one in queued if one} == moved
        assert (await load_of(bench, "a"), await load_of(bench, "b")) == (2, 1)
        await bench.of().unregister_service(ServiceNameRequest("a"))
        assert await load_of(bench, "b") == 2, "who asked for the service by name is told"


async def test_a_process_that_has_ended_asks_no_service() -> None:
    bench = Bench()
    await registered(bench, "a")
    with refused(RefusalCode.NOT_FOUND, "no process 'p'"):
        await bench.of().dispatch(DispatchRequest("a", request=ServiceRequest("p")))
    await bench.of().submit(CreateProcessRequest("p"))
    await bench.of().terminate_process(TerminateProcessRequest("p"))
    with refused(RefusalCode.CONFLICT, "has ended and asks no service"):
        await bench.of().dispatch(DispatchRequest("a", request=ServiceRequest("p")))


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize(
    "scenario",
    [
        test_services_are_listed_by_type_and_capability_and_counted,
        test_a_service_that_says_nothing_is_gone_and_its_requests_go_to_others,
        test_a_request_is_done_and_its_slot_comes_back,
        test_a_request_whose_holder_died_is_handed_out_again_and_the_late_one_refused,
        test_a_deadline_frees_the_slot_whether_or_not_anybody_waits,
        test_requests_that_wait_leave_a_service_that_takes_no_more,
    ],
)
async def test_it_is_so_on_every_store(
    scenario: Callable[[], Awaitable[None]],
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with opened(kind, tmp_path) as [store]:
        monkeypatch.setitem(globals(), "Bench", partial(Bench, store))
        await scenario()


# Handlers inside of a server, and several servers on one store.


async def test_a_handler_in_the_server_answers_for_every_tenant() -> None:
    bench = Bench()
    kernel = bench.kernel()
    seen: list[ServiceRequest] = []

    async def cut(request: ServiceRequest) -> ServiceResponse:
        seen.append(request)
        await asyncio.sleep(0)
        return ServiceResponse(request.envelope, metadata={"done": True})

    kernel.register_handler("a", cut)
    for caller in (ANN, OTHER):
        of = TenantKernel(kernel, caller)
        await of.register_service(RegisterServiceRequest("a", ttl_ms=0))
        reply = await of.dispatch(DispatchRequest("a", request=ASK))
        assert reply.outcome is ServiceOutcome.COMPLETED
        assert reply.response == ServiceResponse(ASK.envelope, metadata={"done": True})
        assert (await of.get_service(ServiceNameRequest("a"))).load == 0
    assert seen == [ASK, ASK]


async def test_a_handler_that_fails_says_so_and_gives_nothing_away() -> None:
    bench = Bench()
    kernel = bench.kernel()

    async def cut(request: ServiceRequest) -> ServiceResponse:
        raise ValueError("a secret")

    kernel.register_handler("a", cut)
    of = TenantKernel(kernel, ANN)
    await of.register_service(RegisterServiceRequest("a", ttl_ms=0))
    reply = await of.dispatch(DispatchRequest("a", request=ASK))
    assert reply.outcome is ServiceOutcome.FAILED
    assert reply.response.error == "the handler of 'a' failed: ValueError"
    assert (await of.get_service(ServiceNameRequest("a"))).load == 0


async def test_a_handler_that_works_long_keeps_its_request_until_the_deadline() -> None:
    bench = Bench()
    kernel, cancelled = bench.kernel(), asyncio.Event()

    async def cut(request: ServiceRequest) -> ServiceResponse:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return ServiceResponse()

    kernel.register_handler("a", cut)
    of = TenantKernel(kernel, ANN)
    await of.register_service(RegisterServiceRequest("a", ttl_ms=0))
    waiting = asyncio.create_task(of.dispatch(DispatchRequest("a", timeout_ms=90_000)))
    for _ in range(9):
        for _ in range(5):
            await asyncio.sleep(0)
        bench.clock.advance(9_999)
        await asyncio.sleep(0)
        assert await bench.kernel().sweep() == 0, "its lease is renewed"
    assert not cancelled.is_set()
    bench.clock.advance(9)
    reply = await asyncio.wait_for(waiting, PATIENCE_S)
    assert reply.outcome is ServiceOutcome.LATE
    assert cancelled.is_set()


async def test_a_handler_is_pulled_from_another_server() -> None:
    bench = Bench()
    here, there = bench.kernel(), bench.kernel()

    async def cut(request: ServiceRequest) -> ServiceResponse:
        return ServiceResponse(metadata={"cut": True})

    there.register_handler("a", cut)
    of = TenantKernel(here, ANN)
    await of.register_service(RegisterServiceRequest("a", ttl_ms=0))
    pulling = asyncio.create_task(there.keep_sweeping())
    waiting = asyncio.create_task(of.dispatch(DispatchRequest("a", timeout_ms=3_600_000)))
    while not waiting.done():
        await until(lambda: waiting.done() or bench.clock._sleepers)
        bench.clock.advance(50)
        await turns(1)
    assert waiting.result().outcome is ServiceOutcome.COMPLETED
    pulling.cancel()
    await asyncio.wait({pulling})


@KINDS
async def test_servers_on_one_store_share_services_and_handlers(kind: str, tmp_path: Path) -> None:
    """One server takes the dispatch, another has the handler or serves the worker."""
    async with opened(kind, tmp_path, count=2) as stores:
        kernels = [Kernel(store, SteadyClock()) for store in (*stores, *stores)[:2]]
        here, there = (TenantKernel(kernel, ANN) for kernel in kernels)

        async def cut(request: ServiceRequest) -> ServiceResponse:
            return ServiceResponse(metadata={"cut": request.metadata["n"]})

        kernels[1].register_handler("in", cut)
        for name in ("in", "out"):
            await here.register_service(RegisterServiceRequest(name, max_concurrent=5))

        async def work() -> None:
            while True:
                call = await taken(there, "out", lease_ms=60_000, wait_ms=60_000)
                assert call is not None
                response = ServiceResponse(metadata={"cut": call.request.metadata["n"]})
                await there.complete_request(CompleteCallRequest(call.id, "w", response))

        helpers = [
            asyncio.create_task(kernels[1].keep_sweeping(50)),
            asyncio.create_task(work()),
        ]
        try:
            for name in ("in", "out"):
                requests = [ServiceRequest(metadata={"n": n}) for n in range(5)]
                replies = await asyncio.wait_for(
                    asyncio.gather(
                        *(here.dispatch(DispatchRequest(name, request=one)) for one in requests)
                    ),
                    PATIENCE_S,
                )
                assert [one.response.metadata["cut"] for one in replies] == [*range(5)]
                assert (await there.get_service(ServiceNameRequest(name))).load == 0
        finally:
            for helper in helpers:
                helper.cancel()
            await asyncio.wait(helpers)


@KINDS
async def test_many_workers_take_each_request_once(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path, count=3) as stores:
        kernels = [TenantKernel(Kernel(store, SteadyClock()), ANN) for store in stores]
        await kernels[0].register_service(RegisterServiceRequest("a", max_concurrent=20, ttl_ms=0))
        waiting = [
            asyncio.create_task(
                kernels[n % len(kernels)].dispatch(DispatchRequest("a", id=f"r{n}"))
            )
            for n in range(25)
        ]
        await until(lambda: sum(one.done() for one in waiting) >= 5)
        done = {one for one in waiting if one.done()}
        for one in done:
            with refused(RefusalCode.EXHAUSTED):
                one.result()
        found = await asyncio.gather(
            *(of.take_request(TakeCallRequest("a", f"w{n}")) for of in kernels for n in range(20))
        )
        keys = [one.call.id for one in found if one.call is not None]
        assert len(keys) == len({*keys}) == 20
        assert TakenCall() in found or len(kernels) == 1
        for one in waiting:
            one.cancel()
        await asyncio.wait(waiting)
