"""Upper bounds of numbers, lengths and bytes, and what is known of values and variables before the
program runs (pure).
"""

import re
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from vegakit.conversation import Tokenizer
from vegakit.lang.analysis.walk import Scopes
from vegakit.lang.diagnostics import count_steps
from vegakit.lang.types import ChoiceOf, ListOf, MapOf, OptionalOf, Plain, RecordOf, Type
from vegakit.records import digest128

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
    """An upper bound: the greatest of a number and of some symbols, each with something added. Of
    the bytes of a text, `tokens` bounds its tokens too; None where only its bytes do."""

    number: int
    symbols: tuple[tuple[str, int], ...] = ()
    tokens: int | None = None


def exactly(number: int) -> Size:
    """Return the bound that is this number and depends on no symbol."""
    return Size(number)


def symbol(name: str) -> Size:
    """Return the size that a variable has when a round begins."""
    return Size(_NOTHING, ((name, 0),))


def number(size: Size | None) -> int | None:
    """Return the bound as a number; None also where it depends on a symbol."""
    return None if size is None or size.symbols else size.number


def tokens_in(size: Size | None) -> int | None:
    """Return the bound as tokens: of a text no more than its bytes. None as of `number`."""
    most = number(size)
    return most if size is None or most is None or size.tokens is None else min(most, size.tokens)


def of_text(number: int, tokens: int | None) -> Size:
    """Return the bound of a text with so many bytes, and tokens where they are counted."""
    return Size(number, (), None if tokens is None or tokens >= number else tokens)


def in_bytes(size: Size | None) -> Size | None:
    """Return the same bytes of another text, of whose tokens nothing is known."""
    return size if size is None or size.tokens is None else exactly(size.number)


_CUT_TOKENS = 16


def cut(size: Size | None) -> Size | None:
    """Return a bound of a part of a text. Where it is cut off, what was one token may be a few."""
    if size is None or size.tokens is None:
        return size
    return of_text(size.number, size.tokens + _CUT_TOKENS)


def greater(one: Size | None, other: Size | None) -> Size | None:
    """Return a bound of whichever is greater; none if either has none."""
    if one is None or other is None:
        return None
    if not one.symbols and not other.symbols:
        if one.tokens is None and other.tokens is None:
            return one if one.number >= other.number else other
        most = max(_tokens(one), _tokens(other))
        return of_text(max(one.number, other.number), most)
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
    if one.tokens is None and other.tokens is None:
        return one if one.number <= other.number else other
    return of_text(min(one.number, other.number), min(_tokens(one), _tokens(other)))


def _tokens(size: Size) -> int:
    return size.number if size.tokens is None else size.tokens


def total(one: Size | None, other: Size | None) -> Size | None:
    """Return a bound of the sum; none if both depend on symbols."""
    if one is None or other is None or (one.symbols and other.symbols):
        return None
    if one.symbols:
        one, other = other, one
    count_steps(1 + len(other.symbols) // 4)
    by = one.number
    if not other.symbols and (one.tokens is not None or other.tokens is not None):
        return _in_64_bits(of_text(other.number + by, _tokens(one) + _tokens(other)))
    return _in_64_bits(
        Size(other.number + by, tuple((name, more + by) for name, more in other.symbols))
    )


def scaled(size: Size | None, by: int, over: int = 1) -> Size | None:
    """Return a bound of a fraction of it, rounded up; none where it depends on a symbol."""
    most = product(size, exactly(by))
    return None if most is None else exactly(-(-most.number // over))


def product(one: Size | None, other: Size | None) -> Size | None:
    """Return a bound of the product of two that are not negative."""
    if one is None or other is None or one.symbols or other.symbols:
        return None
    count_steps()
    return _in_64_bits(Size(max(one.number, 0) * max(other.number, 0)))


def repeated(count: Size | None, text: Size | None) -> Size | None:
    """Return a bound of so many texts together."""
    most = product(count, text)
    if most is None or count is None or text is None or text.tokens is None:
        return most
    return of_text(most.number, max(count.number, 0) * text.tokens)


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


# Texts that are known, by the tokenizer of the models that are quoted.
#
# What stands around a text is not known yet, and counts of tokens do not add up: two texts in one
# may have more tokens than each for itself. They do add up at places where every tokenizer that we
# know cuts a text whatever stands around: before a space that follows something else than a space,
# and after the end of a line, unless a slash or a space follows. So a text counts by its tokens
# from the first such place to the last, and by its bytes before and after.


_CUT = re.compile(r"(?<=[^\s])(?= )|(?<=\n)(?=[^\s/])")
_tokenizer: ContextVar[Tokenizer | None] = ContextVar("tokenizer", default=None)


@contextmanager
def counted_by(tokenizer: Tokenizer | None) -> Generator[None]:
    """Count texts that are known by this tokenizer in what runs inside; None counts bytes."""
    token = _tokenizer.set(tokenizer)
    try:
        yield
    finally:
        _tokenizer.reset(token)


def size_of_text(text: str) -> Size:
    """Return the size of a text that is known, wherever it will stand."""
    size, tokenizer = len(text.encode(errors="surrogatepass")), _tokenizer.get()
    if tokenizer is None:
        return exactly(size)
    count_steps(1 + size // 1_000)
    return of_text(size, tokens_anywhere(text, tokenizer))


def tokens_anywhere(text: str, tokenizer: Tokenizer) -> int:
    """Return how many tokens a text adds at most to whatever it becomes a part of."""
    cuts = [found.start() for found in _CUT.finditer(text)]
    if not cuts:
        return len(text.encode(errors="surrogatepass"))
    edges = text[: cuts[0]] + text[cuts[-1] :]
    count = tokenizer.count(text[cuts[0] : cuts[-1]])
    return count + len(edges.encode(errors="surrogatepass"))


# What is known of a value before the program runs: a size, and the same of what it holds.


MOST_EXACT = 256
"""So many values a value may have that each of them is followed."""
ESCAPED = 6
"""A control character is so many bytes in JSON, and every other character fewer."""
CHAR_BYTES = 4
"""A character has so many bytes at most."""
_TEXT_BYTES = {"int": 24, "float": 40, "bool": 5, "null": 4, "money": 48, "duration": 40}


class SpawnOrigin(Struct, frozen=True):
    """The `spawn` of the source that made a process, and its wallet; None where it has none and
    its spawner pays."""

    site: str
    wallet: int | None


class Exact:
    """The values, one or a few, of which a value is one. They are compared by what they are: what
    is known of arguments is the key under which the walk through a function is kept."""

    __slots__ = ("_digest", "values")

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = values
        self._digest = digest128(list(values))
        count_steps(1 + len(values))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Exact) and self._digest == other._digest

    def __hash__(self) -> int:
        return hash(self._digest)

    def joined(self, other: "Exact | None") -> "Exact | None":
        """Return the values of both; None if they are too many to be followed."""
        if other is None or self == other:
            return None if other is None else self
        both = (*self.values, *(each for each in other.values if not _is_in(each, self.values)))
        return Exact(both) if len(both) <= MOST_EXACT else None


def _is_in(value: object, values: tuple[object, ...]) -> bool:
    """`1` and `True` are equal to Python, and not the same here."""
    return any(type(each) is type(value) and each == value for each in values)


class ValueBound(Struct, frozen=True):
    """`size` bounds an int or money itself, the length of a list or map, the bytes of a string;
    `least` does so from below. `item` is of a list's or map's values; None where only its type says
    something. `key` bounds the bytes of a map's keys, `whole` those of all texts in a list or map
    together, `spelled` those of the value as JSON; `exact` are the values it can only have."""

    size: Size | None = None
    item: "ValueBound | None" = None
    fields: tuple[tuple[str, "ValueBound"], ...] = ()
    least: int | None = None
    spawned: SpawnOrigin | None = None
    key: Size | None = None
    whole: Size | None = None
    spelled: Size | None = None
    exact: Exact | None = None

    def field(self, name: str) -> "ValueBound | None":
        """Return the bound of a field of a record; None if only its type says something."""
        return dict(self.fields).get(name)


NULL_VALUE = ValueBound(exactly(0))
NO_ITEM = ValueBound(Size(_NOTHING))
"""The item of a list that has none yet: with another item, it is that one."""


def of_type(kind: Type) -> ValueBound:
    """Return what the type alone says of a value."""
    count_steps()
    match kind:
        case OptionalOf(inner=inner):
            return of_type(inner)
        case ListOf(inner=inner, most=most):
            return ValueBound(None if most is None else exactly(most), of_type(inner))
        case MapOf(inner=inner, most=most):
            return ValueBound(None if most is None else exactly(most), of_type(inner))
        case Plain(name="str", most=int() as most):
            return ValueBound(product(exactly(most), exactly(CHAR_BYTES)))
        case RecordOf(fields=fields):
            return ValueBound(None, None, tuple((name, of_type(each)) for name, each in fields))
        case ChoiceOf(choices=choices):
            return ValueBound(exactly(max(len(each.encode()) for each in choices)))
        case _:
            return ValueBound()


def either(one: ValueBound, other: ValueBound) -> ValueBound:
    """Return what is known of a value that is one or the other."""
    count_steps()
    if one is NO_ITEM or other is NO_ITEM:
        return other if one is NO_ITEM else one
    item = None
    if one.item is not None and other.item is not None:
        item = either(one.item, other.item)
    theirs = dict(other.fields)
    fields = [(name, either(each, theirs[name])) for name, each in one.fields if name in theirs]
    least = None
    if one.least is not None and other.least is not None:
        least = min(one.least, other.least)
    return ValueBound(
        greater(one.size, other.size),
        item,
        tuple(fields),
        least,
        one.spawned if one.spawned == other.spawned else None,
        greater(one.key, other.key),
        greater(one.whole, other.whole),
        greater(one.spelled, other.spelled),
        None if one.exact is None else one.exact.joined(other.exact),
    )


def within(value: ValueBound, kind: Type) -> ValueBound:
    """Return the value with what its type says too, but for what is in it."""
    typed = of_type(kind)
    item, fields = value.item or typed.item, value.fields or typed.fields
    return replace(value, size=smaller(value.size, typed.size), item=item, fields=fields)


def throughout(value: ValueBound, kind: Type) -> ValueBound:
    """Return the value with what its type says of it and of all that is in it, as of one that was
    held to its type."""
    count_steps()
    value = within(value, kind)
    match kind:
        case OptionalOf(inner=inner):
            return throughout(value, inner)
        case ListOf(inner=inner) | MapOf(inner=inner):
            if value.item is None or value.item is NO_ITEM:
                return value
            return replace(value, item=throughout(value.item, inner))
        case RecordOf(fields=fields):
            parts = [(name, value.field(name) or of_type(each), each) for name, each in fields]
            held = tuple((name, throughout(part, each)) for name, part, each in parts)
            return replace(value, fields=held)
        case _:
            return value


def known(number: int, item: "ValueBound | None" = None) -> ValueBound:
    """Return a value that is known exactly."""
    return ValueBound(exactly(number), item, least=number)


def sized(value: ValueBound, size: Size | None) -> ValueBound:
    """Return the value with another upper bound, and none from below."""
    return replace(value, size=size, least=None)


def without_exact(value: ValueBound) -> ValueBound:
    """Return the value without what it is exactly, for one that is made into another type."""
    if value.exact is None and value.item is None and not value.fields:
        return value
    item = None if value.item is None else without_exact(value.item)
    fields = tuple((name, without_exact(each)) for name, each in value.fields)
    return replace(value, exact=None, item=item, fields=fields)


def as_symbol(name: str, kind: Type) -> ValueBound:
    """Return a value of this type whose size is that of a variable when a round begins."""
    return sized(of_type(kind), symbol(name))


def is_natural(value: ValueBound) -> bool:
    """Return whether it is known not to be negative."""
    return value.least is not None and value.least >= 0


def least_sum(one: ValueBound, other: ValueBound) -> int | None:
    """Return a bound of the sum from below."""
    if one.least is None or other.least is None:
        return None
    return least_in_64_bits(one.least + other.least)


def least_difference(one: ValueBound, other: ValueBound) -> int | None:
    """Return a bound of the difference from below."""
    most = number(other.size)
    return None if one.least is None or most is None else least_in_64_bits(one.least - most)


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
            return json_bytes_of(value, kind)


def json_bytes_of(value: ValueBound, kind: Type) -> Size | None:
    """Return a bound of the bytes of the value as JSON."""
    count_steps()
    return smaller(value.spelled, _spelled(value, kind))


def _spelled(value: ValueBound, kind: Type) -> Size | None:
    match kind:
        case OptionalOf(inner=inner):
            return greater(exactly(4), json_bytes_of(value, inner))
        case Plain(name="str", most=most):
            return smaller(quoted(value.size), None if most is None else quoted(exactly(most)))
        case ChoiceOf():
            return total(value.size, exactly(2))
        case ListOf() | MapOf() if number(value.size) == 0:
            return exactly(2)  # whatever its items would be: none is there whose fields are known
        case ListOf(inner=inner):
            item = json_bytes_of(value.item or of_type(inner), inner)
            return _bracketed(value.size, total(item, exactly(1)))
        case MapOf(inner=inner):
            item = json_bytes_of(value.item or of_type(inner), inner)
            return _bracketed(value.size, total(total(quoted(value.key), item), exactly(2)))
        case RecordOf(fields=fields):
            size: Size | None = exactly(2)
            for name, each in fields:
                known = json_bytes_of(value.field(name) or of_type(each), each)
                size = total(total(size, known), exactly(len(name) + 4))
            return size
        case Plain(name=name) if name in _TEXT_BYTES:
            return exactly(_TEXT_BYTES[name] + 2)
        case _:
            return None


def quoted(size: Size | None) -> Size | None:
    """Return the bytes of a text as JSON."""
    return total(product(exactly(ESCAPED), size), exactly(2))


def _bracketed(count: Size | None, each: Size | None) -> Size | None:
    return total(repeated(count, each), exactly(2))


def texts_in(value: ValueBound) -> Size | None:
    """Return a bound of the bytes of all texts of a list together."""
    item = None if value.item is None else value.item.size
    return smaller(value.whole, smaller(value.spelled, repeated(value.size, item)))


def of_answer(kind: Type, size: Size) -> ValueBound:
    """Return what is known of an answer of this type whose JSON, or whose text, has at most this
    size."""
    count_steps()
    most = size.number
    match kind:
        case OptionalOf(inner=inner):
            return of_answer(inner, size)
        case ListOf(inner=inner):
            value = within(ValueBound(exactly(most // 2), of_answer(inner, size)), kind)
        case MapOf(inner=inner):
            value = ValueBound(exactly(most // 4), of_answer(inner, size), key=size)
            value = within(value, kind)
        case RecordOf(fields=fields):
            value = ValueBound(fields=tuple((name, of_answer(each, size)) for name, each in fields))
        case Plain(name="str"):
            return within(ValueBound(size), kind)
        case _:
            return of_type(kind)
    longer = _longer(kind, most)
    return replace(value, whole=size, spelled=total(size, exactly(longer)))


def _longer(kind: Type, most: int) -> int:
    """Return how much longer an answer of so many bytes is when it is spelled again: fields that
    may be left out are null then, and numbers are written out."""
    count_steps()
    match kind:
        case OptionalOf(inner=inner):
            return _longer(inner, most)
        case ListOf(inner=inner, most=count):
            return min(most // 2, most if count is None else count) * _longer(inner, most)
        case MapOf(inner=inner, most=count):
            return min(most // 4, most if count is None else count) * _longer(inner, most)
        case RecordOf(fields=fields):
            return sum(len(name) + 8 + _longer(each, most) for name, each in fields)
        case Plain(name=name):
            return _TEXT_BYTES.get(name, 0)
        case _:
            return 0


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
