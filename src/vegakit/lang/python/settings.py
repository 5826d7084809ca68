"""Settings of agents, supervisors, sessions and spawns, written as arguments."""

import ast

from vegakit.lang.python.context import File
from vegakit.lang.python.literals import duration, money, text_in
from vegakit.lang.tree import (
    Call,
    Decimal,
    Expr,
    ListLit,
    Name,
    Setting,
    Text,
    Unary,
    Whole,
    Word,
)

__all__ = ["BLOCKS", "SESSION_SETTINGS", "SPAWN_RULES", "block", "fixed_text", "plain", "setting"]

SPAWN_RULES = ("strategy", "max_restarts", "window")
SESSION_SETTINGS = ("on_exceed", "speculate", "confirm")
BLOCKS = {"retry": "retry", "breaker": "circuit_breaker", "rate": "rate_limit"}
"""Arguments of an agent that are blocks of their own: `retry=vega.retry(max_attempts=3)`."""

_MONEY = frozenset({"budget", "speculate", "confirm", "wallet"})
_TIMES = frozenset({"window", "timeout", "reset_after", "per"})
_WORDS = frozenset({"strategy", "on_exceed", "memory", "priority", "resend_unknown"})


def fixed_text(file: File, node: ast.expr) -> Text:
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


def setting(file: File, keyword: ast.keyword) -> Setting:
    span, name = file.span(keyword), keyword.arg or ""
    return Setting(span.at, span.end, name, plain(file, name, keyword.value))


def plain(file: File, name: str, node: ast.expr) -> Expr:  # noqa: C901
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


def _at(file: File, node: ast.AST) -> tuple[int, int]:
    span = file.span(node)
    return span.at, span.end


def _growth(file: File, node: ast.Call) -> Expr:
    """`vega.exponential("100ms", 2.0, "5s")`."""
    at, end = _at(file, node)
    args: list[Expr] = []
    for arg in node.args:
        is_text = text_in(file, arg) is not None
        args.append(duration(file, arg) if is_text else plain(file, "", arg))
    callee = Name(at, end, _vega_name(file, node.func))
    return Call(at, end, callee, tuple(args), ("",) * len(args))


def block(file: File, node: ast.expr, name: str) -> tuple[Setting, ...]:
    """`vega.retry(…)`, `vega.circuit_breaker(…)`, `vega.rate_limit(…)`."""
    if not (isinstance(node, ast.Call) and _vega_name(file, node.func) == name and not node.args):
        file.refuse(
            "python-setting", node, "this is a block of settings", f"write `vega.{name}(…)`"
        )
    return tuple(setting(file, keyword) for keyword in node.keywords)


def _vega_name(file: File, node: ast.expr) -> str:
    if isinstance(node, ast.Attribute) and file.means(node.value, "vegakit.vega"):
        return node.attr
    return ""
