"""State shared by all rules of the checker: type variables and what fits where, variables and what
is known about them, the program's tables, and one body of statements (pure).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from vegakit.lang.check.symbols import Callee, NameKind, Names, Reports
from vegakit.lang.diagnostics import count_steps
from vegakit.lang.syntax.tree import (
    Ask,
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
from vegakit.lang.types import (
    ANY,
    NOTHING,
    NULL,
    STR,
    ChoiceOf,
    FutureOf,
    ListOf,
    MapOf,
    OptionalOf,
    Plain,
    ProcessOf,
    RecordOf,
    Signature,
    StreamOf,
    Type,
    is_text,
    type_label,
    unbounded,
)

# Type variables that are solved later, and what fits where.


UNKNOWN = Plain("!")


class TypeVariables:
    """Types that are not known yet, and what they turned out to be."""

    def __init__(self) -> None:
        self._filled: dict[str, Type] = {}
        self._only: dict[str, tuple[Type, ...]] = {}
        self._count = 0

    def fresh(self, only: tuple[Type, ...] = ()) -> Type:
        """Return a new type variable; `only` are the types that it may become."""
        self._count += 1
        name = f"?{self._count}"
        if only:
            self._only[name] = only
        return Plain(name)

    def seen(self, kind: Type) -> Type:
        """Return the type itself, or what fills it if it is a variable that is filled."""
        while isinstance(kind, Plain) and kind.name in self._filled:
            kind = self._filled[kind.name]
        return kind

    def full(self, kind: Type, otherwise: Type | None = None) -> Type:
        """Return the type with all variables filled; `otherwise` takes the place of those still
        open."""
        count_steps()
        kind = self.seen(kind)
        match kind:
            case Plain():
                return otherwise if otherwise is not None and self.is_open(kind) else kind
            case OptionalOf(inner=inner):
                full = self.full(inner, otherwise)
                return full if isinstance(full, OptionalOf) or full == ANY else OptionalOf(full)
            case ListOf(inner=inner, most=most):
                return ListOf(self.full(inner, otherwise), most)
            case MapOf(inner=inner, most=most):
                return MapOf(self.full(inner, otherwise), most)
            case FutureOf(inner=inner):
                return FutureOf(self.full(inner, otherwise))
            case _:
                return kind

    def described(self, kind: Type) -> Type:
        """Return the type for people, with words in place of variables."""
        found = self.full(kind)
        inner = found
        while isinstance(inner, OptionalOf | ListOf | MapOf | FutureOf):
            inner = self.seen(inner.inner)
        if not (isinstance(inner, Plain) and self.is_open(inner)):
            return found
        names = [type_label(one) for one in self._only.get(inner.name, (ANY,))]
        return self.full(found, Plain(" | ".join(names)))

    def is_open(self, kind: Type) -> bool:
        return isinstance(kind, Plain) and kind.name[0] == "?" and kind.name not in self._filled

    def fits(self, this: Type, there: Type) -> bool:  # noqa: C901, PLR0912
        """Return whether a value of type `this` may stand where `there` is wanted. A variable that
        is still open on either side is filled by the other, so the order of questions matters."""
        count_steps()
        if this is there:
            return True
        this, there = self.seen(this), self.seen(there)
        if this in (UNKNOWN, there) or there == UNKNOWN:
            self._spoil(this, there)
            return True
        if there == ANY:
            return this != NOTHING
        if self.is_open(there):
            return self._fill(there, this)
        if self.is_open(this):
            return self._fill(this, there)
        match this, there:
            case OptionalOf(inner=one), OptionalOf(inner=other):
                return self.fits(one, other)
            case _, OptionalOf(inner=other):
                return this == NULL or self.fits(this, other)
            case (ListOf(inner=one, most=most), ListOf(inner=other, most=bound)) | (
                MapOf(inner=one, most=most),
                MapOf(inner=other, most=bound),
            ):
                return _is_within(most, bound) and self.fits(one, other)
            case FutureOf(inner=one), FutureOf(inner=other):
                return self.fits(one, other)
            case Plain(name="str", most=most), Plain(name="str", most=bound):
                return _is_within(most, bound)
            case ChoiceOf(choices=choices), ChoiceOf(choices=others):
                return set(choices) <= set(others)
            case ChoiceOf(), Plain(name="str", most=bound):
                return _is_within(longest_text(this), bound)
            case ProcessOf(), ProcessOf(agent=agent):
                return not agent
            case _:
                return False

    def joined(self, one: Type, other: Type) -> Type | None:
        """The type that both fit, None when there is none."""
        if self.fits(other, one):
            return one
        if self.fits(one, other):
            return other
        one, other = self.seen(one), self.seen(other)
        if NULL in (one, other):
            return OptionalOf(one if other == NULL else other)
        if isinstance(one, OptionalOf) or isinstance(other, OptionalOf):
            inner = self.joined(without_null(one), without_null(other))
            return None if inner is None else OptionalOf(inner)
        match one, other:
            case ListOf(inner=inner), ListOf(inner=inner2):
                item = self.joined(inner, inner2)
                return None if item is None else ListOf(item)
            case MapOf(inner=inner), MapOf(inner=inner2):
                item = self.joined(inner, inner2)
                return None if item is None else MapOf(item)
            case ((ChoiceOf() | Plain(name="str")), (ChoiceOf() | Plain(name="str"))):
                return STR
            case ProcessOf(), ProcessOf():
                return ProcessOf()
            case _:
                return None

    def _spoil(self, this: Type, there: Type) -> None:
        """Mark what meets a fault, so that it is not asked about again."""
        for one, other in ((this, there), (there, this)):
            if other == UNKNOWN and isinstance(one, Plain) and self.is_open(one):
                self._filled[one.name] = UNKNOWN

    def _fill(self, hole: Type, kind: Type) -> bool:
        assert isinstance(hole, Plain)
        if kind == NOTHING or self._holds(kind, hole):
            return False
        kind = unbounded(kind)  # what comes next for it may be longer: nobody asked for a bound
        only = self._only.get(hole.name)
        if only:
            if self.is_open(kind):
                assert isinstance(kind, Plain)
                self._only.setdefault(kind.name, only)
            elif (STR if isinstance(kind, ChoiceOf) else kind) not in only:
                return False
        if kind == NULL:
            kind = OptionalOf(self.fresh())
        self._filled[hole.name] = kind
        return True

    def _holds(self, kind: Type, hole: Type) -> bool:
        kind = self.seen(kind)
        while isinstance(kind, OptionalOf | ListOf | MapOf | FutureOf):
            count_steps()
            kind = self.seen(kind.inner)
            if kind == hole:
                return True
        return False


def _is_within(most: int | None, bound: int | None) -> bool:
    return bound is None or (most is not None and most <= bound)


def longest_text(kind: Type) -> int | None:
    """Return how many characters a value of it has at most as text; None if that has no bound."""
    match kind:
        case Plain(name="str", most=most):
            return most
        case ChoiceOf(choices=choices):
            return max(map(len, choices))
        case Plain(name=name):
            return _LONGEST.get(name)
        case _:
            return None


_LONGEST = {"int": len(str(-(2**63))), "bool": len("false")}


def without_null(kind: Type) -> Type:
    """Return the type without its null."""
    return kind.inner if isinstance(kind, OptionalOf) else kind


def is_json(kind: Type) -> bool:
    """Return whether values of it can be written down: handed to `main`, asked of a model, sent."""
    match kind:
        case OptionalOf(inner=inner) | ListOf(inner=inner) | MapOf(inner=inner):
            return is_json(inner)
        case RecordOf(fields=fields):
            return all(is_json(field) for _, field in fields)
        case ProcessOf() | FutureOf() | StreamOf():
            return False
        case _:
            return kind != NOTHING


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
    """All that one statement of `parallel` reads and assigns, with the first place of each."""

    def __init__(self) -> None:
        self.reads: dict[int, Node] = {}
        self.writes: dict[int, Node] = {}


class VariableScopes:
    """The variables of the blocks around, and what is known about them on this path."""

    def __init__(self) -> None:
        self.all: list[Variable] = []
        self.facts: Facts = {}
        self.watching: list[Access] = []
        self._open: list[dict[str, Variable]] = [{}]

    def enter(self) -> None:
        """Open a block."""
        self._open.append({})

    def leave(self) -> None:
        """Close the innermost block and forget its variables."""
        self._open.pop()

    def names(self) -> Iterable[str]:
        """Return the names of all variables that can be seen, outermost first; a name that is
        hidden by an inner one comes twice."""
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
        """Note that a variable gets another value, and forget what was known about the old one."""
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
        """Add facts. Of very many the oldest are forgotten, so that copying them stays cheap."""
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
    """Return what holds on all paths that come together here."""
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
    """The names that are assigned somewhere in a block; each block is looked into once."""

    def __init__(self) -> None:
        self._known: dict[int, frozenset[str]] = {}

    def within(self, block: Block) -> frozenset[str]:
        """Return the names that are assigned in the block or in a block inside it."""
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
    """Return whether a `break` in it ends the loop whose body it is."""
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
    `parts` how large each record came. Where ints are `exact`, as in Python, a whole number is one
    wherever it stands; else it is a float where one is wanted. To a program that `is_lent` its
    rights, who runs it lends the hosts and commands that its source leaves open."""

    def __init__(
        self,
        reports: Reports,
        tools: Mapping[str, Signature | None] | None = None,
        given: Mapping[str, Type] | None = None,
        *,
        is_lent: bool = False,
        exact: bool = False,
    ) -> None:
        self.reports, self.is_lent, self.exact = reports, is_lent, exact
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
    """The check of a function, a tool, or the statements at top level when `owner` is None."""

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
        self.sent: dict[int, Ask] = {}  # by the comparison that is its message
        self.lacking: set[str] = set()
        self.targets: dict[int, str] = {}  # by what is assigned, the variable that gets it
        self.later: dict[str, Node] = {}

    def source(self, node: Node) -> str:
        """Return the text of a node as it stands in the file."""
        return self.names.unit.text[node.at : node.end]


Rule: TypeAlias = Callable[[BodyCheck, Any, "Type | None"], Type]

EXPRESSIONS: dict[type, Rule] = {}
"""The rule of each kind of expression, put together where the whole program is checked."""


def infer(body: BodyCheck, node: Expr, expected: Type | None = None) -> Type:
    """Return the type of an expression, by the rule of its kind."""
    count_steps(2)
    kind = body.type_variables.seen(EXPRESSIONS[type(node)](body, node, expected))
    body.program.types[id(node)] = kind
    return STR if is_text(kind) and not wants_length(body, expected) else kind


def wants_length(body: BodyCheck, expected: Type | None) -> bool:
    """Return whether the type that is wanted says how long a text may be. Only there an expression
    has a length too, so that a bound that is added to a type breaks nothing that does not care for
    it."""
    wanted = None if expected is None else without_null(body.type_variables.seen(expected))
    return isinstance(wanted, Plain) and wanted.most is not None
