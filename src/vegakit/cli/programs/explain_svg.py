"""The flow of a program as a picture: readable on light and dark pages, loading nothing."""

from collections.abc import Iterator, Sequence
from html import escape

from vegakit.cli.programs.explain_layout import (
    LINE,
    PAD,
    SMALL_LETTER,
    SMALL_LINE,
    Box,
    Edge,
    boxes_of,
    laid_out,
)
from vegakit.cli.programs.explain_tree import counted
from vegakit.lang import Flow, LinkKind, StepKind

__all__ = ["as_svg"]

_MARGIN = 24.0
_TITLE = 34.0
_LEGEND = 26.0
_WAVES = 6
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


def as_svg(flows: Sequence[Flow]) -> str:
    drawn: list[str] = []
    top, wide, whys = _MARGIN, 0.0, set[LinkKind]()
    for flow in flows:
        if not flow.steps and not flow.too_large:
            continue
        boxes, edges = boxes_of(flow)
        width, height = laid_out(boxes, edges)
        drawn.append(_text(_MARGIN, top + 14, _heading(flow), "title"))
        drawn += _group(boxes, edges, _MARGIN, top + _TITLE)
        top += _TITLE + height + 2 * _MARGIN
        wide = max(wide, width, len(_heading(flow)) * 8.0)
        whys |= {edge.why for edge in _all_edges(boxes, edges)}
    legend = [*_legend([why for why in _LEGENDS if why in whys], top)]
    wide = max(wide, sum(_legend_width(why) for why in whys))
    return _page(wide + 2 * _MARGIN, top + _LEGEND, [*drawn, *legend])


def _heading(flow: Flow) -> str:
    if flow.too_large:
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
