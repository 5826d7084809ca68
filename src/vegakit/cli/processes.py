"""`vega ps`, `tree`, `kill` and `logs`: inspect and control the processes of a running runtime."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec import json

from vegakit.cli.display import (
    amount,
    command_parser,
    duration,
    headings,
    one_line,
    render_table,
    render_tree,
    terminal_width,
)
from vegakit.config import wants_colour
from vegakit.control import KillResult, LogEntry, connect

# `vega ps`: what each process of a running runtime does.


def ps_command(arguments: Sequence[str]) -> int:
    """Run `vega ps`."""
    parser = command_parser("ps")
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")
    chosen = parser.parse_args(arguments)
    remote = connect(chosen.at).blocking
    runtime, views = remote.info(), remote.ps()
    if chosen.json:
        print(json.format(json.encode({"runtime": runtime, "processes": views})).decode())
        return 0
    colour, width = wants_colour(sys.stdout), terminal_width(sys.stdout)
    print(render_table(views, runtime.now_ms, colour=colour, width=width))
    return 0


# `vega tree`: the processes of a running runtime, each below the one that started it.


def tree_command(arguments: Sequence[str]) -> int:
    """Run `vega tree`."""
    parser = command_parser("tree", "Show the processes of a running runtime as a tree.")
    remote = connect(parser.parse_args(arguments).at).blocking
    runtime, views = remote.info(), remote.ps()
    print("\n".join(headings(runtime)))
    colour, width = wants_colour(sys.stdout), terminal_width(sys.stdout)
    if views:
        print(render_tree(views, runtime.now_ms, colour=colour, width=width))
    return 0


# `vega kill`: end a process, and count what is left of it.


def kill_command(arguments: Sequence[str]) -> int:
    """Run `vega kill`."""
    parser = command_parser("kill", "The status is 1 if anything is left.")
    parser.add_argument("id", help="a process as `vega ps` shows it, or the end of its id")
    parser.add_argument("--tree", action="store_true", help="for good, with all below it")
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")
    chosen = parser.parse_args(arguments)
    killed = connect(chosen.at).blocking.kill(chosen.id, tree=chosen.tree)
    print(json.encode(killed).decode() if chosen.json else render_killed(killed))
    return 0 if killed.is_clean else 1


def render_killed(killed: KillResult) -> str:
    """Return what a kill came to, for people."""
    lines = [f"ended: {', '.join(map(one_line, killed.ended))}"]
    if killed.restarted:
        restarted = ", ".join(map(one_line, killed.restarted))
        lines.append(f"started again by its supervisor: {restarted}; for good: vega kill --tree")
    lines.append(
        f"left: {killed.processes_left} processes, {killed.tasks_left} tasks, "
        f"{killed.os_children_left} OS children"
    )
    return "\n".join(lines)


# `vega logs`: what a process and those below it did last, and do now.


_GAP = "  "
_WIDEST_WORD = len("restarted")
_PLAIN, _DIM, _RED = "\x1b[0m", "\x1b[2m", "\x1b[31m"
_COLOURS = {"failed": _RED, "refused": _RED, "restarted": _RED, "stuck": _RED, "spawned": _DIM}


def logs_command(arguments: Sequence[str]) -> int:
    """Run `vega logs`."""
    parser = command_parser("logs")
    parser.add_argument("id", help="a process as `vega ps` shows it, or the end of its id")
    parser.add_argument("-f", "--follow", action="store_true", help="and go on, until Ctrl-C")
    parser.add_argument("--json", action="store_true", help="as lines of JSON, for programs")
    chosen = parser.parse_args(arguments)
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
    """Return an entry of a log, for people. `widest` is how much room the names of processes
    need."""
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
