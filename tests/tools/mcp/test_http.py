"""A server that is reached over HTTP, at its own host and nowhere else."""

import asyncio
from pathlib import Path

import pytest

from tests.patience import until
from tests.tools.mcp.web import answering, hosted, on_loopback, sums
from vegakit.errors import CapabilityDenied, UserError, VegaError, WorldError
from vegakit.host import Agent
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime
from vegakit.tools import McpServer


def at(url: str, **more: object) -> McpServer:
    given: dict[str, object] = {"name": "sums", "url": url, "capabilities": ["net::post"], **more}
    return McpServer(**given)  # pyright: ignore[reportArgumentType]


async def refusal(folder: Path, server: McpServer) -> str:
    async with hosted(folder) as servers:
        with pytest.raises(VegaError) as refused:
            await servers.tools(server, accept=True)
    return str(refused.value)


async def test_an_agent_uses_a_server_over_http(tmp_path: Path) -> None:
    """Its own headers go along; nothing is left when the runtime ends."""
    model = ScriptedModel(
        [
            {"calls": [{"name": "sums__add", "arguments": {"a": 20, "b": 22}}]},
            {"calls": [{"name": "sums__who", "arguments": {}}]},
            "It is 42.",
        ]
    )
    async with on_loopback(sums()) as port:
        server = at(f"http://127.0.0.1:{port}/mcp", headers={"Authorization": "Bearer own"})
        async with Runtime(pins=tmp_path / "pins.json") as rt:
            tools = await rt.mcp.tools(server, accept=True)
            reply = await rt.ask(Agent("clerk", model=model, tools=tools), "20 + 22?")
        left = [task for task in asyncio.all_tasks() if "mcp/client" in repr(task.get_stack())]
    assert "42" in str(reply.messages.messages[2])
    assert "'authorization': 'Bearer own'" in str(reply.messages.messages[4])
    assert left == []


async def test_a_name_that_leads_to_this_machine_is_refused(tmp_path: Path) -> None:
    """Unless its address is named."""
    async with on_loopback(sums()) as port:
        url = f"http://localhost:{port}/mcp"
        assert "on this machine or its network" in await refusal(tmp_path, at(url))
        named = at(url, hosts=[f"127.0.0.1:{port}", f"[::1]:{port}"])
        async with hosted(tmp_path) as servers:
            assert len(await servers.tools(named, accept=True)) == 3


@pytest.mark.parametrize(
    "url", ["ftp://example.com/mcp", "https://a@b/mcp", "http://0x7f.1/mcp", "file:///etc/passwd"]
)
def test_a_url_that_is_none(url: str) -> None:
    """Told where it is written."""
    with pytest.raises(UserError):
        at(url)


async def test_a_redirect_to_elsewhere_is_not_followed(tmp_path: Path) -> None:
    """Neither to another host nor to another port of this one."""
    head = b"HTTP/1.1 307 x\r\nLocation: http://127.0.0.1:1/mcp\r\nContent-Length: 0\r\n\r\n"
    async with answering(head) as port:
        assert "not followed" in await refusal(tmp_path, at(f"http://127.0.0.1:{port}/mcp"))


async def test_an_answer_that_is_too_large_is_cut_off(tmp_path: Path) -> None:
    """Whatever length it says it has."""
    head = b"HTTP/1.1 200 x\r\nContent-Type: application/json\r\nContent-Length: 2000000000\r\n\r\n"
    async with answering(head, b"x" * 100_000, 20_000) as port:
        told = await refusal(tmp_path, at(f"http://127.0.0.1:{port}/mcp"))
    assert "more than 4,000,000 bytes" in told


async def test_an_answer_that_was_packed_is_refused(tmp_path: Path) -> None:
    """It could be a thousand times larger than it looks."""
    head = b"HTTP/1.1 200 x\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n\r\n"
    async with answering(head, b"\x1f\x8b", 1) as port:
        assert "packed its answer" in await refusal(tmp_path, at(f"http://127.0.0.1:{port}/mcp"))


async def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    """Told at once."""
    told = await refusal(tmp_path, at("http://127.0.0.1:1/mcp"))
    assert "did not start" in told


async def test_a_header_that_could_be_two_is_refused(tmp_path: Path) -> None:
    """As for every request of a tool."""
    server = at("http://127.0.0.1:1/mcp", headers={"X-A": "b\r\nX-C: d"})
    assert "is not one line" in await refusal(tmp_path, server)


async def test_a_server_that_was_started_anew_is_found_again(tmp_path: Path) -> None:
    """The first call after that fails, the next one opens a session of its own."""
    async with hosted(tmp_path) as servers:
        async with on_loopback(sums()) as port:
            server = at(f"http://127.0.0.1:{port}/mcp", only=["add"])
            (add,) = await servers.tools(server, accept=True)
            assert "3" in await add.call({"a": 1, "b": 2}, None)
        with pytest.raises(WorldError):
            await add.call({"a": 1, "b": 2}, None)
        async with on_loopback(sums(), port):
            assert "3" in await add.call({"a": 1, "b": 2}, None)


async def test_a_session_that_the_server_forgot(tmp_path: Path) -> None:
    """Without the connection being lost."""
    web = sums()
    async with hosted(tmp_path) as servers, on_loopback(web) as port:
        server = at(f"http://127.0.0.1:{port}/mcp", only=["add"])
        (add,) = await servers.tools(server, accept=True)
        web.session_manager._server_instances.clear()
        with pytest.raises(WorldError, match="knows nothing of this session"):
            await add.call({"a": 1, "b": 2}, None)
        assert "3" in await add.call({"a": 1, "b": 2}, None)


async def test_who_is_killed_takes_the_connection_along(tmp_path: Path) -> None:
    """A process that waits for a server: its tasks and sockets are gone."""
    model = ScriptedModel([{"calls": [{"name": "sums__wait", "arguments": {}}]}, "done"])
    async with on_loopback(sums()) as port:
        server = at(f"http://127.0.0.1:{port}/mcp")
        async with Runtime(pins=tmp_path / "pins.json") as rt:
            tools = await rt.mcp.tools(server, accept=True)
            process = rt.spawn(Agent("clerk", model=model, tools=tools))
            opened = rt.mcp._servers
            assert opened is not None
            sent = process.send("go")
            await until(lambda: ("sums", "clerk") in opened._open)
            connection = opened._open["sums", "clerk"]
            await process.kill()
            await until(lambda: connection._session is None or connection._session._task.done())
            with pytest.raises((CapabilityDenied, UserError)):
                await sent


async def test_what_a_server_says_steers_no_terminal(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Where the log of the library repeats it."""
    head = b"HTTP/1.1 200 x\r\nContent-Type: text/event-stream\r\n\r\n"
    async with answering(head, b"event: \x1b]0;owned\ndata: {}\n\n", 1) as port:
        assert "\x1b" not in await refusal(tmp_path, at(f"http://127.0.0.1:{port}/mcp"))
    assert "Unknown SSE event: \\x1b]0;owned" in caplog.text
