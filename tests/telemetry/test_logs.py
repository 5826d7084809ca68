"""Log records: their run's ids, and no secrets."""

import logging

from tests.telemetry.calls import MemorySink
from vegakit.events import CallKind
from vegakit.telemetry.redaction import Redactor
from vegakit.telemetry.spans import LogFilter, Tracer
from vegakit.testing.harness import FakeClock


def logged(message: str, *args: object, **fields: object) -> logging.LogRecord:
    record = logging.makeLogRecord({"msg": message, "args": args, **fields})
    assert LogFilter(Redactor(["a secret"])).filter(record)
    return record


def test_a_record_knows_its_run() -> None:
    """From the context it was logged in."""
    tracer = Tracer(MemorySink(), FakeClock())
    with tracer.within(tracer.begin(CallKind.SPAN, "x")) as span:
        record = logged("hello")
    assert record.__dict__["trace_id"] == span.trace_id
    assert record.__dict__["span_id"] == span.span_id
    assert logged("hello").__dict__["trace_id"] == ""


def test_ids_that_are_there_stay() -> None:
    """A handler's filter may run in another thread than the logger's."""
    assert logged("hello", trace_id="abc").__dict__["trace_id"] == "abc"


def test_arguments_and_fields_are_hidden() -> None:
    """The message is made first, so that a key in pieces is found as well."""
    record = logged("a %s and %d", "secret", 2, header={"x": "a secret"})
    assert record.getMessage() == "[redacted] and 2"
    assert record.__dict__["header"] == {"x": "[redacted]"}


def test_arguments_that_do_not_fit_are_not_shown() -> None:
    """The logging module would print them as they are."""
    assert logged("%d", "a secret").getMessage() == "%d (its arguments do not fit)"
