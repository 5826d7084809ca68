"""Runs read back from files of traces, JSON lines or SQLite."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

from vegakit.events import CallKind, CallStatus, CallTraced
from vegakit.ids import TraceId
from vegakit.money import Money
from vegakit.telemetry.jsonl import NO_TRACE, call_of

SQLITE_MAGIC = b"SQLite format 3\0"

_MOST_LISTED = 1_000_000
_TAIL_BYTES = 64 * 1024 * 1024
_BILLED = {CallKind.MODEL, CallKind.TOOL}


class TracedRun:
    """All calls of one trace, in the order they began."""

    def __init__(self, trace_id: TraceId, calls: Sequence[CallTraced]) -> None:
        self.trace_id = trace_id
        self.calls = sorted(calls, key=lambda call: call.at_ms)

    @cached_property
    def tops(self) -> Sequence[CallTraced]:
        """The calls that nothing recorded is above. Below a span of the caller's own tracing there
        may be several. While the run goes on, or if something was not recorded, others may seem to
        stand at the top: then asks and spans are those that do."""
        known = {call.span_id for call in self.calls}
        lone = [call for call in self.calls if call.parent_span not in known]
        first = [call for call in lone if call.parent_span is None]
        blocks = [call for call in lone if call.kind in {CallKind.ASK, CallKind.SPAN}]
        return first or blocks or lone or self.calls[:1]

    @property
    def status(self) -> CallStatus:
        """Return how the run ended: as the first of its asks that went wrong."""
        wrong = (call.status for call in self.tops if call.status is not CallStatus.OK)
        return next(wrong, CallStatus.OK)

    @property
    def agent(self) -> str:
        """Return the agents that were asked, or the name of the run."""
        return ", ".join(dict.fromkeys(call.agent or call.name for call in self.tops))

    @property
    def at_ms(self) -> int:
        """Return when the run began."""
        return self.calls[0].at_ms

    @property
    def latency_ms(self) -> float:
        """Return how long the run took."""
        return max(call.at_ms + call.latency_ms for call in self.calls) - self.at_ms

    @property
    def billed(self) -> Sequence[CallTraced]:
        """Return the calls that were made. An ask may repeat the sum of what stands below it."""
        return [call for call in self.calls if call.kind in _BILLED and call.was_made]

    @property
    def tokens(self) -> int:
        """Return the tokens that were billed."""
        return sum(call.input_tokens + call.output_tokens for call in self.billed)

    @property
    def cost(self) -> Money:
        """Return what the run cost."""
        return Money(sum(call.cost for call in self.billed))


def load_runs(path: Path, wanted: str = "", last: int = _MOST_LISTED) -> list[TracedRun]:
    """Latest last; those whose id, or that of their recorded run, begins with `wanted`, or the
    `last` ones of all: of JSON lines those in the latest 64 MB. Lines that cannot be read are
    passed over. Raises `OSError`."""
    runs: dict[TraceId, dict[str, CallTraced]] = {}
    with path.open("rb") as file:
        is_database = file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC
    if is_database:
        from vegakit.telemetry.sqlite import read_lines

        lines = read_lines(path, wanted, last)
    else:
        lines = _lines(path, wanted)
    for line in lines:
        call = call_of(line)
        if call and call.trace_id != NO_TRACE and _is_of(call, wanted):
            runs.setdefault(call.trace_id, {})[call.span_id] = call
    found = [TracedRun(trace_id, [*calls.values()]) for trace_id, calls in runs.items()]
    return sorted(found, key=lambda run: run.at_ms)[0 if wanted else -last :]


def _is_of(call: CallTraced, wanted: str) -> bool:
    return call.trace_id.startswith(wanted) or call.run.startswith(wanted)


def _lines(path: Path, wanted: str) -> Iterator[bytes]:
    mark = wanted.encode(errors="replace")
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(0 if wanted else max(0, size - _TAIL_BYTES))
        yield from (line for line in file if mark in line)
