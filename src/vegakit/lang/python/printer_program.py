"""The Python printer: statements, comments and the whole program (pure)."""

import ast
from collections.abc import Callable
from typing import Any

from vegakit.lang.check.symbols import Checked
from vegakit.lang.diagnostics import Diagnostic, DiagnosticCollector
from vegakit.lang.python.analysis import natural_names, shared_changes
from vegakit.lang.python.printer_calls import (
    CALLS,
    agent,
    grants_of,
    record,
    setting_value,
    supervisor,
)
from vegakit.lang.python.printer_expressions import (
    PRINTED,
    NotExpressibleError,
    Printer,
    annotation,
    money_text,
    over,
    put,
    quoted,
)
from vegakit.lang.python.subset import BUILTIN_ERRORS, VEGA_ERRORS
from vegakit.lang.syntax.formatter import atoms_of, landmarks_of
from vegakit.lang.syntax.lexer import tokenize
from vegakit.lang.syntax.tree import (
    AgentDecl,
    Ask,
    Assign,
    Binary,
    Block,
    Break,
    Call,
    Catch,
    Continue,
    Decl,
    ExprStmt,
    FnDecl,
    For,
    If,
    Let,
    ListLit,
    MoneyLit,
    Monitor,
    Name,
    Node,
    Parallel,
    Return,
    Session,
    Source,
    Stmt,
    SupervisorDecl,
    ToolDecl,
    Try,
    TypeDecl,
    UseFile,
    UseMcp,
    While,
)
from vegakit.lang.types import FLOAT, INT, STR, ListOf, MapOf

# Comments of a program, handed out once each as their places come by.


class Comments:
    def __init__(self, text: str, source: Source) -> None:
        self._text = text
        atoms = atoms_of(text, tokenize(text, DiagnosticCollector("")), landmarks_of(source))
        found = [atom for atom in atoms if atom.kind in ("comment", "note")]
        self.waiting = [(atom.at, _marked(atom.text)) for atom in found]

    def before(self, at: int) -> list[str]:
        """Those that stand above this place."""
        made: list[str] = []
        while self.waiting and self.waiting[0][0] < at:
            made += self.waiting.pop(0)[1]
        return made

    def beside(self, end: int) -> tuple[list[str], list[str]]:
        """Those inside what ends here or behind it on its line; then the rest of long ones."""
        line_end = self._text.find("\n", end)
        found = self.before(len(self._text) if line_end < 0 else line_end)
        return found[:1], found[1:]


def _marked(text: str) -> list[str]:
    if text.startswith("//"):
        return [f"#{text[2:]}"]
    inner = text.removeprefix("/*").removesuffix("*/").split("\n")
    return [f"# {line.strip()}".rstrip() for line in inner]


# Statements as Python, with the comments that stand beside them.


class StatementPrinter:
    def __init__(self, p: Printer, comments: Comments) -> None:
        self.p, self.comments = p, comments

    def all(self, statements: tuple[Stmt, ...], around: Node) -> None:
        """`pass` where nothing stands."""
        before = len(self.p.lines)
        for node in statements:
            self._comments_before(node)
            _PRINTED[type(node)](self, node)
        for comment in self.comments.before(around.end):
            self.p.line(comment)
        if not any(not line.strip().startswith("#") for line in self.p.lines[before:]):
            self.p.line("pass")

    def _comments_before(self, node: Node) -> None:
        for comment in self.comments.before(node.at):
            self.p.line(comment)

    def say(self, text: str, node: Node) -> None:
        """One line; what was remarked behind it, or inside it, stands behind it."""
        beside, below = self.comments.beside(node.end)
        self.p.line(f"{text}  {beside[0]}" if beside else text)
        for comment in [*beside[1:], *below]:
            self.p.line(comment)

    def block(self, block: Block) -> None:
        with self.p.indented(), self.p.scope():
            self.all(block.body, block)

    # Plain ones

    def let(self, node: Let) -> None:
        p = self.p
        value = put(p, node.value)
        kind = ""
        if node.type is not None and not isinstance(node.value, Ask):
            kind = f": {annotation(p, node.type)}"
        self.say(f"{p.declare(node.name, node)}{kind} = {value}", node)

    def assign(self, node: Assign) -> None:
        p, target = self.p, node.target
        match node:
            case Assign(
                target=Name(name=name),
                value=Binary(op="+", left=Name(name=same), right=ListLit(items=(item,))),
            ) if name == same and len(p.lines) not in p.shared:
                self.say(f"{p.named(name)}.append({put(p, item)})", node)
            case Assign(
                target=Name(name=name),
                value=Binary(op="+" | "-" | "*" as op, left=Name(name=same), right=right),
            ) if name == same and p.type(node.value) in (INT, FLOAT, STR):
                self.say(f"{p.named(name)} {op}= {put(p, right)}", node)
            case _ if isinstance(target, Name):
                self.say(f"{p.named(target.name)} = {put(p, node.value)}", node)
            case _:
                self.say(f"{put(p, target)} = {put(p, node.value)}", node)

    def expression_statement(self, node: ExprStmt) -> None:
        match node.value:
            case Call(callee=Name(name="fail"), args=(reason,)):
                self.say(f"raise {self.p.uses('Failed')}({put(self.p, reason)})", node)
            case _:
                self.say(put(self.p, node.value), node)

    def return_statement(self, node: Return) -> None:
        self.say("return" if node.value is None else f"return {put(self.p, node.value)}", node)

    def jump(self, node: Break | Continue) -> None:
        self.say("break" if isinstance(node, Break) else "continue", node)

    # Blocks

    def head(self, text: str, block: Block) -> None:
        """A remark behind the brace stands behind the colon."""
        beside, below = self.comments.beside(block.at + 1)
        self.p.line(f"{text}:  {beside[0]}" if beside else f"{text}:")
        with self.p.indented():
            for comment in [*beside[1:], *below]:
                self.p.line(comment)

    def if_statement(self, node: If) -> None:
        word, current = "if", node
        while True:
            self.head(f"{word} {put(self.p, current.test)}", current.then)
            self.block(current.then)
            other = current.other
            if other is None:
                return
            if len(other.body) == 1 and isinstance(other.body[0], If):
                word, current = "elif", other.body[0]
                continue
            self.head("else", other)
            self.block(other)
            return

    def while_loop(self, node: While) -> None:
        test = put(self.p, node.test)
        if node.limit is not None:
            test = f"{self.p.uses('vega')}.limit({put(self.p, node.limit)}, {test})"
        self.head(f"while {test}", node.body)
        self.block(node.body)

    def for_loop(self, node: For) -> None:
        p, walked = self.p, over(self.p, node.over)
        with p.scope():
            names = [p.declare(name, node) for name in node.names]
            if len(names) == 2:
                kind = p.type(node.over)
                is_list = isinstance(kind, ListOf)
                if not is_list and not isinstance(kind, MapOf):
                    raise NotExpressibleError(node, "a loop with two names over this")
                walked = f"enumerate({walked})" if is_list else f"{put(p, node.over, 8)}.items()"
            self.head(f"for {', '.join(names)} in {walked}", node.body)
            self.block(node.body)

    def try_statement(self, node: Try) -> None:
        self.head("try", node.body)
        self.block(node.body)
        for one in node.catches:
            self.catch(one)

    def catch(self, node: Catch) -> None:
        kind = node.kind or "Exception"
        if kind in VEGA_ERRORS:
            self.p.uses(kind)
        elif kind not in BUILTIN_ERRORS and kind != "Exception":
            raise NotExpressibleError(node, f"the error {kind}")
        with self.p.scope() as scope:
            said = ""
            if node.reason:
                name = self.p.declare(node.reason, node)
                scope.reasons[node.reason] = kind in VEGA_ERRORS
                said = f" as {name}"
            self.head(f"except {kind}{said}", node.body)
            self.block(node.body)

    def session(self, node: Session) -> None:
        budget = node.budget
        amount = money_text(budget) if isinstance(budget, MoneyLit) else put(self.p, budget)
        given = [f"budget={amount}"]
        given += [f"{one.name}={setting_value(self.p, one.value)}" for one in node.settings]
        head = f"with {self.p.uses('session')}({', '.join(given)})"
        self.caught(node.catches, lambda: self._opened(head, node.body))

    def _opened(self, head: str, block: Block) -> None:
        self.head(head, block)
        self.block(block)

    def parallel(self, node: Parallel) -> None:
        """What it declares is there after it."""
        self.caught(node.catches, lambda: self._beside(node))

    def _beside(self, node: Parallel) -> None:
        self.head(f"with {self.p.uses('parallel')}()", node.body)
        with self.p.indented():
            self.all(node.body.body, node.body)

    def caught(self, catches: tuple[Catch, ...], body: Callable[[], None]) -> None:
        if not catches:
            body()
            return
        self.p.line("try:")
        with self.p.indented():
            body()
        for one in catches:
            self.catch(one)

    def nested_block(self, node: Block) -> None:
        """Its variables keep their names to themselves."""
        with self.p.scope() as scope:
            self.all(node.body, node)
        self.p.scopes[-1].names |= {f" {name}": made for name, made in scope.names.items()}

    def monitor(self, node: Monitor) -> None:
        raise NotExpressibleError(node, "`monitor` runs a block later", "keep this file in Vega")


_PRINTED: dict[type, Callable[[StatementPrinter, Any], None]] = {
    Let: StatementPrinter.let,
    Assign: StatementPrinter.assign,
    ExprStmt: StatementPrinter.expression_statement,
    Return: StatementPrinter.return_statement,
    Break: StatementPrinter.jump,
    Continue: StatementPrinter.jump,
    If: StatementPrinter.if_statement,
    While: StatementPrinter.while_loop,
    For: StatementPrinter.for_loop,
    Try: StatementPrinter.try_statement,
    Session: StatementPrinter.session,
    Parallel: StatementPrinter.parallel,
    Block: StatementPrinter.nested_block,
    Monitor: StatementPrinter.monitor,
}


# A whole program as Python: imports, records, agents, functions.


_MODULES = ("dataclasses", "typing", "pydantic", "vegakit")
_TRIES = 4

PRINTED.update(CALLS)


def to_python(checked: Checked) -> tuple[str, tuple[Diagnostic, ...]]:
    """The text, or what in the program has no form in Python."""
    printer = Printer(checked)
    try:
        return _ProgramPrinter(printer).text(), ()
    except NotExpressibleError as error:
        return "", (printer.no_form(error),)


class _ProgramPrinter:
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
                raise NotExpressibleError(decl, "another file is used", "join the files first")
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
            raise NotExpressibleError(
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
                StatementPrinter(p, self.comments).all(body.body, body)
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
