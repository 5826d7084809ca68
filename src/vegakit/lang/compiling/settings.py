"""Settings as written in blocks, as plain values: names as strings, money and time as numbers."""

from typing import Any

from vegakit.lang.compiling.pools import literal
from vegakit.lang.tree import (
    Call,
    Decimal,
    Duration,
    Expr,
    ListLit,
    MoneyLit,
    Name,
    Setting,
    Text,
    Whole,
    Word,
)

__all__ = ["plain", "settings_of"]


def settings_of(settings: tuple[Setting, ...]) -> dict[str, Any]:
    return {setting.name: plain(setting.value) for setting in settings}


def plain(node: Expr) -> Any:  # noqa: ANN401
    """`exponential(100ms, 2.0, 5s)` is `["exponential", 100, 2.0, 5000]`."""
    match node:
        case Whole() | Decimal() | Word():
            return node.value
        case MoneyLit():
            return node.nanos
        case Duration():
            return node.ms
        case Text():
            return literal(node)
        case Name():
            return node.name
        case ListLit():
            return [plain(item) for item in node.items]
        case Call():
            return [plain(node.callee), *map(plain, node.args)]
        case _:
            return None
