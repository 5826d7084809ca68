"""The Python printer: its context, types as annotations, and expressions (pure)."""

import ast
import json
import keyword
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Self, TypeAlias

from vegakit.lang import types
from vegakit.lang.check.symbols import Checked, NameKind, Unit
from vegakit.lang.diagnostics import Diagnostic, DiagnosticCollector
from vegakit.lang.library import VEGA_ERRORS
from vegakit.lang.python.analysis import is_natural
from vegakit.lang.python.subset import BUILTIN_TYPES, RESERVED
from vegakit.lang.python.types import VEGA_TYPES
from vegakit.lang.syntax import tree
from vegakit.lang.syntax.formatter import atoms_of, landmarks_of
from vegakit.lang.syntax.lexer import duration_text, money_text, tokenize

# What the printers share: comments, the checked program, the lines made so far, taken names.


_TAKEN = frozenset(
    "Agent Annotated Any BaseModel Literal MaxLen parallel program race session spawn tool vega"
    " self".split()
)


Fragment: TypeAlias = tuple[str, int]
"""The text of an expression and how tightly its outermost operator binds."""


class Comments:
    """Comments of a source in their order, as the lines they become. Each is handed out once, when
    the printer comes by its place."""

    def __init__(self, text: str, found: Iterable[tuple[int, list[str]]]) -> None:
        self.text = text
        self.waiting = list(found)

    def before(self, at: int) -> list[str]:
        """Return those above this place."""
        made: list[str] = []
        while self.waiting and self.waiting[0][0] < at:
            made += self.waiting.pop(0)[1]
        return made

    def line_end(self, at: int) -> int:
        """Return where the line of an offset ends."""
        end = self.text.find("\n", at)
        return len(self.text) if end < 0 else end


class NotExpressibleError(Exception):
    """A node has no form in Python."""

    def __init__(self, node: tree.Node, what: str, help: str = "") -> None:  # noqa: A002
        super().__init__(what)
        self.node, self.what, self.help = node, what, help

    def diagnostic(self, file: str) -> Diagnostic:
        """Return the error as a diagnostic of its file."""
        message = f"this cannot be written in Python: {self.what}"
        return Diagnostic("no-form", message, file, self.node.at, self.node.end, self.help)


class PrinterScope:
    """The variables of a block: their names in Python by those in Vega."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.reasons: dict[str, bool] = {}


class PythonPrinter:
    """Lines printed so far. `natural` are variables that are never below zero, `shared` the lines
    of this function where a list may not be changed in place: both are read off a first try."""

    expressions: ClassVar[dict[type, Callable[[Any, Any], Fragment]]]
    statements: ClassVar[dict[type, Callable[[Any, Any], None]]]

    def __init__(self, checked: Checked) -> None:
        self.checked = checked
        self.unit = checked.units[checked.main]
        self.comments = Comments(self.unit.text, _comments(self.unit))
        self.lines: list[str] = []
        self.level = 0
        self.imports: dict[str, set[str]] = {}
        self.scopes: list[PrinterScope] = []
        self.natural: set[str] = set()
        self.shared: set[int] = set()

    def put(self, node: tree.Expr, level: int = 0) -> str:
        """Return an expression, in parentheses where what is around it binds tighter."""
        text, own = self.expressions[type(node)](self, node)
        return f"({text})" if own < level else text

    def put_all(self, nodes: Iterable[tree.Expr]) -> str:
        """Return expressions with commas between them."""
        return ", ".join(self.put(node) for node in nodes)

    def line(self, text: str) -> None:
        """Print a line at the current indentation."""
        self.lines.append(f"{'    ' * self.level}{text}" if text else "")

    def lines_before(self, at: int) -> None:
        """Print the comments above this place."""
        for comment in self.comments.before(at):
            self.line(comment)

    def say(self, text: str, end: int) -> None:
        """Print one line. A comment inside what ends at `end`, or behind it, goes behind the
        line."""
        first, *rest = self.comments.before(self.comments.line_end(end)) or [""]
        self.line(f"{text}  {first}" if first else text)
        for comment in rest:
            self.line(comment)

    def body(self, statements: tuple[tree.Stmt, ...]) -> None:
        """Print statements, each below the comments above it."""
        for node in statements:
            self.lines_before(node.at)
            self.statements[type(node)](self, node)

    @contextmanager
    def indented(self) -> Generator[Self]:
        """Indent the lines that are printed inside."""
        self.level += 1
        yield self
        self.level -= 1

    def type(self, node: tree.Node) -> types.Type | None:
        """Return the type that the checker gave a node."""
        return self.checked.types.get(id(node))

    def uses(self, name: str, module: str = "vegakit") -> str:
        """Import a name and return it."""
        self.imports.setdefault(module, set()).add(name)
        return name

    @contextmanager
    def scope(self) -> Generator[PrinterScope]:
        """Open a scope of variables."""
        self.scopes.append(PrinterScope())
        yield self.scopes[-1]
        self.scopes.pop()

    def declare(self, name: str, node: tree.Node) -> str:
        """Declare a variable, and return its name in Python, which no variable around it has."""
        made, count = self.fit(name, node), 1
        while any(made in scope.names.values() for scope in self.scopes):
            count += 1
            made = f"{name}_{count}"
        self.scopes[-1].names[name] = made
        return made

    def fit(self, name: str, node: tree.Node) -> str:
        """Return a name that Python has not taken already."""
        if keyword.iskeyword(name) or name in RESERVED or name in _TAKEN or name in VEGA_ERRORS:
            return f"{name}_"
        if "::" in name:
            raise NotExpressibleError(node, f"`{name}` is of another file", "join the files first")
        return name

    def named(self, name: str) -> str:
        """Return the name that a variable has in Python."""
        for scope in reversed(self.scopes):
            if name in scope.names:
                return scope.names[name]
        return name

    def reason(self, name: str) -> bool | None:
        """Whether the text of a caught error is the same in Python; None for other variables."""
        for scope in reversed(self.scopes):
            if name in scope.reasons:
                return scope.reasons[name]
            if name in scope.names:
                return None
        return None


def _comments(unit: Unit) -> Iterator[tuple[int, list[str]]]:
    tokens = tokenize(unit.text, DiagnosticCollector(""))
    for atom in atoms_of(unit.text, tokens, landmarks_of(unit.source)):
        if atom.kind == "comment":
            yield atom.at, [f"#{atom.text[2:]}"]
        elif atom.kind == "note":
            inner = atom.text.removeprefix("/*").removesuffix("*/").split("\n")
            yield atom.at, [f"# {line.strip()}".rstrip() for line in inner]


# Types as Python annotations.


_VEGA = {vega: name for name, vega in VEGA_TYPES.items()}


def annotation(p: PythonPrinter, kind: tree.TypeExpr | types.Type) -> str:
    """Return a type as it is written, or one that nobody wrote, as an annotation."""
    match kind:
        case tree.NamedType(name=name, most=most) | types.Plain(name=name, most=most):
            return _sized(p, _named(p, kind, name), most)
        case tree.OptionalType(inner=inner) | types.OptionalOf(inner=inner):
            return f"{annotation(p, inner)} | None"
        case tree.ListType(inner=inner, most=most) | types.ListOf(inner=inner, most=most):
            return _sized(p, f"list[{annotation(p, inner)}]", most)
        case tree.MapType(inner=inner, most=most) | types.MapOf(inner=inner, most=most):
            return _sized(p, f"dict[str, {annotation(p, inner)}]", most)
        case tree.ChoiceType(choices=choices) | types.ChoiceOf(choices=choices):
            return f"{p.uses('Literal', 'typing')}[{', '.join(map(quoted, choices))}]"
        case types.RecordOf(name=name):
            return name
        case _:
            raise NotExpressibleError(p.unit.source, "a type that has no name")


def _sized(p: PythonPrinter, written: str, most: int | None) -> str:
    if most is None:
        return written
    return f"{p.uses('Annotated', 'typing')}[{written}, {p.uses('MaxLen')}({most})]"


def _named(p: PythonPrinter, kind: tree.NamedType | types.Plain, name: str) -> str:
    if name in _VEGA:
        return f"{p.uses('vega')}.{_VEGA[name]}"
    if name == "any":
        return p.uses("Any", "typing")
    if isinstance(kind, types.Plain) or name in BUILTIN_TYPES:
        return name
    if isinstance(p.type(kind), types.ProcessOf):
        return f"{p.uses('vega')}.Process"
    return "None" if name == "null" else p.fit(name, kind)


# Expressions as Python.


_OR, _AND, _NOT, _COMPARE, _ADD, _MULTIPLY, _SIGN, POSTFIX, _ATOM = range(1, 10)
_LEVELS = {
    "or": _OR,
    "and": _AND,
    "+": _ADD,
    "-": _ADD,
    "*": _MULTIPLY,
    "/": _MULTIPLY,
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">=", "in"), _COMPARE),
}


def quoted(text: str) -> str:
    """Return a text as a literal of Python."""
    return json.dumps(text, ensure_ascii=False)


def put_amount(p: PythonPrinter, node: tree.Expr) -> str:
    """Return a value where money or a duration is wanted: there its text will do."""
    match node:
        case tree.MoneyLit(nanos=nanos, period=period):
            return quoted(money_text(nanos, period))
        case tree.Duration(ms=ms):
            return quoted(duration_text(ms))
        case _:
            return p.put(node)


# Literals


def _whole(p: PythonPrinter, node: tree.Whole) -> Fragment:
    return (f"{node.value}.0" if p.type(node) == types.FLOAT else str(node.value)), _ATOM


def _amount(p: PythonPrinter, node: tree.MoneyLit | tree.Duration) -> Fragment:
    name = "money" if isinstance(node, tree.MoneyLit) else "duration"
    return f"{p.uses('vega')}.{name}({put_amount(p, node)})", POSTFIX


def _plain(_p: PythonPrinter, node: tree.Decimal | tree.Word) -> Fragment:
    return repr(node.value), _ATOM


def _text(p: PythonPrinter, node: tree.Text) -> Fragment:
    """An f-string; where a part needs quotes of its own, a sum of texts."""
    if all(isinstance(part, str) for part in node.parts):
        return quoted("".join(str(part) for part in node.parts)), _ATOM
    made: list[str] = []
    for part in node.parts:
        if isinstance(part, str):
            made.append(quoted(part)[1:-1].replace("{", "{{").replace("}", "}}"))
            continue
        inner = as_text(p, part).replace('"', "'")
        if "\\" in inner or inner.count("'") != as_text(p, part).count('"') or "{" in inner:
            return _sum(p, node), _ADD
        made.append(f"{{{inner}}}")
    return f'f"{"".join(made)}"', _ATOM


def _sum(p: PythonPrinter, node: tree.Text) -> str:
    parts = [quoted(part) if isinstance(part, str) else _str(p, part) for part in node.parts]
    return " + ".join(parts)


def _str(p: PythonPrinter, node: tree.Expr) -> str:
    """As a str, to be added to others."""
    kind = p.type(node)
    if types.is_text(kind) or isinstance(kind, types.ChoiceOf):
        return p.put(node, _ADD + 1)
    return f"str({p.put(node)})" if kind == types.INT else f"{p.uses('vega')}.text({p.put(node)})"


def as_text(p: PythonPrinter, node: tree.Expr) -> str:
    """Return a value where it becomes text by itself: in an f-string, in print."""
    if isinstance(node, tree.Name) and (same := p.reason(node.name)) is not None:
        name = p.named(node.name)
        return name if same else f"{p.uses('vega')}.reason({name})"
    kind = p.type(node)
    if types.is_text(kind) or kind == types.INT or isinstance(kind, types.ChoiceOf):
        return p.put(node)
    return f"{p.uses('vega')}.text({p.put(node)})"


def _map(p: PythonPrinter, node: tree.MapLit) -> Fragment:
    pairs = (f"{p.put(pair.key)}: {p.put(pair.value)}" for pair in node.pairs)
    return f"{{{', '.join(pairs)}}}", _ATOM


def _build(p: PythonPrinter, node: tree.Build) -> Fragment:
    walked = over(p, node.over)
    with p.scope():
        name = p.declare(node.name, node)
        where = "" if node.where is None else f" if {p.put(node.where, _OR)}"
        item = p.put(node.item)
    return f"[{item} for {name} in {walked}{where}]", _ATOM


def over(p: PythonPrinter, node: tree.Expr) -> str:
    """Return what a loop walks over. `range(n)` needs no list there."""
    if (
        isinstance(node, tree.Call)
        and isinstance(node.callee, tree.Name)
        and node.callee.name == "range"
    ):
        return f"range({p.put_all(node.args)})"
    return p.put(node, _OR)


# Operators


def _unary(p: PythonPrinter, node: tree.Unary) -> Fragment:
    if node.op == "not" and isinstance(node.of, tree.Binary) and node.of.op == "in":
        left, right = p.put(node.of.left, _COMPARE + 1), p.put(node.of.right, _COMPARE + 1)
        return f"{left} not in {right}", _COMPARE
    if node.op == "not":
        return f"not {p.put(node.of, _NOT)}", _NOT
    return f"-{p.put(node.of, _SIGN)}", _SIGN


def _binary(p: PythonPrinter, node: tree.Binary) -> Fragment:
    if node.op == "??":
        return _default(p, node)
    left, right = p.type(node.left), p.type(node.right)
    if node.op == "%" or (node.op == "/" and (left, right) == (types.INT, types.INT)):
        return _rounded(p, node)
    if node.op in ("==", "!=") and isinstance(node.right, tree.Word) and node.right.value is None:
        sign = "is" if node.op == "==" else "is not"
        return f"{p.put(node.left, _COMPARE + 1)} {sign} None", _COMPARE
    if node.op == "+" and isinstance(p.type(node), types.MapOf):
        return f"{p.put(node.left, _COMPARE + 1)} | {p.put(node.right, _ADD)}", _COMPARE
    level = _LEVELS[node.op]
    loose = level + 1 if level == _COMPARE else level
    return f"{p.put(node.left, loose)} {node.op} {p.put(node.right, level + 1)}", level


def _default(p: PythonPrinter, node: tree.Binary) -> Fragment:
    if isinstance(node.left, tree.Name | tree.Member):
        one = p.put(node.left, _OR)
        return f"{one} if {one} is not None else {p.put(node.right, _OR)}", 0
    if (got := _got(p, node)) is not None:
        return got, POSTFIX
    return f"{p.uses('vega')}.default({p.put(node.left)}, {p.put(node.right)})", POSTFIX


def _got(p: PythonPrinter, node: tree.Binary) -> str | None:
    """`d.get(key, 0)`, where no value of `d` may be None."""
    match node.left:
        case tree.Call(callee=tree.Name(name="map::get"), args=(of, key)) if isinstance(
            node.right, tree.Whole | tree.Text | tree.ListLit | tree.Word | tree.Name
        ):
            kind = p.type(of)
            if isinstance(kind, types.MapOf) and not isinstance(kind.inner, types.OptionalOf):
                return f"{p.put(of, POSTFIX)}.get({p.put(key)}, {p.put(node.right)})"
        case _:
            pass
    return None


def _rounded(p: PythonPrinter, node: tree.Binary) -> Fragment:
    """`//` and `%` where both sides are never negative."""
    one, other = p.put(node.left, _MULTIPLY), p.put(node.right, _MULTIPLY + 1)
    if p.type(node) == types.INT and _is_natural(p, one) and _is_natural(p, other):
        return f"{one} {'//' if node.op == '/' else '%'} {other}", _MULTIPLY
    name = "quotient" if node.op == "/" else "remainder"
    return f"{p.uses('vega')}.{name}({p.put(node.left)}, {p.put(node.right)})", POSTFIX


def _is_natural(p: PythonPrinter, text: str) -> bool:
    return is_natural(ast.parse(text, mode="eval").body, p.natural)


# Names and places


def _name(p: PythonPrinter, node: tree.Name) -> Fragment:
    if p.checked.names.get(id(node)) in (NameKind.AGENT, NameKind.SUPERVISOR):
        return p.fit(node.name, node), _ATOM
    same = p.reason(node.name)
    name = p.named(node.name)
    if same is None:
        return name, _ATOM
    return (f"str({name})" if same else f"{p.uses('vega')}.reason({name})"), POSTFIX


def _index(p: PythonPrinter, node: tree.Index) -> Fragment:
    of, at = p.put(node.of, POSTFIX), p.put(node.index)
    if isinstance(p.type(node.of), types.MapOf) or _is_natural(p, at) or at == f"len({of}) - 1":
        return f"{of}[{at}]", POSTFIX
    return f"{p.uses('vega')}.at({of}, {at})", POSTFIX


EXPRESSIONS: dict[type, Callable[[Any, Any], Fragment]] = {
    tree.Whole: _whole,
    tree.Decimal: _plain,
    tree.MoneyLit: _amount,
    tree.Duration: _amount,
    tree.Word: _plain,
    tree.Text: _text,
    tree.Name: _name,
    tree.ListLit: lambda p, node: (f"[{p.put_all(node.items)}]", _ATOM),
    tree.MapLit: _map,
    tree.Build: _build,
    tree.Unary: _unary,
    tree.Binary: _binary,
    tree.Member: lambda p, node: (f"{p.put(node.of, POSTFIX)}.{p.fit(node.name, node)}", POSTFIX),
    tree.Index: _index,
}
