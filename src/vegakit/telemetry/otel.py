"""Calls as spans of OpenTelemetry, sent to a collector over HTTP or gRPC.

    record ──▶ BackgroundWriter ──▶ span ──▶ BatchSpanProcessor ──▶ _Delivery ──▶ OTLP exporter
    (caller)        thread                    bounded queue, thread    says once what is lost

The spans are made from finished records with their own start and end: none is ever
current, so none can leak out of a generator. They need the extra `otel`, or `otel-grpc`.
"""

import asyncio
import logging
import threading
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qsl, urlsplit

from vegakit.config import OtlpProtocol, OtlpTarget, hide_secrets_of_url
from vegakit.errors import SettingsError
from vegakit.events import CallKind, CallStatus, CallTraced
from vegakit.ids import SpanId
from vegakit.money import NANOS
from vegakit.ports import SinkTrait
from vegakit.records import to_json
from vegakit.telemetry.jsonl import BackgroundWriter
from vegakit.telemetry.redaction import Redactor, error_type

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult


# A call in OpenTelemetry's words: the GenAI semantic conventions, and `vega.*` where they end.
#
# The names are spelled here because their Python package marks all of them as moved elsewhere; a
# test compares them with it. An agent is invoked and a tool executed in this process, so their
# spans are internal; a model is called as a client.


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
            return _model(call) or call.name
        case _:
            return call.name


def _model(call: CallTraced) -> str:
    """Return the model without its provider; the rest may hold a colon, as in `ollama:qwen3:8b`."""
    provider, colon, model = call.model.partition(":")
    return model if colon else provider


def _identity(call: CallTraced) -> dict[str, Any]:
    provider = call.model.partition(":")[0] if ":" in call.model else ""
    return {
        "gen_ai.operation.name": _OPERATIONS.get(call.kind),
        "gen_ai.agent.name": call.agent or (call.name if call.kind is CallKind.ASK else ""),
        "gen_ai.provider.name": _PROVIDERS.get(provider, provider),
        "gen_ai.request.model": _model(call),
        "gen_ai.tool.name": call.name if call.kind is CallKind.TOOL else "",
        "gen_ai.tool.type": "function" if call.kind is CallKind.TOOL else "",
        "vega.kind": str(call.kind),
    }


def _usage(call: CallTraced) -> dict[str, Any]:
    return {
        "gen_ai.usage.input_tokens": call.input_tokens,
        "gen_ai.usage.output_tokens": call.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": call.cache_read_tokens,
        "gen_ai.usage.cache_creation.input_tokens": call.cache_write_tokens,
        "gen_ai.request.stream": call.first_token_ms is not None,
        "gen_ai.response.time_to_first_chunk": (call.first_token_ms or 0) / 1000,
        "vega.cost_usd": call.cost / NANOS,
        "vega.reserved_usd": call.reserved / NANOS,
        "vega.retries": call.retries,
    }


def _outcome(call: CallTraced) -> dict[str, Any]:
    return {
        "gen_ai.response.finish_reasons": [call.finish] if call.finish else None,
        "error.type": error_type(call),
        "vega.status": str(call.status),
        "vega.request_id": call.request_id,
        "vega.cached": call.cached,
        "vega.content": to_json(call.content).decode() if call.content is not None else None,
    }


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
_SEND_WITHIN_S = 5.0
_CLOSE_WITHIN_S = 3.0
_MOST_WAITING = 10_000
"""Spans in memory while a collector is slow or away: tens of megabytes at most."""
_SEND_EVERY_MS = 1_000
_MOST_OPEN = 1_000
"""Spans whose events are kept until they end."""
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
    down and to sample by, or the `endpoint` of a collector: an address, or an `OtlpTarget`. Calls
    below a span that its owner does not export are not exported either."""

    def __init__(
        self,
        tracer_provider: "TracerProvider | None" = None,
        *,
        endpoint: str | OtlpTarget = "",
        redactor: Redactor | None = None,
    ) -> None:
        self._delivery: _Delivery | None = None
        self._provider = tracer_provider or self._provider_for(endpoint)
        if not hasattr(self._provider, "sampler"):
            raise SettingsError(
                "OtelSink needs a TracerProvider of opentelemetry.sdk.trace; got "
                f"{type(self._provider).__name__}; set one up first, or give an endpoint"
            )
        self._tracer: Any = self._provider.get_tracer("vegakit")
        self._tracer.id_generator = _GivenIds()
        self._redactor = redactor or Redactor()
        self.traits = self._redactor.traits | {SinkTrait.EXPORTS}
        self._events: dict[SpanId, list[CallTraced]] = {}
        """Those whose span has not ended yet, the oldest first."""
        # A file keeps every record that costs money, if need be by the caller's own hand; what is
        # only sent away is not worth a call's time.
        self._writer = BackgroundWriter(self._write, keeps_money=False, release=self._export_events)

    def record(self, call: CallTraced) -> None:
        if call.sampled:
            self._writer.record(call)

    async def aclose(self) -> None:
        """Send what is left, for a bounded time; a collector that is away is not waited for."""
        await self._writer.aclose()
        if self._delivery is None:
            await asyncio.to_thread(self._provider.force_flush, round(_SEND_WITHIN_S * 1000))
            return
        self._delivery.begin_closing()
        try:
            async with asyncio.timeout(_CLOSE_WITHIN_S):
                await asyncio.to_thread(self._provider.force_flush)
        except TimeoutError:
            self._delivery.give_up()
        await asyncio.to_thread(self._provider.shutdown)
        self._delivery.tell_lost()

    def _write(self, batch: list[CallTraced], dropped: int) -> None:
        for call in map(self._redactor.redact_call, batch):
            if call.kind is CallKind.EVENT and call.parent_span is not None:
                self._events.setdefault(call.parent_span, []).append(call)
            else:
                self._export(call)
        self._export_events(_MOST_OPEN)
        if self._delivery is not None:
            self._delivery.hand(dropped)
        elif dropped:
            _log.warning("%s records did not fit in memory and were not exported", dropped)

    def _export_events(self, keep: int = 0) -> None:
        """Export the oldest events as spans of no length, until those of `keep` spans are left:
        their own span was not sampled, is somebody else's, or has lost its process."""
        for parent in [*self._events][: max(0, len(self._events) - keep)]:
            for event in self._events.pop(parent):
                self._export(event)

    def _export(self, call: CallTraced) -> None:
        from opentelemetry.trace import SpanKind, Status, StatusCode

        before = _DELIVERING.set(self._delivery)
        _IDS.set((int(call.trace_id, 16), int(call.span_id, 16)))
        span = self._tracer.start_span(
            span_name(call),
            self._above(call),
            SpanKind.CLIENT if call.kind is CallKind.MODEL else SpanKind.INTERNAL,
            attributes_of(call),
            start_time=call.at_ms * _NS,
        )
        for event in self._events.pop(call.span_id, ()):
            given = {key: _attribute(value) for key, value in event.attributes.items()}
            span.add_event(event.name, given, event.at_ms * _NS)
        if call.status is not CallStatus.OK:
            span.set_status(Status(StatusCode.ERROR, call.error or error_type(call)))
        span.end(call.at_ms * _NS + round(call.latency_ms * _NS))
        _DELIVERING.reset(before)
        if self._delivery is not None:
            self._delivery.hand(1)

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

    def _provider_for(self, endpoint: str | OtlpTarget) -> "TracerProvider":
        if not endpoint:
            raise SettingsError("OtelSink needs a tracer_provider, or the endpoint of a collector")
        target = OtlpTarget(endpoint) if isinstance(endpoint, str) else endpoint
        try:
            from opentelemetry.sdk.resources import OTELResourceDetector, Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
            from opentelemetry.sdk.trace.sampling import ALWAYS_ON

            exporter = _exporter_for(target)
        except ImportError as error:
            extra = "otel-grpc" if target.protocol is OtlpProtocol.GRPC else "otel"
            raise SettingsError(
                f"telemetry.otlp is set, but OpenTelemetry for {target.protocol} is not installed; "
                f"type: pip install 'vegakit[{extra}]'"
            ) from error
        self._delivery = _Delivery(exporter, target)
        ours = Resource.create({"service.name": "vega"}).merge(OTELResourceDetector().detect())
        provider = TracerProvider(ALWAYS_ON, ours.merge(Resource(dict(target.resource))))
        provider.add_span_processor(
            BatchSpanProcessor(
                cast("SpanExporter", self._delivery),  # as one, without importing it here
                max_queue_size=_MOST_WAITING,
                schedule_delay_millis=_SEND_EVERY_MS,
            )
        )
        return provider


# Delivery to a collector: whatever it does, calls go on, memory is bounded, and people are told
# once. The library's exporters retry for a few seconds and log each try; here their lines count
# as what they are, one collector that does not take spans.


class _Delivery:
    """Implements `SpanExporter` around one of the library."""

    def __init__(self, exporter: "SpanExporter", target: OtlpTarget) -> None:
        self._exporter = exporter
        self._where = hide_secrets_of_url(target.endpoint)
        self._redactor = Redactor(_secrets_of(target))
        """Of what the library says, which quotes the address. Apart from that of the runtime, which
        would hide words such as `production` in all traces."""
        self._handed = 0
        self._sent = 0
        self._is_away = False
        self._level = logging.WARNING
        self._is_closing = threading.Event()
        self._given_up = threading.Event()
        for name in _LIBRARY_LOGGERS:
            logging.getLogger(name).addFilter(_quiet)

    def export(self, spans: "Sequence[ReadableSpan]") -> "SpanExportResult":
        """Send a batch, or drop it after what the exporter thinks is enough."""
        from opentelemetry.sdk.trace.export import SpanExportResult

        if self._given_up.is_set():
            return SpanExportResult.FAILURE
        before = _DELIVERING.set(self)
        try:
            result = self._exporter.export(spans)
        except Exception as error:  # noqa: BLE001 - whatever a library raises must not end its thread
            self.on_trouble(f"{type(error).__name__}: {error}")
            return SpanExportResult.FAILURE
        finally:
            _DELIVERING.reset(before)
        if result is SpanExportResult.SUCCESS:
            self._sent += len(spans)
            if self._is_away:
                self._is_away = False
                _log.info("the collector at %s takes spans again", self._where)
        else:
            self.on_trouble("it refused them")
        return result

    def on_trouble(self, why: str) -> None:
        """Warn the first time, and keep later ups and downs for who reads `info`. A runtime that
        closes does not wait for another try."""
        if not self._is_away:
            self._is_away = True
            _log.log(
                self._level,
                "the collector at %s does not take all spans (%s); calls go on, and spans that do "
                "not fit into memory are dropped; check telemetry.otlp and telemetry.otlp_protocol",
                self._where,
                self._redactor.redact(why),
            )
            self._level = logging.INFO
        if self._is_closing.is_set():
            self.give_up()

    def hand(self, count: int) -> None:
        """Count spans that are to be sent."""
        self._handed += count

    def begin_closing(self) -> None:
        """Let what is left be tried once; from now on no failure is waited for."""
        self._is_closing.set()
        if self._is_away:
            self.give_up()

    def give_up(self) -> None:
        """Send nothing any more. A wait of the exporter between two tries ends."""
        if not self._given_up.is_set():
            self._given_up.set()
            self._exporter.shutdown()

    def tell_lost(self) -> None:
        """Say at the end how much was not sent."""
        if lost := self._handed - self._sent:
            _log.warning("%d spans were not sent to the collector at %s", lost, self._where)

    def shutdown(self) -> None:
        """Close the exporter."""
        self.give_up()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Nothing waits here."""
        return True


_DELIVERING: ContextVar[_Delivery | None] = ContextVar("vega_otel_delivery", default=None)
_LIBRARY_LOGGERS = (
    "opentelemetry.exporter.otlp.proto.grpc.exporter",
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.sdk._shared_internal",
)


def _quiet(record: logging.LogRecord) -> bool:
    """Let a line of the library pass unless it tells of one of our deliveries."""
    delivery = _DELIVERING.get()
    if delivery is not None and record.levelno >= logging.WARNING:
        delivery.on_trouble(record.getMessage())
    return delivery is None


def _secrets_of(target: OtlpTarget) -> Iterator[str]:
    """Yield what may be secret in the address of a collector, and the headers. The host stands with
    what is before it: a password too short to be looked for is known by its place."""
    yield from target.headers.values()
    user, at, place = target.endpoint.partition("://")[2].rpartition("@")
    if at:
        host = place.partition("/")[0]
        yield from (user, user.partition(":")[2], f"{user}@{host}")
    if query := target.endpoint.partition("?")[2]:
        yield f"?{query}"
        yield from (value for _, value in parse_qsl(query))


def open_otlp(target: OtlpTarget, redactor: Redactor) -> list[OtelSink]:
    """Return the sink of a collector. If only a variable for all programs names it, a missing
    library is a warning. A variable that the library itself cannot read always is."""
    for value in target.headers.values():
        redactor.add(value)
    try:
        return [OtelSink(endpoint=target, redactor=redactor)]
    except SettingsError as error:
        if target.is_required:
            raise
        _log.warning("%s; spans are not sent", error)
    except Exception as error:  # noqa: BLE001 - it has many variables, and as many errors
        hide = Redactor(_secrets_of(target)).redact
        why = hide(f"{type(error).__name__}: {error}")
        _log.warning(
            "OpenTelemetry cannot be set up (%s); spans are not sent; check its variables, "
            "OTEL_*, or set OTEL_SDK_DISABLED=true",
            why,
        )
    return []


def _exporter_for(target: OtlpTarget) -> "SpanExporter":
    if target.protocol is OtlpProtocol.GRPC:
        return _grpc_exporter(target)
    return _http_exporter(target)


def _http_exporter(target: OtlpTarget) -> "SpanExporter":
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    parts = urlsplit(target.endpoint)
    stem = parts.path.rstrip("/")
    is_whole = target.is_whole or stem.endswith("/v1/traces")
    url = target.endpoint if is_whole else parts._replace(path=f"{stem}/v1/traces").geturl()
    exporter = OTLPSpanExporter(url, headers=target.headers or None, timeout=_SEND_WITHIN_S)
    # The session may come from a credential provider that a variable names, so none is given. It
    # is in one place in earlier versions of the library, and in another in later ones.
    transport: Any = getattr(getattr(exporter, "_client", None), "_transport", exporter)
    session: Any = getattr(transport, "_session", None)
    if session is not None:
        session.hooks["response"].append(_refuse_redirect)
    return exporter


def _refuse_redirect(response: Any, *_: object, **__: object) -> None:  # noqa: ANN401
    """The library takes a redirect for success, and earlier versions follow it with our headers."""
    from requests.exceptions import TooManyRedirects

    if 300 <= response.status_code < 400:
        response.close()
        raise TooManyRedirects(f"it answers {response.status_code}, which is not followed")


def _grpc_exporter(target: OtlpTarget) -> "SpanExporter":
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

    headers = {name.lower(): value for name, value in target.headers.items()}
    return OTLPSpanExporter(target.endpoint, headers=headers or None, timeout=_SEND_WITHIN_S)
