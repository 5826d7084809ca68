"""`vega logs`: what a process and those below it did last, and do now."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec import json

from vegakit.cli.looking import amount, duration, one_line, verb_parser
from vegakit.config import wants_colour
from vegakit.runtime import LogEntry, connect

__all__ = ["render_entry", "run"]

_GAP = "  "
_WIDEST_WORD = len("restarted")
_PLAIN, _DIM, _RED = "\x1b[0m", "\x1b[2m", "\x1b[31m"
_COLOURS = {"failed": _RED, "refused": _RED, "restarted": _RED, "stuck": _RED, "spawned": _DIM}


def run(words: Sequence[str]) -> int:
    parser = verb_parser("logs", "Show what a process and those below it did last.")
    parser.add_argument("id", help="a process as `vega ps` shows it, or the end of its id")
    parser.add_argument("-f", "--follow", action="store_true", help="and go on, until Ctrl-C")
    parser.add_argument("--json", action="store_true", help="as lines of JSON, for programs")
    chosen = parser.parse_args(words)
    colour, widest = wants_colour(sys.stdout), 0
    try:
        for entry in connect(chosen.at).blocking.logs(chosen.id, follow=chosen.follow):
            widest = max(widest, len(entry.process))
            line = render_entry(entry, widest, colour=colour)
            print(json.encode(entry).decode() if chosen.json else line, flush=chosen.follow)
    except KeyboardInterrupt:
        return 130
    return 0


def render_entry(entry: LogEntry, widest: int = 0, *, colour: bool = False) -> str:
    """`widest` is how much room the names of processes need."""
    at = datetime.fromtimestamp(entry.at_ms / 1000, UTC)
    facts = [
        f"{at:%H:%M:%S}.{at.microsecond // 1000:03d}Z",
        entry.process.ljust(widest),
        entry.what.ljust(_WIDEST_WORD),
        entry.name,
        duration(entry.took_ms) if entry.status else "",
        f"{entry.input_tokens:,} → {entry.output_tokens:,}" if entry.input_tokens else "",
        amount(entry.cost) if entry.cost else "",
        "" if entry.status == "ok" else entry.status,
        entry.note,
    ]
    line = _GAP.join(one_line(fact) for fact in facts if fact).rstrip()
    mark = _COLOURS.get(entry.status) or _COLOURS.get(entry.what, "")
    return f"{mark}{line}{_PLAIN}" if colour and mark else line
