"""Agents, supervisors and rights, as they are declared at the top of a file."""

import ast

from vegakit.lang.python.context import File
from vegakit.lang.python.literals import money, text_in
from vegakit.lang.python.settings import BLOCKS, SPAWN_RULES, block, fixed_text, plain, setting
from vegakit.lang.tree import (
    AgentDecl,
    AgentField,
    CapName,
    Expr,
    Grants,
    Name,
    Setting,
    SupervisorDecl,
    Text,
    ToolRef,
    Word,
)

__all__ = ["agent", "agent_name", "budget_in", "grants", "repeatable", "supervisor"]

_GRANTS = {
    "may": "capabilities",
    "capabilities": "capabilities",
    "allowed_paths": "paths",
    "allowed_commands": "commands",
    "allowed_hosts": "hosts",
}


def agent_name(file: File, name: str, call: ast.Call) -> None:
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


def agent(file: File, name: str, node: ast.Assign, call: ast.Call) -> AgentDecl:
    fields = [_field(file, keyword) for keyword in call.keywords]
    span = file.span(node)
    return AgentDecl(span.at, span.end, name, tuple(fields), ())


def _field(file: File, keyword: ast.keyword) -> AgentField:
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


def _tools(file: File, node: ast.expr) -> tuple[ToolRef, ...]:
    if not isinstance(node, ast.List | ast.Tuple):
        file.refuse("python-agent", node, "tools are listed", "write `tools=[read, write]`")
    return tuple(_tool(file, item) for item in node.elts)


def _tool(file: File, node: ast.expr) -> ToolRef:
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


def supervisor(file: File, name: str, node: ast.Assign, call: ast.Call) -> SupervisorDecl:
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


def _child(file: File, node: ast.expr) -> Name:
    if not isinstance(node, ast.Name):
        file.refuse("python-agent", node, "a child is the name of an agent", "write its name")
    span = file.span(node)
    return Name(span.at, span.end, node.id)


# Rights


def grants(file: File, keywords: list[ast.keyword], known: tuple[str, ...]) -> Grants | None:
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


def _rows(file: File, word: str, node: ast.expr) -> tuple[CapName, ...] | tuple[Text, ...]:
    if not isinstance(node, ast.List | ast.Tuple):
        file.refuse("python-rights", node, f"`{word}` is a list", f'write `{word}=["…"]`')
    texts = tuple(fixed_text(file, item) for item in node.elts)
    if _GRANTS[word] != "capabilities":
        return texts
    return tuple(CapName(one.at, one.end, str(one.parts[0]) if one.parts else "") for one in texts)


def budget_in(file: File, keywords: list[ast.keyword]) -> Expr | None:
    for keyword in keywords:
        if keyword.arg == "budget":
            return money(file, keyword.value)
    return None


def repeatable(file: File, keywords: list[ast.keyword]) -> tuple[Setting, ...]:
    for keyword in keywords:
        value = keyword.value
        if keyword.arg == "repeatable" and isinstance(value, ast.Constant) and value.value is True:
            span = file.span(keyword)
            return (Setting(span.at, span.end, "repeatable", Word(span.at, span.end, True)),)
    return ()
