"""Calls to record, and a sink that remembers."""

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

from vegakit.events import CallKind, CallStatus, CallTraced
from vegakit.ids import SpanId, TraceId
from vegakit.money import Money

T = TypeVar("T")

AT_MS = 1_750_000_000_123


def run(work: Awaitable[T]) -> T:
    async def waiting() -> T:
        return await work

    return asyncio.run(waiting())


def call(number: int = 1, **facts: Any) -> CallTraced:
    given: dict[str, Any] = {
        "trace_id": TraceId("a" * 32),
        "span_id": SpanId(f"{number:016x}"),
        "kind": CallKind.MODEL,
        "name": "anthropic:claude",
        "at_ms": AT_MS + number,
        "latency_ms": 2341.0,
    }
    return CallTraced(**given | facts)


def paid(number: int = 1, **facts: Any) -> CallTraced:
    usage = {"input_tokens": 150, "output_tokens": 892, "cost": Money(4_300_000)}
    return call(number, agent="Coder", model="anthropic:claude", **usage | facts)


class MemorySink:
    def __init__(self) -> None:
        self.calls: list[CallTraced] = []
        self.closed = False

    def record(self, call: CallTraced) -> None:
        self.calls.append(call)

    async def aclose(self) -> None:
        self.closed = True


ASK = call(
    1, kind=CallKind.ASK, name="ask", agent="Coder", latency_ms=5000.0, cost=Money(8_600_000)
)
FIRST = paid(2, parent_span=ASK.span_id, retries=2)
TOOL = call(
    3,
    kind=CallKind.TOOL,
    name="read",
    parent_span=ASK.span_id,
    status=CallStatus.FAILED,
    error="no such\nfile",
    latency_ms=12.0,
    agent="Coder",
)
INSIDE = call(4, kind=CallKind.EVENT, name="opened", parent_span=TOOL.span_id, latency_ms=0.0)
LAST = paid(5, parent_span=ASK.span_id)
CALLS = [FIRST, INSIDE, TOOL, LAST, ASK]
"""A run: an ask with a tool between two model calls."""
