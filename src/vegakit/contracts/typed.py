"""The typed tree of an expression: the one form that is evaluated, made into Python and proved
(pure).

Every part knows its type, conversions stand in it as parts of their own, and names of `old(…)` are
variables like others. Bounds on what it may cost are read from the tree: each collection has a most
number of items, and loops only run over collections, so every expression ends.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace

from vegakit.contracts.node_types import (
    ArrayType,
    BytesType,
    CollectionType,
    EnumType,
    MapType,
    NodeType,
    RecordType,
    SetType,
    TextType,
    Value,
)

MAX_COST = 1_000_000
"""The most steps that one expression, or all of a node, may take."""


class LoopKind(StrEnum):
    """The things that are made of the items of a collection."""

    FORALL = "FORALL"
    EXISTS = "EXISTS"
    SUM = "SUM"
    MAP = "map"
    FILTER = "filter"
    SORT = "sort"
    SORT_DESCENDING = "sort descending"
    GROUP = "group"
    REDUCE = "reduce"


class TypedPart(Struct, frozen=True):
    """A part of the tree; each has a type."""

    type: NodeType


class Constant(TypedPart, frozen=True):
    """A value that is written out."""

    value: Value


class NamedValue(TypedPart, frozen=True):
    """An input, a step, an item of a loop, or `old(name)`."""

    name: str


class FieldOf(TypedPart, frozen=True):
    """A field of a record."""

    record: "Expression"
    name: str


class ItemOf(TypedPart, frozen=True):
    """An item of an array by its number from 0, or a value of a map; traps where there is none."""

    collection: "Expression"
    key: "Expression"


class Negated(TypedPart, frozen=True):
    """`-e`."""

    part: "Expression"


class Arithmetic(TypedPart, frozen=True):
    """`+ - * / %`. Of decimals the exact result is rounded once, to the places of `type`."""

    operator: str
    left: "Expression"
    right: "Expression"


class Rescaled(TypedPart, frozen=True):
    """A number as a decimal of other places, rounded half-even where they are fewer."""

    part: "Expression"


class Relation(TypedPart, frozen=True):
    """`== != < <= > >=`. Numbers are compared exactly, whatever their places."""

    operator: str
    left: "Expression"
    right: "Expression"


class Logic(TypedPart, frozen=True):
    """`AND`, `OR`; the right side is evaluated only where it decides."""

    operator: str
    left: "Expression"
    right: "Expression"


class Inverted(TypedPart, frozen=True):
    """`NOT e`."""

    part: "Expression"


class Membership(TypedPart, frozen=True):
    """`item IN whole`, which is also `whole CONTAINS item`: an item, a key, a part of a text."""

    item: "Expression"
    whole: "Expression"


class Conditional(TypedPart, frozen=True):
    """`IF e THEN e ELSE e`; only the side that is chosen is evaluated."""

    test: "Expression"
    then: "Expression"
    otherwise: "Expression"


class ArrayMade(TypedPart, frozen=True):
    """`[e, e]`."""

    items: tuple["Expression", ...]


class RecordMade(TypedPart, frozen=True):
    """`{name: e}`, in the order of the fields of its type."""

    fields: tuple[tuple[str, "Expression"], ...]


class FunctionCall(TypedPart, frozen=True):
    """`ABS LENGTH MAX MIN SECONDS`; the others are gone when types are known."""

    function: str
    arguments: tuple["Expression", ...]


class ItemLoop(TypedPart, frozen=True):
    """`body` for each item `name` of `over`. Only a reduction has `start`, and `total`, the name
    under which the body sees what came before."""

    kind: LoopKind
    name: str
    over: "Expression"
    body: "Expression"
    start: "Expression | None" = None
    total: str = ""


Expression: TypeAlias = (
    Constant
    | NamedValue
    | FieldOf
    | ItemOf
    | Negated
    | Arithmetic
    | Rescaled
    | Relation
    | Logic
    | Inverted
    | Membership
    | Conditional
    | ArrayMade
    | RecordMade
    | FunctionCall
    | ItemLoop
)


def parts_of(part: Expression) -> tuple[Expression, ...]:
    """Return the parts of a part, in the order in which they are evaluated."""
    match part:
        case Constant() | NamedValue():
            return ()
        case FieldOf(record=inner) | Negated(part=inner) | Rescaled(part=inner):
            return (inner,)
        case Inverted(part=inner):
            return (inner,)
        case ItemOf(collection=left, key=right) | Membership(item=left, whole=right):
            return left, right
        case Arithmetic() | Relation() | Logic():
            return part.left, part.right
        case Conditional():
            return part.test, part.then, part.otherwise
        case ArrayMade(items=items) | FunctionCall(arguments=items):
            return items
        case RecordMade(fields=fields):
            return tuple(inner for _, inner in fields)
        case ItemLoop():
            return (part.over, *([] if part.start is None else [part.start]), part.body)


def walk(part: Expression) -> Iterator[Expression]:
    """Yield a part and all in it."""
    yield part
    for inner in parts_of(part):
        yield from walk(inner)


def with_parts(part: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """Return a part whose own parts were changed."""
    changes = {field: _changed(getattr(part, field), change) for field in part.__struct_fields__}
    return replace(part, **changes)


def _changed(value: Any, change: Callable[[Expression], Expression]) -> Any:  # noqa: ANN401
    if isinstance(value, TypedPart):
        return change(cast("Expression", value))
    if isinstance(value, tuple):
        return tuple(_changed(each, change) for each in cast("tuple[Any, ...]", value))
    return value


def substituted(part: Expression, names: Mapping[str, Expression]) -> Expression:
    """Return an expression with others in place of some names."""
    if isinstance(part, NamedValue):
        return names.get(part.name, part)
    return with_parts(part, lambda inner: substituted(inner, names))


def most_items(kind: NodeType) -> int:
    """Return how many items a collection has at most; 1 of what is none."""
    return kind.max_items if isinstance(kind, CollectionType) else 1


def item_type(kind: CollectionType) -> NodeType:
    """Return what a loop over a collection sees: of a map its keys."""
    return kind.key if isinstance(kind, MapType) else kind.item


def weight(kind: NodeType) -> int:
    """Return the most characters and values that a value of a type has."""
    match kind:
        case TextType(max_length=most) | BytesType(max_length=most):
            return most
        case EnumType(choices=choices):
            return max(map(len, choices))
        case ArrayType(item=item, max_items=most) | SetType(item=item, max_items=most):
            return 1 + most * weight(item)
        case MapType(key=key, value=value, max_items=most):
            return 1 + most * (weight(key) + weight(value))
        case RecordType(fields=fields):
            return 1 + sum(weight(part) for _, part in fields)
        case _:
            return 1


def _scalars(kind: NodeType) -> int:
    """Return how many scalars are compared at most where two values are."""
    match kind:
        case ArrayType(item=item, max_items=most) | SetType(item=item, max_items=most):
            return most * _scalars(item)
        case MapType(value=value, max_items=most):
            return most * (1 + _scalars(value))
        case RecordType(fields=fields):
            return 1 + sum(_scalars(part) for _, part in fields)
        case _:
            return 1


def cost_of(part: Expression) -> int:
    """Return the most steps that an expression may take. The evaluator counts no more than these,
    so that nothing that was accepted runs out of fuel."""
    costs = [cost_of(each) for each in parts_of(part)]
    inner = sum(costs)
    match part:
        case ItemLoop(over=over):
            return 1 + inner + (most_items(over.type) - 1) * costs[-1]
        case Relation(left=left):
            return inner + _scalars(left.type)
        case Membership(whole=whole):
            if isinstance(whole.type, ArrayType):
                return 1 + inner + _scalars(whole.type)
            has = whole.type.max_length // 100 if isinstance(whole.type, TextType) else 0
            return 1 + inner + has
        case _:
            return 1 + inner
