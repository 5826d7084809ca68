"""All lowering rules share what is in this module: positions in the source, the file, the function
being lowered, and the table of rules (pure).

A rule takes a node of Python and returns a node of the tree with the same position. What depends
on types is recorded as a demand and checked later.
"""

import ast
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, NamedTuple, NoReturn, TypeAlias

from vegakit.lang.diagnostics import DiagnosticCollector, Edit, count_steps
from vegakit.lang.library import VEGA_ERRORS
from vegakit.lang.python.aliasing import makers_among
from vegakit.lang.python.subset import DECLARING, RESERVED
from vegakit.lang.syntax import tree
from vegakit.lang.types import Signature

# Where nodes of Python stand, in characters of the text: Python itself counts lines and bytes.


_LINE_END = re.compile(r"\r\n|\r|\n")


class SourceSpan(NamedTuple):
    """Offsets of a piece of the text. A node begins with the two: `tree.Name(*span, "x")`."""

    at: int
    end: int


class SourceMap:
    """Offsets of nodes of Python in the text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0, *(match.end() for match in _LINE_END.finditer(text))]
        self._is_ascii = text.isascii()

    def at(self, line: int, column: int) -> int:
        """`column` counts bytes of UTF-8."""
        start = self._starts[min(max(line, 1), len(self._starts)) - 1]
        if self._is_ascii:
            return min(start + column, len(self.text))
        end = self._starts[line] if line < len(self._starts) else len(self.text)
        head = self.text[start:end].encode()[:column]
        return start + len(head.decode(errors="ignore"))

    def span(self, node: ast.AST) -> SourceSpan:
        """Return where a node stands."""
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        end_line = getattr(node, "end_lineno", None) or line
        end_column = getattr(node, "end_col_offset", None)
        at = self.at(line, column)
        end = at + 1 if end_column is None else self.at(end_line, end_column)
        return SourceSpan(at, max(at, end))

    def source(self, node: ast.AST) -> str:
        """Return the text of a node."""
        span = self.span(node)
        return self.text[span.at : span.end]


# Names that are imported, and edits that import them.


VEGA_NAMES = frozenset(
    "Agent MaxLen Process parallel program race session spawn tool vega".split()
) | {*VEGA_ERRORS}
"""Names of `vegakit` that mean something in a program."""

ORIGINS = {
    **{name: module for module, names in DECLARING.items() for name in names},
    **dict.fromkeys(VEGA_NAMES, "vegakit"),
}
"""Names that programs use, and the module that each is imported from."""

# Edits in two places are one edit from the first to the last.


def joined(text: str, edits: Iterable[Edit]) -> Edit | None:
    """Return one edit that does what several do, None if there are none. They do not overlap."""
    ordered = sorted(edits, key=lambda one: one.at)
    if not ordered:
        return None
    at, made = ordered[0].at, ""
    for one in ordered:
        made += text[at : one.at] + one.text
        at = one.end
    return Edit(ordered[0].at, at, made)


def importing(file: "PythonFile", name: str) -> Edit | None:
    """Return the edit that imports a name, None if it is imported already."""
    module = ORIGINS[name]
    if file.imported.get(name) == f"{module}.{name}":
        return None
    for node in file.imports:
        if node.module == module and not node.level:
            at = file.span(node.names[-1]).end
            return Edit(at, at, f", {name}")
    later = [file.span(one) for one in file.imports if one.module != "__future__"]
    if not later and file.imports:
        at = file.span(file.imports[-1]).end
        return Edit(at, at, f"\nfrom {module} import {name}")
    at = later[0].at if later else 0
    return Edit(at, at, f"from {module} import {name}\n")


def with_imports(file: "PythonFile", edit: Edit, *names: str) -> Edit:
    """Return an edit that also imports what its text needs."""
    more = (made for name in names if (made := importing(file, name)) is not None)
    made = joined(file.text, [edit, *more])
    assert made is not None
    return made


# What all rules of the lowering share: one file, and one function of it.
#
# A rule takes a node of Python and gives a node of the tree with the same place in the text. What
# depends on types is not decided here: it is noted as a demand and held to when the checker is
# done.


class RefusedError(Exception):
    """A statement was refused and reported. The next one is looked at."""


class Demand:
    """`rule` names what is asked of the types of `node`; `place` is where it is said if not."""

    __slots__ = ("is_proven", "node", "place", "rule")

    def __init__(
        self, rule: str, node: tree.Expr, place: ast.AST, *, is_proven: bool = False
    ) -> None:
        self.rule, self.node, self.place, self.is_proven = rule, node, place, is_proven


class RecordHead:
    """`needed` are fields without a default; a dataclass may be given its fields by place."""

    def __init__(self, by_place: bool) -> None:
        self.by_place = by_place
        self.fields: dict[str, tree.TypeExpr] = {}
        self.needed: set[str] = set()


class FunctionHead:
    """A function with its parameters, result and defaults, as far as they are read."""

    def __init__(self, node: ast.FunctionDef) -> None:
        self.node = node
        self.params: tuple[tree.Param, ...] = ()
        self.result: tree.TypeExpr | None = None
        self.defaults: dict[str, ast.expr] = {}


def _is_plain(kind: tree.TypeExpr | None) -> bool:
    """Whether such a value is no list, dict or record, and holds none."""
    match kind:
        case tree.OptionalType(inner=inner):
            return _is_plain(inner)
        case tree.NamedType(name=name):
            return name in _PLAIN
        case _:
            return kind is None or isinstance(kind, tree.ChoiceType)


_PLAIN = frozenset({"str", "int", "float", "bool", "money", "duration"})


class PythonFile:
    """`imported` maps a name to where it comes from: `vegakit.Agent`, `typing.Literal`; `foreign`
    those of modules that only functions of Python may use; `tools` are those functions. `unread`
    are names whose declaration was refused, `methods` those that classes declare in vain: what
    uses them is not blamed again. `left_out` are statements that were refused and that nothing
    after them hangs on."""

    def __init__(self, text: str, findings: DiagnosticCollector) -> None:
        self.text, self.findings, self.source_map = text, findings, SourceMap(text)
        self.imported: dict[str, str] = {}
        self.imports: list[ast.ImportFrom] = []
        self.foreign: dict[str, str] = {}
        self.unread: set[str] = set()
        self.methods: set[str] = set()
        self.records: dict[str, RecordHead] = {}
        self.aliases: dict[str, tree.TypeExpr] = {}
        self.functions: dict[str, FunctionHead] = {}
        self.agents: set[str] = set()
        self.servers: set[str] = set()
        self.nodes: set[str] = set()
        self.constants: dict[str, ast.Constant] = {}
        self.tools: dict[str, Signature | None] = {}
        self.left_out: list[SourceSpan] = []
        self.demands: list[Demand] = []

    def span(self, node: ast.AST) -> SourceSpan:
        """Return the offsets of a Python node in the file."""
        return self.source_map.span(node)

    def source(self, node: ast.AST) -> str:
        """Return the text of a Python node."""
        return self.source_map.source(node)

    def report(
        self,
        code: str,
        where: ast.AST | SourceSpan,
        message: str,
        help: str = "",  # noqa: A002  (the field's name)
        edit: Edit | None = None,
    ) -> None:
        """Report a fault and go on."""
        span = where if isinstance(where, SourceSpan) else self.span(where)
        self.findings.report(code, message, *span, help, edit)

    def refuse(
        self,
        code: str,
        where: ast.AST | SourceSpan,
        message: str,
        help: str = "",  # noqa: A002
        edit: Edit | None = None,
    ) -> NoReturn:
        """Report a fault and leave the statement."""
        self.report(code, where, message, help, edit)
        raise RefusedError

    def replaced(self, node: ast.AST, text: str) -> Edit:
        """Return the edit that puts `text` in place of a node."""
        return Edit(*self.span(node), text)

    def written(self, node: ast.AST, text: str) -> Edit:
        """Return the edit that puts `text` in place of a node, and imports the library where the
        text needs it."""
        needs = ["vega"] if "vega." in text else []
        return with_imports(self, self.replaced(node, text), *needs)

    def rewritten(self, node: ast.Call, text: str, of: ast.AST | None = None) -> Edit | None:
        """Return the edit that puts `text` in place of a call, its arguments for `{args}`. None
        where the result could not be read: an assignment inside an expression, arguments by
        name."""
        given = ", ".join(map(self.source, node.args))
        made = text.format(args=given, of="" if of is None else self.source(of))
        begins = self.text.rfind("\n", 0, self.span(node).at) + 1
        is_alone = not self.text[begins : self.span(node).at].strip()
        if node.keywords or (" = " in text and not is_alone):
            return None
        return self.written(node, made)

    def last_name(self, node: ast.Attribute) -> SourceSpan:
        """Return where the name behind the last dot stands."""
        end = self.span(node).end
        return SourceSpan(end - len(node.attr), end)

    def means(self, node: ast.AST, name: str) -> bool:
        """Whether it is this name of another module: `vegakit.session`."""
        return isinstance(node, ast.Name) and self.imported.get(node.id) == name

    @cached_property
    def owners(self) -> tuple[set[str], set[str]]:
        """Names whose calls give something that nobody else holds, and functions that keep nothing
        of what they are given. Asked when the heads of all functions are read."""
        lookers = {name for name, head in self.functions.items() if _is_plain(head.result)}
        nodes = {name: head.node for name, head in self.functions.items() if name not in lookers}
        known = {*self.records, *self.agents}
        return known | makers_among(nodes, known, lookers), lookers

    def is_declared(self, name: str) -> bool:
        """Return whether a name is declared at the top of the file."""
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
                self.nodes,
                self.constants,
                self.tools,
            )
        )


class FunctionContext:
    """One function. `scopes` are the blocks around this point with the variables they declare;
    `assigned` all names that get a value anywhere in it; `reasons` the variables of `except … as`,
    with whether their text is the same under Python; `natural` those that are never below zero;
    `shared` the places of changes whose list or record may be seen from elsewhere."""

    def __init__(
        self, file: PythonFile, assigned: Mapping[str, ast.AST], natural: set[str]
    ) -> None:
        self.file = file
        self.scopes: list[dict[str, tree.TypeExpr | None]] = [{}]
        self.assigned = assigned
        self.natural = natural
        self.shared: dict[int, str] = {}
        self.reasons: dict[str, bool] = {}
        self.unread: set[str] = set()
        self.returns_nothing = False
        self.read_after: Callable[[str, ast.AST], bool] = lambda _name, _node: False

    def span(self, node: ast.AST) -> SourceSpan:
        """Return the offsets of a Python node in the file of this function."""
        return self.file.span(node)

    def refuse(
        self,
        code: str,
        where: ast.AST | SourceSpan,
        message: str,
        help: str = "",  # noqa: A002
        edit: Edit | None = None,
    ) -> NoReturn:
        """Report a fault and leave the statement."""
        self.file.refuse(code, where, message, help, edit)

    def declare(self, name: str, kind: tree.TypeExpr | None = None) -> None:
        """Declare a variable in the innermost block, with its type if that is known."""
        self.scopes[-1][name] = kind

    def is_known(self, name: str) -> bool:
        """Return whether a variable is declared here."""
        return any(name in scope for scope in self.scopes)

    def kind(self, name: str) -> tree.TypeExpr | None:
        """Return the type of a variable as far as it is known."""
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return None

    def demand(
        self, rule: str, node: tree.Expr, place: ast.AST, *, is_proven: bool = False
    ) -> None:
        """Note a demand on types, to be checked when they are known."""
        self.file.demands.append(Demand(rule, node, place, is_proven=is_proven))


Rule: TypeAlias = Callable[[FunctionContext, Any], Any]

EXPRESSIONS: dict[type, Rule] = {}
STATEMENTS: dict[type, Rule] = {}
"""The rule of each kind of node, put together where a whole file is lowered."""


def expression(body: FunctionContext, node: ast.expr) -> tree.Expr:
    """Return an expression of Python as a node of the tree."""
    count_steps(4)
    return EXPRESSIONS[type(node)](body, node)


# Names that variables and parameters may have.


def check_variable_name(body: FunctionContext, node: ast.AST, name: str) -> None:
    """Refuse a variable whose name is taken."""
    check_name(body.file, node, name, "a variable")


def check_name(file: PythonFile, node: ast.AST, name: str, what: str) -> None:
    """Refuse a name that is a builtin of Python or declared at the top of the file."""
    if name in RESERVED or file.is_declared(name):
        taken = "a builtin of Python" if name in RESERVED else "declared at the top of the file"
        file.refuse(
            "python-shadow",
            node,
            f"`{name}` is {taken}, {what} cannot have its name",
            f"choose another name, such as `{name}_`",
        )
