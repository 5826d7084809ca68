"""Statements, walked."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from vegakit.lang.flows.acts import Act
from vegakit.lang.flows.expressions import evaluate, evaluate_all, item_of, length_of
from vegakit.lang.flows.looping import plain_loop, rounds
from vegakit.lang.flows.noting import bits
from vegakit.lang.flows.records import LinkKind, StepKind
from vegakit.lang.flows.values import NOTHING_NEEDED, Value, both, needing
from vegakit.lang.flows.walking import Walk
from vegakit.lang.tree import (
    Assign,
    Block,
    Break,
    Catch,
    Continue,
    ExprStmt,
    For,
    If,
    Index,
    Let,
    Member,
    Monitor,
    Name,
    Node,
    Parallel,
    Return,
    Session,
    Stmt,
    Try,
    While,
    assigned_in,
    root_of,
)
from vegakit.lang.types import StreamOf

__all__ = ["statement"]


def statement(w: Walk, node: Stmt) -> None:
    w.facts.count()
    _RULES[type(node)](w, node)


def _let(w: Walk, node: Let) -> None:
    w.scopes.declare(node.name, evaluate(w, node.value))


def _assign(w: Walk, node: Assign) -> None:
    """What might not have been come to is decided by what could have left before."""
    target, indices = node.target, list[Value]()
    while isinstance(target, Member | Index):
        if isinstance(target, Index):
            indices.append(evaluate(w, target.index))
        target = target.of
    value = evaluate(w, node.value)
    more = [needing(*bits(w.here.left))] if w.here.left else []
    if isinstance(node.target, Name):
        w.scopes.assign(node.target.name, both(value, *more))
    else:
        name = root_of(node.target).name
        w.scopes.assign(name, both(w.scopes.find(name), value, *indices, *more))


def _expression(w: Walk, node: ExprStmt) -> None:
    evaluate(w, node.value)


def _return(w: Walk, node: Return) -> None:
    evaluate_all(w, node.value)


def _leave(w: Walk, node: Break | Continue) -> None:
    """Who decides it has noted that."""


def _if(w: Walk, node: If) -> None:
    test = evaluate(w, node.test)
    ways = [partial(w.block, each) for each in (node.then, node.other) if each is not None]
    parts = (node.then, node.other)
    ends, leaves = w.places.ends_in(*parts), w.places.leaves_in(*parts)
    if not ends and not leaves and not w.places.acts_in(*parts):
        w.branches(*ways, *([] if node.other else [_nothing]))
        w.scopes.mark(assigned_in(node), test)
        return
    number = w.note(node, StepKind.BRANCH, f"if {w.text(node.test.at, node.test.end)}", Act(), test)
    decides = w.decides(number)
    with w.inside(number, decided=decides):
        w.branches(*ways, *([] if node.other else [_nothing]))
    if not decides:
        return
    w.scopes.mark(assigned_in(node), needing(number))
    if ends:
        w.to(returned=1 << number)
    if leaves:
        w.to(left=1 << number)
    if w.loops and (ends or w.places.breaks_in(*parts)):
        text = f"decided by the if at line {w.line(node)}"
        w.notes.link(number, w.loops[-1], LinkKind.DECIDED, text, w.loops[-1])


def _nothing() -> None:
    pass


def _while(w: Walk, node: While) -> None:
    """Its test is asked anew before every round."""
    limit = both(*evaluate_all(w, node.limit))
    if _is_plain(w, node, node.test):
        plain_loop(w, node)
        return
    head = f"while {w.text(node.test.at, (node.limit or node.test).end)}"
    loop = w.note(node, StepKind.LOOP, head, Act(), limit)

    def body() -> None:
        outer = w.here.parent
        w.to(parent=loop)
        for need in evaluate(w, node.test).needs:
            w.need(loop, need)
        w.to(parent=outer)
        with w.inside(loop, decided=w.decides(loop)):
            w.block(node.body)

    rounds(w, loop, node, body)
    _end_loop(w, loop, node)


def _is_plain(w: Walk, node: For | While, *more: Node) -> bool:
    return not w.places.acts_in(node.body, *more) and not w.places.ends_in(node.body)


def _end_loop(w: Walk, loop: int, node: For | While) -> None:
    if w.decides(loop) and w.places.ends_in(node.body):
        w.to(returned=1 << loop)


def _for(w: Walk, node: For) -> None:
    over = evaluate(w, node.over)
    if _is_plain(w, node):
        with w.scopes.block():
            for name in node.names:
                w.scopes.declare(name, over)
            plain_loop(w, node)
        w.scopes.mark(assigned_in(node), over)
        return
    head = f"for {', '.join(node.names)} in {w.text(node.over.at, node.over.end)}"
    loop = w.note(node, StepKind.LOOP, head, Act(), *length_of(node.over, over))
    streams = isinstance(w.facts.checked.types.get(id(node.over)), StreamOf)

    def body() -> None:
        outer = w.here.streams
        w.to(streams=outer or streams)
        with w.inside(loop, decided=w.decides(loop)), w.scopes.block():
            for name in node.names:
                w.scopes.declare(name, item_of(w, loop, node.over, over))
            w.block(node.body)
        w.to(streams=outer)

    rounds(w, loop, node, body)
    _end_loop(w, loop, node)


def _guarded(
    w: Walk, number: int, body: Callable[[], None], block: Block, catches: Sequence[Catch]
) -> None:
    """A handler begins with what the body may have left in its middle. If the body always returns,
    what follows is a handler too."""
    before = w.scopes.copy()
    with w.scopes.watch() as seen, w.inside(number, decided=w.decides(number)):
        body()
    after, ends = w.here, [w.scopes.copy()]
    for catch in catches:
        w.here = after
        w.scopes.restore(before)
        w.scopes.join(seen)
        _handler(w, number, catch)
        ends.append(w.scopes.copy())
        after = w.keep_seen(after)
    w.here = after
    w.scopes.either_of(ends)
    if catches and w.places.always_ends(block):
        w.to(rare=True, returned=1 << number)


def _handler(w: Walk, number: int, catch: Catch) -> None:
    w.to(rare=True, parent=number, decider=number)
    if not w.places.acts_in(catch.body):
        _caught(w, catch)
        return
    what = f"catch {catch.kind}".rstrip()
    handler = w.note(catch, StepKind.HANDLER, what, Act())
    with w.inside(handler, decided=True):
        _caught(w, catch)


def _caught(w: Walk, catch: Catch) -> None:
    with w.scopes.block():
        if catch.reason:
            w.scopes.declare(catch.reason, NOTHING_NEEDED)
        w.block(catch.body)


def _block_act(what: str) -> Act:
    """Of a block that begins when the program comes to it."""
    return Act(order=f"in order: {what}", later=True)


def _try(w: Walk, node: Try) -> None:
    number = w.note(node, StepKind.TRY, "try", Act())
    _guarded(w, number, partial(w.block, node.body), node.body, node.catches)


def _session(w: Walk, node: Session) -> None:
    budget = evaluate(w, node.budget)
    what = f"session budget {w.text(node.budget.at, node.budget.end)}"
    number = w.note(node, StepKind.SESSION, what, _block_act("a session"), budget)
    _guarded(w, number, partial(_paid, w, number, node), node.body, node.catches)


def _paid(w: Walk, number: int, node: Session) -> None:
    """Its money is set aside when the program comes to it, so nothing in it starts before."""
    before = w.here
    w.bar(1 << number, f"barrier: begin of the session at line {w.line(node)}")
    w.block(node.body)
    if w.here.barrier == 1 << number:
        w.bar(before.barrier, before.barrier_text)


def _parallel(w: Walk, node: Parallel) -> None:
    """All its statements at once, in no order; nothing behind it starts before its end."""
    number = w.note(node, StepKind.PARALLEL, "parallel", _block_act("parallel"))
    _guarded(w, number, partial(_strands, w, number, node), node.body, node.catches)


def _strands(w: Walk, number: int, node: Parallel) -> None:
    line = w.line(node)
    w.bar(1 << number, f"barrier: parallel at line {line}")
    start, ends = w.here, [w.here]
    for stmt in node.body.body:
        w.here = start
        statement(w, stmt)
        ends.append(w.here)
    w.meet(ends)
    inside = w.here.passed & ~start.passed
    w.bar(inside or 1 << number, f"barrier: end of parallel at line {line}")


def _monitor(w: Walk, node: Monitor) -> None:
    """Its body runs once, whenever the process ends."""
    of = evaluate(w, node.of)
    what = f"monitor({w.text(node.of.at, node.of.end)})"
    number = w.note(node, StepKind.MONITOR, what, _block_act("monitor"), of)
    w.bar(1 << number, f"barrier: monitor at line {w.line(node)}")
    after = w.here
    w.to(rare=True)
    with w.inside(number, decided=True), w.scopes.block():
        w.scopes.declare(node.reason, NOTHING_NEEDED)
        w.block(node.body)
    w.here = w.keep_seen(after)


_RULES: dict[type, Callable[[Walk, Any], None]] = {
    Let: _let,
    Assign: _assign,
    ExprStmt: _expression,
    Return: _return,
    Break: _leave,
    Continue: _leave,
    If: _if,
    While: _while,
    For: _for,
    Try: _try,
    Session: _session,
    Parallel: _parallel,
    Monitor: _monitor,
    Block: Walk.block,
}
