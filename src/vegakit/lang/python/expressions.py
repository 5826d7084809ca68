"""Expressions: literals, names, indexing, comprehensions, and what a loop iterates over (pure)."""

import ast
from math import isfinite

from msgspec import Struct

from vegakit.lang.diagnostics import Edit
from vegakit.lang.python.analysis import is_natural
from vegakit.lang.python.context import (
    FunctionContext,
    RefusedError,
    Rule,
    check_variable_name,
    expression,
)
from vegakit.lang.python.subset import NO_EXPRESSIONS
from vegakit.lang.python.types import kind_of, space_of
from vegakit.lang.syntax import tree

# What a loop may walk over: lists, dicts, `range`, `enumerate`, `items`, streams.


_STR, _INT = tree.NamedType(0, 0, "str"), tree.NamedType(0, 0, "int")


class LoopSource(Struct):
    """`pairs` where two variables are wanted; `kind` of the item, and `key` of what is first."""

    value: tree.Expr
    pairs: bool = False
    kind: tree.TypeExpr | None = None
    key: tree.TypeExpr | None = None


def loop_source(body: FunctionContext, node: ast.expr) -> LoopSource:
    """Return what a `for` or a comprehension walks over."""
    match node:
        case ast.Call(func=ast.Name(id="range"), args=args, keywords=[]):
            return LoopSource(_range(body, node, args), kind=_INT)
        case ast.Call(func=ast.Name(id="enumerate"), args=[of], keywords=[]):
            inner = loop_source(body, of)
            if inner.pairs:
                _no_pairs(body, of)
            if isinstance(kind_of(body, of), tree.MapType):
                return LoopSource(_called(body, of, "map::keys", inner.value), True, _STR, _INT)
            body.demand("listed", inner.value, node)
            return LoopSource(inner.value, True, inner.kind, _INT)
        case ast.Call(func=ast.Name(id="enumerate")):
            return body.refuse(
                "python-loop", node, "`enumerate` counts from 0 here", "add to the index instead"
            )
        case ast.Call(func=ast.Name(id="reversed"), args=[of], keywords=[]):
            over = _called(body, node, "list::reverse", expression(body, of))
            return LoopSource(over, kind=_item(body, of))
        case ast.Call(func=ast.Attribute(value=of, attr="items"), args=[], keywords=[]):
            over = expression(body, of)
            body.demand("mapped", over, node)
            return LoopSource(over, True, _item(body, of, values=True), _STR)
        case ast.Call(func=ast.Attribute(value=of, attr="keys"), args=[], keywords=[]):
            return LoopSource(_called(body, node, "map::keys", expression(body, of)), kind=_STR)
        case ast.Call(func=ast.Attribute(value=of, attr="values"), args=[], keywords=[]):
            over = _called(body, node, "map::values", expression(body, of))
            return LoopSource(over, kind=_item(body, of, values=True))
        case _:
            return LoopSource(expression(body, node), kind=_item(body, node))


def items_in(body: FunctionContext, node: ast.expr) -> tree.Expr:
    """Return a list that is made on the spot: in `sorted(…)`, `list(…)`, `x in …`."""
    over = loop_source(body, node)
    if over.pairs:
        _no_pairs(body, node)
    if not is_made_list(node):
        _no_list(body, node)
    return over.value


def _no_list(body: FunctionContext, node: ast.expr) -> None:
    """Refuse a dict, which is its keys in Python, and a text, which is its characters."""
    file, space = body.file, space_of(body, node)
    source = file.source(node)
    if space == "map":
        said, written = "a dict is no list of its keys here", f"{source}.keys()"
    elif space == "str":
        said, written = "a text is no list of its characters here", f'vega.str.split({source}, "")'
    else:
        return
    body.refuse("python-loop", node, said, f"write `{written}`", file.written(node, written))


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


def _no_pairs(body: FunctionContext, node: ast.expr) -> None:
    advice = "write a `for` with two names"
    match node:
        case ast.Call(func=ast.Attribute(value=of, attr="items")):
            source = body.file.source(of)
            advice = f"take its keys, `{source}.keys()`, and `{source}[key]` of each"
        case _:
            pass
    body.refuse("python-loop", node, "there are no pairs here", advice)


def _called(body: FunctionContext, node: ast.expr, name: str, of: tree.Expr) -> tree.Expr:
    span = body.span(node)
    return tree.Call(*span, tree.Name(*span, name), (of,), ("",))


def _range(body: FunctionContext, node: ast.Call, args: list[ast.expr]) -> tree.Expr:
    if len(args) not in (1, 2):
        body.refuse(
            "python-loop",
            node,
            "`range` has no step here",
            "walk over `range(n)` and multiply inside the loop",
        )
    span = body.span(node)
    given = tuple(expression(body, arg) for arg in args)
    return tree.Call(*span, tree.Name(*span, "range"), given, ("",) * len(given))


def _item(body: FunctionContext, node: ast.expr, *, values: bool = False) -> tree.TypeExpr | None:
    """Of a dict its keys, or with `values` what they lead to."""
    match kind_of(body, node):
        case tree.ListType(inner=inner):
            return inner
        case tree.MapType(inner=inner):
            return inner if values else _STR
        case _:
            return None


# Expressions: literals, names, places and comprehensions.


_LARGEST = 2**63 - 1


def library(body: FunctionContext, node: ast.AST, name: str, *args: tree.Expr) -> tree.Call:
    """Return a call of the library at the place of `node`."""
    at, end = body.span(node)
    return tree.Call(at, end, tree.Name(at, end, name), args, ("",) * len(args))


def text_value(body: FunctionContext, node: ast.expr) -> tree.Expr:
    """Return an expression that becomes text. The text has to be the same under Python."""
    if isinstance(node, ast.Name) and node.id in body.reasons:
        if not body.reasons[node.id]:
            body.refuse(
                "python-error-text",
                node,
                "this error has another text in Python than in Vega",
                f"write `vega.reason({node.id})` for Vega's own words",
                body.file.replaced(node, f"vega.reason({node.id})"),
            )
        return tree.Name(*body.span(node), node.id)
    made = expression(body, node)
    if kind_of(body, node) == tree.NamedType(0, 0, "bool"):
        return _bool_text(body, node, made)
    body.demand("text", made, node)
    return made


def _bool_text(body: FunctionContext, node: ast.expr, made: tree.Expr) -> tree.Expr:
    """Python writes True and False with capital letters."""
    at, end = body.span(node)
    words = tuple(
        tree.Pair(at, end, tree.Text(at, end, (here,)), tree.Text(at, end, (there,)))
        for here, there in (("true", "True"), ("false", "False"))
    )
    return tree.Index(at, end, tree.MapLit(at, end, words), library(body, node, "str", made))


# Literals


def _constant(body: FunctionContext, node: ast.Constant) -> tree.Expr:
    at, end = body.span(node)
    match node.value:
        case bool() | None:
            return tree.Word(at, end, node.value)
        case str() as text:
            return tree.Text(at, end, (text,) if text else ())
        case int() as number if number > _LARGEST:
            return body.refuse(
                "python-int",
                node,
                "an int has 64 bits here, in Python as many as it needs",
                f"the largest is {_LARGEST}; write a float, or text",
            )
        case int() as number:
            return tree.Whole(at, end, number)
        case float() as number if not isfinite(number):
            return body.refuse(
                "python-literal", node, "a float is never infinite here", "write a smaller one"
            )
        case float() as number:
            return tree.Decimal(at, end, number)
        case _:
            what = "..." if node.value is Ellipsis else type(node.value).__name__
            return body.refuse(
                "python-literal", node, f"there is no {what} here", "use a str or a number"
            )


def _joined(body: FunctionContext, node: ast.JoinedStr) -> tree.Expr:
    """Python 3.11 misplaces what is inside, so it is kept within the string."""
    at, end = body.span(node)
    parts: list[str | tree.Expr] = []
    for value in node.values:
        if isinstance(value, ast.Constant):
            parts.append(str(value.value))
        elif isinstance(value, ast.FormattedValue):
            if value.conversion != -1 or value.format_spec is not None:
                body.refuse(
                    "python-format",
                    node,
                    "what stands behind `!` or `:` formats otherwise than Vega does",
                    "write `vega.math.round(x, 2)` or `vega.str.pad_left(text, 8)` around it",
                )
            parts.append(text_value(body, value.value))
    return tree.Text(at, end, tuple(parts))


def _list(body: FunctionContext, node: ast.List) -> tree.Expr:
    return tree.ListLit(*body.span(node), tuple(expression(body, item) for item in node.elts))


def _dict(body: FunctionContext, node: ast.Dict) -> tree.Expr:
    """`{**a, "k": 1, **b}` joins maps."""
    at, end = body.span(node)
    made: list[tree.Expr] = []
    pairs: list[tree.Pair] = []
    for key, value in zip(node.keys, node.values, strict=True):
        if key is not None:
            one = expression(body, key)
            pairs.append(tree.Pair(one.at, body.span(value)[1], one, expression(body, value)))
            continue
        if pairs:
            made.append(tree.MapLit(at, end, tuple(pairs)))
            pairs = []
        made.append(expression(body, value))
    if pairs or not made:
        made.append(tree.MapLit(at, end, tuple(pairs)))
    if None in node.keys and len(made) == 1:
        made.insert(0, tree.MapLit(at, end, ()))
    whole = made[0]
    for other in made[1:]:
        whole = tree.Binary(at, end, "+", whole, other)
        body.demand("maps", whole, node)
    return whole


def _comprehension(body: FunctionContext, node: ast.ListComp) -> tree.Expr:
    one = node.generators[0]
    if len(node.generators) > 1 or len(one.ifs) > 1 or one.is_async:
        body.refuse(
            "python-comprehension",
            node,
            "a comprehension here has one `for` and at most one `if`",
            "join conditions by `and`; write the outer loop as a `for`",
        )
    if not isinstance(one.target, ast.Name):
        body.refuse(
            "python-comprehension",
            one.target,
            "a comprehension here has one variable",
            "write a `for` loop that adds to a list",
        )
    check_variable_name(body, one.target, one.target.id)
    over = loop_source(body, one.iter)
    if over.pairs:
        body.refuse(
            "python-comprehension",
            one.iter,
            "this gives pairs, and a comprehension here has one variable",
            "write a `for` loop that adds to a list",
        )
    body.scopes.append({one.target.id: over.kind})
    where = expression(body, one.ifs[0]) if one.ifs else None
    item = expression(body, node.elt)
    body.scopes.pop()
    return tree.Build(*body.span(node), one.target.id, over.value, where, item)


# Names and places


_WORDS = {"true": "True", "false": "False"} | dict.fromkeys(
    ("null", "nil", "undefined", "none", "NULL"), "None"
)
"""Words of other languages, by what Python calls them."""


def _name(body: FunctionContext, node: ast.Name) -> tree.Expr:
    at, end = body.span(node)
    file = body.file
    if node.id in body.reasons:
        file.refuse(
            "python-error-value",
            node,
            "an error is no value here, only its text is",
            f"write `str({node.id})`, or `vega.reason({node.id})`",
            file.replaced(node, f"str({node.id})"),
        )
    if body.is_known(node.id):
        return tree.Name(at, end, node.id)
    if node.id in file.constants:
        return expression(body, _written(file.constants[node.id], node))
    if node.id in body.assigned:
        line = getattr(body.assigned[node.id], "lineno", 0)
        file.refuse(
            "python-unset",
            node,
            f"`{node.id}` may have no value here: line {line} gives it one inside a block",
            f"give it a value before the block: `{node.id} = …`",
        )
    if node.id in file.unread:
        raise RefusedError
    if node.id in _WORDS and not file.is_declared(node.id):
        written = _WORDS[node.id]
        message = f"nothing is called `{node.id}` here"
        edit = file.replaced(node, written)
        file.refuse("unknown-name", node, message, f"write `{written}`", edit)
    if node.id in file.foreign:
        file.refuse(
            "python-foreign",
            node,
            f"`{node.id}` is Python's own; a program may not reach it",
            f"put what needs `{node.id}` into a function with `@tool(capabilities=[...])`",
        )
    if node.id.startswith("__"):
        file.refuse("python-dunder", node, f"`{node.id}` is Python's own", "leave it out")
    return tree.Name(at, end, node.id)


def _written(constant: ast.Constant, node: ast.Name) -> ast.expr:
    """Return a constant as it is written, with its sign before it."""
    match constant.value:
        case int() | float() as value if value < 0:
            number = ast.copy_location(ast.Constant(-value), node)
            return ast.copy_location(ast.UnaryOp(ast.USub(), number), node)
        case _:
            return ast.copy_location(ast.Constant(constant.value), node)


def _attribute(body: FunctionContext, node: ast.Attribute) -> tree.Expr:
    if node.attr.startswith("__"):
        body.refuse(
            "python-dunder",
            node,
            f"`{node.attr}` reaches into Python itself",
            "use the fields of the record",
        )
    if isinstance(node.value, ast.Name) and body.file.means(node.value, "vegakit.vega"):
        body.refuse(
            "python-vega",
            node,
            f"`vega.{node.attr}` is no value",
            f"call it: `vega.{node.attr}(…)`",
        )
    return tree.Member(*body.span(node), expression(body, node.value), node.attr)


def _subscript(body: FunctionContext, node: ast.Subscript) -> tree.Expr:
    if isinstance(node.slice, ast.Slice):
        return _slice(body, node, node.slice)
    of, at = expression(body, node.value), expression(body, node.slice)
    proven, space = is_place(body, node), space_of(body, node.value)
    if not proven and space in ("str", "list"):
        return library(body, node, f"{space}::at", of, at)
    made = tree.Index(*body.span(node), of, at)
    body.demand("index", made, node, is_proven=proven)
    return made


def is_place(body: FunctionContext, node: ast.Subscript) -> bool:
    """Return whether an index is not below zero; or it is `xs[len(xs) - 1]`, which of an empty list
    is an error in both."""
    match node.slice:
        case ast.BinOp(
            left=ast.Call(func=ast.Name(id="len"), args=[of]),
            op=ast.Sub(),
            right=ast.Constant(value=1),
        ):
            return body.file.source(of) == body.file.source(node.value)
        case at:
            return is_natural(at, body.natural)


def _slice(body: FunctionContext, node: ast.Subscript, cut: ast.Slice) -> tree.Expr:
    space = space_of(body, node.value)
    if cut.step is not None:
        source, edit, advice = body.file.source(node), None, "build the list in a `for`"
        if source.endswith("[::-1]") and space == "list":
            written = f"vega.list.reverse({body.file.source(node.value)})"
            advice = f"write `{written}`"
            edit = body.file.written(node, written)
        body.refuse("python-slice", node, "a slice has no step here", advice, edit)
    if space not in ("str", "list"):
        body.refuse(
            "python-slice",
            node,
            "it cannot be told whether this is a str or a list",
            "write `vega.str.slice(x, a, b)` or `vega.list.slice(x, a, b)`",
        )
    at, end = body.span(node)
    args = [expression(body, node.value)]
    args.append(tree.Whole(at, end, 0) if cut.lower is None else expression(body, cut.lower))
    if cut.upper is not None:
        args.append(expression(body, cut.upper))
    return library(body, node, f"{space}::slice", *args)


def _no(body: FunctionContext, node: ast.expr) -> tree.Expr:
    word, why, advice = NO_EXPRESSIONS[type(node)]
    message = f"`{word}` cannot be written here" + (f": {why}" if why else "")
    if " " in word:
        message = f"{word} cannot be written here" + (f": {why}" if why else "")
    return body.refuse("python-expression", node, message, advice, _instead(body, node))


def _instead(body: FunctionContext, node: ast.expr) -> Edit | None:
    """Return what takes the place of an expression that is not here, where that is plain."""
    text = body.file.source(node)
    match node:
        case ast.Await(value=inner):
            return body.file.replaced(node, body.file.source(inner))
        case ast.GeneratorExp() if text.startswith("("):
            return body.file.replaced(node, f"([{text[1:-1]}])")
        case ast.Set() | ast.Tuple(elts=[_, *_], ctx=ast.Load()):
            items = ", ".join(map(body.file.source, node.elts))
            return body.file.replaced(node, f"[{items}]")
        case _:
            return None


PLAIN_EXPRESSIONS: dict[type, Rule] = {
    **dict.fromkeys(NO_EXPRESSIONS, _no),
    ast.Constant: _constant,
    ast.JoinedStr: _joined,
    ast.List: _list,
    ast.Dict: _dict,
    ast.ListComp: _comprehension,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
}
