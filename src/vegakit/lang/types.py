"""Signatures such as `list::take(items: [T], count: int) -> [T]`, and types as they are written
(pure).
"""

import re

from msgspec import Struct

from vegakit.errors import BugError
from vegakit.value_types import (
    ANY,
    BOOL,
    DURATION,
    FILE,
    FLOAT,
    INT,
    MONEY,
    NOTHING,
    NULL,
    STR,
    ChoiceOf,
    FutureOf,
    ListOf,
    MapOf,
    OptionalOf,
    Plain,
    ProcessOf,
    RecordOf,
    StreamOf,
    Type,
)

# Signatures as they are written in the reference: `list::take(items: [T], count: int) -> [T]`.
#
# | letter | stands for                                  |
# |--------|---------------------------------------------|
# | `T`    | any type, the same wherever it occurs       |
# | `N`    | int, float, money or duration               |
# | `O`    | what has an order: those and str            |
#
# A parameter written `to: int = null` may be left out.


TYPE_PARAMETERS: dict[str, tuple[Type, ...]] = {
    "T": (),
    "N": (INT, FLOAT, MONEY, DURATION),
    "O": (INT, FLOAT, MONEY, DURATION, STR),
}
"""What may stand for a letter; nothing listed means all types."""

RESPONSE = RecordOf("Response", (("status", INT), ("body", STR)))
RAN = RecordOf("Ran", (("code", INT), ("out", STR), ("err", STR)))

PLAIN_TYPES: dict[str, Type] = {
    "int": INT,
    "float": FLOAT,
    "money": MONEY,
    "duration": DURATION,
    "str": STR,
    "bool": BOOL,
    "null": NULL,
    "any": ANY,
    "file": FILE,
    "process": ProcessOf(),
    "Response": RESPONSE,
    "Ran": RAN,
}
"""Names of types that every program knows."""

_SHAPE = re.compile(r"([\w:]+)\((.*)\)(?: -> (.+))?")
_PARAMETER = re.compile(r"(\w+): ([^,]+?)( = null)?(?:, |$)")


class Parameter(Struct, frozen=True):
    """A parameter of a library function or tool. One that is `optional` may be left out."""

    name: str
    type: Type
    optional: bool = False


class Signature(Struct, frozen=True):
    """A signature says what a function takes and returns. One that `is_pure` only computes: it
    reads nothing, changes nothing and costs nothing."""

    name: str
    params: tuple[Parameter, ...]
    result: Type
    is_pure: bool = False


def read_signature(text: str) -> Signature:
    """Return a signature from its text: `list::take(items: [T], count: int) -> [T]`."""
    match = _SHAPE.fullmatch(text)
    if match is None:
        raise BugError(f"{text!r} is not a signature; write name(a: T) -> T")
    params = tuple(
        Parameter(name, _read_type(kind), bool(optional))
        for name, kind, optional in _PARAMETER.findall(match[2])
    )
    return Signature(match[1], params, _read_type(match[3]) if match[3] else NOTHING)


def _read_type(text: str) -> Type:
    if text.endswith("?"):
        return OptionalOf(_read_type(text[:-1]))
    if text.startswith("["):
        return ListOf(_read_type(text[1:-1]))
    if text.startswith("{str: "):
        return MapOf(_read_type(text[6:-1]))
    return Plain(text) if text in TYPE_PARAMETERS else PLAIN_TYPES[text]


def is_text(kind: Type | None) -> bool:
    """Return whether it is `str`, of whatever length."""
    return isinstance(kind, Plain) and kind.name == "str"


def is_literal(kind: Type | None) -> bool:
    """Return whether exactly one text fits, such as `"yes"`: to ask for it refuses all others."""
    return isinstance(kind, ChoiceOf) and len(kind.choices) == 1


def unbounded(kind: Type) -> Type:
    """Return the type without the lengths of its texts and maps. Those of lists stay."""
    match kind:
        case Plain(name="str"):
            return STR
        case OptionalOf(inner=inner):
            return OptionalOf(unbounded(inner))
        case ListOf(inner=inner, most=most):
            return ListOf(unbounded(inner), most)
        case MapOf(inner=inner):
            return MapOf(unbounded(inner))
        case FutureOf(inner=inner):
            return FutureOf(unbounded(inner))
        case _:
            return kind


_SHOWN = 12


def _size(most: int | None) -> str:
    return "" if most is None else f"; {most}"


def _inside(kind: Type) -> str:
    """A `;` inside brackets belongs to them, and what it bounds otherwise stands in parentheses."""
    is_sized = isinstance(kind, Plain) and kind.most is not None
    return f"({type_label(kind)})" if is_sized else type_label(kind)


def type_label(kind: Type) -> str:
    """Return a type as it is written in a program, or a description where it cannot be written."""
    match kind:
        case Plain(name=name, most=most):
            return f"{'?' if name[0] in '?!' else name}{_size(most)}"
        case OptionalOf(inner=inner):
            return (
                f"({type_label(inner)})?" if isinstance(inner, ChoiceOf) else f"{_inside(inner)}?"
            )
        case ListOf(inner=inner, most=most):
            return f"[{_inside(inner)}{_size(most)}]"
        case MapOf(inner=inner, most=most):
            return f"{{str: {_inside(inner)}{_size(most)}}}"
        case ChoiceOf(choices=choices):
            more = " | …" if len(choices) > _SHOWN else ""
            return " | ".join(f'"{choice}"' for choice in choices[:_SHOWN]) + more
        case RecordOf(name=name):
            return name
        case ProcessOf(agent=agent):
            return f"a handle of {agent}" if agent else "a process handle"
        case FutureOf(inner=inner):
            return f"a future of {type_label(inner)}"
        case StreamOf():
            return "a stream"
