"""Records of what happened, for people and their tools (adapter, host), and where they go.

Every sink of this room hides keys by itself, and content unless its `Redactor` lets it pass. A sink
takes a record at once and writes it in the background.
"""

from vegakit.telemetry import trace
from vegakit.telemetry.jsonl import JsonLinesSink, TracedRun, load_runs, render_runs, render_tree
from vegakit.telemetry.redaction import Redactor
from vegakit.telemetry.spans import Span, Tracer, current_span, open_sink

__all__ = [
    "JsonLinesSink",
    "Redactor",
    "Span",
    "TracedRun",
    "Tracer",
    "current_span",
    "load_runs",
    "open_sink",
    "render_runs",
    "render_tree",
    "trace",
]
