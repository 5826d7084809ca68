"""A walk over the checked tree that runs nothing: it follows sizes and adds up what is spent."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from math import inf

from vegakit.lang.bytecode import AgentSpec
from vegakit.lang.checked import Checked, Unit
from vegakit.lang.quoting.records import Terms
from vegakit.lang.quoting.scopes import Scopes
from vegakit.lang.quoting.spending import NONE, Place, Spend, plus
from vegakit.lang.quoting.values import Value, either
from vegakit.lang.tree import Block, FnDecl, Node, Stmt, ToolDecl
from vegakit.lang.types import ANY, Type

__all__ = ["Facts", "TooLargeError", "Walk", "as_amount"]

_MOST_NODES = 100_000


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
    ) -> None:
        self.checked = checked
        self.agents = agents
        self.bodies = bodies
        self.terms = terms
        self.handles_in_sessions = handles_in_sessions
        self.running: list[str] = []
        self.recursive: set[str] = set()
        self.known: dict[tuple[str, tuple[Value, ...]], tuple[Spend, Value]] = {}
        self.nodes = 0
        self.loops = 0

    def count(self) -> None:
        self.nodes += 1
        if self.nodes > _MOST_NODES:
            raise TooLargeError

    def type(self, node: Node) -> Type:
        return self.checked.types.get(id(node), ANY)


class Walk:
    """Of one function. `spent` is what it spent since the last `apart`."""

    def __init__(self, facts: Facts, unit: Unit) -> None:
        self.facts = facts
        self.unit = unit
        self.scopes = Scopes()
        self.spent: Spend = NONE
        self.returned: list[Value] = []

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
        return Place(self.unit.path, self.unit.text.count("\n", 0, node.at) + 1, what)

    def branches(self, *ways: Callable[[], None]) -> list[Spend]:
        """Each from the same state; afterwards it is as any of them left it."""
        before, spends = self.scopes.copy(), list[Spend]()
        ends = list[list[tuple[int, str, Value]]]()
        for way in ways:
            self.scopes.restore(before)
            with self.apart() as spent:
                way()
            spends += spent
            ends.append([(d, n, v.value) for d, n, v in self.scopes.values()])
        self.scopes.restore(before)
        joined: dict[tuple[int, str], Value] = {}
        for depth, name, value in (row for end in ends for row in end):
            known = joined.get((depth, name))
            joined[depth, name] = value if known is None else either(known, value)
        for depth, name, _ in list(self.scopes.values()):
            self.scopes.put(depth, name, joined[depth, name])
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
