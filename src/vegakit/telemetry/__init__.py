"""Records of what happened, for people and their tools (adapter, host), and where they go.

Every sink of this room hides keys by itself, and content unless its `Redactor` lets it pass. A sink
takes a record at once and writes it in the background. Spans are part of every call; files and
exporters are loaded when a sink is opened.
"""

from vegakit.lazy import lazy_exports
from vegakit.telemetry import trace
from vegakit.telemetry.redaction import Redactor, error_type
from vegakit.telemetry.spans import (
    FanOutSink,
    Span,
    Tracer,
    calling_span,
    current_span,
    current_tracer,
    open_sink,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vegakit.telemetry.jsonl import JsonLinesSink, aside_of
    from vegakit.telemetry.logs import LOG_FACTS, LogFormatter, LogOutput
    from vegakit.telemetry.metrics import (
        METRICS_CONTENT_TYPE,
        Histogram,
        Metric,
        Metrics,
        MetricSample,
        Wait,
        metrics_text,
    )
    from vegakit.telemetry.runs import TracedRun, load_runs
    from vegakit.telemetry.sqlite import SqliteSink

__all__ = [
    "LOG_FACTS",
    "METRICS_CONTENT_TYPE",
    "FanOutSink",
    "Histogram",
    "JsonLinesSink",
    "LogFormatter",
    "LogOutput",
    "Metric",
    "MetricSample",
    "Metrics",
    "Redactor",
    "Span",
    "SqliteSink",
    "TracedRun",
    "Tracer",
    "Wait",
    "aside_of",
    "calling_span",
    "current_span",
    "current_tracer",
    "error_type",
    "load_runs",
    "metrics_text",
    "open_sink",
    "trace",
]

__getattr__, _ = lazy_exports(
    __name__,
    {
        "jsonl": "JsonLinesSink aside_of",
        "logs": "LOG_FACTS LogFormatter LogOutput",
        "metrics": "METRICS_CONTENT_TYPE Histogram Metric MetricSample Metrics Wait metrics_text",
        "runs": "TracedRun load_runs",
        "sqlite": "SqliteSink",
    },
)
