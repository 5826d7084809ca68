"""Statements, walked."""

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

from vegakit.lang.library import ENDS
from vegakit.lang.quoting.expressions import evaluate
from vegakit.lang.quoting.looping import loop
from vegakit.lang.quoting.sizes import exactly, number, total
from vegakit.lang.quoting.spending import NONE, capped, dearer, moved
from vegakit.lang.quoting.values import Value, as_symbol, either, of_type
from vegakit.lang.quoting.walking import Walk
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
    MoneyLit,
    Monitor,
    Name,
    Parallel,
    Return,
    Session,
    Stmt,
    Try,
    While,
    Word,
    root_of,
)
from vegakit.lang.types import INT, STR, ListOf, MapOf, Type

__all__ = ["statement"]

_LOOSE = ("warn", "allow")


def statement(w: Walk, node: Stmt) -> None:
    if not w.over:
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
    callee = w.facts.checked.callees.get(id(node.value))
    w.over = callee is not None and callee.name in ENDS


def _return(w: Walk, node: Return) -> None:
    if node.value is not None:
        w.returned.append(evaluate(w, node.value))
    w.over = True


def _leave(w: Walk, node: Break | Continue) -> None:
    left = w.left[-1]
    (left.by_break if isinstance(node, Break) else left.by_continue).append(w.scopes.copy())
    w.over = True


def _if(w: Walk, node: If) -> None:
    evaluate(w, node.test)
    other = node.other
    ways = [partial(w.block, node.then), partial(w.block, other) if other else _nothing]
    then, otherwise = w.branches(*ways)
    w.spend(dearer(then, otherwise))


def _nothing() -> None:
    pass


def _while(w: Walk, node: While) -> None:
    """Its test is asked once more than it has rounds, and past the limit it raises; nothing comes
    after one that only that can end."""
    limit = None if node.limit is None else number(evaluate(w, node.limit).size)
    place = w.place(node, "this loop has no limit")
    w.raises |= node.limit is not None

    def body() -> None:
        evaluate(w, node.test)
        w.block(node.body)

    came = loop(w, node, body, limit, place)
    w.spend(came.spent)
    if came.goes_on:
        evaluate(w, node.test)
    w.over = isinstance(node.test, Word) and node.test.value is True and not came.breaks


def _for(w: Walk, node: For) -> None:
    over = evaluate(w, node.over)
    kind = w.facts.type(node.over)
    place = w.place(node, "how often this loop runs has no bound")

    def body() -> None:
        with w.scopes.block():
            for name, value, each in _walked(node, over, kind):
                if w.facts.notes is not None and over.size is None and each == STR:
                    value = as_symbol(f"item@{id(node)}", STR)  # noqa: PLW2901
                w.scopes.declare(name, value, each)
            w.block(node.body)

    came = loop(w, node, body, number(over.size), place)
    if number(over.size) is None:
        w.facts.keep_round(node, came.once)
    w.spend(came.spent)


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
    before, raised = w.scopes.copy(), w.raises
    w.raises = False
    with w.scopes.watch() as seen, w.apart() as spent:
        body()
    w.spend(capped(spent[0], cap))
    if catches and w.raises:
        ways = [partial(_handler, w, catch) for catch in catches]
        ways += [] if w.over else [_nothing]
        w.raises = not any(catch.kind == "" for catch in catches)
        w.scopes.join(before, seen)
        w.spend(reduce(dearer, w.branches(*ways), NONE))
    w.raises |= raised


def _handler(w: Walk, catch: Catch) -> None:
    with w.scopes.block():
        if catch.reason:
            w.scopes.declare(catch.reason, of_type(STR), STR)
        w.block(catch.body)


def _try(w: Walk, node: Try) -> None:
    _guarded(w, partial(w.block, node.body), node.catches, None)


def _session(w: Walk, node: Session) -> None:
    """One that is larger than what is around it never opens."""
    cap = number(evaluate(w, node.budget).size)
    for setting in node.settings:
        if setting.name == "on_exceed" and getattr(setting.value, "name", "") in _LOOSE:
            cap = None
    is_sure = isinstance(node.budget, MoneyLit) and cap is not None
    never = is_sure and w.cap is not None and (cap or 0) > w.cap

    def body() -> None:
        w.raises |= w.may_lack or not is_sure
        if not never:
            w.scope(cap, lambda: w.block(node.body))

    _guarded(w, body, node.catches, cap)


def _parallel(w: Walk, node: Parallel) -> None:
    def body() -> None:
        is_over = False
        for strand in node.body.body:
            w.over = False
            statement(w, strand)
            is_over |= w.over
        w.over = is_over

    _guarded(w, body, node.catches, None)


def _monitor(w: Walk, node: Monitor) -> None:
    """Its body runs once, perhaps when the sessions around it are over."""
    evaluate(w, node.of)
    before = w.scopes.copy()
    cap, w.cap, loops, w.left = w.cap, None, w.left, []
    with w.scopes.watch() as seen, w.apart() as spent, w.scopes.block():
        w.scopes.declare(node.reason, of_type(STR), STR)
        w.block(node.body)
    w.cap, w.left, w.over = cap, loops, False
    w.scopes.join(before, seen)
    w.spend(moved(spent[0]))


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
