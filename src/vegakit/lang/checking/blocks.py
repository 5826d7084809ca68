"""Blocks of statements: each rule says whether control goes on after its statement."""

from collections.abc import Callable
from typing import Any, TypeAlias

from vegakit.lang.checking.context import Body
from vegakit.lang.steps import took
from vegakit.lang.tree import Block, Stmt

__all__ = ["STATEMENTS", "StatementRule", "check_all", "check_block", "forget_assigned"]


StatementRule: TypeAlias = Callable[[Body, Any], bool]

STATEMENTS: dict[type, StatementRule] = {}
"""The rule of each kind of statement, put together where the whole program is checked."""


def check_block(body: Body, block: Block) -> bool:
    body.scopes.enter()
    goes_on = check_all(body, block.body)
    body.scopes.leave()
    return goes_on


def check_all(body: Body, statements: tuple[Stmt, ...]) -> bool:
    goes_on, told = True, False
    for statement in statements:
        if not (goes_on or told):
            told = True
            body.reports.warn("unreachable", statement, "this is never reached")
        took(2)
        body.program.place = statement
        if not STATEMENTS[type(statement)](body, statement):
            goes_on = False
    return goes_on


def forget_assigned(body: Body, block: Block) -> None:
    """What is assigned in a block is not known where it may have run already, or in part."""
    names = body.program.assigned.within(block)
    found = (body.scopes.find(name) for name in names)
    body.scopes.forget({variable.number for variable in found if variable is not None})
