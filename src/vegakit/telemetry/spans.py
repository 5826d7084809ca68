"""Spans: which call belongs to which, and logs that carry their ids.

The current span is a ContextVar, so tasks inherit it. A block that is left in another context
than it was entered in, as in an async generator that somebody else closes, leaves that context
alone.
"""

import asyncio
import logging
import os
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from random import Random
from traceback import format_exception_only
from typing import Any

from msgspec import Struct

from vegakit.events import CallKind, CallStatus, CallTraced
from vegakit.ids import SpanId, TraceId
from vegakit.ports import Clock, Sink
from vegakit.telemetry.redaction import Redactor, plain

# Which call belongs to which: a trace is a run, a span is one call or block in it.
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
        self.end(self.begin(CallKind.EVENT, message))

    def set_attribute(self, key: str, value: Any) -> None:  # noqa: ANN401
        """On the current span; outside of any there is nothing to set it on."""
        if (span := current_span()) is not None:
            span.attributes[key] = plain(value)


_CURRENT: ContextVar[tuple[Tracer, Span] | None] = ContextVar("vega_span", default=None)


def current_span() -> Span | None:
    current = _CURRENT.get()
    return current and current[1]


def current_tracer() -> Tracer | None:
    current = _CURRENT.get()
    return current and current[0]


def _status(raised: BaseException) -> CallStatus:
    cut_off = isinstance(raised, asyncio.CancelledError | GeneratorExit)
    return CallStatus.CANCELLED if cut_off else CallStatus.FAILED


def _text(raised: BaseException) -> str:
    return "".join(format_exception_only(raised)).strip()


# Logs without secrets, and with the ids of the run they belong to.


_STANDARD = {*logging.makeLogRecord({}).__dict__, "message", "asctime"}
_formatter = logging.Formatter()


class LogFilter(logging.Filter):
    """For the logger `vegakit`, or for a handler that gets more than that: a logger's filter does
    not see what its children log. Gives every record `trace_id` and `span_id`."""

    def __init__(self, redactor: Redactor | None = None) -> None:
        super().__init__()
        self._redactor = redactor or Redactor()

    def filter(self, record: logging.LogRecord) -> bool:
        redact = self._redactor.redact
        record.msg, record.args = redact(_message(record)), ()
        if record.exc_info:
            record.exc_text = _formatter.formatException(record.exc_info)
            record.exc_info = None
        record.exc_text = record.exc_text and redact(record.exc_text)
        record.stack_info = record.stack_info and redact(record.stack_info)
        for name in record.__dict__.keys() - _STANDARD:
            record.__dict__[name] = self._redactor.redact_json(record.__dict__[name])
        span = current_span()
        record.__dict__.setdefault("trace_id", span.trace_id if span else "")
        record.__dict__.setdefault("span_id", span.span_id if span else "")
        return True


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError, LookupError):
        return f"{record.msg} (its arguments do not fit)"
