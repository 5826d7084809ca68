"""This module shows values and processes in a terminal: amounts, durations, tables and trees.

Text that a model wrote is cleaned here, because it may not steer the terminal.
"""

import argparse
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TextIO

from vegakit.control import (
    OPERATIONS,
    Health,
    ProcessKind,
    ProcessStatus,
    ProcessView,
    RuntimeView,
)
from vegakit.money import Money, format_money

# What `ps`, `top`, `tree`, `kill` and `logs` share: which runtime, and how values are spelled.


PLAIN = "\x1b[0m"
_DIM, _RED, _GREEN, _YELLOW, _CYAN = (f"\x1b[{code}m" for code in (2, 31, 32, 33, 36))
COLOURS: dict[ProcessStatus | Health, str] = {
    ProcessStatus.IDLE: _DIM,
    ProcessStatus.RUNNING: _GREEN,
    ProcessStatus.WAITING: _CYAN,
    ProcessStatus.STOPPING: _YELLOW,
    ProcessStatus.RESTARTING: _RED,
    ProcessStatus.OVER: _DIM,
    Health.OK: _GREEN,
    Health.SLOW: _YELLOW,
    Health.STUCK: _RED,
    Health.FAILING: _RED,
}
_CENT = 10_000_000
_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000))
_LONGEST = 200


def command_parser(verb: str, more: str = "") -> argparse.ArgumentParser:
    """Return the parser of a command on a running runtime. An operation of the control table is
    described by its row, and `more` is added."""
    row = OPERATIONS.get(verb)
    description = more if row is None else f"{row.description} {more}".rstrip()
    parser = argparse.ArgumentParser(prog=f"vega {verb}", description=description)
    parser.add_argument(
        "--at",
        metavar="RUNTIME",
        help="its name, its OS pid or its socket; not needed if only one runs",
    )
    return parser


def terminal_width(stream: TextIO) -> int | None:
    """Return the width of a terminal, or None where nobody looks: then nothing is cut."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def duration(ms: float) -> str:
    """Return a duration in its largest unit."""
    for unit, size in _UNITS:
        if ms >= size:
            return f"{int(ms // size)} {unit}"
    return f"{max(0, ms):.0f} ms"


def amount(money: Money | None) -> str:
    """Return an amount, from a dollar on in whole cents and never more than there is."""
    if money is None:
        return "–"
    return format_money(Money(money // _CENT * _CENT) if money >= 100 * _CENT else money)


def supervision(view: ProcessView) -> str:
    """Return how a process is supervised."""
    return f"{view.strategy} ×{view.restarts}" if view.restarts else view.strategy


def doing(view: ProcessView, now_ms: int) -> str:
    """Return what a process waits for and until when, and what ended its last incarnation, if that
    was a failure."""
    words = [view.waiting_for]
    if view.until_ms is not None:
        left_ms = view.until_ms - now_ms
        words.append(f"{duration(left_ms)} left" if left_ms > 0 else f"{duration(-left_ms)} late")
    if view.restarts and view.health is Health.FAILING:
        words.append(f"after {view.last_exit}")
    return one_line(", ".join(filter(None, words)))


def headings(runtime: RuntimeView) -> tuple[str, str]:
    """Return which runtime it is, and how it does."""
    up = duration(runtime.now_ms - runtime.since_ms)
    who = f"{one_line(runtime.name)} · OS process {runtime.os_pid} · up {up}"
    works = f"{runtime.processes} processes, {runtime.tasks} tasks"
    money = f"{amount(runtime.spent)} spent, {amount(runtime.left)} left"
    return who, f"{works}, {runtime.os_children} OS children · {money}"


def one_line(text: str) -> str:
    """Return text that cannot steer the terminal: a model may have written it."""
    clean = "".join(letter if letter.isprintable() else " " for letter in text[:_LONGEST])
    return clean + ("…" if len(text) > _LONGEST else "")


# Processes as text: a table and a tree. A column that has nothing to say is left out.


NUMBERS = {"SPENT", "LEFT", "TOK/S", "MAIL", "OS", "FOR"}
_GAP = "  "


def _no_colour(view: ProcessView) -> str:
    return ""


@dataclass(frozen=True)
class Column:
    """A column of the table of processes; empty text is nothing to say."""

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
    """Return the processes as a table. `width` cuts the last column, in which texts are long."""
    names = [one_line(view.path) for view in views]
    return _rendered("ID", names, views, COLUMNS, now_ms, colour=colour, width=width)


def render_tree(
    views: Sequence[ProcessView], now_ms: int, *, colour: bool = False, width: int | None = None
) -> str:
    """Return the processes as a tree."""
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
    """Return the name of a process without what stands above it in the tree."""
    return view.path.rpartition("/")[2]


def _state(view: ProcessView) -> str:
    """A supervisor that has nothing to do is as it should be."""
    is_quiet = (
        view.kind is ProcessKind.SUPERVISOR and view.health is Health.OK and view.state == "idle"
    )
    return "" if is_quiet else view.state
