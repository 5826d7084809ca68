"""A run as a tree, and runs as a table: plain text with time, tokens and cost."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from msgspec import Struct

from vegakit.events import CallKind, CallStatus, CallTraced
from vegakit.ids import SpanId
from vegakit.money import Money, show
from vegakit.telemetry.redaction import Redactor
from vegakit.telemetry.runs import Run

__all__ = ["render_runs", "render_tree"]

_PLAIN = "\x1b[0m"
_COLOURS = {
    CallStatus.OK: "",
    CallStatus.FAILED: "\x1b[31m",
    CallStatus.REFUSED: "\x1b[33m",
    CallStatus.CANCELLED: "\x1b[2m",
}
_HEAD = ("ID", "STARTED", "AGENT", "STATUS", "CALLS", "TOKENS", "COST")
_MOST_ERROR = 200
_WIDEST_INDENT = 120


class _Node(Struct):
    call: CallTraced
    lead: str = ""
    children: "list[_Node]" = []
    tokens: tuple[int, int] = (0, 0)
    cost: int = 0


def render_tree(
    calls: Iterable[CallTraced], *, colour: bool = False, redactor: Redactor | None = None
) -> str:
    """Sums stand at asks and spans; what the calls below them cost is counted once."""
    hide = (redactor or Redactor()).redact_call
    nodes = _in_order(hide(call) for call in calls)
    for node in reversed(nodes):
        _add_up(node)
    rows = [(node.lead + _label(node.call), *_figures(node)) for node in nodes]
    statuses = [node.call.status for node in nodes]
    return _table(rows, statuses, colour=colour)


def render_runs(
    runs: Sequence[Run], *, colour: bool = False, redactor: Redactor | None = None
) -> str:
    redact = (redactor or Redactor()).redact
    rows = [_run_row(run, redact(run.agent)) for run in runs]
    statuses = [CallStatus.OK, *(run.status for run in runs)]
    return _table([_HEAD, *rows], statuses, colour=colour)


def _in_order(calls: Iterable[CallTraced]) -> list[_Node]:
    """As they are printed. A call whose parent was not recorded stands at the top."""
    nodes = {call.span_id: _Node(call) for call in sorted(calls, key=lambda call: call.at_ms)}
    tops: list[_Node] = []
    for node in nodes.values():
        parent = nodes.get(node.call.parent_span or SpanId(""))
        (parent.children if parent else tops).append(node)
    ordered: list[_Node] = []
    waiting = [(node, "") for node in reversed(tops)]
    while waiting:
        node, indent = waiting.pop()
        ordered.append(node)
        last = node.children[-1] if node.children else None
        for child in reversed(node.children):
            child.lead = indent + ("└─ " if child is last else "├─ ")
            deeper = indent + ("   " if child is last else "│  ")
            waiting.append((child, deeper[-_WIDEST_INDENT:]))
    return ordered


def _add_up(node: _Node) -> None:
    call = node.call
    billed = call.kind in {CallKind.MODEL, CallKind.TOOL}
    own = (call.input_tokens, call.output_tokens, call.cost) if billed else (0, 0, 0)
    below = [(*child.tokens, child.cost) for child in node.children]
    given, taken, cost = (sum(column) for column in zip(own, *below, strict=True))
    node.tokens, node.cost = (given, taken), cost


def _label(call: CallTraced) -> str:
    name = call.name if call.kind is not CallKind.ASK else call.agent or call.name
    return f"{call.kind} {_one_line(name)}"


def _figures(node: _Node) -> tuple[str, str, str, str]:
    call = node.call
    tokens = "{:,} → {:,}".format(*node.tokens) if any(node.tokens) else ""
    retries = f" retried {call.retries}×" if call.retries else ""
    status = "" if call.status is CallStatus.OK else str(call.status)
    error = f": {_one_line(call.error)}" if call.error else ""
    time = "" if call.kind is CallKind.EVENT else _duration(call.latency_ms)
    money = show(Money(node.cost)) if node.cost else ""
    return time, tokens, money, f"{status}{retries}{error}".strip()


def _run_row(run: Run, agent: str) -> tuple[str, ...]:
    started = datetime.fromtimestamp(run.at_ms / 1000, UTC)
    return (
        _one_line(run.trace_id[:12]),
        f"{started:%Y-%m-%d %H:%M:%S}Z",
        _one_line(agent),
        str(run.status),
        str(len(run.billed)),
        f"{run.tokens:,}",
        show(run.cost),
    )


def _table(rows: Sequence[Sequence[str]], statuses: Sequence[CallStatus], *, colour: bool) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    if not colour:
        return "\n".join(lines)
    marks = [_COLOURS[status] for status in statuses]
    return "\n".join(
        f"{mark}{line}{_PLAIN}" if mark else line for mark, line in zip(marks, lines, strict=True)
    )


def _duration(ms: float) -> str:
    return f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.2f} s"


def _one_line(text: str) -> str:
    """What a model wrote may not steer the terminal."""
    clean = "".join(letter if letter.isprintable() else " " for letter in text[:_MOST_ERROR])
    return clean + ("…" if len(text) > _MOST_ERROR else "")
