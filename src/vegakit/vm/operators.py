"""Arithmetic, equality and order of values (pure).

| left            | op        | right      | gives                                        |
|-----------------|-----------|------------|----------------------------------------------|
| int             | + - * / % | int        | int of 64 bits; `/` cuts toward zero         |
| float           | + - * / % | float      | float, finite; an int beside one is made one |
| money, duration | + - %     | the same   | the same                                     |
| money, duration | * /       | int, float | the same; from float to the nearest even     |
| int, float      | *         | money …    | money …                                      |
| money, duration | /         | the same   | float                                        |
| str, list, map  | +         | the same   | joined; in maps the right side wins          |

Values of different kinds are never equal, except an int and a float of one size. Only numbers,
money, times and strings have an order.
"""

from collections.abc import Callable
from itertools import starmap
from math import fmod, isfinite
from sys import getrefcount
from typing import Any

from vegakit.vm.values import (
    MAX_ITEMS,
    MAX_WEIGHT,
    Duration,
    ListValue,
    MapValue,
    Money,
    UnknownValue,
    Value,
    arithmetic,
    bad,
    fields_of,
    hold,
    kind_of,
    sized,
    whole,
)

# Arithmetic outside the fast path of the interpreter: floats, money, times, joining, and all
# errors.


_NUMBERS = (int, float)


def cut(a: int, b: int) -> int:
    """Return a / b, rounded toward zero."""
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def rest(a: int, b: int) -> int:
    """Return the remainder of `cut`, which has the sign of a."""
    left = abs(a) % abs(b)
    return -left if a < 0 else left


def add(a: Value, b: Value) -> Value:
    """Return a + b."""
    kind = type(a)  # pyright: ignore[reportUnknownVariableType]
    if kind is not type(b):
        return _number(a, b, "+", lambda x, y: x + y)
    if kind is int:
        return whole(a + b)
    if kind is str:
        return sized(a + b)
    if kind is ListValue:
        return _joined(a, b)
    if kind is MapValue:
        return fields_of({**a, **b})
    return _same_kind(a, b, "+", lambda x, y: x + y)


def _joined(a: ListValue, b: ListValue) -> ListValue:
    made = ListValue(a)
    made += b
    hold(made, a.weight + b.weight - 1, max(a.depth, b.depth))
    return made


def grow(registers: list[Value], at: int, more: Value) -> None:
    """Add to what is in a register. A list that nothing else holds gets the new items in place, so
    that one that is made item by item is not copied for each of them."""
    if type(more) is ListValue and _holders(registers, at) == _ALONE:
        held = registers[at]
        if type(held) is ListValue and _fits(held, more):
            held += more
            held.weight += more.weight - 1
            held.depth = max(held.depth, more.depth)
            return
    registers[at] = add(registers[at], more)


def _fits(held: ListValue, more: ListValue) -> bool:
    """Return whether there is no error to raise, which must leave the list as it was."""
    return len(held) + len(more) <= MAX_ITEMS and held.weight + more.weight <= MAX_WEIGHT


def _holders(registers: list[Value], at: int) -> int:
    """Return how often a value is held, as Python counts it."""
    held = registers[at]
    return getrefcount(held)


_ALONE = _holders([ListValue()], 0)
"""What it counts where only one register holds a value: versions of Python differ in it."""


def subtract(a: Value, b: Value) -> Value:
    """Return a - b."""
    if type(a) is not type(b):
        return _number(a, b, "-", lambda x, y: x - y)
    return _same_kind(a, b, "-", lambda x, y: x - y)


def multiply(a: Value, b: Value) -> Value:
    """Return a * b."""
    if type(a) in _NUMBERS:
        a, b = b, a
    if type(a) in (Money, Duration) and type(b) in _NUMBERS:
        return _scaled(a, b, lambda x, y: x * y)
    return _number(a, b, "*", lambda x, y: x * y)


def divide(a: Value, b: Value) -> Value:
    """Return a / b. Ints are cut toward zero."""
    if type(b) in (int, float, Money, Duration):
        _not_zero(b)
    if type(a) is int and type(b) is int:
        return whole(cut(a, b))
    if type(a) in (Money, Duration):
        if type(b) is type(a):
            return _finite(_amount(a) / _amount(b))
        if type(b) in _NUMBERS:
            return _scaled(a, b, lambda x, y: cut(x, y) if type(y) is int else x / y)
    return _number(a, b, "/", lambda x, y: x / y)


def modulo(a: Value, b: Value) -> Value:
    """Return a % b, with the sign of a."""
    if type(b) in (int, float, Money, Duration):
        _not_zero(b)
    if type(a) is type(b) and type(a) in (int, Money, Duration):
        return _same_kind(a, b, "%", rest)
    return _number(a, b, "%", fmod)


def negate(a: Value) -> Value:
    """Return -a."""
    kind = type(a)  # pyright: ignore[reportUnknownVariableType]
    if kind is int:
        return whole(-a)
    if kind is float:
        return -a
    if kind is Money or kind is Duration:
        return kind(whole(-_amount(a)))
    raise bad(f"{kind_of(a)} has no sign")


def _same_kind(a: Value, b: Value, sign: str, do: Callable[[Any, Any], Any]) -> Value:
    kind = type(a)  # pyright: ignore[reportUnknownVariableType]
    if kind is int:
        return whole(do(a, b))
    if kind is Money or kind is Duration:
        return kind(whole(do(_amount(a), _amount(b))))
    return _number(a, b, sign, do)


def _number(a: Value, b: Value, sign: str, do: Callable[[Any, Any], Any]) -> Value:
    if type(a) is int and type(b) is int:
        return whole(do(a, b))
    if type(a) not in _NUMBERS or type(b) not in _NUMBERS:
        raise bad(f"{kind_of(a)} {sign} {kind_of(b)} has no meaning")
    return _finite(do(float(a), float(b)))


def _scaled(a: Value, b: float, do: Callable[[Any, Any], Any]) -> Value:
    scaled = do(_amount(a), b)
    return type(a)(whole(round(_finite(scaled)) if type(scaled) is float else scaled))


def _finite(x: float) -> float:
    if isfinite(x):
        return x
    raise arithmetic("the result is not a finite number")


def _amount(a: Value) -> int:
    return a.nanos if type(a) is Money else a.ms


def _not_zero(b: Value) -> None:
    if (b if type(b) in _NUMBERS else _amount(b)) == 0:
        raise arithmetic("division by zero")


BINARY: dict[str, Callable[[Value, Value], Value]] = {
    "ADD": add,
    "SUB": subtract,
    "MUL": multiply,
    "DIV": divide,
    "MOD": modulo,
}


# Equality and order of values.


_NUMERIC = (int, float)
_ALIKE = (int, float, str, bool)
_MANY = 64
"""From so many items on a look at their kinds is worth it."""
_ORDERED = (int, float, str, Money, Duration)


def equal(one: Value, other: Value) -> bool:
    """Return whether two values are equal. True is not 1 here."""
    kind = type(one)  # pyright: ignore[reportUnknownVariableType]
    if kind is not type(other):
        if kind is UnknownValue or type(other) is UnknownValue:
            return bool(one == other)
        return kind in _NUMERIC and type(other) in _NUMERIC and one == other
    if one is other:
        return True
    if kind is ListValue:
        if len(one) != len(other):
            return False
        if one and is_uniform(one, one[0]) and is_uniform(other, one[0]):
            return bool(one == other)
        return all(starmap(equal, zip(one, other, strict=True)))
    if kind is MapValue:
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    return bool(one == other)


def is_uniform(items: ListValue, item: Value) -> bool:
    """Return whether the items are many and all of the plain kind of `item`. Then Python may
    compare them at once; of two kinds it may not, because to Python True is 1."""
    kind = type(item)  # pyright: ignore[reportUnknownVariableType]
    return len(items) >= _MANY and kind in _ALIKE and {kind}.issuperset(map(type, items))


def less(one: Value, other: Value) -> bool:
    """Return one < other."""
    _ordered(one, other)
    return bool(one < other)


def at_most(one: Value, other: Value) -> bool:
    """Return one <= other."""
    _ordered(one, other)
    return bool(one <= other)


def is_ordered(one: Value, other: Value) -> bool:
    """Return whether two values can be compared by order."""
    kind = type(one)  # pyright: ignore[reportUnknownVariableType]
    if kind is type(other):
        return kind in _ORDERED
    return kind in _NUMERIC and type(other) in _NUMERIC


def _ordered(one: Value, other: Value) -> None:
    if not is_ordered(one, other):
        raise bad(f"{kind_of(one)} and {kind_of(other)} have no order")


def holds(item: Value, whole: Value) -> bool:
    """Return `item in whole`."""
    if type(whole) is ListValue:
        if is_uniform(whole, item):
            return item in whole
        return any(equal(item, each) for each in whole)
    if type(whole) in (MapValue, str) and type(item) is str:
        return item in whole
    raise bad(f"{kind_of(item)} cannot be in {kind_of(whole)}")
