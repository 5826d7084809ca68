"""Makes LLVM assembly of a node whose values are numbers, booleans, enums and instants (pure).

| type                | in a register             | in a column              |
|---------------------|---------------------------|--------------------------|
| integer, timestamp  | i64                       | 8 bytes                  |
| decimal             | i128 of its last place    | 16 bytes, low ones first |
| boolean             | i1                        | 8 bytes, 0 or 1          |
| enum                | i64, its place in `texts` | 8 bytes                  |
| record of these     | its fields                | a column for each field  |

`@batch(rows, inputs, outputs, statuses)` runs one row of columns after another, `@row(inputs,
outputs)` one whose values lie side by side. A status is 0 for outputs, and otherwise the number of
one of `endings`. Results are those of the interpreter to the digit: an
exact product or quotient of decimals has up to 253 bits, so it is made in 256 and rounded once.
`llvm_routines` has the arithmetic of decimals.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from msgspec import Struct

from vegakit.contracts.evaluation import Clause, TrapKind, scale_of
from vegakit.contracts.llvm_routines import (
    Routine,
    ScalarLeaf,
    batch_function,
    product_routine,
    quotient_routine,
    register_of,
    rounded_routine,
    row_function,
)
from vegakit.contracts.node_types import (
    DECIMAL_DIGITS,
    INTEGER_MIN,
    BooleanType,
    DecimalType,
    EnumType,
    IntegerType,
    NodeType,
    RecordType,
    TimestampType,
    show_type,
)
from vegakit.contracts.nodes import GUARD, NodeOutcome, NodeProgram, NodeStatus, NodeStep, trapped
from vegakit.contracts.typed import (
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
    Membership,
    NamedValue,
    Negated,
    RecordMade,
    Relation,
    Rescaled,
)
from vegakit.errors import UserError

Operand: TypeAlias = "str | dict[str, Operand]"
"""A register or a number as it is written; of a record one for each field."""
_LEAVES = (IntegerType, DecimalType, BooleanType, TimestampType, EnumType)
_OPERATIONS = frozenset({"compute", "check"})


class NotNative(UserError):  # noqa: N818  (a reason, as `NodeProblem` is)
    """A node that LLVM is not given, and the part of it that keeps it out."""


class NativeSource(Struct, frozen=True):
    """A node as LLVM assembly, and how its columns and statuses are read."""

    text: str
    inputs: tuple[tuple[str, ScalarLeaf], ...]
    outputs: tuple[tuple[str, ScalarLeaf], ...]
    endings: tuple[NodeOutcome, ...]
    texts: tuple[str, ...]


def llvm_source(node: NodeProgram) -> NativeSource:
    """Return a node as LLVM assembly, or raise `NotNative`."""
    return _NodeEmitter(node).whole()


def native_obstacle(node: NodeProgram) -> str:
    """Return the part that keeps a node from being native, and nothing if none does."""
    try:
        llvm_source(node)
    except NotNative as reason:
        return str(reason)
    return ""


def leaves(kind: NodeType, path: str) -> Iterator[tuple[str, ScalarLeaf]]:
    """Yield the scalars of a type with their paths, in the order of its columns."""
    if isinstance(kind, RecordType):
        for name, part in kind.fields:
            yield from leaves(part, f"{path}.{name}")
    elif isinstance(kind, _LEAVES):
        yield path, kind
    else:
        raise NotNative(f"{path} is of type {show_type(kind)}")


def _record_of(kind: NodeType, found: Iterator[str]) -> Operand:
    """Return the next operands as a value of a type."""
    if isinstance(kind, RecordType):
        return {name: _record_of(part, found) for name, part in kind.fields}
    return next(found)


def _scalars(kind: NodeType, value: Operand) -> Iterator[str]:
    """Yield the operands of a value in the order of its type."""
    if isinstance(value, str):
        yield value
    else:
        for name, part in kind.fields if isinstance(kind, RecordType) else ():
            yield from _scalars(part, value[name])


def _texts(node: NodeProgram) -> tuple[str, ...]:
    """Return the choices of all enums: one table, since a choice may pass from one to another."""
    kinds = [each.type for each in node.inputs] + [kind for _, kind in node.outputs]
    kinds += [step.expression.type for step in node.steps if step.expression is not None]
    found = [leaf for kind in kinds for _, leaf in leaves(kind, "value")]
    return (*sorted({text for leaf in found for text in getattr(leaf, "choices", ())}),)


class _NodeEmitter:
    """Writes one node. Blocks follow each other; every way out of the run is a block of its own
    that returns the number of an ending."""

    def __init__(self, node: NodeProgram) -> None:
        self._node, self._lines = node, list[str]()
        self._endings: dict[tuple[str, str, str], NodeOutcome] = {}
        self._routines: dict[str, str] = {}
        self._number, self._block = 0, "entry"
        self._names: dict[str, Operand] = {}
        self._texts: dict[str, int] = {}
        self._where = ""
        self._trap: Callable[[TrapKind], str] = self._no_trap

    def whole(self) -> NativeSource:
        node = self._node
        self._no_effects()
        inputs = self._leaves("input", ((each.name, each.type) for each in node.inputs))
        outputs = self._leaves("output", node.outputs)
        arguments = [f"{register_of(kind)} %in{n}" for n, (_, kind) in enumerate(inputs)]
        arguments += [f"ptr %out{n}" for n in range(len(outputs))]
        self._steps_fit()
        self._texts = {text: n for n, text in enumerate(_texts(node))}
        body = self._body(outputs)
        text = "\n".join(
            [
                *_DECLARED,
                *self._routines.values(),
                f"define internal i32 @node({', '.join(arguments)}) noinline {{",
                "entry:",
                *body,
                "}",
                *batch_function([kind for _, kind in inputs], [kind for _, kind in outputs]),
                *row_function([kind for _, kind in inputs], [kind for _, kind in outputs]),
                "",
            ]
        )
        return NativeSource(text, inputs, outputs, (*self._endings.values(),), (*self._texts,))

    def _no_effects(self) -> None:
        for step in self._node.steps:
            if step.effect is not None:
                raise NotNative(f"the step {step.name} has an effect, {step.operation}")

    def _leaves(
        self, what: str, named: Iterable[tuple[str, NodeType]]
    ) -> tuple[tuple[str, ScalarLeaf], ...]:
        try:
            return tuple(leaf for name, kind in named for leaf in leaves(kind, name))
        except NotNative as reason:
            raise NotNative(f"the {what} {reason}") from None

    def _steps_fit(self) -> None:
        for step in self._node.steps:
            if step.operation not in _OPERATIONS:
                raise NotNative(f"the step {step.name} is a {step.operation}")
            if step.expression is not None:
                self._leaves("step", [(step.name, step.expression.type)])

    def _body(self, outputs: tuple[tuple[str, ScalarLeaf], ...]) -> list[str]:
        node = self._node
        registers = (f"%in{n}" for n in range(1_000_000))
        for each in node.inputs:
            self._names[each.name] = _record_of(each.type, registers)
        self._names |= {f"old({name})": self._names[name] for name in node.changed}
        for clause in node.before:
            self._clause(clause)
        for step in node.steps:
            self._step(step)
        for clause in node.after:
            self._clause(clause)
        found = [part for name, kind in node.outputs for part in _scalars(kind, self._names[name])]
        for n, (register, (_, kind)) in enumerate(zip(found, outputs, strict=True)):
            self._store(n, register, kind)
        self._lines.append("  ret i32 0")
        for n in range(len(self._endings)):
            self._lines += [f"end{n + 1}:", f"  ret i32 {n + 1}"]
        return self._lines

    def _store(self, n: int, register: str, kind: ScalarLeaf) -> None:
        width = register_of(kind)
        if width == "i1":
            width, register = "i64", self._set(f"zext i1 {register} to i64")
        self._lines.append(f"  store {width} {register}, ptr %out{n}, align 8")

    # Blocks and ways out.

    def _set(self, code: str) -> str:
        self._number += 1
        self._lines.append(f"  %v{self._number} = {code}")
        return f"%v{self._number}"

    def _label(self) -> str:
        self._number += 1
        return f"b{self._number}"

    def _begin(self, label: str) -> None:
        self._lines.append(f"{label}:")
        self._block = label

    def _leave(self, label: str) -> None:
        self._lines.append(f"  br label %{label}")

    def _branch(self, test: str, then: str, otherwise: str) -> None:
        self._lines.append(f"  br i1 {test}, label %{then}, label %{otherwise}")

    def _end_if(self, test: str, ending: str) -> None:
        """Leave the run where a test holds, and go on in a new block."""
        rest = self._label()
        self._branch(test, ending, rest)
        self._begin(rest)

    def _ending(self, outcome: NodeOutcome) -> str:
        key = (str(outcome.status), outcome.reason, outcome.step)
        self._endings.setdefault(key, outcome)
        return f"end{[*self._endings].index(key) + 1}"

    def _no_trap(self, kind: TrapKind) -> str:
        raise AssertionError(f"{kind} outside of a step")

    def _clause(self, clause: Clause) -> None:
        # A clause that traps does not hold, so both leave by the same way.
        reason = f"{clause.kind}: {clause.text}"
        ending = self._ending(NodeOutcome(NodeStatus.BROKEN, None, reason))
        self._where = f"the {clause.kind} {clause.text!r}"
        self._trap = lambda _: ending
        self._end_if(self._not(self._scalar(clause.expression)), ending)

    def _step(self, step: NodeStep) -> None:
        self._where = f"the step {step.name}"
        self._trap = lambda kind: self._ending(trapped(step, kind))
        for guard in step.guards:
            holds = self._scalar(guard.expression)
            outcome = NodeOutcome(NodeStatus.ERROR, None, step.errors[GUARD], step.name)
            self._end_if(self._not(holds), self._ending(outcome))
        if step.expression is not None:
            self._names[step.name] = self._value(step.expression)

    # Expressions.

    def _value(self, part: Expression) -> Operand:
        return _EMISSIONS[type(part)](self, part)

    def _scalar(self, part: Expression) -> str:
        value = self._value(part)
        if not isinstance(value, str):
            raise NotNative(f"{self._where} has a {show_type(part.type)} where a scalar is needed")
        return value

    def _not(self, test: str) -> str:
        return self._set(f"xor i1 {test}, true")

    def _trap_if(self, test: str, kind: TrapKind) -> None:
        self._end_if(test, self._trap(kind))

    def refuse(self, part: Expression) -> Operand:
        """Say which part keeps the node out."""
        raise NotNative(f"{self._where} has {_NAMES.get(type(part), 'a part')} in it")

    def constant(self, part: Constant) -> Operand:
        """Return a number as it is written, and an enum by its place."""
        if isinstance(part.type, EnumType):
            return str(self._texts.setdefault(part.value, len(self._texts)))
        if not isinstance(part.type, _LEAVES):
            raise NotNative(f"{self._where} has a {show_type(part.type)} in it")
        return str(part.value).lower()

    def variable(self, part: NamedValue) -> Operand:
        """Return the registers of a name."""
        if part.name not in self._names:
            raise NotNative(f"{self._where} names {part.name}, which is no input and no step")
        return self._names[part.name]

    def field(self, part: FieldOf) -> Operand:
        """Return the registers of a field."""
        record = self._value(part.record)
        assert isinstance(record, dict)
        return record[part.name]

    def record(self, part: RecordMade) -> Operand:
        """Return the registers of all fields."""
        made = {name: self._value(inner) for name, inner in part.fields}
        order = [name for name, _ in part.type.fields] if isinstance(part.type, RecordType) else []
        return {name: made[name] for name in order}

    def negated(self, part: Negated) -> Operand:
        """Subtract from 0; a decimal has no value without its opposite."""
        value = self._scalar(part.part)
        if isinstance(part.type, DecimalType):
            return self._set(f"sub i128 0, {value}")
        return self._checked("ssub", "0", value)

    def _checked(self, name: str, left: str, right: str) -> str:
        """Return the result of an operation on 64 bits, or trap where it does not fit."""
        called = f"@llvm.{name}.with.overflow.i64(i64 {left}, i64 {right})"
        pair = self._set(f"call {{i64, i1}} {called}")
        self._trap_if(self._set(f"extractvalue {{i64, i1}} {pair}, 1"), TrapKind.OVERFLOW)
        return self._set(f"extractvalue {{i64, i1}} {pair}, 0")

    def arithmetic(self, part: Arithmetic) -> Operand:
        """Return the result of an operator, rounded once and checked."""
        left, right = self._scalar(part.left), self._scalar(part.right)
        is_decimal = isinstance(part.type, DecimalType)
        if part.operator in "/%":
            width = "i128" if is_decimal else "i64"
            zero = self._set(f"icmp eq {width} {right}, 0")
            self._trap_if(zero, TrapKind.DIVISION_BY_ZERO)
        if is_decimal:
            return self._decimal(part, left, right)
        if part.operator in _CHECKED:
            return self._checked(_CHECKED[part.operator], left, right)
        minus = self._set(f"icmp eq i64 {right}, -1")
        if part.operator == "%":
            # The processor faults at the least number % -1, and what is left by 1 is the same 0.
            return self._set(
                f"srem i64 {left}, {self._set(f'select i1 {minus}, i64 1, i64 {right}')}"
            )
        least = self._set(f"icmp eq i64 {left}, {INTEGER_MIN}")
        self._trap_if(self._set(f"and i1 {least}, {minus}"), TrapKind.OVERFLOW)
        return self._set(f"sdiv i64 {left}, {right}")

    def _decimal(self, part: Arithmetic, left: str, right: str) -> str:
        if part.operator in "+-":
            # Two of 38 digits make less than 2e38. Where that wraps in 128 bits it is below
            # -1.4e38, so the check sees it.
            name = "add" if part.operator == "+" else "sub"
            return self._fitting(self._set(f"{name} i128 {left}, {right}"), DECIMAL_DIGITS)
        has, wanted = scale_of(part.left) + scale_of(part.right), scale_of(part)
        if part.operator == "*":
            return self._called(product_routine(has - wanted), left, right)
        # Both sides by the same power of ten are the same quotient.
        up, down = wanted + scale_of(part.right), scale_of(part.left)
        return self._called(quotient_routine(up - down), left, right)

    def _called(self, routine: Routine, *values: str) -> str:
        """Return what a routine gives, or trap where it says that it does not fit."""
        name, texts = routine
        self._routines |= texts
        given = ", ".join(f"i128 {value}" for value in values)
        pair = self._set(f"call {{i128, i1}} @{name}({given})")
        self._trap_if(self._set(f"extractvalue {{i128, i1}} {pair}, 1"), TrapKind.OVERFLOW)
        return self._set(f"extractvalue {{i128, i1}} {pair}, 0")

    def _fitting(self, value: str, digits: int) -> str:
        """Return a decimal that has at most so many digits, or trap."""
        limit = 10**digits
        moved = self._set(f"add i128 {value}, {limit - 1}")
        self._trap_if(self._set(f"icmp uge i128 {moved}, {2 * limit - 1}"), TrapKind.OVERFLOW)
        return value

    def rescaled(self, part: Rescaled) -> Operand:
        """Return a number at other places: more are checked, fewer are rounded."""
        value = self._wide(part.part)
        up = scale_of(part) - scale_of(part.part)
        if up < 0:
            name, texts = rounded_routine(-up)
            self._routines |= texts
            return self._set(f"call i128 @{name}(i128 {value})")
        if isinstance(part.part.type, DecimalType):  # an integer has room for 18 places
            value = self._fitting(value, DECIMAL_DIGITS - up)
        return self._set(f"mul i128 {value}, {10**up}") if up else value

    def _wide(self, part: Expression) -> str:
        value = self._scalar(part)
        if isinstance(part.type, DecimalType):
            return value
        return self._set(f"sext i64 {value} to i128")

    def relation(self, part: Relation) -> Operand:
        """Return whether a comparison holds; numbers are brought to common places first."""
        if any(isinstance(side.type, DecimalType) for side in (part.left, part.right)):
            sides, width = self._common(part), "i256"
        else:
            sides, width = (
                [self._scalar(part.left), self._scalar(part.right)],
                register_of(part.left.type),
            )
        return self._set(f"icmp {_SIGNS[part.operator]} {width} {sides[0]}, {sides[1]}")

    def _common(self, part: Relation) -> list[str]:
        """Return both sides in 256 bits; LLVM takes fewer where the upper ones say nothing."""
        places = max(scale_of(part.left), scale_of(part.right))
        found = [self._wide(side) for side in (part.left, part.right)]
        sides = list[str]()
        for value, side in zip(found, (part.left, part.right), strict=True):
            wide = self._set(f"sext i128 {value} to i256")
            sides.append(self._set(f"mul nsw i256 {wide}, {10 ** (places - scale_of(side))}"))
        return sides

    def logic(self, part: Logic) -> Operand:
        """Return the left side where it decides, and the right side otherwise."""
        left = self._scalar(part.left)
        from_left, right, done = self._block, self._label(), self._label()
        self._branch(left, *((right, done) if part.operator == "AND" else (done, right)))
        self._begin(right)
        other = self._scalar(part.right)
        from_right = self._block
        self._leave(done)
        self._begin(done)
        decided = "false" if part.operator == "AND" else "true"
        return self._set(f"phi i1 [{decided}, %{from_left}], [{other}, %{from_right}]")

    def inverted(self, part: Inverted) -> Operand:
        """Return the opposite."""
        return self._not(self._scalar(part.part))

    def membership(self, part: Membership) -> Operand:
        """Return whether something is in a list that is written out; all items are evaluated."""
        if not isinstance(part.whole, ArrayMade):
            return self.refuse(part)
        item = self._scalar(part.item)
        found, width = "false", register_of(part.item.type)
        for each in [self._scalar(inner) for inner in part.whole.items]:
            equal = self._set(f"icmp eq {width} {item}, {each}")
            found = self._set(f"or i1 {found}, {equal}")
        return found

    def conditional(self, part: Conditional) -> Operand:
        """Return the value of the side that is chosen; the other is not evaluated."""
        then, otherwise, done = (self._label() for _ in range(3))
        self._branch(self._scalar(part.test), then, otherwise)
        sides = list[tuple[list[str], str]]()
        for label, side in ((then, part.then), (otherwise, part.otherwise)):
            self._begin(label)
            sides.append(([*_scalars(part.type, self._value(side))], self._block))
            self._leave(done)
        self._begin(done)
        (first, one), (second, other) = sides
        kinds = [register_of(kind) for _, kind in leaves(part.type, self._where)]
        merged = [
            self._set(f"phi {width} [{left}, %{one}], [{right}, %{other}]")
            for width, left, right in zip(kinds, first, second, strict=True)
        ]
        return _record_of(part.type, iter(merged))

    def call(self, part: FunctionCall) -> Operand:
        """Return the result of a function."""
        if part.function == "LENGTH":
            raise NotNative(f"{self._where} has a LENGTH in it")
        values, width = [self._scalar(each) for each in part.arguments], register_of(part.type)
        if part.function == "SECONDS":
            return self._set(f"sdiv i64 {self._set(f'sub i64 {values[1]}, {values[0]}')}, 1000000")
        if part.function == "ABS":
            opposite = self._absolute_opposite(values[0], width)
            test = self._set(f"icmp slt {width} {values[0]}, 0")
            return self._set(f"select i1 {test}, {width} {opposite}, {width} {values[0]}")
        sign = "sgt" if part.function == "MAX" else "slt"
        test = self._set(f"icmp {sign} {width} {values[0]}, {values[1]}")
        return self._set(f"select i1 {test}, {width} {values[0]}, {width} {values[1]}")

    def _absolute_opposite(self, value: str, width: str) -> str:
        if width == "i64":
            least = self._set(f"icmp eq i64 {value}, {INTEGER_MIN}")
            self._trap_if(least, TrapKind.OVERFLOW)
        return self._set(f"sub {width} 0, {value}")


_CHECKED = {"+": "sadd", "-": "ssub", "*": "smul"}
_DECLARED = [
    f"declare {{i64, i1}} @llvm.{n}.with.overflow.i64(i64, i64)" for n in _CHECKED.values()
]
_SIGNS = {"==": "eq", "!=": "ne", "<": "slt", "<=": "sle", ">": "sgt", ">=": "sge"}
_NAMES: dict[type, str] = {ItemLoop: "a loop", ItemOf: "an item of a collection"} | {
    ArrayMade: "a list",
    Membership: "an IN over a collection",
}
_EMISSIONS: dict[type, Callable[[_NodeEmitter, Any], Operand]] = {
    Constant: _NodeEmitter.constant,
    NamedValue: _NodeEmitter.variable,
    FieldOf: _NodeEmitter.field,
    ItemOf: _NodeEmitter.refuse,
    Negated: _NodeEmitter.negated,
    Arithmetic: _NodeEmitter.arithmetic,
    Rescaled: _NodeEmitter.rescaled,
    Relation: _NodeEmitter.relation,
    Logic: _NodeEmitter.logic,
    Inverted: _NodeEmitter.inverted,
    Membership: _NodeEmitter.membership,
    Conditional: _NodeEmitter.conditional,
    ArrayMade: _NodeEmitter.refuse,
    RecordMade: _NodeEmitter.record,
    FunctionCall: _NodeEmitter.call,
    ItemLoop: _NodeEmitter.refuse,
}
