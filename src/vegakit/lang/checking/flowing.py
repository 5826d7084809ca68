"""What statements do to variables, seen without checking them: which they assign and declare."""

from collections.abc import Iterator

from vegakit.lang.tree import (
    Assign,
    Block,
    Break,
    For,
    If,
    Index,
    Let,
    Member,
    Monitor,
    Name,
    Node,
    Parallel,
    Session,
    Stmt,
    Try,
    While,
)

__all__ = ["Assigned", "has_break", "lets", "parts"]


def parts(statement: Stmt) -> Iterator[Block]:
    """The blocks directly inside a statement."""
    match statement:
        case Block():
            yield statement
        case If(then=then, other=other):
            yield then
            if other is not None:
                yield other
        case While(body=body) | For(body=body) | Monitor(body=body):
            yield body
        case (
            Try(body=body, catches=catches)
            | Session(body=body, catches=catches)
            | Parallel(body=body, catches=catches)
        ):
            yield body
            for one in catches:
                yield one.body
        case _:
            pass


class Assigned:
    """Names that are assigned somewhere in a block; each block is looked into once."""

    def __init__(self) -> None:
        self._known: dict[int, frozenset[str]] = {}

    def within(self, block: Block) -> frozenset[str]:
        key = id(block)
        if key not in self._known:
            self._known[key] = self._found(block)
        return self._known[key]

    def _found(self, block: Block) -> frozenset[str]:
        names: set[str] = set()
        for statement in block.body:
            if isinstance(statement, Assign):
                names.add(_root(statement))
            for part in parts(statement):
                names |= self.within(part)
        return frozenset(names)


def _root(statement: Assign) -> str:
    target = statement.target
    while isinstance(target, Member | Index):
        target = target.of
    return target.name if isinstance(target, Name) else ""


def lets(body: tuple[Stmt, ...]) -> dict[str, Node]:
    """The first `let` of each name, wherever it stands."""
    found: dict[str, Node] = {}
    waiting = list(reversed(body))
    while waiting:
        statement = waiting.pop()
        if isinstance(statement, Let):
            found.setdefault(statement.name, statement)
        for part in reversed(list(parts(statement))):
            waiting.extend(reversed(part.body))
    return found


def has_break(block: Block) -> bool:
    """Whether a `break` in it ends the loop whose body it is."""
    waiting: list[Stmt] = list(block.body)
    while waiting:
        statement = waiting.pop()
        if isinstance(statement, Break):
            return True
        if not isinstance(statement, While | For | Monitor | Parallel):
            for part in parts(statement):
                waiting.extend(part.body)
    return False
