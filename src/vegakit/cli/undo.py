"""`vega undo`: take back the last turns of the coding agent in this folder, files and conversation,
or give them again, or show the turns."""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence

from vegakit.cli.look import Column, Look, count, look_of, moment, one_line, print_json, table
from vegakit.cli.main import JSON, Argument, CommandParser, declare
from vegakit.errors import UserError
from vegakit.sage import Rewound, UndoTurn, redo_turns, undo_turns, undoable_turns

_COLUMNS = [
    Column("Turn", right=True),
    Column("When"),
    Column("State"),
    Column("Paths", right=True),
    Column("What"),
]
_SHOWN = 20


def undo_command(arguments: Sequence[str]) -> int:
    """Run `vega undo`. The status is 1 if something could not be restored."""
    chosen = _parser().parse_args(arguments)
    if chosen.turns < 1:
        raise UserError("--turns: at least one turn is undone; type: vega undo --turns 1")
    if chosen.list:
        return _show_turns(asyncio.run(undoable_turns()), as_json=chosen.json)
    rights = {"overwrite": chosen.overwrite, "replaced": chosen.replaced}
    if chosen.redo:
        done = asyncio.run(redo_turns(**rights, on_wait=_say_waiting))
    else:
        done = asyncio.run(undo_turns(chosen.turns, to=chosen.to, **rights, on_wait=_say_waiting))
    if chosen.json:
        print_json(done)
    else:
        _show(done, look_of(sys.stdout), is_redo=chosen.redo)
    return int(bool(done.not_restored))


def _say_waiting() -> None:
    print("waiting for the turn that works in this folder to end", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="vega undo",
        description="Take back the last turns of the coding agent in this folder: what they wrote, "
        "by tools, by commands, by MCP servers, and what was said in them, so that the session "
        "goes on as before them. Files that somebody else changed since are kept.",
    )
    either = parser.add_mutually_exclusive_group()
    declare(
        either,
        [
            Argument("--turns", type=int, default=1, metavar="N", help="how many; 1"),
            Argument(
                "--to", type=int, metavar="N", help="all after turn N of --list; 0 is the beginning"
            ),
            Argument("--redo", action="store_true", help="take back the last undo"),
            Argument("--list", action="store_true", help="show the turns, the latest first"),
        ],
    )
    declare(
        parser,
        [
            Argument(
                "--overwrite",
                action="store_true",
                help="restore also what somebody else changed since",
            ),
            Argument(
                "--replaced",
                action="store_true",
                help="also if another folder has taken the place of the one that the turns ran in",
            ),
            JSON,
        ],
    )
    return parser


def _show_turns(turns: Sequence[UndoTurn], *, as_json: bool) -> int:
    if as_json:
        print_json(turns)
        return 0
    rows = [
        [str(turn.number), moment(turn.at_ms), turn.state, f"{turn.paths:,}", one_line(turn.label)]
        for turn in turns[:_SHOWN]
    ]
    print(table(_COLUMNS, rows, look_of(sys.stdout)) if rows else "No turn is recorded here.")
    return 0


def _show(done: Rewound, look: Look, *, is_redo: bool) -> None:
    labels = ", ".join(one_line(label) or "a turn" for label in done.labels)
    for line in look.fold(f"{'Redone' if is_redo else 'Undone'}: {labels}", "  "):
        print(line)
    print(f"{count(len(done.restored), 'path')} restored")
    _show_paths(done.restored)
    if done.by_commands:
        # Nobody can tell: what is saved from outside looks like the command's own.
        said = (
            f"{len(done.by_commands):,} of these changed while a command ran; if you saved one of "
            "them then, have it again by: vega undo --redo"
        )
        for line in look.fold(said, "  "):
            print(line)
    for title, left in (("kept", done.kept), ("not restored", done.not_restored)):
        if left:
            print(f"{count(len(left), 'path')} {title}")
            _show_paths([f"{each.path}: {each.reason}" for each in left])
    if done.kept and not is_redo:
        print("to restore what was kept: vega undo --redo, then the same with --overwrite")
    short = f", but {'not all' if done.restored else 'none'} of its files are as they were before"
    if is_redo or not done.not_restored:
        short = ""
    for each in done.sessions:
        where = "back in" if is_redo else "out of"
        numbers = ", ".join(map(str, each.turns))
        print(f"session {one_line(each.session)}: turn {numbers} {where} the conversation{short}")
    if done.lasting and not is_redo:
        print("nobody can take back")
        _show_paths(done.lasting)


def _show_paths(paths: Sequence[str]) -> None:
    """Print names that may hold anything, also no UTF-8; of many the first, and how many more."""
    for path in paths[:_SHOWN]:
        print(f"  {one_line(os.fsencode(path).decode('utf-8', 'replace'))}")
    if (more := len(paths) - _SHOWN) > 0:
        print(f"  and {more:,} more; --json names all of them")
