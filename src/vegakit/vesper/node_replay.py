"""Replays a trace of a node, from any step and with changes, and keeps a fix as a new version
(host).

    TRACE + node (+ `step fee = 0.12` | `step fee: ROUND(amount * 0.004, 2)`) -> what differs

A value is only tried. An expression is a change of the file: the node is read anew with it, and if
it is kept, that is a file of its own with the next version, in which nothing else is changed. No
file is ever written over.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from vegakit.contracts import NodeEffect, NodeOutcome, NodeProgram
from vegakit.errors import UserError
from vegakit.tools import write_output
from vegakit.vesper.node_debugger import DebuggedNode, MomentKind, read_plain, step_named
from vegakit.vesper.node_files import NODE_SUFFIX, NodeFile, parse_node
from vegakit.vesper.node_host import read_sensitively
from vegakit.vesper.node_paths import written_path
from vegakit.vesper.node_traces import (
    KnownRecords,
    NodeTrace,
    Redaction,
    TracedStep,
    given_openly,
)
from vegakit.vesper.repository import NodeRepository, name_of

_CHANGE = re.compile(r"(?:step\s+)?([a-z0-9_]+)\s*(=|:)\s*(\S.*)", re.DOTALL)
_PARAMETERS = {"filter": "where", "sort": "by", "group": "by", "lookup": "key"}
"""The parameter that a changed expression takes the place of; of all others it is `value`."""


class StepChange(NamedTuple):
    """The change of a step: another value, or another expression."""

    step: str
    value: Any
    expression: str = ""


def parse_change(text: str) -> StepChange:
    """Return what `--modify` says, or raise a `UserError`."""
    found = _CHANGE.fullmatch(text.strip())
    if found is None:
        raise UserError(
            f"{text[:60]!a} changes nothing; write 'step 3 = VALUE' to try a value, or "
            "'step fee: EXPRESSION' to try an expression"
        )
    if found[2] == "=":
        return StepChange(found[1], read_plain(found[3]))
    return StepChange(found[1], None, found[3].strip())


class ReplayedStep(Struct, frozen=True, omit_defaults=True):
    """A step as it was recorded, and as it is now; None where the run did not come so far."""

    number: int
    step: str
    recorded: TracedStep | None
    now: TracedStep | None

    @property
    def differs(self) -> bool:
        """Return whether the two are not the same."""
        return self.recorded != self.now


class Replay(Struct, frozen=True):
    """A run that was carried out again, beside what was recorded of it. `asked` is what it asks of
    the world now and did not then."""

    steps: tuple[ReplayedStep, ...]
    asked: tuple[NodeEffect, ...]
    recorded: NodeOutcome
    now: NodeOutcome

    @property
    def differs(self) -> bool:
        """Return whether anything is not as it was recorded."""
        steps = any(each.differs for each in self.steps)
        return steps or bool(self.asked) or self.recorded != self.now


class StepsBefore(NamedTuple):
    """A node whose first steps have the values that they had in a trace."""

    node: NodeProgram
    values: dict[str, Any]


def steps_before(trace: NodeTrace, node: NodeProgram, first: int) -> StepsBefore:
    """Return a node that begins with a step, by its number: those before it are neither computed
    nor guarded again. What they ask of the world is asked, and answered as it was."""
    if not 1 <= first <= len(node.steps):
        raise UserError(f"--from is the number of a step, 1 to {len(node.steps)}")
    passed = node.steps[: first - 1]
    steps = (*(replace(step, guards=()) for step in passed), *node.steps[first - 1 :])
    values = {step.name: trace.value_of(step.name) for step in passed if step.expression}
    return StepsBefore(replace(node, steps=steps), values)


def replayed(
    trace: NodeTrace, debugged: DebuggedNode, changes: Mapping[str, Any], shown: Redaction
) -> Replay:
    """Carry a run out again with other values of some steps, and nothing but that: it performs
    nothing."""
    run = debugged.runs(changes)[0]
    while not run.has_ended:
        run.at(len(run.moments))
    end = run.moments[-1].outcome
    assert end is not None
    steps = [
        TracedStep(each.step, each.value)
        for each in run.moments
        if each.kind is MomentKind.STEP and not each.failure
    ]
    asked = [each.effect for each in run.moments if each.kind is MomentKind.ASKED and each.effect]
    return beside_trace(trace, debugged.node, steps, asked, end, shown)


def beside_trace(
    trace: NodeTrace,
    node: NodeProgram,
    steps: Sequence[TracedStep],
    asked: Sequence[NodeEffect],
    outcome: NodeOutcome,
    shown: Redaction,
) -> Replay:
    """Return a run beside a trace, as people may see both."""
    sides = [
        {each.step: replace(each, value=shown.value(each.step, each.value)) for each in side}
        for side in (trace.steps, steps)
    ]
    known = [shown.effect(each.effect) for each in trace.effects]
    ends = [
        replace(shown.outcome(each), effects=(), transaction_id="")
        for each in (trace.outcome, outcome)
    ]
    return Replay(
        tuple(
            ReplayedStep(number, step.name, sides[0].get(step.name), sides[1].get(step.name))
            for number, step in enumerate(node.steps, 1)
            if step.name in sides[0] or step.name in sides[1]
        ),
        tuple(effect for each in asked if (effect := shown.effect(each)) not in known),
        *ends,
    )


def debugged_trace(
    trace: NodeTrace,
    node: NodeProgram,
    inputs: Mapping[str, Any],
    answers: Mapping[str, Any],
) -> DebuggedNode:
    """Return the run of a trace for a debugger; `inputs` and `answers` stand in for what the trace
    does not show."""
    given = {**trace.inputs, **inputs}
    for name, value in given.items():
        given_openly(value, f"the input {name}")
    read_sensitively(node, given)
    records = KnownRecords.traced(node, trace.effects)
    return DebuggedNode(node, given, (written_path,), records, trace.effects, {**answers})


# A fix as a new version.


class NewVersion(NamedTuple):
    """A node with a changed step, as it would be written."""

    path: Path
    text: str
    node: NodeProgram


def new_version(file: NodeFile, change: StepChange) -> NewVersion:
    """Return the next version of a node, with the changed expression of a step. Raises a
    `UserError` if the node is wrong with it."""
    path = Path(file.path)
    text = path.read_bytes().decode()
    step = step_named(file.program, change.step)
    if step.effect is not None or step.expression is None:
        raise UserError(
            f"step {step.name} ({step.operation}) has no expression to change; try a value: "
            f"--modify 'step {step.name} = VALUE'"
        )
    name = name_of(file.program.node_id)
    beside = sorted(path.parent.glob(f"*{NODE_SUFFIX}"))
    known = NodeRepository.of_files(path.parent, beside).versions().get(name.name, [])
    made = replace(name, version=max([name, *known]).version + 1)
    parameter = _PARAMETERS.get(step.operation, "value")
    changed = _with_scalars(
        text,
        {
            ("node_id",): str(made),
            ("flow", step.name, "parameters", parameter): json.dumps(change.expression),
        },
    )
    stem = re.sub(r"_v[1-9][0-9]*$", "", path.stem)
    target = path.with_name(f"{stem}_v{made.version}{NODE_SUFFIX}")
    program = parse_node(changed.encode(), str(target), file.program.callee).program
    return NewVersion(target, changed, program)


def write_version(version: NewVersion) -> Path:
    """Write a new version, and return its file; what is there is never written over."""
    advice = "if it is there already, move it first"
    write_output(version.path, version.text.encode(), advice, is_new=True)
    return version.path


def _with_scalars(text: str, changes: Mapping[tuple[str, ...], str]) -> str:
    """Return YAML with other scalars at some places, and all else as it is written. Steps are found
    by their name. The file was read before, so that it has nothing that is read in two ways."""
    from ruamel.yaml import YAML

    reader: Any = YAML(typ="safe", pure=True)
    root = reader.compose(text)
    places = [(_scalar(root, path), new) for path, new in changes.items()]
    for node, new in sorted(places, key=lambda place: -place[0].start_mark.index):
        end = node.end_mark.index
        tail = "" if node.style in ('"', "'", None) else "\n"  # a block ends with its line
        text = text[: node.start_mark.index] + new + tail + text[end:]
    return text


def _scalar(node: Any, path: tuple[str, ...]) -> Any:  # noqa: ANN401  (the library has no types)
    for key in path:
        parts: Any = node.value
        if node.id == "sequence":
            node = next(each for each in parts if _scalar(each, ("step",)).value == key)
        else:
            node = next(value for name, value in parts if name.value == key)
    return node
