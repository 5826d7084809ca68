"""The options of `vega code` that show sessions and worktrees and ask no model."""

import argparse
import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

from vegakit.cli.look import (
    Cell,
    Column,
    Rounding,
    Sign,
    Tone,
    count,
    decimals_of,
    look_of,
    moment,
    money,
    one_line,
    print_json,
    table,
)
from vegakit.config import load
from vegakit.money import NANOS
from vegakit.sage import (
    SessionInfo,
    SessionState,
    Worktree,
    event_line,
    export_session,
    list_sessions,
    list_worktrees,
    remove_worktree,
    rename_session,
    search_sessions,
    transcript,
)

_COLUMNS = (
    Column("Session"),
    Column("State"),
    Column("Turns", right=True, drop=2),
    Column("Spent", right=True, drop=1),
    Column("Used", drop=3),
    Column("Last prompt", drop=4, least=14),
)
_WORKTREES = (
    Column("Worktree"),
    Column("State"),
    Column("Ahead", right=True, drop=1),
    Column("Folder", drop=2, least=14),
)
_STATES = {
    SessionState.WORKING: (Sign.WORKING, Tone.WORK),
    SessionState.OPEN: (Sign.OPEN, Tone.PLAIN),
    SessionState.CUT_OFF: (Sign.HELD, Tone.ASK),
    SessionState.FAILED: (Sign.FAILED, Tone.BAD),
    SessionState.DONE: (Sign.DONE, Tone.OK),
}


def add_session_options(add: Callable[..., object]) -> None:
    """Add the options by `add_argument` of the group of which one is chosen."""
    add("--list", action="store_true", help="show the sessions of this folder")
    add("--search", metavar="TEXT", help="show where a text stands in prompts and answers")
    add(
        "--export",
        nargs="?",
        const="",
        metavar="SESSION",
        help="print a session as Markdown, with --json as its events",
    )
    add("--rename", nargs=2, metavar=("SESSION", "NAME"), help="give a session another name")
    add("--worktrees", action="store_true", help="show the worktrees that --worktree has made")
    add("--remove-worktree", metavar="NAME", help="remove a worktree that has no open changes")


def is_shown(chosen: argparse.Namespace) -> bool:
    """Return whether one of the options was chosen."""
    return any(_is_chosen(chosen, name) for name in _SHOWN)


def show_sessions(chosen: argparse.Namespace) -> int:
    """Carry out the option that was chosen."""
    return next(show for name, show in _SHOWN.items() if _is_chosen(chosen, name))(chosen)


def _is_chosen(chosen: argparse.Namespace, name: str) -> bool:
    return getattr(chosen, name) not in (None, False)


def _list(chosen: argparse.Namespace) -> int:
    found = asyncio.run(list_sessions())
    if chosen.json:
        print_json(found)
    elif found:
        print(table(_COLUMNS, [_row(one) for one in found], look_of(sys.stdout)))
    else:
        print("No session was begun in this folder; begin one: vega code -p '…'")
    return 0


def _row(one: SessionInfo) -> list[Cell | str]:
    sign, tone = _STATES[one.state]
    turns = f"{one.turns:,}" + (f" ({one.undone:,} undone)" if one.undone else "")
    nanos = None if one.spent_usd is None else round(one.spent_usd * NANOS)
    spent = money(nanos, max(4, decimals_of(nanos)), Rounding.UP)
    return [
        one_line(one.name),
        Cell(f"{sign} {one.state}", tone),
        turns,
        spent,
        moment(one.used_ms),
        one_line(one.prompt),
    ]


def _search(chosen: argparse.Namespace) -> int:
    """Print one line a place; the status is 1 if the text stands nowhere, as that of grep is."""
    found = asyncio.run(search_sessions(chosen.search))
    if chosen.json:
        print_json(found)
    else:
        for one in found:
            by = "prompt" if one.is_prompt else "answer"
            print(f"{one_line(one.session)} {one.turn} {by}: {one_line(one.text)}")
    return int(not found)


def _export(chosen: argparse.Namespace) -> int:
    events = asyncio.run(export_session(chosen.export))
    if chosen.json:
        for event in events:
            print(event_line(event))
    else:
        print(transcript(events), end="")
    return 0


def _rename(chosen: argparse.Namespace) -> int:
    asyncio.run(rename_session(*chosen.rename))
    return 0


def _worktrees(chosen: argparse.Namespace) -> int:
    found = list_worktrees(Path.cwd(), load().data_path)
    if chosen.json:
        print_json(found)
    elif found:
        print(table(_WORKTREES, [_worktree_row(one) for one in found], look_of(sys.stdout)))
    else:
        print("This repository has no worktree of ours; make one: vega code --worktree NAME -p '…'")
    return 0


def _worktree_row(one: Worktree) -> list[Cell | str]:
    state = Cell(count(one.changed, "file") + " changed", Tone.ASK) if one.changed else "clean"
    return [one.name, state, count(one.commits, "commit"), one_line(one.folder)]


def _remove(chosen: argparse.Namespace) -> int:
    gone = remove_worktree(Path.cwd(), chosen.remove_worktree, load().data_path)
    if chosen.json:
        print_json(gone)
        return 0
    kept = f"; its branch {gone.branch} has {count(gone.commits, 'commit')} and stays"
    print(f"worktree {gone.name} is removed{kept if gone.commits else ''}")
    return 0


_SHOWN: dict[str, Callable[[argparse.Namespace], int]] = {
    "list": _list,
    "search": _search,
    "export": _export,
    "rename": _rename,
    "worktrees": _worktrees,
    "remove_worktree": _remove,
}
