"""Calls of functions, and sends with what the tools of the agent may spend meanwhile."""

from math import inf

from msgspec import Struct
from msgspec.structs import replace

from vegakit.conversation import ToolSpec
from vegakit.lang.compiling.pools import literal
from vegakit.lang.quoting.sends import MAX_TOOL_CALLS, SendCost, Sending, cost_of, part_of
from vegakit.lang.quoting.sizes import Size, number
from vegakit.lang.quoting.spending import (
    APART,
    INSIDE,
    NONE,
    Gap,
    Place,
    Share,
    Spend,
    capped,
    dearer,
    plus,
    times,
)
from vegakit.lang.quoting.values import Spawned, Value, either, of_type, within
from vegakit.lang.quoting.walking import Called, Noted, Walk
from vegakit.lang.schemas import schema_of
from vegakit.lang.tree import Ask, Expr, FnDecl, MoneyLit, ToolDecl
from vegakit.lang.types import NOTHING, RecordOf, Type
from vegakit.prices import DEFAULT_PART

__all__ = ["Asked", "call_function", "send_to"]


class Asked(Struct, frozen=True):
    """A send in the source, with what is known of its message and budget."""

    node: Ask
    bytes: Size | None
    least: int
    answer: Type
    budget: tuple[Expr, Value] | None

    @property
    def size(self) -> int | None:
        return number(self.bytes)


def call_function(w: Walk, name: str, given: tuple[Value, ...]) -> Called:
    """For one that calls itself nothing is added here: the call around it has no bound then."""
    facts = w.facts
    if name in facts.running:
        facts.recursive.add(name)
        return Called(NONE, _result(w, name), raises=True)
    known = facts.known.get((name, given, w.cap, w.may_lack))
    if known is None:
        facts.running.append(name)
        known = _walked(w, name, given)
        facts.running.pop()
        if not facts.recursive & set(facts.running):
            facts.known[name, given, w.cap, w.may_lack] = known
    return known


def _result(w: Walk, name: str) -> Value:
    _, decl = w.facts.bodies[name]
    return of_type(NOTHING if decl.result is None else w.facts.type(decl.result))


def _walked(w: Walk, name: str, given: tuple[Value, ...]) -> Called:
    from vegakit.lang.quoting.expressions import evaluate

    facts = w.facts
    unit, decl = facts.bodies[name]
    inner = Walk(facts, unit, w.cap, may_lack=w.may_lack)
    for param, value in zip(decl.params, given, strict=True):
        kind = facts.type(param)
        inner.scopes.declare(param.name, within(value, kind), kind)
    cap = None
    if isinstance(decl, FnDecl) and decl.budget is not None:
        cap = number(evaluate(inner, decl.budget).size)
        inner.raises |= w.may_lack
        if isinstance(decl.budget, MoneyLit) and w.cap is not None and decl.budget.nanos > w.cap:
            return Called(NONE, _result(w, name), raises=True)
    inner.scope(cap, lambda: inner.block(decl.body))
    spent = inner.spent
    if name in facts.recursive:
        facts.recursive.discard(name)
        inner.raises = True
        spent = times(spent, inf, inner.place(decl, f"{decl.name} calls itself"))
    value = _joined(inner.returned, _result(w, name))
    return Called(capped(spent, cap), value, inner.raises)


def _joined(values: list[Value], typed: Value) -> Value:
    if not values:
        return typed
    value = values[0]
    for other in values[1:]:
        value = either(value, other)
    return value


def send_to(
    w: Walk, asked: Asked, agents: list[str], is_process: bool, spawned: Spawned | None
) -> None:
    pot = _payer(w, is_process, spawned)
    most = NONE
    for name in agents:
        spec, cap = w.facts.agents[name], w.cap
        if pot != INSIDE:
            cap = None if spawned is None else spawned.wallet
        part = _part(part_of(spec), asked.budget)
        tools = _tools(w, name, _least(part or DEFAULT_PART, cap))
        size = None if is_process and spec.memory else asked.size
        sending = Sending(
            spec, asked.answer, size, asked.least, part, _specs(w, name), tools.as_pot
        )
        cost, what = cost_of(sending, w.facts.terms, cap), _told(w, name, asked)
        if w.facts.notes is not None and cost.calls:
            size = None if is_process and spec.memory else asked.bytes
            w.facts.notes[what] = Noted(name, cost.calls, size, asked.answer, part)
        one = _of_calls(cost, w.place(asked.node, what), pot)
        most = dearer(most, _with_tools(one, tools))
    w.spend(most)


def _told(w: Walk, name: str, asked: Asked) -> str:
    """Where sends are noted, each by a name of its own."""
    if w.facts.notes is not None:
        return f"{name}@{w.unit.path}@{asked.node.at}"
    return f"{name} <{'~' if asked.node.stream else '-'}"


def _payer(w: Walk, is_process: bool, spawned: Spawned | None) -> str:
    """A process that has no wallet spends as whoever spawned it, in the session of the send."""
    if not is_process or w.facts.handles_in_sessions:
        return INSIDE
    if spawned is None:
        return APART
    return INSIDE if spawned.wallet is None else spawned.site


def _least(*caps: int | None) -> int | None:
    return min((cap for cap in caps if cap is not None), default=None)


def _part(declared: int | None, budget: tuple[Expr, Value] | None) -> int | None:
    """That of this send, or else the agent's; None where nobody knows it."""
    if budget is None:
        return declared
    node, value = budget
    return node.nanos if isinstance(node, MoneyLit) else number(value.size)


def _of_calls(cost: SendCost, place: Place, pot: str) -> Spend:
    amount = cost.pot.amount
    share = Share(cost.calls, amount, 0) if pot == INSIDE else Share(cost.calls, 0, amount)
    gaps = (Gap(replace(place, what=cost.why), pot),) if amount == inf else ()
    shares = {place: share}
    spend = Spend(calls=cost.calls, shares=shares, gaps=gaps, most=amount, asked=cost.held)
    match pot:
        case "inside":
            return replace(spend, inside=cost.pot)
        case "apart":
            return replace(spend, apart=amount)
        case _:
            return replace(spend, handles={pot: cost.pot})


def _with_tools(one: Spend, tools: Spend) -> Spend:
    """What tools spend is of the part of the send, and so in its cost already; what their monitors
    do is not."""
    return plus(
        one,
        Spend(
            calls=tools.calls,
            apart=tools.apart,
            processes=tools.processes,
            most=tools.apart,
            shares=tools.shares,
            gaps=tools.gaps,
        ),
    )


def _specs(w: Walk, agent: str) -> tuple[ToolSpec, ...] | None:
    spec = w.facts.agents[agent]
    found = [w.facts.bodies.get(name) for name in spec.tools]
    if spec.mcp or spec.yaml or None in found:
        return None
    return tuple(_spec(w, body[1]) for body in found if body is not None)


def _spec(w: Walk, decl: FnDecl | ToolDecl) -> ToolSpec:
    params = tuple((param.name, w.facts.type(param)) for param in decl.params)
    said = literal(decl.description) if isinstance(decl, ToolDecl) else ""
    return ToolSpec(decl.name, said, schema_of(RecordOf(decl.name, params)))


def _tools(w: Walk, agent: str, part: int | None) -> Spend:
    """Every round may call the dearest of them; after the last step none is called. Where sends
    are noted, those of tools are paid by the part of the send."""
    most, spec = NONE, w.facts.agents[agent]
    if spec.max_steps == 1 or w.facts.notes is not None:
        return NONE
    for name in spec.tools:
        found = w.facts.bodies.get(name)
        if found is not None:
            _, decl = found
            given = tuple(of_type(w.facts.type(param)) for param in decl.params)
            within_part = Walk(w.facts, w.unit, part, may_lack=True)
            most = dearer(most, call_function(within_part, name, given).spent)
    return most if most == NONE else times(most, MAX_TOOL_CALLS, Place("", 0, ""))
