"""Receivers of telemetry that share no code with Vega: OTLP over gRPC and over HTTP, decoded by
OpenTelemetry's own messages, and a scrape of Prometheus, parsed by its own client.

Each keeps the bytes that came, too, so that they can be searched for what must not be in them.
"""

import gzip
import threading
import urllib.request
from collections.abc import Generator, Iterator
from concurrent import futures
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,  # pyright: ignore[reportUnknownVariableType]
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from prometheus_client.parser import text_string_to_metric_families

__all__ = [
    "Received",
    "ReceivedSpan",
    "Scrape",
    "grpc_receiver",
    "http_receiver",
    "parse",
    "scrape",
]


class ReceivedSpan(NamedTuple):
    """A span as the receiver decoded it, with the attributes of its resource."""

    trace_id: str
    span_id: str
    parent: str
    name: str
    kind: int
    start_ns: int
    end_ns: int
    attributes: dict[str, Any]
    status: int
    description: str
    resource: dict[str, Any]
    events: tuple[str, ...]

    @property
    def service(self) -> str:
        return self.resource["service.name"]


class Received:
    """All that a receiver got: raw bytes, headers and spans."""

    def __init__(self) -> None:
        self.endpoint = ""
        self.raw: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self._requests: list[ExportTraceServiceRequest] = []

    def add(self, path: str, headers: dict[str, str], body: bytes) -> None:
        self.paths.append(path)
        self.headers.append(headers)
        self.raw.append(body)
        self._requests.append(ExportTraceServiceRequest.FromString(body))

    @property
    def spans(self) -> list[ReceivedSpan]:
        return [span for request in [*self._requests] for span in _spans(request)]


def _spans(request: ExportTraceServiceRequest) -> Iterator[ReceivedSpan]:
    for group in request.resource_spans:
        resource = _attributes(group.resource.attributes)
        for scope in group.scope_spans:
            for span in scope.spans:
                yield ReceivedSpan(
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    span.name,
                    span.kind,
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                    _attributes(span.attributes),
                    span.status.code,
                    span.status.message,
                    resource,
                    tuple(event.name for event in span.events),
                )


def _attributes(pairs: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in pairs:
        assert isinstance(pair, KeyValue)
        found[pair.key] = _value(pair.value)
    return found


def _value(value: AnyValue) -> Any:
    chosen = value.WhichOneof("value")
    if chosen == "array_value":
        return [_value(one) for one in value.array_value.values]
    return getattr(value, chosen) if chosen else None


# OTLP over HTTP, and a server that answers nothing, or only refuses.


@contextmanager
def http_receiver(status: int = 200, *, silent: bool = False, port: int = 0) -> Generator[Received]:
    """Serve `/v1/traces`; with another `status` refuse all, and `silent` take and never answer."""
    received, released = Received(), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            headers = {key.lower(): value for key, value in self.headers.items()}
            received.add(self.path, headers, body)
            if silent:
                released.wait()
                return
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        server.daemon_threads = True
        serving = threading.Thread(target=server.serve_forever, args=(0.05,))
        serving.start()
        received.endpoint = f"http://127.0.0.1:{server.server_port}"
        try:
            yield received
        finally:
            released.set()
            server.shutdown()
            serving.join()


# OTLP over gRPC.


class _Service(TraceServiceServicer):
    def __init__(self, received: Received, refuses: bool) -> None:
        self._received = received
        self._refuses = refuses

    def Export(self, request: Any, context: Any) -> ExportTraceServiceResponse:  # noqa: N802
        headers = {key: str(value) for key, value in context.invocation_metadata()}
        self._received.add("Export", headers, request.SerializeToString())
        if self._refuses:
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "not you")
        return ExportTraceServiceResponse()


@contextmanager
def grpc_receiver(*, refuses: bool = False) -> Generator[Received]:
    """Serve the trace service of OTLP."""
    received = Received()
    server = grpc.server(futures.ThreadPoolExecutor(4))
    add_TraceServiceServicer_to_server(_Service(received, refuses), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    received.endpoint = f"http://127.0.0.1:{port}"
    try:
        yield received
    finally:
        server.stop(0).wait()


# A scrape.


class Scrape(NamedTuple):
    """Samples by name and sorted labels, as the parser of Prometheus reads them."""

    text: str
    content_type: str
    values: dict[tuple[str, tuple[tuple[str, str], ...]], float]

    def value(self, name: str, **labels: str) -> float:
        """Return the sum of the samples of this name that have these labels."""
        wanted = set(labels.items())
        return sum(
            value
            for (sample, pairs), value in self.values.items()
            if sample == name and wanted <= set(pairs)
        )

    def series(self, name: str) -> int:
        """Return how many samples have this name."""
        return sum(sample == name for sample, _ in self.values)


def parse(text: str, content_type: str = "") -> Scrape:
    """Read the text format; a sample that comes twice is a mistake."""
    values: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in values, key
            values[key] = sample.value
    return Scrape(text, content_type, values)


def scrape(url: str) -> Scrape:
    """Read metrics over a socket."""
    with urllib.request.urlopen(url, timeout=10) as response:
        return parse(response.read().decode(), response.headers["content-type"])
