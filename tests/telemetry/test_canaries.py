"""No secret reaches any sink: every canary through every one of them."""

import base64
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.telemetry.calls import call, run
from tests.telemetry.canaries import CANARIES
from vegakit.cli.look import Look
from vegakit.cli.trace import render_calls, render_traces, run_page
from vegakit.events import CallStatus, CallTraced
from vegakit.telemetry import JsonLinesSink, Redactor, SqliteSink, Tracer, load_runs
from vegakit.telemetry.otel import OtelSink
from vegakit.testing import FakeClock

GIVEN = "a-key-of-no-known-format/é+"
ENCODED = GIVEN.encode()
FORMS = {
    "given": GIVEN,
    "base64": base64.b64encode(ENCODED).decode(),
    "base64 inside": base64.b64encode(b"user:" + ENCODED + b"!").decode(),
    "base64 for urls": base64.urlsafe_b64encode(ENCODED).decode(),
    "url": quote(GIVEN, safe=""),
    "hex": ENCODED.hex(),
}
ALL = CANARIES | {name: (form, form[12:-8]) for name, form in FORMS.items()}


def redactor() -> Redactor:
    return Redactor([GIVEN], content=True)


def everywhere(met: str) -> CallTraced:
    return call(
        name=met,
        agent=met,
        model=met,
        finish=met,
        status=CallStatus.FAILED,
        error=f"ValueError: {met}",
        attributes={"header": met, met: [met]},
        content=[{"prompt": f"use {met} please"}],
    )


def json_lines(directory: Path, met: str) -> str:
    sink = JsonLinesSink(directory / "t", redactor())
    sink.record(everywhere(met))
    run(sink.aclose())
    return (directory / "t").read_text(encoding="utf-8")


def sqlite(directory: Path, met: str) -> str:
    sink = SqliteSink(directory / "t", redactor(), now=lambda: 0.0)
    sink.record(everywhere(met))
    run(sink.aclose())
    return (directory / "t").read_bytes().decode(errors="replace")


def open_telemetry(_: Path, met: str) -> str:
    memory, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    sink = OtelSink(provider, redactor=redactor())
    sink.record(everywhere(met))
    run(sink.aclose())
    return "".join(span.to_json() + str(span.attributes) for span in memory.get_finished_spans())


def exception_text(directory: Path, met: str) -> str:
    sink = JsonLinesSink(directory / "t", redactor())
    with pytest.raises(ValueError, match=re.escape(met)), Tracer(sink, FakeClock()).span("x"):
        raise ValueError(met)
    run(sink.aclose())
    return (directory / "t").read_text(encoding="utf-8")


def tree(_: Path, met: str) -> str:
    return render_calls([everywhere(met)], Look(colour=True), redactor())


def tree_from_file(directory: Path, met: str) -> str:
    json_lines(directory, met)
    runs = load_runs(directory / "t")
    return render_calls(runs[0].calls) + render_traces(runs) + str(run_page(runs[0]))


SINKS = (json_lines, sqlite, open_telemetry, exception_text, tree, tree_from_file)


@pytest.mark.parametrize("sink", SINKS)
def test_no_secret_is_stored(sink: Callable[[Path, str], str], tmp_path: Path) -> None:
    """Of 52 canaries; what was written is there and says that something was hidden."""
    for name, (met, secret) in ALL.items():
        (tmp_path / name).mkdir()
        written = sink(tmp_path / name, met)
        assert "[redacted]" in written, name
        for form in (secret, secret.replace("\n", "\\n"), secret.replace("\n", " ")):
            assert form not in written, name


def test_there_are_enough_canaries() -> None:
    """The guarantee asks for twenty formats."""
    assert len(CANARIES) >= 40
