"""The syntax tree: types, expressions, statements and declarations as written, and walking over
them (pure).
"""

from collections.abc import Iterator
from typing import TypeAlias

from msgspec import Struct

from vegakit.lang.diagnostics import count_steps

# Types, expressions and statements as written.


class Node(Struct, frozen=True, gc=False):
    """A node of the tree. `at` and `end` are its offsets in the text."""

    at: int
    end: int


# Types as written


class NamedType(Node, frozen=True, gc=False):
    """`str`, `Finding`, `lib::Finding`. `most` is n in `str; n`, else None."""

    name: str
    most: int | None = None


class OptionalType(Node, frozen=True, gc=False):
    """A value that may be null: `T?`."""

    inner: "TypeExpr"


class ListType(Node, frozen=True, gc=False):
    """`most` is None in `[T]`, n in `[T; n]`."""

    inner: "TypeExpr"
    most: int | None = None


class MapType(Node, frozen=True, gc=False):
    """`most` is None in `{str: T}`, n in `{str: T; n}`."""

    inner: "TypeExpr"
    most: int | None = None


class ChoiceType(Node, frozen=True, gc=False):
    """One of some texts: `"low" | "high"`."""

    choices: tuple[str, ...]


TypeExpr: TypeAlias = NamedType | OptionalType | ListType | MapType | ChoiceType


# Expressions


class Whole(Node, frozen=True, gc=False):
    """A whole number: `3`."""

    value: int


class Decimal(Node, frozen=True, gc=False):
    """A float: `2.5`."""

    value: float


class MoneyLit(Node, frozen=True, gc=False):
    """`period` is `hour`, `day` or `month` in `$5/day`, else empty."""

    nanos: int
    period: str = ""


class Duration(Node, frozen=True, gc=False):
    """A duration: `30s`."""

    ms: int


class Word(Node, frozen=True, gc=False):
    """`true`, `false` or `null`."""

    value: bool | None


class Text(Node, frozen=True, gc=False):
    """Literal text and expressions in turn; `"a {b} c"` is `("a ", Name b, " c")`."""

    parts: "tuple[str | Expr, ...]"


class Name(Node, frozen=True, gc=False):
    """`x`, or a path such as `budget::remaining`."""

    name: str


class ListLit(Node, frozen=True, gc=False):
    """A list: `[a, b]`."""

    items: "tuple[Expr, ...]"


class Pair(Node, frozen=True, gc=False):
    """An entry of a map: `"key": value`."""

    key: "Expr"
    value: "Expr"


class MapLit(Node, frozen=True, gc=False):
    """A map: `{"a": 1, "b": 2}`."""

    pairs: tuple[Pair, ...]


class Build(Node, frozen=True, gc=False):
    """`[for x in xs if c { e }]`."""

    name: str
    over: "Expr"
    where: "Expr | None"
    item: "Expr"


class Race(Node, frozen=True, gc=False):
    """`race [a, b]`, `race x in [a, b] if c`: the first value that is there and good. Without a
    condition `name` is empty."""

    name: str
    of: ListLit | Build
    where: "Expr | None"


class Unary(Node, frozen=True, gc=False):
    """`not` or `-`."""

    op: str
    of: "Expr"


class Binary(Node, frozen=True, gc=False):
    """`or and == != < <= > >= in + - * / % ??`."""

    op: str
    left: "Expr"
    right: "Expr"


class Member(Node, frozen=True, gc=False):
    """A field: `x.name`."""

    of: "Expr"
    name: str


class Index(Node, frozen=True, gc=False):
    """An item: `x[i]`."""

    of: "Expr"
    index: "Expr"


class Call(Node, frozen=True, gc=False):
    """`names` are as long as `args`: the name of a named argument (`Finding(file: "a")`), or ''."""

    callee: "Expr"
    args: "tuple[Expr, ...]"
    names: tuple[str, ...]


class Ask(Node, frozen=True, gc=False):
    """A send: `a <- m`, and with `stream` `a <~ m`; `later` when written `async a <- m`."""

    to: "Expr"
    message: "Expr"
    stream: bool = False
    later: bool = False
    timeout: "Expr | None" = None
    budget: "Expr | None" = None
    answer: "TypeExpr | None" = None


class Spawn(Node, frozen=True, gc=False):
    """`spawn A`, `spawn async A wallet $2 named "x" supervised by { … }`; `under` is the name in
    `supervised by team`, `rules` what stands between its braces."""

    agent: Name
    later: bool = False
    wallet: "Expr | None" = None
    named: "Expr | None" = None
    under: "Expr | None" = None
    rules: "tuple[Setting, ...] | None" = None


class Await(Node, frozen=True, gc=False):
    """A wait for a future: `await f`."""

    of: "Expr"


class Cast(Node, frozen=True, gc=False):
    """`json::parse(text) as Finding`: checked when it runs."""

    of: "Expr"
    to: TypeExpr


Expr: TypeAlias = (
    Whole
    | Decimal
    | MoneyLit
    | Duration
    | Word
    | Text
    | Name
    | ListLit
    | MapLit
    | Build
    | Race
    | Unary
    | Binary
    | Member
    | Index
    | Call
    | Ask
    | Spawn
    | Await
    | Cast
)


# Statements


class Block(Node, frozen=True, gc=False):
    """Statements in braces: `{ … }`."""

    body: "tuple[Stmt, ...]"


class Let(Node, frozen=True, gc=False):
    """A declaration of a variable: `let x: T = e;`."""

    name: str
    type: TypeExpr | None
    value: Expr


class Assign(Node, frozen=True, gc=False):
    """`x = e`, `x.f = e`, `x[i].f = e`: the variable gets a new value."""

    target: Name | Member | Index
    value: Expr


class ExprStmt(Node, frozen=True, gc=False):
    """An expression as a statement: `print(x);`."""

    value: Expr


class Return(Node, frozen=True, gc=False):
    """`return e;`, or `return;` with None."""

    value: Expr | None


class Break(Node, frozen=True, gc=False):
    """`break;`."""


class Continue(Node, frozen=True, gc=False):
    """`continue;`."""


class If(Node, frozen=True, gc=False):
    """`else if` is an If alone in the block of `other`."""

    test: Expr
    then: Block
    other: Block | None = None


class While(Node, frozen=True, gc=False):
    """`while test limit 5 { … }`."""

    test: Expr
    body: Block
    limit: Expr | None = None


class For(Node, frozen=True, gc=False):
    """`for x in xs`, and with two names `for k, v in m`: key and value, or index and item."""

    names: tuple[str, ...]
    over: Expr
    body: Block


class Catch(Node, frozen=True, gc=False):
    """`catch Kind(reason)`; an empty `kind` catches all that can be caught."""

    kind: str
    reason: str
    body: Block


class Try(Node, frozen=True, gc=False):
    """`try { … } catch Timeout { … }`."""

    body: Block
    catches: tuple[Catch, ...]


class Session(Node, frozen=True, gc=False):
    """`session budget $m on_exceed ask speculate $0 confirm $m { … } catch … { … }`."""

    budget: Expr
    body: Block
    settings: "tuple[Setting, ...]" = ()
    catches: tuple[Catch, ...] = ()


class Parallel(Node, frozen=True, gc=False):
    """`parallel { … }`: each statement inside is a task."""

    body: Block
    catches: tuple[Catch, ...] = ()


class Monitor(Node, frozen=True, gc=False):
    """`monitor(a) { reason -> … }`."""

    of: Expr
    reason: str
    body: Block


Stmt: TypeAlias = (
    Let
    | Assign
    | ExprStmt
    | Return
    | Break
    | Continue
    | If
    | While
    | For
    | Try
    | Session
    | Parallel
    | Monitor
    | Block
)


class Setting(Node, frozen=True, gc=False):
    """A soft keyword and what follows it: `max_restarts 3`, `requests 60 per 1m` (two settings:
    `requests 60` and `per 1m`), `strategy queue` (the value a Name), `on [timeout]` (a ListLit of
    Names), `backoff exponential(100ms, 2.0, 5s)` (a Call)."""

    name: str
    value: Expr


# What a file declares: functions, tools, agents, supervisors, types, and what it uses.


class Field(Node, frozen=True, gc=False):
    """A field of a record: `note: str`."""

    name: str
    type: TypeExpr


class TypeDecl(Node, frozen=True, gc=False):
    """A record, or with `alias` another name: `type Severity = "low" | "high"`."""

    name: str
    fields: tuple[Field, ...]
    alias: TypeExpr | None = None


class Param(Node, frozen=True, gc=False):
    """A parameter: `path: str`."""

    name: str
    type: TypeExpr | None


class CapName(Node, frozen=True, gc=False):
    """`fs::read`."""

    name: str


class Grants(Node, frozen=True, gc=False):
    """`may [...]` or `capabilities [...]`, and what narrows it. None where nothing is written."""

    capabilities: tuple[CapName, ...] | None = None
    paths: tuple[Text, ...] | None = None
    commands: tuple[Text, ...] | None = None
    hosts: tuple[Text, ...] | None = None


class FnDecl(Node, frozen=True, gc=False):
    """`fn main(paths: [str]) -> int may [fs::read] budget $2 { … }`."""

    name: str
    params: tuple[Param, ...]
    result: TypeExpr | None
    grants: Grants | None
    budget: Expr | None
    body: Block


class ToolDecl(Node, frozen=True, gc=False):
    """`tool page(name: str) -> str "One page." capabilities [fs::read] { … }`."""

    name: str
    params: tuple[Param, ...]
    result: TypeExpr | None
    description: Text | None
    grants: Grants | None
    body: Block
    settings: tuple[Setting, ...] = ()


class ToolRef(Node, frozen=True, gc=False):
    """A tool is named in `tools [read_file, mcp "github", yaml "tools.yaml"]`; `kind` is '', `mcp`
    or `yaml`."""

    name: str
    kind: str = ""


class AgentField(Node, frozen=True, gc=False):
    """`model "x"`, `temperature 0.2`; a block such as `retry { … }` is its settings."""

    name: str
    value: "Expr | tuple[Setting, ...] | tuple[ToolRef, ...]"


class AgentDecl(Node, frozen=True, gc=False):
    """`agent Coder { model smart  tool run() { … } }`."""

    name: str
    fields: tuple[AgentField, ...]
    tools: tuple[ToolDecl, ...]


class SupervisorDecl(Node, frozen=True, gc=False):
    """`children` are names of agents and supervisors."""

    name: str
    settings: tuple[Setting, ...]
    children: tuple[Name, ...]


class UseMcp(Node, frozen=True, gc=False):
    """`use mcp "github"`, `use mcp "github" as gh`."""

    server: str
    name: str


class UseFile(Node, frozen=True, gc=False):
    """`use "lib/text.vega" as text`; without `as` the stem of the file is the name."""

    path: str
    name: str


class UseNode(Node, frozen=True, gc=False):
    """`node pay = "transfer_v1"`: a node of Vesper, by its id, as a function."""

    node: str
    name: str


def name_of_file(path: str) -> str:
    """Return the name that a used file has where none is given: `text` of `lib/text.vega`."""
    return path.rpartition("/")[2].removesuffix(".vega")


Decl: TypeAlias = (
    FnDecl | ToolDecl | AgentDecl | SupervisorDecl | TypeDecl | UseMcp | UseFile | UseNode
)


class Source(Node, frozen=True, gc=False):
    """One file. `header` is `program may [...] …`; `body` are the statements at top level."""

    header: Grants | None
    decls: tuple[Decl, ...]
    body: tuple[Stmt, ...]


# Walking a tree: all nodes below one, and the variables that it gives new values.


def below(node: object) -> Iterator[Node]:
    """Yield all nodes below one, itself first; a tuple of nodes will do."""
    due = [node]
    while due:
        one = due.pop()
        if isinstance(one, tuple):
            due.extend(one)  # pyright: ignore[reportUnknownArgumentType]
        elif isinstance(one, Node):
            count_steps()
            yield one
            due.extend(getattr(one, name) for name in one.__struct_fields__[2:])


def root_of(target: Expr) -> Name:
    """Return the variable of `x.f[i]`."""
    while isinstance(target, Member | Index):
        target = target.of
    assert isinstance(target, Name)
    return target


def assigned_in(node: object) -> set[str]:
    """Return the names that get a new value somewhere below; some may be of variables declared
    there."""
    return {root_of(one.target).name for one in below(node) if isinstance(one, Assign)}
