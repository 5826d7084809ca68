"""`vega` and `vegakit`, one program.

A command is a function `<name>_command(arguments) -> status` in the module that `COMMANDS`
names. The module is imported when the command is called, so that help stays quick.
"""

import argparse
import errno
import gc
import os
import re
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from itertools import pairwise
from types import ModuleType
from typing import Any, NamedTuple, NoReturn

from vegakit.errors import StoreError, UserError, did_you_mean


class CommandRow(NamedTuple):
    """A command: the module that has it, its group in the help, a line on it and an example."""

    module: str
    group: str
    line: str
    example: str


_RUN, _UNDERSTAND, _WATCH = "Run", "Understand", "Watch"
_ASK, _SERVE, _BUILD = "Ask", "Serve", "Build"

COMMANDS = {
    "run": CommandRow("vegakit.cli.run", _RUN, "run a program", "vega run hello.vega Ada"),
    "resume": CommandRow(
        "vegakit.cli.runs",
        _RUN,
        "go on with a run that was killed, failed or paused",
        "vega resume",
    ),
    "replay": CommandRow(
        "vegakit.cli.runs",
        _RUN,
        "run a recorded program again, offline, by its journal",
        "vega replay 01a1dd96b804",
    ),
    "code": CommandRow(
        "vegakit.cli.code",
        _RUN,
        "have a coding agent work in this folder, within a budget",
        "vega code -p 'Fix the failing test.'",
    ),
    "repl": CommandRow(
        "vegakit.cli.repl",
        _RUN,
        "type a program piece by piece, each run at once",
        "vega repl",
    ),
    "test": CommandRow(
        "vegakit.cli.test",
        _RUN,
        "run test programs, their expectations beside the line",
        "vega test tests/",
    ),
    "demo": CommandRow(
        "vegakit.cli.demo",
        _RUN,
        "watch a team of agents crash, recover and stay in budget",
        "vega demo",
    ),
    "init": CommandRow(
        "vegakit.cli.init", _RUN, "begin a project that runs without a key", "vega init hello"
    ),
    "cost": CommandRow(
        "vegakit.cli.cost",
        _UNDERSTAND,
        "quote a program: what it may cost at most",
        "vega cost hello.vega",
    ),
    "explain": CommandRow(
        "vegakit.cli.explain",
        _UNDERSTAND,
        "show what overlaps, what waits for what, and what it touches",
        "vega explain hello.vega",
    ),
    "trace": CommandRow(
        "vegakit.cli.trace",
        _UNDERSTAND,
        "show the last runs, or one run as a tree",
        "vega trace 4f1c2a",
    ),
    "runs": CommandRow(
        "vegakit.cli.runs", _UNDERSTAND, "show the runs that are recorded", "vega runs"
    ),
    "gc": CommandRow(
        "vegakit.cli.runs", _UNDERSTAND, "forget runs that ended long ago", "vega gc --dry-run"
    ),
    "undo": CommandRow(
        "vegakit.cli.undo",
        _UNDERSTAND,
        "take back what the last turns of the coding agent wrote here",
        "vega undo --turns 2",
    ),
    "rollout": CommandRow(
        "vegakit.cli.rollout",
        _UNDERSTAND,
        "change a model, a prompt or code with evidence: see and steer it",
        "vega rollout status review",
    ),
    "audit": CommandRow(
        "vegakit.cli.audit",
        _UNDERSTAND,
        "verify an audit, or show its last entries",
        "vega audit verify audit.jsonl",
    ),
    "models": CommandRow(
        "vegakit.cli.models",
        _UNDERSTAND,
        "list models, what they cost and how much they read",
        "vega models --provider openai",
    ),
    "top": CommandRow(
        "vegakit.cli.top", _WATCH, "watch the processes of a running runtime", "vega top"
    ),
    "ps": CommandRow(
        "vegakit.cli.processes",
        _WATCH,
        "show what each process of a running runtime does",
        "vega ps",
    ),
    "tree": CommandRow(
        "vegakit.cli.processes",
        _WATCH,
        "show the processes of a running runtime as a tree",
        "vega tree",
    ),
    "logs": CommandRow(
        "vegakit.cli.processes",
        _WATCH,
        "show what a process did last, and follow it",
        "vega logs team/coder -f",
    ),
    "kill": CommandRow(
        "vegakit.cli.processes",
        _WATCH,
        "end a process, or with --tree all that it started too",
        "vega kill --tree team",
    ),
    "interrupts": CommandRow(
        "vegakit.cli.questions", _ASK, "show what people are asked", "vega interrupts"
    ),
    "answer": CommandRow(
        "vegakit.cli.questions",
        _ASK,
        "answer what an agent or a program asks a person",
        "vega answer 0123456789ab yes",
    ),
    "serve": CommandRow(
        "vegakit.cli.serve",
        _SERVE,
        "serve a kernel to workers in any language",
        "vega serve",
    ),
    "token": CommandRow(
        "vegakit.cli.serve",
        _SERVE,
        "make, list and revoke the tokens of those who call it",
        "vega token create --tenant acme --user ann",
    ),
    "mcp": CommandRow(
        "vegakit.cli.mcp",
        _SERVE,
        "serve programs to MCP clients, or show and accept MCP servers",
        "vega mcp serve",
    ),
    "check": CommandRow(
        "vegakit.cli.compiler",
        _BUILD,
        "find all that is wrong with programs",
        "vega check hello.vega",
    ),
    "fmt": CommandRow("vegakit.cli.compiler", _BUILD, "format programs", "vega fmt ."),
    "build": CommandRow(
        "vegakit.cli.compiler", _BUILD, "compile a program to a file", "vega build hello.vega"
    ),
    "disasm": CommandRow(
        "vegakit.cli.compiler",
        _BUILD,
        "show the instructions of a program",
        "vega disasm hello.vega",
    ),
    "card": CommandRow(
        "vegakit.cli.compiler",
        _BUILD,
        "print the language on a page, for a model",
        "vega card --python",
    ),
    "node": CommandRow(
        "vegakit.cli.node",
        _BUILD,
        "check, compile, run and test functions under a contract",
        "vega node test pricing.vsp",
    ),
    "trust": CommandRow(
        "vegakit.cli.trust",
        _BUILD,
        "show what a folder would change and start, and trust it",
        "vega trust .",
    ),
    "config": CommandRow(
        "vegakit.cli.config",
        _BUILD,
        "show the settings and where each of them came from",
        "vega config",
    ),
    "doctor": CommandRow(
        "vegakit.cli.doctor",
        _BUILD,
        "say what is set up, and what to type for the rest",
        "vega doctor",
    ),
    "lsp": CommandRow(
        "vegakit.cli.compiler",
        _BUILD,
        "serve an editor: what is wrong, and formatting",
        "vega lsp",
    ),
    "completion": CommandRow(
        "vegakit.cli.completion",
        _BUILD,
        "print what completes these commands in bash, zsh or fish",
        "vega completion bash",
    ),
    "version": CommandRow(
        "vegakit.cli.completion", _BUILD, "say which version this is", "vega version"
    ),
}
"""In the order of the help: by group, the most used first."""

MOST_USED = ("run", "cost", "trace", "top", "answer")


def main(argv: Sequence[str] | None = None, on_loaded: Callable[[], object] = lambda: None) -> int:
    """Run a command, and return its status. `on_loaded` is called when its modules are imported."""
    arguments = sys.argv[1:] if argv is None else [*argv]
    if not arguments or arguments[0] not in COMMANDS:
        return _help(arguments)
    from vegakit.cli import look

    with look.safe_streams():
        try:
            words = _without_look(arguments[1:])
            module = _loaded(COMMANDS[arguments[0]].module)
            on_loaded()
            status: int = getattr(module, f"{arguments[0]}_command")(words)
            print(end="", flush=True)  # stdout is None if the caller closed it
        except (UserError, StoreError) as error:
            look.tell_error(error)
            return 1
        except KeyboardInterrupt:
            return 128 + signal.SIGINT
        except BrokenPipeError:  # who reads us has seen enough, like `head`
            silence()  # closing must not complain
            return 128 + signal.SIGPIPE
        except OSError as error:
            if error.errno not in _FULL:
                raise
            look.tell_error(
                f"this cannot be written: {error.strerror}; free some space, or send the output of "
                f"vega {arguments[0]} elsewhere, then type it again"
            )
            silence()
            return 1
        return status


_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""What a disk says that takes nothing more."""


def _loaded(name: str) -> ModuleType:
    """Return the module of a command. Nothing that is loaded is ever garbage, and to look for some
    meanwhile is a tenth of the start."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        return import_module(name)
    finally:
        if was_on:
            gc.enable()


class Argument:
    """An argument of a command: its names and settings, as `add_argument` takes them."""

    def __init__(self, *names: str, **settings: Any) -> None:  # noqa: ANN401
        self.names = names
        self.settings = settings


JSON = Argument("--json", action="store_true", help="as JSON, for programs")


def declare(parser: Any, arguments: Iterable[Argument]) -> None:  # noqa: ANN401  (also of a group)
    """Add arguments to a parser, or to a group of one."""
    for each in arguments:
        parser.add_argument(*each.names, **each.settings)


class CommandParser(argparse.ArgumentParser):
    """The arguments of a command. A wrong argument ends the command with status 2. The error names
    the argument, the closest known one, and the command to type."""

    def __init__(
        self,
        *,
        arguments: Iterable[Argument] = (),
        run: object = None,
        **settings: Any,  # noqa: ANN401  (as of argparse)
    ) -> None:
        super().__init__(**settings)
        self._given: Sequence[str] = ()
        declare(self, arguments)
        if run is not None:
            self.set_defaults(run=run)

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        args: Any = None,  # noqa: ANN401  (as of argparse)
        namespace: Any = None,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        """Keep the arguments, which errors quote."""
        self._given = [*(sys.argv[1:] if args is None else args)]
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Tell what argparse found in words that name the next step, and end."""
        raise self.refusal(self._told(message))

    def refusal(self, message: str) -> SystemExit:
        """Tell an error about the command line, and return what ends the program."""
        from vegakit.cli import look

        with look.safe_streams():
            look.tell_error(message)
        return SystemExit(2)

    def _told(self, message: str) -> str:
        fix = f"type: {self.prog} --help"
        about, _, rest = message.partition(": ")
        if about == "unrecognized arguments":
            word = next((word for word in rest.split() if word.startswith("-")), rest)
            near = did_you_mean(word, self._flags(), "")
            known = f"{self.prog} takes no {word}"
            return "; ".join(filter(None, [known, near, f"to see all that it takes, {fix}"]))
        if about == "the following arguments are required":
            # Of a mixed command line, argparse also names those that may be left out.
            optional = {one.metavar for one in self._actions if one.nargs in ("?", "*")}
            names = ", ".join(name for name in rest.split(", ") if name not in optional)
            return f"{self.prog} needs {names}; {self._example() or fix}"
        name, what = about.removeprefix("argument "), rest
        if choice := re.match(r"invalid choice: (.+) \(choose from (.+)\)", rest):
            given, known = choice[1], choice[2].replace("'", "")
            what = f"{given} is none of {known}"
        elif re.fullmatch(r"expected (one|at least one|\d+) arguments?", rest):
            # What begins with a dash is taken for a flag.
            follows = dict(pairwise(self._given)).get(name.rpartition("/")[2], "")
            is_flag = follows.partition("=")[0] in self._flags() or not follows.startswith("-")
            what = "its value is missing" if is_flag else f"{follows!r} is no value for it"
        elif rest.startswith("not allowed with argument"):
            what = f"it does not go together with {rest.rpartition(' ')[2]}"
        return f"{name}: {what}; {fix}" if rest else f"{message}; {fix}"

    def _flags(self) -> list[str]:
        return [flag for one in self._actions for flag in one.option_strings if flag[:2] == "--"]

    def _example(self) -> str:
        row = COMMANDS.get(self.prog.removeprefix("vega "))
        return f"type: {row.example}" if row else ""


def add_action(
    actions: Any,  # noqa: ANN401  (argparse has no public name for it)
    name: str,
    run: Callable[[argparse.Namespace], int],
    line: str,
    arguments: Iterable[Argument],
) -> CommandParser:
    """Add an action to a command. It takes `--json`, as all of them do."""
    return actions.add_parser(
        name, help=line, description=line, arguments=[JSON, *arguments], run=run
    )


def amount(text: str) -> str:
    """Check an option whose value is money, and return it as it was written."""
    from vegakit.money import dollars

    try:
        dollars(text)
    except UserError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def _without_look(arguments: list[str]) -> list[str]:
    """Return the arguments without `--color WHEN` and `--exact`, which every command takes, and set
    them. What follows `--` belongs to the command."""
    from vegakit.cli.look import choose_colour, choose_exact

    choose_colour("auto")
    end = arguments.index("--") if "--" in arguments else len(arguments)
    kept: list[str] = []
    choose_exact(exact="--exact" in arguments[:end])
    words = iter(word for word in arguments[:end] if word != "--exact")
    for word in words:
        if word == "--color":
            choose_colour(next(words, ""))
        elif word.startswith("--color="):
            choose_colour(word.partition("=")[2])
        else:
            kept.append(word)
    return kept + arguments[end:]


def silence() -> None:
    """Send what could not be written nowhere, so that it is not tried again when the interpreter
    ends; of stderr where that is away, too."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    try:
        sys.stderr.flush()
    except OSError:
        os.dup2(nowhere, sys.stderr.fileno())


def _help(arguments: list[str]) -> int:
    parser = CommandParser(
        prog="vega",
        usage="vega [-h] [--version] [--color auto|always|never] [--exact] <command> ...",
        description="Run agent programs under a contract: quoted before, capped during,\n"
        "no answer that arrived is paid for twice.",
        epilog="\n".join(_groups()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=_version(arguments))
    parser.add_argument("--color", metavar="WHEN", help=argparse.SUPPRESS)
    parser.add_argument("--exact", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("command", nargs="?", help=argparse.SUPPRESS)
    chosen, _ = parser.parse_known_args(arguments)
    unknown: str | None = chosen.command
    if unknown in COMMANDS:  # flags stood before it
        at = arguments.index(unknown)
        return main([unknown, *arguments[:at], *arguments[at + 1 :]])
    if unknown:
        is_program = unknown.endswith((".vega", ".vgb", ".py"))
        fix = f"to run a program, type: vega run {unknown}" if is_program else ""
        near = did_you_mean(unknown, COMMANDS, "")
        hint = fix or "; ".join(filter(None, [near, "to see all of them, type: vega --help"]))
        raise parser.refusal(f"there is no command {unknown!r}; {hint}")
    parser.print_help()
    return 0


def _groups() -> Iterator[str]:
    """Yield the commands for the help: the most used first, each with an example, then all. Plain
    ASCII, since no stream is guarded here."""
    width = max(map(len, COMMANDS))
    most = max(len(COMMANDS[name].example) for name in MOST_USED)
    yield "Most used:"
    for name in MOST_USED:
        yield f"  {COMMANDS[name].example:{most}}  {COMMANDS[name].line}"
    for group in dict.fromkeys(command.group for command in COMMANDS.values()):
        yield f"\n{group}:"
        for name, command in COMMANDS.items():
            if command.group == group:
                yield f"  {name:{width}}  {command.line}"
    yield "\nvega <command> --help shows its arguments."


def _version(arguments: list[str]) -> str:
    """Return the version if that is asked for: the records of installed packages are slow to
    read."""
    if not any("--version".startswith(word) for word in arguments if word.startswith("--v")):
        return ""
    return version_line()


def version_line() -> str:
    """Return the version of Vega, of Python and of the system: what a report of a bug needs."""
    import platform
    from importlib.metadata import version

    return f"vega {version('vegakit')} (Python {platform.python_version()}, {platform.system()})"
