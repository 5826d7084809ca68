"""The walk over the checked tree that runs nothing: it follows sizes, adds up what is spent, and
bounds loops (pure).
"""

from bisect import bisect_left
from collections.abc import Callable, Generator
from contextlib import contextmanager
from math import inf
from typing import Any, TypeAlias

from msgspec import Struct

from vegakit.lang.analysis.cost_bounds import (
    NONE,
    CostLocation,
    SpendingBound,
    plus,
    times,
    worse_of,
)
from vegakit.lang.analysis.cost_sends import Terms
from vegakit.lang.analysis.cost_values import (
    CostScopes,
    CostVariable,
    Frames,
    Size,
    ValueBound,
    after_rounds,
    as_symbol,
    of_type,
    sized,
    smaller,
)
from vegakit.lang.analysis.walk import TreeWalk
from vegakit.lang.check.symbols import Checked, Unit
from vegakit.lang.codegen.bytecode import AgentSpec
from vegakit.lang.diagnostics import count_steps
from vegakit.lang.syntax.tree import FnDecl, For, Node, Stmt, ToolDecl, While, assigned_in
from vegakit.lang.types import ANY, Type

# A walk over the checked tree that runs nothing: it follows sizes and adds up what is spent.


_MOST_NODES = 40_000


class RecordedSend(Struct, frozen=True):
    """A send in the source, for who wants to know what a round holds."""

    agent: str
    calls: int
    size: Size | None
    answer: Type
    part: int | None


class QuoteTooLargeError(Exception):
    """The walk would take too long."""


class CostFacts:
    """Facts about the whole program, for every walk through one of its functions."""

    def __init__(
        self,
        checked: Checked,
        agents: dict[str, AgentSpec],
        bodies: dict[str, tuple[Unit, FnDecl | ToolDecl]],
        terms: Terms,
        *,
        handles_in_sessions: bool,
        budget: int | None = None,
    ) -> None:
        self.checked = checked
        self.agents = agents
        self.bodies = bodies
        self.terms = terms
        self.handles_in_sessions = handles_in_sessions
        self.budget = budget
        self.spawns_may_fail = False
        self.notes: dict[str, RecordedSend] | None = None
        self.rounds: dict[int, SpendingBound] = {}
        self.running: list[str] = []
        self.recursive: set[str] = set()
        self.known: dict[tuple[str, tuple[ValueBound, ...], int | None, bool], CallOutcome] = {}
        self.nodes = 0
        self.loops = 0

    @property
    def is_long(self) -> bool:
        """Loops are walked in a few rounds only from now on."""
        return self.nodes > _MOST_NODES // 4

    def count(self) -> None:
        """Count a node, and give up on a program that is too large."""
        count_steps(2)
        self.nodes += 1
        if self.nodes > _MOST_NODES:
            raise QuoteTooLargeError

    def keep_round(self, node: Node, once: SpendingBound) -> None:
        """Keep what one round of this loop spends, for who quotes it when its list is known."""
        if self.notes is not None:
            self.rounds[id(node)] = worse_of(self.rounds.get(id(node), NONE), once)

    def type(self, node: Node) -> Type:
        """Return the type that the checker found for a node, `ANY` if it found none."""
        return self.checked.types.get(id(node), ANY)


class CallOutcome(Struct, frozen=True):
    """The result of a call of a function: what it spends, what it returns, whether it may raise."""

    spent: SpendingBound
    value: ValueBound
    raises: bool


class LoopExits(Struct):
    """The variables at each `break` and `continue` of one round."""

    by_break: list[Frames]
    by_continue: list[Frames]


class CostWalk(TreeWalk[CostScopes]):
    """The walk over one function.

    `spent` is what it spent since the last `apart`; `cap` the least of the budgets around, and
    `may_lack` whether the innermost may refuse something; `raises` whether it may have raised so
    far; `over` that what follows is not reached, by its own words: what only a budget would refuse
    may have been begun early.
    """

    def __init__(
        self, facts: CostFacts, unit: Unit, cap: int | None = None, *, may_lack: bool
    ) -> None:
        self.facts = facts
        self.unit = unit
        self.cap: int | None = cap
        self.may_lack = may_lack
        self.scopes = CostScopes()
        self.spent: SpendingBound = NONE
        self.returned: list[ValueBound] = []
        self.raises = False
        self.over = False
        self.left: list[LoopExits] = []

    def spend(self, spend: SpendingBound) -> None:
        """Add to what this walk has spent so far."""
        self.spent = plus(self.spent, spend)

    @contextmanager
    def apart(self) -> Generator[list[SpendingBound]]:
        """Keep what is spent inside from being added: it is the one item of the list afterwards."""
        before, self.spent = self.spent, NONE
        found: list[SpendingBound] = []
        yield found
        found.append(self.spent)
        self.spent = before

    def place(self, node: Node, what: str) -> CostLocation:
        return CostLocation(self.unit.path, bisect_left(self.unit.line_ends, node.at) + 1, what)

    def scope(self, cap: int | None, body: Callable[[], None]) -> None:
        """Walk inside a budget, first as if it had room for all; again if that is not so."""
        if cap is None:
            body()
            return
        around, lacking, before = self.cap, self.may_lack, self.scopes.copy()
        self.cap = cap if around is None else min(cap, around)
        for may_lack in (False, True):
            self.may_lack = may_lack
            self.scopes.restore(before)
            with self.apart() as spent:
                body()
            if spent[0].asked <= cap:
                break
            if not may_lack:
                self.over = False
        self.spend(spent[0])
        self.cap, self.may_lack = around, lacking

    def branches(self, *ways: Callable[[], None]) -> list[SpendingBound]:
        """Each from the same state; afterwards it is as any of those left it that came to an
        end."""
        before, spends, ends = self.scopes.copy(), list[SpendingBound](), list[Frames]()
        for way in ways:
            self.scopes.restore(before)
            self.over = False
            with self.apart() as spent:
                way()
            spends += spent
            if not self.over:
                ends.append(self.scopes.copy())
        self.scopes.restore(before)
        self.over = not ends
        self.scopes.meet(ends)
        return spends

    def statement(self, node: Stmt) -> None:
        if not self.over:
            self.facts.count()
            STATEMENTS[type(node)](self, node)


STATEMENTS: dict[type, Callable[[CostWalk, Any], None]] = {}
"""The rule of each kind of statement. The module of the quotes fills it when it is imported."""


def as_amount(number: int | None) -> int | float:
    """Return the number, infinity where there is none."""
    return inf if number is None else number


# Loops: round by round while that is short, else by how much a round makes variables grow.


_UNROLLED = 32

Names: TypeAlias = dict[str, tuple[int, CostVariable]]


class LoopCost(Struct, frozen=True):
    """`goes_on`: a second round may follow the first; `breaks`: it may be left by a `break`;
    `once` is what one of them spends at most."""

    spent: SpendingBound
    goes_on: bool = True
    breaks: bool = False
    once: SpendingBound = NONE


def loop(
    w: CostWalk,
    node: For | While,
    body: Callable[[], None],
    rounds: int | None,
    place: CostLocation,
) -> LoopCost:
    """Return what all rounds spend; `place` is told where they have no bound."""
    if rounds is not None and rounds <= 0:
        return LoopCost(NONE)
    before = w.scopes.copy()
    came = _one_by_one(w, body, rounds, place)
    if came is None:
        w.scopes.restore(before)
        most = inf if rounds is None else rounds
        once = _in_symbols(w, node, body, rounds)
        came = LoopCost(times(once, most, place), breaks=True, once=once)
    w.over = False
    return came


def _one_by_one(
    w: CostWalk, body: Callable[[], None], rounds: int | None, place: CostLocation
) -> LoopCost | None:
    """Walk round by round until one changes nothing any more: then all that follow are like it.
    Return None where that does not come soon."""
    total, exits, done, breaks, once = NONE, list[Frames](), 0, False, NONE
    while rounds is None or done < rounds:
        if done == _UNROLLED or w.facts.is_long:
            return None
        start = w.scopes.copy()
        exits.append(start)
        spent, left = _round(w, body)
        exits += left.by_break
        breaks |= bool(left.by_break)
        total, done, once = plus(total, spent), done + 1, worse_of(once, spent)
        ends = left.by_continue if w.over else [*left.by_continue, w.scopes.copy()]
        w.scopes.restore(start)
        if not ends:
            w.scopes.meet(exits)
            return LoopCost(total, done > 1, breaks, once)
        w.scopes.meet(ends)
        if w.scopes.copy() == start:
            rest = inf if rounds is None else rounds - done
            total = plus(total, times(spent, rest, place))
            break
    w.scopes.meet([*exits, w.scopes.copy()])
    return LoopCost(total, breaks=breaks, once=once)


def _round(w: CostWalk, body: Callable[[], None]) -> tuple[SpendingBound, LoopExits]:
    left = LoopExits([], [])
    w.left.append(left)
    w.over = False
    with w.apart() as spent:
        body()
    w.left.pop()
    return spent[0], left


def _in_symbols(
    w: CostWalk, node: For | While, body: Callable[[], None], rounds: int | None
) -> SpendingBound:
    """Return what one round spends at most, whichever it is."""
    names = {name: found for name in assigned_in(node) if (found := w.scopes.find(name))}
    w.facts.loops += 1
    marks = {name: f"{name}@{w.facts.loops}" for name in names}
    grown = _grown(w, names, marks, body)
    start = {marks[name]: variable.value.size for name, (_, variable) in names.items()}
    before_last = after_rounds(start, grown, None if rounds is None else max(rounds - 1, 0))
    _put(w, names, {name: _held(v, before_last[marks[name]]) for name, (_, v) in names.items()})
    spent, _ = _round(w, body)
    sizes = after_rounds(start, grown, rounds)
    _put(w, names, {name: _held(v, sizes[marks[name]]) for name, (_, v) in names.items()})
    return spent


def _held(variable: CostVariable, size: Size | None) -> ValueBound:
    typed = of_type(variable.type)
    return sized(typed, smaller(typed.size, size))


def _put(w: CostWalk, names: Names, values: dict[str, ValueBound]) -> None:
    for name, value in values.items():
        w.scopes.put(names[name][0], name, value)


def _grown(
    w: CostWalk, names: Names, marks: dict[str, str], body: Callable[[], None]
) -> dict[str, Size | None]:
    """Return what each variable holds after one round, in what was there before it. A variable
    without a bound spoils those that take from it, so the round is walked again until no other
    is spoilt."""
    boundless: set[str] = set()
    while names:
        with w.scopes.unwatched(), w.scopes.watch() as seen, w.apart():
            _put(w, names, {n: _fresh(v, marks[n], n in boundless) for n, (_, v) in names.items()})
            _round(w, body)
        grown = {name: seen[depth, name].value.size for name, (depth, _) in names.items()}
        spoilt = {name for name, size in grown.items() if size is None} - boundless
        if not spoilt:
            return {marks[n]: None if n in boundless else grown[n] for n in names}
        boundless |= spoilt
    return {}


def _fresh(variable: CostVariable, mark: str, is_boundless: bool) -> ValueBound:
    return of_type(variable.type) if is_boundless else as_symbol(mark, variable.type)
