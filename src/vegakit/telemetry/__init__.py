"""What happened, for people and their tools (adapter, host): call records and where they go.

Every sink of this room hides keys by itself, and content unless its `Redactor` lets it pass. A sink
takes a record at once and writes it in the background.
"""

from vegakit.telemetry import trace
from vegakit.telemetry.jsonl import JsonLinesSink, TracedRun, load_runs, render_runs, render_tree
from vegakit.telemetry.redaction import Redactor, redact
from vegakit.telemetry.sinks import FanOutSink, OtelSink, RedactingSink, SampledSink, open_sink
from vegakit.telemetry.spans import LogFilter, Span, Tracer, current_span

__all__ = [
    "FanOutSink",
    "JsonLinesSink",
    "LogFilter",
    "OtelSink",
    "RedactingSink",
    "Redactor",
    "SampledSink",
    "Span",
    "TracedRun",
    "Tracer",
    "current_span",
    "load_runs",
    "open_sink",
    "redact",
    "render_runs",
    "render_tree",
    "trace",
]
