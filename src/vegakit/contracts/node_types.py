"""Types of what a node takes and gives, and their values (pure).

| written             | in JSON                      | inside               | bound             |
|---------------------|------------------------------|----------------------|-------------------|
| `string<100>`       | text                         | str                  | 10,000 characters |
| `integer`           | whole number                 | int                  | 64 bits, checked  |
| `decimal<4>`        | text, "12.5000"              | int of 10**-4 units  | 38 digits         |
| `boolean`           | true, false                  | bool                 |                   |
| `bytes<100>`        | text in base64               | bytes                | 10,000 bytes      |
| `timestamp`         | ISO 8601 with its offset     | int of microseconds  | years 1 to 9999   |
| `enum[paid, open]`  | one of these texts           | str                  | 200 choices       |
| `array<T, 50>`      | list                         | tuple                | 1,000 items       |
| `set<T, 50>`        | list without order           | frozenset            | 1,000 items       |
| `map<K, V, 50>`     | object; K string or integer  | dict                 | 1,000 entries     |
| a name of `types:`  | object                       | dict                 |                   |

`decimal` alone has two places. Every type is finite, so that what an expression may cost at most is
known before it runs. No value is ever changed in place.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeAlias, cast

from msgspec import Struct

from vegakit.errors import UserError, did_you_mean

INTEGER_MIN, INTEGER_MAX = -(2**63), 2**63 - 1
DECIMAL_DIGITS, MAX_SCALE = 38, 18
DECIMAL_LIMIT = 10**DECIMAL_DIGITS
MAX_TEXT, MAX_ITEMS = 10_000, 1_000
_MAX_CHOICES, _MAX_TYPE_DEPTH = 200, 8
_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)

Value: TypeAlias = Any
"""A value inside: which of the above it is follows from its type, which is known."""


class TextType(Struct, frozen=True, tag="string"):
    """Text of at most so many characters."""

    max_length: int = MAX_TEXT


class IntegerType(Struct, frozen=True, tag="integer"):
    """A whole number of 64 bits with its sign."""


class DecimalType(Struct, frozen=True, tag="decimal"):
    """A number with `scale` places and at most 38 digits in all."""

    scale: int = 2


class BooleanType(Struct, frozen=True, tag="boolean"):
    """True or false."""


class BytesType(Struct, frozen=True, tag="bytes"):
    """Bytes, at most so many."""

    max_length: int = MAX_TEXT


class TimestampType(Struct, frozen=True, tag="timestamp"):
    """An instant, to the microsecond."""


class EnumType(Struct, frozen=True, tag="enum"):
    """One of some texts."""

    choices: tuple[str, ...]


class ArrayType(Struct, frozen=True, tag="array"):
    """Items in their order."""

    item: "NodeType"
    max_items: int = MAX_ITEMS


class SetType(Struct, frozen=True, tag="set"):
    """Different scalars. They are visited in their own order, so that no result depends on how they
    were given."""

    item: "NodeType"
    max_items: int = MAX_ITEMS


class MapType(Struct, frozen=True, tag="map"):
    """Values by key. Keys are visited in their own order."""

    key: "NodeType"
    value: "NodeType"
    max_items: int = MAX_ITEMS


class RecordType(Struct, frozen=True, tag="record"):
    """Named fields. `name` is the one in `types:`, empty for a record made by an expression; two
    records with the same fields are of the same type."""

    fields: tuple[tuple[str, "NodeType"], ...]
    name: str = ""

    def field(self, name: str) -> "NodeType | None":
        """Return the type of a field, or None."""
        return dict(self.fields).get(name)


ScalarType: TypeAlias = (
    TextType | IntegerType | DecimalType | BooleanType | BytesType | TimestampType | EnumType
)
CollectionType: TypeAlias = ArrayType | SetType | MapType
NodeType: TypeAlias = ScalarType | CollectionType | RecordType

TEXT, INTEGER, BOOLEAN = TextType(), IntegerType(), BooleanType()
TIMESTAMP = TimestampType()
SCALARS = (
    TextType,
    IntegerType,
    DecimalType,
    BooleanType,
    BytesType,
    TimestampType,
    EnumType,
)


class NodeTypeError(UserError):
    """A type that cannot be."""


class NodeValueError(UserError):
    """A value that does not fit its type; `where` is the path to it."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"{where}: {reason}")
        self.where = where


# Types as they are written.

_TYPE_TOKEN = re.compile(r"\s*(?:([A-Za-z_][A-Za-z0-9_]*)|([0-9]{1,9})|('[^']*')|([<>,\[\]]))")
_SIMPLE = {"integer": INTEGER, "boolean": BOOLEAN, "timestamp": TIMESTAMP}
_SIZED: dict[str, tuple[Callable[[int], NodeType], int, int]] = {
    "string": (TextType, 1, MAX_TEXT),
    "bytes": (BytesType, 1, MAX_TEXT),
    "decimal": (DecimalType, 0, MAX_SCALE),
}
"""Types with one number: how they are made, and the bounds of it."""
_COLLECTIONS = ("array", "set", "map")
TYPE_NAMES = (*_SIMPLE, *_SIZED, "enum", *_COLLECTIONS)


def parse_type(text: str, records: Mapping[str, RecordType]) -> NodeType:
    """Return the type that a text names; `records` are those of the node."""
    tokens, at = list[str](), 0
    while at < len(text.rstrip()):
        found = _TYPE_TOKEN.match(text, at)
        if not found:
            raise NodeTypeError(
                f"the type {text[:80]!a} cannot be read at {text[at : at + 10]!a}; "
                "write for example array<decimal<2>, 50>"
            )
        tokens.append(found[0].strip())
        at = found.end()
    return _TypeReader(text, tokens, records).whole()


class _TypeReader:
    def __init__(self, text: str, tokens: list[str], records: Mapping[str, RecordType]) -> None:
        self._text, self._tokens, self._records, self._at = text, tokens, records, 0

    def whole(self) -> NodeType:
        found = self._type(0)
        if self._at < len(self._tokens):
            raise self._wrong(f"{self._tokens[self._at]!a} is too much; take it out")
        return found

    def _wrong(self, reason: str) -> NodeTypeError:
        return NodeTypeError(f"the type {self._text[:80]!a} is wrong: {reason}")

    def _next(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1] if self._at <= len(self._tokens) else ""

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _expect(self, sign: str) -> None:
        if (got := self._next()) != sign:
            raise self._wrong(f"{sign!r} is expected, and there is {got or 'the end'!r}")

    def _type(self, depth: int) -> NodeType:
        if depth > _MAX_TYPE_DEPTH:
            raise self._wrong(f"it is nested deeper than {_MAX_TYPE_DEPTH} levels; name a record")
        name = self._next()
        if name in _SIMPLE:
            return _SIMPLE[name]
        if name in _SIZED:
            return self._sized(name)
        if name == "enum":
            return self._enum()
        if name in _COLLECTIONS:
            return self._collection(name, depth)
        if name in self._records:
            return self._records[name]
        known = [*TYPE_NAMES, *self._records]
        raise self._wrong(f"there is no type {name[:80]!a}; {did_you_mean(name, known)}")

    def _sized(self, name: str) -> NodeType:
        made, least, most = _SIZED[name]
        if self._peek() != "<":
            return made(2 if name == "decimal" else most)
        self._next()
        size = self._number(least, most, "places" if name == "decimal" else "length")
        self._expect(">")
        return made(size)

    def _number(self, least: int, most: int, what: str) -> int:
        text = self._next()
        if not text.isdigit() or not least <= int(text) <= most:
            raise self._wrong(f"its {what} is {text!a}; give a number from {least} to {most}")
        return int(text)

    def _enum(self) -> NodeType:
        self._expect("[")
        choices = [self._next().strip("'")]
        while self._peek() == ",":
            self._next()
            choices.append(self._next().strip("'"))
        self._expect("]")
        if len({*choices}) != len(choices) or "" in choices or len(choices) > _MAX_CHOICES:
            raise self._wrong(f"an enum has up to {_MAX_CHOICES} different names, none empty")
        return EnumType((*choices,))

    def _collection(self, name: str, depth: int) -> NodeType:
        self._expect("<")
        parts = [self._type(depth + 1)]
        if name == "map":
            self._expect(",")
            parts.append(self._type(depth + 1))
        most = MAX_ITEMS
        if self._peek() == ",":
            self._next()
            most = self._number(1, MAX_ITEMS, "most items")
        self._expect(">")
        if name == "map":
            if not isinstance(parts[0], TextType | IntegerType | EnumType):
                raise self._wrong("the keys of a map are string, integer or enum")
            return MapType(parts[0], parts[1], most)
        if name == "set" and not isinstance(parts[0], SCALARS):
            raise self._wrong("a set holds scalars; use an array")
        return SetType(parts[0], most) if name == "set" else ArrayType(parts[0], most)


def show_type(kind: NodeType) -> str:
    """Return a type as it is written."""
    match kind:
        case TextType(max_length=most) | BytesType(max_length=most):
            name = "string" if isinstance(kind, TextType) else "bytes"
            return name if most == MAX_TEXT else f"{name}<{most}>"
        case DecimalType(scale=scale):
            return f"decimal<{scale}>"
        case EnumType(choices=choices):
            return f"enum[{', '.join(choices)}]"
        case ArrayType(item=item, max_items=most) | SetType(item=item, max_items=most):
            name = "array" if isinstance(kind, ArrayType) else "set"
            return f"{name}<{show_type(item)}{'' if most == MAX_ITEMS else f', {most}'}>"
        case MapType(key=key, value=value, max_items=most):
            bound = "" if most == MAX_ITEMS else f", {most}"
            return f"map<{show_type(key)}, {show_type(value)}{bound}>"
        case RecordType(name=name, fields=fields):
            inner = ", ".join(f"{field}: {show_type(part)}" for field, part in fields)
            return name or f"{{{inner}}}"
        case IntegerType() | BooleanType() | TimestampType():
            return next(name for name, simple in _SIMPLE.items() if simple == kind)


# Values from outside, and back.

_DECIMAL = re.compile(r"(-?)([0-9]{1,38})(?:\.([0-9]{1,38}))?")


def read_value(kind: NodeType, given: object, where: str = "value") -> Value:
    """Return a value as it is inside, or raise `NodeValueError` with the path and the reason."""
    return _READERS[type(kind)](kind, given, where)


def show_value(kind: NodeType, value: Value) -> Value:
    """Return a value as JSON has it."""
    return _WRITERS[type(kind)](kind, value)


def read_decimal(text: str, scale: int) -> int | None:
    """Return a number in units of its last place, or None if it does not fit exactly."""
    found = _DECIMAL.fullmatch(text)
    if not found:
        return None
    places = (found[3] or "").ljust(scale, "0")
    if places[scale:].strip("0"):
        return None
    units = int(found[2] + places[:scale])
    return (-units if found[1] else units) if units < DECIMAL_LIMIT else None


def show_decimal(units: int, scale: int) -> str:
    """Return a number with all its places."""
    digits = str(abs(units)).rjust(scale + 1, "0")
    whole, places = digits[: len(digits) - scale], digits[len(digits) - scale :]
    return f"{'-' if units < 0 else ''}{whole}{'.' if scale else ''}{places}"


def _shown(given: object) -> str:
    # Of a long number not even the digits are made: that takes time by the square of them.
    if isinstance(given, int) and given.bit_length() > 512:
        return "a number of very many digits"
    return f"{given!a:.60}" if isinstance(given, str | int | float) else type(given).__name__


def _text(kind: TextType, given: object, where: str) -> Value:
    if not isinstance(given, str):
        raise NodeValueError(where, f"{_shown(given)} is no text; put it in quotes")
    if len(given) > kind.max_length:
        raise NodeValueError(where, f"a text of {len(given):,} of at most {kind.max_length:,}")
    if any("\ud800" <= letter <= "\udfff" for letter in given):
        raise NodeValueError(where, "half of a character; send valid Unicode")
    return given


def _integer(kind: IntegerType, given: object, where: str) -> Value:
    if not isinstance(given, int) or isinstance(given, bool):
        raise NodeValueError(where, f"{_shown(given)} is no whole number; write it in digits")
    if not INTEGER_MIN <= given <= INTEGER_MAX:
        raise NodeValueError(where, f"{_shown(given)} does not fit 64 bits; use a decimal")
    return given


def _decimal(kind: DecimalType, given: object, where: str) -> Value:
    if isinstance(given, float | bool):
        raise NodeValueError(where, f'{_shown(given)} is no exact decimal; write it as "12.50"')
    if isinstance(given, Decimal):
        given = f"{given:f}" if given.is_finite() and abs(given.adjusted()) < 60 else "NaN"
    if isinstance(given, int):
        given = str(given) if abs(given) < DECIMAL_LIMIT else "of too many digits"
    units = read_decimal(given, kind.scale) if isinstance(given, str) else None
    if units is None:
        raise NodeValueError(
            where,
            f"{_shown(given)} is no decimal of {kind.scale} places and at most {DECIMAL_DIGITS} "
            'digits; write for example "12.50"',
        )
    return units


def _boolean(kind: BooleanType, given: object, where: str) -> Value:
    if not isinstance(given, bool):
        raise NodeValueError(where, f"{_shown(given)} is neither true nor false")
    return given


def _bytes(kind: BytesType, given: object, where: str) -> Value:
    try:
        raw = given if isinstance(given, bytes) else b64decode(str(given), validate=True)
    except ValueError:
        raise NodeValueError(where, f"{_shown(given)} is no base64") from None
    if len(raw) > kind.max_length:
        raise NodeValueError(where, f"{len(raw):,} bytes of at most {kind.max_length:,}")
    return raw


def _timestamp(kind: TimestampType, given: object, where: str) -> Value:
    try:
        instant = given if isinstance(given, datetime) else datetime.fromisoformat(str(given))
        instant.astimezone(UTC)  # in UTC it may lie beyond the years there are
        return (instant - _EPOCH) // _MICROSECOND
    except (ValueError, TypeError, OverflowError):
        raise NodeValueError(
            where,
            f"{_shown(given)} is no instant; write it as 2026-01-31T12:00:00Z, with its offset",
        ) from None


def _choice(kind: EnumType, given: object, where: str) -> Value:
    if given not in kind.choices:
        raise NodeValueError(where, f"{_shown(given)} is none of {', '.join(kind.choices)}")
    return given


def _listed(kind: ArrayType | SetType, given: object, where: str) -> tuple[Value, ...]:
    if not isinstance(given, list | tuple | set | frozenset):
        raise NodeValueError(where, f"{_shown(given)} is no list")
    parts = cast("Iterable[object]", given)
    items = tuple(read_value(kind.item, part, f"{where}[{n}]") for n, part in enumerate(parts))
    if len(items) > kind.max_items:
        raise NodeValueError(where, f"{len(items):,} items of at most {kind.max_items:,}")
    return items


def _set(kind: SetType, given: object, where: str) -> Value:
    items = _listed(kind, given, where)
    if len(frozenset(items)) != len(items):
        raise NodeValueError(where, "something is in this set twice; keep one of them")
    return frozenset(items)


def _map(kind: MapType, given: object, where: str) -> Value:
    if not isinstance(given, Mapping):
        raise NodeValueError(where, f"{_shown(given)} is no object")
    entries = cast("Mapping[object, object]", given)
    if len(entries) > kind.max_items:
        raise NodeValueError(where, f"{len(entries):,} entries of at most {kind.max_items:,}")
    made: dict[Value, Value] = {}
    for key, part in entries.items():
        # JSON has no other keys than texts.
        digits = isinstance(key, str) and re.fullmatch("-?(0|[1-9][0-9]{0,18})", key)
        number = isinstance(kind.key, IntegerType) and digits
        read = read_value(kind.key, int(str(key)) if number else key, f"a key of {where}")
        made[read] = read_value(kind.value, part, f"{where}[{_shown(key)}]")
    return made


def _record(kind: RecordType, given: object, where: str) -> Value:
    if not isinstance(given, Mapping):
        raise NodeValueError(where, f"{_shown(given)} is no object")
    entries = cast("Mapping[str, object]", given)
    known = [name for name, _ in kind.fields]
    for key in entries:
        if key not in known:
            raise NodeValueError(where, f"{_shown(key)} is not known; {did_you_mean(key, known)}")
    for name in known:
        if name not in entries:
            raise NodeValueError(where, f"{name} is missing; give a {show_type(kind)}")
    return {name: read_value(part, entries[name], f"{where}.{name}") for name, part in kind.fields}


_READERS: dict[type, Callable[[Any, object, str], Value]] = {
    TextType: _text,
    IntegerType: _integer,
    DecimalType: _decimal,
    BooleanType: _boolean,
    BytesType: _bytes,
    TimestampType: _timestamp,
    EnumType: _choice,
    ArrayType: _listed,
    SetType: _set,
    MapType: _map,
    RecordType: _record,
}


def _same(_: NodeType, value: Value) -> Value:
    return value


def show_instant(value: int) -> str:
    """Return an instant in ISO 8601, in UTC."""
    return (_EPOCH + value * _MICROSECOND).isoformat().replace("+00:00", "Z")


_WRITERS: dict[type, Callable[[Any, Value], Value]] = {
    TextType: _same,
    IntegerType: _same,
    DecimalType: lambda kind, value: show_decimal(value, kind.scale),
    BooleanType: _same,
    BytesType: lambda _, value: b64encode(value).decode(),
    TimestampType: lambda _, value: show_instant(value),
    EnumType: _same,
    ArrayType: lambda kind, value: [show_value(kind.item, part) for part in value],
    SetType: lambda kind, value: [show_value(kind.item, part) for part in sorted(value)],
    MapType: lambda kind, value: {
        str(key): show_value(kind.value, value[key]) for key in sorted(value)
    },
    RecordType: lambda kind, value: {
        name: show_value(part, value[name]) for name, part in kind.fields
    },
}
