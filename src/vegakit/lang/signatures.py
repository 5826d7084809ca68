"""Signatures as they are written in the reference: `list::take(items: [T], count: int) -> [T]`.

| letter | stands for                                  |
|--------|---------------------------------------------|
| `T`    | any type, the same wherever it occurs       |
| `N`    | int, float, money or duration               |
| `O`    | what has an order: those and str            |

A parameter written `to: int = null` may be left out.
"""

import re

from msgspec import Struct

from vegakit.errors import BugError
from vegakit.lang.types import (
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
    ListOf,
    MapOf,
    OptionalOf,
    Plain,
    ProcessOf,
    RecordOf,
    Type,
)

__all__ = ["LETTERS", "PLAIN_TYPES", "RESPONSE", "Parameter", "Signature", "read_signature"]

LETTERS: dict[str, tuple[Type, ...]] = {
    "T": (),
    "N": (INT, FLOAT, MONEY, DURATION),
    "O": (INT, FLOAT, MONEY, DURATION, STR),
}
"""What may stand for a letter; nothing listed means all types."""

RESPONSE = RecordOf("Response", (("status", INT), ("body", STR)))

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
}
"""Names of types that every program knows."""

_SHAPE = re.compile(r"([\w:]+)\((.*)\)(?: -> (.+))?")
_PARAMETER = re.compile(r"(\w+): ([^,]+?)( = null)?(?:, |$)")


class Parameter(Struct, frozen=True):
    name: str
    type: Type
    optional: bool = False


class Signature(Struct, frozen=True):
    name: str
    params: tuple[Parameter, ...]
    result: Type


def read_signature(text: str) -> Signature:
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
    return Plain(text) if text in LETTERS else PLAIN_TYPES[text]
