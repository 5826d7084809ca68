"""Methods of str, list and dict."""

import ast

from vegakit.lang.diagnostics import did_you_mean
from vegakit.lang.python.context import Body, expression
from vegakit.lang.python.expressions import library
from vegakit.lang.python.kinds import space_of
from vegakit.lang.python.looping import items_in
from vegakit.lang.python.owning import target_root
from vegakit.lang.python.sends import METHODS_OF_PROCESSES
from vegakit.lang.python.simple import is_simple
from vegakit.lang.python.words import METHODS, NO_METHODS
from vegakit.lang.tree import Binary, Expr

__all__ = ["method", "plain_arguments"]


def method(body: Body, node: ast.Call, callee: ast.Attribute) -> Expr:
    if callee.attr in _MADE:
        return _MADE[callee.attr](body, node, callee)
    if callee.attr in METHODS:
        return _method(body, node, callee)
    return _no_method(body, node, callee)


def plain_arguments(body: Body, node: ast.Call, least: int, most: int) -> list[ast.expr]:
    name = body.file.source(node.func)
    if node.keywords or not least <= len(node.args) <= most:
        count = str(least) if least == most else f"{least} to {most}"
        extra = f", and no `{node.keywords[0].arg}=`" if node.keywords else ""
        advice = "write `vega.list.reverse(sorted(xs))` for the other way round; there is no key"
        body.file.refuse(
            "python-builtin",
            node,
            f"`{name}` takes {count} argument{'' if count == '1' else 's'} here{extra}",
            advice if name == "sorted" else "leave the rest out",
        )
    return node.args


def _method(body: Body, node: ast.Call, callee: ast.Attribute) -> Expr:
    called, count = METHODS[callee.attr]
    if callee.attr == "split" and not node.args and not node.keywords:
        return library(body, node, "str::words", expression(body, callee.value))
    args = plain_arguments(body, node, count, count)
    if callee.attr in ("split", "replace") and not _is_something(args[0]):
        body.file.refuse(
            "python-method",
            args[0],
            f"`{callee.attr}` of an empty text differs, so what is looked for is written out",
            f"write it in quotes, or `vega.{called.replace('::', '.')}(…)`",
        )
    values = (expression(body, arg) for arg in args)
    return library(body, node, called, expression(body, callee.value), *values)


def _is_something(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value != ""


def _join(body: Body, node: ast.Call, callee: ast.Attribute) -> Expr:
    [parts] = plain_arguments(body, node, 1, 1)
    if not is_simple(callee.value):
        body.file.refuse(
            "python-order", callee.value, "what joins is read last here", "give it a name first"
        )
    items = items_in(body, parts)
    return library(body, node, "str::join", items, expression(body, callee.value))


def _get(body: Body, node: ast.Call, callee: ast.Attribute) -> Expr:
    args = plain_arguments(body, node, 1, 2)
    of, key = expression(body, callee.value), expression(body, args[0])
    made = library(body, node, "map::get", of, key)
    if len(args) == 1:
        return made
    if not is_simple(args[1]):
        body.file.refuse(
            "python-order",
            args[1],
            "here a default is worked out only when it is needed",
            "give it a name first",
        )
    body.demand("default", of, node)
    span = body.file.span(node)
    return Binary(span.at, span.end, "??", made, expression(body, args[1]))


def _count(body: Body, node: ast.Call, callee: ast.Attribute) -> Expr:
    [what] = plain_arguments(body, node, 1, 1)
    space = space_of(body, callee.value)
    if space not in ("str", "list") or (space == "str" and not _is_something(what)):
        body.file.refuse(
            "python-method",
            node,
            "it cannot be told what is counted",
            "write `vega.list.count(xs, x)` or `vega.str.count(text, part)`",
        )
    return library(
        body, node, f"{space}::count", expression(body, callee.value), expression(body, what)
    )


def _append(body: Body, node: ast.Call, callee: ast.Attribute) -> Expr:
    return body.file.refuse(
        "python-in-place",
        node,
        "`append` stands alone on its line, behind the name of a variable",
        "write `xs = xs + [x]`",
    )


def _no_method(body: Body, node: ast.Call, callee: ast.Attribute) -> Expr:
    of = body.file.source(callee.value)
    root = target_root(callee.value)
    if isinstance(root, ast.Name) and root.id in body.file.foreign:
        expression(body, root)
    if callee.attr in NO_METHODS:
        why, advice = NO_METHODS[callee.attr]
        return body.file.refuse(
            "python-method", node, f"`{callee.attr}` {why}", advice.format(of=of)
        )
    known = [*METHODS, *_MADE, *METHODS_OF_PROCESSES]
    return body.file.refuse(
        "python-method",
        node,
        f"there is no method `{callee.attr}` here",
        did_you_mean(callee.attr, known),
    )


_MADE = {"join": _join, "get": _get, "count": _count, "append": _append}
