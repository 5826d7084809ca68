"""What an expression is as far as its lines show it: text, list or dict.

Only to choose between functions of the library: `s[1:]` is `str::slice` of a str and `list::slice`
of a list. The checker holds the choice to the real types.
"""

import ast

from vegakit.lang.library import LIBRARY
from vegakit.lang.python.annotations import type_of
from vegakit.lang.python.context import Body, RefusedError
from vegakit.lang.tree import (
    ChoiceType,
    ListType,
    MapType,
    NamedType,
    TypeExpr,
)
from vegakit.lang.types import INT, STR, ListOf, MapOf

__all__ = ["kind_of", "space_of"]

_STR, _INT = NamedType(0, 0, "str"), NamedType(0, 0, "int")
_FLOAT, _BOOL = NamedType(0, 0, "float"), NamedType(0, 0, "bool")
_RESULTS: dict[str, TypeExpr] = {
    "str": _STR,
    "int": _INT,
    "len": _INT,
    "sum": _INT,
    "float": _FLOAT,
    "round": _FLOAT,
}
_GIVEN: dict[str, TypeExpr] = {
    "strip": _STR,
    "lower": _STR,
    "upper": _STR,
    "replace": _STR,
    "join": _STR,
    "split": ListType(0, 0, _STR),
    "keys": ListType(0, 0, _STR),
    "count": _INT,
    "startswith": _BOOL,
    "endswith": _BOOL,
}


def space_of(body: Body, node: ast.expr) -> str:
    """`str`, `list` or `map`; '' where it cannot be told."""
    match kind_of(body, node):
        case NamedType(name="str") | ChoiceType():
            return "str"
        case ListType():
            return "list"
        case MapType():
            return "map"
        case _:
            return ""


def kind_of(body: Body, node: ast.expr) -> TypeExpr | None:  # noqa: C901, PLR0912
    match node:
        case ast.Constant(value=value):
            return _constant(value)
        case ast.JoinedStr():
            return _STR
        case ast.Name(id=name):
            if name in body.file.constants and not body.is_known(name):
                return _constant(body.file.constants[name].value)
            return _resolved(body, body.kind(name))
        case ast.List(elts=items):
            inner = kind_of(body, items[0]) if items else None
            return ListType(0, 0, inner or NamedType(0, 0, "any"))
        case ast.Dict(values=values):
            inner = kind_of(body, values[0]) if values else None
            return MapType(0, 0, inner or NamedType(0, 0, "any"))
        case ast.ListComp(elt=item):
            return ListType(0, 0, kind_of(body, item) or NamedType(0, 0, "any"))
        case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
            return _BOOL
        case ast.UnaryOp(operand=of):
            return kind_of(body, of)
        case ast.BinOp(op=ast.Div()):
            return _FLOAT
        case ast.BinOp(left=left, right=right):
            one, other = kind_of(body, left), kind_of(body, right)
            return other if _FLOAT in (one, other) else one or other
        case ast.IfExp(body=one, orelse=other):
            return kind_of(body, one) or kind_of(body, other)
        case ast.Attribute(value=of, attr=name):
            return _field(body, kind_of(body, of), name)
        case ast.Subscript(value=of, slice=at):
            return _item(body, kind_of(body, of), is_slice=isinstance(at, ast.Slice))
        case ast.Call():
            return _called(body, node)
        case _:
            return None


def _constant(value: object) -> TypeExpr | None:
    kinds: dict[type, TypeExpr] = {str: _STR, int: _INT, float: _FLOAT, bool: _BOOL}
    return kinds.get(type(value))


def _resolved(body: Body, kind: TypeExpr | None) -> TypeExpr | None:
    if isinstance(kind, NamedType) and kind.name in body.file.aliases:
        return body.file.aliases[kind.name]
    return kind


def _field(body: Body, of: TypeExpr | None, name: str) -> TypeExpr | None:
    record = body.file.records.get(of.name) if isinstance(of, NamedType) else None
    return _resolved(body, record.fields.get(name)) if record else None


def _item(body: Body, of: TypeExpr | None, *, is_slice: bool) -> TypeExpr | None:
    match of:
        case ListType(inner=inner) | MapType(inner=inner):
            return of if is_slice else _resolved(body, inner)
        case NamedType(name="str") | ChoiceType():
            return _STR
        case _:
            return None


def _called(body: Body, node: ast.Call) -> TypeExpr | None:  # noqa: C901
    match node.func:
        case ast.Name(id="list" | "sorted"):
            return _listed(body, node)
        case ast.Name(id="abs" | "min" | "max"):
            return kind_of(body, node.args[0]) if node.args else None
        case ast.Name(id=name) if name in _RESULTS:
            return _RESULTS[name]
        case ast.Name(id=name) if name in body.file.functions:
            return _resolved(body, body.file.functions[name].result)
        case ast.Name(id=name) if name in body.file.records:
            return NamedType(0, 0, name)
        case ast.Name(id=name) if name in body.file.agents or body.is_known(name):
            return _STR
        case ast.Attribute(attr="ask"):
            return _returned(body, node)
        case ast.Attribute(attr=name) if name in _GIVEN:
            return _GIVEN[name]
        case ast.Attribute(attr="values", value=of):
            kind = kind_of(body, of)
            return ListType(0, 0, kind.inner) if isinstance(kind, MapType) else None
        case ast.Attribute(value=ast.Attribute(attr=space), attr=name):
            return _from_library(space, name)
        case ast.Attribute(attr="text"):
            return _STR
        case _:
            return None


def _listed(body: Body, node: ast.Call) -> TypeExpr | None:
    match node.args:
        case [ast.Call(func=ast.Name(id="range"))]:
            return ListType(0, 0, _INT)
        case [ast.Call(func=ast.Name(id="reversed"), args=[of])] | [of]:
            return kind_of(body, of)
        case _:
            return None


def _returned(body: Body, node: ast.Call) -> TypeExpr | None:
    for keyword in node.keywords:
        if keyword.arg == "returns":
            try:
                return _resolved(body, type_of(body.file, keyword.value))
            except RefusedError:
                return None
    return _STR


def _from_library(space: str, name: str) -> TypeExpr | None:
    row = LIBRARY.get(f"{space}::{name}")
    match row.result if row else None:
        case ListOf(inner=inner):
            return ListType(0, 0, _STR if inner == STR else NamedType(0, 0, "any"))
        case MapOf():
            return MapType(0, 0, NamedType(0, 0, "any"))
        case kind:
            return {STR: _STR, INT: _INT}.get(kind) if kind in (STR, INT) else None
