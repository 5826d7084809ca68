"""Evaluates expressions and contracts, with decimals as scaled integers (pure).

| trap               | when                                                                        |
|--------------------|-----------------------------------------------------------------------------|
| `overflow`         | an integer beyond 64 bits, a decimal beyond 38 digits, at any intermediate  |
| `division_by_zero` | `/` or `%` by 0                                                             |
| `missing`          | `array[n]` or `map[key]` where there is none                                |
| `fuel`             | more steps than allowed; never of an expression that was accepted           |

A trap in a contract breaks its clause: what cannot be evaluated does not hold. The arithmetic here
shares no code with that of generated Python, so that each is a check of the other.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

from vegakit.contracts.node_types import (
    DECIMAL_LIMIT,
    INTEGER_MAX,
    INTEGER_MIN,
    ArrayType,
    DecimalType,
    MapType,
    NodeType,
    TextType,
    Value,
    show_value,
)
from vegakit.contracts.typed import (
    MAX_COST,
    Arithmetic,
    ArrayMade,
    Conditional,
    Constant,
    Expression,
    FieldOf,
    FunctionCall,
    Inverted,
    ItemLoop,
    ItemOf,
    Logic,
    LoopKind,
    Membership,
    NamedValue,
    Negated,
    RecordMade,
    Relation,
    Rescaled,
    walk,
)
from vegakit.errors import VegaError

Environment = Mapping[str, Value]
_MAX_VALUES, _MAX_SHOWN = 8, 200


class TrapKind(StrEnum):
    """The reasons for which an expression has no value."""

    OVERFLOW = "overflow"
    DIVISION_BY_ZERO = "division_by_zero"
    MISSING = "missing"
    FUEL = "fuel"


class ArithmeticTrap(VegaError):  # noqa: N818  (as processors call it)
    """An expression has no value."""

    def __init__(self, kind: TrapKind) -> None:
        super().__init__(str(kind))
        self.kind = kind


def evaluate(part: Expression, names: Environment, fuel: int = MAX_COST) -> Value:
    """Return the value of an expression, or raise `ArithmeticTrap`."""
    return Evaluator(fuel).value(part, names)


def half_even(numerator: int, denominator: int) -> int:
    """Return a quotient rounded to the nearest integer, a tie to the even one."""
    quotient, rest = divmod(numerator, denominator)
    # `divmod` floors and the rest has the sign of the denominator, so twice the rest against the
    # denominator says on which side of the tie it is, for all signs.
    over = 2 * abs(rest) - abs(denominator)
    return quotient + 1 if over > 0 or (over == 0 and quotient % 2) else quotient


def truncated(left: int, right: int) -> int:
    """Return a quotient without its fraction, as processors divide."""
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


class Evaluator:
    """One evaluation, with the fuel that is left of it."""

    def __init__(self, fuel: int = MAX_COST) -> None:
        self._fuel = self.given = fuel

    @property
    def used(self) -> int:
        """Return how many steps were taken."""
        return self.given - self._fuel

    def value(self, part: Expression, names: Environment) -> Value:
        """Return the value of an expression, or raise `ArithmeticTrap`."""
        self._fuel -= 1
        if self._fuel < 0:
            raise ArithmeticTrap(TrapKind.FUEL)
        return _EVALUATIONS[type(part)](self, part, names)

    def constant(self, part: Constant, names: Environment) -> Value:
        """Return the value that is written out."""
        return part.value

    def variable(self, part: NamedValue, names: Environment) -> Value:
        """Return the value of a name."""
        return names[part.name]

    def field(self, part: FieldOf, names: Environment) -> Value:
        """Return a field of a record."""
        return self.value(part.record, names)[part.name]

    def item(self, part: ItemOf, names: Environment) -> Value:
        """Return an item by its number or key, or trap."""
        collection, key = self.value(part.collection, names), self.value(part.key, names)
        is_array = isinstance(part.collection.type, ArrayType)
        if not (0 <= key < len(collection) if is_array else key in collection):
            raise ArithmeticTrap(TrapKind.MISSING)
        return collection[key]

    def negated(self, part: Negated, names: Environment) -> Value:
        """Return the number with the other sign."""
        return checked(part.type, -self.value(part.part, names))

    def arithmetic(self, part: Arithmetic, names: Environment) -> Value:
        """Return the result of an operator, rounded once and checked."""
        left, right = self.value(part.left, names), self.value(part.right, names)
        if part.operator in "/%" and right == 0:
            raise ArithmeticTrap(TrapKind.DIVISION_BY_ZERO)
        if isinstance(part.type, DecimalType):
            return checked(part.type, _DECIMALS[part.operator](part, left, right))
        return checked(part.type, _INTEGERS[part.operator](left, right))

    def rescaled(self, part: Rescaled, names: Environment) -> Value:
        """Return the number at other places."""
        value = self.value(part.part, names)
        return checked(part.type, _at_scale(value, scale_of(part.part), scale_of(part)))

    def relation(self, part: Relation, names: Environment) -> Value:
        """Return whether a comparison holds; numbers are brought to common places first."""
        left, right = self.value(part.left, names), self.value(part.right, names)
        places = scale_of(part.left), scale_of(part.right)
        if places[0] != places[1]:
            left, right = left * 10 ** places[1], right * 10 ** places[0]
        return _RELATIONS[part.operator](left, right)

    def logic(self, part: Logic, names: Environment) -> Value:
        """Return the left side where it decides, and the right side otherwise."""
        left = self.value(part.left, names)
        return self.value(part.right, names) if left == (part.operator == "AND") else left

    def inverted(self, part: Inverted, names: Environment) -> Value:
        """Return the opposite."""
        return not self.value(part.part, names)

    def membership(self, part: Membership, names: Environment) -> Value:
        """Return whether something is in something."""
        item = self.value(part.item, names)
        return item in self.value(part.whole, names)

    def conditional(self, part: Conditional, names: Environment) -> Value:
        """Return the value of the side that is chosen."""
        chosen = part.then if self.value(part.test, names) else part.otherwise
        return self.value(chosen, names)

    def array(self, part: ArrayMade, names: Environment) -> Value:
        """Return a list that is written out."""
        return tuple(self.value(item, names) for item in part.items)

    def record(self, part: RecordMade, names: Environment) -> Value:
        """Return a record that is written out."""
        return {name: self.value(inner, names) for name, inner in part.fields}

    def call(self, part: FunctionCall, names: Environment) -> Value:
        """Return the result of a function."""
        values = [self.value(each, names) for each in part.arguments]
        return checked(part.type, _FUNCTIONS[part.function](*values))

    def loop(self, part: ItemLoop, names: Environment) -> Value:
        """Return what a loop makes of its items."""
        items = ordered(part.over.type, self.value(part.over, names))
        return _LOOPS[part.kind](self, part, names, items)

    def rounds(
        self, part: ItemLoop, names: Environment, items: Iterable[Value]
    ) -> Iterable[tuple[Value, Value]]:
        """Yield each item with the value of the body for it."""
        for item in items:
            yield item, self.value(part.body, {**names, part.name: item})

    def forall(self, part: ItemLoop, names: Environment, items: Iterable[Value]) -> Value:
        """Return whether the body holds for all items."""
        return all(holds for _, holds in self.rounds(part, names, items))

    def exists(self, part: ItemLoop, names: Environment, items: Iterable[Value]) -> Value:
        """Return whether the body holds for any item."""
        return any(holds for _, holds in self.rounds(part, names, items))

    def sum(self, part: ItemLoop, names: Environment, items: Iterable[Value]) -> Value:
        """Return the sum of the bodies; every sum on the way is checked."""
        total = 0
        for _, value in self.rounds(part, names, items):
            total = checked(part.type, total + value)
        return total

    def map(self, part: ItemLoop, names: Environment, items: Iterable[Value]) -> Value:
        """Return the bodies."""
        return tuple(value for _, value in self.rounds(part, names, items))

    def filter(self, part: ItemLoop, names: Environment, items: Iterable[Value]) -> Value:
        """Return the items that the body holds for."""
        return tuple(item for item, keeps in self.rounds(part, names, items) if keeps)

    def sort(self, part: ItemLoop, names: Environment, items: Iterable[Value]) -> Value:
        """Return the items by the order of their bodies; equal ones keep theirs."""
        pairs = sorted(
            self.rounds(part, names, items),
            key=lambda pair: pair[1],
            reverse=part.kind is LoopKind.SORT_DESCENDING,
        )
        return tuple(item for item, _ in pairs)

    def group(self, part: ItemLoop, names: Environment, items: Iterable[Value]) -> Value:
        """Return the items by their bodies."""
        groups: dict[Value, list[Value]] = {}
        for item, key in self.rounds(part, names, items):
            groups.setdefault(key, []).append(item)
        return {key: (*found,) for key, found in groups.items()}

    def reduce(self, part: ItemLoop, names: Environment, items: Iterable[Value]) -> Value:
        """Return the last total."""
        assert part.start is not None
        total = self.value(part.start, names)
        for item in items:
            total = self.value(part.body, {**names, part.total: total, part.name: item})
        return total


def scale_of(part: Expression) -> int:
    """Return the places of a number; 0 of an integer, and of all that is none."""
    return part.type.scale if isinstance(part.type, DecimalType) else 0


def checked(kind: NodeType, value: Value) -> Value:
    """Return a number that fits its type, or raise the trap."""
    if isinstance(kind, DecimalType):
        fits = -DECIMAL_LIMIT < value < DECIMAL_LIMIT
    else:
        fits = INTEGER_MIN <= value <= INTEGER_MAX
    if not fits:
        raise ArithmeticTrap(TrapKind.OVERFLOW)
    return value


def ordered(kind: NodeType, collection: Value) -> Iterable[Value]:
    """Return the items of a collection in the order in which they are visited."""
    return collection if isinstance(kind, ArrayType) else sorted(collection)


def _at_scale(value: int, has: int, wanted: int) -> int:
    if wanted >= has:
        return value * 10 ** (wanted - has)
    return half_even(value, 10 ** (has - wanted))


def _product(part: Arithmetic, left: int, right: int) -> int:
    return _at_scale(left * right, scale_of(part.left) + scale_of(part.right), scale_of(part))


def _quotient(part: Arithmetic, left: int, right: int) -> int:
    up = scale_of(part) + scale_of(part.right)
    return half_even(left * 10**up, right * 10 ** scale_of(part.left))


_INTEGERS: dict[str, Callable[[int, int], int]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": truncated,
    "%": lambda left, right: left - right * truncated(left, right),
}
_DECIMALS: dict[str, Callable[[Arithmetic, int, int], int]] = {
    "+": lambda _, left, right: left + right,
    "-": lambda _, left, right: left - right,
    "*": _product,
    "/": _quotient,
}
_RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


def _seconds(start: int, end: int) -> int:
    return truncated(end - start, 1_000_000)


_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "ABS": abs,
    "LENGTH": len,
    "MAX": max,
    "MIN": min,
    "SECONDS": _seconds,
}
_LOOPS: dict[LoopKind, Callable[[Evaluator, ItemLoop, Environment, Iterable[Value]], Value]] = {
    LoopKind.FORALL: Evaluator.forall,
    LoopKind.EXISTS: Evaluator.exists,
    LoopKind.SUM: Evaluator.sum,
    LoopKind.MAP: Evaluator.map,
    LoopKind.FILTER: Evaluator.filter,
    LoopKind.SORT: Evaluator.sort,
    LoopKind.SORT_DESCENDING: Evaluator.sort,
    LoopKind.GROUP: Evaluator.group,
    LoopKind.REDUCE: Evaluator.reduce,
}
_EVALUATIONS: dict[type, Callable[[Evaluator, Any, Environment], Value]] = {
    Constant: Evaluator.constant,
    NamedValue: Evaluator.variable,
    FieldOf: Evaluator.field,
    ItemOf: Evaluator.item,
    Negated: Evaluator.negated,
    Arithmetic: Evaluator.arithmetic,
    Rescaled: Evaluator.rescaled,
    Relation: Evaluator.relation,
    Logic: Evaluator.logic,
    Inverted: Evaluator.inverted,
    Membership: Evaluator.membership,
    Conditional: Evaluator.conditional,
    ArrayMade: Evaluator.array,
    RecordMade: Evaluator.record,
    FunctionCall: Evaluator.call,
    ItemLoop: Evaluator.loop,
}


# Contracts.


class Clause(Struct, frozen=True):
    """One clause of a contract: where it stands, as it is written, and its tree."""

    kind: str
    text: str
    line: int
    expression: Expression


class BrokenClause(Struct, frozen=True):
    """A clause that does not hold, with the values that it looked at; `trap` says why it could not
    be evaluated, if it could not."""

    kind: str
    text: str
    line: int
    values: dict[str, Any]
    trap: str = ""

    def __str__(self) -> str:
        values = ", ".join(f"{name} = {_brief(value)}" for name, value in self.values.items())
        why = f" ({self.trap})" if self.trap else ""
        return f"{self.kind} {self.text!r}{why} does not hold" + (f": {values}" if values else "")


class Verdict(Struct, frozen=True):
    """The judgement of a contract on values: nothing is broken, or these clauses are."""

    broken: tuple[BrokenClause, ...] = ()

    @property
    def holds(self) -> bool:
        return not self.broken


def judge(clauses: Iterable[Clause], names: Environment) -> Verdict:
    """Return which clauses do not hold, in their order."""
    return Verdict(tuple(found for clause in clauses if (found := _broken(clause, names))))


def _broken(clause: Clause, names: Environment) -> BrokenClause | None:
    trap = ""
    try:
        if evaluate(clause.expression, names):
            return None
    except ArithmeticTrap as error:
        trap = str(error)
    values = {**_values(clause.expression, names), **_witness(clause.expression, names)}
    return BrokenClause(clause.kind, clause.text, clause.line, values, trap)


def _values(part: Expression, names: Environment) -> dict[str, Any]:
    """Return the inputs, steps and fields that an expression names, and their values."""
    found: dict[str, Any] = {}
    for each in walk(part):
        path = path_of(each)
        inner = any(other.startswith((f"{path}.", f"old({path}).")) for other in found)
        if path and not inner and path.partition(".")[0] in names and len(found) < _MAX_VALUES:
            found[path] = show_value(each.type, evaluate(each, names))
    return found


def _witness(part: Expression, names: Environment) -> dict[str, Any]:
    """Return the first item for which a FORALL does not hold."""
    if not isinstance(part, ItemLoop) or part.kind is not LoopKind.FORALL:
        return {}
    over = part.over.type
    for item in ordered(over, evaluate(part.over, names)):
        inner = {**names, part.name: item}
        try:
            if evaluate(part.body, inner):
                continue
        except ArithmeticTrap:
            pass
        kind = next(
            (
                each.type
                for each in walk(part.body)
                if isinstance(each, NamedValue) and each.name == part.name
            ),
            TextType(),
        )
        return {part.name: show_value(kind, item)} if not isinstance(over, MapType) else {}
    return {}


def path_of(part: Expression) -> str:
    """Return `user.balance` of a variable with fields, and nothing of other parts."""
    if isinstance(part, NamedValue):
        return part.name
    inner = path_of(part.record) if isinstance(part, FieldOf) else ""
    return f"{inner}.{part.name}" if inner and isinstance(part, FieldOf) else ""


def _brief(value: object) -> str:
    text = f"{value!r}"
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 1] + "…"
