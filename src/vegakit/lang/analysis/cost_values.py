"""Upper bounds of numbers, lengths and bytes, and what is known of values and variables before the
program runs (pure).
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

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
    number: int
    symbols: tuple[tuple[str, int], ...] = ()


def exactly(number: int) -> Size:
    return Size(number)


def symbol(name: str) -> Size:
    return Size(_NOTHING, ((name, 0),))


def number(size: Size | None) -> int | None:
    """None also where it depends on a symbol."""
    return None if size is None or size.symbols else size.number


def greater(one: Size | None, other: Size | None) -> Size | None:
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
    """Of two bounds of the same thing."""
    if one is None or other is None:
        return other if one is None else one
    if one.symbols or other.symbols:
        return one if not one.symbols else other
    return one if one.number <= other.number else other


def total(one: Size | None, other: Size | None) -> Size | None:
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
    """Of two that are not negative."""
    if one is None or other is None or one.symbols or other.symbols:
        return None
    count_steps()
    return _in_64_bits(Size(max(one.number, 0) * max(other.number, 0)))


def _in_64_bits(size: Size) -> Size | None:
    """None for what is larger. What is smaller is made larger, which it may be: it is a bound from
    above."""
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
    """What each may hold in any of the rounds or after them; `grown` is in symbols of one round.

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
    """By which `spawn` of the source a process was made, and its wallet; None where it has none and
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
        return dict(self.fields).get(name)


NULL_VALUE = ValueBound(exactly(0))


def of_type(kind: Type) -> ValueBound:
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
    """With what its type says too."""
    typed = of_type(kind)
    item, fields = value.item or typed.item, value.fields or typed.fields
    return replace(value, size=smaller(value.size, typed.size), item=item, fields=fields)


def known(number: int, item: "ValueBound | None" = None) -> ValueBound:
    """Neither more nor less."""
    return ValueBound(exactly(number), item, least=number)


def sized(value: ValueBound, size: Size | None) -> ValueBound:
    return replace(value, size=size, least=None)


def as_symbol(name: str, kind: Type) -> ValueBound:
    return sized(of_type(kind), symbol(name))


def bytes_of(value: ValueBound, kind: Type) -> Size | None:
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


def _digits(value: ValueBound) -> int | None:
    """Of an int that is bounded on both sides."""
    if value.least is None or value.size is None or value.size.symbols:
        return None
    return max(len(str(value.least)), len(str(value.size.number)))


# Variables while a program is walked: what is known of each, and what was ever assigned.


class CostVariable(Struct, frozen=True):
    value: ValueBound
    type: Type


Frames: TypeAlias = list[dict[str, CostVariable]]


class CostScopes:
    """Innermost last. What leaves a block in its middle, by `break` or an error, sees a value that
    the end of the block does not; so each watch joins all that was assigned while it lasts.

    A copy shares its frames until one of them is written: loops copy far more often than their
    bodies assign. `_own` says of each frame whether nobody else has it."""

    def __init__(self) -> None:
        self._frames: Frames = [{}]
        self._own: list[bool] = [True]
        self._watches: list[dict[tuple[int, str], ValueBound]] = []

    @contextmanager
    def block(self) -> Generator[None]:
        self._frames.append({})
        self._own.append(True)
        yield
        self._frames.pop()
        self._own.pop()

    @contextmanager
    def watch(self) -> Generator[dict[tuple[int, str], ValueBound]]:
        seen: dict[tuple[int, str], ValueBound] = {}
        self._watches.append(seen)
        yield seen
        self._watches.pop()

    def declare(self, name: str, value: ValueBound, kind: Type) -> None:
        self._writable(-1)[name] = CostVariable(value, kind)

    def _writable(self, depth: int) -> dict[str, CostVariable]:
        if not self._own[depth]:
            count_steps(1 + len(self._frames[depth]) // 16)
            self._frames[depth] = dict(self._frames[depth])
            self._own[depth] = True
        return self._frames[depth]

    def find(self, name: str) -> tuple[int, CostVariable] | None:
        count_steps(1 + len(self._frames) // 16)
        for depth in range(len(self._frames) - 1, -1, -1):
            if name in self._frames[depth]:
                return depth, self._frames[depth][name]
        return None

    def put(self, depth: int, name: str, value: ValueBound) -> None:
        count_steps(1 + len(self._watches))
        self._writable(depth)[name] = CostVariable(value, self._frames[depth][name].type)
        for seen in self._watches:
            known = seen.get((depth, name))
            seen[depth, name] = value if known is None else either(known, value)

    def join(self, before: Frames, seen: dict[tuple[int, str], ValueBound]) -> None:
        """What was assigned meanwhile may be there, or what was there before may still be."""
        for (depth, name), value in seen.items():
            if depth < len(before) and name in before[depth]:
                self.put(depth, name, either(before[depth][name].value, value))

    def meet(self, ends: Sequence[Frames]) -> None:
        """Whichever of these it came from; frames that are closed by now are not looked at, and
        what is the same wherever it came from stays."""
        for depth, frame in enumerate(self._frames):
            others = [end[depth] for end in ends if end[depth] is not frame]
            if not others:
                continue
            count_steps(1 + len(frame) * len(others) // 8)
            for name, here in list(frame.items()):
                if all(other.get(name) is here for other in others):
                    continue
                values = [end[depth][name].value for end in ends if name in end[depth]]
                if values:
                    count_steps(len(values))
                    self.put(depth, name, reduce(either, values))

    @contextmanager
    def unwatched(self) -> Generator[None]:
        """For a walk whose values are none that the program could have."""
        watches, self._watches = self._watches, []
        frames = self.copy()
        yield
        self._watches = watches
        self.restore(frames)

    def copy(self) -> Frames:
        count_steps(1 + len(self._frames) // 16)
        self._own = [False] * len(self._frames)
        return self._frames.copy()

    def restore(self, frames: Frames) -> None:
        count_steps(1 + len(frames) // 16)
        self._frames = frames.copy()
        self._own = [False] * len(frames)


# What functions of the library make of sizes; of those not named here nothing is known.


def size_of_call(name: str, values: Sequence[ValueBound]) -> ValueBound:
    rule = _RULES.get(name)
    return ValueBound() if rule is None or not values else rule(*values)


def _same(value: ValueBound, *_: ValueBound) -> ValueBound:
    return sized(value, value.size)


def _size(value: ValueBound) -> ValueBound:
    return ValueBound(value.size, least=0)


def _range(first: ValueBound, end: ValueBound | None = None) -> ValueBound:
    """From a start of which nothing is known from below, its length has no bound."""
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
            "list::sort list::reverse list::unique list::drop list::slice list::remove_at "
            "list::without_nulls map::remove"
        ).split(),
        _same,
    ),
}
