"""Money, durations and settings that are written as text: `"$0.50"`, `"30s"`."""

import ast
import re

from vegakit.lang.python.context import Body, File, expression
from vegakit.lang.spelling import UNITS_MS
from vegakit.lang.tree import Duration, Expr, MoneyLit
from vegakit.money import NANOS

__all__ = ["duration", "duration_value", "money", "money_value", "text_in"]

_MONEY = re.compile(r"\$(\d{1,12})(?:\.(\d{1,6}))?(?:/(hour|day|month))?", re.ASCII)
_DURATION = re.compile(r"(\d{1,12})(ms|s|m|h|d)", re.ASCII)


def text_in(file: File, node: ast.expr) -> str | None:
    """The fixed text of it, also by a name of the file."""
    if isinstance(node, ast.Name) and node.id in file.constants:
        node = file.constants[node.id]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return None


def money(file: File, node: ast.expr) -> MoneyLit:
    span, text = file.span(node), text_in(file, node)
    found = _MONEY.fullmatch(text or "")
    if found is None:
        file.refuse("python-money", node, "this is no amount of money", 'write it like "$1.50"')
    nanos = int(found[1]) * NANOS + int((found[2] or "0").ljust(9, "0"))
    return MoneyLit(span.at, span.end, nanos, found[3] or "")


def duration(file: File, node: ast.expr) -> Duration:
    """Text such as "30s", or a number of seconds."""
    span = file.span(node)
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        ms = float(node.value) * 1000  # pyright: ignore[reportArgumentType]
        if ms >= 0 and ms == int(ms):
            return Duration(span.at, span.end, int(ms))
    found = _DURATION.fullmatch(text_in(file, node) or "")
    if found is None:
        file.refuse(
            "python-duration",
            node,
            "this is no duration",
            'write it like "30s", "500ms", "5m", "2h" or "1d"',
        )
    return Duration(span.at, span.end, int(found[1]) * UNITS_MS[found[2]])


def money_value(body: Body, node: ast.expr) -> Expr:
    """Fixed text is an amount; anything else has to be money already."""
    return money(body.file, node) if _is_fixed(body, node) else expression(body, node)


def duration_value(body: Body, node: ast.expr) -> Expr:
    return duration(body.file, node) if _is_fixed(body, node) else expression(body, node)


def _is_fixed(body: Body, node: ast.expr) -> bool:
    is_name = isinstance(node, ast.Name) and body.is_known(node.id)
    return not is_name and (isinstance(node, ast.Constant) or text_in(body.file, node) is not None)
