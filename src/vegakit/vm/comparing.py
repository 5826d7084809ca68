"""Equality and order of values.

Values of different kinds are never equal, except an int and a float of one size. Only numbers,
money, times and strings have an order.
"""

from itertools import starmap

from vegakit.vm.faults import bad
from vegakit.vm.values import Duration, Fields, Items, Money, Unknown, Value, kind_of

__all__ = ["at_most", "equal", "holds", "is_ordered", "less"]

_NUMBERS = (int, float)
_ORDERED = (int, float, str, Money, Duration)


def equal(one: Value, other: Value) -> bool:
    kind = type(one)  # pyright: ignore[reportUnknownVariableType]
    if kind is not type(other):
        if kind is Unknown or type(other) is Unknown:
            return bool(one == other)
        return kind in _NUMBERS and type(other) in _NUMBERS and one == other
    if one is other:
        return True
    if kind is Items:
        return len(one) == len(other) and all(starmap(equal, zip(one, other, strict=True)))
    if kind is Fields:
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    return bool(one == other)


def less(one: Value, other: Value) -> bool:
    _ordered(one, other)
    return bool(one < other)


def at_most(one: Value, other: Value) -> bool:
    _ordered(one, other)
    return bool(one <= other)


def is_ordered(one: Value, other: Value) -> bool:
    kind = type(one)  # pyright: ignore[reportUnknownVariableType]
    if kind is type(other):
        return kind in _ORDERED
    return kind in _NUMBERS and type(other) in _NUMBERS


def _ordered(one: Value, other: Value) -> None:
    if not is_ordered(one, other):
        raise bad(f"{kind_of(one)} and {kind_of(other)} have no order")


def holds(item: Value, whole: Value) -> bool:
    """`item in whole`."""
    if type(whole) is Items:
        return any(equal(item, each) for each in whole)
    if type(whole) in (Fields, str) and type(item) is str:
        return item in whole
    raise bad(f"{kind_of(item)} cannot be in {kind_of(whole)}")
