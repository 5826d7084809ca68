"""Blocks that run beside others: the statements of parallel, and monitor."""

from vegakit.lang.checking.blocks import STATEMENTS, StatementRule, check_all
from vegakit.lang.checking.context import Body, infer
from vegakit.lang.checking.fitting import is_open
from vegakit.lang.checking.guards import guarded
from vegakit.lang.checking.relations import UNKNOWN, shown
from vegakit.lang.checking.variables import Access
from vegakit.lang.tree import Block, Let, Monitor, Node, Parallel
from vegakit.lang.types import STR, ProcessOf

__all__ = ["STRANDS"]


def _monitor(body: Body, node: Monitor) -> bool:
    kind = infer(body, node.of)
    if not (isinstance(kind, ProcessOf) or kind == UNKNOWN or is_open(body, node.of, kind)):
        body.reports.error(
            "not-a-process", node.of, f"only a process can be monitored, this is {shown(kind)}"
        )
    scopes, facts = body.scopes, body.scopes.facts
    outer = body.loops, body.strand, body.fence
    body.loops, body.strand, body.fence = 0, "monitor", len(scopes.all)
    scopes.enter()
    scopes.declare(node.reason, "reason", STR, node)
    check_all(body, node.body.body)
    scopes.leave()
    body.loops, body.strand, body.fence = outer
    scopes.facts = facts
    return True


def _parallel(body: Body, node: Parallel) -> bool:
    """It opens no scope: what it declares is there after it."""
    return guarded(body, node.body, node.catches, lambda: _strands(body, node.body))


def _strands(body: Body, block: Block) -> bool:
    outer = body.loops, body.strand
    body.loops, body.strand = 0, "parallel"
    accesses: list[Access] = []
    declared: dict[str, Node] = {}
    for statement in block.body:
        access = Access()
        if isinstance(statement, Let):
            if statement.name in declared:
                _conflict(body, statement.name, statement, declared[statement.name])
            declared.setdefault(statement.name, statement)
        body.scopes.watching.append(access)
        body.program.place = statement
        STATEMENTS[type(statement)](body, statement)
        body.scopes.watching.pop()
        accesses.append(access)
    body.loops, body.strand = outer
    _conflicts(body, accesses)
    return True


def _conflicts(body: Body, accesses: list[Access]) -> None:
    """One statement assigns what another reads or assigns: told where the second stands."""
    writers: dict[int, int] = {}
    for at, access in enumerate(accesses):
        for number in access.writes:
            writers.setdefault(number, at)
    for at, access in enumerate(accesses):
        for number, where in {**access.writes, **access.reads}.items():
            writer = writers.get(number, at)
            if writer != at:
                name = body.scopes.all[number].name
                _conflict(body, name, where, accesses[writer].writes[number])
                break


def _conflict(body: Body, name: str, where: Node, written_at: Node) -> None:
    line = body.names.unit.text.count("\n", 0, written_at.at) + 1
    body.reports.error(
        "parallel-conflict",
        where,
        f"`{name}` is set by another statement of this `parallel` block, on line {line}",
        "put the two into one statement, or move this one behind the block",
    )


STRANDS: dict[type, StatementRule] = {Monitor: _monitor, Parallel: _parallel}
