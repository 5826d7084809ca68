"""The paths of a node, and the test of one against another over random inputs (host).

| path     | what runs                                 | decimals                |
|----------|-------------------------------------------|-------------------------|
| `python` | the generated module, the reference       | `decimal.Decimal`       |
| `direct` | the interpreter, of the optimised node    | scaled integers of ours |
| `native` | machine code, of the optimised node       | 128 bits, in `native`   |

All are given the same inputs as JSON. They agree if their
outcomes are equal: outputs to the digit, errors with their step, the first clause that is broken.
"""

from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from random import Random
from typing import Any, NamedTuple, Protocol

from msgspec import Struct

from vegakit.contracts import (
    ArrayType,
    BytesType,
    DecimalType,
    IntegerType,
    MapType,
    NodeOutcome,
    NodeProgram,
    NodeStatus,
    NodeType,
    RecordType,
    SetType,
    TimestampType,
    Value,
    first_broken,
    interpret,
    optimised,
    python_name,
    python_source,
)
from vegakit.vesper.node_inputs import InputGenerator, simpler_inputs

_MOST_SHOWN, _MOST_SHRINKS = 5, 2_000


class NodePath(Protocol):
    """A way to run a node over inputs as JSON has them."""

    def run(self, inputs: Mapping[str, Any]) -> NodeOutcome: ...


class DirectPath:
    """The interpreter, of the node as the optimiser leaves it or as it is written."""

    def __init__(self, node: NodeProgram, *, optimise: bool = True) -> None:
        self.node = node
        self._program = optimised(node) if optimise else node

    def run(self, inputs: Mapping[str, Any]) -> NodeOutcome:
        """Run the node; raises `NodeValueError` for inputs that do not fit their types."""
        return interpret(self._program, self.node.read_inputs(inputs))


class PythonPath:
    """Generated Python, from a node or from text that was generated earlier."""

    def __init__(self, node: NodeProgram, source: str | None = None) -> None:
        self.node = node
        self.source = python_source(node, node.node_id) if source is None else source
        names: dict[str, Any] = {"__name__": node.node_id}
        # Made by us from a checked node: no text of its file but quoted ones is in it.
        exec(compile(self.source, f"<node {node.node_id}>", "exec"), names)  # noqa: S102
        self.function: Callable[..., dict[str, Any]] = names[node.node_id]
        self._endings: dict[type[Exception], NodeStatus] = {
            names["NodeError"]: NodeStatus.ERROR,
            names["NodeStopped"]: NodeStatus.TRAP,
        }
        self._broken: type[Exception] = names["ContractBroken"]

    def run(self, inputs: Mapping[str, Any]) -> NodeOutcome:
        """Run the node; raises `NodeValueError` for inputs that do not fit their types. Those that
        are not given take the defaults that the code has."""
        self.node.read_inputs(inputs)  # to refuse; the values themselves are read anew below
        try:
            found = self.function(**self.arguments(inputs))
        except self._broken as error:
            kind, text = error.args
            return NodeOutcome(NodeStatus.BROKEN, None, f"{kind}: {text}")
        except (*self._endings,) as error:
            reason, step = error.args
            return NodeOutcome(self._endings[type(error)], None, reason, step)
        outputs = {name: _plain(kind, found[name]) for name, kind in self.node.outputs}
        return NodeOutcome(NodeStatus.SUCCESS, outputs)

    def arguments(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return inputs as the generated function takes them."""
        kinds = {each.name: each.type for each in self.node.inputs}
        return {python_name(name): _native(kinds[name], each) for name, each in inputs.items()}


def _native(kind: NodeType, given: Any) -> Any:  # noqa: ANN401
    """Return a JSON value as generated Python takes it."""
    match kind:
        case DecimalType():
            return Decimal(given)
        case BytesType():
            return b64decode(given)
        case TimestampType():
            return datetime.fromisoformat(given).astimezone(UTC)
        case ArrayType(item=item):
            return [_native(item, each) for each in given]
        case SetType(item=item):
            return frozenset(_native(item, each) for each in given)
        case MapType(key=key, value=value):
            number = isinstance(key, IntegerType)
            return {int(k) if number else k: _native(value, each) for k, each in given.items()}
        case RecordType(fields=fields):
            return {name: _native(part, given[name]) for name, part in fields}
        case _:
            return given


def _plain(kind: NodeType, value: Any) -> Any:  # noqa: ANN401
    """Return what generated Python gives as JSON."""
    match kind:
        case DecimalType(scale=scale):
            return f"{value:.{scale}f}"
        case BytesType():
            return b64encode(value).decode()
        case TimestampType():
            return value.isoformat().replace("+00:00", "Z")
        case ArrayType(item=item):
            return [_plain(item, each) for each in value]
        case SetType(item=item):
            return [_plain(item, each) for each in sorted(value)]
        case MapType(value=inner):
            return {str(key): _plain(inner, value[key]) for key in sorted(value)}
        case RecordType(fields=fields):
            return {name: _plain(part, value[name]) for name, part in fields}
        case _:
            return value


class Divergence(Struct, frozen=True, omit_defaults=True):
    """Inputs over which two paths differ, made as simple as they still differ. `path` is the one
    that differs from the reference, where there are several."""

    test_id: int
    node_id: str
    inputs: dict[str, Any]
    reference: NodeOutcome
    candidate: NodeOutcome
    path: str = ""


class NodeReport(Struct, frozen=True):
    """The result of a test over random inputs. `outcomes` counts those of the reference."""

    node_id: str
    cases: int
    seed: int
    outcomes: dict[str, int]
    differing: int
    divergences: tuple[Divergence, ...]
    broken: tuple[Divergence, ...]

    @property
    def holds(self) -> bool:
        """Return whether the paths agree, and no output breaks the contract."""
        return not self.differing and not self.broken


def compare_paths(
    node: NodeProgram,
    reference: NodePath,
    candidate: NodePath,
    cases: int,
    seed: int,
    *more: NodePath,
) -> NodeReport:
    """Run two paths or more over random inputs. Inputs that fit their types but not the
    preconditions are among them: all paths have to refuse those alike."""
    random = Random(seed)  # noqa: S311  (no secret: it has to be the same again)
    generator = InputGenerator(node, random)
    outcomes: Counter[str] = Counter()
    found, broken, differing = list[Divergence](), list[Divergence](), 0
    legs = _Legs(node, reference, (candidate, *more))
    for number in range(cases):
        values = generator.draw()
        case = legs.run(number, values)
        outcomes[str(case.reference.status)] += 1
        if case.path:
            differing += 1
            if len(found) < _MOST_SHOWN:
                least = legs.run(number, _shrunk(node, values, legs.differ))
                if all(least.inputs != each.inputs for each in found):
                    found.append(least)
        elif _breaks(node, values, case.reference) and len(broken) < _MOST_SHOWN:
            broken.append(case)
    return NodeReport(node.node_id, cases, seed, dict(outcomes), differing, (*found,), (*broken,))


class _Legs(NamedTuple):
    """A reference and the paths that are held against it."""

    node: NodeProgram
    reference: NodePath
    candidates: tuple[NodePath, ...]

    def run(self, number: int, values: Mapping[str, Value]) -> Divergence:
        """Return the outcome of the reference and that of the first path that differs, with its
        name; without a name they agree."""
        inputs = self.node.show_inputs(values)
        wanted = self.reference.run(inputs)
        for each in self.candidates:
            if (outcome := each.run(inputs)) != wanted:
                name = type(each).__name__.removesuffix("Path").lower()
                return Divergence(number, self.node.node_id, inputs, wanted, outcome, name)
        return Divergence(number, self.node.node_id, inputs, wanted, wanted)

    def differ(self, values: Mapping[str, Value]) -> bool:
        return bool(self.run(0, values).path)


def _breaks(node: NodeProgram, values: Mapping[str, Value], outcome: NodeOutcome) -> bool:
    """Return whether it is the node that broke its contract, and not who called it."""
    return outcome.status is NodeStatus.BROKEN and first_broken(node.before, values) is None


def _shrunk(
    node: NodeProgram, values: dict[str, Value], differ: Callable[[Mapping[str, Value]], bool]
) -> dict[str, Value]:
    """Return simpler inputs over which the paths still differ."""
    left = _MOST_SHRINKS
    candidates: Iterator[dict[str, Value]] = simpler_inputs(node, values)
    while left and (simpler := next(candidates, None)) is not None:
        left -= 1
        if differ(simpler):
            values, candidates = simpler, simpler_inputs(node, simpler)
    return values
