"""`vega` and `vegakit`, one program.

A command is a module with `run(words) -> status`, imported when it is called: help stays quick.
"""

import argparse
import os
import platform
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import version

from vegakit.errors import UserError

__all__ = ["COMMANDS", "main"]

COMMANDS = {
    "audit": ("vegakit.cli.audit", "verify an audit, or show its last entries"),
    "config": ("vegakit.cli.config", "show the settings and where each of them came from"),
    "demo": ("vegakit.cli.demo", "watch a team of agents crash, recover and stay in budget"),
    "kill": ("vegakit.cli.kill", "end a process, or with --tree all that it started too"),
    "logs": ("vegakit.cli.logs", "show what a process did last, and follow it"),
    "ps": ("vegakit.cli.ps", "show what each process of a running runtime does"),
    "replay": ("vegakit.cli.replay", "run a recorded program again, offline, by its journal"),
    "resume": ("vegakit.cli.resume", "go on with a run that was cut off or paused"),
    "runs": ("vegakit.cli.runs", "show the runs that a journal holds"),
    "top": ("vegakit.cli.top", "watch the processes of a running runtime"),
    "trace": ("vegakit.cli.trace", "show the last runs, or one run as a tree"),
    "tree": ("vegakit.cli.tree", "show the processes of a running runtime as a tree"),
}
"""Name: module, one line of help."""


def main(argv: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if argv is None else [*argv]
    if not words or words[0] not in COMMANDS:
        return _help(words)
    module, _ = COMMANDS[words[0]]
    try:
        status: int = import_module(module).run(words[1:])
        sys.stdout.flush()
    except UserError as error:
        print(f"vega {words[0]}: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # who reads us has seen enough, like `head`; closing must not complain
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status


def _help(words: list[str]) -> int:
    width = max(map(len, COMMANDS))
    parser = argparse.ArgumentParser(
        prog="vega",
        usage="vega [-h] [--version] <command> ...",
        description="Run agent programs under a contract: quoted before, capped during, "
        "nothing paid for is lost.",
        epilog="\n".join(["commands:", *(f"  {n:{width}}  {COMMANDS[n][1]}" for n in COMMANDS)]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=_version())
    parser.add_argument("command", nargs="?", help=argparse.SUPPRESS)
    unknown: str | None = parser.parse_known_args(words)[0].command
    if unknown:
        close = get_close_matches(unknown, list(COMMANDS), 1)
        hint = f"did you mean {close[0]}?" if close else f"there are: {', '.join(COMMANDS)}"
        parser.error(f"there is no command {unknown!r}; {hint}")
    parser.print_help()
    return 0


def _version() -> str:
    return f"vega {version('vegakit')} (Python {platform.python_version()}, {platform.system()})"
