"""`vega trace`: show the last traced runs, or one run as a tree.

Apart from the other commands because it needs only settings and telemetry, and so starts
quickly.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins

from vegakit.cli.look import (
    PIPE,
    Cell,
    Column,
    Look,
    Sign,
    Tone,
    duration,
    look_of,
    middle,
    moment,
    moneys,
    one_line,
    print_json,
    table,
    tokens,
)
from vegakit.cli.main import JSON, Argument, CommandParser
from vegakit.config import load
from vegakit.errors import SettingsError, UserError
from vegakit.events import CallKind, CallStatus, CallTraced
from vegakit.ids import SpanId
from vegakit.money import to_usd
from vegakit.telemetry import Redactor, TracedRun, error_type, load_runs


def trace_command(arguments: Sequence[str]) -> int:
    """Run `vega trace`."""
    chosen = CommandParser(
        prog="vega trace",
        description="Show the last runs, or one run as a tree.",
        arguments=[
            Argument("id", nargs="?", default="", help="the beginning of an id, of vega runs too"),
            Argument(
                "--file",
                type=Path,
                help="a file of traces, JSON lines or SQLite; that of the settings if absent",
            ),
            Argument("--last", type=_count, default=20, metavar="N", help="how many runs; 20"),
            JSON,
        ],
    ).parse_args(arguments)
    path: Path = chosen.file or _settings_path()
    runs = _load(path, chosen.id, chosen.last)
    shown = _chosen(runs, chosen.id, path) if chosen.id else runs
    look = look_of(sys.stdout)
    if chosen.json:
        pages = [run_page(run, whole=bool(chosen.id)) for run in shown]
        print_json(pages[0] if chosen.id and len(pages) == 1 else pages)
    elif chosen.id:
        trees = [render_calls(run.calls, look) for run in shown]
        if any(map(_has_bare_errors, shown)):
            trees.append("\n".join(look.fold(_HINT)))
        print("\n\n".join(trees))
    else:
        print(render_traces(shown, look))
    return 0


_HINT = "errors by name only; to record what they say too: telemetry.content = true"


def _has_bare_errors(run: TracedRun) -> bool:
    """Return whether an error was recorded without its words, as all are without content."""
    has_content = any(call.content is not None for call in run.calls)
    return not has_content and any(
        call.error and call.error == error_type(call) for call in run.calls
    )


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError(f"expected a number from 1; got {text!r}")
    return int(text)


def _settings_path() -> Path:
    path = load().traces_path
    if path is None:
        raise SettingsError(
            'nothing is traced: telemetry.jsonl is ""; write a file\'s name there in vega.toml, '
            "or name a file: vega trace --file traces.jsonl"
        )
    return path


def _load(path: Path, wanted: str, last: int) -> list[TracedRun]:
    try:
        runs = load_runs(path, wanted, last)
    except FileNotFoundError:
        raise UserError(
            f"no run was traced yet: there is no {path}; run an agent first, "
            "or name another file: vega trace --file FILE"
        ) from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    if not runs and not wanted:
        if path.stat().st_size:
            raise UserError(
                f"{path} holds no trace that can be read; name a file that traces were written "
                "to, type: vega trace --file FILE"
            )
        raise UserError(f"{path} holds no run yet; run an agent first")
    return runs


def _chosen(runs: Sequence[TracedRun], wanted: str, path: Path) -> Sequence[TracedRun]:
    """Return the trace of this id, or all traces of the recorded run of this id: each question of
    it, in each of its lives."""
    exact = [found for found in runs if found.trace_id == wanted]
    if len(exact or runs) == 1:
        return exact or runs
    recorded = {call.run for found in runs for call in found.calls}
    if len(recorded) == 1 and next(iter(recorded)).startswith(wanted):
        return runs
    if not runs:
        raise UserError(f"no run in {path} begins with {wanted!r}; to see them, type: vega trace")
    named = [*dict.fromkeys(name for found in runs for name in _named(found, wanted))]
    ids = ", ".join(name[: len(wanted) + 8] for name in named[-5:])
    raise UserError(f"{len(named)} runs begin with {wanted!r}; type more of one of: {ids}")


def _named(found: TracedRun, wanted: str) -> list[str]:
    """Return by which ids it was found: its own, or that of a run that was recorded."""
    names = [found.trace_id, *(call.run for call in found.calls)]
    return [name for name in names if name.startswith(wanted)]


# A run as a tree, and runs as a table: time, tokens and cost.


_SIGNS = {
    CallStatus.OK: (Sign.DONE, Tone.OK),
    CallStatus.FAILED: (Sign.FAILED, Tone.BAD),
    CallStatus.REFUSED: (Sign.REFUSED, Tone.ASK),
    CallStatus.CANCELLED: (Sign.WAITING, Tone.PLAIN),
}
_RUN_COLUMNS = (
    Column("Trace"),
    Column("Started", drop=2),
    Column("Agent", name=True),
    Column("State", drop=1),
    Column("Took", right=True, drop=4),
    Column("Calls", right=True, drop=5),
    Column("Tokens", right=True, drop=3),
    Column("Cost", right=True),
)
_CALL_COLUMNS = (
    Column("Call", name=True),
    Column("Agent", drop=2, name=True),
    Column("State", drop=1),
    Column("Took", right=True, drop=4),
    Column("Tokens", right=True, drop=3),
    Column("Cost", right=True),
)
_WIDEST_INDENT, _WIDEST_NAME = 120, 60


class _Node(Struct):
    call: CallTraced
    lead: str = ""
    children: "list[_Node]" = []
    tokens: tuple[int, int] = (0, 0)
    cost: int = 0


def render_calls(
    calls: Iterable[CallTraced], look: Look = PIPE, redactor: Redactor | None = None
) -> str:
    """Return calls as a tree. Sums stand at asks and spans; what the calls below them cost is
    counted once. The reason of a failure stands on lines of its own."""
    nodes = _counted(calls, redactor)
    costs = moneys([node.cost for node in nodes])
    rows = [_row(node, cost) for node, cost in zip(nodes, costs, strict=True)]
    reasons = {
        n: (_under(node), one_line(node.call.error))
        for n, node in enumerate(nodes)
        if node.call.error
    }
    return table(_CALL_COLUMNS, rows, look, below=reasons) if rows else ""


def render_traces(
    runs: Sequence[TracedRun], look: Look = PIPE, redactor: Redactor | None = None
) -> str:
    """Return the runs as a table."""
    redact = (redactor or Redactor()).redact
    costs = moneys([run.cost for run in runs])
    rows = [
        (
            one_line(run.trace_id[:12]),
            moment(run.at_ms),
            one_line(redact(run.agent)),
            _state(run.status),
            duration(run.latency_ms),
            str(len(run.billed)),
            f"{run.tokens:,}" if run.tokens else "",
            cost,
        )
        for run, cost in zip(runs, costs, strict=True)
    ]
    return table(_RUN_COLUMNS, rows, look)


def run_page(
    run: TracedRun, *, whole: bool = True, redactor: Redactor | None = None
) -> dict[str, Any]:
    """Return a run for programs; `whole` with the tree of its calls."""
    page: dict[str, Any] = {
        "trace_id": run.trace_id,
        "agent": (redactor or Redactor()).redact(run.agent),
        "status": run.status,
        "started": datetime.fromtimestamp(run.at_ms / 1000, UTC).isoformat(),
        "latency_ms": run.latency_ms,
        "calls": len(run.billed),
        "tokens": run.tokens,
        "cost_usd": to_usd(run.cost),
    }
    if whole:
        nodes = _counted(run.calls, redactor)
        below = {child.call.span_id for node in nodes for child in node.children}
        # From the last to the first: what is below a call has its page before the call asks for it.
        pages: dict[SpanId, dict[str, Any]] = {}
        for node in reversed(nodes):
            pages[node.call.span_id] = _call_page(node, pages)
        tops = (node.call.span_id for node in nodes if node.call.span_id not in below)
        page["tree"] = [pages[span] for span in tops]
    return page


def _call_page(node: _Node, pages: dict[SpanId, dict[str, Any]]) -> dict[str, Any]:
    facts: dict[str, Any] = to_builtins(node.call)
    for name in ("trace_id", "parent_span", "at_ms", "reserved", "cost"):
        facts.pop(name, None)
    given, taken = node.tokens
    return facts | {
        "started": datetime.fromtimestamp(node.call.at_ms / 1000, UTC).isoformat(),
        "input_tokens": given,
        "output_tokens": taken,
        "reserved_usd": to_usd(node.call.reserved),
        "cost_usd": to_usd(node.cost),
        "children": [pages[child.call.span_id] for child in node.children],
    }


def _counted(calls: Iterable[CallTraced], redactor: Redactor | None) -> list[_Node]:
    # What was recorded with content was meant to be read.
    hide = (redactor or Redactor(content=True)).redact_call
    nodes = _in_order(hide(call) for call in calls)
    for node in reversed(nodes):
        _add_up(node)
    return nodes


def _in_order(calls: Iterable[CallTraced]) -> list[_Node]:
    """Return the calls as they are printed. A call whose parent was not recorded stands at the
    top."""
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


def _under(node: _Node) -> str:
    """Return the branches beside the lines that stand under a call."""
    below = "│  " if node.children else "   "
    return node.lead.replace("├─ ", "│  ").replace("└─ ", "   ") + below


def _add_up(node: _Node) -> None:
    call = node.call
    billed = call.kind in {CallKind.MODEL, CallKind.TOOL}
    own = (call.input_tokens, call.output_tokens, call.cost) if billed else (0, 0, 0)
    below = [(*child.tokens, child.cost) for child in node.children]
    given, taken, cost = (sum(column) for column in zip(own, *below, strict=True))
    node.tokens, node.cost = (given, taken), cost


def _row(node: _Node, cost: str) -> tuple[Cell | str, ...]:
    call = node.call
    is_ask = call.kind is CallKind.ASK
    name = call.agent or call.name if is_ask else call.name
    is_event = call.kind is CallKind.EVENT
    return (
        f"{node.lead}{call.kind} {middle(one_line(name), _WIDEST_NAME)}",
        "" if is_ask else one_line(call.agent),
        ""
        if is_event and call.status is CallStatus.OK
        else _state(call.status, call.retries, cached=call.cached),
        "" if is_event else duration(call.latency_ms),
        tokens(*node.tokens),
        cost,
    )


def _state(status: CallStatus, retries: int = 0, *, cached: bool = False) -> Cell:
    sign, tone = _SIGNS[status]
    word = "" if status is CallStatus.OK else f" {status}"
    if cached:
        return Cell(f"{sign} cached", tone)
    return Cell(f"{sign}{word}{f' retried {retries}×' if retries else ''}", tone)
