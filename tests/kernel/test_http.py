"""The kernel over real sockets: every operation by the table, refusals, limits, cursors, kills."""

import asyncio
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.examples import DEFINED, EXAMPLES, TWO, every_operation, role_for
from tests.kernel.kernels import listeners
from tests.kernel.rpc import RpcClient, a_rpc_site
from tests.kernel.tools import a_tool_site
from tests.kernel.web import Client, free_port, running_agents, served
from tests.patience import PATIENCE_S, pass_virtual_time, until, wait_until
from tests.store.redis_server import redis_server
from vegakit.concurrency import SteadyClock
from vegakit.control import KERNEL_OPERATIONS, ReplyShape, Right
from vegakit.ids import TenantId
from vegakit.kernel import Kernel
from vegakit.server import GrpcLimits, HttpLimits, TokenRole, Tokens
from vegakit.server.admission import Admission
from vegakit.store import open_bus, open_tenants
from vegakit.testing import FakeClock, run_virtual

RIGHTS = {
    TokenRole.VIEWER: {Right.READ},
    TokenRole.WORKER: {Right.READ, Right.ACT},
    TokenRole.OPERATOR: {Right.READ, Right.ACT, Right.ANSWER},
    TokenRole.ADMIN: {Right.READ, Right.ADMINISTER},
}


class Site:
    """A server, and clients of it by role; `other` is an operator of another tenant."""

    def __init__(self, port: int, kernel: Kernel) -> None:
        self.port, self.kernel = port, kernel
        self.tokens = Tokens(kernel.store, kernel.clock)

    async def client(self, role: TokenRole = TokenRole.OPERATOR, tenant: str = "acme") -> Client:
        return Client(self.port, await self.tokens.create(tenant, f"a {role}", role))


@asynccontextmanager
async def a_site(limits: HttpLimits | None = None) -> AsyncGenerator[Site]:
    async with running_agents() as agents:
        kernel = Kernel(open_tenants(":memory:"), SteadyClock(), agents)
        async with served(kernel, limits) as port:
            yield Site(port, kernel)


async def in_thread(call: Any, *given: object, **fields: object) -> Any:
    return await asyncio.to_thread(call, *given, **fields)


def every_stream(client: Any) -> None:
    """Read each stream but that of all events, and go on from the middle of it."""
    run = {"operation": "execute_pipeline", "pid": "c"}
    events = client.events(99, pipeline=DEFINED, **run)
    assert events[-1][1]["event"]["kind"] == "completed"
    assert client.events(99, str(events[1][0]), **run) == events[2:]
    number = client.call("publish", topic="u", message={"n": 1})[1]["number"]
    topic = {"operation": "subscribe", "topic": "u", "follow": False}
    assert [one for one, _ in client.events(9, "0", **topic)] == [0, number]
    assert [one for one, _ in client.events(9, str(number), **topic)] == [number]


DOORS: dict[str, Any] = {"http": a_site, "grpc": a_rpc_site, "mcp": a_tool_site}
LIMITS: dict[str, Any] = {"http": HttpLimits, "grpc": GrpcLimits, "mcp": HttpLimits}


@pytest.mark.parametrize("door", DOORS)
async def test_every_operation_works_and_none_is_left_out(door: str) -> None:
    """Those that may be repeated are, and tell of nothing twice."""
    async with DOORS[door]() as site:
        client = await site.client()
        admin = await site.client(TokenRole.ADMIN, "servers")
        replies = await in_thread(every_operation, client.call, admin.call)
        await in_thread(every_stream, client)
        events = await in_thread(client.events, 1_000)
    streams = {name for name, row in KERNEL_OPERATIONS.items() if row.shape is ReplyShape.STREAM}
    assert {*replies} | streams == {*KERNEL_OPERATIONS} == {*EXAMPLES}
    numbers = [number for number, _ in events]
    assert numbers == [*range(1, len(numbers) + 1)]
    told = [(event["event"]["kind"], event["event"]["pid"]) for _, event in events]
    once = {"process_created", "process_terminated", "session_ended"}
    assert [one for one in told if one[0] in once and told.count(one) > 1] == []


@pytest.mark.parametrize("name", KERNEL_OPERATIONS)
async def test_every_operation_refuses_whom_and_what_it_must(name: str) -> None:
    right = KERNEL_OPERATIONS[name].right
    async with a_site() as site:
        for client in (Client(site.port), Client(site.port, "vega_0_0"), Client(site.port, "x")):
            status, reply = await in_thread(client.call, name)
            assert (status, reply["error"]["code"]) == (401, "unauthenticated")
        for role, rights in RIGHTS.items():
            client = await site.client(role)
            status, reply = await in_thread(client.call, name, colour="unknown")
            wanted = (400, "invalid") if right in rights else (403, "forbidden")
            assert (status, reply["error"]["code"]) == wanted, reply
        client = await site.client(role_for(name))
        for body in (b"{", b"[]", b'{"pid": 1', b'"x"', b"\xff", b"[" * 100_000):
            status, reply = await in_thread(client.request, "POST", f"/v1/{name}", body)
            assert (status, reply["error"]["code"]) == (400, "invalid"), body[:9]
        status, reply = await in_thread(client.request, "GET", f"/v1/{name}")
        assert (status, reply["error"]["message"]) == (405, f"write: POST /v1/{name}")


@pytest.mark.parametrize("door", DOORS)
async def test_another_tenant_finds_nothing_of_ours(door: str) -> None:
    """Whatever names a record answers as if there were none; whatever lists shows none."""
    async with DOORS[door]() as site:
        ours = await site.client()
        admin = await site.client(TokenRole.ADMIN, "servers")
        await in_thread(every_operation, ours.call, admin.call)
        before = await in_thread(ours.events, 1_000)
        theirs = await site.client(tenant="other")
        assert await in_thread(theirs.events, 1_000) == []
        for name, example in EXAMPLES.items():
            if example.makes_its_own or KERNEL_OPERATIONS[name].shape is ReplyShape.STREAM:
                continue
            status, reply = await in_thread(theirs.call, name, **example.fields)
            if role_for(name) is TokenRole.ADMIN:
                # Not even an operator of the tenant itself may.
                for client in (theirs, ours):
                    status, reply = await in_thread(client.call, name, **example.fields)
                    assert (status, reply["error"]["code"]) == (403, "forbidden"), name
            elif example.elsewhere is None:
                assert (status, reply["error"]["code"]) == (404, "not_found"), (name, reply)
            else:
                assert status == 200
                assert {key: reply.get(key) for key in example.elsewhere} == example.elsewhere
        assert await in_thread(theirs.events, 1_000) == []
        assert await in_thread(ours.events, 1_000) == before


async def test_bodies_calls_and_time_are_bounded() -> None:
    limits = HttpLimits(body_bytes=1_000, streams=1, quiet_ms=50)
    async with a_site(limits) as site:
        client = await site.client()
        status, reply = await in_thread(client.call, "submit", pid="p" * 2_000)
        assert (status, reply["error"]["message"]) == (400, "the request is larger than 1000 bytes")
        body = b"pid=p"
        status, reply = await in_thread(
            client.request, "POST", "/v1/submit", body, Content_Type="text/plain"
        )
        assert (status, "send JSON" in reply["error"]["message"]) == (400, True)
        await in_thread(client.call, "submit", pid="p")
        await in_thread(client.call, "initialize_session", pid="p", pipeline=TWO)
        waits = {"pid": "p", "wait_ms": 60_000}
        path = "/v1/get_next_instruction"
        status, reply = await in_thread(client.request, "POST", path, waits, Vega_Timeout_Ms="60")
        assert (status, reply["error"]["code"]) == (504, "deadline")
        for text in ("0", "-1", "soon"):
            status, _ = await in_thread(client.request, "POST", path, waits, Vega_Timeout_Ms=text)
            assert status == 400
        await in_thread(streams_are_bounded, client)
        await in_thread(a_body_is_not_waited_for, client)


def streams_are_bounded(client: Client) -> None:
    """One is taken; its place is free again when its client has gone."""
    with client.opened("POST", "/v1/watch_events", {"follow": True}) as stream:
        assert stream.readline().startswith(b"id: ")
        status, reply = client.call("watch_events")
        assert (status, reply["error"]["code"]) == (429, "exhausted")

    def is_given_back() -> bool:
        with client.opened("POST", "/v1/watch_events", {}) as stream:
            return stream.status == 200

    wait_until(is_given_back)


def a_body_is_not_waited_for(client: Client) -> None:
    """A client that promises a body and sends a part of it is told when its time is over."""
    head = (
        f"POST /v1/submit HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {client.token}\r\n"
        "Content-Type: application/json\r\nContent-Length: 20\r\nVega-Timeout-Ms: 80\r\n\r\n{"
    )
    with socket.create_connection(("127.0.0.1", client.port), PATIENCE_S) as connection:
        connection.sendall(head.encode())
        reply = b""
        while b"\r\n\r\n{" not in reply or not reply.endswith(b"}}"):
            reply += connection.recv(4_096)
        assert reply.startswith(b"HTTP/1.1 504")
        assert b"did not come in whole in its time, and nothing was done" in reply


async def test_a_bus_that_is_down_is_told_as_that_at_every_door() -> None:
    gone = f"redis://127.0.0.1:{free_port()}"
    async with a_site() as web, a_rpc_site() as rpc:
        for site in (web, rpc):
            async with aclosing(open_bus(gone, site.kernel.clock)) as site.kernel.bus:
                client = await site.client()
                call = (
                    client.ask if isinstance(client, RpcClient) else partial(in_thread, client.call)
                )
                _, reply = await call("publish", topic="t", message="hello")
                assert reply["error"]["code"] == "unavailable"
                text = reply["error"]["message"]
                assert text.startswith("the bus (Redis) does not answer now")
                assert gone not in text
                _, sent = await call("send", topic="t", body=1)
                assert sent["topic"] == "t", "commands do without it"


async def test_deep_json_and_long_numbers_are_the_callers_fault() -> None:
    async with a_site() as site:
        client = await site.client()
        for depth, wanted in ((60, 200), (65, 400), (985, 400)):
            body = b'{"input": ' + b"[" * depth + b"]" * depth + b"}"
            status, _ = await in_thread(client.request, "POST", "/v1/create_envelope", body)
            assert status == wanted, depth
        text = b'{"input": "' + b"[" * 500 + b'\\" ["}'
        assert (await in_thread(client.request, "POST", "/v1/create_envelope", text))[0] == 200
        for seen in ("9" * 25, "9" * 5_000, "abc", "-1"):
            path, sent = "/v1/watch_events", {"Last_Event_ID": seen}
            assert (await in_thread(client.request, "POST", path, {}, **sent))[0] == 400, seen
        status, reply = await in_thread(client.call, "watch_events", after=999, follow=True)
        assert (status, "beyond the last event" in str(reply)) == (400, True)
        big = {"model_calls": int("9" * 4_000)}
        await in_thread(client.call, "submit", pid="p")
        status, reply = await in_thread(client.call, "record_usage", pid="p", usage=big)
        assert (status, reply["error"]["code"]) == (400, "invalid")


async def test_json_that_takes_long_to_read_is_refused() -> None:
    """Quotes that never close, from each of which a text might begin, would be read from each; and
    of many values, each of a byte or two, much is made."""
    async with a_site() as site:
        many = b'{"input": [' + b"[]," * 100_000 + b"[]]}"
        for body in (b"[" * 65 + b'"\\' * 400_000, b"[" * 65 + b'"' * 900_000, many):
            client = await site.client(tenant=f"with {body[-3:]}")
            status, _ = await in_thread(client.request, "POST", "/v1/create_envelope", body)
            assert status == 400
        client = await site.client()
        text = b'{"input": "' + b"[," * 200_000 + b'"}'
        assert (await in_thread(client.request, "POST", "/v1/create_envelope", text))[0] == 200


def test_whoever_holds_others_up_is_held_up() -> None:
    """By the square of how long; others do not wait, and nothing is kept of it."""
    run_virtual(held_up())


async def held_up() -> None:
    admission, one, other = Admission(nobody, HttpLimits()), TenantId("one"), TenantId("other")
    loop, took = asyncio.get_running_loop(), dict[TenantId, float]()

    large = b" " * 1_000_000

    def work(_: bytes, s: float) -> None:
        until = time.thread_time() + s
        while time.thread_time() < until:
            pass

    async def timed(tenant: TenantId) -> None:
        began = loop.time()
        await admission.converted(tenant, work, large, 0)
        took[tenant] = loop.time() - began

    await admission.converted(one, work, large, 0.03)
    # A small message that takes long was held up itself, by a collection of garbage.
    await admission.converted(other, work, b"{}", 0.15)
    await asyncio.gather(timed(other), timed(one))
    assert took[other] == 0
    assert took[one] >= 0.8
    await pass_virtual_time(60)
    assert admission._turns == {}  # pyright: ignore[reportPrivateUsage]


async def nobody(_: str) -> None:
    return None


async def test_a_tenant_leaves_room_for_others() -> None:
    async with a_site(HttpLimits(streams=3, tenant_streams=1)) as site:
        one, other = await site.client(), await site.client(tenant="other")
        await in_thread(one.call, "submit", pid="p")

        def crowd() -> tuple[int, int]:
            with one.opened("POST", "/v1/watch_events", {"follow": True}) as stream:
                stream.readline()
                second = one.call("watch_events")[0]
                with other.opened("POST", "/v1/watch_events", {}) as theirs:
                    return second, theirs.status

        assert await in_thread(crowd) == (429, 200)


@pytest.mark.parametrize("door", DOORS)
async def test_workers_that_wait_leave_room_for_operators(door: str) -> None:
    limits = LIMITS[door](tenant_calls=2, tenant_waits=2)
    async with DOORS[door](limits) as site:
        worker, operator = await site.client(TokenRole.WORKER), await site.client()
        take = partial(worker.call, "take_command", topic="t", holder="w")
        waiting = [asyncio.create_task(in_thread(take, wait_ms=1_000)) for _ in range(2)]
        while not all(one.done() for one in waiting):
            assert (await in_thread(operator.call, "get_process_counts"))[0] == 200
        assert [(await one)[0] for one in waiting] == [200, 200]


async def test_a_client_that_comes_back_goes_on_from_its_cursor() -> None:
    async with a_site() as site:
        client = await site.client()
        for number in range(5):
            await in_thread(client.call, "create_process", pid=f"p{number}")
        first = await in_thread(client.events, 2)
        rest = await in_thread(client.events, 10, str(first[-1][0]))
        assert [number for number, _ in (*first, *rest)] == [1, 2, 3, 4, 5]


async def test_a_subscriber_that_comes_back_goes_on_from_its_cursor() -> None:
    async with a_site() as site:
        client, other = await site.client(), await site.client(tenant="other")
        await in_thread(other.call, "publish", topic="t", message="not yours")
        sent = [(await in_thread(client.call, "publish", topic="t", message=n)) for n in range(5)]
        numbers = [reply["number"] for _, reply in sent]
        topic = {"operation": "subscribe", "topic": "t"}
        first = await in_thread(client.events, 3, after="0", **topic)
        rest = await in_thread(client.events, 4, after=str(first[-1][0]), **topic)
        # Each begins with where it begins.
        assert [number for number, _ in first] == [0, *numbers[:2]]
        assert [number for number, _ in rest] == [numbers[1], *numbers[2:]]
        assert [item["kind"] for _, item in rest] == ["subscribed", *["message"] * 3]
        assert [item.get("message") for _, item in rest] == [None, 2, 3, 4]
        assert {item.get("by") for _, item in rest[1:]} == {"a operator"}


async def test_a_revoked_token_ends_its_streams() -> None:
    async with a_site(HttpLimits(quiet_ms=50)) as site:
        client = await site.client()
        await in_thread(client.call, "submit", pid="p")

        begun = threading.Event()

        def follow() -> bytes:
            with client.opened("POST", "/v1/watch_events", {"follow": True}) as stream:
                first = stream.readline()
                begun.set()
                return first + stream.read()

        following = asyncio.create_task(in_thread(follow))
        assert await in_thread(begun.wait, PATIENCE_S)
        [record] = await site.tokens.list("acme")
        await site.tokens.revoke(record.id)
        seen = await asyncio.wait_for(following, PATIENCE_S)
        assert b"process_created" in seen
        assert b'"code":"unauthenticated"' in seen


@pytest.mark.parametrize("operation", ["take_command", "take_request"])
@pytest.mark.parametrize("door", DOORS)
async def test_a_revoked_token_is_handed_no_work(door: str, operation: str) -> None:
    """Who waited for it when the token was good, waits no longer."""
    async with DOORS[door](LIMITS[door](quiet_ms=50)) as site:
        client = await site.client()
        await in_thread(client.call, "register_service", name="t")
        fields = {"take_command": {"topic": "t"}, "take_request": {"service": "t"}}[operation]
        waiting = asyncio.create_task(
            in_thread(client.call, operation, holder="w", wait_ms=60_000, **fields)
        )
        [record] = await site.tokens.list("acme")
        # It was let in while its token was good.
        await until(lambda: listeners(site.kernel) == 1)
        await site.tokens.revoke(record.id)
        status, reply = await asyncio.wait_for(waiting, PATIENCE_S)
        assert (status, reply["error"]["code"]) == (401, "unauthenticated")


async def test_health_and_the_document_need_no_token() -> None:
    async with a_site() as site:
        client = Client(site.port)
        assert await in_thread(client.request, "GET", "/health") == (200, {"status": "ok"})
        status, document = await in_thread(client.request, "GET", "/openapi.json")
        assert status == 200
        assert {*document["paths"]} == {f"/v1/{name}" for name in KERNEL_OPERATIONS}
        status, reply = await in_thread(client.request, "GET", "/nothing")
        assert (status, reply["error"]["code"]) == (404, "not_found")


async def test_a_token_is_good_until_it_is_revoked_or_over_and_kept_as_a_digest() -> None:
    store, clock = open_tenants(":memory:"), FakeClock()
    tokens = Tokens(store, clock)
    short = await tokens.create("acme", "ann", TokenRole.VIEWER, valid_ms=100)
    clock.advance(1)
    long = await tokens.create("acme", "bob", TokenRole.WORKER)
    found = await tokens.authenticate(short)
    assert found is not None
    assert (found.caller.tenant, found.caller.user) == ("acme", "ann")
    assert found.rights == {Right.READ}
    kept = await tokens.list("acme")
    assert [one.user for one in kept] == ["ann", "bob"]
    assert await tokens.list("other") == []
    assert not any(secret in str(kept) for token in (short, long) for secret in [token[22:]])
    for wrong in (f"{long}x", long[:-1], long.replace("vega_", "vaga_"), "", "_", "vega__"):
        assert await tokens.authenticate(wrong) is None
    clock.advance(99)
    assert await tokens.authenticate(short) is None
    assert [await tokens.revoke(kept[1].id), await tokens.revoke(kept[1].id)] == [True, False]
    assert await tokens.authenticate(long) is None


@contextmanager
def a_server(store: Path, port: int, *more: str) -> Generator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-m", "tests.kernel.web", str(store), str(port), *more]
    with subprocess.Popen(command) as process:
        wait_until(lambda: Client(port).is_served() or process.poll() is not None)
        assert process.poll() is None
        try:
            yield process
        finally:
            process.kill()


class Load:
    """A writer that repeats what was not answered, and a reader that goes on from its cursor."""

    def __init__(self, client: Client, total: int) -> None:
        self.client, self.total, self.made = client, total, 0
        self.seen: list[int] = []

    def read(self) -> None:
        while len(self.seen) < 2 * self.total:  # each process is created, and put into the queue
            after = str(self.seen[-1]) if self.seen else ""
            try:
                wanted = min(7, 2 * self.total - len(self.seen))
                found = self.client.events(wanted, after, follow=True)
                self.seen.extend(number for number, _ in found)
            except (OSError, HTTPException):
                wait_until(self.client.is_served)

    def write_until(self, number: int) -> None:
        while self.made < number:
            try:
                status, reply = self.client.call("submit", pid=f"p{self.made}")
            except (OSError, HTTPException, ValueError):
                wait_until(self.client.is_served)
                continue
            assert status == 200, reply
            self.made += 1


async def test_a_killed_server_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """Three servers are killed while the last requests are on their way; others take over."""
    store, port, total = tmp_path / "kernel.db", free_port(), 150
    async with aclosing(open_tenants(store)) as tenants:
        token = await Tokens(tenants, SteadyClock()).create("acme", "ann", TokenRole.OPERATOR)
    load = Load(Client(port, token), total)
    reading = asyncio.create_task(in_thread(load.read))
    for share in (1, 2, 3):
        with a_server(store, port) as process:
            writing = asyncio.create_task(in_thread(load.write_until, share * total // 4))
            await until(lambda share=share: load.made >= share * total // 4 - 5)
            process.kill()
            process.wait()
            with a_server(store, port):
                await writing
    with a_server(store, port):
        await in_thread(load.write_until, total)
        await asyncio.wait_for(reading, PATIENCE_S)
        counts = (await in_thread(load.client.call, "get_process_counts"))[1]
    assert load.seen == [*range(1, 2 * total + 1)]
    assert counts["by_state"]["ready"] == counts["total"] == total


class Workers:
    """Someone who asks a service and repeats what was not answered, and a worker of the service."""

    def __init__(self, client: Client, total: int) -> None:
        self.client, self.total = client, total
        self.replies: list[dict[str, Any]] = []

    def ask(self) -> None:
        while len(self.replies) < self.total:
            key = f"r{len(self.replies)}"
            fields = {"service": "s", "id": key, "request": {"metadata": {"n": key}}}
            try:
                status, reply = self.client.call("dispatch", **fields)
            except (OSError, HTTPException, ValueError):
                wait_until(self.client.is_served)
                continue
            assert status == 200, reply
            self.replies.append(reply)

    def work(self, stop: Callable[[], bool]) -> None:
        while not stop():
            try:
                took = {"service": "s", "holder": "w", "lease_ms": 2_000, "wait_ms": 200}
                call = self.client.call("take_request", **took)[1].get("call")
                if call is None:
                    continue
                done = {"metadata": call["request"]["metadata"]}
                fields = {"id": call["id"], "holder": "w", "response": done}
                self.client.call("complete_request", **fields)
            except (OSError, HTTPException, ValueError):
                wait_until(lambda: self.client.is_served() or stop())


async def test_dispatch_outlives_killed_servers(tmp_path: Path) -> None:
    """Servers are killed while requests are asked, taken and completed; each is answered, with its
    own answer, and no slot is left behind."""
    store, port, total = tmp_path / "kernel.db", free_port(), 30
    async with aclosing(open_tenants(store)) as tenants:
        token = await Tokens(tenants, SteadyClock()).create("acme", "ann", TokenRole.OPERATOR)
    workers = Workers(Client(port, token), total)
    with a_server(store, port):
        service = {"name": "s", "max_concurrent": 3, "ttl_ms": 0}
        assert (await in_thread(workers.client.call, "register_service", **service))[0] == 200
        asking = asyncio.create_task(in_thread(workers.ask))
        working = asyncio.create_task(in_thread(workers.work, asking.done))
        await until(lambda: len(workers.replies) >= total // 3)
    for share in (2, 3):
        with a_server(store, port) as process:
            await until(lambda share=share: len(workers.replies) >= share * total // 3)
            process.kill()
            process.wait()
    await asyncio.wait_for(asking, PATIENCE_S)
    await asyncio.wait_for(working, PATIENCE_S)
    answers = [(one["outcome"], one["response"]["metadata"]["n"]) for one in workers.replies]
    assert answers == [("completed", f"r{number}") for number in range(total)]
    with a_server(store, port):
        shown = (await in_thread(workers.client.call, "get_service", name="s"))[1]
    assert shown["load"] == 0


async def test_a_pipeline_goes_on_at_another_server_when_its_own_is_killed(tmp_path: Path) -> None:
    """Its reader goes on from its cursor: each stage is completed once, and nothing is missed."""
    store, port = tmp_path / "kernel.db", free_port()
    async with aclosing(open_tenants(store)) as tenants:
        token = await Tokens(tenants, SteadyClock()).create("acme", "ann", TokenRole.WORKER)
    client = Client(port, token)
    run = {"operation": "execute_pipeline", "pid": "p"}
    with a_server(store, port, "60000", "500") as process:  # its model answers after a minute
        seen = await in_thread(client.events, 1, pipeline=DEFINED, **run)
        process.kill()
        process.wait()
    other = free_port()
    with a_server(store, other, "0", "500"):
        # Nobody asks for it: the other server finds it by itself.
        client.port = other
        watched = await in_thread(client.events, 1, pid="p", kinds=["session_ended"], follow=True)
        seen += await in_thread(client.events, 99, str(seen[-1][0]), **run)
        assert seen == await in_thread(client.events, 99, **run)
    told = [(one["event"]["kind"], one["event"].get("stage")) for _, one in seen]
    assert told == [
        ("stage_started", "plan"),
        ("stage_started", "plan"),
        ("stage_completed", "plan"),
        ("stage_started", "write"),
        ("stage_completed", "write"),
        ("completed", None),
    ]
    assert watched[0][0] == seen[-1][0]


async def test_a_subscriber_of_a_killed_server_goes_on_at_another(tmp_path: Path) -> None:
    """Servers with one Redis are one bus: nothing is missed or told twice."""
    store, ports, total = tmp_path / "kernel.db", (free_port(), free_port()), 60
    async with aclosing(open_tenants(store)) as tenants:
        token = await Tokens(tenants, SteadyClock()).create("acme", "ann", TokenRole.OPERATOR)
    dies, stays = (Client(port, token) for port in ports)
    seen: list[dict[str, Any]] = []

    def read() -> None:
        after = "0"
        while len(seen) < total:
            for client in (dies, stays):
                with suppress(OSError, HTTPException):
                    wanted = 1 + min(7, total - len(seen))
                    found = client.events(wanted, after, "subscribe", topic="t")
                    seen.extend(item for _, item in found if item["kind"] == "message")
                    after = str(found[-1][0]) if found else after
                    break

    def publish(first: int, last: int) -> None:
        for number in range(first, last):
            assert stays.call("publish", topic="t", message=number)[0] == 200

    with (
        redis_server(tmp_path) as redis,
        a_server(store, ports[0], "0", "15000", redis.url) as killed,
        a_server(store, ports[1], "0", "15000", redis.url),
    ):
        reading = asyncio.create_task(in_thread(read))
        await in_thread(publish, 0, 30)
        await until(lambda: len(seen) > 10)
        killed.kill()
        await in_thread(publish, 30, total)
        await asyncio.wait_for(reading, PATIENCE_S)
    assert [item["message"] for item in seen] == [*range(total)]
    assert not any("missed" in item or "is_cut" in item for item in seen)
