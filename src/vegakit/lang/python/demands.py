"""What Python and Vega do differently depending on types, asked when the types are known.

| demand    | of                       | holds where                                           |
|-----------|--------------------------|-------------------------------------------------------|
| `text`    | `print(x)`, f"{x}"       | `x` is str, a choice or an int                        |
| `message` | what is sent             | the same, or a list of those and files                |
| `whole`   | `1`                      | it is not taken for a float                           |
| `divide`  | `a / b`                  | not of two ints                                       |
| `floor`   | `a // b`, `a % b`        | of ints that are never below zero                     |
| `index`   | `xs[i]`                  | of a dict, or `i` is never below zero                 |
| `add`     | `a + b`                  | not of dicts                                          |
| `maps`    | `a \\| b`, `{**a}`        | of dicts                                              |
| `grown`   | `xs += ys`               | not of a list or dict that others may hold            |
| `ints`    | `sum(xs)`                | of ints                                               |
| `list`    | `xs.append(x)`           | of a list                                             |
| `default` | `d.get(k, v)`            | no value of `d` may be None                           |
| `listed`  | `enumerate(xs)`          | not of a dict                                         |
| `mapped`  | `d.items()`              | of a dict                                             |
"""

import ast
from collections.abc import Callable, Iterable
from typing import TypeAlias

from vegakit.lang.checked import Checked
from vegakit.lang.diagnostics import Diagnostic, Edit
from vegakit.lang.python.asking import Asked, Said
from vegakit.lang.python.context import Demand
from vegakit.lang.python.places import Places
from vegakit.lang.tree import Binary, Index
from vegakit.lang.types import (
    FILE,
    FLOAT,
    INT,
    STR,
    ChoiceOf,
    ListOf,
    MapOf,
    OptionalOf,
    Plain,
    RecordOf,
    Type,
)

__all__ = ["RULES", "unmet"]


def unmet(
    demands: Iterable[Demand], checked: Checked, text: str, file: str
) -> tuple[Diagnostic, ...]:
    places = Places(text)
    found: dict[tuple[str, int], Diagnostic] = {}
    for demand in demands:
        asked = Asked(demand, checked, places)
        said = RULES[demand.rule](asked)
        if said is not None:
            span = places.span(demand.place)
            edit = Edit(span.at, span.end, said.written) if said.written else None
            found[(said.code, span.at)] = Diagnostic(
                said.code, said.message, file, span.at, span.end, said.help, edit
            )
    return tuple(sorted(found.values(), key=lambda one: one.at))


def _is_plain(kind: Type | None) -> bool:
    return kind is None or kind in (STR, INT) or isinstance(kind, ChoiceOf)


def _text(asked: Asked) -> Said | None:
    if _is_plain(asked.type(asked.node)):
        return None
    written = f"vega.text({asked.text})"
    kind = _spoken(asked.type(asked.node))
    return Said(
        "python-text",
        f"Python writes {kind} otherwise than Vega does",
        f"write `{written}` for Vega's own words, or take it apart",
        written,
    )


def _spoken(kind: Type | None) -> str:
    match kind:
        case OptionalOf():
            return "None"
        case ListOf():
            return "a list"
        case MapOf():
            return "a dict"
        case RecordOf(name=name):
            return f"a {name}"
        case Plain(name=name) if name in ("bool", "float"):
            return f"a {name}"
        case _:
            return "this value"


def _message(asked: Asked) -> Said | None:
    kind = asked.type(asked.node)
    if _is_plain(kind) or kind == FILE:
        return None
    if isinstance(kind, ListOf) and isinstance(asked.place, ast.List):
        return None
    return _text(asked)


def _whole(asked: Asked) -> Said | None:
    if asked.type(asked.node) != FLOAT:
        return None
    return Said(
        "python-whole",
        "a float is wanted here, and Python would keep this an int",
        f"write `{asked.text}.0`",
        f"{asked.text}.0",
    )


def _sides(asked: Asked) -> tuple[Type | None, Type | None, str, str]:
    node, place = asked.node, asked.place
    assert isinstance(node, Binary)
    if isinstance(place, ast.BinOp):
        one, other = asked.source(place.left), asked.source(place.right)
    elif isinstance(place, ast.AugAssign):
        one, other = asked.source(place.target), asked.source(place.value)
    else:
        one, other = "a", "b"
    return asked.type(node.left), asked.type(node.right), one, other


def _divide(asked: Asked) -> Said | None:
    left, right, one, other = _sides(asked)
    if (left, right) != (INT, INT):
        return None
    return Said(
        "python-divide",
        "`/` of two ints is a float in Python and an int here",
        f"write `float({one}) / float({other})`, or `{one} // {other}` for a whole number",
        f"float({one}) / float({other})",
    )


def _floor(asked: Asked) -> Said | None:
    left, right, one, other = _sides(asked)
    if (left, right) == (INT, INT) and asked.is_proven:
        return None
    assert isinstance(asked.node, Binary)
    sign, name = ("//", "quotient") if asked.node.op == "/" else ("%", "remainder")
    if (left, right) != (INT, INT):
        return Said(
            "python-divide",
            f"`{sign}` is for ints that are not negative here",
            f"write `vega.math.floor({one} / {other})`" if sign == "//" else "write it out",
        )
    below = (
        "`//` rounds down in Python and toward zero here"
        if sign == "//"
        else "`%` has the sign of its right side in Python and of its left side here"
    )
    return Said(
        "python-divide",
        f"below zero, {below}; these may be negative",
        f"write `vega.{name}({one}, {other})` for toward zero, or `abs({one}) {sign} …`",
        f"vega.{name}({one}, {other})",
    )


def _index(asked: Asked) -> Said | None:
    assert isinstance(asked.node, Index)
    of = asked.type(asked.node.of)
    if asked.is_proven or not (of == STR or isinstance(of, ListOf)):
        return None
    assert isinstance(asked.place, ast.Subscript)
    one, at = asked.source(asked.place.value), asked.source(asked.place.slice)
    is_store = isinstance(asked.place.ctx, ast.Store)
    if at == "-1" and not is_store:
        written = f"{one}[len({one}) - 1]"
        advice = f"write `{written}`, or `vega.list.last({one})`, which is None when it is empty"
    else:
        written = f"vega.at({one}, {at})"
        advice = f"write `{written}`, which raises IndexError below zero, or `{one}[abs({at})]`"
    return Said(
        "python-index",
        "an index below zero counts from the end in Python and is an error here",
        f"write `{one}[abs({at})] = …`" if is_store else advice,
        "" if is_store else written,
    )


def _add(asked: Asked) -> Said | None:
    left, _, one, other = _sides(asked)
    if not isinstance(left, MapOf):
        return None
    return Said("python-add", "dicts are not added in Python", f"write `{one} | {other}`")


def _maps(asked: Asked) -> Said | None:
    if asked.type(asked.node) is None or isinstance(asked.type(asked.node), MapOf):
        return None
    return Said("python-operator", "this joins dicts", "write `+` for lists and texts")


def _grown(asked: Asked) -> Said | None:
    if not isinstance(asked.type(asked.node), ListOf | MapOf):
        return None
    assert isinstance(asked.place, ast.AugAssign)
    name, value = asked.source(asked.place.target), asked.source(asked.place.value)
    written = f"{name} = {name} + {value}"
    return Said(
        "python-in-place",
        f"this changes `{name}` in place, and something else may hold it: in Python the change"
        " would be seen there",
        f"make a new one: `{written}`",
        written,
    )


def _ints(asked: Asked) -> Said | None:
    kind = asked.type(asked.node)
    if not isinstance(kind, ListOf) or kind.inner == INT:
        return None
    return Said(
        "python-builtin",
        "`sum` begins with the int 0, so it adds up ints only",
        f"write `vega.list.sum({asked.text})`, which raises ValueError when it is empty",
        "",
    )


def _list(asked: Asked) -> Said | None:
    if isinstance(asked.type(asked.node), ListOf):
        return None
    return Said("python-in-place", "`append` is for lists", "write `x + …`")


def _default(asked: Asked) -> Said | None:
    kind = asked.type(asked.node)
    if not (isinstance(kind, MapOf) and isinstance(kind.inner, OptionalOf)):
        return None
    return Said(
        "python-method",
        "`get` with a default gives a None that is there in Python, and the default here",
        "write `if key in d:` and take `d[key]`",
    )


def _listed(asked: Asked) -> Said | None:
    if not isinstance(asked.type(asked.node), MapOf):
        return None
    return Said(
        "python-loop",
        "this counts the keys of a dict",
        "write `enumerate(list(d.keys()))`, or `d.items()` for keys and values",
    )


def _mapped(asked: Asked) -> Said | None:
    if isinstance(asked.type(asked.node), MapOf):
        return None
    return Said("python-loop", "only a dict has items", "write `enumerate(xs)` for a list")


_Rule: TypeAlias = Callable[[Asked], Said | None]
RULES: dict[str, _Rule] = {
    "text": _text,
    "message": _message,
    "whole": _whole,
    "divide": _divide,
    "floor": _floor,
    "index": _index,
    "add": _add,
    "maps": _maps,
    "grown": _grown,
    "ints": _ints,
    "list": _list,
    "default": _default,
    "listed": _listed,
    "mapped": _mapped,
}
