"""What happened, for people and their tools (adapter, host): call records and where they go.

Every sink of this room hides keys by itself, and content unless its `Redactor` lets it pass. A sink
takes a record at once and writes it in the background.
"""

from vegakit.telemetry import trace
from vegakit.telemetry.jsonl import JsonLinesSink
from vegakit.telemetry.logs import LogFilter
from vegakit.telemetry.otel import OtelSink
from vegakit.telemetry.redaction import Redactor, redact
from vegakit.telemetry.runs import Run, load_runs
from vegakit.telemetry.sinks import FanOutSink, RedactingSink, SampledSink, open_sink
from vegakit.telemetry.tracing import Span, Tracer, current_span
from vegakit.telemetry.tree import render_runs, render_tree

__all__ = [
    "FanOutSink",
    "JsonLinesSink",
    "LogFilter",
    "OtelSink",
    "RedactingSink",
    "Redactor",
    "Run",
    "SampledSink",
    "Span",
    "Tracer",
    "current_span",
    "load_runs",
    "open_sink",
    "redact",
    "render_runs",
    "render_tree",
    "trace",
]
