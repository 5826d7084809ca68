"""A walk over the checked tree that runs nothing: it follows sizes and adds up what is spent."""

from bisect import bisect_left
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from math import inf

from msgspec import Struct

from vegakit.lang.bytecode import AgentSpec
from vegakit.lang.checked import Checked, Unit
from vegakit.lang.quoting.records import Terms
from vegakit.lang.quoting.scopes import Frames, Scopes
from vegakit.lang.quoting.sizes import Size
from vegakit.lang.quoting.spending import NONE, Place, Spend, dearer, plus
from vegakit.lang.quoting.values import Value
from vegakit.lang.steps import took
from vegakit.lang.tree import Block, FnDecl, Node, Stmt, ToolDecl
from vegakit.lang.types import ANY, Type

__all__ = ["Called", "Facts", "Left", "Noted", "TooLargeError", "Walk", "as_amount"]

_MOST_NODES = 40_000


class Noted(Struct, frozen=True):
    """A send in the source, for who wants to know what a round holds."""

    agent: str
    calls: int
    size: Size | None
    answer: Type
    part: int | None


class TooLargeError(Exception):
    """The walk would take too long."""


class Facts:
    """Of the whole program, for every walk through one of its functions."""

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
        self.notes: dict[str, Noted] | None = None
        self.rounds: dict[int, Spend] = {}
        self.running: list[str] = []
        self.recursive: set[str] = set()
        self.known: dict[tuple[str, tuple[Value, ...], int | None, bool], Called] = {}
        self.nodes = 0
        self.loops = 0

    @property
    def is_long(self) -> bool:
        """From now on loops are walked in a few rounds only."""
        return self.nodes > _MOST_NODES // 4

    def count(self) -> None:
        took(2)
        self.nodes += 1
        if self.nodes > _MOST_NODES:
            raise TooLargeError

    def keep_round(self, node: Node, once: Spend) -> None:
        if self.notes is not None:
            self.rounds[id(node)] = dearer(self.rounds.get(id(node), NONE), once)

    def type(self, node: Node) -> Type:
        return self.checked.types.get(id(node), ANY)


class Called(Struct, frozen=True):
    """What a call of a function comes to."""

    spent: Spend
    value: Value
    raises: bool


class Left(Struct):
    """How a round of a loop was left in its middle."""

    by_break: list[Frames]
    by_continue: list[Frames]


class Walk:
    """Of one function.

    `spent` is what it spent since the last `apart`; `cap` the least of the budgets around, and
    `may_lack` whether the innermost may refuse something; `raises` whether it may have raised so
    far; `over` that what follows is not reached, by its own words: what only a budget would refuse
    may have been begun early.
    """

    def __init__(self, facts: Facts, unit: Unit, cap: int | None = None, *, may_lack: bool) -> None:
        self.facts = facts
        self.unit = unit
        self.cap: int | None = cap
        self.may_lack = may_lack
        self.scopes = Scopes()
        self.spent: Spend = NONE
        self.returned: list[Value] = []
        self.raises = False
        self.over = False
        self.left: list[Left] = []

    def spend(self, spend: Spend) -> None:
        self.spent = plus(self.spent, spend)

    @contextmanager
    def apart(self) -> Generator[list[Spend]]:
        """What is spent inside is not added: it is the one item of the list afterwards."""
        before, self.spent = self.spent, NONE
        found: list[Spend] = []
        yield found
        found.append(self.spent)
        self.spent = before

    def place(self, node: Node, what: str) -> Place:
        return Place(self.unit.path, bisect_left(self.unit.line_ends, node.at) + 1, what)

    def scope(self, cap: int | None, body: Callable[[], None]) -> None:
        """In a budget, first as if it had room for all; again if that is not so."""
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

    def branches(self, *ways: Callable[[], None]) -> list[Spend]:
        """Each from the same state; afterwards it is as any of those left it that came to an
        end."""
        before, spends, ends = self.scopes.copy(), list[Spend](), list[Frames]()
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

    def block(self, block: Block) -> None:
        with self.scopes.block():
            self.all(block.body)

    def all(self, body: Sequence[Stmt]) -> None:
        from vegakit.lang.quoting.statements import statement

        for stmt in body:
            statement(self, stmt)


def as_amount(number: int | None) -> int | float:
    return inf if number is None else number
