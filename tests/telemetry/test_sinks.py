"""Sinks around sinks."""

from pathlib import Path

import pytest

from tests.telemetry.calls import MemorySink, call, paid, run
from vegakit.config import load
from vegakit.events import CallStatus
from vegakit.ids import TraceId
from vegakit.telemetry import FanOutSink, Redactor, load_runs, open_sink
from vegakit.telemetry.spans import SampledSink


def runs(count: int) -> list[TraceId]:
    return [TraceId(f"{number * 0x9E3779B97F4A7C15:032x}") for number in range(count)]


@pytest.mark.parametrize(("ratio", "low", "high"), [(0, 0, 0), (0.1, 70, 130), (1, 1000, 1000)])
def test_a_share_of_the_runs_is_recorded(ratio: float, low: int, high: int) -> None:
    """Of each its whole trace, or nothing."""
    memory = MemorySink()
    sink = SampledSink(memory, ratio)
    for trace_id in runs(1000):
        sink.record(call(1, trace_id=trace_id))
        sink.record(call(2, trace_id=trace_id))
    kept = [one.trace_id for one in memory.calls]
    assert low <= len({*kept}) <= high
    assert len(kept) == 2 * len({*kept})


def test_failures_are_always_recorded() -> None:
    """Whatever the share."""
    memory = MemorySink()
    sink = SampledSink(memory, 0)
    always = [call(status=CallStatus.REFUSED), call(error="odd")]
    for one in [*always, call(), paid()]:
        sink.record(one)
    assert memory.calls == always


def test_several_sinks_get_the_same() -> None:
    """And are closed together, through whatever is around them."""
    a, b = MemorySink(), MemorySink()
    sink = SampledSink(FanOutSink([a, b]), 1)
    sink.record(call())
    run(sink.aclose())
    assert a.calls == b.calls == [call()]
    assert a.closed
    assert b.closed


def test_the_settings_open_a_sink(tmp_path: Path) -> None:
    """A file of JSON lines, and nothing beyond this machine."""
    settings = load({"telemetry.jsonl": str(tmp_path / "t")})
    sink = open_sink(settings, Redactor())
    sink.record(paid())
    run(sink.aclose())
    assert [found.calls for found in load_runs(tmp_path / "t")] == [[paid()]]


def test_the_settings_open_nothing() -> None:
    """When neither a file nor a collector is named; records may come all the same."""
    sink = open_sink(load({"telemetry.jsonl": ""}), Redactor())
    sink.record(paid())
    run(sink.aclose())


def test_the_settings_open_a_collector() -> None:
    """Nothing is sent before there is something to send."""
    settings = load({"telemetry.jsonl": "", "telemetry.otlp": "http://127.0.0.1:9"})
    run(open_sink(settings, Redactor()).aclose())
