"""`vega ps`, `tree`, `kill` and `logs`: inspect and control the processes of a running runtime."""

import sys
from collections.abc import Sequence
from typing import Any

from vegakit.cli.display import (
    AT_KERNEL,
    budget_bar,
    command_parser,
    headings,
    is_kernel,
    limited,
    render_table,
    render_tree,
)
from vegakit.cli.look import (
    PIPE,
    Look,
    Sign,
    Tone,
    cells,
    count,
    duration,
    look_of,
    moment,
    money,
    narrower,
    one_line,
    print_json,
    tokens,
)
from vegakit.cli.main import JSON, Argument
from vegakit.control import KillResult, LogEntry, ProcessView, RuntimeView, connect
from vegakit.money import in_dollars

# `vega ps`: what each process of a running runtime does.


def ps_command(arguments: Sequence[str]) -> int:
    """Run `vega ps`."""
    parser = command_parser("ps", at=AT_KERNEL, arguments=[JSON])
    chosen = parser.parse_args(arguments)
    if is_kernel(chosen.at):
        from vegakit.cli.kernel import show_processes

        return show_processes(chosen.at, as_json=chosen.json)
    runtime, views = _seen(chosen.at)
    if chosen.json:
        print_json(in_dollars({"runtime": runtime, "processes": views}))
    elif views:
        print(render_table(views, runtime.now_ms, look_of(sys.stdout)))
    else:
        print(_NOTHING_RUNS)
    return 0


# `vega tree`: the processes of a running runtime, each below the one that started it.


_BAR = 40
_NOTHING_RUNS = "No process runs. To watch some, type: vega demo"


def tree_command(arguments: Sequence[str]) -> int:
    """Run `vega tree`."""
    parser = command_parser(
        "tree",
        "Show the processes of a running runtime as a tree.",
        arguments=[JSON],
    )
    chosen = parser.parse_args(arguments)
    runtime, views = _seen(chosen.at)
    if chosen.json:
        print_json({"runtime": in_dollars(runtime), "processes": _nested(views)})
        return 0
    look = look_of(sys.stdout)
    for line in headings(runtime, look):
        print("\n".join(look.fold(line, "  ")))
    print(budget_bar(runtime, look, _BAR), end="\n\n" if runtime.left is not None else "\n")
    print(render_tree(views, runtime.now_ms, look) if views else _NOTHING_RUNS)
    return 0


def _seen(at: str | None) -> tuple[RuntimeView, list[ProcessView]]:
    remote = connect(at).blocking
    runtime = remote.info()
    return runtime, limited(remote.ps(), runtime)


def _with_children(view: ProcessView) -> dict[str, Any]:
    fields = in_dollars(view)
    assert isinstance(fields, dict)
    return {**fields, "children": list[dict[str, Any]]()}


def _nested(views: Sequence[ProcessView]) -> list[dict[str, Any]]:
    made = {view.path: _with_children(view) for view in views}
    tops: list[dict[str, Any]] = []
    for view in views:
        above = made.get(view.parent)
        (tops if above is None else above["children"]).append(made[view.path])
    return tops


# `vega kill`: end a process, and count what is left of it.


def kill_command(arguments: Sequence[str]) -> int:
    """Run `vega kill`."""
    parser = command_parser(
        "kill",
        "The status is 1 if anything is left.",
        AT_KERNEL,
        arguments=[
            Argument("id", help="a process as `vega ps` shows it, or the end of its id"),
            Argument("--tree", action="store_true", help="for good, with all below it"),
            JSON,
        ],
    )
    chosen = parser.parse_args(arguments)
    if is_kernel(chosen.at):
        from vegakit.cli.kernel import end_process

        return end_process(chosen.at, chosen.id, tree=chosen.tree, as_json=chosen.json)
    killed = connect(chosen.at).blocking.kill(chosen.id, tree=chosen.tree)
    if chosen.json:
        print_json(killed, lines=True)
    else:
        print(render_killed(killed, look_of(sys.stdout)))
    return 0 if killed.is_clean else 1


def render_killed(killed: KillResult, look: Look = PIPE) -> str:
    """Return what a kill came to, for people."""
    sign, tone = (Sign.DONE, Tone.OK) if killed.is_clean else (Sign.HELD, Tone.ASK)
    lines = look.marked(sign, tone, f"ended: {', '.join(map(one_line, killed.ended))}")
    if killed.restarted:
        restarted = ", ".join(map(one_line, killed.restarted))
        lines += look.fold(f"started again by its supervisor: {restarted}", "    ", "  ")
        lines.append(f"  try: vega kill --tree {one_line(killed.restarted[0])}")
    left = (
        f"{count(killed.processes_left, 'process', 'processes')}, "
        f"{count(killed.tasks_left, 'task')}, "
        f"{count(killed.os_children_left, 'OS child', 'OS children')}"
    )
    return "\n".join([*lines, f"  left: {left}"])


# `vega logs`: what a process and those below it did last, and do now.


_WIDEST_WORD = len("restarted")
_TONES = {
    "failed": Tone.BAD,
    "stuck": Tone.BAD,
    "refused": Tone.ASK,
    "restarted": Tone.ASK,
    "ok": Tone.OK,
}
_SIGNS = {
    "failed": Sign.FAILED,
    "stuck": Sign.FAILED,
    "refused": Sign.REFUSED,
    "restarted": Sign.RESTARTED,
    "ok": Sign.DONE,
}


def logs_command(arguments: Sequence[str]) -> int:
    """Run `vega logs`."""
    parser = command_parser(
        "logs",
        arguments=[
            Argument("id", help="a process as `vega ps` shows it, or the end of its id"),
            Argument("-f", "--follow", action="store_true", help="and go on, until Ctrl-C"),
            Argument("--json", action="store_true", help="as lines of JSON, for programs"),
        ],
    )
    chosen = parser.parse_args(arguments)
    look, widest = look_of(sys.stdout), 0
    try:
        for entry in connect(chosen.at).blocking.logs(chosen.id, follow=chosen.follow):
            widest = max(widest, len(entry.process))
            if chosen.json:
                print_json(in_dollars(entry), lines=True)
            else:
                print(render_entry(entry, widest, look))
            if chosen.follow:
                sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    return 0


def render_entry(entry: LogEntry, widest: int = 0, look: Look = PIPE) -> str:
    """Return an entry of a log, for people. `widest` is how much room the names of processes
    need. What was said of it stands on a line of its own if it does not fit."""
    word = entry.status if entry.status in _SIGNS else entry.what
    sign, tone = str(_SIGNS.get(word, Sign.WAITING)), _TONES.get(word, Tone.PLAIN)
    facts = [
        one_line(entry.process).ljust(widest),
        entry.what.ljust(_WIDEST_WORD),
        entry.name,
        duration(entry.took_ms) if entry.status else "",
        tokens(entry.input_tokens, entry.output_tokens),
        money(entry.cost) if entry.cost else "",
        "" if entry.status == "ok" else entry.status,
    ]
    told = "  ".join(one_line(fact) for fact in facts if fact)
    at, note = f"{moment(entry.at_ms)}.{entry.at_ms % 1000:03d}", one_line(entry.note)
    inner = narrower(look, len(at) + 4)
    line = f"{at}  {look.paint(look.text(sign), tone)} "
    if inner.width is None or cells(told) + 2 + cells(note) <= inner.width:
        return (line + look.text("  ".join(filter(None, [told, note])))).rstrip()
    first, *more = inner.fold(told, "  ")
    below = inner.fold(note, "  ", "  ") if note else []
    indent = " " * (len(at) + 4)
    return "\n".join([line + first, *(indent + text for text in (*more, *below))])
