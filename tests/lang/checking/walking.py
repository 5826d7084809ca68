"""All nodes below a node, and types that are still open."""

from collections.abc import Iterator
from typing import get_args

from vegakit.lang import Type
from vegakit.lang.syntax.tree import Assign, Call, Expr, ExprStmt, Let, Node, Return

EXPRESSIONS = get_args(Expr)


def nodes(node: Node) -> Iterator[Node]:
    yield node
    for name in node.__struct_fields__:
        yield from _below(getattr(node, name))


def _below(part: object) -> Iterator[Node]:
    if isinstance(part, Node):
        yield from nodes(part)
    elif isinstance(part, tuple):
        for one in part:
            yield from _below(one)


def expressions(node: Node) -> Iterator[Expr]:
    """Values that statements compute: those given, returned or assigned, and all below them, but
    not what stands before the brackets of a call."""
    for one in nodes(node):
        if isinstance(one, Let | ExprStmt | Assign | Return) and one.value is not None:
            yield from _values(one.value)


def _values(node: Expr) -> Iterator[Expr]:
    yield node
    called = node.callee if isinstance(node, Call) else None
    for name in node.__struct_fields__:
        part = getattr(node, name)
        for one in part if isinstance(part, tuple) else (part,):
            if isinstance(one, EXPRESSIONS) and one is not called:
                yield from _values(one)


def is_open(kind: Type) -> bool:
    """Whether a hole or a fault is left in it."""
    return "name='?" in repr(kind) or "name='!" in repr(kind)
