"""The options of `vega code` that show sessions and ask no model: list, search, export, rename."""

import argparse
import asyncio
import sys
from collections.abc import Callable

from vegakit.cli.look import (
    Cell,
    Column,
    Sign,
    Tone,
    look_of,
    moment,
    one_line,
    print_json,
    table,
)
from vegakit.policy import sanitise
from vegakit.sage import (
    SessionInfo,
    SessionState,
    event_line,
    export_session,
    list_sessions,
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
_STATES = {
    SessionState.WORKING: (Sign.WORKING, Tone.WORK),
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
    spent = "" if one.spent_usd is None else f"${one.spent_usd:g}"
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
        print(sanitise(transcript(events), sys.maxsize), end="")
    return 0


def _rename(chosen: argparse.Namespace) -> int:
    asyncio.run(rename_session(*chosen.rename))
    return 0


_SHOWN: dict[str, Callable[[argparse.Namespace], int]] = {
    "list": _list,
    "search": _search,
    "export": _export,
    "rename": _rename,
}
