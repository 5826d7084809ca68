"""Every known attack by gRPC and by Redis is carried out: here, or by a test of its part.

What a client of the library cannot send is sent as frames of HTTP/2 by hand. Whatever comes, a good
client beside it is served.
"""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

import grpc.aio
import pytest

from tests.kernel.rpc import RpcSite, a_rpc_site
from tests.kernel.test_document import functions
from tests.patience import PATIENCE_S
from tests.store.redis_server import redis_server
from tests.tools.confined.attacks import known
from vegakit.concurrency import SteadyClock
from vegakit.ids import TenantId
from vegakit.server import GrpcLimits
from vegakit.store import RedisBus

GRPC, REDIS = known("grpc"), known("redis")
METHOD = "/vega.kernel.v1.KernelService/"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADERS, RESET, SETTINGS, PING = 1, 3, 4, 6
END_STREAM, END_HEADERS = 1, 4

ELSEWHERE = {
    "grpc-001": "test_grpc.test_messages_texts_and_compression_are_bounded",
    "grpc-002": "test_grpc.test_messages_texts_and_compression_are_bounded",
    "grpc-003": "test_grpc.test_a_tenant_leaves_room_for_others_and_a_client_that_goes_its_place",
    "grpc-004": "test_grpc.test_connections_are_bounded",
    "grpc-008": "test_grpc.test_every_operation_refuses_whom_and_what_it_must",
    "grpc-009": "test_grpc.test_every_operation_ends_at_its_deadline",
    "grpc-012": "test_grpc.test_every_operation_refuses_whom_and_what_it_must",
    "grpc-014": "test_grpc.test_reflection_is_there_only_when_it_is_asked_for",
    "grpc-015": "test_grpc.test_json_that_grpc_cannot_carry_is_told_of",
    "grpc-016": "test_grpc.test_random_bytes_harm_nobody",
    "grpc-017": "test_grpc.test_tls_and_certificates_of_clients",
    "grpc-018": "test_http.test_another_tenant_finds_nothing_of_ours",
    "grpc-019": "test_grpc.test_a_killed_server_loses_and_doubles_nothing",
    "grpc-023": "test_http.test_another_tenant_finds_nothing_of_ours",
    "grpc-024": "test_bus.test_a_message_and_the_number_of_topics_are_bounded",
    "grpc-025": "test_bus.test_a_slow_subscriber_holds_up_nobody_and_is_told_what_it_missed",
    "grpc-026": "test_executions.test_a_bound_is_told_and_ends_it",
    "grpc-027": "test_interrupts.test_an_answer_lets_the_process_go_on_once",
    "grpc-028": "test_interrupts.test_silence_has_the_consequence_of_the_kind",
    "grpc-029": "test_interrupts.test_another_tenant_answers_nothing",
    "redis-002": "test_bus.test_two_servers_with_one_redis_are_one_bus",
    "redis-004": "test_status.test_a_users_rate_is_limited_and_given_back",
    "redis-005": "test_bus.test_a_redis_that_fails_loses_and_doubles_no_command",
    "redis-006": "test_bus.test_a_server_that_begins_anew_tells_who_comes_back",
}
"""Carried out by tests of their parts. No limit is counted in Redis, so that none rises there."""

ATTACKS: dict[str, Callable[[RpcSite], Awaitable[None]]] = {}


def attack(
    *names: str,
) -> Callable[[Callable[[RpcSite], Awaitable[None]]], Callable[[RpcSite], Awaitable[None]]]:
    def keep(carry_out: Callable[[RpcSite], Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        ATTACKS.update(dict.fromkeys(names, carry_out))
        return carry_out

    return keep


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return (
        struct.pack(">I", len(payload))[1:]
        + bytes([kind, flags])
        + struct.pack(">I", stream)
        + payload
    )


def headers(method: str, token: str) -> bytes:
    """A block of headers, each as a literal that nobody remembers."""
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": METHOD + method,
        ":authority": "x",
        "content-type": "application/grpc",
        "te": "trailers",
        "grpc-timeout": "20S",
        "authorization": f"Bearer {token}",
    }
    block = b""
    for name, value in fields.items():
        block += b"\x00" + bytes([len(name)]) + name.encode()
        block += bytes([len(value)]) + value.encode()
    return block


async def sent(site: RpcSite, *frames: bytes, settings: bytes = b"") -> bytes:
    """Send frames on a connection of their own; return the last that the server says."""

    def talk() -> bytes:
        said = b""
        with socket.create_connection(("127.0.0.1", site.door.port), timeout=PATIENCE_S) as wire:
            wire.sendall(PREFACE + frame(SETTINGS, 0, 0, settings))
            wire.settimeout(0.5)
            try:
                for start in range(0, len(frames), 100):
                    wire.sendall(b"".join(frames[start : start + 100]))
                while piece := wire.recv(65_536):
                    said += piece
            except OSError:
                pass
        return said

    return await asyncio.to_thread(talk)


@attack("grpc-005")
async def rapid_resets(site: RpcSite) -> None:
    token = (await site.client()).token
    block = headers("GetNextRunnable", token)
    frames: list[bytes] = []
    for stream in range(1, 4_001, 2):
        frames.append(frame(HEADERS, END_HEADERS, stream, block))
        frames.append(frame(RESET, 0, stream, struct.pack(">I", 8)))
    await sent(site, *frames)


@attack("grpc-006")
async def a_header_that_claims_to_be_huge(site: RpcSite) -> None:
    huge = b"\x00\x7f" + b"\xff" * 4 + b"\x0f"
    padded = b"\x00\x7f" + b"\x80" * 2_000 + b"\x01"
    for block in (huge, padded):
        await sent(site, frame(HEADERS, END_HEADERS, 1, block))


@attack("grpc-007")
async def many_pings(site: RpcSite) -> None:
    await sent(site, *[frame(PING, 0, 0, b"12345678")] * 5_000)


@attack("grpc-010")
async def a_reader_with_no_window(site: RpcSite) -> None:
    """A stream is asked for by readers who take none of it: it ends by the server's own time."""
    client = await site.client()
    await client.ask("submit", pid="told")
    no_window = struct.pack(">HI", 4, 0)
    empty = b"\x00\x00\x00\x00\x00"
    ask = frame(HEADERS, END_HEADERS, 1, headers("WatchEvents", client.token))
    said = await sent(site, ask, frame(0, END_STREAM, 1, empty), settings=no_window)
    assert said


@attack("grpc-011", "grpc-013")
async def metadata_that_is_too_much_or_none(site: RpcSite) -> None:
    client = await site.client()
    metadata = (*client.metadata(), ("x-large", "a" * 20_000))
    outcome = await client.send_bytes("list_processes", b"", metadata=metadata)
    assert isinstance(outcome, grpc.aio.AioRpcError)
    broken = headers("ListProcesses", client.token) + b"\x00\x01x\x03a\nb"
    await sent(site, frame(HEADERS, END_HEADERS, 1, broken))


@attack("grpc-020", "grpc-021", "grpc-022")
async def numbers_and_names_beyond_all_bounds(site: RpcSite) -> None:
    client = await site.client()
    for fields in ({"quota": {"model_calls": -1}}, {"pid": "p" * 5_000}):
        status, _ = await client.ask("submit", **fields)
        assert status == 400, fields
    for lease_ms in (-1, 0, 2**62):
        status, _ = await client.ask("get_next_runnable", holder="w", lease_ms=lease_ms)
        assert status == 400, lease_ms
    await client.ask("submit", pid="p", quota={"model_calls": 2**53 - 1})
    used = {"pid": "p", "usage": {"model_calls": 2**63 - 1}}
    assert (await client.ask("record_usage", **used))[0] in (200, 400)
    assert (await client.ask("record_usage", **used))[0] in (200, 400)


@pytest.mark.parametrize("name", sorted(ATTACKS))
async def test_a_good_client_is_served_beside_an_attack(name: str) -> None:
    limits = GrpcLimits(stream_ms=2_000)
    async with a_rpc_site(limits) as site:
        good = await site.client(tenant="good")
        assert (await good.ask("submit", pid="p"))[0] == 200
        await asyncio.wait_for(ATTACKS[name](site), PATIENCE_S)
        assert (await good.ask("get_process", pid="p"))[0] == 200


async def test_a_topic_is_no_pattern_and_no_command(tmp_path: Path) -> None:
    """redis-001, redis-003: whatever it is called, a topic holds what was published to it."""
    names = ("*", "user:*\r\nFLUSHALL", "__keyspace@0__:*", "t", "t\r\n")
    tenants = (TenantId("a"), TenantId("*"), TenantId("a}\r\nFLUSHALL"))
    with redis_server(tmp_path) as server:
        async with aclosing(RedisBus(server.url, SteadyClock())) as bus:
            for tenant in tenants:
                for name in names:
                    await bus.publish(tenant, name, f"{tenant} {name}".encode())
            for tenant in tenants:
                for name in names:
                    page = await bus.read(tenant, name, 0)
                    told = [message.body for message in page.messages]
                    assert told == [f"{tenant} {name}".encode()]


def test_every_known_attack_is_carried_out_once() -> None:
    here = {*ATTACKS, "redis-001", "redis-003"}
    assert not here & {*ELSEWHERE}
    assert here | {*ELSEWHERE} == {*GRPC, *REDIS}
    for test in ELSEWHERE.values():
        module, _, function = test.partition(".")
        assert function in functions(module), test
