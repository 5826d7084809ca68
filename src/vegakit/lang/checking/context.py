"""What all rules of the checker share: the program's tables, and one body of statements.

A rule for a kind of expression takes the body, the node and the type that is wanted there, if one
is: a hint that literals and answers take up. `check` then holds the result to it.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from vegakit.lang.checked import Callee, NameKind
from vegakit.lang.checking.declared import Names
from vegakit.lang.checking.flowing import Assigned
from vegakit.lang.checking.relations import Holes
from vegakit.lang.checking.reports import Reports
from vegakit.lang.checking.variables import Facts, Scopes
from vegakit.lang.signatures import Signature
from vegakit.lang.steps import took
from vegakit.lang.tree import Expr, FnDecl, Node, ToolDecl, TypeDecl
from vegakit.lang.types import NOTHING, Type

__all__ = ["EXPRESSIONS", "Body", "Program", "Rule", "infer"]


class Program:
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
        self.holes = Holes()
        self.types: dict[int, Type] = {}
        self.callees: dict[int, Callee] = {}
        self.arguments: dict[int, tuple[int | None, ...]] = {}
        self.names: dict[int, NameKind] = {}
        self.full_names: dict[int, str] = {}
        self.files: dict[str, Names] = {}
        self.supervisors: set[str] = set()
        self.forming: list[TypeDecl] = []
        self.parts: dict[str, int] = {}
        self.assigned = Assigned()
        self.place: Node | None = None


class Body:
    """Of a function, a tool, or the statements at top level when `owner` is None.

    `tests` holds for each condition what is known where it is true and where it is false;
    `answers` the types that are declared for the sends in it; `strand` is the block (`parallel`,
    `monitor`) that runs beside the rest, if this is inside one, and `fence` the first variable of
    it.
    """

    def __init__(self, program: Program, names: Names, owner: FnDecl | ToolDecl | None) -> None:
        self.program, self.names, self.owner = program, names, owner
        self.reports, self.holes = program.reports, program.holes
        self.scopes = Scopes()
        self.result: Type = NOTHING
        self.agent = ""
        self.errors_before = program.reports.errors
        self.loops = 0
        self.strand = ""
        self.fence = 0
        self.tests: dict[int, tuple[Facts, Facts]] = {}
        self.answers: dict[int, Type] = {}
        self.lacking: set[str] = set()
        self.later: dict[str, Node] = {}

    def source(self, node: Node) -> str:
        return self.names.unit.text[node.at : node.end]


Rule: TypeAlias = Callable[[Body, Any, "Type | None"], Type]

EXPRESSIONS: dict[type, Rule] = {}
"""The rule of each kind of expression, put together where the whole program is checked."""


def infer(body: Body, node: Expr, want: Type | None = None) -> Type:
    took(2)
    kind = body.holes.seen(EXPRESSIONS[type(node)](body, node, want))
    body.program.types[id(node)] = kind
    return kind
