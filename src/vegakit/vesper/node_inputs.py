"""Random inputs of a node, from its types and its contract (host).

Bounds such as `amount > 0`, `LENGTH(items) <= 20` and `FORALL i IN items: i.quantity >= 1` are read
from the clauses, so that most draws satisfy them; what they do not say is left to luck. Numbers are
often at an edge: of their bounds, of 0, of a constant of the node, or beside one. A few draws go
beyond the bounds, because a path that refuses too little is wrong as well.
"""

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from math import ceil, floor
from random import Random
from typing import Any

from vegakit.contracts import (
    DECIMAL_LIMIT,
    INTEGER_MAX,
    INTEGER_MIN,
    ArrayType,
    BooleanType,
    BytesType,
    Clause,
    Constant,
    DecimalType,
    EnumType,
    Expression,
    FieldOf,
    FunctionCall,
    IntegerType,
    ItemLoop,
    ItemOf,
    Logic,
    LoopKind,
    MapType,
    NamedValue,
    NodeProgram,
    NodeType,
    RecordType,
    Relation,
    SetType,
    TextType,
    TimestampType,
    Value,
    first_broken,
    scale_of,
    walk,
)

_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "=="}
_INSTANTS = (-62_000_000_000_000_000, 253_000_000_000_000_000)
_WILD, _USUAL_ITEMS, _TRIES = 0.05, 5, 30
_SHIFTS = (-1_000_001, -1_000_000, -1, 0, 1, 1_000_000, 86_400_000_000)
_TEXTS = ("", "a", "b", "ab", "é", "Z z", "\U0001f600")


class InputGenerator:
    """Draws inputs, the same ones for the same random numbers."""

    def __init__(
        self, node: NodeProgram, random: Random, near: Mapping[str, Value] | None = None
    ) -> None:
        """Values are often drawn beside those of `near`, which are inputs of the node."""
        self._node, self._random = node, random
        # Of records a node only says what holds after: drawn are those of which it held before.
        about_records = (each for each in node.after if each.kind.startswith("constraint of "))
        self._bounds = bounds_of((*node.before, *about_records))
        constants = [each for part in node.expressions for each in _constants(part)]
        self._texts = (*_TEXTS, *(each.value for each in constants if _is(each, TextType)))
        self._constants = [Fraction(0), Fraction(1)] + [
            Fraction(each.value, 10 ** scale_of(each))
            for each in constants
            if _is(each, IntegerType) or _is(each, DecimalType)
        ]
        self._instants = [each.value for each in constants if _is(each, TimestampType)] + [0]
        self._numbers, self._drawn = self._constants[:2], list[str]()
        self._wild = False
        for each in node.inputs if near is not None else ():
            assert near is not None
            if isinstance(each.type, TimestampType):
                self._instants.append(near[each.name])
            elif isinstance(each.type, IntegerType | DecimalType):
                scale = each.type.scale if isinstance(each.type, DecimalType) else 0
                self._numbers.append(Fraction(near[each.name], 10**scale))

    def draw(self) -> dict[str, Value]:
        """Return inputs; most of them satisfy what has to hold before."""
        self._wild = self._random.random() < _WILD
        left = 1 if self._wild else _TRIES
        while True:
            drawn = {each.name: self.value(each.type, each.name) for each in self._node.inputs}
            left -= 1
            if not left or first_broken(self._node.before, drawn) is None:
                return drawn

    def value(self, kind: NodeType, path: str) -> Value:
        """Return a value of a type; `path` is where it stands."""
        return _DRAWS[type(kind)](self, kind, path)

    def _range(self, path: str, low: int, high: int, scale: int) -> tuple[int, int]:
        bound = self._bounds.get(path)
        if bound is None or self._wild:
            return low, high
        low = low if bound[0] is None else max(low, ceil(bound[0] * 10**scale))
        high = high if bound[1] is None else min(high, floor(bound[1] * 10**scale))
        return (low, high) if low <= high else (low, low)

    def _number(self, low: int, high: int, scale: int) -> int:
        drawn = self._random.choice(_KINDS)(self, low, high, scale)
        if not low <= drawn <= high:
            drawn = self._random.randint(low, high)
        self._numbers = [*self._numbers[-9:], Fraction(drawn, 10**scale)]
        return drawn

    def edge(self, low: int, high: int, scale: int) -> int:
        """Return a number at an end of its range, or beside it."""
        return self._random.choice([low, high, low + 1, high - 1])

    def near(self, low: int, high: int, scale: int) -> int:
        """Return a number beside a constant of the node."""
        return floor(self._random.choice(self._constants) * 10**scale) + self._step()

    def again(self, low: int, high: int, scale: int) -> int:
        """Return a number beside one drawn before: comparisons change where two are equal."""
        return floor(self._random.choice(self._numbers) * 10**scale) + self._step()

    def _step(self) -> int:
        return self._random.choice([-1, 0, 0, 1])

    def round(self, low: int, high: int, scale: int) -> int:
        """Return a number of few digits: products of such are where rounding has ties."""
        digits = self._random.randint(0, min(scale + 4, len(str(high))))
        drawn = self._random.randint(0, 99) * 10**digits
        return -drawn if low < 0 and self._random.random() < 0.3 else drawn

    def any_size(self, low: int, high: int, scale: int) -> int:
        """Return a number by its digits, so that small ones are as frequent as large ones."""
        drawn = self._random.getrandbits(self._random.randint(1, max(2, high.bit_length())))
        return -drawn if low < 0 and self._random.random() < 0.5 else drawn

    def uniform(self, low: int, high: int, scale: int) -> int:
        """Return any number of the range."""
        return self._random.randint(low, high)

    def integer(self, kind: IntegerType, path: str) -> Value:
        """Return an integer within its bounds."""
        return self._number(*self._range(path, INTEGER_MIN, INTEGER_MAX, 0), 0)

    def decimal(self, kind: DecimalType, path: str) -> Value:
        """Return a decimal within its bounds, in units of its last place."""
        low, high = self._range(path, 1 - DECIMAL_LIMIT, DECIMAL_LIMIT - 1, kind.scale)
        return self._number(low, high, kind.scale)

    def text(self, kind: TextType, path: str) -> Value:
        """Return a text of a length within its bounds."""
        low, high = self._range(f"{path}#", 0, kind.max_length, 0)
        # Often one that was drawn before: keys have to meet what is looked up by them.
        known = self._random.random() < 0.5 and self._drawn
        chosen: str = self._random.choice(self._drawn if known else self._texts)
        chosen = chosen.ljust(low, "x")[:high]
        self._drawn = [*self._drawn[-9:], chosen]
        return chosen

    def boolean(self, kind: BooleanType, path: str) -> Value:
        """Return true or false."""
        return self._random.random() < 0.5

    def bytes(self, kind: BytesType, path: str) -> Value:
        """Return a few bytes."""
        return self._random.randbytes(self._random.randint(0, min(8, kind.max_length)))

    def choice(self, kind: EnumType, path: str) -> Value:
        """Return one of the names."""
        return self._random.choice(kind.choices)

    def timestamp(self, kind: TimestampType, path: str) -> Value:
        """Return an instant, often some constant of seconds away from one drawn before."""
        drawn = self._random.randint(*_INSTANTS)
        if self._random.random() < 0.7:
            seconds = floor(self._random.choice(self._constants))
            shift = self._random.choice(
                [-1_000_001, -1_000_000, -1, 0, 1, 1_000_000, 86_400_000_000]
            )
            near = self._random.choice([*self._instants, *self._instants[-1:] * 9])
            drawn = near + seconds * 1_000_000 + shift
        drawn = min(max(drawn, _INSTANTS[0]), _INSTANTS[1])
        self._instants = [*self._instants[-9:], drawn]
        return drawn

    def _length(self, path: str, most: int) -> int:
        low, high = self._range(f"{path}#", 0, most, 0)
        usual = min(high, low + _USUAL_ITEMS)
        return (
            high
            if high <= 60 and self._random.random() < 0.05
            else self._random.randint(low, usual)
        )

    def array(self, kind: ArrayType, path: str) -> Value:
        """Return items within the bounds on their number."""
        size = self._length(path, kind.max_items)
        return tuple(self.value(kind.item, f"{path}[]") for _ in range(size))

    def set(self, kind: SetType, path: str) -> Value:
        """Return different items, as many as were drawn differently."""
        size = self._length(path, kind.max_items)
        return frozenset(self.value(kind.item, f"{path}[]") for _ in range(size))

    def map(self, kind: MapType, path: str) -> Value:
        """Return values by key."""
        size = self._length(path, kind.max_items)
        keys = [self.value(kind.key, f"{path}[]") for _ in range(size)]
        return {key: self.value(kind.value, f"{path}[].") for key in keys}

    def record(self, kind: RecordType, path: str) -> Value:
        """Return a value for each field."""
        return {name: self.value(part, f"{path}.{name}") for name, part in kind.fields}


_KINDS: tuple[Callable[[InputGenerator, int, int, int], int], ...] = (
    InputGenerator.edge,
    InputGenerator.near,
    InputGenerator.near,
    InputGenerator.again,
    InputGenerator.round,
    InputGenerator.round,
    InputGenerator.any_size,
    InputGenerator.uniform,
)
_DRAWS: dict[type, Callable[[InputGenerator, Any, str], Value]] = {
    TextType: InputGenerator.text,
    IntegerType: InputGenerator.integer,
    DecimalType: InputGenerator.decimal,
    BooleanType: InputGenerator.boolean,
    BytesType: InputGenerator.bytes,
    TimestampType: InputGenerator.timestamp,
    EnumType: InputGenerator.choice,
    ArrayType: InputGenerator.array,
    SetType: InputGenerator.set,
    MapType: InputGenerator.map,
    RecordType: InputGenerator.record,
}


def _constants(part: Expression) -> Iterator[Constant]:
    yield from (each for each in walk(part) if isinstance(each, Constant))


def _is(part: Constant, kind: type) -> bool:
    return isinstance(part.type, kind)


# Bounds: of each path the least and the greatest value. Items of a collection are at `path[]`, the
# length of something at `path#`.

Bounds = dict[str, tuple[Fraction | None, Fraction | None]]


def bounds_of(clauses: tuple[Clause, ...]) -> Bounds:
    """Return the bounds that clauses set on single values."""
    found: Bounds = {}
    for clause in clauses:
        for path, operator, limit, unit in _relations(clause.expression, {}):
            low, high = found.get(path, (None, None))
            if operator in (">", ">=", "=="):
                least = limit + unit if operator == ">" else limit
                low = least if low is None else max(low, least)
            if operator in ("<", "<=", "=="):
                most = limit - unit if operator == "<" else limit
                high = most if high is None else min(high, most)
            found[path] = (low, high)
    return found


def _relations(
    part: Expression, items: Mapping[str, str]
) -> Iterator[tuple[str, str, Fraction, Fraction]]:
    """Yield path, operator, limit and the unit of the path, for what has to hold in any case."""
    match part:
        case Logic(operator="AND", left=left, right=right):
            yield from _relations(left, items)
            yield from _relations(right, items)
        case ItemLoop(kind=LoopKind.FORALL, name=name, over=over, body=body):
            path = _path(over, items)
            yield from _relations(body, {**items, name: f"{path}[]"})
        case Relation(operator=operator, left=left, right=right) if operator in _FLIPPED:
            for one, other, sign in ((left, right, operator), (right, left, _FLIPPED[operator])):
                path = _path(one, items)
                if path and isinstance(other, Constant) and isinstance(other.value, int):
                    limit = Fraction(other.value, 10 ** scale_of(other))
                    yield path, sign, limit, Fraction(1, 10 ** scale_of(one))
        case _:
            pass


def _path(part: Expression, items: Mapping[str, str]) -> str:
    match part:
        case NamedValue(name=name):
            return items.get(name, name)
        case FieldOf(record=record, name=name):
            return f"{_path(record, items)}.{name}"
        case ItemOf(collection=whole, key=NamedValue(name=key)) if key in items:
            return f"{_path(whole, items)}[]."
        case FunctionCall(function="LENGTH", arguments=(whole,)):
            return f"{_path(whole, items)}#"
        case _:
            return ""


# Simpler inputs, for those over which paths differ.


def simpler_inputs(node: NodeProgram, values: Mapping[str, Value]) -> Iterator[dict[str, Value]]:
    """Yield inputs that are simpler in one place, the simplest first."""
    for each in node.inputs:
        for simpler in _simpler(each.type, values[each.name]):
            yield {**values, each.name: simpler}


def _simpler(kind: NodeType, value: Value) -> Iterator[Value]:
    match kind:
        case IntegerType() | DecimalType():
            yield from _smaller(value)
        case TextType() | BytesType():
            yield from ([value[:0], value[:-1]] if value else [])
        case EnumType(choices=choices):
            yield from choices[: choices.index(value)]
        case BooleanType():
            yield from ([False] if value else [])
        case RecordType(fields=fields):
            for name, part in fields:
                yield from ({**value, name: each} for each in _simpler(part, value[name]))
        case ArrayType() | SetType() | MapType():
            yield from _shorter(kind, value)
        case TimestampType():
            pass


def _shorter(kind: ArrayType | SetType | MapType, value: Value) -> Iterator[Value]:
    match kind:
        case ArrayType(item=item):
            for at in range(len(value)):
                yield value[:at] + value[at + 1 :]
            for at in range(len(value)):
                for part in _simpler(item, value[at]):
                    yield (*value[:at], part, *value[at + 1 :])
        case SetType():
            yield from (value - {part} for part in sorted(value))
        case MapType(value=inner):
            for key in sorted(value):
                yield {other: value[other] for other in value if other != key}
                yield from ({**value, key: part} for part in _simpler(inner, value[key]))


def _smaller(value: int) -> Iterator[int]:
    """Yield numbers nearer to 0: 0 itself, halves, rounder ones, the neighbour."""
    toward = -1 if value > 0 else 1
    tens = (10**digits for digits in range(len(str(abs(value))) - 1, 0, -1))
    rounder = (value - value % ten if value > 0 else value + -value % ten for ten in tens)
    tried = [0, abs(value) // 2 * -toward, *rounder, value + toward]
    yield from (each for each in tried if value and abs(each) < abs(value))
