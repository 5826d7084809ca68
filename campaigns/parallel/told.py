"""What `vega explain` tells of a program, as one asks it of two calls: which waits for which.

There are two graphs of each function. One is the graph as it is shown. In the other a wait counts
only if it is there whichever way the program goes: a variable that one branch assigns needs what
both would give it. A call may overtake one that it waits for in the first graph and not in the
second, if the program went another way.
"""

from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush
from typing import Any, NamedTuple, TypeAlias

from campaigns.parallel.flights import Site
from vegakit.lang import Checked, DataflowGraph, DataflowLink, DataflowStep, StepKind
from vegakit.lang.analysis import (
    dataflow_expressions,
    dataflow_statements,
    dataflow_steps,
    dataflow_walk,
)
from vegakit.lang.analysis.dataflow_steps import GraphBuilder, HoldKind, StepAction, bits
from vegakit.lang.analysis.dataflow_walk import (
    OWN_BUDGET,
    DataflowScopes,
    DataflowWalk,
    Provenance,
    WalkState,
)
from vegakit.lang.analysis.walk import Scopes
from vegakit.lang.syntax.tree import (
    Assign,
    Binary,
    Block,
    Build,
    Catch,
    For,
    ListLit,
    Name,
    While,
    assigned_in,
    root_of,
)

__all__ = ["Told", "Wait", "entered_of", "is_sure", "shown", "sure_of", "told_of"]

_KINDS = {
    StepKind.SEND: StepKind.SEND,
    StepKind.CALL: StepKind.CALL,
    StepKind.FUNCTION: StepKind.FUNCTION,
}
_FARTHEST = 3
"""Rounds that lie further apart are waited for by those between."""
_ALWAYS = frozenset({StepKind.TRY, StepKind.SESSION, StepKind.PARALLEL})
"""Blocks that the program comes to whichever way it goes."""
_MAYBE = ("unless the paths differ", "may be the process")
"""In the text of a link that holds only if two names turn out to be the same."""


class Wait(NamedTuple):
    """A step that another waits for: in the same round, or in those of the loop `round_of` that are
    so many rounds `apart` or more, and the link by which it is waited for. With `until_it_begins`
    no more is told of its last round than that the program comes to a send with a budget of its
    own in that round, which may be the step itself. Of the loops `but_last_of`, which lie in
    `round_of`, the last round is not waited for: only the round after it is known to wait for it.
    In a first round of one of the loops `after_first_of` it is not waited for: it is what the round
    before waits for."""

    step: int
    round_of: int | None
    apart: int
    link: DataflowLink
    until_it_begins: bool
    but_last_of: tuple[int, ...]
    after_first_of: tuple[int, ...]


_Loops: TypeAlias = tuple[int, ...]
_Due: TypeAlias = tuple[int, bool, _Loops, _Loops, int, int, int]


class Told:
    """One graph, with what is asked of it."""

    def __init__(self, graph: DataflowGraph, functions: frozenset[str]) -> None:
        self.graph = graph
        self.steps = graph.steps
        self.loops = [tuple(_loops_around(graph.steps, step)) for step in graph.steps]
        self.sites = {site: step.id for step in graph.steps for site in _sites(step, functions)}
        self.into: list[list[int]] = [[] for _ in graph.steps]
        self._waits: dict[int, Sequence[Wait]] = {}
        self.turns: defaultdict[int, set[int]] = defaultdict(set)
        for number, link in enumerate(graph.links):
            if link.turns:
                self.turns[link.after].add(link.before)
                self.turns[link.before].add(link.after)
            elif graph.steps[link.after].rare or not graph.steps[link.before].rare:
                self.into[link.after].append(number)
        self.serial = {one: each.loop for each in graph.rounds for one in each.serial}

    def all_waits(self, step: int) -> Sequence[Wait]:
        """Return all that a step waits for, through others too, the latest rounds first."""
        if step not in self._waits:
            self._waits[step] = (*self.waits(step, lambda link: True),)
        return self._waits[step]

    def waits(self, step: int, through: Callable[[DataflowLink], bool]) -> Iterator[Wait]:
        """Yield what a step waits for, if only links count of which `through` says so."""
        seen: set[tuple[int, int, _Loops, _Loops, bool]] = set()
        due: list[_Due] = []
        self._push(due, through, False, 0, (), (), step, -1)
        while due:
            apart, until, inner, first, at, crossed, number = heappop(due)
            link = self.graph.links[number]
            if (at, crossed, inner, first, until) not in seen and apart <= _FARTHEST:
                seen |= {(at, crossed, inner, first, one) for one in (until, True)}
                # The program has come to the send, so all that the send waits for is done.
                begins = link.begun and self.is_own_budget(at)
                if not (begins and self.steps[at].later):
                    loop = None if crossed < 0 else crossed
                    yield Wait(at, loop, apart, link, until, inner, first)
                self._push(due, through, until and not begins, apart, inner, first, at, crossed)

    def goes_in_circles(self) -> bool:
        """Return whether a step waits for itself in its own round."""
        before: dict[int, set[int]] = {}
        for links in self.into:
            for link in (self.graph.links[number] for number in links):
                if link.round_of is None and link.before != link.after:
                    before.setdefault(link.after, set()).add(link.before)
        try:
            TopologicalSorter(before).prepare()
        except CycleError:
            return True
        return False

    def is_own_budget(self, step: int) -> bool:
        """Return whether a step is a send with a budget of its own."""
        return self.steps[step].order == OWN_BUDGET

    def _push(
        self,
        due: list[_Due],
        through: Callable[[DataflowLink], bool],
        until: bool,
        apart: int,
        inner: _Loops,
        first: _Loops,
        at: int,
        crossed: int,
    ) -> None:
        for number in self.into[at]:
            if through(link := self.graph.links[number]):
                round_of = -1 if link.round_of is None else link.round_of
                loop = self._outer(crossed, round_of)
                count = (apart if loop == crossed else 0) + (0 <= round_of == loop)
                within = inner if loop == crossed else ()
                if 0 <= round_of != loop and round_of not in within:
                    within = tuple(sorted((*within, round_of)))
                is_left = 0 <= crossed != loop and crossed not in first
                before = tuple(sorted((*first, crossed))) if is_left else first
                # Of the same rounds what waits for all of it comes first.
                begun = until or link.begun
                heappush(due, (count, begun, within, before, link.before, loop, number))

    def _outer(self, one: int, other: int) -> int:
        if one < 0 or other < 0:
            return max(one, other)
        return one if len(self.loops[one]) <= len(self.loops[other]) else other


def _loops_around(steps: Sequence[DataflowStep], step: DataflowStep) -> list[int]:
    """Return the loops around a step, the outermost first."""
    found: list[int] = []
    while step.parent is not None:
        step = steps[step.parent]
        if step.kind is StepKind.LOOP:
            found.append(step.id)
    return found[::-1]


def _sites(step: DataflowStep, functions: frozenset[str]) -> Iterator[Site]:
    if step.kind is StepKind.TOOL:
        yield Site(step.line, step.column, StepKind.FUNCTION)
        yield Site(step.line, step.column, StepKind.CALL)
    elif step.kind in _KINDS:
        yield Site(step.line, step.column, _KINDS[step.kind])


def told_of(checked: Checked) -> dict[str, Told]:
    """Return what is told of each function."""
    graphs = dataflow_statements.dataflow_of(checked)
    names = frozenset(graph.name for graph in graphs)
    return {graph.name: Told(graph, names) for graph in graphs}


def sure_of(checked: Checked, *, failed: bool) -> dict[str, Told]:
    """Return what would be told if only what holds on every way were. With `failed` a block that
    catches may have been left anywhere."""
    with _on_every_way(failed=failed):
        return told_of(checked)


def is_sure(link: DataflowLink) -> bool:
    """Return whether a link does not hang on two names being the same."""
    return not any(text in link.text for text in _MAYBE)


def shown(told: Told, link: DataflowLink) -> str:
    """Return a link as a reader of `vega explain` has it."""
    one, other = told.steps[link.before], told.steps[link.after]
    return f"line {other.line} waits for line {one.line}: {link.why}, {link.text}"


# What holds where blocks are decided, and what does on every way.


def entered_of(checked: Checked) -> dict[str, Told]:
    """Return what is told of each function if the lookahead steps over no send with a budget of its
    own: it goes into the block, which is decided."""
    stepped_over = DataflowWalk.step_over_own_budgets
    setattr(DataflowWalk, "step_over_own_budgets", lambda *_: None)  # noqa: B010  # pyright: ignore[reportUnknownLambdaType]
    try:
        return told_of(checked)
    finally:
        DataflowWalk.step_over_own_budgets = stepped_over


@contextmanager
def _on_every_way(*, failed: bool) -> Generator[None]:  # noqa: C901, PLR0915  (a list of changes)
    meet, one_round = DataflowWalk.meet, dataflow_expressions._one_round  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    goes, makes = dataflow_expressions.rounds, dataflow_expressions._item  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    again, stepped_over = GraphBuilder.come_again, DataflowWalk.step_over_own_budgets
    holds, passes = DataflowWalk.hold_next_round, dataflow_statements._guarded  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    rules, item_of = _expression_rules(), dataflow_expressions.item_of

    def met(self: DataflowWalk, ends: Sequence[WalkState]) -> None:
        meet(self, ends)
        gates = dict(ends[0].gates)
        for end in ends[1:]:
            gates = {
                gate: (mask & end.gates[gate][0], text)
                for gate, (mask, text) in gates.items()
                if gate in end.gates
            }
        returned = reduce(lambda a, b: a & b, (end.returned for end in ends))
        left = reduce(lambda a, b: a & b, (end.left for end in ends))
        self.to(gates=gates, returned=returned, left=left)

    def step_over(self: DataflowWalk, *given: Any) -> None:
        """The program may not come to what stands in a block."""
        stepped_over(self, *given)
        self.to(stepped_over=frozenset[tuple[int, int, str]]())

    def round_left(w: DataflowWalk, node: Any, body: Any, before: Any) -> Any:
        left = one_round(w, node, body, before)
        if isinstance(node, Build) or not w.places.leaves_in(node.body):
            return left
        return {(at, name): _each(before[at][name], one) for (at, name), one in left.items()}

    def join(self: DataflowScopes, values: Mapping[Any, Provenance]) -> None:
        """A round has been before: if none has, nothing in it is waited for."""
        for (depth, name), known in values.items():
            if depth < len(self.frames) and name in self.frames[depth]:
                self.set((depth, name), known)

    def plain_loop(w: DataflowWalk, node: For | While) -> None:
        for name in assigned_in(node):
            w.scopes.assign(name, dataflow_walk.NO_DEPENDENCIES)

    def binary(w: DataflowWalk, node: Binary) -> Provenance:
        start = w.here
        value = rules[Binary](w, node)
        w.meet([start, w.here])
        if node.op not in ("and", "or", "??"):
            return value
        # The right side may not be looked at. The left one is walked again where it does nothing.
        if w.places.acts_in(node.left):
            return dataflow_walk.NO_DEPENDENCIES
        return dataflow_expressions.evaluate(w, node.left)

    def item(w: DataflowWalk, loop: int, node: Any, over: Provenance) -> Provenance:
        """Each round has one item of a list as written."""
        if not isinstance(node, ListLit):
            return item_of(w, loop, node, over)
        empty = dataflow_walk.NO_DEPENDENCIES
        if not node.items or w.places.acts_in(node):
            return item_of(w, loop, node, empty)
        items = [dataflow_expressions.evaluate(w, one) for one in node.items]
        return item_of(w, loop, node, reduce(_each, items))

    def come_again(self: GraphBuilder, loop: int, number: int, *given: Any) -> int:
        """A round may not come to a send that stands in a branch."""
        is_sure = self.entries[number].step.parent == loop
        return again(self, loop, number, *given) if is_sure else 0

    def hold_next_round(self: DataflowWalk, gate: HoldKind, mask: int, text: str) -> None:
        """Nor does the next round wait for it then, nor if the round may be left before."""
        steps, at = self.builder.entries, self.here.parent
        first = self.starts[self.loops[0]] if self.loops else 0
        left = min((one for one in self.places.leaves if one > first), default=None)
        mask = sum(1 << one for one in bits(mask) if left is None or self.starts[one] < left)
        while at is not None and steps[at].step.kind in _ALWAYS:
            at = steps[at].step.parent
        if at is None or steps[at].step.kind is StepKind.LOOP:
            holds(self, gate, mask, text)

    def some_rounds(w: DataflowWalk, loop: int, node: For | While | Build, body: Any) -> None:
        """A loop may have no rounds, if it does not go through a list as written, and a round may
        be left before its end."""
        start, before = w.here, w.scopes.copy()
        goes(w, loop, node, body)
        is_run = (
            isinstance(node, For | Build) and isinstance(node.over, ListLit) and node.over.items
        )
        if not is_run or (isinstance(node, For) and w.places.leaves_in(node.body)):
            w.scopes.either_of([before, w.scopes.copy()])
            w.meet([start, w.here])

    def items(w: DataflowWalk, node: Build) -> Provenance:
        """A round may be left out."""
        start = w.here
        value = makes(w, node)
        if node.where is not None:
            w.meet([start, w.here])
        return value

    def guarded(
        w: DataflowWalk, number: int, body: Any, block: Block, catches: Sequence[Catch]
    ) -> None:
        before, start = w.scopes.copy(), w.here
        passes(w, number, body, block, catches)
        if failed and catches:
            w.scopes.either_of([before, w.scopes.copy()])
            w.meet([start, w.here])

    def assign(w: DataflowWalk, node: Assign) -> None:
        """A part that is assigned may be assigned again before it is read."""
        if isinstance(node.target, Name):
            statements[Assign](w, node)
            return
        name = root_of(node.target).name
        before = w.scopes.find(name)
        statements[Assign](w, node)
        w.scopes.assign(name, before)

    statements = dataflow_walk.STATEMENTS
    changed: list[tuple[Any, str, Any]] = [
        (dataflow_walk, "STATEMENTS", {**statements, Assign: assign}),
        (dataflow_statements, "_guarded", guarded),
        (GraphBuilder, "come_again", come_again),
        (dataflow_expressions, "item_of", item),
        (dataflow_statements, "item_of", item),
        (dataflow_walk, "either", _each),
        (DataflowWalk, "meet", met),
        (DataflowWalk, "step_over_own_budgets", step_over),
        (DataflowWalk, "hold_next_round", hold_next_round),
        (dataflow_expressions, "_one_round", round_left),
        (dataflow_expressions, "_item", items),
        (dataflow_expressions, "rounds", some_rounds),
        (dataflow_statements, "rounds", some_rounds),
        (Scopes, "join", join),
        (dataflow_statements, "plain_loop", plain_loop),
        (dataflow_steps, "may_be_one", _is_one),
        (dataflow_expressions, "_RULES", {**rules, Binary: binary}),
    ]
    before = [(on, name, on.__dict__[name]) for on, name, _ in changed]
    for on, name, value in changed:
        setattr(on, name, value)
    try:
        yield
    finally:
        for on, name, value in before:
            setattr(on, name, value)


def _expression_rules() -> dict[Any, Any]:
    return {**dataflow_expressions._RULES}  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def _each(one: Provenance, other: Provenance) -> Provenance:
    handles = one.handles if one.handles == other.handles else None
    return Provenance(one.needs & other.needs, one.later & other.later, handles)


def _is_one(one: StepAction, other: StepAction) -> bool:
    handles = one.handles or frozenset[int]()
    is_known = len(handles) == 1 and min(handles) >= 0 and handles == other.handles
    return is_known and bool(one.agents & other.agents)
