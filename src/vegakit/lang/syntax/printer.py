"""Print a syntax tree as source: the walk that both languages share, and Vega (pure).

    tree ── print_source ── text ── format_source ── laid out

A printer spells nodes and puts parentheses where they are needed. Where lines of Vega break and how
far they are indented is the formatter's to say, so that source from a tree and source from a person
look alike. The formatter cannot print trees itself: it keeps what the tree does not hold, such as
`1_000`, a text in three quotes, or a line break inside a list.
"""

import re
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Any, ClassVar, Self, TypeAlias

from vegakit.lang.syntax import tree
from vegakit.lang.syntax.formatter import format_source
from vegakit.lang.syntax.lexer import RESERVED, duration_text, money_text

# The walk over a tree, with the comments of the source it came from.


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


class TreePrinter:
    """Lines printed so far. A language gives a function for every kind of expression and of
    statement."""

    expressions: ClassVar[dict[type, Callable[[Any, Any], Fragment]]]
    statements: ClassVar[dict[type, Callable[[Any, Any], None]]]

    def __init__(self, comments: Comments) -> None:
        self.comments = comments
        self.lines: list[str] = []
        self.level = 0

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


def put_list(p: TreePrinter, node: tree.ListLit) -> Fragment:
    """Return a list, which both languages write alike."""
    return f"[{p.put_all(node.items)}]", TIGHTEST


def put_map(p: TreePrinter, node: tree.MapLit) -> Fragment:
    """Return a map, which both languages write alike."""
    pairs = (f"{p.put(pair.key)}: {p.put(pair.value)}" for pair in node.pairs)
    return f"{{{', '.join(pairs)}}}", TIGHTEST


TIGHTEST = 10
"""What needs parentheses nowhere: names, literals, calls."""


def narrowing(grants: tree.Grants) -> tuple[tuple[str, tuple[tree.Text, ...] | None], ...]:
    """Return what narrows the capabilities, by the word it is written with in both languages."""
    return (
        ("allowed_paths", grants.paths),
        ("allowed_commands", grants.commands),
        ("allowed_hosts", grants.hosts),
    )


# Names, texts and types as Vega.


_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\", "{": "\\{", "}": "\\}"}
_HIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def _name_text(name: str) -> str:
    """A name of another language may be a keyword here."""
    return f"{name}_" if name in RESERVED else name


def _text_literal(text: str) -> str:
    return f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    text = "".join(_ESCAPES.get(char, char) for char in text)
    return _HIDDEN.sub(lambda found: f"\\u{{{ord(found[0]):X}}}", text)


def _type_text(node: tree.TypeExpr) -> str:
    match node:
        case tree.NamedType(name=name, most=most):
            return f"{name}{_size_text(most)}"
        case tree.OptionalType(inner=inner):
            return f"{_inner_text(inner)}?"
        case tree.ListType(inner=inner, most=most):
            return f"[{_inner_text(inner)}{_size_text(most)}]"
        case tree.MapType(inner=inner, most=most):
            return f"{{str: {_inner_text(inner)}{_size_text(most)}}}"
        case tree.ChoiceType(choices=choices):
            return " | ".join(map(_text_literal, choices))


def _size_text(most: int | None) -> str:
    return "" if most is None else f"; {most}"


def _inner_text(node: tree.TypeExpr) -> str:
    """Inside brackets and before `?`, a `;` would not be taken for that of the text; and behind
    `as` a reader would take it for the end of the statement."""
    is_sized = isinstance(node, tree.NamedType) and node.most is not None
    return f"({_type_text(node)})" if is_sized else _type_text(node)


# Expressions as Vega.


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
_WORDS = {True: "true", False: "false", None: "null"}


def _text(p: TreePrinter, node: tree.Text) -> Fragment:
    parts = (
        _escaped(part) if isinstance(part, str) else f"{{{p.put(part)}}}" for part in node.parts
    )
    return f'"{"".join(parts)}"', _POSTFIX


def _build(p: TreePrinter, node: tree.Build) -> Fragment:
    where = "" if node.where is None else f" if {p.put(node.where, _CAST)}"
    head = f"for {_name_text(node.name)} in {p.put(node.over, _CAST)}{where}"
    return f"[{head} {{ {p.put(node.item)} }}]", _POSTFIX


def _race(p: TreePrinter, node: tree.Race) -> Fragment:
    if node.where is None:
        return f"race {p.put(node.of, _POSTFIX)}", _SEND
    head = f"race {_name_text(node.name)} in {p.put(node.of, _POSTFIX)}"
    return f"{head} if {p.put(node.where, _OR)}", _SEND


def _unary(p: TreePrinter, node: tree.Unary) -> Fragment:
    if node.op == "not":
        return f"not {p.put(node.of, _NOT)}", _NOT
    return f"-{p.put(node.of, _SIGN)}", _SIGN


def _binary(p: TreePrinter, node: tree.Binary) -> Fragment:
    level = _LEVELS[node.op]
    left = level + 1 if level == _COMPARE else level
    return f"{p.put(node.left, left)} {node.op} {p.put(node.right, level + 1)}", level


def _call(p: TreePrinter, node: tree.Call) -> Fragment:
    given = (
        f"{name}: {p.put(arg)}" if name else p.put(arg)
        for arg, name in zip(node.args, node.names, strict=True)
    )
    return f"{p.put(node.callee, _POSTFIX)}({', '.join(given)})", _POSTFIX


def _ask(p: TreePrinter, node: tree.Ask) -> Fragment:
    """An answer is text unless it says otherwise, so `as str` is left out; see `_held`."""
    later, sign = "async " if node.later else "", "<~" if node.stream else "<-"
    made = f"{later}{p.put(node.to, _POSTFIX)} {sign} {p.put(node.message, _OR)}"
    made += _option(p, "timeout", node.timeout) + _option(p, "budget", node.budget)
    if node.answer is not None and not _is_str(node.answer):
        made += f" as {_inner_text(node.answer)}"
    return made, _SEND


def _spawn(p: TreePrinter, node: tree.Spawn) -> Fragment:
    made = f"spawn {'async ' if node.later else ''}{p.put(node.agent)}"
    made += _option(p, "wallet", node.wallet) + _option(p, "named", node.named)
    made += _option(p, "supervised by", node.under, _POSTFIX)
    if node.rules is not None:
        made += f" supervised by {{ {_settings(p, node.rules)} }}"
    return made, _SEND


def _option(p: TreePrinter, word: str, node: tree.Expr | None, level: int = _ADD) -> str:
    return "" if node is None else f" {word} {p.put(node, level)}"


def _settings(p: TreePrinter, settings: tuple[tree.Setting, ...]) -> str:
    return "  ".join(f"{one.name} {p.put(one.value, _OR)}" for one in settings)


def _is_str(node: tree.TypeExpr | None) -> bool:
    return isinstance(node, tree.NamedType) and node.name == "str" and node.most is None


# Statements as Vega.


def _let(p: "_VegaPrinter", node: tree.Let) -> None:
    kind = "" if node.type is None else f": {_type_text(node.type)}"
    p.say(f"let {_name_text(node.name)}{kind} = {_held(p, node.value, node.type)};", node.end)


def _held(p: TreePrinter, value: tree.Expr, kind: tree.TypeExpr | None) -> str:
    """An answer takes the type of where it goes, so where that is another, its own is written."""
    is_named = isinstance(value, tree.Ask) and _is_str(value.answer)
    return f"{p.put(value)} as str" if is_named and kind and not _is_str(kind) else p.put(value)


def _assign(p: TreePrinter, node: tree.Assign) -> None:
    p.say(f"{p.put(node.target)} = {p.put(node.value)};", node.end)


def _return(p: "_VegaPrinter", node: tree.Return) -> None:
    value = "" if node.value is None else f" {_held(p, node.value, p.result)}"
    p.say(f"return{value};", node.end)


def _if(p: "_VegaPrinter", node: tree.If) -> None:
    p.block(f"if {p.put(node.test)}", node.then, node.at)
    other = node.other
    if other is None:
        return
    closing = p.lines.pop()
    if len(other.body) == 1 and isinstance(other.body[0], tree.If):
        begins = len(p.lines)
        _if(p, other.body[0])
        p.lines[begins] = f"{closing} else {p.lines[begins]}"
    else:
        p.block(f"{closing} else", other)


def _while(p: "_VegaPrinter", node: tree.While) -> None:
    limit = "" if node.limit is None else f" limit {p.put(node.limit)}"
    p.block(f"while {p.put(node.test)}{limit}", node.body, node.at)


def _for(p: "_VegaPrinter", node: tree.For) -> None:
    names = ", ".join(map(_name_text, node.names))
    p.block(f"for {names} in {p.put(node.over)}", node.body, node.at)


def _guarded(p: "_VegaPrinter", node: tree.Try | tree.Session | tree.Parallel) -> None:
    match node:
        case tree.Session(budget=budget, settings=settings):
            head = f"session budget {p.put(budget, _OR)} {_settings(p, settings)}".rstrip()
        case _:
            head = "try" if isinstance(node, tree.Try) else "parallel"
    p.block(head, node.body, node.at)
    for one in node.catches:
        reason = f"({_name_text(one.reason)})" if one.reason else ""
        p.block(f"{p.lines.pop()} catch {one.kind}{reason}".rstrip(), one.body)


def _monitor(p: "_VegaPrinter", node: tree.Monitor) -> None:
    p.line(f"monitor({p.put(node.of)}) {{ {_name_text(node.reason)} ->")
    p.body(node.body.body)
    p.line("}")


class _VegaPrinter(TreePrinter):
    """`result` is the declared result of the function around."""

    expressions: ClassVar[dict[type, Callable[[Any, Any], Fragment]]] = {
        tree.Whole: lambda _, node: (str(node.value), _POSTFIX),
        tree.Decimal: lambda _, node: (repr(node.value).replace("e+", "e"), _POSTFIX),
        tree.MoneyLit: lambda _, node: (money_text(node.nanos, node.period), _POSTFIX),
        tree.Duration: lambda _, node: (duration_text(node.ms), _POSTFIX),
        tree.Word: lambda _, node: (_WORDS[node.value], _POSTFIX),
        tree.Text: _text,
        tree.Name: lambda _, node: (_name_text(node.name), _POSTFIX),
        tree.ListLit: put_list,
        tree.MapLit: put_map,
        tree.Build: _build,
        tree.Race: _race,
        tree.Unary: _unary,
        tree.Binary: _binary,
        tree.Member: lambda p, node: (f"{p.put(node.of, _POSTFIX)}.{node.name}", _POSTFIX),
        tree.Index: lambda p, node: (f"{p.put(node.of, _POSTFIX)}[{p.put(node.index)}]", _POSTFIX),
        tree.Call: _call,
        tree.Ask: _ask,
        tree.Spawn: _spawn,
        tree.Await: lambda p, node: (f"await {p.put(node.of, _POSTFIX)}", _SEND),
        tree.Cast: lambda p, node: (f"{p.put(node.of, _CAST)} as {_inner_text(node.to)}", _CAST),
    }
    statements: ClassVar[dict[type, Callable[[Any, Any], None]]] = {
        tree.Let: _let,
        tree.Assign: _assign,
        tree.ExprStmt: lambda p, node: p.say(f"{p.put(node.value)};", node.end),
        tree.Return: _return,
        tree.Break: lambda p, node: p.say("break;", node.end),
        tree.Continue: lambda p, node: p.say("continue;", node.end),
        tree.If: _if,
        tree.While: _while,
        tree.For: _for,
        tree.Try: _guarded,
        tree.Session: _guarded,
        tree.Parallel: _guarded,
        tree.Monitor: _monitor,
        tree.Block: lambda p, node: p.block("", node),
    }

    def __init__(self, comments: Comments) -> None:
        super().__init__(comments)
        self.result: tree.TypeExpr | None = None

    def block(self, head: str, block: tree.Block, at: int | None = None) -> None:
        """`at` is where its head begins: a comment on that line stays there."""
        found: list[str] = []
        if at is not None:
            found = self.comments.before(min(block.at, self.comments.line_end(at)))
        self.line(f"{head} {{  {found[0]}" if found else f"{head} {{")
        self.body(block.body)
        self.line("}")


# Declarations as Vega, and whole files.


def print_source(source: tree.Source, comments: Comments) -> str:
    """Return a file as Vega source, laid out by the formatter."""
    p = _VegaPrinter(comments)
    if source.header is not None:
        p.line(f"program{_grants(p, source.header, 'may')}")
    for node in sorted((*source.decls, *source.body), key=lambda node: node.at):
        p.lines_before(node.at)
        if isinstance(node, tree.Decl):
            _DECLARATIONS[type(node)](p, node)
            p.line("")
        else:
            p.statements[type(node)](p, node)
    p.lines_before(len(comments.text) + 1)
    return format_source("\n".join(p.lines).strip("\n") + "\n")


def _use(p: TreePrinter, node: tree.UseMcp | tree.UseFile) -> None:
    if isinstance(node, tree.UseMcp):
        what, own = f"mcp {_text_literal(node.server)}", node.server
    else:
        what, own = _text_literal(node.path), tree.name_of_file(node.path)
    p.line(f"use {what}" if node.name == own else f"use {what} as {node.name}")


def _node(p: TreePrinter, node: tree.UseNode) -> None:
    p.line(f"node {node.name} = {_text_literal(node.node)}")


def _type(p: TreePrinter, node: tree.TypeDecl) -> None:
    if node.alias is not None:
        p.line(f"type {node.name} = {_type_text(node.alias)}")
        return
    p.line(f"type {node.name} {{")
    for field in node.fields:
        p.line(f"{field.name}: {_type_text(field.type)}")
    p.line("}")


def _agent(p: _VegaPrinter, node: tree.AgentDecl) -> None:
    p.line(f"agent {node.name} {{")
    for field in node.fields:
        p.line(f"{field.name} {_field_value(p, field)}")
    for tool in node.tools:
        _tool(p, tool)
    p.line("}")


def _field_value(p: TreePrinter, field: tree.AgentField) -> str:
    value = field.value
    if not isinstance(value, tuple):
        return p.put(value)
    if field.name == "tools":
        refs = (_tool_ref(ref) for ref in value if isinstance(ref, tree.ToolRef))
        return f"[{', '.join(refs)}]"
    return f"{{ {_settings(p, tuple(row for row in value if isinstance(row, tree.Setting)))} }}"


def _tool_ref(ref: tree.ToolRef) -> str:
    return f"{ref.kind} {_text_literal(ref.name)}" if ref.kind else ref.name


def _supervisor(p: TreePrinter, node: tree.SupervisorDecl) -> None:
    children = ", ".join(child.name for child in node.children)
    p.line(f"supervisor {node.name} {{ {_settings(p, node.settings)}  children [{children}] }}")


def _function(p: _VegaPrinter, node: tree.FnDecl) -> None:
    budget = "" if node.budget is None else f" budget {p.put(node.budget, _OR)}"
    _with_body(p, f"fn {_signature(node)}{_grants(p, node.grants, 'may')}{budget}", node)


def _tool(p: _VegaPrinter, node: tree.ToolDecl) -> None:
    said = "" if node.description is None else f" {p.put(node.description)}"
    grants = _grants(p, node.grants, "capabilities")
    idempotent = " idempotent" if node.settings else ""
    _with_body(p, f"tool {_signature(node)}{said}{grants}{idempotent}", node)


def _signature(node: tree.FnDecl | tree.ToolDecl) -> str:
    params: list[str] = []
    for param in node.params:
        assert param.type is not None
        params.append(f"{_name_text(param.name)}: {_type_text(param.type)}")
    result = "" if node.result is None else f" -> {_type_text(node.result)}"
    return f"{node.name}({', '.join(params)}){result}"


def _grants(p: TreePrinter, grants: tree.Grants | None, word: str) -> str:
    if grants is None:
        return ""
    made = ""
    if grants.capabilities is not None:
        made += f" {word} [{', '.join(one.name for one in grants.capabilities)}]"
    for name, texts in narrowing(grants):
        made += "" if texts is None else f" {name} [{p.put_all(texts)}]"
    return made


def _with_body(p: _VegaPrinter, head: str, node: tree.FnDecl | tree.ToolDecl) -> None:
    p.line(f"{head} {{")
    p.result = node.result
    p.body(node.body.body)
    p.result = None
    p.lines_before(p.comments.line_end(node.body.end))
    p.line("}")


_DECLARATIONS: dict[type, Callable[[Any, Any], None]] = {
    tree.FnDecl: _function,
    tree.ToolDecl: _tool,
    tree.AgentDecl: _agent,
    tree.SupervisorDecl: _supervisor,
    tree.TypeDecl: _type,
    tree.UseMcp: _use,
    tree.UseFile: _use,
    tree.UseNode: _node,
}
