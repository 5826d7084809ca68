"""Sinks around sinks, and the one that the settings ask for."""

import asyncio
from collections.abc import Sequence
from zlib import crc32

from vegakit.config import Settings
from vegakit.events import CallStatus, CallTraced
from vegakit.ports import Sink
from vegakit.telemetry.jsonl import JsonLinesSink
from vegakit.telemetry.otel import OtelSink
from vegakit.telemetry.redaction import Redactor

__all__ = ["FanOutSink", "RedactingSink", "SampledSink", "open_sink"]


class SampledSink:
    """A share of all runs, each whole or not at all; money and failures always pass."""

    def __init__(self, sink: Sink, ratio: float) -> None:
        self._sink = sink
        self._below = ratio * 2**32

    def record(self, call: CallTraced) -> None:
        matters = call.cost or call.error or call.status is not CallStatus.OK
        if matters or crc32(call.trace_id.encode()) < self._below:
            self._sink.record(call)

    async def aclose(self) -> None:
        await self._sink.aclose()


class RedactingSink:
    """For sinks of your own; those of this room redact by themselves."""

    def __init__(self, sink: Sink, redactor: Redactor | None = None) -> None:
        self._sink = sink
        self._redactor = redactor or Redactor()

    def record(self, call: CallTraced) -> None:
        self._sink.record(self._redactor.redact_call(call))

    async def aclose(self) -> None:
        await self._sink.aclose()


class FanOutSink:
    """To all of them; to none is a way to record nothing."""

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self._sinks = tuple(sinks)

    def record(self, call: CallTraced) -> None:
        for sink in self._sinks:
            sink.record(call)

    async def aclose(self) -> None:
        await asyncio.gather(*(sink.aclose() for sink in self._sinks))


def open_sink(settings: Settings, redactor: Redactor) -> Sink:
    """Nothing leaves this machine unless `telemetry.otlp` is set."""
    sinks: list[Sink] = []
    if settings.traces_path:
        sinks.append(JsonLinesSink(settings.traces_path, redactor))
    if settings.telemetry.otlp:
        sinks.append(OtelSink(endpoint=settings.telemetry.otlp, redactor=redactor))
    return SampledSink(FanOutSink(sinks), settings.telemetry.sample)
