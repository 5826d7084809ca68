"""Operators, and the methods of str, list and dict (pure)."""

import ast
from itertools import pairwise

from vegakit.lang.diagnostics import Edit, did_you_mean, nearest
from vegakit.lang.python.analysis import is_natural, is_pure, target_root
from vegakit.lang.python.context import (
    FunctionContext,
    RefusedError,
    Rule,
    expression,
)
from vegakit.lang.python.expressions import is_made_list, items_in, library
from vegakit.lang.python.sends import METHODS_OF_PROCESSES
from vegakit.lang.python.subset import BINARY, COMPARES, METHOD_EDITS, METHODS, NO_METHODS
from vegakit.lang.python.types import is_none, kind_of, space_of
from vegakit.lang.syntax import tree
from vegakit.lang.syntax.lexer import MAX_INT

# Operators: arithmetic, comparison, logic, and `x if x is not None else y`.


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
        _no_operator(body, node)
    if isinstance(node.op, ast.Mult) and (repeated := _repeated(body, node)):
        return repeated
    if isinstance(node.op, ast.Div) and _kinds(body, node) == ("int", "int"):
        return _library_of_two(body, node, "math::ratio")
    made = tree.Binary(
        at, end, BINARY[type(node.op)], expression(body, node.left), expression(body, node.right)
    )
    if isinstance(node.op, ast.Div):
        body.demand("divide", made, node)
    elif isinstance(node.op, ast.Add):
        body.demand("add", made, node)
    return made


def _no_operator(body: FunctionContext, node: ast.BinOp) -> None:
    edit, word, left = None, "write it out", body.file.source(node.left)
    if isinstance(node.op, ast.Pow):
        word = "write `vega.math.pow(x, y)`, which is a float"
        if isinstance(node.right, ast.Constant) and node.right.value == 2 and is_pure(node.left):
            left = left if isinstance(node.left, ast.Name | ast.Constant) else f"({left})"
            word, edit = f"write `{left} * {left}`", body.file.replaced(node, f"({left} * {left})")
    sign = body.file.text[body.span(node.left).end : body.span(node.right).at].strip(" ()")
    body.refuse("python-operator", node, f"there is no operator `{sign}` here", word, edit)


def _kinds(body: FunctionContext, node: ast.BinOp) -> tuple[str, str]:
    """Return the names of the types of both sides, empty where they cannot be told."""
    one, other = (
        kind.name if isinstance(kind := kind_of(body, side), tree.NamedType) else ""
        for side in (node.left, node.right)
    )
    return one, other


def _library_of_two(body: FunctionContext, node: ast.BinOp, name: str) -> tree.Expr:
    return library(body, node, name, expression(body, node.left), expression(body, node.right))


def _rounded_down(body: FunctionContext, node: ast.BinOp) -> tree.Expr:
    """`//` and `%`: of ints that are never below zero they are the operators of the machine."""
    is_whole = isinstance(node.op, ast.FloorDiv)
    proven = is_natural(node.left, body.natural) and is_natural(node.right, body.natural)
    if not proven and "float" not in _kinds(body, node):
        return _library_of_two(body, node, "math::floor_div" if is_whole else "math::mod")
    left, right = expression(body, node.left), expression(body, node.right)
    made = tree.Binary(*body.span(node), "/" if is_whole else "%", left, right)
    body.demand("floor", made, node)
    return made


def _repeated(body: FunctionContext, node: ast.BinOp) -> tree.Expr | None:
    """`"-" * 20`."""
    if space_of(body, node.left) == "list":
        _no_repeated_list(body, node)
    if space_of(body, node.left) != "str":
        return None
    match node.right:
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int())):
            edit = body.file.replaced(node, '""') if is_pure(node.left) else None
            said = "a text times a number below zero is empty in Python, an error here"
            body.refuse("python-operator", node, said, 'write `""`', edit)
        case _:
            pass
    if not is_natural(node.right, body.natural):
        body.refuse(
            "python-operator",
            node,
            "a text times a number that may be negative is empty in Python, an error here",
            f"write `{(written := _never_negative(body, node))}`",
            body.file.replaced(node, written),
        )
    left, right = expression(body, node.left), expression(body, node.right)
    return library(body, node, "str::repeat", left, right)


def _no_repeated_list(body: FunctionContext, node: ast.BinOp) -> None:
    edit, advice, source = None, "write `[x for _ in range(n)]`", body.file.source
    match node.left:
        case ast.List(elts=[item]):
            written = f"[{source(item)} for _ in range({source(node.right)})]"
            advice = f"write `{written}`"
            edit = body.file.replaced(node, written) if is_pure(item) else None
        case _:
            pass
    body.refuse("python-operator", node, "a list is not multiplied here", advice, edit)


def _never_negative(body: FunctionContext, node: ast.BinOp) -> str:
    return f"{body.file.source(node.left)} * max({body.file.source(node.right)}, 0)"


def _unary(body: FunctionContext, node: ast.UnaryOp) -> tree.Expr:
    at, end = body.span(node)
    match node.op:
        case ast.Not():
            return tree.Unary(at, end, "not", expression(body, node.operand))
        case ast.USub():
            match node.operand:
                case ast.Constant(value=int() as number) if number == MAX_INT + 1:
                    least = tree.Whole(*body.span(node.operand), number)
                    return tree.Unary(at, end, "-", least)
                case _:
                    return tree.Unary(at, end, "-", expression(body, node.operand))
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
        return tree.Binary(at, end, sign, expression(body, node.left), expression(body, other))
    if isinstance(op, ast.In | ast.NotIn):
        whole = items_in(body, other) if is_made_list(other) else expression(body, other)
        inner = tree.Binary(at, end, "in", expression(body, node.left), whole)
        return inner if isinstance(op, ast.In) else tree.Unary(at, end, "not", inner)
    left, right = expression(body, node.left), expression(body, other)
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
        method_ = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        body.refuse(
            "python-builtin",
            node,
            f"`{name}` takes {count} argument{'' if count == '1' else 's'} here{extra}",
            _FEWER.get(method_, f"write it with {count}; what the rest asks for is not here"),
        )
    return node.args


_FEWER = {
    "split": "it splits at every one: cut at `vega.str.find(text, part)` to split once",
    "strip": "it takes blanks only: test `.startswith(…)` and cut, `text[1:]`",
    "replace": "it replaces every one: cut at `vega.str.find(text, part)` to replace one",
    "startswith": "cut the text before: `text[2:].startswith(…)`",
    "endswith": "cut the text before: `text[:2].endswith(…)`",
    "count": "cut the text before: `text[2:].count(…)`",
}
"""What to do instead of more arguments, whose loss would change the value."""


def _method(body: FunctionContext, node: ast.Call, callee: ast.Attribute) -> tree.Expr:
    called, count = METHODS[callee.attr]
    if callee.attr == "split" and not node.args and not node.keywords:
        return library(body, node, "str::words", expression(body, callee.value))
    args = plain_arguments(body, node, count, count)
    if callee.attr in ("startswith", "endswith") and isinstance(args[0], ast.Tuple):
        _two_tests(body, node, callee, args[0])
    if callee.attr in ("split", "replace") and not _is_something(args[0]):
        body.refuse(
            "python-method",
            args[0],
            f"`{callee.attr}` of an empty text differs, so what is looked for is written out",
            f"write it in quotes, or `vega.{called.replace('::', '.')}(…)`",
        )
    values = (expression(body, arg) for arg in args)
    return library(body, node, called, expression(body, callee.value), *values)


def _two_tests(body: FunctionContext, node: ast.Call, callee: ast.Attribute, of: ast.Tuple) -> None:
    source = body.file.source
    tests = " or ".join(f"{source(callee)}({source(one)})" for one in of.elts)
    edit = body.file.replaced(node, f"({tests})") if is_pure(callee.value) else None
    said = f"`{callee.attr}` takes one text here"
    body.refuse("python-method", node, said, f"write `({tests})`", edit)


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
    if callee.attr in body.file.methods or (
        isinstance(root, ast.Name) and root.id in {*body.unread, *body.file.unread}
    ):
        raise RefusedError
    _no_open_file(body, node, callee)
    if callee.attr in NO_METHODS:
        why, advice = NO_METHODS[callee.attr]
        made = METHOD_EDITS.get(callee.attr)
        if callee.attr == "pop" and space_of(body, callee.value) == "map":
            why = "changes the dict in place"
            advice, made = "take `{of}[key]`, then write `{of} = vega.map.remove({of}, key)`", None
            if len(node.args) == 1 and isinstance(callee.value, ast.Name):
                made = "{of} = vega.map.remove({of}, {args})"
        edit = body.file.rewritten(node, made, callee.value) if made else None
        said = f"`{callee.attr}` {why}"
        return body.refuse("python-method", node, said, advice.format(of=of), edit)
    known = _OF_SPACES.get(space_of(body, callee.value) or "", ())
    known = known or (*METHODS, *_MADE, *METHODS_OF_PROCESSES)
    where, close = body.file.last_name(callee), nearest(callee.attr, known)
    return body.refuse(
        "python-method",
        where,
        f"there is no method `{callee.attr}` here",
        did_you_mean(callee.attr, known),
        Edit(*where, close) if close else None,
    )


def _no_open_file(body: FunctionContext, node: ast.Call, callee: ast.Attribute) -> None:
    """Refuse `open(path).read()` as a whole."""
    file = body.file
    match callee:
        case ast.Attribute(value=ast.Call(func=ast.Name(id="open"), args=[path, *_]), attr=attr):
            pass
        case _:
            return
    advice, edit = "write `vega.file.read(path)`", None
    if attr == "read" and not node.args:
        written = f"vega.file.read({file.source(path)})"
        advice, edit = (
            f"write `{written}`",
            file.written(node, written),
        )
    elif attr == "write":
        advice = f"write `vega.file.write({file.source(path)}, text)`"
    body.refuse("python-builtin", node, "`open` reads and writes files", advice, edit)


_OF_SPACES = {
    "str": (*METHODS, "join", "count"),
    "list": ("append", "count"),
    "map": ("get", "keys", "values", "items"),
}
_MADE = {"join": _join, "get": _get, "count": _count, "append": _append}
