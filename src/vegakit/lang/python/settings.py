"""Agents, supervisors, permissions and their settings, with money and durations written as text
(pure).
"""

import ast
import re

from vegakit.lang.python.context import FunctionContext, PythonFile, expression
from vegakit.lang.syntax.literals import MAX_INT, MAX_MS, duration_ms, money_nanos
from vegakit.lang.syntax.tree import (
    AgentDecl,
    AgentField,
    Call,
    CapName,
    Decimal,
    Duration,
    Expr,
    Grants,
    ListLit,
    MoneyLit,
    Name,
    Setting,
    SupervisorDecl,
    Text,
    ToolRef,
    Unary,
    Whole,
    Word,
)

# Money, durations and settings that are written as text: `"$0.50"`, `"30s"`.


_MONEY_TEXT = re.compile(r"\$(\d{1,12})(?:\.(\d{1,6}))?(?:/(hour|day|month))?", re.ASCII)
_DURATION_TEXT = re.compile(r"(\d{1,12})(ms|s|m|h|d)", re.ASCII)


def text_in(file: PythonFile, node: ast.expr) -> str | None:
    """The fixed text of it, also by a name of the file."""
    if isinstance(node, ast.Name) and node.id in file.constants:
        node = file.constants[node.id]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return None


def money(file: PythonFile, node: ast.expr) -> MoneyLit:
    span, text = file.span(node), text_in(file, node)
    found = _MONEY_TEXT.fullmatch(text or "")
    if found is None:
        file.refuse("python-money", node, "this is no amount of money", 'write it like "$1.50"')
    nanos = money_nanos(f"${found[1]}.{found[2] or '0'}")
    if nanos is None:
        file.refuse("python-money", node, "this is too much", "the most is a billion dollars")
    return MoneyLit(span.at, span.end, nanos, found[3] or "")


def duration(file: PythonFile, node: ast.expr) -> Duration:
    """Text such as "30s", or a number of seconds."""
    span = file.span(node)
    match node:
        # Compared first: an int of Python may be too long to become a float, and a float infinite.
        case ast.Constant(value=int() | float() as seconds) if 0 <= seconds <= MAX_MS // 1000:
            ms = seconds * 1000
            if type(seconds) is not bool and ms == int(ms):
                return Duration(span.at, span.end, int(ms))
        case _:
            pass
    found = _DURATION_TEXT.fullmatch(text_in(file, node) or "")
    lasts = None if found is None else duration_ms(found[0])
    if lasts is None:
        file.refuse(
            "python-duration",
            node,
            "this is no duration",
            'write it like "30s", "500ms", "5m", "2h" or "1d"',
        )
    return Duration(span.at, span.end, lasts)


def money_value(body: FunctionContext, node: ast.expr) -> Expr:
    """Fixed text is an amount; anything else has to be money already."""
    return money(body.file, node) if _is_fixed(body, node) else expression(body, node)


def duration_value(body: FunctionContext, node: ast.expr) -> Expr:
    return duration(body.file, node) if _is_fixed(body, node) else expression(body, node)


def _is_fixed(body: FunctionContext, node: ast.expr) -> bool:
    is_name = isinstance(node, ast.Name) and body.is_known(node.id)
    return not is_name and (isinstance(node, ast.Constant) or text_in(body.file, node) is not None)


# Settings of agents, supervisors, sessions and spawns, written as arguments.


SPAWN_RULES = ("strategy", "max_restarts", "window")
SESSION_SETTINGS = ("on_exceed", "speculate", "confirm")
BLOCKS = {"retry": "retry", "breaker": "circuit_breaker", "rate": "rate_limit"}
"""Arguments of an agent that are blocks of their own: `retry=vega.retry(max_attempts=3)`."""

_MONEY = frozenset({"budget", "speculate", "confirm", "wallet"})
_TIMES = frozenset({"window", "timeout", "reset_after", "per"})
_WORDS = frozenset({"strategy", "on_exceed", "memory", "priority", "resend_unknown"})


def fixed_text(file: PythonFile, node: ast.expr) -> Text:
    text = text_in(file, node)
    if text is None:
        file.refuse(
            "python-fixed",
            node,
            "this is fixed text: nothing is worked out where it is declared",
            "write it in quotes, or name a constant of the file",
        )
    span = file.span(node)
    return Text(span.at, span.end, (text,) if text else ())


def setting(file: PythonFile, keyword: ast.keyword) -> Setting:
    span, name = file.span(keyword), keyword.arg or ""
    return Setting(span.at, span.end, name, plain(file, name, keyword.value))


def plain(file: PythonFile, name: str, node: ast.expr) -> Expr:  # noqa: C901
    span = file.span(node)
    if name in _MONEY:
        return money(file, node)
    if name in _TIMES:
        return duration(file, node)
    if name in _WORDS and (word := text_in(file, node)) is not None:
        return Name(span.at, span.end, word)
    match node:
        case ast.Constant(value=bool() as value):
            return Word(span.at, span.end, value)
        case ast.Constant(value=int() as value) if value > MAX_INT:
            help_ = f"the largest is {MAX_INT}"
            return file.refuse("python-int", node, "an int has 64 bits here", help_)
        case ast.Constant(value=int() as value):
            return Whole(span.at, span.end, value)
        case ast.Constant(value=float() as value):
            return Decimal(span.at, span.end, value)
        case ast.UnaryOp(op=ast.USub(), operand=of):
            return Unary(span.at, span.end, "-", plain(file, name, of))
        case ast.List(elts=items):
            words = (Name(*_at(file, item), fixed_text(file, item).parts[0]) for item in items)  # pyright: ignore[reportArgumentType]
            return ListLit(span.at, span.end, tuple(words))
        case ast.Call() if _vega_name(file, node.func) in ("exponential", "constant"):
            return _growth(file, node)
        case ast.Name(id=constant) if type(file.constants.get(constant)) is ast.Constant:
            return plain(file, name, file.constants[constant])
        case _:
            return fixed_text(file, node)


def _at(file: PythonFile, node: ast.AST) -> tuple[int, int]:
    span = file.span(node)
    return span.at, span.end


def _growth(file: PythonFile, node: ast.Call) -> Expr:
    """`vega.exponential("100ms", 2.0, "5s")`."""
    at, end = _at(file, node)
    args: list[Expr] = []
    for arg in node.args:
        is_text = text_in(file, arg) is not None
        args.append(duration(file, arg) if is_text else plain(file, "", arg))
    callee = Name(at, end, _vega_name(file, node.func))
    return Call(at, end, callee, tuple(args), ("",) * len(args))


def block(file: PythonFile, node: ast.expr, name: str) -> tuple[Setting, ...]:
    """`vega.retry(…)`, `vega.circuit_breaker(…)`, `vega.rate_limit(…)`."""
    if not (isinstance(node, ast.Call) and _vega_name(file, node.func) == name and not node.args):
        file.refuse(
            "python-setting", node, "this is a block of settings", f"write `vega.{name}(…)`"
        )
    return tuple(setting(file, keyword) for keyword in node.keywords)


def _vega_name(file: PythonFile, node: ast.expr) -> str:
    if isinstance(node, ast.Attribute) and file.means(node.value, "vegakit.vega"):
        return node.attr
    return ""


# Agents, supervisors and rights, as they are declared at the top of a file.


_GRANTS = {
    "may": "capabilities",
    "capabilities": "capabilities",
    "allowed_paths": "paths",
    "allowed_commands": "commands",
    "allowed_hosts": "hosts",
}


def agent_name(file: PythonFile, name: str, call: ast.Call) -> None:
    """The first argument is the name of the variable: who reads a trace finds the line."""
    said = text_in(file, call.args[0]) if len(call.args) == 1 else None
    kind = file.source(call.func)
    if said == name:
        return
    if said is None:
        file.refuse(
            "python-agent",
            call,
            f"the name of `{name}` is its first argument, all others are named",
            f'write `{name} = {kind}("{name}", …)`',
        )
    file.refuse(
        "python-agent",
        call.args[0],
        f'the variable is `{name}` and its name "{said}"; they have to be the same',
        f'write `{kind}("{name}", …)`',
        file.replaced(call.args[0], f'"{name}"'),
    )


def agent(file: PythonFile, name: str, node: ast.Assign, call: ast.Call) -> AgentDecl:
    fields = [_field(file, keyword) for keyword in call.keywords]
    span = file.span(node)
    return AgentDecl(span.at, span.end, name, tuple(fields), ())


def _field(file: PythonFile, keyword: ast.keyword) -> AgentField:
    span, name, value = file.span(keyword), keyword.arg or "", keyword.value
    if name == "tools":
        return AgentField(span.at, span.end, name, _tools(file, value))
    if name in BLOCKS:
        return AgentField(span.at, span.end, BLOCKS[name], block(file, value, BLOCKS[name]))
    if name == "output":
        file.refuse(
            "python-agent",
            keyword,
            "the type of an answer is said where it is asked for",
            f"write `.ask(message, returns={file.source(value)})`",
        )
    return AgentField(span.at, span.end, name, plain(file, name, value))


def _tools(file: PythonFile, node: ast.expr) -> tuple[ToolRef, ...]:
    if not isinstance(node, ast.List | ast.Tuple):
        file.refuse("python-agent", node, "tools are listed", "write `tools=[read, write]`")
    return tuple(_tool(file, item) for item in node.elts)


def _tool(file: PythonFile, node: ast.expr) -> ToolRef:
    span = file.span(node)
    match node:
        case ast.Name(id=name) if name in file.servers:
            return ToolRef(span.at, span.end, name, "mcp")
        case ast.Name(id=name):
            return ToolRef(span.at, span.end, name)
        case ast.Call(func=ast.Attribute(value=of, attr="yaml"), args=[path], keywords=[]) if (
            file.means(of, "vegakit.vega")
        ):
            return ToolRef(span.at, span.end, text_in(file, path) or "", "yaml")
        case _:
            return file.refuse(
                "python-agent",
                node,
                "a tool is the name of a function of this file, or of a server",
                'write `tools=[read]`, `tools=[github]` or `tools=[vega.yaml("tools.yaml")]`',
            )


def supervisor(file: PythonFile, name: str, node: ast.Assign, call: ast.Call) -> SupervisorDecl:
    settings: list[Setting] = []
    children: tuple[Name, ...] = ()
    for keyword in call.keywords:
        if keyword.arg == "children" and isinstance(keyword.value, ast.List):
            children = tuple(_child(file, item) for item in keyword.value.elts)
        elif keyword.arg in SPAWN_RULES:
            settings.append(setting(file, keyword))
        else:
            known = ", ".join((*SPAWN_RULES, "children"))
            file.refuse(
                "python-agent",
                keyword,
                f"a supervisor has no such `{keyword.arg}`",
                f"there are: {known}; children are a list of agents",
            )
    span = file.span(node)
    return SupervisorDecl(span.at, span.end, name, tuple(settings), children)


def _child(file: PythonFile, node: ast.expr) -> Name:
    if not isinstance(node, ast.Name):
        file.refuse("python-agent", node, "a child is the name of an agent", "write its name")
    span = file.span(node)
    return Name(span.at, span.end, node.id)


# Rights


def grants(file: PythonFile, keywords: list[ast.keyword], known: tuple[str, ...]) -> Grants | None:
    """`may=["fs::read"]`, `allowed_paths=["src/**"]`; `known` are all words that may stand here."""
    found: dict[str, tuple[CapName, ...] | tuple[Text, ...]] = {}
    for keyword in keywords:
        word = keyword.arg or ""
        if word not in known:
            file.refuse(
                "python-rights",
                keyword,
                f"there is no `{word}` here",
                f"one of: {', '.join(known)}",
            )
        if word in _GRANTS:
            found[_GRANTS[word]] = _rows(file, word, keyword.value)
    if not found:
        return None
    first, last = file.span(keywords[0]), file.span(keywords[-1])
    return Grants(first.at, last.end, **found)  # pyright: ignore[reportArgumentType]


def _rows(file: PythonFile, word: str, node: ast.expr) -> tuple[CapName, ...] | tuple[Text, ...]:
    if not isinstance(node, ast.List | ast.Tuple):
        file.refuse("python-rights", node, f"`{word}` is a list", f'write `{word}=["…"]`')
    texts = tuple(fixed_text(file, item) for item in node.elts)
    if _GRANTS[word] != "capabilities":
        return texts
    return tuple(CapName(one.at, one.end, str(one.parts[0]) if one.parts else "") for one in texts)


def budget_in(file: PythonFile, keywords: list[ast.keyword]) -> Expr | None:
    for keyword in keywords:
        if keyword.arg == "budget":
            return money(file, keyword.value)
    return None


def repeatable(file: PythonFile, keywords: list[ast.keyword]) -> tuple[Setting, ...]:
    for keyword in keywords:
        value = keyword.value
        if keyword.arg == "repeatable" and isinstance(value, ast.Constant) and value.value is True:
            span = file.span(keyword)
            return (Setting(span.at, span.end, "repeatable", Word(span.at, span.end, True)),)
    return ()
