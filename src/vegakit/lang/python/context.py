"""What all rules of the lowering share: one file, and one function of it.

A rule takes a node of Python and gives a node of the tree with the same place in the text. What
depends on types is not decided here: it is noted as a demand and held to when the checker is done.
"""

import ast
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeAlias

from vegakit.lang.diagnostics import Edit, Findings
from vegakit.lang.python.places import Places
from vegakit.lang.signatures import Signature
from vegakit.lang.steps import took
from vegakit.lang.tree import Expr, Node, Param, TypeExpr

__all__ = [
    "EXPRESSIONS",
    "STATEMENTS",
    "Body",
    "Demand",
    "File",
    "FunctionHead",
    "RecordHead",
    "RefusedError",
    "Rule",
    "expression",
]


class RefusedError(Exception):
    """This statement is reported; the next one is looked at."""


class Demand:
    """`rule` names what is asked of the types of `node`; `place` is where it is said if not."""

    __slots__ = ("is_proven", "node", "place", "rule")

    def __init__(self, rule: str, node: Expr, place: ast.AST, *, is_proven: bool = False) -> None:
        self.rule, self.node, self.place, self.is_proven = rule, node, place, is_proven


class RecordHead:
    """`needed` are fields without a default; a dataclass may be given its fields by place."""

    def __init__(self, by_place: bool) -> None:
        self.by_place = by_place
        self.fields: dict[str, TypeExpr] = {}
        self.needed: set[str] = set()


class FunctionHead:
    def __init__(self, node: ast.FunctionDef) -> None:
        self.node = node
        self.params: tuple[Param, ...] = ()
        self.result: TypeExpr | None = None
        self.defaults: dict[str, ast.expr] = {}


class File:
    """`imported` maps a name to where it comes from: `vegakit.Agent`, `typing.Literal`; `foreign`
    are names of modules that only functions of Python may use; `tools` are those functions."""

    def __init__(self, text: str, findings: Findings) -> None:
        self.text, self.findings, self.places = text, findings, Places(text)
        self.imported: dict[str, str] = {}
        self.foreign: set[str] = set()
        self.records: dict[str, RecordHead] = {}
        self.aliases: dict[str, TypeExpr] = {}
        self.functions: dict[str, FunctionHead] = {}
        self.agents: set[str] = set()
        self.servers: set[str] = set()
        self.constants: dict[str, ast.Constant] = {}
        self.tools: dict[str, Signature | None] = {}
        self.demands: list[Demand] = []

    def span(self, node: ast.AST) -> Node:
        return self.places.span(node)

    def source(self, node: ast.AST) -> str:
        return self.places.source(node)

    def report(
        self,
        code: str,
        where: ast.AST | Node,
        message: str,
        help: str = "",  # noqa: A002  (the field's name)
        edit: Edit | None = None,
    ) -> None:
        span = where if isinstance(where, Node) else self.span(where)
        self.findings.report(code, message, span.at, span.end, help, edit)

    def refuse(
        self,
        code: str,
        where: ast.AST | Node,
        message: str,
        help: str = "",  # noqa: A002
        edit: Edit | None = None,
    ) -> NoReturn:
        self.report(code, where, message, help, edit)
        raise RefusedError

    def replaced(self, node: ast.AST, text: str) -> Edit:
        span = self.span(node)
        return Edit(span.at, span.end, text)

    def means(self, node: ast.AST, name: str) -> bool:
        """Whether it is this name of another module: `vegakit.session`."""
        return isinstance(node, ast.Name) and self.imported.get(node.id) == name

    def is_declared(self, name: str) -> bool:
        return any(
            name in known
            for known in (
                self.imported,
                self.foreign,
                self.records,
                self.aliases,
                self.functions,
                self.agents,
                self.servers,
                self.constants,
                self.tools,
            )
        )


class Body:
    """One function. `scopes` are the blocks around this point with the variables they declare;
    `assigned` all names that get a value anywhere in it; `reasons` the variables of `except … as`,
    with whether their text is the same under Python; `natural` those that are never below zero;
    `shared` the places of changes whose list or record may be seen from elsewhere."""

    def __init__(self, file: File, assigned: Mapping[str, ast.AST], natural: set[str]) -> None:
        self.file = file
        self.scopes: list[dict[str, TypeExpr | None]] = [{}]
        self.assigned = assigned
        self.natural = natural
        self.shared: dict[int, str] = {}
        self.reasons: dict[str, bool] = {}
        self.returns_nothing = False
        self.read_after: Callable[[str, ast.AST], bool] = lambda _name, _node: False

    def declare(self, name: str, kind: TypeExpr | None = None) -> None:
        self.scopes[-1][name] = kind

    def is_known(self, name: str) -> bool:
        return any(name in scope for scope in self.scopes)

    def kind(self, name: str) -> TypeExpr | None:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return None

    def demand(self, rule: str, node: Expr, place: ast.AST, *, is_proven: bool = False) -> None:
        self.file.demands.append(Demand(rule, node, place, is_proven=is_proven))


Rule: TypeAlias = Callable[[Body, Any], Any]

EXPRESSIONS: dict[type, Rule] = {}
STATEMENTS: dict[type, Rule] = {}
"""The rule of each kind of node, put together where a whole file is lowered."""


def expression(body: Body, node: ast.expr) -> Expr:
    took(4)
    return EXPRESSIONS[type(node)](body, node)
