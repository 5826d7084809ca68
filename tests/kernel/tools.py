"""The kernel served over MCP, and the official client of it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.kernel.web import running_agents, served
from tests.patience import PATIENCE_S
from vegakit.concurrency import SteadyClock
from vegakit.kernel import Kernel
from vegakit.server import HttpLimits, TokenRole, Tokens
from vegakit.server.asgi import STATUS
from vegakit.store import open_tenants

__all__ = ["ToolClient", "ToolSite", "a_tool_site", "client_of"]

STATUSES = {code.value: status for code, status in STATUS.items()}


@asynccontextmanager
async def client_of(
    port: int, token: str, headers: dict[str, str] | None = None, **options: Any
) -> AsyncGenerator[Client]:
    sent = {"Authorization": f"Bearer {token}", **(headers or {})}
    async with httpx2.AsyncClient(headers=sent, timeout=PATIENCE_S) as http:
        transport = streamable_http_client(f"http://127.0.0.1:{port}/mcp", http_client=http)
        async with Client(transport, **options) as client:
            yield client


class ToolClient:
    """Answers as the client of the HTTP door does. `call` blocks, for use in threads."""

    def __init__(self, client: Client) -> None:
        self.client, self._loop = client, asyncio.get_running_loop()

    async def ask(self, name: str, /, **fields: Any) -> tuple[int, Any]:
        """Return the status that HTTP would have, and JSON."""
        result = await self.client.call_tool(name, fields)
        page: Any = result.structured_content
        if not result.is_error:
            return 200, page
        # A model that gave no answer is a reply of the kernel, with what it used.
        return 200 if "failure" in page else STATUSES[page["error"]["code"]], page

    def call(self, name: str, /, **fields: Any) -> tuple[int, Any]:
        asked = asyncio.run_coroutine_threadsafe(self.ask(name, **fields), self._loop)
        return asked.result(PATIENCE_S)

    def events(
        self, most: int, after: str = "", operation: str = "watch_events", **fields: Any
    ) -> list[tuple[int, Any]]:
        """Return numbers and data of up to so many items of a stream, page by page."""
        found: list[tuple[int, Any]] = []
        is_over = False
        while not is_over and len(found) < most:
            status, page = self.call(operation, after=int(after or 0), **fields)
            assert status == 200, page
            found += [(item["number"], item) for item in page["items"]]
            is_over = page["ended"]
            after = str(found[-1][0]) if found else after
        return found[:most]


class ToolSite:
    """A server, and clients of it by role."""

    def __init__(self, port: int, kernel: Kernel, stack: AsyncExitStack) -> None:
        self.port, self.kernel, self._stack = port, kernel, stack
        self.tokens = Tokens(kernel.store, kernel.clock)

    async def client(
        self, role: TokenRole = TokenRole.OPERATOR, tenant: str = "acme", **options: Any
    ) -> ToolClient:
        token = await self.tokens.create(tenant, f"a {role}", role)
        opened = client_of(self.port, token, **options)
        return ToolClient(await self._stack.enter_async_context(opened))


@asynccontextmanager
async def a_tool_site(
    limits: HttpLimits | None = None, latency_ms: int = 0
) -> AsyncGenerator[ToolSite]:
    async with running_agents(latency_ms) as agents:
        kernel = Kernel(open_tenants(":memory:"), SteadyClock(), agents)
        async with served(kernel, limits, serves=["mcp"]) as port, AsyncExitStack() as stack:
            yield ToolSite(port, kernel, stack)
