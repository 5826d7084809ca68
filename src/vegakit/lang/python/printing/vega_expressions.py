"""Expressions and types as Vega."""

import re
from collections.abc import Callable
from typing import Any

from vegakit.lang.tree import (
    Ask,
    Await,
    Binary,
    Build,
    Call,
    Cast,
    ChoiceType,
    Decimal,
    Duration,
    Expr,
    Index,
    ListLit,
    ListType,
    MapLit,
    MapType,
    Member,
    MoneyLit,
    Name,
    NamedType,
    OptionalType,
    Setting,
    Spawn,
    Text,
    TypeExpr,
    Unary,
    Whole,
    Word,
)
from vegakit.money import Money, show

__all__ = ["put", "settings_text", "text_literal", "type_text", "written"]

_SEND, _CAST, _DEFAULT, _OR, _AND, _NOT, _COMPARE, _ADD, _MULTIPLY, _SIGN, _POSTFIX = range(11)
_LEVELS = {
    "??": _DEFAULT,
    "or": _OR,
    "and": _AND,
    "+": _ADD,
    "-": _ADD,
    **dict.fromkeys("*/%", _MULTIPLY),
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">=", "in"), _COMPARE),
}
_KEYWORDS = frozenset(
    "and as async await break catch continue else false fn for if in let not null or parallel"
    " return session spawn true try while".split()
)
_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\", "{": "\\{", "}": "\\}"}
_HIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"))
_WORDS = {True: "true", False: "false", None: "null"}

Printed = tuple[str, int]


def written(name: str) -> str:
    return f"{name}_" if name in _KEYWORDS else name


def text_literal(text: str) -> str:
    return f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    text = "".join(_ESCAPES.get(char, char) for char in text)
    return _HIDDEN.sub(lambda found: f"\\u{{{ord(found[0]):X}}}", text)


def type_text(node: TypeExpr) -> str:
    match node:
        case NamedType(name=name):
            return name
        case OptionalType(inner=ChoiceType() as inner):
            return f"({type_text(inner)})?"
        case OptionalType(inner=inner):
            return f"{type_text(inner)}?"
        case ListType(inner=inner, most=None):
            return f"[{type_text(inner)}]"
        case ListType(inner=inner, most=most):
            return f"[{type_text(inner)}; {most}]"
        case MapType(inner=inner):
            return f"{{str: {type_text(inner)}}}"
        case ChoiceType(choices=choices):
            return " | ".join(map(text_literal, choices))


def put(node: Expr, level: int = 0, *, typed: bool = False) -> str:
    """With `typed` an answer that is text says so."""
    text, own = _PRINTED[type(node)](node)
    if typed and isinstance(node, Ask) and _is_text(node):
        text += " as str"
    return f"({text})" if own < level else text


def _is_text(node: Ask) -> bool:
    return isinstance(node.answer, NamedType) and node.answer.name == "str"


def _money(node: MoneyLit) -> Printed:
    period = f"/{node.period}" if node.period else ""
    return show(Money(node.nanos)).replace(",", "") + period, _POSTFIX


def _duration(node: Duration) -> Printed:
    for size, unit in _UNITS:
        if node.ms and node.ms % size == 0:
            return f"{node.ms // size}{unit}", _POSTFIX
    return f"{node.ms}ms", _POSTFIX


def _decimal(node: Decimal) -> Printed:
    text = repr(node.value)
    return text.replace("e+", "e"), _POSTFIX


def _text(node: Text) -> Printed:
    parts = (_escaped(part) if isinstance(part, str) else f"{{{put(part)}}}" for part in node.parts)
    return f'"{"".join(parts)}"', _POSTFIX


def _list(node: ListLit) -> Printed:
    return f"[{', '.join(put(item) for item in node.items)}]", _POSTFIX


def _map(node: MapLit) -> Printed:
    pairs = (f"{put(pair.key)}: {put(pair.value)}" for pair in node.pairs)
    return f"{{{', '.join(pairs)}}}", _POSTFIX


def _build(node: Build) -> Printed:
    where = "" if node.where is None else f" if {put(node.where, _CAST)}"
    head = f"for {written(node.name)} in {put(node.over, _CAST)}{where}"
    return f"[{head} {{ {put(node.item)} }}]", _POSTFIX


def _unary(node: Unary) -> Printed:
    if node.op == "not":
        return f"not {put(node.of, _NOT)}", _NOT
    return f"-{put(node.of, _SIGN)}", _SIGN


def _binary(node: Binary) -> Printed:
    level = _LEVELS[node.op]
    left = level + 1 if level == _COMPARE else level
    return f"{put(node.left, left)} {node.op} {put(node.right, level + 1)}", level


def _member(node: Member) -> Printed:
    return f"{put(node.of, _POSTFIX)}.{node.name}", _POSTFIX


def _index(node: Index) -> Printed:
    return f"{put(node.of, _POSTFIX)}[{put(node.index)}]", _POSTFIX


def _call(node: Call) -> Printed:
    given = (
        f"{name}: {put(arg)}" if name else put(arg)
        for arg, name in zip(node.args, node.names, strict=True)
    )
    return f"{put(node.callee, _POSTFIX)}({', '.join(given)})", _POSTFIX


def _ask(node: Ask) -> Printed:
    sign = "<~" if node.stream else "<-"
    made = f"{'async ' if node.later else ''}{put(node.to, _POSTFIX)} {sign} "
    made += put(node.message, _CAST + 1)
    if node.timeout is not None:
        made += f" timeout {put(node.timeout, _ADD)}"
    if node.budget is not None:
        made += f" budget {put(node.budget, _ADD)}"
    if node.answer is not None and not _is_text(node):
        made += f" as {type_text(node.answer)}"
    return made, _SEND


def _spawn(node: Spawn) -> Printed:
    made = f"spawn {'async ' if node.later else ''}{put(node.agent)}"
    if node.wallet is not None:
        made += f" wallet {put(node.wallet, _ADD)}"
    if node.named is not None:
        made += f" named {put(node.named, _ADD)}"
    if node.under is not None:
        made += f" supervised by {put(node.under, _POSTFIX)}"
    if node.rules is not None:
        made += f" supervised by {{{settings_text(node.rules)} }}"
    return made, _SEND


def settings_text(settings: tuple[Setting, ...]) -> str:
    return "".join(f" {one.name} {put(one.value)}" for one in settings)


_PRINTED: dict[type, Callable[[Any], Printed]] = {
    Whole: lambda node: (str(node.value), _POSTFIX),
    Decimal: _decimal,
    MoneyLit: _money,
    Duration: _duration,
    Word: lambda node: (_WORDS[node.value], _POSTFIX),
    Text: _text,
    Name: lambda node: (written(node.name), _POSTFIX),
    ListLit: _list,
    MapLit: _map,
    Build: _build,
    Unary: _unary,
    Binary: _binary,
    Member: _member,
    Index: _index,
    Call: _call,
    Ask: _ask,
    Spawn: _spawn,
    Await: lambda node: (f"await {put(node.of, _POSTFIX)}", _SEND),
    Cast: lambda node: (f"{put(node.of, _CAST)} as {type_text(node.to)}", _CAST),
}
