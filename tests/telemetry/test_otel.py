"""OpenTelemetry: our ids, its words, over a real socket too."""

import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, Sampler, TraceIdRatioBased
from opentelemetry.trace import NoOpTracerProvider, SpanKind, StatusCode

from tests.telemetry.calls import AT_MS, call, paid, run
from vegakit.errors import SettingsError
from vegakit.events import CallKind, CallStatus, CallTraced
from vegakit.ids import SpanId, TraceId
from vegakit.telemetry.otel import OtelSink


def exported(*calls: CallTraced, sampler: Sampler | None = None) -> list[ReadableSpan]:
    memory, provider = InMemorySpanExporter(), TracerProvider(sampler)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    sink = OtelSink(provider)
    for one in calls:
        sink.record(one)
    run(sink.aclose())
    return [*memory.get_finished_spans()]


def test_ids_and_times_are_ours() -> None:
    """A child that ends before its parent names it all the same."""
    parent = call(7, kind=CallKind.ASK, agent="Coder")
    child = call(8, parent_span=parent.span_id)
    inner, outer = exported(child, parent)
    assert inner.context
    assert inner.parent
    assert f"{inner.context.trace_id:032x}" == child.trace_id
    assert f"{inner.context.span_id:016x}" == child.span_id
    assert f"{inner.parent.span_id:016x}" == parent.span_id
    assert outer.parent is None
    assert inner.start_time == (AT_MS + 8) * 1_000_000
    assert inner.end_time == inner.start_time + 2_341_000_000


def test_a_model_call_in_the_words_of_the_convention() -> None:
    """`chat {model}`, with usage, cost and the user's own attributes."""
    (span,) = exported(
        paid(
            finish="stop",
            first_token_ms=250.0,
            cache_read_tokens=9,
            retries=2,
            attributes={"ticket": 0, "tags": ["a"], "vega.status": "forged"},
        )
    )
    assert (span.name, span.kind) == ("chat claude", SpanKind.CLIENT)
    assert dict(span.attributes or {}) == {
        "ticket": 0,
        "tags": '["a"]',
        "gen_ai.operation.name": "chat",
        "gen_ai.agent.name": "Coder",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "claude",
        "gen_ai.usage.input_tokens": 150,
        "gen_ai.usage.output_tokens": 892,
        "gen_ai.usage.cache_read.input_tokens": 9,
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.response.time_to_first_chunk": 0.25,
        "vega.cost_usd": 0.0043,
        "vega.retries": 2,
        "vega.kind": "model",
        "vega.status": "ok",
    }


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [
        (CallKind.ASK, "Coder", "invoke_agent Coder"),
        (CallKind.TOOL, "read", "execute_tool read"),
        (CallKind.SPAN, "index", "index"),
        (CallKind.EVENT, "half done", "half done"),
    ],
)
def test_other_calls_have_their_names(kind: CallKind, name: str, expected: str) -> None:
    """As the convention has them, or as the user has."""
    (span,) = exported(call(kind=kind, name=name))
    assert span.name == expected
    assert (span.attributes or {}).get("gen_ai.tool.name") == (
        name if kind is CallKind.TOOL else None
    )


@pytest.mark.parametrize(
    ("error", "kind"),
    [("RateLimited: wait 2 s", "RateLimited"), ("no such file", "failed"), ("", "failed")],
)
def test_a_failure_has_a_type_of_few_values(error: str, kind: str) -> None:
    """And its text as the status."""
    (span,) = exported(call(status=CallStatus.FAILED, error=error))
    assert (span.attributes or {})["error.type"] == kind
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == (error or "failed")


def test_a_run_is_sampled_whole() -> None:
    """By the provider's own sampler: roots and children alike."""
    calls = [
        call(n * 2 + below, trace_id=TraceId(f"{n * 2**58:032x}"), parent_span=parent)
        for n in range(1, 64)
        for below, parent in ((0, None), (1, SpanId("f" * 16)))
    ]
    spans = exported(*calls, sampler=ParentBased(TraceIdRatioBased(0.5)))
    seen = [span.context.trace_id for span in spans if span.context]
    assert 0 < len(seen) < len(calls)
    assert all(seen.count(trace_id) == 2 for trace_id in seen)


def test_two_sinks_share_a_provider() -> None:
    """Neither gets the other's ids."""
    memory, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    for number, sink in enumerate([OtelSink(provider), OtelSink(provider)], 1):
        sink.record(call(number))
        run(sink.aclose())
    assert [s.context and s.context.span_id for s in memory.get_finished_spans()] == [1, 2]


def test_what_did_not_fit_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A collector has no place for a note."""
    sink = OtelSink(TracerProvider())
    sink._write([], 3)
    assert caplog.messages == ["3 records did not fit in memory and were not exported"]
    run(sink.aclose())


class Collector(BaseHTTPRequestHandler):
    got: list[tuple[str, ExportTraceServiceRequest]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.got.append((self.path, ExportTraceServiceRequest.FromString(body)))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass


@pytest.fixture
def collector() -> Iterator[tuple[str, list[tuple[str, ExportTraceServiceRequest]]]]:
    got: list[tuple[str, ExportTraceServiceRequest]] = []
    handler = type("Handler", (Collector,), {"got": got})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}", got
        server.shutdown()
        serving.join()


@pytest.mark.parametrize("path", ["", "/", "/v1/traces"])
def test_it_sends_to_a_collector(path: str, collector: tuple[str, list[Any]]) -> None:
    """OTLP over HTTP; closing has sent everything."""
    endpoint, got = collector
    sink = OtelSink(endpoint=endpoint + path)
    for number in range(3):
        sink.record(paid(number + 1))
    run(sink.aclose())
    assert {where for where, _ in got} == {"/v1/traces"}
    (resource, *_) = resources = [one for _, request in got for one in request.resource_spans]
    assert ("service.name", "vega") in [
        (attribute.key, attribute.value.string_value) for attribute in resource.resource.attributes
    ]
    scopes = [scope for one in resources for scope in one.scope_spans]
    assert [span.name for scope in scopes for span in scope.spans] == ["chat claude"] * 3


def test_without_the_extra_it_says_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of OpenTelemetry is imported before."""
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(SettingsError, match=r"type: pip install 'vegakit\[otel\]'"):
        OtelSink(endpoint="http://127.0.0.1:1")


def test_it_needs_somewhere_to_send_to() -> None:
    """A provider that records nothing is a mistake, and so is none."""
    with pytest.raises(SettingsError, match="needs a tracer_provider, or the endpoint"):
        OtelSink()
    with pytest.raises(SettingsError, match="got NoOpTracerProvider"):
        OtelSink(NoOpTracerProvider())  # pyright: ignore[reportArgumentType]
