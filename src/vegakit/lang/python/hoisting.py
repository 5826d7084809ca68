"""Variables that every way through a block gives a value: they are declared before the block.

A record has no value to begin with, so it begins as null; the checker sees that every way gives it
one.
"""

import ast

from vegakit.lang.python.context import Body
from vegakit.lang.python.flowing import given_on_all_ways, is_read_too_early
from vegakit.lang.python.kinds import kind_of
from vegakit.lang.python.naming import new_name
from vegakit.lang.tree import (
    ChoiceType,
    Decimal,
    Expr,
    Let,
    ListLit,
    ListType,
    MapLit,
    MapType,
    NamedType,
    OptionalType,
    Stmt,
    Text,
    TypeExpr,
    Whole,
    Word,
)

__all__ = ["declared_before", "declared_empty"]


def declared_before(body: Body, node: ast.stmt) -> list[Stmt]:
    made: list[Stmt] = []
    for name, value in given_on_all_ways(node).items():
        if body.is_known(name) or not body.read_after(name, node) or _is_parallel(body, node):
            continue
        kind = kind_of(body, value)
        if kind is None or is_read_too_early(name, node):
            continue
        declared = declared_empty(body, name, kind, node)
        if declared is not None:
            made.append(declared)
    return made


def declared_empty(body: Body, name: str, kind: TypeExpr, node: ast.stmt) -> Stmt | None:
    """With a value that nobody reads; None where the type has none."""
    first, at = _empty(kind, node, body), body.file.span(node).at
    if first is None and not _is_record(body, kind):
        return None
    new_name(body, node, name)
    body.declare(name, kind)
    if first is None:
        return Let(at, at, name, OptionalType(at, at, kind), Word(at, at, None))
    return Let(at, at, name, _plain_kind(kind), first)


def _is_record(body: Body, kind: TypeExpr) -> bool:
    return isinstance(kind, NamedType) and kind.name in body.file.records


def _is_parallel(body: Body, node: ast.stmt) -> bool:
    if not isinstance(node, ast.With):
        return False
    call = node.items[0].context_expr
    return isinstance(call, ast.Call) and body.file.means(call.func, "vegakit.parallel")


def _plain_kind(kind: TypeExpr) -> TypeExpr | None:
    """Written where it is known all through."""
    inner = kind
    while isinstance(inner, ListType | MapType | OptionalType):
        inner = inner.inner
    return None if isinstance(inner, NamedType) and inner.name == "any" else kind


def _empty(kind: TypeExpr, node: ast.stmt, body: Body) -> Expr | None:
    at = body.file.span(node).at
    match kind:
        case NamedType(name="str"):
            return Text(at, at, ())
        case NamedType(name="int"):
            return Whole(at, at, 0)
        case NamedType(name="float"):
            return Decimal(at, at, 0.0)
        case NamedType(name="bool"):
            return Word(at, at, False)
        case ListType():
            return ListLit(at, at, ())
        case MapType():
            return MapLit(at, at, ())
        case ChoiceType(choices=choices):
            return Text(at, at, choices[:1])
        case OptionalType():
            return Word(at, at, None)
        case _:
            return None
