"""The dataflow graph as text: a tree in the terminal, in which steps with the same number may run
at once, and a file for Graphviz.
"""

import json
from collections.abc import Iterator, Sequence
from textwrap import wrap

from vegakit.cli.look import PIPE, Look, Paint, Tone, cells, cut, one_line
from vegakit.lang import (
    DataflowGraph,
    DataflowLink,
    DataflowStep,
    LinkKind,
    ShownStep,
    StepKind,
    deciding_links,
    shown_steps,
    side_by_side,
)

# The flow of a program as a tree in the terminal: what has the same number may run at once.


_BOLD, _DIM = Tone.STRONG, Tone.FAINT
_WAVES = ("36", "32", "33", "35", "34")
"""Colours of the terminal's own palette; each wave has the next."""
_SIGNS = {"at once": "∥", "in turn": "↻", "": " "}
_WIDEST, _NARROWEST = 48, 24
_HEAD = "Step Line  "
_GAP = "  "
_LABEL = len("longest chain")


def render_flows(flows: Sequence[DataflowGraph], name: str, look: Look = PIPE) -> str:
    """Draw dataflow graphs as text. The width of the look is where long notes are broken."""
    paint, width = look.paint, look.width
    parts = [_flow(flow, name, paint, width) for flow in flows if flow.steps or flow.too_large]
    if any(shown_steps(flow) for flow in flows):
        signs = "same number: may run side by side   ∥ all rounds at once   ↻ round after round"
        told = [signs] if width is None or len(signs) <= width else signs.split("   ")
        parts.append("\n".join(paint(line, _DIM) for line in told))
    return look.text("\n\n".join(parts))


def _flow(flow: DataflowGraph, name: str, paint: Paint, width: int | None) -> str:
    where = "" if flow.file == name else f"{flow.file}:"
    head = f"{paint(flow.name, _BOLD)}, line {one_line(where)}{flow.line}: "
    if flow.too_large:
        return f"{head}too large to be explained; split it into functions"
    rows = shown_steps(flow)
    return "\n".join(
        [head + counted(flow), *_table(flow, rows, paint, width), *_ends(flow, paint, width)]
    )


def counted(flow: DataflowGraph) -> str:
    """Return how many calls a function makes in how many steps."""
    calls, steps = sum(map(len, flow.waves)), len(flow.waves)
    if not calls:
        return "nothing in it takes time"
    told_calls = f"{calls} call{'' if calls == 1 else 's'}"
    return f"{told_calls} in {steps} step{'' if steps == 1 else 's'}"


def _table(
    flow: DataflowGraph, rows: Sequence[ShownStep], paint: Paint, width: int | None
) -> Iterator[str]:
    texts = [
        lead + _what(flow.steps[row.step]) for lead, row in zip(_leads(rows), rows, strict=True)
    ]
    room = _WIDEST if width is None else max(_NARROWEST, min(_WIDEST, width // 2))
    widest = min(room, max(map(len, texts), default=0))
    yield paint(_HEAD + "What".ljust(widest) + _GAP + "Waits", _DIM)
    for row, text in zip(rows, texts, strict=True):
        left = None if width is None else max(width - len(_HEAD) - widest - len(_GAP), 10)
        yield _row(flow.steps[row.step], row, _cut(text, widest), paint, left)


def _row(step: DataflowStep, row: ShownStep, text: str, paint: Paint, left: int | None) -> str:
    style = "" if row.wave is None else _WAVES[(row.wave - 1) % len(_WAVES)]
    number = "" if row.wave is None else f"{row.wave}{_SIGNS[row.rounds]}"
    notes = one_line(" · ".join(row.notes))
    first, *rest = [notes] if left is None or not notes else wrap(notes, left)
    lead = f"{paint(number.rjust(4), style)} {step.line:>4}  "
    more = (" " * (len(_HEAD) + cells(text) + len(_GAP)) + each for each in rest)
    return "\n".join([f"{lead}{text}{_GAP}{first}".rstrip(), *more])


def _what(step: DataflowStep) -> str:
    return "print" if step.kind is StepKind.PRINT else one_line(step.what)


def _cut(text: str, width: int) -> str:
    shown = cut(text, width)
    return shown + " " * (width - cells(shown))


def _leads(rows: Sequence[ShownStep]) -> list[str]:
    """The lines of the tree before each row."""
    last = {row.parent: row.step for row in rows}
    parents = {row.step: row.parent for row in rows}
    return [_lead(row, parents, last) for row in rows]


def _lead(row: ShownStep, parents: dict[int, int | None], last: dict[int | None, int]) -> str:
    if row.parent is None:
        return ""
    lead, one = "└─ " if last[row.parent] == row.step else "├─ ", row.parent
    while (parent := parents[one]) is not None:
        lead = ("   " if last[parent] == one else "│  ") + lead
        one = parent
    return lead


def _ends(flow: DataflowGraph, paint: Paint, width: int | None) -> Iterator[str]:
    repeats = {row.step: row.rounds for row in shown_steps(flow)}
    numbers = {wave: number for number, wave in enumerate(flow.waves, 1)}
    waves = [f"{numbers[wave]}: line {_lines(flow, wave, repeats)}" for wave in side_by_side(flow)]
    if waves:
        yield from _labelled("at once", " · ".join(waves), paint, width)
    if len(flow.chain) > 1:
        chain = " → ".join(str(flow.steps[one].line) for one in flow.chain)
        yield from _labelled("longest chain", f"line {chain}", paint, width)


def _labelled(label: str, text: str, paint: Paint, width: int | None) -> Iterator[str]:
    room = None if width is None else max(_NARROWEST, width - _LABEL - len(_GAP))
    first, *more = [text] if room is None else wrap(text, room)
    yield f"{paint(label, _BOLD)}{' ' * (_LABEL - len(label))}{_GAP}{first}"
    yield from (" " * (_LABEL + len(_GAP)) + line for line in more)


def _lines(flow: DataflowGraph, wave: Sequence[int], repeats: dict[int, str]) -> str:
    rounds = {one: " (all rounds)" if repeats[one] == "at once" else "" for one in wave}
    lines = dict.fromkeys(f"{flow.steps[one].line}{rounds[one]}" for one in wave)
    return ", ".join(lines)


# The flow of a program for Graphviz: `vega explain p.vega --dot | dot -Tpng`.


_LOOKS = {
    LinkKind.NEEDS: "color=blue",
    LinkKind.CONFLICT: "color=red",
    LinkKind.SAME: "color=red",
    LinkKind.BARRIER: "color=orange,penwidth=2",
    LinkKind.DECIDED: "color=purple,style=dotted",
    LinkKind.ORDER: "color=gray,style=dashed",
}


def as_dot(flows: Sequence[DataflowGraph]) -> str:
    """Return dataflow graphs for Graphviz."""
    lines = ["digraph flow {", "  node [shape=box, fontname=monospace];", "  compound=true;"]
    for number, flow in enumerate(flows):
        rows = {row.step: row for row in shown_steps(flow)}
        if rows:
            lines += _cluster(f"f{number}", f"{flow.name}, line {flow.line}", "  ")
            below: dict[int | None, list[ShownStep]] = {}
            for row in rows.values():
                below.setdefault(row.parent, []).append(row)
            lines += _below(flow, number, None, below, "    ")
            lines += [_edge(number, link) for link in _links(flow, rows)]
            lines.append("  }")
    return "\n".join([*lines, "}"])


def _cluster(name: str, label: str, indent: str) -> Iterator[str]:
    yield f"{indent}subgraph cluster_{name} {{"
    yield f"{indent}  label={_quoted(label)};"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _below(
    flow: DataflowGraph,
    number: int,
    parent: int | None,
    rows: dict[int | None, list[ShownStep]],
    indent: str,
) -> Iterator[str]:
    for row in rows[parent]:
        name, label = f"s{number}_{row.step}", _label(flow, row)
        if row.step in rows:
            yield from _cluster(name, label, indent)
            yield f"{indent}  {name} [shape=point];"
            yield from _below(flow, number, row.step, rows, indent + "  ")
            yield f"{indent}}}"
        else:
            yield f"{indent}{name} [label={_quoted(label)}];"


def _label(flow: DataflowGraph, row: ShownStep) -> str:
    step = flow.steps[row.step]
    what = "print" if step.kind is StepKind.PRINT else step.what
    wave = "" if row.wave is None else f"{row.wave}. "
    return f"{wave}{what} (line {step.line})"


def _links(flow: DataflowGraph, rows: dict[int, ShownStep]) -> Iterator[DataflowLink]:
    for links in deciding_links(flow):
        yield from (link for link in links if link.before in rows and link.after in rows)


def _edge(number: int, link: DataflowLink) -> str:
    ends = f"s{number}_{link.before} -> s{number}_{link.after}"
    return f"    {ends} [label={_quoted(link.text)},{_LOOKS[link.why]}];"
