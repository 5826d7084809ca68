"""The pure functions of the standard library: `PURE` by name, called by `call_pure`.

What a function takes is written in the library of the language, `lang.LIBRARY`. The checker has
seen that calls fit, so an argument of another kind is the fault of bytecode that no compiler made.
"""

import csv
import math
import re
from collections.abc import Callable, Hashable, Sequence, Sized
from typing import Any, NamedTuple, TypeAlias

import msgspec

from vegakit.lang import DURATION, FLOAT, INT, LIBRARY, STR, ListOf, MapOf, Type
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
    restored,
    sized,
    stored,
    text_of,
    weight_of,
    whole,
    work_of,
)

# The table of pure functions, and the one way to call them.


PureFunction: TypeAlias = Callable[..., Any]


class Pure(NamedTuple):
    """A function with the kind of each parameter, None for any, and whether it may be null."""

    params: tuple[tuple[type | None, bool], ...]
    do: PureFunction


PURE: dict[str, Pure] = {}


def pure(name: str) -> Callable[[PureFunction], PureFunction]:
    """Enter a function under its name in the library."""

    def enter(do: PureFunction) -> PureFunction:
        params = LIBRARY[name].params
        PURE[name] = Pure(tuple((_kind(param.type), param.optional) for param in params), do)
        return do

    return enter


_KINDS: dict[Type, type] = {STR: str, INT: int, FLOAT: float, DURATION: Duration}


def _kind(of: Type) -> type | None:
    if isinstance(of, ListOf | MapOf):
        return ListValue if isinstance(of, ListOf) else MapValue
    return _KINDS.get(of)


def call_pure(name: str, args: Sequence[Value]) -> Value:
    """Call a function of the library."""
    known = PURE.get(name)
    if known is None:
        raise bad(f"there is no pure function {name:.80}")
    if len(args) != len(known.params):
        raise bad(f"{name} takes {len(known.params)} arguments, not {len(args)}")
    return known.do(*map(_checked, args, known.params))


def computed(name: str, args: Sequence[Any]) -> Any:  # noqa: ANN401
    """Return what a function makes of values in their JSON form, before any program runs; raise
    LookupError where it would raise."""
    try:
        return stored(call_pure(name, [restored(arg) for arg in args]))
    except ProgramFault as error:
        raise LookupError(name) from error


def _checked(arg: Value, param: tuple[type | None, bool]) -> Value:
    """Return the argument, an int as a float where one is expected."""
    kind, optional = param
    if kind is None or type(arg) is kind or (arg is None and optional):
        return arg
    if kind is float and type(arg) is int:
        return float(arg)
    raise bad(f"a library function got {kind_of(arg)} for {kind.__name__.lower()}")


# What a call costs in fuel beside the size of its arguments and its result. Some functions go
# through items one by one, which takes a hundred times as long as through characters. A call is
# one instruction: charged too little, many of them would run in one slice, and everything else
# would wait for all of them.


_WALKING = frozenset(
    "list::sort list::sort_by list::sort_with list::unique list::contains list::index_of "
    "list::count list::sum list::min list::max list::flatten list::without_nulls str::join".split()
)
_SPELLING = frozenset({"str", "json::text", "csv::text"})
_PARSING = frozenset({"json::parse", "csv::parse"})


def work_in(name: str, args: Sequence[Value]) -> int:
    """Return the fuel that a call costs beside the size of its arguments and its result."""
    if name in _WALKING:
        return sum(map(items_in, args)) + sum(map(work_of, args))
    if name in _SPELLING:
        return sum(map(work_of, args))
    return sum(map(weight_of, args)) >> 2 if name in _PARSING else 0


# `list::…`, `map::…`, and what both share.


_SUMMED = (int, float, Money, Duration)


@pure("len")
def _len(of: Value) -> int:
    if type(of) in (str, ListValue, MapValue):
        return len(of)
    raise bad(f"{kind_of(of)} has no length")


@pure("range")
def _range(begin: int, end: int | None) -> ListValue:
    numbers = range(begin) if end is None else range(begin, end)
    count = max(numbers.stop - numbers.start, 0)
    if count > MAX_ITEMS:
        raise limit(f"a list has at most {MAX_ITEMS:,} items; this one would have {count:,}")
    return items_of(numbers)


@pure("list::sort")
def _sort(items: ListValue, descending: bool | None) -> ListValue:
    _all_ordered(items)
    return items_of(sorted(items, reverse=descending is True))


@pure("list::sort_by")
def _sort_by(items: ListValue, field: str, descending: bool | None) -> ListValue:
    """Equal items stay as they stood in both directions, as `sorted` of Python has it."""
    for item in items:
        if type(item) is not MapValue:
            raise bad(f"list::sort_by sorts records and maps, not {kind_of(item)}")
        if field not in item:
            raise ProgramFault("KeyError", f"there is no entry {field:.80} to sort by")
    known = [item for item in items if item[field] is not None]
    _all_ordered([item[field] for item in known])
    known.sort(key=lambda item: item[field], reverse=descending is True)
    return items_of([*known, *(item for item in items if item[field] is None)])


@pure("list::sort_with")
def _sort_with(items: ListValue, keys: ListValue, descending: bool | None) -> ListValue:
    if len(items) != len(keys):
        raise ProgramFault("ValueError", f"there are {len(keys)} keys for {len(items)} items")
    _all_ordered(keys)
    places = sorted(range(len(items)), key=keys.__getitem__, reverse=descending is True)
    return items_of([items[place] for place in places])


def _all_ordered(items: list[Value]) -> None:
    for item in items:
        if not is_ordered(items[0], item):
            raise bad(f"{kind_of(items[0])} and {kind_of(item)} have no order")


@pure("list::unique")
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


@pure("list::index_of")
def _index_of(items: ListValue, item: Value) -> int | None:
    if is_uniform(items, item):
        return items.index(item) if item in items else None
    return next((at for at, each in enumerate(items) if equal(each, item)), None)


@pure("list::count")
def _list_count(items: ListValue, item: Value) -> int:
    if is_uniform(items, item):
        return items.count(item)
    return sum(equal(each, item) for each in items)


@pure("list::sum")
def _sum(items: ListValue) -> Value:
    if not items:
        raise ProgramFault("ValueError", "there is nothing to add up")
    for item in items:
        if type(item) not in _SUMMED:
            raise bad(f"{kind_of(item)} is not added up")
    if all(type(item) is float for item in items):
        return _sum_of_floats(items)
    total = items[0]
    for item in items[1:]:
        total = add(total, item)
    return total


def _sum_of_floats(items: ListValue) -> Value:
    """What each addition loses is added at the end, as `sum` of Python 3.12 does: written out
    here, a run that goes on under another Python gets the same digits."""
    total = lost = 0.0
    for item in items:
        grown = add(total, item)
        larger, smaller = (total, item) if abs(total) >= abs(item) else (item, total)
        lost += (larger - grown) + smaller
        total = grown
    return add(total, lost)


@pure("list::min")
def _min(items: ListValue) -> Value:
    _all_ordered(items)
    return min(items, default=None)


@pure("list::max")
def _max(items: ListValue) -> Value:
    _all_ordered(items)
    return max(items, default=None)


@pure("list::flatten")
def _flatten(items: ListValue) -> ListValue:
    for item in items:
        if type(item) is not ListValue:
            raise bad(f"list::flatten takes lists, not {kind_of(item)}")
    count = sum(map(len, items))
    if count > MAX_ITEMS:
        raise limit(f"a list has at most {MAX_ITEMS:,} items; this one would have {count:,}")
    return items_of([each for item in items for each in item])


@pure("list::chunks")
def _chunks(items: ListValue, size: int) -> ListValue:
    if size < 1:
        raise ProgramFault("ValueError", f"a chunk has at least one item; got {size}")
    return items_of([items_of(items[at : at + size]) for at in range(0, len(items), size)])


@pure("list::at")
def _at(items: ListValue, index: int) -> Value:
    return items[_place_in(items, index, "item")]


@pure("str::at")
def _character_at(text: str, index: int) -> str:
    return text[_place_in(text, index, "character")]


def _place_in(of: Sized, index: int, what: str) -> int:
    if not -len(of) <= index < len(of):
        raise ProgramFault("IndexError", f"there is no {what} {index}; there are {len(of)}")
    return index


@pure("list::remove_at")
def _remove_at(items: ListValue, index: int) -> ListValue:
    if not 0 <= index < len(items):
        raise ProgramFault("IndexError", f"there is no item {index}; there are {len(items)}")
    return items_of([*items[:index], *items[index + 1 :]])


@pure("list::insert")
def _insert(items: ListValue, index: int, item: Value) -> ListValue:
    if not 0 <= index <= len(items):
        raise ProgramFault("IndexError", f"there is no place {index}; there are {len(items)} items")
    return items_of([*items[:index], item, *items[index:]])


# `math::…`, `json::…`, `time::…`, and numbers from text.


_INT = re.compile(r"[+-]?[0-9]{1,19}")
_FLOAT = re.compile(r"[+-]?([0-9]{1,400}(\.[0-9]{0,400})?|\.[0-9]{1,400})([eE][+-]?[0-9]{1,3})?")
_NANOS, _MS = 1_000_000_000, 1_000
_MOST_DIGITS = 308


@pure("int")
def _int(of: Value) -> int:
    if type(of) is int:
        return of
    if type(of) is float:
        return whole(math.trunc(of))
    if type(of) is str and _INT.fullmatch(of.strip()):
        return whole(int(of.strip()))
    raise _no_number(of, "a whole number")


@pure("float")
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


def _divisor(b: int) -> int:
    if b == 0:
        raise arithmetic("division by zero")
    return b


@pure("math::round")
def _round(x: float, digits: int | None) -> float:
    places = max(-_MOST_DIGITS, min(_MOST_DIGITS, digits or 0))
    try:
        return float(round(x, places))
    except OverflowError:
        raise arithmetic("the rounded number is too large") from None


@pure("math::sqrt")
def _sqrt(x: float) -> float:
    if x < 0:
        raise arithmetic("a negative number has no square root")
    return math.sqrt(x)


@pure("math::pow")
def _pow(x: float, y: float) -> float:
    try:
        return math.pow(x, y)
    except (ValueError, OverflowError):
        raise arithmetic("the power is not a finite number") from None


_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)


@pure("json::parse")
def _parse(text: str) -> Value:
    if _opened(text) > MAX_PARSED and _opened(_STRING.sub("", text)) > MAX_PARSED:
        raise limit(f"a JSON text has at most {MAX_PARSED:,} lists and maps; split it")
    try:
        return plain_value(msgspec.json.decode(text))
    except (msgspec.DecodeError, RecursionError) as error:
        raise ProgramFault("ValueError", f"not JSON: {error}") from None


def _opened(text: str) -> int:
    return text.count("[") + text.count("{")


@pure("csv::parse")
def _parse_csv(text: str) -> ListValue:
    """Empty lines are passed over, as at the end of most files."""
    items = csv.reader(re.split(r"(?<=\n)", text.removeprefix("\ufeff")), strict=True)
    made: list[MapValue] = []
    try:
        head = next((cells for cells in items if cells), list[str]())
        if len({*head}) < len(head):
            raise ProgramFault("ValueError", "two columns of the CSV have the same name")
        for cells in items:
            if len(cells) > len(head):
                count = f"{len(cells)} cells for {len(head)} columns"
                raise ProgramFault("ValueError", f"line {items.line_num} of the CSV has {count}")
            if cells:
                given = dict(zip(head, cells, strict=False))
                made.append(fields_of(dict.fromkeys(head, "") | given))
            if len(made) > MAX_PARSED:
                raise limit(f"a CSV text has at most {MAX_PARSED:,} lines; split it")
    except csv.Error as error:
        raise ProgramFault("ValueError", f"not CSV: {error}") from None
    return items_of(made)


class _Written(list[str]):
    """What the writer of CSV writes to."""

    def write(self, text: str) -> None:
        self.append(text)


@pure("csv::text")
def _csv_text(items: ListValue) -> str:
    """Columns are those of all items, in the order in which they first occur."""
    head: dict[str, None] = {}
    for cells in items:
        if type(cells) is not MapValue:
            raise bad(f"csv::text writes records and maps, not {kind_of(cells)}")
        head |= dict.fromkeys(cells)
    if len(head) * len(items) > MAX_ITEMS:
        raise limit(f"a CSV text has at most {MAX_ITEMS:,} cells; split it")
    written = _Written()
    lines = csv.writer(written, lineterminator="\n")
    if head:
        lines.writerow(head)
    for cells in items:
        lines.writerow(["" if cells.get(name) is None else text_of(cells[name]) for name in head])
    return sized("".join(written))


@pure("time::of_seconds")
def _of_seconds(seconds: float) -> Duration:
    if seconds < 0:
        raise ProgramFault("ValueError", f"a duration is not negative; got {seconds} seconds")
    if seconds > _MOST_SECONDS:
        raise arithmetic("the duration is too long")
    return Duration(round(seconds * _MS))


_MOST_SECONDS = 1e15


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


@pure("str::split")
def _split(text: str, by: str) -> ListValue:
    _few(text.count(by) + 1 if by else len(text))
    return items_of(text.split(by) if by else text)


@pure("str::join")
def _join(parts: ListValue, between: str) -> str:
    for part in parts:
        if type(part) is not str:
            raise ProgramFault("BadProgram", f"str::join joins strings, not {kind_of(part)}")
    _room(sum(map(len, parts)) + len(between) * max(len(parts) - 1, 0))
    return between.join(parts)


@pure("str::lines")
def _lines(text: str) -> ListValue:
    _few(text.count("\n") + 1)
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return items_of([line.removesuffix("\r") for line in lines])


@pure("str::words")
def _words(text: str) -> ListValue:
    words = text.split(None, MAX_ITEMS)
    _few(len(words))
    return items_of(words)


@pure("str::find")
def _find(text: str, part: str) -> int | None:
    at = text.find(part)
    return None if at < 0 else at


@pure("str::count")
def _str_count(text: str, part: str) -> int:
    _something(part)
    return text.count(part)


@pure("str::replace")
def _replace(text: str, part: str, by: str) -> str:
    _something(part)
    _room(len(text) + text.count(part) * (len(by) - len(part)))
    return text.replace(part, by)


@pure("str::repeat")
def _repeat(text: str, count: int) -> str:
    if count < 0:
        raise ProgramFault("ValueError", f"a text is not repeated {count} times")
    _room(len(text) * count)
    return text * count if text else ""


def _filling(text: str, width: int, fill: str | None) -> str:
    fill = " " if fill is None else fill
    _something(fill)
    _room(width)
    missing = max(width - len(text), 0)
    return (fill * (missing // len(fill) + 1))[:missing]


# Functions of one expression.


_SHORT: dict[
    str, Callable[[Any], Any] | Callable[[Any, Any], Any] | Callable[[Any, Any, Any], Any]
] = {
    "list::len": len,
    "map::len": len,
    "str::len": len,
    "list::reverse": lambda items: items_of(items[::-1]),
    "list::take": lambda items, count: items_of(items[: max(count, 0)]),
    "list::drop": lambda items, count: items_of(items[max(count, 0) :]),
    "list::slice": lambda items, begin, end: items_of(items[begin:end]),
    "list::first": lambda items: items[0] if items else None,
    "list::last": lambda items: items[-1] if items else None,
    "list::contains": lambda items, item: _index_of(items, item) is not None,
    "list::without_nulls": lambda items: items_of([item for item in items if item is not None]),
    "map::keys": items_of,
    "map::values": lambda entries: items_of(entries.values()),
    "map::get": lambda entries, key: entries.get(key),
    "map::get_or": lambda entries, key, other: entries.get(key, other),
    "map::has": lambda entries, key: key in entries,
    "map::remove": lambda entries, key: fields_of({k: v for k, v in entries.items() if k != key}),
    "map::merge": lambda entries, other: fields_of({**entries, **other}),
    "math::min": lambda a, b: b if less(b, a) else a,
    "math::max": lambda a, b: b if less(a, b) else a,
    "math::abs": lambda x: abs(x) if type(x) is float else max(x, negate(x)),
    "math::ratio": lambda a, b: a / _divisor(b),
    "math::floor_div": lambda a, b: whole(a // _divisor(b)),
    "math::mod": lambda a, b: a % _divisor(b),
    "math::floor": lambda x: whole(math.floor(x)),
    "math::ceil": lambda x: whole(math.ceil(x)),
    "json::text": lambda value: sized(json_text(value)),
    "time::seconds": lambda of: of.ms / _MS,
    "file": FileRef,
    "file::name": lambda path: path.rstrip("/").rpartition("/")[2],
    "str": lambda of: sized(text_of(of)),
    "str::trim": str.strip,
    "str::lower": lambda text: sized(text.lower()),
    "str::upper": lambda text: sized(text.upper()),
    "str::starts_with": str.startswith,
    "str::ends_with": str.endswith,
    "str::contains": str.__contains__,
    "str::slice": lambda text, begin, end: text[begin:end],
    "str::pad_left": lambda text, width, fill: _filling(text, width, fill) + text,
    "str::pad_right": lambda text, width, fill: text + _filling(text, width, fill),
}
for _name, _do in _SHORT.items():
    pure(_name)(_do)
