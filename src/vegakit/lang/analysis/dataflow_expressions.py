"""Dataflow of expressions and loops: which steps they make, and which steps their values come from
(pure).
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, get_args

from msgspec.structs import replace

from vegakit.lang.analysis.dataflow import StepKind
from vegakit.lang.analysis.dataflow_calls import call, hold_processes
from vegakit.lang.analysis.dataflow_steps import HoldKind, StepAction
from vegakit.lang.analysis.dataflow_walk import (
    NO_DEPENDENCIES,
    OWN_BUDGET,
    DataflowWalk,
    Dependency,
    Frames,
    Place,
    Provenance,
    WalkState,
    both,
    needing,
    own_budget_text,
)
from vegakit.lang.analysis.effects import (
    NO_EFFECTS,
    joined,
)
from vegakit.lang.analysis.walk import is_step
from vegakit.lang.check.symbols import NameKind
from vegakit.lang.syntax.tree import (
    Ask,
    Await,
    Binary,
    Build,
    Call,
    Cast,
    Decimal,
    Duration,
    Expr,
    For,
    Index,
    ListLit,
    MapLit,
    Member,
    MoneyLit,
    Name,
    Node,
    Race,
    Spawn,
    Text,
    Unary,
    While,
    Whole,
    Word,
    assigned_in,
    below,
)
from vegakit.lang.types import ProcessOf, is_literal

# Loops: walked again until it is known what one round leaves to the next.


_MOST_PASSES = 50


def rounds(w: DataflowWalk, loop: int, node: For | While | Build, body: Callable[[], None]) -> None:
    """Walk a loop until it is known what one round leaves to the next. What it assigns may be
    there afterwards, or what was there before may still be. What was found when a loop around it
    was walked still holds, so that deep loops are walked seldom."""
    before, start = w.scopes.copy(), w.here
    left, carried = dict[Place, Provenance](), w.carried.get(loop, {})
    for _ in range(_MOST_PASSES):
        w.scopes.restore(before)
        w.scopes.join(carried)
        w.here = start
        was_decided, known = w.decides(loop), carried
        w.loops.append(loop)
        left = _one_round(w, node, body, before)
        w.loops.pop()
        carried = {place: value.a_round_ago(loop) for place, value in left.items()}
        if carried == known and w.decides(loop) == was_decided:
            break
    w.carried[loop] = carried
    w.scopes.restore(before)
    w.scopes.join({place: value.after(loop) for place, value in left.items()})
    if w.decides(loop):
        w.scopes.mark(assigned_in(node), needing(loop))
        w.step_over(loop)
    body_steps = w.here.seen & ~start.seen
    _hold_own_budgets(w, loop, body_steps, start)
    w.to(left=start.left)
    w.facts.count(body_steps.bit_count() ** 2 // 50)
    w.builder.carry(loop, body_steps, w.here.passed)


def _hold_own_budgets(w: DataflowWalk, loop: int, body: int, start: WalkState) -> None:
    """Hold up what is behind the sends of a loop that have budgets of their own: in a round until
    all of the round before is done, behind the loop until all but the last round are."""
    for entry in w.builder.inside(loop):
        if entry.act.own_budget and not entry.step.rare:
            text = f"{own_budget_text(entry.step.line)}, round after round"
            last = w.builder.come_again(loop, entry.step.id, body, w.here.passed, text)
            # The next round of a loop around waits for the send itself, until it begins.
            w.hold_this_round(HoldKind.ROUNDS, last | 1 << entry.step.id, text)
    if w.decides(loop):
        w.step_over_own_budgets(1 << loop, start.gates)


def _one_round(
    w: DataflowWalk, node: For | While | Build, body: Callable[[], None], before: Frames
) -> dict[Place, Provenance]:
    if isinstance(node, Build) or not w.places.leaves_in(node.body):
        body()
        return w.scopes.changed(before)
    start = w.here.left
    with w.scopes.watch() as seen:
        body()
    w.step_over_left(start, whole=w.places.breaks_in(node.body))
    return {place: value for place, value in seen.items() if _was_there(place, before)}


def _was_there(place: Place, before: Frames) -> bool:
    depth, name = place
    return depth < len(before) and name in before[depth]


def begin_loop(
    w: DataflowWalk, node: For | Build, what: str, values: Sequence[Provenance], order: str = ""
) -> int:
    """Note a loop. If its cost is confirmed first, nothing behind starts before that."""
    if id(node) not in w.facts.confirmed:
        act = StepAction(order=order, later=bool(order))
        return w.note(node, StepKind.LOOP, what, act, *values)
    act = StepAction(order="in order: its cost is confirmed first", later=True, bars=True)
    loop = w.note(node, StepKind.LOOP, what, act, *values)
    w.bar(1 << loop, f"barrier: the cost of the loop at line {w.line(node)} is confirmed")
    return loop


def plain_loop(w: DataflowWalk, node: For | While) -> None:
    """One that only computes: what it assigns may come from anything that it reads."""
    read = [w.scopes.find(one.name) for one in below(node) if isinstance(one, Name)]
    w.scopes.mark(assigned_in(node), both(*read))


# Expressions, walked: which steps they make, and which steps their value comes from.


def evaluate(w: DataflowWalk, node: Expr) -> Provenance:
    """Return which steps the value of an expression comes from, and note the steps in it."""
    w.facts.count()
    value = _RULES[type(node)](w, node)
    if w.asking and _may_raise(w, node):
        w.hold_by(value, w.asking)
    return value


def _may_raise(w: DataflowWalk, node: Expr) -> bool:
    """Return whether the value may not fit. The failure of a send or another call belongs to its
    step."""
    match node:
        case Call():
            callee = w.facts.checked.callees.get(id(node))
            return callee is not None and not is_step(callee, w.facts.doing)
        case Binary(op=op):
            return op not in ("==", "!=", "and", "or", "??")
        case Unary(op=op):
            return op != "not"
        case Cast() | Index() | Member() | Await():
            return True
        case _:
            return False


def evaluate_all(w: DataflowWalk, *nodes: Expr | None) -> list[Provenance]:
    """Evaluate these in order, without those that are not written."""
    return [evaluate(w, node) for node in nodes if node is not None]


def _constant(w: DataflowWalk, node: Whole | Decimal | MoneyLit | Duration | Word) -> Provenance:
    return NO_DEPENDENCIES


def _made_of(w: DataflowWalk, *nodes: Expr | None) -> Provenance:
    return both(*evaluate_all(w, *nodes))


def _map(w: DataflowWalk, node: MapLit) -> Provenance:
    return _made_of(w, *(each for pair in node.pairs for each in (pair.key, pair.value)))


def _cast(w: DataflowWalk, node: Cast) -> Provenance:
    """Note a cast to one text: nothing behind it starts before it is known whether that fits."""
    value = evaluate(w, node.of)
    kind = w.facts.checked.types.get(id(node))
    if not is_literal(kind) or not value.awaited().needs:
        return value
    what = f"as {w.text(node.to.at, node.to.end)}"
    number = w.note(node, StepKind.BRANCH, what, StepAction(bars=True), value.awaited())
    w.hold(HoldKind.ALL, 1 << number, f"barrier: {what} at line {w.line(node)}")
    return value


def _await(w: DataflowWalk, node: Await) -> Provenance:
    """Wait for what the program began. What runs only after a failure has not been passed."""
    value = evaluate(w, node.of).awaited()
    if is_literal(w.facts.checked.types.get(id(node))):
        w.hold_by(value, f"barrier: the answer that line {w.line(node)} waits for")
    needs = {need.step for need in value.needs if need.round_of is None}
    due = sum(1 << one for one in needs if w.here.rare or not w.builder.entries[one].step.rare)
    w.to(passed=w.here.passed | due & w.here.seen)
    return value


_SHORT = {"and", "or", "??"}


def _binary(w: DataflowWalk, node: Binary) -> Provenance:
    left = evaluate(w, node.left)
    if node.op not in _SHORT or not w.places.acts_in(node.right):
        return both(left, evaluate(w, node.right))
    number = w.note(node, StepKind.BRANCH, f"{node.op} …", StepAction(), left)
    before, decides = w.here, w.decides(number)
    with w.inside(number, decided=decides):
        right = evaluate(w, node.right)
    w.to(passed=w.here.passed | before.passed)
    if decides:
        w.step_over(number)
    return both(left, right, *_decision(w, number))


def _build(w: DataflowWalk, node: Build) -> Provenance:
    over = evaluate(w, node.over)
    if not w.places.acts_in(node.item, node.where):
        with w.scopes.block():
            w.scopes.declare(node.name, over)
            return both(over, *evaluate_all(w, node.where, node.item))
    what = f"for {node.name} in {w.text(node.over.at, node.over.end)}"
    loop = begin_loop(w, node, what, length_of(node.over, over))
    made: list[Provenance] = []

    def body() -> None:
        with w.inside(loop, decided=w.decides(loop)), w.scopes.block():
            w.scopes.declare(node.name, item_of(w, loop, node.over, over))
            made.append(_item(w, node))

    rounds(w, loop, node, body)
    return both(*_decision(w, loop), *(one.after(loop) for one in made))


def _race(w: DataflowWalk, node: Race) -> Provenance:
    """Walk all that run from the same place; nothing behind starts before one has won."""
    act = StepAction(order="in order: race", later=True)
    good = "" if node.where is None else f" with {w.text(node.where.at, node.where.end)}"
    what = f"race: the first{good} wins"
    number, line = w.note(node, StepKind.PARALLEL, what, act), w.line(node)
    made: list[Provenance] = []
    with w.inside(number, decided=w.decides(number)):
        w.bar(1 << number, f"barrier: race at line {line}")
        start, ends = w.here, [w.here]
        for item in [node.of] if isinstance(node.of, Build) else node.of.items:
            w.here = start
            made.append(evaluate(w, item))
            with w.scopes.block():
                w.scopes.declare(node.name, made[-1])
                made += evaluate_all(w, node.where)
            ends.append(w.here)
        w.meet_tasks(start, ends)
        inside = w.here.passed & ~start.passed
        w.bar(inside or 1 << number, f"barrier: end of the race at line {line}")
    return both(*made)


def length_of(node: Expr, over: Provenance) -> list[Provenance]:
    """Return what has to be known for a loop to begin: of a list as written nothing."""
    return [] if isinstance(node, ListLit) else [over]


def item_of(w: DataflowWalk, loop: int, node: Expr, over: Provenance) -> Provenance:
    """Return where an item comes from. What a loop goes through is there when the loop is
    decided, or comes from the list as written."""
    item = both(*_decision(w, loop), *([over] if isinstance(node, ListLit) else ()))
    return Provenance(item.needs, over.later, frozenset({~loop}))


def _decision(w: DataflowWalk, number: int) -> list[Provenance]:
    return [needing(number)] if w.decides(number) else []


def _item(w: DataflowWalk, node: Build) -> Provenance:
    if node.where is None:
        return evaluate(w, node.item)
    where = evaluate(w, node.where)
    if not w.places.acts_in(node.item):
        return both(where, evaluate(w, node.item))
    what = f"if {w.text(node.where.at, node.where.end)}"
    number = w.note(node.where, StepKind.BRANCH, what, StepAction(), where)
    with w.inside(number, decided=w.decides(number)):
        item = both(where, evaluate(w, node.item), *_decision(w, number))
    if w.decides(number):
        w.step_over(number)
    return item


def _ask(w: DataflowWalk, node: Ask) -> Provenance:
    to, agents = _whom(w, node)
    values = evaluate_all(w, node.message, node.timeout, node.budget)
    is_guard = is_literal(w.facts.checked.types.get(id(node)))
    act = replace(_ask_action(w, to, agents), later=node.later, bars=is_guard)
    if node.budget is not None:
        act = replace(act, order=OWN_BUDGET, own_budget=True)
        w.come_to(HoldKind.BUDGETS, own_budget_text(w.line(node)))
    what = w.text(node.at, node.end)
    number = w.note(node, StepKind.SEND, what, act, *values, *([] if to is None else [to]))
    if node.budget is not None and w.loops:
        # Behind it in this round all may begin: the program has come to it.
        w.hold_next_round(HoldKind.ROUNDS, 1 << number, own_budget_text(w.line(node)))
    if to is not None:
        hold_processes(w, node, [to])
    if is_guard:
        w.hold(HoldKind.ALL, 1 << number, f"barrier: the answer to line {w.line(node)}")
    answer = needing(number)
    return Provenance(_operands(values), answer.needs) if node.later else answer


def _ask_action(w: DataflowWalk, to: Provenance | None, agents: Sequence[str]) -> StepAction:
    """Return what a send does. A name is asked in a process of its own each time; a process that
    does not remember answers many at once."""
    facts = w.facts
    if to is None:
        order = facts.rules.why_in_order(agents[0])
        return StepAction(facts.effects(f"agent {agents[0]}"), order and f"in order: {order}")
    whom = frozenset(name for name in agents if facts.specs[name].memory)
    effects = reduce(joined, (facts.effects(f"agent {name}") for name in agents), NO_EFFECTS)
    reasons = [f"in order: {why}" for name in agents if (why := facts.rules.why_in_order(name))]
    order = reasons[0] if reasons else ""
    return StepAction(effects, order, agents=whom, handles=to.handles, unnamed=True)


def _operands(values: list[Provenance]) -> frozenset[Dependency]:
    """A future is there when it is known what is sent."""
    return both(*values).nameless().needs


def _whom(w: DataflowWalk, node: Ask) -> tuple[Provenance | None, list[str]]:
    """The process, if it is one, and the agents it may be."""
    checked = w.facts.checked
    if isinstance(node.to, Name) and checked.names.get(id(node.to)) is NameKind.AGENT:
        return None, [checked.full_names[id(node.to)]]
    to, kind = evaluate(w, node.to), checked.types.get(id(node.to))
    if isinstance(kind, ProcessOf) and kind.agent in w.facts.specs:
        return to, [kind.agent]
    return to, [*w.facts.specs]


def _spawn(w: DataflowWalk, node: Spawn) -> Provenance:
    values = evaluate_all(w, node.wallet, node.named, node.under)
    has_wallet = node.wallet is not None
    act = StepAction(order="in order: it spawns", lasts=False, carves=has_wallet, uncounted=True)
    number = w.note(node, StepKind.SPAWN, w.text(node.at, node.end), act, *values)
    return Provenance(needing(number).needs, handles=frozenset({number}))


_RULES: dict[type[Node], Callable[[DataflowWalk, Any], Provenance]] = {
    Whole: _constant,
    Decimal: _constant,
    MoneyLit: _constant,
    Duration: _constant,
    Word: _constant,
    Text: lambda w, node: _made_of(w, *(part for part in node.parts if not isinstance(part, str))),
    Name: lambda w, node: w.scopes.find(node.name).read_from(node.name),
    ListLit: lambda w, node: _made_of(w, *node.items),
    MapLit: _map,
    Build: _build,
    Race: _race,
    Unary: lambda w, node: _made_of(w, node.of),
    Binary: _binary,
    Member: lambda w, node: _made_of(w, node.of),
    Index: lambda w, node: _made_of(w, node.of, node.index),
    Call: lambda w, node: call(w, node, evaluate_all(w, *node.args)),
    Ask: _ask,
    Spawn: _spawn,
    Await: _await,
    Cast: _cast,
}
assert _RULES.keys() == {*get_args(Expr)}
