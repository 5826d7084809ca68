"""Makes readable Python of a node (pure).

The module that comes out needs nothing but the standard library: types as TypedDict, the intent as
a docstring, every clause of the contract as a check, and a `with` for each step. Numbers are those
of `decimal`, in a context wide enough that each operation is rounded once; the interpreter has
another arithmetic, and shares none of this code.
"""

import builtins
import keyword
from collections.abc import Callable, Iterator
from typing import Any

from vegakit.contracts.evaluation import Clause
from vegakit.contracts.node_types import (
    ArrayType,
    BooleanType,
    BytesType,
    DecimalType,
    EnumType,
    IntegerType,
    MapType,
    NodeType,
    RecordType,
    SetType,
    TextType,
    TimestampType,
    Value,
    show_decimal,
    show_instant,
)
from vegakit.contracts.nodes import GUARD, NodeProgram, NodeStep, StepEffect
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
    LoopKind,
    Membership,
    NamedValue,
    Negated,
    RecordMade,
    Relation,
    Rescaled,
)

HEADER = "# AUTO-GENERATED - DO NOT EDIT"

_TROUBLE = '''\
class NodeTrap(Exception):
    """A value that cannot be: overflow, division_by_zero or missing."""


class NodeError(Exception):
    """The node ends with one of its declared errors: the code, and the step."""


class NodeStopped(Exception):
    """A step trapped, and the node declares no error for it: the kind, and the step."""


class ContractBroken(Exception):
    """A clause of the contract does not hold: its kind, and its text."""


class _Step:
    """Names the step in which something traps, and turns it into the declared error."""

    def __init__(self, name: str, **errors: str) -> None:
        self.name, self.errors = name, errors

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, NodeTrap):
            trap = str(error)
            if trap in self.errors:
                raise NodeError(self.errors[trap], self.name) from None
            raise NodeStopped(trap, self.name) from None


def _check(kind: str, text: str, holds: Callable[[], bool]) -> None:
    try:
        if holds():
            return
    except NodeTrap:
        pass
    raise ContractBroken(kind, text)
'''

_HELPERS = {
    "_exact": '''\
_EXACT = Context(prec=200, rounding=ROUND_HALF_EVEN)


def _exact(function: Callable[..., Any]) -> Callable[..., Any]:
    """Run a function where decimals have room for every exact result."""

    @wraps(function)
    def run(**inputs: Any) -> Any:
        with localcontext(_EXACT):
            return function(**inputs)

    return run
''',
    "_stepwise": '''\
_EXACT = Context(prec=200, rounding=ROUND_HALF_EVEN)


def _stepwise(function: Callable[..., Any]) -> Callable[..., Any]:
    """Run a function where decimals have room for every exact result. Each time that it asks for
    something outside, who runs it is given back the context that was there."""

    @wraps(function)
    def run(**inputs: Any) -> Any:
        steps, answer = function(**inputs), None
        while True:
            with localcontext(_EXACT):
                try:
                    request = steps.send(answer)
                except StopIteration as end:
                    return end.value
            answer = yield request

    return run
''',
    "_perform": '''\
def _perform(step: str, operation: str, **arguments: Any) -> Generator[Any, Any, Any]:
    """Ask who runs this for something outside, and wait: it answers with a failure and a value."""
    failure, value = yield step, operation, arguments
    if failure:
        raise NodeTrap(failure)
    return value
''',
    "_int": '''\
def _int(value: int) -> int:
    """Check that an integer fits 64 bits."""
    if not -(2**63) <= value < 2**63:
        raise NodeTrap("overflow")
    return value
''',
    "_dec": '''\
def _dec(value: Decimal | int, places: int) -> Decimal:
    """Round half-even to some places, and check that it has at most 38 digits."""
    rounded = Decimal(value).quantize(Decimal(1).scaleb(-places)) + 0
    if abs(rounded.scaleb(places)) >= Decimal(10) ** 38:
        raise NodeTrap("overflow")
    return rounded
''',
    "_over": '''\
def _over(left: Decimal, right: Decimal) -> Decimal:
    """Divide decimals."""
    if right == 0:
        raise NodeTrap("division_by_zero")
    return left / right
''',
    "_div": '''\
def _div(left: int, right: int) -> int:
    """Divide integers; the fraction is cut off, towards zero."""
    if right == 0:
        raise NodeTrap("division_by_zero")
    return -(-left // right) if (left < 0) != (right < 0) else left // right
''',
    "_mod": '''\
def _mod(left: int, right: int) -> int:
    """Return what a division leaves, with the sign of the left side."""
    if right == 0:
        raise NodeTrap("division_by_zero")
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest
''',
    "_at": '''\
def _at(collection: Any, key: Any) -> Any:
    """Return an item by its number from 0, or a value by its key."""
    found = 0 <= key < len(collection) if isinstance(collection, list) else key in collection
    if not found:
        raise NodeTrap("missing")
    return collection[key]
''',
    "_sum": '''\
def _sum(values: Iterable[Any], start: Any, fits: Callable[[Any], Any]) -> Any:
    """Add up, and check every sum on the way."""
    for value in values:
        start = fits(start + value)
    return start
''',
    "_group": '''\
def _group(items: Iterable[Any], key: Callable[[Any], Any]) -> dict[Any, list[Any]]:
    """Return the items by their key, in their order."""
    groups: dict[Any, list[Any]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups
''',
    "_seconds": '''\
def _seconds(start: datetime, end: datetime) -> int:
    """Return the whole seconds between two instants, towards zero."""
    whole = abs(end - start) // timedelta(seconds=1)
    return whole if end >= start else -whole
''',
}
"""Functions that the code of a node calls; it gets those that it does."""

_RESERVED = frozenset(
    {*keyword.kwlist, *keyword.softkwlist, *dir(builtins), "timedelta", "datetime", "reduce"}
)
_RESERVED_CLASSES = _RESERVED | frozenset(
    """Any Callable ContractBroken Context Decimal Generator Iterable Literal NodeError NodeStopped
    NodeTrap TypedDict""".split()
)


def python_name(name: str) -> str:
    """Return a name of a node as Python takes it."""
    if name.startswith("old("):
        return f"_old_{name[4:-1]}"
    return f"{name}_" if name in _RESERVED else name


def _class(name: str) -> str:
    """Return the name of a record as Python takes it."""
    return f"{name}_" if name in _RESERVED_CLASSES else name


def class_name(node_id: str) -> str:
    """Return `PriceOrderV1` of `price_order_v1`."""
    return "".join(part.capitalize() for part in node_id.split("_"))


def python_source(node: NodeProgram, origin: str) -> str:
    """Return a module with a function of the name of the node. `origin` is the file it is from."""
    body = "\n".join([*_records(node), *_function(node)])
    first = "_stepwise" if node.has_effects else "_exact"
    helpers = [text for name, text in _HELPERS.items() if f"{name}(" in body or name == first]
    helpers += [_HELPERS["_int"]] if "_int" in body and _HELPERS["_int"] not in helpers else []
    blocks = "\n\n".join([_TROUBLE, *helpers])
    head = [
        HEADER,
        f"# Made by `vega node compile` from {_brief(origin)}; change that file instead.",
        f'"""{_doc(node.intent)}"""',
        "",
        *_imports(blocks + body),
        "",
    ]
    return "\n".join(head) + blocks + "\n\n" + body


def _doc(text: str) -> str:
    return " ".join(text.split()).replace("\\", "\\\\").replace('"', '\\"')


_IMPORTS = (
    ("collections.abc", ("Callable", "Generator", "Iterable")),
    ("datetime", ("datetime", "timedelta")),
    ("decimal", ("ROUND_HALF_EVEN", "Context", "Decimal", "localcontext")),
    ("functools", ("reduce", "wraps")),
    ("typing", ("Any", "Literal", "TypedDict")),
)


def _imports(code: str) -> Iterator[str]:
    for module, names in _IMPORTS:
        # A word of an intent may be imported for nothing, which does no harm.
        if used := [name for name in names if name in code]:
            yield f"from {module} import {', '.join(used)}"
    yield ""


def _records(node: NodeProgram) -> Iterator[str]:
    outputs = RecordType(node.outputs, f"{class_name(node.node_id)}Outputs")
    for record in (*node.records, outputs):
        name = _class(record.name)
        fields = [(field, _annotation(kind)) for field, kind in record.fields]
        if any(keyword.iskeyword(field) for field, _ in fields):
            inner = ", ".join(f'"{field}": {kind}' for field, kind in fields)
            yield f'{name} = TypedDict("{name}", {{{inner}}})\n\n'
        else:
            lines = [f"    {field}: {kind}" for field, kind in fields]
            yield "\n".join([f"class {name}(TypedDict):", *lines, "\n"])


_ANNOTATIONS: dict[type, Callable[[Any], str]] = {
    TextType: lambda _: "str",
    IntegerType: lambda _: "int",
    DecimalType: lambda _: "Decimal",
    BooleanType: lambda _: "bool",
    BytesType: lambda _: "bytes",
    TimestampType: lambda _: "datetime",
    EnumType: lambda kind: f"Literal[{', '.join(repr(choice) for choice in kind.choices)}]",
    ArrayType: lambda kind: f"list[{_annotation(kind.item)}]",
    SetType: lambda kind: f"frozenset[{_annotation(kind.item)}]",
    MapType: lambda kind: f"dict[{_annotation(kind.key)}, {_annotation(kind.value)}]",
    RecordType: lambda kind: _class(kind.name) if kind.name else "dict[str, Any]",
}


def _annotation(kind: NodeType) -> str:
    return _ANNOTATIONS[type(kind)](kind)


def _function(node: NodeProgram) -> Iterator[str]:
    yield "@_stepwise" if node.has_effects else "@_exact"
    yield f"def {node.node_id}("
    yield "    *,"
    for each in node.inputs:
        default = ""
        if each.has_default:
            default = f" = {_constant(each.type, each.default)}"
        yield f"    {python_name(each.name)}: {_annotation(each.type)}{default},"
    outputs = f"{class_name(node.node_id)}Outputs"
    yield f") -> {f'Generator[Any, Any, {outputs}]' if node.has_effects else outputs}:"
    yield f'    """{_doc(node.intent)}"""'
    for name in node.changed:
        yield f"    {python_name(f'old({name})')} = {python_name(name)}"
    yield from map(_checked, node.before)
    unlocked = node.locks
    for step in node.steps:
        yield from _step(step, is_new=step.name not in node.changed)
        if step.effect is not None:
            locks = unlocked if step.effect.state else ()
            yield from _effect(step, step.effect, locks)
            unlocked = unlocked if not step.effect.state else ()
    for state in node.states:
        name = python_name(state.name)
        yield f'\n    {name}_ = yield from _perform("", "touched", state="{state.name}")'
        old = python_name(f"old({state.name})")
        yield f'    {old}, {name} = {name}_["before"], {name}_["after"]'
    yield from map(_checked, node.after)
    yield "    return {"
    for name, _ in node.outputs:
        yield f'        "{name}": {python_name(name)},'
    yield "    }\n"


def _checked(clause: Clause) -> str:
    code = python_expression(clause.expression)
    return f"    _check({clause.kind!r}, {clause.text!r}, lambda: {code})"


def _step(step: NodeStep, *, is_new: bool) -> Iterator[str]:
    errors = "".join(f", {cause}={code!r}" for cause, code in step.errors.items() if cause != GUARD)
    yield f"\n    with _Step({step.name!r}{errors}):"
    for guard in step.guards:
        yield f"        if not {python_expression(guard.expression)}:  # {_brief(guard.text)}"
        yield f"            raise NodeError({step.errors[GUARD]!r}, {step.name!r})"
    if step.expression is not None:
        # A changed input has its type already, and Python lets nobody repeat it.
        kind = f": {_annotation(step.expression.type)}" if is_new else ""
        yield f"        {python_name(step.name)}{kind} = {python_expression(step.expression)}"


def _effect(
    step: NodeStep, effect: StepEffect, locks: tuple[tuple[str, Expression], ...]
) -> Iterator[str]:
    if locks:
        keys = ", ".join(f'["{state}", {python_expression(key)}]' for state, key in locks)
        yield f'        yield from _perform("{step.name}", "lock", keys=[{keys}])'
    given = [f"{name}={text!r}" for name, text in effect.fixed]
    given += [f"{name}={python_expression(part)}" for name, part in effect.arguments]
    asked = ", ".join([f'"{step.name}"', f'"{step.operation}"', *given])
    kind = _annotation(effect.result)
    yield f"        {python_name(step.name)}: {kind} = yield from _perform({asked})"


def _brief(text: str) -> str:
    return " ".join(text.split())


# Expressions. Every operator is put in parentheses: who reads them need not know what binds closer.


def python_expression(part: Expression) -> str:
    """Return an expression in Python."""
    return _SOURCES[type(part)](part)


def _constant(kind: NodeType, value: Value) -> str:
    match kind:
        case DecimalType(scale=scale):
            return f'Decimal("{show_decimal(value, scale)}")'
        case TimestampType():
            return f'datetime.fromisoformat("{show_instant(value)}")'
        case ArrayType(item=item):
            return f"[{', '.join(_constant(item, each) for each in value)}]"
        case SetType(item=item):
            return f"frozenset([{', '.join(_constant(item, each) for each in sorted(value))}])"
        case MapType(key=key, value=inner):
            pairs = (f"{_constant(key, k)}: {_constant(inner, value[k])}" for k in sorted(value))
            return f"{{{', '.join(pairs)}}}"
        case RecordType(fields=fields):
            pairs = (f'"{name}": {_constant(inner, value[name])}' for name, inner in fields)
            return f"{{{', '.join(pairs)}}}"
        case _:
            return repr(value)


def _fits(kind: NodeType, code: str) -> str:
    return f"_dec({code}, {kind.scale})" if isinstance(kind, DecimalType) else f"_int({code})"


def _arithmetic(part: Arithmetic) -> str:
    left, right = python_expression(part.left), python_expression(part.right)
    is_decimal = isinstance(part.type, DecimalType)
    if part.operator == "/":
        return _fits(part.type, f"{'_over' if is_decimal else '_div'}({left}, {right})")
    if part.operator == "%":
        return _fits(part.type, f"_mod({left}, {right})")
    return _fits(part.type, f"{left} {part.operator} {right}")


def _call(part: FunctionCall) -> str:
    given = ", ".join(map(python_expression, part.arguments))
    if part.function == "LENGTH":
        return f"len({given})"
    if part.function == "SECONDS":
        return f"_seconds({given})"
    return _fits(part.type, f"{part.function.lower()}({given})")


def _record(part: RecordMade) -> str:
    pairs = (f'"{name}": {python_expression(inner)}' for name, inner in part.fields)
    return f"{{{', '.join(pairs)}}}"


def _items(over: Expression) -> str:
    code = python_expression(over)
    return code if isinstance(over.type, ArrayType) else f"sorted({code})"


def _sum(part: ItemLoop, name: str, items: str, body: str) -> str:
    values = f"({body} for {name} in {items})"
    if isinstance(part.type, DecimalType):
        zero = f'Decimal("{show_decimal(0, part.type.scale)}")'
        return f"_sum({values}, {zero}, lambda total_: _dec(total_, {part.type.scale}))"
    return f"_sum({values}, 0, _int)"


def _reduce(part: ItemLoop, name: str, items: str, body: str) -> str:
    assert part.start is not None
    start = python_expression(part.start)
    return f"reduce(lambda {python_name(part.total)}, {name}: {body}, {items}, {start})"


_LOOPS: dict[LoopKind, Callable[[ItemLoop, str, str, str], str]] = {
    LoopKind.FORALL: lambda _, name, items, body: f"all({body} for {name} in {items})",
    LoopKind.EXISTS: lambda _, name, items, body: f"any({body} for {name} in {items})",
    LoopKind.SUM: _sum,
    LoopKind.MAP: lambda _, name, items, body: f"[{body} for {name} in {items}]",
    LoopKind.FILTER: lambda _, name, items, body: f"[{name} for {name} in {items} if {body}]",
    LoopKind.SORT: lambda _, name, items, body: f"sorted({items}, key=lambda {name}: {body})",
    LoopKind.SORT_DESCENDING: lambda _, name, items, body: (
        f"sorted({items}, key=lambda {name}: {body}, reverse=True)"
    ),
    LoopKind.GROUP: lambda _, name, items, body: f"_group({items}, lambda {name}: {body})",
    LoopKind.REDUCE: _reduce,
}


def _loop(part: ItemLoop) -> str:
    body = python_expression(part.body)
    return _LOOPS[part.kind](part, python_name(part.name), _items(part.over), body)


def _infix(operator: str, left: Expression, right: Expression) -> str:
    return f"({python_expression(left)} {operator} {python_expression(right)})"


_SOURCES: dict[type, Callable[[Any], str]] = {
    Constant: lambda part: _constant(part.type, part.value),
    NamedValue: lambda part: python_name(part.name),
    FieldOf: lambda part: f'{python_expression(part.record)}["{part.name}"]',
    ItemOf: lambda part: (
        f"_at({python_expression(part.collection)}, {python_expression(part.key)})"
    ),
    Negated: lambda part: _fits(part.type, f"-{python_expression(part.part)}"),
    Arithmetic: _arithmetic,
    Rescaled: lambda part: _fits(part.type, python_expression(part.part)),
    Relation: lambda part: _infix(part.operator, part.left, part.right),
    Logic: lambda part: _infix(part.operator.lower(), part.left, part.right),
    Inverted: lambda part: f"(not {python_expression(part.part)})",
    Membership: lambda part: _infix("in", part.item, part.whole),
    Conditional: lambda part: (
        f"({python_expression(part.then)} if {python_expression(part.test)} "
        f"else {python_expression(part.otherwise)})"
    ),
    ArrayMade: lambda part: f"[{', '.join(map(python_expression, part.items))}]",
    RecordMade: _record,
    FunctionCall: _call,
    ItemLoop: _loop,
}
