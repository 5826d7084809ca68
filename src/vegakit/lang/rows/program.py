"""The rows of a whole program: what each body does itself, then what it does through others."""

from collections.abc import Iterator

from msgspec import Struct

from vegakit.lang.bytecode import AgentSpec, Function, Module, Rights, SupervisorSpec
from vegakit.lang.checked import CalleeKind, Checked, NameKind, Unit
from vegakit.lang.compiling import compile_program
from vegakit.lang.compiling.declarations import bodies_of
from vegakit.lang.library import LIBRARY
from vegakit.lang.rows.records import NOTHING_TOUCHED, Effects, joined
from vegakit.lang.steps import counted, took
from vegakit.lang.tree import Ask, Call, FnDecl, Name, Node, Spawn, Stmt, ToolDecl, below
from vegakit.lang.types import ProcessOf

__all__ = ["effects_of", "granted", "library_row"]

_MAIN = "main"
_ROWS = "rows"
_ANYWHERE = frozenset({"**"})


class _Body(Struct):
    """`through` are the functions, tools and agents that it does the rest by."""

    row: Effects
    through: set[str]


def effects_of(checked: Checked) -> dict[str, Effects]:
    """By full name; what stands at the top of the file is `main`. Agents are `agent Name`."""
    rows = checked.kept.get(_ROWS)
    if rows is None:
        with counted():
            rows = checked.kept[_ROWS] = _effects(checked)
    return rows


def _effects(checked: Checked) -> dict[str, Effects]:
    module = compile_program(checked)
    functions = {function.name: function for function in module.functions}
    bodies = {name: _body(checked, module, functions[name], node) for name, node in _nodes(checked)}
    written = {tool.name for tool in module.tools}
    bodies |= {f"agent {spec.name}": _agent(spec, written) for spec in module.agents}
    return _closed(bodies)


def _closed(bodies: dict[str, _Body]) -> dict[str, Effects]:
    """Rows only grow and there are finitely many names in them, so this ends."""
    rows = {name: body.row for name, body in bodies.items()}
    changed = True
    while changed:
        changed = False
        for name, body in bodies.items():
            row = rows[name]
            took(1 + len(body.through))
            for other in body.through:
                row = joined(row, rows.get(other, NOTHING_TOUCHED))
            changed |= row != rows[name]
            rows[name] = row
    return rows


def _nodes(checked: Checked) -> Iterator[tuple[str, FnDecl | ToolDecl | tuple[Stmt, ...]]]:
    for name, (_, decl) in bodies_of(checked):
        yield name, decl
    main: Unit = checked.units[checked.main]
    if main.source.body:
        yield _MAIN, main.source.body


def _agent(spec: AgentSpec, written: set[str]) -> _Body:
    """What a tool does that is not written in Vega, nobody here knows."""
    elsewhere = frozenset(f"yaml {name}" for name in spec.yaml)
    elsewhere |= {name for name in spec.tools if name not in written}
    row = Effects(sends=frozenset({spec.name}), servers=frozenset(spec.mcp), unknown=elsewhere)
    return _Body(row, set(spec.tools))


def _body(checked: Checked, module: Module, function: Function, node: object) -> _Body:
    rights = module.rights[function.rights]
    body = _Body(NOTHING_TOUCHED, set())
    if isinstance(node, ToolDecl):
        for capability in rights.capabilities:
            body.row = joined(body.row, granted(capability, rights))
    for inner in below(node):
        _add(body, checked, module, rights, inner)
    return body


def _add(body: _Body, checked: Checked, module: Module, rights: Rights, node: Node) -> None:
    match node:
        case Call():
            _add_call(body, checked, rights, node)
        case Ask():
            body.through |= {f"agent {name}" for name in _whom(checked, module, node)}
        case Spawn():
            started = _started(checked.full_names.get(id(node.agent), ""), module)
            body.row = joined(body.row, Effects(spawns=frozenset(started)))
        case _:
            pass


def _add_call(body: _Body, checked: Checked, rights: Rights, node: Call) -> None:
    callee = checked.callees.get(id(node))
    if callee is None:
        return
    match callee.kind:
        case CalleeKind.FUNCTION | CalleeKind.TOOL:
            body.through.add(callee.name)
        case CalleeKind.MCP:
            server = frozenset({callee.name.partition(".")[0]})
            body.row = joined(body.row, Effects(servers=server))
        case CalleeKind.PYTHON:
            body.row = joined(body.row, Effects(unknown=frozenset({callee.name})))
        case CalleeKind.LIBRARY:
            body.row = joined(body.row, library_row(callee.name, rights))
        case CalleeKind.RECORD:
            pass


def library_row(name: str, rights: Rights) -> Effects:
    if name == "print":
        return Effects(prints=True)
    if name.startswith("human::"):
        return Effects(asks_people=True)
    capability = LIBRARY[name].capability
    return granted(capability, rights) if capability else NOTHING_TOUCHED


def granted(capability: str, rights: Rights) -> Effects:
    paths = _ANYWHERE if rights.paths is None else frozenset(rights.paths)
    hosts = frozenset({"*"} if rights.hosts is None else rights.hosts)
    commands = frozenset({"*"} if rights.commands is None else rights.commands)
    match capability:
        case "fs::read":
            return Effects(reads=paths)
        case "fs::write":
            return Effects(writes=paths)
        case "net::get":
            return Effects(gets=hosts)
        case "net::post":
            return Effects(posts=hosts)
        case "process::exec":
            return Effects(commands=commands)
        case _:
            return Effects(unknown=frozenset({capability}))


def _whom(checked: Checked, module: Module, node: Ask) -> list[str]:
    """Of a handle that could be of any agent: all of them."""
    to, every = node.to, [spec.name for spec in module.agents]
    if isinstance(to, Name) and checked.names.get(id(to)) is NameKind.AGENT:
        return [checked.full_names[id(to)]]
    kind = checked.types.get(id(to))
    return [kind.agent] if isinstance(kind, ProcessOf) and kind.agent in every else every


def _started(name: str, module: Module) -> set[str]:
    """A supervisor starts its children."""
    groups: dict[str, SupervisorSpec] = {group.name: group for group in module.supervisors}
    found, due = set[str](), [name]
    while due:
        one = due.pop()
        if one and one not in found:
            found.add(one)
            due.extend(groups[one].children if one in groups else ())
    return found
