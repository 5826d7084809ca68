"""What is known of a value before the program runs: a size, and the same of what it holds."""

from msgspec import Struct
from msgspec.structs import replace

from vegakit.lang.quoting.sizes import Size, exactly, greater, smaller, symbol
from vegakit.lang.steps import took
from vegakit.lang.types import ChoiceOf, ListOf, MapOf, OptionalOf, Plain, RecordOf, Type

__all__ = [
    "NULL_VALUE",
    "Spawned",
    "Value",
    "as_symbol",
    "bytes_of",
    "either",
    "known",
    "of_type",
    "sized",
    "within",
]

_TEXT_BYTES = {"int": 24, "float": 40, "bool": 5, "null": 4, "money": 48, "duration": 40}


class Spawned(Struct, frozen=True):
    """By which `spawn` of the source a process was made, and its wallet; None where it has none and
    its spawner pays."""

    site: str
    wallet: int | None


class Value(Struct, frozen=True):
    """`size` bounds an int or money itself, the length of a list or map, the bytes of a string;
    `least` does so from below. `item` is of a list's or map's values; None where only its type says
    something."""

    size: Size | None = None
    item: "Value | None" = None
    fields: tuple[tuple[str, "Value"], ...] = ()
    least: int | None = None
    spawned: Spawned | None = None

    def field(self, name: str) -> "Value | None":
        return dict(self.fields).get(name)


NULL_VALUE = Value(exactly(0))


def of_type(kind: Type) -> Value:
    took()
    match kind:
        case OptionalOf(inner=inner):
            return of_type(inner)
        case ListOf(inner=inner, most=most):
            return Value(None if most is None else exactly(most), of_type(inner))
        case MapOf(inner=inner):
            return Value(None, of_type(inner))
        case RecordOf(fields=fields):
            return Value(None, None, tuple((name, of_type(each)) for name, each in fields))
        case ChoiceOf(choices=choices):
            return Value(exactly(max(len(each.encode()) for each in choices)))
        case _:
            return Value()


def either(one: Value, other: Value) -> Value:
    took()
    item = None
    if one.item is not None and other.item is not None:
        item = either(one.item, other.item)
    theirs = dict(other.fields)
    fields = [(name, either(each, theirs[name])) for name, each in one.fields if name in theirs]
    least = None
    if one.least is not None and other.least is not None:
        least = min(one.least, other.least)
    spawned = one.spawned if one.spawned == other.spawned else None
    return Value(greater(one.size, other.size), item, tuple(fields), least, spawned)


def within(value: Value, kind: Type) -> Value:
    """With what its type says too."""
    typed = of_type(kind)
    item, fields = value.item or typed.item, value.fields or typed.fields
    return replace(value, size=smaller(value.size, typed.size), item=item, fields=fields)


def known(number: int, item: "Value | None" = None) -> Value:
    """Neither more nor less."""
    return Value(exactly(number), item, least=number)


def sized(value: Value, size: Size | None) -> Value:
    return replace(value, size=size, least=None)


def as_symbol(name: str, kind: Type) -> Value:
    return sized(of_type(kind), symbol(name))


def bytes_of(value: Value, kind: Type) -> Size | None:
    """Of its text."""
    match kind:
        case OptionalOf(inner=inner):
            return greater(exactly(4), bytes_of(value, inner))
        case Plain(name="str") | ChoiceOf():
            return value.size
        case Plain(name="int") if (most := _digits(value)) is not None:
            return exactly(most)
        case Plain(name=name) if name in _TEXT_BYTES:
            return exactly(_TEXT_BYTES[name])
        case _:
            return None


def _digits(value: Value) -> int | None:
    """Of an int that is bounded on both sides."""
    if value.least is None or value.size is None or value.size.symbols:
        return None
    return max(len(str(value.least)), len(str(value.size.number)))
