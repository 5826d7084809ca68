"""The walk over one function that builds its dataflow graph: variables with the steps their values
came from, and the current position (pure).
"""

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from msgspec import Struct, structs

from vegakit.lang.analysis.dataflow import DataflowGraph, DataflowStep, LinkKind, StepKind
from vegakit.lang.analysis.dataflow_steps import (
    GraphBuilder,
    HoldKind,
    StepAction,
    StepEntry,
    bits,
)
from vegakit.lang.analysis.effects import NO_EFFECTS, EffectSet
from vegakit.lang.analysis.speculation import SpeculationRules, changes
from vegakit.lang.analysis.walk import ControlPoints, Place, Scopes, TreeWalk
from vegakit.lang.check.symbols import Checked, Unit
from vegakit.lang.codegen.bytecode import AgentSpec, Rights
from vegakit.lang.diagnostics import count_steps
from vegakit.lang.syntax.tree import Catch, FnDecl, Node, Stmt, ToolDecl

# Variables while a function is walked: which steps each value came from.


class Dependency(Struct, frozen=True):
    """A step whose answer is in the value; `round_of` is the outermost loop of whose earlier round
    it is. `name` is the variable that the value was last read from."""

    step: int
    round_of: int | None = None
    name: str = ""


class Provenance(Struct, frozen=True):
    """`later` is what an `await` of it has to wait for besides. `handles` are the spawns that made
    the process it is, and `~loop` for an item that a loop goes through; None: nobody knows."""

    needs: frozenset[Dependency] = frozenset()
    later: frozenset[Dependency] = frozenset()
    handles: frozenset[int] | None = None

    def read_from(self, name: str) -> "Provenance":
        """Return it as it is when it was last read from the variable `name`."""
        return self._each(lambda need: Dependency(need.step, need.round_of, name), self.handles)

    def nameless(self) -> "Provenance":
        """Return it without the variable that it was read from."""
        return self.read_from("")

    def a_round_ago(self, loop: int) -> "Provenance":
        """Return it as the next round sees it. Which of its processes it is, is not known there."""
        return self._each(
            lambda need: need if need.round_of is not None else Dependency(need.step, loop)
        )

    def after(self, loop: int) -> "Provenance":
        """Return it as it is seen behind the loop."""
        return self._each(
            lambda need: Dependency(need.step) if need.round_of == loop else need, self.handles
        )

    def awaited(self) -> "Provenance":
        """Return it as an `await` leaves it."""
        return Provenance(self.needs | self.later)

    def _each(
        self, change: Callable[[Dependency], Dependency], handles: frozenset[int] | None = None
    ) -> "Provenance":
        needs, later = frozenset(map(change, self.needs)), frozenset(map(change, self.later))
        return Provenance(needs, later, handles)


NO_DEPENDENCIES = Provenance()


def needing(*steps: int) -> Provenance:
    """Return the provenance of a value that is made of the answers of these steps."""
    return Provenance(frozenset(Dependency(step) for step in steps))


def both(*values: Provenance) -> Provenance:
    """Return the provenance of a value that is made of all of them."""
    needs = frozenset[Dependency]().union(*(value.needs for value in values))
    return Provenance(needs, frozenset[Dependency]().union(*(value.later for value in values)))


def either(one: Provenance, other: Provenance) -> Provenance:
    """Return the provenance of a value that is one or the other."""
    same = one.handles is not None and other.handles is not None
    handles = (one.handles or frozenset()) | (other.handles or frozenset()) if same else None
    return Provenance(one.needs | other.needs, one.later | other.later, handles)


Frames: TypeAlias = list[dict[str, Provenance]]


class DataflowScopes(Scopes[Provenance]):
    """Variables with the steps that their values came from."""

    def __init__(self) -> None:
        super().__init__(either)

    def declare(self, name: str, value: Provenance) -> None:
        """Declare a variable in the innermost block. It forgets from which variable the value was
        read."""
        self.define(name, value.nameless())

    def find(self, name: str) -> Provenance:
        depth = self.depth_of(name)
        return NO_DEPENDENCIES if depth is None else self.frames[depth][name]

    def assign(self, name: str, value: Provenance) -> None:
        """Give a variable another value; a name that is not declared is left alone."""
        depth = self.depth_of(name)
        if depth is not None:
            self.set((depth, name), value.nameless())

    def changed(self, before: Frames) -> dict[Place, Provenance]:
        """Return what has another value than it had, of what was there already."""
        return {
            (depth, name): value
            for depth, frame in enumerate(self.frames[: len(before)])
            for name, value in frame.items()
            if name in before[depth] and value != before[depth][name]
        }

    def either_of(self, ends: Sequence[Frames]) -> None:
        """Let it be as at any of these ends, of the same blocks. No watch is told: it has seen each
        assignment by itself, and what was not assigned is no news to it."""
        self.restore(ends[0])
        for frames in ends[1:]:
            for depth, theirs in enumerate(frames):
                if theirs is self.frames[depth]:
                    continue
                mine = self._writable(depth)
                count_steps(1 + len(mine) // 4)
                for name in mine.keys() & theirs.keys():
                    if mine[name] is not theirs[name]:
                        mine[name] = either(mine[name], theirs[name])

    def mark(self, names: Iterable[str], more: Provenance) -> None:
        """Let what they are depend on more."""
        for name in names:
            depth = self.depth_of(name)
            if depth is not None:
                old = self.frames[depth][name]
                new = Provenance(old.needs | more.needs, old.later | more.later, old.handles)
                self.set((depth, name), new)


# A walk over one function that runs nothing: it notes every step and what that waits for.
#
# It goes as the machine does that looks ahead: in order, with what is not known yet left open.


_MOST_NODES = 50_000
_MOST_STEPS, _MOST_LINKS = 2_000, 100_000
_LONGEST = 100
_BLOCKS = frozenset(
    (
        StepKind.LOOP,
        StepKind.BRANCH,
        StepKind.TRY,
        StepKind.HANDLER,
        StepKind.SESSION,
        StepKind.PARALLEL,
        StepKind.MONITOR,
    )
)


class DataflowTooLargeError(Exception):
    """The walk would take too long."""


@dataclass(slots=True)
class DataflowFacts:
    """Facts about the whole program. `everyone` is what any agent may touch. `doing` are the
    functions that do anything but compute, `failing` those that may fail, `asking` those with a
    question. `confirmed` are the loops that ask a person first. `places` are of each file.
    `walk` builds the graph of one function, and `flows` keeps the graphs built so far, with None
    for a function whose walk has not ended; `left_open` is what waits at its end for something in
    it still, `fails_by_itself` are those of which something in them decides whether they fail, and
    `tested` are the variables on which their branches depend."""

    checked: Checked
    rules: SpeculationRules
    specs: dict[str, AgentSpec]
    everyone: EffectSet
    bodies: dict[str, tuple[Unit, FnDecl | ToolDecl]]
    effect_sets: dict[str, EffectSet]
    rights: dict[str, Rights]
    numbers: dict[str, int]
    doing: frozenset[str]
    failing: frozenset[str]
    asking: frozenset[str]
    confirmed: frozenset[int]
    places: dict[str, ControlPoints]
    walk: Callable[["DataflowFacts", str], DataflowGraph]
    flows: dict[str, DataflowGraph | None] = field(default_factory=dict)
    left_open: dict[str, tuple[HoldKind, ...]] = field(default_factory=dict)
    fails_by_itself: set[str] = field(default_factory=set[str])
    tested: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    nodes: int = 0

    def count(self, nodes: int = 1) -> None:
        """Count nodes, and give up on a function that is too large."""
        count_steps(3 * nodes)
        self.nodes += nodes
        if self.nodes > _MOST_NODES:
            raise DataflowTooLargeError

    def graph_of(self, name: str) -> DataflowGraph:
        """Return the graph of a function, built once. The caller sees to it that its walk is not
        still going on, since a function that calls itself would be walked for ever."""
        known = self.flows.get(name)
        if known is None:
            self.flows[name] = None
            known = self.flows[name] = self.walk(self, name)
        return known

    def effects(self, name: str) -> EffectSet:
        """Return what a function may touch, which is nothing if it is not known."""
        return self.effect_sets.get(name, NO_EFFECTS)


@dataclass(frozen=True, slots=True)
class WalkState:
    """A place in the function. `seen` are the steps before it; `passed` those of them that are done
    when the program comes here. `gates` are the steps that hold up what stands here. `decider` is
    the block that decides whether the program comes here; `returned` and `left` are those that
    could have ended the function, or a block that catches what they fail with, or the round of the
    loop, before. `stepped_over` are gates of sends with budgets of their own in undecided blocks,
    each behind those that decide the block."""

    seen: int = 0
    passed: int = 0
    gates: Mapping[HoldKind, tuple[int, str]] = field(
        default_factory=dict[HoldKind, tuple[int, str]]
    )
    parent: int | None = None
    decider: int | None = None
    returned: int = 0
    left: int = 0
    rare: bool = False
    stepped_over: frozenset[tuple[int, HoldKind, int, str]] = frozenset()


@dataclass(slots=True)
class DataflowWalk(TreeWalk[DataflowScopes]):
    """The walk over one function. `loops` are those around, innermost last; `carried` is what the
    rounds of each hand on to the next.
    `starts` is where each step begins, `ends_at` what each decider ends, as `end_in` tells,
    `gates_at` what was held up there, and `failing` the deciders by which an error may leave the
    function. `asking` is why all behind waits for what may fail here: a `catch` asks a person."""

    facts: DataflowFacts
    unit: Unit
    name: str
    scopes: DataflowScopes = field(default_factory=DataflowScopes)
    here: WalkState = field(default_factory=WalkState)
    builder: GraphBuilder = field(default_factory=GraphBuilder)
    loops: list[int] = field(default_factory=list)
    carried: dict[int, dict[Place, Provenance]] = field(default_factory=dict)
    starts: list[int] = field(default_factory=list)
    ends_at: dict[int, int] = field(default_factory=dict)
    gates_at: dict[int, Mapping[HoldKind, tuple[int, str]]] = field(default_factory=dict)
    failing: int = 0
    asking: str = ""
    _numbers: dict[int, int] = field(default_factory=dict)
    _line_ends: list[int] = field(default_factory=list)

    @property
    def places(self) -> ControlPoints:
        """Return the control points of the file that the function is in."""
        return self.facts.places[self.unit.path]

    def __post_init__(self) -> None:
        self._line_ends = self.unit.line_ends

    def line(self, node: Node) -> int:
        """Return the line on which a node begins, counted from 1."""
        return bisect_right(self._line_ends, node.at - 1) + 1

    def column(self, node: Node) -> int:
        """Return the column in which a node begins, counted from 1."""
        line = self.line(node)
        return node.at - (self._line_ends[line - 2] if line > 1 else -1)

    def text(self, start: int, end: int) -> str:
        """Return a piece of the source on one line, cut off with `…` where it is too long to
        show."""
        said = " ".join(self.unit.text[start : min(end, start + 4 * _LONGEST)].split())
        return said if len(said) <= _LONGEST else said[: _LONGEST - 1] + "…"

    def statement(self, node: Stmt) -> None:
        self.facts.count()
        STATEMENTS[type(node)](self, node)

    def to(self, **changes: object) -> None:
        """Move on to a place that differs from this one by these fields of `WalkState`."""
        self.here = replace(self.here, **changes)  # pyright: ignore[reportArgumentType]

    def note(
        self, node: Node, kind: StepKind, what: str, act: StepAction, *values: Provenance
    ) -> int:
        """Return the step of this node; on a later round of the walk the same again, with more
        links."""
        if self.asking:
            act = structs.replace(act, bars=True)
        number = self._number(node, kind, what, act)
        self._link_needs(number, values if kind in _BLOCKS else [each.awaited() for each in values])
        self._link_control(number)
        if kind not in _BLOCKS:
            self.builder.beside(number, self.here.seen, self.here.passed)
        if order := self.builder.entries[number].step.order:
            self.builder.order(number, self.here.passed, order)
        self._enter(number, kind, act)
        return number

    def _number(self, node: Node, kind: StepKind, what: str, act: StepAction) -> int:
        number = self._numbers.setdefault(id(node), len(self.builder.entries))
        if number == len(self.builder.entries):
            if number >= _MOST_STEPS or self.builder.links > _MOST_LINKS:
                raise DataflowTooLargeError
            here = self.here
            lasts = act.lasts and kind not in _BLOCKS
            place = (self.unit.path, self.line(node), here.parent, act.order)
            bars = bool(act.barrier) or kind in (StepKind.PARALLEL, StepKind.MONITOR)
            step = DataflowStep(
                number,
                kind,
                what,
                *place,
                lasts,
                act.later and lasts,
                here.rare,
                bars,
                self.column(node),
            )
            self.builder.add(step, act)
            self.starts.append(node.at)
        return number

    def _enter(self, number: int, kind: StepKind, act: StepAction) -> None:
        bit, here = 1 << number, self.here
        if kind in _BLOCKS:
            self.to(seen=here.seen | bit if act.order else here.seen)
            return
        passed = here.passed if act.later else here.passed | bit
        self.here = replace(here, seen=here.seen | bit, passed=passed)
        if act.barrier:
            self.bar(bit, self.builder.barrier_text(number))
        if self.asking and kind is not StepKind.PRINT and not act.later:
            self.hold(HoldKind.ALL, bit, self.asking)
        if act.carves:
            line = self.builder.entries[number].step.line
            self.hold(HoldKind.SENDS, bit, f"barrier: money is set aside at line {line}")

    def hold_by(self, value: Provenance, text: str) -> None:
        """Let all behind wait for the steps that a value is made of."""
        needs = {need.step for need in value.needs if need.round_of is None}
        self.hold(HoldKind.ALL, sum(1 << step for step in needs), text)

    def bar(self, mask: int, text: str) -> None:
        """Let nothing behind start before these are done."""
        self.hold_next_round(HoldKind.ALL, mask, text)
        self.to(gates={**self.here.gates, HoldKind.ALL: (mask, text)})

    def hold(self, gate: HoldKind, mask: int, text: str) -> None:
        """Let what the gate is for wait for these as well."""
        if mask:
            self.hold_next_round(gate, mask, text)
            self.hold_this_round(gate, mask, text)

    def hold_this_round(self, gate: HoldKind, mask: int, text: str) -> None:
        """Let what the gate is for wait for these in this round of the loops around."""
        older, _ = self.here.gates.get(gate, (0, ""))
        self.to(gates={**self.here.gates, gate: (older | mask, text)})

    def hold_next_round(self, gate: HoldKind, mask: int, text: str) -> None:
        """Let what the gate is for wait in the next round of the loops around, unless this runs
        only after a failure."""
        if not self.here.rare:
            self.builder.open_gate(gate, mask, text, self.loops)

    def step_over_own_budgets(
        self, deciders: int, before: Mapping[HoldKind, tuple[int, str]]
    ) -> None:
        """Let what stands behind an undecided block wait for sends in it that have budgets of
        their own only if it begins when the block is decided: else the lookahead steps over them.
        `before` were the gates where it begins."""
        gates, stepped = {**self.here.gates}, self.here.stepped_over
        for kind in (HoldKind.BUDGETS, HoldKind.ROUNDS):
            inside, older = gates.pop(kind, None), before.get(kind)
            if older is not None:
                gates[kind] = older
            if inside is not None and inside != older:
                stepped |= {(deciders, kind, *inside)}
        self.to(gates=gates, stepped_over=stepped)

    def come_to(self, gate: HoldKind, text: str) -> None:
        """Let what the gate is for wait until the program comes here."""
        self.hold(gate, self.builder.last_of(self.here.passed), text)

    def end_by(self, number: int, at: int, *, fails: bool) -> None:
        """Note a decider of an end, which `fails` if it may be by an error that leaves the
        function. One that ends no more and that this one waits for needs no mention."""
        self.ends_at[number] = at
        self.failing |= fails << number
        self.gates_at.setdefault(number, self.here.gates)
        waited = self.builder.entries[number].before
        further = [
            one
            for one in bits(self.here.returned)
            if self.ends_at.get(one, -1) < at or not waited >> one & 1
        ]
        self.to(returned=sum(1 << one for one in further) | 1 << number)

    def end_rounds(self, number: int, at: int | None, *, breaks: bool = False) -> None:
        """Let the next round wait for a decider of an end, in all loops around that it ends. If it
        `breaks`, it ends the innermost."""
        for loop in reversed(self.loops):
            if breaks or (at is not None and at < self.starts[loop]):
                self.builder.link(number, loop, LinkKind.DECIDED, self._decides(number), loop)
            breaks = False

    def caught_here(self) -> int:
        """Return those that could have failed before, into a block of this function that catches
        it: behind that block the program goes on."""
        return sum(1 << one for one in bits(self.here.returned) if self.ends_at.get(one, -1) >= 0)

    def step_over_fails(self, number: int, failing: Sequence[int], taken: Catch) -> None:
        """Note what the lookahead does not know behind a block that catches a `fail` that is not
        decided yet: what stands behind it in the block may run, or what is done after it."""
        handlers = {entry.step.id for entry in self.builder.inside(number) if entry.step.rare}
        after = self._numbers.get(id(taken), -1)
        handlers -= {after, *(entry.step.id for entry in self.builder.inside(after))}
        inside = [e for e in self.builder.inside(number) if e.step.id not in handlers]
        for one in failing:
            # In a loop, what stands before it comes again in the next round.
            first = min(self.builder.loops_around(one, number), default=one + 1)
            self._hold_up(one, [entry for entry in inside if entry.step.id >= first])

    def step_over_rest(self) -> None:
        """Note what the lookahead does not know behind a call of the function: where it may have
        been left before its end, what stands behind that may run or not."""
        for one in bits(self.here.returned):
            if self.ends_at.get(one, -1) < 0:
                first = min(self.builder.loops_around(one), default=one + 1)
                self._hold_up(one, self.builder.entries[first:])

    def step_over_left(self, before: int, *, whole: bool) -> None:
        """Note what the lookahead does not know behind the round of a loop that may have been left:
        what stands behind that may run or not, or the `whole` of another round."""
        inside = self.builder.inside(self.loops[-1])
        for one in bits(self.here.left & ~before):
            self._hold_up(one, [entry for entry in inside if whole or entry.step.id > one])

    def step_over(self, number: int) -> None:
        """Note what the lookahead does not know behind a block that is not decided yet: how much
        money it will take, which processes it will ask, and what it will change."""
        self._hold_up(number, self.builder.inside(number))

    def _hold_up(self, number: int, inside: list[StepEntry]) -> None:
        self.facts.count(len(inside) // 50)
        if any(entry.step.kind is StepKind.HANDLER for entry in inside):
            ends = {*self.ends_at.values()}
            inside = [entry for entry in inside if self._is_come_to(entry.step, number, ends)]
        acts = [entry.act for entry in inside]
        kinds = {entry.step.kind for entry in inside} | {self.builder.entries[number].step.kind}
        sends, unnamed = any(a.effects.sends for a in acts), any(a.unnamed for a in acts)
        uncounted = any(a.uncounted for a in acts) or (sends and StepKind.LOOP in kinds)
        by = self._decides(number)
        if any(a.bars for a in acts):
            self.hold(HoldKind.ALL, 1 << number, f"barrier: {by}")
        if uncounted:
            self.hold(HoldKind.SENDS, 1 << number, f"the budget left for it is {by}")
        if uncounted or unnamed:
            self.hold(HoldKind.PROCESSES, 1 << number, f"the messages before it are {by}")
        if any(changes(a.effects) for a in acts) or (unnamed and changes(self.facts.everyone)):
            self.hold(HoldKind.READS, 1 << number, f"what it reads is {by}")

    def _is_come_to(self, step: DataflowStep, block: int, ends: set[int]) -> bool:
        """Return whether the program may come to a step in a block though no call fails: not to one
        in a handler, unless a `fail` leads there, which begins one of the `ends`."""
        while step.parent is not None and step.id != block:
            if step.kind is StepKind.HANDLER and self.starts[step.parent] not in ends:
                return False
            step = self.builder.entries[step.parent].step
        return True

    def _link_needs(self, number: int, values: Sequence[Provenance]) -> None:
        for value in values:
            for need in value.needs:
                self.need(number, need)

    def need(self, number: int, need: Dependency) -> None:
        """Link a step to one whose answer it needs."""
        self.builder.link(need.step, number, LinkKind.NEEDS, need.name, need.round_of)

    def _link_control(self, number: int) -> None:
        here = self.here
        deciders = here.returned | here.left
        if here.decider is not None:
            deciders |= 1 << here.decider
        for decider in bits(deciders & ~(1 << number)):
            self.builder.link(decider, number, LinkKind.DECIDED, self._decides(decider))
        for gate, (mask, text) in here.gates.items():
            if not self._is_looked_into(number, mask):
                self.builder.gate(gate, mask, number, text)
        for by, gate, mask, text in sorted(here.stepped_over):
            if self.builder.is_behind(number, by):
                self.builder.gate(gate, mask, number, text)

    def _is_looked_into(self, number: int, held_by: int) -> bool:
        """Return whether this is a block in a session that only the begin of the session holds up:
        the lookahead goes in, though it begins nothing there, and what it decides counts behind."""
        entries = self.builder.entries
        is_session = all(entries[one].step.kind is StepKind.SESSION for one in bits(held_by))
        return is_session and entries[number].step.kind in _BLOCKS

    def _decides(self, decider: int) -> str:
        step = self.builder.entries[decider].step
        match step.kind:
            case StepKind.TRY | StepKind.SESSION | StepKind.PARALLEL if self.here.rare:
                return f"only if the {step.kind} at line {step.line} fails"
            case StepKind.MONITOR:
                return "when the process ends"
            case _:
                word, _, more = step.what.split(maxsplit=1)[0].partition("(")
                return f"decided by the {word}{'(…)' if more else ''} at line {step.line}"

    def decides(self, number: int) -> bool:
        """Return whether something has to be done before this block is decided."""
        return self.builder.entries[number].waits

    @contextmanager
    def inside(self, number: int, *, decided: bool) -> Generator[None]:
        """Walk what stands in a block; `decided`: by the block."""
        before = self.here
        self.to(parent=number, decider=number if decided else before.decider)
        yield
        self.to(parent=before.parent, decider=before.decider)

    def branches(self, *ways: Callable[[], None]) -> None:
        """Walk each way from here; afterwards it is as any of them left it."""
        before, start = self.scopes.copy(), self.here
        frames, ends = list[Frames](), list[WalkState]()
        for way in ways:
            self.scopes.restore(before)
            self.here = start
            way()
            frames.append(self.scopes.copy())
            ends.append(self.here)
        self.scopes.either_of(frames)
        self.meet(ends)

    def meet(self, ends: Sequence[WalkState]) -> None:
        """Go on from where any of these ended."""
        for end in ends:
            here = self.here
            self.to(
                seen=here.seen | end.seen,
                passed=here.passed | end.passed,
                gates=_joined_gates(here.gates, end.gates),
                returned=here.returned | end.returned,
                left=here.left | end.left,
                rare=here.rare and end.rare,
                stepped_over=here.stepped_over | end.stepped_over,
            )

    def meet_tasks(self, start: WalkState, ends: Sequence[WalkState]) -> None:
        """Go on from where all of these tasks ended, which ran beside each other from the start."""
        self.builder.take_turns([end.seen & ~start.seen for end in ends])
        self.meet(ends)

    def keep_seen(self, here: WalkState) -> WalkState:
        """Return that place again, after what was seen here."""
        return replace(here, seen=here.seen | self.here.seen)


OWN_BUDGET = "in order: it has a budget of its own"


def own_budget_text(line: int) -> str:
    """Return why steps behind a send with a budget of its own wait."""
    return f"barrier: the budget of the send at line {line}"


def _joined_gates(
    one: Mapping[HoldKind, tuple[int, str]], other: Mapping[HoldKind, tuple[int, str]]
) -> Mapping[HoldKind, tuple[int, str]]:
    gates = dict(one)
    for gate, (mask, text) in other.items():
        gates[gate] = (mask | gates.get(gate, (0, ""))[0], text)
    return gates


STATEMENTS: dict[type, Callable[[DataflowWalk, Any], None]] = {}
"""The rule of each kind of statement. The module of the statements fills it when it is imported."""
