"""Annotations of Python as types of the tree.

| Python                               | tree            |
|--------------------------------------|-----------------|
| `str int float bool`                 | the same        |
| `X \\| None`, `Optional[X]`           | `X?`            |
| `list[X]`, `Annotated[list[X], Max(9)]` | `[X]`, `[X; 9]` |
| `dict[str, X]`                       | `{str: X}`      |
| `Literal["a", "b"]`                  | `"a" \\| "b"`    |
| `Any`                                | `any`           |
| `vega.Money vega.Duration vega.File vega.Process` | `money duration file process` |
"""

import ast
from typing import NoReturn

from vegakit.lang.python.context import File
from vegakit.lang.python.words import BUILTIN_TYPES
from vegakit.lang.tree import (
    ChoiceType,
    ListType,
    MapType,
    NamedType,
    OptionalType,
    TypeExpr,
)

__all__ = ["VEGA_TYPES", "is_none", "type_of"]

VEGA_TYPES = {
    "Money": "money",
    "Duration": "duration",
    "File": "file",
    "Process": "process",
    "Response": "Response",
}
_INSTEAD = {
    "tuple": "write `list[T]`, or declare a record with named fields",
    "set": "write `list[T]`; `vega.list.unique(xs)` keeps each item once",
    "frozenset": "write `list[T]`",
    "bytes": "write `str`",
    "object": "write the type that it has",
    "List": "write `list[T]`",
    "Dict": "write `dict[str, T]`",
    "Union": "write `X | None`; other unions need a record",
    "Path": "write `str`",
    "datetime": "write `str`: `vega.time.now()` gives text",
    "timedelta": "write `vega.Duration`",
    "Decimal": "write `vega.Money` for money, else `float`",
    "Callable": "functions are not values here: call them by name",
    "Iterable": "write `list[T]`",
    "Sequence": "write `list[T]`",
}


def is_none(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def type_of(file: File, node: ast.expr) -> TypeExpr:
    span = file.span(node)
    match node:
        case ast.Constant(value=str() as text):
            return _quoted(file, node, text)
        case ast.Name(id=name):
            return NamedType(span.at, span.end, _named(file, node, name))
        case ast.Attribute(value=ast.Name(id=root), attr=name) if (
            file.imported.get(root) == "vegakit.vega" and name in VEGA_TYPES
        ):
            return NamedType(span.at, span.end, VEGA_TYPES[name])
        case ast.BinOp(op=ast.BitOr()):
            return _union(file, node)
        case ast.Subscript(value=ast.Name(id=name), slice=inner):
            return _subscript(file, node, name, inner)
        case _:
            return _refuse(file, node)


def _quoted(file: File, node: ast.Constant, text: str) -> TypeExpr:
    """`"Finding"`, where a class is named before it is declared."""
    if not text.isidentifier():
        _refuse(file, node)
    span = file.span(node)
    return NamedType(span.at, span.end, _named(file, node, text))


def _named(file: File, node: ast.expr, name: str) -> str:
    if name in BUILTIN_TYPES:
        return BUILTIN_TYPES[name]
    if name in file.records or name in file.aliases or name in file.agents:
        return name
    match file.imported.get(name, ""):
        case "typing.Any":
            return "any"
        case "vegakit.Process":
            return "process"
        case _:
            return _refuse(file, node)


def _union(file: File, node: ast.BinOp) -> TypeExpr:
    span = file.span(node)
    for one, other in ((node.left, node.right), (node.right, node.left)):
        if is_none(other) and not is_none(one):
            return OptionalType(span.at, span.end, type_of(file, one))
    return file.refuse(
        "python-type",
        node,
        "a value here has one type, or is None",
        "write `X | None`; for other choices declare a record with a field for each",
    )


def _subscript(file: File, node: ast.Subscript, name: str, inner: ast.expr) -> TypeExpr:
    span, origin = file.span(node), file.imported.get(name, "")
    items = inner.elts if isinstance(inner, ast.Tuple) else [inner]
    if name == "list" and len(items) == 1:
        return ListType(span.at, span.end, type_of(file, inner))
    if name == "dict" and len(items) == 2:
        if not (isinstance(items[0], ast.Name) and items[0].id == "str"):
            file.refuse("python-type", items[0], "the keys of a dict are text", "write `str`")
        return MapType(span.at, span.end, type_of(file, items[1]))
    if origin == "typing.Optional":
        return OptionalType(span.at, span.end, type_of(file, inner))
    if origin == "typing.Literal":
        return ChoiceType(span.at, span.end, tuple(_choice(file, item) for item in items))
    if origin == "typing.Annotated" and len(items) == 2:
        return _bounded(file, node, items[0], items[1])
    return _refuse(file, node)


def _choice(file: File, node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return file.refuse("python-type", node, "a choice is text", 'write `Literal["a", "b"]`')


def _bounded(file: File, node: ast.expr, of: ast.expr, bound: ast.expr) -> TypeExpr:
    inner, span = type_of(file, of), file.span(node)
    match bound:
        case ast.Call(func=func, args=[ast.Constant(value=int() as most)], keywords=[]) if (
            file.means(func, "vegakit.Max") and isinstance(inner, ListType)
        ):
            return ListType(span.at, span.end, inner.inner, most)
        case _:
            return file.refuse(
                "python-type",
                node,
                "only the length of a list is bounded by a type",
                "write `Annotated[list[T], Max(20)]`",
            )


def _refuse(file: File, node: ast.expr) -> NoReturn:
    root = node
    while isinstance(root, ast.Subscript | ast.Attribute):
        root = root.value
    name = root.id if isinstance(root, ast.Name) else file.source(node)
    known = "there are str, int, float, bool, list[T], dict[str, T], Literal[…], X | None, and"
    advice = _INSTEAD.get(name, f"{known} the records of this file")
    if name in ("list", "dict"):
        advice = f"say what is in it: `{'list[str]' if name == 'list' else 'dict[str, int]'}`"
    elif file.imported.get(name, "").startswith(("typing", "vegakit")):
        advice = f"{known} the records of this file"
    file.refuse("python-type", node, f"`{file.source(node)}` is no type of a program", advice)
