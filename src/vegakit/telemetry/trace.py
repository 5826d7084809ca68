"""Your own spans and events in the trace of the run you are called from, as in a tool.

    from vegakit import trace

    with trace.span("index"):
        trace.set_attribute("files", 12)
        trace.event("half done")

Outside of a run they do nothing.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from vegakit.telemetry.spans import Span, current_tracer


def span(name: str) -> AbstractContextManager[Span | None]:
    """Open a span; outside of a run it records nothing."""
    tracer = current_tracer()
    return tracer.span(name) if tracer else nullcontext()


def event(message: str) -> None:
    """Record a moment of the run."""
    if tracer := current_tracer():
        tracer.event(message)


def set_attribute(key: str, value: Any) -> None:  # noqa: ANN401
    """Set an attribute of the current span."""
    if tracer := current_tracer():
        tracer.set_attribute(key, value)
