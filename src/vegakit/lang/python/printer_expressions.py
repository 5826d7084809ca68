"""The Python printer: its context, types as annotations, and expressions (pure)."""

import ast
import json
import keyword
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from vegakit.lang.check.symbols import Checked, NameKind
from vegakit.lang.diagnostics import Diagnostic
from vegakit.lang.python.analysis import is_natural
from vegakit.lang.python.subset import BUILTIN_TYPES, RESERVED, VEGA_ERRORS
from vegakit.lang.syntax.tree import (
    Binary,
    Build,
    Call,
    ChoiceType,
    Decimal,
    Duration,
    Expr,
    Index,
    ListLit,
    ListType,
    MapLit,
    MapType,
    Member,
    MoneyLit,
    Name,
    NamedType,
    Node,
    OptionalType,
    Text,
    TypeExpr,
    Unary,
    Whole,
    Word,
)
from vegakit.lang.types import (
    FLOAT,
    INT,
    STR,
    ChoiceOf,
    ListOf,
    MapOf,
    OptionalOf,
    Plain,
    ProcessOf,
    RecordOf,
    Type,
)
from vegakit.money import Money, show

# What the printers share: the checked program, the lines made so far, names that are taken.


_TAKEN = frozenset(
    "Agent Annotated Any BaseModel Literal Max parallel program session spawn tool vega"
    " self".split()
)


class NotExpressibleError(Exception):
    """What stands there has no form in Python."""

    def __init__(self, node: Node, what: str, help: str = "") -> None:  # noqa: A002
        super().__init__(what)
        self.node, self.what, self.help = node, what, help


class PrinterScope:
    """Variables of a block by their names in Vega: as they are called in Python."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.reasons: dict[str, bool] = {}


class Printer:
    """`natural` are variables that are never below zero, `shared` the lines of this function where
    a list may not be changed in place: both are read off a first try."""

    def __init__(self, checked: Checked) -> None:
        self.checked = checked
        self.unit = checked.units[checked.main]
        self.lines: list[str] = []
        self.level = 0
        self.imports: dict[str, set[str]] = {}
        self.scopes: list[PrinterScope] = []
        self.natural: set[str] = set()
        self.shared: set[int] = set()
        self.begins = 0
        self.is_quoted = False

    def type(self, node: Node) -> Type | None:
        return self.checked.types.get(id(node))

    def uses(self, name: str, module: str = "vegakit") -> str:
        self.imports.setdefault(module, set()).add(name)
        return name

    def line(self, text: str) -> None:
        self.lines.append(f"{'    ' * self.level}{text}" if text else "")

    @contextmanager
    def indented(self) -> Generator[None]:
        self.level += 1
        yield
        self.level -= 1

    @contextmanager
    def scope(self) -> Generator[PrinterScope]:
        self.scopes.append(PrinterScope())
        yield self.scopes[-1]
        self.scopes.pop()

    def declare(self, name: str, node: Node) -> str:
        """Under a name that no variable around it has."""
        made, count = self.fit(name, node), 1
        while any(made in scope.names.values() for scope in self.scopes):
            count += 1
            made = f"{name}_{count}"
        self.scopes[-1].names[name] = made
        return made

    def fit(self, name: str, node: Node) -> str:
        if keyword.iskeyword(name) or name in RESERVED or name in _TAKEN or name in VEGA_ERRORS:
            return f"{name}_"
        if "::" in name:
            raise NotExpressibleError(node, f"`{name}` is of another file", "join the files first")
        return name

    def named(self, name: str) -> str:
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

    def no_form(self, error: NotExpressibleError) -> Diagnostic:
        node = error.node
        return Diagnostic(
            "no-form",
            f"this cannot be written in the other language: {error.what}",
            self.unit.path,
            node.at,
            node.end,
            error.help,
        )


# Types as Python annotations.


_VEGA = {
    "money": "Money",
    "duration": "Duration",
    "file": "File",
    "process": "Process",
    "Response": "Response",
}


def annotation(p: Printer, node: TypeExpr) -> str:
    match node:
        case NamedType(name=name):
            return _named(p, node, name)
        case OptionalType(inner=inner):
            return f"{annotation(p, inner)} | None"
        case ListType(inner=inner, most=None):
            return f"list[{annotation(p, inner)}]"
        case ListType(inner=inner, most=most):
            annotated, bound = p.uses("Annotated", "typing"), p.uses("Max")
            return f"{annotated}[list[{annotation(p, inner)}], {bound}({most})]"
        case MapType(inner=inner):
            return f"dict[str, {annotation(p, inner)}]"
        case ChoiceType(choices=choices):
            return _choice(p, choices)


def _choice(p: Printer, choices: tuple[str, ...]) -> str:
    spelled = ", ".join(json.dumps(one, ensure_ascii=False) for one in choices)
    return f"{p.uses('Literal', 'typing')}[{spelled}]"


def _named(p: Printer, node: TypeExpr, name: str) -> str:
    if name in _VEGA:
        return f"{p.uses('vega')}.{_VEGA[name]}"
    if name == "any":
        return p.uses("Any", "typing")
    if isinstance(p.type(node), ProcessOf):
        return f"{p.uses('vega')}.Process"
    if name in BUILTIN_TYPES:
        return name
    if name == "null":
        return "None"
    return p.fit(name, node)


def shown(p: Printer, kind: Type, node: TypeExpr | None = None) -> str:
    """Of a type that nobody wrote."""
    match kind:
        case Plain(name=name):
            return (_VEGA.get(name) and f"{p.uses('vega')}.{_VEGA[name]}") or (
                p.uses("Any", "typing") if name == "any" else name
            )
        case OptionalOf(inner=inner):
            return f"{shown(p, inner)} | None"
        case ListOf(inner=inner, most=None):
            return f"list[{shown(p, inner)}]"
        case ListOf(inner=inner, most=most):
            annotated, bound = p.uses("Annotated", "typing"), p.uses("Max")
            return f"{annotated}[list[{shown(p, inner)}], {bound}({most})]"
        case MapOf(inner=inner):
            return f"dict[str, {shown(p, inner)}]"
        case ChoiceOf(choices=choices):
            return _choice(p, choices)
        case RecordOf(name=name):
            return name
        case _:
            raise NotExpressibleError(p.unit.source, "a type that has no name")


# Expressions as Python.


_OR, _AND, _NOT, _COMPARE, _ADD, _MULTIPLY, _SIGN, _POSTFIX, _ATOM = range(1, 10)
_LEVELS = {
    "or": _OR,
    "and": _AND,
    "+": _ADD,
    "-": _ADD,
    "*": _MULTIPLY,
    "/": _MULTIPLY,
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">=", "in"), _COMPARE),
}
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"))

Fragment = tuple[str, int]


def put(p: Printer, node: Expr, level: int = 0) -> str:
    """In parentheses where what is around binds tighter."""
    text, own = PRINTED[type(node)](p, node)
    return f"({text})" if own < level else text


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def money_text(node: MoneyLit) -> str:
    period = f"/{node.period}" if node.period else ""
    return quoted(show(Money(node.nanos)).replace(",", "") + period)


def duration_text(node: Duration) -> str:
    for size, unit in _UNITS:
        if node.ms and node.ms % size == 0:
            return quoted(f"{node.ms // size}{unit}")
    return quoted(f"{node.ms}ms")


# Literals


def _whole(p: Printer, node: Whole) -> Fragment:
    return (f"{node.value}.0" if p.type(node) == FLOAT else str(node.value)), _ATOM


def _decimal(_p: Printer, node: Decimal) -> Fragment:
    return repr(node.value), _ATOM


def _money(p: Printer, node: MoneyLit) -> Fragment:
    return f"{p.uses('vega')}.money({money_text(node)})", _POSTFIX


def _duration(p: Printer, node: Duration) -> Fragment:
    return f"{p.uses('vega')}.duration({duration_text(node)})", _POSTFIX


def _word(_p: Printer, node: Word) -> Fragment:
    return repr(node.value), _ATOM


def _text(p: Printer, node: Text) -> Fragment:
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


def _sum(p: Printer, node: Text) -> str:
    parts = [quoted(part) if isinstance(part, str) else _str(p, part) for part in node.parts]
    return " + ".join(parts)


def _str(p: Printer, node: Expr) -> str:
    """As a str, to be added to others."""
    kind = p.type(node)
    if kind == STR or isinstance(kind, ChoiceOf):
        return put(p, node, _ADD + 1)
    return f"str({put(p, node)})" if kind == INT else f"{p.uses('vega')}.text({put(p, node)})"


def as_text(p: Printer, node: Expr) -> str:
    """Where it becomes text by itself: in an f-string, in print."""
    if isinstance(node, Name) and (same := p.reason(node.name)) is not None:
        name = p.named(node.name)
        return name if same else f"{p.uses('vega')}.reason({name})"
    kind = p.type(node)
    if kind in (STR, INT) or isinstance(kind, ChoiceOf):
        return put(p, node)
    return f"{p.uses('vega')}.text({put(p, node)})"


def _list(p: Printer, node: ListLit) -> Fragment:
    return f"[{', '.join(put(p, item) for item in node.items)}]", _ATOM


def _map(p: Printer, node: MapLit) -> Fragment:
    pairs = (f"{put(p, pair.key)}: {put(p, pair.value)}" for pair in node.pairs)
    return f"{{{', '.join(pairs)}}}", _ATOM


def _build(p: Printer, node: Build) -> Fragment:
    walked = over(p, node.over)
    with p.scope():
        name = p.declare(node.name, node)
        where = "" if node.where is None else f" if {put(p, node.where, _OR)}"
        item = put(p, node.item)
    return f"[{item} for {name} in {walked}{where}]", _ATOM


def over(p: Printer, node: Expr) -> str:
    """Where a loop walks: `range(n)` needs no list there."""
    if isinstance(node, Call) and isinstance(node.callee, Name) and node.callee.name == "range":
        return f"range({', '.join(put(p, arg) for arg in node.args)})"
    return put(p, node, _OR)


# Operators


def _unary(p: Printer, node: Unary) -> Fragment:
    if node.op == "not" and isinstance(node.of, Binary) and node.of.op == "in":
        left, right = put(p, node.of.left, _COMPARE + 1), put(p, node.of.right, _COMPARE + 1)
        return f"{left} not in {right}", _COMPARE
    if node.op == "not":
        return f"not {put(p, node.of, _NOT)}", _NOT
    return f"-{put(p, node.of, _SIGN)}", _SIGN


def _binary(p: Printer, node: Binary) -> Fragment:
    if node.op == "??":
        return _default(p, node)
    left, right = p.type(node.left), p.type(node.right)
    if node.op == "%" or (node.op == "/" and (left, right) == (INT, INT)):
        return _rounded(p, node)
    if node.op in ("==", "!=") and isinstance(node.right, Word) and node.right.value is None:
        sign = "is" if node.op == "==" else "is not"
        return f"{put(p, node.left, _COMPARE + 1)} {sign} None", _COMPARE
    if node.op == "+" and isinstance(p.type(node), MapOf):
        return f"{put(p, node.left, _COMPARE + 1)} | {put(p, node.right, _ADD)}", _COMPARE + 0
    level = _LEVELS[node.op]
    loose = level + 1 if level == _COMPARE else level
    return f"{put(p, node.left, loose)} {node.op} {put(p, node.right, level + 1)}", level


def _default(p: Printer, node: Binary) -> Fragment:
    if isinstance(node.left, Name | Member):
        one = put(p, node.left, _OR)
        return f"{one} if {one} is not None else {put(p, node.right, _OR)}", 0
    if (got := _got(p, node)) is not None:
        return got, _POSTFIX
    return f"{p.uses('vega')}.default({put(p, node.left)}, {put(p, node.right)})", _POSTFIX


def _got(p: Printer, node: Binary) -> str | None:
    """`d.get(key, 0)`, where no value of `d` may be None."""
    match node.left:
        case Call(callee=Name(name="map::get"), args=(of, key)) if isinstance(
            node.right, Whole | Text | ListLit | Word | Name
        ):
            kind = p.type(of)
            if isinstance(kind, MapOf) and not isinstance(kind.inner, OptionalOf):
                return f"{put(p, of, _POSTFIX)}.get({put(p, key)}, {put(p, node.right)})"
        case _:
            pass
    return None


def _rounded(p: Printer, node: Binary) -> Fragment:
    """`//` and `%` where both sides are never negative."""
    one, other = put(p, node.left, _MULTIPLY), put(p, node.right, _MULTIPLY + 1)
    if p.type(node) == INT and _is_natural(p, one) and _is_natural(p, other):
        return f"{one} {'//' if node.op == '/' else '%'} {other}", _MULTIPLY
    name = "quotient" if node.op == "/" else "remainder"
    return f"{p.uses('vega')}.{name}({put(p, node.left)}, {put(p, node.right)})", _POSTFIX


def _is_natural(p: Printer, text: str) -> bool:
    return is_natural(ast.parse(text, mode="eval").body, p.natural)


# Names and places


def _name(p: Printer, node: Name) -> Fragment:
    if p.checked.names.get(id(node)) in (NameKind.AGENT, NameKind.SUPERVISOR):
        return p.fit(node.name, node), _ATOM
    same = p.reason(node.name)
    name = p.named(node.name)
    if same is None:
        return name, _ATOM
    return (f"str({name})" if same else f"{p.uses('vega')}.reason({name})"), _POSTFIX


def _member(p: Printer, node: Member) -> Fragment:
    return f"{put(p, node.of, _POSTFIX)}.{p.fit(node.name, node)}", _POSTFIX


def _index(p: Printer, node: Index) -> Fragment:
    of, at = put(p, node.of, _POSTFIX), put(p, node.index)
    if isinstance(p.type(node.of), MapOf) or _is_natural(p, at) or at == f"len({of}) - 1":
        return f"{of}[{at}]", _POSTFIX
    return f"{p.uses('vega')}.at({of}, {at})", _POSTFIX


PRINTED: dict[type, Callable[[Printer, Any], Fragment]] = {
    Whole: _whole,
    Decimal: _decimal,
    MoneyLit: _money,
    Duration: _duration,
    Word: _word,
    Text: _text,
    Name: _name,
    ListLit: _list,
    MapLit: _map,
    Build: _build,
    Unary: _unary,
    Binary: _binary,
    Member: _member,
    Index: _index,
}
