"""The server program: one kernel on one store, behind the doors that it opens.

    signal ──▶ stop admitting ──▶ streams end, calls finish within the deadline ──▶ exit 0
    a second signal ──▶ exit at once

A door is a row of `DOORS`: it listens, serves until the server stops, and lets its calls finish.
What time brings about is swept once for all doors. Nothing is lost when a server is killed instead:
what it had not written was not told to anybody, and another server goes on with the store.
"""

import asyncio
import logging
import math
import os
import signal
import ssl
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct

from vegakit.concurrency import SteadyClock, cancel_all
from vegakit.errors import UserError
from vegakit.kernel import Kernel
from vegakit.ports import AgentRunner
from vegakit.server.asgi import is_loopback, listen
from vegakit.server.kernel_app import KernelApp
from vegakit.server.tokens import Identity, Tokens
from vegakit.store import open_bus, open_tenants

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vegakit.server.grpc_door import GrpcTls

_LOG = logging.getLogger("vegakit")

_MOST_CONNECTIONS = 2_000
_HEAD_S = 20.0
"""The head of a request must be there within this."""
_MARGIN_S = 2.0
"""A door that drains has so much longer than its calls, to close what they leave behind."""
_IN_MEMORY = ":memory:"


class TlsFiles(Struct, frozen=True):
    """The certificate of a server and its key, in PEM. With `client_ca`, only clients with a
    certificate of that authority are let in; who they are is still said by their token."""

    certificate: str
    key: str
    client_ca: str = ""


class ServerPlan(Struct, frozen=True):
    """Says what a server serves: which store, where each door listens by its port, and how long
    calls may take when it ends. `is_plain` is the user's word that others may reach it without
    TLS; `bus` is the Redis that several servers share, if they do."""

    store: str
    host: str
    ports: Mapping[str, int]
    drain_ms: int
    tls: TlsFiles | None = None
    is_plain: bool = False
    bus: str = _IN_MEMORY


class ServedKernel(NamedTuple):
    """A door serves this, and stops admitting when `stopping` is set."""

    kernel: Kernel
    authenticate: Callable[[str], Awaitable[Identity | None]]
    plan: ServerPlan
    stopping: asyncio.Event


class OpenedServer(NamedTuple):
    """A server that listens: the address of each door, and whether anybody has a token yet."""

    urls: Mapping[str, str]
    has_tokens: bool


class Door(NamedTuple):
    """A way in. `serve` calls its last argument with the address once it listens, and returns when
    the server has stopped and its calls are over; `package` and `extra` are what it needs."""

    serve: Callable[[ServedKernel, Callable[[str], None]], Awaitable[None]]
    package: str
    extra: str
    port: str
    """The setting of its port, which is its flag as well."""


async def serve_http(served: ServedKernel, on_open: Callable[[str], None]) -> None:
    """Serve the kernel over HTTP until the server stops."""
    import uvicorn

    class HttpServer(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Generator[None]:
            yield  # signals are for the whole server, not for this door

    plan = served.plan
    app: Any = KernelApp(served.kernel, served.authenticate)
    config = uvicorn.Config(
        app,
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        http=_bounded_connection(),
        lifespan="off",  # time is swept once for all doors
        ws="none",
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_graceful_shutdown=max(1, math.ceil(plan.drain_ms / 1_000)),
    )
    config.load()
    config.ssl = _server_context(plan.tls) if plan.tls else None
    web = HttpServer(config)
    with listen(plan.host, plan.ports["http"]) as listening:
        serving = asyncio.ensure_future(web.serve(sockets=[listening]))
        stopping = asyncio.ensure_future(served.stopping.wait())
        try:
            on_open(_url("https" if plan.tls else "http", plan.host, listening.getsockname()[1]))
            await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            web.should_exit = True
            await serving


async def serve_over_grpc(served: ServedKernel, on_open: Callable[[str], None]) -> None:
    """Serve the kernel over gRPC until the server stops."""
    from vegakit.server.grpc_door import serve_grpc

    plan = served.plan
    tls = _grpc_tls(plan.tls) if plan.tls else None
    address = _url("grpc", plan.host, plan.ports["grpc"]).removeprefix("grpc://")
    # Time is swept once for all doors.
    door = await serve_grpc(served.kernel, served.authenticate, address, tls=tls, sweep=False)
    try:
        on_open(_url("grpcs" if tls else "grpc", plan.host, door.port))
        await served.stopping.wait()
    finally:
        await door.stop(plan.drain_ms / 1_000)


def _grpc_tls(files: TlsFiles) -> "GrpcTls":
    from vegakit.server.grpc_door import GrpcTls

    authority = Path(files.client_ca).read_bytes() if files.client_ca else None
    return GrpcTls(Path(files.certificate).read_bytes(), Path(files.key).read_bytes(), authority)


def _bounded_connection() -> Any:  # noqa: ANN401  (a class of uvicorn's)
    """Return connections with a bounded time for the head of each request, bounded in number."""
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    loop, most = asyncio.get_running_loop(), _most_connections()

    class HttpConnection(HttpToolsProtocol):
        """Has a bounded time for its next request's head, and a place among a bounded number."""

        head: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:  # noqa: ANN401  (of asyncio)
            super().connection_made(transport)
            if len(self.connections) > most:
                transport.abort()
            else:
                self._expect()

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._expect()

        def on_headers_complete(self) -> None:
            if self.head is not None:
                self.head.cancel()
            super().on_headers_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            if self.head is not None:
                self.head.cancel()
            super().connection_lost(exc)

        def _expect(self) -> None:
            if self.head is not None:
                self.head.cancel()
            self.head = loop.call_later(_HEAD_S, self.transport.close)

    return HttpConnection


def _most_connections() -> int:
    """Leave descriptors for the store and the rest of the process."""
    import resource

    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(16, min(_MOST_CONNECTIONS, allowed // 2))


DOORS = {
    "http": Door(serve_http, "uvicorn", "server", "port"),
    "grpc": Door(serve_over_grpc, "grpc", "grpc", "grpc_port"),
}


def check_plan(plan: ServerPlan) -> None:
    """Refuse what cannot be served, or not safely, before anything is opened."""
    for name in plan.ports:
        _check_installed(DOORS[name])
    if plan.store == _IN_MEMORY:
        raise UserError(
            "a store in memory is gone with its server, and nobody could make a token for it; "
            "name a file, as in: vega serve --store kernel.db"
        )
    if plan.tls is not None:
        _server_context(plan.tls)
    elif not is_loopback(plan.host) and not plan.is_plain:
        raise UserError(
            f"{plan.host} is reached from other machines, and without TLS anybody on the way reads "
            "the tokens; name a certificate: --certificate FILE --key FILE; behind a proxy that "
            "speaks TLS, add --no-tls; to serve this machine only, type: vega serve "
            "--host 127.0.0.1"
        )


def _check_installed(door: Door) -> None:
    try:
        import_module(door.package)
    except ImportError as error:
        raise UserError(
            f"a server needs the {door.package} package ({error}); type: "
            f"pip install 'vegakit[{door.extra}]'"
        ) from None


def _server_context(files: TlsFiles) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["http/1.1"])
    at = files.certificate
    try:
        # With a password of ours, OpenSSL does not ask at the terminal for that of the key.
        context.load_cert_chain(files.certificate, files.key, password="")
        if at := files.client_ca:
            context.load_verify_locations(files.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except OSError as error:  # that of a wrong certificate is one, too
        named = at if at == files.client_ca else f"{at} with the key {files.key}"
        raise UserError(
            f"{named} cannot be used: {error.strerror or error}; name files in PEM, the key without"
            " a password"
        ) from None
    return context


def _url(scheme: str, host: str, port: int) -> str:
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


async def run_server(
    plan: ServerPlan,
    on_open: Callable[[OpenedServer], None],
    on_stop: Callable[[], None] = lambda: None,
    agents: AgentRunner | None = None,
) -> None:
    """Serve until a signal comes or a door fails; then let calls finish. `on_open` is called when
    every door listens, `on_stop` when the server begins to end. With `agents` it runs pipelines."""
    check_plan(plan)
    clock = SteadyClock()
    store, bus = open_tenants(plan.store), open_bus(plan.bus, clock)
    try:
        tokens = Tokens(store, clock)
        has_tokens = bool(await tokens.list())  # a store that cannot be used is told before all
        kernel = Kernel(store, clock, agents, bus=bus)
        served = ServedKernel(kernel, tokens.authenticate, plan, _stop_by_signal())

        def opened(urls: Mapping[str, str]) -> None:
            _LOG.info("serving the kernel at %s", ", ".join(urls.values()))
            on_open(OpenedServer(urls, has_tokens))

        sweeping = asyncio.ensure_future(kernel.keep_sweeping())
        try:
            await _serve_doors(served, opened, on_stop)
            await kernel.executions.finish(plan.drain_ms / 1_000)
        finally:
            await cancel_all([sweeping])
    finally:
        await bus.aclose()
        await store.aclose()
    _LOG.info("the server has ended")


async def _serve_doors(
    served: ServedKernel,
    on_open: Callable[[Mapping[str, str]], None],
    on_stop: Callable[[], None],
) -> None:
    urls: dict[str, str] = {}
    all_open = asyncio.Event()

    def opened(name: str, url: str) -> None:
        urls[name] = url
        if len(urls) == len(served.plan.ports):
            all_open.set()

    doors = [
        asyncio.ensure_future(DOORS[name].serve(served, lambda url, name=name: opened(name, url)))
        for name in served.plan.ports
    ]
    if await _first(all_open, doors):
        on_open(urls)
        await _first(served.stopping, doors)
    on_stop()
    _LOG.info("the server ends: calls have %d ms to finish", served.plan.drain_ms)
    served.stopping.set()
    served.kernel.drain()
    await asyncio.wait(doors, timeout=served.plan.drain_ms / 1_000 + _MARGIN_S)
    failed = [door for door in doors if door.done() and door.exception()]
    await cancel_all(doors)
    for door in failed:
        door.result()


async def _first(event: asyncio.Event, doors: Sequence["asyncio.Future[None]"]) -> bool:
    """Wait for the event or the end of a door; return whether it was the event."""
    waiting = asyncio.ensure_future(event.wait())
    await asyncio.wait({waiting, *doors}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    return event.is_set()


def _stop_by_signal() -> asyncio.Event:
    """Return an event that the first signal sets; the second one ends the process at once."""
    asked, loop = asyncio.Event(), asyncio.get_running_loop()

    def on_signal(number: int) -> None:
        if asked.is_set():
            os._exit(128 + number)
        asked.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    return asked
