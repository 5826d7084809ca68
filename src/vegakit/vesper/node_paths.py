"""The paths of a node, and the test of one against another over random inputs (host).

| path     | what runs                                 | decimals                |
|----------|-------------------------------------------|-------------------------|
| `python` | the generated module, the reference       | `decimal.Decimal`       |
| `direct` | the interpreter, of the optimised node    | scaled integers of ours |
| `native` | machine code, of the optimised node       | 128 bits, in `native`   |

All are given the same inputs as JSON. They agree if their
outcomes are equal: outputs to the digit, errors with their step, the first clause that is broken,
and what they ask of the world, in its order.

`StateWorld` answers what a run asks about records, over any `Records`; a test imagines the records
and all other answers, so that nothing is carried out.
"""

import json
from base64 import b64decode, b64encode
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from inspect import currentframe
from random import Random
from typing import Any, NamedTuple, Protocol, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace

from vegakit.contracts import (
    LOCK,
    TOUCHED,
    ArrayType,
    BytesType,
    DecimalType,
    EffectAnswer,
    IntegerType,
    MapType,
    NodeEffect,
    NodeOutcome,
    NodeProgram,
    NodeRun,
    NodeStatus,
    NodeStep,
    NodeType,
    RecordType,
    SetType,
    StateRecords,
    TimestampType,
    Value,
    call_answer,
    finish,
    first_broken,
    interpret,
    optimised,
    python_name,
    python_source,
    read_answer,
    show_value,
    start_run,
    touched_type,
)
from vegakit.vesper.node_inputs import InputGenerator, simpler_inputs

_MOST_SHOWN, _MOST_SHRINKS = 5, 2_000
_IMAGINED_MISSING, _IMAGINED_FAILURES = 0.05, 0.05


class NodePath(Protocol):
    """A way to run a node over inputs as JSON has them."""

    def run(self, inputs: Mapping[str, Any]) -> NodeOutcome: ...


class SteppedPath(NodePath, Protocol):
    """A path that also runs nodes with effects: `start` returns the machine of a run."""

    def start(self, inputs: Mapping[str, Any]) -> NodeRun: ...


StepWatch: TypeAlias = Callable[[str, Any], None]
"""Is told the name and the value of each step that ended well; of one that only guards None."""


class DirectPath:
    """The interpreter, of the node as the optimiser leaves it or as it is written."""

    def __init__(self, node: NodeProgram, *, optimise: bool = True) -> None:
        self.node = node
        self._program = optimised(node) if optimise else node
        self._told: StepWatch = lambda _step, _value: None

    def watch(self, told: StepWatch) -> None:
        """Tell somebody the steps of the runs that start from now on."""
        # The optimiser leaves out steps and makes others: who watches wants those of the file.
        self._told, self._program = told, self.node

    def _seen(self, step: NodeStep, names: Mapping[str, Value]) -> None:
        kind = step.result
        self._told(step.name, None if kind is None else show_value(kind, names[step.name]))

    def run(self, inputs: Mapping[str, Any]) -> NodeOutcome:
        """Run the node; raises `NodeValueError` for inputs that do not fit their types."""
        return interpret(self._program, self.node.read_inputs(inputs))

    def start(self, inputs: Mapping[str, Any]) -> NodeRun:
        """Return the machine of a run, which asks for its effects."""
        return start_run(self._program, self.node.read_inputs(inputs), self._seen)


def written_path(node: NodeProgram) -> DirectPath:
    """Return the interpreter of a node as it is written, for those who look at its steps."""
    return DirectPath(node, optimise=False)


class PythonPath:
    """Generated Python, from a node or from text that was generated earlier."""

    def __init__(self, node: NodeProgram, source: str | None = None) -> None:
        self.node = node
        self.source = python_source(node, node.node_id) if source is None else source
        names = self._names = dict[str, Any]({"__name__": node.node_id})
        # Made by us from a checked node: no text of its file but quoted ones is in it.
        exec(compile(self.source, f"<node {node.node_id}>", "exec"), names)  # noqa: S102
        self.function: Callable[..., dict[str, Any]] = names[node.node_id]
        self._endings: dict[type[Exception], NodeStatus] = {
            names["NodeError"]: NodeStatus.ERROR,
            names["NodeStopped"]: NodeStatus.TRAP,
        }
        self._broken: type[Exception] = names["ContractBroken"]
        self._step: Any = names["_Step"]
        self._callees: dict[str, PythonPath] = {}

    def watch(self, told: StepWatch) -> None:
        """Tell somebody the steps of the runs that start from now on. The code is not changed for
        it: the `with` of each step says when it ends, and its value is a variable by then."""
        kinds, plain = {step.name: step.result for step in self.node.steps}, self._step

        class WatchedStep:
            def __init__(self, name: str, **errors: str) -> None:
                self.name, self.plain = name, plain(name, **errors)

            def __enter__(self) -> None: ...

            def __exit__(self, kind: object, error: object, trace: object) -> None:
                self.plain.__exit__(kind, error, trace)
                if error is None:
                    made, frame = kinds[self.name], currentframe()
                    assert frame is not None
                    assert frame.f_back is not None
                    variables = frame.f_back.f_locals
                    value = None if made is None else variables[python_name(self.name)]
                    told(self.name, None if made is None else _plain(made, value))

        self._names["_Step"] = WatchedStep

    def run(self, inputs: Mapping[str, Any]) -> NodeOutcome:
        """Run the node; raises `NodeValueError` for inputs that do not fit their types. Those that
        are not given take the defaults that the code has."""
        if self.node.has_effects:
            return finish(self.node, self.start(inputs), self._called)
        try:
            found = self.function(**self._given(inputs))
        except (self._broken, *self._endings) as error:
            return self._ended(error)
        return self._success(found)

    def _called(self, callee: NodeProgram, inputs: Mapping[str, Any]) -> NodeOutcome:
        if callee.node_id not in self._callees:
            self._callees[callee.node_id] = PythonPath(callee)
        return self._callees[callee.node_id].run(inputs)

    def start(self, inputs: Mapping[str, Any]) -> NodeRun:
        """Return the machine of a run, which asks for its effects."""
        run: Any = self.function(**self._given(inputs)) if self.node.has_effects else None
        if run is None:
            return self.run(inputs)
        answer: tuple[str, Any] | None = None
        while True:
            try:
                asked = run.send(answer)
            except StopIteration as end:
                return self._success(end.value)
            except (self._broken, *self._endings) as error:
                return self._ended(error)
            effect, kind = self._effect(*asked)
            reply = yield effect
            failure = read_answer(kind, reply).failure if kind is not None else ""
            value = None if failure or kind is None else _native(kind, reply.value)
            answer = (failure, value)

    def _given(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        self.node.read_inputs(inputs)  # to refuse; the values themselves are read anew
        return self.arguments(inputs)

    def arguments(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return inputs as the generated function takes them."""
        kinds = {each.name: each.type for each in self.node.inputs}
        return {python_name(name): _native(kinds[name], each) for name, each in inputs.items()}

    def _ended(self, error: Exception) -> NodeOutcome:
        reason, rest = error.args
        if isinstance(error, self._broken):
            return NodeOutcome(NodeStatus.BROKEN, None, f"{reason}: {rest}")
        return NodeOutcome(self._endings[type(error)], None, reason, rest)

    def _success(self, found: Mapping[str, Any]) -> NodeOutcome:
        outputs = {name: _plain(kind, found[name]) for name, kind in self.node.outputs}
        return NodeOutcome(NodeStatus.SUCCESS, outputs)

    def _effect(
        self, name: str, operation: str, arguments: dict[str, Any]
    ) -> tuple[NodeEffect, NodeType | None]:
        """Return what the code asks for as JSON, and the type of the answer; a lock has none."""
        if operation == TOUCHED:
            state = self.node.state(arguments["state"])
            return NodeEffect(name, operation, arguments), touched_type(self.node, state)
        if operation == LOCK:
            keys = [
                [state, _plain(self.node.state(state).key_type, key)]
                for state, key in arguments["keys"]
            ]
            return NodeEffect(name, operation, {"keys": keys}), None
        effect = next(step.effect for step in self.node.steps if step.name == name)
        assert effect is not None
        kinds = {argument: part.type for argument, part in effect.arguments}
        plain = {
            argument: _plain(kinds[argument], value) if argument in kinds else value
            for argument, value in arguments.items()
        }
        return NodeEffect(name, operation, plain, effect.capability), effect.result


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


# What a run asks for.

Perform: TypeAlias = Callable[[NodeEffect], EffectAnswer]


def drive(run: NodeRun, perform: Perform) -> NodeOutcome:
    """Carry out what a run asks for, and return its outcome with all of that."""
    asked, answer = list[NodeEffect](), None
    while True:
        try:
            # The first time there is nothing to answer.
            effect = next(run) if answer is None else run.send(answer)
        except StopIteration as end:
            return replace(end.value, effects=(*asked,))
        asked.append(effect)
        answer = perform(effect)


class Records(Protocol):
    """Records of tables within one transaction, as JSON has them. What is read stays locked until
    the transaction ends."""

    def load(self, state: StateRecords, keys: Collection[Any]) -> Mapping[Any, dict[str, Any]]:
        """Return those that there are, by key."""
        ...

    def update(self, state: StateRecords, key: Any, record: dict[str, Any]) -> None: ...  # noqa: ANN401

    def insert(self, state: StateRecords, key: Any, record: dict[str, Any]) -> None: ...  # noqa: ANN401


class StateWorld:
    """Answers what one run of a node asks about its records, and remembers how they were."""

    def __init__(self, node: NodeProgram, records: Records) -> None:
        self._node, self._records = node, records
        self._before: dict[str, dict[Any, dict[str, Any] | None]] = defaultdict(dict)
        self.answers: dict[str, Perform] = {
            LOCK: self._lock,
            TOUCHED: self._touched,
            "read": self._read,
            "write": self._write,
            "insert": self._insert,
            "transition": self._transition,
        }

    def _lock(self, effect: NodeEffect) -> EffectAnswer:
        """Lock in the order of tables and keys, whoever asks: so nobody waits in a circle."""
        wanted: dict[str, set[Any]] = defaultdict(set)
        for name, key in effect.arguments["keys"]:
            wanted[name].add(key)
        for state in sorted(self._node.states, key=lambda each: each.table):
            if wanted[state.name]:
                self._records.load(state, sorted(wanted[state.name]))
        return EffectAnswer(value=True)

    def _found(self, effect: NodeEffect) -> tuple[StateRecords, Any, dict[str, Any] | None]:
        state, key = self._node.state(effect.arguments["state"]), effect.arguments["key"]
        record = self._records.load(state, [key]).get(key)
        self._before[state.name].setdefault(key, record)
        return state, key, record

    def _read(self, effect: NodeEffect) -> EffectAnswer:
        _, _, record = self._found(effect)
        return EffectAnswer(failure="missing") if record is None else EffectAnswer(record)

    def _write(self, effect: NodeEffect) -> EffectAnswer:
        state, key, record = self._found(effect)
        if record is None:
            return EffectAnswer(failure="missing")
        changed = record | effect.arguments["set"]
        self._records.update(state, key, changed)
        return EffectAnswer(changed)

    def _insert(self, effect: NodeEffect) -> EffectAnswer:
        state, key, record = self._found(effect)
        if record is not None:
            return EffectAnswer(failure="exists")
        made = {state.key: key} | effect.arguments["value"]
        self._records.insert(state, key, made)
        return EffectAnswer(made)

    def _transition(self, effect: NodeEffect) -> EffectAnswer:
        state, key, record = self._found(effect)
        if record is None:
            return EffectAnswer(failure="missing")
        field = effect.arguments["field"]
        if record[field] not in effect.arguments["before"].split(", "):
            return EffectAnswer(failure="wrong_state")
        changed = record | {field: effect.arguments["after"]}
        self._records.update(state, key, changed)
        return EffectAnswer(changed)

    def _touched(self, effect: NodeEffect) -> EffectAnswer:
        """Return the records that were touched. Those that a node called from this one changed are
        read again here."""
        state = self._node.state(effect.arguments["state"])
        before = self._before[state.name]
        after = self._records.load(state, sorted(before))
        return EffectAnswer(
            {
                "before": [before[key] for key in sorted(before) if before[key] is not None],
                "after": [after[key] for key in sorted(before) if key in after],
            }
        )


class _ImaginedWorld:
    """The world of a test: records and answers are drawn from the inputs, the same for each path.
    Nothing is carried out."""

    def __init__(
        self,
        node: NodeProgram,
        inputs: Mapping[str, Any],
        seed: str,
        kept: "dict[tuple[str, Any], dict[str, Any] | None] | None" = None,
    ) -> None:
        self._node, self._inputs = node, inputs
        self._seed = f"{seed} {json.dumps(inputs, sort_keys=True)}"
        self._kept = {} if kept is None else kept
        self._state = StateWorld(node, self)
        self._inserted = {
            step.effect.state for step in node.steps if step.effect and step.operation == "insert"
        }

    def __call__(self, effect: NodeEffect) -> EffectAnswer:
        if effect.operation in self._state.answers:
            return self._state.answers[effect.operation](effect)
        if effect.operation == "call":
            callee = self._node.callee(effect.arguments["node"])
            given = effect.arguments["inputs"]
            world = _ImaginedWorld(callee, given, self._seed, self._kept)
            return call_answer(drive(DirectPath(callee).start(given), world))
        step = next(step for step in self._node.steps if step.name == effect.step)
        assert step.effect is not None
        random = self._random(effect.step)
        if step.operation != "secret" and random.random() < _IMAGINED_FAILURES:
            return EffectAnswer(failure="failed")
        drawn = self._generator(random).value(step.effect.result, effect.step)
        return EffectAnswer(show_value(step.effect.result, drawn))

    def _generator(self, random: Random) -> InputGenerator:
        return InputGenerator(self._node, random, self._node.read_inputs(self._inputs))

    def _random(self, *of: object) -> Random:
        return Random(f"{self._seed} {of}")  # noqa: S311  (no secret: it has to be the same again)

    def load(self, state: StateRecords, keys: Collection[Any]) -> Mapping[Any, dict[str, Any]]:
        for key in keys:
            if (state.table, key) not in self._kept:
                self._kept[state.table, key] = self._drawn(state, key)
        found = {key: self._kept[state.table, key] for key in keys}
        return {key: record for key, record in found.items() if record is not None}

    def _drawn(self, state: StateRecords, key: Any) -> dict[str, Any] | None:  # noqa: ANN401
        random = self._random(state.table, key)
        missing = 0.5 if state.name in self._inserted else _IMAGINED_MISSING
        if random.random() < missing:
            return None
        drawn = self._generator(random).value(state.record, f"{state.name}[]")
        return {**show_value(state.record, drawn), state.key: key}

    def update(self, state: StateRecords, key: Any, record: dict[str, Any]) -> None:  # noqa: ANN401
        self._kept[state.table, key] = record

    insert = update


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
    legs = _Legs.of(node, seed, reference, candidate, *more)
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


class _ImaginingPath:
    """A path whose effects are imagined."""

    def __init__(self, path: SteppedPath, node: NodeProgram, seed: int) -> None:
        self._path, self._node, self._seed = path, node, seed

    def run(self, inputs: Mapping[str, Any]) -> NodeOutcome:
        world = _ImaginedWorld(self._node, inputs, str(self._seed))
        return drive(self._path.start(inputs), world)


def _imagining(node: NodeProgram, path: NodePath, seed: int) -> NodePath:
    """Return a path that performs nothing; of a node without effects it is the path itself."""
    return _ImaginingPath(cast("SteppedPath", path), node, seed) if node.has_effects else path


class _Legs(NamedTuple):
    """A reference and the paths that are held against it."""

    node: NodeProgram
    reference: NodePath
    candidates: tuple[tuple[str, NodePath], ...]

    @classmethod
    def of(
        cls, node: NodeProgram, seed: int, reference: NodePath, *candidates: NodePath
    ) -> "_Legs":
        """Return paths that perform nothing, each candidate with its name."""
        named = tuple(
            (type(each).__name__.removesuffix("Path").lower(), _imagining(node, each, seed))
            for each in candidates
        )
        return cls(node, _imagining(node, reference, seed), named)

    def run(self, number: int, values: Mapping[str, Value]) -> Divergence:
        """Return the outcome of the reference and that of the first path that differs, with its
        name; without a name they agree."""
        inputs = self.node.show_inputs(values)
        wanted = self.reference.run(inputs)
        for name, each in self.candidates:
            if (outcome := each.run(inputs)) != wanted:
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
