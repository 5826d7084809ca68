"""Where the boxes of a flow stand: what waits stands below what it waits for.

Each block is laid out by itself: its parts in rows, a row below all that its parts wait for. A line
that passes a row gets a gap in it, so that it crosses no box.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from vegakit.cli.looking import one_line
from vegakit.lang import Flow, FlowStep, LinkKind, StepKind, ToldStep, deciding_links, told_steps

__all__ = ["LINE", "PAD", "SMALL_LETTER", "SMALL_LINE", "Box", "Edge", "boxes_of", "laid_out"]

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
    """`x` and `y` are from the corner of the block around it; `head` is how high its text is."""

    step: FlowStep
    row: ToldStep
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
        return PAD + LINE + SMALL_LINE * len(self.notes)

    @property
    def middle(self) -> float:
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


def boxes_of(flow: Flow) -> tuple[list[Box], list[Edge]]:
    """The outermost boxes, with all others in them, and the lines between."""
    steps = flow.steps
    boxes = {row.step: _box(steps[row.step], row) for row in told_steps(flow)}
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


def _drawn(flow: Flow, boxes: dict[int, Box]) -> dict[tuple[int, int], LinkKind]:
    """A print inside a block is in order, but the block need not be: what the print waits for is
    left to what comes after the print."""
    links = {(link.before, link.after): link.why for all_ in deciding_links(flow) for link in all_}
    for step in flow.steps:
        if step.kind is not StepKind.PRINT or step.parent is None:
            continue
        behind = [after for before, after in links if before == step.id]
        for before, after in [pair for pair in links if pair[1] == step.id]:
            pair = _lifted(flow.steps, boxes, before, after)
            if pair is not None and pair[2] != step.id:
                del links[before, after]
                for one in behind:
                    links.setdefault((before, one), LinkKind.ORDER)
    return links


def _box(step: FlowStep, row: ToldStep) -> Box:
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
    steps: Sequence[FlowStep], boxes: dict[int, Box], before: int, after: int
) -> tuple[int | None, int, int] | None:
    """The block that both stand in, and which of its parts each is in."""
    mine, theirs = _path(steps, boxes, before), _path(steps, boxes, after)
    home: int | None = None
    for one, other in zip(mine, theirs, strict=False):
        if one != other:
            return (home, one, other) if one < other else None
        home = one
    return None


def _path(steps: Sequence[FlowStep], boxes: dict[int, Box], number: int) -> list[int]:
    path: list[int] = []
    at: int | None = number
    while at is not None:
        if at in boxes:
            path.append(at)
        at = steps[at].parent
    return path[::-1]


def _needed(edges: dict[tuple[int, int], Edge]) -> list[Edge]:
    """Without those that follow from others."""
    behind: dict[int, set[int]] = {}
    for before, after in sorted(edges, key=lambda pair: pair[1]):
        behind.setdefault(after, set()).update({before}, behind.get(before, set()))
    return [
        edge
        for (before, after), edge in edges.items()
        if not any(before in behind.get(b, ()) for b, a in edges if a == after)
    ]


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
    ranks = {box.step.id: 0 for box in boxes}
    for box in boxes:
        number = box.step.id
        over = [ranks[edge.before] + 1 for edge in edges if edge.after == number]
        ranks[number] = max(over, default=0)
    rows: list[list[_Slot]] = [[] for _ in range(max(ranks.values(), default=-1) + 1)]
    for box in boxes:
        rows[ranks[box.step.id]].append(_Slot(box))
    return rows


def _lanes(rows: list[list[_Slot]], edges: Sequence[Edge]) -> dict[int, list[tuple[int, _Slot]]]:
    """By edge: the gaps it goes through, each with its row."""
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
    """Each as near as can be below what it waits for."""
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
    places = {box.step.id: box for box in boxes}
    for edge in edges:
        before, after = places[edge.before], places[edge.after]
        low = next(bottom for top, bottom in tops if top == before.y)
        edge.points = [(before.middle, before.y + before.height), (before.middle, low)]
        for rank, slot in lanes.get(id(edge), []):
            top, bottom = tops[rank]
            edge.points += [(slot.middle, top), (slot.middle, bottom)]
        edge.points.append((after.middle, after.y))
    for box in boxes:
        _spread(box, [edge for edge in edges if edge.before == box.step.id], 0)
        _spread(box, [edge for edge in edges if edge.after == box.step.id], -1)


def _spread(box: Box, edges: list[Edge], end: int) -> None:
    """Lines that begin or end at one box do so side by side."""
    near, far = ((0, 1), 2) if end == 0 else ((-1,), -2)
    edges.sort(key=lambda edge: edge.points[far][0])
    for at, edge in enumerate(edges, 1):
        x = box.x + box.width * at / (len(edges) + 1)
        for one in near:
            edge.points[one] = (x, edge.points[one][1])
