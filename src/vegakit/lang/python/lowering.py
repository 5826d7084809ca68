"""The lowering of a Python file to the tree of a program (pure).

text ── ast ── declarations ── functions ── Source, demands on types
"""

import ast
import re
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from msgspec import Struct

from vegakit.lang.diagnostics import (
    Diagnostic,
    DiagnosticCollector,
    Edit,
    TooManyDiagnosticsError,
    count_steps,
)
from vegakit.lang.python.aliasing import shared_changes
from vegakit.lang.python.analysis import (
    VariableReads,
    assigned_names,
    is_natural,
    natural_names,
)
from vegakit.lang.python.calls import CALLS
from vegakit.lang.python.context import (
    EXPRESSIONS,
    STATEMENTS,
    Demand,
    FunctionContext,
    FunctionHead,
    PythonFile,
    RefusedError,
    SourceSpan,
)
from vegakit.lang.python.declarations import (
    constant,
    head,
    import_from,
    import_module,
    record,
    record_head,
    server,
    signature_of,
    used_node,
)
from vegakit.lang.python.expressions import PLAIN_EXPRESSIONS
from vegakit.lang.python.foreign import report_missing_imports, syntax_help, unpack_module
from vegakit.lang.python.operators import OPERATORS
from vegakit.lang.python.settings import (
    agent,
    agent_name,
    budget_in,
    grants,
    idempotent,
    supervisor,
)
from vegakit.lang.python.statements import GUARDS, PLAIN_STATEMENTS, statements
from vegakit.lang.python.subset import RESERVED
from vegakit.lang.python.types import type_of
from vegakit.lang.syntax import tree
from vegakit.lang.syntax.cursor import CLAUSES_OF, GRANTS
from vegakit.lang.syntax.lexer import without_hidden
from vegakit.lang.types import Signature

# The text of a file as Python reads it, within bounds.


_MOST_CHARS, _MOST_NODES = 200_000, 30_000
_HALF = re.compile("[\ud800-\udfff]")
_SYNTAX = "fix it as Python asks: python -m py_compile FILE"


def parsed(file: PythonFile) -> ast.Module | None:
    """Return the syntax tree of Python, or None after reporting why there is none."""
    if len(file.text) > _MOST_CHARS:
        file.findings.report(
            "too-large",
            f"a program in Python has at most {_MOST_CHARS:,} characters",
            0,
            1,
            "split it, or move what is not part of the program elsewhere",
        )
        return None
    # Python reads on without counting, and what stands in braces in a text it reads one by one.
    count_steps(len(file.text) // 16 + 14 * file.text.count("{"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = ast.parse(file.text)
        return module if _is_text(file, module) else None
    except SyntaxError as error:
        at = file.source_map.at(error.lineno or 1, 0) + max((error.offset or 1) - 1, 0)
        at = min(at, len(file.text))
        help_, edit = syntax_help(file.text, at, error.msg)
        message = f"this is not Python: {error.msg}"
        file.findings.report("python-syntax", message, at, at + 1, help_ or _SYNTAX, edit)
    except (ValueError, RecursionError, MemoryError):
        too_deep(file)
    return None


def _is_text(file: PythonFile, module: ast.Module) -> bool:
    """Half a character, such as "\\ud800", cannot be written down."""
    for number, node in enumerate(ast.walk(module)):
        count_steps(6)  # and as much again in the passes that follow
        if number > _MOST_NODES:
            file.report(
                "too-large",
                SourceSpan(0, 1),
                f"a program in Python has at most {_MOST_NODES:,} names, numbers and operators",
                "split it",
            )
            return False
        match node:
            case ast.Constant(value=str() as text) if _HALF.search(text):
                file.report(
                    "python-literal", node, "this text holds half a character", "write it whole"
                )
                return False
            case _:
                pass
    return True


def _without_async(file: PythonFile, node: ast.AsyncFunctionDef) -> Edit:
    at = file.span(node).at
    return Edit(at, file.text.index("def", at), "")


def too_deep(file: PythonFile, module: ast.Module | None = None) -> None:
    """Report a file whose nesting is too deep to be read, at the deepest statement if it is
    known."""
    span = SourceSpan(0, 1) if module is None else file.span(_deepest(module))
    first = file.text.find("\n", span.at)
    end = min(span.end, first if first >= 0 else span.end)
    file.findings.report(
        "too-deep",
        "this is nested too deeply to be read",
        span.at,
        end,
        "give parts of it names; each operator of a chain such as `a + b + c` is a level too",
    )


def _deepest(module: ast.Module) -> ast.AST:
    """Return the statement with the deepest expression, by a list of its own and no calls."""
    due: list[tuple[ast.AST, int, ast.AST]] = [(module, 0, module)]
    most, found = 0, module.body[0] if module.body else module
    while due:
        node, depth, statement = due.pop()
        if depth > most:
            most, found = depth, statement
        for child in ast.iter_child_nodes(node):
            is_statement = isinstance(child, ast.stmt)
            due.append((child, depth + 1, child if is_statement else statement))
    return found


# Functions and tools of a file: their rights, and their bodies in the tree.


def function(file: PythonFile, made: FunctionHead, keywords: list[ast.keyword]) -> tree.Decl:
    """Return the declaration of a function."""
    node = made.node
    rights = grants(file, keywords, CLAUSES_OF["function"])
    budget = budget_in(file, keywords)
    inner = _body(file, made, node.body)
    return tree.FnDecl(*file.span(node), node.name, made.params, made.result, rights, budget, inner)


def tool(file: PythonFile, made: FunctionHead, keywords: list[ast.keyword]) -> tree.Decl:
    """Return the declaration of a tool. Its docstring is what the model is told."""
    node = made.node
    rights, span = grants(file, keywords, CLAUSES_OF["tool"]), file.span(node)
    said = ast.get_docstring(node)
    description = None
    if said is not None:
        description = tree.Text(*file.span(node.body[0]), (said,))
    return tree.ToolDecl(
        span.at,
        span.end,
        node.name,
        made.params,
        made.result,
        description,
        rights,
        _body(file, made, node.body),
        idempotent(file, keywords),
    )


def _natural_constants(file: PythonFile) -> set[str]:
    """No variable can have their names."""
    return {name for name, value in file.constants.items() if is_natural(value, set())}


def _body(file: PythonFile, made: FunctionHead, nodes: list[ast.stmt]) -> tree.Block:
    node = made.node
    body = FunctionContext(
        file, assigned_names(node), natural_names(node) | _natural_constants(file)
    )
    body.shared = shared_changes(node, *file.owners)
    body.read_after = VariableReads(node).is_read_after
    body.returns_nothing = made.result is None
    for param in made.params:
        body.declare(param.name, param.type)
    made_of = statements(body, nodes)
    return tree.Block(file.span(nodes[0]).at, file.span(nodes[-1]).end, made_of)


# A file of Python to the tree of a program.
#
# text ── ast ── what it declares ── functions ── Source, demands on types


EXPRESSIONS.update(PLAIN_EXPRESSIONS | OPERATORS | CALLS)
STATEMENTS.update(PLAIN_STATEMENTS | GUARDS)


_Stmt = TypeVar("_Stmt", bound=ast.stmt)


class Lowered(Struct):
    """`tools` are functions that stay Python: programs call them from outside."""

    source: tree.Source
    diagnostics: tuple[Diagnostic, ...]
    demands: list[Demand]
    tools: dict[str, Signature | None]
    file: PythonFile


def lower(text: str, path: str, given: frozenset[str] = frozenset()) -> Lowered:
    """Return the tree of a program in Python, and what it demands of types. `given` are agents that
    are declared elsewhere."""
    findings = DiagnosticCollector(path)
    # A mark of the byte order is no Python; a form feed is as long, and Python skips it.
    mark = "\f" if text.startswith("\ufeff") else ""
    file = PythonFile(text, findings)
    decls: tuple[tree.Decl, ...] = ()
    with suppress(TooManyDiagnosticsError):
        shown = without_hidden(" " * len(mark) + text[len(mark) :], findings)
        file = PythonFile(mark + shown[len(mark) :], findings)
        file.agents |= given
        module = parsed(file)
        if module is not None:
            decls = _lowered(file, module)
    source = tree.Source(0, len(text), None, decls, ())
    found = {(one.code, one.at, one.message): one for one in findings.in_order()}
    return Lowered(source, tuple(found.values()), file.demands, file.tools, file)


def _lowered(file: PythonFile, module: ast.Module) -> tuple[tree.Decl, ...]:
    _rename_agents(module)
    try:
        return _Reader(file).read(module)
    except RecursionError:
        too_deep(file, module)
        return ()


def _rename_agents(module: ast.Module) -> None:
    """`tutor_agent = Agent("tutor")` is the agent `tutor` wherever its variable stands, so that
    traces and budgets show the name it was given. Where something else in the file has that name,
    or a variable could not have it, the agent is shown as its variable."""
    taken = {getattr(node, "id", getattr(node, "name", None)) for node in ast.walk(module)}
    taken |= {node.arg for node in ast.walk(module) if isinstance(node, ast.arg)}
    names: dict[str, str] = {}
    for node in module.body:
        match node:
            case ast.Assign(
                targets=[ast.Name(id=variable)],
                value=ast.Call(
                    func=ast.Name(id="Agent") | ast.Attribute(attr="supervisor"),
                    args=[ast.Constant(value=str() as said)],
                ),
            ) if said not in {*taken, *names.values(), *RESERVED} and said.isidentifier():
                names[variable] = said
            case _:
                pass
    for node in ast.walk(module):
        if isinstance(node, ast.Name):
            node.id = names.get(node.id, node.id)


class _Reader:
    def __init__(self, file: PythonFile) -> None:
        self._file = file
        self._decls: list[tree.Decl] = []
        self._later: list[Callable[[], tree.Decl | None]] = []
        self._has_program = False
        self._rights: list[ast.keyword] = []

    def read(self, module: ast.Module) -> tuple[tree.Decl, ...]:
        """Names first, then what they are, then the bodies of functions."""
        unpack_module(self._file, module)
        imports = [one for one in module.body if isinstance(one, ast.Import | ast.ImportFrom)]
        self._file.imports = [one for one in imports if isinstance(one, ast.ImportFrom)]
        for node in imports:
            self._guard(self._take, node)
        report_missing_imports(self._file, module)
        for node in module.body:
            if node not in imports:
                self._guard(self._take, node)
        for node in module.body:
            if isinstance(node, ast.ClassDef) and node.name in self._file.records:
                self._guard(self._record, node)
        for later in self._later:
            with suppress(RefusedError):
                made = later()
                if made is not None:
                    self._decls.append(made)
        if not self._file.findings.found and not self._has_program:
            self._file.findings.report(
                "python-no-program",
                "no function of this file is marked as the program",
                0,
                0,
                "write `@program` above `def main(...):`, and import program from vegakit",
            )
        return tuple(self._decls)

    def _guard(self, take: Callable[[_Stmt], None], node: _Stmt) -> None:
        with suppress(RefusedError):
            take(node)

    def _record(self, node: ast.ClassDef) -> None:
        self._decls.append(record(self._file, node))

    def _take(self, node: ast.stmt) -> None:  # noqa: C901
        file = self._file
        match node:
            case ast.Import():
                import_module(file, node)
            case ast.ImportFrom():
                import_from(file, node)
            case ast.ClassDef():
                record_head(file, node)
            case ast.FunctionDef():
                self._function(node)
            case ast.Assign(targets=[ast.Name(id=name)]):
                self._named(node, name)
            case ast.AnnAssign(target=ast.Name(id=name)) if constant(file, name, node):
                pass
            case ast.Expr(value=ast.Constant(value=str())) | ast.Pass():
                pass
            case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
                pass
            case ast.AsyncFunctionDef() if self._is_external(node):
                file.tools[node.name] = None
                self._later.append(lambda: self._external(node))
            case ast.AsyncFunctionDef(name=name):
                file.refuse(
                    "python-statement",
                    node,
                    "`async def` cannot stand here: sends wait by themselves",
                    f"write `def {name}(...):`",
                    _without_async(file, node),
                )
            case _:
                file.refuse(
                    "python-top",
                    node,
                    "the top of a file holds declarations only",
                    "put it into `main`, below `@program`",
                )

    def _function_args(self, decorator: ast.expr) -> None:
        """Refuse `@program("name")`."""
        if not (isinstance(decorator, ast.Call) and decorator.args):
            return
        span = self._file.span
        first, last = decorator.args[0], decorator.args[-1]
        end = span(decorator.keywords[0]).at if decorator.keywords else span(last).end
        self._file.report(
            "python-decorator",
            first,
            "the arguments of this decorator are named",
            'leave it out, or write such as `may=["fs::read"]` or `budget="$1"`',
            Edit(span(first).at, end, ""),
        )

    def _named(self, node: ast.Assign, name: str) -> None:
        """An agent, a supervisor, a server, a node, a constant or another name for a type."""
        file, value = self._file, node.value
        if constant(file, name, node):
            return
        if (used := server(file, name, node) or used_node(file, name, node)) is not None:
            self._decls.append(used)
            return
        if isinstance(value, ast.Call) and (make := self._process(value.func)) is not None:
            file.agents.add(name)
            agent_name(file, name, value)
            self._later.append(lambda: make(file, name, node, value))
            return
        if isinstance(value, ast.Subscript | ast.BinOp):
            self._alias(node, name, value)
            return
        file.unread.add(name)
        file.refuse(
            "python-top",
            node,
            f"`{name}` is neither an agent, a type nor a fixed number or text",
            "put it into `main`, below `@program`, and pass it to who needs it",
        )

    def _process(self, callee: ast.expr):  # noqa: ANN202
        if self._file.means(callee, "vegakit.Agent"):
            return agent
        match callee:
            case ast.Attribute(value=of, attr="supervisor") if self._file.means(of, "vegakit.vega"):
                return supervisor
            case _:
                return None

    def _alias(self, node: ast.Assign, name: str, value: ast.expr) -> None:
        if isinstance(value, ast.BinOp) and not isinstance(value.op, ast.BitOr):
            self._file.unread.add(name)
            self._file.refuse(
                "python-top",
                value,
                f"`{name}` is worked out, and only a fixed number or text is named here",
                "write what it comes to, or put it into `main`, below `@program`",
            )
        kind = type_of(self._file, value)
        self._file.aliases[name] = kind
        self._decls.append(tree.TypeDecl(*self._file.span(node), name, (), kind))

    # Functions

    def _function(self, node: ast.FunctionDef) -> None:
        file = self._file
        role, keywords = self._role(node)
        if role == "outside":
            file.tools[node.name] = None
            self._later.append(lambda: self._external(node))
            return
        made = FunctionHead(node)
        file.functions[node.name] = made
        if role == "main":
            self._has_program = True
            self._rights = [keyword for keyword in keywords if keyword.arg in GRANTS]
        if role == "main" and node.name != "main":
            file.report(
                "python-program",
                file.source_map.span(node.decorator_list[0]),
                f"the program is called `main`, this is `{node.name}`",
                f"write `def main(...):` instead of `def {node.name}(...):`",
            )
        self._later.insert(0, lambda: self._take_head(made))
        make = tool if role == "tool" else function
        # What the program may do, its functions may: those with a decorator have their own list.
        shares = not node.decorator_list
        self._later.append(lambda: make(file, made, self._rights if shares else keywords))

    def _role(self, node: ast.FunctionDef) -> tuple[str, list[ast.keyword]]:
        """By its decorator: main, function, tool, or outside for one that stays Python."""
        file = self._file
        if not node.decorator_list:
            return "function", []
        decorator = node.decorator_list[0]
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
        match called:
            case _ if len(node.decorator_list) > 1:
                pass
            case ast.Name() if file.means(called, "vegakit.program"):
                self._function_args(decorator)
                return "main", keywords
            case ast.Name() if file.means(called, "vegakit.tool"):
                return "outside", keywords
            case ast.Attribute(value=of, attr="function" | "tool" as role) if file.means(
                of, "vegakit.program"
            ):
                return role, keywords
            case _:
                pass
        file.functions[node.name] = FunctionHead(node)
        return file.refuse(
            "python-decorator",
            node.decorator_list[-1],
            "a function here has one of our decorators, or none",
            "one of: @program, @program.function(...), @program.tool(...), @tool(...)",
        )

    def _is_external(self, node: ast.AsyncFunctionDef) -> bool:
        return any(
            self._file.means(one.func if isinstance(one, ast.Call) else one, "vegakit.tool")
            for one in node.decorator_list
        )

    def _external(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._file.tools[node.name] = signature_of(self._file, node)

    def _take_head(self, made: FunctionHead) -> None:
        found = head(self._file, made.node)
        made.params, made.result, made.defaults = found.params, found.result, found.defaults
