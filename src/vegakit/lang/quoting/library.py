"""What functions of the library make of sizes; of those not named here nothing is known."""

from collections.abc import Callable, Sequence

from vegakit.lang.quoting.sizes import exactly, greater, product, smaller, total
from vegakit.lang.quoting.values import Value, known, sized

__all__ = ["size_of_call"]


def size_of_call(name: str, values: Sequence[Value]) -> Value:
    rule = _RULES.get(name)
    return Value() if rule is None or not values else rule(*values)


def _same(value: Value, *_: Value) -> Value:
    return sized(value, value.size)


def _size(value: Value) -> Value:
    return Value(value.size, least=0)


def _range(first: Value, end: Value | None = None) -> Value:
    """From a start of which nothing is known from below, its length has no bound."""
    start, end = (known(0), first) if end is None else (first, end)
    item = Value(total(end.size, exactly(-1)), least=start.least)
    if start.least is None:
        return Value(None, item)
    return Value(greater(total(end.size, exactly(-start.least)), exactly(0)), item)


def _take(items: Value, count: Value) -> Value:
    return sized(items, smaller(items.size, greater(count.size, exactly(0))))


def _str_slice(text: Value, start: Value, end: Value | None = None) -> Value:
    """A character has at most four bytes; from the end nothing is known."""
    if end is None or (start.least or 0) < 0 or end.least is None or end.least < 0:
        return Value(text.size)
    return Value(smaller(text.size, product(exactly(4), greater(end.size, exactly(0)))))


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
