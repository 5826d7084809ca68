"""Variables of one function, and what is known about them at this point.

A fact is a narrower type of a place, such as `str` for `f.note` after `if f.note != null`. Facts
hold until the variable is assigned; where paths meet, those that hold on all of them.
"""

from collections.abc import Iterable
from typing import TypeAlias

from vegakit.lang.tree import Expr, Member, Name, Node
from vegakit.lang.types import Type

__all__ = ["Access", "Facts", "Place", "Scopes", "Variable", "merged"]

MOST_FACTS = 200

Place: TypeAlias = tuple[int, str]
Facts: TypeAlias = dict[Place, Type]


class Variable:
    """`role` is let, parameter, loop or reason. `declared`: its type is written. `number` tells
    variables of one name apart."""

    __slots__ = ("assigned", "declared", "name", "node", "number", "read", "role", "type")

    def __init__(
        self, name: str, role: str, kind: Type, node: Node, number: int, declared: bool
    ) -> None:
        self.name, self.role, self.type, self.node = name, role, kind, node
        self.number, self.declared = number, declared
        self.read = self.assigned = False


class Access:
    """What one statement of `parallel` reads and assigns, with the first place of each."""

    def __init__(self) -> None:
        self.reads: dict[int, Node] = {}
        self.writes: dict[int, Node] = {}


class Scopes:
    def __init__(self) -> None:
        self.all: list[Variable] = []
        self.facts: Facts = {}
        self.watching: list[Access] = []
        self._open: list[dict[str, Variable]] = [{}]

    def enter(self) -> None:
        self._open.append({})

    def leave(self) -> None:
        self._open.pop()

    def names(self) -> Iterable[str]:
        return [name for scope in self._open for name in scope]

    def declare(
        self, name: str, role: str, kind: Type, node: Node, declared: bool = True
    ) -> Variable:
        """A second `let` of a name makes a second variable."""
        variable = Variable(name, role, kind, node, len(self.all), declared)
        self.all.append(variable)
        self._open[-1][name] = variable
        for access in self.watching:
            access.writes.setdefault(variable.number, node)
        return variable

    def find(self, name: str) -> Variable | None:
        for scope in reversed(self._open):
            if name in scope:
                return scope[name]
        return None

    def read(self, variable: Variable, node: Node) -> Type:
        variable.read = True
        for access in self.watching:
            access.reads.setdefault(variable.number, node)
        return self.facts.get((variable.number, ""), variable.type)

    def assign(self, variable: Variable, node: Node) -> None:
        variable.assigned = True
        for access in self.watching:
            access.writes.setdefault(variable.number, node)
        self.forget({variable.number})

    def forget(self, numbers: set[int]) -> None:
        if self.facts and numbers:
            self.facts = {
                place: kind for place, kind in self.facts.items() if place[0] not in numbers
            }

    def know(self, facts: Facts) -> None:
        """Of very many facts the oldest are forgotten, so that copying them stays cheap."""
        if facts:
            known = {**self.facts, **facts}
            self.facts = known if len(known) <= MOST_FACTS else dict([*known.items()][-MOST_FACTS:])

    def place(self, node: Expr) -> Place | None:
        """`f.note` as a place, if it is one."""
        tail = ""
        while isinstance(node, Member):
            tail = f".{node.name}{tail}"
            node = node.of
        variable = self.find(node.name) if isinstance(node, Name) else None
        return None if variable is None else (variable.number, tail)


def merged(paths: list[Facts]) -> Facts:
    """What holds on all paths that come together here."""
    if not paths:
        return {}
    first, *others = paths
    return {
        place: kind
        for place, kind in first.items()
        if all(other.get(place) == kind for other in others)
    }
