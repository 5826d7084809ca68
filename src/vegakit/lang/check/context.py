"""State shared by all rules of the checker: variables and what is known about them, the program's
tables, and one body of statements (pure).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from vegakit.lang.check.relations import TypeVariables
from vegakit.lang.check.symbols import Callee, NameKind, Names, Reports
from vegakit.lang.diagnostics import count_steps
from vegakit.lang.syntax.tree import (
    Assign,
    Block,
    Break,
    Expr,
    FnDecl,
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
    ToolDecl,
    Try,
    TypeDecl,
    While,
)
from vegakit.lang.types import NOTHING, Signature, Type

# Variables of one function, and what is known about them at this point.
#
# A fact is a narrower type of a place, such as `str` for `f.note` after `if f.note != null`. Facts
# hold until the variable is assigned; where paths meet, those that hold on all of them.


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


class VariableScopes:
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


# What statements do to variables, seen without checking them: which they assign and declare.


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


class AssignedNames:
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


# What all rules of the checker share: the program's tables, and one body of statements.
#
# A rule for a kind of expression takes the body, the node and the type that is wanted there, if
# one is: a hint that literals and answers take up. `check` then holds the result to it.


class ProgramCheck:
    """`tools` are passed in from Python, with what they take if it is known; `given` are types from
    there; `place` is the statement being checked; `forming` are the types being spelled out, and
    `parts` how large each record came."""

    def __init__(
        self,
        reports: Reports,
        tools: Mapping[str, Signature | None] | None = None,
        given: Mapping[str, Type] | None = None,
    ) -> None:
        self.reports = reports
        self.tools, self.given = tools or {}, given or {}
        self.type_variables = TypeVariables()
        self.types: dict[int, Type] = {}
        self.callees: dict[int, Callee] = {}
        self.arguments: dict[int, tuple[int | None, ...]] = {}
        self.names: dict[int, NameKind] = {}
        self.full_names: dict[int, str] = {}
        self.files: dict[str, Names] = {}
        self.supervisors: set[str] = set()
        self.forming: list[TypeDecl] = []
        self.parts: dict[str, int] = {}
        self.assigned = AssignedNames()
        self.place: Node | None = None


class BodyCheck:
    """Of a function, a tool, or the statements at top level when `owner` is None.

    `tests` holds for each condition what is known where it is true and where it is false;
    `answers` the types that are declared for the sends in it; `task` is the block (`parallel`,
    `monitor`) that runs beside the rest, if this is inside one, and `fence` the first variable of
    it.
    """

    def __init__(
        self, program: ProgramCheck, names: Names, owner: FnDecl | ToolDecl | None
    ) -> None:
        self.program, self.names, self.owner = program, names, owner
        self.reports, self.type_variables = program.reports, program.type_variables
        self.scopes = VariableScopes()
        self.result: Type = NOTHING
        self.agent = ""
        self.errors_before = program.reports.errors
        self.loops = 0
        self.task = ""
        self.fence = 0
        self.tests: dict[int, tuple[Facts, Facts]] = {}
        self.answers: dict[int, Type] = {}
        self.lacking: set[str] = set()
        self.later: dict[str, Node] = {}

    def source(self, node: Node) -> str:
        return self.names.unit.text[node.at : node.end]


Rule: TypeAlias = Callable[[BodyCheck, Any, "Type | None"], Type]

EXPRESSIONS: dict[type, Rule] = {}
"""The rule of each kind of expression, put together where the whole program is checked."""


def infer(body: BodyCheck, node: Expr, expected: Type | None = None) -> Type:
    count_steps(2)
    kind = body.type_variables.seen(EXPRESSIONS[type(node)](body, node, expected))
    body.program.types[id(node)] = kind
    return kind
