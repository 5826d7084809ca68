"""The whole check of a program, from its text to its tables."""

from collections.abc import Callable, Mapping, Sequence

from vegakit.lang.bytecode import AgentSpec
from vegakit.lang.checked import Checked, Unit
from vegakit.lang.checking.agents import check_agent, check_supervisor
from vegakit.lang.checking.blocks import STATEMENTS
from vegakit.lang.checking.bodies import check_file_body, check_main, check_routine
from vegakit.lang.checking.calls import CALLS
from vegakit.lang.checking.collecting import collect
from vegakit.lang.checking.context import EXPRESSIONS, Program
from vegakit.lang.checking.declared import Names
from vegakit.lang.checking.given import GIVEN, given_unit
from vegakit.lang.checking.guards import GUARDS
from vegakit.lang.checking.importing import Read, read_units
from vegakit.lang.checking.literals import LITERALS
from vegakit.lang.checking.loops import LOOPS
from vegakit.lang.checking.operators import OPERATORS
from vegakit.lang.checking.places import PLACES
from vegakit.lang.checking.reports import Reports
from vegakit.lang.checking.sends import SENDS
from vegakit.lang.checking.statements import PLAIN_STATEMENTS
from vegakit.lang.checking.strands import STRANDS
from vegakit.lang.diagnostics import Diagnostic, EnoughFoundError
from vegakit.lang.parsing import Parsed, parse
from vegakit.lang.signatures import Signature
from vegakit.lang.tree import AgentDecl, FnDecl, Node, SupervisorDecl, ToolDecl
from vegakit.lang.types import ANY, Type

__all__ = ["check"]

EXPRESSIONS.update(CALLS | LITERALS | OPERATORS | PLACES | SENDS)
STATEMENTS.update(GUARDS | LOOPS | PLAIN_STATEMENTS | STRANDS)


def check(
    text: str,
    file: str,
    read: Read,
    *,
    tools: Mapping[str, Signature | None] | None = None,
    types: Mapping[str, Type] | None = None,
    agents: Sequence[AgentSpec] = (),
    parse: Callable[[str, str], Parsed] = parse,
) -> tuple[Checked | None, tuple[Diagnostic, ...]]:
    """`read` gives the text of a file below the project root; `tools` are Python functions that are
    passed in, with what they take and give if that is known, and `types` are types from there;
    `agents` are declared by who runs the program, which names them as its own;
    `parse` makes the tree of a file. Faults of spelling are told alone: what follows from them
    would mislead."""
    reports = Reports(file)
    program = Program(reports, tools, types)
    units: dict[str, Unit] = {}
    try:
        units = read_units(text, file, read, reports, parse)
        if agents:
            units[GIVEN] = given_unit(agents)
        if not reports.errors:
            _check_all(program, units, file)
    except EnoughFoundError:
        pass
    except RecursionError:
        _too_deep(program)
    found = reports.in_order()
    return None if reports.errors else _checked(program, units, file), found


def _check_all(program: Program, units: dict[str, Unit], file: str) -> None:
    collect(program, units)
    for path, names in program.files.items():
        if path == GIVEN:
            continue
        program.reports.file = path
        _check_file(program, names)
        check_file_body(program, names, path == file)
    program.reports.file = file
    check_main(program, program.files[file])


def _check_file(program: Program, names: Names) -> None:
    for decl in names.unit.source.decls:
        program.place = decl
        match decl:
            case FnDecl() | ToolDecl():
                check_routine(program, names, decl)
            case AgentDecl():
                check_agent(program, names, decl)
                for tool in decl.tools:
                    check_routine(program, names, tool, decl.name)
            case SupervisorDecl():
                check_supervisor(program, names, decl)
            case _:
                pass


def _too_deep(program: Program) -> None:
    program.reports.error(
        "too-deep",
        program.place or Node(0, 0),
        "this is nested too deeply to be checked",
        "give parts of it names with `let`, or make them functions",
    )


def _checked(program: Program, units: dict[str, Unit], file: str) -> Checked:
    full = program.holes.full
    types = {key: full(kind, ANY) for key, kind in program.types.items()}
    return Checked(
        file, units, types, program.callees, program.arguments, program.names, program.full_names
    )
