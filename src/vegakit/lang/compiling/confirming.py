"""Loops whose list is known at run time only ask before their first round, inside a `confirm`."""

from vegakit.lang.compiling.writing import Label, Writer
from vegakit.lang.library import CONFIRM
from vegakit.lang.opcodes import Op
from vegakit.lang.tree import Build, For

__all__ = ["confirm"]

_REFUSED = "nobody agreed to what this loop may cost; raise `confirm`, or give it a shorter list"


def confirm(w: Writer, node: For | Build, items: int) -> None:
    rows = w.program.rounds.get(id(node))
    if rows is None:
        return
    with w.scratch():
        agreed, go_on = w.register(), Label()
        told = w.constant(rows)
        w.emit(Op.HOST, agreed, w.program.pools.constant(CONFIRM), [items, told], w.site(node))
        w.emit(Op.JUMP_IF, agreed, go_on)
        reason = w.constant(_REFUSED)
        w.emit(Op.RAISE, w.program.pools.constant("BudgetExceeded"), reason)
        w.here(go_on)
