"""`vega runs`: the runs of a user, or of one journal."""

import argparse
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from msgspec import json

from vegakit.cli.looking import PLAIN, amount, one_line, terminal_width
from vegakit.cli.recorded import journal_of_user, runs_in, short_id
from vegakit.config import wants_colour
from vegakit.store import RunSummary

__all__ = ["render_runs", "run"]

_HEAD = ("ID", "STARTED", "ENDED", "RECORDED", "CUT OFF", "SPENT", "LOST", "COMMAND")
_NUMBERS = ("RECORDED", "CUT OFF", "SPENT", "LOST")
_COLOURS = {"running": "\x1b[32m", "unfinished": "\x1b[33m"}


def run(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="vega runs", description="Show the runs that are recorded, the last one last."
    )
    parser.add_argument("file", nargs="?", type=Path, help="a journal; without it, your own")
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")
    chosen = parser.parse_args(words)
    runs = runs_in(chosen.file or journal_of_user())
    if chosen.json:
        print(json.format(json.encode(runs)).decode())
        return 0
    colour, width = wants_colour(sys.stdout), terminal_width(sys.stdout)
    print(render_runs(runs, colour=colour, width=width))
    return 0


def render_runs(
    runs: Sequence[RunSummary], *, colour: bool = False, width: int | None = None
) -> str:
    """`width` cuts the command."""
    rows = [_HEAD, *map(_row, runs)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(_fit, _HEAD, row, widths)).rstrip() for row in rows]
    cut = [
        line if width is None or len(line) <= width else f"{line[: width - 1]}…" for line in lines
    ]
    marks = ["", *(_COLOURS.get(_ended(summary), "") if colour else "" for summary in runs)]
    return "\n".join(
        f"{mark}{line}{PLAIN}" if mark else line for mark, line in zip(marks, cut, strict=True)
    )


def _row(summary: RunSummary) -> tuple[str, ...]:
    return (
        short_id(summary.run),
        _time(summary.run.started_ms),
        _ended(summary),
        str(summary.recorded),
        str(summary.cut_off),
        amount(summary.spent),
        amount(summary.lost),
        one_line(shlex.join(summary.run.command)),
    )


def _ended(summary: RunSummary) -> str:
    if summary.ended_ms is not None:
        return _time(summary.ended_ms)
    return "running" if summary.is_running else "unfinished"


def _time(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}Z"


def _fit(title: str, text: str, width: int) -> str:
    return text.rjust(width) if title in _NUMBERS else text.ljust(width)
