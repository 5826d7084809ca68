"""Runs read back, as a list and as a tree."""

from pathlib import Path

import pytest

from tests.telemetry.calls import AT_MS, call, paid
from tests.telemetry.canaries import CANARIES
from vegakit.events import CallKind, CallStatus, CallTraced
from vegakit.ids import SpanId, TraceId
from vegakit.money import Money
from vegakit.telemetry.jsonl import NO_TRACE, line_of, load_runs, render_runs, render_tree

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
)
INSIDE = call(4, kind=CallKind.EVENT, name="opened", parent_span=TOOL.span_id, latency_ms=0.0)
LAST = paid(5, parent_span=ASK.span_id)
CALLS = [FIRST, INSIDE, TOOL, LAST, ASK]

TREE = """\
ask Coder                  5.00 s  300 → 1,784  $0.0086
├─ model anthropic:claude  2.34 s  150 → 892    $0.0043  retried 2×
├─ tool read               12 ms                         failed: no such file
│  └─ event opened
└─ model anthropic:claude  2.34 s  150 → 892    $0.0043"""


def write(path: Path, *calls: CallTraced) -> Path:
    path.write_bytes(b"".join(map(line_of, calls)))
    return path


def test_a_run_is_a_tree() -> None:
    """In the order of time; sums stand above, and nothing is counted twice."""
    assert render_tree(CALLS) == TREE


def test_failures_have_a_colour() -> None:
    """On request; the line is the same."""
    lines = render_tree(CALLS, colour=True).splitlines()
    assert [line for line in lines if "\x1b" in line] == [f"\x1b[31m{TREE.splitlines()[2]}\x1b[0m"]


def test_a_model_cannot_steer_the_terminal() -> None:
    """Nor fill it."""
    text = render_tree([call(name="\x1b[2J\r" + "x" * 1000, error="\x07")])
    assert text.isprintable()
    assert len(text) < 300


def test_a_key_is_hidden_before_a_text_is_cut() -> None:
    """Half a key is a secret too."""
    met, secret = CANARIES["anthropic"]
    text = render_tree([call(error="x" * 185 + f" {met}")])
    assert secret[:8] not in text


def test_calls_without_their_parent_stand_at_the_top() -> None:
    """It is still running, or was not recorded."""
    assert render_tree([LAST, FIRST]).splitlines() == [
        "model anthropic:claude  2.34 s  150 → 892  $0.0043  retried 2×",
        "model anthropic:claude  2.34 s  150 → 892  $0.0043",
    ]


def test_deep_trees_and_circles_end() -> None:
    """A damaged file cannot hang the command."""
    chain = [
        call(n, kind=CallKind.SPAN, name="s", parent_span=SpanId(f"{n - 1:016x}"))
        for n in range(1, 3000)
    ]
    assert len(render_tree(chain).splitlines()) == 2999
    circle = [call(1, parent_span=SpanId(f"{2:016x}")), call(2, parent_span=SpanId(f"{1:016x}"))]
    assert render_tree(circle) == ""
    assert render_tree([]) == ""


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


def test_one_run_is_found_by_the_beginning_of_its_id(tmp_path: Path) -> None:
    """Not by an id that merely holds it."""
    other = call(9, trace_id=TraceId("b" + "a" * 31))
    path = write(tmp_path / "t", FIRST, other)
    assert [found.trace_id for found in load_runs(path, "aaa")] == ["a" * 32]
    assert load_runs(path, "ccc") == []


def test_runs_are_a_table(tmp_path: Path) -> None:
    """With time, agent, status, calls, tokens and cost."""
    assert render_runs(load_runs(write(tmp_path / "t", *CALLS))) == (
        "ID            STARTED               AGENT  STATUS  CALLS  TOKENS  COST\n"
        "aaaaaaaaaaaa  2025-06-15 15:06:40Z  Coder  ok      3      2,084   $0.0086"
    )


def test_a_missing_file_is_the_callers_to_explain(tmp_path: Path) -> None:
    """The command says what to type."""
    with pytest.raises(FileNotFoundError):
        load_runs(tmp_path / "t")
