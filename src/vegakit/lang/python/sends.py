"""Sends and spawns: `reviewer("…")`, `reviewer.ask("…", returns=Finding)`, `spawn(reviewer)`.

| Python                      | Vega                    |
|-----------------------------|-------------------------|
| `a(m)`, `a.ask(m)`          | `a <- m as str`         |
| `a.ask(m, returns=T)`       | `a <- m as T`           |
| `a.stream(m)`               | `a <~ m`                |
| `a.submit(m)`, `f.result()` | `async a <- m`, `await f` |
"""

import ast
import re

from vegakit.lang.python.annotations import type_of
from vegakit.lang.python.context import Body, expression
from vegakit.lang.python.literals import duration_value, money_value
from vegakit.lang.python.settings import SPAWN_RULES, setting
from vegakit.lang.tree import Ask, Await, Expr, Name, NamedType, Setting, Spawn, TypeExpr

__all__ = ["METHODS_OF_PROCESSES", "send", "spawn"]

METHODS_OF_PROCESSES = ("ask", "stream", "submit", "result")
_OPTIONS = ("returns", "timeout", "budget")
_BRACED = re.compile(r"\{([A-Za-z_]\w*)")


def send(body: Body, node: ast.Call, to: ast.expr, method: str = "ask") -> Expr:
    file, span = body.file, body.file.span(node)
    if method == "result":
        if node.args or node.keywords:
            file.refuse("python-send", node, "`result` takes nothing here", "write `f.result()`")
        return Await(span.at, span.end, expression(body, to))
    if len(node.args) != 1:
        what = "nothing" if not node.args else f"{len(node.args)} values"
        file.refuse(
            "python-send",
            node,
            f"one message is sent, here are {what}",
            f'write `{file.source(to)}(f"… {{x}} …")`',
        )
    options = _options(body, node)
    answer = options.get("returns")
    typed: TypeExpr | None = None if answer is None else type_of(file, answer)
    if typed is None and method == "ask":
        typed = NamedType(span.at, span.end, "str")
    timeout, budget = options.get("timeout"), options.get("budget")
    return Ask(
        span.at,
        span.end,
        _addressed(body, to),
        _message(body, node.args[0]),
        method == "stream",
        method == "submit",
        None if timeout is None else duration_value(body, timeout),
        None if budget is None else money_value(body, budget),
        typed,
    )


def _options(body: Body, node: ast.Call) -> dict[str, ast.expr]:
    found: dict[str, ast.expr] = {}
    for keyword in node.keywords:
        if keyword.arg not in _OPTIONS:
            body.file.refuse(
                "python-send",
                keyword,
                f"a send has no `{keyword.arg}`",
                f"there are: {', '.join(_OPTIONS)}",
            )
        found[keyword.arg] = keyword.value
    return found


def _addressed(body: Body, to: ast.expr) -> Expr:
    if isinstance(to, ast.Name) and to.id in body.file.agents and not body.is_known(to.id):
        span = body.file.span(to)
        return Name(span.at, span.end, to.id)
    return expression(body, to)


def _message(body: Body, node: ast.expr) -> Expr:
    made = expression(body, node)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        braced = [name for name in _BRACED.findall(node.value) if body.is_known(name)]
        if braced:
            file = body.file
            file.refuse(
                "python-no-f",
                node,
                f"`{{{braced[0]}}}` is sent as it stands: this is no f-string",
                f"write `f{file.source(node)}`",
                file.replaced(node, f"f{file.source(node)}"),
            )
    body.demand("message", made, node)
    return made


def spawn(body: Body, node: ast.Call) -> Expr:
    """`spawn(a, wallet="$2", named="x", strategy="restart", max_restarts=3, under=team)`."""
    file, span = body.file, body.file.span(node)
    if len(node.args) != 1 or not isinstance(node.args[0], ast.Name):
        file.refuse("python-send", node, "one agent is spawned, by its name", "write `spawn(a)`")
    wallet = named = under = None
    later = False
    rules: list[Setting] = []
    for keyword in node.keywords:
        match keyword.arg:
            case "wallet":
                wallet = money_value(body, keyword.value)
            case "named":
                named = expression(body, keyword.value)
            case "under":
                under = _addressed(body, keyword.value)
            case "later":
                later = isinstance(keyword.value, ast.Constant) and keyword.value.value is True
            case _ if keyword.arg in SPAWN_RULES:
                rules.append(setting(file, keyword))
            case _:
                known = ["wallet", "named", "under", "later", *SPAWN_RULES]
                file.refuse(
                    "python-send",
                    keyword,
                    f"a spawn has no `{keyword.arg}`",
                    f"there are: {', '.join(known)}",
                )
    at = file.span(node.args[0])
    agent = Name(at.at, at.end, node.args[0].id)
    return Spawn(
        span.at, span.end, agent, later, wallet, named, under, tuple(rules) if rules else None
    )
