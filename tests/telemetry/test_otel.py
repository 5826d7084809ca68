"""OpenTelemetry: our ids, its words, over a real socket too."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from campaigns.telemetry_receivers import http_receiver
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, Sampler, TraceIdRatioBased
from opentelemetry.trace import NoOpTracerProvider, SpanKind, StatusCode

from tests.telemetry.calls import AT_MS, call, paid, run
from vegakit.errors import SettingsError
from vegakit.events import CallKind, CallStatus, CallTraced
from vegakit.ids import SpanId, TraceId
from vegakit.telemetry import Redactor, otel
from vegakit.telemetry.otel import OtelSink


def exported(
    *calls: CallTraced, sampler: Sampler | None = None, redactor: Redactor | None = None
) -> list[ReadableSpan]:
    memory, provider = InMemorySpanExporter(), TracerProvider(sampler)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    sink = OtelSink(provider, redactor=redactor)
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
        "gen_ai.request.stream": True,
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
    """Its text may quote what was said, and is sent only if content is asked for."""
    failed = call(status=CallStatus.FAILED, error=error)
    (span,) = exported(failed)
    assert (span.attributes or {})["error.type"] == kind
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == kind
    (open_,) = exported(failed, redactor=Redactor(content=True))
    assert open_.status.description == (error or "failed")


def test_a_refusal_is_sent_in_our_own_words() -> None:
    """They quote nobody."""
    (span,) = exported(call(status=CallStatus.REFUSED, error="BudgetExceeded: raise the budget"))
    assert span.status.description == "BudgetExceeded: raise the budget"


def test_what_a_tool_says_is_no_error_type() -> None:
    """Unless it is written as an exception is."""
    said = {"ValueError: no": "ValueError", "Bern": "failed", "secret: 1": "failed"}
    for error, kind in said.items():
        (span,) = exported(call(kind=CallKind.TOOL, status=CallStatus.FAILED, error=error))
        assert (span.attributes or {})["error.type"] == kind


@pytest.mark.parametrize(
    ("model", "provider", "name"),
    [
        ("ollama:qwen3:8b", "ollama", "qwen3:8b"),
        ("azure:gpt-x", "azure.ai.openai", "gpt-x"),
        ("alone", None, "alone"),
    ],
)
def test_a_model_keeps_its_whole_name(model: str, provider: str | None, name: str) -> None:
    """Only the provider is split off."""
    (span,) = exported(call(model=model))
    assert span.name == f"chat {name}"
    attributes = span.attributes or {}
    assert attributes["gen_ai.request.model"] == name
    assert attributes.get("gen_ai.provider.name") == provider


def test_the_names_are_those_of_the_convention() -> None:
    """Each `gen_ai.*` name and value of ours is in its package, and is not called obsolete there:
    that all have moved to a repository of their own is no change of a name."""
    gen_ai_attributes: Any = import_module(
        "opentelemetry.semconv._incubating.attributes.gen_ai_attributes"
    )
    known = {value for key, value in vars(gen_ai_attributes).items() if key.startswith("GEN_AI_")}
    source = Path(str(gen_ai_attributes.__file__)).read_text(encoding="utf-8")
    (model,) = exported(paid(first_token_ms=1.0, finish="stop", cache_read_tokens=1))
    (tool,) = exported(call(kind=CallKind.TOOL))
    (ask,) = exported(call(kind=CallKind.ASK))
    names = {key for span in (model, tool, ask) for key in span.attributes or {}}
    ours = {name for name in names if name.startswith("gen_ai.")}
    assert len(ours) > 10
    assert ours <= known
    for name in ours:
        note = source.partition(f'"{name}"\n')[2].split('"""')[1]
        assert "Replaced" not in note
        assert "Removed" not in note
    operations = {one.value for one in gen_ai_attributes.GenAiOperationNameValues}
    assert set(otel._OPERATIONS.values()) <= operations
    providers = {one.value for one in gen_ai_attributes.GenAiProviderNameValues}
    assert set(otel._PROVIDERS.values()) <= providers
    assert [span.kind for span in (model, tool, ask)] == [
        SpanKind.CLIENT,
        SpanKind.INTERNAL,
        SpanKind.INTERNAL,
    ]


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


def test_an_event_is_one_of_its_span() -> None:
    """With its time and its attributes; without its span it is a span of no length."""
    parent = call(1, kind=CallKind.SPAN, name="index")
    inside = {"kind": CallKind.EVENT, "latency_ms": 0.0, "attributes": {"files": 2}}
    event = call(2, name="half done", parent_span=parent.span_id, **inside)
    orphan = call(3, name="alone", parent_span=SpanId("f" * 16), **inside)
    span, alone = exported(event, orphan, parent)
    (found,) = span.events
    assert (span.name, found.name, found.timestamp) == ("index", "half done", event.at_ms * 10**6)
    assert dict(found.attributes or {}) == {"files": 2}
    assert (alone.name, alone.start_time) == ("alone", alone.end_time)


def test_events_of_spans_that_never_end_are_bounded() -> None:
    """The oldest are exported by themselves."""
    memory, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    sink = OtelSink(provider)
    events = [
        call(n, kind=CallKind.EVENT, name=str(n), parent_span=SpanId(f"{n:016x}"))
        for n in range(1, 1_006)
    ]
    sink._write(events, 0)
    assert [span.name for span in memory.get_finished_spans()] == ["1", "2", "3", "4", "5"]
    run(sink.aclose())
    assert len(memory.get_finished_spans()) == 1_005


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


@pytest.mark.parametrize("path", ["", "/", "/v1/traces"])
def test_it_sends_to_a_collector(path: str) -> None:
    """OTLP over HTTP; closing has sent everything."""
    with http_receiver() as received:
        sink = OtelSink(endpoint=received.endpoint + path)
        for number in range(3):
            sink.record(paid(number + 1))
        run(sink.aclose())
        assert set(received.paths) == {"/v1/traces"}
        assert [(span.name, span.service) for span in received.spans] == [
            ("chat claude", "vega")
        ] * 3


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
