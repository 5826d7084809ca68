"""Sends, spawns, and calls of the Vega library by its own names (pure)."""

import ast
import re
from typing import NoReturn

from vegakit.lang.diagnostics import Edit, did_you_mean, nearest
from vegakit.lang.library import LIBRARY, LibraryFunction
from vegakit.lang.python.analysis import is_pure
from vegakit.lang.python.context import (
    FunctionContext,
    PythonFile,
    SourceSpan,
    check_variable_name,
    expression,
)
from vegakit.lang.python.settings import (
    duration,
    duration_value,
    money,
    money_value,
    setting,
)
from vegakit.lang.python.types import kind_of, type_of
from vegakit.lang.syntax import tree
from vegakit.lang.syntax.cursor import SPAWN_RULES
from vegakit.lang.types import DURATION, MONEY, Parameter

# Sends and spawns: `reviewer("…")`, `reviewer.ask("…", returns=Finding)`, `spawn(reviewer)`.
#
# | Python                      | Vega                    |
# |-----------------------------|-------------------------|
# | `a(m)`, `a.ask(m)`          | `a <- m as str`         |
# | `a.ask(m, returns=T)`       | `a <- m as T`           |
# | `a.stream(m)`               | `a <~ m`                |
# | `a.submit(m)`, `f.result()` | `async a <- m`, `await f` |
# | `race(a(m), b(m))`          | `race [a <- m, b <- m]` |


METHODS_OF_PROCESSES = ("ask", "stream", "submit", "result")
_OPTIONS = ("returns", "timeout", "budget")
_TYPED = frozenset(
    "output_type result_type response_model response_format output type schema as_type".split()
)
_OF_AGENTS = frozenset(
    "model instructions system temperature effort max_tokens max_steps tools retry retries memory"
    " priority on_exceed".split()
)
_BRACED = re.compile(r"\{([A-Za-z_]\w*)")


def send(body: FunctionContext, node: ast.Call, to: ast.expr, method: str = "ask") -> tree.Expr:
    """Return a send, or with the method `result` the wait for one."""
    file, span = body.file, body.span(node)
    if method == "result":
        if node.args or node.keywords:
            file.refuse("python-send", node, "`result` takes nothing here", "write `f.result()`")
        return tree.Await(*span, expression(body, to))
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
    typed: tree.TypeExpr | None = None if answer is None else type_of(file, answer)
    if typed is None and method == "ask":
        typed = tree.NamedType(*span, "str")
    timeout, budget = options.get("timeout"), options.get("budget")
    return tree.Ask(
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


def _options(body: FunctionContext, node: ast.Call) -> dict[str, ast.expr]:
    found: dict[str, ast.expr] = {}
    for keyword in node.keywords:
        if keyword.arg not in _OPTIONS:
            word = keyword.arg or ""
            if word in _OF_AGENTS:
                message = f"a send has no `{word}`: it is a setting of the agent"
                body.refuse("python-send", keyword, message, f"write `Agent(…, {word}=…)`")
            meant = "returns" if word in _TYPED else nearest(word, _OPTIONS)
            at = body.span(keyword).at
            body.refuse(
                "python-send",
                SourceSpan(at, at + len(word)),
                f"a send has no `{word}`",
                f"write `{meant}=`" if meant else f"there are: {', '.join(_OPTIONS)}",
                Edit(at, at + len(word), meant) if meant else None,
            )
        found[keyword.arg] = keyword.value
    return found


def _addressed(body: FunctionContext, to: ast.expr) -> tree.Expr:
    if isinstance(to, ast.Name) and to.id in body.file.agents and not body.is_known(to.id):
        return tree.Name(*body.span(to), to.id)
    return expression(body, to)


def _message(body: FunctionContext, node: ast.expr) -> tree.Expr:
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


_RACE = "write `race(a(m), b(m), good=lambda x: len(x) > 3)`, or `race(*[a(x) for x in xs])`"


def race(body: FunctionContext, node: ast.Call) -> tree.Expr:
    """Return a race of sends or calls. What makes an answer good is seen in a `lambda`."""
    span, said = body.span(node), {keyword.arg: keyword.value for keyword in node.keywords}
    good = said.pop("good", None)
    if said or not node.args:
        body.refuse("python-call", node, "`race` is not written so", _RACE)
    match node.args:
        case [ast.List() | ast.ListComp() | ast.Name() as of] if isinstance(
            kind_of(body, of), tree.ListType
        ):
            _refuse_list(body, of)
        case _:
            pass
    match node.args:
        case [ast.Starred(value=ast.ListComp() as made)]:
            listed = expression(body, made)
        case args if not any(isinstance(arg, ast.Starred) for arg in args):
            listed = tree.ListLit(*span, tuple(expression(body, arg) for arg in args))
        case _:
            body.refuse("python-call", node, "what runs in a race is written in it", _RACE)
    assert isinstance(listed, tree.ListLit | tree.Build)
    if good is None:
        return tree.Race(*span, "", listed, None)
    if (name := parameter_of(good)) is None or not isinstance(good, ast.Lambda):
        body.refuse("python-call", good, "what makes an answer good is written in the race", _RACE)
    check_variable_name(body, good, name)
    body.scopes.append({name: kind_of(body, node)})
    where = expression(body, good.body)
    body.scopes.pop()
    return tree.Race(*span, name, listed, where)


def _refuse_list(body: FunctionContext, of: ast.expr) -> NoReturn:
    """One list is one value, so nothing would run beside it."""
    edit, advice = None, _RACE
    if isinstance(of, ast.ListComp):
        edit = body.file.replaced(of, f"*{body.file.source(of)}")
        advice = f"write `race({edit.text})`" if len(edit.text) < 60 else "write `race(*[…])`"
    elif isinstance(of, ast.List) and of.elts:
        edit = body.file.replaced(of, ", ".join(map(body.file.source, of.elts)))
        advice = f"write `race({edit.text})`" if len(edit.text) < 60 else advice
    body.refuse(
        "python-call", of, "this is a race of one: what runs is not in a list", advice, edit
    )


def parameter_of(node: ast.expr) -> str | None:
    """Return the only parameter of a `lambda`, None if it is no such thing."""
    match node:
        case ast.Lambda(
            args=ast.arguments(
                posonlyargs=[],
                args=[ast.arg(arg=name)],
                vararg=None,
                kwonlyargs=[],
                kwarg=None,
                defaults=[],
            )
        ):
            return name
        case _:
            return None


def spawn(body: FunctionContext, node: ast.Call) -> tree.Expr:
    """Return a spawn: `spawn(a, wallet="$2", named="x", strategy="restart", max_restarts=3,
    under=team)`."""
    file = body.file
    if len(node.args) != 1 or not isinstance(node.args[0], ast.Name):
        file.refuse("python-send", node, "one agent is spawned, by its name", "write `spawn(a)`")
    wallet = named = under = None
    later = False
    rules: list[tree.Setting] = []
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
    agent = tree.Name(*file.span(node.args[0]), node.args[0].id)
    return tree.Spawn(
        *body.span(node), agent, later, wallet, named, under, tuple(rules) if rules else None
    )


# The library by its own names: `vega.file.read(path)` is `file::read(path)`.
#
# What Python would spell otherwise has a name here too: `vega.text(x)` is the text of any value,
# `vega.quotient(a, b)` divides ints toward zero, `vega.at(xs, i)` raises below zero.


_TOP = frozenset({"fail", "link", "exec", "file", "range"})


def is_vega(file: PythonFile, node: ast.expr) -> bool:
    """Return whether a name begins with the `vega` of vegakit."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return file.means(node, "vegakit.vega")


def vega_call(body: FunctionContext, node: ast.Call, callee: ast.Attribute) -> tree.Expr:
    """Return `vega.space.name(…)` as a call of the library, or as an operator."""
    path = _path(callee)
    if len(path) == 1 and path[0] in _OWN:
        return _own(body, node, path[0])
    name = "::".join(path)
    row = LIBRARY.get(name) if len(path) == 2 or name in _TOP else None
    if row is None:
        known = [found.replace("::", ".") for found in LIBRARY if "::" in found]
        said = ".".join(path)
        close = nearest(said, [*known, *_OWN, *_TOP])
        body.refuse(
            "python-vega",
            callee,
            f"there is no `vega.{said}`",
            _meant(said, [*known, *_OWN, *_TOP]),
            body.file.replaced(callee, f"vega.{close}") if close else None,
        )
    return _library(body, node, row)


def _meant(said: str, known: list[str]) -> str:
    advice = did_you_mean(said, known)
    if advice.startswith("one of"):
        return "`vega card --python` lists the library; `a::b` is written `vega.a.b`"
    return advice.replace("`", "`vega.", 1)


def _path(callee: ast.expr) -> list[str]:
    path: list[str] = []
    while isinstance(callee, ast.Attribute):
        path.insert(0, callee.attr.rstrip("_"))
        callee = callee.value
    return path


def _library(body: FunctionContext, node: ast.Call, row: LibraryFunction) -> tree.Expr:
    params = {param.name: param for param in row.params}
    values: list[tree.Expr] = []
    names: list[str] = []
    for param, arg in zip(row.params, node.args, strict=False):
        values.append(_value(body, arg, param))
        names.append("")
    for arg in node.args[len(row.params) :]:
        values.append(expression(body, arg))
        names.append("")
    for keyword in node.keywords:
        name = (keyword.arg or "").rstrip("_")
        values.append(_value(body, keyword.value, params.get(name)))
        names.append(name)
    callee = tree.Name(*body.span(node.func), row.name)
    return tree.Call(*body.span(node), callee, tuple(values), tuple(names))


def _value(body: FunctionContext, node: ast.expr, param: Parameter | None) -> tree.Expr:
    if param is not None and param.type == DURATION:
        return duration_value(body, node)
    if param is not None and param.type == MONEY:
        return money_value(body, node)
    return expression(body, node)


def _own(body: FunctionContext, node: ast.Call, name: str) -> tree.Expr:
    file, span = body.file, body.span(node)
    count, sample = _OWN[name]
    if len(node.args) != count or node.keywords:
        file.refuse("python-vega", node, f"`vega.{name}` is not written so", f"write `{sample}`")
    args = node.args
    match name:
        case "money":
            return money(file, args[0])
        case "duration":
            return duration(file, args[0])
        case "text":
            made = expression(body, args[0])
            return tree.Call(*span, tree.Name(*span, "str"), (made,), ("",))
        case "reason":
            return _reason(body, node, args[0])
        case "cast":
            made = expression(body, args[0])
            return tree.Cast(*span, made, type_of(file, args[1]))
        case "default":
            one, other = expression(body, args[0]), _plain_default(body, args[1])
            return tree.Binary(*span, "??", one, other)
        case "at":
            one, other = expression(body, args[0]), expression(body, args[1])
            return tree.Index(*span, one, other)
        case "quotient" | "remainder":
            one, other = expression(body, args[0]), expression(body, args[1])
            return tree.Binary(*span, "/" if name == "quotient" else "%", one, other)
        case _:
            return file.refuse("python-vega", node, f"`vega.{name}` cannot stand here", sample)


def _plain_default(body: FunctionContext, node: ast.expr) -> tree.Expr:
    if not is_pure(node):
        body.refuse(
            "python-order",
            node,
            "a default that calls something would be worked out only when it is needed",
            "write `if x is None:` and assign",
        )
    return expression(body, node)


def _reason(body: FunctionContext, node: ast.Call, of: ast.expr) -> tree.Expr:
    if not (isinstance(of, ast.Name) and of.id in body.reasons):
        body.refuse(
            "python-vega",
            node,
            "this is no error that was caught",
            "write `except AgentFailed as e:` and `vega.reason(e)`",
        )
    return tree.Name(*body.span(node), of.id)


_OWN: dict[str, tuple[int, str]] = {
    "at": (2, "vega.at(xs, i)"),
    "default": (2, "vega.default(x, 0)"),
    "cast": (2, "vega.cast(value, Finding)"),
    "duration": (1, 'vega.duration("30s")'),
    "limit": (2, "while vega.limit(10, x > 0):"),
    "mcp": (1, 'github = vega.mcp("github")'),
    "money": (1, 'vega.money("$1.50")'),
    "quotient": (2, "vega.quotient(a, b)"),
    "reason": (1, "vega.reason(e)"),
    "remainder": (2, "vega.remainder(a, b)"),
    "text": (1, "vega.text(x)"),
    "yaml": (1, 'tools=[vega.yaml("tools.yaml")]'),
}
