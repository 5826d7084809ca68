"""The first pass: collect what each file declares before any body is read, and resolve written
types (pure).
"""

from collections import Counter
from collections.abc import Iterator

from vegakit.lang.check.context import UNKNOWN, ProgramCheck
from vegakit.lang.check.symbols import (
    GIVEN,
    AgentSymbol,
    CalleeKind,
    FileSymbol,
    Names,
    NodeSymbol,
    RecordSymbol,
    RoutineSymbol,
    ServerSymbol,
    SupervisorSymbol,
    Unit,
    closest_name,
    described,
    replacement,
)
from vegakit.lang.diagnostics import Edit
from vegakit.lang.library import LIBRARY, NAMESPACES
from vegakit.lang.syntax.tree import (
    AgentDecl,
    ChoiceType,
    Decl,
    FnDecl,
    Let,
    ListType,
    MapType,
    NamedType,
    Node,
    OptionalType,
    Parallel,
    Param,
    Stmt,
    SupervisorDecl,
    ToolDecl,
    TypeDecl,
    TypeExpr,
    UseFile,
    UseMcp,
    UseNode,
)
from vegakit.lang.types import (
    ANY,
    NOTHING,
    NULL,
    PLAIN_TYPES,
    ChoiceOf,
    ListOf,
    MapOf,
    OptionalOf,
    Parameter,
    Plain,
    ProcessOf,
    RecordOf,
    Type,
)

# Types as they are written in the source, turned into types.
#
# A record is spelled out in full, so one that contains itself is refused, and so is one that would
# grow beyond all measure: `type A { x: B  y: B }`, thirty times over, is a billion fields.


MOST_PARTS = 1_000
MOST_DEPTH = 30
_ELSEWHERE = {
    "string": "str",
    "String": "str",
    "text": "str",
    **dict.fromkeys(("i32", "i64", "u32", "u64", "usize", "long", "uint"), "int"),
    **dict.fromkeys(("f32", "f64"), "float"),
    "integer": "int",
    "Int": "int",
    "number": "float",
    "double": "float",
    "boolean": "bool",
    "Bool": "bool",
    "list": "[T]",
    "array": "[T]",
    "List": "[T]",
    "map": "{str: T}",
    "dict": "{str: T}",
    "object": "{str: T}",
    "Money": "money",
    "Duration": "duration",
    "File": "file",
    "ProcessId": "process",
}


def written(program: ProgramCheck, names: Names, node: TypeExpr) -> Type:
    """Return the type that is written there."""
    kind = _written(program, names, node)
    program.types[id(node)] = kind
    return kind


def _written(program: ProgramCheck, names: Names, node: TypeExpr) -> Type:
    match node:
        case NamedType():
            return _named(program, names, node)
        case OptionalType(inner=inner):
            return _optional(program, names, node, inner)
        case ListType(inner=inner, most=most):
            _not_empty(program, node, most, "list")
            return ListOf(written(program, names, inner), most)
        case MapType(inner=inner, most=most):
            _not_empty(program, node, most, "map")
            return MapOf(written(program, names, inner), most)
        case ChoiceType(choices=choices):
            return _choice(program, node, choices)


def _not_empty(program: ProgramCheck, node: TypeExpr, most: int | None, what: str) -> None:
    if most is not None and most < 1:
        program.reports.error("empty-type", node, f"a {what} of at most 0 is always empty")


def _optional(program: ProgramCheck, names: Names, node: OptionalType, inner: TypeExpr) -> Type:
    kind = written(program, names, inner)
    if isinstance(kind, OptionalOf) or kind in (NULL, ANY):
        program.reports.error("twice-optional", node, "this may be null already", "leave out `?`")
        return kind
    return kind if kind == UNKNOWN else OptionalOf(kind)


def _choice(program: ProgramCheck, node: ChoiceType, choices: tuple[str, ...]) -> Type:
    kept = tuple(dict.fromkeys(choices))
    if len(kept) < len(choices):
        twice = Counter(choices).most_common(1)[0][0]
        program.reports.error("duplicate-choice", node, f'"{twice}" is there twice')
    if len(kept) > MOST_PARTS:
        program.reports.error(
            "type-too-large", node, f"there are more than {MOST_PARTS:,} choices", "use a str"
        )
        return UNKNOWN
    return ChoiceOf(kept)


def _named(program: ProgramCheck, names: Names, node: NamedType) -> Type:
    found = names.find(node.name)
    if isinstance(found, RecordSymbol):
        return found.type
    if isinstance(found, AgentSymbol | SupervisorSymbol):
        return ProcessOf(found.full)
    pending, owner = _pending(names, node.name)
    if pending is not None:
        return declared_type(program, owner, pending, node)
    if found is not None:
        program.reports.error(
            "not-a-type", node, f"`{node.name}` is {described(found)}, not a type"
        )
        return UNKNOWN
    if node.name in PLAIN_TYPES:
        _not_empty(program, node, node.most, "text")
        return PLAIN_TYPES[node.name] if node.most is None else Plain(node.name, node.most)
    _unknown(program, names, node)
    return UNKNOWN


def _pending(names: Names, name: str) -> tuple[TypeDecl | None, Names]:
    front, colons, last = name.rpartition("::")
    owner = names.others.get(front) if colons else names
    return (None, names) if owner is None else (owner.pending.get(last), owner)


def _unknown(program: ProgramCheck, names: Names, node: NamedType) -> None:
    other = _ELSEWHERE.get(node.name, "")
    if node.name in ("void", "None", "nothing", "unit"):
        help_, edit = "a function that returns nothing has no `->`", None
        text = names.unit.text
        arrow = text.rfind("->", 0, node.at)
        if arrow >= 0 and not text[arrow + 2 : node.at].strip():
            edit = Edit(len(text[:arrow].rstrip()), node.end, "")
    elif other:
        help_, edit = f"write `{other}`", replacement(node, other)[1] if other.isalpha() else None
    else:
        types = [
            name
            for name, found in names.own.items()
            if isinstance(found, RecordSymbol | AgentSymbol)
        ]
        spaced = [f"{space}::{name}" for space, other in names.others.items() for name in other.own]
        known = [*types, *names.pending, *PLAIN_TYPES, *spaced]
        help_, edit = replacement(node, closest_name(node.name, known))
        help_ = help_ or f"there are {', '.join(PLAIN_TYPES)}, and those you declare with `type`"
    program.reports.error("unknown-type", node, f"there is no type `{node.name}`", help_, edit)


def declared_type(program: ProgramCheck, names: Names, decl: TypeDecl, asked: Node) -> Type:
    """Return the type of a `type` declaration, whose fields may name others that are declared
    later."""
    if id(decl) in program.types:
        return program.types[id(decl)]
    if _is_forming(program, decl) or len(program.forming) >= MOST_DEPTH:
        _circle(program, decl, asked)
        return UNKNOWN
    program.forming.append(decl)
    before, program.reports.file = program.reports.file, names.unit.path
    kind = _formed(program, names, decl)
    program.reports.file = before
    program.forming.pop()
    program.types[id(decl)] = kind
    names.own.setdefault(decl.name, RecordSymbol(kind, decl))
    return kind


def _formed(program: ProgramCheck, names: Names, decl: TypeDecl) -> Type:
    if decl.alias is not None:
        return written(program, names, decl.alias)
    fields: dict[str, Type] = {}
    for field in decl.fields:
        if field.name in fields:
            program.reports.error("duplicate-field", field, f"`{field.name}` is there already")
        kind = written(program, names, field.type)
        fields[field.name] = kind
    parts = 1 + sum(_parts(program, kind) for kind in fields.values())
    if parts > MOST_PARTS:
        program.reports.error(
            "type-too-large",
            decl,
            f"`{decl.name}`, with all that is in it, has more than {MOST_PARTS:,} fields",
            "split it: a model cannot fill such a form",
        )
        return UNKNOWN
    record = RecordOf(names.full(decl.name), tuple(fields.items()))
    program.parts[record.name] = parts
    return record


def _parts(program: ProgramCheck, kind: Type) -> int:
    while isinstance(kind, OptionalOf | ListOf | MapOf):
        kind = kind.inner
    return program.parts.get(kind.name, 1) if isinstance(kind, RecordOf) else 1


def _is_forming(program: ProgramCheck, decl: TypeDecl) -> bool:
    return any(one is decl for one in program.forming)


def _circle(program: ProgramCheck, decl: TypeDecl, asked: Node) -> None:
    names = [one.name for one in program.forming]
    if _is_forming(program, decl):
        circle = " -> ".join([*names[names.index(decl.name) :], decl.name])
        program.reports.error(
            "recursive-type",
            asked,
            f"a type cannot contain itself: {circle}",
            "keep the parts in one list, and let them refer to each other by number or name",
        )
    else:
        program.reports.error("type-too-large", asked, "these types lie too deep in each other")


# First pass: what each file declares, before any body is read.


def collect(program: ProgramCheck, units: dict[str, Unit]) -> None:
    """Collect the names of all files first, then their types, then what functions and tools take
    and give."""
    for path, unit in units.items():
        given = {name: RecordSymbol(kind, None) for name, kind in program.given.items()}
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


def _take_names(program: ProgramCheck, names: Names) -> None:
    taken = dict.fromkeys(program.given, "a type from Python") | dict.fromkeys(
        program.tools, "a function from Python"
    )
    if GIVEN in program.files and names.unit.path != GIVEN:
        given = program.files[GIVEN].unit.source.decls
        taken |= {decl.name: "an agent that you were given" for decl in given}
    for decl in names.unit.source.decls:
        if _is_taken(program, decl, taken):
            continue
        taken[decl.name] = _WORDS[type(decl)]
        if isinstance(decl, TypeDecl):
            names.pending[decl.name] = decl
        elif isinstance(decl, UseFile):
            if decl.name in names.others:
                names.own[decl.name] = FileSymbol(names.unit.uses[decl.name], decl)
        elif isinstance(decl, UseMcp):
            names.own[decl.name] = ServerSymbol(decl.server, decl)
        elif isinstance(decl, UseNode):
            _take_node(program, names, decl)
        elif isinstance(decl, AgentDecl | SupervisorDecl):
            _take_process(program, names, decl)


def _take_node(program: ProgramCheck, names: Names, decl: UseNode) -> None:
    names.own[decl.name] = NodeSymbol(decl.node, decl)
    if decl.node not in program.tools:
        close = closest_name(decl.node, program.tools)
        program.reports.error(
            "unknown-node",
            decl,
            f'there is no node "{decl.node}"',
            f'did you mean "{close}"?'
            if close
            else "name it with its version, and put its .vsp file beside the program or into the "
            "folder nodes",
        )


def _take_process(program: ProgramCheck, names: Names, decl: AgentDecl | SupervisorDecl) -> None:
    full = names.full(decl.name)
    program.full_names[id(decl)] = full
    if isinstance(decl, AgentDecl):
        names.own[decl.name] = AgentSymbol(full, decl)
    else:
        names.own[decl.name] = SupervisorSymbol(full, decl)
        program.supervisors.add(full)


_WORDS: dict[type, str] = {
    FnDecl: "a function",
    ToolDecl: "a tool",
    AgentDecl: "an agent",
    SupervisorDecl: "a supervisor",
    TypeDecl: "a type",
    UseMcp: "an MCP server",
    UseFile: "a file",
    UseNode: "a node",
}


def _is_taken(program: ProgramCheck, decl: Decl, taken: dict[str, str]) -> bool:
    """Reported at the name; the first of two keeps it."""
    message = ""
    if isinstance(decl, UseNode) and decl.name == decl.node:
        return False  # a node that is passed in keeps its own name
    if decl.name in taken:
        message = f"`{decl.name}` is {taken[decl.name]} already"
    elif isinstance(decl, FnDecl | ToolDecl | UseNode) and decl.name in LIBRARY:
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


def _name_of(program: ProgramCheck, decl: Decl | Param) -> Node:
    """Return where the name stands in a declaration."""
    text = program.files[program.reports.file].unit.text
    at = text.find(decl.name, decl.at, decl.end)
    return Node(at, at + len(decl.name)) if at >= 0 else Node(decl.at, decl.at + 1)


def _take_routines(program: ProgramCheck, names: Names) -> None:
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


def _routine(
    program: ProgramCheck, names: Names, decl: FnDecl | ToolDecl, full: str
) -> RoutineSymbol:
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
    return RoutineSymbol(kind, full, tuple(params.values()), result, decl)


def _parameter(program: ProgramCheck, names: Names, param: Param) -> Type:
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
