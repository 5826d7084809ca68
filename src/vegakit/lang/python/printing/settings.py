"""Settings of agents, sessions and supervisors as arguments."""

from vegakit.lang.python.printing.context import Printer
from vegakit.lang.python.printing.expressions import duration_text, money_text, put, quoted
from vegakit.lang.tree import Call, Duration, Expr, ListLit, MoneyLit, Name, Setting

__all__ = ["block_value", "setting_value"]


def setting_value(p: Printer, node: Expr) -> str:
    match node:
        case MoneyLit():
            return money_text(node)
        case Duration():
            return duration_text(node)
        case Name(name=word):
            return quoted(word)
        case ListLit(items=items):
            return f"[{', '.join(setting_value(p, item) for item in items)}]"
        case Call(callee=Name(name=word), args=args):
            given = ", ".join(setting_value(p, arg) for arg in args)
            return f"{p.uses('vega')}.{word}({given})"
        case _:
            return put(p, node)


def block_value(p: Printer, name: str, rows: tuple[Setting, ...]) -> str:
    given = ", ".join(f"{row.name}={setting_value(p, row.value)}" for row in rows)
    return f"{p.uses('vega')}.{name}({given})"
