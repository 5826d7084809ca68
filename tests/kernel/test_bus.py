"""Topics and commands through kernels: with the bus of one process, and with a Redis that fails."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.kernels import ANN, BOB, OTHER, Bench, refused
from tests.patience import PATIENCE_S, turns, until
from tests.store.redis_server import RedisServer, redis_server
from tests.store.test_tenants import opened as stores
from vegakit.concurrency import SteadyClock, cancel_all
from vegakit.control import (
    AnswerCommandRequest,
    CommandStatus,
    CreateProcessRequest,
    EmptyRequest,
    PublishRequest,
    QueryRequest,
    RefusalCode,
    SendRequest,
    SubscribeRequest,
    TakeCommandRequest,
    TopicItem,
    TopicItemKind,
    WatchRequest,
)
from vegakit.errors import StoreError
from vegakit.ids import TenantId
from vegakit.kernel import Kernel, TenantKernel, commands, kernel as kernel_module
from vegakit.ports import BusLimits, TopicPage
from vegakit.store import LocalBus, RedisBus, open_tenants

CLOCK = SteadyClock()


class CountingBus(RedisBus):
    """Counts how often readers look."""

    looks = 0

    async def read(
        self, tenant: TenantId, topic: str, after: int | None, *, limit: int = 100
    ) -> TopicPage:
        self.looks += 1
        return await super().read(tenant, topic, after, limit=limit)


@asynccontextmanager
async def two_servers(
    kind: str, folder: Path, redis: RedisServer | None
) -> AsyncGenerator[list[Kernel]]:
    """Yield kernels that share a store, and a Redis if there is one."""
    async with AsyncExitStack() as stack:
        found = await stack.enter_async_context(stores(kind, folder, 2))
        kernels: list[Kernel] = []
        for store in found:
            bus = CountingBus(redis.url, CLOCK) if redis else LocalBus(CLOCK)
            await stack.enter_async_context(aclosing(bus))
            kernels.append(Kernel(store, CLOCK, bus=bus))
        yield kernels


class Subscriber:
    """Reads a topic as long as it is open."""

    def __init__(self, kernel: TenantKernel, request: SubscribeRequest) -> None:
        self.items: list[TopicItem] = []
        self._task = asyncio.create_task(self._read(kernel.subscribe(request)))

    async def _read(self, items: AsyncGenerator[TopicItem]) -> None:
        async with aclosing(items):
            async for item in items:
                self.items.append(item)

    @property
    def messages(self) -> list[object]:
        return [one.message for one in self.items if one.kind is TopicItemKind.MESSAGE]

    async def begun(self) -> "Subscriber":
        await until(lambda: self.items or self._task.done())
        assert self.items[0].kind is TopicItemKind.SUBSCRIBED
        return self

    async def aclose(self) -> None:
        is_over = self._task.done()
        await cancel_all([self._task])
        assert not is_over, "a subscriber does not end by itself"


async def kept(kernel: TenantKernel, topic: str, after: int | None) -> list[TopicItem]:
    items = kernel.subscribe(SubscribeRequest(topic, after, follow=False))
    return [item async for item in items]


async def test_what_is_published_fans_out_with_who_did() -> None:
    kernel = Kernel(open_tenants(":memory:"), CLOCK)
    ann, bob, other = (TenantKernel(kernel, caller) for caller in (ANN, BOB, OTHER))
    await ann.publish(PublishRequest("t", "before"))
    async with AsyncExitStack() as stack:
        one, two, apart = [
            await stack.enter_async_context(aclosing(Subscriber(each, SubscribeRequest("t"))))
            for each in (ann, bob, other)
        ]
        for each in (one, two, apart):
            await each.begun()
        number = (await bob.publish(PublishRequest("t", {"a": [1]}))).number
        await until(lambda: len(one.items) == len(two.items) == 2)
        assert one.items[1] == two.items[1]
        assert one.items[0].number == number - 1
        assert (one.items[1].number, one.items[1].message, one.items[1].by) == (
            number,
            {"a": [1]},
            "bob",
        )
        assert len(apart.items) == 1
    assert [item.message for item in await kept(ann, "t", 0)] == [None, "before", {"a": [1]}]


async def test_a_slow_subscriber_holds_up_nobody_and_is_told_what_it_missed() -> None:
    clock = Bench().clock
    kernel = Kernel(open_tenants(":memory:"), clock, bus=LocalBus(clock, BusLimits(history=10)))
    ann = TenantKernel(kernel, ANN)
    slow = ann.subscribe(SubscribeRequest("t"))
    assert (await anext(slow)).kind is TopicItemKind.SUBSCRIBED
    for number in range(1_000):
        await ann.publish(PublishRequest("t", number))
    item = await anext(slow)
    assert (item.message, item.missed) == (990, 990)
    assert [(await anext(slow)).message for _ in range(9)] == [*range(991, 1_000)]
    await slow.aclose()


async def test_a_message_and_the_number_of_topics_are_bounded() -> None:
    clock = Bench().clock
    kernel = Kernel(open_tenants(":memory:"), clock, bus=LocalBus(clock, BusLimits(topics=1)))
    ann = TenantKernel(kernel, ANN)
    await ann.publish(PublishRequest("t", "x" * (commands.MESSAGE_BYTES - 2)))
    with refused(RefusalCode.INVALID, "65537 bytes"):
        await ann.publish(PublishRequest("t", "x" * (commands.MESSAGE_BYTES - 1)))
    with refused(RefusalCode.EXHAUSTED, "as many topics as it may"):
        await ann.publish(PublishRequest("u"))
    await TenantKernel(kernel, OTHER).publish(PublishRequest("u"))


async def test_a_server_that_begins_anew_tells_who_comes_back(tmp_path: Path) -> None:
    clock = Bench().clock
    first, second = (TenantKernel(Kernel(open_tenants(":memory:"), clock), ANN) for _ in range(2))
    seen = (await first.publish(PublishRequest("t", 1))).number
    clock.advance(1)
    await second.publish(PublishRequest("t", 2))
    _, item = await kept(second, "t", seen)
    assert (item.message, item.is_cut) == (2, True)


# Two servers on one store.


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_two_servers_with_one_redis_are_one_bus(kind: str, tmp_path: Path) -> None:
    with redis_server(tmp_path) as redis:
        async with two_servers(kind, tmp_path, redis) as [one, other]:
            ann, bob = TenantKernel(one, ANN), TenantKernel(other, BOB)
            subscriber = Subscriber(bob, SubscribeRequest("t"))
            async with aclosing(subscriber):
                await subscriber.begun()
                await ann.publish(PublishRequest("t", "hello"))
                await until(lambda: subscriber.messages == ["hello"])
                asked = asyncio.create_task(ann.query(QueryRequest("sum", [1, 2], wait_ms=60_000)))
                found = await bob.take_command(TakeCommandRequest("sum", "w", wait_ms=60_000))
                assert found.command is not None
                await bob.answer_command(AnswerCommandRequest(found.command.id, "w", 1, 3))
                reply = await asyncio.wait_for(asked, PATIENCE_S)
                assert (reply.status, reply.answer) == (CommandStatus.DONE, 3)


async def test_a_redis_tells_servers_of_each_others_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody polls here within the patience of the test: only the bell can have told."""
    with redis_server(tmp_path) as redis:
        async with two_servers("sqlite", tmp_path, redis) as [one, other]:
            monkeypatch.setattr(kernel_module, "POLL_MS", 600_000)
            await _is_told(one, other, hears_within_ms=10_000)


async def test_without_a_redis_servers_see_each_others_changes_by_looking(tmp_path: Path) -> None:
    async with two_servers("sqlite", tmp_path, None) as [one, other]:
        await _is_told(one, other)
    with redis_server(tmp_path) as redis:
        async with two_servers("sqlite", tmp_path, redis) as [one, other]:
            redis.kill()
            await _is_told(one, other)


async def _is_told(one: Kernel, other: Kernel, hears_within_ms: int = 300) -> None:
    taker = TenantKernel(other, BOB)
    waiting = asyncio.create_task(taker.take_command(TakeCommandRequest("t", "w", wait_ms=60_000)))
    with other.bus.listen(ANN.tenant) as bell:
        # The bus hears when it has rung for the first time, if ever. Were it to begin later, that
        # ring could be taken for the one that tells.
        await bell.wait(CLOCK.now() + hears_within_ms)
    # Whoever waits looks when it rings. What is asked after that is answered after it has looked.
    await turns(50)
    await taker.get_process_counts(EmptyRequest())
    assert not waiting.done()
    await TenantKernel(one, ANN).send(SendRequest("t"))
    assert (await asyncio.wait_for(waiting, PATIENCE_S)).command is not None


# A Redis that fails under load.


class BusLoad:
    """Senders, handlers and a publisher on two servers. What a sender was told is acknowledged."""

    def __init__(self, one: Kernel, other: Kernel) -> None:
        self.callers = [TenantKernel(one, ANN), TenantKernel(other, BOB)]
        self.acknowledged: list[str] = []
        self.handled: Counter[str] = Counter()
        self.tried = self.failed = 0
        self.published: list[int] = []
        self.is_over = self.are_all_sent = False

    async def send(self, name: str) -> None:
        number = 0
        while not self.is_over:
            caller = self.callers[number % 2]
            sent = await caller.send(SendRequest("work", number, id=f"{name}.{number}"))
            self.acknowledged.append(sent.id)
            number += 1
            # No more than a few lie there: the load is what the handlers can take.
            await until(lambda: self.is_over or len(self.acknowledged) < len(self.handled) + 10)

    async def handle(self, place: int) -> None:
        caller, holder = self.callers[place], f"w{place}"
        while not (self.are_all_sent and len(self.handled) == len(self.acknowledged)):
            found = await caller.take_command(
                TakeCommandRequest("work", holder, 600_000, wait_ms=500)
            )
            if (command := found.command) is not None:
                self.handled[command.id] += 1
                assert command.attempt == 1
                await caller.answer_command(AnswerCommandRequest(command.id, holder, 1))

    async def publish(self) -> None:
        while not self.is_over:
            self.tried += 1
            with suppress(StoreError):  # then it was published once, or not at all
                await self.callers[0].publish(PublishRequest("news", self.tried))
                self.published.append(self.tried)
            self.failed = self.tried - len(self.published)
            sent = len(self.acknowledged)
            await until(lambda sent=sent: self.is_over or len(self.acknowledged) > sent)

    async def goes_on(self) -> None:
        sent, published = len(self.acknowledged) + 20, len(self.published) + 5
        await until(lambda: len(self.acknowledged) > sent and len(self.published) > published)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Ends when all that was acknowledged is handled."""
        senders = [
            asyncio.create_task(work) for work in (self.send("a"), self.send("b"), self.publish())
        ]
        handlers = [asyncio.create_task(self.handle(place)) for place in range(2)]
        try:
            yield
            self.is_over = True
            await asyncio.wait_for(asyncio.gather(*senders), PATIENCE_S)
            self.are_all_sent = True
            await asyncio.wait_for(asyncio.gather(*handlers), PATIENCE_S)
        finally:
            await cancel_all([*senders, *handlers])


Trouble = Callable[[RedisServer, BusLoad, pytest.LogCaptureFixture], Awaitable[None]]


async def _flushed(redis: RedisServer, load: BusLoad, log: pytest.LogCaptureFixture) -> None:
    await asyncio.to_thread(redis.flush)


async def _paused(redis: RedisServer, load: BusLoad, log: pytest.LogCaptureFixture) -> None:
    """For longer than a call waits for its answer."""
    failed = load.failed
    redis.pause()
    await until(lambda: load.failed > failed)
    redis.go_on()


async def _killed(redis: RedisServer, load: BusLoad, log: pytest.LogCaptureFixture) -> None:
    """Until both subscribers have looked by themselves."""
    await asyncio.to_thread(redis.kill)
    await until(lambda: log.text.count("a subscriber waits for the bus") >= 2)
    await asyncio.to_thread(redis.start)


@pytest.mark.parametrize("trouble", [_flushed, _paused, _killed])
async def test_a_redis_that_fails_loses_and_doubles_no_command(
    trouble: Trouble, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "vegakit")
    with redis_server(tmp_path) as redis:
        async with two_servers("sqlite", tmp_path, redis) as [one, other]:
            load = BusLoad(one, other)
            readers = [Subscriber(each, SubscribeRequest("news")) for each in load.callers]
            async with aclosing(readers[0]), aclosing(readers[1]):
                for reader in readers:
                    await reader.begun()
                async with load.running():
                    await load.goes_on()
                    await trouble(redis, load, caplog)
                    # Subscribers go on by themselves, and commands never stopped.
                    await load.goes_on()
                last = load.published[-1]
                await until(lambda: all(last in reader.messages for reader in readers))
            assert load.handled == Counter(load.acknowledged)
            for reader in readers:
                _check_stream(reader.items[1:], load.published, is_lost=trouble is not _paused)


def _check_stream(items: list[TopicItem], published: list[int], *, is_lost: bool) -> None:
    """Numbers and messages only rise, and whoever missed a message was told so right after it."""
    for values in ([item.number for item in items], [item.message for item in items]):
        assert values == sorted({*values})
    assert [item.missed for item in items] == [0] * len(items)
    assert sum(item.is_cut for item in items) == is_lost
    got = {item.message for item in items}
    before = 0
    for item in items:
        between = {value for value in published if before < value < item.message}
        assert item.is_cut or between <= got
        before = item.message


async def test_a_reader_who_is_cancelled_in_the_middle_of_a_call_ends(tmp_path: Path) -> None:
    """The driver swallows most cancellations that come while it waits for an answer."""
    with redis_server(tmp_path) as redis:
        async with aclosing(RedisBus(redis.url, CLOCK)) as bus:
            reading = 0

            async def read() -> None:
                nonlocal reading
                while True:
                    reading += 1
                    await bus.read(ANN.tenant, "t", 0)

            for wait in range(50):
                task, begun = asyncio.create_task(read()), reading
                await until(lambda begun=begun: reading > begun)
                await turns(wait)
                task.cancel()
                _, alive = await asyncio.wait([task], timeout=PATIENCE_S)
                assert not alive


async def test_publish_says_when_the_bus_does_not_answer(tmp_path: Path) -> None:
    with redis_server(tmp_path) as redis:
        async with aclosing(RedisBus(redis.url, CLOCK)) as bus:
            ann = TenantKernel(Kernel(open_tenants(":memory:"), CLOCK, bus=bus), ANN)
            redis.kill()
            with pytest.raises(StoreError, match="Redis"):
                await ann.publish(PublishRequest("t"))
            with pytest.raises(StoreError, match="Redis"):
                await anext(ann.subscribe(SubscribeRequest("t")))
            # All else goes on.
            await ann.send(SendRequest("t"))
            await ann.submit(CreateProcessRequest(pid="p"))
            assert [event.number async for event in ann.watch_events(WatchRequest())] == [1, 2]


async def test_subscribers_of_a_topic_look_together_and_take_no_message_twice(
    tmp_path: Path,
) -> None:
    """Each message once for all of a server, and nothing but a number while none is new."""
    message = "x" * 60_000
    with redis_server(tmp_path) as redis:
        async with two_servers("sqlite", tmp_path, redis) as [kernel, _], AsyncExitStack() as stack:
            ann = TenantKernel(kernel, ANN)
            await ann.publish(PublishRequest("t", message))
            readers = [
                await stack.enter_async_context(aclosing(Subscriber(ann, SubscribeRequest("t"))))
                for _ in range(20)
            ]
            for reader in readers:
                await reader.begun()

            def sent() -> int:
                said: Any = redis.client().info("stats")  # pyright: ignore[reportUnknownMemberType]
                return said["total_net_output_bytes"]

            before = await asyncio.to_thread(sent)
            bus: Any = kernel.bus
            looks = bus.looks
            # Each has looked by itself at least twice.
            await until(lambda: bus.looks >= looks + 2 * len(readers))
            assert await asyncio.to_thread(sent) - before < len(message)
            for number in range(3):
                await ann.publish(PublishRequest("t", message))
                await until(lambda n=number: all(len(one.messages) > n for one in readers))
            # Those who look by themselves in that moment may look alone.
            assert await asyncio.to_thread(sent) - before < 10 * len(message)
