"""Expressions, walked: what is known of their value."""

from collections.abc import Callable
from functools import reduce
from typing import Any

from vegakit.lang.checked import CalleeKind, NameKind
from vegakit.lang.quoting.calling import Asked, call_function, send_to
from vegakit.lang.quoting.library import size_of_call
from vegakit.lang.quoting.sizes import exactly, number, product, total
from vegakit.lang.quoting.spending import Purse, Spend, times
from vegakit.lang.quoting.values import (
    NULL_VALUE,
    Spawned,
    Value,
    as_symbol,
    bytes_of,
    either,
    known,
    of_type,
    within,
)
from vegakit.lang.quoting.walking import Walk, as_amount
from vegakit.lang.tree import (
    Ask,
    Await,
    Binary,
    Build,
    Call,
    Cast,
    Decimal,
    Duration,
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

_HARMLESS = frozenset(
    {Whole, Decimal, MoneyLit, Duration, Word, Text, Name, ListLit, MapLit, Member, Build}
    | {Call, Binary, Spawn}
)
"""What raises nothing by itself; the last three have rules of their own."""
_NEVER_FAIL = frozenset({"print", "len", "range", "list::len", "map::len"})
_MAY_OVERFLOW = frozenset("+-*/%")


def evaluate(w: Walk, node: Expr) -> Value:
    w.facts.count()
    w.raises |= type(node) not in _HARMLESS
    rule = _RULES.get(type(node))
    value = Value() if rule is None else rule(w, node)
    return within(value, w.facts.type(node))


def _whole(w: Walk, node: Whole) -> Value:
    return known(node.value)


def _money(w: Walk, node: MoneyLit) -> Value:
    return known(node.nanos)


def _word(w: Walk, node: Word) -> Value:
    return NULL_VALUE if node.value is None else Value()


def _text(w: Walk, node: Text) -> Value:
    size, least = exactly(0), 0
    for part in node.parts:
        if isinstance(part, str):
            more = exactly(len(part.encode(errors="surrogatepass")))
            least += more.number
        else:
            value, kind = evaluate(w, part), w.facts.type(part)
            more = bytes_of(value, kind)
            least += (value.least or 0) if kind == STR else 0
        size = total(size, more)
    return Value(size, least=least)


def _name(w: Walk, node: Name) -> Value:
    found = w.scopes.find(node.name)
    return Value() if found is None else found[1].value


def _list(w: Walk, node: ListLit) -> Value:
    items = [evaluate(w, item) for item in node.items]
    return known(len(items), reduce(either, items) if items else None)


def _map(w: Walk, node: MapLit) -> Value:
    for pair in node.pairs:
        evaluate(w, pair.key)
    items = [evaluate(w, pair.value) for pair in node.pairs]
    return Value(exactly(len(items)), reduce(either, items) if items else None)


def _build(w: Walk, node: Build) -> Value:
    over, kind = evaluate(w, node.over), w.facts.type(node.over)
    with w.apart() as spent, w.scopes.block():
        inner = kind.inner if isinstance(kind, ListOf) else STR
        item = _item_of(over, kind) or of_type(inner)
        if w.facts.notes is not None and over.size is None and inner == STR:
            item = as_symbol(f"item@{id(node)}", STR)
        w.scopes.declare(node.name, item, inner)
        if node.where is not None:
            evaluate(w, node.where)
        item = evaluate(w, node.item)
    place = w.place(node, "this list has no bound")
    if number(over.size) is None:
        w.facts.keep_round(node, spent[0])
    w.spend(times(spent[0], as_amount(number(over.size)), place))
    return Value(over.size, item)


def _item_of(over: Value, kind: object) -> Value | None:
    return over.item if isinstance(kind, ListOf) else None


def _unary(w: Walk, node: Unary) -> Value:
    evaluate(w, node.of)
    return known(-node.of.value) if isinstance(node.of, Whole) else Value()


def _binary(w: Walk, node: Binary) -> Value:
    left, right = evaluate(w, node.left), evaluate(w, node.right)
    w.raises |= node.op in _MAY_OVERFLOW and w.facts.type(node) != STR and not left.item
    match node.op:
        case "+":
            item = either(left.item, right.item) if left.item and right.item else None
            least = None if isinstance(w.facts.type(node), MapOf) else _sum(left, right)
            return Value(total(left.size, right.size), item, least=least)
        case "-" if right.least is not None:
            return Value(total(left.size, exactly(-right.least)), least=_difference(left, right))
        case "*" if _is_natural(left) and _is_natural(right):
            return Value(product(left.size, right.size), least=0)
        case "??":
            return either(left, right)
        case _:
            return Value()


def _is_natural(value: Value) -> bool:
    return value.least is not None and value.least >= 0


def _sum(one: Value, other: Value) -> int | None:
    return None if one.least is None or other.least is None else one.least + other.least


def _difference(one: Value, other: Value) -> int | None:
    most = number(other.size)
    return None if one.least is None or most is None else one.least - most


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
        w.raises = True
        return Value()
    if callee.kind is CalleeKind.LIBRARY:
        w.raises |= callee.name not in _NEVER_FAIL
        return size_of_call(callee.name, values)
    if callee.kind in (CalleeKind.FUNCTION, CalleeKind.TOOL):
        order = w.facts.checked.arguments.get(id(node), tuple(range(len(values))))
        given = [NULL_VALUE if at is None else values[at] for at in order]
        called = call_function(w, callee.name, tuple(given))
        w.spend(called.spent)
        w.raises |= called.raises
        return called.value
    w.raises = True
    return Value()


def _ask(w: Walk, node: Ask) -> Value:
    _evaluate_all(w, node.timeout)
    message = evaluate(w, node.message)
    budget = None if node.budget is None else (node.budget, evaluate(w, node.budget))
    kind = w.facts.type(node)
    if isinstance(kind, FutureOf):
        kind = kind.inner
    answer = STR if isinstance(kind, StreamOf) or node.stream else kind
    size = bytes_of(message, w.facts.type(node.message))
    least = (message.least or 0) if w.facts.type(node.message) == STR else 0
    send_to(w, Asked(node, size, least, answer, budget), *_whom(w, node.to))
    return of_type(answer) if not isinstance(kind, StreamOf) else Value()


def _whom(w: Walk, to: Expr) -> tuple[list[str], bool, Spawned | None]:
    """The agents it may be, whether it is a process, and which."""
    if isinstance(to, Name) and w.facts.checked.names.get(id(to)) is NameKind.AGENT:
        return [w.facts.checked.full_names[id(to)]], False, None
    value, kind = evaluate(w, to), w.facts.type(to)
    if isinstance(kind, ProcessOf) and kind.agent in w.facts.agents:
        return [kind.agent], True, value.spawned
    return list(w.facts.agents), True, value.spawned


def _spawn(w: Walk, node: Spawn) -> Value:
    _evaluate_all(w, node.named, node.under)
    has_room = node.named is None and node.under is None and not w.may_lack
    w.raises |= not has_room or w.facts.spawns_may_fail
    if node.under is not None:
        w.spend(Spend(processes=1))
        return Value()
    wallet = None if node.wallet is None else number(evaluate(w, node.wallet).size)
    if node.wallet is not None and wallet is None:
        w.spend(Spend(processes=1))
        return Value()
    if wallet is not None and w.cap is not None and wallet > w.cap:
        w.raises = True
        return Value()
    site = f"{w.unit.path}:{node.at}"
    purses = {} if wallet is None else {site: Purse(wallet)}
    w.spend(Spend(purses=purses, processes=1, asked=wallet or 0))
    return Value(spawned=Spawned(site, wallet))


def _evaluate_all(w: Walk, *nodes: Expr | None) -> None:
    for node in nodes:
        if node is not None:
            evaluate(w, node)


def _await(w: Walk, node: Await) -> Value:
    return evaluate(w, node.of)


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
