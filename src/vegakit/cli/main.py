"""`vega` and `vegakit`, one program.

A command is a function `<name>_command(arguments) -> status` in the module that `COMMANDS`
names. The module is imported when the command is called, so that help stays quick.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from vegakit.errors import UserError

COMMANDS = {
    "answer": ("vegakit.cli.questions", "answer what an agent or a program asks a person"),
    "audit": ("vegakit.cli.audit", "verify an audit, or show its last entries"),
    "build": ("vegakit.cli.compiler", "compile a program to a file"),
    "card": ("vegakit.cli.compiler", "print the language on a page, for a model"),
    "check": ("vegakit.cli.compiler", "find all that is wrong with programs"),
    "config": ("vegakit.cli.config", "show the settings and where each of them came from"),
    "cost": ("vegakit.cli.cost", "quote a program: what it may cost at most"),
    "demo": ("vegakit.cli.demo", "watch a team of agents crash, recover and stay in budget"),
    "disasm": ("vegakit.cli.compiler", "show the instructions of a program"),
    "doctor": ("vegakit.cli.doctor", "say what is set up, and what to type for the rest"),
    "explain": (
        "vegakit.cli.explain",
        "show what overlaps, what waits for what, and what it touches",
    ),
    "fmt": ("vegakit.cli.compiler", "format programs"),
    "gc": ("vegakit.cli.runs", "forget runs that ended long ago"),
    "interrupts": ("vegakit.cli.questions", "show what people are asked"),
    "kill": ("vegakit.cli.processes", "end a process, or with --tree all that it started too"),
    "logs": ("vegakit.cli.processes", "show what a process did last, and follow it"),
    "lsp": ("vegakit.cli.compiler", "serve an editor: what is wrong, and formatting"),
    "mcp": ("vegakit.cli.mcp", "serve programs to MCP clients, or show and accept MCP servers"),
    "models": ("vegakit.cli.models", "list models, what they cost and how much they read"),
    "ps": ("vegakit.cli.processes", "show what each process of a running runtime does"),
    "replay": ("vegakit.cli.runs", "run a recorded program again, offline, by its journal"),
    "resume": ("vegakit.cli.runs", "go on with a run that was killed, failed or paused"),
    "run": ("vegakit.cli.run", "run a program"),
    "runs": ("vegakit.cli.runs", "show the runs that are recorded"),
    "test": ("vegakit.cli.run", "run test programs, their expectations beside the line"),
    "top": ("vegakit.cli.top", "watch the processes of a running runtime"),
    "trace": ("vegakit.cli.trace", "show the last runs, or one run as a tree"),
    "tree": ("vegakit.cli.processes", "show the processes of a running runtime as a tree"),
}
"""Name: module, one line of help."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command, and return its status."""
    arguments = sys.argv[1:] if argv is None else [*argv]
    if not arguments or arguments[0] not in COMMANDS:
        return _help(arguments)
    module, _ = COMMANDS[arguments[0]]
    try:
        status: int = getattr(import_module(module), f"{arguments[0]}_command")(arguments[1:])
        sys.stdout.flush()
    except UserError as error:
        print(f"vega {arguments[0]}: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # who reads us has seen enough, like `head`; closing must not complain
        silence()
        return 1
    return status


def silence() -> None:
    """Send what could not be written nowhere, so that it is not tried again when the interpreter
    ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _help(arguments: list[str]) -> int:
    width = max(map(len, COMMANDS))
    parser = argparse.ArgumentParser(
        prog="vega",
        usage="vega [-h] [--version] <command> ...",
        description="Run agent programs under a contract: quoted before, capped during, "
        "no answer that arrived is paid for twice.",
        epilog="\n".join(["commands:", *(f"  {n:{width}}  {COMMANDS[n][1]}" for n in COMMANDS)]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=_version(arguments))
    parser.add_argument("command", nargs="?", help=argparse.SUPPRESS)
    unknown: str | None = parser.parse_known_args(arguments)[0].command
    if unknown:
        from difflib import get_close_matches

        close = get_close_matches(unknown, list(COMMANDS), 1)
        hint = f"did you mean {close[0]}?" if close else f"there are: {', '.join(COMMANDS)}"
        parser.error(f"there is no command {unknown!r}; {hint}")
    parser.print_help()
    return 0


def _version(arguments: list[str]) -> str:
    """Return the version if that is asked for: the records of installed packages are slow to
    read."""
    if not any("--version".startswith(word) for word in arguments if word.startswith("--v")):
        return ""
    import platform
    from importlib.metadata import version

    return f"vega {version('vegakit')} (Python {platform.python_version()}, {platform.system()})"
