"""What is known of a value before the program runs: a size, and the same of what it holds."""

from msgspec import Struct
from msgspec.structs import replace

from vegakit.lang.quoting.sizes import Size, exactly, greater, smaller, symbol
from vegakit.lang.types import ChoiceOf, ListOf, MapOf, OptionalOf, Plain, RecordOf, Type

__all__ = ["NULL_VALUE", "Value", "as_symbol", "bytes_of", "either", "of_type", "sized", "within"]

_TEXT_BYTES = {"int": 24, "float": 40, "bool": 5, "null": 4, "money": 48, "duration": 40}


class Value(Struct, frozen=True):
    """`size` bounds an int or money itself, the length of a list or map, the bytes of a string.
    `item` is of a list's or map's values; None where only its type says something."""

    size: Size | None = None
    item: "Value | None" = None
    fields: tuple[tuple[str, "Value"], ...] = ()

    def field(self, name: str) -> "Value | None":
        return dict(self.fields).get(name)


NULL_VALUE = Value(exactly(0))


def of_type(kind: Type) -> Value:
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
    item = None
    if one.item is not None and other.item is not None:
        item = either(one.item, other.item)
    theirs = dict(other.fields)
    fields = [(name, either(each, theirs[name])) for name, each in one.fields if name in theirs]
    return Value(greater(one.size, other.size), item, tuple(fields))


def within(value: Value, kind: Type) -> Value:
    """With what its type says too."""
    typed = of_type(kind)
    item, fields = value.item or typed.item, value.fields or typed.fields
    return Value(smaller(value.size, typed.size), item, fields)


def sized(value: Value, size: Size | None) -> Value:
    return replace(value, size=size)


def as_symbol(name: str, kind: Type) -> Value:
    return sized(of_type(kind), symbol(name))


def bytes_of(value: Value, kind: Type) -> Size | None:
    """Of its text."""
    match kind:
        case OptionalOf(inner=inner):
            return greater(exactly(4), bytes_of(value, inner))
        case Plain(name="str") | ChoiceOf():
            return value.size
        case Plain(name=name) if name in _TEXT_BYTES:
            return exactly(_TEXT_BYTES[name])
        case _:
            return None
