"""Every known attack by web and by SQL is carried out on a kernel over sockets, by its name.

SQL is tried on PostgreSQL, in every text that a request has, in paths, in tokens and in names of
fields. What the web tries is refused by what the door is: JSON that says so, a token in a header
and never in a cookie, nothing for another origin.
"""

import asyncio
import http.client
import os
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints
from urllib.parse import quote
from uuid import uuid4

import psycopg
import pytest
from msgspec import UnsetType

from tests.kernel.web import Client, free_port, served
from tests.patience import PATIENCE_S, wait_until
from tests.tools.confined.attacks import known
from vegakit.concurrency import SteadyClock
from vegakit.control import KERNEL_OPERATIONS, Operation, ReplyShape
from vegakit.ids import TenantId
from vegakit.kernel import Kernel
from vegakit.server import TokenRole, Tokens
from vegakit.store import open_tenants

POSTGRES = os.environ.get("VEGA_TEST_POSTGRES_URL", "postgresql://postgres@127.0.0.1:5432/test")
SECRET = "the-secret-of-another-tenant"
SQL, WEB = known("sql"), known("web")
OTHERS: dict[str, object] = {
    "kind": "clarification",
    "to": "waiting",
    "version": 1,
    "usage": {},
    "pipeline": {"stages": [{"name": "a", "agent": "a"}]},
    "outcome": {"type": "StageCompleted"},
    "answer": {"type": "Approved"},
}
"""A value for each field that must be there and is no text."""


class Site:
    """A server with a client of a tenant, beside whom another tenant has a secret."""

    def __init__(self, port: int, kernel: Kernel) -> None:
        self.port, self._tokens = port, Tokens(kernel.store, kernel.clock)

    async def client(self, tenant: str = "acme", role: TokenRole = TokenRole.OPERATOR) -> Client:
        return Client(self.port, await self._tokens.create(tenant, "ann", role))


@asynccontextmanager
async def a_site(place: str = ":memory:") -> AsyncGenerator[Site]:
    kernel = Kernel(open_tenants(place), SteadyClock())
    async with served(kernel) as port:
        site = Site(port, kernel)
        theirs = await site.client("other")
        status, _ = await asyncio.to_thread(theirs.call, "submit", pid="theirs", request=SECRET)
        assert status == 200
        yield site
    await kernel.store.aclose()


# SQL.


def is_text(hint: object) -> bool:
    """Whether a field takes a text of the caller's choice."""
    if get_origin(hint) is Annotated:
        return is_text(get_args(hint)[0])
    kinds = [one for one in get_args(hint) if one not in (UnsetType, type(None))]
    return hint is str or (bool(kinds) and all(map(is_text, kinds)))


def hostile(row: Operation[Any, Any], literal: str) -> dict[str, object]:
    """A request with the literal in every text it has."""
    hints = get_type_hints(row.request, include_extras=True)
    texts = {name: literal for name, hint in hints.items() if is_text(hint)}
    return {name: OTHERS[name] for name in hints if name in OTHERS} | texts


@pytest.fixture
def schema() -> Any:
    """A database in which everything is ours to look at."""
    name = f"attack_{uuid4().hex}"
    with psycopg.connect(POSTGRES, autocommit=True) as server:
        server.execute(f"CREATE SCHEMA {name}".encode())
        yield f"{POSTGRES}?options=-csearch_path%3D{name}", name
        server.execute(f"DROP SCHEMA {name} CASCADE".encode())


def tables(name: str) -> dict[str, int]:
    with psycopg.connect(POSTGRES) as server:
        server.execute(f"SET search_path TO {name}".encode())
        query = "SELECT tablename FROM pg_tables WHERE schemaname = %s"
        found = [str(row[0]) for row in server.execute(query, (name,))]
        counts: dict[str, int] = {}
        for table in found:
            [row] = server.execute(f"SELECT count(*) FROM {table}".encode())
            counts[table] = int(row[0])
        return counts


def tried(client: Client, literal: str) -> list[tuple[str, int, str]]:
    """Send a literal everywhere; return each status and answer."""
    found: list[tuple[str, int, str]] = []
    for name, row in KERNEL_OPERATIONS.items():
        if row.shape is not ReplyShape.STREAM:
            status, reply = client.call(name, **hostile(row, literal))
            found.append((name, status, str(reply)))
            status, reply = client.call(name, **{literal: literal, literal.partition("=")[0]: 1})
            found.append((f"{name} by field", status, str(reply)))
    for path in (f"/v1/list_processes?{quote(literal)}", f"/v1/{quote(literal)}"):
        status, reply = client.request("POST", path, {})
        found.append((path, status, str(reply)))
    spoken = literal.encode("utf-8").decode("latin-1")
    status, reply = Client(client.port, spoken).request("POST", "/v1/list_processes", {})
    found.append(("as a token", status, str(reply)))
    for limit in (-1, 10**9, 1e9, literal):
        status, reply = client.call("list_processes", limit=limit)
        found.append((f"limit {limit}", status, str(reply)))
    return found


async def test_sql_is_never_more_than_a_text(schema: tuple[str, str]) -> None:
    """No literal shows what is another's, changes a table, takes its time, or fails the server."""
    place, name = schema
    async with a_site(place) as site:
        client = await site.client()
        before = tables(name)
        for attack, known_attack in SQL.items():
            for where, status, answer in await asyncio.to_thread(
                tried, client, known_attack["input"]
            ):
                assert status in (200, 400, 401, 403, 404, 409), (attack, where, status, answer)
                assert SECRET not in answer, (attack, where)
        assert tables(name).keys() == before.keys()
        theirs = await site.client("other")
        status, found = await asyncio.to_thread(theirs.call, "list_processes")
        assert [process["pid"] for process in found["processes"]] == ["theirs"]
        # What may be a name is one, whatever it looks like.
        await asyncio.to_thread(client.call, "submit", pid="' OR '1'='1")
        status, found = await asyncio.to_thread(client.call, "get_process", pid="' OR '1'='1")
        assert (status, found["pid"]) == (200, "' OR '1'='1")


# The web.

ATTACKS: dict[str, Callable[[Site], Awaitable[None]]] = {}


def attack(name: str) -> Callable[[Callable[[Site], Awaitable[None]]], Any]:
    def keep(carry_out: Callable[[Site], Awaitable[None]]) -> Callable[[Site], Awaitable[None]]:
        ATTACKS[name] = carry_out
        return carry_out

    return keep


def raw(port: int, text: str, lines: int = 60) -> str:
    """Send bytes as they are; return the head of what comes back."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as wire:
        wire.sendall(text.encode("latin-1"))
        wire.shutdown(socket.SHUT_WR)
        with wire.makefile("rb") as answer:
            return b"".join(answer.readline() for _ in range(lines)).decode("latin-1")


async def answered(site: Site, client: Client, method: str, path: str, **sent: str) -> Any:
    def ask() -> http.client.HTTPResponse:
        body = {} if method == "POST" else None
        with client.opened(method, path, body, **sent) as response:
            response.read()
            return response

    return await asyncio.to_thread(ask)


def check_plain(response: http.client.HTTPResponse) -> None:
    """No browser takes it for a page, keeps anything of it, or shows it to another site."""
    assert response.headers["Content-Type"] in ("application/json", "text/event-stream")
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Set-Cookie"] is None
    assert not [name for name in response.headers if name.lower().startswith("access-control")]


@attack("web-001")
@attack("web-002")
@attack("web-010")
async def script_in_a_name(site: Site) -> None:
    client = await site.client()
    for number, text in enumerate(
        ("<img src=x onerror=fetch(1)>", "[x](javascript:alert(1))", "</script><script>")
    ):
        reply = await asyncio.to_thread(client.call, "submit", pid=f"{number}", request=text)
        assert reply[1]["request"] == text
    check_plain(await answered(site, client, "POST", "/v1/list_processes"))
    check_plain(await answered(site, client, "POST", "/v1/watch_events"))


@attack("web-003")
async def another_site_posts(site: Site) -> None:
    """A browser sends what is no JSON without asking; for JSON it asks, and is told nothing."""
    client = await site.client()
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        sent = {"Content_Type": kind, "Origin": "http://evil.example"}
        response = await answered(site, client, "POST", "/v1/submit", **sent)
        assert response.status == 400
        check_plain(response)
    asks = {"Origin": "http://evil.example", "Access_Control_Request_Method": "POST"}
    response = await answered(site, Client(site.port), "OPTIONS", "/v1/submit", **asks)
    assert response.status in (401, 404)
    check_plain(response)


@attack("web-004")
async def a_websocket(site: Site) -> None:
    head = (
        "GET /v1/watch_events HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Origin: http://evil.example\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
        "Sec-WebSocket-Version: 13\r\n\r\n"
    )
    answer = await asyncio.to_thread(raw, site.port, head)
    assert not answer.startswith("HTTP/1.1 101")
    assert not answer.startswith("HTTP/1.1 2")


@attack("web-005")
async def a_name_that_is_bound_to_us(site: Site) -> None:
    """The page of another name has no token, and a browser has none to add."""
    for name in ("list_processes", "submit", "watch_events"):
        response = await answered(
            site, Client(site.port), "POST", f"/v1/{name}", Host="evil.example", Cookie="a=b"
        )
        assert response.status == 401
        check_plain(response)


@attack("web-006")
async def a_path_that_leads_out(site: Site) -> None:
    client = await site.client()
    for path in ("/v1/../../etc/passwd", "/v1/%2e%2e%2f", "/v1/list_processes/../x", "//v1/submit"):
        head = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {client.token}\r\n\r\n"
        answer = await asyncio.to_thread(raw, site.port, head)
        assert answer.startswith(("HTTP/1.1 404", "HTTP/1.1 400")), (path, answer[:80])


@attack("web-007")
async def what_is_anothers(site: Site) -> None:
    client = await site.client()
    status, reply = await asyncio.to_thread(client.call, "get_process", pid="theirs")
    assert (status, SECRET in str(reply)) == (404, False)


@attack("web-008")
async def a_reader_that_does_not_read(site: Site) -> None:
    """Carried out below, on a server of its own whose memory is looked at."""


@attack("web-009")
@attack("web-011")
@attack("web-012")
async def no_page_no_table_no_cookie(site: Site) -> None:
    """There is nothing to open in a sheet, to frame, or to fix a session in."""
    client = await site.client()
    for name, row in KERNEL_OPERATIONS.items():
        if row.shape is not ReplyShape.STREAM:
            response = await answered(
                site, client, "POST", f"/v1/{name}", Accept="text/csv, text/html"
            )
            check_plain(response)
    for path in ("/", "/openapi.json", "/health", "/index.html"):
        check_plain(await answered(site, client, "GET", path))


@pytest.mark.parametrize("name", WEB)
async def test_the_web_gets_nothing(name: str) -> None:
    async with a_site() as site:
        await ATTACKS[name](site)


def test_every_known_attack_is_carried_out() -> None:
    assert {*ATTACKS} == {*WEB}


def memory_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


async def test_readers_that_do_not_read_take_no_memory(tmp_path: Path) -> None:
    """web-008: fifty streams of 30 MB each, of which nobody takes more than the first piece."""
    store, clock = open_tenants(str(tmp_path / "kernel.db")), SteadyClock()
    told = b'{"kind":"process_created","pid":"p","detail":{"text":"' + b"x" * 3_000 + b'"}}'
    for _ in range(10):
        await store.transact(
            TenantId("acme"),
            lambda records: [records.emit(told, clock.now()) for _ in range(1_000)],
        )
    token = await Tokens(store, clock).create("acme", "ann", TokenRole.VIEWER)
    await store.aclose()
    port = free_port()
    words = [sys.executable, "-m", "tests.kernel.web", str(tmp_path / "kernel.db"), str(port)]
    await asyncio.to_thread(_flooded, words, Client(port, token))


def _flooded(words: list[str], client: Client) -> None:
    with subprocess.Popen(words) as server:
        try:
            _flood(client, server.pid)
        finally:
            server.kill()


def _flood(client: Client, pid: int) -> None:
    wait_until(client.is_served)
    client.events(1)
    before = memory_mb(pid)
    head = (
        "POST /v1/watch_events HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {client.token}\r\nContent-Length: 2\r\n\r\n{{}}"
    )
    wires: list[socket.socket] = []
    try:
        for _ in range(50):
            wire = socket.socket()
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            wire.connect(("127.0.0.1", client.port))
            wire.sendall(head.encode())
            assert wire.recv(12) == b"HTTP/1.1 200"
            wires.append(wire)
        # One who reads is served beside them, all of it.
        assert len(client.events(10_000)) == 10_000
        assert memory_mb(pid) - before < 150
    finally:
        for wire in wires:
            wire.close()
