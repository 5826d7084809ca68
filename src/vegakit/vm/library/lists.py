"""`list::…`, `map::…`, and what both share."""

from collections.abc import Hashable

from vegakit.vm.arithmetic import add
from vegakit.vm.comparing import equal, is_ordered, less
from vegakit.vm.faults import Fault, bad, limit
from vegakit.vm.library.table import pure
from vegakit.vm.values import (
    MAX_ITEMS,
    Duration,
    Fields,
    Items,
    Money,
    Value,
    fields_of,
    items_of,
    kind_of,
)

__all__ = []

_SUMMED = (int, float, Money, Duration)


@pure("len", "*")
def _len(of: Value) -> int:
    if type(of) in (str, Items, Fields):
        return len(of)
    raise bad(f"{kind_of(of)} has no length")


@pure("range", "i i?")
def _range(begin: int, end: int | None) -> Items:
    numbers = range(begin) if end is None else range(begin, end)
    count = max(numbers.stop - numbers.start, 0)
    if count > MAX_ITEMS:
        raise limit(f"a list has at most {MAX_ITEMS:,} items; this one would have {count:,}")
    return items_of(numbers)


@pure("list::len", "l")
def _list_len(items: Items) -> int:
    return len(items)


@pure("list::first", "l")
def _first(items: Items) -> Value:
    return items[0] if items else None


@pure("list::last", "l")
def _last(items: Items) -> Value:
    return items[-1] if items else None


@pure("list::sort", "l")
def _sort(items: Items) -> Items:
    _all_ordered(items)
    return items_of(sorted(items))


def _all_ordered(items: Items) -> None:
    for item in items:
        if not is_ordered(items[0], item):
            raise bad(f"{kind_of(items[0])} and {kind_of(item)} have no order")


@pure("list::reverse", "l")
def _reverse(items: Items) -> Items:
    return items_of(items[::-1])


@pure("list::unique", "l")
def _unique(items: Items) -> Items:
    seen: dict[Hashable, Value] = {}
    for item in items:
        seen.setdefault(_key(item), item)
    return items_of(seen.values())


def _key(value: Value) -> Hashable:
    """Equal for equal values and only for them."""
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is Items:
        return ("list", tuple(map(_key, value)))
    if kind is Fields:
        return ("map", frozenset((key, _key(item)) for key, item in value.items()))
    return ("number" if kind in (int, float) else kind.__name__, value)


@pure("list::take", "l i")
def _take(items: Items, count: int) -> Items:
    return items_of(items[: max(count, 0)])


@pure("list::drop", "l i")
def _drop(items: Items, count: int) -> Items:
    return items_of(items[max(count, 0) :])


@pure("list::slice", "l i i?")
def _slice(items: Items, begin: int, end: int | None) -> Items:
    return items_of(items[begin:end])


@pure("list::contains", "l *")
def _contains(items: Items, item: Value) -> bool:
    return _index_of(items, item) is not None


@pure("list::index_of", "l *")
def _index_of(items: Items, item: Value) -> int | None:
    return next((at for at, each in enumerate(items) if equal(each, item)), None)


@pure("list::count", "l *")
def _count(items: Items, item: Value) -> int:
    return sum(equal(each, item) for each in items)


@pure("list::sum", "l")
def _sum(items: Items) -> Value:
    if not items:
        raise Fault("ValueError", "there is nothing to add up")
    for item in items:
        if type(item) not in _SUMMED:
            raise bad(f"{kind_of(item)} is not added up")
    total = items[0]
    for item in items[1:]:
        total = add(total, item)
    return total


@pure("list::min", "l")
def _min(items: Items) -> Value:
    _all_ordered(items)
    return min(items, default=None)


@pure("list::max", "l")
def _max(items: Items) -> Value:
    _all_ordered(items)
    return max(items, default=None)


@pure("list::flatten", "l")
def _flatten(items: Items) -> Items:
    for item in items:
        if type(item) is not Items:
            raise bad(f"list::flatten takes lists, not {kind_of(item)}")
    count = sum(map(len, items))
    if count > MAX_ITEMS:
        raise limit(f"a list has at most {MAX_ITEMS:,} items; this one would have {count:,}")
    return items_of([each for item in items for each in item])


@pure("list::chunks", "l i")
def _chunks(items: Items, size: int) -> Items:
    if size < 1:
        raise Fault("ValueError", f"a chunk has at least one item; got {size}")
    return items_of([items_of(items[at : at + size]) for at in range(0, len(items), size)])


@pure("list::remove_at", "l i")
def _remove_at(items: Items, index: int) -> Items:
    if not 0 <= index < len(items):
        raise Fault("IndexError", f"there is no item {index}; there are {len(items)}")
    return items_of([*items[:index], *items[index + 1 :]])


@pure("list::insert", "l i *")
def _insert(items: Items, index: int, item: Value) -> Items:
    if not 0 <= index <= len(items):
        raise Fault("IndexError", f"there is no place {index}; there are {len(items)} items")
    return items_of([*items[:index], item, *items[index:]])


@pure("list::without_nulls", "l")
def _without_nulls(items: Items) -> Items:
    return items_of([item for item in items if item is not None])


@pure("map::len", "m")
def _map_len(entries: Fields) -> int:
    return len(entries)


@pure("map::keys", "m")
def _keys(entries: Fields) -> Items:
    return items_of(entries)


@pure("map::values", "m")
def _values(entries: Fields) -> Items:
    return items_of(entries.values())


@pure("map::get", "m s")
def _get(entries: Fields, key: str) -> Value:
    return entries.get(key)


@pure("map::has", "m s")
def _has(entries: Fields, key: str) -> bool:
    return key in entries


@pure("map::remove", "m s")
def _remove(entries: Fields, key: str) -> Fields:
    return fields_of({each: value for each, value in entries.items() if each != key})


@pure("map::merge", "m m")
def _merge(entries: Fields, other: Fields) -> Fields:
    return fields_of({**entries, **other})


@pure("math::min", "* *")
def _smaller(a: Value, b: Value) -> Value:
    return b if less(b, a) else a


@pure("math::max", "* *")
def _larger(a: Value, b: Value) -> Value:
    return b if less(a, b) else a
