"""Blocks that can fail: try and session, and what catches."""

from collections.abc import Callable

from vegakit.lang.catching import CATCHABLE
from vegakit.lang.checking.blocks import StatementRule, check_all, check_block, forget_assigned
from vegakit.lang.checking.context import Body
from vegakit.lang.checking.fields import SESSION
from vegakit.lang.checking.fitting import check
from vegakit.lang.checking.reports import instead, meant
from vegakit.lang.checking.settings import check_settings, only_block
from vegakit.lang.checking.variables import Facts, merged
from vegakit.lang.tree import Block, Catch, Name, Node, Session, Try
from vegakit.lang.types import MONEY, STR

__all__ = ["GUARDS", "guarded"]


def _try(body: Body, node: Try) -> bool:
    return guarded(body, node.body, node.catches, lambda: check_block(body, node.body))


def guarded(body: Body, block: Block, catches: tuple[Catch, ...], run: Callable[[], bool]) -> bool:
    """A handler may begin after any statement of the block."""
    scopes, before, ends = body.scopes, body.scopes.facts, list[Facts]()
    if run():
        ends.append(scopes.facts)
    after = scopes.facts
    scopes.facts = before
    if catches:
        forget_assigned(body, block)
    at_fault, seen = scopes.facts, list[str]()
    for one in catches:
        scopes.facts = at_fault
        _catch(body, one, seen)
        scopes.enter()
        if one.reason:
            scopes.declare(one.reason, "reason", STR, one)
        if check_all(body, one.body.body):
            ends.append(scopes.facts)
        scopes.leave()
    scopes.facts = merged(ends) if catches else after
    return bool(ends)


def _catch(body: Body, node: Catch, seen: list[str]) -> None:
    where = _word_of(body, node)
    if node.kind and node.kind not in CATCHABLE:
        help_, edit = instead(where, meant(node.kind, CATCHABLE))
        body.reports.error(
            "unknown-error",
            where,
            f"there is no error `{node.kind}`",
            help_ or f"there are: {', '.join(CATCHABLE)}",
            edit,
        )
    elif "" in seen or node.kind in seen:
        body.reports.warn("unreachable", where, "a `catch` before this one takes it already")
    seen.append(node.kind)


def _word_of(body: Body, node: Catch) -> Node:
    at = body.names.unit.text.find(node.kind or "catch", node.at, node.end)
    return Node(at, at + len(node.kind or "catch")) if at >= 0 else node


def _session(body: Body, node: Session) -> bool:
    check(body, node.budget, MONEY, "the budget")
    check_settings(body.program, node.settings, SESSION, "a session")
    for setting in node.settings:
        if setting.name == "on_exceed" and isinstance(setting.value, Name):
            only_block(body.program, setting.value)
    return guarded(body, node.body, node.catches, lambda: check_block(body, node.body))


GUARDS: dict[type, StatementRule] = {Try: _try, Session: _session}
