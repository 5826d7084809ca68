"""Annotations of Python as types of the tree, and the type of an expression as far as its lines
show it (pure).
"""

import ast
from typing import NoReturn, TypeGuard

from msgspec.structs import replace

from vegakit.lang.diagnostics import Edit
from vegakit.lang.library import LIBRARY
from vegakit.lang.python.context import (
    FunctionContext,
    PythonFile,
    RefusedError,
    joined,
    with_imports,
)
from vegakit.lang.python.subset import BUILTIN_TYPES
from vegakit.lang.syntax import tree
from vegakit.lang.syntax.lexer import MAX_INT
from vegakit.lang.types import (
    BOOL,
    FLOAT,
    INT,
    PLAIN_TYPES,
    STR,
    ListOf,
    MapOf,
    RecordOf,
    Type,
)

# Annotations of Python as types of the tree.
#
# | Python                               | tree            |
# |--------------------------------------|-----------------|
# | `str int float bool`                 | the same        |
# | `Annotated[str, MaxLen(9)]`          | `str; 9`        |
# | `X \| None`, `Optional[X]`           | `X?`            |
# | `list[X]`, `Annotated[list[X], MaxLen(9)]` | `[X]`, `[X; 9]` |
# | `dict[str, X]`, `Annotated[dict[str, X], MaxLen(9)]` | `{str: X}`, `{str: X; 9}` |
# | `Literal["a", "b"]`                  | `"a" \| "b"`    |
# | `Any`                                | `any`           |
# | `vega.Money vega.Duration vega.PythonFile vega.Process` | `money duration file process` |


VEGA_TYPES = {
    "Money": "money",
    "Duration": "duration",
    "File": "file",
    "Process": "process",
    "Response": "Response",
    "Ran": "Ran",
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


_BUILTIN = {
    "List": "list",
    "Dict": "dict",
    "Iterable": "list",
    "Sequence": "list",
    "Mapping": "dict",
}


def is_none(node: ast.AST | None) -> bool:
    """Return whether a node is the literal None."""
    return isinstance(node, ast.Constant) and node.value is None


def type_of(file: PythonFile, node: ast.expr) -> tree.TypeExpr:
    """Return an annotation as a type of the tree."""
    span = file.span(node)
    match node:
        case ast.Constant(value=str() as text):
            return _quoted(file, node, text)
        case ast.Name(id=name):
            return tree.NamedType(*span, _named(file, node, name))
        case ast.Attribute(value=ast.Name(id=root), attr=name) if (
            file.imported.get(root) == "vegakit.vega" and name in VEGA_TYPES
        ):
            return tree.NamedType(*span, VEGA_TYPES[name])
        case ast.BinOp(op=ast.BitOr()):
            return _union(file, node)
        case ast.Subscript(value=ast.Name(id=name), slice=inner):
            return _subscript(file, node, name, inner)
        case _:
            return _refuse(file, node)


def _quoted(file: PythonFile, node: ast.Constant, text: str) -> tree.TypeExpr:
    """`"Finding"`, where a class is named before it is declared."""
    if not text.isidentifier():
        _refuse(file, node)
    return tree.NamedType(*file.span(node), _named(file, node, text))


def _named(file: PythonFile, node: ast.expr, name: str) -> str:
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


def _union(file: PythonFile, node: ast.BinOp) -> tree.TypeExpr:
    for one, other in ((node.left, node.right), (node.right, node.left)):
        if is_none(other) and not is_none(one):
            return tree.OptionalType(*file.span(node), type_of(file, one))
    return file.refuse(
        "python-type",
        node,
        "a value here has one type, or is None",
        "write `X | None`; for other choices declare a record with a field for each",
    )


def _subscript(file: PythonFile, node: ast.Subscript, name: str, inner: ast.expr) -> tree.TypeExpr:
    span, origin = file.span(node), file.imported.get(name, "")
    items = inner.elts if isinstance(inner, ast.Tuple) else [inner]
    if name == "list" and len(items) == 1:
        return tree.ListType(*span, type_of(file, inner))
    if name == "dict" and len(items) == 2:
        if not (isinstance(items[0], ast.Name) and items[0].id == "str"):
            file.refuse("python-type", items[0], "the keys of a dict are text", "write `str`")
        return tree.MapType(*span, type_of(file, items[1]))
    if origin == "typing.Optional":
        return tree.OptionalType(*span, type_of(file, inner))
    if origin == "typing.Literal":
        return tree.ChoiceType(*span, tuple(_choice(file, item) for item in items))
    if origin == "typing.Annotated" and len(items) == 2:
        return _bounded(file, node, items[0], items[1])
    return _refuse(file, node)


def _choice(file: PythonFile, node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return file.refuse("python-type", node, "a choice is text", 'write `Literal["a", "b"]`')


def _bounded(file: PythonFile, node: ast.expr, of: ast.expr, bound: ast.expr) -> tree.TypeExpr:
    inner = type_of(file, of)
    match bound:
        case ast.Call(func=func, args=[ast.Constant(value=int() as most)], keywords=[]) if (
            file.means(func, "vegakit.MaxLen") and _has_length(inner) and most <= MAX_INT
        ):
            at, end = file.span(node)
            return replace(inner, at=at, end=end, most=most)
        case _:
            if isinstance(bound, ast.Call) and isinstance(bound.func, ast.Name):
                _other_bound(file, bound, bound.func)
            return file.refuse(
                "python-type",
                node,
                "only the length of a list, dict or str is bounded by a type",
                "write `Annotated[list[T], MaxLen(20)]`, or `Annotated[str, MaxLen(200)]`",
            )


def _other_bound(file: PythonFile, bound: ast.Call, func: ast.Name) -> None:
    """Refuse `Max(50)`, as other libraries call it."""
    if func.id in ("Max", "MaxLength", "Len", "Length", "max_length", "Size"):
        file.refuse(
            "python-type",
            func,
            f"`{func.id}` is not a bound that Vega knows",
            f"write `MaxLen({', '.join(map(file.source, bound.args))})`, from vegakit",
            _renamed(file, func, "MaxLen"),
        )


def _renamed(file: PythonFile, name: ast.Name, other: str) -> Edit | None:
    """Another name here, and in the import of it, which would fail."""
    edit = file.replaced(name, other)
    aliases = (alias for node in file.imports if node.module == "vegakit" for alias in node.names)
    wrong = next((alias for alias in aliases if alias.name == name.id), None)
    if wrong is None or other in file.imported:
        return with_imports(file, edit, other)
    return joined(file.text, [edit, file.replaced(wrong, other)])


def _has_length(kind: tree.TypeExpr) -> TypeGuard[tree.ListType | tree.MapType | tree.NamedType]:
    return isinstance(kind, tree.ListType | tree.MapType) or is_text(kind)


def is_text(kind: tree.TypeExpr | None) -> bool:
    """Return whether it is `str`, of whatever length."""
    return isinstance(kind, tree.NamedType) and kind.name == "str"


def _refuse(file: PythonFile, node: ast.expr) -> NoReturn:
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
    edit = None
    if isinstance(root, ast.Name) and isinstance(node, ast.Subscript) and name in _BUILTIN:
        edit = file.replaced(root, _BUILTIN[name])
        advice = f"write `{_BUILTIN[name]}[{file.source(node.slice)}]`"
    message = f"`{file.source(node)}` is no type of a program"
    file.refuse("python-type", node, message, advice, edit)


# What an expression is as far as its lines show it: text, list or dict.
#
# Only to choose between functions of the library: `s[1:]` is `str::slice` of a str and
# `list::slice` of a list. The checker holds the choice to the real types.


_STR, _INT = tree.NamedType(0, 0, "str"), tree.NamedType(0, 0, "int")
_FLOAT, _BOOL = tree.NamedType(0, 0, "float"), tree.NamedType(0, 0, "bool")
_RESULTS: dict[str, tree.TypeExpr] = {
    "str": _STR,
    "int": _INT,
    "len": _INT,
    "float": _FLOAT,
}
_GIVEN: dict[str, tree.TypeExpr] = {
    "strip": _STR,
    "lower": _STR,
    "upper": _STR,
    "replace": _STR,
    "join": _STR,
    "split": tree.ListType(0, 0, _STR),
    "keys": tree.ListType(0, 0, _STR),
    "count": _INT,
    "startswith": _BOOL,
    "endswith": _BOOL,
}


def space_of(body: FunctionContext, node: ast.expr) -> str:
    """Return `str`, `list` or `map`, or empty where it cannot be told. Whether it may be None is
    left to the checker, which knows what was tested before."""
    kind = kind_of(body, node)
    match kind.inner if isinstance(kind, tree.OptionalType) else kind:
        case tree.NamedType(name="str") | tree.ChoiceType():
            return "str"
        case tree.ListType():
            return "list"
        case tree.MapType():
            return "map"
        case _:
            return ""


def kind_of(body: FunctionContext, node: ast.expr) -> tree.TypeExpr | None:  # noqa: C901, PLR0912
    """Return the type of an expression as far as its lines show it."""
    match node:
        case ast.Constant(value=value):
            return _constant(value)
        case ast.JoinedStr():
            return _STR
        case ast.Starred(value=of):
            return _item(body, kind_of(body, of), is_slice=False)
        case ast.Name(id=name):
            if name in body.file.constants and not body.is_known(name):
                return _constant(body.file.constants[name].value)
            return _resolved(body, body.kind(name))
        case ast.List(elts=items):
            inner = kind_of(body, items[0]) if items else None
            return tree.ListType(0, 0, inner or tree.NamedType(0, 0, "any"))
        case ast.Dict(keys=[None, *_], values=[of, *_]):
            kind = kind_of(body, of)
            return kind if isinstance(kind, tree.MapType) else None
        case ast.Dict(values=values):
            inner = kind_of(body, values[0]) if values else None
            return tree.MapType(0, 0, inner or tree.NamedType(0, 0, "any"))
        case ast.ListComp():
            return tree.ListType(0, 0, _built(body, node) or tree.NamedType(0, 0, "any"))
        case ast.Compare() | ast.UnaryOp(op=ast.Not()):
            return _BOOL
        case ast.BoolOp(values=[one, *_]):
            kind = kind_of(body, one) or _BOOL
            return kind.inner if isinstance(kind, tree.OptionalType) else kind
        case ast.UnaryOp(operand=of):
            return kind_of(body, of)
        case ast.BinOp(op=ast.Div()):
            return _FLOAT
        case ast.BinOp(left=left, right=right):
            one, other = kind_of(body, left), kind_of(body, right)
            return _FLOAT if _FLOAT in (one, other) else one or other
        case ast.IfExp(body=one, orelse=other):
            first, second = kind_of(body, one), kind_of(body, other)
            return second if isinstance(first, tree.OptionalType) else first or second
        case ast.Attribute(value=of, attr=name):
            return _field(body, kind_of(body, of), name)
        case ast.Subscript(value=of, slice=at):
            return _item(body, kind_of(body, of), is_slice=isinstance(at, ast.Slice))
        case ast.Call():
            return _called(body, node)
        case _:
            return None


def _built(body: FunctionContext, node: ast.ListComp) -> tree.TypeExpr | None:
    """Return the type of what a comprehension gathers, which may depend on its variable."""
    one = node.generators[0]
    if not isinstance(one.target, ast.Name):
        return kind_of(body, node.elt)
    body.scopes.append({one.target.id: _item(body, kind_of(body, one.iter), is_slice=False)})
    try:
        return kind_of(body, node.elt)
    finally:
        body.scopes.pop()


def _constant(value: object) -> tree.TypeExpr | None:
    kinds: dict[type, tree.TypeExpr] = {str: _STR, int: _INT, float: _FLOAT, bool: _BOOL}
    return kinds.get(type(value))


def _resolved(body: FunctionContext, kind: tree.TypeExpr | None) -> tree.TypeExpr | None:
    """Return a type with its name looked up. Numbers and bools are told apart by `==`, so where
    they were written does not matter."""
    if not isinstance(kind, tree.NamedType):
        return kind
    return body.file.aliases.get(kind.name) or _PLACELESS.get(kind.name, kind)


_PLACELESS = {"int": _INT, "float": _FLOAT, "bool": _BOOL}


def _field(body: FunctionContext, of: tree.TypeExpr | None, name: str) -> tree.TypeExpr | None:
    if not isinstance(of, tree.NamedType):
        return None
    record = body.file.records.get(of.name)
    if record is not None:
        return _resolved(body, record.fields.get(name))
    known = PLAIN_TYPES.get(of.name)
    return _of_type(dict(known.fields).get(name)) if isinstance(known, RecordOf) else None


def _item(
    body: FunctionContext, of: tree.TypeExpr | None, *, is_slice: bool
) -> tree.TypeExpr | None:
    match of:
        case tree.ListType(inner=inner) | tree.MapType(inner=inner):
            return of if is_slice else _resolved(body, inner)
        case tree.NamedType(name="str") | tree.ChoiceType():
            return _STR
        case _:
            return None


def _called(body: FunctionContext, node: ast.Call) -> tree.TypeExpr | None:  # noqa: C901, PLR0912
    match node.func:
        case ast.Name() if body.file.means(node.func, "vegakit.race"):
            kind = kind_of(body, ast.List([*node.args[:1]]))
            return kind.inner if isinstance(kind, tree.ListType) else None
        case ast.Name(id="list" | "sorted"):
            return _listed(body, node)
        case ast.Name(id="sum"):
            return _FLOAT if len(node.args) == 2 else _INT
        case ast.Name(id="abs" | "min" | "max"):
            kinds = [kind_of(body, arg) for arg in node.args]
            return _FLOAT if _FLOAT in kinds else next(iter(kinds), None)
        case ast.Name(id="round"):
            return _INT if len(node.args) == 1 else _FLOAT
        case ast.Name(id=name) if name in _RESULTS:
            return _RESULTS[name]
        case ast.Name(id=name) if name in body.file.functions:
            return _resolved(body, body.file.functions[name].result)
        case ast.Name(id=name) if name in body.file.records:
            return tree.NamedType(0, 0, name)
        case ast.Name(id=name) if name in body.file.agents or body.is_known(name):
            return _STR
        case ast.Attribute(attr="ask"):
            return _returned(body, node)
        case ast.Attribute(attr=name) if name in _GIVEN:
            return _GIVEN[name]
        case ast.Attribute(attr="get", value=of) if len(node.args) > 1:
            return _item(body, kind_of(body, of), is_slice=False)
        case ast.Attribute(attr="values", value=of):
            kind = kind_of(body, of)
            return tree.ListType(0, 0, kind.inner) if isinstance(kind, tree.MapType) else None
        case ast.Attribute(value=ast.Attribute(attr=space), attr=name):
            return _from_library(space, name)
        case ast.Attribute(attr="text"):
            return _STR
        case _:
            return None


def _listed(body: FunctionContext, node: ast.Call) -> tree.TypeExpr | None:
    match node.args:
        case [ast.Call(func=ast.Name(id="range"))]:
            return tree.ListType(0, 0, _INT)
        case [ast.Call(func=ast.Name(id="reversed"), args=[of])] | [of]:
            return kind_of(body, of)
        case _:
            return None


def _returned(body: FunctionContext, node: ast.Call) -> tree.TypeExpr | None:
    for keyword in node.keywords:
        if keyword.arg == "returns":
            try:
                return _resolved(body, type_of(body.file, keyword.value))
            except RefusedError:
                return None
    return _STR


def _from_library(space: str, name: str) -> tree.TypeExpr | None:
    row = LIBRARY.get(f"{space}::{name}")
    return _of_type(row.result) if row else None


_WRITTEN: dict[Type, tree.TypeExpr] = {STR: _STR, INT: _INT, FLOAT: _FLOAT, BOOL: _BOOL}


def _of_type(kind: Type | None) -> tree.TypeExpr | None:
    """Return a type of the library as it is written, None where it depends on the arguments."""
    match kind:
        case ListOf(inner=inner):
            return tree.ListType(0, 0, _of_type(inner) or tree.NamedType(0, 0, "any"))
        case MapOf(inner=inner):
            return tree.MapType(0, 0, _of_type(inner) or tree.NamedType(0, 0, "any"))
        case RecordOf(name=name):
            return tree.NamedType(0, 0, name)
        case _:
            return _WRITTEN.get(kind) if kind is not None else None
