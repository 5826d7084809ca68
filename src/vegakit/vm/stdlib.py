"""The pure functions of the standard library: `PURE` by name, called by `call_pure`.

Each parameter is declared by one character: `s` str, `i` int, `f` float (an int becomes one), `l`
list, `m` map, `d` duration, `*` anything. A question mark after it allows null.
"""

import math
import re
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from vegakit.vm.operators import add, equal, is_ordered, is_uniform, less, negate
from vegakit.vm.values import (
    MAX_CHARS,
    MAX_ITEMS,
    MAX_PARSED,
    Duration,
    FileRef,
    ListValue,
    MapValue,
    Money,
    ProgramFault,
    Value,
    arithmetic,
    bad,
    fields_of,
    items_in,
    items_of,
    json_text,
    kind_of,
    limit,
    plain_value,
    sized,
    text_of,
    weight_of,
    whole,
    work_of,
)

# The table of pure functions, and the one way to call them.


_KINDS: dict[str, type] = {
    "s": str,
    "i": int,
    "f": float,
    "l": ListValue,
    "m": MapValue,
    "d": Duration,
}

PureFunction: TypeAlias = Callable[..., Any]


class Pure(NamedTuple):
    params: tuple[str, ...]
    do: PureFunction


PURE: dict[str, Pure] = {}


def pure(name: str, params: str) -> Callable[[PureFunction], PureFunction]:
    def enter(do: PureFunction) -> PureFunction:
        PURE[name] = Pure(tuple(params.split()), do)
        return do

    return enter


def call_pure(name: str, args: Sequence[Value]) -> Value:
    known = PURE.get(name)
    if known is None:
        raise bad(f"there is no pure function {name:.80}")
    if len(args) != len(known.params):
        raise bad(f"{name} takes {len(known.params)} arguments, not {len(args)}")
    return known.do(*map(_checked, args, known.params))


# What a call costs in fuel beside the size of its arguments and its result. Some functions go
# through items one by one, which takes a hundred times as long as through characters. A call is
# one instruction: charged too little, many of them would run in one slice, and everything else
# would wait for all of them.


_WALKING = frozenset(
    "list::sort list::unique list::contains list::index_of list::count list::sum list::min "
    "list::max list::flatten list::without_nulls str::join".split()
)
_SPELLING = frozenset({"str", "json::text"})


def work_in(name: str, args: Sequence[Value]) -> int:
    if name in _WALKING:
        return sum(map(items_in, args)) + sum(map(work_of, args))
    if name in _SPELLING:
        return sum(map(work_of, args))
    if name == "json::parse":
        return sum(map(weight_of, args)) >> 2
    return 0


def _checked(arg: Value, param: str) -> Value:
    kind = _KINDS.get(param[0])
    if kind is None or type(arg) is kind or (arg is None and param[1:] == "?"):
        return arg
    if kind is float and type(arg) is int:
        return float(arg)
    raise bad(f"a library function got {kind_of(arg)} for {kind.__name__.lower()}")


# `list::…`, `map::…`, and what both share.


_SUMMED = (int, float, Money, Duration)


@pure("len", "*")
def _len(of: Value) -> int:
    if type(of) in (str, ListValue, MapValue):
        return len(of)
    raise bad(f"{kind_of(of)} has no length")


@pure("range", "i i?")
def _range(begin: int, end: int | None) -> ListValue:
    numbers = range(begin) if end is None else range(begin, end)
    count = max(numbers.stop - numbers.start, 0)
    if count > MAX_ITEMS:
        raise limit(f"a list has at most {MAX_ITEMS:,} items; this one would have {count:,}")
    return items_of(numbers)


@pure("list::len", "l")
def _list_len(items: ListValue) -> int:
    return len(items)


@pure("list::first", "l")
def _first(items: ListValue) -> Value:
    return items[0] if items else None


@pure("list::last", "l")
def _last(items: ListValue) -> Value:
    return items[-1] if items else None


@pure("list::sort", "l")
def _sort(items: ListValue) -> ListValue:
    _all_ordered(items)
    return items_of(sorted(items))


def _all_ordered(items: ListValue) -> None:
    for item in items:
        if not is_ordered(items[0], item):
            raise bad(f"{kind_of(items[0])} and {kind_of(item)} have no order")


@pure("list::reverse", "l")
def _reverse(items: ListValue) -> ListValue:
    return items_of(items[::-1])


@pure("list::unique", "l")
def _unique(items: ListValue) -> ListValue:
    seen: dict[Hashable, Value] = {}
    for item in items:
        seen.setdefault(_key(item), item)
    return items_of(seen.values())


def _key(value: Value) -> Hashable:
    """Return a key that is equal for equal values, and only for them."""
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is ListValue:
        return ("list", tuple(map(_key, value)))
    if kind is MapValue:
        return ("map", frozenset((key, _key(item)) for key, item in value.items()))
    return ("number" if kind in (int, float) else kind.__name__, value)


@pure("list::take", "l i")
def _take(items: ListValue, count: int) -> ListValue:
    return items_of(items[: max(count, 0)])


@pure("list::drop", "l i")
def _drop(items: ListValue, count: int) -> ListValue:
    return items_of(items[max(count, 0) :])


@pure("list::slice", "l i i?")
def _list_slice(items: ListValue, begin: int, end: int | None) -> ListValue:
    return items_of(items[begin:end])


@pure("list::contains", "l *")
def _list_contains(items: ListValue, item: Value) -> bool:
    return _index_of(items, item) is not None


@pure("list::index_of", "l *")
def _index_of(items: ListValue, item: Value) -> int | None:
    if is_uniform(items, item):
        return items.index(item) if item in items else None
    return next((at for at, each in enumerate(items) if equal(each, item)), None)


@pure("list::count", "l *")
def _list_count(items: ListValue, item: Value) -> int:
    if is_uniform(items, item):
        return items.count(item)
    return sum(equal(each, item) for each in items)


@pure("list::sum", "l")
def _sum(items: ListValue) -> Value:
    if not items:
        raise ProgramFault("ValueError", "there is nothing to add up")
    for item in items:
        if type(item) not in _SUMMED:
            raise bad(f"{kind_of(item)} is not added up")
    total = items[0]
    for item in items[1:]:
        total = add(total, item)
    return total


@pure("list::min", "l")
def _min(items: ListValue) -> Value:
    _all_ordered(items)
    return min(items, default=None)


@pure("list::max", "l")
def _max(items: ListValue) -> Value:
    _all_ordered(items)
    return max(items, default=None)


@pure("list::flatten", "l")
def _flatten(items: ListValue) -> ListValue:
    for item in items:
        if type(item) is not ListValue:
            raise bad(f"list::flatten takes lists, not {kind_of(item)}")
    count = sum(map(len, items))
    if count > MAX_ITEMS:
        raise limit(f"a list has at most {MAX_ITEMS:,} items; this one would have {count:,}")
    return items_of([each for item in items for each in item])


@pure("list::chunks", "l i")
def _chunks(items: ListValue, size: int) -> ListValue:
    if size < 1:
        raise ProgramFault("ValueError", f"a chunk has at least one item; got {size}")
    return items_of([items_of(items[at : at + size]) for at in range(0, len(items), size)])


@pure("list::remove_at", "l i")
def _remove_at(items: ListValue, index: int) -> ListValue:
    if not 0 <= index < len(items):
        raise ProgramFault("IndexError", f"there is no item {index}; there are {len(items)}")
    return items_of([*items[:index], *items[index + 1 :]])


@pure("list::insert", "l i *")
def _insert(items: ListValue, index: int, item: Value) -> ListValue:
    if not 0 <= index <= len(items):
        raise ProgramFault("IndexError", f"there is no place {index}; there are {len(items)} items")
    return items_of([*items[:index], item, *items[index:]])


@pure("list::without_nulls", "l")
def _without_nulls(items: ListValue) -> ListValue:
    return items_of([item for item in items if item is not None])


@pure("map::len", "m")
def _map_len(entries: MapValue) -> int:
    return len(entries)


@pure("map::keys", "m")
def _keys(entries: MapValue) -> ListValue:
    return items_of(entries)


@pure("map::values", "m")
def _values(entries: MapValue) -> ListValue:
    return items_of(entries.values())


@pure("map::get", "m s")
def _get(entries: MapValue, key: str) -> Value:
    return entries.get(key)


@pure("map::has", "m s")
def _has(entries: MapValue, key: str) -> bool:
    return key in entries


@pure("map::remove", "m s")
def _remove(entries: MapValue, key: str) -> MapValue:
    return fields_of({each: value for each, value in entries.items() if each != key})


@pure("map::merge", "m m")
def _merge(entries: MapValue, other: MapValue) -> MapValue:
    return fields_of({**entries, **other})


@pure("math::min", "* *")
def _smaller(a: Value, b: Value) -> Value:
    return b if less(b, a) else a


@pure("math::max", "* *")
def _larger(a: Value, b: Value) -> Value:
    return b if less(a, b) else a


# `math::…`, `json::…`, `time::…`, and numbers from text.


_INT = re.compile(r"[+-]?[0-9]{1,19}")
_FLOAT = re.compile(r"[+-]?([0-9]{1,400}(\.[0-9]{0,400})?|\.[0-9]{1,400})([eE][+-]?[0-9]{1,3})?")
_NANOS, _MS = 1_000_000_000, 1_000
_MOST_DIGITS = 308


@pure("int", "*")
def _int(of: Value) -> int:
    if type(of) is int:
        return of
    if type(of) is float:
        return whole(math.trunc(of))
    if type(of) is str and _INT.fullmatch(of.strip()):
        return whole(int(of.strip()))
    raise _no_number(of, "a whole number")


@pure("float", "*")
def _float(of: Value) -> float:
    match of:
        case bool() | None:
            raise _no_number(of, "a number")
        case int() | float():
            return float(of)
        case Money(nanos=nanos):
            return nanos / _NANOS
        case Duration(ms=ms):
            return ms / _MS
        case str() if _FLOAT.fullmatch(of.strip()) and math.isfinite(float(of.strip())):
            return float(of.strip())
        case _:
            raise _no_number(of, "a number")


def _no_number(of: Value, wanted: str) -> ProgramFault:
    shown = repr(of[:40]) if type(of) is str else kind_of(of)
    return ProgramFault("ValueError", f"{shown} is not {wanted}")


@pure("math::abs", "*")
def _abs(x: Value) -> Value:
    negative = negate(x)
    return max(x, negative)


@pure("math::floor", "f")
def _floor(x: float) -> int:
    return whole(math.floor(x))


@pure("math::ceil", "f")
def _ceil(x: float) -> int:
    return whole(math.ceil(x))


@pure("math::round", "f i?")
def _round(x: float, digits: int | None) -> float:
    places = max(-_MOST_DIGITS, min(_MOST_DIGITS, digits or 0))
    try:
        return float(round(x, places))
    except OverflowError:
        raise arithmetic("the rounded number is too large") from None


@pure("math::sqrt", "f")
def _sqrt(x: float) -> float:
    if x < 0:
        raise arithmetic("a negative number has no square root")
    return math.sqrt(x)


@pure("math::pow", "f f")
def _pow(x: float, y: float) -> float:
    try:
        return math.pow(x, y)
    except (ValueError, OverflowError):
        raise arithmetic("the power is not a finite number") from None


_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)


@pure("json::parse", "s")
def _parse(text: str) -> Value:
    if _opened(text) > MAX_PARSED and _opened(_STRING.sub("", text)) > MAX_PARSED:
        raise limit(f"a JSON text has at most {MAX_PARSED:,} lists and maps; split it")
    try:
        return plain_value(msgspec.json.decode(text))
    except (msgspec.DecodeError, RecursionError) as error:
        raise ProgramFault("ValueError", f"not JSON: {error}") from None


def _opened(text: str) -> int:
    return text.count("[") + text.count("{")


@pure("json::text", "*")
def _text(value: Value) -> str:
    return sized(json_text(value))


@pure("time::seconds", "d")
def _seconds(of: Duration) -> float:
    return of.ms / _MS


@pure("time::of_seconds", "f")
def _of_seconds(seconds: float) -> Duration:
    if seconds < 0:
        raise ProgramFault("ValueError", f"a duration is not negative; got {seconds} seconds")
    if seconds > _MOST_SECONDS:
        raise arithmetic("the duration is too long")
    return Duration(round(seconds * _MS))


_MOST_SECONDS = 1e15


@pure("file", "s")
def _file(path: str) -> FileRef:
    return FileRef(path)


# `str::…`, and text from any value.


def _room(chars: int) -> None:
    if chars > MAX_CHARS:
        raise limit(f"a text has at most {MAX_CHARS:,} characters; this one would have {chars:,}")


def _few(items: int) -> None:
    if items > MAX_ITEMS:
        raise limit(f"a list has at most {MAX_ITEMS:,} items; this one would have {items:,}")


def _something(part: str) -> None:
    if not part:
        raise ProgramFault("ValueError", "an empty string is nothing to look for")


@pure("str", "*")
def _str(of: Value) -> str:
    return sized(text_of(of))


@pure("str::len", "s")
def _str_len(text: str) -> int:
    return len(text)


@pure("str::trim", "s")
def _trim(text: str) -> str:
    return text.strip()


@pure("str::lower", "s")
def _lower(text: str) -> str:
    return sized(text.lower())


@pure("str::upper", "s")
def _upper(text: str) -> str:
    return sized(text.upper())


@pure("str::split", "s s")
def _split(text: str, by: str) -> ListValue:
    _few(text.count(by) + 1 if by else len(text))
    return items_of(text.split(by) if by else text)


@pure("str::join", "l s")
def _join(parts: ListValue, between: str) -> str:
    for part in parts:
        if type(part) is not str:
            raise ProgramFault("BadProgram", f"str::join joins strings, not {kind_of(part)}")
    _room(sum(map(len, parts)) + len(between) * max(len(parts) - 1, 0))
    return between.join(parts)


@pure("str::lines", "s")
def _lines(text: str) -> ListValue:
    _few(text.count("\n") + 1)
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return items_of([line.removesuffix("\r") for line in lines])


@pure("str::words", "s")
def _words(text: str) -> ListValue:
    words = text.split(None, MAX_ITEMS)
    _few(len(words))
    return items_of(words)


@pure("str::starts_with", "s s")
def _starts_with(text: str, part: str) -> bool:
    return text.startswith(part)


@pure("str::ends_with", "s s")
def _ends_with(text: str, part: str) -> bool:
    return text.endswith(part)


@pure("str::contains", "s s")
def _str_contains(text: str, part: str) -> bool:
    return part in text


@pure("str::find", "s s")
def _find(text: str, part: str) -> int | None:
    at = text.find(part)
    return None if at < 0 else at


@pure("str::count", "s s")
def _str_count(text: str, part: str) -> int:
    _something(part)
    return text.count(part)


@pure("str::replace", "s s s")
def _replace(text: str, part: str, by: str) -> str:
    _something(part)
    _room(len(text) + text.count(part) * (len(by) - len(part)))
    return text.replace(part, by)


@pure("str::slice", "s i i?")
def _str_slice(text: str, begin: int, end: int | None) -> str:
    return text[begin:end]


@pure("str::repeat", "s i")
def _repeat(text: str, count: int) -> str:
    if count < 0:
        raise ProgramFault("ValueError", f"a text is not repeated {count} times")
    _room(len(text) * count)
    return text * count if text else ""


@pure("str::pad_left", "s i s?")
def _pad_left(text: str, width: int, fill: str | None) -> str:
    return _filling(text, width, fill) + text


@pure("str::pad_right", "s i s?")
def _pad_right(text: str, width: int, fill: str | None) -> str:
    return text + _filling(text, width, fill)


def _filling(text: str, width: int, fill: str | None) -> str:
    fill = " " if fill is None else fill
    _something(fill)
    _room(width)
    missing = max(width - len(text), 0)
    return (fill * (missing // len(fill) + 1))[:missing]
