"""`vega repl`: a program typed piece by piece, each checked, quoted and run when it is whole.

A piece is run as `vega run` runs a program, with all its rules, within what is left of the budget
of the session. It is not recorded: what was typed can be saved as a program, whose runs are.
"""

import argparse
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from vegakit.cli.compiler import show_diagnostics
from vegakit.cli.look import look_of, one_line, tell_error
from vegakit.cli.main import Argument, CommandParser, amount
from vegakit.cli.run import ProgramCommand, run_options
from vegakit.errors import UserError, VegaError
from vegakit.lang import (
    IT,
    PIECE_FILE,
    KnownRun,
    Piece,
    PieceByPiece,
    compile_program,
    is_open,
    sends_of,
    type_label,
)
from vegakit.money import Dollars, Money, dollars
from vegakit.sdk import ProjectWorld, Source, VegaProgram
from vegakit.tools import write_output
from vegakit.vm import restored, text_of

_HELLO = "Vega, a program piece by piece: :help says how, Ctrl-D leaves"
_HELP = """\
Type a declaration, statements, or an expression, whose value is shown and called `it`.
What is open goes on on the next line; an empty line ends it.
  :vars         show the variables and their types
  :save FILE    write what was typed as a program
  :quit         leave, as Ctrl-D does"""
_GONE = "processes, futures and streams live as long as the piece that made them"


def repl_command(arguments: Sequence[str]) -> int:
    """Run `vega repl`."""
    session = _Session(
        CommandParser(
            prog="vega repl",
            description="Type a program piece by piece; each is checked, quoted and run at once.",
            arguments=[
                Argument(
                    "--budget",
                    type=amount,
                    metavar="'$5'",
                    help="the most that all pieces together may spend",
                ),
                Argument("--model", help="for all agents; scripted:FILE needs no key"),
                Argument("--quiet", action="store_true", help="no account of each piece"),
            ],
        ).parse_args(arguments)
    )
    if not sys.stdin.isatty():
        # Whoever types has seen what failed; a script has only the status.
        return 0 if _is_whole(session, None) else 1
    with suppress(ImportError):  # editing and history, where the platform has them
        import_module("readline")
    print(_HELLO)
    _is_whole(session, _Keyboard())
    return 0


def _is_whole(session: "_Session", keyboard: "_Keyboard | None") -> bool:
    """Take all that is typed; return whether it was sound and came to its end."""
    is_whole = True
    for typed in _pieces(keyboard):
        if typed in {":quit", ":q"}:
            break
        try:
            is_whole = session.take(typed, keyboard) and is_whole
        except VegaError as error:
            tell_error(error)
            is_whole = False
    return is_whole


# What is typed: pieces, of one line or of several.


class _Keyboard:
    """Ctrl-C at a terminal gives up the line that is typed, or ends the run that it comes in, which
    takes it itself. Between them it is noted: raised anywhere, it would end the session."""

    def __init__(self) -> None:
        self._is_typed = False
        self.is_pressed = False
        """It came after the line was typed, and before its run."""
        signal.signal(signal.SIGINT, self._on_signal)

    def line(self, prompt: str) -> str | None:
        """Return a line; None at the end."""
        try:
            self._is_typed = True
            try:
                line = input(prompt)
            except EOFError:
                line = None
            self._is_typed = False
        except KeyboardInterrupt:  # what was typed so far is given up
            line = ""
            print()
        if line is None:
            print()
        self.is_pressed = False
        return line

    def _on_signal(self, *_: object) -> None:
        if self._is_typed:
            self._is_typed = False  # raised once: a second one would come up where nobody takes it
            raise KeyboardInterrupt
        self.is_pressed = True


def _pieces(keyboard: _Keyboard | None) -> Iterator[str]:
    """Yield each piece when it is whole, or when an empty line ends it; what comes from a pipe is
    split in the same way."""
    typed: list[str] = []
    while (line := _line("… " if typed else "> ", keyboard)) is not None:
        if not typed and not line.strip():
            continue
        typed.append(line)
        text = "\n".join(typed)
        if not line.strip() or text.startswith(":") or not is_open(text):
            typed = []
            yield text.strip()
    if typed:
        yield "\n".join(typed).strip()


def _line(prompt: str, keyboard: _Keyboard | None) -> str | None:
    if keyboard is not None:
        return keyboard.line(look_of(sys.stdout).text(prompt))
    line = sys.stdin.readline()
    return line.rstrip("\n") if line else None


class _Session:
    def __init__(self, chosen: argparse.Namespace) -> None:
        self._chosen = chosen
        self._left = None if chosen.budget is None else dollars(chosen.budget)
        self._root = Source(Path(PIECE_FILE)).root
        self._pieces = PieceByPiece(Source(Path(PIECE_FILE)).read)

    def take(self, typed: str, keyboard: _Keyboard | None = None) -> bool:
        """Do what was typed; return whether it was sound and came to its end."""
        if typed.startswith(":"):
            self._obey(typed)
            return True
        piece = self._pieces.take(typed)
        show_diagnostics(piece.told, {PIECE_FILE: piece.text})
        if piece.checked is None:
            return all(one.severity != "error" for one in piece.told)
        program = VegaProgram(compile_program(piece.checked), self._root)
        returned = list[dict[str, Any] | None]()
        playing = ProgramCommand(
            program, [*piece.given], self._options(piece), piece.checked, returned.append
        )
        if keyboard is not None and keyboard.is_pressed:
            raise UserError("interrupted")
        playing.play()
        if self._left is not None:
            self._left = Money(max(0, self._left - playing.spent))
        if not returned:
            return False
        self._pieces.done(typed, piece, returned[0] or {})
        value = self._pieces.variables[IT].value if piece.shows else None
        if value is not None:
            print(text_of(restored(value)), flush=True)
        if piece.gone:
            told = f"{', '.join(piece.gone)} is over: {_GONE}"
            print(*look_of(sys.stderr).fold(told), sep="\n", file=sys.stderr)
        return True

    def _options(self, piece: Piece) -> argparse.Namespace:
        """Return what `vega run` would be given for a piece. One that sends nothing has no account
        that anybody would read."""
        assert piece.checked is not None
        chosen = run_options([PIECE_FILE, "--no-journal"])
        sends = sends_of(piece.checked, KnownRun(piece.given, ProjectWorld(self._root)))
        chosen.quiet = self._chosen.quiet or sends == 0
        chosen.model = self._chosen.model
        chosen.budget = None if self._left is None else Dollars.of_nanos(self._left)
        return chosen

    def _obey(self, typed: str) -> None:
        word, _, rest = typed.partition(" ")
        if word == ":help":
            print(_HELP)
        elif word == ":vars":
            for name, variable in self._pieces.variables.items():
                print(f"{name}: {type_label(variable.kind)}")
        elif word == ":save" and rest.strip():
            self._save(Path(rest.strip()))
        elif word == ":save":
            raise UserError("a program is saved in a file; type: :save hello.vega")
        else:
            raise UserError(f"there is no command {one_line(word)}; type: :help")

    def _save(self, path: Path) -> None:
        write_output(path, self._pieces.as_program().encode(), "name a new file", is_new=True)
        print(f"saved; to run it, type: vega run {one_line(str(path))}")
