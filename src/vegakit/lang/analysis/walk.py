"""The walker that dataflow and cost share: variables with what is known of them, the way through
the statements of a function, and what stands in a piece of it before it is walked (pure).

A walk runs nothing. It goes through every branch once and joins what they leave, so a subclass says
what is known of a value and how two such facts are joined.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any, Generic, TypeAlias, TypeVar

from msgspec import Struct

from vegakit.lang.check.symbols import Callee, CalleeKind, Checked, Unit
from vegakit.lang.diagnostics import count_steps
from vegakit.lang.library import ENDS, LIBRARY
from vegakit.lang.syntax.tree import (
    Ask,
    Block,
    Break,
    Call,
    Cast,
    Catch,
    Continue,
    ExprStmt,
    For,
    If,
    Monitor,
    Node,
    Parallel,
    Race,
    Return,
    Session,
    Spawn,
    Stmt,
    Try,
    While,
    below,
)
from vegakit.lang.types import is_literal

Known = TypeVar("Known")
Place: TypeAlias = tuple[int, str]
"""A variable: the depth of its block, and its name."""


class Scopes(Generic[Known]):
    """The variables of the blocks around, innermost last. What leaves a block in its middle, by
    `break` or an error, sees a value that the end of the block does not; so each watch joins all
    that was assigned while it lasts.

    A copy shares its frames until one of them is written: loops copy far more often than their
    bodies assign. `_own` says of each frame whether nobody else has it."""

    def __init__(self, either: Callable[[Known, Known], Known]) -> None:
        self._either = either
        self.frames: list[dict[str, Known]] = [{}]
        self._own: list[bool] = [True]
        self._watches: list[dict[Place, Known]] = []

    @contextmanager
    def block(self) -> Generator[None]:
        """Open a block, and close it at the end."""
        self.frames.append({})
        self._own.append(True)
        yield
        self.frames.pop()
        self._own.pop()

    @contextmanager
    def watch(self) -> Generator[dict[Place, Known]]:
        """Join all that is assigned meanwhile."""
        seen: dict[Place, Known] = {}
        self._watches.append(seen)
        yield seen
        self._watches.pop()

    @contextmanager
    def unwatched(self) -> Generator[None]:
        """Walk with values that the program could not have, and forget them."""
        watches, self._watches = self._watches, []
        frames = self.copy()
        yield
        self._watches = watches
        self.restore(frames)

    def define(self, name: str, known: Known) -> None:
        """Declare a variable in the innermost block."""
        self._writable(-1)[name] = known

    def depth_of(self, name: str) -> int | None:
        """Return the index of the innermost frame that has the variable, None if none has."""
        count_steps(1 + len(self.frames) // 16)
        for depth in range(len(self.frames) - 1, -1, -1):
            if name in self.frames[depth]:
                return depth
        return None

    def set(self, place: Place, known: Known) -> None:
        """Assign a variable that is there."""
        count_steps(1 + len(self._watches))
        depth, name = place
        self._writable(depth)[name] = known
        for seen in self._watches:
            seen[place] = self._either(seen[place], known) if place in seen else known

    def _writable(self, depth: int) -> dict[str, Known]:
        if not self._own[depth]:
            count_steps(1 + len(self.frames[depth]) // 16)
            self.frames[depth] = dict(self.frames[depth])
            self._own[depth] = True
        return self.frames[depth]

    def copy(self) -> list[dict[str, Known]]:
        """Return the frames as they are now. They are shared until one of them is written."""
        count_steps(1 + len(self.frames) // 16)
        self._own = [False] * len(self.frames)
        return self.frames.copy()

    def restore(self, frames: Sequence[dict[str, Known]]) -> None:
        """Go back to frames that `copy` returned, which may be restored more than once."""
        count_steps(1 + len(frames) // 16)
        self.frames = [*frames]
        self._own = [False] * len(frames)

    def join(self, values: Mapping[Place, Known]) -> None:
        """Let these be there, or what is there now. Variables of blocks that are closed by now are
        left out."""
        for place, known in values.items():
            depth, name = place
            if depth < len(self.frames) and name in self.frames[depth]:
                self.set(place, self._either(self.frames[depth][name], known))

    def meet(self, ends: Sequence[Sequence[dict[str, Known]]]) -> None:
        """Let it be as at whichever of these ends it came from; frames that are closed by now are
        not looked at, and what is the same wherever it came from stays."""
        for depth, frame in enumerate(self.frames):
            others = [end[depth] for end in ends if end[depth] is not frame]
            if not others:
                continue
            count_steps(1 + len(frame) * len(others) // 8)
            for name, here in list(frame.items()):
                if all(other.get(name) is here for other in others):
                    continue
                values = [end[depth][name] for end in ends if name in end[depth]]
                if values:
                    count_steps(len(values))
                    self.set((depth, name), reduce(self._either, values))


ScopesOf = TypeVar("ScopesOf", bound=Scopes[Any])


class TreeWalk(ABC, Generic[ScopesOf]):
    """A walk through the statements of one function."""

    scopes: ScopesOf

    @abstractmethod
    def statement(self, node: Stmt) -> None:
        """Walk one statement, by the rule of its kind."""

    def all(self, body: Sequence[Stmt]) -> None:
        """Walk statements in their order, in the block that is open."""
        for stmt in body:
            self.statement(stmt)

    def block(self, block: Block) -> None:
        """Walk a block, whose variables are gone after it."""
        with self.scopes.block():
            self.all(block.body)


# What stands in a piece of the tree before it is walked: whether it acts, how it may leave.


_SPECIAL = ("print", "budget::", "link")


_WRITTEN = (CalleeKind.FUNCTION, CalleeKind.TOOL)
"""What a program calls that is written in it."""


def is_step(callee: Callee, doing: frozenset[str]) -> bool:
    """Return whether a call is a step of its own."""
    match callee.kind:
        case CalleeKind.RECORD:
            return False
        case CalleeKind.FUNCTION:
            return callee.name in doing
        case CalleeKind.LIBRARY:
            function = LIBRARY[callee.name]
            return function.kind == "host" or callee.name.startswith(_SPECIAL)
        case CalleeKind.TOOL | CalleeKind.MCP | CalleeKind.PYTHON | CalleeKind.NODE:
            return True


class ControlPoints(Struct, frozen=True):
    """Places in one file, as sorted offsets: of what acts, of what may end the function, of what
    may leave the round of a loop. `fails` are those of `ends` that are a `fail` or a call of a
    function that may fail, and `calls` only the latter. `caught` has where the block begins that
    catches what fails at a place, for those that a block of the same function catches. `handlers`
    has where the innermost
    handler begins around what may end the function, and around an `if` or loop, for handlers that
    run only after a call has failed."""

    acts: list[int]
    ends: list[int]
    leaves: list[int]
    fails: frozenset[int]
    caught: dict[int, int]
    calls: frozenset[int]
    handlers: dict[int, int]

    def acts_in(self, *nodes: Node | None) -> bool:
        """Return whether a send, a spawn or a call that is a step stands in one of the nodes."""
        return any(_any_in(self.acts, node) for node in nodes)

    def end_in(self, before: int, *nodes: Node | None) -> int | None:
        """Return where what may end in one of the nodes ends at the latest: -1 for the function,
        or where the outermost block begins that catches a `fail` of theirs. Blocks that begin at
        `before` or later count for nothing, nor does what ends in a handler that runs only after
        a call has failed. None is for no end."""
        found = (self.caught.get(at, -1) for at in self._ends_in(nodes))
        return min((at for at in found if at < before), default=None)

    def fails_in(self, *nodes: Node | None) -> bool:
        """Return whether an error may leave the function by a `fail` in one of the nodes, or by a
        call that may fail."""
        return any(at in self.fails and at not in self.caught for at in self._ends_in(nodes))

    def _ends_in(self, nodes: Sequence[Node | None]) -> Iterator[int]:
        for node in nodes:
            if node is not None:
                first, last = (bisect_left(self.ends, at) for at in (node.at, node.end))
                yield from (at for at in self.ends[first:last] if not self.is_handled(at, node))

    def is_handled(self, at: int, node: Node) -> bool:
        """Return whether this place in the node is in a handler in it that runs only after a call
        has failed."""
        return self.handlers.get(at, -1) > node.at

    def leaves_in(self, *nodes: Node | None) -> bool:
        """Return whether a `break` or `continue` in them leaves a loop outside."""
        return any(isinstance(one, Break | Continue) for one in self._in_this_round(nodes))

    def breaks_in(self, *nodes: Node | None) -> bool:
        """Return whether a `break` in them leaves a loop outside."""
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

    def always_ends(self, block: Block, before: int) -> bool:
        """Return whether nothing behind it runs unless something in it fails. A `fail` that is
        caught by a block that begins at `before` or later ends nothing."""
        ends = self.end_in(before, block) is not None
        return ends and any(self._ends(stmt, before) for stmt in block.body)

    def _ends(self, stmt: Stmt, before: int) -> bool:
        match stmt:
            case Return():
                return True
            case ExprStmt(value=Call(at=at)):
                always = _is_one(self.ends, at) and at not in self.calls
                return always and self.caught.get(at, -1) < before
            case If(then=then, other=Block() as other):
                return self.always_ends(then, before) and self.always_ends(other, before)
            case Block():
                return self.always_ends(stmt, before)
            case Session(body=body) | Try(body=body):
                return self.always_ends(body, before)
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


def catches_fail(catches: Sequence[Catch]) -> Catch | None:
    """Return what is done after a `fail` in the block that these belong to, None if nothing is."""
    return next((catch for catch in catches if catch.kind in ("", "Failed")), None)


def places_in(
    checked: Checked, unit: Unit, doing: frozenset[str], failing: frozenset[str]
) -> ControlPoints:
    """Return the places of one file. `failing` are the functions that may fail."""
    acts, ends, leaves, fails = list[int](), list[int](), list[int](), list[int]()
    guards = list[tuple[int, int, int]]()
    for node in (nodes := [*below(unit.source)]):
        match node:
            case Ask() | Spawn() | Cast() if _acts(node, checked):
                acts.append(node.at)
            case Return():
                ends.append(node.at)
            case Break() | Continue():
                leaves.append(node.at)
            case Try() | Session() if catches_fail(node.catches) is not None:
                guards.append((node.body.at, node.body.end, node.at))
            case Parallel(body=block) | Monitor(body=block) | Race(of=block):
                # A task of its own: nothing of the function around it catches what fails there.
                guards.append((block.at, block.end, -1))
            case Call() if (callee := checked.callees.get(id(node))) is not None:
                if is_step(callee, doing):
                    acts.append(node.at)
                if callee.kind is CalleeKind.LIBRARY and callee.name in ENDS:
                    ends.append(node.at)
                    fails += [node.at] if callee.name == "fail" else []
            case _:
                pass
    calls = {node.at for node in nodes if _is_call_of(node, checked, failing)}
    fails += calls
    ends = sorted([*ends, *calls])
    caught = _innermost(fails, guards)
    handlers = _in_handlers(nodes, ends, {*caught.values()})
    return ControlPoints(
        sorted(acts), ends, sorted(leaves), frozenset(fails), caught, frozenset(calls), handlers
    )


def _acts(node: Ask | Spawn | Cast, checked: Checked) -> bool:
    """Return whether it takes time, or refuses every text but one."""
    return not isinstance(node, Cast) or is_literal(checked.types.get(id(node)))


def _is_call_of(node: Node, checked: Checked, functions: frozenset[str]) -> bool:
    callee = checked.callees.get(id(node)) if isinstance(node, Call) else None
    return callee is not None and callee.kind in _WRITTEN and callee.name in functions


def _in_handlers(nodes: list[Node], ends: list[int], reached: set[int]) -> dict[int, int]:
    """Return where the innermost handler begins around each end, `if` and loop. No `fail` leads to
    a handler, unless its block is one of those `reached`."""
    tests = [one.at for one in nodes if isinstance(one, If | While | For)]
    blocks = [one for one in nodes if isinstance(one, Try | Session | Parallel)]
    handlers = [each for one in blocks if one.at not in reached for each in one.catches]
    return _innermost([*ends, *tests], [(one.at, one.end, one.at) for one in handlers])


def _innermost(places: list[int], guards: list[tuple[int, int, int]]) -> dict[int, int]:
    """Return for each place what is said of the innermost block around it, if that is no -1: of
    each block there is where it begins and ends."""
    found: dict[int, int] = {}
    around: list[tuple[int, int, int]] = []
    due = sorted(guards, reverse=True)
    for at in sorted(places):
        while due and due[-1][0] <= at:
            guard = due.pop()
            around = [one for one in around if one[1] > guard[0]]
            around.append(guard)
        around = [one for one in around if one[1] > at]
        if around and around[-1][2] >= 0:
            found[at] = around[-1][2]
    return found
