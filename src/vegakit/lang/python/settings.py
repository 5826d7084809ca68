"""Agents, supervisors, permissions and their settings, with money and durations written as text
(pure).
"""

import ast
import re

from vegakit.lang.diagnostics import Edit, nearest
from vegakit.lang.python.context import (
    FunctionContext,
    PythonFile,
    SourceSpan,
    expression,
)
from vegakit.lang.syntax import tree
from vegakit.lang.syntax.cursor import GRANTS, SPAWN_RULES, SUPERVISOR_SETTINGS
from vegakit.lang.syntax.lexer import MAX_INT, MAX_MS, duration_ms, money_nanos, plain_duration

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


def money(file: PythonFile, node: ast.expr) -> tree.MoneyLit:
    """Return an amount that is written as text."""
    text = text_in(file, node)
    found = _MONEY_TEXT.fullmatch(text or "")
    if found is None:
        edit, advice = None, 'write it like "$1.50"'
        if isinstance(node, ast.Constant) and type(node.value) in (int, float, str):
            amount = str(node.value).removeprefix("$").removesuffix("USD").strip()
            if _MONEY_TEXT.fullmatch(f"${amount}"):
                advice, edit = f'write "${amount}"', file.replaced(node, f'"${amount}"')
        file.refuse("python-money", node, "this is no amount of money", advice, edit)
    nanos = money_nanos(f"${found[1]}.{found[2] or '0'}")
    if nanos is None:
        file.refuse("python-money", node, "this is too much", "the most is a billion dollars")
    return tree.MoneyLit(*file.span(node), nanos, found[3] or "")


def duration(file: PythonFile, node: ast.expr) -> tree.Duration:
    """Return a duration that is written as text such as "30s", or as a number of seconds."""
    span = file.span(node)
    match node:
        # Compared first: an int of Python may be too long to become a float, and a float infinite.
        case ast.Constant(value=int() | float() as seconds) if 0 <= seconds <= MAX_MS // 1000:
            ms = seconds * 1000
            if type(seconds) is not bool and ms == int(ms):
                return tree.Duration(*span, int(ms))
        case _:
            pass
    found = _DURATION_TEXT.fullmatch(text_in(file, node) or "")
    lasts = None if found is None else duration_ms(found[0])
    if lasts is None:
        edit, plain = None, plain_duration((text_in(file, node) or "").replace(" ", ""))
        if plain and isinstance(node, ast.Constant):
            edit = file.replaced(node, f'"{plain}"')
        file.refuse(
            "python-duration",
            node,
            "this is no duration",
            f'write "{plain}"' if edit else 'write it like "30s", "500ms", "5m", "2h" or "1d"',
            edit,
        )
    return tree.Duration(*span, lasts)


def money_value(body: FunctionContext, node: ast.expr) -> tree.Expr:
    """Return money. Fixed text is an amount; anything else has to be money already."""
    return money(body.file, node) if _is_fixed(body, node) else expression(body, node)


def duration_value(body: FunctionContext, node: ast.expr) -> tree.Expr:
    """Return a duration. Fixed text is one; anything else has to be a duration already."""
    return duration(body.file, node) if _is_fixed(body, node) else expression(body, node)


def _is_fixed(body: FunctionContext, node: ast.expr) -> bool:
    is_name = isinstance(node, ast.Name) and body.is_known(node.id)
    return not is_name and (isinstance(node, ast.Constant) or text_in(body.file, node) is not None)


# Settings of agents, supervisors, sessions and spawns, written as arguments.


BLOCKS = {"retry": "retry", "breaker": "circuit_breaker", "rate": "rate_limit"}
"""Arguments of an agent that are blocks of their own: `retry=vega.retry(max_attempts=3)`."""

_MONEY = frozenset({"budget", "speculate", "confirm", "wallet"})
_TIMES = frozenset({"window", "timeout", "reset_after", "per"})
_WORDS = frozenset({"effort", "strategy", "on_exceed", "memory", "priority", "resend_unknown"})


def fixed_text(file: PythonFile, node: ast.expr) -> tree.Text:
    """Return text that is written out, or the name of a constant that is."""
    text = text_in(file, node)
    if text is None:
        file.refuse(
            "python-fixed",
            node,
            "this is fixed text: nothing is worked out where it is declared",
            "write it in quotes, or name a constant of the file",
        )
    return tree.Text(*file.span(node), (text,) if text else ())


def setting(file: PythonFile, keyword: ast.keyword) -> tree.Setting:
    """Return a named argument as a setting."""
    name = keyword.arg or ""
    return tree.Setting(*file.span(keyword), name, plain(file, name, keyword.value))


def plain(file: PythonFile, name: str, node: ast.expr) -> tree.Expr:  # noqa: C901
    """Return the value of a setting. `name` says whether it is money, a time or a word."""
    span = file.span(node)
    if name in _MONEY:
        return money(file, node)
    if name in _TIMES:
        return duration(file, node)
    if name in _WORDS and (word := text_in(file, node)) is not None:
        return tree.Name(*span, word)
    match node:
        case ast.Constant(value=bool() as value):
            return tree.Word(*span, value)
        case ast.Constant(value=int() as value) if value > MAX_INT:
            help_ = f"the largest is {MAX_INT}"
            return file.refuse("python-int", node, "an int has 64 bits here", help_)
        case ast.Constant(value=int() as value):
            return tree.Whole(*span, value)
        case ast.Constant(value=float() as value):
            return tree.Decimal(*span, value)
        case ast.UnaryOp(op=ast.USub(), operand=of):
            return tree.Unary(*span, "-", plain(file, name, of))
        case ast.List(elts=items):
            words = (tree.Name(*file.span(item), fixed_text(file, item).parts[0]) for item in items)  # pyright: ignore[reportArgumentType]
            return tree.ListLit(*span, tuple(words))
        case ast.Call() if _vega_name(file, node.func) in ("exponential", "constant"):
            return _growth(file, node)
        case ast.Name(id=constant) if type(file.constants.get(constant)) is ast.Constant:
            return plain(file, name, file.constants[constant])
        case _:
            return fixed_text(file, node)


def _growth(file: PythonFile, node: ast.Call) -> tree.Expr:
    """`vega.exponential("100ms", 2.0, "5s")`."""
    at, end = file.span(node)
    args: list[tree.Expr] = []
    for arg in node.args:
        is_text = text_in(file, arg) is not None
        args.append(duration(file, arg) if is_text else plain(file, "", arg))
    callee = tree.Name(at, end, _vega_name(file, node.func))
    return tree.Call(at, end, callee, tuple(args), ("",) * len(args))


def block(file: PythonFile, node: ast.expr, name: str) -> tuple[tree.Setting, ...]:
    """Return the settings in `vega.retry(…)`, `vega.circuit_breaker(…)` or `vega.rate_limit(…)`."""
    if not (isinstance(node, ast.Call) and _vega_name(file, node.func) == name and not node.args):
        edit, written = None, f"vega.{name}(…)"
        if name == "retry" and isinstance(node, ast.Constant) and type(node.value) is int:
            written = f"vega.retry(max_attempts={node.value})"
            edit = file.written(node, written)
        message = f"`{name}` takes a block of settings"
        file.refuse("python-setting", node, message, f"write `{written}`", edit)
    return tuple(setting(file, keyword) for keyword in node.keywords)


def _vega_name(file: PythonFile, node: ast.expr) -> str:
    if isinstance(node, ast.Attribute) and file.means(node.value, "vegakit.vega"):
        return node.attr
    return ""


# Agents, supervisors and rights, as they are declared at the top of a file.


def agent_name(file: PythonFile, name: str, call: ast.Call) -> None:
    """Refuse an agent whose first and only unnamed argument is not its name."""
    said = text_in(file, call.args[0]) if len(call.args) == 1 else None
    if said is None:
        kind = file.source(call.func)
        file.refuse(
            "python-agent",
            call,
            f"the name of `{name}` is its first argument, all others are named",
            f'write `{name} = {kind}("{name}", …)`',
            _by_place(file, call),
        )
    if ":" in said:
        file.refuse(
            "python-agent",
            call.args[0],
            "a name has no colon, and a model is not the first argument",
            f'write `{name} = {file.source(call.func)}("{name}", model="{said}")`',
        )


def _by_place(file: PythonFile, call: ast.Call) -> Edit | None:
    """`name="w"` is the first argument."""
    first = call.keywords[0] if call.keywords and not call.args else None
    if first is None or first.arg != "name":
        return None
    return Edit(file.span(first).at, file.span(first.value).at, "")


def agent(file: PythonFile, name: str, node: ast.Assign, call: ast.Call) -> tree.AgentDecl:
    """Return the declaration of an agent."""
    fields = [_field(file, keyword) for keyword in call.keywords]
    return tree.AgentDecl(*file.span(node), name, tuple(fields), ())


def _field(file: PythonFile, keyword: ast.keyword) -> tree.AgentField:
    span, name, value = file.span(keyword), keyword.arg or "", keyword.value
    if name == "tools":
        return tree.AgentField(*span, name, _tools(file, value))
    if name == "model" and isinstance(value, ast.List):
        models = tuple(fixed_text(file, item) for item in value.elts)
        return tree.AgentField(*span, name, tree.ListLit(*file.span(value), models))
    if name in BLOCKS:
        return tree.AgentField(*span, BLOCKS[name], block(file, value, BLOCKS[name]))
    if name == "instructions":
        name = "system"  # as the language calls it
    if name in {"output", "output_type"}:
        file.refuse(
            "python-agent",
            keyword,
            "the type of an answer is said where it is asked for",
            f"write `.ask(message, returns={file.source(value)})`",
        )
    return tree.AgentField(*span, name, plain(file, name, value))


def _tools(file: PythonFile, node: ast.expr) -> tuple[tree.ToolRef, ...]:
    if not isinstance(node, ast.List | ast.Tuple):
        file.refuse("python-agent", node, "tools are listed", "write `tools=[read, write]`")
    return tuple(_tool(file, item) for item in node.elts)


def _tool(file: PythonFile, node: ast.expr) -> tree.ToolRef:
    span = file.span(node)
    match node:
        case ast.Name(id=name) if name in file.servers:
            return tree.ToolRef(*span, name, "mcp")
        case ast.Name(id=name):
            return tree.ToolRef(*span, name)
        case ast.Call(func=ast.Attribute(value=of, attr="yaml"), args=[path], keywords=[]) if (
            file.means(of, "vegakit.vega")
        ):
            return tree.ToolRef(*span, text_in(file, path) or "", "yaml")
        case _:
            return file.refuse(
                "python-agent",
                node,
                "a tool is the name of a function of this file, or of a server",
                'write `tools=[read]`, `tools=[github]` or `tools=[vega.yaml("tools.yaml")]`',
            )


def supervisor(
    file: PythonFile, name: str, node: ast.Assign, call: ast.Call
) -> tree.SupervisorDecl:
    """Return the declaration of a supervisor."""
    settings: list[tree.Setting] = []
    children: tuple[tree.Name, ...] = ()
    for keyword in call.keywords:
        if keyword.arg == "children" and isinstance(keyword.value, ast.List):
            children = tuple(_child(file, item) for item in keyword.value.elts)
        elif keyword.arg in SPAWN_RULES:
            settings.append(setting(file, keyword))
        else:
            known = ", ".join(SUPERVISOR_SETTINGS)
            file.refuse(
                "python-agent",
                keyword,
                f"a supervisor has no such `{keyword.arg}`",
                f"there are: {known}; children are a list of agents",
            )
    return tree.SupervisorDecl(*file.span(node), name, tuple(settings), children)


def _child(file: PythonFile, node: ast.expr) -> tree.Name:
    if not isinstance(node, ast.Name):
        file.refuse("python-agent", node, "a child is the name of an agent", "write its name")
    return tree.Name(*file.span(node), node.id)


# Rights


_RIGHTS = frozenset("may capabilities permissions rights allow allowed grants can".split())


def grants(
    file: PythonFile, keywords: list[ast.keyword], known: tuple[str, ...]
) -> tree.Grants | None:
    """`may=["fs::read"]`, `allowed_paths=["src/**"]`; `known` are all words that may stand here."""
    found: dict[str, tuple[tree.CapName, ...] | tuple[tree.Text, ...]] = {}
    for keyword in keywords:
        word = keyword.arg or ""
        if word not in known:
            at = file.span(keyword).at
            meant = known[0] if word in _RIGHTS else nearest(word, known)
            file.refuse(
                "python-rights",
                SourceSpan(at, at + len(word)),
                f"there is no `{word}` here",
                f"write `{meant}=`" if meant else f"one of: {', '.join(known)}",
                Edit(at, at + len(word), meant) if meant else None,
            )
        if word in GRANTS:
            found[GRANTS[word]] = _rows(file, word, keyword.value)
    if not found:
        return None
    return tree.Grants(file.span(keywords[0]).at, file.span(keywords[-1]).end, **found)  # pyright: ignore[reportArgumentType]


def _rows(
    file: PythonFile, word: str, node: ast.expr
) -> tuple[tree.CapName, ...] | tuple[tree.Text, ...]:
    if not isinstance(node, ast.List | ast.Tuple):
        text = text_in(file, node)
        edit = None if text is None else file.replaced(node, f'["{text}"]')
        advice = f'write `{word}=["{text or "…"}"]`'
        file.refuse("python-rights", node, f"`{word}` is a list", advice, edit)
    texts = tuple(fixed_text(file, item) for item in node.elts)
    if GRANTS[word] != "capabilities":
        return texts
    for item, one in zip(node.elts, texts, strict=True):
        if one.parts and "." in (name := str(one.parts[0])):
            meant = name.replace(".", "::")
            message = "the parts of a capability are joined by `::`"
            edit = file.replaced(item, f'"{meant}"')
            file.report("python-rights", item, message, f'write "{meant}"', edit)
    return tuple(
        tree.CapName(one.at, one.end, str(one.parts[0]) if one.parts else "") for one in texts
    )


def budget_in(file: PythonFile, keywords: list[ast.keyword]) -> tree.Expr | None:
    """Return the budget among the arguments of a decorator, if there is one."""
    for keyword in keywords:
        if keyword.arg == "budget":
            return money(file, keyword.value)
    return None


def idempotent(file: PythonFile, keywords: list[ast.keyword]) -> tuple[tree.Setting, ...]:
    """Return the setting `idempotent` if a decorator has it."""
    for keyword in keywords:
        value = keyword.value
        if keyword.arg == "idempotent" and isinstance(value, ast.Constant) and value.value is True:
            span = file.span(keyword)
            return (tree.Setting(*span, "idempotent", tree.Word(*span, True)),)
    return ()
