"""From a checked program to a module: all functions and tools of all its files."""

from collections.abc import Iterator
from typing import Any, TypeVar

from vegakit.lang.bytecode import Function, Module, Rights, ToolSpec
from vegakit.lang.checked import Checked, Unit
from vegakit.lang.compiling.declarations import (
    agent_of,
    bodies_of,
    supervisor_of,
    tool_decls,
    tool_of,
)
from vegakit.lang.compiling.expressions import value
from vegakit.lang.compiling.pools import Pools, rights_of
from vegakit.lang.compiling.statements import write_all
from vegakit.lang.compiling.writing import Program, Writer
from vegakit.lang.opcodes import Op
from vegakit.lang.steps import counted
from vegakit.lang.tree import (
    AgentDecl,
    FnDecl,
    Setting,
    SupervisorDecl,
    ToolDecl,
    UseMcp,
    below,
)
from vegakit.lang.types import NOTHING, Type
from vegakit.records import digest128

__all__ = ["compile_program"]

D = TypeVar("D", AgentDecl, SupervisorDecl, UseMcp)

MAIN = "main"
_MODULE = "module"


def compile_program(checked: Checked) -> Module:
    """Of a program that was checked without errors; made once, since other phases need it too."""
    module = checked.kept.get(_MODULE)
    if module is None:
        with counted():
            module = checked.kept[_MODULE] = _compiled(checked)
    return module


def _compiled(checked: Checked) -> Module:
    bodies = dict(bodies_of(checked))
    places = {name: at for at, name in enumerate(bodies)}
    program = Program(checked, Pools(), places, _rounds(checked))
    functions = [_function(program, name, *body) for name, body in bodies.items()]
    if MAIN not in places:
        functions.append(_top_level(program, checked.units[checked.main]))
    return Module(
        checked.main,
        places.get(MAIN, len(functions) - 1),
        tuple(functions),
        tuple(program.pools.constants.rows),
        tuple(program.pools.types.rows),
        tuple(program.pools.rights.rows),
        tuple(agent_of(decl, checked) for decl in _decls(checked, AgentDecl)),
        tuple(_tools(checked, functions, places)),
        tuple(supervisor_of(decl, checked) for decl in _decls(checked, SupervisorDecl)),
        tuple(sorted({use.server for use in _decls(checked, UseMcp)})),
        tuple((unit.path, digest128(unit.text)) for unit in checked.units.values()),
    )


def _rounds(checked: Checked) -> dict[int, list[Any]]:
    """Only who says `confirm` somewhere is asked."""
    nodes = (node for unit in checked.units.values() for node in below(unit.source))
    if not any(isinstance(node, Setting) and node.name == "confirm" for node in nodes):
        return {}
    from vegakit.lang.quoting import rounds_of

    return rounds_of(checked)


def _function(program: Program, name: str, unit: Unit, decl: FnDecl | ToolDecl) -> Function:
    """What is not said of its rights the header of its file says; a tool has only its own."""
    checked, w = program.checked, Writer(program, unit)
    rights = rights_of(decl.grants)
    if rights is None and isinstance(decl, FnDecl):
        rights = rights_of(unit.source.header)
    for param in decl.params:
        w.declare(param.name)
    w.at(decl)
    if isinstance(decl, FnDecl) and decl.budget is not None:
        with w.scratch():
            amount = value(w, decl.budget)
            w.emit(Op.BUDGET_ENTER, amount, program.pools.constant({}), w.site(decl.budget))
        w.scopes += 1
    write_all(w, decl.body.body)
    params = {param.name: checked.types[id(param)] for param in decl.params}
    return w.finish(name, params, _result(checked, decl), program.pools.right(rights or Rights()))


def _result(checked: Checked, decl: FnDecl | ToolDecl) -> Type:
    return NOTHING if decl.result is None else checked.types[id(decl.result)]


def _top_level(program: Program, unit: Unit) -> Function:
    w = Writer(program, unit)
    write_all(w, unit.source.body)
    rights = rights_of(unit.source.header) or Rights()
    return w.finish(MAIN, {}, NOTHING, program.pools.right(rights))


def _tools(
    checked: Checked, functions: list[Function], places: dict[str, int]
) -> Iterator[ToolSpec]:
    for unit in checked.units.values():
        for name, decl in tool_decls(checked, unit):
            place = places[name]
            yield tool_of(name, decl, place, functions[place])


def _decls(checked: Checked, kind: type[D]) -> Iterator[D]:
    for unit in checked.units.values():
        for decl in unit.source.decls:
            if isinstance(decl, kind):
                yield decl
