"""Dataflow of calls: of the library, of tools and servers, and of the program's own functions
(pure).
"""

from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from vegakit.lang.analysis.dataflow import DataflowGraph, StepKind
from vegakit.lang.analysis.dataflow_steps import HoldKind, StepAction, library_action
from vegakit.lang.analysis.dataflow_walk import DataflowWalk, Dependency, Provenance, both, needing
from vegakit.lang.analysis.effects import (
    FILE_FUNCTIONS,
    EffectSet,
    file_path,
    library_effects,
    on_path,
)
from vegakit.lang.analysis.speculation import changes, told_changes
from vegakit.lang.analysis.walk import is_step
from vegakit.lang.check.symbols import Callee, CalleeKind
from vegakit.lang.syntax.tree import (
    Assign,
    Call,
    Cast,
    FnDecl,
    For,
    If,
    Let,
    Name,
    Node,
    Text,
    While,
    below,
    root_of,
)
from vegakit.lang.types import ListOf, MapOf, OptionalOf, ProcessOf, RecordOf, Type, is_literal

_KINDS = {
    CalleeKind.FUNCTION: StepKind.FUNCTION,
    CalleeKind.TOOL: StepKind.TOOL,
    CalleeKind.MCP: StepKind.TOOL,
    CalleeKind.PYTHON: StepKind.TOOL,
    CalleeKind.NODE: StepKind.TOOL,
    CalleeKind.LIBRARY: StepKind.CALL,
}


def call(w: DataflowWalk, node: Call, values: Sequence[Provenance]) -> Provenance:
    """Note a call, if it is a step, and return where its value comes from."""
    callee = w.facts.checked.callees.get(id(node))
    if callee is None:
        return both(*values)
    if not is_step(callee, w.facts.doing):
        return _computed(w, node, callee, values)
    kind = StepKind.PRINT if callee.name == "print" else _KINDS[callee.kind]
    act = _act(w, node, callee, values)
    if act.carves and not w.loops and _has_budget(w, callee.name):
        # It sets its money aside first of all, so what sends behind it waits only until then.
        act = replace(act, carves=False)
        w.come_to(HoldKind.SENDS, f"barrier: money is set aside at line {w.line(node)}")
    number = w.note(node, kind, w.text(node.at, node.end), act, *values)
    if act.unnamed and any(_agents_given(w, node)):
        hold_processes(w, node, values)
    if act.bars and callee.kind is CalleeKind.FUNCTION:
        _hold_undecided(w, node, callee.name, values)
    if node.at in w.places.calls and _fails_undecided(w, node, callee.name, values):
        _end_by_call(w, node, number)
    for gate in w.facts.left_open.get(callee.name, ()):
        text = _LEFT_OPEN[gate].format(callee.name.rpartition("::")[2])
        w.hold(HoldKind.BUDGETS if gate is HoldKind.ROUNDS else gate, 1 << number, text)
    return needing(number)


def _computed(
    w: DataflowWalk, node: Call, callee: Callee, values: Sequence[Provenance]
) -> Provenance:
    """Note a call of a function that only computes if it may fail: like an `if`, it takes no time
    and decides what runs behind it."""
    value = both(*values)
    if node.at in w.places.calls:
        what = f"{callee.name.rpartition('::')[2]}(…)"
        number = w.note(node, StepKind.BRANCH, what, StepAction(), value)
        if w.decides(number):
            _end_by_call(w, node, number)
    return value


def _fails_undecided(w: DataflowWalk, node: Call, name: str, values: Sequence[Provenance]) -> bool:
    """Return whether it is not known when the call begins if the function fails: something in it
    decides that, or something it is given that is not known yet."""
    if name in w.facts.fails_by_itself or w.facts.flows.get(name) is None:
        return True
    return bool(_tested(w, node, name, values))


def _end_by_call(w: DataflowWalk, node: Call, number: int) -> None:
    """Let what is behind a call wait for it, since it may fail."""
    at = w.places.caught.get(node.at, -1)
    w.end_by(number, at, fails=at < 0)
    w.end_rounds(number, at)


_LEFT_OPEN = {
    HoldKind.ALL: "barrier: nobody knows yet what {} will do",
    HoldKind.BUDGETS: "barrier: nobody knows yet what {} will do",
    HoldKind.ROUNDS: "barrier: nobody knows yet what {} will do",
    HoldKind.SENDS: "the budget left for it is decided in {}",
    HoldKind.PROCESSES: "the messages before it are decided in {}",
    HoldKind.READS: "what it reads is decided in {}",
}


def hold_processes(w: DataflowWalk, node: Node, values: Sequence[Provenance]) -> None:
    """Hold up sends to processes that remember until it is known which process is asked: it may
    be any of them."""
    needs = {need.step for value in values for need in value.needs if need.round_of is None}
    text = f"may be the process that line {w.line(node)} asks"
    w.hold(HoldKind.PROCESSES, sum(1 << one for one in needs), text)


def _hold_undecided(w: DataflowWalk, node: Call, name: str, values: Sequence[Provenance]) -> None:
    """Hold up all behind a call that cannot be stepped over while it branches on what is not known
    yet."""
    needs = {need.step for need in _tested(w, node, name, values) if need.round_of is None}
    mask = sum(1 << one for one in needs)
    w.hold(HoldKind.ALL, mask, _LEFT_OPEN[HoldKind.ALL].format(name.rpartition("::")[2]))


def _tested(
    w: DataflowWalk, node: Call, name: str, values: Sequence[Provenance]
) -> list[Dependency]:
    """Return what the arguments need on which the function branches."""
    _, decl = w.facts.bodies[name]
    tested = w.facts.tested.get(name)
    if tested is None:
        tested = w.facts.tested[name] = _tested_names(w, name)
    params = [param.name for param in decl.params]
    given = zip((said or params[at] for at, said in enumerate(node.names)), values, strict=True)
    return [need for param, one in given if param in tested for need in one.needs]


def _tested_names(w: DataflowWalk, name: str) -> frozenset[str]:
    """Return the variables on which the branches of a function depend, through others too, and
    what it gives to functions that may fail."""
    unit, decl = w.facts.bodies[name]
    places, tests = w.facts.places[unit.path], list[Node]()
    assigned: dict[str, list[Node]] = {}
    for one in below(decl.body):
        match one:
            case If(test=test) | While(test=test) if not places.is_handled(one.at, decl.body):
                tests.append(test)
            case For(names=names, over=over):
                tests += [] if places.is_handled(one.at, decl.body) else [over]
                for each in names:
                    assigned.setdefault(each, []).append(over)
            case Let(name=target, value=value):
                assigned.setdefault(target, []).append(value)
            case Assign(target=target, value=value):
                assigned.setdefault(root_of(target).name, []).append(value)
            case Call(at=at, args=args) if at in places.calls:
                tests += args
            case Cast(of=of) if is_literal(w.facts.checked.types.get(id(one))):
                tests.append(of)
            case _:
                pass
    return _read_through(tests, assigned)


def _read_through(nodes: list[Node], assigned: Mapping[str, Sequence[Node]]) -> frozenset[str]:
    """Return the variables that are read in the nodes, and in what is assigned to these."""
    found = set[str]()
    due = nodes.copy()
    while due:
        for one in below(due.pop()):
            if isinstance(one, Name) and one.name not in found:
                found.add(one.name)
                due += assigned.get(one.name, ())
    return frozenset(found)


def _act(w: DataflowWalk, node: Call, callee: Callee, values: Sequence[Provenance]) -> StepAction:
    match callee.kind:
        case CalleeKind.LIBRARY:
            effects = library_effects(callee.name, w.facts.rights[w.name])
            if callee.name not in FILE_FUNCTIONS:
                return library_action(callee.name, effects)
            path = _written_path(callee.name, node)
            return replace(library_action(callee.name, on_path(effects, path)), path=path)
        case CalleeKind.MCP:
            return _strong(EffectSet(servers=frozenset({callee.name.partition(".")[0]})))
        case CalleeKind.PYTHON:
            return _strong(EffectSet(unknown=frozenset({callee.name})))
        case CalleeKind.NODE:
            # It touches nothing, but is called as tools are: nothing is begun ahead of it.
            return StepAction(order="in order: it is a call of a node")
        case CalleeKind.TOOL | CalleeKind.FUNCTION | CalleeKind.RECORD:
            return _of_function(w, node, callee.name, values)


_BARRIER = "{}, which pauses, asks a person or looks at the budget,"


def _written_path(name: str, node: Call) -> str:
    """Return the path that a file function is given, if it stands there as plain text."""
    if node.args and node.names[0] in ("", "path") and isinstance(node.args[0], Text):
        parts = node.args[0].parts
        return file_path(name, parts[0]) if len(parts) == 1 else ""
    return ""


def _strong(effects: EffectSet) -> StepAction:
    return StepAction(effects, f"in order: it {told_changes(effects)}")


def _of_function(
    w: DataflowWalk, node: Call, name: str, values: Sequence[Provenance]
) -> StepAction:
    """Return what a call does, as its own graph says: kept in order if something in it is, a
    barrier if one is in it."""
    facts, short = w.facts, name.rpartition("::")[2]
    effects, rules, number = facts.effects(name), facts.rules, facts.numbers[name]
    order = f"in order: it {told_changes(effects)}" if changes(effects) else ""
    if effects.asks_people:
        order = order or "in order: it asks a person"
    known = StepAction(
        effects,
        barrier=_BARRIER.format(short) if number in rules.stops else "",
        carves=number in rules.carves,
        uncounted=number in rules.uncounted,
        bars=number in rules.bars,
        unnamed=number in rules.unnamed,
    )
    if name in facts.flows and facts.flows[name] is None:
        return replace(known, order=order or f"in order: {short} calls itself")
    graph = facts.graph_of(name)
    agents, handles = _processes(w, node, graph, values)
    if _has_budget(w, name):
        order = order or f"in order: {short} has a budget"
    order = order or _kept(graph)
    return replace(known, order=order, agents=agents, handles=handles)


def _has_budget(w: DataflowWalk, name: str) -> bool:
    _, decl = w.facts.bodies[name]
    return isinstance(decl, FnDecl) and decl.budget is not None


def _kept(graph: DataflowGraph) -> str:
    """Return why the first step is kept in order on which the answer may depend."""
    for step in graph.steps:
        if step.order and step.kind is not StepKind.PRINT and not step.what.startswith("trace::"):
            _, _, why = step.order.partition(": ")
            return f"in order: {why} (line {step.line})"
    return ""


def _processes(
    w: DataflowWalk, node: Call, graph: DataflowGraph, values: Sequence[Provenance]
) -> tuple[frozenset[str], frozenset[int] | None]:
    """Return which agents that remember the call may ask through the processes that are handed to
    it, and which these are."""
    agents = _agents_given(w, node)
    given = [value.handles for value, names in zip(values, agents, strict=True) if names]
    if not given or not any(step.kind is StepKind.SEND for step in graph.steps):
        return frozenset(), None
    handles = frozenset[int]().union(*(one or () for one in given))
    named = frozenset[str]().union(*agents)
    wise = frozenset(name for name in named if w.facts.specs[name].memory)
    return wise, None if None in given else handles


def _agents_given(w: DataflowWalk, node: Call) -> list[frozenset[str]]:
    """Return for each argument of a call the agents whose processes it may hold."""
    types = w.facts.checked.types
    return [_agents_in(types.get(id(arg)), w.facts.specs) for arg in node.args]


def _agents_in(kind: Type | None, specs: Collection[str]) -> frozenset[str]:
    """Return the agents whose processes a value of this type may hold."""
    match kind:
        case ProcessOf(agent=agent):
            return frozenset({agent} if agent in specs else specs)
        case OptionalOf(inner=inner) | ListOf(inner=inner) | MapOf(inner=inner):
            return _agents_in(inner, specs)
        case RecordOf(fields=fields):
            return frozenset[str]().union(*(_agents_in(inner, specs) for _, inner in fields))
        case _:
            return frozenset()
