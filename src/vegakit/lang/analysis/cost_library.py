"""Rules of the library: sizes, and values that are known, of what its functions return (pure).

Of functions that are not named here nothing is known but the type of what they return. Sizes of
what comes from outside are either what the machine holds to, such as the output of a command, or
stated here; the wallet of a run holds where a person or an error says more than that.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import product as pairs_of
from math import prod
from posixpath import normpath
from typing import Any, cast

from msgspec.structs import replace

from vegakit.lang.analysis.cost_typical import typical_call, typical_file
from vegakit.lang.analysis.cost_values import (
    CHAR_BYTES,
    MOST_EXACT,
    NO_ITEM,
    NULL_VALUE,
    Exact,
    Size,
    ValueBound,
    bytes_of,
    cut,
    either,
    exactly,
    greater,
    in_bytes,
    json_bytes_of,
    known,
    number,
    product,
    quoted,
    repeated,
    scaled,
    size_of_text,
    sized,
    smaller,
    texts_in,
    total,
    within,
)
from vegakit.lang.analysis.cost_walk import CostFacts, KnownWorld
from vegakit.lang.diagnostics import count_steps
from vegakit.lang.library import LIBRARY
from vegakit.lang.types import (
    BOOL,
    INT,
    ChoiceOf,
    ListOf,
    MapOf,
    OptionalOf,
    RecordOf,
    Type,
    is_text,
)

HUMAN_BYTES = 4_000
"""So many bytes the answer of a person counts as."""
REASON_BYTES = 2_000
"""So many bytes the reason of an error counts as that a program catches."""
OUTPUT_BYTES = 4 * 64_000 + 1_000
"""Of each stream of a command so many are kept, each byte that is no text as four."""
_NAME_BYTES = 4_096
_MOST_EXACT_BYTES = 400_000
_MOST_PAIRS = 64


def bound_of(value: Any) -> ValueBound:  # noqa: ANN401
    """Return what is known of a value that is known itself."""
    count_steps()
    match value:
        case bool() | float():
            bound = ValueBound()
        case None:
            bound = NULL_VALUE
        case int():
            bound = known(value)
        case str():
            size = size_of_text(value)
            bound = ValueBound(size, least=size.number)
            if size.number != len(value) and not _is_plain(value):
                return bound
        case list():
            items = [bound_of(item) for item in cast("list[Any]", value)]
            whole = _summed(cast("list[Any]", value))
            bound = ValueBound(
                exactly(len(items)),
                reduce(either, items, NO_ITEM),
                least=len(items),
                whole=whole,
            )
        case dict():
            entries = cast("dict[str, Any]", value)
            if "$" in entries:
                of = entries.get("of")
                return known(of) if entries["$"] == "money" and type(of) is int else ValueBound()
            parts = {name: bound_of(each) for name, each in entries.items()}
            longest = max((len(name.encode()) for name in parts), default=0)
            bound = ValueBound(
                exactly(len(parts)),
                reduce(either, parts.values(), NO_ITEM),
                tuple(parts.items()),
                key=exactly(longest),
            )
        case _:
            return ValueBound()
    return ValueBound(
        bound.size, bound.item, bound.fields, bound.least, None, bound.key, bound.whole, None,
        Exact((cast("Any", value),)) if _is_short(bound) else None,
    )  # fmt: skip


def list_of(items: Sequence[tuple[ValueBound, Type]]) -> ValueBound:
    """Return what is known of a list that is written out, of whose items this is known."""
    spelled = reduce(total, (total(json_bytes_of(*one), exactly(1)) for one in items), exactly(2))
    count = exactly(len(items))
    item = reduce(either, (value for value, _ in items), NO_ITEM)
    return ValueBound(count, item, least=len(items), spelled=spelled)


def map_of(keys: Sequence[Size | None], values: Sequence[tuple[ValueBound, Type]]) -> ValueBound:
    """Return what is known of a map that is written out."""
    item = reduce(either, (value for value, _ in values), NO_ITEM)
    value = ValueBound(exactly(len(keys)), item, key=reduce(greater, keys, exactly(0)))
    spelled = exactly(2)
    for key, one in zip(keys, values, strict=True):
        spelled = total(total(spelled, quoted(key)), total(json_bytes_of(*one), exactly(2)))
    return replace(value, spelled=spelled)


def record_of(kind: RecordOf, values: Sequence[ValueBound]) -> ValueBound:
    """Return what is known of a record that is made of these values, in the order of its fields."""
    parts = zip(kind.fields, values, strict=True)
    return ValueBound(fields=tuple((name, within(value, each)) for (name, each), value in parts))


def _is_plain(text: str) -> bool:
    try:
        return bool(text.encode())
    except UnicodeEncodeError:
        return False


def _is_short(bound: ValueBound) -> bool:
    whole = number(bound.whole if bound.item is not None else bound.size)
    return whole is None or whole <= _MOST_EXACT_BYTES


def _summed(items: list[Any]) -> Size | None:
    """Return the bytes of texts together; None where not all are texts."""
    if not all(isinstance(item, str) for item in items):
        return None
    return reduce(total, map(size_of_text, items), exactly(0))


def size_of_call(name: str, values: Sequence[ValueBound], kinds: Sequence[Type] = ()) -> ValueBound:
    """Return what is known of the result of a library function."""
    if name in _SPELLED:
        spell = _SPELLED[name]
        return ValueBound(spell(values[0], kinds[0]) if kinds else None)
    rule = _RULES.get(name)
    return ValueBound() if rule is None or (not values and name != "time::now") else rule(*values)


def value_of_call(
    world: KnownWorld, name: str, values: Sequence[ValueBound], params: int
) -> ValueBound | None:
    """Return the result of a pure function of which all arguments are known; None where it is not
    known."""
    options = [None if value.exact is None else value.exact.values for value in values]
    given = [each for each in options if each is not None]
    if len(given) < len(options) or prod(map(len, given)) > _MOST_PAIRS:
        return None
    missing = [None] * (params - len(values))
    made: list[ValueBound] = []
    for args in pairs_of(*given):
        count_steps(10)
        try:
            made.append(bound_of(world.call(name, [*args, *missing])))
        except LookupError:
            return None
    return reduce(either, made) if made else None


def call_library(
    facts: CostFacts, name: str, values: Sequence[ValueBound], kinds: Sequence[Type]
) -> ValueBound:
    """Return what is known of the result of a library function, as the program calls it."""
    kind = LIBRARY[name].kind
    if kind == "host" and facts.is_noting:
        return ValueBound()
    listed = _listed(facts, values[0]) if name == "file::list" else None
    if listed is not None:
        return listed
    if facts.typical and (found := typical_call(name, values)) is not None:
        world = facts.world if kind == "pure" else None
        params = len(LIBRARY[name].params)
        exact = None if world is None else value_of_call(world, name, values, params)
        return found if exact is None else exact
    match name:  # pyright: ignore[reportMatchNotExhaustive]
        case "fail":
            facts.said.note(FAILED, values[0].size)
        case "file::write":
            for path in _paths(values[0]):
                facts.said.note(path, values[1].size)
        case "file::read":
            return _file(facts, values[0])
        case _ if kind == "pure" and facts.world is not None and all(map(keeps_values, kinds)):
            params = len(LIBRARY[name].params)
            found = value_of_call(facts.world, name, values, params)
            if found is not None:
                return found
    return size_of_call(name, values, kinds)


FAILED = "!failed"
_ANY_PATH = "file *"


def _paths(path: ValueBound) -> list[str]:
    """Return the files that it may name, as they are noted."""
    if path.exact is None:
        return [_ANY_PATH]
    return [f"file {normpath(str(each))}" for each in path.exact.values]


def _file(facts: CostFacts, path: ValueBound) -> ValueBound:
    """Return what is known of a file: it is as it is now, or as the program wrote it. Of several
    that it may be, the mean is typical."""
    if path.exact is None or facts.world is None:
        return typical_file() if facts.typical else ValueBound()
    found = [_one_file(facts, facts.world, normpath(str(each))) for each in path.exact.values]
    sizes = [size for one in found if (size := number(one.size)) is not None]
    if facts.typical and len(found) > 1 and len(sizes) == len(found):
        return ValueBound(exactly(sum(sizes) // len(sizes)))
    return reduce(either, found)


def _one_file(facts: CostFacts, world: KnownWorld, path: str) -> ValueBound:
    count_steps(20)
    noted = [name for name in (f"file {path}", _ANY_PATH) if facts.assumed.says(name)]
    size = world.size(path)
    if not noted:
        text = world.text(path)
        if text is not None:
            return bound_of(text)
        if size is None and facts.typical:
            return typical_file()
        return ValueBound(None if size is None else exactly(size))
    if facts.typical and size is not None:
        return ValueBound(exactly(size))
    most = reduce(greater, map(facts.assumed.most, noted))
    return ValueBound(most if size is None else greater(most, exactly(size)))


def _listed(facts: CostFacts, path: ValueBound) -> ValueBound | None:
    """Return the names in a folder that is there now, where the program writes nothing elsewhere
    than it says, and so no other file into it."""
    of = the_value(path)
    if of is None or facts.world is None:
        return None
    names = facts.world.names(normpath(str(of[0])))
    if names is None or facts.assumed.says(_ANY_PATH):
        return None
    more = [name.removeprefix("file ") for name in facts.assumed.sizes if name != FAILED]
    known_names = bound_of(names)
    return known_names if not set(more) - set(names) else None


# Values that are known, computed.


def keeps_values(kind: Type) -> bool:
    """Return whether a value of this type is as it was given: a whole number that is taken for a
    float is spelled in another way."""
    match kind:
        case ListOf(inner=inner) | MapOf(inner=inner) | OptionalOf(inner=inner):
            return keeps_values(inner)
        case ChoiceOf():
            return True
        case _:
            return is_text(kind) or kind in (INT, BOOL)


_LOW, _HIGH = -(2**63), 2**63 - 1
_COMPUTED: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}


def the_value(bound: ValueBound) -> tuple[Any] | None:
    """Return the one value that it has, as the only item; None where that is not known."""
    return bound.exact.values if bound.exact and len(bound.exact.values) == 1 else None


def computed(op: str, left: ValueBound, right: ValueBound) -> ValueBound | None:
    """Return what an operator makes of two whole numbers that are known; None if they are not, or
    if it raises."""
    one, other = the_value(left), the_value(right)
    if one is None or other is None or op not in _COMPUTED:
        return None
    if type(one[0]) is not int or type(other[0]) is not int:
        return None
    value = _COMPUTED[op](one[0], other[0])
    return bound_of(value) if _LOW <= value <= _HIGH else None


def item_at(of: ValueBound, index: ValueBound) -> ValueBound | None:
    """Return the item of a list or map that is known; None where it is not, or is not there."""
    value, at = the_value(of), the_value(index)
    if value is None or at is None or type(at[0]) not in (int, str):
        return None
    try:
        return bound_of(value[0][at[0]]) if at[0] != "$" else None
    except (LookupError, TypeError):
        return None


def texts_of(value: ValueBound) -> tuple[str, ...] | None:
    """Return the texts of values that are known."""
    if value.exact is None or any(type(each) not in (str, int) for each in value.exact.values):
        return None
    return tuple(str(each) for each in value.exact.values)


def exact_text(texts: list[tuple[str, ...] | None]) -> ValueBound | None:
    """Return the text of parts that are known, in all ways that they may be."""
    known_texts = [each for each in texts if each is not None]
    if len(known_texts) < len(texts) or prod(map(len, known_texts)) > MOST_EXACT:
        return None
    made = ["".join(parts) for parts in pairs_of(*known_texts)]
    return reduce(either, map(bound_of, made))


# Rules by name.


def _same(value: ValueBound, *_: ValueBound) -> ValueBound:
    return ValueBound(value.size, value.item, key=value.key, whole=value.whole)


def _size(value: ValueBound, *_: ValueBound) -> ValueBound:
    return ValueBound(value.size, least=0)


def _range(first: ValueBound, end: ValueBound | None = None) -> ValueBound:
    """Bound a range. From a start of which nothing is known from below, its length has no bound."""
    start, end = (known(0), first) if end is None else (first, end)
    item = ValueBound(total(end.size, exactly(-1)), least=start.least)
    if start.least is None:
        return ValueBound(None, item)
    return ValueBound(greater(total(end.size, exactly(-start.least)), exactly(0)), item)


def _take(items: ValueBound, count: ValueBound) -> ValueBound:
    return sized(_same(items), smaller(items.size, greater(count.size, exactly(0))))


def _list_slice(items: ValueBound, start: ValueBound, end: ValueBound | None = None) -> ValueBound:
    if end is None or (start.least or -1) < 0 or end.least is None or end.least < 0:
        return _same(items)
    return _take(items, end)


def _str_slice(text: ValueBound, start: ValueBound, end: ValueBound | None = None) -> ValueBound:
    """A character has at most four bytes; from the end nothing is known."""
    if end is None or start.least is None or start.least < 0 or end.least is None or end.least < 0:
        return ValueBound(cut(text.size))
    chars = greater(total(end.size, exactly(-start.least)), exactly(0))
    return ValueBound(smaller(cut(text.size), product(exactly(CHAR_BYTES), chars)))


def _insert(items: ValueBound, _: ValueBound, item: ValueBound) -> ValueBound:
    inner = None if items.item is None else either(items.item, item)
    inner = item if number(items.size) == 0 else inner
    return ValueBound(total(items.size, exactly(1)), inner)


def _flatten(items: ValueBound) -> ValueBound:
    inner = items.item
    return (
        ValueBound() if inner is None else ValueBound(product(items.size, inner.size), inner.item)
    )


def _chunks(items: ValueBound, size: ValueBound) -> ValueBound:
    most, count = number(items.size), size.least
    if most is None or count is None or count < 1:
        return ValueBound(items.size, _same(items))
    each = sized(_same(items), smaller(items.size, size.size))
    return ValueBound(exactly(-(-most // count)), each, whole=items.whole)


def _keys(of: ValueBound) -> ValueBound:
    return ValueBound(of.size, ValueBound(of.key))


def _values(of: ValueBound) -> ValueBound:
    return ValueBound(of.size, of.item, whole=of.whole)


def _merge(one: ValueBound, other: ValueBound) -> ValueBound:
    return ValueBound(
        total(one.size, other.size), joined_items(one, other), key=greater(one.key, other.key)
    )


def joined_items(one: ValueBound, other: ValueBound) -> ValueBound | None:
    """Return what is known of an item that is of one or the other; one of them may have none."""
    if number(one.size) == 0 or number(other.size) == 0:
        return other.item if number(one.size) == 0 else one.item
    return either(one.item, other.item) if one.item and other.item else None


def _item(of: ValueBound, *_: ValueBound) -> ValueBound:
    return of.item or ValueBound()


def _max(one: ValueBound, other: ValueBound) -> ValueBound:
    return ValueBound(greater(one.size, other.size))


def _min(one: ValueBound, other: ValueBound) -> ValueBound:
    return ValueBound(smaller(one.size, other.size))


def _trim(text: ValueBound) -> ValueBound:
    return ValueBound(cut(text.size))


def _lower(text: ValueBound) -> ValueBound:
    """A letter of two bytes may become one of three."""
    return ValueBound(scaled(text.size, 3, 2))


def _upper(text: ValueBound) -> ValueBound:
    """A letter of two bytes may become three of two."""
    return ValueBound(scaled(text.size, 3))


def _lines(text: ValueBound) -> ValueBound:
    """All of them together are no longer than the text. Tokens do not go on past the end of a
    line, so they are no more either."""
    size = total(text.size, exactly(1))
    return ValueBound(size, ValueBound(cut(text.size)), whole=cut(text.size))


def _parts(text: ValueBound, *_: ValueBound) -> ValueBound:
    """All of them together have no more bytes than the text; tokens they may have more."""
    size = total(text.size, exactly(1))
    return ValueBound(size, ValueBound(cut(text.size)), whole=in_bytes(text.size))


def _words(text: ValueBound) -> ValueBound:
    """Between two words there is something."""
    size = scaled(total(text.size, exactly(1)), 1, 2)
    return ValueBound(size, ValueBound(cut(text.size)), whole=in_bytes(text.size))


def _join(parts: ValueBound, between: ValueBound) -> ValueBound:
    gaps = repeated(parts.size, between.size)
    return ValueBound(exactly(0) if number(parts.size) == 0 else total(texts_in(parts), gaps))


def _replace(text: ValueBound, part: ValueBound, by: ValueBound) -> ValueBound:
    """What is replaced has a byte at least, and as many as are known of it."""
    longer, least = greater(by.size, exactly(1)), max(part.least or 1, 1)
    if (most := number(longer)) is None:
        return ValueBound()
    return ValueBound(in_bytes(text.size) if most <= least else scaled(text.size, most, least))


def _repeat(text: ValueBound, count: ValueBound) -> ValueBound:
    return ValueBound(repeated(greater(count.size, exactly(0)), text.size))


def _pad(text: ValueBound, width: ValueBound, fill: ValueBound | None = None) -> ValueBound:
    """A character that is filled in has at most four bytes."""
    filled = product(exactly(CHAR_BYTES), greater(width.size, exactly(0)))
    return ValueBound(total(text.size, filled))


def _human(*_: ValueBound) -> ValueBound:
    return ValueBound(exactly(HUMAN_BYTES))


def _time(*_: ValueBound) -> ValueBound:
    return ValueBound(exactly(40))


def _output(*_: ValueBound) -> ValueBound:
    return ValueBound(exactly(OUTPUT_BYTES))


def _ran(*_: ValueBound) -> ValueBound:
    return ValueBound(fields=(("out", _output()), ("err", _output())))


def _names(*_: ValueBound) -> ValueBound:
    return ValueBound(None, ValueBound(exactly(_NAME_BYTES)))


def _name(path: ValueBound) -> ValueBound:
    return ValueBound(in_bytes(path.size))


def _csv_text(items: ValueBound, kind: Type) -> Size | None:
    """No longer than the JSON of it, in which every name stands again for each item, and every
    quotation mark as two."""
    return product(exactly(2), json_bytes_of(items, kind))


def _read_csv(text: ValueBound) -> ValueBound:
    """As JSON each row repeats the names of its columns. They and the rows share the text, so that
    no more than half of it times half of it comes together, with quotes and escapes."""
    size = in_bytes(text.size)
    square = scaled(product(size, size), 2)
    spelled = total(square, total(scaled(size, 40), exactly(100)))
    return ValueBound(size, ValueBound(size, ValueBound(size), key=size), spelled=spelled)


_SPELLED: dict[str, Callable[[ValueBound, Type], Size | None]] = {
    "str": bytes_of,
    "json::text": json_bytes_of,
    "csv::text": _csv_text,
}

_RULES: dict[str, Callable[..., ValueBound]] = {
    "range": _range,
    "len": _size,
    "list::len": _size,
    "map::len": _size,
    "str::len": _size,
    "str::slice": _str_slice,
    "str::lower": _lower,
    "str::upper": _upper,
    "str::trim": _trim,
    "str::join": _join,
    "str::replace": _replace,
    "str::repeat": _repeat,
    "str::pad_left": _pad,
    "str::pad_right": _pad,
    "str::count": _size,
    "list::take": _take,
    "list::slice": _list_slice,
    "list::insert": _insert,
    "list::flatten": _flatten,
    "list::chunks": _chunks,
    "map::keys": _keys,
    "map::values": _values,
    "map::get": _item,
    "map::merge": _merge,
    "math::max": _max,
    "math::min": _min,
    "csv::parse": _read_csv,
    "human::ask": _human,
    "time::now": _time,
    "exec": _output,
    "exec::run": _ran,
    "exec::look": _ran,
    "file::list": _names,
    "file::name": _name,
    "str::lines": _lines,
    "str::split": _parts,
    "str::words": _words,
    **dict.fromkeys("list::first list::last list::min list::max".split(), _item),
    **dict.fromkeys(
        (
            "list::sort list::sort_by list::sort_with list::reverse list::unique list::drop "
            "list::remove_at list::without_nulls map::remove"
        ).split(),
        _same,
    ),
}
