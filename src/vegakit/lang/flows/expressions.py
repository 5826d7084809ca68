"""Expressions, walked: which steps they make, and which steps their value comes from."""

from collections.abc import Callable
from functools import reduce
from typing import Any

from msgspec.structs import replace

from vegakit.lang.checked import NameKind
from vegakit.lang.flows.acts import Act, ask_act
from vegakit.lang.flows.calling import call
from vegakit.lang.flows.looping import rounds
from vegakit.lang.flows.records import StepKind
from vegakit.lang.flows.values import NOTHING_NEEDED, Need, Value, both, needing
from vegakit.lang.flows.walking import Walk
from vegakit.lang.rows import NOTHING_TOUCHED, joined
from vegakit.lang.tree import (
    Ask,
    Await,
    Binary,
    Build,
    Call,
    Cast,
    Expr,
    Index,
    ListLit,
    MapLit,
    Member,
    Name,
    Node,
    Spawn,
    Text,
    Unary,
)
from vegakit.lang.types import ProcessOf

__all__ = ["evaluate", "evaluate_all", "item_of", "length_of"]


def evaluate(w: Walk, node: Expr) -> Value:
    w.facts.count()
    rule = _RULES.get(type(node))
    return NOTHING_NEEDED if rule is None else rule(w, node)


def evaluate_all(w: Walk, *nodes: Expr | None) -> list[Value]:
    return [evaluate(w, node) for node in nodes if node is not None]


def _name(w: Walk, node: Name) -> Value:
    return w.scopes.find(node.name).read_from(node.name)


def _text(w: Walk, node: Text) -> Value:
    return _made_of(w, *(part for part in node.parts if not isinstance(part, str)))


def _made_of(w: Walk, *nodes: Expr | None) -> Value:
    return both(*evaluate_all(w, *nodes))


def _list(w: Walk, node: ListLit) -> Value:
    return _made_of(w, *node.items)


def _map(w: Walk, node: MapLit) -> Value:
    return _made_of(w, *(each for pair in node.pairs for each in (pair.key, pair.value)))


def _unary(w: Walk, node: Unary) -> Value:
    return _made_of(w, node.of)


def _member(w: Walk, node: Member) -> Value:
    return _made_of(w, node.of)


def _index(w: Walk, node: Index) -> Value:
    return _made_of(w, node.of, node.index)


def _cast(w: Walk, node: Cast) -> Value:
    return evaluate(w, node.of)


def _await(w: Walk, node: Await) -> Value:
    """Here the program waits for what it began."""
    value = evaluate(w, node.of).awaited()
    due = sum({1 << need.step for need in value.needs if need.round_of is None})
    w.to(passed=w.here.passed | due & w.here.seen)
    return value


_SHORT = {"and", "or", "??"}


def _binary(w: Walk, node: Binary) -> Value:
    left = evaluate(w, node.left)
    if node.op not in _SHORT or not w.places.acts_in(node.right):
        return both(left, evaluate(w, node.right))
    number = w.note(node, StepKind.BRANCH, f"{node.op} …", Act(), left)
    before, decides = w.here, w.decides(number)
    with w.inside(number, decided=decides):
        right = evaluate(w, node.right)
    w.to(passed=w.here.passed | before.passed)
    return both(left, right, *_decision(w, number))


def _build(w: Walk, node: Build) -> Value:
    over = evaluate(w, node.over)
    if not w.places.acts_in(node.item, node.where):
        with w.scopes.block():
            w.scopes.declare(node.name, over)
            return both(over, *evaluate_all(w, node.where, node.item))
    what = f"for {node.name} in {w.text(node.over.at, node.over.end)}"
    loop = w.note(node, StepKind.LOOP, what, Act(), *length_of(node.over, over))
    made: list[Value] = []

    def body() -> None:
        with w.inside(loop, decided=w.decides(loop)), w.scopes.block():
            w.scopes.declare(node.name, item_of(w, loop, node.over, over))
            made.append(_item(w, node))

    rounds(w, loop, node, body)
    return both(*_decision(w, loop), *(one.after(loop) for one in made))


def length_of(node: Expr, over: Value) -> list[Value]:
    """What has to be known for a loop to begin: of a list as written nothing."""
    return [] if isinstance(node, ListLit) else [over]


def item_of(w: Walk, loop: int, node: Expr, over: Value) -> Value:
    """What a loop goes through is there when the loop is decided, or comes from the list as
    written."""
    item = both(*_decision(w, loop), *([over] if isinstance(node, ListLit) else ()))
    return Value(item.needs, over.later, frozenset({~loop}))


def _decision(w: Walk, number: int) -> list[Value]:
    return [needing(number)] if w.decides(number) else []


def _item(w: Walk, node: Build) -> Value:
    if node.where is None:
        return evaluate(w, node.item)
    where = evaluate(w, node.where)
    if not w.places.acts_in(node.item):
        return both(where, evaluate(w, node.item))
    what = f"if {w.text(node.where.at, node.where.end)}"
    number = w.note(node.where, StepKind.BRANCH, what, Act(), where)
    with w.inside(number, decided=w.decides(number)):
        return both(where, evaluate(w, node.item), *_decision(w, number))


def _ask(w: Walk, node: Ask) -> Value:
    to, agents = _whom(w, node)
    values = evaluate_all(w, node.message, node.timeout, node.budget)
    row = reduce(joined, (w.facts.row(f"agent {name}") for name in agents), NOTHING_TOUCHED)
    asked = [] if to is None else [w.facts.agents.specs[name] for name in agents]
    act = ask_act(asked, row, to and to.handles, w.facts.agents)
    act = replace(act, later=node.later)
    what = w.text(node.at, node.end)
    number = w.note(node, StepKind.SEND, what, act, *values, *([] if to is None else [to]))
    answer = needing(number)
    return Value(_operands(values), answer.needs) if node.later else answer


def _operands(values: list[Value]) -> frozenset[Need]:
    """A future is there when it is known what is sent."""
    return both(*values).nameless().needs


def _whom(w: Walk, node: Ask) -> tuple[Value | None, list[str]]:
    """The process, if it is one, and the agents it may be."""
    checked = w.facts.checked
    if isinstance(node.to, Name) and checked.names.get(id(node.to)) is NameKind.AGENT:
        return None, [checked.full_names[id(node.to)]]
    to, kind = evaluate(w, node.to), checked.types.get(id(node.to))
    if isinstance(kind, ProcessOf) and kind.agent in w.facts.agents.specs:
        return to, [kind.agent]
    return to, [*w.facts.agents.specs]


def _spawn(w: Walk, node: Spawn) -> Value:
    values = evaluate_all(w, node.wallet, node.named, node.under)
    act = Act(order="in order: it spawns", lasts=False)
    number = w.note(node, StepKind.SPAWN, w.text(node.at, node.end), act, *values)
    return Value(needing(number).needs, handles=frozenset({number}))


def _call(w: Walk, node: Call) -> Value:
    return call(w, node, evaluate_all(w, *node.args))


_RULES: dict[type[Node], Callable[[Walk, Any], Value]] = {
    Text: _text,
    Name: _name,
    ListLit: _list,
    MapLit: _map,
    Build: _build,
    Unary: _unary,
    Binary: _binary,
    Member: _member,
    Index: _index,
    Call: _call,
    Ask: _ask,
    Spawn: _spawn,
    Await: _await,
    Cast: _cast,
}
