"""What a loop may walk over: lists, dicts, `range`, `enumerate`, `items`, streams."""

import ast

from msgspec import Struct

from vegakit.lang.python.context import Body, expression
from vegakit.lang.python.kinds import kind_of
from vegakit.lang.tree import Call, Expr, ListType, MapType, Name, NamedType, TypeExpr

__all__ = ["Walked", "is_made_list", "items_in", "walked"]

_STR, _INT = NamedType(0, 0, "str"), NamedType(0, 0, "int")


class Walked(Struct):
    """`pairs` where two variables are wanted; `kind` of the item, and `key` of what is first."""

    value: Expr
    pairs: bool = False
    kind: TypeExpr | None = None
    key: TypeExpr | None = None


def walked(body: Body, node: ast.expr) -> Walked:
    match node:
        case ast.Call(func=ast.Name(id="range"), args=args, keywords=[]):
            return Walked(_range(body, node, args), kind=_INT)
        case ast.Call(func=ast.Name(id="enumerate"), args=[of], keywords=[]):
            inner = walked(body, of)
            if inner.pairs:
                _no_pairs(body, of)
            body.demand("listed", inner.value, node)
            return Walked(inner.value, True, inner.kind, _INT)
        case ast.Call(func=ast.Name(id="enumerate")):
            return body.file.refuse(
                "python-loop", node, "`enumerate` counts from 0 here", "add to the index instead"
            )
        case ast.Call(func=ast.Name(id="reversed"), args=[of], keywords=[]):
            over = _called(body, node, "list::reverse", expression(body, of))
            return Walked(over, kind=_item(body, of))
        case ast.Call(func=ast.Attribute(value=of, attr="items"), args=[], keywords=[]):
            over = expression(body, of)
            body.demand("mapped", over, node)
            return Walked(over, True, _item(body, of, values=True), _STR)
        case ast.Call(func=ast.Attribute(value=of, attr="keys"), args=[], keywords=[]):
            return Walked(_called(body, node, "map::keys", expression(body, of)), kind=_STR)
        case ast.Call(func=ast.Attribute(value=of, attr="values"), args=[], keywords=[]):
            over = _called(body, node, "map::values", expression(body, of))
            return Walked(over, kind=_item(body, of, values=True))
        case _:
            return Walked(expression(body, node), kind=_item(body, node))


def items_in(body: Body, node: ast.expr) -> Expr:
    """Where a list is wanted that is made on the spot: in `sorted(…)`, `list(…)`, `x in …`."""
    over = walked(body, node)
    if over.pairs:
        _no_pairs(body, node)
    return over.value


def is_made_list(node: ast.expr) -> bool:
    """`range(n)`, `reversed(xs)`, `d.keys()`, `d.values()`: a list here, something else in Python
    that has to be turned into one."""
    match node:
        case ast.Call(func=ast.Name(id="range" | "reversed")):
            return True
        case ast.Call(func=ast.Attribute(attr="keys" | "values"), args=[], keywords=[]):
            return True
        case _:
            return False


def _no_pairs(body: Body, node: ast.expr) -> None:
    body.file.refuse("python-loop", node, "there are no pairs here", "write a `for` with two names")


def _called(body: Body, node: ast.expr, name: str, of: Expr) -> Expr:
    span = body.file.span(node)
    return Call(span.at, span.end, Name(span.at, span.end, name), (of,), ("",))


def _range(body: Body, node: ast.Call, args: list[ast.expr]) -> Expr:
    if len(args) not in (1, 2):
        body.file.refuse(
            "python-loop",
            node,
            "`range` has no step here",
            "walk over `range(n)` and multiply inside the loop",
        )
    span = body.file.span(node)
    given = tuple(expression(body, arg) for arg in args)
    return Call(span.at, span.end, Name(span.at, span.end, "range"), given, ("",) * len(given))


def _item(body: Body, node: ast.expr, *, values: bool = False) -> TypeExpr | None:
    """Of a dict its keys, or with `values` what they lead to."""
    match kind_of(body, node):
        case ListType(inner=inner):
            return inner
        case MapType(inner=inner):
            return inner if values else _STR
        case _:
            return None
