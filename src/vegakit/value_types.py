"""Types of values: what the checker reasons in, what bytecode carries, and what an answer may be
asked for as (base, pure).

Records are spelled out in full and never contain themselves, so every type is a finite tree. The
state of a program holds types, and a runtime whose agents run no program loads no compiler: so they
are here, and not in `lang`.
"""

from typing import TypeAlias

from msgspec import Struct

__all__ = [
    "ANY",
    "BOOL",
    "DURATION",
    "FILE",
    "FLOAT",
    "INT",
    "MONEY",
    "NOTHING",
    "NULL",
    "STR",
    "ChoiceOf",
    "FutureOf",
    "ListOf",
    "MapOf",
    "OptionalOf",
    "Plain",
    "ProcessOf",
    "RecordOf",
    "StreamOf",
    "Type",
]


class Plain(Struct, frozen=True, tag="plain", omit_defaults=True):
    """`int float money duration str bool null any file`, and `nothing`, the result of a function
    that returns none. A `str` has at most `most` characters if that is given; no other type has
    it."""

    name: str
    most: int | None = None


class OptionalOf(Struct, frozen=True, tag="optional"):
    """A value or null."""

    inner: "Type"


class ListOf(Struct, frozen=True, tag="list", omit_defaults=True):
    """A list, of at most `most` items if that is given."""

    inner: "Type"
    most: int | None = None


class MapOf(Struct, frozen=True, tag="map", omit_defaults=True):
    """A map from strings, of at most `most` keys if that is given."""

    inner: "Type"
    most: int | None = None


class ChoiceOf(Struct, frozen=True, tag="choice"):
    """One of some strings."""

    choices: tuple[str, ...]


class RecordOf(Struct, frozen=True, tag="record"):
    """A record, with its fields in order."""

    name: str
    fields: tuple[tuple[str, "Type"], ...]


class ProcessOf(Struct, frozen=True, tag="process"):
    """A handle of a spawned agent or supervisor; of any when empty."""

    agent: str = ""


class FutureOf(Struct, frozen=True, tag="future"):
    """A result that may not have come yet."""

    inner: "Type"


class StreamOf(Struct, frozen=True, tag="stream"):
    """An answer that comes in chunks."""


Type: TypeAlias = (
    Plain | OptionalOf | ListOf | MapOf | ChoiceOf | RecordOf | ProcessOf | FutureOf | StreamOf
)

INT, FLOAT, MONEY, DURATION = Plain("int"), Plain("float"), Plain("money"), Plain("duration")
STR, BOOL, NULL, ANY = Plain("str"), Plain("bool"), Plain("null"), Plain("any")
FILE, NOTHING = Plain("file"), Plain("nothing")
