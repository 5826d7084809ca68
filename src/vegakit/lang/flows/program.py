"""The flows of a whole program: of what it runs first, and of every function that it calls."""

from msgspec import Struct

from vegakit.lang.bytecode import Module, Rights
from vegakit.lang.checked import CalleeKind, Checked
from vegakit.lang.compiling import compile_program
from vegakit.lang.compiling.declarations import bodies_of
from vegakit.lang.flows.acts import PAUSES, Agents
from vegakit.lang.flows.looking import is_act, places_in
from vegakit.lang.flows.ordering import ordered
from vegakit.lang.flows.records import Flow
from vegakit.lang.flows.values import NOTHING_NEEDED
from vegakit.lang.flows.walking import Facts, TooLargeError, Walk
from vegakit.lang.rows import ModuleRows, effects_of
from vegakit.lang.steps import counted
from vegakit.lang.tree import Ask, Call, Monitor, Parallel, Spawn, below

__all__ = ["flows_of", "walk_function"]

_MAIN = "main"


def flows_of(checked: Checked) -> tuple[Flow, ...]:
    """Of a program that was checked without errors: `main` first, then the functions that it calls,
    as it comes to them. What only computes is left out."""
    with counted():
        facts = _facts(checked)
        main = walk_function(facts, _MAIN)
    called = (flow for name, flow in facts.flows.items() if name != _MAIN)
    return (main, *(flow for flow in called if flow is not None and flow.steps))


def walk_function(facts: Facts, name: str) -> Flow:
    known = facts.flows.get(name)
    if known is None:
        facts.flows[name] = None
        known = facts.flows[name] = _walked(facts, name)
    return known


def _walked(facts: Facts, name: str) -> Flow:
    unit, decl = facts.bodies.get(name, (facts.checked.units[facts.checked.main], None))
    walk, counted = Walk(facts, unit, name), facts.nodes
    facts.nodes = 0
    line = 1 if decl is None else walk.line(decl)
    try:
        if decl is None:
            walk.all(unit.source.body)
        else:
            for param in decl.params:
                walk.scopes.declare(param.name, NOTHING_NEEDED)
            walk.block(decl.body)
    except (TooLargeError, RecursionError):
        return Flow(name, unit.path, line, (), (), (), (), (), too_large=True)
    finally:
        facts.nodes = counted
    return ordered(name, unit.path, line, *walk.notes.done())


def _facts(checked: Checked) -> Facts:
    module = compile_program(checked)
    bodies = dict(bodies_of(checked))
    found = _found(checked)
    doing = _closed(found.acting, found.calls)
    places = {path: places_in(checked, unit, doing) for path, unit in checked.units.items()}
    barred = _closed(found.pausing, found.calls)
    pausing = frozenset(spec.name for spec in module.agents if barred & {*spec.tools})
    of_agents = ModuleRows(module)
    rows = {f"agent {spec.name}": of_agents.agent(spec.name) for spec in module.agents}
    return Facts(
        checked,
        Agents({spec.name: spec for spec in module.agents}, pausing),
        bodies,
        effects_of(checked) | rows,
        _rights(module),
        doing,
        barred,
        places,
    )


def _rights(module: Module) -> dict[str, Rights]:
    rights = {each.name: module.rights[each.rights] for each in module.functions}
    return {_MAIN: module.rights[module.functions[module.main].rights], **rights}


class _Found(Struct):
    """Names of bodies that act or pause themselves, and for each the functions it calls."""

    acting: set[str]
    pausing: set[str]
    calls: dict[str, set[str]]


def _found(checked: Checked) -> _Found:
    found = _Found(set(), set(), {})
    for name, (_, decl) in bodies_of(checked):
        calls = found.calls[name] = set[str]()
        for node in below(decl.body):
            callee = checked.callees.get(id(node)) if isinstance(node, Call) else None
            if isinstance(node, Ask | Spawn):
                found.acting.add(name)
            elif isinstance(node, Parallel | Monitor):
                found.pausing.add(name)
            elif callee is not None and callee.kind is CalleeKind.FUNCTION:
                calls.add(callee.name)
            elif callee is not None and is_act(callee, frozenset()):
                found.acting.add(name)
                if callee.name.startswith(PAUSES):
                    found.pausing.add(name)
    return found


def _closed(names: set[str], calls: dict[str, set[str]]) -> frozenset[str]:
    """With those that call one of them, through others too."""
    callers: dict[str, set[str]] = {}
    for name, called in calls.items():
        for one in called:
            callers.setdefault(one, set()).add(name)
    closed, due = set(names), [*names]
    while due:
        more = callers.get(due.pop(), set()) - closed
        closed |= more
        due += more
    return frozenset(closed)
