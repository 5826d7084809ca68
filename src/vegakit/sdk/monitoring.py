"""A runtime is watched from here while it is open: by a listener for Prometheus, and by log lines.

    scraper ── GET /metrics ──▶ MetricsServer ──▶ Runtime.metrics_text()

Neither may fail or slow what it watches: a port that is taken is a warning, a scraper that says
nothing is hung up on, and of many at once only a few are answered.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.metadata import version
from itertools import chain
from typing import Protocol

from vegakit.child_process import Children
from vegakit.control import Question
from vegakit.host import ActivityLog, Backlog, Gate, JournaledRun, ModelRegistry, current_process
from vegakit.money import NANOS
from vegakit.program import Program
from vegakit.telemetry import (
    METRICS_CONTENT_TYPE,
    LogFormatter,
    LogOutput,
    Metric,
    MetricSample,
    Redactor,
    metrics_text,
)

_LOG = logging.getLogger("vegakit")


class ObservedRuntime(Protocol):
    """The parts of a `Runtime` that are watched."""

    activity: ActivityLog
    model_registry: ModelRegistry
    gate: Gate
    children: Children
    backlog: Backlog
    journaled: JournaledRun | None

    def interrupts(self) -> list[Question]:
        """Return the questions that people have not answered."""
        ...

    def metrics_text(self) -> str:
        """Return all metrics as Prometheus reads them."""
        ...


class Observer(Protocol):
    """Watches a runtime from when it is entered until it closes."""

    async def open(self, runtime: ObservedRuntime) -> None:
        """Begin to watch; whatever goes wrong is a warning."""
        ...

    async def aclose(self) -> None:
        """Watch no more."""
        ...


# What a runtime is doing at this moment, beside what it has counted.


def runtime_metrics(runtime: ObservedRuntime, program: Program | None) -> str:
    """Return all metrics of a runtime and its processes as Prometheus reads them."""
    metrics = runtime.activity.count_metrics()
    gauges = _gauges(runtime, metrics.label)
    added = chain.from_iterable(source() for source in runtime.activity.metric_sources.values())
    return metrics_text([*metrics.collect(), *gauges, *_processes(program), *added])


def _gauges(rt: ObservedRuntime, label: Callable[[str, str], str]) -> Iterator[Metric]:
    yield Metric(
        "vega_info", "gauge", "The version of Vega.", [_one(1, version=version("vegakit"))]
    )
    gate: Gate | None = getattr(rt, "gate", None)  # there is none before the runtime is entered
    rows = [(label("model", one.name), one) for one in rt.model_registry.limiters()]
    for name, says, attribute in (
        ("waiting_calls", "Attempts at model calls that wait for their turn.", "waiting"),
        ("calls_in_flight", "Attempts at model calls that were let through.", "in_flight"),
        ("breaker_open", "Breakers that let no call through, or only probes.", "is_open"),
    ):
        values: Counter[str] = Counter()
        for model, limiter in rows:
            values[model] += int(getattr(limiter, attribute))
        samples = [_one(value, model=model) for model, value in values.items()]
        yield Metric(f"vega_{name}", "gauge", says, samples)
    yield Metric(
        "vega_reservations_usd",
        "gauge",
        "Dollars that are held for model calls in flight.",
        [_one(f"{(gate.reserved if gate else 0) / NANOS:.9f}")],
    )
    for name, says, value in (
        ("os_children", "Processes of the operating system that were started.", rt.children.all()),
        ("backlog_writes", "Writes that wait for a store which is away.", rt.backlog),
        ("open_questions", "Questions that wait for a person.", rt.interrupts()),
    ):
        yield Metric(f"vega_{name}", "gauge", says, [_one(len(value))])


def _processes(program: Program | None) -> Iterator[Metric]:
    """Counting a hundred thousand takes a few milliseconds, once a scrape and not at each call."""
    processes = {} if program is None else program.processes
    phases = Counter(str(process.phase) for process in processes.values())
    yield Metric(
        "vega_processes",
        "gauge",
        "Processes that have not ended, by phase; an ask is a process for as long as it takes.",
        [_one(phases[phase], phase=phase) for phase in ("up", "down", "stopping")],
    )


def _one(value: int | str, **labels: str) -> MetricSample:
    return "", labels, value


# A listener for one page. HTTP is spoken by hand: one request is read, one answer is written, and
# the connection is closed.


_MOST_AT_ONCE = 8
_ASK_WITHIN_S = 5.0
_MOST_HEAD = 8_192


class MetricsServer:
    """Serves the metrics of a runtime at `/metrics` of an address such as `127.0.0.1:9464`. Whoever
    reaches the address may read them: they hold counts and names, no content and no keys."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._address, self._host, self._port = address, host.strip("[]"), int(port)
        self._runtime: ObservedRuntime | None = None
        self._server: asyncio.Server | None = None
        self._answering: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """Return where the metrics are; empty if nothing listens."""
        if self._server is None:
            return ""
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/metrics"

    async def open(self, runtime: ObservedRuntime) -> None:
        """Listen, unless the address is taken."""
        self._runtime = runtime
        try:
            self._server = await asyncio.start_server(
                self._adopt, self._host, self._port, limit=_MOST_HEAD
            )
        except (OSError, OverflowError) as error:
            _LOG.warning(
                "metrics are not served at %s: %s; set telemetry.prometheus to another address",
                self._address,
                error,
            )

    async def aclose(self) -> None:
        """Close the port, and hang up on who is still being answered."""
        if self._server is None:
            return
        self._server.close()
        for answering in self._answering:
            answering.cancel()
        if self._answering:
            await asyncio.wait(self._answering)

    def _adopt(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._answering) >= _MOST_AT_ONCE:
            writer.close()
            return
        answering = asyncio.ensure_future(self._answer(reader, writer))
        self._answering.add(answering)
        answering.add_done_callback(self._answering.discard)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError, TimeoutError, EOFError, asyncio.LimitOverrunError):
                async with asyncio.timeout(_ASK_WITHIN_S):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(self._response(head))
                    await writer.drain()
        finally:
            writer.close()

    def _response(self, head: bytes) -> bytes:
        method, _, rest = head.decode("latin-1").partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        status, kind, text = "200 OK", METRICS_CONTENT_TYPE, ""
        if method not in {"GET", "HEAD"}:
            status, text = "405 Method Not Allowed", "metrics are only read: GET /metrics\n"
        elif path != "/metrics" or self._runtime is None:
            status, text = "404 Not Found", "metrics are at /metrics\n"
        else:
            text = self._runtime.metrics_text()
        body = text.encode()
        kind = kind if status == "200 OK" else "text/plain; charset=utf-8"
        lines = (
            f"HTTP/1.1 {status}",
            f"Content-Type: {kind}",
            f"Content-Length: {len(body)}",
            "Connection: close",
        )
        return "\r\n".join([*lines, "", ""]).encode() + (b"" if method == "HEAD" else body)


# Log lines know of their run and process.


class RuntimeLog:
    """The log lines of a runtime, with its run and the process whose code logs."""

    def __init__(self, redactor: Redactor, level: str, *, json: bool) -> None:
        self._run = ""
        self._output = LogOutput(LogFormatter(redactor, self._context, json=json), level)

    async def open(self, runtime: ObservedRuntime) -> None:
        """Write lines from now on."""
        self._run = str(runtime.journaled.run.program) if runtime.journaled else ""
        self._output.open()

    async def aclose(self) -> None:
        """Write no more."""
        self._output.close()

    def _context(self) -> dict[str, str]:
        return {"run": self._run, "process": current_process.get()}
