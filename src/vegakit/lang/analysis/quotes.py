"""Cost of statements, the quote of a whole program, and the cost of one round of a loop whose list
is known only at run time (pure).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from math import inf
from types import MappingProxyType
from typing import Any, TypeAlias, get_args

from msgspec.structs import replace

from vegakit.lang.analysis.cost_bounds import (
    NONE,
    TOO_MUCH,
    Amount,
    MissingBound,
    SpendingBound,
    capped,
    cost_bound,
    moved,
    multiplied,
    worse_of,
)
from vegakit.lang.analysis.cost_expressions import call_function, evaluate
from vegakit.lang.analysis.cost_sends import (
    ModelTerms,
    Quote,
    QuotedLine,
    SendTerms,
    Terms,
    Unbounded,
    cost_of,
    part_of,
)
from vegakit.lang.analysis.cost_values import (
    Size,
    ValueBound,
    as_symbol,
    either,
    exactly,
    number,
    of_type,
    total,
)
from vegakit.lang.analysis.cost_walk import (
    STATEMENTS,
    CostFacts,
    CostWalk,
    QuoteTooLargeError,
    RecordedSend,
    as_amount,
    loop,
)
from vegakit.lang.check.symbols import Checked
from vegakit.lang.codegen.bytecode import AgentSpec
from vegakit.lang.codegen.writer import agent_of, bodies_of
from vegakit.lang.diagnostics import TooMuchWorkError, step_limit
from vegakit.lang.library import ENDS
from vegakit.lang.schemas import answer_schema
from vegakit.lang.syntax.tree import (
    AgentDecl,
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
    MoneyLit,
    Monitor,
    Name,
    Node,
    Parallel,
    Return,
    Session,
    Spawn,
    Stmt,
    SupervisorDecl,
    Try,
    While,
    Word,
    below,
    root_of,
)
from vegakit.lang.types import BOOL, INT, STR, ListOf, MapOf, Type
from vegakit.money import Money
from vegakit.prices import PriceRow, PriceTier, paid_repeats
from vegakit.records import canonical

# Statements, walked.


_LOOSE = ("warn", "allow")


def _let(w: CostWalk, node: Let) -> None:
    kind = w.facts.type(node)
    w.scopes.declare(node.name, evaluate(w, node.value), kind)


def _assign(w: CostWalk, node: Assign) -> None:
    value = evaluate(w, node.value)
    target, root = node.target, root_of(node.target)
    found = w.scopes.find(root.name)
    if found is None:
        return
    depth, variable = found
    if isinstance(target, Index):
        evaluate(w, target.index)
    if isinstance(target, Name):
        w.scopes.put(depth, root.name, value)
    elif isinstance(target, Index) and isinstance(target.of, Name):
        w.scopes.put(depth, root.name, _with_item(variable.value, variable.type, value))
    else:
        w.scopes.put(depth, root.name, of_type(variable.type))


def _with_item(of: ValueBound, kind: Type, item: ValueBound) -> ValueBound:
    """A list keeps its length, a map may have one entry more."""
    inner = None if of.item is None else either(of.item, item)
    size = of.size if isinstance(kind, ListOf) else total(of.size, exactly(1))
    return ValueBound(size, inner)


def _expression(w: CostWalk, node: ExprStmt) -> None:
    evaluate(w, node.value)
    callee = w.facts.checked.callees.get(id(node.value))
    w.over = callee is not None and callee.name in ENDS


def _return(w: CostWalk, node: Return) -> None:
    if node.value is not None:
        w.returned.append(evaluate(w, node.value))
    w.over = True


def _leave(w: CostWalk, node: Break | Continue) -> None:
    left = w.left[-1]
    (left.by_break if isinstance(node, Break) else left.by_continue).append(w.scopes.copy())
    w.over = True


def _if(w: CostWalk, node: If) -> None:
    evaluate(w, node.test)
    other = node.other
    ways = [partial(w.block, node.then), partial(w.block, other) if other else _nothing]
    then, otherwise = w.branches(*ways)
    w.spend(worse_of(then, otherwise))


def _nothing() -> None:
    pass


def _while(w: CostWalk, node: While) -> None:
    """Its test is asked once more than it has rounds, and past the limit it raises; nothing comes
    after one that only that can end."""
    limit = None if node.limit is None else number(evaluate(w, node.limit).size)
    place = w.place(node, "this loop has no limit")
    w.raises |= node.limit is not None

    def body() -> None:
        evaluate(w, node.test)
        w.block(node.body)

    came = loop(w, node, body, limit, place)
    w.spend(came.spent)
    if came.goes_on:
        evaluate(w, node.test)
    w.over = isinstance(node.test, Word) and node.test.value is True and not came.breaks


def _for(w: CostWalk, node: For) -> None:
    over = evaluate(w, node.over)
    kind = w.facts.type(node.over)
    place = w.place(node, "how often this loop runs has no bound")

    def body() -> None:
        with w.scopes.block():
            for name, value, each in _walked(node, over, kind):
                if w.facts.notes is not None and over.size is None and each == STR:
                    value = as_symbol(f"item@{id(node)}", STR)  # noqa: PLW2901
                w.scopes.declare(name, value, each)
            w.block(node.body)

    came = loop(w, node, body, number(over.size), place)
    if number(over.size) is None:
        w.facts.keep_round(node, came.once)
    w.spend(came.spent)


def _walked(node: For, over: ValueBound, kind: Type) -> list[tuple[str, ValueBound, Type]]:
    *first, last = node.names
    match kind:
        case ListOf(inner=inner):
            key, item = INT, (last, over.item or of_type(inner), inner)
        case MapOf(inner=inner) if first:
            key, item = STR, (last, over.item or of_type(inner), inner)
        case _:
            key, item = STR, (last, of_type(STR), STR)
    return [*((name, of_type(key), key) for name in first), item]


def _guarded(
    w: CostWalk, body: Callable[[], None], catches: Sequence[Catch], cap: int | None
) -> None:
    """A handler runs when the body has run in part, outside the budget of the body."""
    before, raised = w.scopes.copy(), w.raises
    w.raises = False
    with w.scopes.watch() as seen, w.apart() as spent:
        body()
    w.spend(capped(spent[0], cap))
    if catches and w.raises:
        ways = [partial(_handler, w, catch) for catch in catches]
        ways += [] if w.over else [_nothing]
        w.raises = not any(catch.kind == "" for catch in catches)
        w.scopes.restore(before)
        w.scopes.join(seen)
        w.spend(reduce(worse_of, w.branches(*ways), NONE))
    w.raises |= raised


def _handler(w: CostWalk, catch: Catch) -> None:
    with w.scopes.block():
        if catch.reason:
            w.scopes.declare(catch.reason, of_type(STR), STR)
        w.block(catch.body)


def _try(w: CostWalk, node: Try) -> None:
    _guarded(w, partial(w.block, node.body), node.catches, None)


def _session(w: CostWalk, node: Session) -> None:
    """One that is larger than what is around it never opens."""
    cap = number(evaluate(w, node.budget).size)
    for setting in node.settings:
        if setting.name == "on_exceed" and getattr(setting.value, "name", "") in _LOOSE:
            cap = None
    is_sure = isinstance(node.budget, MoneyLit) and cap is not None
    never = is_sure and w.cap is not None and (cap or 0) > w.cap

    def body() -> None:
        w.raises |= w.may_lack or not is_sure
        if not never:
            w.scope(cap, lambda: w.block(node.body))

    _guarded(w, body, node.catches, cap)


def _parallel(w: CostWalk, node: Parallel) -> None:
    def body() -> None:
        is_over = False
        for task in node.body.body:
            w.over = False
            w.statement(task)
            is_over |= w.over
        w.over = is_over

    _guarded(w, body, node.catches, None)


def _monitor(w: CostWalk, node: Monitor) -> None:
    """Walk its body, which runs once, perhaps when the sessions around it are over."""
    evaluate(w, node.of)
    before = w.scopes.copy()
    cap, w.cap, loops, w.left = w.cap, None, w.left, []
    with w.scopes.watch() as seen, w.apart() as spent, w.scopes.block():
        w.scopes.declare(node.reason, of_type(STR), STR)
        w.block(node.body)
    w.cap, w.left, w.over = cap, loops, False
    w.scopes.restore(before)
    w.scopes.join(seen)
    w.spend(moved(spent[0]))


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
        Block: CostWalk.block,
    }
)
assert STATEMENTS.keys() == {*get_args(Stmt)}


# The quote of a whole program.


_MAIN = "main"
_AS_WRITTEN: Mapping[str, int] = MappingProxyType({})
_FEW = 40
"""So many processes a program may always spawn."""


def quote(
    checked: Checked,
    terms: Terms,
    budget: int | None = None,
    ceiling: int | None = None,
    max_tokens: Mapping[str, int] = _AS_WRITTEN,
    repeats: int | None = None,
) -> Quote:
    """Quote a program that was checked without errors. `budget` is the run's own, of which parts
    are set aside; `ceiling` caps all that is spent and sets nothing aside; `max_tokens` are for
    agents by name, in place of what is written. `repeats` is how many of a hundred sends may be
    repeated and paid once more, None where every agent's own `retry` says so."""
    caps = [cap for cap in (budget, ceiling) if cap is not None]
    most = min(caps, default=None)
    try:
        with step_limit():
            spent = _spending(checked, terms, budget, max_tokens)
    except (QuoteTooLargeError, TooMuchWorkError, RecursionError):
        gap = Unbounded(checked.main, 1, "the program is too large to be quoted", most)
        return Quote(most, None, None, (), (gap,))
    sends = spent.sends
    if budget is not None and repeats is not None:
        # The run does not know of the budget when its pool is made.
        sends = max(sends, as_amount(sends_of(checked)))
    pool = None if repeats is None or sends == inf else paid_repeats(int(sends), repeats)
    return _with_caps(spent, checked.main, inf if most is None else most, pool)


def sends_of(checked: Checked) -> int | None:
    """Return how many sends a program may make, each counted once, whatever they cost; None where
    nothing bounds them. By it a run has its pool of paid repeats."""
    try:
        with step_limit():
            sends = _spending(checked, lambda _: _FREE, None, _AS_WRITTEN).sends
    except (QuoteTooLargeError, TooMuchWorkError, RecursionError):
        return None
    return _known(sends)


def _spending(
    checked: Checked, terms: Terms, budget: int | None, max_tokens: Mapping[str, int]
) -> SpendingBound:
    facts = facts_of(checked, terms, budget, max_tokens)
    spent = walk_all(facts)
    if spent.processes > _FEW:
        facts = facts_of(checked, terms, budget, max_tokens)
        facts.spawns_may_fail = True
        spent = walk_all(facts)
    return spent


def walk_all(facts: CostFacts) -> SpendingBound:
    """Return what the whole program spends at most."""
    unit, budget = facts.checked.units[facts.checked.main], facts.budget
    walk = CostWalk(facts, unit, budget, may_lack=budget is not None)
    if _MAIN not in facts.bodies:
        walk.all(walk.unit.source.body)
        return walk.spent
    _, decl = facts.bodies[_MAIN]
    given = tuple(of_type(facts.type(param)) for param in decl.params)
    return call_function(walk, _MAIN, given).spent


def facts_of(
    checked: Checked,
    terms: Terms,
    budget: int | None,
    max_tokens: Mapping[str, int] = _AS_WRITTEN,
) -> CostFacts:
    """Return the facts about a program that every walk needs."""
    agents: dict[str, AgentSpec] = {}
    for unit in checked.units.values():
        for decl in unit.source.decls:
            if isinstance(decl, AgentDecl):
                spec = agent_of(decl, checked)
                most = max_tokens.get(spec.name, spec.max_tokens)
                agents[spec.name] = replace(spec, max_tokens=most)
    nodes = (node for unit in checked.units.values() for node in below(unit.source))
    loose = not any(map(_has_own_wallet, nodes))
    bodies = dict(bodies_of(checked))
    return CostFacts(checked, agents, bodies, terms, handles_in_sessions=loose, budget=budget)


def _has_own_wallet(node: Node) -> bool:
    """Sends to a process that has a wallet are not paid by the session they stand in."""
    if isinstance(node, Spawn):
        return node.wallet is not None or node.under is not None
    return isinstance(node, SupervisorDecl)


def _with_caps(spent: SpendingBound, main: str, budget: Amount, pool: int | None) -> Quote:
    """Return the quote. `pool` is how many repeats are paid, None as many as each send may have."""
    repeats: Amount = inf if pool is None else pool
    total = min(spent.total if pool is None else spent.repeats.within(pool), budget)
    unbounded = dict.fromkeys(
        Unbounded(gap.place.file, gap.place.line, gap.place.what, _cap(spent, gap, budget))
        for gap in spent.gaps
    )
    if spent.total == inf and not unbounded:  # a sum of many, none of which is without a bound
        unbounded[Unbounded(main, 1, TOO_MUCH, _known(budget))] = None
    rest = min(spent.apart + spent.of_processes, budget)
    lines = tuple(
        QuotedLine(
            place.file,
            place.line,
            place.what,
            _known(share.calls if pool is None or not share.calls else share.sends),
            _known(
                min(share.inside + min(share.rest, rest), budget, share.repeats.within(repeats))
            ),
        )
        for place, share in sorted(spent.shares.items())
    )
    calls = spent.calls if pool is None or not spent.calls else spent.sends
    return Quote(
        _known(total),
        _known(calls),
        _known(spent.processes),
        lines,
        tuple(unbounded),
        pool,
        _known(spent.sends),
    )


def _cap(spent: SpendingBound, gap: MissingBound, budget: Amount) -> int | None:
    if gap.cap is not None:
        return gap.cap
    spawned_wallet = spent.spawned_wallets.get(gap.fund)
    own = inf if spawned_wallet is None else multiplied(spawned_wallet.wallet, spawned_wallet.count)
    return _known(min(budget, own))


def _known(amount: Amount) -> int | None:
    return None if amount == inf else int(amount)


# What one round of a loop may cost whose list is known at run time only: the sends in it, for who
# quotes the loop when the list is there.
#
# A row is `[agent, times, size, more, typed, budget]`. Its message has at most `size` bytes, or,
# with a `more` that is not -1, as many as the longest item and `more`; -1 is unknown. A typed
# answer's schema is counted in the size. Sends in loops inside that are unknown themselves are
# left out: those are quoted when their own lists are there.


RoundCost: TypeAlias = list[Any]
_FREE = ModelTerms(
    PriceRow("", (PriceTier(Money(0), Money(0), Money(0), Money(0)),)), 10**9, 1, lambda _: 0
)


def rounds_of(checked: Checked) -> dict[int, list[RoundCost]]:
    """Return what one round may send, by the loop, a node of the tree; only of loops whose lists
    have no bound in the source."""
    facts = facts_of(checked, lambda _: _FREE, None)
    facts.notes = {}
    try:
        walk_all(facts)
    except (QuoteTooLargeError, RecursionError):
        return {}
    return {
        loop: round_costs
        for loop, spent in facts.rounds.items()
        if (
            round_costs := _round_costs(
                loop, facts.notes, {p.what: s.calls for p, s in spent.shares.items()}
            )
        )
    }


def _round_costs(
    loop: int, notes: dict[str, RecordedSend], calls: dict[str, Any]
) -> list[RoundCost]:
    round_costs: list[RoundCost] = []
    for what, count in calls.items():
        note = notes.get(what)
        if note is not None and count not in (0, inf):
            size, more = _size(note.size, f"item@{loop}")
            extra = 0 if note.answer == STR else len(canonical(answer_schema(note.answer)))
            size, more = (part if part < 0 else part + extra for part in (size, more))
            budget = -1 if note.part is None else note.part
            times = -(-count // max(note.calls, 1))
            round_costs.append([note.agent, times, size, more, note.answer != STR, budget])
    return round_costs


def _size(size: Size | None, item: str) -> tuple[int, int]:
    if size is None or any(name != item for name, _ in size.symbols):
        return -1, -1
    more = max((more for _, more in size.symbols), default=-1)
    return max(size.number, 0), more


def cost_of_round(
    round_cost: RoundCost,
    longest: int,
    spec: AgentSpec,
    terms: Terms,
    tools: Any,  # noqa: ANN401
) -> int | float:
    """`longest` is of the items, in bytes, -1 if they are no texts; `tools` what the model is told
    of them. Infinity is no bound."""
    _, times, size, more, typed, budget = round_cost
    if more >= 0:
        size = -1 if longest < 0 else max(size, longest + more)
    sending = SendTerms(
        spec,
        BOOL if typed else STR,
        None if size < 0 else size,
        part=part_of(spec) if budget < 0 else budget,
        specs=tools,
        tools_spend=cost_bound(inf if spec.tools else 0),
    )
    return times * cost_of(sending, terms).fund.amount
