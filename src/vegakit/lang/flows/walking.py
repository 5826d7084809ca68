"""A walk over one function that runs nothing: it notes every step and what that waits for.

It goes as the machine does that looks ahead: in order, with what is not known yet left open.
"""

from bisect import bisect_right
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from vegakit.lang.bytecode import Rights
from vegakit.lang.checked import Checked, Unit
from vegakit.lang.flows.acts import Act, Agents
from vegakit.lang.flows.looking import Places
from vegakit.lang.flows.noting import Noted, Notes, bits
from vegakit.lang.flows.records import Flow, FlowStep, LinkKind, StepKind
from vegakit.lang.flows.values import Frames, Need, Place, Scopes, Value
from vegakit.lang.rows import NOTHING_TOUCHED, Effects
from vegakit.lang.steps import took
from vegakit.lang.tree import Block, FnDecl, Node, Stmt, ToolDecl

__all__ = ["Facts", "Here", "TooLargeError", "Walk"]

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


class TooLargeError(Exception):
    """The walk would take too long."""


@dataclass(slots=True)
class Facts:
    """Of the whole program. `doing` are the functions that do anything but compute, `barred` those
    with a barrier in them; `places` are of each file, `flows` of each function that was walked,
    None while it is."""

    checked: Checked
    agents: Agents
    bodies: dict[str, tuple[Unit, FnDecl | ToolDecl]]
    rows: dict[str, Effects]
    rights: dict[str, Rights]
    doing: frozenset[str]
    barred: frozenset[str]
    places: dict[str, Places]
    flows: dict[str, Flow | None] = field(default_factory=dict)
    nodes: int = 0

    def count(self, nodes: int = 1) -> None:
        took(3 * nodes)
        self.nodes += nodes
        if self.nodes > _MOST_NODES:
            raise TooLargeError

    def row(self, name: str) -> Effects:
        return self.rows.get(name, NOTHING_TOUCHED)


@dataclass(frozen=True, slots=True)
class Here:
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
class Walk:
    facts: Facts
    unit: Unit
    name: str
    scopes: Scopes = field(default_factory=Scopes)
    here: Here = Here()
    notes: Notes = field(default_factory=Notes)
    loops: list[int] = field(default_factory=list)
    carried: dict[int, dict[Place, Value]] = field(default_factory=dict)
    _numbers: dict[int, int] = field(default_factory=dict)
    _line_ends: list[int] = field(default_factory=list)

    @property
    def places(self) -> Places:
        return self.facts.places[self.unit.path]

    def __post_init__(self) -> None:
        self._line_ends = self.unit.line_ends

    def line(self, node: Node) -> int:
        return bisect_right(self._line_ends, node.at - 1) + 1

    def text(self, start: int, end: int) -> str:
        said = " ".join(self.unit.text[start : min(end, start + 4 * _LONGEST)].split())
        return said if len(said) <= _LONGEST else said[: _LONGEST - 1] + "…"

    def all(self, body: Sequence[Stmt]) -> None:
        from vegakit.lang.flows.statements import statement

        for stmt in body:
            statement(self, stmt)

    def block(self, block: Block) -> None:
        with self.scopes.block():
            self.all(block.body)

    def to(self, **changes: object) -> None:
        self.here = replace(self.here, **changes)  # pyright: ignore[reportArgumentType]

    def note(self, node: Node, kind: StepKind, what: str, act: Act, *values: Value) -> int:
        """The step of this node; on a later round of the walk the same again, with more links."""
        number = self._number(node, kind, what, act)
        self._link_needs(number, values if kind in _BLOCKS else [each.awaited() for each in values])
        self._link_control(number)
        if kind not in _BLOCKS:
            self.notes.beside(number, self.here.seen, self.here.passed)
        if act.order:
            self.notes.order(number, self.here.passed, act.order)
        self._enter(number, kind, act)
        return number

    def _number(self, node: Node, kind: StepKind, what: str, act: Act) -> int:
        number = self._numbers.setdefault(id(node), len(self.notes.noted))
        if number == len(self.notes.noted):
            if number >= _MOST_STEPS:
                raise TooLargeError
            here, order = self.here, act.order
            if here.streams and not order and kind not in _BLOCKS:
                order = "in order: inside a stream"
            lasts = act.lasts and kind not in _BLOCKS
            place = (self.unit.path, self.line(node), here.parent, order)
            bars = bool(act.barrier) or kind in (StepKind.PARALLEL, StepKind.MONITOR)
            step = FlowStep(number, kind, what, *place, lasts, act.later and lasts, here.rare, bars)
            self.notes.noted.append(Noted(step, act))
        return number

    def _enter(self, number: int, kind: StepKind, act: Act) -> None:
        bit, here = 1 << number, self.here
        if kind in _BLOCKS:
            self.to(seen=here.seen | bit if act.order else here.seen)
            return
        passed = here.passed if act.later else here.passed | bit
        self.here = replace(here, seen=here.seen | bit, passed=passed)
        if act.barrier:
            self.bar(bit, self.notes.barrier_text(number))

    def bar(self, mask: int, text: str) -> None:
        """Nothing behind starts before these are done."""
        self.to(barrier=mask, barrier_text=text)

    def _link_needs(self, number: int, values: Sequence[Value]) -> None:
        for value in values:
            for need in value.needs:
                self.need(number, need)

    def need(self, number: int, need: Need) -> None:
        self.notes.link(need.step, number, LinkKind.NEEDS, need.name, need.round_of)

    def _link_control(self, number: int) -> None:
        here = self.here
        deciders = here.returned | here.left
        if here.decider is not None:
            deciders |= 1 << here.decider
        for decider in bits(deciders & ~(1 << number)):
            self.notes.link(decider, number, LinkKind.DECIDED, self._decides(decider))
        for before in bits(here.barrier & ~(1 << number)):
            self.notes.link(before, number, LinkKind.BARRIER, here.barrier_text)

    def _decides(self, decider: int) -> str:
        step = self.notes.noted[decider].step
        match step.kind:
            case StepKind.TRY | StepKind.SESSION | StepKind.PARALLEL if self.here.rare:
                return f"only if the {step.kind} at line {step.line} fails"
            case StepKind.MONITOR:
                return "when the process ends"
            case _:
                return f"decided by the {step.what.split(maxsplit=1)[0]} at line {step.line}"

    def decides(self, number: int) -> bool:
        """Whether something has to be done before this block is decided."""
        return self.notes.noted[number].waits

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
        frames, ends = list[Frames](), list[Here]()
        for way in ways:
            self.scopes.restore(before)
            self.here = start
            way()
            frames.append(self.scopes.copy())
            ends.append(self.here)
        self.scopes.either_of(frames)
        self.meet(ends)

    def meet(self, ends: Sequence[Here]) -> None:
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

    def keep_seen(self, here: Here) -> Here:
        """That place again, after what was seen here."""
        return replace(here, seen=here.seen | self.here.seen)
