"""The world of a node as terms: records by their key, and answers that may be anything (host).

| step                             | its value                           | fails if                |
|----------------------------------|-------------------------------------|-------------------------|
| `read`, `write`                  | the record, as it is by then        | there is none           |
| `insert`                         | the record                          | there is one            |
| `transition`                     | the record, in its new state        | none, or in another one |
| `call` of what only evaluates    | its outputs; its contract held      | it ends without them    |
| `http`, `sql`, `agent`, `secret` | anything of its type                | it likes to fail        |

A record that is looked at first may be there or not, with any fields that its constraints allow:
they are taken to hold before a run, as invariants are. Two keys have to be known as the same or as
different, by what is assumed so far. Calls of nodes with effects are not told to the solver.

What the solver gives as a counterexample is a world, too: its records and answers are those of the
run that shows it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from vegakit.contracts import (
    EFFECTS,
    Clause,
    EffectAnswer,
    ItemLoop,
    LoopKind,
    NamedValue,
    NodeEffect,
    NodeOutcome,
    NodeProgram,
    NodeStep,
    StateRecords,
    StepEffect,
    Value,
    call_answer,
    interpret,
    show_value,
    start_run,
    substituted,
    touched_type,
)
from vegakit.vesper.node_paths import StateWorld, drive
from vegakit.vesper.node_traces import KnownRecords
from vegakit.vesper.proof_expressions import Names, Translator
from vegakit.vesper.proof_terms import NotExpressible, Term
from vegakit.vesper.proof_values import InputTerms, Items, Slot, Symbol

HELD_BEFORE = "invariant before"
"""The kind of clauses that are checked after a run, about records as they were before it."""


class GivenWorld(Struct, frozen=True, omit_defaults=True):
    """A world that a node is run in: records by the names of its state, and answers by step."""

    records: dict[str, list[Any]] = {}
    answers: dict[str, EffectAnswer] = {}

    def run(self, node: NodeProgram, inputs: Mapping[str, Value]) -> NodeOutcome:
        """Return the outcome of a node, by the interpreter."""
        if not node.has_effects:
            return interpret(node, inputs)
        records = KnownRecords.given(node, self.records)
        state = StateWorld(node, records)

        def perform(effect: NodeEffect) -> EffectAnswer:
            if effect.operation in state.answers:
                return state.answers[effect.operation](effect)
            if effect.operation == "call":
                callee = node.callee(effect.arguments["node"])
                given = callee.read_inputs(effect.arguments["inputs"])
                return call_answer(self.run(callee, given))
            return self.answers[effect.step]

        return replace(drive(start_run(node, inputs), perform), effects=())


class _KnownRecord:
    """A record that the node has looked at: as it was, and as it is by now."""

    def __init__(self, step: str, name: str, key: Symbol, existed: Term, record: Symbol) -> None:
        self.step, self.name, self.key = step, name, key
        self.existed = self.exists = existed
        self.before = self.now = record


class WorldTerms:
    """Answers the steps of one node. `assume` adds to what is assumed, and `follows` says whether
    something follows from that."""

    def __init__(
        self,
        node: NodeProgram,
        to: Translator,
        inputs: InputTerms,
        assume: Callable[..., None],
        follows: Callable[[Term], bool],
    ) -> None:
        self._node, self._to, self._terms, self._inputs = node, to, to.terms, inputs
        self._assume, self._follows = assume, follows
        self._known: dict[str, list[_KnownRecord]] = defaultdict(list)
        self._answers: dict[str, tuple[Term, Symbol]] = {}

    def value(self, step: NodeStep, effect: StepEffect, names: Names) -> Symbol:
        """Return what a step is answered. The ways in which it fails are traps."""
        given = {name: self._to.value(part, names) for name, part in effect.arguments}
        if step.operation == "call":
            callee = self._node.callee(dict(effect.fixed)["node"])
            outputs, ends_well = self._called(callee, given["inputs"])
            self._to.trap("failed", self._terms.no(ends_well), True)
            return outputs
        if not effect.state:
            return self._anything(step, effect)
        record = self._record(self._node.state(effect.state), step, given["key"])
        return _CHANGES[step.operation](self, record, effect, given)

    def touched(self) -> Names:
        """Return the records that the steps looked at, by the names that clauses have for them."""
        found: Names = {}
        for state in self._node.states:
            known = self._known[state.name]
            before = [Slot(each.existed, each.before) for each in known]
            after = [Slot(each.exists, each.now) for each in known]
            order = self._order(state, known) if len(known) > 1 else None
            found[f"old({state.name})"] = Items(before, order)
            found[state.name] = Items(after, order)
        return found

    def _order(self, state: StateRecords, known: list[_KnownRecord]) -> Callable[[int, int], Term]:
        return lambda one, other: self._to.less(state.key_type, known[one].key, known[other].key)

    # Records.

    def _record(self, state: StateRecords, step: NodeStep, key: Symbol) -> _KnownRecord:
        for each in self._known[state.name]:
            same = self._to.equal(state.key_type, key, each.key)
            if self._follows(same):
                return each
            if not self._follows(self._terms.no(same)):
                raise NotExpressible(
                    f"whether {each.step} and {step.name} look at the same record of {state.name}; "
                    "say that their keys differ in a constraint or a guard, as in to_id != from_id"
                )
        made = self._looked_at(state, step, key)
        self._known[state.name].append(made)
        return made

    def _looked_at(self, state: StateRecords, step: NodeStep, key: Symbol) -> _KnownRecord:
        name = f"{state.name} {len(self._known[state.name])}"  # no name in a file has a space
        fields = {
            # The bounds of a key are those of records that are there, and it may be asked for.
            field: ("" if field == state.key else f"{state.name}[].{field}", kind)
            for field, kind in state.record.fields
        }
        record = {
            field: self._new(kind, path, f"{name}.{field}")
            for field, (path, kind) in fields.items()
        }
        existed = self._terms.boolean(f"{name} is there")
        self._assume(self._to.equal(state.key_type, record[state.key], key))
        for constraint in constraints_of(self._node, state):
            if (holds := self._held(constraint, {constraint.name: record})) is not None:
                self._assume(self._terms.implied(existed, holds))
        return _KnownRecord(step.name, name, key, existed, record)

    def _held(self, loop: ItemLoop, names: Names) -> Term | None:
        """Return that the body of a clause holds and does not trap; None if it cannot be told: then
        more records are looked at than there are, and what is proved of them holds."""
        mark = len(self._to.traps)
        try:
            holds = self._to.value(loop.body, names)
        except NotExpressible:
            del self._to.traps[mark:]
            return None
        return self._terms.all_of((holds, *self._no_traps_since(mark)))

    def _no_traps_since(self, mark: int) -> list[Term]:
        met = [self._terms.no(condition) for _, condition in self._to.traps[mark:]]
        del self._to.traps[mark:]
        return met

    def _new(self, kind: Any, path: str, name: str) -> Symbol:  # noqa: ANN401
        """Return a new value. What is known of it is assumed, also where it is not asked for: a
        counterexample has values for all of it."""
        known = len(self._terms.facts)
        made = self._inputs.variable(kind, path, name)
        for facts in [*self._terms.facts.values()][known:]:
            self._assume(*facts)
        return made

    def read_record(self, record: _KnownRecord) -> Symbol:
        """Return a record that has to be there."""
        self._to.trap("missing", self._terms.no(record.exists), True)
        return record.now

    def write_record(
        self, record: _KnownRecord, effect: StepEffect, given: Mapping[str, Symbol]
    ) -> Symbol:
        """Change some fields."""
        record.now = {**self.read_record(record), **given["set"]}
        return record.now

    def insert_record(
        self, record: _KnownRecord, effect: StepEffect, given: Mapping[str, Symbol]
    ) -> Symbol:
        """Make a record that must not be there."""
        self._to.trap("exists", record.exists, True)
        key = self._node.state(effect.state).key
        record.now, record.exists = {key: record.before[key], **given["value"]}, True
        return record.now

    def change_state(
        self, record: _KnownRecord, effect: StepEffect, given: Mapping[str, Symbol]
    ) -> Symbol:
        """Change the field of a transition, from the values that it allows."""
        found, fixed = self.read_record(record), dict(effect.fixed)
        allowed = self._to.texts.one_of(found[fixed["field"]], fixed["before"].split(", "))
        wrong = self._terms.all_of((record.exists, self._terms.no(allowed)))
        self._to.trap("wrong_state", wrong, True)
        record.now = {**found, fixed["field"]: self._to.texts.constant(fixed["after"])}
        return record.now

    # Other steps.

    def _anything(self, step: NodeStep, effect: StepEffect) -> Symbol:
        failed: Term = False
        if "failed" in EFFECTS[step.operation].failures:
            failed = self._terms.boolean(f"step {step.name} fails")
            self._to.trap("failed", failed, True)
        value = self._new(effect.result, f"step {step.name}", f"step {step.name}")
        self._answers[step.name] = failed, value
        return value

    def _called(self, node: NodeProgram, given: Mapping[str, Symbol]) -> tuple[Symbol, Term]:
        """Return the outputs of another node, and whether it ends with them."""
        names: Names = {
            each.name: given[each.name]
            if each.name in given
            else self._to.constant(each.type, each.default)
            for each in node.inputs
        }
        names |= {f"old({name})": names[name] for name in node.changed}
        mark, held = len(self._to.traps), list[Term]()
        held += self._clauses(node.before, names)
        for step in node.steps:
            held += self._clauses(step.guards, names)
            if step.expression is not None:
                names[step.name] = self._to.value(step.expression, names)
            if step.effect is not None:
                if step.operation != "call":
                    raise NotExpressible(f"{node.node_id} is called, and has effects of its own")
                inner = {name: self._to.value(part, names) for name, part in step.effect.arguments}
                callee = node.callee(dict(step.effect.fixed)["node"])
                names[step.name], ends_well = self._called(callee, inner["inputs"])
                held.append(ends_well)
        held += self._clauses(node.after, names)
        held += self._no_traps_since(mark)
        return {name: names[name] for name, _ in node.outputs}, self._terms.all_of(held)

    def _clauses(self, clauses: tuple[Clause, ...], names: Names) -> list[Term]:
        return [self._to.value(each.expression, names) for each in clauses]

    # Worlds of counterexamples.

    def read(self, model: Term) -> GivenWorld:
        """Return the records and answers in a model."""
        return GivenWorld(
            {
                state.name: [*self._shown_records(state, model)]
                for state in self._node.states
                if self._known[state.name]
            },
            {name: self._shown_answer(name, model) for name in self._answers},
        )

    def _shown_records(self, state: StateRecords, model: Term) -> Iterator[Any]:
        for each in self._known[state.name]:
            if bool(model.eval(each.existed, True)):
                value = self._inputs.value_in(model, state.record, each.name, each.before)
                yield show_value(state.record, value)

    def _shown_answer(self, name: str, model: Term) -> EffectAnswer:
        failed, made = self._answers[name]
        if failed is not False and bool(model.eval(failed, True)):
            return EffectAnswer(failure="failed")
        effect = next(step.effect for step in self._node.steps if step.name == name)
        assert effect is not None
        value = self._inputs.value_in(model, effect.result, f"step {name}", made)
        return EffectAnswer(show_value(effect.result, value))


_CHANGES: dict[
    str, Callable[[WorldTerms, _KnownRecord, StepEffect, Mapping[str, Symbol]], Symbol]
] = {
    "read": lambda world, record, effect, given: world.read_record(record),
    "write": WorldTerms.write_record,
    "insert": WorldTerms.insert_record,
    "transition": WorldTerms.change_state,
}


def constraints_of(node: NodeProgram, state: StateRecords) -> Iterator[ItemLoop]:
    """Yield the constraints of the records of a state, each as the loop over those that a run
    touched."""
    for clause in node.after:
        match clause.expression:
            case ItemLoop(kind=LoopKind.FORALL, over=NamedValue(name=name)) as loop:
                if name == state.name and clause.kind.startswith("constraint of "):
                    yield loop
            case _:
                pass


def held_before(node: NodeProgram) -> tuple[Clause, ...]:
    """Return what held of the records before a run, as clauses to be judged after it."""
    found = [each for each in node.after if each.kind == HELD_BEFORE]
    for state in node.states:
        kind = dict(touched_type(node, state).fields)["before"]
        old = {state.name: NamedValue(kind, f"old({state.name})")}
        found += [
            Clause(HELD_BEFORE, "", 0, substituted(loop, old))
            for loop in constraints_of(node, state)
        ]
    return (*found,)
