"""`vega undo`: take back what the last turns of the coding agent wrote in this folder, or give it
again, or show the turns."""

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from vegakit.cli.look import Column, Look, count, look_of, moment, one_line, print_json, table
from vegakit.cli.main import CommandParser
from vegakit.config import load
from vegakit.errors import UserError
from vegakit.sage import Restored, UndoStore, UndoTurn, Unrestored, open_undo, undo_folder

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
    with _opened() as store:
        cut_off = store.record()
        if chosen.list:
            return _show_turns(store.turns(), as_json=chosen.json)
        on_conflict = "restore" if chosen.overwrite else "keep"
        if chosen.redo:
            done = store.redo(on_conflict)
        elif cut_off is not None:  # it was asked for before, and is done now
            done = cut_off
        else:
            done = store.undo(chosen.turns, on_conflict)
    if chosen.json:
        print_json(done)
    else:
        _show(done, "Redone" if chosen.redo else "Undone", look_of(sys.stdout))
    return int(bool(done.not_restored))


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="vega undo",
        description="Take back what the last turns of the coding agent wrote in this folder: by "
        "its tools, by commands, by MCP servers. Files that somebody else changed since are kept.",
    )
    parser.add_argument("--turns", type=int, default=1, metavar="N", help="how many; 1")
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--redo", action="store_true", help="take back the last undo")
    either.add_argument("--list", action="store_true", help="show the turns, the latest first")
    parser.add_argument(
        "--overwrite", action="store_true", help="restore also what somebody else changed since"
    )
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")
    return parser


def _opened() -> UndoStore:
    """Return the turns of the nearest folder upward that has some."""
    state, here = load().data_path, Path.cwd()
    for folder in (here, *here.parents):
        if undo_folder(folder, state).is_dir():
            return open_undo(folder, state)
    raise UserError(
        f"no turn of the coding agent is recorded for {here}; go to the folder where it ran"
    )


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


def _show(done: Restored, verb: str, look: Look) -> None:
    labels = ", ".join(one_line(label) or "a turn" for label in done.labels)
    for line in look.fold(f"{verb}: {labels}", "  "):
        print(line)
    print(f"{count(len(done.restored), 'path')} restored")
    _show_paths(done.restored)
    for title, left in (("kept", done.kept), ("not restored", done.not_restored)):
        if left:
            print(f"{count(len(left), 'path')} {title}")
            _show_paths(_with_reason(each) for each in left)


def _with_reason(each: Unrestored) -> str:
    return f"{each.path}: {each.reason}"


def _show_paths(paths: Iterable[str]) -> None:
    """Print names that may hold anything, also no UTF-8."""
    for path in paths:
        print(f"  {one_line(os.fsencode(path).decode('utf-8', 'replace'))}")
