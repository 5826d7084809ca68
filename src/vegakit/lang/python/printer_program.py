"""The Python printer: statements and the whole program (pure)."""

import ast
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, ClassVar

from vegakit.lang.check.symbols import Checked
from vegakit.lang.diagnostics import Diagnostic
from vegakit.lang.library import BUILTIN_ERRORS, VEGA_ERRORS
from vegakit.lang.python.aliasing import shared_changes
from vegakit.lang.python.analysis import natural_names
from vegakit.lang.python.printer_calls import CALLS, agent, grants_of, record, settings, supervisor
from vegakit.lang.python.printer_expressions import (
    EXPRESSIONS,
    POSTFIX,
    Fragment,
    NotExpressibleError,
    PythonPrinter,
    annotation,
    over,
    put_amount,
    quoted,
)
from vegakit.lang.syntax import tree
from vegakit.lang.types import FLOAT, INT, ListOf, MapOf, is_text

# Statements as Python.


def _all(p: PythonPrinter, block: tree.Block) -> None:
    """Print the statements of a block, or `pass` where there are none."""
    before = len(p.lines)
    p.body(block.body)
    p.lines_before(block.end)
    if not any(not line.strip().startswith("#") for line in p.lines[before:]):
        p.line("pass")


def _block(p: PythonPrinter, head: str, block: tree.Block, *, own_scope: bool = True) -> None:
    """Print a head and its block. A comment behind the brace goes behind the colon."""
    first, *rest = p.comments.before(p.comments.line_end(block.at + 1)) or [""]
    p.line(f"{head}:  {first}" if first else f"{head}:")
    with p.indented():
        for comment in rest:
            p.line(comment)
        if own_scope:
            with p.scope():
                _all(p, block)
        else:
            _all(p, block)


# Plain ones


def _let(p: PythonPrinter, node: tree.Let) -> None:
    value = p.put(node.value)
    kind = ""
    if node.type is not None and not isinstance(node.value, tree.Ask):
        kind = f": {annotation(p, node.type)}"
    p.say(f"{p.declare(node.name, node)}{kind} = {value}", node.end)


def _assign(p: PythonPrinter, node: tree.Assign) -> None:
    match node:
        case tree.Assign(
            target=tree.Name(name=name),
            value=tree.Binary(op="+", left=tree.Name(name=same), right=tree.ListLit(items=(item,))),
        ) if name == same and len(p.lines) not in p.shared:
            text = f"{p.named(name)}.append({p.put(item)})"
        case tree.Assign(
            target=tree.Name(name=name),
            value=tree.Binary(op="+" | "-" | "*" as op, left=tree.Name(name=same), right=right),
        ) if name == same and (is_text(p.type(node.value)) or p.type(node.value) in (INT, FLOAT)):
            text = f"{p.named(name)} {op}= {p.put(right)}"
        case tree.Assign(target=tree.Name(name=name)):
            text = f"{p.named(name)} = {p.put(node.value)}"
        case tree.Assign(target=tree.Index(of=of, index=at)):
            text = f"{p.put(of, POSTFIX)}[{p.put(at)}] = {p.put(node.value)}"
        case _:
            text = f"{p.put(node.target)} = {p.put(node.value)}"
    p.say(text, node.end)


def _alone(p: PythonPrinter, node: tree.ExprStmt) -> None:
    match node.value:
        case tree.Call(callee=tree.Name(name="fail"), args=(reason,)):
            p.say(f"raise {p.uses('Failed')}({p.put(reason)})", node.end)
        case _:
            p.say(p.put(node.value), node.end)


def _return(p: PythonPrinter, node: tree.Return) -> None:
    p.say("return" if node.value is None else f"return {p.put(node.value)}", node.end)


# Blocks


def _if(p: PythonPrinter, node: tree.If) -> None:
    word, current = "if", node
    while True:
        _block(p, f"{word} {p.put(current.test)}", current.then)
        other = current.other
        if other is None:
            return
        if len(other.body) != 1 or not isinstance(other.body[0], tree.If):
            _block(p, "else", other)
            return
        word, current = "elif", other.body[0]


def _while(p: PythonPrinter, node: tree.While) -> None:
    test = p.put(node.test)
    if node.limit is not None:
        test = f"{p.uses('vega')}.limit({p.put(node.limit)}, {test})"
    _block(p, f"while {test}", node.body)


def _for(p: PythonPrinter, node: tree.For) -> None:
    walked = over(p, node.over)
    with p.scope():
        names = [p.declare(name, node) for name in node.names]
        if len(names) == 2:
            kind = p.type(node.over)
            is_list = isinstance(kind, ListOf)
            if not is_list and not isinstance(kind, MapOf):
                raise NotExpressibleError(node, "a loop with two names over this")
            walked = f"enumerate({walked})" if is_list else f"{p.put(node.over, POSTFIX)}.items()"
        _block(p, f"for {', '.join(names)} in {walked}", node.body)


def _try(p: PythonPrinter, node: tree.Try) -> None:
    _block(p, "try", node.body)
    _catches(p, node.catches)


def _catches(p: PythonPrinter, catches: tuple[tree.Catch, ...]) -> None:
    for node in catches:
        kind = node.kind or "Exception"
        if kind in VEGA_ERRORS:
            p.uses(kind)
        elif kind not in BUILTIN_ERRORS and kind != "Exception":
            raise NotExpressibleError(node, f"the error {kind}")
        with p.scope() as scope:
            said = ""
            if node.reason:
                name = p.declare(node.reason, node)
                scope.reasons[node.reason] = kind in VEGA_ERRORS
                said = f" as {name}"
            _block(p, f"except {kind}{said}", node.body)


def _session(p: PythonPrinter, node: tree.Session) -> None:
    given = [f"budget={put_amount(p, node.budget)}", *settings(p, node.settings)]
    with _caught(p, node.catches):
        _block(p, f"with {p.uses('session')}({', '.join(given)})", node.body)


def _parallel(p: PythonPrinter, node: tree.Parallel) -> None:
    """What it declares is there after it."""
    with _caught(p, node.catches):
        _block(p, f"with {p.uses('parallel')}()", node.body, own_scope=False)


@contextmanager
def _caught(p: PythonPrinter, catches: tuple[tree.Catch, ...]) -> Generator[None]:
    """Put what is printed inside a `try` if there are catches: a `with` has none."""
    if not catches:
        yield
        return
    p.line("try:")
    with p.indented():
        yield
    _catches(p, catches)


def _nested(p: PythonPrinter, node: tree.Block) -> None:
    """Its variables keep their names to themselves."""
    with p.scope() as scope:
        _all(p, node)
    p.scopes[-1].names |= {f" {name}": made for name, made in scope.names.items()}


def _monitor(_p: PythonPrinter, node: tree.Monitor) -> None:
    raise NotExpressibleError(node, "`monitor` runs a block later", "keep this file in Vega")


# A whole program as Python: imports, records, agents, functions.


_MODULES = ("dataclasses", "typing", "pydantic", "vegakit")
_TRIES = 4


def to_python(checked: Checked) -> tuple[str, tuple[Diagnostic, ...]]:
    """Return the text, or what in the program has no form in Python."""
    try:
        return _ProgramPrinter(checked).text(), ()
    except NotExpressibleError as error:
        return "", (error.diagnostic(checked.main),)


class _ProgramPrinter(PythonPrinter):
    expressions: ClassVar[dict[type, Callable[[Any, Any], Fragment]]] = EXPRESSIONS | CALLS
    statements: ClassVar[dict[type, Callable[[Any, Any], None]]] = {
        tree.Let: _let,
        tree.Assign: _assign,
        tree.ExprStmt: _alone,
        tree.Return: _return,
        tree.Break: lambda p, node: p.say("break", node.end),
        tree.Continue: lambda p, node: p.say("continue", node.end),
        tree.If: _if,
        tree.While: _while,
        tree.For: _for,
        tree.Try: _try,
        tree.Session: _session,
        tree.Parallel: _parallel,
        tree.Block: _nested,
        tree.Monitor: _monitor,
    }

    def __init__(self, checked: Checked) -> None:
        super().__init__(checked)
        self.source: tree.Source = self.unit.source

    def text(self) -> str:
        head = self.comments.before(self._first())
        for decl in self._ordered():
            self._decl(decl)
        if self.source.body:
            self._main()
        tail = self.comments.before(len(self.unit.text) + 1)
        body = "\n".join([*self.lines, *tail]).strip("\n")
        gap = [""] if self._begins_plainly() else ["", ""]
        return "\n".join([*head, *self._imports(), *gap, body]).lstrip("\n") + "\n"

    def _begins_plainly(self) -> bool:
        return " = " in next((line for line in self.lines if line), "")

    def _first(self) -> int:
        found = [one.at for one in (*self.source.decls, *self.source.body)]
        return min(found, default=len(self.unit.text) + 1)

    def _ordered(self) -> list[tree.Decl]:
        """Python runs a file from its top: a tool stands before the agents that have it."""
        order = (
            tree.UseFile,
            tree.UseMcp,
            tree.UseNode,
            tree.TypeDecl,
            tree.ToolDecl,
            tree.AgentDecl,
            tree.SupervisorDecl,
            tree.FnDecl,
        )
        return sorted(self.source.decls, key=lambda decl: order.index(type(decl)))

    def _imports(self) -> list[str]:
        made = [
            f"from {module} import {', '.join(sorted(self.imports[module]))}"
            for module in _MODULES
            if module in self.imports
        ]
        own = [line for line in made if line.startswith(("from dataclasses", "from typing"))]
        others = made[len(own) :]
        return [*own, "", *others] if own and others else made

    def _decl(self, decl: tree.Decl) -> None:
        is_line = isinstance(
            decl, tree.AgentDecl | tree.SupervisorDecl | tree.UseMcp | tree.UseNode
        ) or (isinstance(decl, tree.TypeDecl) and decl.alias is not None)
        self._gap(1 if is_line and self._after_line() else 2)
        match decl:
            case tree.UseFile():
                raise NotExpressibleError(decl, "another file is used", "join the files first")
            case tree.UseMcp():
                name = self.fit(decl.name, decl)
                self.line(f"{name} = {self.uses('vega')}.mcp({quoted(decl.server)})")
            case tree.UseNode():
                name = self.fit(decl.name, decl)
                self.line(f"{name} = {self.uses('vega')}.node({quoted(decl.node)})")
            case tree.TypeDecl():
                record(self, decl)
            case tree.ToolDecl():
                self._tool(decl)
            case tree.AgentDecl():
                for tool in decl.tools:
                    self._tool(tool)
                    self._gap(2)
                agent(self, decl)
            case tree.SupervisorDecl():
                supervisor(self, decl)
            case tree.FnDecl():
                self._function(decl)

    def _after_line(self) -> bool:
        last = next((line for line in reversed(self.lines) if line), "")
        return not last.startswith((" ", "def "))

    def _gap(self, lines: int) -> None:
        while self.lines and self.lines[-1] == "":
            self.lines.pop()
        if self.lines:
            self.lines += [""] * lines

    def _function(self, decl: tree.FnDecl) -> None:
        given = grants_of(self, decl.grants or self.source.header, "may", decl.budget)
        if decl.name == "main":
            self.line(f"@{self.uses('program')}{f'({given})' if given else ''}")
        elif given or self._gives_rights():
            self.line(f"@{self.uses('program')}.function({given})")
        self._def(decl.name, decl, decl.body)

    def _gives_rights(self) -> bool:
        """Whether a function without a decorator would have the rights of `main`."""
        mains = (one for one in self.source.decls if isinstance(one, tree.FnDecl))
        return any(one.name == "main" and one.grants is not None for one in mains)

    def _tool(self, decl: tree.ToolDecl) -> None:
        if self.fit(decl.name, decl) != decl.name:
            raise NotExpressibleError(
                decl, f"`{decl.name}` is taken in Python, and models know a tool by its name"
            )
        given = [grants_of(self, decl.grants, "capabilities", None)]
        given += ["idempotent=True"] if decl.settings else []
        self.line(f"@{self.uses('program')}.tool({', '.join(one for one in given if one)})")
        self._def(decl.name, decl, decl.body)

    def _main(self) -> None:
        self._gap(2)
        body = self.source.body
        given = grants_of(self, self.source.header, "may", None)
        self.line(f"@{self.uses('program')}{f'({given})' if given else ''}")
        whole = tree.Block(body[0].at, body[-1].end, body)
        self.line("def main() -> None:")
        self._body(whole, ())

    def _def(self, name: str, decl: tree.FnDecl | tree.ToolDecl, body: tree.Block) -> None:
        params: list[str] = []
        for param in decl.params:
            assert param.type is not None
            params.append(f"{self.fit(param.name, param)}: {annotation(self, param.type)}")
        result = "None" if decl.result is None else annotation(self, decl.result)
        self.line(f"def {self.fit(name, decl)}({', '.join(params)}) -> {result}:")
        if isinstance(decl, tree.ToolDecl) and decl.description is not None:
            said = "".join(str(part) for part in decl.description.parts)
            with self.indented():
                self.line(quoted(said) if "\n" not in said else f'"""{said}"""')
        self._body(body, tuple(param.name for param in decl.params))

    def _body(self, body: tree.Block, params: tuple[str, ...]) -> None:
        """A first try shows which numbers are never negative and which lists are shared; then it
        is written again."""
        begins, waiting = len(self.lines), list(self.comments.waiting)
        for _ in range(_TRIES):
            del self.lines[begins:]
            self.comments.waiting = list(waiting)
            with self.indented(), self.scope():
                for name in params:
                    self.declare(name, body)
                _all(self, body)
            found = _learned(self.lines, begins)
            if found == (self.natural, self.shared):
                break
            self.natural, self.shared = found[0], found[1] | self.shared
        self.natural, self.shared = set(), set()


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
