"""What stands in a piece of the tree before it is walked: whether it acts, how it may leave."""

from bisect import bisect_left

from msgspec import Struct

from vegakit.lang.checked import Callee, CalleeKind, Checked, Unit
from vegakit.lang.library import ENDS, LIBRARY
from vegakit.lang.tree import (
    Ask,
    Block,
    Break,
    Call,
    Continue,
    ExprStmt,
    For,
    If,
    Node,
    Return,
    Session,
    Spawn,
    Stmt,
    Try,
    While,
    below,
)

__all__ = ["Places", "is_act", "places_in"]

_SPECIAL = ("print", "budget::", "link")


def is_act(callee: Callee, doing: frozenset[str]) -> bool:
    """Whether a call is a step of its own."""
    match callee.kind:
        case CalleeKind.RECORD:
            return False
        case CalleeKind.FUNCTION:
            return callee.name in doing
        case CalleeKind.LIBRARY:
            row = LIBRARY[callee.name]
            return row.kind == "host" or callee.name.startswith(_SPECIAL)
        case CalleeKind.TOOL | CalleeKind.MCP | CalleeKind.PYTHON:
            return True


class Places(Struct, frozen=True):
    """Offsets in one file, sorted: of what acts, of what may end the function, of what may leave
    the round of a loop."""

    acts: list[int]
    ends: list[int]
    leaves: list[int]

    def acts_in(self, *nodes: Node | None) -> bool:
        return any(_any_in(self.acts, node) for node in nodes)

    def ends_in(self, *nodes: Node | None) -> bool:
        return any(_any_in(self.ends, node) for node in nodes)

    def leaves_in(self, *nodes: Node | None) -> bool:
        """By a `break` or `continue` of a loop outside."""
        return any(isinstance(one, Break | Continue) for one in self._in_this_round(nodes))

    def breaks_in(self, *nodes: Node | None) -> bool:
        return any(isinstance(one, Break) for one in self._in_this_round(nodes))

    def _in_this_round(self, nodes: tuple[Node | None, ...]) -> list[Node]:
        due: list[object] = [node for node in nodes if _any_in(self.leaves, node)]
        found: list[Node] = []
        while due:
            one = due.pop()
            if isinstance(one, tuple):
                due.extend(one)  # pyright: ignore[reportUnknownArgumentType]
            elif isinstance(one, Node):
                found.append(one)
                if not isinstance(one, For | While):
                    due.extend(getattr(one, name) for name in one.__struct_fields__[2:])
        return found

    def always_ends(self, block: Block) -> bool:
        """Whether nothing behind it runs unless something in it fails."""
        return self.ends_in(block) and any(self._ends(stmt) for stmt in block.body)

    def _ends(self, stmt: Stmt) -> bool:
        match stmt:
            case Return():
                return True
            case ExprStmt(value=Call(at=at)):
                return _is_one(self.ends, at)
            case If(then=then, other=Block() as other):
                return self.always_ends(then) and self.always_ends(other)
            case Block():
                return self.always_ends(stmt)
            case Session(body=body) | Try(body=body):
                return self.always_ends(body)
            case _:
                return False


def _any_in(places: list[int], node: Node | None) -> bool:
    if node is None:
        return False
    first = bisect_left(places, node.at)
    return first < len(places) and places[first] < node.end


def _is_one(places: list[int], at: int) -> bool:
    first = bisect_left(places, at)
    return first < len(places) and places[first] == at


def places_in(checked: Checked, unit: Unit, doing: frozenset[str]) -> Places:
    acts, ends, leaves = list[int](), list[int](), list[int]()
    for node in below(unit.source):
        match node:
            case Ask() | Spawn():
                acts.append(node.at)
            case Return():
                ends.append(node.at)
            case Break() | Continue():
                leaves.append(node.at)
            case Call() if (callee := checked.callees.get(id(node))) is not None:
                if is_act(callee, doing):
                    acts.append(node.at)
                if callee.kind is CalleeKind.LIBRARY and callee.name in ENDS:
                    ends.append(node.at)
            case _:
                pass
    return Places(sorted(acts), sorted(ends), sorted(leaves))
