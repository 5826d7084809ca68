"""Spans: which call belongs to which, and the sink that their records go to."""

import asyncio
import logging
import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from pathlib import Path
from random import Random
from traceback import format_exception_only
from typing import TYPE_CHECKING, Any
from zlib import crc32

from msgspec import Struct

from vegakit.events import CallKind, CallStatus, CallTraced
from vegakit.ids import SpanId, TraceId
from vegakit.ports import Clock, Sink, SinkTrait, share_of, traits_of
from vegakit.telemetry.redaction import Redactor, plain

if TYPE_CHECKING:
    from vegakit.config import Settings

# A trace is a run, a span is one call or block in it.
#
# The current span is a ContextVar, so tasks inherit it. A block that is left in another context
# than it was entered in, as in an async generator that somebody else closes, leaves that context
# alone.
#
# A call that is made outside of every span of ours is below the caller's span of OpenTelemetry, if
# there is one: it has that trace's id. Nothing of OpenTelemetry is imported for that. Where no
# other code has loaded it, no span of it can be current.


_LOG = logging.getLogger("vegakit")
_RANDOM = Random()  # noqa: S311
"""Names of spans must differ, and need not be hard to guess. Asking the system for each would let
go of the interpreter's lock, which a busy thread then keeps for longer than the call takes."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_RANDOM.seed)


class Span(Struct):
    """Open until it is ended; `attributes` are the user's. `sampled` is False below a span of
    OpenTelemetry that its owner does not export: a collector is told nothing of ours either."""

    trace_id: TraceId
    span_id: SpanId
    parent: SpanId | None
    kind: CallKind
    name: str
    at_ms: int
    attributes: dict[str, Any] = {}
    sampled: bool = True


class Tracer:
    """A tracer makes spans and records each when it ends."""

    def __init__(self, sink: Sink, clock: Clock) -> None:
        self._sink = sink
        self._clock = clock
        traits = traits_of(sink)
        self._exported_share = share_of(sink) if SinkTrait.EXPORTS in traits else 0.0
        self.wants_content = SinkTrait.CONTENT in traits
        self.run = ""
        """The recorded run that all calls belong to, as `vega runs` names it."""

    @property
    def sink(self) -> Sink:
        """Return where its records go: of a runtime, its activity, which serves metrics."""
        return self._sink

    def begin(
        self,
        kind: CallKind,
        name: str,
        parent: Span | None = None,
        span_id: SpanId | None = None,
        trace_id: TraceId | None = None,
    ) -> Span:
        """Below `parent`, or the span that this code is called from, or as a new trace. The ids are
        given where they have to be the same when a run goes on after its process died."""
        above, now = parent or calling_span(), self._clock.now()
        span_id = span_id or SpanId(f"{_RANDOM.getrandbits(64):016x}")
        if above is None:
            trace_id = trace_id or TraceId(f"{_RANDOM.getrandbits(128):032x}")
            return Span(trace_id, span_id, None, kind, name, now)
        return Span(above.trace_id, span_id, above.span_id, kind, name, now, sampled=above.sampled)

    def end(self, span: Span, status: CallStatus = CallStatus.OK, **facts: Any) -> None:  # noqa: ANN401
        """`facts` are fields of `CallTraced`."""
        record = CallTraced(
            trace_id=span.trace_id,
            span_id=span.span_id,
            kind=span.kind,
            name=span.name,
            at_ms=span.at_ms,
            latency_ms=float(self._clock.now() - span.at_ms),
            status=status,
            parent_span=span.parent,
            attributes=span.attributes.copy(),
            sampled=span.sampled,
            run=self.run,
            **facts,
        )
        self._sink.record(record)

    @contextmanager
    def within(self, span: Span) -> Generator[Span]:
        """Calls made inside are below `span`; it is not ended here. If it is exported, the spans
        that other code makes with OpenTelemetry are below it, too."""
        is_exported = _is_in_share(span.trace_id, self._exported_share)
        with _as_theirs(span) if is_exported else nullcontext() as theirs:
            before, here = _CURRENT.get(), (self, span, theirs)
            _CURRENT.set(here)
            try:
                yield span
            finally:
                if _CURRENT.get() is here:
                    _CURRENT.set(before)

    @contextmanager
    def span(self, name: str) -> Generator[Span]:
        """A block of the user's own."""
        span = self.begin(CallKind.SPAN, name)
        try:
            with self.within(span):
                yield span
        except BaseException as raised:
            self.end(span, _status(raised), error=_text(raised))
            raise
        self.end(span)

    def event(self, message: str) -> None:
        """Record a moment."""
        self.end(self.begin(CallKind.EVENT, message))

    def set_attribute(self, key: str, value: Any) -> None:  # noqa: ANN401
        """Set an attribute of the current span; outside of any there is nothing to set it on."""
        if (span := current_span()) is not None:
            span.attributes[key] = plain(value)


_CURRENT: ContextVar[tuple[Tracer, Span, object] | None] = ContextVar("vega_span", default=None)
"""With the span of OpenTelemetry that stands for ours, where ours is exported."""


def current_span() -> Span | None:
    """Return the span this code runs in."""
    current = _CURRENT.get()
    return current and current[1]


def calling_span() -> Span | None:
    """Return the span that a call made here is below: the current one, or one of OpenTelemetry that
    was opened around it or, where both go to one collector, inside of it."""
    current, api = _CURRENT.get(), sys.modules.get("opentelemetry.trace")
    if api is None or (current is not None and current[2] is None):
        return current and current[1]
    # Another thread may be in the middle of importing it.
    find = getattr(api, "get_current_span", None)
    found = find() if find else None
    if found is None or (current is not None and found is current[2]):
        return current and current[1]
    context = found.get_span_context()
    if not context.is_valid:
        return current and current[1]
    return Span(
        TraceId(f"{context.trace_id:032x}"),
        SpanId(f"{context.span_id:016x}"),
        None,
        CallKind.SPAN,
        "",
        0,
        sampled=context.trace_flags.sampled,
    )


@contextmanager
def _as_theirs(span: Span) -> Generator[object]:
    """Make a span of ours the current one of OpenTelemetry. Left as ours are: by what is current,
    not by a token, which another context could not give back."""
    from opentelemetry import context as contexts, trace

    flags = trace.TraceFlags(span.sampled and trace.TraceFlags.SAMPLED)
    ids = trace.SpanContext(int(span.trace_id, 16), int(span.span_id, 16), False, flags)
    theirs, before = trace.NonRecordingSpan(ids), contexts.get_current()
    here = trace.set_span_in_context(theirs, before)
    contexts.attach(here)
    try:
        yield theirs
    finally:
        if contexts.get_current() is here:
            contexts.attach(before)


def current_tracer() -> Tracer | None:
    """Return the tracer this code runs under."""
    current = _CURRENT.get()
    return current and current[0]


def _status(raised: BaseException) -> CallStatus:
    cut_off = isinstance(raised, asyncio.CancelledError | GeneratorExit)
    return CallStatus.CANCELLED if cut_off else CallStatus.FAILED


def _text(raised: BaseException) -> str:
    return "".join(format_exception_only(raised)).strip()


# Sinks around sinks, and the one that the settings ask for.


class SampledSink:
    """A sink that records a share of all runs, each whole or not at all. Of the others only what
    failed is recorded. What calls cost is no reason to record them: each one costs something, and
    the ledger knows all of it."""

    def __init__(self, sink: Sink, ratio: float) -> None:
        self._sink = sink
        self.traits, self.share = traits_of(sink), ratio

    def record(self, call: CallTraced) -> None:
        failed = call.error or call.status is not CallStatus.OK
        if failed or _is_in_share(call.trace_id, self.share):
            self._sink.record(call)

    async def aclose(self) -> None:
        await self._sink.aclose()


def _is_in_share(trace_id: TraceId, share: float) -> bool:
    """Return whether a trace is one of a share of all, the same in each process."""
    return crc32(trace_id.encode()) < share * 2**32


class FanOutSink:
    """A sink that hands each record to several; with none it records nothing."""

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self._sinks = tuple(sinks)
        self.traits, self.share = traits_of(*sinks), share_of(*sinks)

    def record(self, call: CallTraced) -> None:
        for sink in self._sinks:
            sink.record(call)

    async def aclose(self) -> None:
        await asyncio.gather(*(sink.aclose() for sink in self._sinks))


def open_sink(settings: "Settings", redactor: Redactor) -> Sink:
    """Nothing leaves this machine unless `telemetry.otlp` is set, or OpenTelemetry's variable."""
    sinks: list[Sink] = []
    if settings.telemetry.sqlite:
        from vegakit.telemetry.sqlite import SqliteSink

        file, keep_ms = Path(settings.telemetry.sqlite), settings.traces_keep_ms
        sinks.append(SqliteSink(file, redactor, keep_ms=keep_ms))
    if settings.telemetry.jsonl:
        from vegakit.telemetry.jsonl import JsonLinesSink

        lines = Path(settings.telemetry.jsonl)
        sinks.append(JsonLinesSink(lines, redactor, most_bytes=settings.traces_bytes))
    for why in settings.unreadable:
        _LOG.warning("%s; the variable is ignored", why)
    if (target := settings.otlp_target) is not None:
        from vegakit.telemetry.otel import open_otlp

        sinks += open_otlp(target, redactor)
    return SampledSink(FanOutSink(sinks), settings.telemetry.sample)
