"""The kernel over gRPC: every operation by table and descriptors, limits, streams, kills."""

import asyncio
import random
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

import grpc
import grpc.aio
import pytest

from tests.kernel.examples import EXAMPLES, TWO, role_for
from tests.kernel.kernels import listeners
from tests.kernel.rpc import (
    UNKNOWN_FIELD,
    RpcClient,
    RpcSite,
    a_rpc_site,
    filled,
    message_class,
    method_of,
    said,
    stubs,
)
from tests.kernel.web import free_port
from tests.models.transport.servers import key_pairs
from tests.patience import PATIENCE_S, until
from vegakit.concurrency import SteadyClock
from vegakit.control import ALL_RIGHTS, KERNEL_OPERATIONS, CreateEnvelopeRequest, ReplyShape, Right
from vegakit.errors import SettingsError
from vegakit.ids import TenantId
from vegakit.kernel import Kernel, KernelCaller, TenantKernel
from vegakit.server import ROLES, GrpcLimits, GrpcTls, TokenRole, Tokens, serve_grpc
from vegakit.store import open_tenants

Code = grpc.StatusCode
EOF: Any = getattr(grpc.aio, "EOF")  # noqa: B009  (its stubs do not know of it)

RIGHTS = {
    TokenRole.VIEWER: {Right.READ},
    TokenRole.WORKER: {Right.READ, Right.ACT},
    TokenRole.OPERATOR: {Right.READ, Right.ACT, Right.ANSWER},
    TokenRole.ADMIN: {Right.READ, Right.ADMINISTER},
}


def request_of(name: str, **fields: object) -> bytes:
    cls = message_class(method_of(name)[1].input_type.name)
    return filled(cls(), EXAMPLES[name].fields | fields).SerializeToString()


def coded(outcome: Any) -> tuple[Any, str]:
    assert isinstance(outcome, grpc.aio.AioRpcError), outcome
    return outcome.code(), said(outcome)["code"]


# Every operation.


def test_every_operation_is_a_method_of_one_service() -> None:
    """The descriptors and the table agree, streams included."""
    found = {
        method.name: (service.name, method.server_streaming, method.client_streaming)
        for name, module in stubs().items()
        if name.endswith("_pb2")
        for service in module.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }
    assert len(found) == len(KERNEL_OPERATIONS)
    for name, row in KERNEL_OPERATIONS.items():
        service, is_stream, takes_stream = found[method_of(name)[1].name]
        assert is_stream == (row.shape is ReplyShape.STREAM)
        assert not takes_stream
        assert service in {
            "KernelService",
            "EngineService",
            "OrchestrationService",
            "CommBusService",
        }


async def test_every_operation_refuses_whom_and_what_it_must() -> None:
    async with a_rpc_site() as site:
        by_role = {role: await site.client(role) for role in RIGHTS}
        for name in KERNEL_OPERATIONS:
            await refuses_strangers(site, name)
            await looks_at_rights_before_it_decodes(by_role, name)
            await needs_a_deadline(by_role[role_for(name)], name)


async def refuses_strangers(site: RpcSite, name: str) -> None:
    for token in ("", "vega_0_0", "x"):
        outcome = await RpcClient(site.channel, token).send_bytes(name, request_of(name))
        assert coded(outcome) == (Code.UNAUTHENTICATED, "unauthenticated"), name
    ours = await site.client()
    twice = (*ours.metadata(), ("authorization", "Bearer other"))
    outcome = await ours.send_bytes(name, request_of(name), metadata=twice)
    assert coded(outcome) == (Code.UNAUTHENTICATED, "unauthenticated"), name


async def looks_at_rights_before_it_decodes(clients: dict[TokenRole, RpcClient], name: str) -> None:
    """Broken bytes, an unknown field, and none at all where something is required."""
    broken = [b"\xff", request_of(name, colour="unknown")]
    if EXAMPLES[name].fields:
        broken.append(b"")
    for role, client in clients.items():
        may = KERNEL_OPERATIONS[name].right in RIGHTS[role]
        wanted = (
            (Code.INVALID_ARGUMENT, "invalid") if may else (Code.PERMISSION_DENIED, "forbidden")
        )
        for body in broken:
            assert coded(await client.send_bytes(name, body)) == wanted, (name, role, body)


async def needs_a_deadline(client: RpcClient, name: str) -> None:
    outcome = await client.send_bytes(name, request_of(name), timeout=None)
    assert coded(outcome) == (Code.INVALID_ARGUMENT, "invalid"), name
    assert "set a deadline of at most" in outcome.details()


class Stuck:
    """A store that does not answer."""

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def never(*_: object, **__: object) -> Any:
            await asyncio.Event().wait()

        return never


NOT_IN_THE_STORE = {"dispatch_inference", "execute_agent", "publish", "subscribe"}
"""Operations that answer without it."""


async def test_every_operation_ends_at_its_deadline() -> None:
    """The client would wait longer; the server gives up, says so, and frees the place."""
    kernel: Any = Kernel(Stuck(), SteadyClock())  # pyright: ignore[reportArgumentType]
    async with a_rpc_site() as other:
        found = await other.tokens.authenticate((await other.client()).token)
        identity = found and found._replace(rights=ALL_RIGHTS)

    async def authenticate(_: str) -> Any:
        return identity

    limits = GrpcLimits(call_ms=30, stream_ms=30, calls=1, streams=1)
    door = await serve_grpc(kernel, authenticate, "127.0.0.1:0", limits, sweep=False)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{door.port}") as channel:
        client = RpcClient(channel, "a token")
        for name in KERNEL_OPERATIONS.keys() - NOT_IN_THE_STORE:
            outcome = await client.send_bytes(name, request_of(name))
            assert coded(outcome) == (Code.DEADLINE_EXCEEDED, "deadline"), name
    await door.stop(0)


async def test_random_bytes_harm_nobody() -> None:
    """Noise, and requests with a byte changed, to every method: a status, and no bug. One that
    waits for what does not come is cut off."""
    chance = random.Random(7)
    fine = {Code.INVALID_ARGUMENT, Code.NOT_FOUND, Code.FAILED_PRECONDITION, Code.DEADLINE_EXCEEDED}
    async with a_rpc_site(GrpcLimits(call_ms=5_000, stream_ms=500)) as site:
        good = await site.client(tenant="good")
        by_role = {role: await site.client(role) for role in RIGHTS}
        assert (await good.ask("submit", pid="p"))[0] == 200
        for name in KERNEL_OPERATIONS:
            bodies = [chance.randbytes(chance.randrange(40)) for _ in range(12)]
            for _ in range(12):
                body = bytearray(request_of(name) or b"\x00")
                body[chance.randrange(len(body))] = chance.randrange(256)
                bodies.append(bytes(body))
            client = by_role[role_for(name)]
            outcomes = await asyncio.gather(*(client.send_bytes(name, body) for body in bodies))
            for outcome in outcomes:
                assert not isinstance(outcome, grpc.aio.AioRpcError) or outcome.code() in fine
            assert (await good.ask("get_process", pid="p"))[0] == 200


# Bounds.


async def test_messages_texts_and_compression_are_bounded() -> None:
    async with a_rpc_site(GrpcLimits(body_bytes=10_000)) as site:
        client = await site.client()
        outcome = await client.send_bytes("submit", request_of("submit", request="r" * 20_000))
        assert outcome.code() is Code.RESOURCE_EXHAUSTED
        packed = await client.send_bytes(
            "submit", request_of("submit", request="r" * 2_000), compression=grpc.Compression.Gzip
        )
        assert packed.code() is Code.UNIMPLEMENTED
        outcome = await client.send_bytes("get_process", request_of("get_process", pid="\n" * 150))
        assert outcome.code() is Code.INVALID_ARGUMENT
        assert (await client.ask("submit", pid="p"))[0] == 200


async def test_messages_that_take_long_to_read_are_refused() -> None:
    """Hundreds of thousands of fields or values, of a few bytes each, are within 1 MB."""
    async with a_rpc_site() as site:
        client, other = await site.client(), await site.client(tenant="other")
        outcome = await client.send_bytes("list_processes", UNKNOWN_FIELD * 250_000)
        assert coded(outcome) == (Code.INVALID_ARGUMENT, "invalid")
        assert "more than 65536 bytes of unknown fields" in outcome.details()
        request = message_class("CreateEnvelopeRequest")()
        request.input.list_value.MergeFromString(b"\n\x00" * 100_001)
        outcome = await other.send_bytes("create_envelope", request.SerializeToString())
        assert "more than 100000 values" in outcome.details()
        assert (await client.ask("submit", pid="p"))[0] == 200


async def test_a_page_of_large_records_fits_through_the_door() -> None:
    """By number alone 200 questions of 9,000 characters, of three bytes each, would be 5 MB."""
    async with a_rpc_site() as site:
        client = await site.client()
        await client.ask("submit", pid="p")
        for number in range(200):
            asked = {"pid": "p", "kind": "clarification", "id": f"q{number:03}"}
            status, reply = await client.ask("create_interrupt", question="語" * 9_000, **asked)
            assert status == 200, reply
        seen, after = list[str](), ""
        while True:
            status, page = await client.ask("list_interrupts", limit=200, after=after)
            assert status == 200, page
            seen += [one["interrupt"]["ask"]["id"] for one in page["interrupts"]]
            if not (after := page.get("next", "")):
                break
        assert seen == [f"q{number:03}" for number in range(200)]


def deep(levels: int) -> Any:
    return {"x": [deep(levels - 2)]} if levels > 1 else 1


async def test_json_that_grpc_cannot_carry_is_told_of() -> None:
    async with a_rpc_site() as site:
        client = await site.client()
        request = message_class("CreateEnvelopeRequest")()
        request.input.number_value = float("nan")
        outcome = await client.send_bytes("create_envelope", request.SerializeToString())
        assert coded(outcome) == (Code.INVALID_ARGUMENT, "invalid")
        kernel = TenantKernel(site.kernel, KernelCaller(TenantId("acme"), "ann"))
        values = [(deep(25), 200), (deep(45), 400), (10**400, 400)]
        for number, (value, status) in enumerate(values):
            name = f"e{number}"
            await kernel.create_envelope(CreateEnvelopeRequest(id=name, input=value))
            found = await client.ask("get_envelope", id=name)
            assert found[0] == status, found
            assert status == 200 or "read it over HTTP" in found[1]["error"]["message"]


async def test_a_tenant_leaves_room_for_others_and_a_client_that_goes_its_place() -> None:
    async with a_rpc_site(GrpcLimits(streams=3, tenant_streams=1)) as site:
        one, other = await site.client(), await site.client(tenant="other")
        await one.ask("submit", pid="p")
        stream = one.send("watch_events", follow=True)
        assert (await stream.read()).number == 1
        outcome = await one.send_bytes("watch_events", b"")
        assert coded(outcome) == (Code.RESOURCE_EXHAUSTED, "exhausted")
        assert await other.watch(1) == []
        stream.cancel()

        async def is_free() -> bool:
            return not isinstance(await one.send_bytes("watch_events", b""), grpc.aio.AioRpcError)

        await until(is_free)


async def test_a_client_that_waits_no_longer_frees_its_place() -> None:
    """Its own deadline is sooner than ours; the one call that has room is free again."""
    async with a_rpc_site(GrpcLimits(tenant_waits=1)) as site:
        client = await site.client()
        await client.ask("submit", pid="p")
        await client.ask("initialize_session", pid="p", pipeline=TWO)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await client.send("get_next_instruction", 0.1, pid="p", wait_ms=60_000)
        assert caught.value.code() is Code.DEADLINE_EXCEEDED

        async def is_free() -> bool:
            return (await client.ask("get_next_instruction", pid="p"))[0] == 200

        await until(is_free)


async def test_a_client_that_holds_its_message_back_takes_a_place_and_its_time() -> None:
    """A stranger that does takes none: it is refused before its message is read."""
    path = "/vega.kernel.v1.KernelService/GetProcess"
    async with a_rpc_site(GrpcLimits(call_ms=100)) as site:
        client = await site.client()
        for metadata, code in (
            ((), Code.UNAUTHENTICATED),
            (client.metadata(), Code.DEADLINE_EXCEEDED),
        ):
            call = site.channel.stream_unary(path)(timeout=PATIENCE_S, metadata=metadata)
            assert await call.code() is code
        call = site.channel.stream_unary(path)(timeout=PATIENCE_S, metadata=client.metadata())
        await call.done_writing()
        assert await call.code() is Code.INVALID_ARGUMENT


async def test_connections_are_bounded() -> None:
    async with a_rpc_site(GrpcLimits(connections=2)) as site:
        token = (await site.client()).token
        address = f"127.0.0.1:{site.door.port}"
        options = (("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0))
        channels = [grpc.aio.insecure_channel(address, options) for _ in range(4)]
        try:
            calls = (
                RpcClient(one, token).send_bytes("get_process_counts", b"", timeout=3)
                for one in channels
            )
            outcomes = await asyncio.gather(*calls)
        finally:
            for one in channels:
                await one.close()
        assert sum(isinstance(one, bytes) for one in outcomes) == 2


# Streams.


async def read_to_the_end(stream: Any) -> None:
    while await stream.read() is not EOF:
        pass


async def test_a_client_that_comes_back_goes_on_from_its_cursor() -> None:
    async with a_rpc_site() as site:
        client = await site.client()
        for number in range(5):
            await client.ask("create_process", pid=f"p{number}")
        first = await client.watch(2)
        rest = await client.watch(10, str(first[-1][0]))
        assert [number for number, _ in (*first, *rest)] == [1, 2, 3, 4, 5]


async def test_a_revoked_token_ends_its_streams() -> None:
    async with a_rpc_site(GrpcLimits(quiet_ms=50)) as site:
        client = await site.client()
        await client.ask("submit", pid="p")
        stream = client.send("watch_events", follow=True)
        assert (await stream.read()).number == 1
        [record] = await site.tokens.list("acme")
        await site.tokens.revoke(record.id)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await read_to_the_end(stream)
        assert coded(caught.value) == (Code.UNAUTHENTICATED, "unauthenticated")


async def test_a_server_that_stops_ends_streams_at_once_and_lets_calls_finish() -> None:
    async with a_rpc_site() as site:
        client = await site.client()
        await client.ask("submit", pid="p")
        await client.ask("initialize_session", pid="p", pipeline=TWO)
        stream = client.send("watch_events", follow=True)
        assert (await stream.read()).number == 1
        waiting = asyncio.ensure_future(client.ask("get_next_instruction", pid="p", wait_ms=60_000))
        await until(lambda: listeners(site.kernel) == 2)
        stopping = asyncio.ensure_future(site.door.stop(PATIENCE_S))
        with pytest.raises(grpc.aio.AioRpcError, match="come back with your cursor"):
            await read_to_the_end(stream)
        assert not waiting.done()
        site.kernel.drain()
        assert (await waiting)[1]["instruction"]["type"] == "WaitForTasks"
        await stopping


async def test_a_server_waits_no_longer_than_it_was_told() -> None:
    async with a_rpc_site() as site:
        client = await site.client()
        await client.ask("submit", pid="p")
        await client.ask("initialize_session", pid="p", pipeline=TWO)
        waiting = asyncio.ensure_future(client.ask("get_next_instruction", pid="p", wait_ms=60_000))
        await until(lambda: listeners(site.kernel) == 1)
        await asyncio.wait_for(site.door.stop(0.1), PATIENCE_S)
        with suppress(KeyError):  # CANCELLED has no status of HTTP
            assert (await waiting)[0] == 503


# What stands beside the table.


async def test_health_needs_no_token_and_follows_the_store(tmp_path: Path) -> None:
    from grpc_health.v1 import health_pb2 as kinds, health_pb2_grpc

    async with a_rpc_site(GrpcLimits(probe_ms=20), tmp_path / "kernel.db") as site:
        health: Any = health_pb2_grpc.HealthStub(site.channel)
        services = ("", "vega.kernel.v1.KernelService", "vega.kernel.v1.OrchestrationService")

        async def status(service: str = "") -> Any:
            reply = await health.Check(
                kinds.HealthCheckRequest(service=service), timeout=PATIENCE_S
            )
            return reply.status

        for service in services:
            assert await status(service) == kinds.HealthCheckResponse.SERVING
        watches = [health.Watch(kinds.HealthCheckRequest()) for _ in range(33)]
        firsts = [await one.read() for one in watches[:32]]
        assert all(one.status == kinds.HealthCheckResponse.SERVING for one in firsts)
        assert await watches[32].code() is Code.RESOURCE_EXHAUSTED
        for one in watches:
            one.cancel()
        await site.kernel.store.aclose()

        async def is_told() -> bool:
            return await status() == kinds.HealthCheckResponse.NOT_SERVING

        await until(is_told)


@pytest.mark.parametrize("is_asked_for", [True, False])
async def test_reflection_is_there_only_when_it_is_asked_for(is_asked_for: bool) -> None:
    from grpc_reflection.v1alpha import reflection_pb2 as kinds, reflection_pb2_grpc

    async with a_rpc_site(reflection=is_asked_for) as site:
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(cast("Any", site.channel))
        wanted = [
            kinds.ServerReflectionRequest(list_services=""),
            kinds.ServerReflectionRequest(file_containing_symbol="vega.kernel.v1.EngineService"),
            kinds.ServerReflectionRequest(file_containing_symbol="grpc.health.v1.Health"),
        ]
        call = stub.ServerReflectionInfo(iter(wanted), timeout=PATIENCE_S)
        if not is_asked_for:
            # Reset while it still writes, a client may see only that.
            assert await call.code() in (Code.UNIMPLEMENTED, Code.INTERNAL)
            return
        listed, ours, health = [one async for one in call]
        names = {one.name for one in listed.list_services_response.service}
        assert {"vega.kernel.v1.KernelService", "grpc.health.v1.Health"} <= names
        assert ours.file_descriptor_response.file_descriptor_proto
        assert health.file_descriptor_response.file_descriptor_proto


async def test_a_port_that_is_taken_is_told_of() -> None:
    async with a_rpc_site() as site:
        address = f"127.0.0.1:{site.door.port}"
        with pytest.raises(SettingsError, match="cannot serve gRPC"):
            await serve_grpc(site.kernel, site.tokens.authenticate, address)


def test_roles_are_those_of_the_table() -> None:
    assert {role: {*rights} for role, rights in ROLES.items()} == RIGHTS


@pytest.mark.parametrize("is_mutual", [False, True])
async def test_tls_and_certificates_of_clients(is_mutual: bool) -> None:
    """Nobody else's certificate is trusted, on either side; the token is asked for as well."""
    ours, theirs = key_pairs(), key_pairs()
    tls = GrpcTls(*ours.server, client_authority=ours.authority if is_mutual else None)
    kernel = Kernel(open_tenants(":memory:"), SteadyClock())
    tokens = Tokens(kernel.store, kernel.clock)
    token = await tokens.create("acme", "ann", TokenRole.VIEWER)
    door = await serve_grpc(kernel, tokens.authenticate, "127.0.0.1:0", tls=tls)

    async def outcome(authority: bytes, pair: tuple[bytes, bytes] | None, token: str) -> Any:
        certificate, key = pair or (None, None)
        credentials = grpc.ssl_channel_credentials(authority, key, certificate)
        async with grpc.aio.secure_channel(f"127.0.0.1:{door.port}", credentials) as channel:
            got = await RpcClient(channel, token).send_bytes("get_process_counts", b"")
            return got.code() if isinstance(got, grpc.aio.AioRpcError) else Code.OK

    refused = Code.UNAVAILABLE
    assert await outcome(ours.authority, ours.client, token) is Code.OK
    assert await outcome(ours.authority, ours.client, "") is Code.UNAUTHENTICATED
    assert await outcome(theirs.authority, ours.client, token) is refused
    wanted = refused if is_mutual else Code.OK
    assert await outcome(ours.authority, None, token) is wanted
    assert await outcome(ours.authority, theirs.client, token) is wanted
    async with grpc.aio.insecure_channel(f"127.0.0.1:{door.port}") as channel:
        plain = await RpcClient(channel, token).send_bytes("get_process_counts", b"")
        assert plain.code() is refused
    await door.stop(0)


async def test_a_certificate_that_is_none_is_told_of() -> None:
    kernel = Kernel(open_tenants(":memory:"), SteadyClock())
    authenticate = Tokens(kernel.store, kernel.clock).authenticate
    with pytest.raises(SettingsError, match="cannot serve gRPC"):
        await serve_grpc(kernel, authenticate, "127.0.0.1:0", tls=GrpcTls(b"x", b"y"))


# Kills.


@asynccontextmanager
async def a_server(store: Path, port: int) -> AsyncGenerator[None]:
    command = [sys.executable, "-m", "tests.kernel.rpc", str(store), str(port)]
    process = subprocess.Popen(command)  # noqa: ASYNC220
    try:
        yield
    finally:
        process.kill()
        process.wait()


class Load:
    """A writer that repeats what was not answered, and a reader that goes on from its cursor."""

    def __init__(self, client: RpcClient, total: int) -> None:
        self.client, self.total, self.made = client, total, 0
        self.seen: list[int] = []

    async def read(self) -> None:
        while len(self.seen) < 2 * self.total:  # each process is created, and put into the queue
            after = self.seen[-1] if self.seen else 0
            stream = self.client.send("watch_events", follow=True, after=after)
            with suppress(grpc.aio.AioRpcError):
                async for event in stream:
                    self.seen.append(event.number)
                    if len(self.seen) == 2 * self.total:
                        return
            await until(self.is_served)

    async def write(self) -> None:
        while self.made < self.total:
            status, reply = await self.client.ask("submit", pid=f"p{self.made}")
            if status == 200:
                self.made += 1
            else:
                assert status == 503, reply
                await until(self.is_served)

    async def is_served(self) -> bool:
        return (await self.client.ask("get_process_counts"))[0] == 200


async def test_a_killed_server_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """Two servers are killed while requests are on their way; a third takes over."""
    store, port, total = tmp_path / "kernel.db", free_port(), 120
    async with aclosing(open_tenants(store)) as tenants:
        token = await Tokens(tenants, SteadyClock()).create("acme", "ann", TokenRole.OPERATOR)
    options = (("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 100))
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options) as channel:
        load = Load(RpcClient(channel, token), total)
        reading, writing = asyncio.ensure_future(load.read()), asyncio.ensure_future(load.write())
        for share in (1, 2):
            async with a_server(store, port):
                await until(lambda share=share: load.made >= share * total // 3)
        async with a_server(store, port):
            await asyncio.wait_for(asyncio.gather(reading, writing), PATIENCE_S)
            counts = (await load.client.ask("get_process_counts"))[1]
    assert load.seen == [*range(1, 2 * total + 1)]
    assert counts["by_state"]["ready"] == counts["total"] == total
