"""`vega kill`: end a process, and count what is left of it."""

from collections.abc import Sequence

from msgspec import json

from vegakit.cli.looking import one_line, verb_parser
from vegakit.runtime import Killed, connect

__all__ = ["render_killed", "run"]


def run(words: Sequence[str]) -> int:
    parser = verb_parser(
        "kill",
        "End a process: its present life, after which its supervisor decides; or with --tree for "
        "good, with all below it. The status is 1 if anything is left.",
    )
    parser.add_argument("id", help="a process as `vega ps` shows it, or the end of its id")
    parser.add_argument("--tree", action="store_true", help="for good, with all below it")
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")
    chosen = parser.parse_args(words)
    killed = connect(chosen.at).blocking.kill(chosen.id, tree=chosen.tree)
    print(json.encode(killed).decode() if chosen.json else render_killed(killed))
    return 0 if killed.is_clean else 1


def render_killed(killed: Killed) -> str:
    lines = [f"ended: {', '.join(map(one_line, killed.ended))}"]
    if killed.restarted:
        restarted = ", ".join(map(one_line, killed.restarted))
        lines.append(f"started again by its supervisor: {restarted}; for good: vega kill --tree")
    lines.append(
        f"left: {killed.processes_left} processes, {killed.tasks_left} tasks, "
        f"{killed.os_children_left} OS children"
    )
    return "\n".join(lines)
