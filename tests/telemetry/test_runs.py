"""Runs read back from a file of traces."""

from pathlib import Path

import pytest

from tests.telemetry.calls import ASK, AT_MS, CALLS, FIRST, INSIDE, LAST, TOOL, call
from vegakit.events import CallKind, CallStatus, CallTraced
from vegakit.ids import SpanId, TraceId
from vegakit.telemetry import TracedRun, line_of, load_runs
from vegakit.telemetry.jsonl import NO_TRACE


def write(path: Path, *calls: CallTraced) -> Path:
    path.write_bytes(b"".join(map(line_of, calls)))
    return path


def test_runs_come_back_in_order_of_time(tmp_path: Path) -> None:
    """Damaged lines and notes are passed over; a line that is there twice counts once."""
    other = call(0, trace_id=TraceId("b" * 32), name="other", kind=CallKind.SPAN)
    path = write(tmp_path / "t", *CALLS, LAST, call(9, trace_id=NO_TRACE), other)
    path.write_bytes(b'{"torn\n\n' + path.read_bytes() + b'{"torn')
    first, second = load_runs(path)
    assert (first.agent, first.tokens, first.cost) == ("other", 0, 0)
    assert (second.agent, second.tokens, second.cost) == ("Coder", 2084, 8_600_000)
    assert second.calls == [ASK, FIRST, TOOL, INSIDE, LAST]
    assert (second.at_ms, second.latency_ms) == (AT_MS + 1, 5000)
    assert second.status is CallStatus.OK


def test_a_run_below_a_span_of_somebody_else_is_told_by_its_asks() -> None:
    """Of which there may be several: it went as the first that went wrong. What is lost of a run
    does not count as one."""
    above = SpanId("f" * 16)
    asks = [
        call(n, kind=CallKind.ASK, name="ask", agent=agent, parent_span=above, status=status)
        for n, agent, status in [
            (1, "Coder", CallStatus.OK),
            (2, "Tester", CallStatus.REFUSED),
            (3, "Coder", CallStatus.FAILED),
        ]
    ]
    inside = call(4, parent_span=asks[0].span_id, at_ms=asks[0].at_ms)
    wasted = call(5, parent_span=SpanId("e" * 16), status=CallStatus.CANCELLED)
    found = TracedRun(ASK.trace_id, [inside, wasted, *asks])
    assert (found.agent, found.status) == ("Coder, Tester", CallStatus.REFUSED)
    assert TracedRun(ASK.trace_id, [inside, wasted]).agent == "anthropic:claude"


def test_one_run_is_found_by_the_beginning_of_its_id(tmp_path: Path) -> None:
    """Not by an id that merely holds it."""
    other = call(9, trace_id=TraceId("b" + "a" * 31))
    path = write(tmp_path / "t", FIRST, other)
    assert [found.trace_id for found in load_runs(path, "aaa")] == ["a" * 32]
    assert load_runs(path, "ccc") == []


def test_a_missing_file_is_the_callers_to_explain(tmp_path: Path) -> None:
    """The command says what to type."""
    with pytest.raises(FileNotFoundError):
        load_runs(tmp_path / "t")
