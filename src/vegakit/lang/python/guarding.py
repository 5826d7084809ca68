"""Blocks that can fail: `try`, `raise`, `with session(…)` and `with parallel()`."""

import ast

from vegakit.lang.python.context import Body, Rule, expression
from vegakit.lang.python.expressions import library
from vegakit.lang.python.literals import money_value
from vegakit.lang.python.naming import new_name
from vegakit.lang.python.settings import SESSION_SETTINGS, setting
from vegakit.lang.python.statements import block, statements
from vegakit.lang.python.words import BUILTIN_ERRORS, VEGA_ERRORS
from vegakit.lang.tree import Block, Catch, ExprStmt, Parallel, Session, Setting, Stmt, Try

__all__ = ["GUARDS"]


def _try(body: Body, node: ast.Try) -> list[Stmt]:
    file = body.file
    if node.finalbody or node.orelse:
        word = "finally" if node.finalbody else "else"
        file.refuse(
            "python-try",
            (node.finalbody or node.orelse)[0],
            f"a `try` has no `{word}` here",
            "write it behind the `try`; processes and budgets are given back by themselves",
        )
    span, inner = file.span(node), block(body, node.body, node)
    catches = [one for handler in node.handlers for one in _handler(body, handler)]
    return [Try(span.at, span.end, inner, tuple(catches))]


def _handler(body: Body, node: ast.ExceptHandler) -> list[Catch]:
    """One for each kind that it names."""
    span, name = body.file.span(node), node.name or ""
    if name:
        if body.is_known(name) or name in body.reasons:
            body.file.refuse(
                "python-shadow",
                node,
                f"`{name}` has a value already, which Python would take away here",
                "choose another name",
            )
        new_name(body, node, name)
    kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    found: list[Catch] = []
    for one in kinds:
        kind = "" if one is None else _kind(body, one)
        if name:
            body.reasons[name] = kind in VEGA_ERRORS and len(kinds) == 1
        found.append(Catch(span.at, span.end, kind, name, block(body, node.body, node)))
        body.reasons.pop(name, None)
    return found


def _kind(body: Body, node: ast.expr) -> str:
    name = node.id if isinstance(node, ast.Name) else ""
    if name == "Exception":
        return ""
    is_imported = body.file.imported.get(name) == f"vegakit.{name}"
    if name in BUILTIN_ERRORS or (name in VEGA_ERRORS and is_imported):
        return name
    known = ", ".join(sorted(VEGA_ERRORS | BUILTIN_ERRORS))
    advice = f"there are: {known}"
    if name in VEGA_ERRORS:
        advice = f"import it: `from vegakit import {name}`"
    elif name in ("ZeroDivisionError", "OverflowError"):
        advice = "write `except ArithmeticError:`"
    elif name == "TimeoutError":
        advice = "write `except Timeout:`, and import it from vegakit"
    elif name == "BaseException":
        advice = "write `except Exception:`"
    return body.file.refuse(
        "python-except", node, f"`{body.file.source(node)}` is no error of a program", advice
    )


def _raise(body: Body, node: ast.Raise) -> list[Stmt]:
    file, span = body.file, body.file.span(node)
    match node.exc, node.cause:
        case ast.Call(func=func, args=[reason], keywords=[]), None if file.means(
            func, "vegakit.Failed"
        ):
            said = expression(body, reason)
            return [ExprStmt(span.at, span.end, library(body, node, "fail", said))]
        case None, _:
            advice = "write `raise Failed(str(e))` with the reason, or do not catch it"
        case _:
            advice = 'write `raise Failed("…")`, and import Failed from vegakit'
    return file.refuse("python-raise", node, "a program raises Failed only", advice)


def _with(body: Body, node: ast.With) -> list[Stmt]:
    file, span = body.file, body.file.span(node)
    item = node.items[0]
    call = item.context_expr
    if len(node.items) == 1 and item.optional_vars is None and isinstance(call, ast.Call):
        if file.means(call.func, "vegakit.parallel") and not (call.args or call.keywords):
            inner = statements(body, node.body)
            first, last = file.span(node.body[0]), file.span(node.body[-1])
            return [Parallel(span.at, span.end, Block(first.at, last.end, inner))]
        if file.means(call.func, "vegakit.session"):
            return [_session(body, node, call)]
    return file.refuse(
        "python-with",
        item.context_expr,
        "`with` opens a session or runs statements at the same time",
        'write `with session(budget="$1"):` or `with parallel():`',
    )


def _session(body: Body, node: ast.With, call: ast.Call) -> Stmt:
    file, span = body.file, body.file.span(node)
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    budget = call.args[0] if call.args else given.get("budget")
    if budget is None or len(call.args) > 1:
        file.refuse(
            "python-with", call, "a session has a budget", 'write `with session(budget="$1"):`'
        )
    settings: list[Setting] = []
    for keyword in call.keywords:
        if keyword.arg in SESSION_SETTINGS:
            settings.append(setting(file, keyword))
        elif keyword.arg != "budget":
            known = ", ".join(("budget", *SESSION_SETTINGS))
            file.refuse(
                "python-with", keyword, f"a session has no `{keyword.arg}`", f"there are: {known}"
            )
    amount = money_value(body, budget)
    return Session(span.at, span.end, amount, block(body, node.body, node), tuple(settings))


GUARDS: dict[type, Rule] = {ast.Try: _try, ast.Raise: _raise, ast.With: _with}
