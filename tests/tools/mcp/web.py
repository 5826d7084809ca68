"""A server of the official package over streamable HTTP, on loopback; and raw HTTP answers."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import uvicorn
from mcp.server.mcpserver import Context, MCPServer

from tests.patience import until
from vegakit.child_process import Children
from vegakit.concurrency import SteadyClock
from vegakit.tools import McpPins, McpServers


def sums() -> MCPServer:
    server = MCPServer("sums")

    @server.tool()
    def add(a: int, b: int) -> int:
        """Adds two numbers."""
        return a + b

    @server.tool()
    async def who(ctx: Context) -> str:
        """What the client sent along."""
        headers = dict(ctx.headers or {})
        return repr({name: headers.get(name) for name in ("authorization", "mcp-session-id")})

    @server.tool()
    async def wait() -> str:
        """Never comes back."""
        await asyncio.Event().wait()
        return ""

    return server


@asynccontextmanager
async def on_loopback(server: MCPServer, port: int = 0) -> AsyncGenerator[int]:
    """The port."""
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        config = uvicorn.Config(
            server.streamable_http_app(), log_level="critical", timeout_graceful_shutdown=1
        )
        web = uvicorn.Server(config)
        serving = asyncio.ensure_future(web.serve(sockets=[listening]))
        await until(lambda: web.started)
        try:
            yield listening.getsockname()[1]
        finally:
            web.should_exit = True
            await serving


@asynccontextmanager
async def answering(
    head: bytes, part: bytes = b"", times: int = 0, asked: list[bytes] | None = None
) -> AsyncGenerator[int]:
    """The port of something that answers whatever it is asked with these bytes, and notes the
    first line of it."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            said = await reader.readuntil(b"\r\n\r\n")
            if asked is not None:
                asked.append(said.partition(b"\r\n")[0])
            writer.write(head)
            for _ in range(times):
                writer.write(part)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@asynccontextmanager
async def hosted(folder: Path, owner: Callable[[], str] = lambda: "") -> AsyncGenerator[McpServers]:
    clock = SteadyClock()
    async with aclosing(Children(clock)) as children:
        servers = McpServers(children, clock, McpPins(folder / "pins.json"), owner=owner)
        async with aclosing(servers):
            yield servers
