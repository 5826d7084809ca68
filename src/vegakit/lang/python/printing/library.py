"""Calls of the library, as Python spells them where it means the same."""

from vegakit.lang.library import LIBRARY
from vegakit.lang.python.printing.context import Printer
from vegakit.lang.python.printing.expressions import as_text, duration_text, money_text, over, put
from vegakit.lang.tree import Binary, Call, Duration, Expr, Member, MoneyLit, Name, Text, Whole
from vegakit.lang.types import DURATION, INT, MONEY, STR, ChoiceOf

__all__ = ["library_call"]

_METHODS = {
    "str::trim": "strip",
    "str::lower": "lower",
    "str::upper": "upper",
    "str::starts_with": "startswith",
    "str::ends_with": "endswith",
    "str::words": "split",
    "map::get": "get",
}
_WITH_TEXT = {"str::split": "split", "str::replace": "replace"}
_FUNCTIONS = {
    "len": "len",
    "int": "int",
    "float": "float",
    "math::abs": "abs",
    "math::min": "min",
    "math::max": "max",
    "list::sort": "sorted",
}
_TOP = frozenset({"fail", "link", "exec", "file"})
_POSTFIX = 8


def library_call(p: Printer, node: Call, name: str) -> str:  # noqa: C901
    args = node.args
    if any(node.names):
        return _vega(p, node, name)
    if name in _METHODS:
        return _method(p, _METHODS[name], args)
    if name in _WITH_TEXT and _is_something(args[1]):
        return _method(p, _WITH_TEXT[name], args)
    if name in _FUNCTIONS:
        return f"{_FUNCTIONS[name]}({', '.join(put(p, arg) for arg in args)})"
    match name:
        case "print":
            return f"print({as_text(p, args[0])})"
        case "range":
            return f"list({over(p, node)})"
        case "str":
            is_same = p.type(args[0]) in (STR, INT) or isinstance(p.type(args[0]), ChoiceOf)
            return f"str({put(p, args[0])})" if is_same else as_text(p, args[0])
        case "str::join" if isinstance(args[1], Text | Name | Member):
            return f"{put(p, args[1], _POSTFIX)}.join({put(p, args[0])})"
        case "map::keys" | "map::values":
            return f"list({put(p, args[0], _POSTFIX)}.{name.rpartition('::')[2]}())"
        case "str::slice" | "list::slice" if isinstance(args[0], Name | Member | Text):
            return _slice(p, args)
        case _:
            return _vega(p, node, name)


def _method(p: Printer, name: str, args: tuple[Expr, ...]) -> str:
    of, *rest = args
    return f"{put(p, of, _POSTFIX)}.{name}({', '.join(put(p, arg) for arg in rest)})"


def _is_something(node: Expr) -> bool:
    return (
        isinstance(node, Text)
        and bool(node.parts)
        and all(isinstance(part, str) for part in node.parts)
    )


def _slice(p: Printer, args: tuple[Expr, ...]) -> str:
    of, begin, *end = args
    first = "" if isinstance(begin, Whole) and begin.value == 0 else _bound(p, begin)
    last = _bound(p, end[0]) if end else ""
    return f"{put(p, of, _POSTFIX)}[{first}:{last}]"


def _bound(p: Printer, node: Expr) -> str:
    text = put(p, node)
    return f"({text})" if isinstance(node, Binary) else text


def _vega(p: Printer, node: Call, name: str) -> str:
    path = name.replace("::", ".")
    if path.endswith(".yield"):
        path += "_"
    given: list[str] = []
    params = LIBRARY[name].params
    for at, (arg, named) in enumerate(zip(node.args, node.names, strict=True)):
        fixed = not named and at < len(params) and params[at].type in (DURATION, MONEY)
        text = _literal(p, arg) if fixed else put(p, arg)
        given.append(f"{p.fit(named, node)}={text}" if named else text)
    return f"{p.uses('vega')}.{path}({', '.join(given)})"


def _literal(p: Printer, node: Expr) -> str:
    """Where an amount is wanted, its text will do."""
    if isinstance(node, Duration):
        return duration_text(node)
    return money_text(node) if isinstance(node, MoneyLit) else put(p, node)
