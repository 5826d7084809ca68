"""Agents and supervisors as declared: their fields, tools and children."""

from vegakit.lang.checked import Callee, CalleeKind, NameKind
from vegakit.lang.checking.context import Program
from vegakit.lang.checking.declared import Agent, Names, Routine, Server, Supervisor
from vegakit.lang.checking.fields import AGENT, BLOCKS, RULES
from vegakit.lang.checking.reports import instead, meant
from vegakit.lang.checking.settings import (
    check_settings,
    check_value,
    only_block,
    unknown_setting,
)
from vegakit.lang.diagnostics import Edit
from vegakit.lang.tree import (
    AgentDecl,
    AgentField,
    MoneyLit,
    Name,
    Node,
    Setting,
    SupervisorDecl,
    ToolRef,
)
from vegakit.lang.types import ProcessOf

__all__ = ["check_agent", "check_supervisor"]


def check_agent(program: Program, names: Names, decl: AgentDecl) -> None:
    seen: set[str] = set()
    for field in decl.fields:
        word = Node(field.at, field.at + len(field.name))
        if field.name in seen:
            program.reports.error("duplicate-setting", word, f"`{field.name}` is set already")
            continue
        seen.add(field.name)
        _field(program, names, decl, field, word)
        if field.name == "budget" and isinstance(field.value, MoneyLit) and field.value.period:
            program.reports.error(
                "not-yet",
                field.value,
                f"the budget of an agent is for one send; one for each {field.value.period} is not"
                " kept yet",
                "write the amount alone, and cap what all of it spends: vega run --budget '$5'",
            )
        elif field.name == "on_exceed" and isinstance(field.value, Name):
            only_block(program, field.value)


def _field(program: Program, names: Names, decl: AgentDecl, field: AgentField, word: Node) -> None:
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


def _tool(program: Program, names: Names, decl: AgentDecl, ref: ToolRef) -> None:
    if ref.kind == "mcp":
        _server(program, names, ref)
    elif ref.kind == "":
        routine = _routine(program, names, decl, ref)
        if routine is not None:
            program.full_names[id(ref)] = routine.full
        elif ref.name in program.tools:
            program.callees[id(ref)] = Callee(CalleeKind.PYTHON, ref.name)


def _server(program: Program, names: Names, ref: ToolRef) -> None:
    servers = {one.server for one in names.own.values() if isinstance(one, Server)}
    declared = names.own.get(ref.name)
    if isinstance(declared, Server):
        program.full_names[id(ref)] = declared.server
    elif ref.name not in servers:
        program.reports.error(
            "unknown-server",
            ref,
            f'no `use mcp "{ref.name}"` stands in this file',
            f'write `use mcp "{ref.name}"` at the top',
            Edit(0, 0, f'use mcp "{ref.name}"\n') if names.unit.source.header is None else None,
        )


def _routine(program: Program, names: Names, decl: AgentDecl, ref: ToolRef) -> Routine | None:
    """A tool of the file, of a file it uses, or inside an agent, if there is one of that name."""
    found = names.find(ref.name)
    if isinstance(found, Routine) and found.kind is CalleeKind.TOOL:
        return found
    if isinstance(found, Routine):
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


def _several(program: Program, ref: ToolRef, decl: AgentDecl) -> None:
    own = any(tool.name == ref.name for tool in decl.tools)
    program.reports.error(
        "ambiguous-tool",
        ref,
        f"more than one agent has a tool `{ref.name}` of its own",
        "its own tools need not be listed" if own else "move the one that is meant to top level",
    )


def _unknown_tool(program: Program, names: Names, ref: ToolRef) -> None:
    own = [name for name, one in names.own.items() if isinstance(one, Routine)]
    inside = [name for tools in names.nested.values() for name in tools]
    help_, edit = instead(ref, meant(ref.name, [*own, *inside, *program.tools]))
    program.reports.error(
        "unknown-tool",
        ref,
        f"there is no tool `{ref.name}`",
        help_ or f"declare it: `tool {ref.name}(…) -> str {{ … }}`",
        edit,
    )


def check_supervisor(program: Program, names: Names, decl: SupervisorDecl) -> None:
    check_settings(program, decl.settings, RULES, "a supervisor")
    seen: set[str] = set()
    for child in decl.children:
        found = names.find(child.name)
        if child.name in seen:
            program.reports.error("duplicate-child", child, f"`{child.name}` is a child already")
        elif isinstance(found, Agent | Supervisor):
            _child(program, child, found)
        else:
            _unknown_child(program, names, child)
        seen.add(child.name)
    if _holds_itself(names, decl):
        program.reports.error(
            "supervisor-cycle", decl, f"`{decl.name}` is below itself", "take it out of `children`"
        )


def _child(program: Program, child: Name, found: Agent | Supervisor) -> None:
    is_agent = isinstance(found, Agent)
    program.names[id(child)] = NameKind.AGENT if is_agent else NameKind.SUPERVISOR
    program.full_names[id(child)] = found.full
    program.types[id(child)] = ProcessOf(found.full)


def _unknown_child(program: Program, names: Names, child: Name) -> None:
    known = [name for name, one in names.own.items() if isinstance(one, Agent | Supervisor)]
    help_, edit = instead(child, meant(child.name, known))
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
        if name not in seen and isinstance(found, Supervisor):
            seen.add(name)
            waiting += [child.name for child in found.node.children]
    return False
