"""Calls as OpenTelemetry spans, under the ids that they have here.

Spans are made from finished records, with their own start and end: none is ever current, so none
can leak out of a generator. Needs the extra `otel`.
"""

import asyncio
import logging
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from vegakit.errors import SettingsError
from vegakit.events import CallKind, CallStatus, CallTraced
from vegakit.telemetry.background import BackgroundWriter
from vegakit.telemetry.otel_names import attributes_of, span_name
from vegakit.telemetry.redaction import Redactor

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider

__all__ = ["OtelSink"]

_log = logging.getLogger("vegakit")
_NS = 1_000_000
_SEND_WITHIN_S = 5
_IDS: ContextVar[tuple[int, int]] = ContextVar("vega_otel_ids")


class _GivenIds:
    """In place of the SDK's random ids, in our tracer only."""

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
