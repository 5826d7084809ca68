from vegakit.telemetry import trace as trace
from vegakit.telemetry.jsonl import (
    JsonLinesSink as JsonLinesSink,
    aside_of as aside_of,
    call_of as call_of,
    line_of as line_of,
)
from vegakit.telemetry.logs import (
    LOG_FACTS as LOG_FACTS,
    LogFormatter as LogFormatter,
    LogOutput as LogOutput,
)
from vegakit.telemetry.metrics import (
    METRICS_CONTENT_TYPE as METRICS_CONTENT_TYPE,
    Histogram as Histogram,
    Metric as Metric,
    Metrics as Metrics,
    MetricSample as MetricSample,
    Wait as Wait,
    metrics_text as metrics_text,
)
from vegakit.telemetry.redaction import Redactor as Redactor, error_type as error_type
from vegakit.telemetry.runs import TracedRun as TracedRun, load_runs as load_runs
from vegakit.telemetry.spans import (
    FanOutSink as FanOutSink,
    Span as Span,
    Tracer as Tracer,
    calling_span as calling_span,
    current_span as current_span,
    current_tracer as current_tracer,
    open_sink as open_sink,
)
from vegakit.telemetry.sqlite import SqliteSink as SqliteSink
