"""Spans: which call belongs to which, and the sink that their records go to."""

import asyncio
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from random import Random
from traceback import format_exception_only
from typing import TYPE_CHECKING, Any
from zlib import crc32

from msgspec import Struct

from vegakit.events import CallKind, CallStatus, CallTraced
from vegakit.ids import SpanId, TraceId
from vegakit.ports import Clock, Sink
from vegakit.telemetry.redaction import Redactor, plain

if TYPE_CHECKING:
    from vegakit.config import Settings

# A trace is a run, a span is one call or block in it.
#
# The current span is a ContextVar, so tasks inherit it. A block that is left in another context
# than it was entered in, as in an async generator that somebody else closes, leaves that context
# alone.


_RANDOM = Random()  # noqa: S311
"""Names of spans must differ, and need not be hard to guess. Asking the system for each would let
go of the interpreter's lock, which a busy thread then keeps for longer than the call takes."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_RANDOM.seed)


class Span(Struct):
    """Open until it is ended; `attributes` are the user's."""

    trace_id: TraceId
    span_id: SpanId
    parent: SpanId | None
    kind: CallKind
    name: str
    at_ms: int
    attributes: dict[str, Any] = {}


class Tracer:
    """A tracer makes spans and records each when it ends."""

    def __init__(self, sink: Sink, clock: Clock) -> None:
        self._sink = sink
        self._clock = clock

    def begin(self, kind: CallKind, name: str, parent: Span | None = None) -> Span:
        """Below `parent`, or the current span, or as a new trace."""
        above = parent or current_span()
        trace_id = above.trace_id if above else TraceId(f"{_RANDOM.getrandbits(128):032x}")
        span_id = SpanId(f"{_RANDOM.getrandbits(64):016x}")
        return Span(trace_id, span_id, above and above.span_id, kind, name, self._clock.now())

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
            **facts,
        )
        self._sink.record(record)

    @contextmanager
    def within(self, span: Span) -> Generator[Span]:
        """Calls made inside are below `span`; it is not ended here."""
        before, here = _CURRENT.get(), (self, span)
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


_CURRENT: ContextVar[tuple[Tracer, Span] | None] = ContextVar("vega_span", default=None)


def current_span() -> Span | None:
    """Return the span this code runs in."""
    current = _CURRENT.get()
    return current and current[1]


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
    """A sink that records a share of all runs, each whole or not at all. Money and failures always
    pass."""

    def __init__(self, sink: Sink, ratio: float) -> None:
        self._sink = sink
        self._below = ratio * 2**32

    def record(self, call: CallTraced) -> None:
        matters = call.cost or call.error or call.status is not CallStatus.OK
        if matters or crc32(call.trace_id.encode()) < self._below:
            self._sink.record(call)

    async def aclose(self) -> None:
        await self._sink.aclose()


class FanOutSink:
    """A sink that hands each record to several; with none it records nothing."""

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self._sinks = tuple(sinks)

    def record(self, call: CallTraced) -> None:
        for sink in self._sinks:
            sink.record(call)

    async def aclose(self) -> None:
        await asyncio.gather(*(sink.aclose() for sink in self._sinks))


def open_sink(settings: "Settings", redactor: Redactor) -> Sink:
    """Nothing leaves this machine unless `telemetry.otlp` is set."""
    sinks: list[Sink] = []
    if settings.traces_path:
        from vegakit.telemetry.jsonl import JsonLinesSink

        sinks.append(JsonLinesSink(settings.traces_path, redactor))
    if settings.telemetry.otlp:
        from vegakit.telemetry.otel import OtelSink

        sinks.append(OtelSink(endpoint=settings.telemetry.otlp, redactor=redactor))
    return SampledSink(FanOutSink(sinks), settings.telemetry.sample)
