"""Calls, sends and spawns as Python."""

from collections.abc import Callable
from typing import Any

from vegakit.lang.checked import CalleeKind
from vegakit.lang.python.printing.context import Printer
from vegakit.lang.python.printing.expressions import (
    Printed,
    as_text,
    duration_text,
    money_text,
    put,
)
from vegakit.lang.python.printing.library import library_call
from vegakit.lang.python.printing.settings import setting_value
from vegakit.lang.python.printing.types import annotation, shown
from vegakit.lang.tree import (
    Ask,
    Await,
    Call,
    Cast,
    Duration,
    Expr,
    ListLit,
    Member,
    MoneyLit,
    Name,
    Spawn,
)
from vegakit.lang.types import FILE, STR, FutureOf, ListOf

__all__ = ["CALLS"]

_POSTFIX = 8


def _call(p: Printer, node: Call) -> Printed:
    callee = p.checked.callees[id(node)]
    if callee.kind is CalleeKind.LIBRARY:
        return library_call(p, node, callee.name), _POSTFIX
    given = ", ".join(
        f"{p.fit(name, node)}={put(p, arg)}" if name else put(p, arg)
        for arg, name in zip(node.args, node.names, strict=True)
    )
    return f"{_callee(p, node.callee)}({given})", _POSTFIX


def _callee(p: Printer, node: Expr) -> str:
    if isinstance(node, Member):
        return f"{_callee(p, node.of)}.{node.name}"
    assert isinstance(node, Name)
    return p.fit(node.name, node)


def _ask(p: Printer, node: Ask) -> Printed:
    to = put(p, node.to, _POSTFIX)
    method = "stream" if node.stream else "submit" if node.later else "ask"
    given = [_message(p, node.message)]
    answer = p.type(node)
    if isinstance(answer, FutureOf):
        answer = answer.inner
    if not node.stream and answer is not None and answer != STR:
        typed = shown(p, answer) if node.answer is None else annotation(p, node.answer)
        given.append(f"returns={typed}")
    if node.timeout is not None:
        given.append(f"timeout={_amount(p, node.timeout)}")
    if node.budget is not None:
        given.append(f"budget={_amount(p, node.budget)}")
    if method == "ask" and len(given) == 1 and isinstance(node.to, Name):
        return f"{to}({given[0]})", _POSTFIX
    return f"{to}.{method}({', '.join(given)})", _POSTFIX


def _message(p: Printer, node: Expr) -> str:
    kind = p.type(node)
    if kind == FILE or (
        isinstance(kind, ListOf) and isinstance(node, ListLit) and _has_file(p, node)
    ):
        return put(p, node)
    if isinstance(node, Name) and p.reason(node.name) is not None:
        return put(p, node)
    return as_text(p, node)


def _has_file(p: Printer, node: ListLit) -> bool:
    return any(p.type(item) == FILE for item in node.items)


def _amount(p: Printer, node: Expr) -> str:
    if isinstance(node, MoneyLit):
        return money_text(node)
    return duration_text(node) if isinstance(node, Duration) else put(p, node)


def _spawn(p: Printer, node: Spawn) -> Printed:
    given = [put(p, node.agent)]
    if node.wallet is not None:
        given.append(f"wallet={_amount(p, node.wallet)}")
    if node.named is not None:
        given.append(f"named={put(p, node.named)}")
    if node.under is not None:
        given.append(f"under={put(p, node.under)}")
    given += [f"{one.name}={setting_value(p, one.value)}" for one in node.rules or ()]
    if node.later:
        given.append("later=True")
    return f"{p.uses('spawn')}({', '.join(given)})", _POSTFIX


def _await(p: Printer, node: Await) -> Printed:
    return f"{put(p, node.of, _POSTFIX)}.result()", _POSTFIX


def _cast(p: Printer, node: Cast) -> Printed:
    return f"{p.uses('vega')}.cast({put(p, node.of)}, {annotation(p, node.to)})", _POSTFIX


CALLS: dict[type, Callable[[Printer, Any], Printed]] = {
    Call: _call,
    Ask: _ask,
    Spawn: _spawn,
    Await: _await,
    Cast: _cast,
}
