"""Types as Python annotations."""

import json

from vegakit.lang.python.printing.context import NoFormError, Printer
from vegakit.lang.python.words import BUILTIN_TYPES
from vegakit.lang.tree import (
    ChoiceType,
    ListType,
    MapType,
    NamedType,
    OptionalType,
    TypeExpr,
)
from vegakit.lang.types import (
    ChoiceOf,
    ListOf,
    MapOf,
    OptionalOf,
    Plain,
    ProcessOf,
    RecordOf,
    Type,
)

__all__ = ["annotation", "shown"]

_VEGA = {
    "money": "Money",
    "duration": "Duration",
    "file": "File",
    "process": "Process",
    "Response": "Response",
}


def annotation(p: Printer, node: TypeExpr) -> str:
    match node:
        case NamedType(name=name):
            return _named(p, node, name)
        case OptionalType(inner=inner):
            return f"{annotation(p, inner)} | None"
        case ListType(inner=inner, most=None):
            return f"list[{annotation(p, inner)}]"
        case ListType(inner=inner, most=most):
            annotated, bound = p.uses("Annotated", "typing"), p.uses("Max")
            return f"{annotated}[list[{annotation(p, inner)}], {bound}({most})]"
        case MapType(inner=inner):
            return f"dict[str, {annotation(p, inner)}]"
        case ChoiceType(choices=choices):
            return _choice(p, choices)


def _choice(p: Printer, choices: tuple[str, ...]) -> str:
    spelled = ", ".join(json.dumps(one, ensure_ascii=False) for one in choices)
    return f"{p.uses('Literal', 'typing')}[{spelled}]"


def _named(p: Printer, node: TypeExpr, name: str) -> str:
    if name in _VEGA:
        return f"{p.uses('vega')}.{_VEGA[name]}"
    if name == "any":
        return p.uses("Any", "typing")
    if isinstance(p.type(node), ProcessOf):
        return f"{p.uses('vega')}.Process"
    if name in BUILTIN_TYPES:
        return name
    if name == "null":
        return "None"
    return p.fit(name, node)


def shown(p: Printer, kind: Type, node: TypeExpr | None = None) -> str:
    """Of a type that nobody wrote."""
    match kind:
        case Plain(name=name):
            return (_VEGA.get(name) and f"{p.uses('vega')}.{_VEGA[name]}") or (
                p.uses("Any", "typing") if name == "any" else name
            )
        case OptionalOf(inner=inner):
            return f"{shown(p, inner)} | None"
        case ListOf(inner=inner, most=None):
            return f"list[{shown(p, inner)}]"
        case ListOf(inner=inner, most=most):
            annotated, bound = p.uses("Annotated", "typing"), p.uses("Max")
            return f"{annotated}[list[{shown(p, inner)}], {bound}({most})]"
        case MapOf(inner=inner):
            return f"dict[str, {shown(p, inner)}]"
        case ChoiceOf(choices=choices):
            return _choice(p, choices)
        case RecordOf(name=name):
            return name
        case _:
            raise NoFormError(p.unit.source, "a type that has no name")
