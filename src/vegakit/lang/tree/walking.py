"""Walking a tree: all nodes below one, and the variables that it gives new values."""

from collections.abc import Iterator

from vegakit.lang.steps import took
from vegakit.lang.tree.code import Assign, Expr, Index, Member, Name, Node

__all__ = ["assigned_in", "below", "root_of"]


def below(node: object) -> Iterator[Node]:
    """The node itself first; a tuple of nodes will do."""
    due = [node]
    while due:
        one = due.pop()
        if isinstance(one, tuple):
            due.extend(one)  # pyright: ignore[reportUnknownArgumentType]
        elif isinstance(one, Node):
            took()
            yield one
            due.extend(getattr(one, name) for name in one.__struct_fields__[2:])


def root_of(target: Expr) -> Name:
    """The variable of `x.f[i]`."""
    while isinstance(target, Member | Index):
        target = target.of
    assert isinstance(target, Name)
    return target


def assigned_in(node: object) -> set[str]:
    """Names that get a new value somewhere below; some may be of variables declared there."""
    return {root_of(one.target).name for one in below(node) if isinstance(one, Assign)}
