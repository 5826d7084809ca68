"""Values of programs: to JSON and back, as text, how large; and faults (pure).

A program can catch the errors in `lang.CATCHABLE`. All others end it: exhausted fuel, a program
that the compiler would not have made (`BadProgram`), and errors of the host that have no name in
the language.

| in the machine                | in JSON                                   |
|-------------------------------|-------------------------------------------|
| int (64 bits), float, str …   | as they are                               |
| `ListValue`, a list           | a list                                    |
| `MapValue`, a map or a record | an object; `{"$": "map", "of": [[k, v]]}` |
|                               | when it has a key `$` itself              |
| `Money(nanos)` and the others | `{"$": "money", "of": 1500000000}`        |

Values are immutable, so they are shared freely. Lists and maps carry their weight (the characters
and items in them) and their depth. So sharing cannot hide how large a value would be when it is
written out, and a walk over a value always ends.
"""

from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from operator import attrgetter
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from vegakit.money import Money as Nanos, format_money

# Errors of a running program.


StackTrace = tuple[tuple[str, str, int], ...]
Cause = tuple[str, ...]


class ProgramFault(Exception):  # noqa: N818  (it carries an error of the program, and is none of ours)
    """An error of the program. `stack` holds function, file and line of each call, innermost first;
    it is empty until it is known. `cause` are the keys of the effects whose outcomes led to it."""

    def __init__(self, name: str, reason: str, stack: StackTrace = (), cause: Cause = ()) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason
        self.stack = stack
        self.cause = cause


def bad(reason: str) -> ProgramFault:
    """Return the fault of an invalid program. The checker admits none, so only bytecode that was
    not made by the compiler can cause it."""
    return ProgramFault("BadProgram", reason)


def limit(reason: str) -> ProgramFault:
    """Return the fault of a program that reaches a limit."""
    return ProgramFault("LimitReached", reason)


def arithmetic(reason: str) -> ProgramFault:
    """Return the fault of a calculation without a result."""
    return ProgramFault("ArithmeticError", reason)


# Values, and their limits.


LOW, HIGH = -(2**63), 2**63 - 1
MAX_CHARS = 10_000_000
MAX_ITEMS = 1_000_000
MAX_WEIGHT = 20_000_000
_MAX_DEPTH = 100
MAX_PARSED = 20_000
"""Lists and maps of one JSON text: all are made in one instruction, which nothing interrupts."""
_MANY = 64
"""From so many items on it is quicker to look at their kinds first than at each of them."""

Value: TypeAlias = Any


class ListValue(list[Any]):
    """A list, with its weight and depth."""

    __slots__ = ("depth", "weight")

    weight: int
    depth: int


class MapValue(dict[str, Any]):
    """A map or a record, with its weight and depth."""

    __slots__ = ("depth", "weight")

    weight: int
    depth: int


class Money(Struct, frozen=True, order=True, gc=False):
    """An amount in nano-dollars."""

    nanos: int


class Duration(Struct, frozen=True, order=True, gc=False):
    """A duration in milliseconds."""

    ms: int


class AgentRef(Struct, frozen=True, gc=False):
    """An agent by its name. Each send to it starts a process of its own."""

    name: str


class Handle(Struct, frozen=True, gc=False):
    """A process by its path."""

    path: str


class Future(Struct, frozen=True, gc=False):
    """A result by the ticket of its request."""

    ticket: str


class StreamRef(Struct, frozen=True, gc=False):
    """A stream by the ticket of its request."""

    ticket: str


class FileRef(Struct, frozen=True, gc=False):
    """A file that is sent along, by its path."""

    path: str


class UnknownValue:
    """A value that the lookahead does not know yet, because it depends on a result. `size` and
    `answers` bound its text, -1 for no bound; `agent` is the agent of a process that is not started
    yet."""

    __slots__ = ("agent", "answers", "size")
    __match_args__ = ("size", "answers", "agent")
    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __init__(self, size: int, answers: int = 0, agent: str = "") -> None:
        self.size = size
        self.answers = answers
        self.agent = agent

    def __eq__(self, other: object) -> bool:
        raise ProgramFault("BadProgram", "nobody knows yet whether they are equal")


_ATOMS = frozenset({int, float, str, bool, type(None)})
_TEXT = frozenset({str})
_WEIGH_ONE = frozenset({int, float, bool, type(None)})
_READ: dict[type, tuple[str, Callable[[Any], Any]]] = {
    Money: ("money", attrgetter("nanos")),
    Duration: ("duration", attrgetter("ms")),
    AgentRef: ("agent", attrgetter("name")),
    Handle: ("process", attrgetter("path")),
    Future: ("future", attrgetter("ticket")),
    StreamRef: ("stream", attrgetter("ticket")),
    FileRef: ("file", attrgetter("path")),
}
_MADE: dict[str, type[Any]] = {name: kind for kind, (name, _) in _READ.items()}
_NAMES: dict[type, str] = {kind: name for kind, (name, _) in _READ.items()} | {
    int: "int",
    float: "float",
    str: "str",
    bool: "bool",
    type(None): "null",
    ListValue: "list",
    MapValue: "map",
    UnknownValue: "unknown",
}


def kind_of(value: Value) -> str:
    """Return the name of the kind of a value, for messages."""
    return _NAMES[type(value)]


def whole(value: int) -> int:
    """Return a whole number that fits 64 bits, or raise."""
    if LOW <= value <= HIGH:
        return value
    raise arithmetic("the number does not fit 64 bits")


def weight_of(value: Value) -> int:
    """Return the number of characters and items in a value."""
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is str:
        return 1 + len(value)
    return value.weight if kind is ListValue or kind is MapValue else 1


def work_of(value: Value) -> int:
    """Return the fuel to go through all of a value, to compare it or to make text of it. Characters
    are quick, items are looked at one by one; of those further below only the weight is known."""
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is str:
        return len(value) >> 6
    if kind is ListValue or kind is MapValue:
        return (value.weight >> 3) + (len(value) >> 1 if value.depth > 1 else 0)
    return 0


def items_in(value: Value) -> int:
    """Return the fuel to make a list or map, or to look at each of its items."""
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is ListValue or kind is MapValue:
        return len(value) >> (2 if value.depth == 1 else 0)
    return 0


def sized(text: str) -> str:
    """Return a text that is not too long, or raise."""
    if len(text) > MAX_CHARS:
        raise limit(f"a text has at most {MAX_CHARS:,} characters; this one has {len(text):,}")
    return text


def items_of(values: Iterable[Value]) -> ListValue:
    """Return a list, weighed."""
    made = ListValue(values)
    _weigh(made, made, 1)
    return made


def fields_of(values: Mapping[str, Value]) -> MapValue:
    """Return a map, weighed."""
    made = MapValue(values)
    _weigh(made, made.values(), 1 + sum(map(len, made)))
    return made


def _weigh(made: ListValue | MapValue, values: Iterable[Value], weight: int) -> None:
    if len(made) >= _MANY:
        if _WEIGH_ONE.issuperset(map(type, values)):
            hold(made, weight + len(made), 1)
            return
        if _TEXT.issuperset(map(type, values)):
            hold(made, weight + len(made) + sum(map(len, values)), 1)
            return
    depth = 0
    for value in values:
        kind = type(value)  # pyright: ignore[reportUnknownVariableType]
        if kind is ListValue or kind is MapValue:
            weight += value.weight
            depth = max(depth, value.depth)
        else:
            weight += 1 + len(value) if kind is str else 1
    hold(made, weight, depth + 1)


def hold(made: ListValue | MapValue, weight: int, depth: int) -> None:
    """Give a list or map its weight and depth, or raise if it is too large."""
    if len(made) > MAX_ITEMS:
        raise limit(f"a list has at most {MAX_ITEMS:,} items; this one has {len(made):,}")
    if weight > MAX_WEIGHT:
        raise limit(f"a value has at most {MAX_WEIGHT:,} characters and items in all")
    if depth > _MAX_DEPTH:
        raise limit(f"lists and maps nest at most {_MAX_DEPTH} deep")
    made.weight = weight
    made.depth = depth


def stored(value: Value) -> Any:  # noqa: ANN401
    """Return the JSON form of a value."""
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind in _ATOMS:
        return value
    if kind is ListValue:
        return [stored(item) for item in value]
    if kind is MapValue:
        if "$" in value:
            return {"$": "map", "of": [[key, stored(item)] for key, item in value.items()]}
        return {key: stored(item) for key, item in value.items()}
    name, read = _READ[kind]
    return {"$": name, "of": read(value)}


def restored(form: object, depth: int = 0) -> Value:
    """Return the value of a JSON form, or raise ValueError as a fault of the program."""
    kind = type(form)  # pyright: ignore[reportUnknownVariableType]
    if kind in _READ or kind is ListValue or kind is MapValue:
        return form
    if kind in _ATOMS:
        return _atom(form)
    if depth > _MAX_DEPTH:
        raise limit(f"lists and maps nest at most {_MAX_DEPTH} deep")
    if isinstance(form, list | tuple):
        return items_of([restored(item, depth + 1) for item in form])  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(form, dict):
        return _restored_map(form, depth + 1)  # pyright: ignore[reportUnknownArgumentType]
    raise ProgramFault("ValueError", f"{kind.__name__} is not a value of a program")


def plain_value(form: Any, depth: int = 0) -> Value:  # noqa: ANN401
    """Return the value of JSON from outside, where `$` is a key like any other."""
    kind = type(form)  # pyright: ignore[reportUnknownVariableType]
    if kind is not list and kind is not dict:
        return _atom(form)
    if depth > _MAX_DEPTH:
        raise limit(f"lists and maps nest at most {_MAX_DEPTH} deep")
    if kind is dict:
        return fields_of({key: plain_value(item, depth + 1) for key, item in form.items()})
    if len(form) >= _MANY and _all_whole(form):
        return items_of(form)
    return items_of([plain_value(item, depth + 1) for item in form])


def _all_whole(items: list[Any]) -> bool:
    """Ints that all fit; one that does not is found by whoever looks at each."""
    return {int}.issuperset(map(type, items)) and min(items) >= LOW and max(items) <= HIGH


def _atom(form: Any) -> Value:  # noqa: ANN401
    kind = type(form)  # pyright: ignore[reportUnknownVariableType]
    if kind is int:
        return whole(form)
    if kind is float and not isfinite(form):
        raise arithmetic("a float is a finite number")
    return _text(form) if kind is str else form


def _text(text: str) -> str:
    """Replace lone surrogates, which Python can hold but which cannot be stored."""
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode("utf-8")
    return sized(text)


def _restored_map(form: dict[Any, Any], depth: int) -> Value:
    if "$" in form:
        return _special(form, depth)
    if not all(type(key) is str for key in form):
        raise ProgramFault("ValueError", "the keys of a map are strings")
    return fields_of({_text(key): restored(item, depth) for key, item in form.items()})


def _special(form: dict[Any, Any], depth: int) -> Value:
    name, of = form["$"], form.get("of")
    if name == "map" and isinstance(of, list):
        return _restored_pairs(of, depth)  # pyright: ignore[reportUnknownArgumentType]
    kind = _MADE.get(name) if isinstance(name, str) else None
    wanted = int if kind is Money or kind is Duration else str
    if kind is None or type(of) is not wanted or len(form) != 2:
        raise ProgramFault("ValueError", "an object with `$` does not say a value")
    return kind(_atom(of))


def _restored_pairs(pairs: list[Any], depth: int) -> Value:
    for pair in pairs:
        if type(pair) is not list or len(pair) != 2 or type(pair[0]) is not str:  # pyright: ignore[reportUnknownArgumentType]
            raise ProgramFault("ValueError", "a map is stored as pairs of a string and a value")
    return fields_of({_text(key): restored(item, depth) for key, item in pairs})


# Values as text: in `"{x}"`, in `print`, and as JSON.


_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"))


def text_of(value: Value) -> str:
    """Return a value as text, as `"{x}"` and `print` show it."""
    if type(value) is str:
        return value
    if type(value) is float:
        return repr(value)  # as Python writes it: 1e+16, where JSON has 1e16
    plain = _plain(value)
    return plain if type(plain) is str else msgspec.json.encode(plain).decode()


def json_text(value: Value) -> str:
    """Return a value as JSON text for people and models."""
    return msgspec.json.encode(_plain(value)).decode()


def _plain(value: Value) -> Any:  # noqa: ANN401
    """Return the value as JSON for people and models, with money, times and handles as text."""
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind in _ATOMS:
        return value
    if kind is ListValue:
        is_plain = _ATOMS.issuperset(map(type, value))
        return value if is_plain else [_plain(item) for item in value]
    if kind is MapValue:
        is_plain = _ATOMS.issuperset(map(type, value.values()))
        return value if is_plain else {key: _plain(item) for key, item in value.items()}
    match value:
        case Money(nanos=nanos):
            return format_money(Nanos(nanos))
        case Duration(ms=ms):
            return _spelled(ms)
        case AgentRef(name=text) | Handle(path=text) | FileRef(path=text):
            return text
        case Future():
            return "a future"
        case StreamRef():
            return "a stream"
        case _:
            return value


def _spelled(ms: int) -> str:
    """Return a duration in the largest unit that is exact: `30s`, `1500ms`."""
    for size, unit in _UNITS:
        if ms and ms % size == 0:
            return f"{ms // size}{unit}"
    return f"{ms}ms"
