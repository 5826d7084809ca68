"""Operators: arithmetic, comparison, logic, and `x if x is not None else y`."""

import ast
from itertools import pairwise

from vegakit.lang.diagnostics import Edit
from vegakit.lang.python.annotations import is_none
from vegakit.lang.python.context import Body, Rule, expression
from vegakit.lang.python.expressions import library
from vegakit.lang.python.kinds import space_of
from vegakit.lang.python.looping import is_made_list, items_in
from vegakit.lang.python.signs import is_natural
from vegakit.lang.python.simple import is_simple
from vegakit.lang.python.words import BINARY, COMPARES
from vegakit.lang.tree import Binary, Expr, Unary, Whole

__all__ = ["OPERATORS"]


def _span(body: Body, node: ast.AST) -> tuple[int, int]:
    span = body.file.span(node)
    return span.at, span.end


def _operand(body: Body, node: ast.expr) -> Expr:
    """A whole number beside a float is the same in both."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return Whole(*_span(body, node), node.value)
    return expression(body, node)


def _binary(body: Body, node: ast.BinOp) -> Expr:
    at, end = _span(body, node)
    if isinstance(node.op, ast.FloorDiv | ast.Mod):
        if isinstance(node.op, ast.Mod) and space_of(body, node.left) == "str":
            body.file.refuse(
                "python-format", node, "`%` formats otherwise than Vega does", "write an f-string"
            )
        op = "/" if isinstance(node.op, ast.FloorDiv) else "%"
        made = Binary(at, end, op, _operand(body, node.left), _operand(body, node.right))
        proven = is_natural(node.left, body.natural) and is_natural(node.right, body.natural)
        body.demand("floor", made, node, is_proven=proven)
        return made
    if isinstance(node.op, ast.BitOr):
        made = Binary(at, end, "+", expression(body, node.left), expression(body, node.right))
        body.demand("maps", made, node)
        return made
    if type(node.op) not in BINARY:
        word = "write `vega.math.pow(x, y)`" if isinstance(node.op, ast.Pow) else "write it out"
        body.file.refuse("python-operator", node, "this operator has no equal here", word)
    if isinstance(node.op, ast.Mult) and (repeated := _repeated(body, node)):
        return repeated
    made = Binary(
        at, end, BINARY[type(node.op)], _operand(body, node.left), _operand(body, node.right)
    )
    if isinstance(node.op, ast.Div):
        body.demand("divide", made, node)
    elif isinstance(node.op, ast.Add):
        body.demand("add", made, node)
    return made


def _repeated(body: Body, node: ast.BinOp) -> Expr | None:
    """`"-" * 20`."""
    if space_of(body, node.left) != "str":
        return None
    if not is_natural(node.right, body.natural):
        body.file.refuse(
            "python-operator",
            node,
            "a text times a number that may be negative is empty in Python, an error here",
            f"write `{body.file.source(node.left)} * max({body.file.source(node.right)}, 0)`",
        )
    left, right = expression(body, node.left), _operand(body, node.right)
    return library(body, node, "str::repeat", left, right)


def _unary(body: Body, node: ast.UnaryOp) -> Expr:
    at, end = _span(body, node)
    match node.op:
        case ast.Not():
            return Unary(at, end, "not", expression(body, node.operand))
        case ast.USub():
            made = Unary(at, end, "-", _operand(body, node.operand))
            if isinstance(made.of, Whole):
                body.demand("whole", made, node)
            return made
        case _:
            return body.file.refuse(
                "python-operator", node, "this sign has no equal here", "leave it out"
            )


def _logic(body: Body, node: ast.BoolOp) -> Expr:
    op = "and" if isinstance(node.op, ast.And) else "or"
    made = expression(body, node.values[0])
    for value in node.values[1:]:
        right = expression(body, value)
        made = Binary(made.at, right.end, op, made, right)
    return made


def _compare(body: Body, node: ast.Compare) -> Expr:
    file, at, end = body.file, *_span(body, node)
    if len(node.ops) > 1:
        terms = [node.left, *node.comparators]
        written = " and ".join(
            file.text[file.span(left).at : file.span(right).end] for left, right in pairwise(terms)
        )
        edit = file.replaced(node, f"({written})") if is_simple(node) else None
        file.refuse(
            "python-chain", node, "comparisons are not chained here", f"write `{written}`", edit
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
        return Binary(at, end, sign, _operand(body, node.left), expression(body, other))
    if isinstance(op, ast.In | ast.NotIn):
        whole = items_in(body, other) if is_made_list(other) else expression(body, other)
        inner = Binary(at, end, "in", _operand(body, node.left), whole)
        return inner if isinstance(op, ast.In) else Unary(at, end, "not", inner)
    left, right = _operand(body, node.left), _operand(body, other)
    return Binary(at, end, COMPARES[type(op)], left, right)


def _conditional(body: Body, node: ast.IfExp) -> Expr:
    """`x if x is not None else y` is `x ?? y`; others are statements."""
    match node.test:
        case ast.Compare(left=left, ops=[ast.IsNot()], comparators=[other]) if (
            is_none(other)
            and is_simple(left)
            and body.file.source(left) == body.file.source(node.body)
        ):
            one, default = expression(body, node.body), expression(body, node.orelse)
            return Binary(*_span(body, node), "??", one, default)
        case _:
            return body.file.refuse(
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
