"""Types of values: what the checker reasons in, and what bytecode carries along.

Records are spelled out in full and never contain themselves, so every type is a finite tree.
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


class Plain(Struct, frozen=True, tag="plain"):
    """`int float money duration str bool null any file`, and `nothing`, the result of a function
    that returns none."""

    name: str


class OptionalOf(Struct, frozen=True, tag="optional"):
    inner: "Type"


class ListOf(Struct, frozen=True, tag="list", omit_defaults=True):
    inner: "Type"
    most: int | None = None


class MapOf(Struct, frozen=True, tag="map"):
    inner: "Type"


class ChoiceOf(Struct, frozen=True, tag="choice"):
    choices: tuple[str, ...]


class RecordOf(Struct, frozen=True, tag="record"):
    name: str
    fields: tuple[tuple[str, "Type"], ...]


class ProcessOf(Struct, frozen=True, tag="process"):
    """A handle of a spawned agent or supervisor; of any when empty."""

    agent: str = ""


class FutureOf(Struct, frozen=True, tag="future"):
    inner: "Type"


class StreamOf(Struct, frozen=True, tag="stream"):
    pass


Type: TypeAlias = (
    Plain | OptionalOf | ListOf | MapOf | ChoiceOf | RecordOf | ProcessOf | FutureOf | StreamOf
)

INT, FLOAT, MONEY, DURATION = Plain("int"), Plain("float"), Plain("money"), Plain("duration")
STR, BOOL, NULL, ANY = Plain("str"), Plain("bool"), Plain("null"), Plain("any")
FILE, NOTHING = Plain("file"), Plain("nothing")
