"""The walk over one function that builds its dataflow graph: variables with the steps their values
came from, and the current position (pure).
"""

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from msgspec import Struct

from vegakit.lang.analysis.dataflow import DataflowGraph, DataflowStep, LinkKind, StepKind
from vegakit.lang.analysis.dataflow_steps import (
    AgentFacts,
    ControlPoints,
    GraphBuilder,
    StepAction,
    StepEntry,
    bits,
)
from vegakit.lang.analysis.effects import NO_EFFECTS, EffectSet
from vegakit.lang.check.symbols import Checked, Unit
from vegakit.lang.codegen.bytecode import Rights
from vegakit.lang.diagnostics import count_steps
from vegakit.lang.syntax.tree import Block, FnDecl, Node, Stmt, ToolDecl

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
        return self._each(lambda need: Dependency(need.step, need.round_of, name), self.handles)

    def nameless(self) -> "Provenance":
        return self.read_from("")

    def a_round_ago(self, loop: int) -> "Provenance":
        """Which of its processes it is, is not known."""
        return self._each(
            lambda need: need if need.round_of is not None else Dependency(need.step, loop)
        )

    def after(self, loop: int) -> "Provenance":
        return self._each(
            lambda need: Dependency(need.step) if need.round_of == loop else need, self.handles
        )

    def awaited(self) -> "Provenance":
        return Provenance(self.needs | self.later)

    def _each(
        self, change: Callable[[Dependency], Dependency], handles: frozenset[int] | None = None
    ) -> "Provenance":
        needs, later = frozenset(map(change, self.needs)), frozenset(map(change, self.later))
        return Provenance(needs, later, handles)


NO_DEPENDENCIES = Provenance()


def needing(*steps: int) -> Provenance:
    return Provenance(frozenset(Dependency(step) for step in steps))


def both(*values: Provenance) -> Provenance:
    """Made of all of them."""
    needs = frozenset[Dependency]().union(*(value.needs for value in values))
    return Provenance(needs, frozenset[Dependency]().union(*(value.later for value in values)))


def either(one: Provenance, other: Provenance) -> Provenance:
    same = one.handles is not None and other.handles is not None
    handles = (one.handles or frozenset()) | (other.handles or frozenset()) if same else None
    return Provenance(one.needs | other.needs, one.later | other.later, handles)


Frames: TypeAlias = list[dict[str, Provenance]]
Place: TypeAlias = tuple[int, str]


class DataflowScopes:
    """Innermost last. A watch joins all that is assigned while it lasts: what leaves a block in its
    middle sees values that the end of the block does not."""

    def __init__(self) -> None:
        self.frames: Frames = [{}]
        self._watches: list[dict[Place, Provenance]] = []

    @contextmanager
    def block(self) -> Generator[None]:
        self.frames.append({})
        yield
        self.frames.pop()

    @contextmanager
    def watch(self) -> Generator[dict[Place, Provenance]]:
        seen: dict[Place, Provenance] = {}
        self._watches.append(seen)
        yield seen
        self._watches.pop()

    def declare(self, name: str, value: Provenance) -> None:
        self.frames[-1][name] = value.nameless()

    def find(self, name: str) -> Provenance:
        depth = self._depth(name)
        return NO_DEPENDENCIES if depth is None else self.frames[depth][name]

    def assign(self, name: str, value: Provenance) -> None:
        depth = self._depth(name)
        if depth is not None:
            self.put((depth, name), value.nameless())

    def put(self, place: Place, value: Provenance) -> None:
        count_steps(1 + len(self._watches))
        depth, name = place
        self.frames[depth][name] = value
        for seen in self._watches:
            seen[place] = either(seen[place], value) if place in seen else value

    def copy(self) -> Frames:
        count_steps(1 + sum(map(len, self.frames)) // 16)
        return [dict(frame) for frame in self.frames]

    def restore(self, frames: Frames) -> None:
        count_steps(1 + sum(map(len, frames)) // 16)
        self.frames = [dict(frame) for frame in frames]

    def changed(self, before: Frames) -> dict[Place, Provenance]:
        """Since then, of what was there already."""
        return {
            (depth, name): value
            for depth, frame in enumerate(self.frames[: len(before)])
            for name, value in frame.items()
            if name in before[depth] and value != before[depth][name]
        }

    def join(self, values: dict[Place, Provenance]) -> None:
        """They may be there instead of what is."""
        for place, value in values.items():
            depth, name = place
            if depth < len(self.frames) and name in self.frames[depth]:
                self.put(place, either(self.frames[depth][name], value))

    def either_of(self, ends: Sequence[Frames]) -> None:
        """As at any of these ends, of the same blocks."""
        self.restore(ends[0])
        for frames in ends[1:]:
            for mine, theirs in zip(self.frames, frames, strict=True):
                count_steps(1 + len(mine) // 4)
                for name in mine.keys() & theirs.keys():
                    mine[name] = either(mine[name], theirs[name])

    def mark(self, names: Iterable[str], more: Provenance) -> None:
        """What they are depends on more."""
        for name in names:
            depth = self._depth(name)
            if depth is not None:
                old = self.frames[depth][name]
                new = Provenance(old.needs | more.needs, old.later | more.later, old.handles)
                self.put((depth, name), new)

    def _depth(self, name: str) -> int | None:
        for depth in range(len(self.frames) - 1, -1, -1):
            if name in self.frames[depth]:
                return depth
        return None


# A walk over one function that runs nothing: it notes every step and what that waits for.
#
# It goes as the machine does that looks ahead: in order, with what is not known yet left open.


_MOST_NODES = 50_000
_MOST_STEPS = 500
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
    """Of the whole program. `doing` are the functions that do anything but compute, `barred` those
    with a barrier in them; `places` are of each file. `walk` builds the graph of one function, and
    `flows` keeps the graphs built so far, with None for a function whose walk has not ended."""

    checked: Checked
    agents: AgentFacts
    bodies: dict[str, tuple[Unit, FnDecl | ToolDecl]]
    effect_sets: dict[str, EffectSet]
    rights: dict[str, Rights]
    doing: frozenset[str]
    barred: frozenset[str]
    places: dict[str, ControlPoints]
    walk: Callable[["DataflowFacts", str], DataflowGraph]
    flows: dict[str, DataflowGraph | None] = field(default_factory=dict)
    nodes: int = 0

    def count(self, nodes: int = 1) -> None:
        count_steps(3 * nodes)
        self.nodes += nodes
        if self.nodes > _MOST_NODES:
            raise DataflowTooLargeError

    def graph_of(self, name: str) -> DataflowGraph:
        known = self.flows.get(name)
        if known is None:
            self.flows[name] = None
            known = self.flows[name] = self.walk(self, name)
        return known

    def effects(self, name: str) -> EffectSet:
        return self.effect_sets.get(name, NO_EFFECTS)


@dataclass(frozen=True, slots=True)
class WalkState:
    """A place in the function. `seen` are the steps before it; `passed` those of them that are done
    when the program comes here. `decider` is the block that decides whether it does; `returned` and
    `left` are those that could have ended the function, or the round of the loop, before."""

    seen: int = 0
    passed: int = 0
    barrier: int = 0
    barrier_text: str = ""
    parent: int | None = None
    decider: int | None = None
    returned: int = 0
    left: int = 0
    rare: bool = False
    streams: bool = False


@dataclass(slots=True)
class DataflowWalk:
    facts: DataflowFacts
    unit: Unit
    name: str
    scopes: DataflowScopes = field(default_factory=DataflowScopes)
    here: WalkState = WalkState()
    builder: GraphBuilder = field(default_factory=GraphBuilder)
    loops: list[int] = field(default_factory=list)
    carried: dict[int, dict[Place, Provenance]] = field(default_factory=dict)
    _numbers: dict[int, int] = field(default_factory=dict)
    _line_ends: list[int] = field(default_factory=list)

    @property
    def places(self) -> ControlPoints:
        return self.facts.places[self.unit.path]

    def __post_init__(self) -> None:
        self._line_ends = self.unit.line_ends

    def line(self, node: Node) -> int:
        return bisect_right(self._line_ends, node.at - 1) + 1

    def text(self, start: int, end: int) -> str:
        said = " ".join(self.unit.text[start : min(end, start + 4 * _LONGEST)].split())
        return said if len(said) <= _LONGEST else said[: _LONGEST - 1] + "…"

    def all(self, body: Sequence[Stmt]) -> None:
        for stmt in body:
            self.statement(stmt)

    def statement(self, node: Stmt) -> None:
        self.facts.count()
        STATEMENTS[type(node)](self, node)

    def block(self, block: Block) -> None:
        with self.scopes.block():
            self.all(block.body)

    def to(self, **changes: object) -> None:
        self.here = replace(self.here, **changes)  # pyright: ignore[reportArgumentType]

    def note(
        self, node: Node, kind: StepKind, what: str, act: StepAction, *values: Provenance
    ) -> int:
        """The step of this node; on a later round of the walk the same again, with more links."""
        number = self._number(node, kind, what, act)
        self._link_needs(number, values if kind in _BLOCKS else [each.awaited() for each in values])
        self._link_control(number)
        if kind not in _BLOCKS:
            self.builder.beside(number, self.here.seen, self.here.passed)
        if act.order:
            self.builder.order(number, self.here.passed, act.order)
        self._enter(number, kind, act)
        return number

    def _number(self, node: Node, kind: StepKind, what: str, act: StepAction) -> int:
        number = self._numbers.setdefault(id(node), len(self.builder.entries))
        if number == len(self.builder.entries):
            if number >= _MOST_STEPS:
                raise DataflowTooLargeError
            here, order = self.here, act.order
            if here.streams and not order and kind not in _BLOCKS:
                order = "in order: inside a stream"
            lasts = act.lasts and kind not in _BLOCKS
            place = (self.unit.path, self.line(node), here.parent, order)
            bars = bool(act.barrier) or kind in (StepKind.PARALLEL, StepKind.MONITOR)
            step = DataflowStep(
                number, kind, what, *place, lasts, act.later and lasts, here.rare, bars
            )
            self.builder.entries.append(StepEntry(step, act))
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

    def bar(self, mask: int, text: str) -> None:
        """Nothing behind starts before these are done."""
        self.to(barrier=mask, barrier_text=text)

    def _link_needs(self, number: int, values: Sequence[Provenance]) -> None:
        for value in values:
            for need in value.needs:
                self.need(number, need)

    def need(self, number: int, need: Dependency) -> None:
        self.builder.link(need.step, number, LinkKind.NEEDS, need.name, need.round_of)

    def _link_control(self, number: int) -> None:
        here = self.here
        deciders = here.returned | here.left
        if here.decider is not None:
            deciders |= 1 << here.decider
        for decider in bits(deciders & ~(1 << number)):
            self.builder.link(decider, number, LinkKind.DECIDED, self._decides(decider))
        for before in bits(here.barrier & ~(1 << number)):
            self.builder.link(before, number, LinkKind.BARRIER, here.barrier_text)

    def _decides(self, decider: int) -> str:
        step = self.builder.entries[decider].step
        match step.kind:
            case StepKind.TRY | StepKind.SESSION | StepKind.PARALLEL if self.here.rare:
                return f"only if the {step.kind} at line {step.line} fails"
            case StepKind.MONITOR:
                return "when the process ends"
            case _:
                return f"decided by the {step.what.split(maxsplit=1)[0]} at line {step.line}"

    def decides(self, number: int) -> bool:
        """Whether something has to be done before this block is decided."""
        return self.builder.entries[number].waits

    @contextmanager
    def inside(self, number: int, *, decided: bool) -> Generator[None]:
        """What stands in a block; `decided`: by the block."""
        before = self.here
        self.to(parent=number, decider=number if decided else before.decider)
        yield
        self.to(parent=before.parent, decider=before.decider)

    def branches(self, *ways: Callable[[], None]) -> None:
        """Each from here; afterwards it is as any of them left it."""
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
        for end in ends:
            here = self.here
            self.to(
                seen=here.seen | end.seen,
                passed=here.passed | end.passed,
                barrier=here.barrier | end.barrier,
                barrier_text=end.barrier_text or here.barrier_text,
                returned=here.returned | end.returned,
                left=here.left | end.left,
                rare=here.rare and end.rare,
            )

    def keep_seen(self, here: WalkState) -> WalkState:
        """That place again, after what was seen here."""
        return replace(here, seen=here.seen | self.here.seen)


STATEMENTS: dict[type, Callable[[DataflowWalk, Any], None]] = {}
"""The rule of each kind of statement. The module of the statements fills it when it is imported."""
