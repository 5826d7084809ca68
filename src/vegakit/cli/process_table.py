"""Processes as text: a table and a tree. A column that has nothing to say is left out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vegakit.cli.looking import COLOURS, PLAIN, amount, doing, duration, one_line, supervision
from vegakit.runtime import Health, Kind, ProcessView

__all__ = ["COLUMNS", "NUMBERS", "Column", "leads", "render_table", "render_tree"]

NUMBERS = {"SPENT", "LEFT", "TOK/S", "MAIL", "OS", "FOR"}
_GAP = "  "


def _no_colour(view: ProcessView) -> str:
    return ""


@dataclass(frozen=True)
class Column:
    """Empty text is nothing to say."""

    title: str
    text: Callable[[ProcessView, int], str]
    colour: Callable[[ProcessView], str] = _no_colour


COLUMNS = (
    Column("KIND", lambda view, _: view.kind),
    Column("STATE", lambda view, _: _state(view), lambda view: COLOURS[view.state]),
    Column("FOR", lambda view, now: duration(now - view.since_ms) if view.since_ms else ""),
    Column("HEALTH", lambda view, _: view.health, lambda view: COLOURS[view.health]),
    Column("SUPERVISION", lambda view, _: supervision(view)),
    Column("SPENT", lambda view, _: amount(view.spent) if view.spent else ""),
    Column("LEFT", lambda view, _: "" if view.left is None else amount(view.left)),
    Column("TOK/S", lambda view, _: f"{view.tokens_per_s:,.1f}" if view.tokens_per_s else ""),
    Column("MAIL", lambda view, _: str(view.mailbox or "")),
    Column("OS", lambda view, _: str(view.os_children or "")),
    Column("WAITING FOR", doing),
)


def render_table(
    views: Sequence[ProcessView], now_ms: int, *, colour: bool = False, width: int | None = None
) -> str:
    """`width` cuts the last column, in which texts are long."""
    names = [one_line(view.path) for view in views]
    return _rendered("ID", names, views, COLUMNS, now_ms, colour=colour, width=width)


def render_tree(
    views: Sequence[ProcessView], now_ms: int, *, colour: bool = False, width: int | None = None
) -> str:
    names = [lead + one_line(_name(view)) for view, lead in zip(views, leads(views), strict=True)]
    columns = [column for column in COLUMNS if column.title not in {"FOR", "TOK/S", "MAIL"}]
    lines = _rendered("", names, views, columns, now_ms, colour=colour, width=width)
    return lines.partition("\n")[2]


def leads(views: Sequence[ProcessView]) -> list[str]:
    """The branches before each name; `views` stand in tree order."""
    last_below = {view.parent: view.path for view in views}
    indents = {"": ""}
    found: list[str] = []
    for view in views:
        is_last = last_below[view.parent] == view.path
        indent = indents.get(view.parent, "")
        found.append(indent + ("└─ " if is_last else "├─ "))
        indents[view.path] = indent + ("   " if is_last else "│  ")
    return found


def _rendered(
    head: str,
    names: Sequence[str],
    views: Sequence[ProcessView],
    columns: Sequence[Column],
    now_ms: int,
    *,
    colour: bool,
    width: int | None,
) -> str:
    cells = {column: [column.text(view, now_ms) for view in views] for column in columns}
    shown = [column for column in columns if any(cells[column])]
    name_width = max(map(len, [head, *names]))
    widths = {column: max(map(len, [column.title, *cells[column]])) for column in shown}
    if width is not None and shown:
        before = name_width + sum(len(_GAP) + widths[column] for column in shown[:-1])
        widths[shown[-1]] = max(8, min(widths[shown[-1]], width - before - len(_GAP)))
    lines = [_GAP.join([head.ljust(name_width), *(_fit(c.title, c, widths) for c in shown)])]
    for row, view in enumerate(views):
        texts = [names[row].ljust(name_width)]
        for column in shown:
            mark = column.colour(view) if colour else ""
            text = _fit(cells[column][row], column, widths)
            texts.append(f"{mark}{text}{PLAIN}" if mark else text)
        lines.append(_GAP.join(texts))
    return "\n".join(line.rstrip() for line in lines)


def _fit(text: str, column: Column, widths: dict[Column, int]) -> str:
    width = widths[column]
    cut = text if len(text) <= width else f"{text[: width - 1]}…"
    return cut.rjust(width) if column.title in NUMBERS else cut.ljust(width)


def _name(view: ProcessView) -> str:
    """Without what stands above it in the tree."""
    return view.path.rpartition("/")[2]


def _state(view: ProcessView) -> str:
    """A supervisor that has nothing to do is as it should be."""
    is_quiet = view.kind is Kind.SUPERVISOR and view.health is Health.OK and view.state == "idle"
    return "" if is_quiet else view.state
