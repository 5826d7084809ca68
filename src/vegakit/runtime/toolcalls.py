"""Calling a tool: when it may, within its time, its failure a value, what it says harmless to read.

What a function of the library or of Python gives to a program is a value and stays as it is: a
program reads it, and what it says to a model or a person is made harmless there.
An error that a model can read is the outcome of a refusal, too: it may try something else.
What a tool brings from elsewhere is put between the marks of what is not to be trusted here, once,
errors included; only our own refusals are said plainly.
"""

import asyncio
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, cast

from msgspec.structs import replace

from vegakit.agent import PlannedCall, ToolOutcome
from vegakit.errors import CapabilityDenied, causes_of
from vegakit.events import CallKind, CallStatus
from vegakit.ids import EffectKey
from vegakit.policy import Untrusted, for_model, sanitise
from vegakit.ports import Tool
from vegakit.runtime.compiled.bridge import PythonTool
from vegakit.runtime.compiled.library import LibraryTool
from vegakit.runtime.oversight import Caller, Oversight, ToolUse
from vegakit.telemetry import Span, Tracer
from vegakit.tools import ToolArgumentsError, brings_text, current_effect

__all__ = ["call_tool"]

_OUR_WORDS = (CapabilityDenied, ToolArgumentsError)


async def call_tool(
    tool: Tool,
    plan: PlannedCall,
    deps: object,
    tracer: Tracer,
    parent: Span,
    oversight: Oversight,
    caller: Caller,
) -> ToolOutcome:
    """With arguments of its own, which nobody can change between an approval and the call."""
    span = tracer.begin(CallKind.TOOL, plan.call.name, parent)
    status, error = CallStatus.CANCELLED, ""
    arguments = cast("Mapping[str, Any]", deepcopy(plan.call.arguments))
    use = ToolUse(tool, arguments, caller, span.trace_id)
    try:
        refused = await _refusal(oversight, use)
        outcome = refused or await _watched(use, deps, tracer, span, oversight)
        status = CallStatus.REFUSED if refused else _status(outcome)
        error = outcome.content if outcome.is_error else ""
    finally:
        tracer.end(span, status, error=error)
    return outcome


async def _refusal(oversight: Oversight, use: ToolUse) -> ToolOutcome | None:
    try:
        reason = await oversight.refusal(use)
    except ToolArgumentsError as wrong:
        return ToolOutcome(sanitise(f"{type(wrong).__name__}: {wrong}"), is_error=True)
    if not reason:
        return None
    return ToolOutcome(sanitise(f"{CapabilityDenied.__name__}: {reason}"), is_error=True)


async def _watched(
    use: ToolUse, deps: object, tracer: Tracer, span: Span, oversight: Oversight
) -> ToolOutcome:
    """Audited as the tool said it, and marked for the model alone."""
    status, said = CallStatus.CANCELLED, ""
    try:
        outcome, is_its_own = await _outcome(use, deps, tracer, span)
        status, said = _status(outcome), outcome.content
    finally:
        await oversight.on_called(use, status, said)
    if is_its_own and brings_text(use.tool):
        return replace(outcome, content=for_model(Untrusted(outcome.content)))
    return outcome


def _status(outcome: ToolOutcome) -> CallStatus:
    return CallStatus.FAILED if outcome.is_error else CallStatus.OK


async def _outcome(
    use: ToolUse, deps: object, tracer: Tracer, span: Span
) -> tuple[ToolOutcome, bool]:
    """And whether these are words of the tool, not ours. The tool runs as a task of its own, so
    that whatever it raises is looked at, not caught."""
    with tracer.within(span):
        task = asyncio.ensure_future(_run(use, deps))
    timeout_ms = use.tool.timeout_ms
    try:
        await asyncio.wait([task], timeout=timeout_ms / 1000)
        if not task.done():
            return ToolOutcome(f"timed out after {timeout_ms} ms", is_error=True), False
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
    if task.cancelled():
        return ToolOutcome("was cancelled", is_error=True), False
    if (raised := task.exception()) is not None:
        cause = tuple(map(EffectKey, causes_of(raised)))
        text = sanitise(f"{type(raised).__name__}: {raised}")
        return ToolOutcome(text, is_error=True, cause=cause), not isinstance(raised, _OUR_WORDS)
    result = task.result()
    is_value = isinstance(use.tool, LibraryTool | PythonTool)
    return ToolOutcome(result if is_value else sanitise(result)), True


async def _run(use: ToolUse, deps: object) -> str:
    current_effect.set(use.caller.place)
    return await use.tool.call(use.arguments, deps)
