"""The screen of `vega top`: money and health of a runtime, its processes, what needs a person, and
the chosen process in full.

It needs Textual, so only `vega top` imports it. Colours are the terminal's own.
"""

from collections import deque
from collections.abc import Sequence
from contextlib import aclosing
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.events import Resize
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Input, Static

from vegakit.cli.display import (
    COLUMNS,
    NAME,
    at_most,
    leads,
    limited,
    name_of,
    needs_person,
    state_of,
)
from vegakit.cli.look import (
    PIPE,
    RICH_STYLES,
    Cell,
    Column,
    Rounding,
    Sign,
    Tone,
    bar_cells,
    count,
    cut,
    duration,
    figures,
    fitted,
    middle,
    money,
    one_line,
)
from vegakit.cli.processes import render_entry, render_killed
from vegakit.control import (
    ControlClient,
    Health,
    LogEntry,
    ProcessView,
    Question,
    RuntimeView,
    render_question,
)
from vegakit.errors import UserError

_EVERY_S = 1.0
_ENTRIES = 200
_BAR = 12
_PANEL = 6
_WIDE = 100
_COLUMNS: tuple[Column, ...] = (NAME, *(one.column for one in COLUMNS))


class QuestionScreen(ModalScreen[str | None]):
    """A question, whole. Yes counts only after its last line was on the screen; other questions
    take text."""

    CSS = """
    QuestionScreen { align: center middle; }
    #whole { width: 90%; height: 80%; border: round ansi_yellow; padding: 0 1; }
    #lines { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "approve", "approve once"),
        Binding("d", "deny", "deny"),
        Binding("escape,q", "leave", "back"),
        Binding("down,j,space", "scroll(1)", "down", show=False),
        Binding("up,k", "scroll(-1)", "up", show=False),
        Binding("pagedown", "scroll(10)", "page", show=False),
        Binding("end,G", "scroll(100000)", "end", show=False),
    ]

    def __init__(self, question: Question, left: str) -> None:
        super().__init__()
        self._question = question
        self._left = left

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        with Vertical(id="whole"):
            with VerticalScroll(id="lines"):
                yield Static(id="text")
            if not self._question.permits:
                yield Input(placeholder="your answer, then Enter")
            yield Static(id="note")
        yield Footer()

    def on_mount(self) -> None:
        """Show the question."""
        width = max(20, int(self.size.width * 0.9) - 6)
        lines = render_question(self._question, left=self._left, width=width)[:-1]
        self.query_one("#text", Static).update(Text("\n".join(lines)))

    def action_scroll(self, lines: int) -> None:
        """Move in the text."""
        self.query_one("#lines", VerticalScroll).scroll_relative(y=lines, animate=False)

    def action_approve(self) -> None:
        """Approve, if all of it was shown."""
        if not self._question.permits:
            return
        if not self.query_one("#lines", VerticalScroll).is_vertical_scroll_end:
            self.query_one("#note", Static).update("Read to the end first: End, then a")
            return
        self.dismiss("yes")

    def action_deny(self) -> None:
        """Decline."""
        if self._question.permits:
            self.dismiss("no")

    def action_leave(self) -> None:
        """Go back without an answer."""
        self.dismiss(None)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Answer with text."""
        self.dismiss(event.value)


class TopApp(App[None]):
    """The screen of `vega top`. Keys with a question wait for `y`; anything else takes the question
    back."""

    TITLE = "vega top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { background: ansi_default; }
    #figures, #state { height: 1; padding: 0 1; }
    #who, #health { width: 1fr; height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
    #money, #rate { width: auto; height: 1; }
    DataTable { height: 1fr; scrollbar-size-horizontal: 0; background: ansi_default; }
    DataTable > .datatable--header { background: ansi_default; text-style: none; }
    #asked { height: auto; border-top: solid ansi_yellow; padding: 0 1; display: none; }
    #chosen { height: 8; border-top: solid ansi_bright_black; padding: 0 1; }
    #facts { height: auto; max-height: 3; }
    #entries { height: 1fr; }
    #entries, #facts { text-wrap: nowrap; text-overflow: ellipsis; }
    #question { height: auto; padding: 0 1; color: ansi_yellow; display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "approve", "approve once"),
        Binding("d", "deny", "deny"),
        Binding("v,enter", "view", "view question"),
        Binding("k", "ask_kill(False)", "kill"),
        Binding("K", "ask_kill(True)", "kill tree"),
        Binding("p", "pause", "pause"),
        Binding("q", "quit", "quit"),
        Binding("y", "confirm", "yes", show=False),
        Binding("n,escape", "take_back", "no", show=False),
    ]

    def __init__(
        self, remote: ControlClient, *, every_s: float = _EVERY_S, light: bool = False
    ) -> None:
        super().__init__(ansi_color=True)
        self.theme = "ansi-light" if light else "ansi-dark"
        self._remote = remote
        self._every_s = every_s
        self._views: dict[str, ProcessView] = {}
        self._runtime: RuntimeView | None = None
        self._questions: list[Question] = []
        self._shape: object = None
        self._paused = False
        self._doomed: tuple[str, bool] | None = None
        self._now_ms = 0

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        with Horizontal(id="figures"):
            yield Static(id="who")
            yield Static(id="money")
        with Horizontal(id="state"):
            yield Static(id="health")
            yield Static(id="rate")
        yield DataTable[Text](cursor_type="row", zebra_stripes=False)
        yield Static(id="asked")
        with Vertical(id="chosen"):
            yield Static(id="facts")
            yield Static(id="entries")
        yield Static(id="question")
        yield Footer()

    async def on_mount(self) -> None:
        """Fill the table, and refresh it every second."""
        self._table.focus()
        await self.refresh_views()
        self.set_interval(self._every_s, self.refresh_views)

    async def on_resize(self, _: Resize) -> None:
        """Choose anew what fits."""
        if self._runtime is not None:
            self._show_rows(list(self._views.values()))
            self._show_figures(self._runtime, list(self._views.values()))
            self._show_asked()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Show only the keys that do something now."""
        if action in {"approve", "deny", "view"}:
            asked = self._asked
            return asked is not None and (action == "view" or asked.permits)
        return True

    async def refresh_views(self) -> None:
        """Ask the runtime, and show what it says."""
        if self._paused:
            return
        try:
            runtime = await self._remote.info()
            views = limited(await self._remote.ps(), runtime)
            self._questions = await self._remote.interrupts()
        except UserError as error:
            self._say(f"{error}; q leaves")
            return
        self._runtime, self._now_ms = runtime, runtime.now_ms
        self._show_figures(runtime, views)
        self._show_rows(views)
        self._show_asked()
        await self._show_chosen()

    async def on_data_table_row_highlighted(self) -> None:
        """Show the process that was chosen."""
        if self._views:
            self._show_asked()
            await self._show_chosen()

    def action_pause(self) -> None:
        """Stop refreshing, or go on."""
        self._paused = not self._paused
        self._say("paused; p goes on" if self._paused else "")

    def action_ask_kill(self, tree: bool) -> None:
        """Ask whether to kill the chosen process."""
        chosen = self._chosen
        if chosen is None:
            return
        self._doomed = chosen.path, tree
        what = "for good, with all below it" if tree else "; its supervisor decides what follows"
        lost = ""
        if chosen.reserved:
            lost = f", up to {money(chosen.reserved, rounding=Rounding.UP)} of calls in flight lost"
        self._say(f"Kill {chosen.path}{' ' if tree else ''}{what}{lost}?  y / n")

    def action_take_back(self) -> None:
        """Take the question back."""
        self._doomed = None
        self._say("")

    async def action_confirm(self) -> None:
        """Kill what was asked about."""
        if self._doomed is None:
            return
        (path, tree), self._doomed = self._doomed, None
        try:
            killed = await self._remote.kill(path, tree=tree)
        except UserError as error:
            self._say(str(error))
            return
        self._say("")
        self.notify(render_killed(killed), severity="information" if killed.is_clean else "error")
        await self.refresh_views()

    async def action_approve(self) -> None:
        """Approve the question that is shown; one that is too long for its panel is shown whole
        first."""
        asked = self._asked
        if asked is None:
            return
        if len(self._asked_lines(asked)) > _PANEL:
            self.action_view()
        else:
            await self._answer(asked, "yes")

    async def action_deny(self) -> None:
        """Decline the question that is shown."""
        if self._asked is not None:
            await self._answer(self._asked, "no")

    def action_view(self) -> None:
        """Show the whole question."""
        asked = self._asked
        if asked is None:
            return

        async def answered(answer: str | None) -> None:
            if answer:
                await self._answer(asked, answer)

        self.push_screen(QuestionScreen(asked, self._left(asked)), answered)

    async def _answer(self, question: Question, answer: str) -> None:
        try:
            await self._remote.answer(question.id, answer, action=question.action)
        except UserError as error:
            self.notify(str(error), severity="error")
        else:
            self.notify(f"answered {question.id}: {answer}")
        await self.refresh_views()

    @property
    def _table(self) -> DataTable[Text]:
        return self.query_one(DataTable[Text])

    @property
    def _chosen(self) -> ProcessView | None:
        row = self._table.cursor_row
        return list(self._views.values())[row] if row < len(self._views) else None

    @property
    def _asked(self) -> Question | None:
        """Return the question of the chosen process, or else the oldest."""
        chosen = self._chosen if self._views else None
        own = (one for one in self._questions if chosen and one.process == chosen.path)
        return next(own, self._questions[0] if self._questions else None)

    def _left(self, question: Question) -> str:
        if question.expires_ms is None:
            return ""
        return f"{duration(question.expires_ms - self._now_ms, brief=True)} left"

    def _say(self, text: str) -> None:
        question = self.query_one("#question", Static)
        question.update(Text(text))
        question.display = bool(text)

    def _asked_lines(self, asked: Question) -> list[str]:
        width = max(20, self.size.width - 4)
        return render_question(asked, left=self._left(asked), width=width)[:-1]

    def _show_asked(self) -> None:
        panel, asked = self.query_one("#asked", Static), self._asked
        panel.display = asked is not None
        self.refresh_bindings()
        if asked is None:
            return
        lines, view = self._asked_lines(asked), self._views.get(asked.process)
        text = Text().append(f"{Sign.ASKS} ", "yellow").append("\n".join(lines[:_PANEL]))
        if len(lines) > _PANEL:
            text.append(f"\n… {len(lines) - _PANEL} more lines; v shows all")
        if view is not None and view.left is not None:
            most = money(view.left, rounding=Rounding.DOWN)
            text.append(f"\nit can spend at most {most} more")
        panel.update(text)

    def _show_figures(self, runtime: RuntimeView, views: Sequence[ProcessView]) -> None:
        up = duration(runtime.now_ms - runtime.since_ms, brief=True)
        processes = count(runtime.processes, "process", "processes")
        who = Text(f"{one_line(runtime.name)} · up {up} · {processes}")
        self.query_one("#who", Static).update(who)
        self.query_one("#health", Static).update(_health(views))
        is_wide = self.size.width >= _WIDE
        self.query_one("#money", Static).update(_money(runtime, is_wide=is_wide))
        rate = sum(view.tokens_per_s for view in views)
        self.query_one("#rate", Static).update(f"{rate:,.1f} tok/s")

    def _show_rows(self, views: Sequence[ProcessView]) -> None:
        chosen = self._chosen if self._views else None
        names = [
            lead + one_line(name_of(view)) for view, lead in zip(views, leads(views), strict=True)
        ]
        filled = [names, *(one.cells(views, self._now_ms) for one in COLUMNS)]
        rows = [list(row) for row in zip(*filled, strict=True)]
        widths = fitted(_COLUMNS, rows, max(20, self.size.width - 4))
        shape = (tuple(widths.items()), tuple(view.path for view in views))
        is_new, self._shape = shape != self._shape, shape
        if is_new:
            self._table.clear(columns=True)
            for number, width in widths.items():
                column = _COLUMNS[number]
                head = Text(column.title, "dim", justify="right" if column.right else "left")
                self._table.add_column(head, width=width, key=column.title)
        for view, row in zip(views, rows, strict=True):
            cells = {_COLUMNS[n].title: _cell(row[n], _COLUMNS[n], w) for n, w in widths.items()}
            if is_new:
                self._table.add_row(*cells.values(), key=view.path)
                continue
            for title, cell in cells.items():
                self._table.update_cell(view.path, title, cell)
        self._views = {view.path: view for view in views}
        if is_new and chosen is not None and chosen.path in self._views:
            self._table.move_cursor(row=list(self._views).index(chosen.path))

    async def _show_chosen(self) -> None:
        chosen = self._chosen
        if chosen is None:
            self.query_one("#facts", Static).update("No process runs.")
            self.query_one("#entries", Static).update("")
            return
        self.query_one("#facts", Static).update(_facts(chosen, self._now_ms))
        shows = self.query_one("#entries", Static)  # before waiting: the screen may be left
        height = max(1, shows.size.height)
        entries = await self._entries(chosen.path)
        widest = max((len(entry.process) for entry in entries), default=0)
        lines = [render_entry(entry, widest) for entry in [*entries][-height:]]
        shown = Text("\n".join(lines), overflow="ellipsis", no_wrap=True)
        shows.update(shown)

    async def _entries(self, path: str) -> deque[LogEntry]:
        last: deque[LogEntry] = deque(maxlen=_ENTRIES)
        try:
            async with aclosing(self._remote.logs(path)) as entries:
                async for entry in entries:
                    last.append(entry)
        except UserError:
            return last
        return last


def _money(runtime: RuntimeView, *, is_wide: bool) -> Text:
    """The budget as a bar and in figures; a narrow screen has no room for what is reserved in
    words, and its bar shows that."""
    if runtime.left is None:
        return Text(f"{money(runtime.spent)} spent, no limit")
    shown = figures(at_most(runtime), runtime.spent, runtime.reserved)
    solid, held, left = bar_cells(at_most(runtime), runtime.spent, runtime.reserved, _BAR)
    text = Text().append("█" * solid + "▒" * held, "cyan").append("░" * left, "dim")
    reserved = f"{shown.reserved} reserved  " if is_wide and runtime.reserved else ""
    of = "of at most" if runtime.at_most is not None else "/"
    figures_told = f"  {reserved}{shown.spent} {of} {shown.at_most}  {shown.left} left"
    return text.append(figures_told)


def _health(views: Sequence[ProcessView]) -> Text:
    asked = sum(map(needs_person, views))
    counts = {
        "needs you": (asked, "yellow"),
        "stuck": (sum(view.health is Health.STUCK for view in views), "red"),
        "failing": (sum(view.health is Health.FAILING for view in views), "red"),
        "slow": (sum(view.health is Health.SLOW for view in views), "yellow"),
    }
    counts["ok"] = (len(views) - sum(number for number, _ in counts.values()), "")
    text = Text(overflow="ellipsis")
    for word, (number, style) in counts.items():
        if number > 0 or word == "ok":
            text.append(f"{max(0, number)} {word}   ", style or "default")
    return text


def _facts(view: ProcessView, now_ms: int) -> Text:
    text = Text(overflow="ellipsis", no_wrap=True)
    state = state_of(view)
    text.append(one_line(view.path), "bold")
    text.append(f"  {view.kind} ")
    text.append(state.text, RICH_STYLES[Tone(state.tone)] or "default")
    since = f"  for {duration(now_ms - view.since_ms, brief=True)}" if view.since_ms else ""
    text.append(f"{since}\n{one_line(view.pid)}")
    if view.last_exit:
        text.append(f"\nlast exit: {one_line(view.last_exit)}", "red")
    return text


def _cell(given: Cell | str, column: Column, width: int) -> Text:
    text, tone = given if isinstance(given, Cell) else (given, Tone.PLAIN)
    shorten = middle if column.name else cut
    shown = shorten(PIPE.text(text), width)
    return Text(shown, RICH_STYLES[Tone(tone)], justify="right" if column.right else "left")
