"""A debugger of nodes: one run, or two side by side, moment by moment (host).

    START -> (ASKED -> ANSWERED)* STEP -> … -> END

| moment     | what it has                                                                     |
|------------|---------------------------------------------------------------------------------|
| `start`    | the inputs, and the verdicts on what has to hold before                          |
| `asked`    | what the run asks of the world                                                  |
| `answered` | what it was answered, and what was spent by then                                |
| `step`     | a step with the verdicts on its guards and its value, or how it failed          |
| `end`      | the outcome, and the verdicts on what has to hold after                         |

A run is carried out no further than somebody looks, and it performs nothing: a `RecordedWorld`
answers it. Looking back, and changing a step, is carrying it out again from the start.

Verdicts are those of the interpreter over the values of the path that is looked at, also where that
path is generated Python: so a path that goes wrong is judged by another one.
"""

import json
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from vegakit.contracts import (
    TOUCHED,
    BooleanType,
    Clause,
    Constant,
    EffectAnswer,
    ExpressionError,
    NameScope,
    NodeEffect,
    NodeOutcome,
    NodeProgram,
    NodeStep,
    NodeValueError,
    Value,
    check_expression,
    first_broken,
    judge,
    read_answer,
    read_value,
    touched_type,
)
from vegakit.errors import UserError, did_you_mean
from vegakit.money import Money, dollars, format_money
from vegakit.vesper.node_traces import (
    KnownRecords,
    RecordedWorld,
    Redaction,
    TracedEffect,
    WatchedPath,
)


class MomentKind(StrEnum):
    """The things that happen in a run."""

    START = "start"
    ASKED = "asked"
    ANSWERED = "answered"
    STEP = "step"
    END = "end"


class ClauseVerdict(Struct, frozen=True, omit_defaults=True):
    """Whether a clause holds, with the values that it looked at if it does not."""

    kind: str
    text: str
    holds: bool
    values: dict[str, Any] = {}


class Moment(Struct, frozen=True, omit_defaults=True):
    """Something that happened in a run; which fields it has depends on its kind."""

    kind: MomentKind
    step: str = ""
    before: Any = None
    value: Any = None
    failure: str = ""
    verdicts: tuple[ClauseVerdict, ...] = ()
    effect: NodeEffect | None = None
    answer: EffectAnswer | None = None
    outcome: NodeOutcome | None = None
    cost_nanos: int = 0
    spent_nanos: int = 0


class WatchedRun:
    """One run of a path, as far as it was looked at."""

    def __init__(
        self, node: NodeProgram, path: WatchedPath, inputs: Mapping[str, Any], world: RecordedWorld
    ) -> None:
        self.node, self._world = node, world
        values = node.read_inputs(inputs)
        self._names: dict[str, Value] = {**values}
        self._names |= {f"old({name})": values[name] for name in node.changed}
        self.shown: dict[str, Any] = node.show_inputs(values)
        """The inputs, and the values of steps by now, as JSON has them."""
        self._steps = {step.name: step for step in node.steps}
        self._asks: NodeEffect | None = None
        self._done = 0
        self._start = Moment(
            MomentKind.START, value=dict(self.shown), verdicts=self._verdicts(node.before)
        )
        self.moments = [self._start]
        path.watch(self._seen)
        self._run = path.start(inputs)

    @property
    def has_ended(self) -> bool:
        """Return whether the last moment is the end."""
        return self.moments[-1].kind is MomentKind.END

    def at(self, position: int) -> Moment | None:
        """Return a moment, and carry the run out that far; None after its end."""
        while position >= len(self.moments) and not self.has_ended:
            self._advance()
        return self.moments[position] if position < len(self.moments) else None

    def _advance(self) -> None:
        """Go on to the next question, or to the end."""
        try:
            if self._asks is None:
                asked = next(self._run)
            else:
                answer = self._answered(self._asks)
                asked = self._run.send(answer)
        except StopIteration as end:
            self._end(end.value)
            return
        self._asks = asked
        self.moments.append(Moment(MomentKind.ASKED, asked.step, effect=asked))

    def _answered(self, effect: NodeEffect) -> EffectAnswer:
        spent, answer = self._world.spent, self._world(effect)
        if effect.operation == TOUCHED:
            state = self.node.state(effect.arguments["state"])
            touched = read_answer(touched_type(self.node, state), answer).value
            self._names |= {f"old({state.name})": touched["before"], state.name: touched["after"]}
        self.moments.append(
            Moment(
                MomentKind.ANSWERED,
                effect.step,
                effect=effect,
                answer=answer,
                cost_nanos=self._world.spent - spent,
                spent_nanos=self._world.spent,
            )
        )
        return answer

    def _seen(self, name: str, value: Any) -> None:  # noqa: ANN401
        """Keep a step that ended well."""
        if name not in self._steps:
            raise UserError(f"the path has a step {name}, and {self.node.node_id} has none of it")
        step, before = self._steps[name], self.shown.get(name)
        verdicts = self._verdicts(step.guards)
        self._done += 1
        if step.result is not None:
            self.shown[name] = value
            self._names[name] = read_value(step.result, value, name)
        self.moments.append(
            Moment(MomentKind.STEP, name, before=before, value=value, verdicts=verdicts)
        )

    def _end(self, outcome: NodeOutcome) -> None:
        if outcome.step:
            guards = self._verdicts(self._steps[outcome.step].guards)
            self.moments.append(
                Moment(MomentKind.STEP, outcome.step, failure=outcome.reason, verdicts=guards)
            )
        is_whole = self._done == len(self.node.steps)
        after = self._verdicts(self.node.after) if is_whole else ()
        self.moments.append(Moment(MomentKind.END, outcome=outcome, verdicts=after))

    def _verdicts(self, clauses: tuple[Clause, ...]) -> tuple[ClauseVerdict, ...]:
        return tuple(self._verdict(clause) for clause in clauses)

    def _verdict(self, clause: Clause) -> ClauseVerdict:
        broken = judge([clause], self._names).broken
        values = broken[0].values if broken else {}
        return ClauseVerdict(clause.kind, clause.text, not broken, values)

    def holds_of_inputs(self, condition: Clause) -> bool:
        """Return whether a condition holds of the inputs."""
        inputs = self.node.read_inputs(self._start.value)
        return first_broken((condition,), inputs) is None


# Breakpoints.

StopWhen: TypeAlias = Callable[[WatchedRun, Moment], str]
"""Says why to stop at a moment; nothing if it goes on."""
DIVERGENCE = "divergence"


class Breakpoint(NamedTuple):
    """A reason to stop, as it was typed."""

    text: str
    stops: StopWhen


def _violation(_: WatchedRun, moment: Moment) -> str:
    if moment.kind is MomentKind.STEP:
        return ""
    broken = [each for each in moment.verdicts if not each.holds]
    return f"{broken[0].kind} {broken[0].text!r} does not hold" if broken else ""


def _transition(_: WatchedRun, moment: Moment) -> str:
    if moment.kind is not MomentKind.ASKED or moment.effect is None:
        return ""
    given = moment.effect.arguments
    if moment.effect.operation != "transition":
        return ""
    return f"{given['state']}.{given['field']} {given['before']} -> {given['after']}"


_NAMED: dict[str, StopWhen] = {
    "contract_violation": _violation,
    "state_transition": _transition,
    DIVERGENCE: lambda _, _moment: "",  # the debugger compares, since one run cannot
}


def parse_breakpoint(text: str, node: NodeProgram, *, is_comparative: bool) -> Breakpoint:
    """Return a breakpoint, or raise a `UserError` that says which there are."""
    word = text.strip()
    if word == DIVERGENCE and not is_comparative:
        raise UserError("divergence is of two paths; add --comparative")
    if word in _NAMED:
        return Breakpoint(word, _NAMED[word])
    if word.startswith("spend="):
        return Breakpoint(word, _spend(dollars(word.removeprefix("spend="))))
    if found := re.fullmatch(r"input\s*:(.+)", word, re.DOTALL):
        return Breakpoint(word, _condition(found[1].strip(), node))
    steps = [step.name for step in node.steps]
    if word in steps:
        return Breakpoint(word, _at_step(word))
    raise UserError(
        f"{word[:60]!a} is no breakpoint; {did_you_mean(word, [*_NAMED, *steps])} "
        "Or type spend=$0.01, or 'input: amount > 100'"
    )


def _at_step(name: str) -> StopWhen:
    def stops(_: WatchedRun, moment: Moment) -> str:
        is_there = moment.kind is MomentKind.STEP and moment.step == name
        return f"step {name}" if is_there else ""

    return stops


def _spend(limit: Money) -> StopWhen:
    def stops(_: WatchedRun, moment: Moment) -> str:
        # Only where it is reached: what follows has spent as much, too.
        is_reached = moment.spent_nanos - moment.cost_nanos < limit <= moment.spent_nanos
        return f"{format_money(moment.spent_nanos)} spent" if is_reached else ""

    return stops


def _condition(text: str, node: NodeProgram) -> StopWhen:
    names = {each.name: each.type for each in node.inputs}
    try:
        expression = check_expression(text, NameScope(names), BooleanType(), "a breakpoint")
    except ExpressionError as error:
        raise UserError(f"the breakpoint on inputs: {error}") from None
    condition = Clause("input", text, 0, expression)

    def stops(run: WatchedRun, moment: Moment) -> str:
        holds = moment.kind is MomentKind.START and run.holds_of_inputs(condition)
        return f"input: {text}" if holds else ""

    return stops


# Changes.


def step_named(node: NodeProgram, word: str) -> NodeStep:
    """Return a step by its name, or by its number from 1."""
    for number, step in enumerate(node.steps, 1):
        if word in (step.name, str(number)):
            return step
    names = [step.name for step in node.steps]
    raise UserError(
        f"{node.node_id} has no step {word[:40]!a}; {did_you_mean(word, names)} "
        f"Or give its number, 1 to {len(names)}"
    )


def with_value(node: NodeProgram, step: NodeStep, value: Any) -> NodeProgram:  # noqa: ANN401
    """Return a node in which a step has a value, whatever it computes. What a step asks the world
    stays: its answer is given to the world of the run."""
    kind = step.result
    if kind is None:
        raise UserError(f"step {step.name} only guards and has no value; change another one")
    try:
        read = read_value(kind, value, step.name)
    except NodeValueError as error:
        raise UserError(f"step {error}") from None
    if step.effect is not None:
        return node
    fixed = replace(step, expression=Constant(kind, read))
    steps = tuple(fixed if each.name == step.name else each for each in node.steps)
    return replace(node, steps=steps)


def read_plain(text: str) -> Any:  # noqa: ANN401
    """Return a value as it is typed: JSON, numbers with a point as text, or else a text."""
    try:
        return json.loads(text, parse_float=str)
    except (ValueError, RecursionError):
        return text


# Going through.


class DebuggedNode(Struct, frozen=True):
    """The parts of which runs of a debugger are made, one for each path."""

    node: NodeProgram
    inputs: dict[str, Any]
    paths: tuple[Callable[[NodeProgram], WatchedPath], ...]
    records: KnownRecords
    effects: tuple[TracedEffect, ...] = ()
    answers: dict[str, Any] = {}

    def runs(self, changes: Mapping[str, Any]) -> tuple[WatchedRun, ...]:
        """Start runs in which some steps have other values."""
        node = self.node
        for name, value in changes.items():
            node = with_value(node, step_named(node, name), value)
        given = {**self.answers, **changes}
        return tuple(
            WatchedRun(
                node,
                make(node),
                self.inputs,
                RecordedWorld(node, self.records.copy(), self.effects, given),
            )
            for make in self.paths
        )


class DebugStop(Struct, frozen=True):
    """The place of the debugger: a moment of each path, and why it stopped, if for a reason."""

    position: int
    moments: tuple[Moment | None, ...]
    reason: str = ""

    @property
    def is_end(self) -> bool:
        """Return whether no path goes on."""
        return all(each is None or each.kind is MomentKind.END for each in self.moments)


class NodeDebugger:
    """Goes through one run, or through two side by side."""

    def __init__(self, debugged: DebuggedNode, breakpoints: list[Breakpoint]) -> None:
        self.debugged, self.breakpoints = debugged, breakpoints
        self.changes: dict[str, Any] = {}
        self._runs = debugged.runs({})
        self._position = 0
        self.difference: DebugStop | None = None
        """The first moment that differs between the paths, once it was met."""

    @property
    def is_comparative(self) -> bool:
        """Return whether two paths are compared."""
        return len(self._runs) > 1

    def here(self) -> DebugStop:
        """Return where it stands."""
        moments = tuple(run.at(self._position) for run in self._runs)
        stop = DebugStop(self._position, moments)
        if self.difference is None and any(each != moments[0] for each in moments):
            self.difference = replace(stop, reason=_told_difference(moments))
            return self.difference
        return replace(stop, reason=self._reason(moments))

    def _reason(self, moments: tuple[Moment | None, ...]) -> str:
        for run, moment in zip(self._runs, moments, strict=True):
            for each in self.breakpoints if moment is not None else ():
                if moment is not None and (reason := each.stops(run, moment)):
                    return reason
        return ""

    def step(self) -> DebugStop:
        """Go on by one moment; at the end it stays."""
        if all(run.at(self._position + 1) is None for run in self._runs):
            return self.here()
        self._position += 1
        return self.here()

    def resume(self) -> list[DebugStop]:
        """Go on to the next breakpoint or to the end, and return all that was passed."""
        passed = [self.step()]
        while not passed[-1].reason and not passed[-1].is_end:
            passed.append(self.step())
        return passed

    def back(self) -> DebugStop:
        """Go back by one moment: carry all out again, up to there."""
        return self._again(max(0, self._position - 1))

    def _again(self, position: int) -> DebugStop:
        self._runs = self.debugged.runs(self.changes)
        if self.difference is not None and self.difference.position >= position:
            self.difference = None
        self._position = position
        return self.here()

    def modify(self, word: str, value: Any) -> DebugStop:  # noqa: ANN401
        """Give a step another value, and carry all out again up to it."""
        step = step_named(self.debugged.node, word)
        with_value(self.debugged.node, step, value)  # refuses before anything is changed
        self.changes[step.name] = value
        self.difference = None
        self._again(0)
        while not (stop := self.step()).is_end:
            if any(
                each and each.kind is MomentKind.STEP and each.step == step.name
                for each in stop.moments
            ):
                break
        return stop

    def value_of(self, name: str) -> tuple[Any, ...]:
        """Return the value that an input or a step has here, of each path."""
        return tuple(self._value(run, name) for run in self._runs)

    def _value(self, run: WatchedRun, name: str) -> Any:  # noqa: ANN401
        passed = [run.at(each) for each in range(self._position + 1)]
        for moment in reversed(passed):
            if moment and moment.kind is MomentKind.STEP and moment.step == name:
                return moment.value
        start = run.moments[0].value
        if name in start:
            return start[name]
        known = [*start, *(step.name for step in run.node.steps)]
        why = "has no value yet; type step" if name in known else did_you_mean(name, known)
        raise UserError(f"{name[:40]!a}: {why}")


def _told_difference(moments: tuple[Moment | None, ...]) -> str:
    names = [each.step for each in moments if each is not None and each.step]
    return f"the paths differ at step {names[0]}" if names else "the paths differ at the end"


def shown_moment(moment: Moment, shown: Redaction) -> Moment:
    """Return a moment as people may see it."""
    is_start = moment.kind is MomentKind.START
    value = shown.inputs(moment.value) if is_start else shown.value(moment.step, moment.value)
    answer = moment.answer
    if answer is not None and moment.effect is not None:
        answer = shown.answer(moment.effect, answer)
    return replace(
        moment,
        before=shown.value(moment.step, moment.before),
        value=value,
        verdicts=tuple(
            replace(each, values=shown.looked_at(each.values)) for each in moment.verdicts
        ),
        effect=None if moment.effect is None else shown.effect(moment.effect),
        answer=answer,
        outcome=None if moment.outcome is None else shown.outcome(moment.outcome),
    )
