"""Expressions as Python."""

import ast
import json
from collections.abc import Callable
from typing import Any

from vegakit.lang.checked import NameKind
from vegakit.lang.python.printing.context import Printer
from vegakit.lang.python.signs import is_natural
from vegakit.lang.tree import (
    Binary,
    Build,
    Call,
    Decimal,
    Duration,
    Expr,
    Index,
    ListLit,
    MapLit,
    Member,
    MoneyLit,
    Name,
    Text,
    Unary,
    Whole,
    Word,
)
from vegakit.lang.types import (
    FLOAT,
    INT,
    STR,
    ChoiceOf,
    MapOf,
    OptionalOf,
)
from vegakit.money import Money, show

__all__ = ["PRINTED", "Printed", "as_text", "duration_text", "money_text", "over", "put", "quoted"]

_OR, _AND, _NOT, _COMPARE, _ADD, _MULTIPLY, _SIGN, _POSTFIX, _ATOM = range(1, 10)
_LEVELS = {
    "or": _OR,
    "and": _AND,
    "+": _ADD,
    "-": _ADD,
    "*": _MULTIPLY,
    "/": _MULTIPLY,
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">=", "in"), _COMPARE),
}
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"))

Printed = tuple[str, int]


def put(p: Printer, node: Expr, level: int = 0) -> str:
    """In parentheses where what is around binds tighter."""
    text, own = PRINTED[type(node)](p, node)
    return f"({text})" if own < level else text


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def money_text(node: MoneyLit) -> str:
    period = f"/{node.period}" if node.period else ""
    return quoted(show(Money(node.nanos)).replace(",", "") + period)


def duration_text(node: Duration) -> str:
    for size, unit in _UNITS:
        if node.ms and node.ms % size == 0:
            return quoted(f"{node.ms // size}{unit}")
    return quoted(f"{node.ms}ms")


# Literals


def _whole(p: Printer, node: Whole) -> Printed:
    return (f"{node.value}.0" if p.type(node) == FLOAT else str(node.value)), _ATOM


def _decimal(_p: Printer, node: Decimal) -> Printed:
    return repr(node.value), _ATOM


def _money(p: Printer, node: MoneyLit) -> Printed:
    return f"{p.uses('vega')}.money({money_text(node)})", _POSTFIX


def _duration(p: Printer, node: Duration) -> Printed:
    return f"{p.uses('vega')}.duration({duration_text(node)})", _POSTFIX


def _word(_p: Printer, node: Word) -> Printed:
    return repr(node.value), _ATOM


def _text(p: Printer, node: Text) -> Printed:
    """An f-string; where a part needs quotes of its own, a sum of texts."""
    if all(isinstance(part, str) for part in node.parts):
        return quoted("".join(str(part) for part in node.parts)), _ATOM
    made: list[str] = []
    for part in node.parts:
        if isinstance(part, str):
            made.append(quoted(part)[1:-1].replace("{", "{{").replace("}", "}}"))
            continue
        inner = as_text(p, part).replace('"', "'")
        if "\\" in inner or inner.count("'") != as_text(p, part).count('"') or "{" in inner:
            return _sum(p, node), _ADD
        made.append(f"{{{inner}}}")
    return f'f"{"".join(made)}"', _ATOM


def _sum(p: Printer, node: Text) -> str:
    parts = [quoted(part) if isinstance(part, str) else _str(p, part) for part in node.parts]
    return " + ".join(parts)


def _str(p: Printer, node: Expr) -> str:
    """As a str, to be added to others."""
    kind = p.type(node)
    if kind == STR or isinstance(kind, ChoiceOf):
        return put(p, node, _ADD + 1)
    return f"str({put(p, node)})" if kind == INT else f"{p.uses('vega')}.text({put(p, node)})"


def as_text(p: Printer, node: Expr) -> str:
    """Where it becomes text by itself: in an f-string, in print."""
    if isinstance(node, Name) and (same := p.reason(node.name)) is not None:
        name = p.named(node.name)
        return name if same else f"{p.uses('vega')}.reason({name})"
    kind = p.type(node)
    if kind in (STR, INT) or isinstance(kind, ChoiceOf):
        return put(p, node)
    return f"{p.uses('vega')}.text({put(p, node)})"


def _list(p: Printer, node: ListLit) -> Printed:
    return f"[{', '.join(put(p, item) for item in node.items)}]", _ATOM


def _map(p: Printer, node: MapLit) -> Printed:
    pairs = (f"{put(p, pair.key)}: {put(p, pair.value)}" for pair in node.pairs)
    return f"{{{', '.join(pairs)}}}", _ATOM


def _build(p: Printer, node: Build) -> Printed:
    walked = over(p, node.over)
    with p.scope():
        name = p.declare(node.name, node)
        where = "" if node.where is None else f" if {put(p, node.where, _OR)}"
        item = put(p, node.item)
    return f"[{item} for {name} in {walked}{where}]", _ATOM


def over(p: Printer, node: Expr) -> str:
    """Where a loop walks: `range(n)` needs no list there."""
    if isinstance(node, Call) and isinstance(node.callee, Name) and node.callee.name == "range":
        return f"range({', '.join(put(p, arg) for arg in node.args)})"
    return put(p, node, _OR)


# Operators


def _unary(p: Printer, node: Unary) -> Printed:
    if node.op == "not" and isinstance(node.of, Binary) and node.of.op == "in":
        left, right = put(p, node.of.left, _COMPARE + 1), put(p, node.of.right, _COMPARE + 1)
        return f"{left} not in {right}", _COMPARE
    if node.op == "not":
        return f"not {put(p, node.of, _NOT)}", _NOT
    return f"-{put(p, node.of, _SIGN)}", _SIGN


def _binary(p: Printer, node: Binary) -> Printed:
    if node.op == "??":
        return _default(p, node)
    left, right = p.type(node.left), p.type(node.right)
    if node.op == "%" or (node.op == "/" and (left, right) == (INT, INT)):
        return _rounded(p, node)
    if node.op in ("==", "!=") and isinstance(node.right, Word) and node.right.value is None:
        sign = "is" if node.op == "==" else "is not"
        return f"{put(p, node.left, _COMPARE + 1)} {sign} None", _COMPARE
    if node.op == "+" and isinstance(p.type(node), MapOf):
        return f"{put(p, node.left, _COMPARE + 1)} | {put(p, node.right, _ADD)}", _COMPARE + 0
    level = _LEVELS[node.op]
    loose = level + 1 if level == _COMPARE else level
    return f"{put(p, node.left, loose)} {node.op} {put(p, node.right, level + 1)}", level


def _default(p: Printer, node: Binary) -> Printed:
    if isinstance(node.left, Name | Member):
        one = put(p, node.left, _OR)
        return f"{one} if {one} is not None else {put(p, node.right, _OR)}", 0
    if (got := _got(p, node)) is not None:
        return got, _POSTFIX
    return f"{p.uses('vega')}.default({put(p, node.left)}, {put(p, node.right)})", _POSTFIX


def _got(p: Printer, node: Binary) -> str | None:
    """`d.get(key, 0)`, where no value of `d` may be None."""
    match node.left:
        case Call(callee=Name(name="map::get"), args=(of, key)) if isinstance(
            node.right, Whole | Text | ListLit | Word | Name
        ):
            kind = p.type(of)
            if isinstance(kind, MapOf) and not isinstance(kind.inner, OptionalOf):
                return f"{put(p, of, _POSTFIX)}.get({put(p, key)}, {put(p, node.right)})"
        case _:
            pass
    return None


def _rounded(p: Printer, node: Binary) -> Printed:
    """`//` and `%` where both sides are never negative."""
    one, other = put(p, node.left, _MULTIPLY), put(p, node.right, _MULTIPLY + 1)
    if p.type(node) == INT and _is_natural(p, one) and _is_natural(p, other):
        return f"{one} {'//' if node.op == '/' else '%'} {other}", _MULTIPLY
    name = "quotient" if node.op == "/" else "remainder"
    return f"{p.uses('vega')}.{name}({put(p, node.left)}, {put(p, node.right)})", _POSTFIX


def _is_natural(p: Printer, text: str) -> bool:
    return is_natural(ast.parse(text, mode="eval").body, p.natural)


# Names and places


def _name(p: Printer, node: Name) -> Printed:
    if p.checked.names.get(id(node)) in (NameKind.AGENT, NameKind.SUPERVISOR):
        return p.fit(node.name, node), _ATOM
    same = p.reason(node.name)
    name = p.named(node.name)
    if same is None:
        return name, _ATOM
    return (f"str({name})" if same else f"{p.uses('vega')}.reason({name})"), _POSTFIX


def _member(p: Printer, node: Member) -> Printed:
    return f"{put(p, node.of, _POSTFIX)}.{p.fit(node.name, node)}", _POSTFIX


def _index(p: Printer, node: Index) -> Printed:
    of, at = put(p, node.of, _POSTFIX), put(p, node.index)
    if isinstance(p.type(node.of), MapOf) or _is_natural(p, at) or at == f"len({of}) - 1":
        return f"{of}[{at}]", _POSTFIX
    return f"{p.uses('vega')}.at({of}, {at})", _POSTFIX


PRINTED: dict[type, Callable[[Printer, Any], Printed]] = {
    Whole: _whole,
    Decimal: _decimal,
    MoneyLit: _money,
    Duration: _duration,
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
}
