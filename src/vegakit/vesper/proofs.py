"""Proofs of nodes: for all inputs that the contract allows, not for those that were tried (host).

    inputs, constraints, preconditions   assumed
    answers of the world                 anything: `proof_effects`
    each step                            traps and fails only with a declared error; then: it did
                                         not, and its guards held
    constraints of outputs, invariants,  proved
    postconditions

A question to the solver is the opposite of what shall hold. No answer to it is a proof; an answer
is a counterexample only if the interpreter, run on it, breaks the contract there too. Everything
else is NOT PROVED with its reason, never a success. Work is limited by the solver's own count of
steps, which is the same on every machine; a limit of time is added only if one is asked for.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from random import Random
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from vegakit.contracts import (
    GUARD,
    Clause,
    Constant,
    Expression,
    FieldOf,
    FunctionCall,
    ItemLoop,
    ItemOf,
    Logic,
    LoopKind,
    MapType,
    NamedValue,
    NodeOutcome,
    NodeProgram,
    NodeStatus,
    NodeStep,
    NodeType,
    Relation,
    TimestampType,
    Value,
    first_broken,
    scale_of,
)
from vegakit.vesper.node_inputs import InputGenerator, simpler_inputs
from vegakit.vesper.proof_effects import (
    HELD_BEFORE,
    GivenWorld,
    WorldTerms,
    constraints_of,
    held_before,
)
from vegakit.vesper.proof_expressions import Names, Translator
from vegakit.vesper.proof_terms import Depth, NotExpressible, Number, Term, Terms
from vegakit.vesper.proof_values import InputTerms, Symbol, range_of, texts_of

MOST_ITEMS = 50
"""The most items of a collection that are unrolled, unless another number is asked for."""
SOLVER_EFFORT = 20_000_000
"""The most steps of the solver for one question."""
_WHOLE_EFFORT, _LINEAR_EFFORT = 1_000_000, 5_000_000
_SHORTER = (1, 2, 3, 4, 6, 9, 13, 19, 28, 40)
"""Lengths that are tried, one after the other, where a proof for longer ones is not found."""
_NO_EFFORT = "unknown: the steps of the solver for one clause are used up"
_RANDOM_INPUTS, _MOST_SHRINKS = 300, 400
_Replay: TypeAlias = Callable[[Mapping[str, Value], GivenWorld], NodeOutcome | None]
"""Runs inputs in a world; gives the outcome if it breaks what shall hold."""
_Found: TypeAlias = tuple[dict[str, Value], GivenWorld]


class ProofVerdict(StrEnum):
    """The ends of a proof. The second holds for collections of up to so many items."""

    PROVED = "PROVED"
    PROVED_UP_TO = "PROVED up to"
    NOT_PROVED = "NOT PROVED"


class ClauseProof(Struct, frozen=True, omit_defaults=True):
    """The verdict on one thing that has to hold: a clause, or a step that must not trap. Without a
    proof there is a counterexample, in the node's own inputs and the records and answers of its
    world, or a reason."""

    what: str
    line: int
    verdict: ProofVerdict
    counterexample: dict[str, Any] | None = None
    outcome: str = ""
    reason: str = ""
    world: GivenWorld | None = None


class NodeProof(Struct, frozen=True):
    """The verdict on a node, and on all that has to hold of it. `most` is the number of items up to
    which it holds, 0 for any that the types allow; `effort` is the solver's count of steps."""

    node_id: str
    verdict: ProofVerdict
    most: int
    clauses: tuple[ClauseProof, ...]
    effort: int = 0


class ProofLimits(NamedTuple):
    """The limits of a proof: items unrolled, steps of the solver a question, and seconds a question
    if time shall count."""

    most: int = MOST_ITEMS
    effort: int = SOLVER_EFFORT
    timeout_s: float | None = None


def prove_node(node: NodeProgram, limits: ProofLimits = ProofLimits()) -> NodeProof:  # noqa: B008
    """Prove all that has to hold of a node, as far as it can be. Where nothing speaks against a
    clause but it cannot be proved of collections as long as they may be, it is of shorter ones."""
    proof = _Prover(node, limits).run()
    open_clauses = [each for each in proof.clauses if each.verdict is ProofVerdict.NOT_PROVED]
    if not open_clauses or any(each.counterexample is not None for each in open_clauses):
        return proof
    best, effort = proof, proof.effort
    for most in (each for each in _SHORTER if each < limits.most):
        shorter = _Prover(node, limits._replace(most=most)).run()
        effort += shorter.effort
        if shorter.verdict is not ProofVerdict.PROVED_UP_TO:
            break
        best = _joined(proof, shorter)
    return replace(best, effort=effort)


def _joined(proof: NodeProof, shorter: NodeProof) -> NodeProof:
    """Return a proof with what is proved of shorter collections in place of what is not proved."""
    if len(proof.clauses) != len(shorter.clauses):
        return shorter  # a step could not be told at all, and those behind it were not asked for
    clauses = [
        cut if whole.verdict is ProofVerdict.NOT_PROVED else whole
        for whole, cut in zip(proof.clauses, shorter.clauses, strict=True)
    ]
    return replace(shorter, clauses=(*clauses,))


class _Prover:
    def __init__(self, node: NodeProgram, limits: ProofLimits) -> None:
        self._node, self._limits = node, limits
        self._terms = Terms()
        self._texts = texts_of(node, self._terms)
        self._to = Translator(self._terms, self._texts)
        about_records = (loop for state in node.states for loop in constraints_of(node, state))
        held = (*(each.expression for each in node.before), *about_records)
        self._inputs = InputTerms(node, self._to, bounds_of(held), limits.most)
        self._world = WorldTerms(node, self._to, self._inputs, self._assume, self._follows)
        self._assumed = list[Term]()
        self._clauses = list[ClauseProof]()
        self._effort = 0

    def run(self) -> NodeProof:
        names = {each.name: self._inputs.made(each.type, each.name) for each in self._node.inputs}
        names |= {f"old({name})": names[name] for name in self._node.changed}
        # Of all inputs, also where they are not asked for: a counterexample has values for them.
        self._assumed += [fact for facts in self._terms.facts.values() for fact in facts]
        self._assume_before(names)
        if not self._clauses and self._prove_steps(names):
            names |= self._world.touched()
            if self._assume_records(names):
                for clause in self._promised:
                    self._prove_clause(clause, names)
        failed = any(each.verdict is ProofVerdict.NOT_PROVED for each in self._clauses)
        held = ProofVerdict.PROVED_UP_TO if self._inputs.is_cut else ProofVerdict.PROVED
        return NodeProof(
            self._node.node_id,
            ProofVerdict.NOT_PROVED if failed else held,
            self._limits.most if self._inputs.is_cut else 0,
            (*self._clauses,),
            self._effort,
        )

    # What is assumed.

    def _assume_before(self, names: Names) -> None:
        for clause in self._node.before:
            try:
                holds = self._to.value(clause.expression, names)
            except NotExpressible:
                # More inputs are looked at than there are: what is proved of them holds.
                self._to.traps.clear()
                continue
            self._assume(holds, *self._no_traps())
        if self._some_input() is None and self._answer([], Depth.DEFINITIONS) is None:
            # Of nothing everything can be proved.
            line = self._node.before[0].line if self._node.before else 0
            self._clauses.append(
                ClauseProof(
                    "some inputs satisfy the constraints and preconditions",
                    line,
                    ProofVerdict.NOT_PROVED,
                    reason="none do; change the constraint or precondition that excludes the rest",
                )
            )

    def _assume_records(self, names: Names) -> bool:
        """Assume the invariants that held of records before; return whether any records do."""
        held = [each for each in self._node.after if each.kind == HELD_BEFORE]
        if not held or self._answer([], Depth.FACTS) is None:
            return True
        for clause in held:
            try:
                holds = self._to.value(clause.expression, names)
            except NotExpressible:
                self._to.traps.clear()
                continue
            self._assume(holds, *self._no_traps())
        if self._answer([], Depth.DEFINITIONS) is None:
            what, reason = "some records satisfy the invariants", "none do; change one of them"
            self._add(what, held[0].line, ProofVerdict.NOT_PROVED, reason=reason)
            return False
        return True

    @property
    def _promised(self) -> Iterator[Clause]:
        return (each for each in self._node.after if each.kind != HELD_BEFORE)

    def _follows(self, claim: Term) -> bool:
        """Return whether something follows from what is assumed so far."""
        if isinstance(claim, bool):
            return claim
        return self._answer([self._terms.no(claim)], Depth.FACTS) is None

    def _some_input(self) -> dict[str, Value] | None:
        generator = InputGenerator(self._node, Random(1))  # noqa: S311  (no secret)
        drawn = (generator.draw() for _ in range(_RANDOM_INPUTS))
        return next((each for each in drawn if first_broken(self._node.before, each) is None), None)

    def _assume(self, *parts: Term) -> None:
        self._assumed += [part for part in parts if part is not True]

    def _no_traps(self) -> list[Term]:
        met = [self._terms.no(condition) for _, condition in self._to.traps]
        self._to.traps.clear()
        return met

    # What is proved.

    def _prove_steps(self, names: Names) -> bool:
        """Prove of each step that it does not trap without an error; return whether the solver was
        told all of them."""
        for step in self._node.steps:
            what = f"step {step.name}: every trap and guard has a declared error"
            undeclared = {*step.errors.values()} - {*self._node.error_codes}
            if undeclared or (step.guards and GUARD not in step.errors):
                reason = "a guard or a trap has no error code, or one that is not declared"
                self._add(what, step.line, ProofVerdict.NOT_PROVED, reason=reason)
                return False
            try:
                found = self._prove_step(step, names, what)
            except NotExpressible as error:
                self._add(
                    what, step.line, ProofVerdict.NOT_PROVED, reason=f"not expressible: {error}"
                )
                for clause in self._promised:
                    told = f"not expressible: the step {step.name} before it: {error}"
                    self._add(_told(clause), clause.line, ProofVerdict.NOT_PROVED, reason=told)
                return False
            self._clauses.append(found)
        return True

    def _prove_step(self, step: NodeStep, names: Names, what: str) -> ClauseProof:
        guard: Term = True
        for clause in step.guards:
            guard = self._terms.all_of((guard, self._to.value(clause.expression, names, guard)))
        found = self._settled(step, what)
        self._assume(guard, *self._no_traps())
        _narrow(names, (guard.expression for guard in step.guards))
        if step.effect is not None:
            kind, value = step.effect.result, self._world.value(step, step.effect, names)
        elif step.expression is not None:
            kind, value = step.expression.type, self._to.value(step.expression, names)
        else:
            return found
        if found.verdict is not ProofVerdict.NOT_PROVED:
            found = self._settled(step, what)
        self._assume(*self._no_traps())
        names[step.name] = _fitting(kind, value)
        return found

    def _settled(self, step: NodeStep, what: str) -> ClauseProof:
        """Return the verdict on the traps that a step has met."""
        met, earlier = list[Term](), list[Term]()
        for kind, condition in self._to.traps:
            if kind in step.errors:
                earlier.append(self._terms.no(condition))
            else:
                met.append(self._terms.all_of((*earlier, condition)))

        def traps(inputs: Mapping[str, Value], world: GivenWorld) -> NodeOutcome | None:
            outcome = world.run(self._node, inputs)
            is_here = outcome.status is NodeStatus.TRAP and outcome.step == step.name
            return outcome if is_here else None

        return self._judged(what, step.line, met, traps)

    def _prove_clause(self, clause: Clause, names: Names) -> None:
        alone = replace(self._node, after=(*held_before(self._node), clause))

        def breaks(inputs: Mapping[str, Value], world: GivenWorld) -> NodeOutcome | None:
            outcome = world.run(alone, inputs)
            is_after = first_broken(self._node.before, inputs) is None
            is_broken = outcome.status is NodeStatus.BROKEN and is_after
            return outcome if is_broken and not outcome.reason.startswith(HELD_BEFORE) else None

        what = _told(clause)
        try:
            holds = self._to.value(clause.expression, names)
        except NotExpressible as error:
            self._to.traps.clear()
            self._add(
                what, clause.line, ProofVerdict.NOT_PROVED, reason=f"not expressible: {error}"
            )
            return
        broken = [self._terms.no(holds), *(condition for _, condition in self._to.traps)]
        self._to.traps.clear()
        self._clauses.append(self._judged(what, clause.line, broken, breaks))

    def _add(self, what: str, line: int, verdict: ProofVerdict, reason: str) -> None:
        self._clauses.append(ClauseProof(what, line, verdict, reason=reason))

    def _judged(
        self,
        what: str,
        line: int,
        wrong: Iterable[Term],
        replay: _Replay,
    ) -> ClauseProof:
        """Return the verdict on something, given the ways in which it goes wrong."""
        found = self._search([part for part in wrong if part is not False], replay)
        if found is None:
            held = ProofVerdict.PROVED_UP_TO if self._inputs.is_cut else ProofVerdict.PROVED
            return ClauseProof(what, line, held)
        if not isinstance(found, str):
            return self._refuted(what, line, *found, replay)
        generator = InputGenerator(self._node, Random(1))  # noqa: S311  (no secret)
        for _ in range(0 if self._node.has_effects else _RANDOM_INPUTS):
            if replay(values := generator.draw(), world := GivenWorld()):
                return self._refuted(what, line, values, world, replay)
        return ClauseProof(what, line, ProofVerdict.NOT_PROVED, reason=found)

    def _search(self, wrong: list[Term], replay: _Replay) -> _Found | str | None:
        """Return what replays of the ways in which something goes wrong, why that is not known, or
        None if nothing does. All ways are asked for at once by what is linear; if that does not
        settle it one after the other, since each is about few items only."""
        if not wrong:
            return None
        whole = self._terms.any_of(wrong)
        found = self._tried(whole, replay, _WHOLE_EFFORT, Depth.FACTS)
        if not isinstance(found, str):
            return found
        reason, until = "", self._effort + self._limits.effort
        for part in self._terms.alternatives(whole):
            for depth in Depth if self._terms.lemmas else (Depth.FACTS, Depth.DEFINITIONS):
                left = until - self._effort
                if left <= 0:
                    return reason or _NO_EFFORT
                most = left if depth is Depth.DEFINITIONS else min(left, _LINEAR_EFFORT)
                found = self._tried(part, replay, most, depth)
                if not isinstance(found, str):
                    break
            if isinstance(found, str):
                reason = reason or found
            elif found is not None:
                return found
        return reason or None

    def _tried(self, asked: Term, replay: _Replay, most: int, depth: Depth) -> _Found | str | None:
        """Return inputs and a world that satisfy something and replay, why that is not known, or
        None if nothing does."""
        answer = self._answer([asked], depth, most)
        if answer is None or isinstance(answer, str):
            return answer
        values, world = self._inputs.read(answer), self._world.read(answer)
        if values is not None and replay(values, world):
            return values, world
        return "unknown: what the solver gives as a counterexample does not replay"

    def _refuted(
        self,
        what: str,
        line: int,
        values: dict[str, Value],
        world: GivenWorld,
        replay: _Replay,
    ) -> ClauseProof:
        left, simpler = _MOST_SHRINKS, simpler_inputs(self._node, values)
        while left and (tried := next(simpler, None)) is not None:
            left -= 1
            if replay(tried, world):
                values, simpler = tried, simpler_inputs(self._node, tried)
        shown = self._node.show_inputs(values)
        outcome = replay(values, world)
        around = world if self._node.has_effects else None
        return ClauseProof(what, line, ProofVerdict.NOT_PROVED, shown, str(outcome), world=around)

    # Questions to the solver.

    def _answer(self, asked: list[Term], depth: Depth, most: int = 0) -> Term | str | None:
        """Return None if nothing satisfies all that is assumed and asked, a model of what does, or
        why neither is known, by so many steps at most."""
        z3 = self._terms.z3
        solver = z3.Solver(ctx=self._terms.context)
        solver.set("rlimit", min(self._limits.effort, most or self._limits.effort))
        if self._limits.timeout_s is not None:
            solver.set("timeout", max(1, int(self._limits.timeout_s * 1_000)))
        told = [*self._assumed, *self._terms.facts[""], *asked]
        solver.add(*self._terms.with_known(told, depth))
        found = solver.check()
        # Counted since the context was made, so the last one is the sum.
        self._effort = solver.statistics().get_key_value("rlimit count")
        if found == z3.unsat:
            return None
        if found == z3.sat:
            return solver.model()
        return f"unknown: {solver.reason_unknown()}"


def _told(clause: Clause) -> str:
    return f"{clause.kind}: {' '.join(clause.text.split())}"


def _fitting(kind: NodeType, value: Symbol) -> Symbol:
    """Return the value of a step that did not trap."""
    if not isinstance(value, Number) or isinstance(kind, TimestampType):
        return value
    low, high = range_of(kind)
    return value._replace(low=max(low, value.low), high=min(high, value.high))


def _narrow(names: Names, expressions: Iterable[Expression]) -> None:
    """Narrow the bounds of names by guards that held."""
    for path, (low, high) in bounds_of(expressions).items():
        value = names.get(path)
        if isinstance(value, Number) and max(low, value.low) <= min(high, value.high):
            names[path] = value._replace(low=max(low, value.low), high=min(high, value.high))


# Bounds that clauses set in any case, in units of the last place. Unlike those that random inputs
# are drawn from they have to be right: a proof rests on them.

_UNBOUNDED = 10**60
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "=="}


def bounds_of(expressions: Iterable[Expression]) -> dict[str, tuple[int, int]]:
    """Return the bounds of single values: of `amount`, `items[].price`, and `items#`, a length."""
    found: dict[str, tuple[int, int]] = {}
    for expression in expressions:
        for path, low, high in _bounds(expression, {}):
            before = found.get(path, (-_UNBOUNDED, _UNBOUNDED))
            found[path] = max(low, before[0]), min(high, before[1])
    return found


def _bounds(part: Expression, items: Mapping[str, str]) -> Iterator[tuple[str, int, int]]:
    match part:
        case Logic(operator="AND", left=left, right=right):
            yield from _bounds(left, items)
            yield from _bounds(right, items)
        case ItemLoop(kind=LoopKind.FORALL, name=name, over=over, body=body):
            if path := _path(over, items):
                yield from _bounds(body, {**items, name: f"{path}[]"})
        case Relation(operator=operator, left=left, right=right) if operator in _FLIPPED:
            for one, other, sign in ((left, right, operator), (right, left, _FLIPPED[operator])):
                if (path := _path(one, items)) and isinstance(other, Constant):
                    yield from _bound(path, sign, other, scale_of(one))
        case _:
            pass


def _bound(path: str, sign: str, limit: Constant, scale: int) -> Iterator[tuple[str, int, int]]:
    if isinstance(limit.value, bool) or not isinstance(limit.value, int):
        return
    up, down = 10**scale, 10 ** scale_of(limit)
    floor, ceiling = limit.value * up // down, -(-limit.value * up // down)
    match sign:
        case ">":
            yield path, floor + 1, _UNBOUNDED
        case ">=":
            yield path, ceiling, _UNBOUNDED
        case "<":
            yield path, -_UNBOUNDED, ceiling - 1
        case "<=":
            yield path, -_UNBOUNDED, floor
        case _:
            yield path, ceiling, floor


def _path(part: Expression, items: Mapping[str, str]) -> str:
    match part:
        case NamedValue(name=name):
            return items.get(name, name)
        case FieldOf(record=record, name=name) if inner := _path(record, items):
            return f"{inner}.{name}"
        case ItemOf(collection=whole, key=NamedValue(name=key)) if isinstance(whole.type, MapType):
            # Only of a loop over the keys of this same map.
            path = _path(whole, items)
            return f"{path}[]." if path and items.get(key) == f"{path}[]" else ""
        case FunctionCall(function="LENGTH", arguments=(whole,)) if inner := _path(whole, items):
            return f"{inner}#"
        case _:
            return ""
