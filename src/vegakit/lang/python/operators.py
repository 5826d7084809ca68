"""Operators, and the methods of str, list and dict (pure)."""

import ast
from itertools import pairwise

from vegakit.lang.diagnostics import Edit, did_you_mean
from vegakit.lang.python.analysis import is_natural, is_pure, target_root
from vegakit.lang.python.context import FunctionContext, Rule, expression
from vegakit.lang.python.expressions import is_made_list, items_in, library
from vegakit.lang.python.sends import METHODS_OF_PROCESSES
from vegakit.lang.python.subset import BINARY, COMPARES, METHOD_EDITS, METHODS, NO_METHODS
from vegakit.lang.python.types import is_none, kind_of, space_of
from vegakit.lang.syntax import tree

# Operators: arithmetic, comparison, logic, and `x if x is not None else y`.


def _operand(body: FunctionContext, node: ast.expr) -> tree.Expr:
    """A whole number beside a float is the same in both."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return tree.Whole(*body.span(node), node.value)
    return expression(body, node)


def _binary(body: FunctionContext, node: ast.BinOp) -> tree.Expr:
    at, end = body.span(node)
    if isinstance(node.op, ast.FloorDiv | ast.Mod):
        if isinstance(node.op, ast.Mod) and space_of(body, node.left) == "str":
            body.refuse(
                "python-format", node, "`%` formats otherwise than Vega does", "write an f-string"
            )
        return _rounded_down(body, node)
    if isinstance(node.op, ast.BitOr):
        made = tree.Binary(at, end, "+", expression(body, node.left), expression(body, node.right))
        body.demand("maps", made, node)
        return made
    if type(node.op) not in BINARY:
        word = "write `vega.math.pow(x, y)`" if isinstance(node.op, ast.Pow) else "write it out"
        body.refuse("python-operator", node, "this operator has no equal here", word)
    if isinstance(node.op, ast.Mult) and (repeated := _repeated(body, node)):
        return repeated
    if isinstance(node.op, ast.Div) and _kinds(body, node) == ("int", "int"):
        return _library_of_two(body, node, "math::ratio")
    made = tree.Binary(
        at, end, BINARY[type(node.op)], _operand(body, node.left), _operand(body, node.right)
    )
    if isinstance(node.op, ast.Div):
        body.demand("divide", made, node)
    elif isinstance(node.op, ast.Add):
        body.demand("add", made, node)
    return made


def _kinds(body: FunctionContext, node: ast.BinOp) -> tuple[str, str]:
    """Return the names of the types of both sides, empty where they cannot be told."""
    one, other = (
        kind.name if isinstance(kind := kind_of(body, side), tree.NamedType) else ""
        for side in (node.left, node.right)
    )
    return one, other


def _library_of_two(body: FunctionContext, node: ast.BinOp, name: str) -> tree.Expr:
    return library(body, node, name, _operand(body, node.left), _operand(body, node.right))


def _rounded_down(body: FunctionContext, node: ast.BinOp) -> tree.Expr:
    """`//` and `%`: of ints that are never below zero they are the operators of the machine."""
    is_whole = isinstance(node.op, ast.FloorDiv)
    proven = is_natural(node.left, body.natural) and is_natural(node.right, body.natural)
    if not proven and "float" not in _kinds(body, node):
        return _library_of_two(body, node, "math::floor_div" if is_whole else "math::mod")
    left, right = _operand(body, node.left), _operand(body, node.right)
    made = tree.Binary(*body.span(node), "/" if is_whole else "%", left, right)
    body.demand("floor", made, node)
    return made


def _repeated(body: FunctionContext, node: ast.BinOp) -> tree.Expr | None:
    """`"-" * 20`."""
    if space_of(body, node.left) != "str":
        return None
    if not is_natural(node.right, body.natural):
        body.refuse(
            "python-operator",
            node,
            "a text times a number that may be negative is empty in Python, an error here",
            f"write `{(written := _never_negative(body, node))}`",
            body.file.replaced(node, written),
        )
    left, right = expression(body, node.left), _operand(body, node.right)
    return library(body, node, "str::repeat", left, right)


def _never_negative(body: FunctionContext, node: ast.BinOp) -> str:
    return f"{body.file.source(node.left)} * max({body.file.source(node.right)}, 0)"


def _unary(body: FunctionContext, node: ast.UnaryOp) -> tree.Expr:
    at, end = body.span(node)
    match node.op:
        case ast.Not():
            return tree.Unary(at, end, "not", expression(body, node.operand))
        case ast.USub():
            made = tree.Unary(at, end, "-", _operand(body, node.operand))
            if isinstance(made.of, tree.Whole):
                body.demand("whole", made, node)
            return made
        case _:
            return body.refuse(
                "python-operator", node, "this sign has no equal here", "leave it out"
            )


def _logic(body: FunctionContext, node: ast.BoolOp) -> tree.Expr:
    op = "and" if isinstance(node.op, ast.And) else "or"
    made = expression(body, node.values[0])
    for value in node.values[1:]:
        right = expression(body, value)
        made = tree.Binary(made.at, right.end, op, made, right)
    return made


def _compare(body: FunctionContext, node: ast.Compare) -> tree.Expr:
    file, at, end = body.file, *body.span(node)
    if len(node.ops) > 1:
        terms = [node.left, *node.comparators]
        if all(map(is_pure, terms[1:-1])):
            return expression(body, _unchained(node, terms))
        middle = next(term for term in terms[1:-1] if not is_pure(term))
        file.refuse(
            "python-chain",
            node,
            "what stands between two comparisons would be worked out twice here",
            f"give it a name on a line before: `x = {file.source(middle)}`",
        )
    op, other = node.ops[0], node.comparators[0]
    if isinstance(op, ast.Is | ast.IsNot):
        sign = "==" if isinstance(op, ast.Is) else "!="
        if not is_none(other):
            written = f"{file.source(node.left)} {sign} {file.source(other)}"
            file.refuse(
                "python-is",
                node,
                "values here have no identity, so `is` tests only for None",
                f"write `{written}`",
                Edit(at, end, written),
            )
        return tree.Binary(at, end, sign, _operand(body, node.left), expression(body, other))
    if isinstance(op, ast.In | ast.NotIn):
        whole = items_in(body, other) if is_made_list(other) else expression(body, other)
        inner = tree.Binary(at, end, "in", _operand(body, node.left), whole)
        return inner if isinstance(op, ast.In) else tree.Unary(at, end, "not", inner)
    left, right = _operand(body, node.left), _operand(body, other)
    return tree.Binary(at, end, COMPARES[type(op)], left, right)


def _unchained(node: ast.Compare, terms: list[ast.expr]) -> ast.expr:
    """`a < b < c` is `a < b and b < c` where `b` may be worked out twice."""
    links = zip(pairwise(terms), node.ops, strict=True)
    pairs: list[ast.expr] = [
        ast.copy_location(ast.Compare(left, [op], [right]), node) for (left, right), op in links
    ]
    return ast.copy_location(ast.BoolOp(ast.And(), pairs), node)


def _conditional(body: FunctionContext, node: ast.IfExp) -> tree.Expr:
    """`x if x is not None else y` is `x ?? y`; others are statements."""
    match node.test:
        case ast.Compare(left=left, ops=[ast.IsNot()], comparators=[other]) if (
            is_none(other)
            and is_pure(left)
            and body.file.source(left) == body.file.source(node.body)
        ):
            one, default = expression(body, node.body), expression(body, node.orelse)
            return tree.Binary(*body.span(node), "??", one, default)
        case _:
            return body.refuse(
                "python-conditional",
                node,
                "`a if c else b` stands alone behind `=` or `return`",
                "assign it to a variable first, or write `if … else …`",
            )


OPERATORS: dict[type, Rule] = {
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _logic,
    ast.Compare: _compare,
    ast.IfExp: _conditional,
}


# Methods of str, list and dict.


def method(body: FunctionContext, node: ast.Call, callee: ast.Attribute) -> tree.Expr:
    """Return a method of str, list or dict as a call of the library."""
    if callee.attr in _MADE:
        return _MADE[callee.attr](body, node, callee)
    if callee.attr in METHODS:
        return _method(body, node, callee)
    return _no_method(body, node, callee)


def plain_arguments(body: FunctionContext, node: ast.Call, least: int, most: int) -> list[ast.expr]:
    """Return the arguments of a builtin. Refuse named ones, too few and too many."""
    name = body.file.source(node.func)
    if node.keywords or not least <= len(node.args) <= most:
        count = str(least) if least == most else f"{least} to {most}"
        extra = f", and no `{node.keywords[0].arg}=`" if node.keywords else ""
        body.refuse(
            "python-builtin",
            node,
            f"`{name}` takes {count} argument{'' if count == '1' else 's'} here{extra}",
            "leave the rest out",
        )
    return node.args


def _method(body: FunctionContext, node: ast.Call, callee: ast.Attribute) -> tree.Expr:
    called, count = METHODS[callee.attr]
    if callee.attr == "split" and not node.args and not node.keywords:
        return library(body, node, "str::words", expression(body, callee.value))
    args = plain_arguments(body, node, count, count)
    if callee.attr in ("split", "replace") and not _is_something(args[0]):
        body.refuse(
            "python-method",
            args[0],
            f"`{callee.attr}` of an empty text differs, so what is looked for is written out",
            f"write it in quotes, or `vega.{called.replace('::', '.')}(…)`",
        )
    values = (expression(body, arg) for arg in args)
    return library(body, node, called, expression(body, callee.value), *values)


def _is_something(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value != ""


def _join(body: FunctionContext, node: ast.Call, callee: ast.Attribute) -> tree.Expr:
    [parts] = plain_arguments(body, node, 1, 1)
    if not is_pure(callee.value):
        body.refuse(
            "python-order", callee.value, "what joins is read last here", "give it a name first"
        )
    items = items_in(body, parts)
    return library(body, node, "str::join", items, expression(body, callee.value))


def _get(body: FunctionContext, node: ast.Call, callee: ast.Attribute) -> tree.Expr:
    """Python works a default out before it looks; where it calls nothing, that is not seen."""
    args = plain_arguments(body, node, 1, 2)
    of, key = expression(body, callee.value), expression(body, args[0])
    if len(args) > 1 and not is_pure(args[1]):
        return library(body, node, "map::get_or", of, key, expression(body, args[1]))
    made = library(body, node, "map::get", of, key)
    if len(args) == 1:
        return made
    body.demand("default", of, node)
    return tree.Binary(*body.span(node), "??", made, expression(body, args[1]))


def _count(body: FunctionContext, node: ast.Call, callee: ast.Attribute) -> tree.Expr:
    [what] = plain_arguments(body, node, 1, 1)
    space = space_of(body, callee.value)
    if space not in ("str", "list") or (space == "str" and not _is_something(what)):
        body.refuse(
            "python-method",
            node,
            "it cannot be told what is counted",
            "write `vega.list.count(xs, x)` or `vega.str.count(text, part)`",
        )
    return library(
        body, node, f"{space}::count", expression(body, callee.value), expression(body, what)
    )


def _append(body: FunctionContext, node: ast.Call, callee: ast.Attribute) -> tree.Expr:
    return body.refuse(
        "python-in-place",
        node,
        "`append` stands alone on its line, behind the name of a variable",
        "write `xs = xs + [x]`",
    )


def _no_method(body: FunctionContext, node: ast.Call, callee: ast.Attribute) -> tree.Expr:
    of = body.file.source(callee.value)
    root = target_root(callee.value)
    if isinstance(root, ast.Name) and root.id in body.file.foreign:
        expression(body, root)
    if callee.attr in NO_METHODS:
        why, advice = NO_METHODS[callee.attr]
        made = METHOD_EDITS.get(callee.attr)
        edit = body.file.rewritten(node, made, callee.value) if made else None
        said = f"`{callee.attr}` {why}"
        return body.refuse("python-method", node, said, advice.format(of=of), edit)
    known = [*METHODS, *_MADE, *METHODS_OF_PROCESSES]
    return body.refuse(
        "python-method",
        node,
        f"there is no method `{callee.attr}` here",
        did_you_mean(callee.attr, known),
    )


_MADE = {"join": _join, "get": _get, "count": _count, "append": _append}
