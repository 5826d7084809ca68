"""A node: typed inputs, steps and a contract, and the interpreter that runs it (pure).

    inputs -> input constraints, preconditions, invariants -> steps -> invariants, postconditions

| outcome   | when                                                    | `reason`               |
|-----------|---------------------------------------------------------|------------------------|
| `success` | all steps have a value and the contract holds           |                        |
| `error`   | a guard does not hold, or a trap that the step declares | the error code         |
| `trap`    | a trap that nobody declared                             | the kind of the trap   |
| `broken`  | a clause of the contract does not hold                  | its kind and its text  |

An output is the step of its name. A step may have the name of an input if an output has it, too:
the node changes it, and `old(name)` is what it was. Steps have no effects and no order but that in
which they are written.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from msgspec import Struct

from vegakit.contracts.checker import NameScope, check_expression, fit, name_fault
from vegakit.contracts.evaluation import (
    ArithmeticTrap,
    BrokenClause,
    Clause,
    TrapKind,
    evaluate,
    judge,
)
from vegakit.contracts.node_types import (
    BOOLEAN,
    ArrayType,
    CollectionType,
    DecimalType,
    EnumType,
    IntegerType,
    MapType,
    NodeType,
    NodeValueError,
    RecordType,
    TextType,
    TimestampType,
    Value,
    read_value,
    show_type,
    show_value,
)
from vegakit.contracts.typed import (
    MAX_COST,
    Expression,
    FieldOf,
    ItemLoop,
    ItemOf,
    LoopKind,
    NamedValue,
    cost_of,
    item_type,
    most_items,
    substituted,
    weight,
)
from vegakit.errors import UserError, did_you_mean

MAX_WEIGHT = 20_000_000
"""The most characters and values that the outputs of a node may have."""
GUARD = "guard"
HANDLED = (GUARD, "overflow", "division_by_zero", "missing")
"""What a step may declare an error code for."""


class NodeProblem(UserError):  # noqa: N818  (a place and a reason; the file's name is added above)
    """A mistake in a node, with its line."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


class WrittenLine(NamedTuple):
    """A text of a node with the line it stands in."""

    text: str
    line: int


class NodeInput(Struct, frozen=True):
    """An input; with a default it may be left out."""

    name: str
    type: NodeType
    default: Value = None
    has_default: bool = False


class NodeStep(Struct, frozen=True):
    """A step: its guards, then its value; `errors` are the codes by what goes wrong. One without an
    expression only guards."""

    name: str
    operation: str
    line: int
    expression: Expression | None
    guards: tuple[Clause, ...] = ()
    errors: dict[str, str] = {}


class NodeProgram(Struct, frozen=True):
    """A node that was checked: what is interpreted, and made into Python."""

    node_id: str
    kind: str
    intent: str
    inputs: tuple[NodeInput, ...]
    outputs: tuple[tuple[str, NodeType], ...]
    error_codes: tuple[str, ...]
    before: tuple[Clause, ...]
    steps: tuple[NodeStep, ...]
    after: tuple[Clause, ...]
    records: tuple[RecordType, ...] = ()

    @property
    def changed(self) -> tuple[str, ...]:
        """Return the inputs that the node changes."""
        outputs = {name for name, _ in self.outputs}
        return tuple(each.name for each in self.inputs if each.name in outputs)

    @property
    def cost(self) -> int:
        """Return the most steps that a run may take."""
        clauses = [*self.before, *self.after, *(one for step in self.steps for one in step.guards)]
        values = [step.expression for step in self.steps if step.expression is not None]
        return sum(cost_of(one) for one in [*(clause.expression for clause in clauses), *values])

    def read_inputs(self, given: Mapping[str, object]) -> dict[str, Value]:
        """Return inputs as they are inside, or raise `NodeValueError`."""
        known = [each.name for each in self.inputs]
        for name in given:
            if name not in known:
                raise NodeValueError(name, f"there is no such input; {did_you_mean(name, known)}")
        values: dict[str, Value] = {}
        for each in self.inputs:
            if each.name in given:
                values[each.name] = read_value(each.type, given[each.name], each.name)
            elif each.has_default:
                values[each.name] = each.default
            else:
                raise NodeValueError(each.name, f"it is missing; give a {show_type(each.type)}")
        return values

    def show_inputs(self, values: Mapping[str, Value]) -> dict[str, Any]:
        """Return inputs as JSON has them."""
        return {each.name: show_value(each.type, values[each.name]) for each in self.inputs}


class NodeStatus(StrEnum):
    """The ways in which a run of a node ends."""

    SUCCESS = "success"
    ERROR = "error"
    TRAP = "trap"
    BROKEN = "broken"


class NodeOutcome(Struct, frozen=True, omit_defaults=True):
    """The end of a run. Two paths agree if these are equal: values are as JSON has them."""

    status: NodeStatus
    outputs: dict[str, Any] | None = None
    reason: str = ""
    step: str = ""

    def __str__(self) -> str:
        where = f" at step {self.step}" if self.step else ""
        return f"{self.status}{f' {self.outputs}' if self.outputs else ''}" + (
            f" {self.reason}{where}" if self.reason else ""
        )


def interpret(node: NodeProgram, inputs: Mapping[str, Value]) -> NodeOutcome:
    """Run a node over inputs that were read."""
    names: dict[str, Value] = {**inputs, **{f"old({name})": inputs[name] for name in node.changed}}
    if broken := first_broken(node.before, names):
        return broken_outcome(broken)
    for step in node.steps:
        try:
            if not all(evaluate(guard.expression, names) for guard in step.guards):
                return NodeOutcome(NodeStatus.ERROR, None, step.errors[GUARD], step.name)
            if step.expression is not None:
                names[step.name] = evaluate(step.expression, names)
        except ArithmeticTrap as trap:
            return trapped(step, trap.kind)
    if broken := first_broken(node.after, names):
        return broken_outcome(broken)
    outputs = {name: show_value(kind, names[name]) for name, kind in node.outputs}
    return NodeOutcome(NodeStatus.SUCCESS, outputs)


def trapped(step: NodeStep, kind: TrapKind) -> NodeOutcome:
    """Return the outcome of a trap in a step."""
    if kind in step.errors:
        return NodeOutcome(NodeStatus.ERROR, None, step.errors[kind], step.name)
    return NodeOutcome(NodeStatus.TRAP, None, str(kind), step.name)


def first_broken(clauses: tuple[Clause, ...], names: Mapping[str, Value]) -> BrokenClause | None:
    """Return the first clause that does not hold."""
    for clause in clauses:
        if broken := judge([clause], names).broken:
            return broken[0]
    return None


def broken_outcome(broken: BrokenClause) -> NodeOutcome:
    """Return the outcome of a broken clause."""
    return NodeOutcome(NodeStatus.BROKEN, None, f"{broken.kind}: {broken.text}")


# Clauses: expressions with their lines.


def clause_of(kind: str, written: WrittenLine, scope: NameScope) -> Clause:
    """Return a clause, or raise `NodeProblem` with its line."""
    found = expression_of(written, scope, BOOLEAN, f"a {kind}")
    return Clause(kind, written.text, written.line, found)


def expression_of(
    written: WrittenLine, scope: NameScope, wanted: NodeType | None = None, what: str = "this"
) -> Expression:
    """Return an expression, or raise `NodeProblem` with its line."""
    try:
        return check_expression(written.text, scope, wanted, what)
    except UserError as error:
        raise NodeProblem(written.line, str(error)) from None


def record_clauses(
    value: Expression, constraints: Mapping[str, list[Clause]], depth: int = 1
) -> Iterator[Clause]:
    """Yield the constraints of all records in a value, as clauses about that value: of those in a
    collection, for each of its items."""
    kind = value.type
    if isinstance(kind, RecordType):
        fields: dict[str, Expression] = {
            name: FieldOf(part, value, name) for name, part in kind.fields
        }
        for clause in constraints.get(kind.name, []):
            yield Clause(
                clause.kind, clause.text, clause.line, substituted(clause.expression, fields)
            )
        for inner in fields.values():
            yield from record_clauses(inner, constraints, depth)
    elif isinstance(kind, CollectionType):
        item = NamedValue(item_type(kind), f"item{depth if depth > 1 else ''}_")
        inner = ItemOf(kind.value, value, item) if isinstance(kind, MapType) else item
        for clause in record_clauses(inner, constraints, depth + 1):
            looped = ItemLoop(BOOLEAN, LoopKind.FORALL, item.name, value, clause.expression)
            yield Clause(clause.kind, clause.text, clause.line, looped)


# Operations: what a step does, as an expression.

Parameters = Mapping[str, WrittenLine]


class StepContext(NamedTuple):
    """The parts of an operation. `wanted` is the type that the step is declared to have."""

    line: int
    parameters: Parameters
    scope: NameScope
    wanted: NodeType | None

    def value(
        self, key: str, scope: NameScope | None = None, wanted: NodeType | None = None
    ) -> Expression:
        """Return the expression of a parameter."""
        return expression_of(self.parameters[key], scope or self.scope, wanted, key)

    def over(self) -> tuple[Expression, str, NameScope]:
        """Return the collection of a loop, the name of its items, and the scope with it."""
        over, name = self.value("over"), self.name("as")
        if not isinstance(over.type, CollectionType):
            raise NodeProblem(
                self.parameters["over"].line,
                f"over is a {show_type(over.type)}; a collection is needed",
            )
        return over, name, self.scope.having(name, item_type(over.type))

    def name(self, key: str) -> str:
        written = self.parameters[key]
        if fault := name_fault(written.text, self.scope.names):
            raise NodeProblem(written.line, f"{key}: {fault}")
        return written.text


def _compute(step: StepContext) -> Expression:
    return step.value("value", wanted=step.wanted)


def _map(step: StepContext) -> Expression:
    over, name, scope = step.over()
    wanted = step.wanted.item if isinstance(step.wanted, ArrayType) else None
    body = step.value("value", scope, wanted)
    kind = ArrayType(body.type, most_items(over.type))
    return ItemLoop(kind, LoopKind.MAP, name, over, body)


def _sum(step: StepContext) -> Expression:
    over, name, scope = step.over()
    body = step.value("value", scope, step.wanted)
    if not isinstance(body.type, IntegerType | DecimalType):
        raise NodeProblem(step.parameters["value"].line, "only numbers are summed")
    return ItemLoop(body.type, LoopKind.SUM, name, over, body)


def _filter(step: StepContext) -> Expression:
    over, name, scope = step.over()
    kind = _items_of(over)
    return ItemLoop(kind, LoopKind.FILTER, name, over, step.value("where", scope, BOOLEAN))


def _items_of(over: Expression) -> ArrayType:
    assert isinstance(over.type, CollectionType)
    return ArrayType(item_type(over.type), over.type.max_items)


def _sort(step: StepContext) -> Expression:
    over, name, scope = step.over()
    body = step.value("by", scope)
    if not isinstance(body.type, IntegerType | DecimalType | TextType | EnumType | TimestampType):
        raise NodeProblem(step.parameters["by"].line, f"a {show_type(body.type)} has no order")
    order = step.parameters.get("descending", WrittenLine("false", step.line))
    if order.text not in ("true", "false"):
        raise NodeProblem(order.line, "descending is true or false")
    kind = LoopKind.SORT_DESCENDING if order.text == "true" else LoopKind.SORT
    return ItemLoop(_items_of(over), kind, name, over, body)


def _group(step: StepContext) -> Expression:
    over, name, scope = step.over()
    body = step.value("by", scope)
    if not isinstance(body.type, IntegerType | TextType | EnumType):
        raise NodeProblem(step.parameters["by"].line, "groups are by string, integer or enum")
    items = _items_of(over)
    return ItemLoop(MapType(body.type, items, items.max_items), LoopKind.GROUP, name, over, body)


def _reduce(step: StepContext) -> Expression:
    over, name, scope = step.over()
    start = step.value("start", wanted=step.wanted)
    total = step.name("total")
    if total == name:
        raise NodeProblem(step.parameters["total"].line, "as and total are two different names")
    body = step.value("value", scope.having(total, start.type), start.type)
    return ItemLoop(start.type, LoopKind.REDUCE, name, over, body, start, total)


def _lookup(step: StepContext) -> Expression:
    whole = step.value("in")
    match whole.type:
        case MapType(key=key, value=value):
            return ItemOf(value, whole, step.value("key", wanted=key))
        case ArrayType(item=item):
            return ItemOf(item, whole, step.value("key", wanted=IntegerType()))
        case other:
            raise NodeProblem(
                step.parameters["in"].line, f"in is a {show_type(other)}; a map or array is needed"
            )


class OperationRow(NamedTuple):
    """An operation: how its expression is made, the parameters it needs and those it may have."""

    made: Callable[[StepContext], Expression] | None
    needs: tuple[str, ...]
    takes: tuple[str, ...] = ()


OPERATIONS: dict[str, OperationRow] = {
    "compute": OperationRow(_compute, ("value",)),
    "check": OperationRow(None, ()),
    "map": OperationRow(_map, ("over", "as", "value")),
    "filter": OperationRow(_filter, ("over", "as", "where")),
    "reduce": OperationRow(_reduce, ("over", "as", "total", "start", "value")),
    "sort": OperationRow(_sort, ("over", "as", "by"), ("descending",)),
    "group": OperationRow(_group, ("over", "as", "by")),
    "sum": OperationRow(_sum, ("over", "as", "value")),
    "lookup": OperationRow(_lookup, ("in", "key")),
}


def step_expression(
    operation: WrittenLine, parameters: Parameters, scope: NameScope, wanted: NodeType | None
) -> Expression | None:
    """Return what a step computes, of the wanted type; None of one that only guards."""
    if operation.text not in OPERATIONS:
        raise NodeProblem(
            operation.line,
            f"there is no operation {operation.text[:40]!a}; "
            f"{did_you_mean(operation.text, OPERATIONS)}",
        )
    row = OPERATIONS[operation.text]
    for key, written in parameters.items():
        if key not in (*row.needs, *row.takes):
            known = did_you_mean(key, (*row.needs, *row.takes))
            raise NodeProblem(written.line, f"{operation.text} takes no {key[:40]!a}; {known}")
    if missing := [key for key in row.needs if key not in parameters]:
        raise NodeProblem(operation.line, f"{operation.text} needs {', '.join(missing)}; add it")
    if row.made is None:
        return None
    found = row.made(StepContext(operation.line, parameters, scope, wanted))
    fitted = found if wanted is None else fit(found, wanted)
    if fitted is None:
        raise NodeProblem(
            operation.line,
            f"this step gives a {show_type(found.type)}, and {show_type(wanted or found.type)} is "
            "needed; use ROUND(…) on decimals, or change the type",
        )
    return fitted


def check_bounds(node: NodeProgram, line: int) -> NodeProgram:
    """Return a node whose cost and outputs are bounded, or raise `NodeProblem`."""
    if node.cost > MAX_COST:
        raise NodeProblem(
            line,
            f"a run may take {min(node.cost, 10**18):,} steps, and {MAX_COST:,} are allowed; bound "
            "the collections in their types, as in array<integer, 50>",
        )
    if (most := sum(weight(kind) for _, kind in node.outputs)) > MAX_WEIGHT:
        raise NodeProblem(
            line,
            f"the outputs may have {min(most, 10**18):,} characters, and {MAX_WEIGHT:,} are "
            "allowed; bound their types, as in array<string<40>, 50>",
        )
    return node
