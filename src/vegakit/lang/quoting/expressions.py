"""Expressions, walked: what is known of their value."""

from collections.abc import Callable
from functools import reduce
from math import inf
from typing import Any

from vegakit.lang.checked import CalleeKind, NameKind
from vegakit.lang.quoting.calling import call_function, send_to
from vegakit.lang.quoting.library import size_of_call
from vegakit.lang.quoting.sizes import exactly, greater, number, product, total
from vegakit.lang.quoting.spending import Spend, times
from vegakit.lang.quoting.values import NULL_VALUE, Value, bytes_of, either, of_type, within
from vegakit.lang.quoting.walking import Walk, as_amount
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
    MoneyLit,
    Name,
    Node,
    Spawn,
    Text,
    Unary,
    Whole,
    Word,
)
from vegakit.lang.types import STR, FutureOf, ListOf, MapOf, ProcessOf, StreamOf

__all__ = ["evaluate"]


def evaluate(w: Walk, node: Expr) -> Value:
    w.facts.count()
    rule = _RULES.get(type(node))
    value = Value() if rule is None else rule(w, node)
    return within(value, w.facts.type(node))


def _whole(w: Walk, node: Whole) -> Value:
    return Value(exactly(node.value))


def _money(w: Walk, node: MoneyLit) -> Value:
    return Value(exactly(node.nanos))


def _word(w: Walk, node: Word) -> Value:
    return NULL_VALUE if node.value is None else Value()


def _text(w: Walk, node: Text) -> Value:
    size = exactly(0)
    for part in node.parts:
        if isinstance(part, str):
            more = exactly(len(part.encode(errors="surrogatepass")))
        else:
            more = bytes_of(evaluate(w, part), w.facts.type(part))
        size = total(size, more)
    return Value(size)


def _name(w: Walk, node: Name) -> Value:
    found = w.scopes.find(node.name)
    return Value() if found is None else found[1].value


def _list(w: Walk, node: ListLit) -> Value:
    items = [evaluate(w, item) for item in node.items]
    return Value(exactly(len(items)), reduce(either, items) if items else None)


def _map(w: Walk, node: MapLit) -> Value:
    for pair in node.pairs:
        evaluate(w, pair.key)
    items = [evaluate(w, pair.value) for pair in node.pairs]
    return Value(exactly(len(items)), reduce(either, items) if items else None)


def _build(w: Walk, node: Build) -> Value:
    over, kind = evaluate(w, node.over), w.facts.type(node.over)
    with w.apart() as spent, w.scopes.block():
        inner = kind.inner if isinstance(kind, ListOf) else STR
        w.scopes.declare(node.name, _item_of(over, kind) or of_type(inner), inner)
        if node.where is not None:
            evaluate(w, node.where)
        item = evaluate(w, node.item)
    place = w.place(node, "this list has no bound")
    w.spend(times(spent[0], as_amount(number(over.size)), place))
    return Value(over.size, item)


def _item_of(over: Value, kind: object) -> Value | None:
    return over.item if isinstance(kind, ListOf) else None


def _unary(w: Walk, node: Unary) -> Value:
    evaluate(w, node.of)
    return Value(exactly(-node.of.value)) if isinstance(node.of, Whole) else Value()


def _binary(w: Walk, node: Binary) -> Value:
    left, right = evaluate(w, node.left), evaluate(w, node.right)
    match node.op:
        case "+":
            item = either(left.item, right.item) if left.item and right.item else None
            return Value(total(left.size, right.size), item)
        case "-" if isinstance(node.right, Whole):
            return Value(total(left.size, exactly(-node.right.value)))
        case "*" if isinstance(node.left, Whole) and isinstance(node.right, Whole):
            return Value(product(left.size, right.size))
        case "??":
            return either(left, right)
        case _:
            return Value()


def _member(w: Walk, node: Member) -> Value:
    return evaluate(w, node.of).field(node.name) or Value()


def _index(w: Walk, node: Index) -> Value:
    of = evaluate(w, node.of)
    evaluate(w, node.index)
    return of.item if of.item and isinstance(w.facts.type(node.of), ListOf | MapOf) else Value()


def _call(w: Walk, node: Call) -> Value:
    values = [evaluate(w, arg) for arg in node.args]
    callee = w.facts.checked.callees.get(id(node))
    if callee is None:
        return Value()
    if callee.kind is CalleeKind.LIBRARY:
        first = node.args[0] if node.args else None
        if callee.name == "range" and len(values) == 2 and isinstance(first, Whole):
            return Value(greater(total(values[1].size, exactly(-first.value)), exactly(0)))
        return size_of_call(callee.name, values)
    if callee.kind in (CalleeKind.FUNCTION, CalleeKind.TOOL):
        order = w.facts.checked.arguments.get(id(node), tuple(range(len(values))))
        given = [NULL_VALUE if at is None else values[at] for at in order]
        spent, value = call_function(w, callee.name, tuple(given))
        w.spend(spent)
        return value
    return Value()


def _ask(w: Walk, node: Ask) -> Value:
    _evaluate_all(w, node.timeout)
    message = evaluate(w, node.message)
    budget = None if node.budget is None else (node.budget, evaluate(w, node.budget))
    kind = w.facts.type(node)
    if isinstance(kind, FutureOf):
        kind = kind.inner
    answer = STR if isinstance(kind, StreamOf) or node.stream else kind
    size = number(bytes_of(message, w.facts.type(node.message)))
    send_to(w, node, size, answer, budget, *_whom(w, node.to))
    return of_type(answer) if not isinstance(kind, StreamOf) else Value()


def _whom(w: Walk, to: Expr) -> tuple[list[str], bool]:
    """The agents it may be, and whether it is a process."""
    if isinstance(to, Name) and w.facts.checked.names.get(id(to)) is NameKind.AGENT:
        return [w.facts.checked.full_names[id(to)]], False
    evaluate(w, to)
    kind = w.facts.type(to)
    if isinstance(kind, ProcessOf) and kind.agent in w.facts.agents:
        return [kind.agent], True
    return list(w.facts.agents), True


def _spawn(w: Walk, node: Spawn) -> Value:
    _evaluate_all(w, node.named, node.under)
    wallet = None if node.wallet is None else number(evaluate(w, node.wallet).size)
    w.spend(Spend(purses=inf if wallet is None else wallet, processes=1))
    return Value()


def _evaluate_all(w: Walk, *nodes: Expr | None) -> None:
    for node in nodes:
        if node is not None:
            evaluate(w, node)


def _await(w: Walk, node: Await) -> Value:
    evaluate(w, node.of)
    return Value()


def _cast(w: Walk, node: Cast) -> Value:
    return evaluate(w, node.of)


_RULES: dict[type[Node], Callable[[Walk, Any], Value]] = {
    Whole: _whole,
    MoneyLit: _money,
    Word: _word,
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
