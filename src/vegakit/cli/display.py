"""The processes of a runtime for people: their states, a table of them and a tree.

`ps`, `top`, `tree`, `kill`, `logs` and `answer` share it. How anything is drawn stands in `look`.
"""

import argparse
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeGuard

from msgspec.structs import replace

from vegakit.cli.look import (
    PIPE,
    Cell,
    Column,
    Look,
    Rounding,
    Sign,
    Tone,
    bar,
    count,
    duration,
    figures,
    money,
    moneys,
    one_line,
    table,
)
from vegakit.cli.main import Argument, CommandParser
from vegakit.control import (
    OPERATIONS,
    Health,
    ProcessKind,
    ProcessStatus,
    ProcessView,
    RuntimeView,
)
from vegakit.money import Money


def command_parser(
    verb: str, more: str = "", at: str = "", arguments: Sequence[Argument] = ()
) -> CommandParser:
    """Return the parser of a command on a running runtime. An operation of the control table is
    described by its row, and `more` is added; `at` is where else it may be used."""
    row = OPERATIONS.get(verb)
    description = more if row is None else f"{row.description} {more}".rstrip()
    return CommandParser(
        prog=f"vega {verb}",
        description=description,
        arguments=[
            Argument(
                "--at",
                metavar="RUNTIME",
                type=partial(_place, takes_kernel=at == AT_KERNEL),
                help=f"its name, its OS pid or its socket; not needed if only one runs{at}",
            ),
            *arguments,
        ],
    )


AT_KERNEL = "; or the URL of a kernel, with your token in VEGA_TOKEN"


def _place(at: str, *, takes_kernel: bool) -> str:
    """Refuse the address of a kernel that the command line does not speak to, or not in this
    command; all else names a runtime."""
    if "://" not in at or (takes_kernel and is_kernel(at)):
        return at
    if is_kernel(at):
        raise argparse.ArgumentTypeError(
            f"this command is for a runtime on this machine, and {at} is a kernel; those that take "
            "the URL of a kernel are vega ps, kill, interrupts and answer"
        )
    if at.startswith(("grpc://", "grpcs://")):
        raise argparse.ArgumentTypeError(
            f"{at} is spoken to by gRPC, and this command line speaks HTTP; name the http:// "
            "address of the server, which opens both by: vega serve --doors http,grpc"
        )
    raise argparse.ArgumentTypeError(
        f"{at} is no address of a kernel; those begin with http:// or https://"
    )


def is_kernel(at: str | None) -> TypeGuard[str]:
    """Say whether `--at` names a kernel, and not a runtime. Its commands are loaded then only."""
    return at is not None and at.startswith(("http://", "https://"))


# What a process does, as a sign and a word.


_STATES: Mapping[ProcessStatus, tuple[Sign, str, str]] = {
    ProcessStatus.IDLE: (Sign.WAITING, "idle", Tone.PLAIN),
    ProcessStatus.RUNNING: (Sign.WORKING, "working", Tone.WORK),
    ProcessStatus.WAITING: (Sign.WORKING, "working", Tone.WORK),
    ProcessStatus.STOPPING: (Sign.HELD, "stopping", Tone.ASK),
    ProcessStatus.RESTARTING: (Sign.RESTARTED, "restarting", Tone.BAD),
    ProcessStatus.OVER: (Sign.WAITING, "ended", Tone.PLAIN),
}
_HEALTHS: Mapping[Health, tuple[Sign, str, str]] = {
    Health.SLOW: (Sign.HELD, "slow", Tone.ASK),
    Health.STUCK: (Sign.FAILED, "stuck", Tone.BAD),
    Health.FAILING: (Sign.FAILED, "failing", Tone.BAD),
}
_OWN_WORDS = {ProcessStatus.RESTARTING, ProcessStatus.STOPPING, ProcessStatus.OVER}
_PERSON, _TURN, _MODEL = "person", "its turn", "model "


def state_of(view: ProcessView) -> Cell:
    """Return the state of a process: what needs a person first, then what is wrong, then what it
    does. A supervisor that has nothing to do is as it should be, so only its sign is shown."""
    if needs_person(view):
        return Cell(f"{Sign.ASKS} needs you", Tone.ASK)
    if view.health in _HEALTHS and view.state not in _OWN_WORDS:
        sign, word, tone = _HEALTHS[view.health]
        return Cell(f"{sign} {word}", tone)
    if view.kind is ProcessKind.SUPERVISOR and view.state is ProcessStatus.IDLE:
        return Cell(str(Sign.WAITING))
    if view.state is ProcessStatus.WAITING and view.waiting_for == _TURN:
        return Cell(f"{Sign.WAITING} waiting")
    sign, word, tone = _STATES[view.state]
    return Cell(f"{sign} {word}", tone)


def needs_person(view: ProcessView) -> bool:
    """Return whether a process waits for a person."""
    return view.waiting_for.split(", ")[0] == _PERSON


def supervision(view: ProcessView) -> str:
    """Return how a process is supervised."""
    return f"{view.strategy} ×{view.restarts}" if view.restarts else view.strategy


def doing(view: ProcessView, now_ms: int) -> str:
    """Return what a process waits for and until when, and what ended its last incarnation, if that
    was a failure."""
    words = [_waiting(view)]
    if view.until_ms is not None:
        left_ms = view.until_ms - now_ms
        late = left_ms <= 0
        words.append(f"{duration(abs(left_ms), brief=True)} {'late' if late else 'left'}")
    if view.restarts and view.health is Health.FAILING:
        words.append(f"after {view.last_exit}")
    return one_line(", ".join(filter(None, words)))


def _waiting(view: ProcessView) -> str:
    """Return what a process waits for, a model by its own name; that it is a person is its
    state."""
    words = [word for word in view.waiting_for.split(", ") if word != _PERSON]
    return ", ".join(
        word.rpartition(":")[2] if word.startswith(_MODEL) else word for word in words
    ).removeprefix(_MODEL)


def headings(runtime: RuntimeView, look: Look = PIPE) -> tuple[str, str]:
    """Return which runtime it is, and how it does."""
    up = duration(runtime.now_ms - runtime.since_ms, brief=True)
    who = f"{one_line(runtime.name)} · OS process {runtime.os_pid} · up {up}"
    works = f"{count(runtime.processes, 'process', 'processes')}, {count(runtime.tasks, 'task')}"
    children = count(runtime.os_children, "OS child", "OS children")
    return look.text(who), look.text(f"{works}, {children} · {budget_words(runtime)}")


def budget_words(runtime: RuntimeView) -> str:
    """Return the money of a runtime: at most, reserved, spent, left."""
    if runtime.left is None:
        held = f"{money(runtime.reserved)} reserved, " if runtime.reserved else ""
        return f"{held}{money(runtime.spent)} spent, no limit"
    shown = figures(at_most(runtime), runtime.spent, runtime.reserved)
    held = f"{shown.reserved} reserved, " if runtime.reserved else ""
    return f"at most {shown.at_most}: {held}{shown.spent} spent, {shown.left} left"


def at_most(runtime: RuntimeView) -> Money:
    """Return what a quoted run may come to by now, or else the cap of a runtime: what it has spent,
    holds and has left."""
    if runtime.at_most is not None:
        return runtime.at_most
    return Money(runtime.spent + runtime.reserved + (runtime.left or 0))


def budget_bar(runtime: RuntimeView, look: Look, cells_wide: int = 12) -> str:
    """Return the money of a runtime as a bar; nothing where no cap is."""
    if runtime.left is None:
        return ""
    return bar(look, at_most(runtime), runtime.spent, runtime.reserved, cells_wide)


_SPENDERS = {ProcessKind.AGENT, ProcessKind.PROGRAM}


def limited(views: Sequence[ProcessView], runtime: RuntimeView) -> list[ProcessView]:
    """Return processes whose `left` is what they can really spend: no more than is left to the
    runtime and than a quoted run still comes to, however large their own wallets are."""
    most, left = runtime.at_most, runtime.left
    if most is not None:
        # A budget of a period counts what other runs spent, too: of this one it is less.
        spent = min(runtime.spent, max((view.spent for view in views), default=Money(0)))
        rest = Money(max(0, most - spent))
        left = rest if left is None else min(left, rest)
    return [_limited(view, left) for view in views]


def _limited(view: ProcessView, left: Money | None) -> ProcessView:
    spends = view.left is not None or bool(view.spent) or view.kind in _SPENDERS
    if left is None or not spends:
        return view
    return replace(view, left=left if view.left is None else min(view.left, left))


# Processes as text: a table and a tree.


@dataclass(frozen=True)
class ProcessColumn:
    """A column of the table of processes, and its cells."""

    column: Column
    cells: Callable[[Sequence[ProcessView], int], Sequence[Cell | str]]


def _each(
    text: Callable[[ProcessView, int], Cell | str],
) -> Callable[[Sequence[ProcessView], int], list[Cell | str]]:
    return lambda views, now: [text(view, now) for view in views]


def _since(view: ProcessView, now_ms: int) -> str:
    return duration(now_ms - view.since_ms, brief=True) if view.since_ms else ""


def _left(views: Sequence[ProcessView]) -> list[str]:
    """Nothing left is a figure too, so unlike what is spent it is shown."""
    amounts = [view.left for view in views]
    shown = moneys(amounts, Rounding.DOWN)
    places = len(next(filter(None, shown), "$0.0000").rpartition(".")[2])
    return [
        text or ("" if one is None else money(0, places))
        for text, one in zip(shown, amounts, strict=True)
    ]


NAME = Column("Process", name=True)
COLUMNS = (
    ProcessColumn(Column("Kind", drop=6), _each(lambda view, _: str(view.kind))),
    ProcessColumn(Column("State"), _each(lambda view, _: state_of(view))),
    ProcessColumn(
        Column("For", right=True, drop=3),
        _each(_since),
    ),
    ProcessColumn(Column("Supervision", drop=7), _each(lambda view, _: supervision(view))),
    ProcessColumn(
        Column("Reserved", right=True, drop=5),
        lambda views, _: moneys([view.reserved for view in views], Rounding.UP),
    ),
    ProcessColumn(
        Column("Spent", right=True),
        lambda views, _: moneys([view.spent for view in views]),
    ),
    ProcessColumn(Column("Left", right=True), lambda views, _: _left(views)),
    ProcessColumn(
        Column("Tok/s", right=True, drop=8),
        _each(lambda view, _: f"{view.tokens_per_s:,.1f}" if view.tokens_per_s else ""),
    ),
    ProcessColumn(
        Column("Messages", right=True, drop=9), _each(lambda view, _: str(view.mailbox or ""))
    ),
    ProcessColumn(
        Column("OS", right=True, drop=10), _each(lambda view, _: str(view.os_children or ""))
    ),
    ProcessColumn(Column("Waiting for", drop=4, least=12), _each(doing)),
)
_NOT_IN_TREES = {"For", "Tok/s", "Messages"}


def render_table(views: Sequence[ProcessView], now_ms: int, look: Look = PIPE) -> str:
    """Return the processes as a table."""
    names = [one_line(view.path) for view in views]
    return _rendered(names, views, COLUMNS, now_ms, look)


def render_tree(views: Sequence[ProcessView], now_ms: int, look: Look = PIPE) -> str:
    """Return the processes as a tree."""
    names = [lead + one_line(name_of(view)) for view, lead in zip(views, leads(views), strict=True)]
    columns = [one for one in COLUMNS if one.column.title not in _NOT_IN_TREES]
    return _rendered(names, views, columns, now_ms, look)


def leads(views: Sequence[ProcessView]) -> list[str]:
    """Return the branches before each name; `views` stand in tree order."""
    last_below = {view.parent: view.path for view in views}
    indents = {"": ""}
    found: list[str] = []
    for view in views:
        is_last = last_below[view.parent] == view.path
        indent = indents.get(view.parent, "")
        branch = ("└─ " if is_last else "├─ ") if view.parent else ""
        found.append(indent + branch)
        deeper = ("   " if is_last else "│  ") if view.parent else ""
        indents[view.path] = indent + deeper
    return found


def _rendered(
    names: Sequence[str],
    views: Sequence[ProcessView],
    columns: Collection[ProcessColumn],
    now_ms: int,
    look: Look,
) -> str:
    filled = [names, *(one.cells(views, now_ms) for one in columns)]
    rows = [list(row) for row in zip(*filled, strict=True)]
    return table([NAME, *(one.column for one in columns)], rows, look)


def name_of(view: ProcessView) -> str:
    """Return the name of a process without what stands above it in the tree."""
    return view.path.rpartition("/")[2]
