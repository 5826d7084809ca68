"""The server program: one kernel on one store, behind the doors that it opens.

    signal ──▶ stop admitting ──▶ streams end, calls finish within the deadline ──▶ exit 0
    a second signal ──▶ exit at once

A door is a row of `DOORS`: it listens, serves until the server stops, and lets its calls finish.
What time brings about is swept once for all doors. Nothing is lost when a server is killed instead:
what it had not written was not told to anybody, and another server goes on with the store.
"""

import asyncio
import gc
import logging
import math
import os
import signal
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from vegakit.concurrency import SteadyClock, cancel_all, end_signals
from vegakit.errors import BusError, UserError
from vegakit.kernel import SERVERS, Kernel
from vegakit.ports import AgentRunner, Bus
from vegakit.server.asgi import http_server, is_loopback, listen
from vegakit.server.kernel_app import KernelApp
from vegakit.server.tokens import Identity, Tokens
from vegakit.store import open_bus, open_tenants, show_place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vegakit.server.code_sessions import CodeSessions
    from vegakit.server.grpc_door import GrpcTls

_LOG = logging.getLogger("vegakit")

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
    code: "CodeSessions | None" = None


class OpenedServer(NamedTuple):
    """A server that listens: the address of each door, and whether anybody has a token yet."""

    urls: Mapping[str, str]
    has_tokens: bool


class Door(NamedTuple):
    """A way in. `serve` calls its last argument with the address once it listens, and returns when
    the server has stopped and its calls are over; those with one `serve` share a listener."""

    serve: Callable[[ServedKernel, Callable[[str], None]], Awaitable[None]]
    port: str
    """The setting of its port, which is its flag as well."""
    extras: Mapping[str, str]
    """The packages it needs, by the extras that bring them."""
    path: str = ""


async def serve_over_http(served: ServedKernel, on_open: Callable[[str], None]) -> None:
    """Serve the kernel over HTTP until the server stops, as routes, as tools of MCP, or both."""
    plan = served.plan
    app = KernelApp(served.kernel, served.authenticate, serves=plan.ports, code=served.code)
    tls = _server_context(plan.tls) if plan.tls else None
    grace_s = max(1, math.ceil(plan.drain_ms / 1_000))
    port = next(plan.ports[name] for name in ("http", "mcp") if name in plan.ports)
    # Its life is not uvicorn's: time is swept once for all doors.
    with listen(plan.host, port, "--port PORT") as listening:
        async with app.open(), http_server(app, listening, grace_s=grace_s, tls=tls) as serving:
            stopping = asyncio.ensure_future(served.stopping.wait())
            try:
                on_open(_url("https" if tls else "http", plan.host, listening.getsockname()[1]))
                await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                stopping.cancel()


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


DOORS = {
    "http": Door(serve_over_http, "port", {"server": "uvicorn"}),
    "grpc": Door(serve_over_grpc, "grpc_port", {"grpc": "grpc"}),
    "mcp": Door(serve_over_http, "port", {"server": "uvicorn", "mcp": "mcp"}, "/mcp"),
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
    for package in door.extras.values():
        try:
            import_module(package)
        except ImportError as error:
            raise UserError(
                f"a server needs the {package} package ({error}); type: "
                f"pip install 'vegakit[{','.join(door.extras)}]'"
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
    code: "CodeSessions | None" = None,
) -> None:
    """Serve until a signal comes or a door fails; then let calls finish. `on_open` is called when
    every door listens, `on_stop` when the server begins to end. With `agents` it runs pipelines,
    with `code` the coding agent."""
    check_plan(plan)
    clock = SteadyClock()
    store, bus = open_tenants(plan.store), open_bus(plan.bus, clock)
    try:
        tokens = Tokens(store, clock)
        has_tokens = bool(await tokens.list())  # a store that cannot be used is told before all
        kernel = Kernel(store, clock, agents, bus=bus)
        served = ServedKernel(kernel, tokens.authenticate, plan, _stop_by_signal(), code)

        def opened(urls: Mapping[str, str]) -> None:
            gc.collect()
            gc.freeze()  # what lives as long as the server is not gone through again and again
            _LOG.info("serving the kernel at %s", ", ".join(urls.values()))
            on_open(OpenedServer(urls, has_tokens))

        sweeping = asyncio.ensure_future(kernel.keep_sweeping())
        # Beside the doors: one that is silent may take seconds, and all but the bus does without.
        probing = asyncio.ensure_future(_probe_bus(bus, plan.bus))
        try:
            await _serve_doors(served, opened, on_stop)
            await kernel.executions.finish(plan.drain_ms / 1_000)
        finally:
            await cancel_all([sweeping, probing])
    finally:
        await bus.aclose()
        await store.aclose()
    _LOG.info("the server has ended")


async def _probe_bus(bus: Bus, place: str) -> None:
    """Say that a bus does not answer, before someone who publishes is refused."""
    try:
        await bus.read(SERVERS, "probe", None)
    except BusError:
        _LOG.warning(
            "the bus at %s does not answer: publish and subscribe are refused until it does; start "
            "Redis there, or correct --bus",
            show_place(place),
        )


async def _serve_doors(
    served: ServedKernel,
    on_open: Callable[[Mapping[str, str]], None],
    on_stop: Callable[[], None],
) -> None:
    urls: dict[str, str] = {}
    all_open = asyncio.Event()
    listeners = [*dict.fromkeys(DOORS[name].serve for name in served.plan.ports)]

    def opened(serve: object, url: str) -> None:
        for name in served.plan.ports:
            if DOORS[name].serve is serve:
                urls[name] = f"{url}{DOORS[name].path}"
        if len(urls) == len(served.plan.ports):
            all_open.set()

    doors = [asyncio.ensure_future(serve(served, partial(opened, serve))) for serve in listeners]
    if await _first(all_open, doors):
        on_open(urls)
        await _first(served.stopping, doors)
    on_stop()
    _LOG.info("the server ends: calls have %d ms to finish", served.plan.drain_ms)
    served.stopping.set()
    served.kernel.drain()
    if served.code is not None:
        await served.code.aclose()
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
    """Return an event that the first signal sets; the second one ends the process at once, unless a
    terminal that closes sends it."""
    asked, loop = asyncio.Event(), asyncio.get_running_loop()

    def on_signal(number: int) -> None:
        if asked.is_set() and number != signal.SIGHUP:
            os._exit(128 + number)
        asked.set()

    for number in (signal.SIGINT, *end_signals()):
        loop.add_signal_handler(number, on_signal, number)
    return asked
