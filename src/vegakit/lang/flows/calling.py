"""Calls: of the library, of tools and servers, and of the program's own functions."""

from collections.abc import Sequence

from vegakit.lang.checked import Callee, CalleeKind
from vegakit.lang.flows.acts import Act, is_strong, library_act, strong_words
from vegakit.lang.flows.looking import is_act
from vegakit.lang.flows.records import Flow, StepKind
from vegakit.lang.flows.values import Value, both, needing
from vegakit.lang.flows.walking import Walk
from vegakit.lang.rows import Effects
from vegakit.lang.rows.program import library_row
from vegakit.lang.tree import Call, FnDecl
from vegakit.lang.types import ListOf, MapOf, OptionalOf, ProcessOf, RecordOf, Type

__all__ = ["call"]

_KINDS = {
    CalleeKind.FUNCTION: StepKind.FUNCTION,
    CalleeKind.TOOL: StepKind.TOOL,
    CalleeKind.MCP: StepKind.TOOL,
    CalleeKind.PYTHON: StepKind.TOOL,
    CalleeKind.LIBRARY: StepKind.CALL,
}


def call(w: Walk, node: Call, values: Sequence[Value]) -> Value:
    callee = w.facts.checked.callees.get(id(node))
    if callee is None or not is_act(callee, w.facts.doing):
        return both(*values)
    kind = StepKind.PRINT if callee.name == "print" else _KINDS[callee.kind]
    number = w.note(node, kind, w.text(node.at, node.end), _act(w, node, callee, values), *values)
    return needing(number)


def _act(w: Walk, node: Call, callee: Callee, values: Sequence[Value]) -> Act:
    match callee.kind:
        case CalleeKind.LIBRARY:
            return library_act(callee.name, library_row(callee.name, w.facts.rights[w.name]))
        case CalleeKind.MCP:
            return _strong(Effects(servers=frozenset({callee.name.partition(".")[0]})))
        case CalleeKind.PYTHON:
            return _strong(Effects(unknown=frozenset({callee.name})))
        case CalleeKind.TOOL:
            return _of_code(w, callee.name)
        case CalleeKind.FUNCTION | CalleeKind.RECORD:
            return _of_function(w, node, callee.name, values)


def _strong(row: Effects) -> Act:
    return Act(row, f"in order: it {strong_words(row)}")


def _of_code(w: Walk, name: str) -> Act:
    """Of a tool or function that is not looked into."""
    row = w.facts.row(name)
    if is_strong(row):
        return _strong(row)
    return Act(row, "in order: it asks a person" if row.asks_people else "")


def _of_function(w: Walk, node: Call, name: str, values: Sequence[Value]) -> Act:
    """As its own flow is: kept in order if something in it is, a barrier if one is in it."""
    from vegakit.lang.flows.program import walk_function

    act, short = _of_code(w, name), name.rpartition("::")[2]
    if name in w.facts.flows and w.facts.flows[name] is None:
        return Act(act.row, act.order or f"in order: {short} calls itself")
    flow = walk_function(w.facts, name)
    agents, handles = _processes(w, node, flow, values)
    order = act.order or _budget(w, name, short) or _kept(flow)
    return Act(act.row, order, agents=agents, handles=handles, barrier=_barrier(w, name, short))


def _budget(w: Walk, name: str, short: str) -> str:
    _, decl = w.facts.bodies[name]
    has_budget = isinstance(decl, FnDecl) and decl.budget is not None
    return f"in order: {short} has a budget" if has_budget else ""


def _kept(flow: Flow) -> str:
    for step in flow.steps:
        if step.order and step.lasts:
            _, _, why = step.order.partition(": ")
            return f"in order: {why} (line {step.line})"
    return ""


def _barrier(w: Walk, name: str, short: str) -> str:
    return f"{short}, which pauses or looks at the budget," if name in w.facts.barred else ""


def _processes(
    w: Walk, node: Call, flow: Flow, values: Sequence[Value]
) -> tuple[frozenset[str], frozenset[int] | None]:
    """The processes that are handed to it, if it asks any."""
    types = w.facts.checked.types
    given = [
        value
        for arg, value in zip(node.args, values, strict=True)
        if _holds_process(types.get(id(arg)))
    ]
    if not given or not any(step.kind is StepKind.SEND for step in flow.steps):
        return frozenset(), None
    known = [value.handles for value in given]
    handles = frozenset[int]().union(*(one or () for one in known))
    wise = frozenset(spec.name for spec in w.facts.agents.specs.values() if spec.memory)
    return wise, None if None in known else handles


def _holds_process(kind: Type | None) -> bool:
    match kind:
        case ProcessOf():
            return True
        case OptionalOf(inner=inner) | ListOf(inner=inner) | MapOf(inner=inner):
            return _holds_process(inner)
        case RecordOf(fields=fields):
            return any(_holds_process(inner) for _, inner in fields)
        case _:
            return False
