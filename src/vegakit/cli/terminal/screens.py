"""Open something over the conversation: a page to read, a list to choose from, and a question that
is answered by y or n."""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, NamedTuple

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from vegakit.cli.look import Tone, cells, cut
from vegakit.cli.terminal.commands import ranked
from vegakit.cli.terminal.draw import seg, spread, style_of, width_of
from vegakit.cli.terminal.markdown import Line
from vegakit.cli.terminal.painted import Painted
from vegakit.cli.terminal.prompt import edited

_CSS = """
{name} {{ align: center middle; background: ansi_default; }}
{name} #box {{ width: 100%; height: 100%; padding: 0; }}
{name} #title {{ height: 1; text-style: bold; padding: 0 1; }}
{name} #keys {{ height: 1; padding: 0 1; }}
{name} Painted {{ height: 1fr; }}
{name} Input {{ height: 1; border: none; padding: 0 1; background: ansi_default; }}
"""


class _Lines(Painted):
    """Lines of which some are on the screen."""

    def __init__(self, made: Callable[[int], list[Line]]) -> None:
        super().__init__()
        self._made = made
        self._lines: tuple[int, list[Line]] = (0, [])
        self.top = 0

    def lines(self, width: int) -> list[Line]:
        """Return all lines, made once for a width."""
        if self._lines[0] != width:
            self._lines = width, self._made(width)
        return self._lines[1]

    def rows(self, width: int, height: int) -> list[Line]:
        """Return those on the screen."""
        every = self.lines(width)
        self.top = max(0, min(self.top, len(every) - height))
        return every[self.top : self.top + height]

    def forget(self) -> None:
        """Make the lines anew."""
        self._lines = (0, [])

    def move(self, lines: int) -> None:
        """Move by lines."""
        self.top += lines
        self.repaint()


class PageScreen(ModalScreen[None]):
    """A page to read: a whole diff, a whole output, help."""

    CSS = _CSS.format(name="PageScreen")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,ctrl+o,enter", "leave", "back"),
        Binding("down,j", "move(1)", "down", show=False),
        Binding("up,k", "move(-1)", "up", show=False),
        Binding("pagedown,space,ctrl+d", "page(1)", "page", show=False),
        Binding("pageup,ctrl+u", "page(-1)", "page", show=False),
        Binding("home,g", "move(-10000000)", "first", show=False),
        Binding("end,G", "move(10000000)", "last", show=False),
    ]

    def __init__(self, title: str, made: Callable[[int], list[Line]]) -> None:
        super().__init__()
        self.heading, self.made = title, made

    def compose(self) -> ComposeResult:
        """Lay out the page."""
        with Vertical(id="box"):
            yield Static(self.heading, id="title", markup=False)
            yield _Lines(self.made)
            yield Static("↑↓ move  space page  g G ends  esc back", id="keys", markup=False)

    def action_move(self, lines: int) -> None:
        """Move by lines."""
        self.query_one(_Lines).move(lines)

    def action_page(self, pages: int) -> None:
        """Move by pages."""
        lines = self.query_one(_Lines)
        lines.move(pages * max(1, lines.size.height - 1))

    def on_mouse_scroll_up(self) -> None:
        """Move up."""
        self.action_move(-3)

    def on_mouse_scroll_down(self) -> None:
        """Move down."""
        self.action_move(3)

    def action_leave(self) -> None:
        """Go back."""
        if self.is_current:
            self.dismiss(None)


class Choice(NamedTuple):
    """A row to choose: what it is, how it is shown, and what stands at its right end."""

    key: str
    shown: str
    told: str = ""
    sign: str = ""
    tone: str = Tone.PLAIN


class NarrowInput(Input):
    """The line that narrows a list. The keys that move in the list are passed on from here, behind
    the letters that were typed before them."""

    MOVES: ClassVar[Mapping[str, int]] = {
        **dict.fromkeys(("down", "ctrl+n"), 1),
        **dict.fromkeys(("up", "ctrl+p"), -1),
    }

    class Moved(Message):
        """Another row is chosen."""

        def __init__(self, rows: int) -> None:
            super().__init__()
            self.rows = rows

    async def _on_key(self, event: events.Key) -> None:
        if (rows := self.MOVES.get(event.key)) is not None:
            event.prevent_default()
            event.stop()
            self.post_message(self.Moved(rows))
        elif not await edited(self, event):
            await super()._on_key(event)


class PickScreen(ModalScreen[str | None]):
    """A list to choose from; what is typed narrows it."""

    CSS = _CSS.format(name="PickScreen")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "back", priority=True),
    ]

    def __init__(self, title: str, choices: Sequence[Choice], empty: str) -> None:
        super().__init__()
        self.heading, self.choices, self.empty = title, list(choices), empty
        self._fits, self._at = self.choices, 0

    def compose(self) -> ComposeResult:
        """Lay out the list."""
        with Vertical(id="box"):
            yield Static(self.heading, id="title", markup=False)
            narrow = NarrowInput(placeholder="type to narrow", compact=True)
            narrow.cursor_blink = False
            yield narrow
            yield _Lines(self._rows)
            yield Static("↑↓ choose  enter take  esc back", id="keys", markup=False)

    def _rows(self, width: int) -> list[Line]:
        if not self._fits:
            return [[], [seg(f"   {self.empty}")]]
        return [[], *(self._row(n, one, width) for n, one in enumerate(self._fits))]

    def _row(self, number: int, one: Choice, width: int) -> Line:
        is_chosen = number == self._at
        told = cut(one.told, max(width // 2, width - cells(one.shown) - cells(one.sign) - 8))
        room = width - cells(told) - cells(one.sign) - 9
        sign = [seg(one.sign, one.tone), seg(" ")] if one.sign else []
        left = [seg(" ▸ " if is_chosen else "   ", Tone.WORK), *sign, seg(cut(one.shown, room))]
        line = spread(left, [seg(f"{told} ")], width) if told else left
        if not is_chosen:
            return line
        line.append(seg(" " * (width - width_of(line))))
        bold = style_of(Tone.STRONG)
        return [type(part)(part.text, (part.style or bold) + bold) for part in line]

    def _show(self) -> None:
        lines = self.query_one(_Lines)
        lines.forget()
        height = max(1, lines.size.height)
        if self._at + 2 > lines.top + height:
            lines.top = self._at + 2 - height
        lines.top = min(lines.top, self._at)
        lines.repaint()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Narrow the list."""
        names = {f"{one.shown} {one.told}": one for one in self.choices}
        found = ranked(event.value, list(names)) if event.value else list(names)
        self._fits, self._at = [names[name] for name in found], 0
        self._show()

    def on_input_submitted(self) -> None:
        """Take what is chosen."""
        if self.is_current:  # Esc just before has left it already
            self.dismiss(self._fits[self._at].key if self._fits else None)

    def on_narrow_input_moved(self, event: NarrowInput.Moved) -> None:
        """Choose another row."""
        self._at = max(0, min(len(self._fits) - 1, self._at + event.rows))
        self._show()

    def action_page(self, pages: int) -> None:
        """Choose a row of another page."""
        rows = pages * max(1, self.query_one(_Lines).size.height - 2)
        self.query_one(NarrowInput).post_message(NarrowInput.Moved(rows))

    def action_leave(self) -> None:
        """Choose nothing."""
        if self.is_current:
            self.dismiss(None)


class ConfirmScreen(ModalScreen[bool]):
    """A page that says what is about to be done; y does it, anything else does not."""

    CSS = _CSS.format(name="ConfirmScreen")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "yes"),
        Binding("n,escape,q,enter", "answer(False)", "no"),
        Binding("down,j", "move(1)", "down", show=False),
        Binding("up,k", "move(-1)", "up", show=False),
    ]

    def __init__(self, title: str, made: Callable[[int], list[Line]], yes: str) -> None:
        super().__init__()
        self.heading, self.made, self.yes = title, made, yes

    def compose(self) -> ComposeResult:
        """Lay out the question."""
        with Vertical(id="box"):
            yield Static(self.heading, id="title", markup=False)
            yield _Lines(self.made)
            yield Static(f"y {self.yes}   n no   ↑↓ move", id="keys", markup=False)

    def action_move(self, lines: int) -> None:
        """Move by lines."""
        self.query_one(_Lines).move(lines)

    def action_page(self, pages: int) -> None:
        """Move by pages."""
        lines = self.query_one(_Lines)
        lines.move(pages * max(1, lines.size.height - 1))

    def action_answer(self, is_yes: bool) -> None:
        """Answer."""
        if self.is_current:
            self.dismiss(is_yes)
