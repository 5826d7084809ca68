"""The screen of `vega top`: figures, a table of processes, and the selected one in full.

It needs Textual, so only `vega top` imports it.
"""

from collections import deque
from contextlib import aclosing
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import DataTable, Footer, Sparkline, Static

from vegakit.cli.display import COLOURS, COLUMNS, NUMBERS, duration, headings, leads, one_line
from vegakit.cli.processes import render_entry, render_killed
from vegakit.control import ControlClient, Health, LogEntry, ProcessStatus, ProcessView, RuntimeView
from vegakit.errors import UserError

_EVERY_S = 1.0
_MOMENTS = 60
_ENTRIES = 200


class TopApp(App[None]):
    """The screen of `vega top`. Keys with a question wait for `y`; anything else takes the question
    back."""

    TITLE = "vega top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #figures { height: 3; padding: 0 1; background: $panel; }
    #summary { width: 1fr; }
    #rate { width: 34; }
    Sparkline { height: 2; }
    DataTable { height: 1fr; scrollbar-size-horizontal: 0; }
    #chosen { height: 12; border-top: solid $primary; padding: 0 1; }
    #facts { height: auto; max-height: 4; }
    #entries { height: 1fr; color: $text-muted; }
    #question { height: auto; padding: 0 1; background: $error; color: $text; display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "leave"),
        Binding("k", "ask_kill(False)", "kill"),
        Binding("K", "ask_kill(True)", "kill tree"),
        Binding("p", "pause", "pause"),
        Binding("y", "confirm", "yes", show=False),
        Binding("n,escape", "take_back", "no", show=False),
    ]

    def __init__(self, remote: ControlClient, *, every_s: float = _EVERY_S) -> None:
        super().__init__()
        self._remote = remote
        self._every_s = every_s
        self._views: dict[str, ProcessView] = {}
        self._rates: deque[float] = deque([0.0] * _MOMENTS, maxlen=_MOMENTS)
        self._paused = False
        self._doomed: tuple[str, bool] | None = None
        self._now_ms = 0

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        with Horizontal(id="figures"):
            yield Static(id="summary")
            with Vertical(id="rate"):
                yield Static(id="tokens")
                yield Sparkline(list(self._rates))
        yield DataTable[Text](cursor_type="row", zebra_stripes=True)
        with Vertical(id="chosen"):
            yield Static(id="facts")
            yield Static(id="entries")
        yield Static(id="question")
        yield Footer()

    async def on_mount(self) -> None:
        """Fill the table, and refresh it every second."""
        self._table.add_column("ID", key="ID")
        for column in COLUMNS:
            self._table.add_column(column.title, key=column.title)
        self._table.focus()
        await self.refresh_views()
        self.set_interval(self._every_s, self.refresh_views)

    async def refresh_views(self) -> None:
        """Ask the runtime, and show what it says."""
        if self._paused:
            return
        try:
            runtime, views = await self._remote.info(), await self._remote.ps()
        except UserError as error:
            self._say(f"{error}; q leaves")
            return
        self._show_figures(runtime, views)
        self._now_ms = runtime.now_ms
        self._show_rows(views)
        await self._show_chosen()

    async def on_data_table_row_highlighted(self) -> None:
        """Show the process that was chosen."""
        if self._views:
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
        self._say(f"Kill {chosen.path}{' ' if tree else ''}{what}?  y / n")

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

    @property
    def _table(self) -> DataTable[Text]:
        return self.query_one(DataTable[Text])

    @property
    def _chosen(self) -> ProcessView | None:
        row = self._table.cursor_row
        return list(self._views.values())[row] if row < len(self._views) else None

    def _say(self, text: str) -> None:
        question = self.query_one("#question", Static)
        question.update(Text(text))
        question.display = bool(text)

    def _show_figures(self, runtime: RuntimeView, views: list[ProcessView]) -> None:
        rate = sum(view.tokens_per_s for view in views)
        self._rates.append(rate)
        self.query_one("#tokens", Static).update(f"{rate:,.1f} tokens/s")
        self.query_one(Sparkline).data = list(self._rates)
        who, what = headings(runtime)
        summary = Text(f"{who}\n", "bold", overflow="ellipsis").append(f"{what}\n", "not bold")
        for health in Health:
            count = sum(view.health is health for view in views)
            style = _style(health) if count else "dim"
            summary.append(f"{count} {health}   ", style)
        self.query_one("#summary", Static).update(summary)

    def _show_rows(self, views: list[ProcessView]) -> None:
        chosen = self._chosen
        if list(self._views) != [view.path for view in views]:
            self._table.clear()
            for view in views:
                self._table.add_row(*([Text("")] * (len(COLUMNS) + 1)), key=view.path)
        self._views = {view.path: view for view in views}
        for view, lead in zip(views, leads(views), strict=True):
            name = Text.assemble((lead, "dim"), (one_line(view.path.rpartition("/")[2]), "bold"))
            self._table.update_cell(view.path, "ID", name, update_width=True)
            for column in COLUMNS:
                cell = _cell(column.title, column.text(view, self._now_ms), view)
                self._table.update_cell(view.path, column.title, cell, update_width=True)
        if chosen is not None and chosen.path in self._views:
            self._table.move_cursor(row=list(self._views).index(chosen.path))

    async def _show_chosen(self) -> None:
        chosen = self._chosen
        if chosen is None:
            self.query_one("#facts", Static).update("nothing runs")
            self.query_one("#entries", Static).update("")
            return
        self.query_one("#facts", Static).update(_facts(chosen, self._now_ms))
        height = max(1, self.query_one("#entries", Static).size.height)
        entries = await self._entries(chosen.path)
        widest = max((len(entry.process) for entry in entries), default=0)
        lines = [render_entry(entry, widest) for entry in [*entries][-height:]]
        self.query_one("#entries", Static).update(Text("\n".join(lines), overflow="ellipsis"))

    async def _entries(self, path: str) -> deque[LogEntry]:
        last: deque[LogEntry] = deque(maxlen=_ENTRIES)
        try:
            async with aclosing(self._remote.logs(path)) as entries:
                async for entry in entries:
                    last.append(entry)
        except UserError:
            return last
        return last


def _facts(view: ProcessView, now_ms: int) -> Text:
    text = Text(overflow="ellipsis")
    text.append(one_line(view.path), "bold")
    text.append(f"  {view.kind} {view.state}", _style(view.state))
    since = f"  for {duration(now_ms - view.since_ms)}" if view.since_ms else ""
    text.append(f"{since}\n{one_line(view.pid)}", "dim")
    if view.last_exit:
        text.append(f"\nlast exit: {one_line(view.last_exit)}", "red")
    return text


def _cell(title: str, text: str, view: ProcessView) -> Text:
    styles = {"STATE": _style(view.state), "HEALTH": _style(view.health)}
    return Text(text, styles.get(title, ""), justify="right" if title in NUMBERS else "left")


def _style(word: ProcessStatus | Health) -> str:
    return _STYLES[COLOURS[word]]


_STYLES = {
    "\x1b[2m": "dim",
    "\x1b[31m": "bold red",
    "\x1b[32m": "green",
    "\x1b[33m": "yellow",
    "\x1b[36m": "cyan",
}
