"""The library by its own names: `vega.file.read(path)` is `file::read(path)`.

What Python would spell otherwise has a name here too: `vega.text(x)` is the text of any value,
`vega.quotient(a, b)` divides ints toward zero, `vega.at(xs, i)` raises below zero.
"""

import ast

from vegakit.lang.diagnostics import did_you_mean
from vegakit.lang.library import LIBRARY, Row
from vegakit.lang.python.annotations import type_of
from vegakit.lang.python.context import Body, File, expression
from vegakit.lang.python.literals import duration, duration_value, money, money_value
from vegakit.lang.python.simple import is_simple
from vegakit.lang.signatures import Parameter
from vegakit.lang.tree import Binary, Call, Cast, Expr, Index, Name
from vegakit.lang.types import DURATION, MONEY

__all__ = ["is_vega", "vega_call"]

_TOP = frozenset({"fail", "link", "exec", "file", "range"})


def is_vega(file: File, node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return file.means(node, "vegakit.vega")


def vega_call(body: Body, node: ast.Call, callee: ast.Attribute) -> Expr:
    path = _path(callee)
    if len(path) == 1 and path[0] in _OWN:
        return _own(body, node, path[0])
    name = "::".join(path)
    row = LIBRARY.get(name) if len(path) == 2 or name in _TOP else None
    if row is None:
        known = [found.replace("::", ".") for found in LIBRARY if "::" in found]
        said = ".".join(path)
        body.file.refuse(
            "python-vega",
            callee,
            f"there is no `vega.{said}`",
            _meant(said, [*known, *_OWN, *_TOP]),
        )
    return _library(body, node, row)


def _meant(said: str, known: list[str]) -> str:
    advice = did_you_mean(said, known)
    if advice.startswith("one of"):
        return "docs/reference/language.md lists the library; `a::b` is written `vega.a.b`"
    return advice.replace("`", "`vega.", 1)


def _path(callee: ast.expr) -> list[str]:
    path: list[str] = []
    while isinstance(callee, ast.Attribute):
        path.insert(0, callee.attr.rstrip("_"))
        callee = callee.value
    return path


def _library(body: Body, node: ast.Call, row: Row) -> Expr:
    span = body.file.span(node)
    params = {param.name: param for param in row.params}
    values: list[Expr] = []
    names: list[str] = []
    for param, arg in zip(row.params, node.args, strict=False):
        values.append(_value(body, arg, param))
        names.append("")
    for arg in node.args[len(row.params) :]:
        values.append(expression(body, arg))
        names.append("")
    for keyword in node.keywords:
        name = (keyword.arg or "").rstrip("_")
        values.append(_value(body, keyword.value, params.get(name)))
        names.append(name)
    at = body.file.span(node.func)
    callee = Name(at.at, at.end, row.name)
    return Call(span.at, span.end, callee, tuple(values), tuple(names))


def _value(body: Body, node: ast.expr, param: Parameter | None) -> Expr:
    if param is not None and param.type == DURATION:
        return duration_value(body, node)
    if param is not None and param.type == MONEY:
        return money_value(body, node)
    return expression(body, node)


def _own(body: Body, node: ast.Call, name: str) -> Expr:
    file, span = body.file, body.file.span(node)
    count, sample = _OWN[name]
    if len(node.args) != count or node.keywords:
        file.refuse("python-vega", node, f"`vega.{name}` is not written so", f"write `{sample}`")
    args = node.args
    match name:
        case "money":
            return money(file, args[0])
        case "duration":
            return duration(file, args[0])
        case "text":
            made = expression(body, args[0])
            return Call(span.at, span.end, Name(span.at, span.end, "str"), (made,), ("",))
        case "reason":
            return _reason(body, node, args[0])
        case "cast":
            made = expression(body, args[0])
            return Cast(span.at, span.end, made, type_of(file, args[1]))
        case "default":
            one, other = expression(body, args[0]), _plain_default(body, args[1])
            return Binary(span.at, span.end, "??", one, other)
        case "at":
            one, other = expression(body, args[0]), expression(body, args[1])
            return Index(span.at, span.end, one, other)
        case "quotient" | "remainder":
            one, other = expression(body, args[0]), expression(body, args[1])
            return Binary(span.at, span.end, "/" if name == "quotient" else "%", one, other)
        case _:
            return file.refuse("python-vega", node, f"`vega.{name}` cannot stand here", sample)


def _plain_default(body: Body, node: ast.expr) -> Expr:
    if not is_simple(node):
        body.file.refuse(
            "python-order",
            node,
            "a default that calls something would be worked out only when it is needed",
            "write `if x is None:` and assign",
        )
    return expression(body, node)


def _reason(body: Body, node: ast.Call, of: ast.expr) -> Expr:
    if not (isinstance(of, ast.Name) and of.id in body.reasons):
        body.file.refuse(
            "python-vega",
            node,
            "this is no error that was caught",
            "write `except AgentFailed as e:` and `vega.reason(e)`",
        )
    span = body.file.span(node)
    return Name(span.at, span.end, of.id)


_OWN: dict[str, tuple[int, str]] = {
    "at": (2, "vega.at(xs, i)"),
    "default": (2, "vega.default(x, 0)"),
    "cast": (2, "vega.cast(value, Finding)"),
    "duration": (1, 'vega.duration("30s")'),
    "limit": (2, "while vega.limit(10, x > 0):"),
    "mcp": (1, 'github = vega.mcp("github")'),
    "money": (1, 'vega.money("$1.50")'),
    "quotient": (2, "vega.quotient(a, b)"),
    "reason": (1, "vega.reason(e)"),
    "remainder": (2, "vega.remainder(a, b)"),
    "text": (1, "vega.text(x)"),
    "yaml": (1, 'tools=[vega.yaml("tools.yaml")]'),
}
