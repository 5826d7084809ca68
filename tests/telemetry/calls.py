"""Calls to record, and a sink that remembers."""

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

from vegakit.events import CallKind, CallTraced
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
