"""The paths of a node, and the test of one against another over random inputs (host).

| path     | what runs                                 | decimals                |
|----------|-------------------------------------------|-------------------------|
| `python` | the generated module, the reference       | `decimal.Decimal`       |
| `direct` | the interpreter                           | scaled integers of ours |

Both are given the same inputs as JSON and read them with code of their own. They agree if their
outcomes are equal: outputs to the digit, errors with their step, the first clause that is broken.
"""

from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from random import Random
from typing import Any, Protocol

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
    python_name,
    python_source,
)
from vegakit.vesper.node_inputs import InputGenerator, simpler_inputs

_MOST_SHOWN, _MOST_SHRINKS = 5, 2_000


class NodePath(Protocol):
    """A way to run a node over inputs as JSON has them."""

    def run(self, inputs: Mapping[str, Any]) -> NodeOutcome: ...


class DirectPath:
    """The interpreter."""

    def __init__(self, node: NodeProgram) -> None:
        self.node = node

    def run(self, inputs: Mapping[str, Any]) -> NodeOutcome:
        """Run the node; raises `NodeValueError` for inputs that do not fit their types."""
        return interpret(self.node, self.node.read_inputs(inputs))


class PythonPath:
    """Generated Python, from a node or from text that was generated earlier."""

    def __init__(self, node: NodeProgram, source: str | None = None) -> None:
        self.node = node
        self.source = python_source(node, node.node_id) if source is None else source
        names: dict[str, Any] = {"__name__": node.node_id}
        # Made by us from a checked node: no text of its file but quoted ones is in it.
        exec(compile(self.source, f"<node {node.node_id}>", "exec"), names)  # noqa: S102
        self._function: Callable[..., dict[str, Any]] = names[node.node_id]
        self._endings: dict[type[Exception], NodeStatus] = {
            names["NodeError"]: NodeStatus.ERROR,
            names["NodeStopped"]: NodeStatus.TRAP,
        }
        self._broken: type[Exception] = names["ContractBroken"]

    def run(self, inputs: Mapping[str, Any]) -> NodeOutcome:
        """Run the node; raises `NodeValueError` for inputs that do not fit their types. Those that
        are not given take the defaults that the code has."""
        self.node.read_inputs(inputs)  # to refuse; the values themselves are read anew below
        kinds = {each.name: each.type for each in self.node.inputs}
        given = {python_name(name): _native(kinds[name], each) for name, each in inputs.items()}
        try:
            found = self._function(**given)
        except self._broken as error:
            kind, text = error.args
            return NodeOutcome(NodeStatus.BROKEN, None, f"{kind}: {text}")
        except (*self._endings,) as error:
            reason, step = error.args
            return NodeOutcome(self._endings[type(error)], None, reason, step)
        outputs = {name: _plain(kind, found[name]) for name, kind in self.node.outputs}
        return NodeOutcome(NodeStatus.SUCCESS, outputs)


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


class Divergence(Struct, frozen=True):
    """Inputs over which two paths differ, made as simple as they still differ."""

    test_id: int
    node_id: str
    inputs: dict[str, Any]
    reference: NodeOutcome
    candidate: NodeOutcome


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
    node: NodeProgram, reference: NodePath, candidate: NodePath, cases: int, seed: int
) -> NodeReport:
    """Run two paths over random inputs. Inputs that fit their types but not the preconditions are
    among them: both paths have to refuse those alike."""
    random = Random(seed)  # noqa: S311  (no secret: it has to be the same again)
    generator = InputGenerator(node, random)
    outcomes: Counter[str] = Counter()
    found, broken, differing = list[Divergence](), list[Divergence](), 0

    def differ(inputs: Mapping[str, Any]) -> bool:
        return reference.run(inputs) != candidate.run(inputs)

    for number in range(cases):
        values = generator.draw()
        inputs = node.show_inputs(values)
        first, second = reference.run(inputs), candidate.run(inputs)
        outcomes[str(first.status)] += 1
        if first != second:
            differing += 1
            if len(found) < _MOST_SHOWN:
                least = node.show_inputs(_shrunk(node, values, differ))
                if all(least != each.inputs for each in found):
                    found.append(_divergence(number, node, least, reference, candidate))
        elif _breaks(node, values, first) and len(broken) < _MOST_SHOWN:
            broken.append(_divergence(number, node, inputs, reference, candidate))
    return NodeReport(node.node_id, cases, seed, dict(outcomes), differing, (*found,), (*broken,))


def _breaks(node: NodeProgram, values: Mapping[str, Value], outcome: NodeOutcome) -> bool:
    """Return whether it is the node that broke its contract, and not who called it."""
    return outcome.status is NodeStatus.BROKEN and first_broken(node.before, values) is None


def _divergence(
    number: int,
    node: NodeProgram,
    inputs: dict[str, Any],
    reference: NodePath,
    candidate: NodePath,
) -> Divergence:
    return Divergence(number, node.node_id, inputs, reference.run(inputs), candidate.run(inputs))


def _shrunk(
    node: NodeProgram, values: dict[str, Value], differ: Callable[[Mapping[str, Any]], bool]
) -> dict[str, Value]:
    """Return simpler inputs over which the paths still differ."""
    left = _MOST_SHRINKS
    candidates: Iterator[dict[str, Value]] = simpler_inputs(node, values)
    while left and (simpler := next(candidates, None)) is not None:
        left -= 1
        if differ(node.show_inputs(simpler)):
            values, candidates = simpler, simpler_inputs(node, simpler)
    return values
