"""The Vega printer: a program in Python as Vega source, from the same tree (pure)."""

import re
import tokenize
from collections.abc import Callable
from typing import Any

from vegakit.lang.diagnostics import Diagnostic
from vegakit.lang.python.context import SourceMap
from vegakit.lang.python.lowering import Lowered, lower
from vegakit.lang.python.printer_expressions import NotExpressibleError
from vegakit.lang.syntax.formatter import format_source
from vegakit.lang.syntax.tree import (
    AgentDecl,
    AgentField,
    Ask,
    Assign,
    Await,
    Binary,
    Block,
    Break,
    Build,
    Call,
    Cast,
    Catch,
    ChoiceType,
    Continue,
    Decimal,
    Decl,
    Duration,
    Expr,
    ExprStmt,
    FnDecl,
    For,
    Grants,
    If,
    Index,
    Let,
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
    Parallel,
    Param,
    Return,
    Session,
    Setting,
    Spawn,
    Stmt,
    SupervisorDecl,
    Text,
    ToolDecl,
    ToolRef,
    Try,
    TypeDecl,
    TypeExpr,
    Unary,
    UseMcp,
    While,
    Whole,
    Word,
)
from vegakit.money import Money, show

# Expressions and types as Vega.


_SEND, _CAST, _DEFAULT, _OR, _AND, _NOT, _COMPARE, _ADD, _MULTIPLY, _SIGN, _POSTFIX = range(11)
_LEVELS = {
    "??": _DEFAULT,
    "or": _OR,
    "and": _AND,
    "+": _ADD,
    "-": _ADD,
    **dict.fromkeys("*/%", _MULTIPLY),
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">=", "in"), _COMPARE),
}
_KEYWORDS = frozenset(
    "and as async await break catch continue else false fn for if in let not null or parallel"
    " return session spawn true try while".split()
)
_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\", "{": "\\{", "}": "\\}"}
_HIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"))
_WORDS = {True: "true", False: "false", None: "null"}

Fragment = tuple[str, int]


def vega_name(name: str) -> str:
    return f"{name}_" if name in _KEYWORDS else name


def text_literal(text: str) -> str:
    return f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    text = "".join(_ESCAPES.get(char, char) for char in text)
    return _HIDDEN.sub(lambda found: f"\\u{{{ord(found[0]):X}}}", text)


def type_text(node: TypeExpr) -> str:
    match node:
        case NamedType(name=name):
            return name
        case OptionalType(inner=ChoiceType() as inner):
            return f"({type_text(inner)})?"
        case OptionalType(inner=inner):
            return f"{type_text(inner)}?"
        case ListType(inner=inner, most=None):
            return f"[{type_text(inner)}]"
        case ListType(inner=inner, most=most):
            return f"[{type_text(inner)}; {most}]"
        case MapType(inner=inner):
            return f"{{str: {type_text(inner)}}}"
        case ChoiceType(choices=choices):
            return " | ".join(map(text_literal, choices))


def put(node: Expr, level: int = 0, *, typed: bool = False) -> str:
    """With `typed` an answer that is text says so."""
    text, own = _PRINTED[type(node)](node)
    if typed and isinstance(node, Ask) and _is_text(node):
        text += " as str"
    return f"({text})" if own < level else text


def _is_text(node: Ask) -> bool:
    return isinstance(node.answer, NamedType) and node.answer.name == "str"


def _money(node: MoneyLit) -> Fragment:
    period = f"/{node.period}" if node.period else ""
    return show(Money(node.nanos)).replace(",", "") + period, _POSTFIX


def _duration(node: Duration) -> Fragment:
    for size, unit in _UNITS:
        if node.ms and node.ms % size == 0:
            return f"{node.ms // size}{unit}", _POSTFIX
    return f"{node.ms}ms", _POSTFIX


def _decimal(node: Decimal) -> Fragment:
    text = repr(node.value)
    return text.replace("e+", "e"), _POSTFIX


def _text(node: Text) -> Fragment:
    parts = (_escaped(part) if isinstance(part, str) else f"{{{put(part)}}}" for part in node.parts)
    return f'"{"".join(parts)}"', _POSTFIX


def _list(node: ListLit) -> Fragment:
    return f"[{', '.join(put(item) for item in node.items)}]", _POSTFIX


def _map(node: MapLit) -> Fragment:
    pairs = (f"{put(pair.key)}: {put(pair.value)}" for pair in node.pairs)
    return f"{{{', '.join(pairs)}}}", _POSTFIX


def _build(node: Build) -> Fragment:
    where = "" if node.where is None else f" if {put(node.where, _CAST)}"
    head = f"for {vega_name(node.name)} in {put(node.over, _CAST)}{where}"
    return f"[{head} {{ {put(node.item)} }}]", _POSTFIX


def _unary(node: Unary) -> Fragment:
    if node.op == "not":
        return f"not {put(node.of, _NOT)}", _NOT
    return f"-{put(node.of, _SIGN)}", _SIGN


def _binary(node: Binary) -> Fragment:
    level = _LEVELS[node.op]
    left = level + 1 if level == _COMPARE else level
    return f"{put(node.left, left)} {node.op} {put(node.right, level + 1)}", level


def _member(node: Member) -> Fragment:
    return f"{put(node.of, _POSTFIX)}.{node.name}", _POSTFIX


def _index(node: Index) -> Fragment:
    return f"{put(node.of, _POSTFIX)}[{put(node.index)}]", _POSTFIX


def _call(node: Call) -> Fragment:
    given = (
        f"{name}: {put(arg)}" if name else put(arg)
        for arg, name in zip(node.args, node.names, strict=True)
    )
    return f"{put(node.callee, _POSTFIX)}({', '.join(given)})", _POSTFIX


def _ask(node: Ask) -> Fragment:
    sign = "<~" if node.stream else "<-"
    made = f"{'async ' if node.later else ''}{put(node.to, _POSTFIX)} {sign} "
    made += put(node.message, _CAST + 1)
    if node.timeout is not None:
        made += f" timeout {put(node.timeout, _ADD)}"
    if node.budget is not None:
        made += f" budget {put(node.budget, _ADD)}"
    if node.answer is not None and not _is_text(node):
        made += f" as {type_text(node.answer)}"
    return made, _SEND


def _spawn(node: Spawn) -> Fragment:
    made = f"spawn {'async ' if node.later else ''}{put(node.agent)}"
    if node.wallet is not None:
        made += f" wallet {put(node.wallet, _ADD)}"
    if node.named is not None:
        made += f" named {put(node.named, _ADD)}"
    if node.under is not None:
        made += f" supervised by {put(node.under, _POSTFIX)}"
    if node.rules is not None:
        made += f" supervised by {{{settings_text(node.rules)} }}"
    return made, _SEND


def settings_text(settings: tuple[Setting, ...]) -> str:
    return "".join(f" {one.name} {put(one.value)}" for one in settings)


_PRINTED: dict[type, Callable[[Any], Fragment]] = {
    Whole: lambda node: (str(node.value), _POSTFIX),
    Decimal: _decimal,
    MoneyLit: _money,
    Duration: _duration,
    Word: lambda node: (_WORDS[node.value], _POSTFIX),
    Text: _text,
    Name: lambda node: (vega_name(node.name), _POSTFIX),
    ListLit: _list,
    MapLit: _map,
    Build: _build,
    Unary: _unary,
    Binary: _binary,
    Member: _member,
    Index: _index,
    Call: _call,
    Ask: _ask,
    Spawn: _spawn,
    Await: lambda node: (f"await {put(node.of, _POSTFIX)}", _SEND),
    Cast: lambda node: (f"{put(node.of, _CAST)} as {type_text(node.to)}", _CAST),
}


# Statements as Vega.


class VegaLines:
    """Lines so far, and the comments that wait for their place."""

    def __init__(self, comments: list[tuple[int, str]], text: str) -> None:
        self.made: list[str] = []
        self.text = text
        self._waiting = comments

    def add(self, line: str) -> None:
        self.made.append(line)

    def before(self, at: int, *, beside: bool = False) -> None:
        """Comments above this place; with `beside` those behind it on its line too."""
        if beside:
            end = self.text.find("\n", at)
            at = len(self.text) if end < 0 else end
        while self._waiting and self._waiting[0][0] < at:
            self.add(self._waiting.pop(0)[1])

    def on_line(self, at: int, end: int) -> list[str]:
        """The comment behind what begins at `at`, before `end`."""
        line_end = self.text.find("\n", at)
        if self._waiting and at <= self._waiting[0][0] < min(end, line_end):
            return [self._waiting.pop(0)[1]]
        return []

    def say(self, line: str, node: Node) -> None:
        end = self.text.find("\n", node.end)
        end = len(self.text) if end < 0 else end
        found: list[str] = []
        while self._waiting and self._waiting[0][0] < end:
            found.append(self._waiting.pop(0)[1])
        self.add(f"{line}  {found[0]}" if found else line)
        self.made += found[1:]


def statements(lines: VegaLines, body: tuple[Stmt, ...], result: TypeExpr | None) -> None:
    for node in body:
        lines.before(node.at)
        _statement(lines, node, result)


def _statement(lines: VegaLines, node: Stmt, result: TypeExpr | None) -> None:  # noqa: C901, PLR0912
    match node:
        case Let(name=name, type=kind, value=value):
            typed = "" if kind is None else f": {type_text(kind)}"
            lines.say(f"let {vega_name(name)}{typed} = {_held(value, kind)};", node)
        case Assign(target=target, value=value):
            lines.say(f"{put(target)} = {put(value)};", node)
        case ExprStmt(value=value):
            lines.say(f"{put(value)};", node)
        case Return(value=None):
            lines.say("return;", node)
        case Return(value=value):
            assert value is not None
            lines.say(f"return {_held(value, result)};", node)
        case Break():
            lines.say("break;", node)
        case Continue():
            lines.say("continue;", node)
        case If():
            _if(lines, node, result)
        case While(test=test, limit=limit):
            bound = "" if limit is None else f" limit {put(limit)}"
            _block(lines, f"while {put(test)}{bound}", node.body, result, node.at)
        case For(names=names, over=over):
            _block(
                lines,
                f"for {', '.join(map(vega_name, names))} in {put(over)}",
                node.body,
                result,
                node.at,
            )
        case Try(catches=catches):
            _block(lines, "try", node.body, result, node.at)
            _catches(lines, catches, result)
        case Session(budget=budget, settings=settings, catches=catches):
            head = f"session budget {put(budget)}{settings_text(settings)}"
            _block(lines, head, node.body, result, node.at)
            _catches(lines, catches, result)
        case Parallel(catches=catches):
            _block(lines, "parallel", node.body, result, node.at)
            _catches(lines, catches, result)
        case _:
            raise NotExpressibleError(node, "this statement")


def _held(value: object, kind: TypeExpr | None) -> str:
    """An answer takes the type of where it goes, so where that is another, its own is written."""
    is_text = isinstance(kind, NamedType) and kind.name == "str"
    if isinstance(value, Ask) and kind is not None and not is_text:
        return put(value, typed=True)
    return put(value)  # pyright: ignore[reportArgumentType]


def _block(
    lines: VegaLines, head: str, block: Block, result: TypeExpr | None, at: int | None = None
) -> None:
    """`at` is where its head begins: what is remarked on that line stays there."""
    beside = [] if at is None else lines.on_line(at, block.at)
    lines.add(f"{head} {{  {beside[0]}" if beside else f"{head} {{")
    statements(lines, block.body, result)
    lines.add("}")


def _if(lines: VegaLines, node: If, result: TypeExpr | None) -> None:
    _block(lines, f"if {put(node.test)}", node.then, result, node.at)
    other = node.other
    if other is None:
        return
    last = lines.made.pop()
    if len(other.body) == 1 and isinstance(other.body[0], If):
        begins = len(lines.made)
        _if(lines, other.body[0], result)
        lines.made[begins] = f"{last} else {lines.made[begins]}"
        return
    _block(lines, f"{last} else", other, result)


def _catches(lines: VegaLines, catches: tuple[Catch, ...], result: TypeExpr | None) -> None:
    for one in catches:
        last = lines.made.pop()
        reason = f"({vega_name(one.reason)})" if one.reason else ""
        kind = f" {one.kind}" if one.kind else ""
        _block(lines, f"{last} catch{kind}{reason}", one.body, result)


# A program in Python as Vega: the same tree in its other spelling.


def to_vega(text: str, file: str) -> tuple[str, tuple[Diagnostic, ...]]:
    """The text, or why there is none."""
    lowered = lower(text, file)
    if lowered.diagnostics:
        return "", lowered.diagnostics
    try:
        return _VegaPrinter(text, lowered).text(), ()
    except NotExpressibleError as error:
        found = Diagnostic(
            "no-form",
            f"this cannot be written in the other language: {error.what}",
            file,
            error.node.at,
            error.node.end,
            error.help,
        )
        return "", (found,)


class _VegaPrinter:
    def __init__(self, text: str, lowered: Lowered) -> None:
        if lowered.tools:
            name = next(iter(lowered.tools))
            raise NotExpressibleError(
                lowered.source,
                f"`{name}` is a function of Python",
                f'pass it in: load("x.vega", tools=[{name}])',
            )
        self._source = lowered.source
        self._lines = VegaLines(_comments(text), text)

    def text(self) -> str:
        lines = self._lines
        decls = sorted(self._source.decls, key=lambda decl: decl.at)
        for decl in decls:
            lines.before(decl.at)
            self._decl(decl)
            lines.add("")
        lines.before(len(lines.text) + 1)
        return format_source("\n".join(lines.made).strip("\n") + "\n")

    def _decl(self, decl: Decl) -> None:
        match decl:
            case UseMcp(server=server, name=name):
                same = server == name
                self._lines.add(f"use mcp {text_literal(server)}{'' if same else f' as {name}'}")
            case TypeDecl():
                self._type(decl)
            case AgentDecl():
                self._agent(decl)
            case SupervisorDecl():
                self._supervisor(decl)
            case FnDecl():
                budget = "" if decl.budget is None else f" budget {put(decl.budget)}"
                head = f"fn {_head(decl)}{_grants(decl.grants, 'may')}{budget}"
                self._body(head, decl)
            case ToolDecl(description=said, settings=settings):
                described = "" if said is None else f" {put(said)}"
                more = " repeatable" if settings else ""
                head = f"tool {_head(decl)}{described}{_grants(decl.grants, 'capabilities')}{more}"
                self._body(head, decl)
            case _:
                raise NotExpressibleError(decl, "this declaration")

    def _body(self, head: str, decl: FnDecl | ToolDecl) -> None:
        self._lines.add(f"{head} {{")
        statements(self._lines, decl.body.body, decl.result)
        self._lines.before(decl.body.end, beside=True)
        self._lines.add("}")

    def _type(self, decl: TypeDecl) -> None:
        if decl.alias is not None:
            self._lines.add(f"type {decl.name} = {type_text(decl.alias)}")
            return
        self._lines.add(f"type {decl.name} {{")
        for field in decl.fields:
            self._lines.add(f"{field.name}: {type_text(field.type)}")
        self._lines.add("}")

    def _agent(self, decl: AgentDecl) -> None:
        self._lines.add(f"agent {decl.name} {{")
        for field in decl.fields:
            self._lines.add(_field(field))
        self._lines.add("}")

    def _supervisor(self, decl: SupervisorDecl) -> None:
        children = ", ".join(child.name for child in decl.children)
        rows = [*_settings(decl.settings), f"children [{children}]"]
        self._lines.add(f"supervisor {decl.name} {{ {'  '.join(rows)} }}")


def _head(decl: FnDecl | ToolDecl) -> str:
    result = "" if decl.result is None else f" -> {type_text(decl.result)}"
    return f"{decl.name}({', '.join(map(_param, decl.params))}){result}"


def _param(param: Param) -> str:
    assert param.type is not None
    return f"{vega_name(param.name)}: {type_text(param.type)}"


def _grants(grants: Grants | None, word: str) -> str:
    if grants is None:
        return ""
    made = ""
    if grants.capabilities is not None:
        made += f" {word} [{', '.join(one.name for one in grants.capabilities)}]"
    for name, rows in (
        ("allowed_paths", grants.paths),
        ("allowed_commands", grants.commands),
        ("allowed_hosts", grants.hosts),
    ):
        if rows is not None:
            made += f" {name} [{', '.join(put(row) for row in rows)}]"
    return made


def _field(field: AgentField) -> str:
    value = field.value
    if not isinstance(value, tuple):
        return f"{field.name} {put(value)}"
    if field.name == "tools":
        refs = [_ref(ref) for ref in value if isinstance(ref, ToolRef)]
        return f"tools [{', '.join(refs)}]"
    rows = tuple(row for row in value if isinstance(row, Setting))
    return f"{field.name} {{ {'  '.join(_settings(rows))} }}"


def _ref(ref: ToolRef) -> str:
    return f"{ref.kind} {text_literal(ref.name)}" if ref.kind else ref.name


def _settings(rows: tuple[Setting, ...]) -> list[str]:
    return [f"{row.name} {put(row.value)}" for row in rows]


def _comments(text: str) -> list[tuple[int, str]]:
    source_map = SourceMap(text)
    lines = text.split("\n")
    found: list[tuple[int, str]] = []
    readline = iter(text.splitlines(keepends=True)).__next__
    for token in tokenize.generate_tokens(readline):
        if token.type == tokenize.COMMENT:
            line, column = token.start
            at = source_map.at(line, len(lines[line - 1][:column].encode()))
            found.append((at, f"//{token.string[1:]}"))
    return found
