"""Records of what happened, for people and their tools (adapter, host), and where they go.

Every sink of this room hides keys by itself, and content unless its `Redactor` lets it pass. A sink
takes a record at once and writes it in the background. Spans are part of every call; files and
exporters are loaded when a sink is opened.
"""

from vegakit.lazy import lazy_exports
from vegakit.telemetry import trace
from vegakit.telemetry.redaction import Redactor
from vegakit.telemetry.spans import Span, Tracer, current_span, open_sink

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vegakit.telemetry.jsonl import (
        JsonLinesSink,
        TracedRun,
        load_runs,
        render_runs,
        render_tree,
    )

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

__getattr__, _ = lazy_exports(
    __name__, {"jsonl": "JsonLinesSink TracedRun load_runs render_runs render_tree"}
)
