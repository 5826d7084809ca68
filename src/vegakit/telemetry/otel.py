"""Calls as spans of OpenTelemetry, sent to a collector.

The spans are made from finished records with their own start and end: none is ever
current, so none can leak out of a generator. They need the extra `otel`.
"""

import asyncio
import logging
import re
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from vegakit.errors import SettingsError
from vegakit.events import CallKind, CallStatus, CallTraced
from vegakit.money import NANOS
from vegakit.records import to_json
from vegakit.telemetry.jsonl import BackgroundWriter
from vegakit.telemetry.redaction import Redactor

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider


# A call in OpenTelemetry's words: the GenAI semantic conventions, and `vega.*` where they end.
#
# The names are spelled here because their Python package marks all of them as moved elsewhere.


Attribute = str | bool | int | float | list[str]

_OPERATIONS = {
    CallKind.ASK: "invoke_agent",
    CallKind.MODEL: "chat",
    CallKind.TOOL: "execute_tool",
}
_PROVIDERS = {
    "azure": "azure.ai.openai",
    "azure-chat": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "google": "gcp.gemini",
    "google-gla": "gcp.gemini",
    "google-vertex": "gcp.vertex_ai",
    "openai-chat": "openai",
    "vertex": "gcp.vertex_ai",
    "mistral": "mistral_ai",
    "grok": "x_ai",
    "xai": "x_ai",
}
_ERROR_NAME = re.compile(r"[A-Za-z_][\w.]{0,100}(?=:|$)")


def span_name(call: CallTraced) -> str:
    """Return the name of a span by the convention of OpenTelemetry."""
    operation = _OPERATIONS.get(call.kind)
    return f"{operation} {_subject(call)}".strip() if operation else call.name


def attributes_of(call: CallTraced) -> dict[str, Attribute]:
    """The user's own attributes first, so that they cannot pose as ours."""
    theirs = {key: _attribute(value) for key, value in call.attributes.items()}
    ours = _identity(call) | _usage(call) | _outcome(call)
    return theirs | {key: value for key, value in ours.items() if value}


def _subject(call: CallTraced) -> str:
    match call.kind:
        case CallKind.ASK:
            return call.agent or call.name
        case CallKind.MODEL:
            return (call.model or call.name).rpartition(":")[2]
        case _:
            return call.name


def _identity(call: CallTraced) -> dict[str, Any]:
    provider = call.model.partition(":")[0] if ":" in call.model else ""
    return {
        "gen_ai.operation.name": _OPERATIONS.get(call.kind),
        "gen_ai.agent.name": call.agent or (call.name if call.kind is CallKind.ASK else ""),
        "gen_ai.provider.name": _PROVIDERS.get(provider, provider),
        "gen_ai.request.model": call.model.rpartition(":")[2],
        "gen_ai.tool.name": call.name if call.kind is CallKind.TOOL else "",
        "vega.kind": str(call.kind),
    }


def _usage(call: CallTraced) -> dict[str, Any]:
    return {
        "gen_ai.usage.input_tokens": call.input_tokens,
        "gen_ai.usage.output_tokens": call.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": call.cache_read_tokens,
        "gen_ai.usage.cache_creation.input_tokens": call.cache_write_tokens,
        "gen_ai.response.time_to_first_chunk": (call.first_token_ms or 0) / 1000,
        "vega.cost_usd": call.cost / NANOS,
        "vega.reserved_usd": call.reserved / NANOS,
        "vega.retries": call.retries,
    }


def _outcome(call: CallTraced) -> dict[str, Any]:
    return {
        "gen_ai.response.finish_reasons": [call.finish] if call.finish else None,
        "error.type": _error_type(call),
        "vega.status": str(call.status),
        "vega.content": to_json(call.content).decode() if call.content is not None else None,
    }


def _error_type(call: CallTraced) -> str:
    """Return a short error type, as the convention asks for few values: an exception's name, or how
    the call ended."""
    if call.status is CallStatus.OK:
        return ""
    name = _ERROR_NAME.match(call.error)
    return name[0] if name else str(call.status)


def _attribute(value: object) -> Attribute:
    if isinstance(value, str | bool | int | float):
        return value
    return to_json(value).decode()


# Calls as OpenTelemetry spans, under the ids that they have here.
#
# Spans are made from finished records, with their own start and end: none is ever current, so none
# can leak out of a generator. Needs the extra `otel`.


_log = logging.getLogger("vegakit")
_NS = 1_000_000
_SEND_WITHIN_S = 5
_IDS: ContextVar[tuple[int, int]] = ContextVar("vega_otel_ids")


class _GivenIds:
    """Hands our own ids to the SDK in place of its random ones, in our tracer only."""

    def generate_trace_id(self) -> int:
        return _IDS.get()[0]

    def generate_span_id(self) -> int:
        return _IDS.get()[1]

    def is_trace_id_random(self) -> bool:
        return True


class OtelSink:
    """Implements `ports.Sink`. Give it the `TracerProvider` you have, which stays yours to shut
    down and to sample by, or the `endpoint` of a collector."""

    def __init__(
        self,
        tracer_provider: "TracerProvider | None" = None,
        *,
        endpoint: str = "",
        redactor: Redactor | None = None,
    ) -> None:
        self._mine = tracer_provider is None
        self._provider = tracer_provider or _provider_for(endpoint)
        if not hasattr(self._provider, "sampler"):
            raise SettingsError(
                "OtelSink needs a TracerProvider of opentelemetry.sdk.trace; got "
                f"{type(self._provider).__name__}; set one up first, or give an endpoint"
            )
        self._tracer: Any = self._provider.get_tracer("vegakit")
        self._tracer.id_generator = _GivenIds()
        self._redactor = redactor or Redactor()
        self._writer = BackgroundWriter(self._write)

    def record(self, call: CallTraced) -> None:
        self._writer.record(call)

    async def aclose(self) -> None:
        await self._writer.aclose()
        await asyncio.to_thread(self._provider.force_flush, _SEND_WITHIN_S * 1000)
        if self._mine:
            await asyncio.to_thread(self._provider.shutdown)

    def _write(self, batch: list[CallTraced], dropped: int) -> None:
        for call in batch:
            self._export(self._redactor.redact_call(call))
        if dropped:
            _log.warning("%s records did not fit in memory and were not exported", dropped)

    def _export(self, call: CallTraced) -> None:
        from opentelemetry.trace import SpanKind, Status, StatusCode

        _IDS.set((int(call.trace_id, 16), int(call.span_id, 16)))
        span = self._tracer.start_span(
            span_name(call),
            self._above(call),
            SpanKind.CLIENT if call.kind is CallKind.MODEL else SpanKind.INTERNAL,
            attributes_of(call),
            start_time=call.at_ms * _NS,
        )
        if call.status is not CallStatus.OK:
            span.set_status(Status(StatusCode.ERROR, call.error or str(call.status)))
        span.end(call.at_ms * _NS + round(call.latency_ms * _NS))

    def _above(self, call: CallTraced) -> "Context":
        """A child is sampled as its root was: by asking what would be said of a root."""
        from opentelemetry.context import Context
        from opentelemetry.trace import (
            NonRecordingSpan,
            SpanContext,
            TraceFlags,
            set_span_in_context,
        )

        if call.parent_span is None:
            return Context()
        trace_id = int(call.trace_id, 16)
        sampled = self._provider.sampler.should_sample(None, trace_id, call.name).decision
        flags = TraceFlags(TraceFlags.SAMPLED if sampled.is_sampled() else TraceFlags.DEFAULT)
        parent = SpanContext(trace_id, int(call.parent_span, 16), False, flags)
        return set_span_in_context(NonRecordingSpan(parent), Context())


def _provider_for(endpoint: str) -> "TracerProvider":
    if not endpoint:
        raise SettingsError("OtelSink needs a tracer_provider, or the endpoint of a collector")
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ALWAYS_ON
    except ImportError as error:
        raise SettingsError(
            "telemetry.otlp is set, but OpenTelemetry is not installed; "
            "type: pip install 'vegakit[otel]'"
        ) from error
    resource = Resource.create({"service.name": "vega"}).merge(OTELResourceDetector().detect())
    provider = TracerProvider(ALWAYS_ON, resource)
    exporter = OTLPSpanExporter(_traces_url(endpoint), timeout=_SEND_WITHIN_S)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def _traces_url(endpoint: str) -> str:
    stem = endpoint.rstrip("/")
    return stem if stem.endswith("/v1/traces") else f"{stem}/v1/traces"
