"""Dataflow of statements, and the graphs of a whole program (pure)."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import get_args

from msgspec.structs import replace

from vegakit.ids import ANY_AGENT
from vegakit.lang.analysis.dataflow import DataflowGraph, StepKind, ordered
from vegakit.lang.analysis.dataflow_expressions import (
    begin_loop,
    evaluate,
    evaluate_all,
    item_of,
    length_of,
    plain_loop,
    rounds,
)
from vegakit.lang.analysis.dataflow_steps import (
    HoldKind,
    StepAction,
    bits,
)
from vegakit.lang.analysis.dataflow_walk import (
    NO_DEPENDENCIES,
    STATEMENTS,
    DataflowFacts,
    DataflowTooLargeError,
    DataflowWalk,
    Provenance,
    both,
    needing,
)
from vegakit.lang.analysis.effects import ModuleEffects, effects_of
from vegakit.lang.analysis.quotes import rounds_of
from vegakit.lang.analysis.speculation import QUESTIONS, SpeculationRules
from vegakit.lang.analysis.walk import catches_fail, places_in
from vegakit.lang.check.symbols import CalleeKind, Checked
from vegakit.lang.codegen.bytecode import Module, Op, Rights
from vegakit.lang.codegen.compiler import compile_program
from vegakit.lang.codegen.writer import bodies_of
from vegakit.lang.diagnostics import step_limit
from vegakit.lang.library import CONFIRM
from vegakit.lang.syntax.tree import (
    Ask,
    Assign,
    Block,
    Break,
    Call,
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
    below,
    root_of,
)
from vegakit.lang.types import StreamOf

# Statements, walked.


def _let(w: DataflowWalk, node: Let) -> None:
    w.scopes.declare(node.name, evaluate(w, node.value))


def _assign(w: DataflowWalk, node: Assign) -> None:
    """Assign a variable. Whether an assignment was come to is decided by what could have left, or
    failed into a handler, before."""
    target, indices = node.target, list[Provenance]()
    while isinstance(target, Member | Index):
        if isinstance(target, Index):
            indices.append(evaluate(w, target.index))
        target = target.of
    value = evaluate(w, node.value)
    before = w.here.left | w.caught_here()
    more = [needing(*bits(before))] if before else []
    if isinstance(node.target, Name):
        w.scopes.assign(node.target.name, both(value, *more))
    else:
        name = root_of(node.target).name
        w.scopes.assign(name, both(w.scopes.find(name), value, *indices, *more))


def _expression(w: DataflowWalk, node: ExprStmt) -> None:
    evaluate(w, node.value)


def _return(w: DataflowWalk, node: Return) -> None:
    evaluate_all(w, node.value)


def _leave(w: DataflowWalk, node: Break | Continue) -> None:
    """Note nothing: the block that decides it has noted it."""


def _if(w: DataflowWalk, node: If) -> None:
    test = evaluate(w, node.test)
    ways = [partial(w.block, each) for each in (node.then, node.other) if each is not None]
    parts = (node.then, node.other)
    ends, leaves = w.places.end_in(node.at, *parts), w.places.leaves_in(*parts)
    if ends is None and not leaves and not w.places.acts_in(*parts):
        w.branches(*ways, *([] if node.other else [_nothing]))
        w.scopes.mark(assigned_in(node), test)
        return
    number = w.note(
        node, StepKind.BRANCH, f"if {w.text(node.test.at, node.test.end)}", StepAction(), test
    )
    decides, before = w.decides(number), w.here
    with w.inside(number, decided=decides):
        w.branches(*ways, *([] if node.other else [_nothing]))
    if not decides:
        return
    w.step_over_own_budgets(1 << number, before.gates)
    w.step_over(number)
    w.scopes.mark(assigned_in(node), needing(number))
    if ends is not None:
        w.end_by(number, ends, fails=w.places.fails_in(*parts))
    if leaves:
        w.to(left=w.here.left & ~w.builder.entries[number].before | 1 << number)
    w.end_rounds(number, ends, breaks=w.places.breaks_in(*parts))


def _nothing() -> None:
    pass


def _while(w: DataflowWalk, node: While) -> None:
    """Its test is asked anew before every round."""
    limit = both(*evaluate_all(w, node.limit))
    if _is_plain(w, node, node.test):
        plain_loop(w, node)
        return
    head = f"while {w.text(node.test.at, (node.limit or node.test).end)}"
    loop = w.note(node, StepKind.LOOP, head, StepAction(), limit)

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


def _is_plain(w: DataflowWalk, node: For | While, *more: Node) -> bool:
    return not w.places.acts_in(node.body, *more) and w.places.end_in(node.at, node.body) is None


def _end_loop(w: DataflowWalk, loop: int, node: For | While) -> None:
    ends = w.places.end_in(node.at, node.body)
    if w.decides(loop) and ends is not None:
        w.end_by(loop, ends, fails=w.places.fails_in(node.body))


def _for(w: DataflowWalk, node: For) -> None:
    over = evaluate(w, node.over)
    streams = isinstance(w.facts.checked.types.get(id(node.over)), StreamOf)
    if not streams and _is_plain(w, node):
        with w.scopes.block():
            for name in node.names:
                w.scopes.declare(name, over)
            plain_loop(w, node)
        w.scopes.mark(assigned_in(node), over)
        return
    head = f"for {', '.join(node.names)} in {w.text(node.over.at, node.over.end)}"
    order = "in order: the program reads from a stream" if streams else ""
    loop = begin_loop(w, node, head, length_of(node.over, over), order)
    start = w.here

    def body() -> None:
        with w.inside(loop, decided=w.decides(loop)), w.scopes.block():
            for name in node.names:
                w.scopes.declare(name, item_of(w, loop, node.over, over))
            w.block(node.body)

    rounds(w, loop, node, body)
    if streams:
        _read_in_turn(w, loop, node, w.here.passed & ~start.passed, order)
    _end_loop(w, loop, node)


def _read_in_turn(w: DataflowWalk, loop: int, node: For, passed: int, order: str) -> None:
    """Let a round, and what waits for the end of the loop, wait for all that the rounds before
    have passed: nobody but the program knows whether there is another chunk."""
    last = w.builder.read_in_turn(loop, passed, order)
    for gate, (mask, text) in w.here.gates.items():
        if mask >> loop & 1:
            w.hold(gate, last, text)
    w.scopes.mark(assigned_in(node), needing(*bits(last)))


def _guarded(
    w: DataflowWalk, number: int, body: Callable[[], None], block: Block, catches: Sequence[Catch]
) -> None:
    """A handler begins with what the body may have left in its middle. If the body always returns,
    what follows is a handler too. What could fail in the body decides nothing behind a block that
    catches it, but for what its handler and the rest of the body do."""
    before, start, asking = w.scopes.copy(), w.here, w.asking
    if any(_asks_on_failure(w, catch) for catch in catches):
        w.asking = f"barrier: the catch at line {w.line(catches[0])} asks a person"
    with w.scopes.watch() as seen, w.inside(number, decided=w.decides(number)):
        body()
    w.asking = asking
    at, taken = w.starts[number], catches_fail(catches)
    failing = [one for one in w.ends_at if w.ends_at[one] == at]
    if taken is not None:
        further = [one for one in bits(w.here.returned) if w.ends_at.get(one, -1) < at]
        w.to(returned=sum(1 << one for one in further) | start.returned, rare=start.rare)
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
    if taken is not None and failing:
        w.scopes.mark(assigned_in(taken.body), needing(*failing))
        deciders = sum(1 << one for one in failing)
        w.step_over_own_budgets(deciders, w.gates_at[min(failing)])
        w.step_over_fails(number, failing, taken)
    if catches and w.places.always_ends(block, at):
        w.to(rare=True, returned=1 << number)


def _asks_on_failure(w: DataflowWalk, catch: Catch) -> bool:
    """Return whether a person is asked when a call fails in the block of this `catch`."""
    return catch.kind != "Failed" and any(_asks(w, node) for node in below(catch.body))


def _asks(w: DataflowWalk, node: Node) -> bool:
    facts = w.facts
    match node:
        case Call() if (callee := facts.checked.callees.get(id(node))) is not None:
            if callee.kind is CalleeKind.LIBRARY:
                return callee.name in QUESTIONS
            return callee.name in facts.asking
        case Ask(to=to):
            agent = facts.checked.full_names.get(id(to), "")
            effects = facts.effects(f"agent {agent}") if agent in facts.specs else facts.everyone
            return effects.asks_people
        case _:
            return id(node) in facts.confirmed


def _handler(w: DataflowWalk, number: int, catch: Catch) -> None:
    w.to(rare=True, parent=number, decider=number)
    if not w.places.acts_in(catch.body):
        _caught(w, catch)
        return
    what = f"catch {catch.kind}".rstrip()
    handler = w.note(catch, StepKind.HANDLER, what, StepAction())
    with w.inside(handler, decided=True):
        _caught(w, catch)


def _caught(w: DataflowWalk, catch: Catch) -> None:
    with w.scopes.block():
        if catch.reason:
            w.scopes.declare(catch.reason, NO_DEPENDENCIES)
        w.block(catch.body)


def _block_act(what: str) -> StepAction:
    """Return the action of a block that begins when the program comes to it."""
    return StepAction(order=f"in order: {what}", later=True)


def _try(w: DataflowWalk, node: Try) -> None:
    number = w.note(node, StepKind.TRY, "try", StepAction())
    _guarded(w, number, partial(w.block, node.body), node.body, node.catches)


def _session(w: DataflowWalk, node: Session) -> None:
    budget = evaluate(w, node.budget)
    what = f"session budget {w.text(node.budget.at, node.budget.end)}"
    act = replace(_block_act("a session"), carves=True, uncounted=True)
    number = w.note(node, StepKind.SESSION, what, act, budget)
    w.hold(HoldKind.SENDS, 1 << number, f"barrier: begin of the session at line {w.line(node)}")
    _guarded(w, number, partial(_paid, w, number, node), node.body, node.catches)


def _paid(w: DataflowWalk, number: int, node: Session) -> None:
    """Its money is set aside when the program comes to it, so nothing in it starts before."""
    before = w.here
    # Not for the next round: only sends wait behind it, and they are held up already.
    text = f"barrier: begin of the session at line {w.line(node)}"
    w.to(gates={**before.gates, HoldKind.ALL: (1 << number, text)})
    w.block(node.body)
    if w.here.gates[HoldKind.ALL][0] == 1 << number:
        w.to(gates={**w.here.gates, HoldKind.ALL: before.gates.get(HoldKind.ALL, (0, ""))})


def _parallel(w: DataflowWalk, node: Parallel) -> None:
    """Walk all its statements from the same place; nothing behind it starts before its end."""
    number = w.note(node, StepKind.PARALLEL, "parallel", _block_act("parallel"))
    _guarded(w, number, partial(_tasks, w, number, node), node.body, node.catches)


def _tasks(w: DataflowWalk, number: int, node: Parallel) -> None:
    line = w.line(node)
    w.bar(1 << number, f"barrier: parallel at line {line}")
    start, ends = w.here, [w.here]
    for stmt in node.body.body:
        w.here = start
        w.statement(stmt)
        ends.append(w.here)
    w.meet_tasks(start, ends)
    inside = w.here.passed & ~start.passed
    w.bar(inside or 1 << number, f"barrier: end of parallel at line {line}")


def _monitor(w: DataflowWalk, node: Monitor) -> None:
    """Its body runs once, whenever the process ends."""
    of = evaluate(w, node.of)
    what = f"monitor({w.text(node.of.at, node.of.end)})"
    number = w.note(node, StepKind.MONITOR, what, _block_act("monitor"), of)
    w.bar(1 << number, f"barrier: monitor at line {w.line(node)}")
    after = w.here
    w.to(rare=True)
    with w.inside(number, decided=True), w.scopes.block():
        w.scopes.declare(node.reason, NO_DEPENDENCIES)
        w.block(node.body)
    w.here = w.keep_seen(after)


STATEMENTS.update(
    {
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
        Block: DataflowWalk.block,
    }
)
assert STATEMENTS.keys() == {*get_args(Stmt)}


# The flows of a whole program: of what it runs first, and of every function that it calls.


_MAIN = "main"


def dataflow_of(checked: Checked) -> tuple[DataflowGraph, ...]:
    """Return the graphs of a program that was checked without errors: `main` first, then the
    functions that it calls, as it comes to them. What only computes is left out."""
    with step_limit():
        facts = _facts(checked)
        main = facts.graph_of(_MAIN)
    called = (graph for name, graph in facts.flows.items() if name != _MAIN)
    return (main, *(graph for graph in called if graph is not None and graph.steps))


def _walked(facts: DataflowFacts, name: str) -> DataflowGraph:
    unit, decl = facts.bodies.get(name, (facts.checked.units[facts.checked.main], None))
    walk, step_limit = DataflowWalk(facts, unit, name), facts.nodes
    facts.nodes = 0
    line = 1 if decl is None else walk.line(decl)
    try:
        if decl is None:
            walk.all(unit.source.body)
        else:
            for param in decl.params:
                walk.scopes.declare(param.name, NO_DEPENDENCIES)
            walk.block(decl.body)
    except (DataflowTooLargeError, RecursionError):
        return DataflowGraph(name, unit.path, line, (), (), (), (), (), too_large=True)
    finally:
        facts.nodes = step_limit
    walk.step_over_rest()
    facts.left_open[name] = tuple(walk.here.gates)
    facts.fails_by_itself |= {name} if walk.failing & walk.here.returned else set()
    return ordered(name, unit.path, line, *walk.builder.done())


def _facts(checked: Checked) -> DataflowFacts:
    module = compile_program(checked)
    effects = ModuleEffects(module)
    rules = SpeculationRules(module, effects)
    doing = rules.names(rules.reaching(lambda op, of: op in _ACTS or rules.is_guard(op, of)))
    failing = rules.names(rules.failing)
    agent_effects = {f"agent {spec.name}": effects.agent(spec.name) for spec in module.agents}
    return DataflowFacts(
        checked,
        rules,
        {spec.name: spec for spec in module.agents},
        effects.agent(ANY_AGENT),
        dict(bodies_of(checked)),
        effects_of(checked) | agent_effects,
        _rights(module),
        {function.name: number for number, function in enumerate(module.functions)},
        doing,
        failing,
        rules.names(rules.asks),
        frozenset(rounds_of(checked) if CONFIRM in module.constants else ()),
        {path: places_in(checked, unit, doing, failing) for path, unit in checked.units.items()},
        _walked,
    )


_ACTS = frozenset(
    {
        Op.HOST,
        Op.PRINT,
        Op.ISSUE_SEND,
        Op.SEND_STREAM,
        Op.SPAWN_SUPERVISED,
        Op.BUDGET_CHECK,
        Op.LINK,
    }
)
"""Instructions that do more than compute."""


def _rights(module: Module) -> dict[str, Rights]:
    rights = {each.name: module.rights[each.rights] for each in module.functions}
    return {_MAIN: module.rights[module.functions[module.main].rights], **rights}
