"""Makes a node cheaper without changing any of its outcomes (pure).

| rule        | what it does                                                                     |
|-------------|----------------------------------------------------------------------------------|
| `constants` | evaluates what has no names in it; `x + 0`, `x AND true`, `NOT NOT x`, `x == x`  |
| `common`    | takes the value of an earlier step instead of its expression; evaluates what is  |
|             | repeated once                                                                    |
| `filters`   | filters before it maps                                                           |
| `guards`    | checks a guard before steps that it does not read                                |
| `unused`    | leaves out steps whose value nobody reads                                        |

An outcome is also which trap comes first, in which step. So what may trap is never evaluated
sooner, later or not at all: only parts that are total, which have a value for all inputs, are moved
or left out, and nothing is moved past a part that may end the run. Nodes with operations that do
more than evaluate stay as they are. Generated Python is made of the node as it is written: it is to
be read.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

from msgspec.structs import replace

from vegakit.contracts.evaluation import ArithmeticTrap, Clause, evaluate, scale_of
from vegakit.contracts.node_types import (
    BOOLEAN,
    SCALARS,
    ArrayType,
    CollectionType,
    DecimalType,
    IntegerType,
)
from vegakit.contracts.nodes import NodeProgram, NodeStep
from vegakit.contracts.typed import (
    Arithmetic,
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
    NamedValue,
    Negated,
    RecordMade,
    Relation,
    Rescaled,
    cost_of,
    item_type,
    parts_of,
    substituted,
    walk,
    with_parts,
)

Rule: TypeAlias = Callable[[NodeProgram], NodeProgram]
Totality: TypeAlias = Callable[[Expression], bool]
_EVALUATED = frozenset("compute check map filter reduce sort group sum lookup".split())
_LEAST_SHARED = 4
"""The least cost of a part that is worth a step of its own."""
_MOST_SHARED = 16


def optimised(node: NodeProgram, rules: "Mapping[str, Rule] | None" = None) -> NodeProgram:
    """Return a node with the same outcome for all inputs; `rules` are all of them by default."""
    if any(step.operation not in _EVALUATED for step in node.steps):
        return node
    chosen = (RULES if rules is None else rules).values()
    for rule in (*chosen, *chosen):  # what one makes simpler, another sees only then
        node = rule(node)
    return node


def is_total(part: Expression) -> bool:
    """Return whether an expression has a value for all inputs, by its form alone."""
    return not any(_may_trap(each) for each in walk(part))


def _may_trap(part: Expression) -> bool:
    match part:
        case Arithmetic() | ItemOf():
            return True
        case Negated() | FunctionCall(function="ABS"):
            # The least integer has no opposite; decimals are as many below zero as above.
            return isinstance(part.type, IntegerType)
        case Rescaled(part=inner):
            # An integer has room for 18 places, and fewer places make no number longer.
            return isinstance(inner.type, DecimalType) and scale_of(part) > scale_of(inner)
        case ItemLoop(kind=LoopKind.SUM):
            return True
        case _:
            return False


# The tree, from its leaves to its root.


def _rebuilt(part: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """Return a tree whose parts were changed, inner ones first."""
    return change(with_parts(part, lambda inner: _rebuilt(inner, change)))


def _clauses(
    clauses: Iterable[Clause], change: Callable[[Expression], Expression]
) -> tuple[Clause, ...]:
    """Return clauses that were changed, without those that hold in any case."""
    made = [replace(each, expression=change(each.expression)) for each in clauses]
    return tuple(each for each in made if each.expression != _TRUE)


def _changed_step(step: NodeStep, change: Callable[[Expression], Expression]) -> NodeStep:
    value = None if step.expression is None else change(step.expression)
    return replace(step, guards=_clauses(step.guards, change), expression=value)


def _names(part: Expression) -> set[str]:
    """Return all names in an expression; those of its loops are among them."""
    return {each.name for each in walk(part) if isinstance(each, NamedValue)} | _bound([part])


def _bound(parts: Iterable[Expression]) -> set[str]:
    """Return the names that loops in some expressions give to items and totals."""
    loops = (each for each in _all_parts(parts) if isinstance(each, ItemLoop))
    return {name for loop in loops for name in (loop.name, loop.total)} - {""}


def _free(part: Expression) -> set[str]:
    """Return the names that an expression takes from outside."""
    if isinstance(part, NamedValue):
        return {part.name}
    inner = {name for each in parts_of(part) for name in _free(each)}
    return inner - {part.name, part.total} if isinstance(part, ItemLoop) else inner


def _all_parts(parts: Iterable[Expression]) -> Iterator[Expression]:
    for part in parts:
        yield from walk(part)


def _reads(parts: Iterable[Expression]) -> set[str]:
    return {name for part in parts for name in _names(part)}


# Constants.

_TRUE, _FALSE = Constant(BOOLEAN, value=True), Constant(BOOLEAN, value=False)
_NEUTRAL = {("+", 0), ("-", 0), ("*", 1), ("/", 1)}


def fold_constants(node: NodeProgram, total: Totality = is_total) -> NodeProgram:
    """Evaluate what has no names, and leave out what changes nothing."""

    def fold(part: Expression) -> Expression:
        return _rebuilt(part, lambda each: _folded(each, total))

    return replace(
        node,
        before=_clauses(node.before, fold),
        steps=tuple(_changed_step(step, fold) for step in node.steps),
        after=_clauses(node.after, fold),
    )


def _folded(part: Expression, total: Totality) -> Expression:
    if isinstance(part, Constant | NamedValue):
        return part
    if isinstance(part.type, SCALARS) and not any(isinstance(e, NamedValue) for e in walk(part)):
        try:
            return Constant(part.type, evaluate(part, {}))
        except ArithmeticTrap:
            return part  # it traps where it stands, if a run comes to it
    match part:
        case Logic():
            return _folded_logic(part, total)
        case Conditional(test=Constant(value=value)):
            return part.then if value else part.otherwise
        case Inverted(part=Inverted(part=inner)):
            return inner
        case Relation() if part.left == part.right and total(part.left):
            return _TRUE if part.operator in ("==", "<=", ">=") else _FALSE
        case Arithmetic(right=Constant(value=value)):
            # A decimal of 1 has other digits, and its product other places.
            is_integer = isinstance(part.type, IntegerType)
            same = part.left.type == part.type and (is_integer or part.operator in "+-")
            return part.left if same and (part.operator, value) in _NEUTRAL else part
        case FieldOf(record=RecordMade(fields=fields)):
            # The other fields are evaluated, too, and may trap.
            others = all(total(inner) for name, inner in fields if name != part.name)
            return dict(fields)[part.name] if others else part
        case _:
            return part


def _folded_logic(part: Logic, total: Totality) -> Expression:
    decides = part.operator == "OR"
    match part:
        case Logic(left=Constant(value=value)):
            return part.left if value == decides else part.right
        case Logic(right=Constant(value=value)) if value != decides:
            return part.left
        case Logic(right=Constant()) if total(part.left):
            return part.right
        case _:
            return part


# Common subexpressions.

_Known: TypeAlias = dict[Expression, NamedValue]


def share_common(node: NodeProgram, total: Totality = is_total) -> NodeProgram:
    """Take what a step has instead of evaluating it again. Where a run comes to the second place it
    has passed the step, so that what may trap did not; repeated parts that no step has are put in a
    step of their own if they are total."""
    return _reused(_with_shared_steps(node, total))


def _reused(node: NodeProgram) -> NodeProgram:
    known: _Known = {}
    steps = list[NodeStep]()
    for step in node.steps:
        made = _changed_step(step, lambda part, now=known: _known_in(part, now))
        steps.append(made)
        if made.expression is not None:
            known = _with_step(known, made.name, made.expression, node.changed)
    after = _clauses(node.after, lambda part: _known_in(part, known))
    return replace(node, steps=(*steps,), after=after)


def _with_step(known: _Known, name: str, part: Expression, changed: tuple[str, ...]) -> _Known:
    """Return what is known after a step: of an input that it changed, the value is `old(…)`."""
    if name in changed:
        old: dict[str, Expression] = {name: NamedValue(part.type, f"old({name})")}
        known = {
            substituted(each, old): value for each, value in known.items() if value.name != name
        }
        part = substituted(part, old)
    if isinstance(part, Constant | NamedValue):
        return known
    return {**known, part: NamedValue(part.type, name)}


def _known_in(part: Expression, known: _Known) -> Expression:
    """Return an expression with steps in place of what they have. The names of a loop hide others:
    in its body, nothing is known of those."""
    if not known:
        return part
    if isinstance(part, ItemLoop):
        inner = {
            each: value
            for each, value in known.items()
            if not {part.name, part.total} & {*_names(each), value.name}
        }
        start = None if part.start is None else _known_in(part.start, known)
        over, body = _known_in(part.over, known), _known_in(part.body, inner)
        part = replace(part, over=over, body=body, start=start)
    else:
        part = with_parts(part, lambda each: _known_in(each, known))
    return known.get(part, part)


def _with_shared_steps(node: NodeProgram, total: Totality) -> NodeProgram:
    steps = [*node.steps]
    for number in range(_MOST_SHARED):
        # No name in a file has a space, so this is none of them; an earlier pass may have taken it.
        name = f"shared {number}"
        if any(step.name == name for step in steps):
            continue
        if not (part := _most_repeated(node, steps, total)):
            break
        made = NodeStep(name, "compute", steps[0].line, part)
        uses = (n for n, step in enumerate(steps) if part in _all_parts(step.expressions))
        steps.insert(next(uses, len(steps)), made)
        node = _reused(replace(node, steps=(*steps,)))
        steps = [*node.steps]
    return node


def _most_repeated(node: NodeProgram, steps: list[NodeStep], total: Totality) -> Expression | None:
    parts = [part for step in steps for part in step.expressions]
    parts += [clause.expression for clause in node.after]
    places = Counter(_all_parts(parts))
    closed = {each.name for each in node.inputs} | {step.name for step in steps}
    # An input that a step changes has two values, and names of loops have many.
    closed -= {*node.changed} | _bound(parts)
    whole = {step.expression for step in steps}
    found = [
        part
        for part, number in places.items()
        if number > 1
        and isinstance(part.type, SCALARS)
        and not isinstance(part, Constant | NamedValue)
        and part not in whole
        and cost_of(part) >= _LEAST_SHARED
        and _free(part) <= closed
        and total(part)
    ]
    return max(found, key=cost_of, default=None)


# Filters before maps.


def filter_first(node: NodeProgram, total: Totality = is_total) -> NodeProgram:
    """Filter before mapping, where the map is read by the filter only and neither may trap."""
    steps = [*node.steps]
    for at, step in enumerate(steps):
        for later in range(at + 1, len(steps)):
            between = {each.name for each in steps[at + 1 : later]}
            if pair := _exchanged(step, steps[later], between, total):
                others = [*steps[:at], *steps[at + 1 : later], *steps[later + 1 :]]
                read = _reads(part for each in others for part in each.expressions)
                read |= _reads(clause.expression for clause in node.after)
                if step.name not in read | {name for name, _ in node.outputs}:
                    steps[at], steps[later] = pair
                    break
    return replace(node, steps=(*steps,))


def _exchanged(
    step: NodeStep, later: NodeStep, between: set[str], total: Totality
) -> tuple[NodeStep, NodeStep] | None:
    """Return a map and a filter over it as a filter and a map, or None. They stay where they are,
    so neither may read what steps between them give or change."""
    mapped, kept = step.expression, later.expression
    if not isinstance(mapped, ItemLoop) or not isinstance(kept, ItemLoop):
        return None
    if (mapped.kind, kept.kind) != (LoopKind.MAP, LoopKind.FILTER):
        return None
    elsewhere = _reads([kept.body, *(guard.expression for guard in later.guards)])
    if kept.over != NamedValue(mapped.type, step.name) or step.name in elsewhere:
        return None
    where = substituted(kept.body, {kept.name: mapped.body})
    where = _rebuilt(where, lambda each: _folded(each, total))
    apart = _names(kept.body).isdisjoint({mapped.name}) and kept.name not in _names(mapped.body)
    if not (apart or kept.name == mapped.name) or not total(mapped.body) or not total(where):
        return None
    if between & (_free(where) | _free(mapped.body)):
        return None
    if cost_of(where) >= cost_of(kept.body) + cost_of(mapped.body):
        return None  # the map is in the test as a whole, and would be made twice
    over = mapped.over
    assert isinstance(over.type, CollectionType)
    items = ArrayType(item_type(over.type), over.type.max_items)
    first = ItemLoop(items, LoopKind.FILTER, mapped.name, over, where)
    second = ItemLoop(
        kept.type, LoopKind.MAP, mapped.name, NamedValue(items, step.name), mapped.body
    )
    return replace(step, expression=first), replace(later, expression=second)


# Guards and unused steps.


def _ends_no_run(step: NodeStep, total: Totality) -> bool:
    return not step.guards and (step.expression is None or total(step.expression))


def hoist_guards(node: NodeProgram, total: Totality = is_total) -> NodeProgram:
    """Check guards before steps that cannot end the run and that they do not read."""
    steps = list[NodeStep]()
    for step in node.steps:
        read, at = _reads(guard.expression for guard in step.guards), len(steps)
        while at and _ends_no_run(steps[at - 1], total) and steps[at - 1].name not in read:
            at -= 1
        if not step.guards or at == len(steps):
            steps.append(step)
            continue
        # It has the name and the errors of its step, so that the outcome is the same one.
        steps.insert(at, replace(step, operation="check", expression=None))
        steps.append(replace(step, guards=()))
    return replace(node, steps=(*steps,))


def drop_unused(node: NodeProgram, total: Totality = is_total) -> NodeProgram:
    """Leave out steps that cannot end the run and whose value nobody reads."""
    read = {name for name, _ in node.outputs} | _reads(each.expression for each in node.after)
    kept = list[NodeStep]()
    for step in reversed(node.steps):
        if step.name in read or not _ends_no_run(step, total):
            kept.append(step)
            read |= _reads(step.expressions)
    return replace(node, steps=(*reversed(kept),))


RULES: dict[str, Rule] = {
    "constants": fold_constants,
    "common": share_common,
    "filters": filter_first,
    "guards": hoist_guards,
    "unused": drop_unused,
}
