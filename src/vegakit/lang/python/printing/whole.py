"""A whole program as Python: imports, records, agents, functions."""

import ast

from vegakit.lang.checked import Checked
from vegakit.lang.diagnostics import Diagnostic
from vegakit.lang.python.owning import shared_changes
from vegakit.lang.python.printing.calls import CALLS
from vegakit.lang.python.printing.comments import Comments
from vegakit.lang.python.printing.context import NoFormError, Printer
from vegakit.lang.python.printing.declarations import agent, grants_of, record, supervisor
from vegakit.lang.python.printing.expressions import PRINTED, quoted
from vegakit.lang.python.printing.statements import Statements
from vegakit.lang.python.printing.types import annotation
from vegakit.lang.python.signs import natural_names
from vegakit.lang.tree import (
    AgentDecl,
    Block,
    Decl,
    FnDecl,
    Source,
    SupervisorDecl,
    ToolDecl,
    TypeDecl,
    UseFile,
    UseMcp,
)

__all__ = ["to_python"]

_MODULES = ("dataclasses", "typing", "pydantic", "vegakit")
_TRIES = 4

PRINTED.update(CALLS)


def to_python(checked: Checked) -> tuple[str, tuple[Diagnostic, ...]]:
    """The text, or what in the program has no form in Python."""
    printer = Printer(checked)
    try:
        return _Whole(printer).text(), ()
    except NoFormError as error:
        return "", (printer.no_form(error),)


class _Whole:
    def __init__(self, p: Printer) -> None:
        self.p = p
        self.source: Source = p.unit.source
        self.comments = Comments(p.unit.text, self.source)

    def text(self) -> str:
        p, first = self.p, self._first()
        head = self.comments.before(first)
        for decl in self._ordered():
            self._decl(decl)
        if self.source.body:
            self._main()
        tail = self.comments.before(len(p.unit.text) + 1)
        body = "\n".join([*p.lines, *tail]).strip("\n")
        gap = [""] if self._begins_plainly() else ["", ""]
        return "\n".join([*head, *self._imports(), *gap, body]).lstrip("\n") + "\n"

    def _begins_plainly(self) -> bool:
        return " = " in next((line for line in self.p.lines if line), "")

    def _first(self) -> int:
        found = [one.at for one in (*self.source.decls, *self.source.body)]
        return min(found, default=len(self.p.unit.text) + 1)

    def _ordered(self) -> list[Decl]:
        """Python runs a file from its top: a tool stands before the agents that have it."""
        order = (UseFile, UseMcp, TypeDecl, ToolDecl, AgentDecl, SupervisorDecl, FnDecl)
        return sorted(self.source.decls, key=lambda decl: order.index(type(decl)))

    def _imports(self) -> list[str]:
        made = [
            f"from {module} import {', '.join(sorted(self.p.imports[module]))}"
            for module in _MODULES
            if module in self.p.imports
        ]
        own = [line for line in made if line.startswith(("from dataclasses", "from typing"))]
        others = made[len(own) :]
        return [*own, "", *others] if own and others else made

    def _decl(self, decl: Decl) -> None:
        p = self.p
        is_line = isinstance(decl, AgentDecl | SupervisorDecl | UseMcp) or (
            isinstance(decl, TypeDecl) and decl.alias is not None
        )
        self._gap(1 if is_line and self._after_line() else 2)
        match decl:
            case UseFile():
                raise NoFormError(decl, "another file is used", "join the files first")
            case UseMcp():
                name = p.fit(decl.name, decl)
                p.line(f"{name} = {p.uses('vega')}.mcp({quoted(decl.server)})")
            case TypeDecl():
                record(p, decl)
            case ToolDecl():
                self._tool(decl)
            case AgentDecl():
                for tool in decl.tools:
                    self._tool(tool)
                    self._gap(2)
                agent(p, decl)
            case SupervisorDecl():
                supervisor(p, decl)
            case FnDecl():
                self._function(decl)

    def _after_line(self) -> bool:
        last = next((line for line in reversed(self.p.lines) if line), "")
        return not last.startswith((" ", "def "))

    def _gap(self, lines: int) -> None:
        while self.p.lines and self.p.lines[-1] == "":
            self.p.lines.pop()
        if self.p.lines:
            self.p.lines += [""] * lines

    def _function(self, decl: FnDecl) -> None:
        p = self.p
        given = grants_of(p, decl.grants or self.source.header, "may", decl.budget)
        if decl.name == "main":
            p.line(f"@{p.uses('program')}{f'({given})' if given else ''}")
        elif given:
            p.line(f"@{p.uses('program')}.function({given})")
        self._def(decl.name, decl, decl.body)

    def _tool(self, decl: ToolDecl) -> None:
        p = self.p
        if p.fit(decl.name, decl) != decl.name:
            raise NoFormError(
                decl, f"`{decl.name}` is taken in Python, and models know a tool by its name"
            )
        given = [grants_of(p, decl.grants, "capabilities", None)]
        given += ["repeatable=True"] if decl.settings else []
        p.line(f"@{p.uses('program')}.tool({', '.join(one for one in given if one)})")
        self._def(decl.name, decl, decl.body)

    def _main(self) -> None:
        self._gap(2)
        p, body = self.p, self.source.body
        given = grants_of(p, self.source.header, "may", None)
        p.line(f"@{p.uses('program')}{f'({given})' if given else ''}")
        whole = Block(body[0].at, body[-1].end, body)
        p.line("def main() -> None:")
        self._body(whole, ())

    def _def(self, name: str, decl: FnDecl | ToolDecl, body: Block) -> None:
        p = self.p
        params: list[str] = []
        for param in decl.params:
            assert param.type is not None
            params.append(f"{p.fit(param.name, param)}: {annotation(p, param.type)}")
        result = "None" if decl.result is None else annotation(p, decl.result)
        p.line(f"def {p.fit(name, decl)}({', '.join(params)}) -> {result}:")
        if isinstance(decl, ToolDecl) and decl.description is not None:
            said = "".join(str(part) for part in decl.description.parts)
            with p.indented():
                p.line(quoted(said) if "\n" not in said else f'"""{said}"""')
        self._body(body, tuple(param.name for param in decl.params))

    def _body(self, body: Block, params: tuple[str, ...]) -> None:
        """A first try shows which numbers are never negative and which lists are shared; then it
        is written again."""
        p = self.p
        begins, waiting = len(p.lines), list(self.comments.waiting)
        for _ in range(_TRIES):
            del p.lines[begins:]
            self.comments.waiting = list(waiting)
            with p.indented(), p.scope():
                for name in params:
                    p.declare(name, body)
                Statements(p, self.comments).all(body.body, body)
            found = _learned(p.lines, begins)
            if found == (p.natural, p.shared):
                break
            p.natural, p.shared = found[0], found[1] | p.shared
        p.natural, p.shared = set(), set()


def _learned(lines: list[str], begins: int) -> tuple[set[str], set[int]]:
    head = next(at for at in range(begins - 1, -1, -1) if lines[at].startswith("def "))
    function = ast.parse("\n".join(lines[head:])).body[0]
    assert isinstance(function, ast.FunctionDef)
    shared = shared_changes(function, set())
    marked = {
        head + node.lineno - 1
        for node in ast.walk(function)
        if isinstance(node, ast.stmt) and id(node) in shared
    }
    return natural_names(function), marked
