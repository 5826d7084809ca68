"""Calls of functions, and sends with what the tools of the agent may spend meanwhile."""

from math import inf

from msgspec.structs import replace

from vegakit.lang.quoting.sends import MAX_TOOL_CALLS, SendCost, Sending, cost_of, part_of
from vegakit.lang.quoting.sizes import number
from vegakit.lang.quoting.spending import (
    NONE,
    Gap,
    Place,
    Pot,
    Share,
    Spend,
    capped,
    dearer,
    moved,
    plus,
    times,
)
from vegakit.lang.quoting.values import Value, either, of_type, within
from vegakit.lang.quoting.walking import Walk
from vegakit.lang.tree import Ask, Expr, FnDecl, MoneyLit
from vegakit.lang.types import NOTHING, Type

__all__ = ["call_function", "send_to"]


def call_function(w: Walk, name: str, given: tuple[Value, ...]) -> tuple[Spend, Value]:
    """For one that calls itself nothing is added here: the call around it has no bound then."""
    facts = w.facts
    if name in facts.running:
        facts.recursive.add(name)
        return NONE, _result(w, name)
    known = facts.known.get((name, given))
    if known is None:
        facts.running.append(name)
        known = _walked(w, name, given)
        facts.running.pop()
        if not facts.recursive & set(facts.running):
            facts.known[name, given] = known
    return known


def _result(w: Walk, name: str) -> Value:
    _, decl = w.facts.bodies[name]
    return of_type(NOTHING if decl.result is None else w.facts.type(decl.result))


def _walked(w: Walk, name: str, given: tuple[Value, ...]) -> tuple[Spend, Value]:
    from vegakit.lang.quoting.expressions import evaluate

    facts = w.facts
    unit, decl = facts.bodies[name]
    inner = Walk(facts, unit)
    for param, value in zip(decl.params, given, strict=True):
        kind = facts.type(param)
        inner.scopes.declare(param.name, within(value, kind), kind)
    cap = None
    if isinstance(decl, FnDecl) and decl.budget is not None:
        cap = number(evaluate(inner, decl.budget).size)
    inner.block(decl.body)
    spent = inner.spent
    if name in facts.recursive:
        facts.recursive.discard(name)
        spent = times(spent, inf, inner.place(decl, f"{decl.name} calls itself"))
    return capped(spent, cap), _joined(inner.returned, _result(w, name))


def _joined(values: list[Value], typed: Value) -> Value:
    if not values:
        return typed
    value = values[0]
    for other in values[1:]:
        value = either(value, other)
    return value


def send_to(
    w: Walk,
    node: Ask,
    size: int | None,
    answer: Type,
    budget: tuple[Expr, Value] | None,
    agents: list[str],
    is_process: bool,
) -> None:
    most = NONE
    for name in agents:
        spec = w.facts.agents[name]
        kept = None if is_process and spec.memory else size
        sending = Sending(spec, answer, kept, _part(part_of(spec), budget))
        pot: Pot = "inside"
        if is_process and not w.facts.handles_in_sessions:
            pot = "handles" if len(agents) == 1 else "tools"
        place = w.place(node, f"{name} <{'~' if node.stream else '-'}")
        one = _of_calls(cost_of(sending, w.facts.terms), place, pot)
        tools = moved(_tools(w, name), "handles" if pot == "handles" else "tools")
        most = dearer(most, plus(one, tools))
    w.spend(most)


def _part(declared: int | None, budget: tuple[Expr, Value] | None) -> int | None:
    """That of this send, or else the agent's; None where nobody knows it."""
    if budget is None:
        return declared
    node, value = budget
    return node.nanos if isinstance(node, MoneyLit) else number(value.size)


def _of_calls(cost: SendCost, place: Place, pot: Pot) -> Spend:
    share = (
        Share(cost.calls, cost.worst, 0) if pot == "inside" else Share(cost.calls, 0, cost.worst)
    )
    gaps = (Gap(replace(place, what=cost.why), pot),) if cost.worst == inf else ()
    spend = Spend(calls=cost.calls, shares={place: share}, gaps=gaps)
    return replace(spend, **{pot: cost.worst})


def _tools(w: Walk, agent: str) -> Spend:
    """Every round may call the dearest of them."""
    most = NONE
    for name in w.facts.agents[agent].tools:
        found = w.facts.bodies.get(name)
        if found is not None:
            _, decl = found
            given = tuple(of_type(w.facts.type(param)) for param in decl.params)
            spent, _ = call_function(w, name, given)
            most = dearer(most, spent)
    return most if most == NONE else times(most, MAX_TOOL_CALLS, Place("", 0, ""))
