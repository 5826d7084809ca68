"""Commands that read programs and run nothing: `vega check`, `build`, `disasm`, `fmt`, `lsp` and
`card`.

They must start quickly, so this module loads no runtime, and each command imports what only it
needs when it runs.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from vegakit.cli.look import (
    Look,
    Tone,
    count,
    look_of,
    narrower,
    one_line,
    print_json,
    tell_error,
)
from vegakit.cli.main import Argument, CommandParser
from vegakit.errors import UserError
from vegakit.lang import Diagnostic, Module, as_json, render
from vegakit.sdk import (
    CheckedSource,
    check_source,
    load_bytecode,
    nodes_in,
    programs_below,
    project_root,
)

if TYPE_CHECKING:
    from vegakit.lang import Checked, Signature
    from vegakit.vesper import NodeTool


# What the commands for programs share: which file, and how what is wrong with it is shown.


def programs_at(paths: Iterable[Path]) -> list[Path]:
    """Return the files, and of a folder all programs below it."""
    found: list[Path] = []
    for path in paths:
        below = programs_below(path) if path.is_dir() else [path]
        if not below:
            raise UserError(
                f"there is no .vega file in {path}, and no .py file with @program; give the path "
                "of one"
            )
        found += below
    return found


def nodes_at(path: Path, text: str | None = None) -> "list[NodeTool]":
    """Return the nodes that a program declares, as it is given them. A program without any loads
    nothing for that."""
    names = nodes_in(path, text)
    if not names:
        return []
    from vegakit.vesper import program_nodes

    return program_nodes(path, names)


def signatures_of(nodes: "Sequence[NodeTool]") -> "Mapping[str, Signature] | None":
    """Return what nodes take and give, as programs are checked with."""
    if not nodes:
        return None
    from vegakit.host import PythonInterop

    return PythonInterop(nodes).signatures


def checked_at(path: Path) -> CheckedSource:
    """Check the program in a file, with the nodes that it declares."""
    return check_source(path, signatures_of(nodes_at(path)))


def compiled_at(path: Path) -> "tuple[Module, Path, Checked | None] | None":
    """The module, its project's folder and, unless the file is bytecode, what it was made of; None
    when it was refused, which is shown then."""
    from vegakit.lang import compile_program

    if path.suffix == ".vgb":
        return load_bytecode(path), project_root(path), None
    found = checked_at(path)
    does_at_top = any(one.code == "python-top" for one in found.diagnostics)
    if does_at_top and "@program" not in found.text:
        raise UserError(
            f"{path} is a script in Python, and no program: nothing in it stands below @program; "
            f"to run a script, type: python {path}"
        )
    show(found)
    if not found.is_sound or found.checked is None:
        return None
    return compile_program(found.checked), found.source.root, found.checked


def check_loading(path: Path, _: bytes) -> None:
    """Refuse to load a file of Python before its user trusts the folder."""
    from vegakit.config import check_python_trusted

    check_python_trusted(path)


def render_kept_python(found: CheckedSource, path: Path, look: Look) -> list[str]:
    """Return the lines that tell which functions of a program stay Python, and what they need."""
    from vegakit.config import project_folder, trust_command

    if not (names := ", ".join(found.python_functions)):
        return []
    file = one_line(str(path))
    notes = (
        "Vega cannot know what this Python does, when the file is loaded or when it is called.",
        "It has all your rights, so vega run and vega test need your trust in its folder:",
        one_line(trust_command(project_folder(path.resolve().parent))),
    )
    lines = look.fold(f"{file} keeps Python: {names}", "  ")
    return lines + [line for note in notes for line in look.fold(note, "    ", "  ")]


def show(found: CheckedSource) -> None:
    """Print what is wrong with a program on stderr: its output is its own."""
    show_diagnostics(found.diagnostics, found.source.texts)


def show_diagnostics(found: Sequence[Diagnostic], texts: Mapping[str, str]) -> None:
    """Print diagnostics on stderr, in the colours and the width of the terminal."""
    if not found:
        return
    look = look_of(sys.stderr)

    def paint(text: str, part: str) -> str:
        return look.paint(text, _TONES.get(text.partition("[")[0], _TONES[part]))

    # Both dots of a line that is cut on both sides are longer in ASCII.
    width = narrower(look, 4).width if look.ascii_only else look.width
    sys.stdout.flush()
    print(look.text(render(found, texts, paint, width)), file=sys.stderr)


_TONES = {
    "severity": Tone.BAD,
    "warning": Tone.ASK,
    "message": Tone.STRONG,
    "margin": Tone.FAINT,
}


def tally(found: Sequence[Diagnostic], files: int) -> str:
    """Return how many errors and warnings there are, and in how many files."""
    errors = sum(one.severity == "error" for one in found)
    others = len(found) - errors
    counted = [count(errors, "error")] if errors else []
    counted += [count(others, "warning")] if others else []
    return f"{' and '.join(counted) or 'no error'} in {count(files, 'file')}"


# `vega check`: all that is wrong with programs, before they run.


def check_command(arguments: Sequence[str]) -> int:
    """Run `vega check`."""
    chosen = CommandParser(
        prog="vega check",
        description="Find all that is wrong with programs before they run: names, types, rights.",
        arguments=[
            Argument("files", nargs="+", type=Path, metavar="FILE|FOLDER"),
            Argument("--json", action="store_true", help="for machines, with suggested edits"),
        ],
    ).parse_args(arguments)
    found: dict[Path, CheckedSource] = {}
    unread: list[UserError] = []
    for path in programs_at(chosen.files):
        try:
            found[path] = checked_at(path)
        except UserError as error:  # the others are still worth looking at
            unread.append(error)
    if chosen.json:
        print_json(
            [row for one in found.values() for row in as_json(one.diagnostics, one.source.texts)]
        )
    else:
        for path, one in found.items():
            _tell(path, one)
    for error in unread:
        tell_error(error)
    wrong = [one for one in found.values() if one.diagnostics]
    sys.stdout.flush()  # both may go to one file, and the count stands last
    if wrong and not chosen.json:
        every = [diagnostic for one in wrong for diagnostic in one.diagnostics]
        print(tally(every, len(wrong)), file=sys.stderr)
    return 1 if unread or not all(one.is_sound for one in found.values()) else 0


def _tell(path: Path, one: CheckedSource) -> None:
    show(one)
    if one.is_sound and one.checked is not None:
        lines = sum(len(unit.text.splitlines()) for unit in one.checked.units.values())
        warned = f", {len(one.diagnostics)} to look at" if one.diagnostics else ""
        print(f"{one.source.name}: {lines} lines are in order{warned}")
        if one.python_functions:  # a look loads the settings, and this command begins at once
            print(*render_kept_python(one, path, look_of(sys.stdout)), sep="\n")


# `vega build`: a program as bytecode, in a file of its own.


def build_command(arguments: Sequence[str]) -> int:
    """Run `vega build`."""
    chosen = CommandParser(
        prog="vega build",
        description="Compile a program.",
        arguments=[
            Argument("file", type=Path, metavar="FILE.vega"),
            Argument("-o", "--output", type=Path, metavar="FILE.vgb"),
        ],
    ).parse_args(arguments)
    from vegakit.lang import to_vgb
    from vegakit.tools import write_output

    made = compiled_at(chosen.file)
    if made is None:
        return 1
    output: Path = chosen.output or chosen.file.with_suffix(".vgb")
    write_output(output, to_vgb(made[0]), "give -o a file in a folder that is there")
    print(f"{output}: {output.stat().st_size:,} bytes; run it with: vega run {output}")
    return 0


# `vega disasm`: the instructions of a program, for people.


def disasm_command(arguments: Sequence[str]) -> int:
    """Run `vega disasm`."""
    parser = CommandParser(
        prog="vega disasm",
        description="Show a program's bytecode.",
        arguments=[Argument("file", type=Path, metavar="FILE")],
    )
    made = compiled_at(parser.parse_args(arguments).file)
    if made is None:
        return 1
    from vegakit.lang import disassemble

    print(disassemble(made[0]))
    return 0


# `vega fmt`: programs in the one way they are written, or as Python.


def fmt_command(arguments: Sequence[str]) -> int:
    """A file that cannot be parsed is shown, and left as it is; the others are formatted."""
    chosen = CommandParser(
        prog="vega fmt",
        description="Format programs, in place.",
        arguments=[
            Argument("files", nargs="+", type=Path, metavar="FILE|FOLDER"),
            Argument("--check", action="store_true", help="change nothing; say what would be"),
            Argument(
                "--to",
                choices=("python",),
                help="print it as Python; change nothing",
            ),
        ],
    ).parse_args(arguments)
    if chosen.to is not None:
        return _translate(chosen.files)
    # Python in a folder is formatted by ruff; it is refused where it is named.
    files = [
        path for path in programs_at(chosen.files) if path.suffix != ".py" or path in chosen.files
    ]
    if not files:
        raise UserError(f"there is no .vega file in {chosen.files[0]}; give the path of one")
    looked = [(path, _formatted(path, check=chosen.check)) for path in files]
    changed = [path for path, is_changed in looked if is_changed]
    if chosen.check and changed:
        print("\n".join(f"{path} is not formatted" for path in changed), file=sys.stderr)
        print(f"type: vega fmt {' '.join(map(str, changed))}", file=sys.stderr)
    faulty = any(is_changed is None for _, is_changed in looked)
    return 1 if faulty or (chosen.check and changed) else 0


def _translate(paths: Sequence[Path]) -> int:
    if len(paths) != 1:
        raise UserError(f"one file is printed at a time; type: vega fmt --to python {paths[0]}")
    [path] = paths
    if path.suffix != ".vega":
        raise UserError(f"{path} is not a .vega file; give the path of one")
    found = checked_at(path)
    if found.checked is None or not found.is_sound:
        show(found)
        return 1
    from vegakit.lang import to_python

    python, problems = to_python(found.checked)
    if problems:
        show_diagnostics(problems, {found.source.name: found.text})
        return 1
    print(python, end="")
    return 0


def _formatted(path: Path, *, check: bool) -> bool | None:
    """Return whether a file was not formatted, or None where that cannot be said."""
    if path.suffix == ".py":
        raise UserError(f"{path} is Python, which ruff formats; type: ruff format {path}")
    from vegakit.lang import format_source, parse
    from vegakit.tools import write_output

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", "it is not UTF-8 text")
        raise UserError(
            f"{path} cannot be read: {why}; give the path of a .vega or .py file"
        ) from error
    parsed = parse(text, str(path))
    if any(found.severity == "error" for found in parsed.diagnostics):
        show_diagnostics(parsed.diagnostics, {str(path): text})
        return None
    made = format_source(text)
    if made != text and not check:
        write_output(path, made.encode(), "make the file writable")
        print(f"formatted {path}")
    return made != text


# `vega lsp`: what is wrong with a program, told to an editor while it is written.


def lsp_command(arguments: Sequence[str]) -> int:
    """Run `vega lsp`."""
    CommandParser(
        prog="vega lsp",
        description="A language server on stdin and stdout: set it as the server for .vega files.",
    ).parse_args(arguments)
    if find_spec("pygls") is None:
        raise UserError("an editor is served with an extra; type: pip install 'vegakit[lsp]'")
    from vegakit.cli.lsp_server import serve

    serve(lambda path, text: signatures_of(nodes_at(path, text)))
    return 0


# `vega card`: the language on one page, to be put in front of a model.


def card_command(arguments: Sequence[str]) -> int:
    """Run `vega card`."""
    chosen = CommandParser(
        prog="vega card",
        description="Print all that a model needs to write programs, in at most 2,000 tokens.",
        arguments=[
            Argument("--python", action="store_true", help="for programs written in Python")
        ],
    ).parse_args(arguments)
    from vegakit.lang import card

    print(card("python" if chosen.python else "vega"), end="")
    return 0
