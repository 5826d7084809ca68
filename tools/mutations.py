"""Small changes of a module, one at a time, that a test should notice.

`mutations(source)` returns the places where a kind of change fits. No test should hold annotations,
docstrings, assertions, messages of errors, code for type checkers and tables of exports, so these
are skipped.
"""

import ast
import difflib
import random
import re
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple, cast

FLIPPED: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Lt: ("<", ">="),
    ast.LtE: ("<=", ">"),
    ast.Gt: (">", "<="),
    ast.GtE: (">=", "<"),
    ast.Is: (r"is", "is not"),
    ast.IsNot: (r"is\s+not", "is"),
    ast.In: (r"in", "not in"),
    ast.NotIn: (r"not\s+in", "in"),
}
"""Operators as they are written, and their opposites."""
MOVED: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
}
SKIPPED = (ast.Assert, ast.Raise, ast.JoinedStr, ast.Import, ast.ImportFrom)


class Mutation(NamedTuple):
    """The text of the bytes from `start` to `end` of a module, replaced."""

    kind: str
    start: int
    end: int
    text: str

    def applied(self, source: str) -> str:
        """Return the source with this change."""
        source_bytes = source.encode()
        changed = source_bytes[: self.start] + self.text.encode() + source_bytes[self.end :]
        return changed.decode()


def mutations(source: str) -> list[Mutation]:
    """Return every change, in an order that depends on the source alone."""
    return sorted(_Finder(source).changes(ast.parse(source)))


def draw(source: str, chance: random.Random) -> Mutation | None:
    """Draw a change: first its kind, then its place. A module may have none."""
    changes = mutations(source)
    while changes:
        kind = chance.choice(sorted({change.kind for change in changes}))
        change = chance.choice([change for change in changes if change.kind == kind])
        if _compiles(change.applied(source)):
            return change
        changes.remove(change)
    return None


OF_FUNCTION, OF_MODULE = 4.0, 1.0


def names_around(source: str, change: Mutation) -> dict[str, float]:
    """Return the names that a module defines, with a weight. Those of the function and class around
    a change weigh more, so that tests which use them come first."""
    tree = ast.parse(source)
    line = source.encode()[: change.start].count(b"\n") + 1
    weights: dict[str, float] = {}
    for node in ast.walk(tree):
        match node:
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
            ):
                is_around = node.lineno <= line <= (node.end_lineno or 0)
                weights[name] = max(weights.get(name, 0), OF_FUNCTION if is_around else OF_MODULE)
            case ast.Assign(targets=[ast.Name(id=name)]) if node in tree.body:
                weights.setdefault(name, OF_MODULE)
            case _:
                pass
    return weights


def diff(path: str, before: str, after: str) -> str:
    """Return the change as `git diff` prints it, with one line of context."""
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), f"a/{path}", f"b/{path}", n=1, lineterm=""
    )
    return "\n".join(lines)


def statements(source: str) -> int:
    """Return how many statements a module has: the weight with which it is drawn."""
    return sum(isinstance(node, ast.stmt) for node in ast.walk(ast.parse(source)))


def _compiles(source: str) -> bool:
    try:
        compile(source, "mutant", "exec")
    except SyntaxError:
        return False
    return True


class _Finder:
    def __init__(self, source: str) -> None:
        self._bytes = source.encode()
        lines = self._bytes.splitlines(keepends=True)
        self._starts = [0, *accumulate(map(len, lines))]

    def changes(self, node: ast.AST, returns: str = "") -> Iterator[Mutation]:
        """Return the changes of a node and of the nodes below it. `returns` is the annotation of
        the function around it."""
        if isinstance(node, SKIPPED) or _is_for_readers(node):
            return
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            returns = ast.unparse(node.returns) if node.returns else ""
        yield from self._of(node, returns)
        for name, value in ast.iter_fields(node):
            if name in {"annotation", "returns", "decorator_list", "bases", "type_comment"}:
                continue
            parts = cast("list[object]", value) if isinstance(value, list) else [value]
            for part in parts:
                if isinstance(part, ast.AST):
                    yield from self.changes(part, returns)

    def _of(self, node: ast.AST, returns: str) -> Iterator[Mutation]:
        yield from self._of_operators(node)
        match node:
            case ast.Constant(value=bool() as value):
                yield self._replaced("constant changed", node, repr(not value))
            case ast.Constant(value=int() | float() as value):
                yield self._replaced("constant changed", node, repr(value + 1))
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
                if not isinstance(test, ast.Constant):
                    yield self._negated(test)
            case ast.comprehension(ifs=[test]):
                yield self._negated(test)
            case ast.Expr(value=ast.Call() | ast.Await(value=ast.Call())):
                yield self._replaced("call dropped", node, "pass")
            case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
                text = f"not ({self._text(value)})" if returns == "bool" else "None"
                yield self._replaced("return changed", value, text)
            case _:
                pass

    def _of_operators(self, node: ast.AST) -> Iterator[Mutation]:
        match node:
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                yield from self._operator("comparison flipped", left, right, FLIPPED[type(op)])
                if type(op) in MOVED:
                    yield from self._operator("boundary moved", left, right, MOVED[type(op)])
                if isinstance(right, ast.Constant) and isinstance(right.value, str):
                    yield self._replaced("constant changed", right, repr(right.value + "x"))
            case ast.BoolOp(op=op, values=[left, right, *_]):
                words = ("and", "or") if isinstance(op, ast.And) else ("or", "and")
                yield from self._operator("and/or swapped", left, right, words)
            case _:
                pass

    def _negated(self, test: ast.expr) -> Mutation:
        return self._replaced("condition negated", test, f"(not ({self._text(test)}))")

    def _operator(
        self, kind: str, left: ast.expr, right: ast.expr, words: tuple[str, str]
    ) -> Iterator[Mutation]:
        """Replace the operator between two operands; there may be parentheses and comments."""
        pattern, text = words
        start, end = self._end(left), self._start(right)
        word = rf"(?<!\w){pattern}(?!\w)" if pattern[0].isalpha() else re.escape(pattern)
        if found := re.search(word.encode(), self._bytes[start:end]):
            yield Mutation(kind, start + found.start(), start + found.end(), text)

    def _replaced(self, kind: str, node: ast.AST, text: str) -> Mutation:
        return Mutation(kind, self._start(node), self._end(node), text)

    def _text(self, node: ast.AST) -> str:
        return self._bytes[self._start(node) : self._end(node)].decode()

    def _start(self, node: ast.AST) -> int:
        return self._starts[node.lineno - 1] + node.col_offset  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]

    def _end(self, node: ast.AST) -> int:
        return self._starts[node.end_lineno - 1] + node.end_col_offset  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]


def _is_for_readers(node: ast.AST) -> bool:
    """Return whether only people or type checkers read a node."""
    match node:
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Assign(targets=[ast.Name(id="TYPE_CHECKING" | "__all__")]):
            return True
        case ast.Assign(value=ast.Call(func=ast.Name(id="lazy_exports"))):
            return True
        case ast.AnnAssign(annotation=ast.Name(id="TypeAlias")):
            return True
        case _:
            return False
