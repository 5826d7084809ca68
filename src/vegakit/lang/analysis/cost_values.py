"""Upper bounds of numbers, lengths and bytes, and what is known of values and variables before the
program runs (pure).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from vegakit.lang.analysis.walk import Scopes
from vegakit.lang.diagnostics import count_steps
from vegakit.lang.types import ChoiceOf, ListOf, MapOf, OptionalOf, Plain, RecordOf, Type

# Upper bounds of numbers, lengths and bytes, as far as a program tells them.
#
# A size is the greatest of a number and of some symbols, each with something added: `max(3, x +
# 1)`. A symbol is what a variable held when a round of a loop began, so one pass over the body
# says how much it grows in a round. None is no bound.
#
# Numbers of a program have 64 bits, and one that grows past them raises. So a bound past them is
# none, and no number here is ever longer: a program that squares one again and again would
# otherwise make numbers of any length, which no count of steps would bound.


_NOTHING = -(10**40)
"""Below every number, with anything added; a sum of it never falls below it either."""
_LOW, _HIGH = -(2**63), 2**63 - 1


class Size(Struct, frozen=True):
    """An upper bound: the greatest of a number and of some symbols, each with something added."""

    number: int
    symbols: tuple[tuple[str, int], ...] = ()


def exactly(number: int) -> Size:
    """Return the bound that is this number and depends on no symbol."""
    return Size(number)


def symbol(name: str) -> Size:
    """Return the size that a variable has when a round begins."""
    return Size(_NOTHING, ((name, 0),))


def number(size: Size | None) -> int | None:
    """Return the bound as a number; None also where it depends on a symbol."""
    return None if size is None or size.symbols else size.number


def greater(one: Size | None, other: Size | None) -> Size | None:
    """Return a bound of whichever is greater; none if either has none."""
    if one is None or other is None:
        return None
    if not one.symbols and not other.symbols:
        return one if one.number >= other.number else other
    count_steps(1 + (len(one.symbols) + len(other.symbols)) // 4)
    symbols = dict(one.symbols)
    for name, more in other.symbols:
        symbols[name] = max(more, symbols.get(name, more))
    return Size(max(one.number, other.number), tuple(sorted(symbols.items())))


def smaller(one: Size | None, other: Size | None) -> Size | None:
    """Return the better of two bounds of the same thing."""
    if one is None or other is None:
        return other if one is None else one
    if one.symbols or other.symbols:
        return one if not one.symbols else other
    return one if one.number <= other.number else other


def total(one: Size | None, other: Size | None) -> Size | None:
    """Return a bound of the sum; none if both depend on symbols."""
    if one is None or other is None or (one.symbols and other.symbols):
        return None
    if one.symbols:
        one, other = other, one
    count_steps(1 + len(other.symbols) // 4)
    by = one.number
    return _in_64_bits(
        Size(other.number + by, tuple((name, more + by) for name, more in other.symbols))
    )


def product(one: Size | None, other: Size | None) -> Size | None:
    """Return a bound of the product of two that are not negative."""
    if one is None or other is None or one.symbols or other.symbols:
        return None
    count_steps()
    return _in_64_bits(Size(max(one.number, 0) * max(other.number, 0)))


def _in_64_bits(size: Size) -> Size | None:
    """Return the size, None if it is larger than 64 bits. What is smaller is made larger, which
    it may be: it is a bound from above."""
    if size.number > _HIGH or any(more > _HIGH for _, more in size.symbols):
        return None
    if size.number >= _NOTHING and all(more >= _NOTHING for _, more in size.symbols):
        return size
    symbols = tuple((name, max(more, _NOTHING)) for name, more in size.symbols)
    return Size(max(size.number, _NOTHING), symbols)


def least_in_64_bits(least: int) -> int | None:
    """A bound from below: None for what is smaller, and what is larger may be made smaller."""
    return None if least < _LOW else min(least, _HIGH)


def after_rounds(
    before: Mapping[str, Size | None], grown: Mapping[str, Size | None], rounds: int | None
) -> dict[str, Size | None]:
    """Return what each may hold in any of the rounds or after them; `grown` is in symbols of one
    round.

    A round makes the greatest of those that feed each other greater by the most that is added
    anywhere among them, or brings in a number from outside.
    """
    return {name: _after(_feeding(name, grown), before, grown, rounds) for name in grown}


def _after(
    names: Iterable[str],
    before: Mapping[str, Size | None],
    grown: Mapping[str, Size | None],
    rounds: int | None,
) -> Size | None:
    reached: Size | None = Size(_NOTHING)
    most = 0
    for name in names:
        size = grown[name]
        if size is None:
            return None
        count_steps(2 + len(size.symbols))
        own = tuple((other, more) for other, more in size.symbols if other in grown)
        outer = tuple((other, more) for other, more in size.symbols if other not in grown)
        reached = greater(greater(reached, before[name]), Size(size.number, outer))
        most = max([most, *(more for _, more in own)])
    if most and rounds is None:
        return None
    return total(reached, Size(most * (rounds or 0)))


def _feeding(name: str, grown: Mapping[str, Size | None]) -> set[str]:
    found, due = {name}, [name]
    while due:
        count_steps()
        size = grown[due.pop()]
        for other, _ in () if size is None else size.symbols:
            if other in grown and other not in found:
                found.add(other)
                due.append(other)
    return found


# What is known of a value before the program runs: a size, and the same of what it holds.


_TEXT_BYTES = {"int": 24, "float": 40, "bool": 5, "null": 4, "money": 48, "duration": 40}


class SpawnOrigin(Struct, frozen=True):
    """The `spawn` of the source that made a process, and its wallet; None where it has none and
    its spawner pays."""

    site: str
    wallet: int | None


class ValueBound(Struct, frozen=True):
    """`size` bounds an int or money itself, the length of a list or map, the bytes of a string;
    `least` does so from below. `item` is of a list's or map's values; None where only its type says
    something."""

    size: Size | None = None
    item: "ValueBound | None" = None
    fields: tuple[tuple[str, "ValueBound"], ...] = ()
    least: int | None = None
    spawned: SpawnOrigin | None = None

    def field(self, name: str) -> "ValueBound | None":
        """Return the bound of a field of a record; None if only its type says something."""
        return dict(self.fields).get(name)


NULL_VALUE = ValueBound(exactly(0))


def of_type(kind: Type) -> ValueBound:
    """Return what the type alone says of a value."""
    count_steps()
    match kind:
        case OptionalOf(inner=inner):
            return of_type(inner)
        case ListOf(inner=inner, most=most):
            return ValueBound(None if most is None else exactly(most), of_type(inner))
        case MapOf(inner=inner):
            return ValueBound(None, of_type(inner))
        case RecordOf(fields=fields):
            return ValueBound(None, None, tuple((name, of_type(each)) for name, each in fields))
        case ChoiceOf(choices=choices):
            return ValueBound(exactly(max(len(each.encode()) for each in choices)))
        case _:
            return ValueBound()


def either(one: ValueBound, other: ValueBound) -> ValueBound:
    """Return what is known of a value that is one or the other."""
    count_steps()
    item = None
    if one.item is not None and other.item is not None:
        item = either(one.item, other.item)
    theirs = dict(other.fields)
    fields = [(name, either(each, theirs[name])) for name, each in one.fields if name in theirs]
    least = None
    if one.least is not None and other.least is not None:
        least = min(one.least, other.least)
    spawned = one.spawned if one.spawned == other.spawned else None
    return ValueBound(greater(one.size, other.size), item, tuple(fields), least, spawned)


def within(value: ValueBound, kind: Type) -> ValueBound:
    """Return the value with what its type says too."""
    typed = of_type(kind)
    item, fields = value.item or typed.item, value.fields or typed.fields
    return replace(value, size=smaller(value.size, typed.size), item=item, fields=fields)


def known(number: int, item: "ValueBound | None" = None) -> ValueBound:
    """Return a value that is known exactly."""
    return ValueBound(exactly(number), item, least=number)


def sized(value: ValueBound, size: Size | None) -> ValueBound:
    """Return the value with another upper bound, and none from below."""
    return replace(value, size=size, least=None)


def as_symbol(name: str, kind: Type) -> ValueBound:
    """Return a value of this type whose size is that of a variable when a round begins."""
    return sized(of_type(kind), symbol(name))


def bytes_of(value: ValueBound, kind: Type) -> Size | None:
    """Return a bound of the bytes of its text."""
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


def _digits(value: ValueBound) -> int | None:
    """Return how many digits an int has at most that is bounded on both sides."""
    if value.least is None or value.size is None or value.size.symbols:
        return None
    return max(len(str(value.least)), len(str(value.size.number)))


# Variables while a program is walked: what is known of each, and what was ever assigned.


class CostVariable(Struct, frozen=True):
    """A variable with what is known of its value."""

    value: ValueBound
    type: Type


Frames: TypeAlias = list[dict[str, CostVariable]]


class CostScopes(Scopes[CostVariable]):
    """Variables with bounds of their values. A variable keeps its type."""

    def __init__(self) -> None:
        super().__init__(lambda one, other: replace(one, value=either(one.value, other.value)))

    def declare(self, name: str, value: ValueBound, kind: Type) -> None:
        """Declare a variable in the innermost block, with the bound and the type of its value."""
        self.define(name, CostVariable(value, kind))

    def find(self, name: str) -> tuple[int, CostVariable] | None:
        depth = self.depth_of(name)
        return None if depth is None else (depth, self.frames[depth][name])

    def put(self, depth: int, name: str, value: ValueBound) -> None:
        self.set((depth, name), replace(self.frames[depth][name], value=value))


# What functions of the library make of sizes; of those not named here nothing is known.


def size_of_call(name: str, values: Sequence[ValueBound]) -> ValueBound:
    """Return what is known of the result of a library function."""
    rule = _RULES.get(name)
    return ValueBound() if rule is None or not values else rule(*values)


def _same(value: ValueBound, *_: ValueBound) -> ValueBound:
    return sized(value, value.size)


def _size(value: ValueBound) -> ValueBound:
    return ValueBound(value.size, least=0)


def _range(first: ValueBound, end: ValueBound | None = None) -> ValueBound:
    """Bound a range. From a start of which nothing is known from below, its length has no bound."""
    start, end = (known(0), first) if end is None else (first, end)
    item = ValueBound(total(end.size, exactly(-1)), least=start.least)
    if start.least is None:
        return ValueBound(None, item)
    return ValueBound(greater(total(end.size, exactly(-start.least)), exactly(0)), item)


def _take(items: ValueBound, count: ValueBound) -> ValueBound:
    return sized(items, smaller(items.size, greater(count.size, exactly(0))))


def _str_slice(text: ValueBound, start: ValueBound, end: ValueBound | None = None) -> ValueBound:
    """A character has at most four bytes; from the end nothing is known."""
    if end is None or (start.least or 0) < 0 or end.least is None or end.least < 0:
        return ValueBound(text.size)
    return ValueBound(smaller(text.size, product(exactly(4), greater(end.size, exactly(0)))))


def _insert(items: ValueBound, _: ValueBound, item: ValueBound) -> ValueBound:
    return ValueBound(total(items.size, exactly(1)))


def _flatten(items: ValueBound) -> ValueBound:
    inner = items.item
    return (
        ValueBound() if inner is None else ValueBound(product(items.size, inner.size), inner.item)
    )


def _chunks(items: ValueBound, _: ValueBound) -> ValueBound:
    return ValueBound(items.size, items)


def _keys(of: ValueBound) -> ValueBound:
    return ValueBound(of.size)


def _values(of: ValueBound) -> ValueBound:
    return ValueBound(of.size, of.item)


def _merge(one: ValueBound, other: ValueBound) -> ValueBound:
    return ValueBound(total(one.size, other.size))


_RULES: dict[str, Callable[..., ValueBound]] = {
    "range": _range,
    "len": _size,
    "list::len": _size,
    "map::len": _size,
    "str::slice": _str_slice,
    "list::take": _take,
    "list::insert": _insert,
    "list::flatten": _flatten,
    "list::chunks": _chunks,
    "map::keys": _keys,
    "map::values": _values,
    "map::merge": _merge,
    **dict.fromkeys(
        (
            "list::sort list::sort_by list::reverse list::unique list::drop list::slice "
            "list::remove_at list::without_nulls map::remove"
        ).split(),
        _same,
    ),
}
