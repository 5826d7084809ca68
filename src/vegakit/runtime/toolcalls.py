"""Calling a tool: within its time, its failure a value, and all it says harmless to read."""

import asyncio
from collections.abc import Mapping
from typing import Any, cast

from vegakit.agent import PlannedCall, ToolOutcome
from vegakit.events import CallKind, CallStatus
from vegakit.ports import Tool
from vegakit.telemetry import Span, Tracer
from vegakit.tools import sanitise

__all__ = ["call_tool"]


async def call_tool(
    tool: Tool, plan: PlannedCall, deps: object, tracer: Tracer, parent: Span
) -> ToolOutcome:
    span = tracer.begin(CallKind.TOOL, plan.call.name, parent)
    status, error = CallStatus.CANCELLED, ""
    try:
        outcome = await _outcome(tool, plan.call.arguments, deps, tracer, span)
        status = CallStatus.FAILED if outcome.is_error else CallStatus.OK
        error = outcome.content if outcome.is_error else ""
    finally:
        tracer.end(span, status, error=error)
    return outcome


async def _outcome(
    tool: Tool, arguments: object, deps: object, tracer: Tracer, span: Span
) -> ToolOutcome:
    """The tool runs as a task of its own, so that whatever it raises is looked at, not caught."""
    with tracer.within(span):
        task = asyncio.ensure_future(_run(tool, cast("Mapping[str, Any]", arguments), deps))
    try:
        await asyncio.wait([task], timeout=tool.timeout_ms / 1000)
        if not task.done():
            return ToolOutcome(f"timed out after {tool.timeout_ms} ms", is_error=True)
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
    if task.cancelled():
        return ToolOutcome("was cancelled", is_error=True)
    if (raised := task.exception()) is not None:
        return ToolOutcome(sanitise(f"{type(raised).__name__}: {raised}"), is_error=True)
    return ToolOutcome(sanitise(task.result()))


async def _run(tool: Tool, arguments: Mapping[str, Any], deps: object) -> str:
    return await tool.call(arguments, deps)
