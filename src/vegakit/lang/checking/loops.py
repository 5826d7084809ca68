"""Loops: while and for, break and continue."""

from vegakit.lang.checking.blocks import StatementRule, check_block, forget_assigned
from vegakit.lang.checking.context import Body, infer
from vegakit.lang.checking.fitting import check, condition
from vegakit.lang.checking.flowing import has_break
from vegakit.lang.checking.literals import items_of
from vegakit.lang.checking.relations import UNKNOWN
from vegakit.lang.checking.statements import shadows
from vegakit.lang.checking.variables import Facts
from vegakit.lang.tree import Block, Break, Continue, For, While, Word
from vegakit.lang.types import INT, STR, ListOf, MapOf, StreamOf, Type

__all__ = ["LOOPS"]


_NO_FACTS: tuple[Facts, Facts] = ({}, {})


def _leave_loop(body: Body, node: Break | Continue) -> bool:
    word = "break" if isinstance(node, Break) else "continue"
    if body.loops == 0:
        inside = f" (`{body.strand}` runs beside the loop around it)" if body.strand else ""
        body.reports.error("outside-loop", node, f"`{word}` is not in a loop{inside}")
    return False


def _loop(body: Body, block: Block) -> None:
    before = body.scopes.facts
    body.loops += 1
    check_block(body, block)
    body.loops -= 1
    body.scopes.facts = before


def _while(body: Body, node: While) -> bool:
    forget_assigned(body, node.body)
    condition(body, node.test, "a condition")
    if node.limit is not None:
        check(body, node.limit, INT, "the limit")
    when_true, when_false = body.tests.get(id(node.test), _NO_FACTS)
    before, breaks = body.scopes.facts, has_break(node.body)
    body.scopes.know(when_true)
    _loop(body, node.body)
    body.scopes.facts = before
    if not breaks:
        body.scopes.know(when_false)
    for_ever = isinstance(node.test, Word) and node.test.value is True
    return breaks or not for_ever


def _for(body: Body, node: For) -> bool:
    over = infer(body, node.over)
    forget_assigned(body, node.body)
    body.scopes.enter()
    kinds = _walked(body, node, over)
    for name, kind in zip(node.names, kinds, strict=True):
        shadows(body, node, name)
        body.scopes.declare(name, "loop", kind, node)
    _loop(body, node.body)
    body.scopes.leave()
    return True


def _walked(body: Body, node: For, over: Type) -> tuple[Type, ...]:
    if len(node.names) == 1:
        return (items_of(body, node.over, over),)
    match over:
        case MapOf(inner=inner):
            return STR, body.holes.seen(inner)
        case ListOf(inner=inner):
            return INT, body.holes.seen(inner)
        case StreamOf():
            body.reports.error("two-names", node.over, "a stream gives one piece at a time")
        case _:
            items_of(body, node.over, over)
    return UNKNOWN, UNKNOWN


LOOPS: dict[type, StatementRule] = {
    Break: _leave_loop,
    Continue: _leave_loop,
    While: _while,
    For: _for,
}
