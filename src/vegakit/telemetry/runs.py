"""Runs read back from a file of JSON lines."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

from vegakit.events import CallKind, CallStatus, CallTraced
from vegakit.ids import TraceId
from vegakit.money import Money
from vegakit.telemetry.jsonl import NO_TRACE
from vegakit.telemetry.lines import call_of

__all__ = ["Run", "load_runs"]

_TAIL_BYTES = 64 * 1024 * 1024
_BILLED = {CallKind.MODEL, CallKind.TOOL}


class Run:
    """All calls of one trace, in the order they began."""

    def __init__(self, trace_id: TraceId, calls: Sequence[CallTraced]) -> None:
        self.trace_id = trace_id
        self.calls = sorted(calls, key=lambda call: call.at_ms)

    @cached_property
    def root(self) -> CallTraced:
        """Its first ask, or whatever began first if none has ended yet."""
        return next((call for call in self.calls if call.parent_span is None), self.calls[0])

    @property
    def status(self) -> CallStatus:
        return self.root.status

    @property
    def agent(self) -> str:
        return self.root.agent or self.root.name

    @property
    def at_ms(self) -> int:
        return self.calls[0].at_ms

    @property
    def latency_ms(self) -> float:
        return max(call.at_ms + call.latency_ms for call in self.calls) - self.at_ms

    @property
    def billed(self) -> Sequence[CallTraced]:
        """An ask may repeat the sum of what stands below it."""
        return [call for call in self.calls if call.kind in _BILLED]

    @property
    def tokens(self) -> int:
        return sum(call.input_tokens + call.output_tokens for call in self.billed)

    @property
    def cost(self) -> Money:
        return Money(sum(call.cost for call in self.billed))


def load_runs(path: Path, wanted: str = "") -> list[Run]:
    """Latest last; those whose id begins with `wanted`, or the latest 64 MB of all. Lines that
    cannot be read are passed over. Raises `OSError`."""
    runs: dict[TraceId, dict[str, CallTraced]] = {}
    for line in _lines(path, wanted):
        call = call_of(line)
        if call and call.trace_id != NO_TRACE and call.trace_id.startswith(wanted):
            runs.setdefault(call.trace_id, {})[call.span_id] = call
    found = [Run(trace_id, [*calls.values()]) for trace_id, calls in runs.items()]
    return sorted(found, key=lambda run: run.at_ms)


def _lines(path: Path, wanted: str) -> Iterator[bytes]:
    mark = wanted.encode(errors="replace")
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(0 if wanted else max(0, size - _TAIL_BYTES))
        yield from (line for line in file if mark in line)
