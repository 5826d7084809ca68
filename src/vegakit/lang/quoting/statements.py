"""Statements, walked."""

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

from vegakit.lang.quoting.expressions import evaluate
from vegakit.lang.quoting.looping import loop
from vegakit.lang.quoting.sizes import exactly, number, total
from vegakit.lang.quoting.spending import NONE, capped, dearer, moved, times
from vegakit.lang.quoting.values import Value, either, of_type
from vegakit.lang.quoting.walking import Walk, as_amount
from vegakit.lang.tree import (
    Assign,
    Block,
    Break,
    Catch,
    Continue,
    ExprStmt,
    For,
    If,
    Index,
    Let,
    Monitor,
    Name,
    Parallel,
    Return,
    Session,
    Stmt,
    Try,
    While,
    root_of,
)
from vegakit.lang.types import INT, STR, ListOf, MapOf, Type

__all__ = ["statement"]

_LOOSE = ("warn", "allow")


def statement(w: Walk, node: Stmt) -> None:
    w.facts.count()
    _RULES[type(node)](w, node)


def _let(w: Walk, node: Let) -> None:
    kind = w.facts.type(node)
    w.scopes.declare(node.name, evaluate(w, node.value), kind)


def _assign(w: Walk, node: Assign) -> None:
    value = evaluate(w, node.value)
    target, root = node.target, root_of(node.target)
    found = w.scopes.find(root.name)
    if found is None:
        return
    depth, variable = found
    if isinstance(target, Index):
        evaluate(w, target.index)
    if isinstance(target, Name):
        w.scopes.put(depth, root.name, value)
    elif isinstance(target, Index) and isinstance(target.of, Name):
        w.scopes.put(depth, root.name, _with_item(variable.value, variable.type, value))
    else:
        w.scopes.put(depth, root.name, of_type(variable.type))


def _with_item(of: Value, kind: Type, item: Value) -> Value:
    """A list keeps its length, a map may have one entry more."""
    inner = None if of.item is None else either(of.item, item)
    size = of.size if isinstance(kind, ListOf) else total(of.size, exactly(1))
    return Value(size, inner)


def _expression(w: Walk, node: ExprStmt) -> None:
    evaluate(w, node.value)


def _return(w: Walk, node: Return) -> None:
    if node.value is not None:
        w.returned.append(evaluate(w, node.value))


def _leave(w: Walk, node: Break | Continue) -> None:
    """What was assigned until here is seen by the watch of the loop."""


def _if(w: Walk, node: If) -> None:
    evaluate(w, node.test)
    other = node.other
    ways = [partial(w.block, node.then), partial(w.block, other) if other else _nothing]
    then, otherwise = w.branches(*ways)
    w.spend(dearer(then, otherwise))


def _nothing() -> None:
    pass


def _while(w: Walk, node: While) -> None:
    """Its test is asked once more than it has rounds."""
    limit = None if node.limit is None else number(evaluate(w, node.limit).size)
    tests = None if limit is None else max(limit, 0) + 1
    place = w.place(node, "this loop has no limit")

    def body() -> None:
        with w.apart():
            evaluate(w, node.test)
        w.block(node.body)

    spent = loop(w, node, body, limit)
    with w.apart() as tested:
        evaluate(w, node.test)
    w.spend(times(spent, as_amount(limit), place))
    w.spend(times(tested[0], as_amount(tests), place))


def _for(w: Walk, node: For) -> None:
    over = evaluate(w, node.over)
    kind = w.facts.type(node.over)
    rounds = number(over.size)
    place = w.place(node, "how often this loop runs has no bound")

    def body() -> None:
        with w.scopes.block():
            for name, value, each in _walked(node, over, kind):
                w.scopes.declare(name, value, each)
            w.block(node.body)

    spent = loop(w, node, body, rounds)
    w.spend(times(spent, as_amount(rounds), place))


def _walked(node: For, over: Value, kind: Type) -> list[tuple[str, Value, Type]]:
    *first, last = node.names
    match kind:
        case ListOf(inner=inner):
            key, item = INT, (last, over.item or of_type(inner), inner)
        case MapOf(inner=inner) if first:
            key, item = STR, (last, over.item or of_type(inner), inner)
        case _:
            key, item = STR, (last, of_type(STR), STR)
    return [*((name, of_type(key), key) for name in first), item]


def _guarded(w: Walk, body: Callable[[], None], catches: Sequence[Catch], cap: int | None) -> None:
    """A handler runs when the body has run in part, outside the budget of the body."""
    before = w.scopes.copy()
    with w.scopes.watch() as seen, w.apart() as spent:
        body()
    w.spend(capped(spent[0], cap))
    if catches:
        w.scopes.join(before, seen)
        ways = [partial(_handler, w, catch) for catch in catches]
        w.spend(reduce(dearer, w.branches(*ways, _nothing), NONE))


def _handler(w: Walk, catch: Catch) -> None:
    with w.scopes.block():
        if catch.reason:
            w.scopes.declare(catch.reason, of_type(STR), STR)
        w.block(catch.body)


def _try(w: Walk, node: Try) -> None:
    _guarded(w, partial(w.block, node.body), node.catches, None)


def _session(w: Walk, node: Session) -> None:
    cap = number(evaluate(w, node.budget).size)
    for setting in node.settings:
        if setting.name == "on_exceed" and getattr(setting.value, "name", "") in _LOOSE:
            cap = None
    _guarded(w, partial(w.block, node.body), node.catches, cap)


def _parallel(w: Walk, node: Parallel) -> None:
    _guarded(w, partial(w.all, node.body.body), node.catches, None)


def _monitor(w: Walk, node: Monitor) -> None:
    """Its body runs once, perhaps when the sessions around it are over."""
    evaluate(w, node.of)
    before = w.scopes.copy()
    with w.scopes.watch() as seen, w.apart() as spent, w.scopes.block():
        w.scopes.declare(node.reason, of_type(STR), STR)
        w.block(node.body)
    w.scopes.join(before, seen)
    w.spend(moved(spent[0], "tools"))


_RULES: dict[type, Callable[[Walk, Any], None]] = {
    Let: _let,
    Assign: _assign,
    ExprStmt: _expression,
    Return: _return,
    Break: _leave,
    Continue: _leave,
    If: _if,
    While: _while,
    For: _for,
    Try: _try,
    Session: _session,
    Parallel: _parallel,
    Monitor: _monitor,
    Block: Walk.block,
}
