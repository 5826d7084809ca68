"""Calls: functions of the file, records, and builtins of Python (pure)."""

import ast
from typing import NamedTuple

from vegakit.lang.diagnostics import Edit, did_you_mean, nearest
from vegakit.lang.library import VEGA_ERRORS
from vegakit.lang.python.analysis import is_pure
from vegakit.lang.python.context import (
    FunctionContext,
    FunctionHead,
    RecordHead,
    RefusedError,
    Rule,
    expression,
    with_imports,
)
from vegakit.lang.python.expressions import is_made_list, items_in, library, loop_source, text_value
from vegakit.lang.python.foreign import refuse_foreign, refuse_running
from vegakit.lang.python.operators import method, plain_arguments
from vegakit.lang.python.sends import (
    METHODS_OF_PROCESSES,
    is_vega,
    parameter_of,
    race,
    send,
    spawn,
    vega_call,
)
from vegakit.lang.python.subset import BUILTIN_EDITS, FUNCTIONS, NO_BUILTINS
from vegakit.lang.python.types import kind_of
from vegakit.lang.syntax import tree


def _call(body: FunctionContext, node: ast.Call) -> tree.Expr:
    if body.file.means(node.func, "vegakit.race"):
        return race(body, node)
    refuse_foreign(body, node)
    for arg in node.args:
        if isinstance(arg, ast.Starred):
            expression(body, arg)
    if any(keyword.arg is None for keyword in node.keywords):
        body.refuse(
            "python-expression",
            node,
            "`**` cannot be written here: which arguments there are must be known",
            "write them one by one: `f(a=1, b=2)`",
        )
    match node.func:
        case ast.Name():
            return _by_name(body, node, node.func)
        case ast.Attribute():
            return _by_attribute(body, node, node.func)
        case _:
            return body.refuse(
                "python-call", node, "only a name can be called", "give it a name first"
            )


def _by_name(body: FunctionContext, node: ast.Call, callee: ast.Name) -> tree.Expr:
    """What the file declares hides what Python has."""
    file, name = body.file, callee.id
    if body.is_known(name) or name in file.agents:
        return send(body, node, callee)
    if name in file.functions:
        return _function(body, node, file.functions[name])
    if name in file.tools or name in file.nodes:
        return tree.Call(
            *body.span(node), tree.Name(*body.span(callee), name), *_arguments(body, node)
        )
    if name in file.records:
        return _record(body, node, name, file.records[name])
    if name in file.imported or name in file.foreign:
        return _imported(body, node, name)
    return _of_python(body, node, callee)


def _of_python(body: FunctionContext, node: ast.Call, callee: ast.Name) -> tree.Expr:
    file, name = body.file, callee.id
    if name in file.unread or name in body.unread:
        raise RefusedError
    if name in _BUILT:
        return _BUILT[name](body, node)
    if name in FUNCTIONS:
        return _builtin(body, node, name)
    if name in NO_BUILTINS:
        why, advice = NO_BUILTINS[name]
        edit = file.rewritten(node, BUILTIN_EDITS[name]) if name in BUILTIN_EDITS else None
        return file.refuse("python-builtin", callee, f"`{name}` {why}", advice, edit)
    known = [*file.functions, *file.records, *file.agents, *{**FUNCTIONS, **_BUILT}]
    edit = file.replaced(callee, close) if (close := nearest(name, known)) else None
    return file.refuse(
        "python-call",
        callee,
        f"there is no function `{name}`",
        did_you_mean(name, known),
        edit,
    )


def _imported(body: FunctionContext, node: ast.Call, name: str) -> tree.Expr:
    origin = body.file.imported.get(name, "")
    refuse_running(body, node, name)
    if origin == "vegakit.spawn":
        return spawn(body, node)
    if origin.removeprefix("vegakit.") in VEGA_ERRORS:
        advice = f'write `raise Failed("…")`; {name} is for `except`'
    elif origin in ("vegakit.session", "vegakit.parallel"):
        advice = f"write `with {name}(…):`"
    elif origin == "vegakit.Agent":
        advice = f'declare it at the top of the file: `writer = {name}("writer")`'
    else:
        advice = f"put what needs `{name}` into a function with `@tool(capabilities=[...])`"
    return body.refuse("python-call", node, f"`{name}` cannot be called here", advice)


def _arguments(
    body: FunctionContext, node: ast.Call
) -> tuple[tuple[tree.Expr, ...], tuple[str, ...]]:
    given = [(arg, "") for arg in node.args]
    given += [(keyword.value, keyword.arg or "") for keyword in node.keywords]
    values = tuple(expression(body, arg) for arg, _ in given)
    return values, tuple(name for _, name in given)


def _in_order(body: FunctionContext, node: ast.Call, names: list[str]) -> None:
    """Python works arguments out as they are written, the machine as they are declared."""
    written = [names.index(k.arg) for k in node.keywords if k.arg in names]
    values = [*node.args, *(keyword.value for keyword in node.keywords)]
    if written != sorted(written) and not all(map(is_pure, values)):
        body.refuse(
            "python-order",
            node,
            "arguments that call something stand in the order in which they are declared",
            f"write them in this order: {', '.join(names)}",
        )


def _function(body: FunctionContext, node: ast.Call, head: FunctionHead) -> tree.Expr:
    """What is left out is filled in by its default."""
    names = [param.name for param in head.params]
    _in_order(body, node, names)
    values, given = _arguments(body, node)
    placed = {*names[: len(node.args)], *given}
    for name in names:
        if name in head.defaults and name not in placed:
            default = head.defaults[name]
            values, given = (*values, expression(body, default)), (*given, name)
    return tree.Call(
        *body.span(node), tree.Name(*body.span(node.func), head.node.name), values, given
    )


def _record(body: FunctionContext, node: ast.Call, name: str, head: RecordHead) -> tree.Expr:
    fields = list(head.fields)
    if node.args and not head.by_place:
        body.refuse(
            "python-record",
            node,
            f"the fields of {name} are named",
            f"write `{name}({', '.join(f'{field}=…' for field in fields)})`",
        )
    _in_order(body, node, fields)
    values, given = _arguments(body, node)
    if len(node.args) <= len(fields):
        given = (*fields[: len(node.args)], *given[len(node.args) :])
    missing = [field for field in fields if field in head.needed and field not in given]
    if missing:
        body.refuse(
            "python-record",
            node,
            f"{name} also needs {', '.join(f'`{field}`' for field in missing)}",
            f"give it, or declare it with a default: `{missing[0]}: … | None = None`",
        )
    return tree.Call(*body.span(node), tree.Name(*body.span(node.func), name), values, given)


# Builtins


def _builtin(body: FunctionContext, node: ast.Call, name: str) -> tree.Expr:
    called, least, most = FUNCTIONS[name]
    args = plain_arguments(body, node, least, most)
    if name == "len" and isinstance(pairs := args[0], ast.Call) and _is_items(pairs):
        return library(body, node, "map::len", loop_source(body, pairs).value)
    if name == "len" and _has_length(args[0]):
        return library(body, node, called, items_in(body, args[0]))
    return library(body, node, called, *(expression(body, arg) for arg in args))


def _is_items(node: ast.Call) -> bool:
    """`d.items()`, which are as many as `d` has keys."""
    is_plain = not node.args and not node.keywords
    return is_plain and isinstance(node.func, ast.Attribute) and node.func.attr == "items"


def _has_length(node: ast.expr) -> bool:
    """What is made on the spot has one in Python too, but for `reversed`."""
    match node:
        case ast.Call(func=ast.Name(id="reversed")):
            return False
        case _:
            return is_made_list(node)


def _print(body: FunctionContext, node: ast.Call) -> tree.Expr:
    """Several values stand on one line, a blank between them."""
    if node.keywords:
        _print_otherwise(body, node, node.keywords[0])
    args = plain_arguments(body, node, 0, 255)
    if len(args) == 1:
        return library(body, node, "print", text_value(body, args[0]))
    parts: list[str | tree.Expr] = []
    for number, arg in enumerate(args):
        parts += [" ", text_value(body, arg)] if number else [text_value(body, arg)]
    return library(body, node, "print", tree.Text(*body.span(node), tuple(parts)))


def _print_otherwise(body: FunctionContext, node: ast.Call, keyword: ast.keyword) -> None:
    """`sep=` and `end=` are no arguments here."""
    if keyword.arg is None:
        return
    file, edit = body.file, None
    advice = 'write one text: `print(f"{a}, {b}")`'
    if keyword.arg != "sep" and node.args:
        first, last = file.span(node.args[-1]).end, file.span(node.keywords[-1]).end
        advice, edit = "leave it out: each `print` is a line of its own", Edit(first, last, "")
    file.refuse("python-builtin", keyword, f"`print` has no `{keyword.arg}=` here", advice, edit)


def _str(body: FunctionContext, node: ast.Call) -> tree.Expr:
    [of] = plain_arguments(body, node, 1, 1)
    made = text_value(body, of)
    is_reason = isinstance(of, ast.Name) and of.id in body.reasons
    return made if is_reason else library(body, node, "str", made)


def _least_or_most(body: FunctionContext, node: ast.Call) -> tree.Expr:
    name = body.file.source(node.func)
    if len(node.args) == 1 and not node.keywords:
        body.refuse(
            "python-builtin",
            node,
            f"`{name}` of an empty list raises in Python",
            f"write `vega.list.{name}({body.file.source(node.args[0])})`, None when it is empty",
            body.file.rewritten(node, f"vega.list.{name}({{args}})"),
        )
    match node.args, node.keywords:
        case [items], [ast.keyword(arg="default", value=other)]:
            source = body.file.source
            written = f"vega.default(vega.list.{name}({source(items)}), {source(other)})"
            edit = body.file.written(node, written)
            said = f"`{name}` has no `default=` here"
            body.refuse("python-builtin", node, said, f"write `{written}`", edit)
        case _:
            pass
    first, *rest = (expression(body, arg) for arg in plain_arguments(body, node, 2, 255))
    for other in rest:
        first = library(body, node, f"math::{name}", first, other)
    return first


def _sum(body: FunctionContext, node: ast.Call) -> tree.Expr:
    """Of no items it is 0 in Python, so that is where it begins; `sum(xs, 0.0)` adds up floats."""
    of, *start = plain_arguments(body, node, 1, 2)
    at, end = body.span(node)
    items = items_in(body, of)
    if not start and isinstance(of, ast.List) and _adds_floats(body, of):
        return library(body, node, "list::sum", items)
    if not start and _adds_floats(body, of):
        written = f"sum({body.file.source(of)}, 0.0)"
        body.refuse(
            "python-builtin",
            node,
            "`sum` of an empty list is the int 0, and a float is wanted",
            f"write `{written}`",
            body.file.replaced(node, written),
        )
    first, rule = tree.Whole(at, end, 0), "ints"
    match start:
        case [ast.Constant(value=float() as zero)] if zero == 0:
            first, rule = tree.Decimal(at, end, 0.0), "floats"
        case [other]:
            body.refuse(
                "python-builtin", other, "`sum` begins with 0 or 0.0 here", "add the rest behind it"
            )
        case _:
            pass
    whole = tree.Binary(at, end, "+", tree.ListLit(at, end, (first,)), items)
    body.demand(rule, items, node)
    return library(body, node, "list::sum", whole)


def _adds_floats(body: FunctionContext, of: ast.expr) -> bool:
    match kind_of(body, of):
        case tree.ListType(inner=tree.NamedType(name="float")):
            return True
        case _:
            return False


def _sorted(body: FunctionContext, node: ast.Call) -> tree.Expr:
    """By `key=lambda x: x.field` and `reverse=True`, which have to be seen. By `-x.field` it is the
    other way round: items that are equal stay as they stood in both."""
    said = {keyword.arg: keyword.value for keyword in node.keywords}
    if len(node.args) != 1 or not {*said} <= {"key", "reverse"}:
        body.refuse("python-builtin", node, "`sorted` is not written so", f"write {_SORTED}")
    items = items_in(body, node.args[0])
    flag = said.get("reverse")
    if not (flag is None or (isinstance(flag, ast.Constant) and isinstance(flag.value, bool))):
        body.refuse("python-builtin", flag, "which way round is written out", "write `True`")
    largest_first = flag is not None and ast.literal_eval(flag)
    if "key" in said and (keys := _sorting_keys(body, node.args[0], said["key"])) is not None:
        way = [tree.Word(*body.span(node), value=True)] if largest_first else []
        return library(body, node, "list::sort_with", items, keys, *way)
    field = None if "key" not in said else _sorting_field(body, said["key"])
    by = [] if field is None else [field.name]
    is_down = field is not None and field.is_negative
    way = [tree.Word(*body.span(node), value=True)] if largest_first != is_down else []
    called = "list::sort_by" if by else "list::sort"
    made = library(body, node, called, items, *by, *way)
    if by:
        body.demand("sorted", made, node)
    if is_down:
        body.demand("sorted_down", made, node)
    return made


class _SortingField(NamedTuple):
    """What is sorted by; with `is_negative` by the number below zero that it is made to."""

    name: tree.Expr
    is_negative: bool


def _sorting_keys(body: FunctionContext, items: ast.expr, key: ast.expr) -> tree.Expr | None:
    """Return the list of what `lambda x: …` works out for each item, None if it takes a field. The
    items are walked twice, so they are there already."""
    name = parameter_of(key)
    if name is None or not isinstance(key, ast.Lambda) or _is_field(key.body, name):
        return None
    if isinstance(key.body, ast.Tuple):
        body.refuse(
            "python-builtin",
            key.body,
            "a key is one value here",
            "sort twice, by the lesser one first: what is equal stays as it stood",
        )
    if not is_pure(items):
        body.refuse(
            "python-builtin",
            items,
            "what is sorted by a key that is worked out has a name",
            "write `xs = …` before, and `sorted(xs, key=…)`",
        )
    target = ast.copy_location(ast.Name(name), key)
    made = ast.ListComp(key.body, [ast.comprehension(target, items, [], 0)])
    return expression(body, ast.copy_location(made, key))


def _is_field(node: ast.expr, name: str) -> bool:
    match node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else node:
        case (
            ast.Attribute(value=ast.Name(id=of))
            | ast.Subscript(value=ast.Name(id=of), slice=ast.Constant(value=str()))
        ):
            return of == name
        case _:
            return False


_SORTED = "`sorted(xs)`, `sorted(xs, reverse=True)` or `sorted(xs, key=lambda x: x.field)`"


def _sorting_field(body: FunctionContext, key: ast.expr) -> _SortingField:
    """Return the field that `lambda x: x.field`, `-x.field` or `lambda x: x["key"]` takes."""
    is_negative = False
    match key:
        case ast.Lambda(body=ast.UnaryOp(op=ast.USub(), operand=taken)):
            key, is_negative = ast.copy_location(ast.Lambda(key.args, taken), key), True
        case _:
            pass
    match key:
        case ast.Lambda(
            body=(
                ast.Attribute(value=ast.Name(id=of), attr=field)
                | ast.Subscript(value=ast.Name(id=of), slice=ast.Constant(value=str() as field))
            ),
        ) if of == parameter_of(key):
            return _SortingField(tree.Text(*body.span(key), (field,)), is_negative)
        case _:
            return body.refuse(
                "python-builtin",
                key,
                "what is sorted by is seen in the key",
                "write `key=lambda x: x.field`, `-x.field` or what is worked out of `x`; sort "
                "twice for two keys, by the lesser one first",
            )


def _as_list(body: FunctionContext, node: ast.Call) -> tree.Expr:
    at, end = body.span(node)
    if not node.args and not node.keywords:
        return tree.ListLit(at, end, ())
    [of] = plain_arguments(body, node, 1, 1)
    over = items_in(body, of)
    if is_made_list(of):
        return over
    return tree.Binary(at, end, "+", over, tree.ListLit(at, end, ()))


def _by_attribute(body: FunctionContext, node: ast.Call, callee: ast.Attribute) -> tree.Expr:
    file, name = body.file, callee.attr
    if is_vega(file, callee):
        return vega_call(body, node, callee)
    if isinstance(callee.value, ast.Name) and callee.value.id in file.servers:
        at, end = body.span(callee)
        of = tree.Name(*body.span(callee.value), callee.value.id)
        return tree.Call(*body.span(node), tree.Member(at, end, of, name), *_arguments(body, node))
    if name in METHODS_OF_PROCESSES:
        return send(body, node, callee.value, name)
    if isinstance(callee.value, ast.Name) and callee.value.id in file.agents:
        return _no_method_of_agents(body, node, callee)
    return method(body, node, callee)


_ASKING = frozenset(
    "run run_sync send call prompt chat generate invoke complete query execute message".split()
)


def _no_method_of_agents(body: FunctionContext, node: ast.Call, callee: ast.Attribute) -> tree.Expr:
    file, agent, name = body.file, body.file.source(callee.value), callee.attr
    said = f"an agent has no method `{name}`"
    if name == "spawn":
        given = ", ".join([agent, *map(file.source, node.args), *map(file.source, node.keywords)])
        edit = with_imports(file, file.replaced(node, f"spawn({given})"), "spawn")
        return file.refuse("python-method", callee, said, f"write `spawn({given})`", edit)
    meant = "ask" if name in _ASKING else nearest(name, METHODS_OF_PROCESSES)
    where = file.last_name(callee)
    advice = f"write `{agent}.{meant or 'ask'}(…)`; there are ask, stream and submit"
    edit = Edit(*where, meant) if meant else None
    return file.refuse("python-method", where, said, advice, edit)


def _round(body: FunctionContext, node: ast.Call) -> tree.Expr:
    """To a whole number, which Python gives without digits, or to digits."""
    args = [expression(body, one) for one in plain_arguments(body, node, 1, 2)]
    made = library(body, node, "math::round", *args)
    return made if len(args) > 1 else library(body, node, "int", made)


_BUILT = {
    "round": _round,
    "print": _print,
    "str": _str,
    "min": _least_or_most,
    "max": _least_or_most,
    "sum": _sum,
    "sorted": _sorted,
    "list": _as_list,
}

CALLS: dict[type, Rule] = {ast.Call: _call}
