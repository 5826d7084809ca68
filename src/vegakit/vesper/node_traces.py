"""Traces of nodes: what a run was given, made and was answered, and its re-execution (host).

    run -> TraceRecorder -> TRACE.json -> RecordedWorld -> the same run again, or a changed one

A run depends on its inputs and on the answers of the world, and on nothing else: with both at hand
it is carried out again as often as wanted, and nothing is performed by it. As long as a run asks
what was asked before, it is answered what was answered before. From the first other question on,
records are computed from those that were seen, and whatever else is new is refused: no answer is
made up.

What is sensitive is left out of a trace, unless the run was told to reveal it. Who replays such a
trace gives it again; a field of a record that no expression looks at is left blank instead.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from vegakit.contracts import (
    LOCK,
    SECRET_PREFIX,
    TOUCHED,
    ArrayType,
    BooleanType,
    DecimalType,
    EffectAnswer,
    EnumType,
    FieldOf,
    IntegerType,
    ItemLoop,
    MapType,
    NamedValue,
    NodeEffect,
    NodeOutcome,
    NodeProgram,
    NodeRun,
    NodeStatus,
    NodeType,
    RecordType,
    SetType,
    StateRecords,
    TimestampType,
    call_answer,
    read_value,
    sensitivity_of,
    show_value,
    walk,
)
from vegakit.errors import UserError, did_you_mean
from vegakit.tools import write_output
from vegakit.vesper.node_files import NodeFile
from vegakit.vesper.node_host import HIDDEN, shown_inputs, shown_outcome
from vegakit.vesper.node_paths import (
    DirectPath,
    StateWorld,
    SteppedPath,
    StepWatch,
    drive,
)
from vegakit.vesper.repository import compiler_version, node_digest

TRACE_VERSION = 1


class WatchedPath(SteppedPath, Protocol):
    """A path that tells its steps."""

    def watch(self, told: StepWatch) -> None: ...


class TracedStep(Struct, frozen=True, omit_defaults=True):
    """A step that ended well, with its value; one that only guards has none."""

    step: str
    value: Any = None


class TracedEffect(Struct, frozen=True, omit_defaults=True):
    """A question of a run to the world, with the answer and what that cost."""

    effect: NodeEffect
    answer: EffectAnswer
    spent_nanos: int = 0


class NodeTrace(Struct, frozen=True):
    """A run of a node, as it is kept in a file. `digest` is of the file of the node, `compiler` of
    what made code of it."""

    node_id: str
    file: str
    digest: str
    compiler: str
    path: str
    inputs: dict[str, Any]
    steps: tuple[TracedStep, ...]
    effects: tuple[TracedEffect, ...]
    outcome: NodeOutcome
    revealed: bool = False
    v: int = TRACE_VERSION

    def value_of(self, step: str) -> Any:  # noqa: ANN401
        """Return the value of a step, or raise `UserError` if there is none to use."""
        for each in self.steps:
            if each.step == step:
                return given_openly(each.value, f"the value of step {step}")
        raise UserError(f"the trace has no value of step {step}: the run ended before it")


def read_trace(path: Path) -> NodeTrace:
    """Read a trace, or raise a `UserError`."""
    record = f"record one: vega node run FILE --trace {path}"
    try:
        trace = msgspec.json.decode(path.read_bytes(), type=NodeTrace)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}; {record}") from error
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise UserError(f"{path} is no trace of a node: {error}; {record}") from None
    if trace.v > TRACE_VERSION:
        raise UserError(f"{path} is a trace of a later version, {trace.v}; update vegakit")
    return trace


def write_trace(trace: NodeTrace, path: Path) -> None:
    """Write a trace, or raise a `UserError`."""
    text = msgspec.json.format(msgspec.json.encode(trace), indent=1) + b"\n"
    write_output(path, text, "choose another file")


def given_openly(value: Any, what: str) -> Any:  # noqa: ANN401
    """Return a value that nothing was taken out of, or raise `UserError`."""
    if f'"{HIDDEN}"' in json.dumps(value):
        raise UserError(
            f"{what} is sensitive and not in the trace; give it with --inputs or --answers, or "
            "record the run with --reveal"
        )
    return value


# Recording.


class TraceRecorder:
    """Makes the path of a node whose runs are recorded. Of a run that is carried out several times
    the last one is kept, since that is the one that counts."""

    def __init__(
        self,
        node: NodeProgram,
        make: Callable[[NodeProgram], WatchedPath],
        *,
        spent: Callable[[], int] = lambda: 0,
    ) -> None:
        """`spent` tells how many nano-dollars were spent by now, as of a runtime whose models the
        node asks."""
        self._node, self._make, self._spent = node, make, spent
        self._costs: dict[int, int] = {}
        self.steps: list[TracedStep] = []
        self.effects: list[TracedEffect] = []

    def __call__(self, node: NodeProgram) -> SteppedPath:
        """Return the path of a node; nodes that it calls are not recorded, only their answers."""
        path = self._make(node)
        return _RecordedPath(self, path) if node is self._node else path

    def watched(self, path: WatchedPath, inputs: Mapping[str, Any]) -> NodeRun:
        """Run a path, and keep all that passes."""
        self.steps, self.effects = [], []
        path.watch(lambda step, value: self.steps.append(TracedStep(step, value)))
        run, answer = path.start(inputs), None
        while True:
            try:
                effect = next(run) if answer is None else run.send(answer)
            except StopIteration as end:
                return end.value
            before = self._spent()
            answer = yield effect
            # A second run in a transaction is given what the first one paid for.
            cost = self._costs.setdefault(len(self.effects), self._spent() - before)
            self.effects.append(TracedEffect(effect, answer, cost))

    def trace(
        self,
        file: NodeFile,
        path: str,
        inputs: Mapping[str, Any],
        outcome: NodeOutcome,
        *,
        reveal: bool,
    ) -> NodeTrace:
        """Return the trace of the run that was recorded, or raise `UserError` if none was."""
        if outcome.status is NodeStatus.SUCCESS and len(self.steps) < len(self._node.steps):
            raise UserError(
                "there was no run to record: this request was carried out before; give it a key "
                "of its own"
            )
        shown = Redaction(self._node, reveal=reveal)
        return NodeTrace(
            self._node.node_id,
            file.path,
            node_digest(file),
            compiler_version(),
            path,
            shown.inputs(inputs),
            tuple(replace(each, value=shown.value(each.step, each.value)) for each in self.steps),
            tuple(
                TracedEffect(
                    shown.effect(each.effect),
                    shown.answer(each.effect, each.answer),
                    each.spent_nanos,
                )
                for each in self.effects
            ),
            replace(shown.outcome(outcome), effects=()),
            reveal,
        )


class _RecordedPath:
    def __init__(self, recorder: TraceRecorder, path: WatchedPath) -> None:
        self._recorder, self._path = recorder, path

    def run(self, inputs: Mapping[str, Any]) -> NodeOutcome:
        return drive(self.start(inputs), _refused)

    def start(self, inputs: Mapping[str, Any]) -> NodeRun:
        return self._recorder.watched(self._path, inputs)


def _refused(effect: NodeEffect) -> EffectAnswer:
    raise UserError(f"step {effect.step} asks the world, and nobody answers here")


class Redaction:
    """Takes what is sensitive out of what people see of a run."""

    def __init__(self, node: NodeProgram, *, reveal: bool) -> None:
        self._node, self._reveals = node, reveal
        self._hidden = sensitivity_of(node)
        self._states: dict[str, set[str]] = {}
        for step in node.steps:
            if step.effect is not None and step.effect.state:
                fields = self._hidden.fields.get(step.name, frozenset())
                self._states.setdefault(step.effect.state, set()).update(fields)

    def inputs(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return inputs as people may see them."""
        return dict(given) if self._reveals else shown_inputs(self._node, given)

    def outcome(self, outcome: NodeOutcome) -> NodeOutcome:
        """Return an outcome as people may see it."""
        return outcome if self._reveals else shown_outcome(self._node, outcome)

    def effect(self, effect: NodeEffect) -> NodeEffect:
        """Return what was asked for as people may see it."""
        [shown] = self.outcome(NodeOutcome(NodeStatus.SUCCESS, effects=(effect,))).effects
        return shown

    def value(self, name: str, value: Any) -> Any:  # noqa: ANN401
        """Return the value of an input or of a step as people may see it."""
        if self._reveals or value is None:
            return value
        if name in self._hidden.names:
            return HIDDEN
        return _without(value, self._hidden.fields.get(name, ()))

    def looked_at(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values that a clause looked at as people may see them."""
        return {name: HIDDEN if self._is_hidden(name) else each for name, each in values.items()}

    def _is_hidden(self, path: str) -> bool:
        root, _, field = path.removeprefix("old(").rstrip(")").partition(".")
        fields = self._hidden.fields.get(root, frozenset()) | self._states.get(root, set())
        is_hidden = root in self._hidden.names or field in fields or (not field and bool(fields))
        return is_hidden and not self._reveals

    def answer(self, effect: NodeEffect, answer: EffectAnswer) -> EffectAnswer:
        """Return an answer as people may see it."""
        if self._reveals or answer.value is None:
            return answer
        if effect.operation == LOCK:
            return answer
        value = self.value(effect.step, answer.value)
        if effect.operation == TOUCHED:
            fields = self._states.get(effect.arguments["state"], set())
            sides = cast("dict[str, list[Any]]", value).items()
            value = {side: [_without(row, fields) for row in rows] for side, rows in sides}
        elif effect.operation == "call" and value != HIDDEN:
            callee = self._node.callee(effect.arguments["node"])
            value = _without(value, sensitivity_of(callee).names)
        return replace(answer, value=value)


def _without(value: Any, fields: Collection[str]) -> Any:  # noqa: ANN401
    if not fields or not isinstance(value, dict):
        return value
    record = cast("dict[str, Any]", value)
    return {name: HIDDEN if name in fields else part for name, part in record.items()}


# The world of a run that is carried out again, or in a debugger.


class KnownRecords:
    """Records of a run that touches none outside. If `is_all`, there are no others; else nobody
    knows the others, and a run that looks at one is stopped."""

    def __init__(self, *, is_all: bool) -> None:
        self._is_all = is_all
        self._kept: dict[tuple[str, Any], dict[str, Any] | None] = {}

    @classmethod
    def given(cls, node: NodeProgram, records: Mapping[str, Iterable[Any]]) -> "KnownRecords":
        """Return records by the names of the state of a node."""
        made = cls(is_all=True)
        for name, rows in records.items():
            names = [each.name for each in node.states]
            if name not in names:
                raise UserError(
                    f"{node.node_id} has no state {name[:40]!a}; {did_you_mean(name, names)}"
                )
            state = node.state(name)
            for number, row in enumerate(rows):
                read = read_value(state.record, row, f"{name}[{number}]")
                record = show_value(state.record, read)
                made.update(state, record[state.key], record)
        return made

    @classmethod
    def traced(cls, node: NodeProgram, effects: Iterable[TracedEffect]) -> "KnownRecords":
        """Return the records that a trace has, as they were before the run."""
        made = cls(is_all=False)
        for each in effects:
            name = each.effect.arguments.get("state")
            if name not in {state.name for state in node.states}:
                continue
            state = node.state(name)
            if each.effect.operation == TOUCHED:
                touched: dict[str, list[dict[str, Any]]] = each.answer.value or {}
                for row in touched.get("before", ()):
                    made.update(state, row[state.key], row)
            elif (known := _before(each)) is not _UNKNOWN:
                made._kept.setdefault((state.table, each.effect.arguments["key"]), known)
        return made

    def load(self, state: StateRecords, keys: Collection[Any]) -> Mapping[Any, dict[str, Any]]:
        """Return those that there are, by key."""
        for key in keys:
            if not self._is_all and (state.table, key) not in self._kept:
                raise UserError(
                    f"the run looks at {state.name} {key!r}, which was not recorded; replay it "
                    "with --live, or debug it with --records"
                )
        found = {key: self._kept.get((state.table, key)) for key in keys}
        return {key: record for key, record in found.items() if record is not None}

    def update(self, state: StateRecords, key: Any, record: dict[str, Any]) -> None:  # noqa: ANN401
        """Write a record."""
        self._kept[state.table, key] = record

    insert = update

    def copy(self) -> "KnownRecords":
        """Return the same records for another run."""
        made = KnownRecords(is_all=self._is_all)
        made._kept = dict(self._kept)
        return made


_UNKNOWN: dict[str, Any] = {}


def _before(each: TracedEffect) -> dict[str, Any] | None:
    """Return the record that a step met, by what it was answered; of a written field the new value
    stands for the old one, which nobody asked for."""
    given, answer = each.effect.arguments, each.answer
    if each.effect.operation == "insert":
        return _UNKNOWN if answer.failure else None
    if answer.failure:
        return None if answer.failure == "missing" else _UNKNOWN
    if each.effect.operation == "transition":
        return {**answer.value, given["field"]: given["before"].split(", ")[0]}
    return answer.value


class RecordedWorld:
    """Answers what a run asks from what was recorded, from known records, and from `given` values
    by step. It performs nothing, and writes to `records`."""

    def __init__(
        self,
        node: NodeProgram,
        records: KnownRecords,
        effects: Sequence[TracedEffect] = (),
        given: Mapping[str, Any] | None = None,
    ) -> None:
        self._node, self._records, self._effects = node, records, effects
        self._given = given or {}
        self._state = StateWorld(node, self._records)
        self._shown = Redaction(node, reveal=False)
        self._looked_at = _fields_looked_at(node)
        self._asked, self._is_same = 0, True
        self.spent = 0
        """The nano-dollars that the answers so far cost when they were recorded."""

    def __call__(self, effect: NodeEffect) -> EffectAnswer:
        """Answer, or raise a `UserError` for what nobody knows."""
        recorded = self._recorded(effect)
        self._asked += 1
        answer = self._filled(effect, self._answered(effect, recorded))
        self.spent += 0 if recorded is None else recorded.spent_nanos
        given_openly(answer.value, f"the answer to step {effect.step or 'the end of the run'}")
        return answer

    def _filled(self, effect: NodeEffect, answer: EffectAnswer) -> EffectAnswer:
        """Return an answer in which what a trace left out is blank, as far as nobody looks at it:
        the run does not depend on it then."""
        state = effect.arguments.get("state")
        given: Any = answer.value
        if not isinstance(given, dict) or self._looked_at is None or state is None:
            return answer
        kinds = dict(self._node.state(state).record.fields)

        def filled(row: Any) -> Any:  # noqa: ANN401
            return {
                name: _blank(kinds[name]) if value == HIDDEN and self._is_idle(name) else value
                for name, value in cast("dict[str, Any]", row).items()
            }

        if effect.operation == TOUCHED:
            sides = cast("dict[str, list[Any]]", given).items()
            return EffectAnswer({side: [filled(row) for row in rows] for side, rows in sides})
        return EffectAnswer(filled(cast("dict[str, Any]", given)))

    def _is_idle(self, field: str) -> bool:
        return self._looked_at is not None and field not in self._looked_at

    def _recorded(self, effect: NodeEffect) -> TracedEffect | None:
        """Return the same question of the trace. After one that differs only those are the same
        that do not depend on what was done before."""
        known = (effect, self._shown.effect(effect))
        if self._is_same and self._asked < len(self._effects):
            found = self._effects[self._asked]
            if found.effect in known:
                return found
        self._is_same = False
        if effect.operation in self._state.answers:
            return None
        return next((each for each in self._effects if each.effect in known), None)

    def _answered(self, effect: NodeEffect, recorded: TracedEffect | None) -> EffectAnswer:
        if effect.operation == LOCK:
            return EffectAnswer(value=True)
        if effect.operation in self._state.answers:
            return self._of_records(effect, recorded)
        if effect.step in self._given:
            return EffectAnswer(self._given[effect.step])
        if recorded is not None:
            return recorded.answer
        if effect.operation == "secret":
            return EffectAnswer(f"{SECRET_PREFIX}{effect.arguments['name']}")
        if effect.operation == "call":
            callee = self._node.callee(effect.arguments["node"])
            # Over the same records: what it writes is seen here, as in one transaction.
            world = RecordedWorld(callee, self._records)
            return call_answer(drive(DirectPath(callee).start(effect.arguments["inputs"]), world))
        raise UserError(
            f"step {effect.step} asks the world ({effect.operation}), and there is no answer to "
            f"it; give one: --answers '{{\"{effect.step}\": …}}'"
        )

    def _of_records(self, effect: NodeEffect, recorded: TracedEffect | None) -> EffectAnswer:
        if effect.step in self._given:
            state, value = self._node.state(effect.arguments["state"]), self._given[effect.step]
            if effect.operation != "read":
                with suppress(UserError):
                    self._state.answers[effect.operation](effect)  # remembers how it was
            self._records.update(state, effect.arguments["key"], value)
            if effect.operation != "read":
                return EffectAnswer(value)
        try:
            # Also where the answer is known: what follows may ask about the same records.
            computed = self._state.answers[effect.operation](effect)
        except UserError:
            if recorded is None:
                raise
            return recorded.answer
        return computed if recorded is None or self._given else recorded.answer


def _fields_looked_at(node: NodeProgram) -> set[str] | None:
    """Return the names of all fields that expressions of a node look at; None where one looks at a
    record as a whole."""
    clauses = [*node.before, *node.after, *(one for step in node.steps for one in step.guards)]
    whole = [clause.expression for clause in clauses]
    for step in node.steps:
        whole += [step.expression] if step.expression is not None else []
        whole += [part for _, part in step.effect.arguments] if step.effect is not None else []
    parts = [part for each in whole for part in walk(each)]
    opened = {id(part.record) for part in parts if isinstance(part, FieldOf)}
    opened |= {id(part.over) for part in parts if isinstance(part, ItemLoop)}
    for part in parts:
        if isinstance(part, NamedValue) and id(part) not in opened and _has_records(part.type):
            return None
    return {part.name for part in parts if isinstance(part, FieldOf)}


def _has_records(kind: NodeType) -> bool:
    match kind:
        case RecordType():
            return True
        case ArrayType(item=inner) | MapType(value=inner):
            return _has_records(inner)
        case _:
            return False


def _blank(kind: NodeType) -> Any:  # noqa: ANN401
    """Return a value of a type that says nothing."""
    match kind:
        case IntegerType():
            return 0
        case DecimalType():
            return "0"
        case BooleanType():
            return False
        case TimestampType():
            return "1970-01-01T00:00:00Z"
        case EnumType(choices=choices):
            return choices[0]
        case ArrayType() | SetType():
            return []
        case MapType():
            return {}
        case RecordType(fields=fields):
            return {name: _blank(part) for name, part in fields}
        case _:
            return ""
