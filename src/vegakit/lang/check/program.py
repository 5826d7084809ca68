"""Check a whole program: agents, supervisors, bodies of functions, tools and files (pure)."""

from collections.abc import Callable, Mapping, Sequence

from vegakit.lang.check.calls import CALLS
from vegakit.lang.check.context import EXPRESSIONS, UNKNOWN, BodyCheck, ProgramCheck, is_json, lets
from vegakit.lang.check.fitting import check
from vegakit.lang.check.literals import LITERALS
from vegakit.lang.check.names import PLACES
from vegakit.lang.check.operators import OPERATORS
from vegakit.lang.check.resolution import collect
from vegakit.lang.check.sends import SENDS
from vegakit.lang.check.settings import (
    AGENT,
    BLOCKS,
    check_budgets,
    check_rules,
    check_settings,
    check_value,
    unknown_setting,
)
from vegakit.lang.check.statements import (
    GUARDS,
    LOOPS,
    PLAIN_STATEMENTS,
    STATEMENTS,
    TASKS,
    check_all,
)
from vegakit.lang.check.symbols import (
    GIVEN,
    AgentSymbol,
    Callee,
    CalleeKind,
    Checked,
    NameKind,
    Names,
    NodeSymbol,
    ReadSource,
    Reports,
    RoutineSymbol,
    ServerSymbol,
    SupervisorSymbol,
    Unit,
    closest_name,
    given_unit,
    read_units,
    replacement,
)
from vegakit.lang.codegen.bytecode import AgentSpec
from vegakit.lang.diagnostics import Diagnostic, Edit, TooManyDiagnosticsError
from vegakit.lang.syntax.parser import Parsed, parse
from vegakit.lang.syntax.tree import (
    AgentDecl,
    AgentField,
    FnDecl,
    Grants,
    Let,
    Name,
    Node,
    Setting,
    SupervisorDecl,
    ToolDecl,
    ToolRef,
)
from vegakit.lang.types import ANY, MONEY, NOTHING, FutureOf, ProcessOf, Signature, Type, type_label

# Agents and supervisors as declared: their fields, tools and children.


def check_agent(program: ProgramCheck, names: Names, decl: AgentDecl) -> None:
    """Check the settings and tools of an agent."""
    seen: set[str] = set()
    for field in decl.fields:
        word = Node(field.at, field.at + len(field.name))
        if field.name in seen:
            message, edit = f"`{field.name}` is set already", Edit(field.at, field.end, "")
            program.reports.error("duplicate-setting", word, message, "write it once", edit)
            continue
        seen.add(field.name)
        _field(program, names, decl, field, word)


def _field(
    program: ProgramCheck, names: Names, decl: AgentDecl, field: AgentField, word: Node
) -> None:
    value, name = field.value, field.name
    if name == "tools" and isinstance(value, tuple):
        for ref in value:
            if isinstance(ref, ToolRef):
                _tool(program, names, decl, ref)
    elif name in BLOCKS and isinstance(value, tuple):
        settings = tuple(one for one in value if isinstance(one, Setting))
        check_settings(program, settings, BLOCKS[name], f"`{name}`")
    elif name in AGENT and not isinstance(value, tuple):
        check_value(program, value, AGENT[name], f"`{name}`")
    elif name in BLOCKS or name == "tools":
        shape = "[…]" if name == "tools" else "{ … }"
        program.reports.error("wrong-setting", word, f"`{name}` is written `{name} {shape}`")
    elif name in AGENT:
        program.reports.error("wrong-setting", word, f"`{name}` takes a value, not a block")
    else:
        unknown_setting(program, word, name, [*AGENT, *BLOCKS, "tools"], "an agent")


def _tool(program: ProgramCheck, names: Names, decl: AgentDecl, ref: ToolRef) -> None:
    if ref.kind == "mcp":
        _server(program, names, ref)
    elif isinstance(node := names.find(ref.name), NodeSymbol):
        program.full_names[id(ref)] = node.id
        _given_node(program, ref, node.id)
    elif ref.kind == "":
        routine = _routine(program, names, decl, ref)
        if routine is not None:
            program.full_names[id(ref)] = routine.full
        elif ref.name in program.tools:
            program.callees[id(ref)] = Callee(CalleeKind.PYTHON, ref.name)


def _given_node(program: ProgramCheck, ref: ToolRef, name: str) -> None:
    signature = program.tools.get(name)
    is_pure = signature is not None and signature.is_pure
    program.callees[id(ref)] = Callee(CalleeKind.NODE if is_pure else CalleeKind.PYTHON, name)


def _server(program: ProgramCheck, names: Names, ref: ToolRef) -> None:
    servers = {one.server for one in names.own.values() if isinstance(one, ServerSymbol)}
    declared = names.own.get(ref.name)
    if isinstance(declared, ServerSymbol):
        program.full_names[id(ref)] = declared.server
    elif ref.name not in servers:
        program.reports.error(
            "unknown-server",
            ref,
            f'no `use mcp "{ref.name}"` stands in this file',
            f'write `use mcp "{ref.name}"` at the top',
            Edit(0, 0, f'use mcp "{ref.name}"\n') if names.unit.source.header is None else None,
        )


def _routine(
    program: ProgramCheck, names: Names, decl: AgentDecl, ref: ToolRef
) -> RoutineSymbol | None:
    """A tool of the file, of a file it uses, or inside an agent, if there is one of that name."""
    found = names.find(ref.name)
    if isinstance(found, RoutineSymbol) and found.kind is CalleeKind.TOOL:
        return found
    if isinstance(found, RoutineSymbol):
        program.reports.error(
            "not-a-tool",
            ref,
            f"`{ref.name}` is a function, a model can call tools only",
            f"declare it with `tool {ref.name}(…)`",
        )
        return found
    inside = [own[ref.name] for own in names.nested.values() if ref.name in own]
    if len(inside) == 1:
        return inside[0]
    if inside:
        _several(program, ref, decl)
    elif ref.name not in program.tools:
        _unknown_tool(program, names, ref)
    return None


def _several(program: ProgramCheck, ref: ToolRef, decl: AgentDecl) -> None:
    own = any(tool.name == ref.name for tool in decl.tools)
    program.reports.error(
        "ambiguous-tool",
        ref,
        f"more than one agent has a tool `{ref.name}` of its own",
        "its own tools need not be listed" if own else "move the one that is meant to top level",
    )


def _unknown_tool(program: ProgramCheck, names: Names, ref: ToolRef) -> None:
    own = [name for name, one in names.own.items() if isinstance(one, RoutineSymbol)]
    inside = [name for tools in names.nested.values() for name in tools]
    help_, edit = replacement(ref, closest_name(ref.name, [*own, *inside, *program.tools]))
    program.reports.error(
        "unknown-tool",
        ref,
        f"there is no tool `{ref.name}`",
        help_ or f"declare it: `tool {ref.name}(…) -> str {{ … }}`",
        edit,
    )


def check_supervisor(program: ProgramCheck, names: Names, decl: SupervisorDecl) -> None:
    """Check the settings and children of a supervisor."""
    check_rules(program, decl.settings, "a supervisor")
    seen: set[str] = set()
    for child in decl.children:
        found = names.find(child.name)
        if child.name in seen:
            program.reports.error("duplicate-child", child, f"`{child.name}` is a child already")
        elif isinstance(found, AgentSymbol | SupervisorSymbol):
            _child(program, child, found)
        else:
            _unknown_child(program, names, child)
        seen.add(child.name)
    if _holds_itself(names, decl):
        program.reports.error(
            "supervisor-cycle", decl, f"`{decl.name}` is below itself", "take it out of `children`"
        )


def _child(program: ProgramCheck, child: Name, found: AgentSymbol | SupervisorSymbol) -> None:
    is_agent = isinstance(found, AgentSymbol)
    program.names[id(child)] = NameKind.AGENT if is_agent else NameKind.SUPERVISOR
    program.full_names[id(child)] = found.full
    program.types[id(child)] = ProcessOf(found.full)


def _unknown_child(program: ProgramCheck, names: Names, child: Name) -> None:
    known = [
        name for name, one in names.own.items() if isinstance(one, AgentSymbol | SupervisorSymbol)
    ]
    help_, edit = replacement(child, closest_name(child.name, known))
    program.reports.error(
        "unknown-name", child, f"there is no agent or supervisor `{child.name}`", help_, edit
    )


def _holds_itself(names: Names, decl: SupervisorDecl) -> bool:
    """Only files that are used can be named, and those never in a circle: so it is in this one."""
    seen: set[str] = set()
    waiting = [child.name for child in decl.children]
    while waiting:
        name = waiting.pop()
        if name == decl.name:
            return True
        found = names.own.get(name)
        if name not in seen and isinstance(found, SupervisorSymbol):
            seen.add(name)
            waiting += [child.name for child in found.node.children]
    return False


# Bodies of functions, tools and files: what they need around them, and what they leave unused.


def check_routine(
    program: ProgramCheck, names: Names, decl: FnDecl | ToolDecl, agent: str = ""
) -> None:
    """`agent` is the agent whose tool it is."""
    body = BodyCheck(program, names, decl)
    body.agent = agent
    body.result = program.types.get(id(decl), NOTHING)
    body.later = lets(decl.body.body)
    for param in decl.params:
        body.scopes.declare(param.name, "parameter", program.types[id(param)], param)
    if isinstance(decl, FnDecl) and decl.budget is not None:
        check(body, decl.budget, MONEY, "the budget")
    if isinstance(decl, ToolDecl):
        _check_tool(program, decl)
    check_grants(program, decl.grants)
    goes_on = check_all(body, decl.body.body)
    check_budgets(program, names, decl.body, getattr(decl, "budget", None))
    if goes_on and body.result not in (NOTHING, UNKNOWN):
        end = Node(decl.body.end - 1, decl.body.end)
        program.reports.error(
            "missing-return",
            end,
            f"`{decl.name}` can end here without returning {type_label(body.result)}",
            "write `return …;` on every way through it",
        )
    _unused(body)


def _check_tool(program: ProgramCheck, decl: ToolDecl) -> None:
    """A model fills in the parameters and reads the result, so both are written down."""
    for param in decl.params:
        kind = program.types[id(param)]
        if not is_json(kind):
            program.reports.error(
                "not-an-argument", param, f"a model cannot give {type_label(kind)} to a tool"
            )
    result = program.types.get(id(decl), NOTHING)
    if result != NOTHING and not is_json(result) and decl.result is not None:
        program.reports.error(
            "not-a-result", decl.result, f"a tool cannot give {type_label(result)} to a model"
        )
    for setting in decl.settings:
        if setting.name != "idempotent":
            program.reports.error(
                "unknown-setting",
                setting,
                f"a tool has no `{setting.name}`",
                "there is: idempotent",
            )


def check_grants(program: ProgramCheck, grants: Grants | None) -> None:
    """Check the rights that a function, tool or file is given."""
    if grants is None:
        return
    for texts, word in (
        (grants.paths, "allowed_paths"),
        (grants.commands, "allowed_commands"),
        (grants.hosts, "allowed_hosts"),
    ):
        for literal in texts or ():
            if not all(isinstance(part, str) for part in literal.parts):
                program.reports.error(
                    "not-constant", literal, f"`{word}` holds fixed text, without expressions in it"
                )


def check_file_body(program: ProgramCheck, names: Names, is_main: bool) -> None:
    """Check the statements at the top of a file."""
    source = names.unit.source
    check_grants(program, source.header)
    if not source.body:
        return
    main = next(
        (one for one in source.decls if isinstance(one, FnDecl) and one.name == "main"), None
    )
    if not is_main:
        program.reports.error(
            "statements-in-used-file",
            source.body[0],
            "a file that is used by another holds declarations only",
            "put the statements into a function",
        )
    elif main is not None:
        first, advice, edit = source.body[0], "move the statements into `main`", None
        text = names.unit.text[first.at : first.end]
        if text.startswith("main(") or "__name__" in text:
            advice, edit = "leave it out: `main` is run by itself", Edit(first.at, first.end, "")
        program.reports.error(
            "main-and-statements",
            first,
            "a program is either `fn main` or statements at top level, not both",
            advice,
            edit,
        )
        if edit is not None and len(source.body) == 1:
            return
    body = BodyCheck(program, names, None)
    body.later = lets(source.body)
    check_all(body, source.body)
    check_budgets(program, names, source.body, None)
    _unused(body)


def check_main(program: ProgramCheck, names: Names) -> None:
    """Its arguments come from the command line, and its result is shown."""
    for decl in names.unit.source.decls:
        if isinstance(decl, FnDecl) and decl.name == "main":
            for param in decl.params:
                kind = program.types.get(id(param), UNKNOWN)
                if not is_json(kind):
                    program.reports.error(
                        "main-parameter",
                        param,
                        f"the arguments of `main` come from outside, {type_label(kind)} cannot",
                        "make it inside `main`",
                    )
            result = program.types.get(id(decl), NOTHING)
            if result != NOTHING and not is_json(result) and decl.result is not None:
                program.reports.error(
                    "main-result",
                    decl.result,
                    f"the result of `main` goes to the outside, {type_label(result)} cannot",
                    "return what it said, or nothing",
                )


def _unused(body: BodyCheck) -> None:
    """Said only of bodies without errors: the use may be what is misspelled."""
    if body.reports.errors > body.errors_before:
        return
    for variable in body.scopes.all:
        if variable.role != "let" or variable.read or variable.name.startswith("_"):
            continue
        if isinstance(body.type_variables.seen(variable.type), FutureOf):
            body.reports.warn(
                "never-awaited",
                _name(body, variable.node),
                f"`{variable.name}` is never awaited, and its failure goes unseen",
                f"write `await {variable.name}`, or leave out `async`",
            )
        else:
            body.reports.warn(
                "unused-variable",
                _name(body, variable.node),
                f"`{variable.name}` is never read",
                f"leave it out, or call it `_{variable.name}`",
            )


def _name(body: BodyCheck, node: Node) -> Node:
    if isinstance(node, Let):
        at = body.names.unit.text.find(node.name, node.at + len("let"), node.value.at)
        if at >= 0:
            return Node(at, at + len(node.name))
    return node


# The whole check of a program, from its text to its tables.


EXPRESSIONS.update(CALLS | LITERALS | OPERATORS | PLACES | SENDS)
STATEMENTS.update(GUARDS | LOOPS | PLAIN_STATEMENTS | TASKS)


def check_program(
    text: str,
    file: str,
    read: ReadSource,
    *,
    tools: Mapping[str, Signature | None] | None = None,
    types: Mapping[str, Type] | None = None,
    agents: Sequence[AgentSpec] = (),
    is_lent: bool = False,
    parse: Callable[[str, str], Parsed] = parse,
    exact: bool = False,
) -> tuple[Checked | None, tuple[Diagnostic, ...]]:
    """`read` gives the text of a file below the project root; `tools` are Python functions that are
    passed in, with what they take and give if that is known, and `types` are types from there;
    `agents` are declared by who runs the program, which names them as its own, and who lends it the
    hosts and commands that it leaves open if it `is_lent` its rights;
    `parse` makes the tree of a file, whose ints are `exact` if it is Python. Faults of spelling are
    told alone: what follows from them would mislead."""
    reports = Reports(file)
    program = ProgramCheck(reports, tools, types, is_lent=is_lent, exact=exact)
    units: dict[str, Unit] = {}
    try:
        units = read_units(text, file, read, reports, parse)
        if agents:
            units[GIVEN] = given_unit(agents)
        if not reports.errors:
            _check_all(program, units, file)
    except TooManyDiagnosticsError:
        pass
    except RecursionError:
        _too_deep(program)
    found = reports.in_order()
    return None if reports.errors else _checked(program, units, file), found


def _check_all(program: ProgramCheck, units: dict[str, Unit], file: str) -> None:
    collect(program, units)
    for path, names in program.files.items():
        if path == GIVEN:
            continue
        program.reports.file = path
        _check_file(program, names)
        check_file_body(program, names, path == file)
    program.reports.file = file
    check_main(program, program.files[file])


def _check_file(program: ProgramCheck, names: Names) -> None:
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


def _too_deep(program: ProgramCheck) -> None:
    program.reports.error(
        "too-deep",
        program.place or Node(0, 0),
        "this is nested too deeply to be checked",
        "give parts of it names with `let`, or make them functions",
    )


def _checked(program: ProgramCheck, units: dict[str, Unit], file: str) -> Checked:
    full = program.type_variables.full
    types = {key: full(kind, ANY) for key, kind in program.types.items()}
    return Checked(
        file, units, types, program.callees, program.arguments, program.names, program.full_names
    )
