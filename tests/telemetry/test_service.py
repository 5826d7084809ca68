"""The web service of the examples: one request is one trace, as a collector receives it.

It is driven over a socket, and what it sends is read by OpenTelemetry's own messages. The page on
observing shows the tree that is drawn here.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from campaigns.telemetry_receivers import Received, ReceivedSpan, http_receiver

from tests.patience import until
from tests.telemetry.calls import run
from vegakit.telemetry import load_runs

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PAGE = ROOT / "docs" / "how-to" / "observe.md"
DRAWN = re.compile(r"^```text\n(POST .*?)^```", re.DOTALL | re.MULTILINE)


@pytest.fixture
def collector() -> Iterator[Received]:
    with http_receiver() as received:
        yield received


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def posted(port: int, path: str, headers: dict[str, str]) -> dict[str, Any]:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("POST", path, headers=headers)
        answer = connection.getresponse()
        assert answer.status == 200
        return json.loads(answer.read())
    finally:
        connection.close()


def is_up(port: int) -> bool:
    with socket.socket() as found:
        return found.connect_ex(("127.0.0.1", port)) == 0


def served(folder: Path, endpoint: str, requests: int, **variables: str) -> None:
    """Serve the example in a process of its own, send it requests, and let it end."""
    port = free_port()
    env = os.environ | {
        "HOME": str(folder),
        "VEGA_DATA_DIR": str(folder / "data"),
        "VEGA_MODELS_FAST": "scripted:service.script.json",
        "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
        **variables,
    }
    command = [sys.executable, "-m", "uvicorn", "service:app", "--port", str(port)]
    log = folder / "uvicorn.log"
    with log.open("wb") as said:
        server = subprocess.Popen(command, cwd=EXAMPLES, env=env, stdout=said, stderr=said)
    try:
        run(until(lambda: is_up(port) or server.poll() is not None, within_s=100))
        assert server.poll() is None, log.read_text()
        for order in range(17, 17 + requests):
            # The second one comes from somebody who traces, too.
            headers = {} if order == 17 else {"traceparent": f"00-{'c' * 32}-{'b' * 16}-01"}
            answer = posted(port, f"/orders/{order}/reply", headers)
            assert answer == {"reply": "Dear customer, it is on its way.", "verdict": "yes"}
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(60)


def drawn(spans: list[ReceivedSpan]) -> str:
    """One trace as a tree: each span below its parent with its service, its events below it."""
    lines: list[str] = []

    def draw(span: ReceivedSpan, head: str, rest: str) -> None:
        lines.append(f"{head}{span.name}".ljust(40) + span.service)
        below = [*span.events, *(one for one in ordered if one.parent == span.span_id)]
        for number, one in enumerate(below, 1):
            turn, deeper = ("└─ ", "   ") if number == len(below) else ("├─ ", "│  ")
            if isinstance(one, str):
                lines.append(f"{rest}{turn}event: {one}")
            else:
                draw(one, rest + turn, rest + deeper)

    # Stable: what began in one millisecond stays in the order in which it ended.
    ordered = sorted(spans, key=lambda one: one.start_ns)
    known = {span.span_id for span in spans}
    for span in ordered:
        if span.parent not in known:
            draw(span, "", "")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def by_trace(spans: list[ReceivedSpan]) -> list[list[ReceivedSpan]]:
    traces: dict[str, list[ReceivedSpan]] = {}
    for span in spans:
        traces.setdefault(span.trace_id, []).append(span)
    return [*traces.values()]


def test_a_request_is_one_trace(collector: Received, tmp_path: Path) -> None:
    """Three asks, a tool, and what the tool does by itself; every span has its parent."""
    served(tmp_path, collector.endpoint, 2)
    first, second = by_trace(collector.spans)
    names = {span.span_id: span.name for span in first} | {"": None}
    above = [(span.name, names[span.parent]) for span in first]
    assert sorted(above) == sorted(
        [
            ("POST /orders/{order}/reply", None),
            ("invoke_agent reader", "POST /orders/{order}/reply"),
            ("chat service.script.json", "invoke_agent reader"),
            ("execute_tool look_up", "invoke_agent reader"),
            ("SELECT orders", "execute_tool look_up"),
            ("chat service.script.json", "invoke_agent reader"),
            ("invoke_agent writer", "POST /orders/{order}/reply"),
            ("chat service.script.json", "invoke_agent writer"),
            ("invoke_agent checker", "POST /orders/{order}/reply"),
            ("chat service.script.json", "invoke_agent checker"),
        ]
    )
    (tool,) = (span for span in first if span.name == "execute_tool look_up")
    assert tool.events == ("found",)
    assert drawn(first) == drawn(second)
    above_all = {span.parent for span in second if span.name.startswith("POST")}
    assert ({span.trace_id for span in second}, above_all) == ({"c" * 32}, {"b" * 16})
    shown = DRAWN.search(PAGE.read_text(encoding="utf-8"))
    assert shown, "the page shows no trace"
    assert shown[1] == drawn(first), f"the page shows another trace than:\n{drawn(first)}"


def test_vega_trace_has_it_under_the_same_id(collector: Received, tmp_path: Path) -> None:
    """Without the spans of the service itself, which only the collector gets."""
    served(tmp_path, collector.endpoint, 1, VEGA_TELEMETRY_SQLITE=str(tmp_path / "traces.db"))
    (found,) = load_runs(tmp_path / "traces.db")
    assert found.agent == "reader, writer, checker"
    assert {span.trace_id for span in collector.spans} == {found.trace_id}
    ours = {span.span_id for span in collector.spans if span.service == "vega"}
    events = {one.span_id for one in found.calls if one.name == "found"}
    assert {one.span_id for one in found.calls} == ours | events
