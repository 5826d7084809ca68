"""The server over HTTP: on loopback, with a token, for requests that mean it."""

import asyncio
import stat
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.mcp_server.stage import ASK, Caller, Gated, Stage, staged
from tests.patience import until
from vegakit.errors import UserError
from vegakit.server import address_of, read_or_create_token, serve_http

TOKEN = "a-token-of-at-least-twenty-letters"
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
ACCEPT = {"Accept": "application/json, text/event-stream"}


@asynccontextmanager
async def over_http(
    stage: Stage, host: str = "127.0.0.1", name: str = "", **bounds: Any
) -> AsyncGenerator[str]:
    """The URL."""
    urls: list[str] = []
    address = address_of(f"{host}:0", name)
    serving = asyncio.ensure_future(
        serve_http(stage.operations, address, TOKEN, urls.append, **bounds)
    )
    await until(lambda: urls or serving.done())
    try:
        yield urls[0]
    finally:
        serving.cancel()
        await asyncio.wait({serving})


@asynccontextmanager
async def client_of(url: str, token: str = TOKEN) -> AsyncGenerator[Caller]:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield Caller(client)


async def test_every_tool_answers_over_http(tmp_path: Path) -> None:
    """To an official client that brings the token."""
    async with staged(tmp_path) as stage, over_http(stage) as url, client_of(url) as call:
        assert (await call("check", source=ASK)).text == "in order"
        assert (await call("cost", path="ask.vega")).page["left"] == "$1.00"
        assert (await call("explain", path="ask.vega")).page["not_granted"] == []
        assert (await call("run", path="ask.vega")).page["printed"] == "an answer\n"
        assert (await call("ps")).page["processes"] == []
        assert (await call("kill", id="run-1")).refused
        assert (await call("card")).text.startswith("# Vega")
        assert (await call("run", path="../elsewhere/a.vega")).refused


async def test_two_clients_share_one_server(tmp_path: Path) -> None:
    """One sees what the other runs, and the money that it holds."""
    model = Gated(is_open=False)
    async with (
        staged(tmp_path, model) as stage,
        over_http(stage) as url,
        client_of(url) as one,
        client_of(url) as other,
    ):
        running = asyncio.ensure_future(one("run", source=ASK))
        await until(lambda: model.requests)
        seen = await other("ps")
        assert "run-1" in [row["id"] for row in seen.page["processes"]]
        assert seen.page["left"] != "$1.00"
        model.gate.set()
        assert (await running).page["printed"] == "an answer\n"


async def asked_with(url: str, **headers: str) -> tuple[int, str]:
    async with httpx2.AsyncClient() as http:
        said = await http.post(url, json=PING, headers={**ACCEPT, **headers})
        return said.status_code, said.text


@pytest.mark.parametrize(
    ("token", "more", "status"),
    [
        ("", {}, 401),
        ("Bearer wrong", {}, 401),
        ("Bearer", {}, 401),
        (f"Basic {TOKEN}", {}, 401),
        (f"Bearer {TOKEN}x", {}, 401),
        (f"Bearer {TOKEN}", {"Host": "evil.example.com"}, 421),
        (f"Bearer {TOKEN}", {"Host": "127.0.0.1:1"}, 421),
        (f"Bearer {TOKEN}", {"Host": "127.0.0.1.evil.example.com:80"}, 421),
        (f"Bearer {TOKEN}", {"Origin": "https://evil.example.com"}, 403),
        (f"Bearer {TOKEN}", {"Origin": "null"}, 403),
    ],
)
async def test_a_request_that_does_not_mean_us_is_refused(
    tmp_path: Path, token: str, more: dict[str, str], status: int
) -> None:
    """Without the token, by another name, or from a web page."""
    headers = {"Authorization": token} if token else {}
    async with staged(tmp_path) as stage, over_http(stage) as url:
        came, text = await asked_with(url, **headers, **more)
        assert came == status
        assert status != 401 or "Authorization: Bearer TOKEN" in text


async def test_the_same_request_passes_if_it_means_us(tmp_path: Path) -> None:
    """So that the refusals above are for their reasons."""
    async with staged(tmp_path) as stage, over_http(stage) as url:
        origin = url.removesuffix("/mcp")
        came, _ = await asked_with(url, Authorization=f"Bearer {TOKEN}", Origin=origin)
        assert came not in {401, 403, 421}


@pytest.mark.parametrize(
    "text", ["0.0.0.0:80", "192.0.2.1:80", "[::]:80", "example.com:80", "127.0.0.1.example.com:80"]
)
def test_beyond_loopback_it_wants_a_name(text: str) -> None:
    """And says what to type."""
    with pytest.raises(UserError, match=r"127\.0\.0\.1:80; to serve others.*--remote"):
        address_of(text)
    assert address_of(text, "vega.example.com").name == "vega.example.com"


@pytest.mark.parametrize("text", ["8765", "127.0.0.1", ":8765", "127.0.0.1:x", "127.0.0.1:70000"])
def test_what_is_no_address_is_said(text: str) -> None:
    """With one that is."""
    with pytest.raises(UserError, match=r"--http 127\.0\.0\.1:8765"):
        address_of(text)


def test_a_token_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    """And refused when others may read it, or when it is none."""
    path = tmp_path / "data/mcp.token"
    token = read_or_create_token(path)
    assert len(token) > 40
    assert read_or_create_token(path) == token
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    with pytest.raises(UserError, match="others may read the token"):
        read_or_create_token(path)
    path.chmod(0o600)
    path.write_text("short")
    with pytest.raises(UserError, match="holds no token"):
        read_or_create_token(path)


async def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    """Rather than a trace of the stack."""
    async with staged(tmp_path) as stage, over_http(stage) as url:
        taken = address_of(f"127.0.0.1:{urlsplit(url).port}")
        with pytest.raises(UserError, match="cannot be listened on"):
            await serve_http(stage.operations, taken, TOKEN, print)


OPENS = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "one of many", "version": "1"},
    },
}


class Many:
    """Clients that open sessions by hand, and some of which go away without a word."""

    def __init__(self, http: httpx2.AsyncClient, url: str) -> None:
        self._http, self._url = http, url

    async def opened(self) -> str:
        said = await self._http.post(self._url, json=OPENS)
        assert said.status_code == 200, said.text
        return said.headers["mcp-session-id"]

    async def pinged(self, session: str) -> int:
        headers = {"mcp-session-id": session, "mcp-protocol-version": "2025-06-18"}
        return (await self._http.post(self._url, json=PING, headers=headers)).status_code


@asynccontextmanager
async def many(url: str) -> AsyncGenerator[Many]:
    headers = {**ACCEPT, "Authorization": f"Bearer {TOKEN}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        yield Many(http, url)


async def test_a_new_client_always_finds_room(tmp_path: Path) -> None:
    """Beyond so many, the session that was idle longest ends, and no other."""
    async with (
        staged(tmp_path) as stage,
        over_http(stage, most_sessions=5) as url,
        many(url) as clients,
    ):
        first, second, third, *_ = [await clients.opened() for _ in range(5)]
        assert await clients.pinged(first) == 200
        await clients.opened()
        assert await clients.pinged(second) == 404
        assert await clients.pinged(third) == 200
        at_once = await asyncio.gather(*(clients.opened() for _ in range(4)))
        assert [await clients.pinged(one) for one in at_once] == [200] * 4
        for _ in range(20):
            await clients.opened()
        assert [await clients.pinged(one) for one in (first, third, *at_once)] == [404] * 6


async def test_a_session_in_use_is_not_ended_for_another(tmp_path: Path) -> None:
    """However many come: its client waits for an answer."""
    model = Gated(is_open=False)
    async with (
        staged(tmp_path, model) as stage,
        over_http(stage, most_sessions=5) as url,
        client_of(url) as call,
        many(url) as clients,
    ):
        running = asyncio.ensure_future(call("run", source=ASK))
        await until(lambda: model.requests)
        for _ in range(12):
            await clients.opened()
        model.gate.set()
        assert (await running).page["printed"] == "an answer\n"


async def test_a_session_that_is_idle_ends(tmp_path: Path) -> None:
    """Its client is told that it is not there any more."""
    async with staged(tmp_path) as stage, over_http(stage, idle_s=0.2) as url, many(url) as clients:
        await clients.opened()  # what lives as long as the server is there by now
        before = asyncio.all_tasks()
        left = await clients.opened()
        # A session has tasks of its own; to ask for it would be a use.
        assert not asyncio.all_tasks() <= before
        await until(lambda: asyncio.all_tasks() <= before)
        assert await clients.pinged(left) == 404
