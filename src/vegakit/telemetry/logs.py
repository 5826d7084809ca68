"""Log lines: what Vega says through Python's `logging`, one line a record, as JSON or as text.

Vega logs to the logger `vegakit` and leaves logging to you: it adds no handler and sets no level
unless `telemetry.logs` asks for lines. Then one handler of that logger writes them to stderr while
a runtime is open, and the root logger is left alone. To have the same lines from a handler of your
own, give it a `LogFormatter`.
"""

import logging
import re
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from vegakit.telemetry.redaction import Redactor
from vegakit.telemetry.spans import current_span

LOGGER = logging.getLogger("vegakit")

LOG_FACTS = "vega"
"""The attribute of a record that holds what is known beside its message. Names of our own would
meet those that `logging` has, such as `process`."""
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")

Context = Callable[[], Mapping[str, str]]


class LogFormatter(logging.Formatter):
    """Formats a record as one line without keys: of JSON, or with `json=False` of text. `context`
    returns what is known where the record is made, such as the process."""

    def __init__(
        self, redactor: Redactor | None = None, context: Context | None = None, *, json: bool = True
    ) -> None:
        super().__init__()
        self._redactor = redactor or Redactor()
        self._context = context or dict[str, str]
        self._json = json

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        fields = self._redactor.redact_json(self._fields(record))
        assert isinstance(fields, dict)
        if self._json:
            return msgspec.json.encode(fields).decode()
        at, level, logger, message = (
            fields.pop(key) for key in ("time", "level", "logger", "message")
        )
        known = " ".join(f"{key}={value}" for key, value in fields.items())
        line = f"{at} {str(level).upper()} {logger}: {message}{f' ({known})' if known else ''}"
        return _UNPRINTABLE.sub(lambda found: repr(found[0])[1:-1], line)

    def _fields(self, record: logging.LogRecord) -> dict[str, Any]:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        span = current_span()
        spans = {"trace_id": span.trace_id, "span_id": span.span_id} if span else {}
        known = {**self._context(), **spans, **getattr(record, LOG_FACTS, {})}
        fields = {
            "time": at.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **{key: value for key, value in known.items() if value not in {None, ""}},
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return fields


class StderrHandler(logging.Handler):
    """Writes to what is stderr at that moment, which a test or a notebook may have replaced."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line of a record."""
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except Exception:  # noqa: BLE001 - a log line that fails must not fail what it tells of
            self.handleError(record)


class LogOutput:
    """The lines of one runtime on stderr, while it is open. Of several that are open in one program
    the last one writes all lines, so that no line comes twice."""

    def __init__(self, formatter: LogFormatter, level: str) -> None:
        self._handler = StderrHandler()
        self._handler.setFormatter(formatter)
        self._level = level.upper()

    def open(self) -> None:
        """Write lines from now on."""
        if not _OPEN:
            _BEFORE.append((LOGGER.level, LOGGER.propagate))
        _OPEN.append(self)
        self._only()

    def close(self) -> None:
        """Write no more; the last one leaves the logger as it was found."""
        if self not in _OPEN:
            return
        _OPEN.remove(self)
        LOGGER.removeHandler(self._handler)
        if _OPEN:
            _OPEN[-1]._only()  # noqa: SLF001
        else:
            LOGGER.level, LOGGER.propagate = _BEFORE.pop()
            LOGGER.setLevel(LOGGER.level)

    def _only(self) -> None:
        for other in _OPEN:
            LOGGER.removeHandler(other._handler)  # noqa: SLF001
        LOGGER.addHandler(self._handler)
        LOGGER.setLevel(self._level)
        # A handler of the root logger would write each of these lines a second time.
        LOGGER.propagate = False


_OPEN: list[LogOutput] = []
_BEFORE: list[tuple[int, bool]] = []
