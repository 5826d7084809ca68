"""A node: typed inputs, steps and a contract, and the interpreter that runs it (pure).

    inputs -> input constraints, preconditions, invariants -> steps -> invariants, postconditions

| outcome   | when                                                    | `reason`               |
|-----------|---------------------------------------------------------|------------------------|
| `success` | all steps have a value and the contract holds           |                        |
| `error`   | a guard does not hold, or a trap that the step declares | the error code         |
| `trap`    | a trap that nobody declared                             | the kind of the trap   |
| `broken`  | a clause of the contract does not hold                  | its kind and its text  |

An output is the step of its name. A step may have the name of an input if an output has it, too:
the node changes it, and `old(name)` is what it was.

A run is a machine: where a step touches the world it yields a `NodeEffect` and is sent the answer,
so that who runs it decides what is carried out. A node without such steps never yields.
"""

from collections.abc import Callable, Generator, Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from vegakit.contracts.checker import NameScope, check_expression
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
    MapType,
    NodeType,
    NodeValueError,
    RecordType,
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
    RecordMade,
    cost_of,
    item_type,
    parts_of,
    substituted,
    weight,
)
from vegakit.errors import UserError, did_you_mean

MAX_WEIGHT = 20_000_000
"""The most characters and values that the outputs of a node may have."""
GUARD = "guard"
FAILURES = ("missing", "exists", "wrong_state", "failed")
"""The ways in which the world refuses what a step asks of it."""
HANDLED = (GUARD, "overflow", "division_by_zero", *FAILURES)
"""What a step may declare an error code for."""
LOCK, TOUCHED = "lock", "touched"
"""What a node asks for beside its steps: that records are locked, and those that it touched."""


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


class StateRecords(Struct, frozen=True):
    """Records that a node reads and writes by their key: the rows of a table."""

    name: str
    table: str
    key: str
    record: RecordType

    @property
    def key_type(self) -> NodeType:
        """Return the type of the key."""
        return dict(self.record.fields)[self.key]


class StepEffect(Struct, frozen=True):
    """A step asks this of the world: `fixed` arguments stand in the file, the others are computed;
    `result` is the type of the answer, and `capability` what it needs, as the file names it."""

    arguments: tuple[tuple[str, Expression], ...]
    result: NodeType
    capability: str = ""
    fixed: tuple[tuple[str, str], ...] = ()
    state: str = ""


class NodeStep(Struct, frozen=True):
    """A step: its guards, then its value or its effect; `errors` are the codes by what goes wrong.
    One without an expression and an effect only guards."""

    name: str
    operation: str
    line: int
    expression: Expression | None
    guards: tuple[Clause, ...] = ()
    errors: dict[str, str] = {}
    effect: StepEffect | None = None

    @property
    def result(self) -> NodeType | None:
        """Return the type of its value; None of a step that only guards."""
        if self.effect is not None:
            return self.effect.result
        return None if self.expression is None else self.expression.type

    @property
    def expressions(self) -> Iterator[Expression]:
        """Yield the expressions of the step: guards, value, arguments of its effect."""
        yield from (guard.expression for guard in self.guards)
        if self.expression is not None:
            yield self.expression
        if self.effect is not None:
            yield from (part for _, part in self.effect.arguments)


class NodeRules(Struct, frozen=True):
    """The rules of a node: its rights, and how its runs are kept. `sensitive` are names of inputs,
    outputs and fields of state, as in `accounts.owner`; `key` is the input that names a request."""

    capabilities: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    sensitive: tuple[str, ...] = ()
    audit_level: str = "none"
    key: str = ""
    timeout_s: int = 0


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
    states: tuple[StateRecords, ...] = ()
    rules: NodeRules = NodeRules()
    callees: tuple["NodeProgram", ...] = ()

    @property
    def expressions(self) -> Iterator[Expression]:
        """Yield the expressions of clauses and steps."""
        yield from (clause.expression for clause in (*self.before, *self.after))
        for step in self.steps:
            yield from step.expressions

    @property
    def has_effects(self) -> bool:
        """Return whether a run may ask something of the world."""
        return any(step.effect is not None for step in self.steps)

    @property
    def only_evaluates(self) -> bool:
        """Return whether a run asks at most other nodes that only evaluate, too."""
        return all(
            step.effect is None
            or (
                step.operation == "call"
                and self.callee(dict(step.effect.fixed)["node"]).only_evaluates
            )
            for step in self.steps
        )

    @property
    def locks(self) -> tuple[tuple[str, Expression], ...]:
        """Return the keys that are known before the first record is read. They are locked at once,
        in one order, so that no two runs wait for each other."""
        inputs = {each.name for each in self.inputs} - {*self.changed}
        found: dict[tuple[str, Expression], None] = {}
        for step in self.steps:
            if step.effect is not None and step.effect.state:
                key = dict(step.effect.arguments)["key"]
                if _root(key) in inputs:
                    found[step.effect.state, key] = None
        return (*found,)

    def state(self, name: str) -> StateRecords:
        """Return the records of a name."""
        return next(each for each in self.states if each.name == name)

    def callee(self, node_id: str) -> "NodeProgram":
        """Return a node that steps call."""
        return next(each for each in self.callees if each.node_id == node_id)

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
        for step in self.steps:
            values += [part for _, part in step.effect.arguments] if step.effect else []
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


class NodeEffect(Struct, frozen=True, omit_defaults=True):
    """A run asks this of the world; values are as JSON has them."""

    step: str
    operation: str
    arguments: dict[str, Any]
    capability: str = ""


class EffectAnswer(Struct, frozen=True):
    """The answer of the world: a value, or one of `FAILURES`."""

    value: Any = None
    failure: str = ""


class NodeOutcome(Struct, frozen=True, omit_defaults=True):
    """The end of a run. Two paths agree if these are equal: values are as JSON has them, and
    `effects` are in the order in which they were asked for."""

    status: NodeStatus
    outputs: dict[str, Any] | None = None
    reason: str = ""
    step: str = ""
    effects: tuple[NodeEffect, ...] = ()
    transaction_id: str = ""

    def __str__(self) -> str:
        where = f" at step {self.step}" if self.step else ""
        return f"{self.status}{f' {self.outputs}' if self.outputs else ''}" + (
            f" {self.reason}{where}" if self.reason else ""
        )


NodeRun: TypeAlias = Generator[NodeEffect, EffectAnswer, NodeOutcome]
"""A run that waits for answers; it returns its outcome."""
StepSeen: TypeAlias = Callable[[NodeStep, Mapping[str, Value]], None]
"""Is told each step that ended well, with all values by then."""


def interpret(node: NodeProgram, inputs: Mapping[str, Value]) -> NodeOutcome:
    """Run a node without effects over inputs that were read."""
    return finish(
        node,
        start_run(node, inputs),
        lambda callee, given: interpret(callee, callee.read_inputs(given)),
    )


def finish(
    node: NodeProgram, run: NodeRun, call: Callable[[NodeProgram, Any], NodeOutcome]
) -> NodeOutcome:
    """Return the outcome of a run that asks at most nodes that only evaluate; `call` runs them."""
    answer: EffectAnswer | None = None
    while True:
        try:
            effect = next(run) if answer is None else run.send(answer)
        except StopIteration as end:
            return end.value
        if not node.only_evaluates:
            break
        answer = call_answer(
            call(node.callee(effect.arguments["node"]), effect.arguments["inputs"])
        )
    run.close()
    raise UserError(
        f"{node.node_id} has effects, which nobody carries out here; run it with NodeHost, or with "
        "`vega node run --state …`"
    )


def call_answer(outcome: NodeOutcome) -> EffectAnswer:
    """Return what a node that calls another is answered: the outputs, or that it failed."""
    if outcome.status is not NodeStatus.SUCCESS:
        return EffectAnswer(failure="failed")
    return EffectAnswer(outcome.outputs)


def start_run(  # noqa: C901  (one loop, read from top to bottom)
    node: NodeProgram, inputs: Mapping[str, Value], seen: StepSeen = lambda _step, _names: None
) -> NodeRun:
    """Return the machine of a run over inputs that were read; `seen` watches its steps."""
    names: dict[str, Value] = {**inputs, **{f"old({name})": inputs[name] for name in node.changed}}
    if broken := first_broken(node.before, names):
        return broken_outcome(broken)
    unlocked = node.locks if node.states else ()
    for step in node.steps:
        try:
            if not all(evaluate(guard.expression, names) for guard in step.guards):
                return NodeOutcome(NodeStatus.ERROR, None, step.errors[GUARD], step.name)
            if step.expression is not None:
                names[step.name] = evaluate(step.expression, names)
            if step.effect is not None and step.effect.state and unlocked:
                yield _lock(step, unlocked, names)
                unlocked = ()
            effect = _asked(step, step.effect, names) if step.effect is not None else None
        except ArithmeticTrap as trap:
            return trapped(step, trap.kind)
        if step.effect is not None and effect is not None:
            answer = read_answer(step.effect.result, (yield effect))
            if answer.failure:
                return trapped(step, answer.failure)
            names[step.name] = answer.value
        seen(step, names)
    for state in node.states:
        answer = read_answer(touched_type(node, state), (yield touched_effect(state)))
        names |= {f"old({state.name})": answer.value["before"], state.name: answer.value["after"]}
    if broken := first_broken(node.after, names):
        return broken_outcome(broken)
    outputs = {name: show_value(kind, names[name]) for name, kind in node.outputs}
    return NodeOutcome(NodeStatus.SUCCESS, outputs)


def _lock(
    step: NodeStep, keys: tuple[tuple[str, Expression], ...], names: Mapping[str, Value]
) -> NodeEffect:
    known = [[state, evaluate_shown(key, names)] for state, key in keys]
    return NodeEffect(step.name, LOCK, {"keys": known})


def _asked(step: NodeStep, effect: StepEffect, names: Mapping[str, Value]) -> NodeEffect:
    computed = {name: evaluate_shown(part, names) for name, part in effect.arguments}
    return NodeEffect(step.name, step.operation, dict(effect.fixed) | computed, effect.capability)


def evaluate_shown(part: Expression, names: Mapping[str, Value]) -> Any:  # noqa: ANN401
    """Return the value of an expression as JSON has it."""
    return show_value(part.type, evaluate(part, names))


def read_answer(kind: NodeType, answer: EffectAnswer) -> EffectAnswer:
    """Return an answer as it is inside. What does not fit its type is a failure: the world is not
    trusted to keep the types of a node."""
    if answer.failure:
        return answer
    try:
        return EffectAnswer(read_value(kind, answer.value, "the answer"))
    except NodeValueError:
        return EffectAnswer(failure="failed")


def touched_effect(state: StateRecords) -> NodeEffect:
    """Return the question for the records that a run touched."""
    return NodeEffect("", TOUCHED, {"state": state.name})


def touched_type(node: NodeProgram, state: StateRecords) -> RecordType:
    """Return the type of the records that a run touched, before and after it, in the order of their
    keys. There are no more than steps, so that a clause over them is bounded as all others are."""
    steps = sum(step.effect is not None and step.effect.state == state.name for step in node.steps)
    records = ArrayType(state.record, max(1, steps))
    return RecordType((("before", records), ("after", records)))


def _root(part: Expression) -> str:
    """Return the name that a path of fields begins with; nothing of other expressions, which may
    trap."""
    while isinstance(part, FieldOf):
        part = part.record
    return part.name if isinstance(part, NamedValue) else ""


def trapped(step: NodeStep, kind: TrapKind | str) -> NodeOutcome:
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
    return _with_sensitive_keys(node)


def _with_sensitive_keys(node: NodeProgram) -> NodeProgram:
    """Return a node in which the key of records is sensitive if they are found by something that
    is: the key of the record is that very value."""
    asked = sensitivity_of(node).arguments
    keys = {
        f"{step.effect.state}.{node.state(step.effect.state).key}"
        for step in node.steps
        if step.effect is not None and step.effect.state and "key" in asked[step.name]
    }
    sensitive = (*dict.fromkeys((*node.rules.sensitive, *sorted(keys))),)
    return replace(node, rules=replace(node.rules, sensitive=sensitive))


# Sensitive values: what is computed of them is sensitive, too. Which way a guard went is not.


class Sensitivity(NamedTuple):
    """The sensitive parts of a node: `names` of inputs, steps and outputs; `fields` of steps that
    hold a record of which only some are; `arguments` of what steps ask for."""

    names: frozenset[str]
    fields: Mapping[str, frozenset[str]]
    arguments: Mapping[str, frozenset[str]]


def sensitivity_of(node: NodeProgram) -> Sensitivity:
    """Return what holds something sensitive, or is made of it."""
    names = {name for name in node.rules.sensitive if "." not in name}
    of_states: dict[str, set[str]] = {}
    for name in node.rules.sensitive:
        state, point, field = name.partition(".")
        of_states.setdefault(state, set()).update([field] if point else [])
    fields, arguments = dict[str, frozenset[str]](), dict[str, frozenset[str]]()
    for step in node.steps:
        if step.expression is not None and _reveals(step.expression, names, fields):
            names.add(step.name)
        if step.effect is None:
            continue
        secret = frozenset(of_states.get(step.effect.state, ()))
        hidden = {
            argument
            for argument, part in step.effect.arguments
            if _reveals(part, names, fields)
            or (isinstance(part, RecordMade) and secret & {name for name, _ in part.fields})
        }
        arguments[step.name] = frozenset(hidden)
        if step.operation == "call":
            # What is sensitive in the node that is called is so here, too.
            callee = node.callee(dict(step.effect.fixed)["node"])
            inner = sensitivity_of(callee).names
            if any(each.name in inner for each in callee.inputs):
                arguments[step.name] = frozenset({*hidden, "inputs"})
            fields[step.name] = inner & {name for name, _ in callee.outputs}
        if hidden and not step.effect.state:
            names.add(step.name)  # an answer may repeat its question
        elif step.effect.state:
            fields[step.name] = secret | _fields_made(step.effect, names, fields)
    return Sensitivity(frozenset(names), fields, arguments)


def _fields_made(
    effect: StepEffect, names: set[str], fields: Mapping[str, frozenset[str]]
) -> frozenset[str]:
    """Return the fields that a step writes something sensitive to."""
    records = [part for _, part in effect.arguments if isinstance(part, RecordMade)]
    return frozenset(
        name for part in records for name, inner in part.fields if _reveals(inner, names, fields)
    )


def _reveals(part: Expression, names: set[str], fields: Mapping[str, frozenset[str]]) -> bool:
    """Return whether a value depends on something sensitive."""
    match part:
        case NamedValue(name=name):
            return name in names or bool(fields.get(name))
        case FieldOf(record=NamedValue(name=name), name=field) if name in fields:
            return name in names or field in fields[name]
        case _:
            return any(_reveals(inner, names, fields) for inner in parts_of(part))
