"""Logs without secrets, and with the ids of the run they belong to."""

import logging

from vegakit.telemetry.redaction import Redactor
from vegakit.telemetry.tracing import current_span

__all__ = ["LogFilter"]

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
