"""First pass: what each file declares, before any body is read."""

from collections.abc import Iterator

from vegakit.lang.checked import CalleeKind, Unit
from vegakit.lang.checking.context import Program
from vegakit.lang.checking.declared import (
    Agent,
    Names,
    Record,
    Routine,
    Server,
    Supervisor,
    Used,
)
from vegakit.lang.checking.given import GIVEN
from vegakit.lang.checking.relations import UNKNOWN
from vegakit.lang.checking.written import declared_type, written
from vegakit.lang.library import LIBRARY, NAMESPACES
from vegakit.lang.signatures import PLAIN_TYPES, Parameter
from vegakit.lang.tree import (
    AgentDecl,
    Decl,
    FnDecl,
    Let,
    Node,
    Parallel,
    Param,
    Stmt,
    SupervisorDecl,
    ToolDecl,
    TypeDecl,
    UseFile,
    UseMcp,
)
from vegakit.lang.types import NOTHING, OptionalOf, Type

__all__ = ["collect"]


def collect(program: Program, units: dict[str, Unit]) -> None:
    """Names of all files first, then their types, then what functions and tools take and give."""
    for path, unit in units.items():
        given = {name: Record(kind, None) for name, kind in program.given.items()}
        program.files[path] = Names(unit, dict(given), {}, {}, set(_lets(unit.source.body)), {})
    for names in program.files.values():
        names.others = {name: program.files[path] for name, path in names.unit.uses.items()}
        program.reports.file = names.unit.path
        _take_names(program, names)
    if GIVEN in program.files:
        for names in program.files.values():
            names.own |= program.files[GIVEN].own
    for names in program.files.values():
        program.reports.file = names.unit.path
        for decl in names.pending.values():
            declared_type(program, names, decl, decl)
    for names in program.files.values():
        program.reports.file = names.unit.path
        _take_routines(program, names)


def _lets(body: tuple[Stmt, ...]) -> Iterator[str]:
    for statement in body:
        if isinstance(statement, Let):
            yield statement.name
        elif isinstance(statement, Parallel):
            yield from _lets(statement.body.body)


def _take_names(program: Program, names: Names) -> None:
    taken = dict.fromkeys(program.given, "a type from Python") | dict.fromkeys(
        program.tools, "a function from Python"
    )
    if GIVEN in program.files and names.unit.path != GIVEN:
        given = program.files[GIVEN].unit.source.decls
        taken |= {decl.name: "an agent that you were given" for decl in given}
    for decl in names.unit.source.decls:
        if _is_taken(program, decl, taken):
            continue
        taken[decl.name] = _what(decl)
        if isinstance(decl, TypeDecl):
            names.pending[decl.name] = decl
        elif isinstance(decl, UseFile):
            if decl.name in names.others:
                names.own[decl.name] = Used(names.unit.uses[decl.name], decl)
        elif isinstance(decl, UseMcp):
            names.own[decl.name] = Server(decl.server, decl)
        elif isinstance(decl, AgentDecl | SupervisorDecl):
            _take_process(program, names, decl)


def _take_process(program: Program, names: Names, decl: AgentDecl | SupervisorDecl) -> None:
    full = names.full(decl.name)
    program.full_names[id(decl)] = full
    if isinstance(decl, AgentDecl):
        names.own[decl.name] = Agent(full, decl)
    else:
        names.own[decl.name] = Supervisor(full, decl)
        program.supervisors.add(full)


_WORDS: dict[type, str] = {
    FnDecl: "a function",
    ToolDecl: "a tool",
    AgentDecl: "an agent",
    SupervisorDecl: "a supervisor",
    TypeDecl: "a type",
    UseMcp: "an MCP server",
    UseFile: "a file",
}


def _what(decl: Decl) -> str:
    return _WORDS[type(decl)]


def _is_taken(program: Program, decl: Decl, taken: dict[str, str]) -> bool:
    """Reported at the name; the first of two keeps it."""
    message = ""
    if decl.name in taken:
        message = f"`{decl.name}` is {taken[decl.name]} already"
    elif isinstance(decl, FnDecl | ToolDecl) and decl.name in LIBRARY:
        message = f"`{decl.name}` is a function of the library"
    elif isinstance(decl, UseFile | UseMcp) and decl.name in NAMESPACES:
        message = f"`{decl.name}` is a part of the library"
    elif isinstance(decl, TypeDecl | AgentDecl | SupervisorDecl) and (
        decl.name in PLAIN_TYPES and decl.name[0].islower()
    ):
        message = f"`{decl.name}` is a type of the language"
    if not message:
        return False
    use = isinstance(decl, UseFile | UseMcp)
    program.reports.error(
        "name-taken",
        _name_of(program, decl),
        message,
        "give it another with `as`" if use else "choose another name",
    )
    return True


def _name_of(program: Program, decl: Decl | Param) -> Node:
    """Where the name stands in a declaration."""
    text = program.files[program.reports.file].unit.text
    at = text.find(decl.name, decl.at, decl.end)
    return Node(at, at + len(decl.name)) if at >= 0 else Node(decl.at, decl.at + 1)


def _take_routines(program: Program, names: Names) -> None:
    for decl in names.unit.source.decls:
        if isinstance(decl, FnDecl | ToolDecl):
            routine = _routine(program, names, decl, names.full(decl.name))
            names.own.setdefault(decl.name, routine)
        elif isinstance(decl, AgentDecl):
            own = names.nested.setdefault(decl.name, {})
            for tool in decl.tools:
                if tool.name in own:
                    program.reports.error(
                        "name-taken",
                        _name_of(program, tool),
                        f"`{decl.name}` has a tool `{tool.name}` already",
                        "choose another name",
                    )
                full = f"{names.full(decl.name)}.{tool.name}"
                own.setdefault(tool.name, _routine(program, names, tool, full))


def _routine(program: Program, names: Names, decl: FnDecl | ToolDecl, full: str) -> Routine:
    params: dict[str, Parameter] = {}
    for param in decl.params:
        if param.name in params:
            program.reports.error("duplicate-parameter", param, f"`{param.name}` is there already")
        kind = _parameter(program, names, param)
        params[param.name] = Parameter(param.name, kind, isinstance(kind, OptionalOf))
    result: Type = NOTHING
    if decl.result is not None:
        result = written(program, names, decl.result)
    program.types[id(decl)] = result
    program.full_names[id(decl)] = full
    kind = CalleeKind.FUNCTION if isinstance(decl, FnDecl) else CalleeKind.TOOL
    return Routine(kind, full, tuple(params.values()), result, decl)


def _parameter(program: Program, names: Names, param: Param) -> Type:
    if param.type is None:
        program.reports.error(
            "missing-type",
            param,
            f"the parameter `{param.name}` has no type",
            f"write such as `{param.name}: str`",
        )
        kind: Type = UNKNOWN
    else:
        kind = written(program, names, param.type)
    program.types[id(param)] = kind
    return kind
