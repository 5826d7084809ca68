"""Values of programs: there and back through JSON, and how large they may become.

| in the machine                 | in JSON                                    |
|--------------------------------|--------------------------------------------|
| int (64 bits), float, str …    | as they are                                |
| `Items`, a list                | a list                                     |
| `Fields`, a map or a record    | an object; `{"$": "map", "of": [[k, v]]}`  |
|                                | when it has a key `$` itself               |
| `Money(nanos)` and the others  | `{"$": "money", "of": 1500000000}`         |

No value is ever changed once it is made, so values are shared freely. Lists and maps carry their
weight (characters and items below them) and depth: sharing cannot hide how large one would be when
it is written out, and nothing that walks a value can be made to walk for ever.
"""

from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from operator import attrgetter
from typing import Any, TypeAlias

from msgspec import Struct

from vegakit.vm.faults import Fault, arithmetic, limit

__all__ = [
    "HIGH",
    "LOW",
    "MAX_CHARS",
    "MAX_ITEMS",
    "AgentRef",
    "Duration",
    "Fields",
    "FileRef",
    "Future",
    "Handle",
    "Items",
    "Money",
    "StreamRef",
    "Unknown",
    "Value",
    "fields_of",
    "hold",
    "items_of",
    "kind_of",
    "plain_value",
    "restored",
    "sized",
    "stored",
    "weight_of",
    "whole",
]

LOW, HIGH = -(2**63), 2**63 - 1
MAX_CHARS = 10_000_000
MAX_ITEMS = 1_000_000
_MAX_WEIGHT = 20_000_000
_MAX_DEPTH = 100

Value: TypeAlias = Any


class Items(list[Any]):
    __slots__ = ("depth", "weight")

    weight: int
    depth: int


class Fields(dict[str, Any]):
    __slots__ = ("depth", "weight")

    weight: int
    depth: int


class Money(Struct, frozen=True, order=True, gc=False):
    nanos: int


class Duration(Struct, frozen=True, order=True, gc=False):
    ms: int


class AgentRef(Struct, frozen=True, gc=False):
    name: str


class Handle(Struct, frozen=True, gc=False):
    path: str


class Future(Struct, frozen=True, gc=False):
    ticket: str


class StreamRef(Struct, frozen=True, gc=False):
    ticket: str


class FileRef(Struct, frozen=True, gc=False):
    path: str


class Unknown:
    """In the registers of a scout: what an answer will bring. `size` and `answers` bound it as
    text, -1 is no bound; `agent` is known of a process that is not there yet."""

    __slots__ = ("agent", "answers", "size")
    __match_args__ = ("size", "answers", "agent")
    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __init__(self, size: int, answers: int = 0, agent: str = "") -> None:
        self.size = size
        self.answers = answers
        self.agent = agent

    def __eq__(self, other: object) -> bool:
        raise Fault("BadProgram", "nobody knows yet whether they are equal")


_ATOMS = frozenset({int, float, str, bool, type(None)})
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
    Items: "list",
    Fields: "map",
    Unknown: "unknown",
}


def kind_of(value: Value) -> str:
    return _NAMES[type(value)]


def whole(value: int) -> int:
    if LOW <= value <= HIGH:
        return value
    raise arithmetic("the number does not fit 64 bits")


def weight_of(value: Value) -> int:
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is str:
        return 1 + len(value)
    return value.weight if kind is Items or kind is Fields else 1


def sized(text: str) -> str:
    if len(text) > MAX_CHARS:
        raise limit(f"a text has at most {MAX_CHARS:,} characters; this one has {len(text):,}")
    return text


def items_of(values: Iterable[Value]) -> Items:
    made = Items(values)
    _weigh(made, made, 1)
    return made


def fields_of(values: Mapping[str, Value]) -> Fields:
    made = Fields(values)
    _weigh(made, made.values(), 1 + sum(map(len, made)))
    return made


def _weigh(made: Items | Fields, values: Iterable[Value], weight: int) -> None:
    depth = 0
    for value in values:
        kind = type(value)  # pyright: ignore[reportUnknownVariableType]
        if kind is Items or kind is Fields:
            weight += value.weight
            depth = max(depth, value.depth)
        else:
            weight += 1 + len(value) if kind is str else 1
    hold(made, weight, depth + 1)


def hold(made: Items | Fields, weight: int, depth: int) -> None:
    if len(made) > MAX_ITEMS:
        raise limit(f"a list has at most {MAX_ITEMS:,} items; this one has {len(made):,}")
    if weight > _MAX_WEIGHT:
        raise limit(f"a value has at most {_MAX_WEIGHT:,} characters and items in all")
    if depth > _MAX_DEPTH:
        raise limit(f"lists and maps nest at most {_MAX_DEPTH} deep")
    made.weight = weight
    made.depth = depth


def stored(value: Value) -> Any:  # noqa: ANN401
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind in _ATOMS:
        return value
    if kind is Items:
        return [stored(item) for item in value]
    if kind is Fields:
        if "$" in value:
            return {"$": "map", "of": [[key, stored(item)] for key, item in value.items()]}
        return {key: stored(item) for key, item in value.items()}
    name, read = _READ[kind]
    return {"$": name, "of": read(value)}


def restored(form: object, depth: int = 0) -> Value:
    """The value of a JSON form; what is none raises ValueError, as a fault of the program."""
    kind = type(form)  # pyright: ignore[reportUnknownVariableType]
    if kind in _READ or kind is Items or kind is Fields:
        return form
    if kind in _ATOMS:
        return _atom(form)
    if depth > _MAX_DEPTH:
        raise limit(f"lists and maps nest at most {_MAX_DEPTH} deep")
    if isinstance(form, list | tuple):
        return items_of([restored(item, depth + 1) for item in form])  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(form, dict):
        return _restored_map(form, depth + 1)  # pyright: ignore[reportUnknownArgumentType]
    raise Fault("ValueError", f"{kind.__name__} is not a value of a program")


def plain_value(form: object, depth: int = 0) -> Value:
    """Of JSON from outside, where `$` is a key like any other."""
    if depth > _MAX_DEPTH:
        raise limit(f"lists and maps nest at most {_MAX_DEPTH} deep")
    if isinstance(form, list):
        return items_of([plain_value(item, depth + 1) for item in form])  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(form, dict):
        return fields_of({key: plain_value(item, depth + 1) for key, item in form.items()})  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return _atom(form)


def _atom(form: Any) -> Value:  # noqa: ANN401
    kind = type(form)  # pyright: ignore[reportUnknownVariableType]
    if kind is int:
        return whole(form)
    if kind is float and not isfinite(form):
        raise arithmetic("a float is a finite number")
    return _text(form) if kind is str else form


def _text(text: str) -> str:
    """Half of a surrogate pair can be held by Python and not be stored."""
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode("utf-8")
    return sized(text)


def _restored_map(form: dict[Any, Any], depth: int) -> Value:
    if "$" in form:
        return _special(form, depth)
    if not all(type(key) is str for key in form):
        raise Fault("ValueError", "the keys of a map are strings")
    return fields_of({_text(key): restored(item, depth) for key, item in form.items()})


def _special(form: dict[Any, Any], depth: int) -> Value:
    name, of = form["$"], form.get("of")
    if name == "map" and isinstance(of, list):
        return _restored_pairs(of, depth)  # pyright: ignore[reportUnknownArgumentType]
    kind = _MADE.get(name) if isinstance(name, str) else None
    wanted = int if kind is Money or kind is Duration else str
    if kind is None or type(of) is not wanted or len(form) != 2:
        raise Fault("ValueError", "an object with `$` does not say a value")
    return kind(_atom(of))


def _restored_pairs(pairs: list[Any], depth: int) -> Value:
    for pair in pairs:
        if type(pair) is not list or len(pair) != 2 or type(pair[0]) is not str:  # pyright: ignore[reportUnknownArgumentType]
            raise Fault("ValueError", "a map is stored as pairs of a string and a value")
    return fields_of({_text(key): restored(item, depth) for key, item in pairs})
