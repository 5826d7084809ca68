"""Widgets that are drawn by lines, and send to the terminal only the cells that changed.

The conversation may have thousands of items; only those on the screen are drawn, from an anchor:
the item and the line in it at the top. While the end is followed, the anchor stays until the screen
is full; then it moves by a few lines at once, so that a word that comes is a word that is sent.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import cast

from rich.segment import Segment
from textual.app import App
from textual.geometry import Region, Size
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from vegakit.cli.look import Look
from vegakit.cli.terminal.draw import Canvas, has_gap, lines_of
from vegakit.cli.terminal.markdown import Line
from vegakit.cli.terminal.state import ApprovalItem, ChatItem

_KEPT_ITEMS = 256
_SLACK = 3
"""Lines that the end moves up at once while text comes."""


class Painted(Widget):
    """A widget whose rows are made by `rows`. `repaint` compares them with those on the screen."""

    DEFAULT_CSS = "Painted { background: ansi_default; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self._rows: list[Strip] = []
        self._shape = Size(0, 0)
        self._is_stale = False

    def rows(self, width: int, height: int) -> list[Line]:
        """Return at most `height` lines."""
        raise NotImplementedError

    def repaint_whole(self) -> None:
        """Send every row anew at the next `repaint`. Until then the rows stay those on the screen:
        Textual keeps what it drew, so rows that change unseen would never be sent."""
        self._is_stale = True

    def repaint(self) -> bool:
        """Draw what changed since the last time, and return whether anything did."""
        size = self.size
        if not (size.width and size.height):
            return False
        new = self._strips(size)
        old, self._rows = self._rows, new
        if size != self._shape or self._is_stale or self.text_selection is not None:
            self._shape, self._is_stale = size, False
            self.refresh()
            return True
        changed = [
            Region(start, y, end - start, 1)
            for y, (before, after) in enumerate(zip(old, new, strict=True))
            for start, end in [_difference(before, after)]
            if end > start
        ]
        if changed:
            self.refresh(*changed)
        return bool(changed)

    def _strips(self, size: Size) -> list[Strip]:
        lines = self.rows(size.width, size.height)[: size.height]
        if getattr(cast("App[object]", self.app), "ascii_only", False):
            text = Look(ascii_only=True).text
            lines = [[Segment(text(one.text), one.style) for one in line] for line in lines]
        blank = Strip.blank(size.width)
        made = [Strip(line).adjust_cell_length(size.width) for line in lines]
        return made + [blank] * (size.height - len(made))

    def render_line(self, y: int) -> Strip:
        """Return a row of the screen."""
        if self.size != self._shape:
            self._shape = self.size
            self._rows = self._strips(self.size)
        if y >= len(self._rows):
            return Strip.blank(self.size.width)
        strip = self._rows[y]
        selection = self.text_selection
        if selection is not None and (span := selection.get_span(y)) is not None:
            strip = self._selected(strip, span)
        return strip.apply_offsets(0, y)

    def _selected(self, strip: Strip, span: tuple[int, int]) -> Strip:
        start, end = span
        end = strip.cell_length if end == -1 else end
        style = self.screen.get_component_rich_style("screen--selection")
        parts = strip.divide([start, end, strip.cell_length])
        if len(parts) < 2:
            return strip
        return Strip.join([parts[0], parts[1].apply_style(style), *parts[2:]])

    @property
    def allow_select(self) -> bool:
        """Text can be selected with the mouse."""
        return True

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the text under the selection."""
        text = "\n".join(strip.text.rstrip() for strip in self._rows)
        return selection.extract(text), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """Show the selection."""
        del selection
        self.refresh()


def _difference(before: Strip, after: Strip) -> tuple[int, int]:
    """Return the first and the last cell in which two rows differ."""
    if before is after or before == after:
        return 0, 0
    start = _same_cells(before, after, reverse=False)
    width = max(before.cell_length, after.cell_length)
    return start, max(start + 1, width - _same_cells(before, after, reverse=True))


def _same_cells(before: Strip, after: Strip, *, reverse: bool) -> int:
    """Return how many cells at an end are the same: whole segments, then characters of one."""
    one, other = list(before), list(after)
    if reverse:
        one.reverse()
        other.reverse()
    same = 0
    for a, b in zip(one, other, strict=False):
        if a == b:
            same += a.cell_length
            continue
        if a.style == b.style and a.text.isascii() and b.text.isascii():
            same += _common(a, b, reverse=reverse)
        break
    return same


def _common(a: Segment, b: Segment, *, reverse: bool) -> int:
    step = -1 if reverse else 1
    pairs = zip(a.text[::step], b.text[::step], strict=False)
    return next((n for n, (x, y) in enumerate(pairs) if x != y), min(len(a.text), len(b.text)))


class ChatView(Painted):
    """The conversation. `items` are those of the state, `empty` is shown where there are none, and
    `asked` is the question that is answered next. The end is followed until the person scrolls up;
    a question is shown from its first line, and counts as shown when each of its lines was on the
    screen and the last one is. What is on the screen is what Textual took to draw, not what was
    made to be drawn."""

    def __init__(
        self,
        items: Callable[[], Sequence[ChatItem]],
        asked: Callable[[], ApprovalItem | None],
        canvas: Callable[[int], Canvas],
        *,
        empty: Callable[[int], list[Line]] = lambda _: [],
        id: str | None = None,  # noqa: A002
    ) -> None:
        super().__init__(id=id)
        self._items, self._asked, self._canvas, self._empty = items, asked, canvas, empty
        self._seen: tuple[object, set[int]] = (None, set())
        self._drawn: OrderedDict[int, tuple[object, list[Line]]] = OrderedDict()
        self._anchor = (0, 0)
        self.follows = True
        self._placed: list[tuple[int, int]] = []
        """Of each row that was made its item and the line in it."""
        self._taken: dict[int, tuple[Strip, tuple[ChatItem, int, int] | None]] = {}
        """Of each row that Textual has drawn: how, its item, the version of it, and the line."""

    def forget(self) -> None:
        """Draw another conversation, from its end: each row anew."""
        self._drawn.clear()
        self._anchor, self.follows = (0, 0), True
        self._placed, self._seen = [], (None, set())
        self._taken.clear()
        self.repaint_whole()

    def render_line(self, y: int) -> Strip:
        """Return a row of the screen, and note whose it is."""
        if self.size != self._shape:
            self._taken.clear()
        strip = super().render_line(y)
        if not self._is_stale and y < len(self._rows):
            self._taken[y] = self._rows[y], self._place(y)
        return strip

    def _place(self, y: int) -> tuple[ChatItem, int, int] | None:
        items = self._items()
        if y >= len(self._placed) or self._placed[y][0] >= len(items):
            return None
        at, line = self._placed[y]
        return items[at], items[at].version, line

    def rows(self, width: int, height: int) -> list[Line]:
        """Return the lines on the screen."""
        items = self._items()
        if self.follows:
            self._follow(items, width, height)
        made: list[Line] = []
        placed: list[tuple[int, int]] = []
        at, first = self._anchor
        while at < len(items) and len(made) < height:
            lines = self._lines(at, width)
            part = lines[first : first + height - len(made)]
            made += part
            placed += [(at, first + n) for n in range(len(part))]
            at, first = at + 1, 0
        self._placed = placed
        self._note_seen(items, width)
        return made if items else self._empty(width)[:height]

    def _note_seen(self, items: Sequence[ChatItem], width: int) -> None:
        """Note which lines of the question were on the screen, as they are broken now."""
        asked = self._asked()
        key = None if asked is None else (asked.id, asked.explains, width)
        if self._seen[0] != key:
            self._seen = (key, set())
        if asked is not None:
            self._seen[1].update(line for at, line in self._placed if items[at] is asked)

    def _lines(self, at: int, width: int) -> list[Line]:
        items, canvas = self._items(), self._canvas(width)
        item, gap = items[at], has_gap(items[at - 1] if at else None, items[at])
        is_timed = getattr(item, "ended_ms", 0) is None or isinstance(item, ApprovalItem)
        # With the item: another may stand at its place in memory when it is gone.
        seconds = canvas.now_ms // 1000 if is_timed else 0
        key = (item, item.version, gap, width, canvas.theme, seconds)
        found = self._drawn.get(id(item))
        if found is not None and found[0] == key:
            self._drawn.move_to_end(id(item))
            return found[1]
        lines = lines_of(item, canvas)
        lines = [[], *lines] if gap else lines
        self._drawn[id(item)] = key, lines
        while len(self._drawn) > _KEPT_ITEMS:
            self._drawn.popitem(last=False)
        return lines

    def _follow(self, items: Sequence[ChatItem], width: int, height: int) -> None:
        """Move the anchor so that the end is on the screen, by some lines at once; a question stays
        there from its first line, until all of a long one was seen."""
        anchor, asked = self._anchor, self._asked()
        used = self._lines_to_end(items, width, height)
        # A window that grew, or a long question that was answered, leaves the screen half empty.
        if used > height or (used < height // 2 and anchor > (0, 0)):
            anchor = self._from_end(items, width, height - (0 if asked else _SLACK))
        if asked is not None and asked in items:
            at = next(n for n in range(len(items) - 1, -1, -1) if items[n] is asked)
            tall = len(self._lines(at, width))
            if tall <= height or len(self._seen[1]) < tall:
                anchor = min(anchor, (at, 0))
        self._anchor = anchor

    def _lines_to_end(self, items: Sequence[ChatItem], width: int, height: int) -> int:
        """Return how many lines there are from the anchor to the end, counted until they do not
        fit; none if the anchor is behind it."""
        at, first = self._anchor
        used = -first
        for number in range(at, len(items)):
            used += len(self._lines(number, width))
            if used > height:
                break
        return used

    def _from_end(self, items: Sequence[ChatItem], width: int, height: int) -> tuple[int, int]:
        used = 0
        for at in range(len(items) - 1, -1, -1):
            used += len(self._lines(at, width))
            if used >= height:
                return at, used - height
        return 0, 0

    def scroll_lines(self, lines: int) -> None:
        """Move by lines; at the end it is followed again."""
        items, width, height = self._items(), self.size.width, self.size.height
        at, first = self._anchor
        first += lines
        while first < 0 and at > 0:
            at -= 1
            first += len(self._lines(at, width))
        first = max(0, first)
        while at < len(items) and first >= (tall := len(self._lines(at, width))):
            at, first = at + 1, first - tall
        last = self._from_end(items, width, height)
        is_end = (at, first) >= last
        self._anchor, self.follows = last if is_end else (at, first), False
        self.repaint()  # before the end is followed: a question is seen by this
        self.follows = is_end

    def scroll_to_end(self) -> None:
        """Follow the end again."""
        self.follows = True
        self.repaint()

    def item_at(self, y: int) -> ChatItem | None:
        """Return the item of a row."""
        return self._items()[self._placed[y][0]] if 0 <= y < len(self._placed) else None

    def _is_drawn(self, y: int) -> bool:
        """Whether a row is on the screen. One that looks as before is not drawn again, and of one
        that counts the time it is enough that it was there."""
        taken = self._taken.get(y)
        return taken is not None and (taken[1] == self._place(y) or taken[0] == self._rows[y])

    def watched_approval(self) -> ApprovalItem | None:
        """Return the question if each of its lines was on the screen, and the last one is. After
        another conversation was shown, each row must have been drawn anew."""
        asked, items = self._asked(), self._items()
        rows = {
            y: line
            for y, (at, line) in enumerate(self._placed)
            if at < len(items) and items[at] is asked
        }
        if asked is None or not rows or self._is_stale:
            return None
        if any(y not in self._taken for y in range(self.size.height)):
            return None
        if not all(self._is_drawn(y) for y in rows):
            return None
        tall = len(self._lines(self._placed[min(rows)][0], self.size.width))
        return asked if tall - 1 in rows.values() and len(self._seen[1]) >= tall else None
