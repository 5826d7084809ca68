"""The dataflow graph as an SVG picture: where its boxes stand, and how they are drawn.

A box stands below all it waits for. A line that passes a row gets a gap in it, so that it
crosses no box. The picture is readable on light and dark pages and loads nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape

from vegakit.cli.drawing.text import counted
from vegakit.cli.look import one_line
from vegakit.lang import (
    DataflowGraph,
    DataflowStep,
    LinkKind,
    ShownStep,
    StepKind,
    deciding_links,
    shown_steps,
)

# Where the boxes of a flow stand: what waits stands below what it waits for.
#
# Each block is laid out by itself: its parts in rows, a row below all that its parts wait for. A
# line that passes a row gets a gap in it, so that it crosses no box.


_LETTER, SMALL_LETTER = 7.85, 6.65
LINE, SMALL_LINE = 18.0, 15.0
PAD = 12.0
_GAP, _ROW_GAP = 22.0, 34.0
_LANE = 10.0
_LONGEST, _LONGEST_NOTE = 44, 52
_BADGE = 30.0


@dataclass(slots=True)
class Edge:
    """A line between two parts of one block, through the points."""

    before: int
    after: int
    why: LinkKind
    points: list[tuple[float, float]] = field(default_factory=list)


@dataclass(slots=True)
class Box:
    """A box of the drawing. `x` and `y` are from the corner of the block around it; `head` is how
    high its text is."""

    step: DataflowStep
    row: ShownStep
    title: str
    notes: list[str]
    parts: list["Box"] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    x: float = 0.0
    y: float = 0.0
    width: float = 0.0
    height: float = 0.0

    @property
    def head(self) -> float:
        """The height of the text."""
        return PAD + LINE + SMALL_LINE * len(self.notes)

    @property
    def middle(self) -> float:
        """The middle of the box from left to right."""
        return self.x + self.width / 2


@dataclass(slots=True)
class _Slot:
    """A box in a row, or the gap that an edge goes through; `over` is where its edges come from."""

    box: Box | None
    over: list["_Slot"] = field(default_factory=list["_Slot"])
    x: float = 0.0

    @property
    def width(self) -> float:
        return _LANE if self.box is None else self.box.width

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


def boxes_of(flow: DataflowGraph) -> tuple[list[Box], list[Edge]]:
    """The outermost boxes, with all others in them, and the lines between."""
    steps = flow.steps
    boxes = {row.step: _new_box(steps[row.step], row) for row in shown_steps(flow)}
    tops: list[Box] = []
    for box in boxes.values():
        parent = box.row.parent
        (tops if parent is None else boxes[parent].parts).append(box)
    edges: dict[int | None, dict[tuple[int, int], Edge]] = {}
    for (before, after), why in _drawn(flow, boxes).items():
        pair = _lifted(steps, boxes, before, after)
        if pair is not None:
            home, one, other = pair
            edges.setdefault(home, {}).setdefault((one, other), Edge(one, other, why))
    for home, found in edges.items():
        if home is not None:
            boxes[home].edges = _needed(found)
    return tops, _needed(edges.get(None, {}))


def _drawn(flow: DataflowGraph, boxes: dict[int, Box]) -> dict[tuple[int, int], LinkKind]:
    """A print inside a block is in order, but the block need not be: what the print waits for is
    left to what comes after the print."""
    links = {(link.before, link.after): link.why for all_ in deciding_links(flow) for link in all_}
    for step in flow.steps:
        if step.kind is not StepKind.PRINT or step.parent is None:
            continue
        ends = [pair for pair in links if step.id in pair]
        behind = [after for before, after in ends if before == step.id]
        for before, after in [pair for pair in ends if pair[1] == step.id]:
            pair = _lifted(flow.steps, boxes, before, after)
            if pair is not None and pair[2] != step.id:
                del links[before, after]
                for one in behind:
                    links.setdefault((before, one), LinkKind.ORDER)
    return links


def _new_box(step: DataflowStep, row: ShownStep) -> Box:
    title = "print" if step.kind is StepKind.PRINT else one_line(step.what)
    notes = [piece for note in row.notes for piece in _wrapped(one_line(note))]
    return Box(step, row, _cut(title, _LONGEST), notes)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _wrapped(text: str) -> list[str]:
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > _LONGEST_NOTE:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return [_cut(line, _LONGEST_NOTE) for line in lines]


def _lifted(
    steps: Sequence[DataflowStep], boxes: dict[int, Box], before: int, after: int
) -> tuple[int | None, int, int] | None:
    """The block that both stand in, and which of its parts each is in."""
    mine, theirs = _path(steps, boxes, before), _path(steps, boxes, after)
    home: int | None = None
    for one, other in zip(mine, theirs, strict=False):
        if one != other:
            return (home, one, other) if one < other else None
        home = one
    return None


def _path(steps: Sequence[DataflowStep], boxes: dict[int, Box], number: int) -> list[int]:
    path: list[int] = []
    at: int | None = number
    while at is not None:
        if at in boxes:
            path.append(at)
        at = steps[at].parent
    return path[::-1]


def _needed(edges: dict[tuple[int, int], Edge]) -> list[Edge]:
    """Return the edges without those that follow from others."""
    behind: dict[int, int] = {}
    implied: dict[int, int] = {}
    for before, after in sorted(edges, key=lambda pair: pair[1]):
        behind[after] = behind.get(after, 0) | 1 << before | behind.get(before, 0)
        implied[after] = implied.get(after, 0) | behind.get(before, 0)
    return [edge for (before, after), edge in edges.items() if not implied[after] >> before & 1]


def laid_out(boxes: Sequence[Box], edges: Sequence[Edge]) -> tuple[float, float]:
    """Gives all of them their places; returns how wide and high they are together."""
    for box in boxes:
        _measure(box)
    rows = _rows(boxes, edges)
    lanes = _lanes(rows, edges)
    for row in rows:
        _place(row)
    left = min((slot.x for row in rows for slot in row), default=0.0)
    top = 0.0
    tops: list[tuple[float, float]] = []
    for row in rows:
        high = max((slot.box.height for slot in row if slot.box), default=0.0)
        for slot in row:
            slot.x -= left
            if slot.box is not None:
                slot.box.x, slot.box.y = slot.x, top
        tops.append((top, top + high))
        top += high + _ROW_GAP
    _draw(boxes, edges, lanes, tops)
    wide = max((slot.x + slot.width for row in rows for slot in row), default=0.0)
    return wide, max(top - _ROW_GAP, 0.0)


def _measure(box: Box) -> None:
    words = len(box.title) * _LETTER + _BADGE * (box.row.wave is not None)
    number = (len(str(box.step.line)) + 2) * SMALL_LETTER
    notes = max((len(note) * SMALL_LETTER for note in box.notes), default=0.0)
    box.width, box.height = max(words + number, notes) + 2 * PAD, box.head + PAD / 2
    if box.parts:
        wide, high = laid_out(box.parts, box.edges)
        box.width = max(box.width, wide + 2 * PAD)
        box.height = box.head + PAD + high + PAD
        shift = (box.width - wide) / 2
        for part in box.parts:
            part.x, part.y = part.x + shift, part.y + box.head + PAD
        for edge in box.edges:
            edge.points = [(x + shift, y + box.head + PAD) for x, y in edge.points]


def _rows(boxes: Sequence[Box], edges: Sequence[Edge]) -> list[list[_Slot]]:
    ranks, _, to = {box.step.id: 0 for box in boxes}, *_ends_of(edges)
    for box in boxes:
        number = box.step.id
        over = [ranks[edge.before] + 1 for edge in to.get(number, ())]
        ranks[number] = max(over, default=0)
    rows: list[list[_Slot]] = [[] for _ in range(max(ranks.values(), default=-1) + 1)]
    for box in boxes:
        rows[ranks[box.step.id]].append(_Slot(box))
    return rows


def _ends_of(edges: Sequence[Edge]) -> tuple[dict[int, list[Edge]], dict[int, list[Edge]]]:
    """Return the edges by where they begin, and by where they end."""
    from_, to = dict[int, list[Edge]](), dict[int, list[Edge]]()
    for edge in edges:
        from_.setdefault(edge.before, []).append(edge)
        to.setdefault(edge.after, []).append(edge)
    return from_, to


def _lanes(rows: list[list[_Slot]], edges: Sequence[Edge]) -> dict[int, list[tuple[int, _Slot]]]:
    """Return for each edge the gaps it goes through, each with its row."""
    slots = {slot.box.step.id: slot for row in rows for slot in row if slot.box}
    ranks = {slot.box.step.id: at for at, row in enumerate(rows) for slot in row if slot.box}
    lanes: dict[int, list[tuple[int, _Slot]]] = {}
    for edge in edges:
        last = slots[edge.before]
        for rank in range(ranks[edge.before] + 1, ranks[edge.after]):
            last = _Slot(None, [last])
            rows[rank].append(last)
            lanes.setdefault(id(edge), []).append((rank, last))
        slots[edge.after].over.append(last)
    return lanes


def _place(row: list[_Slot]) -> None:
    """Put each box as near as can be below what it waits for."""
    wanted = {id(slot): _middle(slot.over) for slot in row}
    row.sort(key=lambda slot: wanted[id(slot)])
    right = float("-inf")
    for slot in row:
        slot.x = max(wanted[id(slot)] - slot.width / 2, right + _GAP)
        right = slot.x + slot.width
    drift = sum(slot.middle - wanted[id(slot)] for slot in row) / len(row)
    for slot in row:
        slot.x -= drift


def _middle(slots: Sequence[_Slot]) -> float:
    return sum(slot.middle for slot in slots) / len(slots) if slots else 0.0


def _draw(
    boxes: Sequence[Box],
    edges: Sequence[Edge],
    lanes: dict[int, list[tuple[int, _Slot]]],
    tops: Sequence[tuple[float, float]],
) -> None:
    places, lows = {box.step.id: box for box in boxes}, dict(tops)
    for edge in edges:
        before, after = places[edge.before], places[edge.after]
        low = lows[before.y]
        edge.points = [(before.middle, before.y + before.height), (before.middle, low)]
        for rank, slot in lanes.get(id(edge), []):
            top, bottom = tops[rank]
            edge.points += [(slot.middle, top), (slot.middle, bottom)]
        edge.points.append((after.middle, after.y))
    from_, to = _ends_of(edges)
    for box in boxes:
        _spread(box, from_.get(box.step.id, []), 0)
        _spread(box, to.get(box.step.id, []), -1)


def _spread(box: Box, edges: list[Edge], end: int) -> None:
    """Let lines that begin or end at one box do so side by side."""
    near, far = ((0, 1), 2) if end == 0 else ((-1,), -2)
    edges.sort(key=lambda edge: edge.points[far][0])
    for at, edge in enumerate(edges, 1):
        x = box.x + box.width * at / (len(edges) + 1)
        for one in near:
            edge.points[one] = (x, edge.points[one][1])


# The flow of a program as a picture: readable on light and dark pages, loading nothing.


_MARGIN = 24.0
_TITLE = 34.0
_LEGEND = 26.0
_WAVES = 6
_MOST_BOXES = 500
_LEGENDS = {
    LinkKind.NEEDS: "needs its value",
    LinkKind.DECIDED: "decided by",
    LinkKind.ORDER: "in order",
    LinkKind.CONFLICT: "conflicts",
    LinkKind.SAME: "same process",
    LinkKind.BARRIER: "barrier",
}
_STYLE = """
svg { font: 13px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace; }
.page { fill: #ffffff; } text { fill: #1f2328; }
.small { font-size: 11px; } .dim { fill: #656d76; } .title { font-weight: 600; }
.box { fill: #f6f8fa; stroke: #d0d7de; } .brief, .pile { fill: #ffffff; stroke: #d0d7de; }
.block, .loop { fill: #ffffff; stroke: #8c959f; } .block { stroke-dasharray: 4 3; }
.badge { fill: #ffffff; font-weight: 600; font-size: 11px; }
.edge { fill: none; stroke-width: 1.5; } .conflict, .same { stroke: #cf222e; }
.needs { stroke: #0969da; } .decided { stroke: #8250df; stroke-dasharray: 2 3; }
.order { stroke: #8c959f; stroke-dasharray: 5 4; } .barrier { stroke: #bc4c00; stroke-width: 2.5; }
.w0 { fill: #0969da; } .w1 { fill: #1a7f37; } .w2 { fill: #9a6700; }
.w3 { fill: #8250df; } .w4 { fill: #cf222e; } .w5 { fill: #0a7068; }
@media (prefers-color-scheme: dark) {
.page { fill: #0d1117; } text { fill: #e6edf3; } .dim { fill: #8d96a0; }
.box { fill: #161b22; stroke: #30363d; } .brief, .pile { fill: #0d1117; stroke: #30363d; }
.block, .loop { fill: #0d1117; stroke: #6e7681; } .badge { fill: #0d1117; }
.needs { stroke: #58a6ff; } .decided { stroke: #bc8cff; } .order { stroke: #6e7681; }
.conflict, .same { stroke: #ff7b72; } .barrier { stroke: #f0883e; }
.w0 { fill: #58a6ff; } .w1 { fill: #3fb950; } .w2 { fill: #d29922; }
.w3 { fill: #bc8cff; } .w4 { fill: #ff7b72; } .w5 { fill: #39c5bb; }
}
"""


def as_svg(flows: Sequence[DataflowGraph]) -> str:
    """Draw dataflow graphs as SVG."""
    drawn: list[str] = []
    top, wide, whys = _MARGIN, 0.0, set[LinkKind]()
    for flow in flows:
        if not flow.steps and not flow.too_large:
            continue
        boxes, edges = boxes_of(flow) if _is_drawn(flow) else ([], [])
        width, height = laid_out(boxes, edges)
        drawn.append(_text(_MARGIN, top + 14, _heading(flow), "title"))
        drawn += _group(boxes, edges, _MARGIN, top + _TITLE)
        top += _TITLE + height + 2 * _MARGIN
        wide = max(wide, width, len(_heading(flow)) * 8.0)
        whys |= {edge.why for edge in _all_edges(boxes, edges)}
    legend = [*_legend([why for why in _LEGENDS if why in whys], top)]
    wide = max(wide, sum(_legend_width(why) for why in whys))
    return _page(wide + 2 * _MARGIN, top + _LEGEND, [*drawn, *legend])


def _is_drawn(flow: DataflowGraph) -> bool:
    """A line has a place in every row that it passes, so pictures grow faster than functions."""
    return not flow.too_large and len(flow.steps) <= _MOST_BOXES


def _heading(flow: DataflowGraph) -> str:
    if not _is_drawn(flow):
        return f"{flow.name} · {flow.file}:{flow.line} · too large to be drawn"
    return f"{flow.name} · {flow.file}:{flow.line} · {counted(flow)}"


def _page(width: float, height: float, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img">'
    )
    page = '<rect class="page" width="100%" height="100%" rx="8"/>'
    return "\n".join([head, f"<style>{_STYLE}</style>", _ARROWS, page, *parts, "</svg>\n"])


_ARROWS = (
    "<defs>"
    + "".join(
        f'<marker id="to-{_class}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        f'markerHeight="7" markerUnits="userSpaceOnUse" orient="auto">'
        f'<path d="M0 0.5 L7.5 4 L0 7.5" class="edge {_class}" style="stroke-dasharray: none"/>'
        "</marker>"
        for _class in ("needs", "decided", "order", "conflict", "same", "barrier")
    )
    + "</defs>"
)


def _class_of(why: LinkKind) -> str:
    return why.value.partition(" ")[0]


def _all_edges(boxes: Sequence[Box], edges: Sequence[Edge]) -> Iterator[Edge]:
    yield from edges
    for box in boxes:
        yield from _all_edges(box.parts, box.edges)


def _group(boxes: Sequence[Box], edges: Sequence[Edge], x: float, y: float) -> Iterator[str]:
    for edge in edges:
        yield _edge(edge, x, y)
    for box in boxes:
        yield from _box(box, x + box.x, y + box.y)


def _edge(edge: Edge, x: float, y: float) -> str:
    (first_x, first_y), *rest = [(px + x, py + y) for px, py in edge.points]
    path = f"M{first_x:.1f} {first_y:.1f}"
    for at_x, at_y in rest:
        bend = (at_y - first_y) / 2
        path += (
            f" C{first_x:.1f} {first_y + bend:.1f} {at_x:.1f} {at_y - bend:.1f}"
            f" {at_x:.1f} {at_y:.1f}"
        )
        first_x, first_y = at_x, at_y
    kind = _class_of(edge.why)
    return f'<path class="edge {kind}" marker-end="url(#to-{kind})" d="{path}"/>'


def _box(box: Box, x: float, y: float) -> Iterator[str]:
    if box.step.kind is StepKind.LOOP and any("at once" in note for note in box.notes):
        for shift in (8.0, 4.0):
            yield _rect(x + shift, y + shift, box, "pile")
    yield _rect(x, y, box, _look(box))
    left, line = x + PAD, y + PAD + 8
    if box.row.wave is not None:
        yield from _badge(box.row.wave, left, line)
        left += 30
    yield _text(left, line + 2, box.title, "" if box.step.lasts or box.parts else "dim")
    yield _text(x + box.width - PAD, line + 2, str(box.step.line), "small dim", "end")
    for number, note in enumerate(box.notes):
        yield _text(x + PAD, line + LINE + SMALL_LINE * number, note, "small dim")
    yield from _group(box.parts, box.edges, x, y)


def _look(box: Box) -> str:
    if box.step.kind is StepKind.LOOP:
        return "loop"
    if box.parts:
        return "block"
    return "box" if box.step.lasts else "brief"


def _rect(x: float, y: float, box: Box, look: str) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}"'
    return f'<rect class="{look}" {place} rx="6"/>'


def _badge(wave: int, x: float, y: float) -> Iterator[str]:
    yield f'<circle class="w{(wave - 1) % _WAVES}" cx="{x + 9:.1f}" cy="{y - 2:.1f}" r="10"/>'
    yield _text(x + 9, y + 2, str(wave), "badge", "middle")


def _text(x: float, y: float, text: str, look: str = "", anchor: str = "") -> str:
    looks = f' class="{look}"' if look else ""
    anchored = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{looks}{anchored}>{escape(text)}</text>'


def _legend_width(why: LinkKind) -> float:
    return 56 + len(_LEGENDS[why]) * SMALL_LETTER


def _legend(whys: Sequence[LinkKind], y: float) -> Iterator[str]:
    x = _MARGIN
    for why in whys:
        yield f'<path class="edge {_class_of(why)}" d="M{x} {y} h28"/>'
        yield _text(x + 36, y + 4, _LEGENDS[why], "small dim")
        x += _legend_width(why)
