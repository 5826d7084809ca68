"""`vega` and `vegakit`, one program.

A command is a module with `run(words) -> status`, imported when it is called: help stays quick.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from vegakit.errors import UserError

__all__ = ["COMMANDS", "main", "silence"]

COMMANDS = {
    "answer": ("vegakit.cli.answer", "answer what an agent or a program asks a person"),
    "audit": ("vegakit.cli.audit", "verify an audit, or show its last entries"),
    "build": ("vegakit.cli.programs.build", "compile a program to a file"),
    "card": ("vegakit.cli.card", "print the language on a page, for a model"),
    "check": ("vegakit.cli.programs.check", "find all that is wrong with programs"),
    "config": ("vegakit.cli.config", "show the settings and where each of them came from"),
    "cost": ("vegakit.cli.programs.cost", "quote a program: what it may cost at most"),
    "demo": ("vegakit.cli.demo", "watch a team of agents crash, recover and stay in budget"),
    "disasm": ("vegakit.cli.programs.disasm", "show the instructions of a program"),
    "explain": (
        "vegakit.cli.programs.explain",
        "show what overlaps, what waits for what, and what it touches",
    ),
    "fmt": ("vegakit.cli.programs.fmt", "format programs"),
    "gc": ("vegakit.cli.gc", "forget runs that ended long ago"),
    "interrupts": ("vegakit.cli.interrupts", "show what people are asked"),
    "kill": ("vegakit.cli.kill", "end a process, or with --tree all that it started too"),
    "logs": ("vegakit.cli.logs", "show what a process did last, and follow it"),
    "lsp": ("vegakit.cli.programs.lsp", "serve an editor: what is wrong, and formatting"),
    "mcp": ("vegakit.cli.mcp", "serve programs to MCP clients, or show and accept MCP servers"),
    "ps": ("vegakit.cli.ps", "show what each process of a running runtime does"),
    "replay": ("vegakit.cli.replay", "run a recorded program again, offline, by its journal"),
    "resume": ("vegakit.cli.resume", "go on with a run that was killed, failed or paused"),
    "run": ("vegakit.cli.programs.run", "run a program"),
    "runs": ("vegakit.cli.runs", "show the runs that are recorded"),
    "test": ("vegakit.cli.programs.test", "run test programs, their expectations beside the line"),
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
        silence()
        return 1
    return status


def silence() -> None:
    """What could not be written is not tried again when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _help(words: list[str]) -> int:
    width = max(map(len, COMMANDS))
    parser = argparse.ArgumentParser(
        prog="vega",
        usage="vega [-h] [--version] <command> ...",
        description="Run agent programs under a contract: quoted before, capped during, "
        "no answer that arrived is paid for twice.",
        epilog="\n".join(["commands:", *(f"  {n:{width}}  {COMMANDS[n][1]}" for n in COMMANDS)]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=_version(words))
    parser.add_argument("command", nargs="?", help=argparse.SUPPRESS)
    unknown: str | None = parser.parse_known_args(words)[0].command
    if unknown:
        from difflib import get_close_matches

        close = get_close_matches(unknown, list(COMMANDS), 1)
        hint = f"did you mean {close[0]}?" if close else f"there are: {', '.join(COMMANDS)}"
        parser.error(f"there is no command {unknown!r}; {hint}")
    parser.print_help()
    return 0


def _version(words: list[str]) -> str:
    """Looked up only for who asks: the records of installed packages are slow to read."""
    if not any("--version".startswith(word) for word in words if word.startswith("--v")):
        return ""
    import platform
    from importlib.metadata import version

    return f"vega {version('vegakit')} (Python {platform.python_version()}, {platform.system()})"
