"""The kernel served over a real socket, and a client that shares no code with it.

python -m tests.kernel.web STORE PORT [LATENCY_MS LEASE_MS [BUS]]     a server that can be killed
"""

import asyncio
import http.client
import json
import random
import socket
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import uvicorn

from tests.patience import PATIENCE_S, until
from vegakit import Runtime
from vegakit.concurrency import SteadyClock
from vegakit.kernel import Kernel
from vegakit.server import HttpLimits, KernelApp, RuntimeAgents, Tokens
from vegakit.store import open_bus, open_tenants
from vegakit.testing import ScriptedModel

__all__ = ["Client", "free_port", "running_agents", "served"]


class Client:
    """Speaks HTTP by the standard library; blocking, for use in threads."""

    def __init__(self, port: int, token: str = "") -> None:
        self.port, self.token = port, token

    def request(
        self, method: str, path: str, body: object = None, **headers: str
    ) -> tuple[int, Any]:
        """Return status and JSON."""
        with self.opened(method, path, body, **headers) as response:
            return response.status, json.loads(response.read())

    def call(self, name: str, /, **fields: object) -> tuple[int, Any]:
        return self.request("POST", f"/v1/{name}", fields)

    @contextmanager
    def opened(
        self, method: str, path: str, body: object = None, **headers: str
    ) -> Generator[http.client.HTTPResponse]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        sent = {"Content-Type": "application/json"} if body is not None else {}
        if self.token:
            sent["Authorization"] = f"Bearer {self.token}"
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
            connection.request(method, path, data, sent)
            yield connection.getresponse()
        finally:
            connection.close()

    def events(
        self, most: int, after: str = "", operation: str = "watch_events", **fields: object
    ) -> list[tuple[int, Any]]:
        """Return numbers and data of up to so many items of a stream."""
        found: list[tuple[int, Any]] = []
        headers = {"Last_Event_ID": after} if after else {}
        with self.opened("POST", f"/v1/{operation}", fields, **headers) as response:
            assert response.status == 200, response.read()
            number = 0
            while len(found) < most and (line := response.readline()):
                if line.startswith(b"id: "):
                    number = int(line[4:])
                elif line.startswith(b"data: "):
                    found.append((number, json.loads(line[6:])))
        return found

    def is_served(self) -> bool:
        """Whether a server answers there."""
        try:
            return self.request("GET", "/health")[0] == 200
        except (OSError, http.client.HTTPException):
            return False


def free_port() -> int:
    """A port that stays free while its server is killed and started again. The system gives those
    from 32,768 on to whoever connects; one who connects to such a port while nobody listens there
    may even be given that port, and talk to itself."""
    while True:
        port = random.randrange(15_000, 32_000)
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port


def server(
    kernel: Kernel, port: int, limits: HttpLimits | None = None, **options: Any
) -> uvicorn.Server:
    authenticate = Tokens(kernel.store, kernel.clock).authenticate
    app: Any = KernelApp(kernel, authenticate, limits, **options)
    config = uvicorn.Config(app, port=port, log_level="critical", timeout_graceful_shutdown=1)
    return uvicorn.Server(config)


@asynccontextmanager
async def served(
    kernel: Kernel, limits: HttpLimits | None = None, **options: Any
) -> AsyncGenerator[int]:
    """Yield the port."""
    port = free_port()
    web = server(kernel, port, limits, **options)
    serving = asyncio.ensure_future(web.serve())
    await until(lambda: web.started or serving.done())
    assert not serving.done()
    try:
        yield port
    finally:
        web.should_exit = True
        await serving


@asynccontextmanager
async def running_agents(latency_ms: int = 0) -> AsyncGenerator[RuntimeAgents]:
    """Agents whose model `fast` says the same to everybody, after a while."""
    model = ScriptedModel(lambda _: "done", latency_ms=latency_ms, clock=SteadyClock())
    async with Runtime("$5", models=lambda _: model, observable=False) as rt:
        yield RuntimeAgents(rt, models=["fast"])


async def main(
    store: str, port: int, latency_ms: int = 0, lease_ms: int = 15_000, bus: str = ":memory:"
) -> None:
    async with running_agents(latency_ms) as agents:
        clock = SteadyClock()
        kernel = Kernel(open_tenants(store), clock, agents, bus=open_bus(bus, clock))
        kernel.executions.lease_ms = lease_ms
        await server(kernel, port).serve()


if __name__ == "__main__":
    given: list[Any] = [*map(int, sys.argv[2:5]), *sys.argv[5:]]
    asyncio.run(main(sys.argv[1], *given))
