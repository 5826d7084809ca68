"""Both buses do what the port says: in this process, and on a real Redis server."""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from tests.kernel.web import free_port
from tests.patience import PATIENCE_S, turns, until
from tests.store.redis_server import RedisServer, redis_server
from vegakit.concurrency import SteadyClock, cancel_all
from vegakit.errors import SettingsError, StoreError
from vegakit.ids import TenantId
from vegakit.ports import Bus, BusLimits, TopicPage
from vegakit.store import LocalBus, RedisBus, open_bus

A, B = TenantId("a"), TenantId("b")
CLOCK = SteadyClock()
KINDS = pytest.mark.parametrize("kind", ["local", "redis"])


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Generator[RedisServer]:
    with redis_server(tmp_path_factory.mktemp("redis")) as server:
        yield server


@asynccontextmanager
async def opened(
    kind: str, redis: RedisServer, count: int = 1, limits: BusLimits | None = None
) -> AsyncGenerator[list[Bus]]:
    """Yield buses as servers have them that share one; in this process there is one only."""
    prefix = uuid4().hex
    async with AsyncExitStack() as stack:
        if kind == "local":
            yield [LocalBus(CLOCK, limits)] * count
            return
        yield [
            await stack.enter_async_context(
                aclosing(RedisBus(redis.url, CLOCK, prefix=prefix, limits=limits))
            )
            for _ in range(count)
        ]


def bodies(page: TopicPage) -> list[bytes]:
    return [message.body for message in page.messages]


async def published(bus: Bus, topic: str, *all_of: bytes, tenant: TenantId = A) -> list[int]:
    numbers = [await bus.publish(tenant, topic, body) for body in all_of]
    assert None not in numbers
    return [number for number in numbers if number is not None]


@KINDS
async def test_all_readers_get_all_messages_in_order(kind: str, redis: RedisServer) -> None:
    async with opened(kind, redis, 2) as [one, other]:
        begin = await one.read(A, "t", None)
        assert begin == TopicPage((), 0)
        numbers = await published(one, "t", b"1", b"2")
        numbers += await published(other, "t", b"3")
        assert numbers == [numbers[0], numbers[0] + 1, numbers[0] + 2]
        assert numbers[-1] < 10**15, "a browser and a header hold it"
        for bus in (one, other):
            page = await bus.read(A, "t", begin.cursor)
            assert bodies(page) == [b"1", b"2", b"3"]
            assert [message.number for message in page.messages] == numbers
            assert not any(message.missed or message.is_cut for message in page.messages)
            assert page.cursor == numbers[-1]
            assert await bus.read(A, "t", page.cursor) == TopicPage((), page.cursor)
            assert await bus.read(A, "t", None) == TopicPage((), page.cursor)
            assert bodies(await bus.read(A, "t", numbers[0])) == [b"2", b"3"]
            assert bodies(await bus.read(A, "t", 0, limit=2)) == [b"1", b"2"]


@KINDS
async def test_topics_and_tenants_are_apart(kind: str, redis: RedisServer) -> None:
    """Also those whose names are made to spell another's."""
    async with opened(kind, redis) as [bus]:
        places = [
            *((A, "t"), (B, "t"), (A, "u"), (A, ""), (TenantId("a}:topic:b"), "c")),
            *((A, "b}:topic:c"), (TenantId("a b"), "c"), (A, "b c"), (TenantId("ä"), "\n")),
        ]
        for number, (tenant, topic) in enumerate(places):
            await published(bus, topic, b"%d" % number, tenant=tenant)
        for number, (tenant, topic) in enumerate(places):
            assert bodies(await bus.read(tenant, topic, 0)) == [b"%d" % number]


@KINDS
async def test_a_reader_that_is_slow_is_told_how_many_it_missed(
    kind: str, redis: RedisServer
) -> None:
    async with opened(kind, redis, limits=BusLimits(history=3)) as [bus]:
        [first] = await published(bus, "t", b"0")
        await published(bus, "t", *(b"%d" % number for number in range(1, 8)))
        page = await bus.read(A, "t", first)
        assert bodies(page) == [b"5", b"6", b"7"]
        assert [message.missed for message in page.messages] == [4, 0, 0]
        assert not any(message.is_cut for message in page.messages)
        assert [message.missed for message in (await bus.read(A, "t", 0)).messages] == [5, 0, 0]


@KINDS
async def test_a_history_is_bounded_in_bytes_and_keeps_the_newest(
    kind: str, redis: RedisServer
) -> None:
    async with opened(kind, redis, limits=BusLimits(history_bytes=10)) as [bus]:
        await published(bus, "t", b"aaaa", b"bbbb", b"cc")
        assert bodies(await bus.read(A, "t", 0)) == [b"aaaa", b"bbbb", b"cc"]
        await published(bus, "t", b"d")
        assert bodies(await bus.read(A, "t", 0)) == [b"bbbb", b"cc", b"d"]
        await published(bus, "t", b"e" * 50)
        assert bodies(await bus.read(A, "t", 0)) == [b"e" * 50]
        await published(bus, "t", b"f")
        page = await bus.read(A, "t", 0)
        assert (bodies(page), page.messages[0].missed) == ([b"f"], 5)


@KINDS
async def test_topics_of_a_tenant_are_bounded_until_they_are_forgotten(
    kind: str, redis: RedisServer
) -> None:
    async with opened(kind, redis, limits=BusLimits(topics=2, keep_ms=1_500)) as [bus]:
        [first, _] = await published(bus, "t", b"1", b"2")
        await published(bus, "u", b"1")
        assert await bus.publish(A, "v", b"1") is None
        assert await bus.publish(B, "v", b"1") is not None
        for topic in ("v", "t"):  # the first may be taken before both of the old ones are forgotten
            await until(lambda topic=topic: bus.publish(A, topic, b"3"))
        page = await bus.read(A, "t", first)
        assert bodies(page) == [b"3"]
        assert page.messages[0].is_cut, "nobody knows any more what was published in between"


@KINDS
async def test_a_bell_rings_on_every_server_for_its_place_only(
    kind: str, redis: RedisServer
) -> None:
    async with opened(kind, redis, 2) as [one, other]:
        far = CLOCK.now() + 600_000
        with (
            other.listen(A, "t") as topic,
            other.listen(A) as records,
            other.listen(B) as apart,
            other.listen(A, "u") as quiet,
        ):
            # Bells ring once when the bus begins to hear.
            if kind == "redis":
                for bell in (topic, records, apart, quiet):
                    await asyncio.wait_for(bell.wait(far), PATIENCE_S)
            waiting = asyncio.ensure_future(topic.wait(far))
            await turns(5)
            await one.publish(A, "t", b"1")
            await asyncio.wait_for(waiting, PATIENCE_S)
            one.ring(A)
            await asyncio.wait_for(records.wait(far), PATIENCE_S)
            other.ring(A)  # rung before anybody waits
            await asyncio.wait_for(records.wait(far), PATIENCE_S)
            for bell in (apart, quiet, records):
                before = CLOCK.now()
                await bell.wait(before + 20)
                assert CLOCK.now() >= before + 20


@KINDS
async def test_many_publish_at_once_and_numbers_have_no_gaps(kind: str, redis: RedisServer) -> None:
    async with opened(kind, redis, 3) as buses:
        work = [buses[number % 3].publish(A, "t", b"%d" % number) for number in range(150)]
        numbers = [number or 0 for number in await asyncio.gather(*work)]
        assert sorted(numbers) == [*range(min(numbers), min(numbers) + 150)]
        page = await buses[0].read(A, "t", 0, limit=1_000)
        assert sorted(map(int, bodies(page))) == [*range(150)]


def test_a_bus_is_opened_by_its_place() -> None:
    assert isinstance(open_bus(":memory:", CLOCK), LocalBus)
    for place in ("kafka://:secret@host", "redis://:secret@host:port"):
        with pytest.raises(SettingsError, match="redis://HOST:PORT") as caught:
            open_bus(place, CLOCK)
        assert "secret" not in str(caught.value)


# What only a server does: it is flushed, goes back to an old file, is paused, is gone.


async def test_a_flushed_history_is_told_and_no_number_comes_again(tmp_path: Path) -> None:
    with redis_server(tmp_path) as server:
        async with aclosing(RedisBus(server.url, CLOCK)) as bus:
            seen = await published(bus, "t", b"1", b"2")
            server.flush()
            assert await bus.read(A, "t", seen[-1]) == TopicPage((), seen[-1])
            new = await published(bus, "t", b"3", b"4")
            assert new[0] > seen[-1]
            page = await bus.read(A, "t", seen[-1])
            assert bodies(page) == [b"3", b"4"]
            assert [(one.missed, one.is_cut) for one in page.messages] == [(0, True), (0, False)]


async def test_a_server_that_forgot_the_last_messages_begins_a_new_base(tmp_path: Path) -> None:
    """It comes back with a file from before; readers have seen numbers that it would give anew."""
    with redis_server(tmp_path, keep=True) as server:
        async with aclosing(RedisBus(server.url, CLOCK)) as bus:
            seen = await published(bus, "t", b"1", b"2", b"3")
            with server.client() as client:
                client.xdel("vega:{a}:topic:t", f"{seen[-1]}-0")
                client.execute_command("XSETID", "vega:{a}:topic:t", f"{seen[-2]}-0")
            server.kill()
            server.start()
            page = await bus.read(A, "t", seen[-1])
            assert (bodies(page), page.is_cut) == ([], True)
            new = await published(bus, "t", b"4")
            assert new[0] > seen[-1]
            page = await bus.read(A, "t", seen[-1])
            assert [(one.body, one.is_cut) for one in page.messages] == [(b"4", True)]
            assert bodies(await bus.read(A, "t", 0)) == [b"1", b"2", b"4"]


async def test_a_paused_or_dead_server_is_an_error_in_time_and_used_again(tmp_path: Path) -> None:
    nowhere = f"redis://:geheim@127.0.0.1:{free_port()}"
    async with aclosing(RedisBus(nowhere, CLOCK)) as bus:
        with pytest.raises(StoreError, match="check host") as caught:
            await bus.publish(A, "t", b"1")
        assert "geheim" not in str(caught.value)
    with redis_server(tmp_path) as server:
        async with aclosing(RedisBus(server.url, CLOCK)) as bus:
            await published(bus, "t", b"1")
            server.pause()
            bus.ring(A)
            with pytest.raises(StoreError, match="may have happened"):
                await asyncio.wait_for(bus.publish(A, "t", b"2"), PATIENCE_S)
            server.go_on()
            await published(bus, "t", b"3")
            server.kill()
            with pytest.raises(StoreError, match="may have happened"):
                await bus.read(A, "t", 0)
            server.start()
            await published(bus, "t", b"4")
            assert bodies(await bus.read(A, "t", 0)) == [b"4"]


async def test_nothing_goes_on_after_a_close(tmp_path: Path) -> None:
    """Nor a look whose reader has gone: it would open a connection that nobody closes."""
    with redis_server(tmp_path) as server:
        async with aclosing(RedisBus(server.url, CLOCK)) as bus:
            reader = asyncio.create_task(bus.read(A, "t", None))
            await turns(3)
            await cancel_all([reader])
        assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_the_keys_of_a_call_are_in_one_slot_of_a_cluster(tmp_path: Path) -> None:
    with redis_server(tmp_path, cluster=True) as server:
        with server.client() as client:
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            await until(
                lambda: "cluster_state:ok" in str(client.execute_command("CLUSTER", "INFO"))
            )
        bus = RedisBus(server.url, CLOCK)
        async with aclosing(bus):
            for tenant in (A, B, TenantId("c}d")):
                await published(bus, "t", b"1", tenant=tenant)
                assert bodies(await bus.read(tenant, "t", 0)) == [b"1"]


async def test_bells_of_a_server_that_comes_back_ring_again(tmp_path: Path) -> None:
    with redis_server(tmp_path) as server:
        one, other = RedisBus(server.url, CLOCK), RedisBus(server.url, CLOCK)
        async with aclosing(one), aclosing(other):
            with other.listen(A) as bell:
                for is_restarted in (False, True):
                    if is_restarted:
                        server.kill()
                        server.start()
                    # The first ring is for what may have been missed, the second from the other.
                    await asyncio.wait_for(bell.wait(CLOCK.now() + 600_000), PATIENCE_S)
                    one.ring(A)
                    await asyncio.wait_for(bell.wait(CLOCK.now() + 600_000), PATIENCE_S)
