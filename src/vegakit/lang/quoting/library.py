"""What functions of the library make of sizes; of those not named here nothing is known."""

from collections.abc import Callable, Sequence

from vegakit.lang.quoting.sizes import exactly, greater, product, smaller, total
from vegakit.lang.quoting.values import Value, sized

__all__ = ["size_of_call"]


def size_of_call(name: str, values: Sequence[Value]) -> Value:
    rule = _RULES.get(name)
    return Value() if rule is None or not values else rule(*values)


def _same(value: Value, *_: Value) -> Value:
    return value


def _size(value: Value) -> Value:
    return Value(value.size)


def _range(first: Value, end: Value | None = None) -> Value:
    """From a start that may be negative nothing is known."""
    return Value() if end is not None else Value(greater(first.size, exactly(0)))


def _take(items: Value, count: Value) -> Value:
    return sized(items, smaller(items.size, greater(count.size, exactly(0))))


def _insert(items: Value, _: Value, item: Value) -> Value:
    return Value(total(items.size, exactly(1)))


def _flatten(items: Value) -> Value:
    inner = items.item
    return Value() if inner is None else Value(product(items.size, inner.size), inner.item)


def _chunks(items: Value, _: Value) -> Value:
    return Value(items.size, items)


def _keys(of: Value) -> Value:
    return Value(of.size)


def _values(of: Value) -> Value:
    return Value(of.size, of.item)


def _merge(one: Value, other: Value) -> Value:
    return Value(total(one.size, other.size))


_RULES: dict[str, Callable[..., Value]] = {
    "range": _range,
    "len": _size,
    "list::len": _size,
    "map::len": _size,
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
