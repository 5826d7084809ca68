"""The check of a program in Python: lower it, check it like any other, then hold it to its demands
on types (pure)."""

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from vegakit.lang import types
from vegakit.lang.check.program import check_program
from vegakit.lang.check.symbols import Checked, ReadSource
from vegakit.lang.codegen.bytecode import AgentSpec
from vegakit.lang.diagnostics import Diagnostic, Edit
from vegakit.lang.python.context import Demand, PythonFile, SourceMap, with_imports
from vegakit.lang.python.lowering import Lowered, lower
from vegakit.lang.python.wording import python_diagnostic
from vegakit.lang.syntax import tree
from vegakit.lang.syntax.parser import Parsed

# A demand on types as it is asked, and what is said where it is not met.


class UnmetDemand(Struct, frozen=True):
    """A diagnostic in the making. `replacement` is the text that would fix it, if it is known."""

    code: str
    message: str
    help: str
    replacement: str = ""


class DemandQuery:
    """One demand with the types of its program and the text of its file."""

    def __init__(self, demand: Demand, checked: Checked, source_map: SourceMap) -> None:
        self.node, self.is_proven = demand.node, demand.is_proven
        self.text = source_map.source(demand.place)
        self.place = demand.place
        self._types, self._source_map = checked.types, source_map

    def type(self, node: tree.Expr) -> types.Type | None:
        """Return the type that the checker found for a node, None if it found none."""
        return self._types.get(id(node))

    def source(self, node: ast.AST) -> str:
        """Return the text of a Python node."""
        return self._source_map.source(node)


# What Python and Vega do differently depending on types, asked when the types are known.
#
# | demand    | of                       | holds where                                           |
# |-----------|--------------------------|-------------------------------------------------------|
# | `text`    | `print(x)`, f"{x}"       | `x` is str, a choice, an int, a float, money or a     |
# |           |                          | duration                                              |
# | `message` | what is sent             | the same, or a list of those and files                |
# | `divide`  | `a / b`                  | not of two ints that were not seen as such            |
# | `floor`   | `a // b`, `a % b`        | of ints                                               |
# | `index`   | `xs[i]`                  | of a dict, or `i` is never below zero                 |
# | `add`     | `a + b`                  | not of dicts                                          |
# | `maps`    | `a \| b`, `{**a}`        | of dicts                                              |
# | `grown`   | `xs += ys`               | not of a list or dict that others may hold            |
# | `ints`    | `sum(xs)`                | of ints                                               |
# | `floats`  | `sum(xs, 0.0)`           | of floats                                             |
# | `sorted`  | `sorted(xs, key=…)`      | no field that is sorted by may be None                |
# | `list`    | `xs.append(x)`           | of a list                                             |
# | `default` | `d.get(k, v)`            | no value of `d` may be None                           |
# | `listed`  | `enumerate(xs)`          | not of a dict                                         |
# | `mapped`  | `d.items()`              | of a dict                                             |


def unmet_demands(
    demands: Iterable[Demand], checked: Checked, text: str, file: str, source: PythonFile
) -> tuple[Diagnostic, ...]:
    """Return a diagnostic for every demand on types that does not hold."""
    source_map = SourceMap(text)
    found: dict[tuple[str, int], Diagnostic] = {}
    for demand in demands:
        query = DemandQuery(demand, checked, source_map)
        problem = RULES[demand.rule](query)
        if problem is not None:
            span = source_map.span(demand.place)
            edit = Edit(*span, problem.replacement) if problem.replacement else None
            if edit is not None and "vega." in edit.text:
                edit = with_imports(source, edit, "vega")
            found[(problem.code, span.at)] = Diagnostic(
                problem.code, problem.message, file, *span, problem.help, edit
            )
    return tuple(sorted(found.values(), key=lambda one: one.at))


_PLAIN = (types.STR, types.INT, types.FLOAT, types.MONEY, types.DURATION)
"""What both write alike. Python has no money and no durations but ours."""


def _is_plain(kind: types.Type | None) -> bool:
    return kind is None or types.unbounded(kind) in _PLAIN or isinstance(kind, types.ChoiceOf)


def _text(query: DemandQuery) -> UnmetDemand | None:
    if _is_plain(query.type(query.node)):
        return None
    replacement = f"vega.text({query.text})"
    kind = _type_in_words(query.type(query.node))
    return UnmetDemand(
        "python-text",
        f"{kind} has another text in Python than in Vega",
        f"write `{replacement}`, which is Vega's text in both",
        replacement,
    )


def _type_in_words(kind: types.Type | None) -> str:
    match kind:
        case types.OptionalOf():
            return "what may be None"
        case types.ListOf():
            return "a list"
        case types.MapOf():
            return "a dict"
        case types.RecordOf(name=name):
            return f"a {name}"
        case types.Plain(name=name) if name == "bool":
            return f"a {name}"
        case _:
            return "this value"


def _message(query: DemandQuery) -> UnmetDemand | None:
    kind = query.type(query.node)
    if _is_plain(kind) or kind == types.FILE:
        return None
    if isinstance(kind, types.ListOf) and isinstance(query.place, ast.List):
        return None
    return _text(query)


def _sides(query: DemandQuery) -> tuple[types.Type | None, types.Type | None, str, str]:
    node, place = query.node, query.place
    assert isinstance(node, tree.Binary)
    if isinstance(place, ast.BinOp):
        one, other = query.source(place.left), query.source(place.right)
    elif isinstance(place, ast.AugAssign):
        one, other = query.source(place.target), query.source(place.value)
    else:
        one, other = "a", "b"
    return query.type(node.left), query.type(node.right), one, other


def _divide(query: DemandQuery) -> UnmetDemand | None:
    left, right, one, other = _sides(query)
    if (left, right) != (types.INT, types.INT):
        return None
    return UnmetDemand(
        "python-divide",
        "`/` of two ints is a float in Python and an int here",
        f"write `float({one}) / float({other})`, or `{one} // {other}` for a whole number",
        f"float({one}) / float({other})",
    )


def _floor(query: DemandQuery) -> UnmetDemand | None:
    left, right, one, other = _sides(query)
    if (left, right) == (types.INT, types.INT):
        return None
    assert isinstance(query.node, tree.Binary)
    if query.node.op == "%":
        advice = "make both whole by `int(…)`, or write it out"
        return UnmetDemand("python-divide", "`%` is for ints here", advice)
    replacement = f"vega.math.floor({one} / {other})"
    return UnmetDemand(
        "python-divide",
        "`//` is for ints here",
        f"write `{replacement}`, which is an int",
        replacement,
    )


def _index(query: DemandQuery) -> UnmetDemand | None:
    assert isinstance(query.node, tree.Index)
    of = query.type(query.node.of)
    if query.is_proven or not (types.is_text(of) or isinstance(of, types.ListOf)):
        return None
    assert isinstance(query.place, ast.Subscript)
    one, at = query.source(query.place.value), query.source(query.place.slice)
    is_store = isinstance(query.place.ctx, ast.Store)
    if at == "-1" and not is_store:
        replacement = f"{one}[len({one}) - 1]"
        advice = (
            f"write `{replacement}`, or `vega.list.last({one})`, which is None when it is empty"
        )
    else:
        replacement = f"vega.at({one}, {at})"
        advice = f"write `{replacement}`, which raises IndexError below zero, or `{one}[abs({at})]`"
    return UnmetDemand(
        "python-index",
        "an index below zero counts from the end in Python and is an error here",
        f"write `{one}[abs({at})] = …`" if is_store else advice,
        "" if is_store else replacement,
    )


def _add(query: DemandQuery) -> UnmetDemand | None:
    left, _, one, other = _sides(query)
    if not isinstance(left, types.MapOf):
        return None
    replacement = f"{one} | {other}"
    is_whole = isinstance(query.place, ast.BinOp)
    return UnmetDemand(
        "python-add",
        "dicts are not added in Python",
        f"write `{replacement}`",
        replacement if is_whole else "",
    )


def _maps(query: DemandQuery) -> UnmetDemand | None:
    if query.type(query.node) is None or isinstance(query.type(query.node), types.MapOf):
        return None
    return UnmetDemand("python-operator", "this joins dicts", "write `+` for lists and texts")


def _grown(query: DemandQuery) -> UnmetDemand | None:
    if not isinstance(query.type(query.node), types.ListOf | types.MapOf):
        return None
    assert isinstance(query.place, ast.AugAssign)
    name, value = query.source(query.place.target), query.source(query.place.value)
    replacement = f"{name} = {name} + {value}"
    return UnmetDemand(
        "python-in-place",
        f"this changes `{name}` in place, and something else may hold it: in Python the change"
        " would be seen there",
        f"make a new one: `{replacement}`",
        replacement,
    )


def _ints(query: DemandQuery) -> UnmetDemand | None:
    kind = query.type(query.node)
    if not isinstance(kind, types.ListOf) or kind.inner == types.INT:
        return None
    assert isinstance(query.place, ast.Call)
    items = query.source(query.place.args[0])
    return UnmetDemand(
        "python-builtin",
        "`sum` begins with the int 0, so it adds up ints only",
        f"write `vega.list.sum({items})`, which raises ValueError when it is empty",
        f"vega.list.sum({items})",
    )


def _floats(query: DemandQuery) -> UnmetDemand | None:
    kind = query.type(query.node)
    if not isinstance(kind, types.ListOf) or kind.inner == types.FLOAT:
        return None
    assert isinstance(query.place, ast.Call)
    replacement = f"sum({query.source(query.place.args[0])})"
    return UnmetDemand(
        "python-builtin",
        "`sum` that begins with 0.0 adds up floats only",
        f"write `{replacement}` for ints",
        replacement,
    )


def _sorted(query: DemandQuery) -> UnmetDemand | None:
    if not isinstance(_sorted_by(query), types.OptionalOf):
        return None
    assert isinstance(query.node, tree.Call)
    by = query.node.args[1]
    assert isinstance(query.place, ast.Call)
    assert isinstance(by, tree.Text)
    replacement = f'vega.list.sort_by({query.source(query.place.args[0])}, "{by.parts[0]}")'
    return UnmetDemand(
        "python-builtin",
        "`sorted` by what may be None raises in Python",
        f"write `{replacement}`, which puts them last",
        replacement,
    )


def _sorted_by(query: DemandQuery) -> types.Type | None:
    """Return the type of what a list is sorted by, as far as it is known."""
    assert isinstance(query.node, tree.Call)
    items, by, *_ = query.node.args
    kind = query.type(items)
    match kind.inner if isinstance(kind, types.ListOf) else None, by:
        case types.RecordOf(fields=fields), tree.Text(parts=(str() as name,)):
            return dict(fields).get(name)
        case types.MapOf(inner=inner), _:
            return inner
        case _:
            return None


def _sorted_down(query: DemandQuery) -> UnmetDemand | None:
    if _sorted_by(query) in {types.INT, types.FLOAT}:
        return None
    return UnmetDemand(
        "python-builtin",
        "`-` in a key takes a number",
        "write `reverse=True`, or make it a number in a field before",
    )


def _list(query: DemandQuery) -> UnmetDemand | None:
    if isinstance(query.type(query.node), types.ListOf):
        return None
    return UnmetDemand("python-in-place", "`append` is for lists", "write `x + …`")


def _default(query: DemandQuery) -> UnmetDemand | None:
    kind = query.type(query.node)
    if not (isinstance(kind, types.MapOf) and isinstance(kind.inner, types.OptionalOf)):
        return None
    return UnmetDemand(
        "python-method",
        "`get` with a default gives a None that is there in Python, and the default here",
        "write `if key in d:` and take `d[key]`",
    )


def _listed(query: DemandQuery) -> UnmetDemand | None:
    if not isinstance(query.type(query.node), types.MapOf):
        return None
    return UnmetDemand(
        "python-loop",
        "this counts the keys of a dict",
        "write `enumerate(list(d.keys()))`, or `d.items()` for keys and values",
    )


def _mapped(query: DemandQuery) -> UnmetDemand | None:
    if isinstance(query.type(query.node), types.MapOf):
        return None
    return UnmetDemand("python-loop", "only a dict has items", "write `enumerate(xs)` for a list")


_Rule: TypeAlias = Callable[[DemandQuery], UnmetDemand | None]
RULES: dict[str, _Rule] = {
    "text": _text,
    "message": _message,
    "divide": _divide,
    "floor": _floor,
    "index": _index,
    "add": _add,
    "maps": _maps,
    "grown": _grown,
    "ints": _ints,
    "floats": _floats,
    "sorted": _sorted,
    "sorted_down": _sorted_down,
    "list": _list,
    "default": _default,
    "listed": _listed,
    "mapped": _mapped,
}


_ITEM, _KEY = "an item of this list must be", "must be a str, this is an int"


def _once(found: Iterable[Diagnostic], text: str) -> Iterable[Diagnostic]:
    """Leave out what follows from what was told: the next items of a list whose first does not fit,
    and uses of numbers as keys of a dict that was made with them."""
    told: set[tuple[str, int]] = set()
    has_key = False
    for one in found:
        if one.code == "wrong-type" and one.message.startswith(_ITEM):
            line = text.count("\n", 0, one.at)
            if (one.message, line) in told:
                continue
            told.add((one.message, line))
        if has_key and one.message == f"the key of a map {_KEY}":
            continue
        has_key = has_key or one.message == f"a key {_KEY}"
        yield one


def _with_others(lowered: Lowered, found: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Return what the lowering refused, and what the checker found in other functions: where a line
    was left out, the lines after it would be blamed for it, unless nothing hangs on it."""
    functions = [
        one for one in lowered.source.decls if isinstance(one, tree.FnDecl | tree.ToolDecl)
    ]

    def around(one: Diagnostic) -> tree.Decl | None:
        """Not in its head: who calls it would be blamed too."""
        return next((each for each in functions if each.body.at <= one.at < each.end), None)

    def in_the_way(one: Diagnostic) -> bool:
        return not any(span.at <= one.at < span.end for span in lowered.file.left_out)

    touched = [around(one) for one in lowered.diagnostics]
    faulty = [around(one) for one in lowered.diagnostics if in_the_way(one)]
    if None in touched:
        return lowered.diagnostics
    others = (
        one
        for one in found
        if (at := around(one)) is not None
        and at not in (touched if one.severity == "warning" else faulty)
    )
    return tuple(sorted((*lowered.diagnostics, *others), key=lambda one: one.at))


# The check of a program in Python: lowered, checked like any other, then held to its demands.


def check_python(
    text: str,
    file: str,
    read: ReadSource,
    *,
    tools: Mapping[str, types.Signature | None] | None = None,
    types: Mapping[str, types.Type] | None = None,
    agents: Sequence[AgentSpec] = (),
    is_lent: bool = False,
) -> tuple[Checked | None, tuple[Diagnostic, ...]]:
    """Check a program in Python, and report all its faults at once."""
    lowered = lower(text, file, frozenset(spec.name for spec in agents))
    parsed = Parsed(lowered.source, ())
    known = {**(tools or {}), **lowered.tools}
    checked, found = check_program(
        text,
        file,
        read,
        tools=known,
        types=types,
        agents=agents,
        is_lent=is_lent,
        parse=lambda _text, _file: parsed,
        exact=True,
    )
    shown = tuple(
        python_diagnostic(one, lowered.file, lowered.source.decls) for one in _once(found, text)
    )
    if lowered.diagnostics:
        return None, _with_others(lowered, shown)
    if checked is None:
        return None, shown
    more = unmet_demands(lowered.demands, checked, text, file, lowered.file)
    return (None if more else checked), tuple(sorted((*shown, *more), key=lambda one: one.at))
